//! The gate opens on one state only; each test takes away one thing.

use jiff::Timestamp;

use super::*;
use crate::model::card::{Card, CardKind, CardOption, CardState, CompleteCard, ConflictMessage, Sides};
use crate::model::change::GitProgressState;
use crate::model::event::{
    AgentBrief, AttemptFinished, CandidateAdvanced, Currency, Event, EventKind, Identity, Invocation, MergePreviewed,
    RunStarted, Subject, VerifyFinished,
};
use crate::model::{AgentName, CommitId, RefName, RunId, TreeId, VerifyStatus};

fn commit(digit: char) -> CommitId {
    digit.to_string().repeat(40).parse().unwrap()
}

fn tree(digit: char) -> TreeId {
    digit.to_string().repeat(40).parse().unwrap()
}

fn name() -> AgentName {
    "parser".parse().unwrap()
}

/// What one test varies. The default is a complete run.
struct Story {
    outcome: Option<AttemptOutcome>,
    preview: Option<PreviewResult>,
    merged: bool,
    previewed_snapshot: char,
    card: bool,
    verifier: bool,
    verdict: Option<Verdict>,
    verified_tree: char,
}

impl Default for Story {
    fn default() -> Self {
        Self {
            outcome: Some(AttemptOutcome::Completed),
            preview: Some(PreviewResult::Clean),
            merged: true,
            previewed_snapshot: 'b',
            card: false,
            verifier: true,
            verdict: Some(Verdict::Pass),
            verified_tree: 'c',
        }
    }
}

impl Story {
    fn state(&self) -> RunState {
        let run: RunId = "login-1".parse().unwrap();
        let mut state = RunState::new(run.clone());
        let mut seq = 0;
        let mut tell = |subject: Subject, kind: EventKind| {
            seq += 1;
            state.apply(&Event { v: 1, seq, timestamp: Timestamp::UNIX_EPOCH, run_id: run.clone(), subject, kind });
        };
        tell(Subject::run(), EventKind::RunStarted(Box::new(self.started())));
        if let Some(outcome) = self.outcome {
            tell(Subject::attempt(&name(), 1), EventKind::AttemptFinished(finished(outcome)));
        }
        if self.card {
            tell(Subject::agent(&name()), EventKind::CardOpened(CompleteCard::new(card()).unwrap()));
        }
        if let Some(result) = self.preview {
            let previewed = previewed(result, commit(self.previewed_snapshot));
            tell(Subject::agent(&name()), EventKind::MergePreviewed(previewed));
            if self.merged {
                tell(Subject::agent(&name()), EventKind::CandidateAdvanced(advanced()));
            }
        }
        if let Some(verdict) = self.verdict {
            tell(Subject::run(), EventKind::VerifyFinished(verified(verdict, tree(self.verified_tree))));
        }
        state
    }

    fn started(&self) -> RunStarted {
        let brief = AgentBrief { name: name(), title: None, after: Vec::new(), attempts: 1 };
        RunStarted {
            version: "0".to_owned(),
            invocation: Invocation { pid: 1, start_ticks: 1, boot_id: String::new() },
            target: Some("refs/heads/main".parse().unwrap()),
            base: commit('a'),
            base_tree: tree('a'),
            jobs: 1,
            land: false,
            agents: vec![brief],
            verify_command: self.verifier.then(|| vec!["true".to_owned()]),
            identity: Identity::default(),
            git_version: "2.47.3".to_owned(),
            isolation: Vec::new(),
            degraded: std::collections::BTreeSet::new(),
            baseline: baseline(),
        }
    }

    fn codes(&self, facts: &Facts) -> (Vec<BlockKind>, u8) {
        let decision = decide(&self.state(), facts);
        assert_eq!(decision.open, decision.blocks.is_empty());
        assert!(decision.blocks.iter().all(|block| !block.message.is_empty() && !block.next.is_empty()));
        (decision.blocks.iter().map(|block| block.kind).collect(), exit_code(&decision))
    }
}

fn baseline() -> GitProgressState {
    GitProgressState {
        enabled: true,
        available: true,
        repo_root: None,
        branch: None,
        head: None,
        upstream: None,
        baseline_dirty_paths: Vec::new(),
        baseline_untracked_paths: Vec::new(),
        baseline_ignored_count: 0,
        baseline_hashes: std::collections::BTreeMap::new(),
        baseline_byte_hashes: Vec::new(),
        session_id: "login-1".parse().unwrap(),
        session_ref: None,
        checkpoints: Vec::new(),
        last_change_set: None,
    }
}

