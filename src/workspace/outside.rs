//! What a plan asks to show or to hide of the host, held against what must stay apart.

use std::path::{Path, PathBuf};

use super::environment::HostEnvironment;
use super::error::Error;
use super::pinned::still_at;
use super::private::seen;
use super::surroundings::Surroundings;
use crate::model::plan::{PinnedPaths, SandboxSettings};
use crate::store::Workplace;

/// Without what lies here no program starts.
const SYSTEM: [&str; 8] = ["/usr", "/usr/bin", "/usr/lib", "/usr/lib64", "/bin", "/lib", "/lib64", "/etc"];

/// What is asked for of the host, without links on the way.
#[derive(Debug)]
pub(super) struct Outside {
    /// Shown, read-only. None of it is shown writable as well.
    pub read_only: Vec<PathBuf>,
    /// Shown, writable.
    pub writable: Vec<PathBuf>,
    /// Folders that are empty.
    pub hidden: Vec<PathBuf>,
}

impl Outside {
    /// Looks up what `settings` name, and refuses what would undo the box, or the host.
    pub(super) fn load(
        host: &HostEnvironment,
        around: &Surroundings,
        place: &Workplace,
        settings: &SandboxSettings,
        pinned: &PinnedPaths,
    ) -> Result<Self, Error> {
        let mut outside = Self { read_only: Vec::new(), writable: Vec::new(), hidden: Vec::new() };
        let found = |wanted: &str| still_at(host, pinned, wanted);
        for wanted in &settings.expose_rw {
            let path = to_show(host, around, wanted, found(wanted))?;
            refuse_programs(host, around, wanted, &path)?;
            outside.writable.push(path);
        }
        for wanted in &settings.expose {
            outside.read_only.push(to_show(host, around, wanted, found(wanted))?);
        }
        for wanted in &settings.hide {
            let path = to_hide(host, around, place, wanted, found(wanted))?;
            if outside.read_only.iter().chain(&outside.writable).any(|shown| *shown == path) {
                let why = "it is to be shown, too: name it in one of the lists".to_owned();
                return Err(Error::Hide { path: wanted.clone(), why });
            }
            outside.hidden.push(path);
        }
        let Self { read_only, writable, hidden } = &mut outside;
        for list in [&mut *read_only, &mut *writable, &mut *hidden] {
            list.sort();
            list.dedup();
        }
        read_only.retain(|path| !writable.contains(path));
        Ok(outside)
    }

    /// The hidden folders that must be covered: what no box sees needs no cover, unless something that holds it is shown.
    pub(super) fn to_cover(&self, host: &HostEnvironment, around: &Surroundings) -> Vec<&PathBuf> {
        let tools = host.tool_folders();
        let shown = |path: &Path| {
            let mut all = self.read_only.iter().chain(&self.writable).chain(&tools);
            all.any(|shown| path.starts_with(shown) && !self.hidden.contains(shown))
        };
        let unseen = |path: &Path| host.is_unseen(path) || around.touches(path);
        self.hidden.iter().filter(|path| shown(path) || !unseen(path)).collect()
    }

    /// Whether `folder`, which is shown to every agent, is shown to this one: not what is hidden, nor what is shown writable.
    pub(super) fn leaves(&self, folder: &Path) -> bool {
        !self.hidden.iter().any(|hidden| folder.starts_with(hidden))
            && !self.writable.iter().any(|other| other == folder)
    }
}

fn to_show(
    host: &HostEnvironment,
    around: &Surroundings,
    wanted: &str,
    found: Result<PathBuf, String>,
) -> Result<PathBuf, Error> {
    let refused = |why: String| Error::Expose { path: wanted.to_owned(), why };
    let path = found.map_err(refused)?;
    if around.touches(&path) {
        return Err(refused("it holds, or lies in, the repository or the worktrees of agents".to_owned()));
    }
    if host.home.starts_with(&path) {
        return Err(refused("it would show the whole home directory".to_owned()));
    }
    if Path::new(seen::ROOM).starts_with(&path) || path.starts_with(seen::ROOM) {
        let why = format!("a box has `{}` of its own, whose places would be made on the host", seen::ROOM);
        return Err(refused(why));
    }
    Ok(path)
}

/// What an agent writes among the programs of the user's would be run by the user, outside of any box.
fn refuse_programs(host: &HostEnvironment, around: &Surroundings, wanted: &str, path: &Path) -> Result<(), Error> {
    let mut programs = host.search_path();
    programs.extend(host.tool_folders());
    let inside = programs.iter().find(|folder| path.starts_with(folder)).cloned();
    programs.extend([around.git.clone(), host.program.clone()]);
    match inside.as_ref().or_else(|| programs.iter().find(|program| program.starts_with(path))) {
        None => Ok(()),
        Some(program) => {
            let why = format!("programs that you run lie in `{}`, and an agent could change them", program.display());
            Err(Error::Expose { path: wanted.to_owned(), why })
        }
    }
}

fn to_hide(
    host: &HostEnvironment,
    around: &Surroundings,
    place: &Workplace,
    wanted: &str,
    found: Result<PathBuf, String>,
) -> Result<PathBuf, Error> {
    let refused = |why: String| Error::Hide { path: wanted.to_owned(), why };
    let path = found.map_err(refused)?;
    if !path.is_dir() {
        return Err(refused("it is not a folder; name the folder that holds it".to_owned()));
    }
    let needed = [
        (place.worktree(), "the agent's worktree"),
        (Path::new(seen::ROOM), "what a box has of its own"),
        (&around.common, "the agent's git directory"),
        (&host.program, "this program"),
        (&around.git, "the git program"),
    ];
    if let Some((needed, what)) = needed.into_iter().find(|(needed, _)| needed.starts_with(&path)) {
        return Err(refused(format!("it holds {what}, `{}`", needed.display())));
    }
    if path.starts_with(place.worktree()) || path.starts_with(&around.common) {
        return Err(refused("it lies in the agent's own worktree or git directory".to_owned()));
    }
    if host.home.starts_with(&path) {
        return Err(refused("it holds the home directory, which a box has of its own anyway".to_owned()));
    }
    if let Some(system) = SYSTEM.iter().find(|system| Path::new(system).starts_with(&path)) {
        return Err(refused(format!("no program starts without `{system}`")));
    }
    for kernel in ["/proc", "/dev", "/sys"] {
        if path.starts_with(kernel) {
            return Err(refused(format!("it lies in `{kernel}`, which belongs to the kernel")));
        }
    }
    Ok(path)
}
