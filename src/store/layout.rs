//! Where everything lies. The only file that knows a path on disk; it computes, and touches nothing.
//!
//! ```text
//! <git common dir>/sandbox/                                     StateDir
//!   FORMAT  lock  next  incoming/  scratch/  trash/
//!   receipts/<aa>/<key>.json
//!   runs/<run>/                                                 RunDir
//!     run.lock  control.sock  control.key  plan.toml  settings.json  host.json  journal.jsonl  journal.torn-<n>  status.json
//!     git-progress/latest.json  cards/<card>.json  verify/<n>.log
//!     agents/<agent>/turns/<attempt>.<turn>.{patch,json}  agents/<agent>/output/<attempt>.<turn>.log
//! <worktrees root>/<repository key>/                            Workplaces
//!   <run>--<agent>[.<generation>]/                              Workplace: the worktree
//!   .private/<run>--<agent>[.<generation>]/{git,capture,capture-box,home,tmp}
//!   .trash/
//! ```
//!
//! Names hold `--` and `.` never, so a folder's name says for certain whose it is.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Error, env};
use crate::model::{AgentName, CardId, RunId, TurnId};

/// The name of a run's control socket in the run's folder.
pub const CONTROL_SOCKET: &str = "control.sock";

/// The program's folder in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// The folder in the repository with this git common dir.
    pub fn in_common_dir(common_dir: &Path) -> Self {
        Self { root: common_dir.join("sandbox") }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The format's number.
    pub fn format(&self) -> PathBuf {
        self.root.join("FORMAT")
    }

    /// The repository lock.
    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// The number of the next run.
    pub fn next(&self) -> PathBuf {
        self.root.join("next")
    }

    /// Where packs wait until they are checked.
    pub fn incoming(&self) -> PathBuf {
        self.root.join("incoming")
    }

    /// Folders that are needed for a moment.
    pub fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// What is about to be removed.
    pub fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    /// The receipts.
    pub fn receipts(&self) -> PathBuf {
        self.root.join("receipts")
    }

    /// One receipt, by the hash of its key.
    pub fn receipt(&self, key: &str) -> PathBuf {
        self.receipts().join(key.get(..2).unwrap_or(key)).join(format!("{key}.json"))
    }

    /// The runs.
    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// One run.
    pub fn run(&self, id: &RunId) -> RunDir {
        RunDir { root: self.runs().join(id.as_str()), id: id.clone() }
    }

    /// Where a run's folder is filled before it is a run. Begins with a dot, so it is never taken for one.
    pub(crate) fn staged_run(&self, id: &RunId) -> RunDir {
        RunDir { root: self.runs().join(format!(".new-{id}")), id: id.clone() }
    }
}

/// Where a user has folders that are needed for a moment, and belong to no repository.
pub(super) fn users_scratch(uid: u32) -> PathBuf {
    std::env::temp_dir().join(format!("sandbox-{uid}"))
}

/// The folder of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    root: PathBuf,
    id: RunId,
}

impl RunDir {
    /// The run.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Held while a coordinator lives.
    pub fn lock(&self) -> PathBuf {
        self.root.join("run.lock")
    }

    /// Where a living coordinator can be asked for something.
    pub fn control_socket(&self) -> PathBuf {
        self.root.join(CONTROL_SOCKET)
    }

    /// What shows the coordinator that whoever asks can read the run's folder.
    pub fn control_key(&self) -> PathBuf {
        self.root.join("control.key")
    }

    /// The plan as it was when the run began.
    pub fn plan(&self) -> PathBuf {
        self.root.join("plan.toml")
    }

    /// The settings as they were when the run began.
    pub fn settings(&self) -> PathBuf {
        self.root.join("settings.json")
    }

    /// What the machine could do when the run began.
    pub fn host(&self) -> PathBuf {
        self.root.join("host.json")
    }

    /// The journal.
    pub fn journal(&self) -> PathBuf {
        self.root.join("journal.jsonl")
    }

    /// Where the `number`th torn end of the journal is kept.
    pub fn torn(&self, number: u32) -> PathBuf {
        self.root.join(format!("journal.torn-{number}"))
    }

    /// The status, derived.
    pub fn status(&self) -> PathBuf {
        self.root.join("status.json")
    }

    /// The newest progress, derived.
    pub fn git_progress(&self) -> PathBuf {
        self.root.join("git-progress/latest.json")
    }

