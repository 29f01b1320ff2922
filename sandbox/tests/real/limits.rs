//! Limits: what takes too much is first shown to get it where there is none.

use crate::bench::{Bench, Ran, line, run, shell, soon};
use sandbox::{
    ControlGroups, Enforcement, Host, Layer, LimitHit, Limited, Limits, Policy, Protection, Sandbox, Signal, Status,
    Stdio,
};
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

fn memory(most: u64) -> Limits {
    Limits { memory: Some(most), ..Limits::default() }
}

fn processes(most: u32) -> Limits {
    Limits { processes: Some(most), ..Limits::default() }
}

fn disk(most: u64) -> Limits {
    Limits { disk: Some(most), ..Limits::default() }
}

/// A hog whose input stays open, so that it stays once it has all it wants.
async fn held(sandbox: &Sandbox, script: &str) -> (sandbox::Child, String) {
    let mut child = sandbox.spawn(shell(script).stdin(Stdio::Piped).stdout(Stdio::Piped)).await.unwrap();
    let said = line(&mut child).await;
    (child, said)
}

/// That a hog ends by itself without a limit, and of this one with it.
async fn is_ended(bench: &Bench, limits: Limits, hog: &str, expected: Limited, limit: u64) {
    let free = bench.sh(&bench.policy(), hog).await;
    assert!(free.ok() && free.exit.limit.is_none(), "{hog}: it survives without a limit: {free:?}");
    clean(bench);
    let sandbox = bench.start(&bench.policy().limits(limits)).await;
    let mut child = sandbox.spawn(shell(hog).stdin(Stdio::Piped).stdout(Stdio::Piped)).await.unwrap();
    let exit = soon(child.wait()).await.unwrap();
    let hit = exit.limit.unwrap_or_else(|| panic!("{hog}: no limit told: {exit:?}"));
    assert_eq!((hit.what, hit.limit, hit.of_machine), (expected, limit, false), "{hog}: {hit:?}");
    assert!(hit.used >= limit, "{hog}: {hit:?}");
    let left = run(&sandbox, shell("echo /proc/[0-9]*")).await;
    assert_eq!(left.out.split_whitespace().count(), 2, "{hog}: nothing is left, and the box goes on: {}", left.out);
    soon(sandbox.shutdown()).await.unwrap();
    clean(bench);
}

fn clean(bench: &Bench) {
    for name in ["work/big", "tmp/big", "home/big"] {
        if let Err(error) = std::fs::remove_file(bench.root.join(name)) {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        }
    }
}

#[tokio::test]
async fn memory_of_every_kind() {
    let bench = Bench::new().await;
    for hog in [
        "/run/helper hog memory 300",
        "/run/helper hog memory-file 300",
        "/run/helper hog hidden-memory-file 300",
        "/run/helper hog headless memory 300",
        "/run/helper hog headless memory-file 300",
        "/run/helper hog family 6 50",
        "head -c 240M /dev/zero > /dev/shm/big; cat",
        "head -c 150M /dev/zero > /dev/shm/big; head -c 150M /dev/zero > /var/tmp/big; cat",
    ] {
        is_ended(&bench, memory(128 * MIB), hog, Limited::Memory, 128 * MIB).await;
    }
}

#[tokio::test]
async fn memory_that_is_shared_counts_once() {
    let bench = Bench::new().await;
    // Ten processes with the same 60 MiB of program text and one file in memory.
    let script = "head -c 60M /dev/zero > /dev/shm/one; for n in 1 2 3 4 5 6 7 8 9; do tail -f /dev/shm/one >/dev/null & done; \
                  echo up; cat";
    let sandbox = bench.start(&bench.policy().limits(memory(256 * MIB))).await;
    let (mut child, _) = held(&sandbox, script).await;
    // Looked at many times over.
    for _ in 0..100 {
        assert!(run(&sandbox, shell("sleep 0.01").aside()).await.exit.limit.is_none());
    }
    drop(child.stdin.take());
    let exit = soon(child.wait()).await.unwrap();
    assert_eq!((exit.limit, exit.status), (None, Status::Exited(0)));
}

/// The machine, with only one means of bounding processes.
fn only(host: &Host, numbers: bool) -> Host {
    Host { control_groups: None, process_numbers: numbers, ..host.clone() }
}

async fn by(bench: &Bench, host: &Host, policy: &Policy, script: &str) -> Ran {
    let plan = Enforcement::plan(policy, host).unwrap();
    let sandbox = soon(Sandbox::start(&plan, &bench.launcher)).await.unwrap();
    let mut child = sandbox.spawn(shell(script).stdin(Stdio::Piped).stdout(Stdio::Piped)).await.unwrap();
    let stdout = child.stdout.take().unwrap();
    let exit = soon(child.wait()).await.unwrap();
    let out = crate::bench::read(stdout).await;
    soon(sandbox.shutdown()).await.unwrap();
    Ran { exit, out }
}

