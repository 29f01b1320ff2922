//! What confinement costs: the time from nothing to the end of `true`, with one guard more each time.
//!
//! Prints medians in milliseconds. `cargo run --release -p sandbox --example start_cost`
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "it measures, beside boxes a plain process too")]

use sandbox::{Command, Enforcement, Guard, Host, Launcher, Policy, PrivateDir, Sandbox};
use std::error::Error;
use std::time::{Duration, Instant};

/// How often each is done.
const TIMES: usize = 101;

fn main() -> Result<(), Box<dyn Error>> {
    sandbox::init_main_if_asked();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> Result<(), Box<dyn Error>> {
    let root = tempfile::tempdir()?;
    let root = root.path().canonicalize()?;
    for name in ["work", "home", "user", "tmp"] {
        std::fs::create_dir(root.join(name))?;
    }
    let launcher = Launcher::default();
    let begun = Instant::now();
    let host = Host::probe(&launcher).await;
    println!("probe of the machine {:9.2}", milliseconds(begun.elapsed()));
    let home = PrivateDir { source: root.join("home"), target: root.join("user") };
    let whole = Enforcement::plan(&Policy::new(root.join("work"), home, root.join("tmp")), &host)?;
    let is_filter = |guard: &Guard| matches!(guard, Guard::Seccomp { .. });
    let plans = [
        ("box, no guard", whole.clone().without_guard(|_| true)),
        ("box, landlock", whole.clone().without_guard(is_filter)),
        ("box, seccomp", whole.clone().without_guard(|guard| !is_filter(guard))),
        ("box, both", whole.clone()),
    ];

    let mut plain = Vec::new();
    let mut boxed = vec![Vec::new(); plans.len()];
    // In turns, so that what else the machine does falls on all of them.
    for _ in 0..TIMES {
        let begun = Instant::now();
        tokio::process::Command::new("/bin/true").status().await?;
        plain.push(begun.elapsed());
        for ((_, plan), times) in plans.iter().zip(&mut boxed) {
            let begun = Instant::now();
            let sandbox = Sandbox::start(plan, &launcher).await?;
            sandbox.spawn(Command::new(["/bin/true"])).await?.wait().await?;
            times.push(begun.elapsed());
            sandbox.shutdown().await?;
        }
    }
    println!("fork and exec        {:9.2}", median(plain));
    for ((name, _), times) in plans.iter().zip(boxed) {
        println!("{name:20} {:9.2}", median(times));
    }

    let sandbox = Sandbox::start(&whole, &launcher).await?;
    let mut further = Vec::new();
    for _ in 0..TIMES {
        let begun = Instant::now();
        sandbox.spawn(Command::new(["/bin/true"])).await?.wait().await?;
        further.push(begun.elapsed());
    }
    println!("a further command    {:9.2}", median(further));
    Ok(())
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    milliseconds(times.get(times.len() / 2).copied().unwrap_or_default())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
