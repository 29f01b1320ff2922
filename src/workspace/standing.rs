//! How a worktree of ours stands, as far as can be told without opening what is in it.

use super::check::Workspace;
use super::follow::load_link;

/// Whether a worktree is where and what it was when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is.
    Sound,
    /// It was removed by us: nothing of it is left.
    Removed,
    /// Its folder is gone, and not by us.
    Gone,
    /// Another folder is in its place.
    Replaced,
    /// The repository has no entry of it any more.
    Unlisted,
    /// Its entry is there and leads elsewhere, or it leads to an entry elsewhere: one of the two was moved.
    Moved,
}

/// What is seen of a worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Facts {
    /// The folder is there.
    folder: bool,
    /// It is the one that was made.
    own: bool,
    /// Its private folder is there.
    private: bool,
    /// There is an entry of its name.
    listed: bool,
    /// Each of the two leads to the other.
    linked: bool,
}

impl Workspace {
    /// How it stands in the repository with this common directory. Writes nothing, and opens nothing in it.
    pub fn standing(&self, common_dir: &std::path::Path) -> Standing {
        let admin = common_dir.join("worktrees").join(self.place.name());
        let link = load_link(&admin);
        judge(Facts {
            folder: self.place.worktree().symlink_metadata().is_ok(),
            own: self.check_folder().is_ok(),
            private: self.place.private().symlink_metadata().is_ok(),
            listed: link.is_some(),
            linked: self.admin_dir == admin && link.is_some_and(|link| link == self.place.worktree().join(".git")),
        })
    }
}

fn judge(facts: Facts) -> Standing {
    match facts {
        Facts { folder: false, private: false, listed: false, .. } => Standing::Removed,
        Facts { folder: false, .. } => Standing::Gone,
        Facts { own: false, .. } => Standing::Replaced,
        Facts { listed: false, .. } => Standing::Unlisted,
        Facts { linked: false, .. } => Standing::Moved,
        Facts { linked: true, .. } => Standing::Sound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_a_worktree_can_stand() {
        for bits in 0..32_u8 {
            let [folder, own, private, listed, linked] = [0, 1, 2, 3, 4].map(|bit| bits >> bit & 1 == 1);
            let expected = match (folder, own, private, listed, linked) {
                (false, _, false, false, _) => Standing::Removed,
                (false, _, true, _, _) | (false, _, _, true, _) => Standing::Gone,
                (true, false, ..) => Standing::Replaced,
                (true, true, _, false, _) => Standing::Unlisted,
                (true, true, _, true, false) => Standing::Moved,
                (true, true, _, true, true) => Standing::Sound,
            };
            let facts = Facts { folder, own, private, listed, linked };
            assert_eq!(judge(facts), expected, "{facts:?}");
        }
    }
}
