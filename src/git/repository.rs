//! One repository: where it lies and what kind it is.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::command::{Access, Command};
use super::error::Error;
use super::program::Git;
use super::reader::{Engine, Reader};
use crate::model::{CommitId, ObjectFormat, RefName, RepoPath};

/// Names of files and folders that hold secrets by custom. No list of them is complete.
const SECRETS: [&str; 17] = [
    ".env",
    ".env.*",
    ".envrc",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".git-credentials",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "id_rsa",
    "id_dsa",
    "id_ecdsa*",
    "id_ed25519*",
    ".ssh",
];

/// Endings of those among them that only show what such a file looks like.
const EXAMPLES: [&str; 4] = ["example", "sample", "template", "dist"];

/// A repository as it was found from some folder, with the facts that do not change while we run.
///
/// Cheap to clone, and usable from many threads. Nothing here is a lock: where a call needs the repository's lock, its
/// documentation says so.
#[derive(Debug, Clone)]
pub struct Repository {
    inner: Arc<Facts>,
}

#[derive(Debug)]
struct Facts {
    git: Git,
    git_dir: PathBuf,
    common_dir: PathBuf,
    top_level: Option<PathBuf>,
    format: ObjectFormat,
    bare: bool,
    shallow: bool,
    config: Config,
    reader: Reader,
}

/// What `HEAD` is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// A branch is checked out.
    Branch {
        /// The branch.
        name: RefName,
        /// Its tip; none if the branch has no commit yet.
        commit: Option<CommitId>,
    },
    /// A commit is checked out.
    Detached(CommitId),
}

impl Head {
    /// The commit, wherever it comes from.
    pub fn commit(&self) -> Option<&CommitId> {
        match self {
            Self::Branch { commit, .. } => commit.as_ref(),
            Self::Detached(commit) => Some(commit),
        }
    }

    /// The branch that is checked out, with or without a commit.
    pub fn branch(&self) -> Option<&RefName> {
        match self {
            Self::Branch { name, .. } => Some(name),
            Self::Detached(_) => None,
        }
    }

    /// The commit, or the error that there is none yet.
    pub fn require_commit(&self) -> Result<&CommitId, Error> {
        match self {
            Self::Branch { name, commit } => commit.as_ref().ok_or_else(|| Error::NoCommit { branch: name.clone() }),
            Self::Detached(commit) => Ok(commit),
        }
    }
}

/// How a repository keeps its refs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefStorage {
    /// Loose files and `packed-refs`.
    Files,
    /// The reftable format.
    Reftable,
}

/// A person's name and address as commits carry them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name.
    pub name: String,
    /// The mail address.
    pub email: String,
}

/// Who commits are by where the user has no identity.
const NOBODY: [(&str, &str); 2] = [("user.name", "sandbox"), ("user.email", "sandbox@localhost")];

impl Repository {
    /// Finds the repository that `folder` belongs to.
    pub fn discover(git: &Git, folder: &Path) -> Result<Self, Error> {
        Self::discover_with(git, folder, None)
    }

    /// Makes a folder a repository, as the user's own settings say (name of the first branch, object format), and finds it.
    /// Touches nothing else of it. The caller has seen that it is in none.
    pub fn init(git: &Git, folder: &Path) -> Result<Self, Error> {
        drop(Command::new(git, Access::Write, "init").folder(folder).arg("-q").success()?);
        Self::discover(git, folder)
    }

    /// Commits everything in the checkout that is not ignored and does not look like a secret, as its first commit. Runs no
    /// hook. Gives what was left out as well.
    pub fn commit_all(&self, message: &str) -> Result<(CommitId, Vec<RepoPath>), Error> {
        let top = self.require_top_level()?;
        // As with the program's other commits: the user, or nobody in particular.
        let author = if self.identity().is_some() { Vec::new() } else { NOBODY.to_vec() };
        let within = |subcommand| {
            let command = self.within(top, Access::Write, subcommand).timeout(super::checkout::SCAN_TIMEOUT);
            author.iter().fold(command, |command, (key, value)| command.config(key, value))
        };
        let secrets =
            SECRETS.iter().flat_map(|name| ["", "/**"].map(|below| format!(":(exclude,icase,glob)**/{name}{below}")));
        drop(within("add").without_literal_paths().args(["-A", "--", "."]).args(secrets).success()?);
        let examples = EXAMPLES.map(|ending| format!(":(icase,glob)**/.env.{ending}"));
        // Names that nothing has are no fault here.
        let listed = within("ls-files")
            .without_literal_paths()
            .args(["--others", "--exclude-standard", "-z", "--"])
            .args(examples)
            .success()?;
        let listed: Vec<&OsStr> = listed.records().map(OsStr::from_bytes).collect();
        if !listed.is_empty() {
            drop(within("add").arg("--").args(listed).success()?);
        }
        drop(within("commit").args(["-q", "--no-verify", "--allow-empty", "-m", message]).success()?);
        let left_out = within("ls-files").args(["--others", "--exclude-standard", "-z"]).success()?;
        let left_out = left_out.records().map(RepoPath::new).collect();
        Ok((self.load_head()?.require_commit()?.clone(), left_out))
    }

