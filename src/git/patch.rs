//! The patch of a bundle: writing it, and proving that it gives back its tree.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::command::{Access, Command, Input};
use super::error::Error;
use super::quarantine::Quarantine;
use super::repository::{Repository, parsed};
use crate::model::{RepoPath, TreeId};

/// How many paths are given to one process.
const PATHS_MAX: usize = 500;

impl Repository {
    /// Writes the patch that takes tree `old` to tree `new` into `file`, exactly and completely: binary content, modes,
    /// links, missing last line ends. It is for storing; for reading use [`Self::write_readable_patch`].
    pub fn write_patch(&self, old: &TreeId, new: &TreeId, file: File) -> Result<(), Error> {
        self.exact_patch(old, new).success_to_file(file).map(drop)
    }

    /// As [`Self::write_patch`], into any sink.
    pub fn write_patch_to(&self, old: &TreeId, new: &TreeId, sink: &mut dyn Write) -> Result<(), Error> {
        self.exact_patch(old, new).success_to(sink).map(drop)
    }

    /// Writes a patch for people: with renames, and binary content only named. Never store this form.
    pub fn write_readable_patch(&self, old: &TreeId, new: &TreeId, sink: &mut dyn Write) -> Result<(), Error> {
        self.patch(old, new, &["-M"]).success_to(sink).map(drop)
    }

    /// Writes a patch for people of what differs at these paths and below them.
    pub fn write_patch_of_paths(
        &self,
        old: &TreeId,
        new: &TreeId,
        paths: &[RepoPath],
        sink: &mut dyn Write,
    ) -> Result<(), Error> {
        let command = self.patch(old, new, &["-r", "--no-renames"]).arg("--");
        command.args(paths.iter().take(PATHS_MAX).map(RepoPath::as_path)).success_to(sink).map(drop)
    }

    /// Applies a stored patch to a tree and gives the tree that comes out. Nothing is written into the repository.
    ///
    /// A patch that does not apply gives [`Error::Failed`] with what git says about it.
    pub fn replay_patch(&self, tree: &TreeId, patch: &Path) -> Result<TreeId, Error> {
        let file = File::open(patch).map_err(Error::file("read", patch))?;
        let scratch = Quarantine::in_scratch(self)?;
        let index = scratch.path().join("index");
        // A split index without hashes, which a user's settings may ask for, is read back as an empty one.
        let command = |access, subcommand| {
            let command = scratch.apply(self.common(access, subcommand)).env("GIT_INDEX_FILE", &index);
            command.config("core.splitIndex", "false")
        };
        command(Access::Write, "read-tree").arg(tree.as_str()).success().map(drop)?;
        command(Access::Write, "apply")
            .config("apply.ignoreWhitespace", "no")
            .config("core.autocrlf", "false")
            .config("core.safecrlf", "false")
            .args(["--cached", "--binary", "--whitespace=nowarn", "--allow-empty", "-"])
            .input(Input::Descriptor(file.into()))
            .success()
            .map(drop)?;
        let output = command(Access::Write, "write-tree").success()?;
        parsed(output.what(), output.line()?)
    }

    fn exact_patch(&self, old: &TreeId, new: &TreeId) -> Command {
        self.patch(old, new, &["--binary", "--no-renames"])
    }

    /// `diff-tree -p` with everything pinned that a user's settings could change in its bytes.
    fn patch(&self, old: &TreeId, new: &TreeId, form: &[&str]) -> Command {
        self.common(Access::Read, "diff-tree")
            .config("diff.suppressBlankEmpty", "false")
            .config("diff.orderFile", "/dev/null")
            .config("core.compression", "-1")
            .config("core.quotePath", "true")
            .config("core.bigFileThreshold", "512m")
            .args(["-p", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative"])
            .args(["--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=none"])
            .args(["--unified=3", "--inter-hunk-context=0", "--diff-algorithm=myers", "--indent-heuristic"])
            .args(form)
            .args([old.as_str(), new.as_str()])
    }
}
