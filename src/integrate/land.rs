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
//! What git says of step 6 decides nothing; what is read back does. Where that proves that nothing has happened, steps 2
//! to 6 are gone through once more, after a moment; never where it proves less.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::git::{
    Checkout, FastForward, Forward, NewCommit, Operation, OperationKind, RefEdit, Renames, Repository, Swap,
    TreeChange, Worktree, load_operations,
};
use crate::model::currency::{Asker, Authority, Begin, Claim, Input, Item, Refusal, Release, Sight, permit, step};
use crate::model::event::{Currency, Effect, EffectKind, EventKind, Identity, Subject};
use crate::model::gate::GateBlock;
use crate::model::run::RunState;
use crate::model::{CommitId, ObjectId, RefName};
use crate::store::lock::{Holder, Patience};
use crate::store::{Record, RepositoryLock, RunDir, StateDir, Workplaces, process};

use super::currency::{Observation, observation_key};
use super::error::Error;
use super::facts::signature;
use super::following::Following;
use super::settle::{BACKOFF, Settled, settle_held};
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
    /// Who asks for it.
    pub asked: Asker,
    /// Whether moving the target is allowed.
    pub authority: Authority,
    /// Whether the run ends, so that nothing new begins. Asked right before.
    pub ending: &'a dyn Fn() -> bool,
    /// Waits for so long.
    pub pause: &'a dyn Fn(Duration),
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
    /// It may not be begun. Nothing was changed.
    NotBegun(Refusal),
    /// It was begun, and what became of it cannot be told: this is in the way of that. The claim stays open.
    Stuck(Vec<GateBlock>),
}

/// How one try ended.
enum Tried {
    /// Like this.
    Ended(Landed),
    /// It is proven that nothing has happened. This is why, and what it comes to where it is not tried again.
    WithoutEffect(Result<Landed, Error>),
    /// Another git holds a lock, and nothing was begun.
    Busy(Vec<GateBlock>),
}

/// Lands a candidate. The caller has asked the gate.
pub fn land(landing: &Landing<'_>) -> Result<Landed, Error> {
    if !is_users_branch(landing.target) {
        return Ok(Landed::Refused(vec![gates::not_a_target(landing.target)]));
    }
    let lock = RepositoryLock::acquire(landing.state_dir, landing.patience, landing.notice)?;
    let told = Following::new(landing.journal, landing.state);
    for claim in landing.state.open_claims.iter().filter(|claim| claim.effect == EffectKind::Land) {
        match settle_held(landing.repository, &told, claim)? {
            Settled::Confirmed | Settled::Released(_) => {}
            Settled::Stuck(blocks) => return Ok(Landed::Stuck(blocks)),
        }
    }
    let (mut asked, mut waited) = (landing.asked, false);
    loop {
        match attempt(landing, &told, &lock, asked)? {
            Tried::Ended(landed) => return Ok(landed),
            Tried::Busy(blocks) if waited => return Ok(Landed::Refused(blocks)),
            // Looking is no attempt, and most such locks are gone in a moment.
            Tried::Busy(_) => {
                waited = true;
                (landing.pause)(BACKOFF);
            }
            Tried::WithoutEffect(landed) => {
                // Once more is the program's own doing, whoever asked for the first.
                asked = Asker::Run;
                if told.read(|state| state.landing.as_ref().is_none_or(Item::is_spent)) {
                    return landed;
                }
                (landing.pause)(BACKOFF);
            }
        }
    }
}

/// One try: looks at everything, claims, acts, reads back.
fn attempt(landing: &Landing<'_>, told: &Following<'_>, lock: &RepositoryLock, asked: Asker) -> Result<Tried, Error> {
    let ended = |landed| Ok(Tried::Ended(landed));
    let is_nothing = landing.candidate == landing.expected_tip;
    match landing.repository.load_ref(landing.target)?.map(CommitId::from) {
        Some(found) if found == *landing.expected_tip && !is_nothing => {}
        Some(found) if is_nothing && landing.repository.is_ancestor(landing.candidate, &found)? => {
            return ended(Landed::Nothing);
        }
        Some(found) if !is_nothing && landing.repository.is_ancestor(landing.candidate, &found)? => {
            return ended(already(landing, told, found)?);
        }
        found => return ended(Landed::Moved { found: found.map(|commit| commit.object().clone()) }),
    }
    if !landing.repository.is_ancestor(landing.expected_tip, landing.candidate)? {
        let (candidate, expected) = (landing.candidate.clone(), landing.expected_tip.clone());
        return Err(Error::NotBuiltOn { candidate, expected });
    }
    if let Err(refusal) = allowed(landing, told, asked) {
        return ended(Landed::NotBegun(refusal));
    }
    match find_holder(landing)? {
        Standing::Refused(blocks) => ended(Landed::Refused(blocks)),
        Standing::Busy(blocks) => Ok(Tried::Busy(blocks)),
        Standing::Nowhere => land_ref(landing, told, asked),
        Standing::In(path) => land_checkout(landing, told, asked, lock, &path),
    }
}