    /// As [`Self::discover`], with the engine for reading objects given instead of chosen.
    pub fn discover_with(git: &Git, folder: &Path, engine: Option<Engine>) -> Result<Self, Error> {
        let ask = |question: &str| rev_parse(git, folder, &[question]);
        let git_dir = canonical(&ask("--absolute-git-dir")?.path())?;
        let common = rev_parse(git, folder, &["--path-format=absolute", "--git-common-dir"])?;
        let common_dir = canonical(&common.path())?;
        let kinds = rev_parse(
            git,
            folder,
            &["--is-bare-repository", "--is-inside-work-tree", "--is-shallow-repository", "--show-object-format"],
        )?;
        let lines: Vec<&str> = kinds.text()?.lines().collect();
        let &[bare, inside, shallow, format] = lines.as_slice() else {
            return Err(Error::unparsable(kinds.what(), format!("{lines:?}")));
        };
        let top_level = if inside == "true" { Some(canonical(&ask("--show-toplevel")?.path())?) } else { None };
        let format = match format {
            "sha1" => ObjectFormat::Sha1,
            "sha256" => ObjectFormat::Sha256,
            other => return Err(Error::unparsable(kinds.what(), format!("object format `{other}`"))),
        };
        let listed = Command::new(git, Access::Read, "config")
            .args(["--list", "-z"])
            .folder(&git_dir)
            .git_dir(&git_dir)
            .success()?;
        let config = Config::parse(&listed.stdout);
        let reader = Reader::open(git, &common_dir, &config, engine);
        Ok(Self {
            inner: Arc::new(Facts {
                git: git.clone(),
                git_dir,
                common_dir,
                top_level,
                format,
                bare: bare == "true",
                shallow: shallow == "true",
                config,
                reader,
            }),
        })
    }

    /// The program that is used.
    pub fn git(&self) -> &Git {
        &self.inner.git
    }

    /// The git directory of the worktree this was found from.
    pub fn git_dir(&self) -> &Path {
        &self.inner.git_dir
    }

    /// The directory that all its worktrees share, without symbolic links.
    pub fn common_dir(&self) -> &Path {
        &self.inner.common_dir
    }

    /// The work tree it was found from; none if bare, or found from inside the git directory.
    pub fn top_level(&self) -> Option<&Path> {
        self.inner.top_level.as_deref()
    }

    /// The work tree, or the error that there is none.
    pub fn require_top_level(&self) -> Result<&Path, Error> {
        self.top_level().ok_or_else(|| {
            let path = self.common_dir().to_owned();
            if self.is_bare() { Error::Bare { path } } else { Error::OutsideWorkTree { path } }
        })
    }

    /// Whether it has no work tree of its own.
    pub fn is_bare(&self) -> bool {
        self.inner.bare
    }

    /// Whether it was found from a linked worktree, not from the main one.
    pub fn is_linked(&self) -> bool {
        self.inner.git_dir != self.inner.common_dir
    }

    /// The format of its object ids.
    pub fn object_format(&self) -> ObjectFormat {
        self.inner.format
    }

    /// Whether its history is cut off.
    pub fn is_shallow(&self) -> bool {
        self.inner.shallow
    }

    /// How it keeps refs.
    pub fn ref_storage(&self) -> RefStorage {
        match self.config().text("extensions.refstorage") {
            Some("reftable") => RefStorage::Reftable,
            Some(_) | None => RefStorage::Files,
        }
    }

    /// Whether only a part of the tree is checked out here.
    pub fn is_sparse(&self) -> bool {
        self.config().is_true("core.sparsecheckout")
    }

    /// Whether objects may be missing that a remote promised.
    pub fn is_partial_clone(&self) -> bool {
        self.config().is_partial_clone()
    }

    /// Whether names that differ in case only are one file here.
    pub fn ignores_case(&self) -> bool {
        self.config().is_true("core.ignorecase")
    }

