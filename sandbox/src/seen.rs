//! What is seen of the host: nothing of its shared folders; and, where nothing can be mounted, the paths of a policy at their
//! own places.

use crate::check;
use crate::policy::Policy;
use std::path::{Path, PathBuf};

/// Folders in which everybody's files lie. No box shows the host's.
pub const SHARED_FOLDERS: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/dev/shm"];

/// Which host path stands behind which path inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    home: PathBuf,
    /// Target and source, longest targets first.
    pairs: Vec<(PathBuf, PathBuf)>,
}

impl Places {
    pub(crate) fn of(policy: &Policy) -> Self {
        let placed = check::placed(policy).into_iter().filter(|place| !place.pinned);
        let mut pairs: Vec<_> = placed.map(|place| (place.target, place.source)).collect();
        pairs.sort_by_key(|(target, _)| std::cmp::Reverse(target.components().count()));
        Self { home: policy.home.target.clone(), pairs }
    }

    /// The home inside.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// What lies behind `path`. One that nothing is put in place of is itself.
    pub(crate) fn on_the_host(&self, path: &Path) -> PathBuf {
        let found = self.pairs.iter().find_map(|(target, source)| Some((path.strip_prefix(target).ok()?, source)));
        match found {
            Some((rest, source)) if rest.as_os_str().is_empty() => source.clone(),
            Some((rest, source)) => source.join(rest),
            None => path.to_owned(),
        }
    }
}
