//! A terminal that a command is given cannot be typed into.

use crate::bench::{Bench, helper, run, shell};
use sandbox::{Command, Enforcement, Guard, Sandbox, Stdio};
use std::os::fd::OwnedFd;

/// Both ends of a new terminal. The slave is as a command's input would be: of no session.
fn terminal() -> (OwnedFd, OwnedFd) {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let master = rustix::pty::openpt(flags).unwrap();
    rustix::pty::unlockpt(&master).unwrap();
    let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let slave = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty()).unwrap();
    (master, slave)
}

async fn types(bench: &Bench, plan: &Enforcement) -> String {
    let (_master, slave) = terminal();
    let sandbox = Sandbox::start(plan, &bench.launcher).await.unwrap();
    let ran = run(&sandbox, Command::new(["/run/helper", "type"]).stdin(Stdio::Fd(slave))).await;
    sandbox.shutdown().await.unwrap();
    ran.out
}

#[tokio::test]
async fn nothing_is_typed_into_a_terminal() {
    let bench = Bench::new().await;
    let plan = bench.plan(&bench.policy());
    let setting = std::fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti").unwrap_or_else(|_| "1".to_owned());
    let bare = plan.clone().without_guard(|guard| matches!(guard, Guard::Seccomp { .. }));
    let expected = if setting.trim() == "1" { "ok typed\n" } else { "ok EIO\n" };
    assert_eq!(types(&bench, &bare).await, expected, "without the filter");
    assert_eq!(types(&bench, &plan).await, "ok EPERM\n");
    assert!(helper().exists());
}

#[tokio::test]
async fn a_command_has_no_controlling_terminal() {
    let bench = Bench::new().await;
    let (_master, slave) = terminal();
    let sandbox = bench.start(&bench.policy()).await;
    let script =
        "test -t 0 && echo terminal; cut -d' ' -f 7 /proc/$$/stat; (: < /dev/tty) 2>&1 | grep -o 'No such device'";
    let ran = run(&sandbox, shell(script).stdin(Stdio::Fd(slave))).await;
    assert_eq!(ran.out, "terminal\n0\nNo such device\n", "it can use one, and is not bound to it");
}
