//! Commands: what they get, and how they fail to start.

use crate::bench::{Bench, line, read, run, shell, soon};
use sandbox::{Command, Limits, OpenFiles, SpawnError, Status, Stdio};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use tokio::io::AsyncWriteExt as _;

#[tokio::test]
async fn the_environment_is_exactly_what_was_given() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    let command = Command::new(["/usr/bin/env", "-0"]).env("A", "1\n2").env("B", "");
    assert_eq!(run(&sandbox, command).await.out, "A=1\n2\0B=\0");
    assert_eq!(run(&sandbox, Command::new(["/usr/bin/env", "-0"])).await.out, "");
}

#[tokio::test]
async fn a_large_environment_gets_through() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    let mut command = Command::new(["/bin/sh", "-c", "echo ${#V0} ${#V99}"]);
    for n in 0..100 {
        command = command.env(format!("V{n}"), "v".repeat(5000));
    }
    assert_eq!(run(&sandbox, command).await.out, "5000 5000\n");
}

#[tokio::test]
async fn no_open_file_of_ours_gets_in() {
    let bench = Bench::new().await;
    let open = std::fs::File::open("/etc/passwd").unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    let plain = std::process::Command::new("/bin/sh").args(["-c", "ls -l /proc/self/fd"]).output().unwrap();
    assert!(String::from_utf8(plain.stdout).unwrap().contains("/etc/passwd"), "inherited without care");
    let ran = bench.sh(&bench.policy(), "ls /proc/self/fd | tr '\\n' ' '").await;
    // The fourth is the directory that `ls` reads.
    assert_eq!(ran.out, "0 1 2 3 ");
}

#[tokio::test]
async fn streams_can_be_piped_given_or_null() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    let command = Command::new(["/bin/sh", "-c", "cat; echo to-stderr >&2"]);
    let command = command.env("PATH", "/usr/bin:/bin").stdin(Stdio::Piped).stdout(Stdio::Piped).stderr(Stdio::Piped);
    let mut child = sandbox.spawn(command).await.unwrap();
    let mut stdin = child.stdin.take().unwrap();
    soon(stdin.write_all(b"through")).await.unwrap();
    drop(stdin);
    assert_eq!(read(child.stdout.take().unwrap()).await, "through");
    assert_eq!(read(child.stderr.take().unwrap()).await, "to-stderr\n");
    soon(child.wait()).await.unwrap();

    let out = bench.root.join("out");
    let input = OwnedFd::from(std::fs::File::open(bench.root.join("shared/file")).unwrap());
    let command = Command::new(["/bin/cat"]).stdin(Stdio::Fd(input));
    let command = command.stdout(Stdio::Fd(std::fs::File::create(&out).unwrap().into()));
    let mut child = sandbox.spawn(command).await.unwrap();
    soon(child.wait()).await.unwrap();
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "shared");

    assert_eq!(run(&sandbox, Command::new(["/usr/bin/wc", "-c"])).await.out.trim(), "0", "no input is an empty one");
}

#[tokio::test]
async fn a_command_that_cannot_start_says_why() {
    let bench = Bench::new().await;
    std::fs::write(bench.root.join("work/plain"), "no program").unwrap();
    let sandbox = bench.start(&bench.policy()).await;
    let kind = |error: SpawnError| match error {
        SpawnError::Program { program, source } => (program, source.kind()),
        other => panic!("{other:?}"),
    };
    let none = sandbox.spawn(Command::new(["no-such-program"]).env("PATH", "/usr/bin:/bin")).await.unwrap_err();
    assert_eq!(none.to_string(), "cannot run `no-such-program`");
    assert_eq!(kind(none), ("no-such-program".to_owned(), ErrorKind::NotFound));
    let unset = sandbox.spawn(Command::new(["sh"])).await.unwrap_err();
    assert_eq!(kind(unset).1, ErrorKind::NotFound, "no PATH given, none made up");
    let denied = sandbox.spawn(Command::new(["./plain"])).await.unwrap_err();
    assert_eq!(kind(denied).1, ErrorKind::PermissionDenied);
    let empty = sandbox.spawn(Command::new(Vec::<String>::new())).await.unwrap_err();
    assert_eq!(kind(empty).1, ErrorKind::NotFound);
    let cwd = sandbox.spawn(Command::new(["/bin/true"]).cwd("/none")).await.unwrap_err();
    assert!(matches!(cwd, SpawnError::Directory { ref cwd, .. } if cwd.ends_with("none")), "{cwd:?}");
    assert!(run(&sandbox, shell("true")).await.ok(), "the box goes on");
}