/// Whether a try may be begun now. Gives the how many-th it is for exactly this.
fn allowed(landing: &Landing<'_>, told: &Following<'_>, asked: Asker) -> Result<u32, Refusal> {
    let sight = sight(landing);
    let known = told.read(|state| state.landing.clone()).unwrap_or_else(|| Item::new(sight.clone()));
    let seen = step(&known, &Input::Mergeable(&sight))?;
    // Which process it is does not decide whether one may.
    let invocation = crate::model::event::Invocation { pid: 0, start_ticks: 0, boot_id: String::new() };
    let claim = Claim { key: &sight.key, invocation: &invocation, asked };
    let begin = Begin { authority: landing.authority, ending: (landing.ending)(), claim };
    Ok(permit(&seen, &begin)?.next_attempt())
}

/// What is landed, and onto what: the tip was read under the repository's lock.
fn sight(landing: &Landing<'_>) -> Sight {
    let (status, route) = (Currency::Current, "land");
    let key = observation_key(&Observation {
        common_dir: landing.repository.common_dir(),
        target: Some(landing.target),
        tip: landing.expected_tip,
        head: Some(landing.candidate),
        status,
        route,
    });
    Sight { key, head: Some(landing.candidate.clone()), status, route: route.to_owned() }
}

/// Whether a ref is a branch, and none of the program's own.
fn is_users_branch(target: &RefName) -> bool {
    target.branch_name().is_some_and(|name| !name.is_empty() && name != "sandbox" && !name.starts_with("sandbox/"))
}

/// The target holds the candidate, whoever saw to that. The journal is told if it does not know.
fn already(landing: &Landing<'_>, told: &Following<'_>, found: CommitId) -> Result<Landed, Error> {
    if told.read(|state| state.landed.as_ref() != Some(landing.candidate)) {
        let note = "the target holds it already".to_owned();
        let effect = Effect { note: Some(note), ..effect(landing, None, None)? };
        told.record(Subject::run(), EventKind::EffectConfirmed(effect))?;
    }
    Ok(Landed::Done { commit: found, checkout: None, already: true })
}

/// Where the target is checked out.
enum Standing {
    Nowhere,
    In(PathBuf),
    Refused(Vec<GateBlock>),
    /// Nothing is in the way but locks of other gits.
    Busy(Vec<GateBlock>),
}

fn find_holder(landing: &Landing<'_>) -> Result<Standing, Error> {
    let worktrees = landing.repository.load_worktrees()?;
    let holds = |worktree: &&Worktree| worktree.branch.as_ref() == Some(landing.target);
    let holders: Vec<&Worktree> = worktrees.iter().filter(holds).collect();
    let mut blocks = Vec::new();
    let mut busy = Vec::new();
    for worktree in &worktrees {
        let Some(git_dir) = &worktree.git_dir else { continue };
        let is_holder = holds(&worktree);
        let in_the_way = |it: &Operation| is_holder || it.branches.contains(landing.target);
        let found = load_operations(git_dir)?;
        for it in found.iter().filter(|it| in_the_way(it)) {
            let told = gates::operation(&worktree.path, it);
            if it.kind == OperationKind::IndexLocked { busy.push(told) } else { blocks.push(told) }
        }
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
        _ if !blocks.is_empty() => {
            blocks.extend(busy);
            Standing::Refused(blocks)
        }
        _ if !busy.is_empty() => Standing::Busy(busy),
        Some(holder) => Standing::In(holder.path.clone()),
        None => Standing::Nowhere,
    })
}

/// Whether this is a worktree of some run of this repository. Nothing of git's is run where an agent could write.
fn is_agents(landing: &Landing<'_>, path: &Path) -> bool {
    let occupant = path.file_name().and_then(Workplaces::occupant_of);
    occupant.is_some_and(|(run, _)| landing.state_dir.run(&run).root().is_dir())
}

fn effect(landing: &Landing<'_>, checkout: Option<&Path>, rescue: Option<RefName>) -> Result<Effect, Error> {
    Ok(Effect {
        key: format!("land {} {} {}", landing.target, landing.expected_tip, landing.candidate),
        effect: EffectKind::Land,
        reference: landing.target.clone(),
        before: landing.expected_tip.clone(),
        created: false,
        after: landing.candidate.clone(),
        checkout: checkout.map(Path::to_owned),
        rescue,
        note: None,
        invocation: Some(process::current()?),
        works: Vec::new(),
        observation_key: Some(sight(landing).key),
        attempt: None,
        asked: None,
        release: None,
    })
}

