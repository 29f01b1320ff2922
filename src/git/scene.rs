//! Gathering what is known about the user's checkout at the paths where something comes in.
//!
//! Only looks: no lock is taken, no link is followed, and git does not refresh its index.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::checkout::{Checkout, SCAN_TIMEOUT};
use super::command::{Access, Input};
use super::diff::TreeChange;
use super::error::Error;
use super::objects::{Entry, Mode};
use super::obstacles::{Found, IndexEntry, Scene};
use super::repository::parsed;
use crate::model::{ObjectId, RepoPath};

/// The most things that are listed below a folder that is in the way.
const LISTED_LIMIT: usize = 1000;

/// How many paths one `hash-object` is given.
const HASHED_AT_ONCE: usize = 256;

impl Checkout {
    /// Gathers the facts about incoming paths.
    pub(super) fn load_scene(&self, incoming: &[TreeChange]) -> Result<Scene, Error> {
        let (index, skipped) = self.load_index()?;
        let mut found = BTreeMap::new();
        for change in incoming {
            self.look_at(&change.path, &mut found)?;
            let comes_a_file = change.new.is_some();
            if comes_a_file && found.get(&change.path) == Some(&(Found::Folder { repository: false })) {
                self.look_below(&change.path, &mut found)?;
            }
        }
        let marked: Vec<&RepoPath> = incoming
            .iter()
            .map(|change| &change.path)
            .filter(|path| index.get(path).is_some_and(|indexed| indexed.marked))
            .collect();
        let standing = self.load_entries(&marked)?;
        let altered = marked
            .into_iter()
            .filter(|path| match (standing.get(path), index.get(path)) {
                (Some(found), Some(indexed)) => *found != indexed.entry,
                (None, _) => !skipped.contains(*path),
                (Some(_), None) => true,
            })
            .cloned()
            .collect();
        let unknown: Vec<&RepoPath> = found
            .iter()
            .filter(|(path, found)| **found == Found::File && !index.contains_key(path))
            .map(|(path, _)| path)
            .collect();
        let ignored = self.load_ignored(&unknown)?;
        let differing = self.load_differing()?;
        Ok(Scene { index, differing, altered, found, ignored, folds_case: self.repository().ignores_case() })
    }

    /// The index, and the paths in it that are left out of the checkout on purpose.
    pub(super) fn load_index(&self) -> Result<(BTreeMap<RepoPath, IndexEntry>, BTreeSet<RepoPath>), Error> {
        let output = self.command(Access::Read, "ls-files").args(["--stage", "-v", "-z"]).success()?;
        let (mut index, mut skipped) = (BTreeMap::new(), BTreeSet::new());
        for record in output.records() {
            let odd = || Error::unparsable(output.what(), "a record is not `tag mode id stage<tab>path`");
            let tab = record.iter().position(|byte| *byte == b'\t').ok_or_else(odd)?;
            let head = std::str::from_utf8(&record[..tab]).map_err(|_| odd())?;
            let fields: Vec<&str> = head.split(' ').collect();
            let &[tag, mode, id, stage] = fields.as_slice() else { return Err(odd()) };
            let path = RepoPath::new(&record[tab + 1..]);
            let skip = tag.eq_ignore_ascii_case("S");
            let marked = skip || tag.bytes().any(|letter| letter.is_ascii_lowercase());
            if skip {
                skipped.insert(path.clone());
            }
            let entry = Entry { mode: Mode::parse(mode).ok_or_else(odd)?, id: id.parse().map_err(|_| odd())? };
            index.insert(path, IndexEntry { entry, unmerged: stage != "0", marked });
        }
        Ok((index, skipped))
    }

