//! The filter of system calls and the Landlock rules: each is taken away to see what it stops.

use crate::bench::{Bench, plainly, run, shell};
use sandbox::{Command, Enforcement, Expose, Guard, Host, Layer, Nesting, Protection, Sandbox, Status, Stdio, Step};
use std::collections::BTreeMap;

fn unfiltered(plan: &Enforcement) -> Enforcement {
    plan.clone().without_guard(|guard| matches!(guard, Guard::Seccomp { .. }))
}

fn unfenced(plan: &Enforcement) -> Enforcement {
    plan.clone().without_guard(|guard| matches!(guard, Guard::Landlock { .. }))
}

/// Never permitted.
const ALWAYS: [&str; 26] = [
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "pidfd_getfd",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "keyctl",
    "add_key",
    "request_key",
    "open_by_handle_at",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "tiocsti",
    "tiocsti-high",
    "tioclinux",
    "vsock",
    "packet",
    "alg",
    "alg-high",
];

/// Not permitted unless namespaces may be nested.
const NESTING: [&str; 15] = [
    "unshare",
    "setns",
    "mount",
    "umount2",
    "pivot_root",
    "open_tree",
    "open_tree_attr",
    "move_mount",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
    "clone-user",
    "clone-user-high",
];

/// What an ordinary user may not do anywhere; or not on machines that are set up so.
const PRIVILEGED: [&str; 19] = [
    "bpf",
    "perf_event_open",
    "open_by_handle_at",
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "packet",
    "mount",
    "umount2",
    "pivot_root",
    "open_tree_attr",
    "move_mount",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "mount_setattr",
];

fn answers(text: &str) -> BTreeMap<String, String> {
    let lines = text.strip_prefix("ok ").unwrap_or(text).lines();
    lines.filter_map(|line| line.split_once(' ')).map(|(name, answer)| (name.to_owned(), answer.to_owned())).collect()
}

/// What each call is answered in a box.
async fn asked(bench: &Bench, plan: &Enforcement, names: &[&str]) -> BTreeMap<String, String> {
    let ran = bench.sh_by(plan, &format!("/run/helper calls {}", names.join(" "))).await;
    let answers = answers(&ran.out);
    assert_eq!(answers.len(), names.len(), "{}", ran.out);
    answers
}

#[tokio::test]
async fn denied_calls_would_work_without_the_filter() {
    let bench = Bench::new().await;
    let names: Vec<&str> = ALWAYS.into_iter().chain(NESTING).collect();
    let outside = answers(&plainly(&[&["calls"], names.as_slice()].concat()));
    let plan = bench.plan(&bench.policy());
    let filtered = asked(&bench, &plan, &names).await;
    for name in names {
        let unconfined = &outside[name];
        let forbidden_anyway = bench.host.uid != 0 && PRIVILEGED.contains(&name);
        assert!(unconfined != "EPERM" || forbidden_anyway, "{name} is {unconfined} even outside: nothing is shown");
        assert_eq!(filtered[name], "EPERM", "{name}, {unconfined} outside");
    }
    for name in ["ptrace-me", "process_vm_readv", "unshare", "clone-user", "clone-user-high", "unix", "netlink"] {
        let unconfined = answers(&plainly(&["calls", name]));
        assert_eq!(unconfined[name], "ok", "{name} really does something outside");
    }
}

#[tokio::test]
async fn calls_that_a_filter_cannot_look_into_do_not_exist() {
    let bench = Bench::new().await;
    let plan = bench.plan(&bench.policy());
    let mut names = vec!["clone3"];
    if cfg!(target_arch = "x86_64") {
        names.extend(["x32-getpid", "x32-ptrace"]);
    }
    let bare = asked(&bench, &unfiltered(&plan), &names).await;
    assert_ne!(bare["clone3"], "ENOSYS");
    let filtered = asked(&bench, &plan, &names).await;
    for name in names {
        assert_eq!(filtered[name], "ENOSYS", "{name}");
    }
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn a_call_of_another_architecture_kills() {
    let bench = Bench::new().await;
    let plan = bench.plan(&bench.policy());
    let command = || Command::new(["/run/helper", "i386"]);
    let sandbox = Sandbox::start(&unfiltered(&plan), &bench.launcher).await.unwrap();
    let baseline = run(&sandbox, command()).await;
    // A kernel without that interface ends the program by itself.
    assert!(baseline.out == "ok ok\n" || baseline.exit.status == Status::Signaled(11), "{baseline:?}");
    let sandbox = Sandbox::start(&plan, &bench.launcher).await.unwrap();
    assert_eq!(run(&sandbox, command()).await.exit.status, Status::Signaled(31), "a bad system call");
}

#[tokio::test]
async fn a_box_for_nesting_lets_namespaces_be_made_and_nothing_else() {
    let bench = Bench::new().await;
    let plan = bench.plan(&bench.policy().nesting(Nesting::Allowed));
    let names: Vec<&str> = ALWAYS.into_iter().chain(["unshare", "clone-user", "setns"]).collect();
    let filtered = asked(&bench, &plan, &names).await;
    for name in ALWAYS {
        assert_eq!(filtered[name], "EPERM", "{name}");
    }
    assert_eq!((filtered["unshare"].as_str(), filtered["clone-user"].as_str()), ("ok", "ok"));
    assert_eq!(filtered["setns"], "EBADF");
    let mount = "unshare -Urm sh -c 'mount -t tmpfs none /mnt && echo mounted && unshare -p true && echo nested'";
    let ran = bench.sh_by(&plan, mount).await;
    assert_eq!(ran.out, "mounted\nnested\n");
    let ran = bench.sh(&bench.policy(), mount).await;
    assert!(ran.out.contains("not permitted") && !ran.out.contains("mounted"), "{}", ran.out);
}

#[tokio::test]
async fn commands_beside_the_main_one_are_confined_as_well() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    let mut main = sandbox.spawn(shell("cat").stdin(Stdio::Piped)).await.unwrap();
    let aside = Command::new(["/run/helper", "calls", "ptrace"]).aside();
    assert_eq!(run(&sandbox, aside).await.out, "ok ptrace EPERM\n");
    drop(main.stdin.take());
    main.wait().await.unwrap();
    // The next main command too.
    let ran = run(&sandbox, Command::new(["/run/helper", "calls", "ptrace"])).await;
    assert_eq!(ran.out, "ok ptrace EPERM\n");
}

