//! The runs of a repository: numbering, making, listing.
//!
//! A number is used once in a repository, also after its run was removed: branches and refs carry it. So the counter is
//! moved on, for good, before the folder is made, and it never goes below a run that is there.
//!
//! A run's folder appears with everything in it and its lock held: it is filled under a name that no listing shows, and
//! renamed. Nobody ever sees a run that is half made or has no coordinator yet.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::layout::{RunDir, StateDir};
use super::lock::{RepositoryLock, RunLock};
use super::trash::Trash;
use super::{Error, atomic, json, listing};
use crate::model::{AgentName, RunId};

/// The runs there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The runs, the newest first.
    pub runs: Vec<RunDir>,
    /// What lies among them and is none: a file, a link, a folder of another name.
    pub foreign: Vec<PathBuf>,
}

/// Makes the next run of `plan`, under the repository lock. Its number is larger than `used`, the largest that any branch
/// or ref carries: a clone has the branches of runs it knows nothing of. `fill` writes what the folder begins with.
pub fn create(
    state: &StateDir,
    _lock: &RepositoryLock,
    plan: &AgentName,
    used: u64,
    fill: impl FnOnce(&RunDir) -> Result<(), Error>,
) -> Result<(RunDir, RunLock), Error> {
    let number = take_number(state, used)?;
    let run = state.run(&RunId::new(plan, number));
    let staged = state.staged_run(run.id());
    // Numbers are used once, so what lies there can only be left from a crash of this very step before its number counted.
    Trash::of_state(state).discard(staged.root())?;
    atomic::create_dir(staged.root())?;
    let made = RunLock::try_acquire(&staged).and_then(|lock| {
        fill(&staged)?;
        atomic::rename(staged.root(), run.root())?;
        Ok(lock)
    });
    match made {
        Ok(lock) => Ok((run, lock)),
        Err(error) => {
            // The first error is the one to tell; a folder that stays is swept later.
            drop(Trash::of_state(state).discard(staged.root()));
            Err(error)
        }
    }
}

/// All runs. Writes nothing.
pub fn list(state: &StateDir) -> Result<Listing, Error> {
    let mut listing = Listing::default();
    for (name, path, is_dir) in entries(&state.runs())? {
        let id = name.to_str().and_then(|text| text.parse::<RunId>().ok());
        match id {
            Some(id) if is_dir => listing.runs.push(state.run(&id)),
            _ if name.as_encoded_bytes().starts_with(b".") => {}
            _ => listing.foreign.push(path),
        }
    }
    listing.runs.sort_by(|a, b| (b.id().number(), b.id()).cmp(&(a.id().number(), a.id())));
    listing.foreign.sort();
    Ok(listing)
}

/// The next number, which from now on counts as used.
fn take_number(state: &StateDir, used: u64) -> Result<u64, Error> {
    let path = state.next();
    let counted = match json::load_bytes(&path)? {
        None => 1,
        Some(bytes) => parse_number(&bytes).ok_or_else(|| {
            Error::damaged(
                &path,
                "it does not hold a number",
                "write a number into it that is larger than that of any run or branch of this repository",
            )
        })?,
    };
    let newest = list(state)?.runs.first().map_or(0, |run| run.id().number());
    let (number, next) = next_number(counted, newest.max(used)).ok_or_else(|| {
        Error::damaged(&path, "there is no number after the last", "remove the run with the largest number")
    })?;
    atomic::write(&path, format!("{next}\n").as_bytes())?;
    Ok(number)
}

fn parse_number(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.trim_end().parse().ok().filter(|number| *number > 0)
}

/// The number to use and the one to write down, from the one written down and that of the newest run.
fn next_number(counted: u64, newest: u64) -> Option<(u64, u64)> {
    let number = counted.max(newest.checked_add(1)?);
    Some((number, number.checked_add(1)?))
}

