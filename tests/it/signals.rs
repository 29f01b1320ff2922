//! Signals as terminals, shells and service managers send them: to all that runs in a terminal, at its end, to stop the
//! program for a while and to let it go on.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::flow::plan;
use crate::going::{Going, assert_none_left, until};
use crate::world::{World, program};

/// One agent that answers SIGTERM, and waits for leave; it runs by a marker.
fn waiting(keys: &str, marker: &str) -> String {
    format!(
        "[run]\nname = 'x'\n[verify]\ncommand = ['true']\n[agents.one]\nowns = ['one/**']\n{keys}\nrun = ['sh', '-c', '''
            trap 'echo asked > one/asked; exit 3' TERM
            mkdir one; echo partial > one/partial; touch one/ready
            until test -e one/go; do sleep 0.02; done; : {marker}; rm one/go''']\n"
    )
}

fn worktree(world: &World) -> Option<PathBuf> {
    let keys = fs::read_dir(world.worktrees()).ok()?;
    keys.flatten().map(|key| key.path().join("x-1--one")).find(|path| path.exists())
}

fn file(world: &World, name: &str) {
    until(name, || worktree(world)?.join("one").join(name).exists().then_some(()));
}

fn go(world: &World) {
    fs::write(worktree(world).unwrap().join("one/go"), "").unwrap();
}

fn status(world: &World) -> Value {
    world.sandbox(&["status", "--json"]).expect(0).json()["data"].clone()
}

/// Started as a shell starts a job: in a process group of its own.
fn job(world: &World, text: &str) -> Going {
    let path = plan(world, text);
    let mut command = world.sandbox_command(&["run", &path, "--json"]);
    command.process_group(0);
    Going::of(command)
}

/// The agent was asked, had the time to answer, and what it had done is kept.
#[track_caller]
fn assert_ended_in_order(world: &World, marker: &str) {
    assert_none_left(marker);
    let status = status(world);
    assert_eq!((&status["state"], &status["agents"][0]["state"]), (&"incomplete".into(), &"interrupted".into()));
    for (name, content) in [("partial", "partial"), ("asked", "asked")] {
        assert_eq!(world.git(&["show", &format!("refs/sandbox/x-1/one/1.1:one/{name}")]), content);
    }
}

/// A terminal sends its signals to all that runs in it, not to the program alone: what serves the boxes must not die of it.
#[test]
fn what_a_terminal_sends_to_all_ends_the_run_in_order() {
    for (signal, code, marker) in
        [(Signal::SIGINT, 130, "86601"), (Signal::SIGHUP, 143, "86602"), (Signal::SIGTERM, 143, "86603")]
    {
        let world = World::new();
        let going = job(&world, &waiting("", marker));
        file(&world, "ready");
        going.signal_group(signal);
        going.wait().expect(code);
        assert_ended_in_order(&world, marker);
    }
}

/// The program on a terminal of its own, which `script` holds, and what is typed there.
fn on_a_terminal(world: &World, arguments: &[&str]) -> std::process::Child {
    let words = shell_words::join([program().to_str().unwrap()].iter().chain(arguments));
    let mut command = world.command("script");
    command.args(["-qec", &words, "/dev/null"]).env("TERM", "xterm-256color");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_key_on_a_real_terminal_ends_the_run_in_order() {
    let world = World::new();
    let path = plan(&world, &waiting("", "86604"));
    let mut terminal = on_a_terminal(&world, &["run", &path]);
    file(&world, "ready");
    terminal.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    let ended = until("it ends", || terminal.try_wait().unwrap());
    assert_eq!(ended.code(), Some(130));
    assert_ended_in_order(&world, "86604");
}

#[test]
fn a_terminal_that_is_closed_ends_the_run_in_order() {
    let world = World::new();
    let path = plan(&world, &waiting("", "86605"));
    let mut terminal = on_a_terminal(&world, &["run", &path]);
    file(&world, "ready");
    // The last one who held the terminal is gone, as when its window is closed.
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    // The program goes on for a while with nowhere to write to.
    until("the run ends", || (status(&world)["state"] == "incomplete").then_some(()));
    assert_ended_in_order(&world, "86605");
    let journal = fs::read_to_string(world.store().join("runs/x-1/journal.jsonl")).unwrap();
    let last: Value = serde_json::from_str(journal.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["data"]["exitCode"]), (&"run.finished".into(), &143.into()));
    until("the lock is free", || world.sandbox(&["merge"]).code.filter(|code| *code != 7));
}

#[test]
fn a_run_that_nobody_reads_goes_on_to_its_end() {
    let world = World::new();
    let path = plan(&world, &waiting("", "86606"));
    let mut command = world.sandbox_command(&["run", &path, "--verbose"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    file(&world, "ready");
    drop((child.stdout.take(), child.stderr.take()));
    go(&world);
    let ended = until("it ends", || child.try_wait().unwrap());
    assert_eq!((ended.code(), &status(&world)["state"]), (Some(0), &"complete".into()));
}

/// `nohup` and a shell's `&` have signals ignored by what they start.
#[test]
fn a_signal_that_was_ignored_at_the_start_stays_so() {
    for (ignored, signal) in [("HUP", Signal::SIGHUP), ("INT", Signal::SIGINT)] {
        let world = World::new();
        let path = plan(&world, &waiting("", "86607"));
        let mut command = world.command("sh");
        let script = format!("trap '' {ignored}; exec \"$0\" \"$@\"");
        command.args(["-c", &script]).arg(program()).args(["run", &path, "--json"]);
        let going = Going::of(command);
        file(&world, "ready");
        going.signal(signal);
        // It is handled by now, if it is: whoever asks later is answered later.
        world.sandbox(&["pause"]).expect(0);
        world.sandbox(&["resume"]).expect(0);
        go(&world);
        going.wait().expect(0);
    }
}

/// Ctrl-Z, and SIGSTOP, which no program sees: agents go on, and what passes meanwhile is not held against them.
#[test]
fn while_the_program_is_stopped_no_limit_on_time_runs_out() {
    for signal in [Signal::SIGTSTP, Signal::SIGSTOP] {
        let world = World::new();
        let script =
            "mkdir one; touch one/ready; until test -e one/stopped; do sleep 0.02; done; sleep 5; touch one/slept
                      until test -e one/go; do sleep 0.02; done; rm one/go one/stopped";
        let text = format!(
            "[run]\nname = 'x'\ntimeout = '5s'\n[sandbox]\nlimits = {{ time = '5s', idle = '3s' }}\n\
             [verify]\ncommand = ['true']\n[agents.one]\nowns = ['one/**']\nrun = ['sh', '-c', '''{script}''']\n"
        );
        let going = job(&world, &text);
        file(&world, "ready");
        going.signal_group(signal);
        going.wait_stopped();
        fs::write(worktree(&world).unwrap().join("one/stopped"), "").unwrap();
        // Longer than it may be silent, and than it may take.
        file(&world, "slept");
        assert_eq!(status(&world)["state"], "running", "it stands still, and lives");
        going.signal_group(Signal::SIGCONT);
        // It is at work again, and has looked at what passed.
        world.sandbox(&["pause"]).expect(0);
        world.sandbox(&["resume"]).expect(0);
        go(&world);
        let events = going.wait().expect(0).json_lines();
        let end = events.iter().find(|event| event["type"] == "attempt.finished").unwrap();
        assert_eq!(end["data"]["outcome"], "completed", "{signal} {end}");
    }
}

/// A `git` that hangs when it takes in what was captured, once there is a file that says so.
fn hanging_git(world: &World, marker: &str) {
    let flag = world.state().join("hang");
    let flag = flag.display();
    world.script(
        "git",
        &format!(
            "case \"$*\" in *index-pack*) if test -e {flag}; then echo $$ > {flag}.reached; exec sleep {marker}; fi;; esac\n\
             exec /usr/bin/git \"$@\"\n"
        ),
    );
}

#[test]
fn a_third_time_the_program_goes_where_it_stands_and_nothing_is_lost() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let world = World::new();
        hanging_git(&world, "86609");
        let going = job(&world, &waiting("", "86608"));
        file(&world, "ready");
        let flag = world.state().join("hang");
        fs::write(&flag, "").unwrap();
        going.signal(signal);
        let hanging: i32 = until("what it did is captured", || {
            fs::read_to_string(flag.with_extension("reached")).ok()?.trim().parse().ok()
        });
        going.signal(signal);
        going.signal(signal);
        // The second of two that come together may not be told apart from the first.
        until("it goes", || {
            let gone =
                fs::read_to_string(format!("/proc/{}/stat", going.pid())).map_or(true, |stat| stat.contains(") Z "));
            if !gone {
                going.signal(signal);
            }
            gone.then_some(())
        });
        going.wait().expect(code);
        assert_none_left("86608");
        let now = status(&world);
        assert_eq!((&now["state"], &now["agents"][0]["state"]), (&"interrupted".into(), &"interrupted".into()));
        fs::remove_file(&flag).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(hanging), Signal::SIGKILL).unwrap();
        let resumed = Going::start(&world, &["resume", "--json"]);
        let kept = || world.try_git(&["show", "refs/sandbox/x-1/one/1.1:one/partial"]).code == Some(0);
        until("what was not captured then is captured now", || kept().then_some(()));
        drop(resumed);
    }
}
