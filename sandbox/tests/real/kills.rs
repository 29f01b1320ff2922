//! Every way to stay, against every way to be ended: none is left a second later.

use crate::bench::{Bench, helper, shell, soon};
use sandbox::{Signal, Stdio};
use std::process::Stdio as Std;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

/// The ways of `sandbox-test-box stray`.
const BEHAVIOURS: [&str; 6] = ["session", "daemon", "deaf", "hopper", "stopped", "holder"];

/// From the decision to the end of the last process.
const LIMIT: Duration = Duration::from_secs(1);

/// How many processes of this machine have the mark among their arguments.
fn marked(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())).count()
}

fn mark(bench: &Bench, what: &str) -> String {
    format!("mark-{what}{}", bench.root.display()).replace('/', "-")
}

/// Starts the stray one beside the command, which waits for it and is as deaf; says `up` once the stray is there.
fn script(behaviour: &str, mark: &str) -> String {
    format!("trap '' TERM; /run/helper stray {behaviour} {mark} & wait; exec sleep 1000")
}

#[tokio::test]
async fn a_command_whose_time_is_up() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    for behaviour in BEHAVIOURS {
        let mark = mark(&bench, behaviour);
        let mut child = sandbox.spawn(shell(&script(behaviour, &mark)).stdout(Stdio::Piped)).await.unwrap();
        assert_eq!(crate::bench::line(&mut child).await, "up");
        sandbox.terminate(Signal::SIGTERM).await.unwrap();
        assert!(marked(&mark) > 0, "{behaviour} does not listen to TERM");
        let decided = Instant::now();
        assert!(soon(sandbox.kill_all()).await.unwrap() > 0);
        soon(child.wait()).await.unwrap();
        crate::bench::read(child.stdout.take().unwrap()).await;
        assert!(decided.elapsed() < LIMIT, "{behaviour}: {:?}", decided.elapsed());
        assert_eq!(marked(&mark), 0, "{behaviour}");
    }
}

#[tokio::test]
async fn a_command_that_ends_by_itself() {
    let bench = Bench::new().await;
    let sandbox = bench.start(&bench.policy()).await;
    for behaviour in BEHAVIOURS {
        let mark = mark(&bench, behaviour);
        let script = format!("/run/helper stray {behaviour} {mark} & read go; exit 3");
        let command = shell(&script).stdin(Stdio::Piped).stdout(Stdio::Piped);
        let mut child = sandbox.spawn(command).await.unwrap();
        assert_eq!(crate::bench::line(&mut child).await, "up");
        assert!(marked(&mark) > 0, "{behaviour}");
        let decided = Instant::now();
        drop(child.stdin.take());
        let exit = soon(child.wait()).await.unwrap();
        assert_eq!(exit.status, sandbox::Status::Exited(3), "{behaviour}");
        assert!(exit.leftovers > 0 && decided.elapsed() < LIMIT, "{behaviour}: {:?}", decided.elapsed());
        crate::bench::read(child.stdout.take().unwrap()).await;
        assert_eq!(marked(&mark), 0, "{behaviour}");
    }
}

#[tokio::test]
async fn a_box_that_is_killed() {
    let bench = Bench::new().await;
    for behaviour in BEHAVIOURS {
        let mark = mark(&bench, behaviour);
        let sandbox = bench.start(&bench.policy()).await;
        let mut child = sandbox.spawn(shell(&script(behaviour, &mark)).stdout(Stdio::Piped)).await.unwrap();
        assert_eq!(crate::bench::line(&mut child).await, "up");
        assert!(marked(&mark) > 0, "{behaviour}");
        let decided = Instant::now();
        soon(sandbox.kill()).await.unwrap();
        assert_eq!(marked(&mark), 0, "{behaviour}: none when the call returns");
        crate::bench::read(child.stdout.take().unwrap()).await;
        assert!(decided.elapsed() < LIMIT, "{behaviour}: {:?}", decided.elapsed());
    }
}

#[tokio::test]
async fn a_box_whose_parent_is_killed() {
    let bench = Bench::new().await;
    for behaviour in BEHAVIOURS {
        let mark = mark(&bench, behaviour);
        // The mark is not among the parent's own arguments, nor the shell's.
        let whole =
            format!("m={}; /run/helper stray {behaviour} $m & wait; sleep 1000", mark.replace("mark", "ma\"\"rk"));
        let mut command = tokio::process::Command::new(helper());
        command.arg("parent").arg(&bench.root).arg(whole).stdin(Std::null()).stdout(Std::piped()).kill_on_drop(true);
        let mut parent = command.spawn().unwrap();
        let mut stdout = BufReader::new(parent.stdout.take().unwrap());
        let mut line = String::new();
        soon(stdout.read_line(&mut line)).await.unwrap();
        assert_eq!(line, "up\n", "{behaviour}");
        assert!(marked(&mark) > 0, "{behaviour}");
        let bystander = crate::ends::child_of(parent.id().unwrap(), "sleep");
        let decided = Instant::now();
        parent.start_kill().unwrap();
        let mut rest = String::new();
        soon(stdout.read_to_string(&mut rest)).await.unwrap();
        assert_eq!(marked(&mark), 0, "{behaviour}: the last one had the output open");
        assert!(decided.elapsed() < LIMIT, "{behaviour}: {:?}", decided.elapsed());
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(bystander), Signal::SIGKILL).unwrap();
    }
}
