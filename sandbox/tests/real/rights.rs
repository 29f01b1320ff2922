//! What a process in a box is, and what it may ask of the kernel.

use crate::bench::Bench;
use sandbox::{Enforcement, Guard, Nesting, Protection, Step};
use std::fmt::Write as _;

#[tokio::test]
async fn no_user_zero_no_capability_no_new_privilege() {
    let bench = Bench::new().await;
    let ran = bench.sh(&bench.policy(), "id -u; grep -E '^(Cap|NoNewPrivs|Groups)' /proc/self/status").await;
    let expected = if bench.host.uid == 0 { 1000 } else { bench.host.uid };
    let mut lines = ran.out.lines();
    assert_eq!(lines.next(), Some(expected.to_string().as_str()));
    for line in lines {
        let value = line.split_whitespace().nth(1).unwrap_or_default();
        match line.split(':').next().unwrap() {
            "NoNewPrivs" => assert_eq!(value, "1"),
            "Groups" => assert!(bench.host.uid != 0 || value.is_empty() || value == "1000", "{line}"),
            _ => assert!(value.bytes().all(|b| b == b'0'), "{line}"),
        }
    }
    assert_eq!(ran.out.matches("Cap").count(), 5);
}

#[tokio::test]
async fn the_hosts_kernel_settings_cannot_be_opened_for_writing() {
    let bench = Bench::new().await;
    let plan = bench.plan(&bench.policy());
    let open = "/run/helper open-for-writing /proc/sys/kernel/core_pattern";
    let bare = plan.clone().without(|step| matches!(step, Step::ProtectProcesses));
    let baseline = bench.sh_by(&bare, open).await;
    if bench.host.uid == 0 {
        assert!(baseline.ok(), "root's box can have the host run anything: {}", baseline.out);
    }
    let ran = bench.sh_by(&plan, open).await;
    let refusal = if bench.host.uid == 0 { "Read-only file system" } else { "denied" };
    assert!(ran.out.contains(refusal), "{}", ran.out);
    let rest = bench
        .sh_by(&plan, "for f in /proc/irq/default_smp_affinity /proc/sysrq-trigger; do test -e $f && /run/helper open-for-writing $f; done; true")
        .await;
    assert!(!rest.out.contains("ok opened"), "{}", rest.out);
}

#[tokio::test]
async fn modes_that_all_of_the_host_shares_cannot_be_changed() {
    let bench = Bench::new().await;
    let plan = bench.plan(&bench.policy());
    // The mode it has anyway, so that the baseline changes nothing.
    let script = "for f in kallsyms version sys/kernel/ostype; do chmod 444 /proc/$f && echo changed $f; done; true";
    if bench.host.uid == 0 {
        let bare = plan.clone().without(|step| matches!(step, Step::ProtectProcesses));
        let baseline = bench.sh_by(&bare, script).await;
        assert!(baseline.out.contains("changed kallsyms"), "{}", baseline.out);
    }
    let ran = bench.sh_by(&plan, script).await;
    assert!(!ran.out.contains("changed"), "{}", ran.out);
    assert_eq!(ran.out.lines().count(), 3, "each must be refused: {}", ran.out);
    let own = bench.sh_by(&plan, "echo 500 > /proc/self/oom_score_adj && cat /proc/self/oom_score_adj").await;
    assert_eq!(own.out, "500\n", "what is about the box's own processes stays as it is");
}

#[tokio::test]
async fn init_cannot_be_read() {
    let bench = Bench::new().await;
    let plan = bench.plan(&bench.policy());
    let script = "cat /proc/1/environ > /dev/null && ls /proc/1/fd /proc/1/root > /dev/null && echo read";
    let dumpable = plan.clone().without(|step| matches!(step, Step::Undumpable));
    let unfenced = |plan: &Enforcement| plan.clone().without_guard(|guard| matches!(guard, Guard::Landlock { .. }));
    let baseline = bench.sh_by(&unfenced(&dumpable), script).await;
    assert!(baseline.out.contains("read"), "{}", baseline.out);
    // Each of the two is enough, and Landlock may not be there.
    for plan in [&plan, &unfenced(&plan)] {
        let ran = bench.sh_by(plan, script).await;
        assert!(ran.out.contains("Permission denied") && !ran.ok(), "{}", ran.out);
    }
    let ran = bench.sh_by(&dumpable, script).await;
    assert_eq!(ran.ok(), !plan.layers().contains(&Protection::LandlockFiles), "{}", ran.out);
}

#[tokio::test]
async fn processes_outside_do_not_exist() {
    let bench = Bench::new().await;
    let mut script = "echo /proc/[0-9]*; ".to_owned();
    let own = std::process::id();
    write!(script, "kill -0 {own}; cat /proc/{own}/environ").unwrap();
    let ran = bench.sh(&bench.policy(), &script).await;
    let first = ran.out.lines().next().unwrap();
    assert_eq!(first, "/proc/1 /proc/2", "{}", ran.out);
    assert!(ran.out.contains("No such process") && ran.out.contains("No such file"), "{}", ran.out);
}

#[tokio::test]
async fn namespaces_cannot_be_nested_unless_allowed() {
    let bench = Bench::new().await;
    let script = "/run/helper new-user-namespace";
    let baseline = bench.sh(&bench.policy().nesting(Nesting::Allowed), script).await;
    assert!(baseline.ok(), "{}", baseline.out);
    let plan = bench.plan(&bench.policy());
    let ran = bench.sh_by(&plan, script).await;
    assert!(ran.out.contains("EPERM"), "by the filter: {}", ran.out);
    let ran = bench.sh_by(&plan.without_guard(|guard| matches!(guard, Guard::Seccomp { .. })), script).await;
    assert!(ran.out.contains("ENOSPC"), "and by the limit: {}", ran.out);
}

#[tokio::test]
async fn mounts_cannot_be_undone_from_a_nested_namespace() {
    let bench = Bench::new().await;
    let policy = bench.policy().nesting(Nesting::Allowed).pin(bench.root.join("work/.git"));
    let script = "unshare -Urm sh -c 'umount /proc/sys; umount -l /tmp; mount -o remount,bind,rw /; mount -o remount,bind,rw .git; \
         umount .git; echo x > .git; mount -t proc proc /mnt; echo x > /proc/sys/kernel/core_pattern; touch /usr/x'; true";
    let ran = bench.sh(&policy, script).await;
    assert!(ran.out.lines().count() >= 9, "each must fail: {}", ran.out);
    assert_eq!(std::fs::read_to_string(bench.root.join("work/.git")).unwrap(), "gitdir: elsewhere\n");
}
