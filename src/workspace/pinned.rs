//! Where the host paths that a plan names lead when its run starts, and that none of them can be made to lead elsewhere by
//! an agent of the run.
//!
//! A path of `expose`, `expose_rw` or `hide` is a name, and what it names is decided by every folder on its way. An agent
//! that may write one of these folders puts a link in the way, and the next box that asks for the path is shown, or not
//! kept from, something else of the user's. So no such path may lie in what an agent may write; and since others than
//! agents of this run can put links in the way too, each path is resolved once, and must lead there ever after.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::environment::{HostEnvironment, expand_home};
use super::error::Error;
use crate::model::plan::{PinnedPaths, Plan, SandboxSettings};
use crate::plan::boxes;

/// So many links on one way are followed by the kernel.
const LINKS_MAX: u32 = 40;

/// A host path of a plan.
struct Named<'a> {
    whose: String,
    /// As it is written.
    path: &'a str,
    /// Where it leads.
    at: PathBuf,
    /// Whether the box may write there.
    written: bool,
}

/// Resolves every host path of a plan. Refuses one that is not there, and one that an agent could make lead elsewhere.
pub fn pin(host: &HostEnvironment, plan: &Plan) -> Result<PinnedPaths, Error> {
    let mut all = Vec::new();
    for (whose, settings) in boxes(plan) {
        let SandboxSettings { expose, expose_rw, hide, .. } = settings;
        for (paths, written) in [(expose, false), (expose_rw, true)] {
            for path in paths {
                let at = resolve(host, path).map_err(|why| Error::Expose { path: path.clone(), why })?;
                all.push(Named { whose: whose.clone(), path, at, written });
            }
        }
        for path in hide {
            let at = resolve(host, path).map_err(|why| Error::Hide { path: path.clone(), why })?;
            all.push(Named { whose: whose.clone(), path, at, written: false });
        }
    }
    for writer in all.iter().filter(|named| named.written) {
        // The place itself cannot be replaced by who may write in it, so two may have it.
        let below = |at: &PathBuf| *at != writer.at && at.starts_with(&writer.at);
        let refused = |whose: &str, path: String| Error::Movable {
            whose: whose.to_owned(),
            path,
            writer: writer.whose.clone(),
            writable: writer.path.to_owned(),
        };
        let named = |named: &&Named<'_>| way(&expand_home(named.path, &host.home)).iter().any(below);
        if let Some(inner) = all.iter().find(named) {
            return Err(refused(&inner.whose, inner.path.to_owned()));
        }
        // Also what is not there: the agent could make it.
        if let Some(inner) = host.named_places().iter().find(|place| way(place).iter().any(below)) {
            return Err(refused("every box", inner.display().to_string()));
        }
    }
    Ok(all.into_iter().map(|named| (named.path.to_owned(), named.at)).collect())
}

/// Every entry of a folder that is looked up on the way to where `path` leads, each by its real place: whoever can replace
/// one of them decides where that is.
fn way(path: &Path) -> Vec<PathBuf> {
    let names = |path: &Path| path.components().map(|part| part.as_os_str().to_owned()).collect::<Vec<_>>();
    let (mut way, mut at, mut links) = (Vec::new(), PathBuf::from("/"), 0);
    let mut open: VecDeque<OsString> = names(path).into();
    while let Some(name) = open.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        // The root, where a link is absolute, takes the place of all before it.
        let entry = at.join(name);
        way.push(entry.clone());
        match std::fs::read_link(&entry) {
            Ok(target) if links < LINKS_MAX => {
                links += 1;
                names(&target).into_iter().rev().for_each(|name| open.push_front(name));
            }
            Ok(_) | Err(_) => at = entry,
        }
    }
    way
}

/// Where a path of a plan leads now.
fn resolve(host: &HostEnvironment, wanted: &str) -> Result<PathBuf, String> {
    let path = expand_home(wanted, &host.home);
    if !path.is_absolute() {
        return Err("it must be absolute, or begin with `~/`".to_owned());
    }
    let path = path.canonicalize().map_err(|error| error.to_string())?;
    // Else it could not be kept with the run.
    if path.to_str().is_none() {
        return Err(format!("it leads to `{}`, whose name is not UTF-8", path.display()));
    }
    Ok(path)
}

/// The same, refused where it led elsewhere when the run started. One that is not pinned is of a run that was begun by a
/// version that pinned none.
pub(super) fn still_at(host: &HostEnvironment, pinned: &PinnedPaths, wanted: &str) -> Result<PathBuf, String> {
    let path = resolve(host, wanted)?;
    match pinned.get(wanted) {
        Some(before) if *before != path => Err(format!(
            "it led to `{}` when the run started, and leads to `{}` now: have it lead there again, or start a new run",
            before.display(),
            path.display()
        )),
        Some(_) | None => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_on_the_way_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        for (link, target) in [("to-a", "a"), ("a/back", "../to-a"), ("a/abs", "/dev"), ("loop", "loop")] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let cases: [(&str, &[&str]); 6] = [
            ("a/b/absent/more", &["a", "a/b", "a/b/absent", "a/b/absent/more"]),
            ("to-a/b", &["to-a", "a", "a/b"]),
            ("a/back/b", &["a", "a/back", "to-a", "a", "a/b"]),
            ("a/b/../../to-a", &["a", "a/b", "to-a", "a"]),
            ("a/abs/null", &["a", "a/abs", "/", "/dev", "/dev/null"]),
            ("a/./b", &["a", "a/b"]),
        ];
        let before = way(&root);
        for (path, expected) in cases {
            let found = way(&root.join(path));
            let expected: Vec<PathBuf> =
                before.iter().cloned().chain(expected.iter().map(|it| root.join(it))).collect();
            assert_eq!(found, expected, "{path}");
        }
        assert!(way(&root.join("loop")).len() <= before.len() + 2 * LINKS_MAX as usize, "it comes to an end");
    }
}