    /// The cards, derived.
    pub fn cards(&self) -> PathBuf {
        self.root.join("cards")
    }

    /// One card, derived.
    pub fn card(&self, id: &CardId) -> PathBuf {
        self.cards().join(format!("{id}.json"))
    }

    /// What commands printed that were to resolve one card.
    pub fn resolver_output(&self, card: &CardId) -> PathBuf {
        self.root.join("resolve").join(format!("{card}.log"))
    }

    /// What such commands asked of the network.
    pub fn resolver_network(&self) -> PathBuf {
        self.root.join("resolve").join("network.jsonl")
    }

    /// What belongs to one agent.
    pub fn agent(&self, agent: &AgentName) -> PathBuf {
        self.root.join("agents").join(agent.as_str())
    }

    /// An agent's bundles.
    pub fn turns(&self, agent: &AgentName) -> PathBuf {
        self.agent(agent).join("turns")
    }

    /// The patch of one turn.
    pub fn patch(&self, agent: &AgentName, turn: TurnId) -> PathBuf {
        self.turns(agent).join(format!("{turn}.patch"))
    }

    /// What is known of one turn.
    pub fn turn(&self, agent: &AgentName, turn: TurnId) -> PathBuf {
        self.turns(agent).join(format!("{turn}.json"))
    }

    /// What one turn's command printed.
    pub fn output(&self, agent: &AgentName, turn: TurnId) -> PathBuf {
        self.agent(agent).join("output").join(format!("{turn}.log"))
    }

    /// What an agent's `generation`th worktree is known by.
    pub fn workspace(&self, agent: &AgentName, generation: u32) -> PathBuf {
        self.agent(agent).join(format!("workspace.{generation}.json"))
    }

    /// What was ignored in an agent's `generation`th worktree when it was removed.
    pub fn ignored(&self, agent: &AgentName, generation: u32) -> PathBuf {
        self.agent(agent).join(format!("ignored.{generation}.json"))
    }

    /// What an agent asked of the network.
    pub fn network(&self, agent: &AgentName) -> PathBuf {
        self.agent(agent).join("network.jsonl")
    }

    /// What the verifications of this run asked of it.
    pub fn verify_network(&self) -> PathBuf {
        self.root.join("verify").join("network.jsonl")
    }

    /// What a hook printed: `name` says which, and for what.
    pub fn hook_output(&self, name: &str) -> PathBuf {
        self.root.join("hooks").join(format!("{name}.log"))
    }

    /// What the `number`th verification of this run printed.
    pub fn verify_output(&self, number: u64) -> PathBuf {
        self.root.join("verify").join(format!("{number}.log"))
    }

    /// The path as events name it: relative to the run's folder. `None` if it lies elsewhere.
    pub fn relative(&self, path: &Path) -> Option<String> {
        path.strip_prefix(&self.root).ok()?.to_str().map(str::to_owned)
    }
}

/// A repository's folder name among others' worktrees: readable, and different for different repositories.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepoKey(String);

impl RepoKey {
    /// The key of the repository with this git common dir, which must be the canonical path.
    pub fn of_common_dir(canonical: &Path) -> Self {
        let own = if canonical.file_name() == Some(OsStr::new(".git")) { canonical.parent() } else { Some(canonical) };
        let name = own.and_then(Path::file_name).map(OsStr::as_bytes).unwrap_or_default();
        let readable: String = name
            .iter()
            .take(24)
            .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte.to_ascii_lowercase()) } else { '-' })
            .collect();
        let readable = readable.trim_matches('-');
        let readable = if readable.is_empty() { "repository" } else { readable };
        Self(format!("{readable}-{}", short_hash(canonical.as_os_str())))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RepoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

fn short_hash(text: &OsStr) -> String {
    let mut hash = hex::encode(Sha256::digest(text.as_bytes()));
    hash.truncate(16);
    hash
}

/// The folder that holds all worktrees of one repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workplaces {
    root: PathBuf,
}

/// Who works in a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Occupant {
    /// An agent.
    Agent {
        /// Which.
        name: AgentName,
        /// Which of its worktrees, from 1: a retry that starts afresh keeps the old one.
        generation: u32,
    },
    /// The parent verifier.
    Verify,
    /// The person who merges a conflict by hand.
    Card(CardId),
    /// The user's own git hook, before a landing.
    Hook,
    /// A command that resolves a conflict.
    Resolver(CardId),
}