/// Claims, on disk, unless it may not be begun any more.
fn claim(
    landing: &Landing<'_>,
    told: &Following<'_>,
    asked: Asker,
    effect: Effect,
) -> Result<Result<Effect, Refusal>, Error> {
    let attempt = match allowed(landing, told, asked) {
        Ok(attempt) => attempt,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let effect = Effect { attempt: Some(attempt), asked: Some(asked), ..effect };
    told.record(Subject::run(), EventKind::EffectClaimed(effect.clone()))?;
    Ok(Ok(effect))
}

/// The target is checked out nowhere: only the ref moves.
fn land_ref(landing: &Landing<'_>, told: &Following<'_>, asked: Asker) -> Result<Tried, Error> {
    let effect = match claim(landing, told, asked, effect(landing, None, None)?)? {
        Ok(effect) => effect,
        Err(refusal) => return Ok(Tried::Ended(Landed::NotBegun(refusal))),
    };
    let edit = RefEdit::Update {
        name: landing.target.clone(),
        new: landing.candidate.object().clone(),
        old: landing.expected_tip.object().clone(),
    };
    let swapped = landing.repository.swap_refs(&[edit], &format!("sandbox: land {}", landing.run.id()));
    Ok(match (settle_held(landing.repository, told, &effect)?, swapped) {
        (Settled::Confirmed, _) => Tried::Ended(done(landing, None)),
        (Settled::Released(_), Ok(Swap::Lost { found, .. })) => Tried::Ended(Landed::Moved { found }),
        (Settled::Released(_), Ok(Swap::Done)) => {
            // It moved on in the moment between.
            Tried::Ended(Landed::Moved { found: landing.repository.load_ref(landing.target)? })
        }
        (Settled::Released(Release::Moved), Err(_)) => {
            Tried::Ended(Landed::Moved { found: landing.repository.load_ref(landing.target)? })
        }
        (Settled::Released(Release::Untouched | Release::Undone), Err(error)) => {
            Tried::WithoutEffect(Err(error.into()))
        }
        (Settled::Stuck(blocks), _) => Tried::Ended(Landed::Stuck(blocks)),
    })
}

/// The target is checked out: the checkout goes with it.
fn land_checkout(
    landing: &Landing<'_>,
    told: &Following<'_>,
    asked: Asker,
    lock: &RepositoryLock,
    path: &Path,
) -> Result<Tried, Error> {
    let checkout = Checkout::open(landing.repository.git(), path)?;
    let incoming = load_incoming(landing.repository, landing.expected_tip, landing.candidate)?;
    let obstacles = checkout.load_obstacles(&incoming)?;
    if !obstacles.is_empty() {
        return Ok(Tried::Ended(Landed::Refused(gates::obstacles(path, &obstacles))));
    }
    let (rescue, note) = keep(landing, &checkout)?;
    let effect = Effect { note, ..effect(landing, Some(path), Some(rescue))? };
    let effect = match claim(landing, told, asked, effect)? {
        Ok(effect) => effect,
        Err(refusal) => return Ok(Tried::Ended(Landed::NotBegun(refusal))),
    };
    let forward = Forward {
        target: landing.target,
        old: landing.expected_tip,
        new: landing.candidate,
        timeout: landing.timeout,
        // Should we die, whoever takes the lock next waits for this git to end before it looks at what it did.
        held: Some(lock.share()?),
    };
    let forwarded = checkout.fast_forward(forward);
    Ok(match (settle_held(landing.repository, told, &effect)?, forwarded) {
        (Settled::Confirmed, _) => Tried::Ended(done(landing, Some(path))),
        (Settled::Stuck(blocks), _) => Tried::Ended(Landed::Stuck(blocks)),
        // What it says and what is there do not go together: nothing is made of it.
        (Settled::Released(_), Ok(FastForward::Applied)) => {
            return Err(Error::Unclear {
                reference: landing.target.clone(),
                before: landing.expected_tip.clone(),
                after: landing.candidate.clone(),
                found: gates::moved_text(landing.repository.load_ref(landing.target)?.map(CommitId::from).as_ref()),
            });
        }
        (Settled::Released(Release::Moved), Ok(FastForward::Refused { .. }) | Err(_)) => {
            Tried::Ended(Landed::Moved { found: landing.repository.load_ref(landing.target)? })
        }
        (Settled::Released(Release::Untouched | Release::Undone), Ok(FastForward::Refused { message })) => {
            Tried::WithoutEffect(Ok(Landed::Refused(vec![gates::git_refused(path, &message)])))
        }
        // Ended by a signal, or out of time: what that was is not known, and may be so again.
        (Settled::Released(Release::Untouched | Release::Undone), Err(error)) => return Err(error.into()),
    })
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