fn finished(outcome: AttemptOutcome) -> AttemptFinished {
    AttemptFinished {
        outcome,
        reason: "so it ended".to_owned(),
        end: None,
        limit: None,
        leftover_processes: 0,
        duration_ms: 0,
        snapshot: Some(commit('b')),
        tree: Some(tree('b')),
        changed_since_fork: 1,
        outside_since_fork: Vec::new(),
        hints: Vec::new(),
    }
}

fn card() -> Card {
    Card {
        id: "c1".parse().unwrap(),
        kind: CardKind::Conflict,
        state: CardState::NeedsHuman,
        agents: vec![name()],
        paths: vec!["a".into()],
        summary: "it conflicts".to_owned(),
        sides: Some(Sides { ours: commit('a'), theirs: commit('b'), base: None }),
        stages: Vec::new(),
        messages: vec![ConflictMessage { kind: "k".to_owned(), paths: Vec::new(), text: "t".to_owned() }],
        fingerprint: "f".to_owned(),
        options: vec![CardOption { title: "t".to_owned(), command: "sandbox merge".to_owned() }],
        request: None,
        snapshot: None,
        resolution: None,
        answer: None,
        landing: None,
        proposal: None,
        history: Vec::new(),
    }
}

fn previewed(result: PreviewResult, snapshot: CommitId) -> MergePreviewed {
    MergePreviewed {
        onto: commit('a'),
        contribution: Some(commit('b')),
        snapshot,
        currency: Currency::Current,
        result,
        cards: vec!["c1".parse().unwrap()],
        blocked_by: vec!["other".parse().unwrap()],
        observation_key: String::new(),
        route: String::new(),
    }
}

fn advanced() -> CandidateAdvanced {
    CandidateAdvanced {
        reference: RefName::integration(&"login-1".parse().unwrap()),
        onto: commit('a'),
        from: commit('a'),
        to: commit('c'),
        tree: tree('c'),
        contribution: Some(commit('b')),
        merge: None,
        history: None,
    }
}

fn verified(verdict: Verdict, tree: TreeId) -> VerifyFinished {
    VerifyFinished {
        commit: commit('c'),
        tree,
        command: vec!["true".to_owned()],
        receipt: String::new(),
        status: VerifyStatus::Success,
        verdict,
        error: None,
        reused: false,
        duration_ms: 0,
        log: None,
        degraded: std::collections::BTreeSet::new(),
    }
}

#[test]
fn a_complete_run_opens_it() {
    assert_eq!(Story::default().codes(&Facts::default()), (vec![], 0));
    let inherited = Story { verdict: Some(Verdict::PassWithInherited), ..Story::default() };
    assert_eq!(inherited.codes(&Facts::default()), (vec![], 0));
}

#[test]
fn only_a_completed_agent_opens_it() {
    for outcome in AttemptOutcome::ALL {
        let story = Story { outcome: Some(outcome), ..Story::default() };
        let expected = match outcome {
            AttemptOutcome::Completed => vec![],
            // The candidate has its work.
            AttemptOutcome::Skipped => vec![BlockKind::NotMerged],
            _ => vec![BlockKind::AgentIncomplete],
        };
        let code = u8::from(!expected.is_empty());
        assert_eq!(story.codes(&Facts::default()), (expected, code), "{outcome}");
    }
    let running = Story { outcome: None, ..Story::default() };
    assert_eq!(running.codes(&Facts::default()), (vec![BlockKind::AgentIncomplete], 1));
}

/// That an agent is left out was decided; but something must be left.
#[test]
fn a_skipped_agent_is_in_nobodys_way_but_its_own() {
    let kinds = |state: &RunState| decide(state, &Facts::default()).blocks.iter().map(|it| it.kind).collect::<Vec<_>>();
    let alone = Story { outcome: Some(AttemptOutcome::Skipped), preview: None, verdict: None, ..Story::default() };
    let mut state = alone.state();
    assert_eq!(kinds(&state), [BlockKind::AgentIncomplete], "nothing is left");
    let skipped = AgentState { name: "ui".parse().unwrap(), ..state.agents.remove(0) };
    let mut state = Story::default().state();
    state.agents.push(skipped.clone());
    assert_eq!(kinds(&state), []);
    assert!(state.is_integrated());
    // It was merged before it was skipped.
    if let Some(candidate) = &mut state.candidate {
        candidate.merged.push(skipped.name.clone());
    }
    assert_eq!(kinds(&state), [BlockKind::NotMerged]);
    assert!(!state.is_integrated(), "the candidate is made anew");
    // One that builds on it is not decided by that.
    let mut state = Story::default().state();
    let blocked = finished(AttemptOutcome::Blocked);
    let mut after = AgentState { name: "api".parse().unwrap(), ..skipped.clone() };
    after.attempts[0].finished = Some(blocked);
    state.agents.extend([skipped, after]);
    assert_eq!(kinds(&state), [BlockKind::AgentIncomplete]);
}