impl Occupant {
    /// An agent in its first worktree.
    pub fn agent(name: &AgentName) -> Self {
        Self::Agent { name: name.clone(), generation: 1 }
    }
}

impl Workplaces {
    /// The folder of the repository `key` below the worktrees root.
    pub fn new(worktrees_root: &Path, key: &RepoKey) -> Self {
        Self { root: worktrees_root.join(key.as_str()) }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The private folders of all worktrees.
    pub fn private_root(&self) -> PathBuf {
        self.root.join(".private")
    }

    /// What is about to be removed.
    pub fn trash(&self) -> PathBuf {
        self.root.join(".trash")
    }

    /// Where `occupant` of `run` works.
    pub fn place(&self, run: &RunId, occupant: &Occupant) -> Workplace {
        let name = match occupant {
            Occupant::Agent { name, generation: 0 | 1 } => format!("{run}--{name}"),
            Occupant::Agent { name, generation } => format!("{run}--{name}.{generation}"),
            Occupant::Verify => format!("{run}--verify"),
            Occupant::Card(card) => format!("{run}--card.{card}"),
            Occupant::Hook => format!("{run}--hook.merge"),
            Occupant::Resolver(card) => format!("{run}--resolve.{card}"),
        };
        Workplace { worktree: self.root.join(&name), private: self.private_root().join(&name), name }
    }

    /// Whose folder this is, by its name. `None`: not one of ours.
    pub fn occupant_of(folder: &OsStr) -> Option<(RunId, Occupant)> {
        let (run, rest) = folder.to_str()?.split_once("--")?;
        let run = run.parse().ok()?;
        if rest == "verify" {
            return Some((run, Occupant::Verify));
        }
        if rest == "hook.merge" {
            return Some((run, Occupant::Hook));
        }
        if let Some(card) = rest.strip_prefix("card.").and_then(|card| card.parse::<CardId>().ok()) {
            return Some((run, Occupant::Card(card)));
        }
        if let Some(card) = rest.strip_prefix("resolve.").and_then(|card| card.parse::<CardId>().ok()) {
            return Some((run, Occupant::Resolver(card)));
        }
        let (name, generation) = match rest.split_once('.') {
            None => (rest, 1),
            Some((name, number)) => {
                let generation = number.parse::<u32>().ok().filter(|n| *n > 1 && n.to_string() == number)?;
                (name, generation)
            }
        };
        Some((run, Occupant::Agent { name: name.parse().ok()?, generation }))
    }
}

/// A worktree and the private folder beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workplace {
    name: String,
    worktree: PathBuf,
    private: PathBuf,
}

impl Workplace {
    /// The folder's name, which is also the id of the linked worktree.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The worktree.
    pub fn worktree(&self) -> &Path {
        &self.worktree
    }

    /// The private folder.
    pub fn private(&self) -> &Path {
        &self.private
    }

    /// The private git directory.
    pub fn git(&self) -> PathBuf {
        self.private.join("git")
    }

    /// The git directory that snapshots are taken with, which the agent never has.
    pub fn capture(&self) -> PathBuf {
        self.private.join("capture")
    }

    /// The agent's home.
    pub fn home(&self) -> PathBuf {
        self.private.join("home")
    }

    /// What boxes in the worktree hold locked until nothing of them is left.
    pub fn box_lock(&self) -> PathBuf {
        self.private.join("box.lock")
    }

    /// Marks that the worktree's link leads to the private git directory.
    pub fn repointed(&self) -> PathBuf {
        self.private.join("repointed")
    }

    /// The home of the box that captures are made in.
    pub fn capture_home(&self) -> PathBuf {
        self.private.join("capture-box/home")
    }

    /// The temporary folder of the box that captures are made in.
    pub fn capture_tmp(&self) -> PathBuf {
        self.private.join("capture-box/tmp")
    }

    /// The agent's temporary folder.
    pub fn tmp(&self) -> PathBuf {
        self.private.join("tmp")
    }
}

/// What the place of all worktrees is decided from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RootSources {
    /// `SANDBOX_WORKTREES`.
    pub sandbox_worktrees: Option<OsString>,
    /// `XDG_STATE_HOME`.
    pub xdg_state_home: Option<OsString>,
    /// `HOME`.
    pub home: Option<OsString>,
}

