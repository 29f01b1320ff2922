#![expect(clippy::disallowed_methods, reason = "fills folders that nothing reads before they are complete")]
//! The two git directories that stand in for the repository's own: the agent's, and the one for captures.
//!
//! **The agent's** lies in the box where the repository's common directory lies outside, and is complete: its own HEAD,
//! refs, index, config and objects, with the repository's objects below it, read-only, as an alternate. Whatever the agent
//! does to it stays in it. **The capture's** is never seen by the agent, and borrows from the repository's objects alone: an
//! object that the agent forged or damaged must not stand in for a file. Where the agent's commits are looked at, its objects
//! are put in reach for that one command.
//!
//! Both are written, not copied: a copy would carry along what only the repository may have (hooks, includes, a
//! credential helper, a monitor command, addresses with passwords in them).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::error::Error;
use crate::git::{Head, Repository, copy_index, with_owner};
use crate::model::{CommitId, ObjectFormat, RefName};

/// Where things of ours lie in a box.
pub mod seen {
    /// The folder that all of them lie in.
    pub const ROOM: &str = "/run/sandbox";
    /// The capture's git directory.
    pub const CAPTURE: &str = "/run/sandbox/capture";
    /// The agent's git directory.
    pub const AGENT: &str = "/run/sandbox/agent";
    /// The repository's objects.
    pub const PARENT_OBJECTS: &str = "/run/sandbox/parent-objects";
    /// This program.
    pub const PROGRAM: &str = "/run/sandbox/bin/sandbox";
    /// The socket an agent ends a turn by.
    pub const TURN_SOCKET: &str = "/run/sandbox/turn.sock";
    /// The port of the proxy, where there is one.
    pub const RELAY_PORT: u16 = 3128;
}

/// What both directories are made of.
#[derive(Debug)]
pub(super) struct Ingredients<'a> {
    /// The user's repository.
    pub repository: &'a Repository,
    /// What its HEAD is.
    pub head: &'a Head,
    /// The name of the worktree's folder in the git directory.
    pub id: &'a str,
    /// The worktree.
    pub worktree: &'a Path,
    /// The commit it is made from.
    pub fork: &'a CommitId,
    /// The branch it works on; `None` for a detached one.
    pub branch: Option<&'a RefName>,
    /// The index that the checkout left.
    pub index: &'a Path,
    /// The user's own attributes file, which holds for all repositories.
    pub user_attributes: Option<PathBuf>,
    /// The user's own ignore rules, which hold for all repositories.
    pub user_excludes: Option<PathBuf>,
}

/// Settings of the user's that change how files are read and written, and nothing else.
const CORE_KEYS: [&str; 6] =
    ["core.filemode", "core.ignorecase", "core.symlinks", "core.autocrlf", "core.eol", "core.precomposeunicode"];

/// Writes the agent's git directory at `at`, which must not exist.
pub(super) fn write_agent_directory(at: &Path, made_of: &Ingredients<'_>) -> Result<(), Error> {
    let Ingredients { repository, .. } = made_of;
    let admin = at.join("worktrees").join(made_of.id);
    for folder in ["hooks", "info", "logs", "objects/info", "objects/pack", "parent-objects", "refs/heads", "refs/tags"]
    {
        folder_at(&at.join(folder))?;
    }
    folder_at(&admin)?;
    let head = match made_of.head {
        Head::Branch { name, .. } => format!("ref: {name}\n"),
        Head::Detached(commit) => format!("{commit}\n"),
    };
    file_at(&at.join("HEAD"), head.as_bytes())?;
    file_at(&at.join("objects/info/alternates"), b"../parent-objects\n")?;
    let mut refs = repository.load_packed_refs(is_shown_to_agents)?;
    if let Some(branch) = made_of.branch {
        // Loose, as git itself would have made it: the packed list holds only what was there before.
        let own = at.join(branch.as_str());
        if let Some(folder) = own.parent() {
            folder_at(folder)?;
        }
        file_at(&own, format!("{}\n", made_of.fork).as_bytes())?;
    }
    file_at(&at.join("packed-refs"), &std::mem::take(&mut refs))?;
    file_at(&at.join("config"), agent_config(made_of).as_bytes())?;
    write_exclude(made_of, &at.join("info/exclude"))?;
    copy_if_there(&repository.common_dir().join("shallow"), &at.join("shallow"))?;

    let own_head = made_of.branch.map_or_else(|| format!("{}\n", made_of.fork), |branch| format!("ref: {branch}\n"));
    file_at(&admin.join("HEAD"), own_head.as_bytes())?;
    file_at(&admin.join("commondir"), b"../..\n")?;
    file_at(&admin.join("gitdir"), &[made_of.worktree.join(".git").as_os_str().as_encoded_bytes(), b"\n"].concat())?;
    write_index(made_of, &admin.join("index"))?;
    write_sparse(made_of, &admin)
}

