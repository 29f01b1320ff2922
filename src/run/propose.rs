//! Resolutions that a command makes: proposed, looked at by a person, and only then taken.
//!
//! Steps:
//! 1. The conflict is computed again, and checked out in a worktree of its own, with a private git directory as agents have.
//! 2. The command runs there in a box: what the plan's `[sandbox]` shows and bounds, no network and no variables but those
//!    that were asked for.
//! 3. When nothing of it is left, the files are captured in another box, as agents' work is.
//! 4. What it made is judged ([`judge`]). Whatever is no resolution is refused, and nothing has changed.
//! 5. A ref keeps what is proposed, and the journal tells it. It is merged by nobody until a person takes it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use jiff::SignedDuration;
use sandbox::{Enforcement, Layer};

use super::decide::{Desk, Matter, listed, refused, resolved_paths};
use super::error::Error;
use super::isolation;
use super::places::mend_links;
use super::reopen::await_boxes;
use super::signals::Signals;
use super::start::load_settings;
use crate::agent::attempt::with_causes;
use crate::agent::errand::{self, Errand};
use crate::agent::output::Allowance;
use crate::agent::supervise::{Bounds, Cut, Ended};
use crate::change::{Capturer, Snapshot};
use crate::git::{Chosen, Entry, NewCommit, Place, Stage};
use crate::integrate::as_chosen;
use crate::model::card::{AnswerKind, Card, Proposal};
use crate::model::event::{CardProposed, EventKind, ProposalDiscarded, Subject};
use crate::model::plan::{Argv, Network, Plan, SandboxSettings};
use crate::model::{CardId, RefName, RepoPath, TreeId};
use crate::plan::verifier_sandbox;
use crate::store::{Occupant, Record, Workplace, atomic};
use crate::workspace::{self, Commission, Workspace, put_merge_under_way, working_box};

/// Where the user says what a resolver may reach.
const NETWORK_OF: &str = "`--allow-host`";

/// The name of the file that tells the command of the card, in its folder for temporary files.
const CARD_FILE: &str = "card.json";

/// A command that is to resolve a conflict.
#[derive(Debug)]
pub struct Resolver {
    /// The command.
    pub command: Argv,
    /// Its network.
    pub network: Network,
    /// Variables to pass in, by name.
    pub env: Vec<String>,
    /// How long it may take; as the plan says for agents, if none.
    pub time: Option<SignedDuration>,
    /// Layers that its box may do without.
    pub allowed: BTreeSet<Layer>,
    /// The card as it is told to the command.
    pub card: Vec<u8>,
}

impl Desk {
    /// Has a command propose a resolution.
    pub async fn propose(&self, card: &CardId, resolver: &Resolver, signals: &Signals) -> Result<Card, Error> {
        let card = self.open_card(card, AnswerKind::Resolved)?;
        if card.proposal.is_some() {
            let why = format!(
                "a proposal waits already: look at it, `sandbox board show {0}`, then `sandbox board resolve {0} --accept` or \
                 `--discard`",
                card.id
            );
            return Err(refused(&card.id, AnswerKind::Resolved, why));
        }
        let matter = tokio::task::block_in_place(|| self.matter(&card))?;
        let (capturer, settings) = self.prepare(resolver).await?;
        let place = self.resolver_place(&card.id);
        let worked = self.work(&matter, resolver, &capturer, &settings, &place, signals).await;
        let removed =
            tokio::task::block_in_place(|| workspace::remove(&self.site.repository, &self.site.state, &place));
        let (chosen, tree) = worked?;
        removed?;
        tokio::task::block_in_place(|| self.record_proposal(&matter, resolver, chosen, &tree))
    }

