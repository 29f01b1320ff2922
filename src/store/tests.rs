//! The store as other processes and other users meet it.
#![expect(clippy::disallowed_methods, reason = "real processes are what is tested")]

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::lock::Patience;
use super::*;
use crate::model::card::{Card, CardKind, CardState};
use crate::model::event::{EventKind, RunFinished, Subject};
use crate::model::{AgentName, RunId};

const FOLDER: &str = "SANDBOX_TEST_FOLDER";

/// Plays the test `name` in a process of its own.
fn play(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("store::tests::{name}");
    command.args(["--exact", &name]).env(FOLDER, folder).stdout(Stdio::null()).stdin(Stdio::null());
    command
}

/// The state the other test wants played in; `None` when nobody asked.
fn played_in() -> Option<StateDir> {
    std::env::var_os(FOLDER).map(|folder| StateDir::in_common_dir(&PathBuf::from(folder)))
}

fn end() -> EventKind {
    EventKind::RunFinished(RunFinished { exit_code: 0, complete: true, landed: None })
}

fn card(id: &str) -> Card {
    Card {
        id: id.parse().unwrap(),
        kind: CardKind::Scope,
        state: CardState::NeedsHuman,
        agents: Vec::new(),
        paths: vec![crate::model::RepoPath::new(&b"bad\xff"[..])],
        summary: "outside".to_owned(),
        sides: None,
        stages: Vec::new(),
        messages: Vec::new(),
        fingerprint: "f".to_owned(),
        options: Vec::new(),
        request: None,
        snapshot: None,
        resolution: None,
        answer: None,
        landing: None,
        proposal: None,
        history: Vec::new(),
    }
}

/// A repository's state with one run that ended.
fn populated(folder: &Path) -> RunDir {
    let state = StateDir::in_common_dir(folder);
    format::require_writable(&state).unwrap();
    let held = RepositoryLock::acquire(&state, Patience::default(), |_| {}).unwrap();
    let plan: AgentName = "login".parse().unwrap();
    let (run, lock) = runs::create(&state, &held, &plan, 0, |run| atomic::write(&run.plan(), b"plan")).unwrap();
    let (mut writer, _) = JournalWriter::open(&run, lock, journal::system_clock()).unwrap();
    writer.append(Subject::run(), end()).unwrap();
    status::write(&run, &json!({"state": "done"})).unwrap();
    status::write_git_progress(&run, &json!({"changed": 1})).unwrap();
    cards::write(&run, &card("cab")).unwrap();
    run
}

#[test]
fn derived_files_are_read_back_and_doubted_when_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let run = populated(folder.path());
    assert_eq!(status::load::<Value>(&run).unwrap(), (Some(json!({"state": "done"})), None));
    assert_eq!(status::load_git_progress::<Value>(&run).unwrap(), (Some(json!({"changed": 1})), None));
    cards::write(&run, &card("c1")).unwrap();
    assert_eq!(cards::list(&run).unwrap(), (vec![card("c1"), card("cab")], Vec::new()));

    atomic::write(&run.status(), b"{\"sta").unwrap();
    atomic::write(&run.card(&"c1".parse().unwrap()), b"").unwrap();
    atomic::write(&run.cards().join("notes.txt"), b"mine").unwrap();
    let (found, warning) = status::load::<Value>(&run).unwrap();
    assert!(found.is_none() && warning.unwrap().to_string().contains("status.json` is damaged"));
    let (found, warnings) = cards::list(&run).unwrap();
    assert_eq!((found, warnings.len()), (vec![card("cab")], 1));
    let absent = StateDir::in_common_dir(folder.path()).run(&"login-9".parse::<RunId>().unwrap());
    assert_eq!(status::load::<Value>(&absent).unwrap(), (None, None));
    assert_eq!(cards::list(&absent).unwrap(), (Vec::new(), Vec::new()));
}