/// Writes the capture's git directory at `at`, which must not exist.
pub(super) fn write_capture_directory(at: &Path, made_of: &Ingredients<'_>) -> Result<(), Error> {
    let Ingredients { repository, .. } = made_of;
    for folder in ["info", "objects/info", "objects/pack", "refs/heads"] {
        folder_at(&at.join(folder))?;
    }
    file_at(&at.join("HEAD"), b"ref: refs/heads/none\n")?;
    file_at(&at.join("objects/info/alternates"), format!("{}\n", seen::PARENT_OBJECTS).as_bytes())?;
    let mut config = Config::new(repository.object_format());
    config.core(repository);
    config.set("core", None, "bare", "false");
    if let Some(attributes) = &made_of.user_attributes {
        copy_if_there(attributes, &at.join("info/user-attributes"))?;
        config.set("core", None, "attributesFile", &format!("{}/info/user-attributes", seen::CAPTURE));
    }
    file_at(&at.join("config"), config.text().as_bytes())?;
    write_exclude(made_of, &at.join("info/exclude"))?;
    copy_if_there(&repository.common_dir().join("info/attributes"), &at.join("info/attributes"))?;
    copy_if_there(&repository.common_dir().join("shallow"), &at.join("shallow"))?;
    write_index(made_of, &at.join("index"))?;
    write_sparse(made_of, at)?;
    let tips: BTreeSet<String> = repository
        .load_refs("refs/")?
        .into_iter()
        .flat_map(|reference| [Some(reference.id), reference.peeled])
        .flatten()
        .chain([made_of.fork.object().clone()])
        .map(|id| format!("{id}\n"))
        .collect();
    file_at(&at.join("known-tips"), tips.into_iter().collect::<String>().as_bytes())
}

/// Whether an agent is told of the ref: not of stashes and bisections, not of the program's own, not of other agents.
fn is_shown_to_agents(name: &[u8]) -> bool {
    const HIDDEN: [&[u8]; 6] = [
        b"refs/stash",
        b"refs/bisect/",
        b"refs/worktree/",
        b"refs/rewritten/",
        b"refs/sandbox/",
        b"refs/heads/sandbox/",
    ];
    !HIDDEN.iter().any(|hidden| name.starts_with(hidden))
}

fn agent_config(made_of: &Ingredients<'_>) -> String {
    let mut config = Config::new(made_of.repository.object_format());
    config.core(made_of.repository);
    config.set("core", None, "bare", if made_of.repository.is_bare() { "true" } else { "false" });
    config.set("core", None, "quotePath", "false");
    if sparse_source(made_of.repository).is_some() {
        config.extension("worktreeConfig", "true");
    }
    config.set("gc", None, "auto", "0");
    config.set("maintenance", None, "auto", "false");
    for (key, value) in made_of.repository.config().entries() {
        let (Ok(key), Some(Ok(value))) = (std::str::from_utf8(key), value.map(std::str::from_utf8)) else { continue };
        if let Some(rest) = key.strip_prefix("remote.")
            && let Some((name, variable @ ("url" | "fetch"))) = rest.rsplit_once('.')
        {
            config.set("remote", Some(name), variable, &without_credentials(value));
        }
    }
    config.identity(made_of.repository);
    config.text()
}

/// The settings in the agent's home: for repositories that it makes elsewhere, as tests of programs do.
pub(super) fn write_home(home: &Path, repository: &Repository) -> Result<(), Error> {
    folder_at(home)?;
    let mut config = Config::new(ObjectFormat::Sha1);
    config.identity(repository);
    file_at(&home.join(".gitconfig"), config.sections().as_bytes())
}