    /// Git's letter for each tracked file that differs from the index.
    fn load_differing(&self) -> Result<BTreeMap<RepoPath, u8>, Error> {
        let output = self
            .command(Access::Read, "status")
            .timeout(SCAN_TIMEOUT)
            .args(["--porcelain=v1", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=dirty"])
            .success()?;
        let records = output.records();
        let odd = || Error::unparsable(output.what(), "a record has not two letters and a space");
        let read = |record: &[u8]| match record {
            [_, letter, b' ', path @ ..] => Ok((RepoPath::new(path), *letter)),
            _ => Err(odd()),
        };
        let all = records.map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(all.into_iter().filter(|(_, letter)| *letter != b' ').collect())
    }

    /// Notes what lies at a path and at the folders above it, from the top down, following no link.
    pub(super) fn look_at(&self, path: &RepoPath, found: &mut BTreeMap<RepoPath, Found>) -> Result<(), Error> {
        let mut above: Vec<RepoPath> = path.ancestors().collect();
        above.reverse();
        for place in above.into_iter().chain([path.clone()]) {
            let seen = match found.get(&place) {
                Some(seen) => *seen,
                None => look(&place.under(self.top()))?,
            };
            let is_folder = matches!(seen, Found::Folder { .. });
            found.insert(place, seen);
            if !is_folder {
                break;
            }
        }
        found.entry(path.clone()).or_insert(Found::Nothing);
        Ok(())
    }

    /// Notes what lies below a folder, but not inside another repository.
    fn look_below(&self, folder: &RepoPath, found: &mut BTreeMap<RepoPath, Found>) -> Result<(), Error> {
        let mut folders = vec![folder.clone()];
        let mut listed = 0;
        while let Some(folder) = folders.pop() {
            let place = folder.under(self.top());
            for entry in fs::read_dir(&place).map_err(Error::file("read", &place))? {
                let name = entry.map_err(Error::file("read", &place))?.file_name();
                let path = RepoPath::new([folder.as_bytes(), b"/", name.as_bytes()].concat());
                let seen = look(&path.under(self.top()))?;
                if seen == (Found::Folder { repository: false }) {
                    folders.push(path.clone());
                }
                found.insert(path, seen);
                listed += 1;
                if listed >= LISTED_LIMIT {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Which of these untracked paths the ignore rules name.
    fn load_ignored(&self, paths: &[&RepoPath]) -> Result<BTreeSet<RepoPath>, Error> {
        if paths.is_empty() {
            return Ok(BTreeSet::new());
        }
        // This subcommand refuses to take paths literally; with `./` in front nothing in them means anything.
        let input = paths.iter().flat_map(|path| [b"./", path.as_bytes(), b"\0"].concat()).collect();
        let output = self
            .command(Access::Read, "check-ignore")
            .without_literal_paths()
            .args(["-z", "--stdin"])
            .input(Input::Bytes(input))
            .run()?;
        match output.code() {
            Some(0 | 1) => {
                let named = output.records();
                Ok(named.map(|path| RepoPath::new(path.strip_prefix(b"./").unwrap_or(path))).collect())
            }
            Some(_) | None => Err(output.failure()),
        }
    }

    /// What git would store for each of these paths as it lies in the checkout; a path where no file or link lies has none.
    pub(super) fn load_entries(&self, paths: &[&RepoPath]) -> Result<BTreeMap<RepoPath, Entry>, Error> {
        let mut entries = BTreeMap::new();
        let mut files = Vec::new();
        for path in paths {
            let mut seen = BTreeMap::new();
            self.look_at(path, &mut seen)?;
            if seen.get(path) != Some(&Found::File) {
                continue;
            }
            let place = path.under(self.top());
            let metadata = place.symlink_metadata().map_err(Error::file("look at", &place))?;
            if metadata.is_symlink() {
                let target = fs::read_link(&place).map_err(Error::file("read", &place))?;
                let id = self.hash_link(target.as_os_str().as_bytes())?;
                entries.insert((*path).clone(), Entry { mode: Mode::SYMLINK, id });
            } else if metadata.is_file() {
                let executable = metadata.permissions().mode() & 0o100 != 0;
                files.push((*path, if executable { Mode::EXECUTABLE } else { Mode::FILE }));
            }
        }
        for chunk in files.chunks(HASHED_AT_ONCE) {
            let output = self
                .command(Access::Read, "hash-object")
                .arg("--")
                .args(chunk.iter().map(|(path, _)| path.as_path()))
                .success()?;
            let ids: Vec<&str> = output.text()?.lines().collect();
            if ids.len() != chunk.len() {
                return Err(Error::unparsable(output.what(), "not one id for each path"));
            }
            for ((path, mode), id) in chunk.iter().zip(ids) {
                entries.insert((*path).clone(), Entry { mode: *mode, id: parsed(output.what(), id)? });
            }
        }
        Ok(entries)
    }

    fn hash_link(&self, target: &[u8]) -> Result<ObjectId, Error> {
        let output = self
            .command(Access::Read, "hash-object")
            .args(["--stdin", "--no-filters"])
            .input(Input::Bytes(target.to_vec()))
            .success()?;
        parsed(output.what(), output.line()?)
    }
}

/// What lies at a place, links not followed.
fn look(place: &Path) -> Result<Found, Error> {
    match place.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => {
            Ok(Found::Folder { repository: place.join(".git").symlink_metadata().is_ok() })
        }
        Ok(_) => Ok(Found::File),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(Found::Nothing),
        Err(source) => Err(Error::File { doing: "look at", path: place.to_owned(), source }),
    }
}
