//! Paths whose change waits for a decision, whoever owns them: what decides how the repository itself is treated (merge
//! attributes, submodules, hooks, what runs on a forge), and what the plan adds.
//!
//! An agent that is meant to change one says so in its contract by name: a glob that begins with the protected path, or
//! with the folder it protects. `**` names nothing.

use crate::model::RepoPath;
use crate::model::plan::Contract;

use super::contract::ContractError;
use super::glob::Glob;

/// What is protected in every run.
pub const PROTECTED: [&str; 31] = [
    "**/.gitattributes",
    "**/.gitmodules",
    "**/.lfsconfig",
    ".github/**",
    ".gitlab-ci.yml",
    ".gitlab/**",
    ".circleci/**",
    ".cirrus.yml",
    ".cirrus.star",
    ".buildkite/**",
    ".forgejo/**",
    ".gitea/**",
    ".tekton/**",
    ".woodpecker/**",
    ".woodpecker*",
    ".travis.yml",
    ".appveyor.yml",
    "appveyor.yml",
    ".drone.yml",
    "azure-pipelines.yml",
    "azure-pipelines.yaml",
    ".azure-pipelines/**",
    "bitbucket-pipelines.yml",
    "Jenkinsfile",
    ".githooks/**",
    ".husky/**",
    ".pre-commit-config.yaml",
    ".pre-commit-config.yml",
    "lefthook.*",
    ".lefthook.*",
    ".lefthook/**",
];

/// The protected paths of a plan, ready to judge.
#[derive(Debug, Clone)]
pub struct Protected {
    globs: Vec<Glob>,
}

impl Protected {
    /// What is protected in every run, and `more` of the plan's.
    pub fn new(more: &[String]) -> Result<Self, ContractError> {
        let all = PROTECTED.into_iter().chain(more.iter().map(String::as_str));
        let read = |text: &str| Glob::new(text).map_err(|cause| ContractError { glob: text.to_owned(), cause });
        Ok(Self { globs: all.map(read).collect::<Result<_, _>>()? })
    }

    /// The glob that protects `path` from an agent with this contract; none if it is not protected, or if the contract
    /// names it.
    pub fn holds(&self, path: &RepoPath, contract: &Contract) -> Option<&str> {
        let named = |glob: &Glob| {
            let owned = contract.owns.iter().chain(&contract.shares);
            owned.into_iter().any(|owned| names(owned, glob.text(), path))
        };
        self.globs.iter().filter(|glob| glob.matches(path)).find(|glob| !named(glob)).map(Glob::text)
    }
}

/// A protecting glob that a glob of a request names, so that a contract with that one would not be held back by it.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    protecting: &'a Glob,
    /// The path that the request names, where it is a path and not a pattern.
    path: Option<&'a str>,
}

impl Named<'_> {
    /// The protecting glob.
    pub fn text(&self) -> &str {
        self.protecting.text()
    }

    /// Whether another glob names it, too.
    pub fn is_named_by(&self, other: &Glob) -> bool {
        self.path.is_some_and(|path| path == other.text()) || names_folder(other.text(), self.protecting.text())
    }
}

impl Protected {
    /// What a glob names of what is protected.
    pub fn named_by<'a>(&'a self, glob: &'a str) -> impl Iterator<Item = Named<'a>> {
        let as_path = RepoPath::from(glob);
        self.globs.iter().filter_map(move |protecting| {
            let is_path = protecting.matches(&as_path);
            let named = is_path || names_folder(glob, protecting.text());
            named.then_some(Named { protecting, path: is_path.then_some(glob) })
        })
    }
}

/// Whether a contract's glob begins with the folder that a protecting glob protects.
fn names_folder(owned: &str, protecting: &str) -> bool {
    let folder = literal_folder(protecting);
    !folder.is_empty() && literal_folder(owned).starts_with(folder)
}

/// Whether a contract's glob names what a protecting glob protects, at `path`.
fn names(owned: &str, protecting: &str, path: &RepoPath) -> bool {
    if path.as_bytes() == owned.as_bytes() {
        return true;
    }
    names_folder(owned, protecting) && Glob::new(owned).is_ok_and(|owned| owned.matches(path))
}