    /// Takes what was proposed.
    pub fn accept(&self, card: &CardId, why: Option<String>) -> Result<Card, Error> {
        let card = self.open_card(card, AnswerKind::Resolved)?;
        let Some(proposal) = &card.proposal else {
            let why = format!(
                "nothing is proposed for it: `sandbox board resolve {} --with -- COMMAND` has a command do so",
                card.id
            );
            return Err(refused(&card.id, AnswerKind::Resolved, why));
        };
        let matter = self.matter(&card)?;
        let chosen = proposal.resolved.iter().map(as_chosen).collect::<Option<Vec<Chosen>>>();
        let paths = |chosen: &[Chosen]| chosen.iter().map(|(path, _)| path.clone()).collect::<Vec<RepoPath>>();
        let Some(chosen) = chosen.filter(|chosen| paths(chosen) == matter.conflict.paths()) else {
            let why = "what was proposed is not about its paths: discard it".to_owned();
            return Err(refused(&card.id, AnswerKind::Resolved, why));
        };
        let how = format!("as `{}` proposed", shell_words::join(&proposal.command));
        self.resolve(&matter, chosen, why, &how)
    }

    /// Turns down what was proposed, if anything was. True: it was.
    pub fn discard_proposal(&self, card: &CardId, why: Option<String>) -> Result<bool, Error> {
        let card = self.known_card(card)?;
        if card.proposal.is_none() {
            return Ok(false);
        }
        let by = self.answer(AnswerKind::Resolved).by;
        let discarded = ProposalDiscarded { card: card.id.clone(), by, why };
        self.recorder.record(subject(&card), EventKind::ProposalDiscarded(discarded))?;
        self.forget_proposal(&card)?;
        Ok(true)
    }

    /// Lets go of the ref that keeps a proposal.
    pub(super) fn forget_proposal(&self, card: &Card) -> Result<(), Error> {
        let Some(agent) = card.agents.first() else { return Ok(()) };
        let name = RefName::proposal(self.recorder.run().id(), agent, &card.id);
        Ok(self.site.repository.drop_ref(&name, "sandbox: proposal")?.require()?)
    }

    pub(super) fn resolver_place(&self, card: &CardId) -> Workplace {
        self.site.workplaces.place(self.recorder.run().id(), &Occupant::Resolver(card.clone()))
    }

    /// What the command's box and the capture are made with.
    async fn prepare(&self, resolver: &Resolver) -> Result<(Capturer, SandboxSettings), Error> {
        let run = self.recorder.run();
        let state = self.recorder.state();
        let mut settings = tokio::task::block_in_place(|| load_settings(run))?;
        isolation::allow(&mut settings.plan, &resolver.allowed);
        tokio::task::block_in_place(|| {
            let tell = |text: &str| tracing::warn!("{text}");
            await_boxes(&self.site, run.id(), tell)?;
            mend_links(&self.site, &state, run, tell)
        })?;
        let sandbox = sandbox_of(&settings.plan, resolver, |path| settings.pinned_paths.contains_key(path));
        let at = state.started_at.unwrap_or_else(|| (self.site.clock)());
        let mut capturer = self.site.capturer(at, &settings.plan, settings.pinned_paths).await?;
        capturer.may_lack.extend(&sandbox.allow_degraded);
        Ok((capturer, sandbox))
    }