    /// The settings as they were when the repository was found.
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// The user's identity, where both parts of it are configured.
    pub fn identity(&self) -> Option<Identity> {
        let part = |key| self.config().text(key).map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        Some(Identity { name: part("user.name")?, email: part("user.email")? })
    }

    /// A name for this repository among all others of a machine: readable, and safe as the name of a folder.
    pub fn key(&self) -> String {
        repository_key(self.common_dir())
    }

    /// What `HEAD` is now.
    pub fn load_head(&self) -> Result<Head, Error> {
        let symbolic = self.here(Access::Read, "symbolic-ref").args(["-q", "HEAD"]).run()?;
        let branch = match symbolic.code() {
            Some(0) => {
                let line = symbolic.line()?;
                let name: RefName =
                    line.parse().map_err(|_| Error::unparsable(symbolic.what(), format!("HEAD is {line:?}")))?;
                Some(name)
            }
            Some(1) => None,
            Some(_) | None => return Err(symbolic.failure()),
        };
        let commit = self.here(Access::Read, "rev-parse").args(["-q", "--verify", "HEAD^{commit}"]).run()?;
        let commit = match commit.code() {
            Some(0) => Some(parsed(commit.what(), commit.line()?)?),
            Some(1) => None,
            Some(_) | None => return Err(commit.failure()),
        };
        match (branch, commit) {
            (Some(name), commit) => Ok(Head::Branch { name, commit }),
            (None, Some(commit)) => Ok(Head::Detached(commit)),
            (None, None) => Err(Error::MissingObject { object: "HEAD".to_owned() }),
        }
    }

    /// The commit that a revision given by a person names. `HEAD` is that of the worktree this was found from.
    pub fn resolve(&self, revision: &str) -> Result<CommitId, Error> {
        let refused = |stderr: String| Error::NoSuchCommit { revision: revision.to_owned(), stderr };
        if revision.is_empty() || revision.starts_with('-') || revision.contains('\0') {
            return Err(refused(String::new()));
        }
        let output = self
            .here(Access::Read, "rev-parse")
            .args(["--verify", "-q", "--end-of-options"])
            .arg(format!("{revision}^{{commit}}"))
            .run()?;
        match output.code() {
            // `^main` and ranges are revisions too, but name no commit.
            Some(0) => output.line()?.parse().map_err(|_| refused(String::new())),
            Some(_) => Err(refused(output.complaint())),
            None => Err(output.failure()),
        }
    }

    /// Whether `commit` has submodules.
    pub fn has_submodules(&self, commit: &CommitId) -> Result<bool, Error> {
        let output = self
            .common(Access::Read, "rev-parse")
            .args(["-q", "--verify"])
            .arg(format!("{commit}:.gitmodules"))
            .run()?;
        match output.code() {
            Some(0) => Ok(true),
            Some(1 | 128) => Ok(false),
            Some(_) | None => Err(output.failure()),
        }
    }

    /// A command that sees only the shared git directory: no work tree, and so no file that lies in one.
    pub(super) fn common(&self, access: Access, subcommand: &'static str) -> Command {
        Command::new(self.git(), access, subcommand).folder(self.common_dir()).git_dir(self.common_dir())
    }

    /// A command in the worktree this was found from.
    pub(super) fn here(&self, access: Access, subcommand: &'static str) -> Command {
        let folder = self.top_level().unwrap_or(self.git_dir());
        Command::new(self.git(), access, subcommand).folder(folder).git_dir(self.git_dir())
    }

    /// A command in another worktree of this repository. Never one that an agent could write.
    pub(super) fn within(&self, worktree: &Path, access: Access, subcommand: &'static str) -> Command {
        Command::new(self.git(), access, subcommand).folder(worktree)
    }

    pub(super) fn reader(&self) -> &Reader {
        &self.inner.reader
    }

    /// Which engine reads objects.
    pub fn engine(&self) -> Engine {
        self.reader().engine()
    }

    /// Why git2 is not used, where it is not.
    pub fn engine_reason(&self) -> Option<&str> {
        self.reader().reason()
    }
}

/// Settings as `git config --list -z` prints them, the last of equal keys winning.
#[derive(Debug, Clone, Default)]
pub struct Config {
    values: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Config {
    fn parse(listed: &[u8]) -> Self {
        let mut values = BTreeMap::new();
        for record in listed.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
            let end = record.iter().position(|byte| *byte == b'\n');
            let key = &record[..end.unwrap_or(record.len())];
            values.insert(key.to_vec(), end.map(|end| record[end + 1..].to_vec()));
        }
        Self { values }
    }