/// The ways this user has here to bound processes.
fn ways(host: &Host) -> Vec<Host> {
    let mut ways = vec![];
    if host.control_groups.as_ref().is_some_and(|groups| groups.processes) {
        ways.push(host.clone());
    }
    if host.process_numbers {
        ways.push(only(host, true));
    }
    if host.uid != 0 {
        ways.push(only(host, false));
    }
    assert!(!ways.is_empty(), "root needs Linux 6.14 for these tests");
    ways
}

#[tokio::test]
async fn processes_by_every_means() {
    let bench = Bench::new().await;
    let before = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap();
    let free = by(&bench, &bench.host, &bench.policy(), "/run/helper hog fork 700 </dev/null").await;
    assert!(free.ok() && free.out.starts_with("700 None"), "without a limit: {}", free.out);
    for host in ways(&bench.host) {
        let policy = bench.policy().limits(processes(100));
        let bomb = by(&bench, &host, &policy, "/run/helper hog fork 700").await;
        let hit = bomb.exit.limit.unwrap_or_else(|| panic!("{bomb:?} {host:?}"));
        assert_eq!((hit.what, hit.limit), (Limited::Processes, 100), "{hit:?}");
        assert!((100..=402).contains(&hit.used), "the kernel held it: {hit:?}");
        // One that meets it and gives up is told of as well.
        let touched = by(&bench, &host, &policy, "/run/helper hog fork-or-fail 700").await;
        let hit = touched.exit.limit.unwrap_or_else(|| panic!("{touched:?}"));
        assert_eq!((hit.what, hit.limit), (Limited::Processes, 100));
        // As many as are allowed can be had, also when far more have been and gone.
        let allowed = "for n in 1 2 3 4 5; do /run/helper hog fork 90 </dev/null || exit 9; done";
        let ran = by(&bench, &host, &policy, allowed).await;
        assert!(ran.ok() && ran.exit.limit.is_none(), "{ran:?}");
        assert_eq!(ran.out.matches("90 None").count(), 5, "{}", ran.out);
    }
    assert_eq!(std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap(), before, "the host's own is as it was");
}

#[tokio::test]
async fn one_box_does_not_count_for_another() {
    let bench = Bench::new().await;
    for host in ways(&bench.host) {
        let plan = Enforcement::plan(&bench.policy().limits(processes(60)), &host).unwrap();
        let one = soon(Sandbox::start(&plan, &bench.launcher)).await.unwrap();
        let two = soon(Sandbox::start(&plan, &bench.launcher)).await.unwrap();
        let (mut first, said) = held(&one, "/run/helper hog fork 50").await;
        assert_eq!(said, "50 None");
        let (mut second, said) = held(&two, "/run/helper hog fork 50").await;
        assert_eq!(said, "50 None", "the other has 50 as well");
        for child in [&mut first, &mut second] {
            drop(child.stdin.take());
            assert_eq!(soon(child.wait()).await.unwrap().limit, None);
        }
    }
}

#[test]
fn what_cannot_be_bounded_is_refused_or_left_out_on_request() {
    let home = sandbox::PrivateDir { source: "/p/home".into(), target: "/home".into() };
    let policy = Policy::new("/w", home, "/p/tmp");
    let kernel = sandbox::Kernel { major: 6, minor: 13 };
    let host = Host {
        uid: 0,
        gid: 0,
        kernel,
        landlock: None,
        seccomp: true,
        obstacle: None,
        control_groups: None,
        kill_group: None,
        metadata: true,
        process_numbers: false,
    };
    assert!(host.shortcomings().iter().any(|lack| lack.cause.contains("how many processes")));
    let refusal = Enforcement::plan(&policy.clone().limits(processes(9)), &host).unwrap_err();
    assert_eq!(refusal.layer, Layer::Limits);
    assert!(refusal.cause.contains("root") && refusal.fix.contains("systemd-run"), "{refusal}");
    let share = Limits { cpu_weight: Some(50), ..Limits::default() };
    let refusal = Enforcement::plan(&policy.clone().limits(share.clone()), &host).unwrap_err();
    assert!(refusal.cause.contains("share of the processor"), "{refusal}");
    for limits in [processes(9), share] {
        let plan = Enforcement::plan(&policy.clone().limits(limits).may_lack(Layer::Limits), &host).unwrap();
        assert_eq!((plan.left_out().len(), plan.lacks()), (1, [Layer::Limits].into()));
        let layers = plan.layers();
        assert!(!layers.contains(&Protection::ProcessLimit) && !layers.contains(&Protection::CpuWeight), "{layers:?}");
    }
    // An ordinary user has one that counts in each box.
    let user = Host { uid: 7, gid: 7, ..host };
    let plan = Enforcement::plan(&policy.limits(processes(9)), &user).unwrap();
    assert!(plan.to_string().contains("limit processes 11") && plan.layers().contains(&Protection::ProcessLimit));
    assert!(user.shortcomings().iter().all(|lack| !lack.cause.contains("how many processes")));
}