/// Played by another process for the test below; without it, does nothing.
#[test]
fn look_at_a_read_only_state() {
    let Some(state) = played_in() else { return };
    assert_eq!(format::load(&state).unwrap(), Format::Current);
    let run = runs::list(&state).unwrap().runs.remove(0);
    assert_eq!(journal::read(&run).unwrap().events.len(), 1);
    assert_eq!(JournalTail::new(&run, Position::default()).poll().unwrap().len(), 1);
    JournalWatch::new(&run).unwrap();
    assert_eq!(lock::run_lock_state(&run).unwrap(), LockState::Free);
    assert_eq!(lock::repository_lock_state(&state).unwrap(), LockState::Free);
    assert!(status::load::<Value>(&run).unwrap().0.is_some());
    assert_eq!(cards::list(&run).unwrap().0.len(), 1);

    let denied = |what: &str, result: Result<(), Error>| match result {
        Err(Error::Io { source, path, .. }) => {
            assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied, "{what}");
            assert!(path.starts_with(state.root()), "{what}: {}", path.display());
        }
        other => panic!("{what}: {other:?}"),
    };
    denied("status", status::write(&run, &0));
    denied("write", atomic::write(&state.root().join("new/file"), b""));
    denied("repository lock", RepositoryLock::acquire(&state, Patience::default(), |_| {}).map(drop));
    denied("run lock", RunLock::try_acquire(&run).map(drop));
    denied("trash", Trash::of_state(&state).discard(run.root()).map(drop));
}

#[test]
fn readers_need_no_right_to_write_and_change_nothing() {
    const USER: u32 = 12345;
    let folder = tempfile::tempdir().unwrap();
    let root = nix::unistd::geteuid().is_root();
    populated(folder.path());
    let seal = |write: bool| {
        let mut seen = Vec::new();
        let mut waiting = vec![folder.path().to_owned()];
        while let Some(path) = waiting.pop() {
            let meta = std::fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                waiting.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let mode = match (meta.is_dir(), write) {
                (true, true) => 0o700,
                (true, false) => 0o500,
                (false, true) => 0o600,
                (false, false) => 0o400,
            };
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            if root {
                chown(&path, Some(USER), Some(USER)).unwrap();
            }
            seen.push((path, meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len()));
        }
        seen.sort();
        seen
    };
    let before = seal(false);
    let mut command = play("look_at_a_read_only_state", folder.path());
    if root {
        // Root may write anywhere, so somebody else looks.
        command.uid(USER).gid(USER);
    }
    let output = command.stdout(Stdio::piped()).output().unwrap();
    let after = seal(true);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "it ran");
    assert_eq!(before, after);
}

/// Kills the process when the test is over, however it ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Played by another process for the test below; without it, does nothing.
#[test]
fn append_until_killed() {
    let Some(state) = played_in() else { return };
    let run = state.run(&"login-1".parse().unwrap());
    let (mut writer, _) =
        JournalWriter::open(&run, RunLock::try_acquire(&run).unwrap(), journal::system_clock()).unwrap();
    // An end of its own, should nobody be left to kill it.
    for _ in 0..20_000 {
        let event = writer.append(Subject::run(), end()).unwrap();
        status::write(&run, &json!({"seq": event.seq, "padding": "x".repeat(50_000)})).unwrap();
    }
}

#[test]
fn a_writer_killed_at_any_instant_leaves_a_journal_to_go_on_from() {
    let folder = tempfile::tempdir().unwrap();
    let run = populated(folder.path());
    let mut seen = 1;
    for round in 1..=4 {
        let watch = JournalWatch::new(&run).unwrap();
        let mut tail = JournalTail::new(&run, Position::default());
        let mut writer = Killed(play("append_until_killed", folder.path()).spawn().unwrap());
        let begun = Instant::now();
        let wanted = seen + 20 * round;
        let mut followed = Vec::new();
        while followed.len() < wanted {
            assert!(begun.elapsed() < Duration::from_mins(1), "the other process writes nothing");
            followed.extend(tail.poll().unwrap());
            watch.wait(Duration::from_secs(1)).unwrap();
        }
        // What is derived is whole whenever one looks.
        let (value, warning) = status::load::<Value>(&run).unwrap();
        assert!(value.is_some() && warning.is_none());
        assert!(lock::run_lock_state(&run).unwrap().is_held());
        writer.0.kill().unwrap();
        writer.0.wait().unwrap();

        let lock = RunLock::try_acquire(&run).unwrap();
        atomic::remove_unfinished(run.root()).unwrap();
        let (mut own, opened) = JournalWriter::open(&run, lock, journal::system_clock()).unwrap();
        assert_eq!(opened.events[..followed.len()], followed, "nothing that was seen is lost");
        seen = usize::try_from(own.append(Subject::run(), end()).unwrap().seq).unwrap();
        assert_eq!(seen, opened.events.len() + 1);
    }
    let names = std::fs::read_dir(run.root()).unwrap();
    assert!(!names.flatten().any(|entry| atomic::is_temporary(&entry.file_name())));
}