    /// The value of `key`, whose first and last part are in lower case. None if it is unset or not UTF-8.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key.as_bytes())?.as_deref().and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Whether `key` is set to something that git takes for true.
    pub fn is_true(&self, key: &str) -> bool {
        match self.values.get(key.as_bytes()) {
            None => false,
            Some(None) => true,
            Some(Some(value)) => {
                let value = String::from_utf8_lossy(value).to_ascii_lowercase();
                matches!(value.as_str(), "true" | "yes" | "on") || value.parse().is_ok_and(|number: i64| number != 0)
            }
        }
    }

    /// Whether a remote promised objects that may be missing.
    pub(super) fn is_partial_clone(&self) -> bool {
        let is_promise = |key: &[u8]| key.starts_with(b"remote.") && key.ends_with(b".promisor");
        let is_yes = |value: Option<&[u8]>| value.is_none_or(|value| value == b"true");
        self.text("extensions.partialclone").is_some()
            || self.entries().any(|(key, value)| is_promise(key) && is_yes(value))
    }

    /// All keys and values. A key without `=` has no value, and means true.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.values.iter().map(|(key, value)| (key.as_slice(), value.as_deref()))
    }
}

/// Runs `rev-parse` in a folder of which it is not yet known whether it is in a repository.
fn rev_parse(git: &Git, folder: &Path, questions: &[&str]) -> Result<super::command::Output, Error> {
    if !folder.is_dir() {
        return Err(Error::NotARepository { path: std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()) });
    }
    let output = Command::new(git, Access::Read, "rev-parse").args(questions).folder(folder).run()?;
    if output.status.success() {
        return Ok(output);
    }
    // Git has no exit code of their own for these two; the locale is pinned, and any other text stays a plain failure.
    let complaint = output.complaint();
    if complaint.contains("detected dubious ownership") {
        let fix = complaint.lines().map(str::trim).find(|line| line.starts_with("git config")).unwrap_or_default();
        return Err(Error::DubiousOwnership { path: folder.to_owned(), fix: fix.to_owned() });
    }
    if complaint.contains("not a git repository") {
        return Err(Error::NotARepository { path: std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()) });
    }
    Err(output.failure())
}

fn canonical(path: &Path) -> Result<PathBuf, Error> {
    path.canonicalize().map_err(Error::file("resolve", path))
}

/// Reads an id that git printed.
pub(super) fn parsed<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, Error> {
    text.parse().map_err(|_| {
        let shown: String = text.chars().take(80).collect();
        Error::unparsable(what, format!("{shown:?} is not an object id"))
    })
}

/// The folder's own name and a piece of a hash of the whole path.
fn repository_key(common_dir: &Path) -> String {
    let named = match common_dir.file_name() {
        Some(name) if name == ".git" => common_dir.parent().and_then(Path::file_name),
        other => other,
    };
    let name = named.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.strip_suffix(".git").unwrap_or(&name);
    let safe = |character: char| {
        if character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-') { character } else { '-' }
    };
    let safe: String = name.chars().map(safe).take(32).collect();
    let safe = safe.trim_matches(['.', '-']);
    let hash = hex::encode(Sha256::digest(common_dir.as_os_str().as_bytes()));
    format!("{}-{}", if safe.is_empty() { "repository" } else { safe }, &hash[..10])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_readable_safe_and_different() {
        let key = |path: &str| repository_key(Path::new(path));
        assert!(key("/home/a/login/.git").starts_with("login-"));
        assert!(key("/srv/login.git").starts_with("login-"));
        assert!(key("/home/a/ü b\n/.git").bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
        assert!(key("/..hidden/.git").starts_with("hidden-"));
        assert!(key("/").starts_with("repository-"));
        assert_ne!(key("/a/login/.git"), key("/b/login/.git"));
        assert_eq!(key("/a/login/.git"), key("/a/login/.git"));
    }

    #[test]
    fn settings() {
        let config = Config::parse(b"core.bare\nfalse\0core.x\0merge.A=b.c.driver\nexit 0\0core.x\nON\0core.n\n-1\0");
        assert!(!config.is_true("core.bare") && config.is_true("core.x") && config.is_true("core.n"));
        assert_eq!(config.text("merge.A=b.c.driver"), Some("exit 0"));
        assert_eq!(config.text("core.bare"), Some("false"));
    }
}
