//! A `sandbox` that runs in the background while a test does something to it. Every wait is bounded.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;

use crate::world::{Ran, World};

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program under way. Killed when dropped.
pub(crate) struct Going {
    child: Child,
    lines: Receiver<String>,
    errors: Option<std::thread::JoinHandle<String>>,
    seen: Vec<String>,
}

impl Going {
    /// Starts `sandbox` with these arguments.
    pub(crate) fn start(world: &World, arguments: &[&str]) -> Self {
        Self::of(world.sandbox_command(arguments))
    }

    /// Starts a program that is, or becomes, `sandbox`.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            drop(stderr.read_to_string(&mut text));
            text
        });
        Self { child, lines, errors: Some(errors), seen: Vec::new() }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Waits until an event comes that is looked for.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let event: Value = serde_json::from_str(&line).unwrap();
                    self.seen.push(line);
                    if wanted(&event) {
                        return event;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("the event did not come:\n{}", self.seen.join("\n")),
                Err(RecvTimeoutError::Disconnected) => {
                    let errors = self.errors.take().unwrap().join().unwrap();
                    panic!("ended before the event came:\n{}\n{errors}", self.seen.join("\n"))
                }
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Signals all that runs in the program's process group, as a terminal does. It must have one of its own.
    pub(crate) fn signal_group(&self, signal: Signal) {
        killpg(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Waits until the program stands still, as the kernel tells it.
    #[track_caller]
    pub(crate) fn wait_stopped(&self) {
        until("it is stopped", || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).ok()?;
            stat.rsplit_once(')')?.1.trim_start().starts_with('T').then_some(())
        });
    }

    /// Waits for a death, with whatever it had written.
    #[track_caller]
    pub(crate) fn wait_dead(mut self) -> Vec<String> {
        until("the program is dead", || self.child.try_wait().unwrap());
        std::mem::take(&mut self.seen)
    }

    /// Waits for the end; what it wrote is all of it, also what was waited for.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Ran {
        let status = until("the program ends", || self.child.try_wait().unwrap());
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.seen.push(line);
        }
        let stdout = self.seen.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        let stderr = self.errors.take().unwrap().join().unwrap();
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        Ran { code, stdout, stderr }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Asks again and again until there is an answer.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The processes whose command line holds a marker.
pub(crate) fn processes_with(marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if !pid.bytes().all(|byte| byte.is_ascii_digit()) || pid == std::process::id().to_string() {
            continue;
        }
        // A process that is gone meanwhile has no command line; neither has one that is dead and not yet waited for.
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(marker) {
            found.push(format!("{pid}: {line}"));
        }
    }
    found
}

/// Asserts that no process with the marker is left, giving those that are dying a moment.
#[track_caller]
pub(crate) fn assert_none_left(marker: &str) {
    let end = Instant::now() + Duration::from_secs(2);
    loop {
        let left = processes_with(marker);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "left behind: {left:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