/// An address without a password, and for web addresses without a user too: both may be a token.
fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let Some((user, host)) = authority.rsplit_once('@') else { return url.to_owned() };
    if scheme.starts_with("http") || scheme.starts_with("ftp") {
        return format!("{scheme}://{host}{path}");
    }
    let user = user.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}@{host}{path}")
}

/// The sparse patterns of the checkout the run is started from.
fn sparse_source(repository: &Repository) -> Option<PathBuf> {
    let patterns = repository.git_dir().join("info/sparse-checkout");
    (repository.is_sparse() && patterns.is_file()).then_some(patterns)
}

fn write_sparse(made_of: &Ingredients<'_>, directory: &Path) -> Result<(), Error> {
    let Some(patterns) = sparse_source(made_of.repository) else { return Ok(()) };
    folder_at(&directory.join("info"))?;
    copy_if_there(&patterns, &directory.join("info/sparse-checkout"))?;
    let cone = made_of.repository.config().is_true("core.sparsecheckoutcone");
    let text = format!("[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = {cone}\n");
    if directory.join("config").is_file() {
        let own = fs::read_to_string(directory.join("config")).map_err(|error| Error::io("read", directory, error))?;
        fs::write(directory.join("config"), own + &text).map_err(|error| Error::io("write", directory, error))
    } else {
        file_at(&directory.join("config.worktree"), text.as_bytes())
    }
}

/// A git configuration being written.
struct Config {
    format: ObjectFormat,
    extensions: Vec<(String, String)>,
    lines: Vec<(String, Option<String>, String, String)>,
}

impl Config {
    fn new(format: ObjectFormat) -> Self {
        let mut config = Self { format, extensions: Vec::new(), lines: Vec::new() };
        match config.format {
            ObjectFormat::Sha1 => {}
            ObjectFormat::Sha256 => config.extension("objectFormat", "sha256"),
        }
        config
    }

    fn extension(&mut self, name: &str, value: &str) {
        self.extensions.push((name.to_owned(), value.to_owned()));
    }

    fn set(&mut self, section: &str, subsection: Option<&str>, variable: &str, value: &str) {
        self.lines.push((section.to_owned(), subsection.map(str::to_owned), variable.to_owned(), value.to_owned()));
    }

    /// Who commits: the user, as configured, else the program.
    fn identity(&mut self, repository: &Repository) {
        let (name, email) = repository
            .identity()
            .map_or_else(|| ("sandbox".to_owned(), "sandbox@localhost".to_owned()), |own| (own.name, own.email));
        self.set("user", None, "name", &name);
        self.set("user", None, "email", &email);
    }

    fn core(&mut self, repository: &Repository) {
        for key in CORE_KEYS {
            if let (Some(value), Some((section, variable))) = (repository.config().text(key), key.split_once('.')) {
                self.set(section, None, variable, value);
            }
        }
    }

    /// The file's text. Format version 1 exactly where an extension asks for it.
    fn text(&self) -> String {
        let version = u8::from(!self.extensions.is_empty());
        format!("[core]\n\trepositoryformatversion = {version}\n{}", self.sections())
    }

    /// The text without the format's version.
    fn sections(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.extensions {
            for part in ["[extensions]\n\t", name, " = ", &quoted(value), "\n"] {
                text.push_str(part);
            }
        }
        for (section, subsection, variable, value) in &self.lines {
            let header = match subsection {
                Some(name) => format!("[{section} \"{}\"]", name.replace('\\', "\\\\").replace('"', "\\\"")),
                None => format!("[{section}]"),
            };
            if header.contains('\n') {
                continue;
            }
            for part in [&header, "\n\t", variable, " = ", &quoted(value), "\n"] {
                text.push_str(part);
            }
        }
        text
    }
}

/// A value as git's configuration takes it, whatever is in it.
fn quoted(value: &str) -> String {
    let mut text = String::from("\"");
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

/// A folder only the user can enter, with those above it.
pub(super) fn folder_at(path: &Path) -> Result<(), Error> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| Error::io("create", path, error))
}

