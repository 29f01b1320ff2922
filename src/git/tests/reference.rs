#![expect(clippy::disallowed_methods, reason = "tests write files as users do")]
//! What plain `git merge` says, in a checkout of its own, with the settings that a merge of ours has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::super::merge::PINNED;
use super::super::*;
use crate::model::{CommitId, ObjectFormat};

/// A repository that sees the objects of another, those of later too.
pub(crate) struct Reference {
    git: Git,
    folder: PathBuf,
}

/// What a merge gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// This tree.
    Clean(String),
    /// A conflict, with these stages: mode, object, stage and path.
    Conflict(BTreeSet<String>),
}

impl Verdict {
    /// Ours, in the same form.
    pub(crate) fn of(preview: &Preview) -> Self {
        match preview {
            Preview::Clean { tree } => Self::Clean(tree.to_string()),
            Preview::Conflict(conflict) => Self::Conflict(
                conflict
                    .stages
                    .iter()
                    .map(|stage| {
                        let Stage { path, side, entry } = stage;
                        format!("{} {} {}\t{path}", entry.mode, entry.id, side.stage())
                    })
                    .collect(),
            ),
        }
    }
}

impl Reference {
    pub(crate) fn new(repository: &Repository, folder: &Path) -> Self {
        let format = match repository.object_format() {
            ObjectFormat::Sha1 => "--object-format=sha1",
            ObjectFormat::Sha256 => "--object-format=sha256",
        };
        let init = Command::new(repository.git(), Access::Write, "init").args(["-q", format]).arg(folder);
        drop(init.folder(repository.common_dir()).success().unwrap());
        let mut objects = repository.common_dir().join("objects").into_os_string().into_encoded_bytes();
        objects.push(b'\n');
        fs::write(folder.join(".git/objects/info/alternates"), objects).unwrap();
        Self { git: repository.git().clone(), folder: folder.to_owned() }
    }

    fn command(&self, subcommand: &'static str) -> Command {
        let mut command = Command::new(&self.git, Access::Write, subcommand).folder(&self.folder);
        for (key, value) in PINNED.into_iter().chain([
            ("core.autocrlf", "false"),
            ("core.ignoreCase", "false"),
            ("commit.gpgSign", "false"),
            ("rerere.enabled", "false"),
            ("submodule.recurse", "false"),
            ("merge.verifySignatures", "false"),
            ("merge.ours.driver", "false"),
        ]) {
            command = command.config(key, value);
        }
        command
    }

    /// Checks a commit out.
    pub(crate) fn check_out(&self, commit: &CommitId) {
        // A folder of a submodule, or what is left of a merge, must not stay in the way.
        for entry in fs::read_dir(&self.folder).unwrap().flatten().filter(|entry| entry.file_name() != ".git") {
            let path = entry.path();
            let is_folder = path.is_dir() && !path.is_symlink();
            if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.unwrap();
        }
        for name in ["MERGE_HEAD", "AUTO_MERGE", "index"] {
            drop(fs::remove_file(self.folder.join(".git").join(name)));
        }
        drop(self.command("checkout").args(["-q", "--force", "--detach", commit.as_str()]).success().unwrap());
    }

    /// Merges `theirs` into what is checked out, and says what that gives.
    pub(crate) fn merge_in(&self, theirs: &CommitId) -> Verdict {
        let merge = self.command("merge").args(["-q", "--no-commit", "--no-ff", theirs.as_str()]).run().unwrap();
        match merge.code() {
            Some(0) => Verdict::Clean(self.command("write-tree").success().unwrap().line().unwrap().to_owned()),
            Some(1) => {
                let listed = self.command("ls-files").args(["--unmerged", "-z"]).success().unwrap();
                let marks = ["~HEAD".to_owned(), format!("~{theirs}")];
                let stripped = |record: &[u8]| {
                    let text = String::from_utf8_lossy(record).into_owned();
                    // Where the name is taken, a number follows.
                    let bare = text.trim_end_matches(|it: char| it.is_ascii_digit()).strip_suffix('_');
                    let mut made_up = [Some(text.as_str()), bare].into_iter().flatten();
                    let found = made_up.find_map(|text| marks.iter().find_map(|mark| text.strip_suffix(mark.as_str())));
                    found.map_or_else(|| text.clone(), str::to_owned)
                };
                Verdict::Conflict(listed.records().map(stripped).collect())
            }
            Some(_) | None => panic!("{}", merge.failure()),
        }
    }

    /// What merging `theirs` into `ours` gives.
    pub(crate) fn merge(&self, ours: &CommitId, theirs: &CommitId) -> Verdict {
        self.check_out(ours);
        self.merge_in(theirs)
    }

    /// Asserts that a merge of `sides` that gave this gives the same here.
    ///
    /// Where a conflict is within a file that another one is about, a side of the outer one is a text with markers, and those
    /// bear the names of the sides as each was given them.
    #[track_caller]
    pub(crate) fn assert_same(&self, found: &Verdict, sides: [&CommitId; 2]) {
        let own = self.merge(sides[0], sides[1]);
        let (Verdict::Conflict(found), Verdict::Conflict(own)) = (found, &own) else {
            assert_eq!(found, &own, "{sides:?}");
            return;
        };
        let named = |stages: &BTreeSet<String>, other: &BTreeSet<String>| -> BTreeSet<String> {
            let differing = stages.difference(other).map(|stage| {
                let id = stage.split(' ').nth(1).unwrap();
                let text = self.command("cat-file").args(["-p", id]).success().unwrap().stdout;
                let text = String::from_utf8_lossy(&text).replace(sides[0].as_str(), "HEAD");
                stage.replace(id, &text)
            });
            differing.collect()
        };
        assert_eq!(named(found, own), named(own, found), "{sides:?}");
    }

    /// A commit of a merge that was clean, on top of what it was merged into.
    pub(crate) fn commit_merge_onto(
        &self,
        repository: &Repository,
        ours: &CommitId,
        theirs: &CommitId,
        tree: &str,
    ) -> CommitId {
        let commit =
            self.command("commit-tree").args(["-m", "merge", "-p", ours.as_str(), "-p", theirs.as_str(), tree]);
        // Where both can see it.
        let commit = commit.env("GIT_OBJECT_DIRECTORY", repository.common_dir().join("objects")).success().unwrap();
        commit.line().unwrap().parse().unwrap()
    }
}