    /// Makes the worktree, runs the command in it, and judges what it made: what is to stand at each conflicting path, and
    /// the merged tree with that in it.
    async fn work(
        &self,
        matter: &Matter<'_>,
        resolver: &Resolver,
        capturer: &Capturer,
        settings: &SandboxSettings,
        place: &Workplace,
        signals: &Signals,
    ) -> Result<(Vec<Chosen>, TreeId), Error> {
        let refuse = |why: String| refused(&matter.card.id, AnswerKind::Resolved, why);
        let (workspace, begun) = tokio::task::block_in_place(|| self.make_workspace(matter, capturer, place))?;
        let policy = working_box(&capturer.environment, &capturer.surroundings, place, settings, &capturer.pinned);
        let mut policy = policy.map_err(|error| refuse(with_causes(&error)))?;
        // It ends no turns, so nobody would answer.
        policy.listen.clear();
        let enforcement = capturer.enforcement(policy).map_err(|refusal| refuse(refusal.to_string()))?;
        tokio::task::block_in_place(|| atomic::write(&place.tmp().join(CARD_FILE), &resolver.card))?;
        let log = self.recorder.run().resolver_output(&matter.card.id);
        let errand = Errand {
            whose: "resolver",
            capturer,
            enforcement: &enforcement,
            workspace: &workspace,
            network: &settings.network,
            network_of: NETWORK_OF,
            network_log: self.recorder.run().resolver_network(),
            number: self.recorder.state().last_seq + 1,
            command: &resolver.command,
            workdir: None,
            variables: self.variables(capturer, settings, &enforcement, &matter.card.id),
            log: &log,
        };
        let ran = errand::run(&errand, bounds(settings, signals), &mut |_| {}).await?;
        if let Some(why) = why_not(&resolver.command, &ran, settings) {
            return Err(refuse(format!("{why}; what it printed is in `{}`", log.display())));
        }
        let taken = capturer.capture_files(&workspace, &begun, "proposal", None).await;
        let (taken, _) =
            taken.map_err(|error| refuse(format!("what it made cannot be taken: {}", with_causes(&error))))?;
        // What could not be looked at may be anything.
        if let Some(lost) = taken.kept_nowhere().or_else(|| taken.refused.first().cloned()) {
            return Err(refuse(format!("not all that it made can be taken: {lost}")));
        }
        tokio::task::block_in_place(|| self.chosen(matter, &begun, &taken.snapshot))
    }

    fn make_workspace(
        &self,
        matter: &Matter<'_>,
        capturer: &Capturer,
        place: &Workplace,
    ) -> Result<(Workspace, Snapshot), Error> {
        let (repository, state) = (&self.site.repository, &self.site.state);
        // What a program that died left of one.
        workspace::remove(repository, state, place)?;
        let sides = [&matter.sides.ours, &matter.sides.theirs];
        let tree = matter.conflict.tree.clone();
        let author = self.signature();
        let commit = repository.write_commit(&NewCommit {
            tree: &tree,
            parents: &sides.map(Clone::clone),
            author: &author,
            committer: &author,
            message: &format!("Conflict of card {}\n", matter.card.id),
        })?;
        let made = workspace::create(&Commission {
            repository,
            head: &self.site.load_head()?,
            state,
            environment: &capturer.environment,
            place: place.clone(),
            fork: commit.clone(),
            stand: Place::Detached,
            reason: format!("a command resolves card {} of {} here", matter.card.id, self.recorder.run().id()),
        })?;
        put_merge_under_way(repository, &made, &matter.conflict, sides)?;
        Ok((made, Snapshot { commit, tree }))
    }

    fn variables(
        &self,
        capturer: &Capturer,
        settings: &SandboxSettings,
        enforcement: &Enforcement,
        card: &CardId,
    ) -> Vec<(OsString, OsString)> {
        let (passed, _) = capturer.environment.passed(&settings.env);
        let mut variables: Vec<(OsString, OsString)> = passed.into_iter().collect();
        variables.push(("SANDBOX_RUN".into(), self.recorder.run().id().as_str().into()));
        variables.push(("SANDBOX_CARD".into(), card.as_str().into()));
        variables.push(("SANDBOX_CARD_FILE".into(), enforcement.tmp().join(CARD_FILE).into()));
        variables
    }

    /// What stands at the conflicting paths in what a command made, if that is a resolution.
    fn chosen(&self, matter: &Matter<'_>, begun: &Snapshot, made: &Snapshot) -> Result<(Vec<Chosen>, TreeId), Error> {
        let refuse = |why: String| refused(&matter.card.id, AnswerKind::Resolved, why);
        if made.tree == begun.tree {
            return Err(refuse("the command changed nothing, so it conflicts still".to_owned()));
        }
        self.require_only_conflicting(matter, &made.tree)?;
        let repository = &self.site.repository;
        let left = repository.load_chosen(&matter.conflict, &begun.tree)?;
        let chosen = repository.load_chosen(&matter.conflict, &made.tree)?;
        let still = judge(&matter.conflict.stages, &left, &chosen);
        if !still.is_empty() {
            return Err(refuse(format!("{} still conflicts: the command left it as it was", listed(&still))));
        }
        let tree = self.settled(matter, &chosen)?;
        Ok((chosen, tree))
    }