/// Refuses a folder that another user owns or may write into: who can rename in it can put another worktree in place of
/// ours.
pub(super) fn require_own(path: &Path) -> Result<(), Error> {
    let found = path.symlink_metadata().map_err(|error| Error::io("look at", path, error))?;
    let exposed = |why| Err(Error::Exposed { path: path.to_owned(), why });
    if !found.is_dir() {
        return exposed("is not a folder");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return exposed("belongs to another user");
    }
    if found.mode() & 0o022 != 0 { exposed("can be written by other users") } else { Ok(()) }
}

fn file_at(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| io::Write::write_all(&mut file, bytes)).map_err(|error| Error::io("write", path, error))
}

/// Writes what is ignored beside the tree's own rules: what the user ignores everywhere, then what the repository does.
/// The first comes first, since of two patterns that match the later one counts.
fn write_exclude(made_of: &Ingredients<'_>, to: &Path) -> Result<(), Error> {
    let own = made_of.repository.common_dir().join("info/exclude");
    let mut text = Vec::new();
    for from in made_of.user_excludes.iter().chain([&own]) {
        match fs::read(from) {
            Ok(read) => text.extend([read.as_slice(), b"\n"].concat()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("read", from, error)),
        }
    }
    file_at(to, &text)
}

/// Writes the index that the checkout left, with the owner that files have inside a box: else the first capture would read
/// every file again.
fn write_index(made_of: &Ingredients<'_>, to: &Path) -> Result<(), Error> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let inside = (sandbox::id_inside(user), sandbox::id_inside(group));
    let copied = copy_index(made_of.index, to).map_err(|error| Error::io("copy", made_of.index, error));
    if inside == (user, group) {
        return copied.map(drop);
    }
    if !copied? {
        return Ok(());
    }
    let bytes = fs::read(to).map_err(|error| Error::io("read", to, error))?;
    let id_length = made_of.repository.object_format().hex_len() / 2;
    if let Some(bytes) = with_owner(bytes, id_length, inside.0, inside.1) {
        replace_content(to, &bytes).map_err(|error| Error::io("write", to, error))?;
    }
    Ok(())
}

/// Writes a file anew that keeps its time, which git compares with those of the files in it.
fn replace_content(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let modified = fs::metadata(path)?.modified()?;
    let mut file = fs::File::options().write(true).truncate(true).open(path)?;
    io::Write::write_all(&mut file, bytes)?;
    file.set_modified(modified)
}

fn copy_if_there(from: &Path, to: &Path) -> Result<(), Error> {
    match fs::copy(from, to) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("copy", from, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_stay_outside() {
        for (url, shown) in [
            ("https://user:secret@example.org/a.git", "https://example.org/a.git"),
            ("https://token@example.org/a.git", "https://example.org/a.git"),
            ("https://example.org/a@b.git", "https://example.org/a@b.git"),
            ("ssh://git:pw@example.org:22/a", "ssh://git@example.org:22/a"),
            ("git@example.org:a.git", "git@example.org:a.git"),
            ("/srv/a@b", "/srv/a@b"),
            ("https://a:b@c@example.org", "https://example.org"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
    }

    #[test]
    fn other_agents_are_not_shown() {
        for hidden in
            ["refs/stash", "refs/heads/sandbox/login-1/parser", "refs/sandbox/login-1/base", "refs/bisect/bad"]
        {
            assert!(!is_shown_to_agents(hidden.as_bytes()), "{hidden}");
        }
        for shown in ["refs/heads/main", "refs/heads/sandboxed", "refs/tags/v1", "refs/remotes/origin/main"] {
            assert!(is_shown_to_agents(shown.as_bytes()), "{shown}");
        }
    }

    #[test]
    fn odd_values_survive_quoting() {
        let mut config = Config::new(ObjectFormat::Sha256);
        config.set("remote", Some("a \"b\""), "url", "x # y\\\"");
        let text = config.text();
        assert!(text.starts_with("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = \"sha256\"\n"));
        assert!(text.ends_with("[remote \"a \\\"b\\\"\"]\n\turl = \"x # y\\\\\\\"\"\n"), "{text}");
    }
}