/// Name, path, and whether it is a real folder, of all in `folder`; nothing if there is no folder.
fn entries(folder: &Path) -> Result<Vec<(OsString, PathBuf, bool)>, Error> {
    let found = listing::entries(folder)?.unwrap_or_default();
    found
        .into_iter()
        .map(|entry| {
            let path = entry.path();
            let kind = entry.file_type().map_err(Error::io("look at", &path))?;
            Ok((entry.file_name(), path, kind.is_dir()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::format;
    use crate::store::lock::{self, Patience};

    fn make(state: &StateDir, plan: &str) -> (RunDir, RunLock) {
        let held = RepositoryLock::acquire(state, Patience::default(), |_| {}).unwrap();
        create(state, &held, &plan.parse().unwrap(), 0, |run| atomic::write(&run.plan(), b"plan")).unwrap()
    }

    fn ids(state: &StateDir) -> Vec<String> {
        list(state).unwrap().runs.iter().map(|run| run.id().to_string()).collect()
    }

    #[test]
    fn numbers_are_used_once() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::in_common_dir(folder.path());
        format::require_writable(&state).unwrap();
        assert_eq!(list(&state).unwrap(), Listing::default());
        let (first, _) = make(&state, "login");
        let (second, _) = make(&state, "docs");
        assert_eq!((first.id().as_str(), second.id().as_str()), ("login-1", "docs-2"));
        Trash::of_state(&state).discard(second.root()).unwrap();
        let (third, _) = make(&state, "login");
        assert_eq!(third.id().as_str(), "login-3", "the number of a removed run is not used again");
        // The counter is lost, or was put back from an old copy: runs that are there still count.
        atomic::write(&state.next(), b"1\n").unwrap();
        assert_eq!(make(&state, "login").0.id().as_str(), "login-4");
        atomic::remove_file(&state.next()).unwrap();
        assert_eq!(make(&state, "login").0.id().as_str(), "login-5");
        assert_eq!(ids(&state), ["login-5", "login-4", "login-3", "login-1"]);

        for wrong in [&b""[..], b"x", b"0", b"-1", b"18446744073709551615"] {
            atomic::write(&state.next(), wrong).unwrap();
            let held = RepositoryLock::acquire(&state, Patience::default(), |_| {}).unwrap();
            let result = create(&state, &held, &"login".parse().unwrap(), 0, |_| Ok(()));
            assert!(matches!(result, Err(Error::Damaged { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn a_run_appears_whole_and_held() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::in_common_dir(folder.path());
        let held = RepositoryLock::acquire(&state, Patience::default(), |_| {}).unwrap();
        let plan = "login".parse().unwrap();
        let (run, lock) = create(&state, &held, &plan, 0, |staged| {
            assert_eq!(list(&state)?, Listing::default(), "not seen while it is filled");
            atomic::write(&staged.plan(), b"plan")
        })
        .unwrap();
        assert_eq!(std::fs::read(run.plan()).unwrap(), b"plan");
        assert!(lock::run_lock_state(&run).unwrap().is_held());
        assert!(lock.is_of(&run).unwrap(), "the lock went with the folder");

        let failed = create(&state, &held, &plan, 0, |_| Err(Error::Exists { path: "x".into() }));
        assert!(matches!(failed, Err(Error::Exists { .. })));
        assert_eq!(ids(&state), ["login-1"]);
        assert_eq!(std::fs::read_dir(state.runs()).unwrap().count(), 1, "nothing is left of it");
        assert_eq!(create(&state, &held, &plan, 0, |_| Ok(())).unwrap().0.id().as_str(), "login-3");
        // A clone brings branches of runs that have no folder here.
        assert_eq!(create(&state, &held, &plan, 7, |_| Ok(())).unwrap().0.id().as_str(), "login-8");
        assert_eq!(create(&state, &held, &plan, 7, |_| Ok(())).unwrap().0.id().as_str(), "login-9");
    }

    #[test]
    fn strangers_among_the_runs_are_told_and_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::in_common_dir(folder.path());
        make(&state, "login");
        atomic::create_dir(&state.runs().join("Backup of login-1")).unwrap();
        atomic::create_dir(&state.runs().join("login-10")).unwrap();
        atomic::write(&state.runs().join("login-7"), b"a file").unwrap();
        std::os::unix::fs::symlink(folder.path(), state.runs().join("login-8")).unwrap();
        let listing = list(&state).unwrap();
        assert_eq!(ids(&state), ["login-10", "login-1"]);
        let foreign: Vec<_> = listing.foreign.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(foreign, ["Backup of login-1", "login-7", "login-8"]);
    }

    #[test]
    fn the_next_number_is_above_all_there_are() {
        for (counted, newest, expected) in [
            (1, 0, Some((1, 2))),
            (5, 3, Some((5, 6))),
            (2, 9, Some((10, 11))),
            (1, u64::MAX, None),
            (u64::MAX, 0, None),
        ] {
            assert_eq!(next_number(counted, newest), expected, "{counted} {newest}");
        }
    }
}
