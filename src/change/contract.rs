//! Whether what an agent changed is what its contract lets it change.
//!
//! Decided on the difference between two trees without looking for renames: a rename is then a path that is gone and a
//! path that is new, so both of its ends count. What an agent says of itself is never asked.

use crate::git::TreeChange;
use crate::model::RepoPath;
use crate::plan::{Allowed, CompiledContract};

/// The changed paths that the contract does not cover, in order.
pub fn outside(changes: &[TreeChange], contract: &CompiledContract) -> Vec<RepoPath> {
    let mut outside: Vec<RepoPath> = changes
        .iter()
        .flat_map(TreeChange::paths)
        .filter(|path| match contract.allows(path) {
            Allowed::Owned | Allowed::Shared => false,
            Allowed::Outside => true,
        })
        .cloned()
        .collect();
    outside.sort();
    outside.dedup();
    outside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::{ChangeKind, Entry, Mode};
    use crate::model::ObjectFormat;
    use crate::model::plan::Contract;

    fn entry(mode: Mode) -> Entry {
        Entry { mode, id: ObjectFormat::Sha1.zero() }
    }

    fn change(kind: ChangeKind, path: &str, old: Option<Entry>, new: Option<Entry>) -> TreeChange {
        TreeChange { kind, path: path.into(), old, new }
    }

    #[test]
    fn every_kind_of_change_counts() {
        let contract =
            CompiledContract::new(&Contract { owns: vec!["src/a/**".into()], shares: vec!["Cargo.lock".into()] })
                .unwrap();
        let file = || Some(entry(Mode::FILE));
        let renamed = |from: &str| ChangeKind::Renamed { from: from.into(), similarity: 100 };
        let table: [(&str, TreeChange, &[&str]); 11] = [
            ("added inside", change(ChangeKind::Added, "src/a/x", None, file()), &[]),
            ("added outside", change(ChangeKind::Added, "src/ab/x", None, file()), &["src/ab/x"]),
            ("modified shared", change(ChangeKind::Modified, "Cargo.lock", file(), file()), &[]),
            ("modified outside", change(ChangeKind::Modified, "README", file(), file()), &["README"]),
            ("deleted outside", change(ChangeKind::Deleted, "README", file(), None), &["README"]),
            (
                "mode outside",
                change(ChangeKind::Modified, "run.sh", file(), Some(entry(Mode::EXECUTABLE))),
                &["run.sh"],
            ),
            ("link outside", change(ChangeKind::TypeChanged, "l", file(), Some(entry(Mode::SYMLINK))), &["l"]),
            ("gitlink outside", change(ChangeKind::Added, "sub", None, Some(entry(Mode::GITLINK))), &["sub"]),
            ("renamed out", change(renamed("src/a/x"), "y", file(), file()), &["y"]),
            ("renamed in", change(renamed("y"), "src/a/x", file(), file()), &["y"]),
            ("case only", change(renamed("src/a/x"), "src/A/x", file(), file()), &["src/A/x"]),
        ];
        for (name, change, expected) in table {
            let expected: Vec<RepoPath> = expected.iter().map(|path| RepoPath::from(*path)).collect();
            assert_eq!(outside(&[change], &contract), expected, "{name}");
        }
    }
}
