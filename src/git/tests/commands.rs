//! Running one process: time, pipes, groups, environment.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::super::testing::{Fixture, each_git, script};
use super::super::*;

/// A program that answers `version` as git does, and does `body` otherwise.
fn pretender(folder: &Path, body: &str) -> Git {
    let program = folder.join("pretender");
    script(&program, &format!("case \"$*\" in *version) echo git version 2.47.0; exit;; esac\n{body}"));
    Git::find_in(Some(program.into()), [("PATH".into(), "/usr/bin:/bin".into())]).unwrap()
}

#[test]
fn a_process_that_hangs_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let git = pretender(folder.path(), &format!("sleep 600 & echo $! > '{0}'; echo $$ >> '{0}'; wait", pids.display()));
    let begun = Instant::now();
    let result = Command::new(&git, Access::Read, "status").timeout(Duration::from_secs(4)).run();
    assert!(matches!(result, Err(Error::TimedOut { .. })), "{result:?}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    let numbers = std::fs::read_to_string(pids).unwrap();
    assert_eq!(numbers.lines().count(), 2);
    for pid in numbers.lines() {
        let number = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        // Gone and reaped is as good as dead: then there is nothing to open.
        let Ok(process) = rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()) else { continue };
        let mut polled = [PollFd::new(&process, PollFlags::IN)];
        let bound = Timespec { tv_sec: 20, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut polled, Some(&bound)), Ok(1), "{pid} lives on");
    }
}

#[test]
fn a_helper_left_behind_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let git = pretender(folder.path(), "sleep 600 & echo done");
    let begun = Instant::now();
    let output = Command::new(&git, Access::Read, "status").success().unwrap();
    assert_eq!(output.line().unwrap(), "done");
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn much_in_and_much_out_at_once_does_not_block() {
    let folder = tempfile::tempdir().unwrap();
    let git = pretender(folder.path(), "head -c 300000 /dev/zero >&2; exec cat");
    let bytes = vec![b'x'; 5 << 20];
    let output = Command::new(&git, Access::Read, "cat").input(Input::Bytes(bytes.clone())).success().unwrap();
    assert!(output.stdout == bytes);
    assert!(output.stderr.len() <= 64 << 10);
    let refused = Command::new(&git, Access::Read, "cat").input(Input::Bytes(bytes)).output_limit(1000).run();
    assert!(matches!(refused, Err(Error::TooMuchOutput { limit: 1000, .. })), "{refused:?}");
}

#[test]
fn a_process_that_does_not_read_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let git = pretender(folder.path(), "exit 3");
    let output = Command::new(&git, Access::Read, "cat").input(Input::Bytes(vec![0; 1 << 20])).run().unwrap();
    assert_eq!(output.code(), Some(3));
    let error = Command::new(&git, Access::Read, "cat").arg("a\nb").success().unwrap_err().to_string();
    assert!(error.contains("`git cat a\\nb` failed"), "{error}");
}

#[test]
fn what_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let git = pretender(folder.path(), "env | grep ^GIT_ | sort; echo \"$LC_ALL\"; shift 11; printf '<%s>' \"$@\"");
    let shown = |access| {
        let command = Command::new(&git, access, "show").arg("a b").arg("").config("x.y", "z");
        command.success().unwrap().text().unwrap().to_owned()
    };
    let common = "GIT_CONFIG_COUNT=1\nGIT_CONFIG_KEY_0=x.y\nGIT_CONFIG_VALUE_0=z\nGIT_NO_LAZY_FETCH=1\n";
    assert_eq!(shown(Access::Write), format!("{common}GIT_TERMINAL_PROMPT=0\nC\n<--literal-pathspecs><show><a b><>"));
    assert_eq!(
        shown(Access::Read),
        format!("{common}GIT_OPTIONAL_LOCKS=0\nGIT_TERMINAL_PROMPT=0\nC\n<--literal-pathspecs><show><a b><>")
    );
}

#[test]
fn hooks_do_not_run() {
    each_git(|git| {
        let fixture = Fixture::new(git);
        let witness = fixture.folder.path().join("ran");
        for hook in
            ["pre-commit", "post-commit", "reference-transaction", "post-index-change", "post-checkout", "post-merge"]
        {
            script(&fixture.root().join(".git/hooks").join(hook), &format!("echo {hook} >> '{}'", witness.display()));
        }
        fixture.write("f", "x");
        fixture.run("add", ["-A"]);
        fixture.run("commit", ["-qm", "one"]);
        fixture.run("checkout", ["-qb", "other"]);
        assert!(!witness.exists(), "{}", std::fs::read_to_string(witness).unwrap());
    });
}