    fn record_proposal(
        &self,
        matter: &Matter<'_>,
        resolver: &Resolver,
        chosen: Vec<Chosen>,
        tree: &TreeId,
    ) -> Result<Card, Error> {
        let card = matter.card;
        let kept_in = self.keep(&RefName::proposal, card, matter.sides, tree, "Proposal")?;
        let by = self.answer(AnswerKind::Resolved).by;
        let command = resolver.command.clone();
        let proposal = Proposal { command, by, resolved: resolved_paths(chosen), kept_in };
        let proposed = CardProposed { card: card.id.clone(), proposal };
        self.recorder.record(subject(card), EventKind::CardProposed(Box::new(proposed)))?;
        self.known_card(&card.id)
    }
}

fn subject(card: &Card) -> Subject {
    card.agents.first().map_or_else(Subject::run, Subject::agent)
}

/// The box of a resolver: that of the plan's `[sandbox]`, with nothing of outside writable, and with network and variables
/// only as asked for now. A path that the plan names and no box of the run was shown has nobody who looked where it leads.
fn sandbox_of(plan: &Plan, resolver: &Resolver, is_pinned: impl Fn(&str) -> bool) -> SandboxSettings {
    let time = resolver.time.unwrap_or(plan.sandbox.limits.time);
    let mut settings = verifier_sandbox(&plan.sandbox, resolver.network.clone(), resolver.env.clone(), time);
    settings.expose.retain(|path| is_pinned(path));
    settings.limits.idle = settings.limits.idle.min(time);
    settings
}

fn bounds(settings: &SandboxSettings, signals: &Signals) -> Bounds {
    let limits = &settings.limits;
    Bounds {
        clock: signals.clock.clone(),
        deadline: signals.clock.now() + limits.time.unsigned_abs().min(EVER),
        idle: limits.idle.unsigned_abs(),
        output: Allowance::new(limits.output),
        stop: signals.stop.clone(),
        kill: signals.kill.clone(),
    }
}

/// Longer than anything takes.
const EVER: Duration = Duration::from_hours(30 * 365 * 24);

/// Why nothing of what a command made is looked at; none where it ended well.
fn why_not(command: &Argv, ran: &errand::Ran, settings: &SandboxSettings) -> Option<String> {
    let command = shell_words::join(command);
    let limits = &settings.limits;
    let why = match &ran.end {
        Err(why) => format!("could not be run: {why}"),
        Ok(Ended { cut: Some(Cut::TimedOut), .. }) => format!("timed out after {:#}", limits.time),
        Ok(Ended { cut: Some(Cut::Idle), .. }) => format!("was silent for {:#}", limits.idle),
        Ok(Ended { cut: Some(Cut::OutputLimit), .. }) => format!("wrote more than {} bytes of output", limits.output),
        Ok(Ended { cut: Some(Cut::Limit(met)), .. }) => format!("met a limit: {met}"),
        Ok(Ended { cut: Some(Cut::Stopped), .. }) => "was stopped".to_owned(),
        Ok(Ended { cut: None, end, .. }) if end.is_success() => return None,
        Ok(Ended { cut: None, end, .. }) => format!("ended with {end}"),
    };
    Some([&[format!("`{command}` {why}")], ran.refused.as_slice()].concat().join("; "))
}

