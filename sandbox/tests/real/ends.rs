//! How commands and boxes end, and that nothing is left then.

use crate::bench::{Bench, helper, line, read, run, shell, soon};
use sandbox::{BoxError, Command, Signal, Status, Stdio};
use std::process::Stdio as Std;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

#[tokio::test]
async fn escapees_are_dead_and_counted_when_a_command_ends() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    let script = "sleep 1000 & setsid sleep 1000 & (sleep 1000 &); trap '' TERM; (nohup sleep 1000 >&2 &); exit 5";
    let mut child = sandbox.spawn(shell(script).stdout(Stdio::Piped)).await.unwrap();
    let exit = soon(child.wait()).await.unwrap();
    assert_eq!((exit.status, exit.leftovers), (Status::Exited(5), 4));
    // All of them held the pipe; its end is their death.
    read(child.stdout.take().unwrap()).await;
}

#[tokio::test]
async fn what_a_box_holds_is_closed_with_its_end_and_never_a_commands() {
    let bench = Bench::new().await;
    let weaker = sandbox::Host { obstacle: Some(sandbox::Obstacle::NamespacesOff), ..bench.host.clone() };
    let policy = bench.policy().may_lack(sandbox::Layer::Namespaces);
    for host in [&bench.host, &weaker] {
        let plan = sandbox::Enforcement::plan(&policy, host).unwrap();
        let (end, held) = std::io::pipe().unwrap();
        let held = std::os::fd::OwnedFd::from(held);
        let boxed = soon(sandbox::Sandbox::start_holding(&plan, &bench.launcher, held)).await.unwrap();
        let ran = run(&boxed, shell("for fd in /proc/self/fd/*; do readlink $fd; done | grep -c pipe")).await;
        let other = soon(sandbox::Sandbox::start(&plan, &bench.launcher)).await.unwrap();
        assert_eq!(
            ran.out,
            run(&other, shell("for fd in /proc/self/fd/*; do readlink $fd; done | grep -c pipe")).await.out
        );
        soon(other.shutdown()).await.unwrap();
        rustix::io::ioctl_fionbio(&end, true).unwrap();
        let mut buffer = [0; 1];
        let while_it_lives = rustix::io::read(&end, &mut buffer);
        assert_eq!(while_it_lives, Err(rustix::io::Errno::AGAIN), "the box has it open");
        soon(boxed.shutdown()).await.unwrap();
        assert_eq!(rustix::io::read(&end, &mut buffer), Ok(0), "nobody has it open any more");
    }
}

#[tokio::test]
async fn one_that_forks_away_for_ever_is_dead_too() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    for _ in 0..5 {
        let script = "for n in 1 2 3 4; do /run/helper hop x & done; exit 0";
        let mut child = sandbox.spawn(shell(script).stdout(Stdio::Piped)).await.unwrap();
        assert_eq!(soon(child.wait()).await.unwrap().status, Status::Exited(0));
        read(child.stdout.take().unwrap()).await;
    }
    let ran = run(&sandbox, shell("echo /proc/[0-9]*")).await;
    assert_eq!(ran.out.split_whitespace().count(), 2, "{}", ran.out);
}

#[tokio::test]
async fn a_polite_signal_reaches_all_and_a_kill_those_who_do_not_listen() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    let mut polite = sandbox.spawn(shell("echo up; exec sleep 1000").stdout(Stdio::Piped)).await.unwrap();
    line(&mut polite).await;
    sandbox.terminate(Signal::SIGTERM).await.unwrap();
    assert_eq!(soon(polite.wait()).await.unwrap().status, Status::Signaled(15));

    let script = "trap '' TERM; sleep 1000 & echo up; while :; do sleep 1000; done";
    let mut deaf = sandbox.spawn(shell(script).stdout(Stdio::Piped)).await.unwrap();
    line(&mut deaf).await;
    sandbox.terminate(Signal::SIGTERM).await.unwrap();
    let alive = sandbox.freeze().await.unwrap();
    assert!(alive >= 2, "still there after TERM: {alive}");
    let killed = soon(sandbox.kill_all()).await.unwrap();
    assert_eq!(killed, alive);
    let exit = soon(deaf.wait()).await.unwrap();
    assert_eq!((exit.status, exit.leftovers), (Status::Signaled(9), killed - 1));
    assert!(run(&sandbox, shell("true")).await.ok(), "the box goes on");
}

#[tokio::test]
async fn a_full_or_held_pipe_does_not_hide_the_end() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    let script = "(sh -c 'while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done' &); sleep 1000 & exit 7";
    let mut child = sandbox.spawn(shell(script).stdout(Stdio::Piped)).await.unwrap();
    // Nobody reads.
    assert_eq!(soon(child.wait()).await.unwrap().status, Status::Exited(7));
    read(child.stdout.take().unwrap()).await;
}