/// The worktrees root: `SANDBOX_WORKTREES`, else `$XDG_STATE_HOME/sandbox/worktrees`, else
/// `$HOME/.local/state/sandbox/worktrees`. An empty variable counts as unset. A relative path is refused where it was
/// meant for us; `XDG_STATE_HOME` is ignored then, as its specification says.
pub fn worktrees_root(sources: &RootSources) -> Result<PathBuf, Error> {
    let given = |value: &Option<OsString>| value.clone().filter(|it| !it.is_empty()).map(PathBuf::from);
    let absolute = |name: &'static str, path: PathBuf| {
        if path.is_absolute() {
            Ok(path)
        } else {
            let reason = format!("is `{}`, a relative path: write the whole path", path.display());
            Err(Error::Setting { name, reason })
        }
    };
    if let Some(path) = given(&sources.sandbox_worktrees) {
        return absolute(env::SANDBOX_WORKTREES, path);
    }
    if let Some(path) = given(&sources.xdg_state_home).filter(|path| path.is_absolute()) {
        return Ok(path.join("sandbox/worktrees"));
    }
    if let Some(path) = given(&sources.home) {
        return Ok(absolute(env::HOME, path)?.join(".local/state/sandbox/worktrees"));
    }
    let reason = format!("is not set, so there is no place for worktrees: set it, or {}", env::SANDBOX_WORKTREES);
    Err(Error::Setting { name: env::HOME, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worktrees_root_is_the_first_that_is_given() {
        let all = RootSources {
            sandbox_worktrees: Some("/own".into()),
            xdg_state_home: Some("/xdg".into()),
            home: Some("/home/u".into()),
        };
        let xdg = RootSources { sandbox_worktrees: None, ..all.clone() };
        let home = RootSources { xdg_state_home: None, ..xdg.clone() };
        let cases = [
            (all.clone(), "/own"),
            (RootSources { sandbox_worktrees: Some("".into()), ..all.clone() }, "/xdg/sandbox/worktrees"),
            (xdg.clone(), "/xdg/sandbox/worktrees"),
            (RootSources { xdg_state_home: Some("rel".into()), ..xdg }, "/home/u/.local/state/sandbox/worktrees"),
            (home, "/home/u/.local/state/sandbox/worktrees"),
        ];
        for (sources, expected) in cases {
            assert_eq!(worktrees_root(&sources).unwrap(), Path::new(expected), "{sources:?}");
        }
        for wrong in [
            RootSources::default(),
            RootSources { sandbox_worktrees: Some("rel".into()), ..all },
            RootSources { home: Some("rel".into()), ..RootSources::default() },
        ] {
            assert!(matches!(worktrees_root(&wrong), Err(Error::Setting { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn a_folder_says_whose_it_is() {
        let places = Workplaces::new(Path::new("/w"), &RepoKey::of_common_dir(Path::new("/src/My App/.git")));
        let run: RunId = "log-in-3".parse().unwrap();
        let name: AgentName = "parser-2".parse().unwrap();
        for occupant in [
            Occupant::Verify,
            Occupant::Hook,
            Occupant::agent(&name),
            Occupant::Agent { name: name.clone(), generation: 2 },
            Occupant::Agent { name, generation: 11 },
            Occupant::Card("c1a2b3c4d5e6".parse().unwrap()),
        ] {
            let place = places.place(&run, &occupant);
            assert_eq!(Workplaces::occupant_of(OsStr::new(place.name())), Some((run.clone(), occupant)));
            assert_eq!(place.private().file_name(), place.worktree().file_name());
        }
        for foreign in
            ["", "x", "log-in--a", "log-in-3", "log-in-3--", "log-in-3--a.1", "log-in-3--a.02", ".private", "a-1--b--c"]
        {
            assert_eq!(Workplaces::occupant_of(OsStr::new(foreign)), None, "{foreign}");
        }
    }

    #[test]
    fn repository_keys_are_readable_and_distinct() {
        let key = |path: &str| RepoKey::of_common_dir(Path::new(path)).to_string();
        assert!(key("/src/My App/.git").starts_with("my-app-"));
        assert!(key("/srv/bare.git").starts_with("bare-git-"));
        assert!(key("/").starts_with("repository-"));
        assert!(key("/x/äöü/.git").starts_with("repository-"));
        assert_ne!(key("/a/app/.git"), key("/b/app/.git"));
    }
}