/// The paths that a command left in conflict. A text that conflicts has markers in it, which are looked for elsewhere; a
/// path that both sides have, and that is as the merge left it, was decided by nobody. Where only one side has something,
/// to keep that is an answer, too.
fn judge(stages: &[Stage], left: &[Chosen], chosen: &[Chosen]) -> Vec<RepoPath> {
    let has = |path: &RepoPath, side: u8| stages.iter().any(|it| it.path == *path && it.side.stage() == side);
    let untouched = |(path, entry): &&Chosen| left.iter().any(|(other, before)| other == path && before == entry);
    let still = chosen.iter().filter(untouched).filter(|(path, entry)| {
        let is_there: &Option<Entry> = entry;
        is_there.is_some() && has(path, 2) && has(path, 3)
    });
    still.map(|(path, _)| path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::{Mode, Side};
    use crate::model::{ObjectId, ProcessEnd};

    fn entry(digit: char) -> Entry {
        let id: ObjectId = digit.to_string().repeat(40).parse().unwrap();
        Entry { mode: Mode::FILE, id }
    }

    type Row<'a> = (&'a [Stage], Option<char>, Option<char>, bool);

    #[test]
    fn what_was_left_in_conflict() {
        let stage = |path: &str, side| Stage { path: path.into(), side, entry: entry('1') };
        let both = [stage("a", Side::Ours), stage("a", Side::Theirs)];
        let one = [stage("a", Side::Base), stage("a", Side::Theirs)];
        let at = |digit: Option<char>| vec![(RepoPath::from("a"), digit.map(entry))];
        let table: [Row<'_>; 8] = [
            (&both, Some('1'), Some('1'), true),
            (&both, Some('1'), Some('2'), false),
            (&both, Some('1'), None, false),
            (&both, None, None, false),
            (&one, Some('1'), Some('1'), false),
            (&one, Some('1'), None, false),
            (&[], Some('1'), Some('1'), false),
            (&[], None, Some('1'), false),
        ];
        for (stages, left, made, conflicts) in table {
            let found = judge(stages, &at(left), &at(made));
            assert_eq!(!found.is_empty(), conflicts, "{stages:?} {left:?} {made:?}");
        }
    }

    #[test]
    fn only_a_good_end_is_looked_at() {
        let settings = SandboxSettings::default();
        let ended = |cut, code| Ok(Ended { end: ProcessEnd::Exited(code), leftovers: 0, cut });
        let table = [
            (ended(None, 0), None),
            (ended(None, 3), Some("ended with")),
            (ended(Some(Cut::TimedOut), 0), Some("timed out")),
            (ended(Some(Cut::Idle), 0), Some("silent")),
            (ended(Some(Cut::OutputLimit), 0), Some("output")),
            (ended(Some(Cut::Stopped), 0), Some("stopped")),
            (Err("no such program".to_owned()), Some("no such program")),
        ];
        for (end, expected) in table {
            let ran = errand::Ran { end, took: Duration::ZERO, refused: vec!["no network".to_owned()] };
            let why = why_not(&vec!["x".to_owned()], &ran, &settings);
            match expected {
                None => assert_eq!(why, None),
                Some(word) => {
                    let why = why.unwrap();
                    assert!(why.contains(word) && why.starts_with("`x` ") && why.ends_with("no network"), "{why}");
                }
            }
        }
    }

    #[test]
    fn a_box_has_no_more_than_was_asked_for() {
        let text = "[run]\nname = \"a\"\n[sandbox]\nnetwork = \"host\"\nenv = [\"KEY\"]\nexpose = [\"/a\", \"/b\"]\n\
                    expose_rw = [\"/c\"]\nlimits = { time = \"9m\", idle = \"8m\", memory = \"1GiB\" }\n\
                    [verify]\ncommand = [\"true\"]\n[agents.b]\nowns = [\"b\"]\nrun = [\"true\"]\n";
        let (plan, _) = crate::plan::load("plan.toml", text).unwrap();
        let resolver = |time| Resolver {
            command: Vec::new(),
            network: Network::None,
            env: vec!["MINE".to_owned()],
            time,
            allowed: BTreeSet::new(),
            card: Vec::new(),
        };
        let settings = sandbox_of(&plan, &resolver(None), |path| path == "/a");
        assert_eq!((settings.network, settings.env), (Network::None, vec!["MINE".to_owned()]));
        assert_eq!((settings.expose, settings.expose_rw), (vec!["/a".to_owned()], Vec::new()));
        let limits = settings.limits;
        assert_eq!((limits.time, limits.memory), (SignedDuration::from_mins(9), Some(1 << 30)));
        let limits = sandbox_of(&plan, &resolver(Some(SignedDuration::from_secs(5))), |_| true).limits;
        assert_eq!((limits.time, limits.idle), (SignedDuration::from_secs(5), SignedDuration::from_secs(5)));
    }
}