#[test]
fn without_namespaces_no_advice_is_given_that_would_not_help() {
    let home = sandbox::PrivateDir { source: "/p/home".into(), target: "/home".into() };
    let policy = Policy::new("/w", home, "/p/tmp").may_lack(Layer::Namespaces);
    let groups = sandbox::ControlGroups { parent: "/sys/fs/cgroup/x".into(), memory: true, processes: true, cpu: true };
    for control_groups in [None, Some(groups)] {
        let host = Host {
            uid: 7,
            gid: 7,
            kernel: sandbox::Kernel { major: 6, minor: 14 },
            landlock: Some(6),
            seccomp: true,
            obstacle: Some(sandbox::Obstacle::NamespacesOff),
            control_groups,
            kill_group: Some("/sys/fs/cgroup/x".into()),
            metadata: true,
            process_numbers: true,
        };
        for limits in [processes(9), Limits { cpu_weight: Some(50), ..Limits::default() }] {
            let asked = policy.clone().limits(limits);
            let refusal = Enforcement::plan(&asked, &host).unwrap_err();
            assert_eq!(refusal.layer, Layer::Limits);
            assert!(refusal.fix.contains("with namespaces") && !refusal.fix.contains("systemd-run"), "{refusal}");
            let plan = Enforcement::plan(&asked.may_lack(Layer::Limits), &host).unwrap();
            assert_eq!((plan.left_out().len(), plan.lacks()), (1, [Layer::Namespaces, Layer::Limits].into()));
            // A command could not be in two groups.
            assert!(!plan.steps().iter().any(|step| matches!(step, sandbox::Step::ControlGroup { .. })), "{plan}");
        }
        assert!(host.means().iter().all(|means| means.by.as_ref().is_ok_and(|by| !by.contains("control group"))
            || means.by.as_ref().is_err_and(|lack| !lack.fix.contains("systemd-run"))));
    }
}

#[tokio::test]
async fn disk_wherever_it_is_filled() {
    let bench = Bench::new().await;
    for hog in [
        "/run/helper hog fill big 64",
        "/run/helper hog fill /tmp/big 64",
        "/run/helper hog fill ~/big 64",
        "/run/helper hog fill-nameless big 64",
        "/run/helper hog headless fill-nameless big 64",
        "/run/helper hog fill big 64 & wait; cat",
        // Quicker than the watch, and gone with a good status.
        "/run/helper hog fill big 64 </dev/null",
        // Where init may not look.
        "mkdir d; exec 3> d/big; chmod 000 d; head -c 64M /dev/zero >&3; cat; chmod 700 d; rm -r d",
    ] {
        let hog = format!("HOME={}; {hog}", bench.root.join("user").display());
        is_ended(&bench, disk(32 * MIB), &hog, Limited::Disk, 32 * MIB).await;
        let hidden = bench.root.join("work/d");
        if hidden.exists() {
            std::fs::set_permissions(&hidden, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
            std::fs::remove_dir_all(&hidden).unwrap();
        }
    }
}

#[tokio::test]
async fn disk_counts_what_is_taken() {
    let bench = Bench::new().await;
    // A file with many names, one with holes, a link to something large, and what is mounted in the tree.
    let script = "head -c 20M /dev/zero > one; for n in 1 2 3 4 5 6 7 8 9; do ln one name$n; done; \
                  truncate -s 1G holes; ln -s /usr link; head -c 200M /dev/zero > /dev/shm/elsewhere; rm /dev/shm/elsewhere";
    std::fs::write(bench.root.join("shared/large"), vec![1; 40 << 20]).unwrap();
    let mounted = sandbox::Expose::read_only(bench.root.join("shared")).at(bench.root.join("work/mounted"));
    let policy = bench.policy().expose(mounted).limits(disk(32 * MIB));
    let ran = bench.sh(&policy, &format!("{script}; cat mounted/large >/dev/null")).await;
    assert!(ran.ok() && ran.exit.limit.is_none(), "{ran:?}");
    let more = bench.sh(&bench.policy().limits(disk(32 * MIB)), "head -c 20M /dev/zero > other").await;
    assert_eq!(more.exit.limit.map(|hit| hit.what), Some(Limited::Disk), "20 and 20: {more:?}");
}

#[tokio::test]
async fn the_size_of_a_file() {
    let bench = Bench::new().await;
    let limits = Limits { file_size: Some(MIB), ..Limits::default() };
    for script in ["exec head -c 2M /dev/zero > big", "head -c 2M /dev/zero > big"] {
        assert!(bench.sh(&bench.policy(), script).await.ok());
        clean(&bench);
        let ran = bench.sh(&bench.policy().limits(limits.clone()), script).await;
        let hit = LimitHit { what: Limited::FileSize, limit: MIB, used: MIB, of_machine: false };
        assert_eq!(ran.exit.limit, Some(hit), "{ran:?}");
        clean(&bench);
    }
}

#[tokio::test]
async fn a_limit_that_is_not_met_changes_nothing() {
    let bench = Bench::new().await;
    let limits = Limits {
        memory: Some(256 * MIB),
        processes: Some(64),
        disk: Some(64 * MIB),
        file_size: Some(32 * MIB),
        ..Limits::default()
    };
    let policy = bench.policy().limits(limits);
    let layers = bench.plan(&policy).layers();
    for layer in [Protection::MemoryLimit, Protection::ProcessLimit, Protection::DiskLimit, Protection::FileSizeLimit] {
        assert!(layers.contains(&layer), "{layers:?}");
    }
    let sandbox = bench.start(&policy).await;
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9)] {
        let ran = run(&sandbox, shell(script)).await;
        let expected = if status < 0 { Status::Signaled(-status) } else { Status::Exited(status) };
        assert_eq!((ran.exit.status, ran.exit.limit), (expected, None), "{script}");
    }
}

