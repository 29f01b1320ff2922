//! Those who take too much, each with a bound of its own, so that they do no harm where nothing else stops them.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

type Outcome = Result<String, Box<dyn std::error::Error>>;

/// The most memory or disk that any of them takes, in MiB, and the most processes.
const MOST_MIB: usize = 2048;
const MOST_PROCESSES: usize = 2000;

pub(crate) fn hog(what: &[&str]) -> Outcome {
    match what {
        // Takes memory a MiB at a time; then says so, and stays until its input ends.
        ["memory", mib] => memory(mib),
        ["memory-file", mib] => memory_file(mib),
        // The same of one that lets nobody look at its files.
        ["hidden-memory-file", mib] => {
            rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
            memory_file(mib)
        }
        // The same of any, in a process whose first thread has ended.
        ["headless", rest @ ..] => headless(rest),
        ["family", count, mib] => family(count, mib),
        ["fill", path, mib] => fill(OpenOptions::new().create(true).append(true).open(path)?, mib),
        ["fill-nameless", path, mib] => {
            let file = OpenOptions::new().create_new(true).write(true).open(path)?;
            std::fs::remove_file(path)?;
            fill(file, mib)
        }
        ["fork", count] => fork(count, false),
        ["fork-or-fail", count] => fork(count, true),
        other => Err(format!("no such hog: {other:?}").into()),
    }
}

fn mib(text: &str) -> Result<usize, std::num::ParseIntError> {
    text.parse().map(|mib: usize| mib.min(MOST_MIB))
}

/// Until the input ends: a closed or empty one at once.
fn stay() -> std::io::Result<()> {
    println!("up");
    std::io::stdin().read_to_end(&mut Vec::new()).map(drop)
}

fn memory(most: &str) -> Outcome {
    let mut held = Vec::new();
    for _ in 0..mib(most)? {
        held.push(vec![1_u8; 1 << 20]);
    }
    stay()?;
    Ok(format!("{} MiB", held.len()))
}

/// Memory that no process has mapped and that has no name.
fn memory_file(most: &str) -> Outcome {
    let mut file = File::from(memfd_create(c"hog", MemfdFlags::CLOEXEC)?);
    let block = vec![1_u8; 1 << 20];
    for _ in 0..mib(most)? {
        file.write_all(&block)?;
    }
    stay()?;
    Ok("written".to_owned())
}

fn headless(rest: &[&str]) -> Outcome {
    let rest: Vec<String> = rest.iter().map(|word| (*word).to_owned()).collect();
    std::thread::spawn(move || {
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let outcome = hog(&rest);
        println!("{outcome:?}");
        std::process::exit(i32::from(outcome.is_err()));
    });
    crate::calls::end_thread()
}

/// Several that take a little each.
fn family(count: &str, mib: &str) -> Outcome {
    let start = |_| Command::new("/proc/self/exe").args(["hog", "memory", mib]).stdin(Stdio::piped()).spawn();
    let mut all: Vec<_> = (0..count.parse::<usize>()?.min(64)).map(start).collect::<Result<_, _>>()?;
    stay()?;
    for one in &mut all {
        drop(one.stdin.take());
        one.wait()?;
    }
    Ok("all ended".to_owned())
}

fn fill(mut file: File, most: &str) -> Outcome {
    let block = vec![1_u8; 1 << 20];
    for _ in 0..mib(most)? {
        file.write_all(&block)?;
    }
    stay()?;
    Ok("filled".to_owned())
}

/// Starts processes that stay, as many as told, or until no more can be had.
fn fork(count: &str, fail: bool) -> Outcome {
    let mut all = Vec::new();
    let mut refused = None;
    for _ in 0..count.parse::<usize>()?.min(MOST_PROCESSES) {
        match Command::new("/bin/sleep").arg("100").stdin(Stdio::null()).stdout(Stdio::null()).spawn() {
            Ok(child) => all.push(child),
            // What was started goes on, as after a shell that cannot fork.
            Err(error) if fail => return Err(error.into()),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    println!("{} {refused:?}", all.len());
    stay()?;
    for child in &mut all {
        child.kill()?;
        child.wait()?;
    }
    Ok(format!("{}", all.len()))
}
