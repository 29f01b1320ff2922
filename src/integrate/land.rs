//! Landing: the one change of the user's branch, and of their checkout where it is checked out.
//!
//! 1. Take the repository's lock. Settle a landing of before that was cut short.
//! 2. The target must stand at the very commit the candidate is built on. If it stands at the candidate, all is done.
//! 3. Look at every worktree: no operation under way where the target is checked out, none anywhere that will move it.
//! 4. If it is checked out: everything of the user's in the way of incoming paths is named, and then nothing has changed.
//! 5. Keep the checkout as it is, in a ref.
//! 6. Claim, on disk. Act: a compare-and-swap of the ref, or one fast-forward of the checkout. Read back, and confirm or
//!    release.
//!
//! What git says of step 6 decides nothing; what is read back does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::git::{
    Checkout, FastForward, Forward, NewCommit, Operation, RefEdit, Renames, Repository, Swap, TreeChange, Worktree,
    load_operations,
};
use crate::model::event::{Effect, EffectKind, EventKind, Identity, Subject};
use crate::model::gate::GateBlock;
use crate::model::run::RunState;
use crate::model::{CommitId, ObjectId, RefName};
use crate::store::lock::{Holder, Patience};
use crate::store::{Record, RepositoryLock, RunDir, StateDir, Workplaces};

use super::error::Error;
use super::facts::signature;
use super::settle::{Settled, settle_locked};
use super::{gates, message};

/// A request to land.
#[derive(Clone, Copy)]
pub struct Landing<'a> {
    /// The user's repository.
    pub repository: &'a Repository,
    /// The program's folder in it.
    pub state_dir: &'a StateDir,
    /// The run.
    pub run: &'a RunDir,
    /// What the journal tells of it.
    pub state: &'a RunState,
    /// The branch that is to move.
    pub target: &'a RefName,
    /// The commit it must stand at: what the candidate is built on.
    pub expected_tip: &'a CommitId,
    /// The commit it is to stand at.
    pub candidate: &'a CommitId,
    /// Who is named in the commits that keep the checkout.
    pub identity: &'a Identity,
    /// The date of those commits.
    pub started_at: Timestamp,
    /// How long updating the checkout may take.
    pub timeout: Duration,
    /// How to wait for the repository's lock.
    pub patience: Patience,
    /// Told who is waited for.
    pub notice: &'a dyn Fn(Option<&Holder>),
    /// Where it is told.
    pub journal: &'a dyn Record,
}

impl std::fmt::Debug for Landing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Landing")
            .field("run", self.run.id())
            .field("target", self.target)
            .field("expected_tip", self.expected_tip)
            .field("candidate", self.candidate)
            .finish_non_exhaustive()
    }
}

/// How a landing ended.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Landed {
    /// The target holds the candidate.
    Done {
        /// Where it stands.
        commit: CommitId,
        /// The checkout that was updated, if one was.
        checkout: Option<PathBuf>,
        /// Whether it was so before.
        already: bool,
    },
    /// The candidate is the target's tip: there is nothing to land.
    Nothing,
    /// The target is not where the candidate was built on. Nothing was changed.
    Moved {
        /// Where it is; none if it is gone.
        found: Option<ObjectId>,
    },
    /// Something is in the way, all of it named. Nothing was changed.
    Refused(Vec<GateBlock>),
}

/// Lands a candidate. The caller has asked the gate.
pub fn land(landing: &Landing<'_>) -> Result<Landed, Error> {
    if !is_users_branch(landing.target) {
        return Ok(Landed::Refused(vec![gates::not_a_target(landing.target)]));
    }
    let lock = RepositoryLock::acquire(landing.state_dir, landing.patience, landing.notice)?;
    let mut confirmed = landing.state.landed.clone();
    for claim in &landing.state.open_claims {
        match settle_locked(landing.repository, landing.journal, claim)? {
            Settled::Confirmed => confirmed = Some(claim.after.clone()),
            Settled::Released => {}
            Settled::Stuck(blocks) => return Ok(Landed::Refused(blocks)),
        }
    }
    if landing.candidate == landing.expected_tip {
        return Ok(Landed::Nothing);
    }
    match landing.repository.load_ref(landing.target)?.map(CommitId::from) {
        Some(found) if found == *landing.expected_tip => {}
        Some(found) if landing.repository.is_ancestor(landing.candidate, &found)? => {
            return already(landing, confirmed.as_ref(), found);
        }
        found => return Ok(Landed::Moved { found: found.map(|commit| commit.object().clone()) }),
    }
    if !landing.repository.is_ancestor(landing.expected_tip, landing.candidate)? {
        let (candidate, expected) = (landing.candidate.clone(), landing.expected_tip.clone());
        return Err(Error::NotBuiltOn { candidate, expected });
    }
    match find_holder(landing)? {
        Standing::Refused(blocks) => Ok(Landed::Refused(blocks)),
        Standing::Nowhere => land_ref(landing),
        Standing::In(path) => land_checkout(landing, &lock, &path),
    }
}