#[tokio::test]
async fn the_kernel_takes_commands_before_others() {
    let bench = Bench::new().await;
    let own: i64 = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().parse().unwrap();
    let ran = bench.sh(&bench.policy(), "cat /proc/self/oom_score_adj").await;
    assert_eq!(ran.out.trim().parse::<i64>().unwrap(), own.max(500));
}

/// The root of this machine's version 2 tree, where it can be written.
fn writable_tree() -> Option<PathBuf> {
    let found = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from);
    let tree = found.into_iter().find(|tree| tree.join("cgroup.controllers").exists());
    tree.filter(|tree| rustix::fs::access(tree, rustix::fs::Access::WRITE_OK).is_ok())
}

fn own_groups(tree: &Path) -> usize {
    let prefix = format!("sandbox-box-{}-", std::process::id());
    let entries = std::fs::read_dir(tree).unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count()
}

#[tokio::test]
async fn a_control_group_is_entered_killed_and_removed() {
    let bench = Bench::new().await;
    let Some(tree) = writable_tree() else {
        // Nothing to enter here, so boxes must not be told to.
        assert!(!nix::unistd::geteuid().is_root() && bench.host.control_groups.is_none(), "{:?}", bench.host);
        return;
    };
    let groups = ControlGroups { parent: tree.clone(), memory: false, processes: false, cpu: false };
    let host = Host { control_groups: Some(groups), ..bench.host.clone() };
    let plan = Enforcement::plan(&bench.policy(), &host).unwrap();
    let sandbox = soon(Sandbox::start(&plan, &bench.launcher)).await.unwrap();
    assert_eq!(own_groups(&tree), 1);
    let ran = run(&sandbox, shell("grep ^0:: /proc/self/cgroup; sleep 1000 & exit 3")).await;
    assert_eq!(ran.out, "0::/\n", "its group is all it sees");
    assert_eq!((ran.exit.status, ran.exit.leftovers), (Status::Exited(3), 1));
    let (mut child, _) = held(&sandbox, "trap '' TERM; (setsid sleep 1000 &); echo up; cat").await;
    sandbox.terminate(Signal::SIGTERM).await.unwrap();
    assert!(soon(sandbox.kill_all()).await.unwrap() >= 2);
    soon(child.wait()).await.unwrap();
    soon(sandbox.shutdown()).await.unwrap();
    assert_eq!(own_groups(&tree), 0, "none is left");
    // One whose parent is killed leaves it, and the next start there removes it.
    let left = tree.join(format!("sandbox-box-{}-1-0", u32::MAX));
    std::fs::create_dir(&left).unwrap();
    let other = tree.join(format!("sandbox-test-{}", std::process::id()));
    std::fs::create_dir(&other).unwrap();
    let sandbox = soon(Sandbox::start(&plan, &bench.launcher)).await.unwrap();
    soon(sandbox.shutdown()).await.unwrap();
    assert!(!left.exists() && other.exists());
    std::fs::remove_dir(&other).unwrap();
    // A place that is gone is told of, and nothing starts.
    let gone = ControlGroups { parent: tree.join("none"), memory: false, processes: false, cpu: false };
    let plan = Enforcement::plan(&bench.policy(), &Host { control_groups: Some(gone), ..host }).unwrap();
    let error = soon(Sandbox::start(&plan, &bench.launcher)).await.unwrap_err();
    assert!(error.to_string().contains("control group below"), "{error}");
}
