//! Sockets of the host that an agent could call, for `doctor`: a read-only mount does not stop a call.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, accessat};

use crate::report::doctor::Check;
use crate::report::text;
use crate::workspace::HostEnvironment;

/// How many are named.
const NAMED: usize = 5;

/// Tells of the sockets in places that boxes see, and of the line of a plan that hides them.
pub(super) fn check(environment: &HostEnvironment) -> Check {
    let table = std::fs::read("/proc/net/unix").unwrap_or_default();
    let runtime = environment.variables.get(OsStr::new("XDG_RUNTIME_DIR")).map(PathBuf::from);
    let of_session = |place: &Path| runtime.as_ref().is_some_and(|folder| place.starts_with(folder));
    judge(&in_sight(&table, |place| environment.is_unseen(place) || of_session(place)))
}

fn judge(seen: &BTreeSet<PathBuf>) -> Check {
    if seen.is_empty() {
        return Check::ok("sockets", "no socket of the host that you may call lies where agents see it");
    }
    let shown: Vec<String> = seen.iter().map(|path| path.display().to_string()).collect();
    let folders: BTreeSet<String> = seen.iter().filter_map(|path| path.parent()).map(quoted).collect();
    let found = format!("agents can call {}", text::list(&shown, NAMED));
    let line = format!("hide = [{}]", folders.into_iter().collect::<Vec<_>>().join(", "));
    Check::warning("sockets", found, format!("if they must not, write under `[sandbox]`: {line}"))
}

/// A path as a plan has it: the escapes of JSON are TOML's too.
fn quoted(path: &Path) -> String {
    serde_json::Value::from(path.display().to_string()).to_string()
}

/// The sockets of a table such as `/proc/net/unix` (`man 5 proc_net_unix`) that lie where `unseen` does not say they are not
/// seen, and that this user may call.
fn in_sight(table: &[u8], unseen: impl Fn(&Path) -> bool) -> BTreeSet<PathBuf> {
    // The path is the eighth field, and the last: it may have spaces in it.
    let path_of = |line: &[u8]| -> Option<PathBuf> {
        let mut rest = line;
        for _ in 0..7 {
            rest = rest.trim_ascii_start();
            rest = &rest[rest.iter().position(|byte| *byte == b' ')?..];
        }
        let path = rest.trim_ascii_start();
        path.starts_with(b"/").then(|| PathBuf::from(OsStr::from_bytes(path)))
    };
    table
        .split(|byte| *byte == b'\n')
        .skip(1)
        .filter_map(path_of)
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| !unseen(path))
        .filter(|path| accessat(CWD, path, rustix::fs::Access::WRITE_OK, AtFlags::EACCESS).is_ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_lies_in_sight_is_named_with_the_line_that_hides_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (open, hidden) = (root.join("with space/x.sock"), root.join("hidden/y.sock"));
        for path in [&open, &hidden] {
            std::fs::create_dir(path.parent().unwrap()).unwrap();
        }
        let listeners = [&open, &hidden].map(|path| UnixListener::bind(path).unwrap());
        let table = std::fs::read("/proc/net/unix").unwrap();
        let seen = in_sight(&table, |path| !path.starts_with(&root) || path.starts_with(root.join("hidden")));
        assert_eq!(seen, BTreeSet::from([open.clone()]));
        let check = judge(&seen);
        let line = format!("hide = [{:?}]", open.parent().unwrap());
        assert!(check.found.contains("x.sock") && check.fix.unwrap().ends_with(&line));
        drop(listeners);
        // What is gone, has no name, or is no table at all.
        std::fs::remove_file(&open).unwrap();
        for table in [&table[..], b"", b"x\ny z\n", b"Num\n0: 1 2 3 4 5 6\n0: 1 2 3 4 5 6 @abstract\n"] {
            assert_eq!(in_sight(table, |path| !path.starts_with(root.join("with space"))), BTreeSet::new());
        }
        assert_eq!(judge(&BTreeSet::new()).fix, None);
    }
}