/// Whether a ref is a branch, and none of the program's own.
fn is_users_branch(target: &RefName) -> bool {
    target.branch_name().is_some_and(|name| !name.is_empty() && name != "sandbox" && !name.starts_with("sandbox/"))
}

/// The target holds the candidate, whoever saw to that. The journal is told if it does not know.
fn already(landing: &Landing<'_>, confirmed: Option<&CommitId>, found: CommitId) -> Result<Landed, Error> {
    if confirmed != Some(landing.candidate) {
        let note = "the target holds it already".to_owned();
        let effect = Effect { note: Some(note), ..effect(landing, None, None) };
        landing.journal.record(Subject::run(), EventKind::EffectConfirmed(effect))?;
    }
    Ok(Landed::Done { commit: found, checkout: None, already: true })
}

/// Where the target is checked out.
enum Standing {
    Nowhere,
    In(PathBuf),
    Refused(Vec<GateBlock>),
}

fn find_holder(landing: &Landing<'_>) -> Result<Standing, Error> {
    let worktrees = landing.repository.load_worktrees()?;
    let holds = |worktree: &&Worktree| worktree.branch.as_ref() == Some(landing.target);
    let holders: Vec<&Worktree> = worktrees.iter().filter(holds).collect();
    let mut blocks = Vec::new();
    for worktree in &worktrees {
        let Some(git_dir) = &worktree.git_dir else { continue };
        let is_holder = holds(&worktree);
        let in_the_way = |it: &Operation| is_holder || it.branches.contains(landing.target);
        let found = load_operations(git_dir)?;
        blocks.extend(found.iter().filter(|it| in_the_way(it)).map(|it| gates::operation(&worktree.path, it)));
    }
    if holders.len() > 1 {
        let paths: Vec<&Path> = holders.iter().map(|it| it.path.as_path()).collect();
        blocks.push(gates::several_holders(landing.target, &paths));
    }
    for holder in &holders {
        if holder.path == landing.repository.common_dir() {
            blocks.push(gates::place_unknown(landing.target, &holder.path));
        } else if !holder.path.is_dir() {
            blocks.push(gates::missing_worktree(landing.target, &holder.path));
        } else if is_agents(landing, &holder.path) {
            blocks.push(gates::agents_worktree(landing.target, &holder.path));
        }
    }
    Ok(match holders.first() {
        _ if !blocks.is_empty() => Standing::Refused(blocks),
        Some(holder) => Standing::In(holder.path.clone()),
        None => Standing::Nowhere,
    })
}

/// Whether this is a worktree of some run of this repository. Nothing of git's is run where an agent could write.
fn is_agents(landing: &Landing<'_>, path: &Path) -> bool {
    let occupant = path.file_name().and_then(Workplaces::occupant_of);
    occupant.is_some_and(|(run, _)| landing.state_dir.run(&run).root().is_dir())
}

fn effect(landing: &Landing<'_>, checkout: Option<&Path>, rescue: Option<RefName>) -> Effect {
    Effect {
        key: format!("land {} {} {}", landing.target, landing.expected_tip, landing.candidate),
        effect: EffectKind::Land,
        reference: landing.target.clone(),
        before: landing.expected_tip.clone(),
        after: landing.candidate.clone(),
        checkout: checkout.map(Path::to_owned),
        rescue,
        note: None,
    }
}

fn claim(landing: &Landing<'_>, effect: &Effect) -> Result<(), Error> {
    landing.journal.record(Subject::run(), EventKind::EffectClaimed(effect.clone()))?;
    Ok(())
}

/// The target is checked out nowhere: only the ref moves.
fn land_ref(landing: &Landing<'_>) -> Result<Landed, Error> {
    let effect = effect(landing, None, None);
    claim(landing, &effect)?;
    let edit = RefEdit::Update {
        name: landing.target.clone(),
        new: landing.candidate.object().clone(),
        old: landing.expected_tip.object().clone(),
    };
    let swapped = landing.repository.swap_refs(&[edit], &format!("sandbox: land {}", landing.run.id()));
    match (settle_locked(landing.repository, landing.journal, &effect)?, swapped) {
        (Settled::Confirmed, _) => Ok(done(landing, None)),
        (Settled::Released, Ok(Swap::Lost { found, .. })) => Ok(Landed::Moved { found }),
        (Settled::Released, Ok(Swap::Done)) => {
            // It moved on in the moment between.
            Ok(Landed::Moved { found: landing.repository.load_ref(landing.target)? })
        }
        (Settled::Released, Err(error)) => Err(error.into()),
        (Settled::Stuck(blocks), _) => Ok(Landed::Refused(blocks)),
    }
}

