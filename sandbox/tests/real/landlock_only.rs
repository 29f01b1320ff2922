//! Boxes without namespaces: what they stop, each attack first shown to work without a box; what they do not; and that all of
//! them end, and nobody else.

use crate::bench::{Bench, helper, line, plainly, read, run, shell, soon};
use sandbox::{
    Access, Enforcement, Expose, Form, Guard, Host, Kernel, Layer, Limits, Network, Obstacle, Policy, PrivateDir,
    Protection, Reach, Sandbox, Signal, Status, Stdio,
};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::Stdio as Std;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

/// This machine as it would be without namespaces, with a control group to kill by or without one.
fn without(bench: &Bench, kill_group: Option<PathBuf>) -> Host {
    Host { obstacle: Some(Obstacle::NamespacesOff), kill_group, ..bench.host.clone() }
}

/// The control group that a box could have one in, where the user of this test may make one.
fn group() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let point = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let parent = if own.is_empty() { PathBuf::from(point) } else { PathBuf::from(point).join(own) };
    let probe = format!("sandbox-test-{}", std::process::id());
    let made = std::fs::create_dir(parent.join(&probe));
    drop(std::fs::remove_dir(parent.join(probe)));
    made.ok().map(|()| parent)
}

/// Both ways to end a box, where the machine has both.
fn hosts(bench: &Bench) -> Vec<(&'static str, Host)> {
    let grouped = group().map(|group| ("kill group", without(bench, Some(group))));
    [("one by one", without(bench, None))].into_iter().chain(grouped).collect()
}

fn policy(bench: &Bench) -> Policy {
    bench.policy().may_lack(Layer::Namespaces)
}

fn plan(bench: &Bench, policy: &Policy) -> Enforcement {
    Enforcement::plan(policy, &without(bench, None)).unwrap()
}

/// The helper has no other place than its own.
fn script(text: &str) -> String {
    text.replace("/run/helper", &helper().display().to_string())
}

async fn start(plan: &Enforcement, bench: &Bench) -> Sandbox {
    soon(Sandbox::start(plan, &bench.launcher)).await.unwrap()
}

async fn sh(bench: &Bench, policy: &Policy, text: &str) -> crate::bench::Ran {
    bench.sh_by(&plan(bench, policy), &script(text)).await
}

#[tokio::test]
async fn without_leave_there_is_no_such_box() {
    let bench = Bench::new().await;
    let refusal = |policy: &Policy, host: &Host| Enforcement::plan(policy, host).unwrap_err();
    let host = without(&bench, None);
    assert_eq!(refusal(&bench.policy(), &host).layer, Layer::Namespaces);
    assert_eq!(refusal(&bench.policy().may_lack(Layer::Seccomp), &host).layer, Layer::Namespaces);
    let old = Host { kernel: Kernel { major: 5, minor: 11 }, obstacle: None, ..host.clone() };
    assert_eq!(refusal(&bench.policy(), &old).layer, Layer::Namespaces);
    let allowed = policy(&bench);
    assert_eq!(Enforcement::plan(&allowed, &old).unwrap().reach(), Reach::Descendants);
    // What is there is used, whatever may be missing.
    assert_eq!(Enforcement::plan(&allowed, &bench.host), Enforcement::plan(&bench.policy(), &bench.host));
    assert_eq!((bench.host.form(), host.form()), (Form::Full, Form::LandlockOnly));

    let relay = policy(&bench).network(Network::Relay { port: 3128 });
    let nested = policy(&bench).nesting(sandbox::Nesting::Allowed);
    let mixed = policy(&bench)
        .expose(Expose::read_write(bench.root.join("shared")))
        .expose(Expose::read_only(bench.root.join("shared/file")).at("/run/file"));
    let table = [
        (&relay, host.clone(), "not addresses"),
        (&nested, host.clone(), "cannot be nested"),
        (&mixed, host.clone(), "could be written"),
        (&allowed, Host { landlock: Some(3), ..host.clone() }, "Landlock 3"),
        (&allowed, Host { landlock: None, ..host.clone() }, "no Landlock either"),
        (&allowed, Host { seccomp: false, ..host.clone() }, "no filter of system calls either"),
    ];
    for (policy, host, cause) in table {
        let refusal = refusal(policy, &host);
        assert_eq!(refusal.layer, Layer::Policy, "{refusal}");
        assert!(refusal.cause.contains(cause), "{refusal}");
    }
}