/// How one of two agents stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    Merged,
    SetAside,
    Skipped,
    Waits(PreviewResult),
    Blocked,
    Unmerged,
    Failed,
}

impl Stands {
    const ALL: [Self; 9] = [
        Self::Merged,
        Self::SetAside,
        Self::Skipped,
        Self::Waits(PreviewResult::Conflict),
        Self::Waits(PreviewResult::Held),
        Self::Waits(PreviewResult::Error),
        Self::Blocked,
        Self::Unmerged,
        Self::Failed,
    ];

    fn told(self, agent: &AgentName, id: &str, tell: &mut dyn FnMut(Subject, EventKind)) {
        let outcome = match self {
            Self::Skipped => AttemptOutcome::Skipped,
            Self::Failed => AttemptOutcome::Failed,
            Self::Merged | Self::SetAside | Self::Waits(_) | Self::Blocked | Self::Unmerged => {
                AttemptOutcome::Completed
            }
        };
        tell(Subject::attempt(agent, 1), EventKind::AttemptFinished(finished(outcome)));
        let result = match self {
            Self::Merged => PreviewResult::Clean,
            Self::SetAside => PreviewResult::SetAside,
            Self::Waits(result) => result,
            Self::Blocked => PreviewResult::Blocked,
            Self::Skipped | Self::Unmerged | Self::Failed => return,
        };
        let id: crate::model::CardId = id.parse().unwrap();
        if let Self::Waits(_) = self {
            let card = Card { id: id.clone(), agents: vec![agent.clone()], ..card() };
            tell(Subject::agent(agent), EventKind::CardOpened(CompleteCard::new(card).unwrap()));
        }
        let previewed = MergePreviewed { cards: vec![id], ..previewed(result, commit('b')) };
        tell(Subject::agent(agent), EventKind::MergePreviewed(previewed));
        if self == Self::Merged {
            tell(Subject::agent(agent), EventKind::CandidateAdvanced(advanced()));
        }
    }

    /// What it shuts the gate by, `left`: whether any work is left.
    fn blocks(self, left: bool) -> Option<BlockKind> {
        match self {
            Self::Merged => None,
            Self::SetAside => (!left).then_some(BlockKind::NotMerged),
            Self::Skipped => (!left).then_some(BlockKind::AgentIncomplete),
            // The card is a block of its own.
            Self::Waits(_) => Some(BlockKind::OpenCard),
            Self::Blocked | Self::Unmerged => Some(BlockKind::NotMerged),
            Self::Failed => Some(BlockKind::AgentIncomplete),
        }
    }

    fn is_left(self) -> bool {
        match self {
            Self::Merged | Self::Waits(_) | Self::Blocked | Self::Unmerged => true,
            Self::SetAside | Self::Skipped | Self::Failed => false,
        }
    }
}

/// Two agents, each in every standing, judged and not: complete is only what is merged, all of it, with no more left out
/// than leaves something, and judged.
#[test]
fn every_two_agents() {
    for (one, two) in Stands::ALL.iter().flat_map(|one| Stands::ALL.map(|two| (*one, two))) {
        for judged in [true, false] {
            let mut state = RunState::new("login-1".parse().unwrap());
            let names: [AgentName; 2] = [name(), "ui".parse().unwrap()];
            let brief =
                |name: &AgentName| AgentBrief { name: name.clone(), title: None, after: Vec::new(), attempts: 1 };
            let started = RunStarted { agents: names.iter().map(brief).collect(), ..Story::default().started() };
            let mut seq = 0;
            let mut tell = |subject: Subject, kind: EventKind| {
                seq += 1;
                let run_id = "login-1".parse().unwrap();
                state.apply(&Event { v: 1, seq, timestamp: Timestamp::UNIX_EPOCH, run_id, subject, kind });
            };
            tell(Subject::run(), EventKind::RunStarted(Box::new(started)));
            one.told(&names[0], "c1", &mut tell);
            two.told(&names[1], "c2", &mut tell);
            if judged {
                tell(Subject::run(), EventKind::VerifyFinished(verified(Verdict::Pass, tree('c'))));
            }
            let left = one.is_left() || two.is_left();
            let mut expected: Vec<BlockKind> = [one, two].iter().filter_map(|it| it.blocks(left)).collect();
            let is_any_merged = one == Stands::Merged || two == Stands::Merged;
            if is_any_merged && !judged {
                expected.push(BlockKind::NoVerdict);
            }
            let decision = decide(&state, &Facts::default());
            let mut found: Vec<BlockKind> = decision.blocks.iter().map(|block| block.kind).collect();
            let sorted = |kinds: &mut Vec<BlockKind>| kinds.sort_by_key(|kind| format!("{kind:?}"));
            sorted(&mut found);
            sorted(&mut expected);
            assert_eq!(found, expected, "{one:?} {two:?} {judged}");
            assert_eq!(decision.open, expected.is_empty());
            assert!(!decision.open || is_any_merged, "{one:?} {two:?}: nothing merged is nothing complete");
        }
    }
}