/// The folder that a glob begins with, as far as it is written out, with its slash.
fn literal_folder(glob: &str) -> &str {
    let literal = glob.find(['*', '?', '[', '{', '\\']).map_or(glob, |at| &glob[..at]);
    literal.rfind('/').map_or("", |at| &literal[..=at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(path: &str, owns: &[&str]) -> Option<String> {
        let contract = Contract { owns: owns.iter().map(|glob| (*glob).to_owned()).collect(), shares: Vec::new() };
        let protected = Protected::new(&["tests/gate/**".to_owned()]).unwrap();
        protected.holds(&RepoPath::from(path), &contract).map(str::to_owned)
    }

    #[test]
    fn what_is_protected_and_who_may() {
        for (path, owns, held) in [
            ("src/a", &["**"][..], None),
            (".gitattributes", &["**"], Some("**/.gitattributes")),
            ("src/deep/.gitattributes", &["src/**"], Some("**/.gitattributes")),
            ("src/deep/.gitattributes", &["src/**", "src/deep/.gitattributes"], None),
            ("src/.gitattributes.md", &["**"], None),
            (".github/workflows/ci.yml", &["**"], Some(".github/**")),
            (".github/workflows/ci.yml", &[".github/workflows/*.yml"], None),
            (".github/workflows/ci.yml", &[".github/**"], None),
            (".github/workflows/ci.yml", &[".git*/**"], Some(".github/**")),
            (".github/workflows/ci.yml", &[".github/dependabot.yml", "**"], Some(".github/**")),
            (".gitlab-ci.yml", &["*.yml"], Some(".gitlab-ci.yml")),
            (".gitlab-ci.yml", &[".gitlab-ci.yml"], None),
            (".woodpecker.yaml", &[".woodpecker.yaml"], None),
            (".woodpecker/a.yml", &[".woodpecker/**"], None),
            (".pre-commit-config.yml", &[".pre-commit-config.yaml"], Some(".pre-commit-config.yml")),
            ("tests/gate/a", &["tests/**"], Some("tests/gate/**")),
            ("tests/gate/a", &["tests/gate/**"], None),
            ("tests/gate/a", &["tests/gate/b", "tests/**"], Some("tests/gate/**")),
        ] {
            assert_eq!(holds(path, owns).as_deref(), held, "{path} {owns:?}");
        }
    }

    /// What runs by itself, on a forge or at a commit, under each name that its program looks for.
    #[test]
    fn what_runs_by_itself_is_protected() {
        for path in [
            ".github/workflows/ci.yml",
            ".gitlab-ci.yml",
            ".gitlab/ci/build.yml",
            ".circleci/config.yml",
            ".cirrus.yml",
            ".cirrus.star",
            ".buildkite/pipeline.yml",
            ".forgejo/workflows/ci.yml",
            ".gitea/workflows/ci.yaml",
            ".tekton/push.yaml",
            ".woodpecker/test.yml",
            ".woodpecker.yml",
            ".woodpecker.yaml",
            ".travis.yml",
            ".appveyor.yml",
            "appveyor.yml",
            ".drone.yml",
            "azure-pipelines.yml",
            "azure-pipelines.yaml",
            ".azure-pipelines/build.yml",
            "bitbucket-pipelines.yml",
            "Jenkinsfile",
            ".githooks/pre-commit",
            ".husky/pre-push",
            ".pre-commit-config.yaml",
            ".pre-commit-config.yml",
            "lefthook.yml",
            "lefthook.yaml",
            ".lefthook.yml",
            ".lefthook.toml",
            ".lefthook/pre-commit/lint.sh",
        ] {
            assert!(holds(path, &["**"]).is_some(), "{path}");
            assert_eq!(holds(path, &[path]), None, "{path}");
        }
        for path in ["docs/lefthook.yml", "src/azure-pipelines.yaml", "lefthook", "woodpecker.yml"] {
            assert_eq!(holds(path, &["**"]), None, "{path}");
        }
    }

    #[test]
    fn a_glob_that_is_none_is_named() {
        assert_eq!(Protected::new(&["[".to_owned()]).unwrap_err().glob, "[");
    }
}