#[tokio::test]
async fn a_missing_filter_may_be_allowed() {
    let bench = Bench::new().await;
    let host = Host { seccomp: false, ..bench.host.clone() };
    assert_eq!(host.lacks().into_iter().collect::<Vec<_>>(), [Layer::Seccomp]);
    let refusal = Enforcement::plan(&bench.policy().may_lack(Layer::Namespaces), &host).unwrap_err();
    assert_eq!(refusal.layer, Layer::Seccomp);
    let plan = Enforcement::plan(&bench.policy().may_lack(Layer::Seccomp), &host).unwrap();
    let whole = bench.plan(&bench.policy());
    assert_eq!(plan.steps(), whole.steps(), "all else is as it was");
    let lost: Vec<Protection> = whole.layers().into_iter().filter(|it| !plan.layers().contains(it)).collect();
    assert_eq!(lost, [Protection::Seccomp]);
    assert!(bench.sh_by(&plan, "touch here").await.ok());
}

#[tokio::test]
async fn the_plan_says_what_it_is() {
    let bench = Bench::new().await;
    let plan = plan(
        &bench,
        &policy(&bench).expose(Expose::read_only(bench.root.join("shared")).at(bench.root.join("user/x/y"))),
    );
    let layers: Vec<&str> = plan.layers().into_iter().map(Protection::name).collect();
    let expected = [
        "no-capabilities",
        "no-new-privileges",
        "landlock-files",
        "landlock-scopes",
        "seccomp",
        "landlock-reads",
        "landlock-network",
        "socket-filter",
        "bound-metadata",
    ];
    assert_eq!(layers, expected);
    assert_eq!(plan.home(), bench.root.join("home"));
    assert_eq!(plan.tmp(), bench.root.join("tmp"));
    assert_eq!(plan.seen(std::path::Path::new("/run/helper")), helper());
    assert_eq!(plan.seen(&bench.root.join("user/x/y/z")), bench.root.join("shared/z"));
    assert_eq!(plan.seen(&bench.root.join("user/x")), bench.root.join("home/x"));
    assert_eq!(plan.seen(std::path::Path::new("/etc/passwd")), std::path::Path::new("/etc/passwd"));
    let full = bench.plan(&bench.policy());
    assert_eq!(full.seen(std::path::Path::new("/run/helper")), std::path::Path::new("/run/helper"));
    assert_eq!((full.home(), full.tmp()), (bench.root.join("user"), PathBuf::from("/tmp")));
    // What is exposed below the home is found there.
    let ran = bench.sh_by(&plan, &format!("cat {}/x/y/file", plan.home().display())).await;
    assert_eq!(ran.out, "shared");
}

#[tokio::test]
async fn work_is_done_as_usual() {
    let bench = Bench::new().await;
    let text = "set -e; echo one > a; cp -p a b; mv b c; chmod +x c; ln c d; ln -s c e; mkdir -p x/y; mv c x/y/c; touch -d @0 a; \
        tar cf t.tar x; rm -r x; tar xf t.tar; install -m 755 a bin; sed -i s/one/two/ a; cat a; git init -q g; git -C g config user.name x; git -C g config user.email x@y; git -C g add -A; git -C g commit -q --allow-empty -m x; git -C g gc -q; mktemp -p $TMPDIR >/dev/null; \
        echo hi > $HOME/note; mv $HOME/note .; cat note; printf 'x' > /dev/null; head -c 4 /dev/urandom > r; \
        sort a | cat; [ -x x/y/c ]; /run/helper threads 2>&1 | grep -q 'not permitted'; echo done";
    let plan = plan(&bench, &policy(&bench));
    let command = shell(&script(text)).env("HOME", plan.home()).env("TMPDIR", plan.tmp());
    let sandbox = start(&plan, &bench).await;
    let ran = run(&sandbox, command).await;
    assert!(ran.ok() && ran.out.ends_with("done\n"), "{ran:?}");
    soon(sandbox.shutdown()).await.unwrap();
}