/// The target is checked out: the checkout goes with it.
fn land_checkout(landing: &Landing<'_>, lock: &RepositoryLock, path: &Path) -> Result<Landed, Error> {
    let checkout = Checkout::open(landing.repository.git(), path)?;
    let incoming = load_incoming(landing.repository, landing.expected_tip, landing.candidate)?;
    let obstacles = checkout.load_obstacles(&incoming)?;
    if !obstacles.is_empty() {
        return Ok(Landed::Refused(gates::obstacles(path, &obstacles)));
    }
    let (rescue, note) = keep(landing, &checkout)?;
    let effect = Effect { note, ..effect(landing, Some(path), Some(rescue)) };
    claim(landing, &effect)?;
    let forward = Forward {
        target: landing.target,
        old: landing.expected_tip,
        new: landing.candidate,
        timeout: landing.timeout,
        // Should we die, whoever takes the lock next waits for this git to end before it looks at what it did.
        held: Some(lock.share()?),
    };
    let forwarded = checkout.fast_forward(forward);
    match (settle_locked(landing.repository, landing.journal, &effect)?, forwarded) {
        (Settled::Confirmed, _) => Ok(done(landing, Some(path))),
        (Settled::Stuck(blocks), _) => Ok(Landed::Refused(blocks)),
        (Settled::Released, Ok(FastForward::Applied)) => Err(Error::Unclear {
            reference: landing.target.clone(),
            before: landing.expected_tip.clone(),
            after: landing.candidate.clone(),
            found: gates::moved_text(landing.repository.load_ref(landing.target)?.map(CommitId::from).as_ref()),
        }),
        (Settled::Released, Ok(FastForward::Refused { message })) => {
            let found = landing.repository.load_ref(landing.target)?;
            if found.as_ref() == Some(landing.expected_tip.object()) {
                Ok(Landed::Refused(vec![gates::git_refused(path, &message)]))
            } else {
                Ok(Landed::Moved { found })
            }
        }
        (Settled::Released, Err(error)) => Err(error.into()),
    }
}

fn done(landing: &Landing<'_>, checkout: Option<&Path>) -> Landed {
    let commit = landing.candidate.clone();
    Landed::Done { commit, checkout: checkout.map(Path::to_owned), already: false }
}

/// The changes that landing brings, renames not looked for.
pub(super) fn load_incoming(repository: &Repository, old: &CommitId, new: &CommitId) -> Result<Vec<TreeChange>, Error> {
    let (old, new) = (repository.load_commit(old)?.tree, repository.load_commit(new)?.tree);
    Ok(repository.load_changes(&old, &new, Renames::Ignore)?)
}

/// Keeps the checkout as it is in the run's rescue ref, and gives what could not be kept. What an earlier landing of the
/// run has kept stays in the ref's history.
fn keep(landing: &Landing<'_>, checkout: &Checkout) -> Result<(RefName, Option<String>), Error> {
    let name = RefName::rescue(landing.run.id());
    let author = signature(landing.identity, landing.started_at);
    let text = message::rescue(landing.run.id(), landing.target);
    let rescue = checkout.capture_rescue(landing.expected_tip, &author, &text)?;
    let edit = match landing.repository.load_ref(&name)? {
        None => RefEdit::Create { name: name.clone(), new: rescue.commit.object().clone() },
        Some(old) => {
            let parents = [landing.expected_tip.clone(), rescue.index, old.clone().into()];
            let commit = landing.repository.write_commit(&NewCommit {
                tree: &rescue.tree,
                parents: &parents,
                author: &author,
                committer: &author,
                message: &text,
            })?;
            RefEdit::Update { name: name.clone(), new: commit.object().clone(), old }
        }
    };
    match landing.repository.swap_refs(&[edit], "sandbox: keep the checkout")? {
        Swap::Done => {}
        Swap::Lost { name, found, .. } => {
            let found = found.map_or_else(|| "nothing".to_owned(), |found| found.to_string());
            return Err(Error::RescueMoved { reference: name, found });
        }
    }
    let note = (!rescue.left_out.is_empty()).then(|| format!("not kept: {}", rescue.left_out.join("; ")));
    Ok((name, note))
}
