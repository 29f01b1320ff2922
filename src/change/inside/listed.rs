//! The agent's own index, read as data: what it lists is what the agent says, and nothing of it says what a file contains.

use std::collections::{BTreeMap, BTreeSet};

use super::index::GITLINK;
use super::{Capture, Result, records};
use crate::git::Access;

/// The largest index of an agent that is read, in bytes.
const INDEX_MAX: u64 = 1 << 30;

/// What can be told of the agent's index.
pub(super) enum Listing {
    /// There is none.
    Absent,
    /// It is none that git can read, or none that anybody should.
    Unreadable,
    /// It lists these.
    Of(Vec<Listed>),
}

/// An entry of it.
pub(super) struct Listed {
    mode: u32,
    id: String,
    /// Whether nothing is in conflict there.
    is_merged: bool,
    /// Its path.
    pub(super) path: Vec<u8>,
}

/// What it says of submodules.
#[derive(Default)]
pub(super) struct Links {
    /// Where they are, and at which commits.
    pub(super) at: BTreeMap<Vec<u8>, String>,
    /// Where nothing can be told, for there is a conflict.
    pub(super) unsure: BTreeSet<Vec<u8>>,
}

impl Capture<'_> {
    /// What the agent's index lists.
    pub(super) fn listing(&self) -> Listing {
        let index = self.request.agent_admin.join("index");
        match index.symlink_metadata() {
            Ok(found) if found.is_file() && found.len() <= INDEX_MAX => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Listing::Absent,
            Ok(_) | Err(_) => return Listing::Unreadable,
        }
        let asked = self.command(Access::Read, "ls-files").args(["-z", "--stage"]).env("GIT_INDEX_FILE", &index);
        let Some(listed) = asked.run().ok().filter(|listed| listed.code() == Some(0)) else {
            return Listing::Unreadable;
        };
        records(&listed.stdout).map(entry).collect::<Option<_>>().map_or(Listing::Unreadable, Listing::Of)
    }

    /// The submodules of a commit or a tree.
    pub(super) fn links_of(&self, tree: &str) -> Result<BTreeMap<Vec<u8>, String>> {
        let output = self.command(Access::Read, "ls-tree").args(["-r", "-z", "--full-tree", tree]).success()?;
        let link = |record| {
            let (mode, rest, path) = fields(record)?;
            let id = rest.strip_prefix("commit ")?;
            (mode == GITLINK).then(|| (path.to_vec(), id.to_owned()))
        };
        Ok(records(&output.stdout).filter_map(link).collect())
    }
}

impl Links {
    /// What the entries of an index say. One that names no commit says nothing.
    pub(super) fn of(entries: &[Listed]) -> Self {
        let mut links = Self::default();
        for entry in entries.iter().filter(|entry| entry.mode == GITLINK) {
            if entry.is_merged && entry.id.bytes().any(|digit| digit != b'0') {
                links.at.insert(entry.path.clone(), entry.id.clone());
            } else {
                links.unsure.insert(entry.path.clone());
            }
        }
        links
    }
}

/// An entry, as `ls-files --stage` gives it.
fn entry(record: &[u8]) -> Option<Listed> {
    let (mode, rest, path) = fields(record)?;
    let (id, stage) = rest.split_once(' ')?;
    Some(Listed { mode, id: id.to_owned(), is_merged: stage == "0", path: path.to_vec() })
}

/// The mode, what stands behind it, and the path behind the tabulator.
fn fields(record: &[u8]) -> Option<(u32, &str, &[u8])> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let (mode, rest) = std::str::from_utf8(&record[..tab]).ok()?.split_once(' ')?;
    Some((u32::from_str_radix(mode, 8).ok()?, rest, &record[tab + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_index_says_of_submodules() {
        let [one, zero] = ["1", "0"].map(|digit| digit.repeat(40));
        let lines = [
            format!("100644 {one} 0\tfile"),
            format!("160000 {one} 0\tat one"),
            format!("160000 {zero} 0\tnowhere"),
            format!("160000 {one} 1\tin\tconflict"),
            format!("160000 {one} 3\tin\tconflict"),
        ];
        let read: Vec<Listed> = lines.iter().map(|line| entry(line.as_bytes()).unwrap()).collect();
        let said = Links::of(&read);
        assert_eq!(said.at, BTreeMap::from([(b"at one".to_vec(), one)]));
        assert_eq!(said.unsure, BTreeSet::from([b"in\tconflict".to_vec(), b"nowhere".to_vec()]));
        for odd in ["", "100644", "100644 x\tfile", "rubbish y 0\tfile"] {
            assert!(entry(odd.as_bytes()).is_none(), "{odd}");
        }
    }
}