#[tokio::test]
async fn nothing_is_written_elsewhere() {
    let bench = Bench::new().await;
    let root = bench.root.display().to_string();
    // Each works outside of a box; inside none leaves a trace.
    let attacks = [
        "echo x > ROOT/shared/new",
        "echo x >> ROOT/shared/file",
        "truncate -s 0 ROOT/shared/file",
        "mkdir ROOT/shared/folder",
        "rm -f ROOT/sibling/secret && [ ! -e ROOT/sibling/secret ]",
        "mv ROOT/shared/file ROOT/work/",
        "ln ROOT/shared/file ROOT/work/hard",
        "ln -s ../sha''red/file ROOT/work/soft && echo x > ROOT/work/soft",
        "cd ROOT/work && cd .. && echo x > up",
        "mkfifo ROOT/shared/pipe",
        "echo x > /dev/shm/sandbox-$$ && rm /dev/shm/sandbox-$$",
        "echo x > /tmp/sandbox-$$ && rm /tmp/sandbox-$$",
    ];
    let files = || {
        let listed =
            std::process::Command::new("find").arg(&bench.root).args(["-printf", "%P %y %s %n\n"]).output().unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        let mut lines: Vec<String> = text.lines().filter(|line| !line.starts_with("work")).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let plan = plan(&bench, &policy(&bench));
    for attack in attacks.map(|attack| attack.replace("ROOT", &root)) {
        let before = files();
        let ran = bench.sh_by(&plan, &attack).await;
        assert!(!ran.ok(), "{attack}: {ran:?}");
        let lists_folder_sizes = files();
        assert_eq!(before, lists_folder_sizes, "{attack}");
        drop(std::fs::remove_file(bench.root.join("work/soft")));
    }
    for attack in attacks.map(|attack| attack.replace("ROOT", &root)) {
        let ran = std::process::Command::new("/bin/sh").args(["-c", &attack]).stderr(Std::null()).status().unwrap();
        assert!(ran.success(), "the attack works without a box: {attack}");
        std::fs::write(bench.root.join("shared/file"), "shared").unwrap();
        drop(std::fs::remove_file(bench.root.join("work/soft")));
    }
    if nix::unistd::geteuid().is_root() {
        assert!(plainly(&["open-for-writing", "/proc/sys/kernel/core_pattern"]).starts_with("ok"));
        let ran = bench.sh_by(&plan, &script("/run/helper open-for-writing /proc/sys/kernel/core_pattern")).await;
        assert!(ran.out.contains("failed"), "{ran:?}");
    }
}

#[tokio::test]
async fn nothing_else_is_read() {
    let bench = Bench::new().await;
    let secret = bench.root.join("user/.ssh");
    std::fs::create_dir_all(&secret).unwrap();
    std::fs::write(secret.join("id"), "key").unwrap();
    std::fs::write(bench.root.join("shared/token"), "token").unwrap();
    std::fs::create_dir(bench.root.join("shared/inner")).unwrap();
    std::fs::write(bench.root.join("shared/inner/deep"), "deep").unwrap();
    let policy = policy(&bench)
        .hide(bench.root.join("user"))
        .expose(Expose::read_only(bench.root.join("shared")))
        .mask(bench.root.join("shared/token"));
    let root = bench.root.display();
    for path in ["user/.ssh/id", "sibling/secret", "shared/token"] {
        let text = format!("cat {root}/{path}");
        assert!(
            std::process::Command::new("/bin/sh").args(["-c", &text]).stdout(Std::null()).status().unwrap().success()
        );
        let ran = sh(&bench, &policy, &text).await;
        assert!(ran.out.contains("Permission denied"), "{path}: {ran:?}");
    }
    for folder in ["user", "user/.ssh", "sibling", "."] {
        let ran = sh(&bench, &policy, &format!("ls {root}/{folder}")).await;
        assert!(ran.out.contains("Permission denied"), "{folder}: {ran:?}");
    }
    let ran = sh(&bench, &policy, &format!("cat {root}/shared/file {root}/shared/inner/deep")).await;
    assert_eq!(ran.out, "shareddeep", "beside what is hidden all is there");
    let ran =
        sh(&bench, &policy, &format!("ln -s {root}/sibling/secret s; cat s; cp {root}/sibling/secret .; ls")).await;
    assert!(!ran.out.contains("\nsecret"), "{ran:?}");
    // As it is used for a capture: only one place can be written.
    let reader = self::policy(&bench).workdir_access(Access::ReadOnly);
    let ran = sh(&bench, &reader, "cat .git; echo x > x").await;
    assert!(ran.out.starts_with("gitdir") && !ran.ok(), "{ran:?}");
}

#[tokio::test]
async fn other_processes_are_out_of_reach() {
    let bench = Bench::new().await;
    let plan = plan(&bench, &policy(&bench));
    let mut bystander = std::process::Command::new("/bin/sleep")
        .arg("100")
        .stdout(Std::null())
        .stderr(Std::null())
        .env("SECRET", "in-the-environment")
        .spawn()
        .unwrap();
    let pid = bystander.id().to_string();
    let environ = format!("/proc/{pid}/environ");
    assert_eq!(plainly(&["signal", &pid]), "ok signalled\n");
    assert_eq!(plainly(&["limit", &pid]), "ok reached\n");
    assert!(std::fs::read_to_string(&environ).unwrap().contains("in-the-environment"));
    let text = format!(
        "/run/helper signal {pid}; /run/helper signal $PPID; /run/helper limit {pid}; cat {environ}; ls /proc/{pid}/cwd/; \
         ls /proc/{pid}/root/; cat /proc/$PPID/environ; kill -9 {pid}; kill -9 -1; kill -9 $PPID; kill -STOP {pid}"
    );
    let ran = bench.sh_by(&plan, &script(&text)).await;
    assert!(!ran.out.contains("ok ") && !ran.out.contains("in-the-environment"), "{}", ran.out);
    assert_eq!(
        ran.out.matches("not permitted").count() + ran.out.matches("ermission denied").count(),
        11,
        "{}",
        ran.out
    );
    // It still runs: it has not ended, and was not stopped.
    assert!(bystander.try_wait().unwrap().is_none());
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    assert!(stat.contains(") S "), "{stat}");
    // Among themselves they may.
    let ran = bench.sh_by(&plan, "sleep 100 & kill $!; wait $!; echo $?").await;
    assert!(ran.out.ends_with("143\n"), "{}", ran.out);
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    let calls = ["ptrace", "process_vm_readv", "pidfd_getfd", "unshare", "mount", "io_uring_setup", "bpf", "keyctl"];
    let ran = bench.sh_by(&plan, &script(&format!("/run/helper calls {}", calls.join(" ")))).await;
    assert_eq!(ran.out.matches("EPERM").count(), calls.len(), "{}", ran.out);
}

#[tokio::test]
async fn what_processes_share_is_not_used_by_its_number() {
    let bench = Bench::new().await;
    let perl = |text: &str| {
        let ran = std::process::Command::new("perl").args(["-e", text]).stderr(Std::null()).output().unwrap();
        (ran.status.success(), String::from_utf8(ran.stdout).unwrap())
    };
    let make = |text: &str| perl(&format!("print {text} // die")).1;
    // Without a key: nobody finds them but by number.
    let memory = make("shmget(0, 16, 0600)");
    let semaphore = make("semget(0, 1, 0600)");
    let queue = make("msgget(0, 0600)");
    let attacks = [
        format!("shmwrite({memory}, \"mine\", 0, 4)"),
        format!("shmread({memory}, $b, 0, 4) && $b eq \"mine\""),
        format!("semctl({semaphore}, 0, 16, 1)"),
        format!("semop({semaphore}, pack(\"s!3\", 0, 1, 0))"),
        format!("msgsnd({queue}, pack(\"l! a*\", 1, \"x\"), 0)"),
        format!("msgrcv({queue}, $b, 16, 0, 0)"),
        format!("shmctl({memory}, 0, 0)"),
        format!("semctl({semaphore}, 0, 0, 0)"),
        format!("msgctl({queue}, 0, 0)"),
    ];
    let plan = plan(&bench, &policy(&bench));
    // Inside first, each where outside it works: the last ones remove what was made.
    for attack in attacks {
        let text = format!("({attack}) or do {{ print $!; exit 1 }}");
        let ran = bench.sh_by(&plan, &format!("perl -e '{text}'")).await;
        assert!(!ran.ok() && ran.out.contains("not permitted"), "{attack}: {ran:?}");
        assert!(perl(&text).0, "the attack works without a box: {attack}");
    }
}

/// What is said to a socket, one visit after another.
fn heard(mut next: impl FnMut() -> std::io::Result<String> + Send + 'static) -> mpsc::Receiver<String> {
    let (tell, heard) = mpsc::channel();
    std::thread::spawn(move || while next().is_ok_and(|said| tell.send(said).is_ok()) {});
    heard
}

fn all_of(stream: std::io::Result<impl std::io::Read>) -> std::io::Result<String> {
    stream.and_then(std::io::read_to_string)
}

fn one_of(receive: impl Fn(&mut [u8]) -> std::io::Result<usize>) -> std::io::Result<String> {
    let mut buffer = [0; 16];
    let length = receive(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

#[tokio::test]
async fn no_socket_leads_out() {
    use std::io::Write as _;
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
    let bench = Bench::new().await;
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (tcp_address, udp_address) = (tcp.local_addr().unwrap().to_string(), udp.local_addr().unwrap().to_string());
    let name = format!("sandbox-test-{}", bench.root.display());
    let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
    let hidden = UnixListener::bind_addr(&abstract_address).unwrap();
    let datagram = bench.root.join("shared/d").display().to_string();
    let datagrams = UnixDatagram::bind(&datagram).unwrap();
    let path = bench.root.join("shared/s").display().to_string();
    let listener = UnixListener::bind(&path).unwrap();
    let ears = [
        heard(move || all_of(tcp.accept().map(|(stream, _)| stream))),
        heard(move || one_of(|buffer| udp.recv(buffer))),
        heard(move || all_of(hidden.accept().map(|(stream, _)| stream))),
        heard(move || one_of(|buffer| datagrams.recv(buffer))),
        heard(move || all_of(listener.accept().map(|(stream, _)| stream))),
    ];
    // All of these keep the order, so what comes before our own word came from others.
    let visitors = || {
        std::net::TcpStream::connect(&tcp_address).unwrap().write_all(b"ours").unwrap();
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"ours", &udp_address).unwrap();
        UnixStream::connect_addr(&abstract_address).unwrap().write_all(b"ours").unwrap();
        UnixDatagram::unbound().unwrap().send_to(b"ours", &datagram).unwrap();
        UnixStream::connect(&path).unwrap().write_all(b"ours").unwrap();
        let visits = |ear: &mpsc::Receiver<String>| {
            std::iter::from_fn(|| Some(ear.recv_timeout(LIMIT).unwrap())).take_while(|said| said != "ours").count()
        };
        ears.each_ref().map(visits)
    };
    let tries: [[&str; 2]; 5] = [
        ["tcp", &tcp_address],
        ["udp", &udp_address],
        ["abstract", &name],
        ["datagram-pair", &datagram],
        ["unix", &path],
    ];
    for attempt in tries {
        assert!(plainly(&attempt).starts_with("ok"), "{attempt:?} works without a box");
    }
    assert_eq!(visitors(), [1; 5], "without a box");

    let all = tries.map(|[way, address]| format!("/run/helper {way} {address}")).join("; ");
    let none = sh(&bench, &policy(&bench), &all).await;
    assert_eq!(none.out.matches("failed").count(), 5, "{}", none.out);
    assert_eq!(visitors(), [0; 5]);
    // With the host's network the sockets of that, and still no other.
    let host = sh(&bench, &policy(&bench).network(Network::Host), &all).await;
    let said: Vec<bool> = host.out.lines().map(|line| line.starts_with("ok")).collect();
    assert_eq!(said, [true, true, false, false, false], "{}", host.out);
    assert_eq!(visitors(), [1, 1, 0, 0, 0]);
    // Each of two layers by itself keeps TCP out.
    let plan = plan(&bench, &policy(&bench));
    for dropped in ["filter", "rules"] {
        let half = plan.clone().without_guard(|guard| match guard {
            Guard::Sockets { .. } => dropped == "filter",
            Guard::Cage { .. } => dropped == "rules",
            Guard::Landlock { .. } | Guard::Metadata { .. } | Guard::Seccomp { .. } => false,
        });
        let ran = bench.sh_by(&half, &script(&format!("/run/helper tcp {tcp_address}"))).await;
        assert!(ran.out.contains("failed"), "without {dropped}: {}", ran.out);
    }
    let open = plan.without_guard(|guard| !matches!(guard, Guard::Seccomp { .. }));
    assert!(bench.sh_by(&open, &script(&format!("/run/helper tcp {tcp_address}"))).await.ok());
}

#[tokio::test]
async fn metadata_of_other_files_stays_as_it_is() {
    let bench = Bench::new().await;
    let file = bench.root.join("shared/file");
    let facts = || {
        let facts = file.metadata().unwrap();
        (facts.mode() & 0o7777, facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec())
    };
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let shared = file.parent().unwrap().display().to_string();
    let attacks = [
        "chmod 640 SHARED/file",
        "chmod u+s SHARED/file",
        "cd SHARED && chmod 640 file",
        "cd SHARED && chmod 640 ./../sha''red/file",
        "ln -sf SHARED/file l && chmod 640 l",
        "ln -sfn SHARED d && chmod 640 d/file",
        "chmod 640 ../sha''red/file",
        "touch -c -d @0 SHARED/file",
        "ln -sf SHARED/file l && touch -c -h -d @0 SHARED/file",
        "touch -c SHARED/file",
        "chgrp $(id -g) SHARED/file",
        "chown $(id -u) SHARED/file",
        "perl -e 'exit !chmod(0640, \"SHARED/file\")'",
        "perl -e 'exit !utime(1, 1, \"SHARED/file\")'",
        "chmod 750 SHARED",
        "perl -e 'open(F, \"<\", \"READABLE\") or die; exit !chmod(0640, *F)'",
        "perl -e 'open(F, \"<\", \"READABLE\") or die; exit !utime(1, 1, *F)'",
        "perl -e 'open(F, \"<\", \"READABLE\") or die; exit !chown(-1, -1, *F)'",
        "/run/helper set-id SHARED/file",
    ];
    if nix::unistd::geteuid().is_root() {
        // Devices can be written, and are root's: their modes are not to be touched.
        let mode = || std::fs::metadata("/dev/null").unwrap().mode();
        let before = mode();
        assert!(!sh(&bench, &policy(&bench), "chmod 644 /dev/null").await.ok());
        assert_eq!(mode(), before);
    }
    // That it may read a file gives it no hold on it either.
    let readable = bench.root.join("readable");
    std::fs::create_dir(&readable).unwrap();
    std::fs::hard_link(&file, readable.join("file")).unwrap();
    let open_file = readable.join("file").display().to_string();
    let attacks = attacks.map(|attack| attack.replace("SHARED", &shared).replace("READABLE", &open_file));
    let plan = plan(&bench, &policy(&bench).expose(Expose::read_only(&readable)));
    let before = facts();
    for attack in &attacks {
        let ran = bench.sh_by(&plan, &script(attack)).await;
        assert!(!ran.ok(), "{attack}: {ran:?}");
        assert_eq!(facts(), before, "{attack}");
    }
    for attack in attacks.map(|attack| script(&attack)) {
        let mut shell = std::process::Command::new("/bin/sh");
        shell.current_dir(bench.root.join("work")).args(["-c", &attack]).stdout(Std::null());
        assert!(shell.status().unwrap().success(), "the attack works without a box: {attack}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    // Without the guard that has init do it, all but the set-user-id bits are open.
    let open = plan.clone().without_guard(|guard| matches!(guard, Guard::Metadata { .. }));
    assert!(bench.sh_by(&open, &format!("chmod 640 {shared}/file")).await.ok());
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!bench.sh_by(&open, &format!("chmod u+s {shared}/file")).await.ok());
}

#[tokio::test]
async fn flags_of_files_are_not_changed_by_reading_them() {
    let bench = Bench::new().await;
    let file = bench.root.join("shared/file");
    let flags = || rustix::fs::ioctl_getflags(std::fs::File::open(&file).unwrap()).unwrap();
    let before = flags();
    let readable = policy(&bench).expose(Expose::read_only(bench.root.join("shared")));
    let attack = format!("/run/helper toggle-flag {}", file.display());
    let ran = sh(&bench, &readable, &attack).await;
    assert!(ran.out.contains("not supported"), "{ran:?}");
    assert_eq!(flags(), before);
    assert_eq!(plainly(&["toggle-flag", file.to_str().unwrap()]), "ok turned\n", "it works without a box");
    assert_ne!(flags(), before);
}

#[tokio::test]
async fn metadata_of_own_files_changes_as_usual() {
    let bench = Bench::new().await;
    let text = "set -e; mkdir d; echo x > d/f; chmod 750 d/f; chmod u+x,g-r d; cd d; chmod 741 f; chmod 740 $PWD/f; chmod 700 ../d/./f; \
        touch -d @5 f; ln -s f l; touch -h -d @7 l; chmod 711 l; chown $(id -u) f; chgrp -h $(id -g) l; cd ..; chmod -R a+r d; \
        stat -c '%a %Y' d/f d/l; echo y > 'a b\\c'; chmod 600 'a b\\c'; cp -a d e; stat -c '%a %Y' e/f; tar cf t d; mkdir o; tar xpf t -C o; \
        stat -c '%a %Y' o/d/f; exec 3<d/f; touch -d @9 /dev/fd/3 2>/dev/null || true; perl -e 'chmod(0604, \"d/f\") or die; utime(3, 3, \"d/f\") or die'; \
        stat -c '%a %Y' d/f; ! chmod 600 none 2>/dev/null; ! chmod 600 d/f/none 2>/dev/null; chmod 700 $HOME $TMPDIR; \
        (for n in 1 2 3 4; do (for m in $(seq 50); do chmod 60$n d/f; done) & done; wait); umask 077; mkdir -m 755 m; stat -c %a m; echo done";
    let plan = plan(&bench, &policy(&bench));
    let sandbox = start(&plan, &bench).await;
    let command = shell(text).env("HOME", plan.home()).env("TMPDIR", plan.tmp());
    let ran = run(&sandbox, command).await;
    let expected = "755 5\n777 7\n755 5\n755 5\n604 3\n755\ndone\n";
    assert_eq!((ran.out.as_str(), ran.ok()), (expected, true), "{ran:?}");
    // A second command of the same box, and one that runs beside another.
    assert!(run(&sandbox, shell("chmod 600 d/f && setsid chmod 644 d/f")).await.ok());
    let mut long = soon(sandbox.spawn(shell("read go; chmod 640 d/f").stdin(Stdio::Piped))).await.unwrap();
    assert!(run(&sandbox, shell("chmod 600 d/f").aside()).await.ok());
    drop(long.stdin.take());
    assert_eq!(soon(long.wait()).await.unwrap().status, Status::Exited(0));
    soon(sandbox.shutdown()).await.unwrap();
}

#[tokio::test]
async fn limits_and_streams_are_as_ever() {
    let bench = Bench::new().await;
    let limited = policy(&bench).limits(Limits { file_size: Some(1000), ..Limits::default() });
    assert!(!sh(&bench, &limited, "head -c 2000 /dev/zero > big").await.ok());
    let ran = sh(&bench, &policy(&bench), "ls -1 /proc/self/fd | wc -l; ulimit -c; id -u; tty; cat < /dev/tty").await;
    assert!(ran.out.starts_with("4\n0\n"), "{}", ran.out);
    assert!(ran.out.contains("not a tty"), "{}", ran.out);
}

/// The ways of `sandbox-test-box stray`.
const BEHAVIOURS: [&str; 6] = ["session", "daemon", "deaf", "hopper", "stopped", "holder"];

/// From the decision to the end of the last process. A hopper may take longer to be met where nothing kills it by its group.
const LIMIT: Duration = Duration::from_secs(8);

fn marked(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())).count()
}

fn mark(bench: &Bench, what: &str) -> String {
    format!("mark-{}-{}", what.replace(' ', "-"), bench.root.display()).replace('/', "-")
}

/// A process of the same user that has nothing to do with any box, in the same session and group as the test.
struct Bystander(std::process::Child);

impl Bystander {
    fn new() -> Self {
        Self(
            std::process::Command::new("/bin/sleep")
                .arg("100")
                .stdin(Std::null())
                .stdout(Std::null())
                .stderr(Std::null())
                .spawn()
                .unwrap(),
        )
    }

    #[track_caller]
    fn lives(mut self) {
        assert!(self.0.try_wait().unwrap().is_none(), "a process that is not ours was ended");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        assert!(stat.contains(") S "), "a process that is not ours was stopped: {stat}");
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn whatever_stays_is_ended_with_its_command() {
    let bench = Bench::new().await;
    let bystander = Bystander::new();
    for (way, host) in hosts(&bench) {
        let sandbox = start(&Enforcement::plan(&policy(&bench), &host).unwrap(), &bench).await;
        for behaviour in BEHAVIOURS {
            let mark = mark(&bench, &format!("{way}-{behaviour}"));
            let text = script(&format!("/run/helper stray {behaviour} {mark} & read go; exit 3"));
            let mut child = soon(sandbox.spawn(shell(&text).stdin(Stdio::Piped).stdout(Stdio::Piped))).await.unwrap();
            assert_eq!(line(&mut child).await, "up");
            assert!(marked(&mark) > 0, "{way}, {behaviour}");
            let decided = Instant::now();
            drop(child.stdin.take());
            let exit = soon(child.wait()).await.unwrap();
            assert_eq!((exit.status, exit.escaped), (Status::Exited(3), 0), "{way}, {behaviour}");
            let took = decided.elapsed();
            assert!(exit.leftovers > 0 && took < LIMIT, "{way}, {behaviour}: {exit:?} {took:?}");
            assert_eq!(marked(&mark), 0, "{way}, {behaviour}");
            read(child.stdout.take().unwrap()).await;
        }
        soon(sandbox.shutdown()).await.unwrap();
    }
    bystander.lives();
}

#[tokio::test]
async fn whatever_stays_is_ended_by_order_and_with_its_box() {
    let bench = Bench::new().await;
    let bystander = Bystander::new();
    for (way, host) in hosts(&bench) {
        for behaviour in BEHAVIOURS {
            let sandbox = start(&Enforcement::plan(&policy(&bench), &host).unwrap(), &bench).await;
            for whole in [false, true] {
                let mark = mark(&bench, &format!("{way}-{behaviour}-{whole}"));
                let text =
                    script(&format!("trap '' TERM; /run/helper stray {behaviour} {mark} & wait; exec sleep 1000"));
                let mut child = soon(sandbox.spawn(shell(&text).stdout(Stdio::Piped))).await.unwrap();
                assert_eq!(line(&mut child).await, "up");
                sandbox.terminate(Signal::SIGTERM).await.unwrap();
                assert!(marked(&mark) > 0, "{behaviour} does not listen to TERM");
                let decided = Instant::now();
                if whole {
                    soon(sandbox.kill()).await.unwrap();
                } else {
                    assert!(soon(sandbox.kill_all()).await.unwrap() > 0);
                    assert_eq!(soon(child.wait()).await.unwrap().escaped, 0);
                }
                let took = decided.elapsed();
                assert_eq!(marked(&mark), 0, "{way}, {behaviour}");
                assert!(took < LIMIT, "{way}, {behaviour}: {took:?}");
                read(child.stdout.take().unwrap()).await;
            }
        }
    }
    bystander.lives();
}

#[tokio::test]
async fn a_box_can_be_frozen() {
    let bench = Bench::new().await;
    let bystander = Bystander::new();
    for (_, host) in hosts(&bench) {
        let sandbox = start(&Enforcement::plan(&policy(&bench), &host).unwrap(), &bench).await;
        let text = script("/run/helper write-on log & setsid /run/helper write-on log & echo up; wait");
        let mut child = soon(sandbox.spawn(shell(&text).stdout(Stdio::Piped))).await.unwrap();
        line(&mut child).await;
        let size = || std::fs::metadata(bench.root.join("work/log")).map_or(0, |meta| meta.len());
        for _ in 0..5 {
            assert_eq!(soon(sandbox.freeze()).await.unwrap(), 3);
            let still = size();
            for _ in 0..20 {
                run(&sandbox, shell("true").aside()).await;
            }
            assert_eq!(size(), still);
            sandbox.thaw().await.unwrap();
        }
        soon(sandbox.kill_all()).await.unwrap();
        soon(child.wait()).await.unwrap();
        soon(sandbox.shutdown()).await.unwrap();
    }
    bystander.lives();
}

/// A program in a place where namespaces are really off, with a box of its own.
fn holder(bench: &Bench, text: &str) -> tokio::process::Child {
    let mut command = tokio::process::Command::new(helper());
    command.args(["without-namespaces", "parent"]).arg(&bench.root).arg(text);
    command.stdin(Std::null()).stdout(Std::piped()).kill_on_drop(true).spawn().unwrap()
}

#[tokio::test]
async fn a_machine_that_really_has_none() {
    assert_eq!(plainly(&["without-namespaces", "probe"]), "ok Some(NamespacesOff) landlock true seccomp true\n");
    assert_eq!(plainly(&["without-namespaces", "probe-group"]), format!("ok {:?}\n", group()));
}

fn is_stopped(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().any(|line| line.starts_with("State:\tT"))
}

#[tokio::test]
async fn nothing_outlives_the_parent_or_the_outer_process() {
    let bench = Bench::new().await;
    let stranger = Bystander::new();
    for victim in ["parent", "exe", "parent of a stopped one"] {
        for behaviour in BEHAVIOURS {
            let mark = mark(&bench, &format!("{}-{behaviour}", victim.replace(' ', "-")));
            let text = script(&format!(
                "m={}; /run/helper stray {behaviour} $m & wait; sleep 1000",
                mark.replace("mark", "ma\"\"rk")
            ));
            let mut parent = holder(&bench, &text);
            let mut stdout = BufReader::new(parent.stdout.take().unwrap());
            let mut first = String::new();
            soon(stdout.read_line(&mut first)).await.unwrap();
            assert_eq!(first, "up\n", "{behaviour}");
            assert!(marked(&mark) > 0, "{behaviour}");
            let parent_pid = parent.id().unwrap();
            let bystander = crate::ends::child_of(parent_pid, "sleep");
            let outer = crate::ends::child_of(parent_pid, "exe");
            let signal = |pid: i32, signal| nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
            if victim.ends_with("stopped one") {
                // The kernel sends SIGHUP to a group of which one is stopped, when the last parent outside of it dies.
                signal(outer, Signal::SIGSTOP);
                soon(async {
                    while !is_stopped(outer) {
                        tokio::task::yield_now().await;
                    }
                })
                .await;
            }
            signal(if victim == "exe" { outer } else { parent_pid.cast_signed() }, Signal::SIGKILL);
            let mut rest = String::new();
            soon(stdout.read_to_string(&mut rest)).await.unwrap();
            assert_eq!(marked(&mark), 0, "{behaviour}: the last one had the output open");
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(bystander), Signal::SIGKILL).unwrap();
            drop(soon(parent.wait()).await);
        }
    }
    stranger.lives();
}

#[tokio::test]
async fn nothing_outlives_init() {
    let bench = Bench::new().await;
    for (way, host) in hosts(&bench) {
        let sandbox = start(&Enforcement::plan(&policy(&bench), &host).unwrap(), &bench).await;
        let mark = mark(&bench, way);
        let text = script(&format!("/run/helper stray daemon {mark}; wait; exec sleep 1000"));
        let mut child = soon(sandbox.spawn(shell(&text).stdout(Stdio::Piped))).await.unwrap();
        assert_eq!(line(&mut child).await, "up");
        // Dropping it kills init outright; what it had comes down to the outer process.
        drop(sandbox);
        read(child.stdout.take().unwrap()).await;
        assert_eq!(marked(&mark), 0);
    }
}

#[tokio::test]
async fn a_private_place_may_lie_anywhere() {
    let bench = Bench::new().await;
    // A system folder that holds something hidden is shown but for that.
    let home = PrivateDir { source: bench.root.join("home"), target: "/usr/share".into() };
    let policy = Policy { home, ..policy(&bench) };
    let ran = sh(&bench, &policy, "ls /usr/share; ls /usr/bin > /dev/null && echo bin").await;
    assert!(ran.out.contains("denied") && ran.out.ends_with("bin\n"), "{ran:?}");
}

#[tokio::test]
async fn a_crowd_that_forks_away_is_ended_too() {
    let bench = Bench::new().await;
    let bystander = Bystander::new();
    for (way, host) in hosts(&bench) {
        let sandbox = start(&Enforcement::plan(&policy(&bench), &host).unwrap(), &bench).await;
        let mark = mark(&bench, &format!("{way}-crowd"));
        let text = script(&format!("for n in $(seq 30); do /run/helper hop {mark} & done; echo up; read go; exit 0"));
        let mut child = soon(sandbox.spawn(shell(&text).stdin(Stdio::Piped).stdout(Stdio::Piped))).await.unwrap();
        assert_eq!(line(&mut child).await, "up");
        let decided = Instant::now();
        drop(child.stdin.take());
        let exit = soon(child.wait()).await.unwrap();
        let took = decided.elapsed();
        assert_eq!((exit.status, exit.escaped, marked(&mark)), (Status::Exited(0), 0, 0), "{way}: {took:?}");
        soon(sandbox.shutdown()).await.unwrap();
    }
    bystander.lives();
}
