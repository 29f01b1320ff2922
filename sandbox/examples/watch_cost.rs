//! What init's watch over its box costs, in millionths of a processor: with no limit and with all of them, for a few and
//! for many processes. `cargo run --release --example watch_cost`.
#![expect(clippy::print_stdout, reason = "an example: it prints what it measures")]

use sandbox::{Command, Enforcement, Host, Launcher, Limits, Policy, PrivateDir, Sandbox, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;

/// How long each is measured.
const WHILE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    sandbox::init_main_if_asked();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let launcher = Launcher::default();
        let host = Host::probe(&launcher).await;
        let folder = tempfile::tempdir()?;
        let root = folder.path().canonicalize()?;
        for name in ["work", "home", "tmp"] {
            std::fs::create_dir(root.join(name))?;
        }
        let all = Limits {
            memory: Some(8 << 30),
            processes: Some(2000),
            disk: Some(8 << 30),
            file_size: Some(8 << 30),
            ..Limits::default()
        };
        for (name, limits) in [("no limits", Limits::default()), ("all limits", all)] {
            for processes in [1, 300, 1500] {
                let home = PrivateDir { source: root.join("home"), target: root.join("home") };
                let policy = Policy::new(root.join("work"), home, root.join("tmp")).limits(limits.clone());
                let plan = Enforcement::plan(&policy, &host)?;
                let boxed = Sandbox::start(&plan, &launcher).await?;
                let script = format!(
                    "n=1; while [ $n -lt {processes} ]; do sleep 1000 & n=$((n+1)); done; echo up; exec sleep 1000"
                );
                let command =
                    Command::new(["/bin/sh", "-c", &script]).env("PATH", "/usr/bin:/bin").stdout(Stdio::Piped);
                let mut child = boxed.spawn(command).await?;
                let mut up = [0; 3];
                child.stdout.take().ok_or("no output")?.read_exact(&mut up).await?;
                let init = init().ok_or("no init found")?;
                tokio::time::sleep(Duration::from_secs(1)).await;
                let before = used(init)?;
                tokio::time::sleep(WHILE).await;
                let share = (used(init)? - before) * 1_000_000 / u64::try_from(WHILE.as_nanos())?;
                println!("{name}, {processes} processes: {share} millionths of a processor");
                if let Ok(exit) = tokio::time::timeout(Duration::ZERO, child.wait()).await {
                    return Err(format!("the command ended early: {exit:?}").into());
                }
                boxed.shutdown().await?;
            }
        }
        Ok(())
    })
}

/// The init of the one box there is: the child of our child.
fn init() -> Option<u32> {
    let children = |pid: u32| -> Vec<u32> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    };
    let outer = children(std::process::id());
    outer.into_iter().flat_map(children).next()
}

/// Processor time so far, in nanoseconds.
fn used(pid: u32) -> Result<u64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}