#[tokio::test]
async fn the_rules_hold_where_a_mount_is_wrong() {
    let bench = Bench::new().await;
    let Some(version) = bench.host.landlock.filter(|version| *version >= 2) else {
        assert!(!bench.host.shortcomings().is_empty(), "a machine without Landlock says so");
        return;
    };
    // A mount that should be read-only and is not: the plan of one policy with the rules of another.
    let shared = bench.root.join("shared");
    let wrong = bench.policy().expose(Expose::read_write(&shared).at("/mnt"));
    let script = "cd /mnt; cat file; (echo x > new; echo x >> file; true > file; mkdir d; mkfifo p; ln -s x l; ln file h; mv file m; rm file); ls | tr '\\n' ' '";
    let right = bench.plan(&bench.policy().expose(Expose::read_only(&shared).at("/mnt")));
    let rules = right.guards().iter().find(|guard| matches!(guard, Guard::Landlock { .. })).unwrap();
    let mixed = bench.plan(&wrong).with_guard(rules.clone());
    let ran = bench.sh_by(&mixed, script).await;
    assert!(
        ran.out.starts_with("shared") && ran.out.ends_with("file "),
        "reading is free, Landlock {version}: {}",
        ran.out
    );
    assert_eq!(ran.out.matches("denied").count(), 9, "{}", ran.out);
    assert_eq!(std::fs::read_to_string(shared.join("file")).unwrap(), "shared");
    let baseline = bench.sh_by(&unfenced(&mixed), script).await;
    assert!(baseline.out.ends_with("d h l m new p ") && !shared.join("file").exists(), "{}", baseline.out);
}

#[tokio::test]
async fn the_rules_let_a_box_write_where_its_mounts_do() {
    let bench = Bench::new().await;
    let deep = bench.root.join("user/.cache/shared");
    let shared = bench.root.join("shared");
    let policy = bench
        .policy()
        .expose(Expose::read_write(&shared).at(&deep))
        .expose(Expose::read_write(bench.root.join("sibling/secret")).at("/run/one-file"));
    let script = format!(
        "set -e; for d in . {0} {1} /tmp /var/tmp /run /dev/shm; do \
         mkdir -p $d/a $d/b; echo x > $d/a/f; mv $d/a/f $d/b/g; ln $d/b/g $d/h; rm $d/h; : > $d/b/g; \
         ln -s b $d/l; mkfifo $d/p; rm -r $d/a $d/b $d/l $d/p; done; \
         echo new > /run/one-file; echo x > /dev/null; echo x > /dev/stdout; echo 500 > /proc/self/oom_score_adj; \
         echo name > /proc/self/comm; echo done",
        bench.root.join("user").display(),
        deep.display()
    );
    let ran = bench.sh(&policy, &script).await;
    assert!(ran.ok() && ran.out == "x\ndone\n", "{}", ran.out);
    assert_eq!(std::fs::read_to_string(bench.root.join("sibling/secret")).unwrap(), "new\n");
}

#[tokio::test]
async fn a_file_given_as_a_stream_is_written_but_not_opened_anew() {
    let bench = Bench::new().await;
    let path = bench.root.join("out");
    let run_with_file = async |plan: &Enforcement| {
        let sandbox = Sandbox::start(plan, &bench.launcher).await.unwrap();
        let script = "echo given; echo anew 2> /dev/null >> /dev/stdout";
        let file = std::fs::File::create(&path).unwrap();
        let mut child =
            sandbox.spawn(Command::new(["/bin/sh", "-c", script]).stdout(Stdio::Fd(file.into()))).await.unwrap();
        crate::bench::soon(child.wait()).await.unwrap();
        sandbox.shutdown().await.unwrap();
        std::fs::read_to_string(&path).unwrap()
    };
    let plan = bench.plan(&bench.policy());
    assert_eq!(run_with_file(&unfenced(&plan)).await, "given\nanew\n");
    let expected = if plan.layers().contains(&Protection::LandlockFiles) { "given\n" } else { "given\nanew\n" };
    assert_eq!(run_with_file(&plan).await, expected);
}