#[tokio::test]
async fn it_starts_below_its_folder_and_no_link_leads_out_of_that() {
    let bench = Bench::new().await;
    let work = bench.root.join("work");
    std::fs::create_dir_all(work.join("a/b")).unwrap();
    std::fs::write(work.join("a/file"), "").unwrap();
    for (link, target) in
        [("out", "/usr"), ("up", ".."), ("a/far", "../../work"), ("a/near", "../a/b"), ("gone", "nowhere")]
    {
        std::os::unix::fs::symlink(target, work.join(link)).unwrap();
    }
    let sandbox = bench.start(&bench.policy()).await;
    let pwd = |below: &str| Command::new(["/bin/pwd", "-P"]).below(below);
    let entered = run(&sandbox, pwd("a/b")).await.out;
    assert!(entered.trim_end().ends_with("work/a/b"), "{entered}");
    assert_eq!(run(&sandbox, pwd("a/near")).await.out, entered, "a link that stays within is one like any other");
    for (below, kind) in [
        ("out", ErrorKind::CrossesDevices),
        ("out/bin", ErrorKind::CrossesDevices),
        ("up", ErrorKind::CrossesDevices),
        ("..", ErrorKind::CrossesDevices),
        ("a/far", ErrorKind::CrossesDevices),
        ("/usr", ErrorKind::CrossesDevices),
        ("gone", ErrorKind::NotFound),
        ("none", ErrorKind::NotFound),
        ("a/file", ErrorKind::NotADirectory),
    ] {
        match sandbox.spawn(pwd(below)).await.unwrap_err() {
            SpawnError::Directory { cwd, source, .. } => {
                assert_eq!(source.kind(), kind, "{below}");
                assert!(cwd.ends_with(below.trim_start_matches('/')), "{below}: {}", cwd.display());
            }
            other => panic!("{below}: {other:?}"),
        }
    }
    assert!(run(&sandbox, shell("true")).await.ok(), "the box goes on");
}

#[tokio::test]
async fn commands_follow_one_another_in_one_box() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    for turn in 0..5 {
        let ran = run(&sandbox, shell(&format!("sleep 1000 & echo {turn} >> log; exit {turn}"))).await;
        assert_eq!((ran.exit.status, ran.exit.leftovers), (Status::Exited(turn), 1));
        let left = run(&sandbox, shell("echo /proc/[0-9]*")).await;
        assert_eq!(left.out.split_whitespace().count(), 2, "init and the shell: {}", left.out);
    }
    assert_eq!(std::fs::read_to_string(bench.root.join("work/log")).unwrap(), "0\n1\n2\n3\n4\n");
}

#[tokio::test]
async fn one_main_command_at_a_time() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    let mut main = sandbox.spawn(shell("echo up; cat; exit 4").stdin(Stdio::Piped).stdout(Stdio::Piped)).await.unwrap();
    line(&mut main).await;
    assert!(matches!(sandbox.spawn(shell("true")).await, Err(SpawnError::Busy { .. })));
    let aside = run(&sandbox, shell("sleep 1000 >/dev/null 2>&1 & echo aside").aside().stdout(Stdio::Null)).await;
    assert_eq!(aside.exit.leftovers, 0, "the end of one aside ends nothing else");
    drop(main.stdin.take());
    let exit = soon(main.wait()).await.unwrap();
    assert_eq!((exit.status, exit.leftovers), (Status::Exited(4), 1), "what the one aside left is a leftover now");
}

#[tokio::test]
async fn limits_hold() {
    let bench = Bench::new().await;
    let limits = Limits {
        file_size: Some(1 << 20),
        open_files: Some(OpenFiles { soft: 20, hard: 30 }),
        scratch: Some(1 << 20),
        ..Limits::default()
    };
    let policy = bench.policy().limits(limits);
    let ran =
        bench.sh(&policy, "ulimit -c; ulimit -Sn; ulimit -Hn; head -c 2000000 /dev/zero > big; stat -c %s big").await;
    assert!(ran.out.starts_with("0\n20\n30\n") && ran.out.trim_end().ends_with("1048576"), "{}", ran.out);
    let ran = bench.sh(&policy, "for n in 1 2 3; do head -c 900000 /dev/zero > /var/tmp/$n; done").await;
    assert!(ran.out.contains("No space left"), "{}", ran.out);
}

#[tokio::test]
async fn a_command_starts_as_if_it_were_the_first() {
    let bench = Bench::new().await;
    // The shell reads by itself: around the start of another program it blocks signals for a moment.
    let script = "while read -r name value; do case $name in Sig[BIC]*) echo $name $value;; esac; done < /proc/$$/status; \
         cut -d' ' -f 1,5,6 /proc/$$/stat";
    // Our init blocks and the Rust runtime ignores signals; neither must be handed down.
    let ran = bench.sh(&bench.policy(), script).await;
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 4, "{}", ran.out);
    for (line, name) in lines.iter().zip(["SigBlk", "SigIgn"]) {
        assert_eq!(*line, format!("{name}: {}", "0".repeat(16)));
    }
    let numbers: Vec<&str> = lines[3].split(' ').collect();
    assert!(numbers.iter().all(|n| *n == numbers[0]), "group and session of its own: {}", lines[3]);
}