#[tokio::test]
async fn a_frozen_box_stands_still() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    let size = || std::fs::metadata(bench.root.join("work/log")).map_or(0, |meta| meta.len());
    // A deadline for changes, counted in other work instead of time.
    let changes = async |from: u64| {
        for _ in 0..200 {
            run(&sandbox, shell("true").aside()).await;
            if size() != from {
                return true;
            }
        }
        false
    };
    let script = "/run/helper write-on log & /run/helper write-on log & echo up; wait";
    let mut child = sandbox.spawn(shell(script).stdout(Stdio::Piped)).await.unwrap();
    line(&mut child).await;
    assert!(changes(0).await, "it writes while it may");
    for _ in 0..5 {
        assert_eq!(sandbox.freeze().await.unwrap(), 3);
        let still = size();
        for _ in 0..20 {
            run(&sandbox, shell("true").aside()).await;
        }
        assert_eq!(size(), still);
        sandbox.thaw().await.unwrap();
        assert!(changes(still).await, "it goes on");
    }
    sandbox.kill_all().await.unwrap();
    assert_eq!(soon(child.wait()).await.unwrap().status, Status::Signaled(9));
    assert_eq!(sandbox.freeze().await.unwrap(), 0, "nobody is there to be stopped");
}

#[tokio::test]
async fn one_that_starts_processes_all_the_time_can_be_frozen() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    let script = "while :; do /bin/true; done & echo up; while :; do /bin/true | /bin/true; done";
    let mut child = sandbox.spawn(shell(script).stdout(Stdio::Piped)).await.unwrap();
    line(&mut child).await;
    for _ in 0..30 {
        assert!(sandbox.freeze().await.unwrap() >= 2);
        sandbox.thaw().await.unwrap();
    }
    sandbox.kill_all().await.unwrap();
    soon(child.wait()).await.unwrap();
}

#[tokio::test]
async fn a_killed_box_is_gone_and_says_so() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    let mut child = sandbox.spawn(shell("echo up; exec sleep 1000").stdout(Stdio::Piped)).await.unwrap();
    line(&mut child).await;
    soon(sandbox.kill()).await.unwrap();
    assert!(matches!(soon(child.wait()).await, Err(BoxError::Gone)));
    assert!(matches!(soon(sandbox.kill_all()).await, Err(BoxError::Gone)));
    read(child.stdout.take().unwrap()).await;
}

#[tokio::test]
async fn dropping_a_box_kills_it() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    let mut child =
        sandbox.spawn(shell("echo up; setsid sleep 1000 & exec sleep 1000").stdout(Stdio::Piped)).await.unwrap();
    line(&mut child).await;
    drop(sandbox);
    read(child.stdout.take().unwrap()).await;
}

/// A process that holds a box and shares its output with the box's command.
fn holder(bench: &Bench) -> tokio::process::Child {
    let mut command = tokio::process::Command::new(helper());
    command.arg("parent").arg(&bench.root).stdin(Std::null()).stdout(Std::piped()).kill_on_drop(true);
    command.spawn().unwrap()
}

#[tokio::test]
async fn a_box_dies_with_its_parent() {
    let bench = Bench::new().await;
    let mut parent = holder(&bench);
    let mut stdout = BufReader::new(parent.stdout.take().unwrap());
    let mut started = String::new();
    soon(stdout.read_line(&mut started)).await.unwrap();
    assert_eq!(started, "started\n");
    let bystander = child_of(parent.id().unwrap(), "sleep");
    parent.start_kill().unwrap();
    let mut rest = String::new();
    soon(stdout.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(rest, "", "the parent had no time to say anything");
    // Still there, with all that it inherited: only the box is gone.
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(bystander), Signal::SIGKILL).unwrap();
}

#[tokio::test]
async fn a_box_dies_with_its_outer_process() {
    let bench = Bench::new().await;
    let mut parent = holder(&bench);
    let mut stdout = BufReader::new(parent.stdout.take().unwrap());
    let mut started = String::new();
    soon(stdout.read_line(&mut started)).await.unwrap();
    let bystander = child_of(parent.id().unwrap(), "sleep");
    let outer = child_of(parent.id().unwrap(), "exe");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(outer), Signal::SIGKILL).unwrap();
    let mut rest = String::new();
    soon(stdout.read_to_string(&mut rest)).await.unwrap();
    // While it waited, or while the answer that the command runs was still on its way.
    let learnt = rest.contains("Gone") || rest.contains("the sandbox has ended");
    assert!(learnt, "the parent learnt of it: {rest}");
    // Before its parent ends, which has not collected it.
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(bystander), Signal::SIGKILL).unwrap();
    soon(parent.wait()).await.unwrap();
}

/// The one child of that name.
pub(crate) fn child_of(parent: u32, name: &str) -> i32 {
    let wanted = [format!("Name:\t{name}"), format!("PPid:\t{parent}")];
    let matches = |pid: i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        wanted.iter().all(|line| status.lines().any(|l| l == line))
    };
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let children: Vec<i32> = all.filter(|pid| matches(*pid)).collect();
    assert_eq!(children.len(), 1, "{children:?}");
    children[0]
}

#[tokio::test]
async fn many_boxes_at_once() {
    let bench = Bench::new().await;
    let plan = bench.plan(&bench.policy());
    let boxes = (0..20).map(|n| {
        let (plan, launcher) = (plan.clone(), bench.launcher.clone());
        tokio::spawn(async move {
            let sandbox = sandbox::Sandbox::start(&plan, &launcher).await.unwrap();
            let mut child = sandbox.spawn(Command::new(["/bin/sh", "-c", &format!("exit {n}")])).await.unwrap();
            let exit = child.wait().await.unwrap();
            sandbox.shutdown().await.unwrap();
            assert_eq!(exit.status, Status::Exited(n));
        })
    });
    for one in boxes.collect::<Vec<_>>() {
        soon(one).await.unwrap();
    }
}