#[tokio::test]
async fn a_command_signals_only_what_it_started() {
    let bench = Bench::new().await;
    if bench.host.landlock.is_none_or(|version| version < 6) {
        assert!(!bench.host.shortcomings().is_empty(), "a machine without scopes says so");
        return;
    }
    let plan = bench.plan(&bench.policy());
    let run_beside = async |plan: &Enforcement| {
        let sandbox = Sandbox::start(plan, &bench.launcher).await.unwrap();
        let mut main =
            sandbox.spawn(shell("echo $$; exec cat").stdin(Stdio::Piped).stdout(Stdio::Piped)).await.unwrap();
        let pid = crate::bench::line(&mut main).await;
        let ran = run(&sandbox, Command::new(["/run/helper", "signal", &pid]).aside()).await;
        sandbox.shutdown().await.unwrap();
        ran.out
    };
    assert_eq!(run_beside(&unfenced(&plan)).await, "ok signalled\n");
    assert!(run_beside(&plan).await.contains("EPERM"));
    let own = bench.sh_by(&plan, "sleep 1000 & kill $! && kill -0 $$ && wait $!; echo $?").await;
    assert_eq!(own.out.lines().last(), Some("143"), "its own it can: {}", own.out);
}

#[tokio::test]
async fn a_plan_names_what_is_in_force() {
    let bench = Bench::new().await;
    let names = |plan: &Enforcement| plan.layers().iter().map(|layer| layer.name()).collect::<Vec<_>>().join(" ");
    let everywhere = "user-namespace mount-namespace pid-namespace ipc-namespace uts-namespace cgroup-namespace";
    let modern = Host { landlock: Some(7), process_numbers: true, ..bench.host.clone() };
    let plan = Enforcement::plan(&bench.policy(), &modern).unwrap();
    assert_eq!(
        names(&plan),
        format!(
            "{everywhere} network-namespace read-only-root read-only-proc no-nested-namespaces no-capabilities \
             no-new-privileges landlock-files landlock-scopes seccomp process-limit"
        )
    );
    let nested = Enforcement::plan(&bench.policy().nesting(Nesting::Allowed), &modern).unwrap();
    assert!(
        !nested.layers().contains(&Protection::LandlockFiles) && nested.layers().contains(&Protection::LandlockScopes)
    );
    let open = Enforcement::plan(&bench.policy().network(sandbox::Network::Host), &modern).unwrap();
    assert!(!open.layers().contains(&Protection::NetworkNamespace));
    for (version, files, scopes, fine) in [
        (None, false, false, false),
        (Some(1), false, false, false),
        (Some(3), true, false, false),
        (Some(9), true, true, true),
    ] {
        let host = Host { landlock: version, ..bench.host.clone() };
        let layers = Enforcement::plan(&bench.policy(), &host).unwrap().layers();
        assert_eq!(layers.contains(&Protection::LandlockFiles), files, "{version:?}");
        assert_eq!(layers.contains(&Protection::LandlockScopes), scopes, "{version:?}");
        assert_eq!(host.shortcomings().is_empty(), fine, "{version:?}");
    }
    let without = plan.without(|step| matches!(step, Step::DropCapabilities));
    assert!(!without.layers().contains(&Protection::NoCapabilities), "of the steps that are there");
}

#[tokio::test]
async fn no_filter_no_box() {
    let bench = Bench::new().await;
    assert!(bench.host.seccomp, "these tests need a machine with filters");
    let host = Host { seccomp: false, ..bench.host.clone() };
    let refusal = Enforcement::plan(&bench.policy(), &host).unwrap_err();
    assert_eq!(refusal.layer, Layer::Seccomp);
    assert!(refusal.to_string().starts_with("seccomp: system calls cannot be filtered here"), "{refusal}");
}

#[tokio::test]
async fn a_guard_that_fails_is_named_and_nothing_runs() {
    let bench = Bench::new().await;
    // Newer rules than the kernel has.
    let Some(version) = bench.host.landlock.filter(|version| *version < 6) else {
        let odd = Guard::Landlock { version: 0, writable: Some(Vec::new()), scopes: false };
        let plan = bench.plan(&bench.policy()).with_guard(odd.clone());
        let error = Sandbox::start(&plan, &bench.launcher).await.unwrap_err();
        assert!(matches!(&error, sandbox::StartError::Guard { guard, .. } if *guard == odd), "{error:?}");
        return;
    };
    let newer = Guard::Landlock { version: version + 1, writable: None, scopes: true };
    let error = Sandbox::start(&bench.plan(&bench.policy()).with_guard(newer), &bench.launcher).await.unwrap_err();
    assert!(matches!(error, sandbox::StartError::Guard { .. }), "{error:?}");
}