#[test]
fn work_that_is_not_merged_shuts_it() {
    let never = Story { preview: None, verdict: None, ..Story::default() };
    assert_eq!(never.codes(&Facts::default()), (vec![BlockKind::NotMerged], 1));
    let blocked = Story { preview: Some(PreviewResult::Blocked), ..Story::default() };
    assert_eq!(blocked.codes(&Facts::default()), (vec![BlockKind::NotMerged], 1));
}

#[test]
fn an_integration_that_was_cut_short_shuts_it() {
    let not_merged = || (vec![BlockKind::NotMerged], 1);
    let cut = Story { merged: false, verdict: None, ..Story::default() };
    assert_eq!(cut.codes(&Facts::default()), not_merged(), "previewed, and never made part of the candidate");
    for result in [PreviewResult::Conflict, PreviewResult::Held, PreviewResult::Error] {
        let cut = Story { preview: Some(result), ..Story::default() };
        assert_eq!(cut.codes(&Facts::default()), not_merged(), "{result:?}, and its card never opened");
    }
}

/// The candidate begins anew, the same is seen of the same work, and then the program dies: what was merged for that before
/// is not in the candidate that is made now.
#[test]
fn a_candidate_that_was_begun_anew_and_not_made_shuts_it() {
    let mut state = Story::default().state();
    let anew = CandidateAdvanced { to: commit('a'), contribution: None, ..advanced() };
    let seen = previewed(PreviewResult::Clean, commit('b'));
    let lines = [
        (Subject::run(), EventKind::CandidateAdvanced(anew)),
        (Subject::agent(&name()), EventKind::MergePreviewed(seen)),
    ];
    for (subject, kind) in lines {
        let (seq, run_id) = (state.last_seq + 1, state.run_id.clone());
        state.apply(&Event { v: 1, seq, timestamp: Timestamp::UNIX_EPOCH, run_id, subject, kind });
    }
    assert!(!state.is_integrated());
    let kinds: Vec<BlockKind> = decide(&state, &Facts::default()).blocks.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [BlockKind::NotMerged]);
}

#[test]
fn work_done_since_it_was_merged_shuts_it() {
    let since = Story { previewed_snapshot: 'd', ..Story::default() };
    assert_eq!(since.codes(&Facts::default()), (vec![BlockKind::NotMerged], 1));
}

#[test]
fn an_open_card_shuts_it() {
    for result in [PreviewResult::Conflict, PreviewResult::Held, PreviewResult::Error] {
        let story = Story { card: true, preview: Some(result), ..Story::default() };
        assert_eq!(story.codes(&Facts::default()), (vec![BlockKind::OpenCard], 5), "{result:?}");
    }
}

#[test]
fn only_a_pass_of_exactly_this_tree_opens_it() {
    for (story, kind, code) in [
        (Story { verifier: false, verdict: None, ..Story::default() }, BlockKind::NoVerifier, 1),
        (Story { verdict: None, ..Story::default() }, BlockKind::NoVerdict, 6),
        (Story { verdict: Some(Verdict::None), ..Story::default() }, BlockKind::NoVerdict, 6),
        (Story { verdict: Some(Verdict::Fail), ..Story::default() }, BlockKind::VerifierFailed, 6),
        (Story { verdict: Some(Verdict::Blocked), ..Story::default() }, BlockKind::VerifierFailed, 6),
        (Story { verified_tree: 'd', ..Story::default() }, BlockKind::VerifierStale, 6),
    ] {
        assert_eq!(story.codes(&Facts::default()), (vec![kind], code));
    }
}

#[test]
fn a_file_of_the_users_that_changed_shuts_it() {
    let facts = Facts { user_files_changed: vec!["a".into()], ..Facts::default() };
    assert_eq!(Story::default().codes(&facts), (vec![BlockKind::UserFileChanged], 1));
}

#[test]
fn an_early_end_shuts_it() {
    let facts = Facts { ended_early: Some("the run was stopped".to_owned()), ..Facts::default() };
    assert_eq!(Story::default().codes(&facts), (vec![BlockKind::Interrupted], 1));
}

#[test]
fn the_worst_decides_the_exit_code() {
    let story =
        Story { card: true, outcome: Some(AttemptOutcome::Failed), verdict: Some(Verdict::Fail), ..Story::default() };
    assert_eq!(story.codes(&Facts::default()).1, 6);
    let story = Story { card: true, outcome: Some(AttemptOutcome::Failed), ..Story::default() };
    assert_eq!(story.codes(&Facts::default()).1, 5);
}
