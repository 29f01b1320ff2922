//! Which git is used, and what it can do.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::command::{Access, Command};
use super::error::Error;

/// The environment variable that names another git than the one on `PATH`.
pub const PROGRAM_VARIABLE: &str = crate::store::env::SANDBOX_GIT;

/// A version of git.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number, 0 if there is none.
    pub patch: u32,
}

impl Version {
    /// The oldest git that will do: the first with `merge-tree --write-tree`.
    pub const NEEDED: Self = Self { major: 2, minor: 38, patch: 0 };
    /// From here on `--attr-source` does not crash in `merge-tree`.
    pub const RECOMMENDED: Self = Self { major: 2, minor: 43, patch: 0 };

    /// Reads the answer of `git version`, whatever a vendor added behind the numbers.
    fn parse(answer: &str) -> Option<Self> {
        let numbers = answer.trim().strip_prefix("git version ")?.split_whitespace().next()?;
        let mut parts = numbers.split(['.', '-']);
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        let patch = parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
        Some(Self { major, minor, patch })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The git program, found once; cheap to clone.
///
/// It carries the environment its processes start with, from which every `GIT_*` variable has been taken out.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    version: Version,
    environment: Arc<[(OsString, OsString)]>,
}

impl Git {
    /// Finds git: the one given, else the one [`PROGRAM_VARIABLE`] names, else the one on `PATH`.
    pub fn find(path: Option<OsString>) -> Result<Self, Error> {
        Self::find_in(path.or_else(|| std::env::var_os(PROGRAM_VARIABLE)), std::env::vars_os())
    }

    /// As [`Self::find`], with another environment than this process's own.
    pub fn find_in(
        path: Option<OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Error> {
        let environment: Arc<[_]> = scrubbed(environment).into();
        let name = path.filter(|path| !path.is_empty()).unwrap_or_else(|| "git".into());
        let missing = |looked: String| Error::GitMissing { looked };
        let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let paths = environment.iter().find(|(key, _)| key == "PATH").map(|(_, value)| value);
        let program = which::which_in(&name, paths, here)
            .map_err(|error| missing(format!("{}: {error}", name.to_string_lossy())))?;
        let mut git = Self { program, version: Version::NEEDED, environment };
        let no_git = || Error::NotGit { program: git.program.clone() };
        let answer = Command::new(&git, Access::Read, "version").success().map_err(|error| match error {
            Error::Failed { .. } => no_git(),
            other => other,
        })?;
        let found = answer.text().ok().and_then(Version::parse).ok_or_else(no_git)?;
        if found < Version::NEEDED {
            return Err(Error::GitTooOld {
                program: git.program,
                found: found.to_string(),
                needed: Version::NEEDED.to_string(),
            });
        }
        git.version = found;
        Ok(git)
    }

    /// The git at an absolute path, whose version another process of ours has looked at. Taken to be no newer than it must
    /// be.
    pub fn at(program: &Path) -> Self {
        Self {
            program: program.to_owned(),
            version: Version::NEEDED,
            environment: scrubbed(std::env::vars_os()).into(),
        }
    }

    /// The program's absolute path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether merge attributes can be read from a named tree. Without it [`super::Merger`] writes them to a scratch
    /// folder.
    pub fn has_attr_source(&self) -> bool {
        self.version >= Version { major: 2, minor: 41, patch: 0 }
    }

    /// Whether this git is at least the recommended one.
    pub fn is_recommended(&self) -> bool {
        self.version >= Version::RECOMMENDED
    }

    /// The environment that its processes get, before what the builder adds.
    pub(super) fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }
}

/// The environment without anything that git reads from it: all of `GIT_*`, not a list of known names.
fn scrubbed(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    environment.into_iter().filter(|(key, _)| !is_gits(key)).collect()
}

fn is_gits(key: &OsStr) -> bool {
    key.as_bytes().starts_with(b"GIT_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let version = |major, minor, patch| Some(Version { major, minor, patch });
        assert_eq!(Version::parse("git version 2.39.5\n"), version(2, 39, 5));
        assert_eq!(Version::parse("git version 2.39.5 (Apple Git-154)"), version(2, 39, 5));
        assert_eq!(Version::parse("git version 2.50.0.windows.1"), version(2, 50, 0));
        assert_eq!(Version::parse("git version 2.51-rc1"), version(2, 51, 0));
        assert_eq!(Version::parse("git version 3.0"), version(3, 0, 0));
        assert_eq!(Version::parse("hub version 2.1"), None);
        assert_eq!(Version::parse(""), None);
    }

    #[test]
    fn an_old_or_absent_git_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Git::find_in(Some(folder.path().join("git").into()), []);
        assert!(matches!(missing, Err(Error::GitMissing { .. })), "{missing:?}");

        let script = folder.path().join("git");
        super::super::testing::script(&script, "echo git version 2.37.9");
        let old = Git::find_in(Some(script.into()), []).unwrap_err();
        let message = old.to_string();
        assert!(message.contains("2.37.9") && message.contains("2.38.0"), "{message}");
    }

    #[test]
    fn the_environment_loses_everything_that_steers_git() {
        let kept = scrubbed(
            [("GIT_DIR", "/x"), ("GIT_CONFIG_COUNT", "1"), ("GIT_ANYTHING_NEW", "1"), ("HOME", "/h"), ("GITHUB", "y")]
                .map(|(key, value)| (key.into(), value.into())),
        );
        assert_eq!(kept, [("HOME", "/h"), ("GITHUB", "y")].map(|(key, value)| (key.into(), value.into())));
    }
}
