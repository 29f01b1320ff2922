//! Runs built by hand for this room's tests: journals of events, folded as everybody folds them.

use jiff::Timestamp;

use super::facts::{AgentFacts, CheckoutFacts, Facts};
use crate::model::card::{Card, CardKind, CardOption, CardState, CompleteCard, ConflictMessage, Sides, Stage as Side};
use crate::model::change::{
    Actor, CheckpointKind, DiffStat, FileHash, GitChangeSet, GitCheckpoint, GitProgressState, NotCaptured, TurnRecord,
};
use crate::model::event::{
    AgentBrief, AttemptFinished, AttemptStarted, CandidateAdvanced, CardClosed, CompletionBlocked, Currency, Effect,
    EffectKind, Event, EventKind, GateDecided, Hint, Identity, Invocation, MergePreviewed, PreviewResult, RunFinished,
    RunStarted, ScopeWarning, Stage, StageEnter, StageExit, Subject, TurnFinished, TurnStarted, VERSION, VerifierFresh,
    VerifyFinished,
};
use crate::model::gate::{BlockKind, GateBlock};
use crate::model::ids::ObjectFormat;
use crate::model::plan::Contract;
use crate::model::run::RunState;
use crate::model::{
    AgentName, AttemptOutcome, CommitId, ProcessEnd, RefName, RepoPath, RunId, TurnId, Verdict, VerifyStatus,
};

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_750_000_000 + second).unwrap()
}

fn run() -> RunId {
    "login-3".parse().unwrap()
}

fn name(text: &str) -> AgentName {
    text.parse().unwrap()
}

/// An object id that tells itself from the others at a glance.
fn oid<T: std::str::FromStr<Err: std::fmt::Debug>>(digit: char) -> T {
    digit.to_string().repeat(40).parse().unwrap()
}

fn argv(words: &str) -> Vec<String> {
    words.split(' ').map(str::to_owned).collect()
}

struct Journal {
    events: Vec<Event>,
}

impl Journal {
    fn new(agents: &[(&str, &[&str])]) -> Self {
        let mut journal = Self { events: Vec::new() };
        let baseline = GitProgressState {
            enabled: true,
            available: true,
            repo_root: Some("/home/me/app".to_owned()),
            branch: Some("main".to_owned()),
            head: Some(oid('b')),
            upstream: None,
            baseline_dirty_paths: Vec::new(),
            baseline_untracked_paths: Vec::new(),
            baseline_ignored_count: 0,
            baseline_hashes: std::collections::BTreeMap::new(),
            baseline_byte_hashes: Vec::new(),
            session_id: run(),
            session_ref: None,
            checkpoints: Vec::new(),
            last_change_set: None,
        };
        let brief = |(agent, after): &(&str, &[&str])| AgentBrief {
            name: name(agent),
            title: Some(format!("The {agent}")),
            after: after.iter().map(|agent| name(agent)).collect(),
            attempts: 2,
        };
        let started = RunStarted {
            version: "0.1.0".to_owned(),
            invocation: Invocation { pid: 4711, start_ticks: 5, boot_id: "boot".to_owned() },
            target: Some(RefName::branch("main").unwrap()),
            base: oid('b'),
            base_tree: oid('c'),
            jobs: 4,
            land: false,
            agents: agents.iter().map(brief).collect(),
            verify_command: Some(argv("cargo test --workspace")),
            identity: Identity::default(),
            git_version: "2.43.0".to_owned(),
            isolation: vec!["namespaces".to_owned()],
            degraded: std::collections::BTreeSet::new(),
            baseline,
        };
        journal.push(0, Subject::run(), EventKind::RunStarted(Box::new(started)));
        journal
    }

    fn push(&mut self, second: i64, subject: Subject, kind: EventKind) {
        let seq = u64::try_from(self.events.len()).unwrap() + 1;
        self.events.push(Event { v: VERSION, seq, timestamp: at(second), run_id: run(), subject, kind });
    }

    fn stage(&mut self, second: i64, agent: Option<&str>, stage: Stage) {
        let subject = agent.map_or_else(Subject::run, |agent| Subject::agent(&name(agent)));
        let story_id = agent.map_or_else(|| run().to_string(), str::to_owned);
        self.push(second, subject, EventKind::StageEnter(StageEnter { story_id, stage, invocation: None }));
    }

    fn stage_over(&mut self, second: i64, agent: Option<&str>, stage: Stage) {
        let subject = agent.map_or_else(Subject::run, |agent| Subject::agent(&name(agent)));
        let story_id = agent.map_or_else(|| run().to_string(), str::to_owned);
        let exit = StageExit { story_id, stage, result: "ok".to_owned(), duration_ms: 1500 };
        self.push(second, subject, EventKind::StageExit(exit));
    }

    fn start(&mut self, second: i64, agent: &str) {
        self.stage(second, Some(agent), Stage::Prepare);
        self.stage_over(second + 1, Some(agent), Stage::Prepare);
        self.stage(second + 1, Some(agent), Stage::Execute);
        let started = AttemptStarted {
            fork_point: oid('b'),
            base_ref: oid('b'),
            base_tree: oid('c'),
            branch: RefName::agent_branch(&run(), &name(agent)),
            worktree: format!("/var/worktrees/app/login-3--{agent}").into(),
            adapter: "command".to_owned(),
            granted: Vec::new(),
            degraded: std::collections::BTreeSet::new(),
        };
        self.push(second + 2, Subject::attempt(&name(agent), 1), EventKind::AttemptStarted(started));
    }

    fn turn(&mut self, second: i64, agent: &str, number: u32, changed: u64) {
        self.turn_begins(second, agent, number);
        let id = TurnId::new(1, number);
        let patch = (changed > 0).then(|| format!("agents/{agent}/turns/{id}.patch"));
        let finished = TurnFinished {
            label: format!("step {number}"),
            snapshot: oid('d'),
            tree: oid('e'),
            patch: patch.clone(),
            changed,
            end: Some(ProcessEnd::Exited(i32::from(number == 2))),
            leftover_processes: u32::from(number == 2),
            interrupted: false,
            live: false,
            empty: changed == 0,
        };
        let subject = Subject::turn(&name(agent), id);
        self.push(second + 9, subject.clone(), EventKind::TurnFinished(finished));
        let Some(patch) = patch else { return };
        let checkpoint = GitCheckpoint {
            id: format!("{agent}@{id}"),
            turn: Some(id),
            kind: CheckpointKind::PatchBundle,
            head: Some(oid('d')),
            patch_path: Some(patch),
            commit_sha: None,
            changed_paths: vec!["src/a.rs".into()],
            verifier_command: None,
            verifier_passed: None,
        };
        self.push(second + 9, subject, EventKind::CheckpointCreated(Box::new(checkpoint)));
    }

    fn turn_begins(&mut self, second: i64, agent: &str, number: u32) {
        let started = TurnStarted { label: format!("step {number}"), argv: argv("sh -c ./work") };
        let subject = Subject::turn(&name(agent), TurnId::new(1, number));
        self.push(second, subject, EventKind::TurnStarted(started));
    }

    fn outside(&mut self, second: i64, agent: &str, paths: &[&str]) {
        let warning = ScopeWarning { outside_owned_scope: paths.iter().map(|path| RepoPath::from(*path)).collect() };
        self.push(second, Subject::turn(&name(agent), TurnId::new(1, 1)), EventKind::ScopeWarning(warning));
    }

    fn end(&mut self, second: i64, agent: &str, outcome: AttemptOutcome, reason: &str) {
        let begun = outcome != AttemptOutcome::Blocked;
        let finished = AttemptFinished {
            outcome,
            reason: reason.to_owned(),
            end: begun.then_some(ProcessEnd::Exited(i32::from(outcome == AttemptOutcome::Failed))),
            limit: None,
            leftover_processes: u32::from(outcome == AttemptOutcome::Failed),
            duration_ms: if begun { 62_500 } else { 0 },
            snapshot: begun.then(|| oid('d')),
            tree: begun.then(|| oid('e')),
            changed_since_fork: if outcome == AttemptOutcome::NoChanges || !begun { 0 } else { 3 },
            outside_since_fork: if agent == "docs" { vec!["src/main.rs".into()] } else { Vec::new() },
            hints: if agent == "docs" { vec![a_hint()] } else { Vec::new() },
        };
        self.push(second, Subject::attempt(&name(agent), 1), EventKind::AttemptFinished(finished));
        if begun {
            self.stage_over(second, Some(agent), Stage::Execute);
        }
    }

    fn preview(&mut self, second: i64, agent: &str, result: PreviewResult) {
        let clean = result == PreviewResult::Clean;
        let previewed = MergePreviewed {
            onto: oid('b'),
            contribution: Some(oid('7')),
            snapshot: oid('d'),
            currency: if clean { Currency::Behind } else { Currency::Dirty },
            result,
            cards: if result == PreviewResult::Conflict { vec![conflict_card().id] } else { Vec::new() },
            blocked_by: if result == PreviewResult::Blocked { vec![name("ui")] } else { Vec::new() },
            observation_key: "key".to_owned(),
            route: "independent".to_owned(),
        };
        self.push(second, Subject::agent(&name(agent)), EventKind::MergePreviewed(previewed));
        if clean {
            self.advance(second, Some(agent));
        }
    }

    fn advance(&mut self, second: i64, agent: Option<&str>) {
        let subject = agent.map_or_else(Subject::run, |agent| Subject::agent(&name(agent)));
        let advanced = CandidateAdvanced {
            reference: RefName::integration(&run()),
            onto: oid('b'),
            from: oid('b'),
            to: agent.map_or_else(|| oid('b'), |_| oid('a')),
            tree: oid('f'),
            contribution: agent.map(|_| oid('7')),
            merge: None,
            history: None,
        };
        self.push(second, subject, EventKind::CandidateAdvanced(advanced));
    }

    fn verified(&mut self, second: i64, verdict: Verdict, error: Option<&str>) {
        self.stage(second - 20, None, Stage::ParentVerify);
        let finished = VerifyFinished {
            commit: oid('a'),
            tree: oid('f'),
            command: argv("cargo test --workspace"),
            receipt: "9".repeat(64),
            status: if verdict.is_pass() { VerifyStatus::Success } else { VerifyStatus::TestFailure },
            verdict,
            error: error.map(str::to_owned),
            reused: false,
            duration_ms: 20_000,
            log: Some("verify.log".to_owned()),
            degraded: std::collections::BTreeSet::new(),
        };
        self.push(second, Subject::run(), EventKind::VerifyFinished(finished));
        self.stage_over(second, None, Stage::ParentVerify);
    }

    fn gate(&mut self, second: i64, blocks: Vec<GateBlock>) {
        let decided = GateDecided { open: blocks.is_empty(), blocks };
        self.push(second, Subject::run(), EventKind::GateDecided(decided));
    }

    fn finish(&mut self, second: i64, exit_code: u8, landed: Option<CommitId>) {
        let finished = RunFinished { exit_code, complete: exit_code == 0, landed };
        self.push(second, Subject::run(), EventKind::RunFinished(finished));
    }

    fn state(&self) -> RunState {
        RunState::fold(run(), &self.events)
    }
}

/// `parser` works on its second turn, `docs` went outside its contract in its first, `ui` waits for `parser`.
pub(crate) fn running() -> RunState {
    let mut journal = Journal::new(&[("parser", &[]), ("docs", &[]), ("ui", &["parser"])]);
    journal.start(0, "parser");
    journal.start(1, "docs");
    journal.turn(10, "parser", 1, 2);
    journal.turn_begins(20, "parser", 2);
    journal.turn_begins(20, "docs", 1);
    journal.outside(30, "docs", &["src/main.rs", "Cargo.toml"]);
    journal.state()
}

/// Of `count` agents those with even numbers are done and the third runs.
pub(crate) fn many(count: usize) -> RunState {
    let names: Vec<String> = (0..count).map(|number| format!("a{number}")).collect();
    let agents: Vec<(&str, &[&str])> = names.iter().map(|name| (name.as_str(), &[][..])).collect();
    let mut journal = Journal::new(&agents);
    for agent in names.iter().step_by(2) {
        journal.start(0, agent);
        journal.end(60, agent, AttemptOutcome::Completed, "");
    }
    journal.start(1, "a3");
    journal.state()
}

/// `parser` is merged, `ui` conflicts with it, `api` builds on `ui`, `docs` failed.
pub(crate) fn blocked_events() -> Vec<Event> {
    let mut journal = Journal::new(&[("parser", &[]), ("ui", &[]), ("api", &["ui"]), ("docs", &[])]);
    for agent in ["parser", "ui", "docs"] {
        journal.start(0, agent);
    }
    journal.turn(5, "parser", 1, 3);
    journal.end(62, "parser", AttemptOutcome::Completed, "");
    journal.turn(5, "ui", 1, 3);
    journal.end(63, "ui", AttemptOutcome::Completed, "");
    journal.turn(5, "docs", 1, 2);
    journal.outside(14, "docs", &["src/main.rs"]);
    journal.turn(20, "docs", 2, 0);
    journal.end(64, "docs", AttemptOutcome::Failed, "turn 1.2 ended with exit status 1");
    journal.start(66, "api");
    journal.turn(70, "api", 1, 1);
    journal.end(80, "api", AttemptOutcome::Completed, "");
    journal.advance(81, None);
    journal.preview(81, "parser", PreviewResult::Clean);
    journal.push(81, Subject::agent(&name("ui")), EventKind::CardOpened(CompleteCard::new(conflict_card()).unwrap()));
    journal.preview(81, "ui", PreviewResult::Conflict);
    journal.preview(81, "api", PreviewResult::Blocked);
    journal.verified(105, Verdict::Fail, Some("2 tests failed"));
    journal.gate(106, blocks());
    journal.push(106, Subject::run(), EventKind::CompletionBlocked(completion_blocked()));
    journal.finish(106, 6, None);
    journal.events
}

pub(crate) fn blocked() -> RunState {
    RunState::fold(run(), &blocked_events())
}

fn blocks() -> Vec<GateBlock> {
    let block = |kind, message: &str, next: &str| GateBlock {
        kind,
        agent: None,
        card: None,
        paths: Vec::new(),
        message: message.to_owned(),
        next: next.to_owned(),
    };
    vec![
        GateBlock {
            agent: Some(name("docs")),
            ..block(BlockKind::AgentIncomplete, "failed: turn 1.2 ended with exit status 1", "retry it")
        },
        GateBlock {
            card: Some(conflict_card().id),
            paths: vec!["src/parser/mod.rs".into()],
            ..block(BlockKind::OpenCard, "conflict of ui with parser", "decide, then merge again")
        },
        block(BlockKind::VerifierFailed, "the verifier failed: 2 tests failed", "mend what it names"),
    ]
}

pub(crate) fn completion_blocked() -> CompletionBlocked {
    CompletionBlocked {
        changed_paths: vec!["src/parser/mod.rs".into(), "src/main.rs".into()],
        outside_owned_scope: vec!["src/main.rs".into()],
        verifier_command: Some(argv("cargo test --workspace")),
        verifier_seq: Some(54),
        next_action: "decide card c1a2b3c4".to_owned(),
    }
}

fn complete_journal() -> Journal {
    let mut journal = Journal::new(&[("parser", &[]), ("notes", &[])]);
    journal.start(0, "parser");
    journal.start(0, "notes");
    journal.turn(5, "parser", 1, 3);
    journal.end(62, "parser", AttemptOutcome::Completed, "");
    journal.turn(5, "notes", 1, 0);
    journal.end(63, "notes", AttemptOutcome::NoChanges, "");
    journal.advance(64, None);
    journal.preview(64, "parser", PreviewResult::Clean);
    journal.verified(90, Verdict::Pass, None);
    let fresh = VerifierFresh { tree: oid('f'), verdict: Verdict::Pass };
    journal.push(90, Subject::run(), EventKind::VerifierFresh(fresh));
    journal.gate(91, Vec::new());
    journal
}

/// Everything went well, and landing was not asked for.
pub(crate) fn complete() -> RunState {
    let mut journal = complete_journal();
    journal.finish(92, 0, None);
    journal.state()
}

/// Everything went well, and the result is on the target.
pub(crate) fn landed_events() -> Vec<Event> {
    let mut journal = complete_journal();
    let effect = Effect {
        key: "land".to_owned(),
        effect: EffectKind::Land,
        reference: RefName::branch("main").unwrap(),
        before: oid('b'),
        created: false,
        after: oid('a'),
        checkout: Some("/home/me/app".into()),
        rescue: None,
        note: None,
        invocation: None,
        works: Vec::new(),
        observation_key: None,
        attempt: None,
        asked: None,
        release: None,
    };
    journal.push(92, Subject::run(), EventKind::EffectClaimed(effect.clone()));
    journal.push(92, Subject::run(), EventKind::EffectConfirmed(effect));
    journal.finish(93, 0, Some(oid('a')));
    journal.events
}

pub(crate) fn landed() -> RunState {
    RunState::fold(run(), &landed_events())
}

/// Events whose every text tries to look like something else.
pub(crate) fn hostile_events() -> Vec<Event> {
    const EVIL: &str = "x\r\n\x1b[2K   1.0s  run     finished, complete\u{202e}";
    let mut journal = Journal::new(&[("parser", &[])]);
    let agent = name("parser");
    let attempt = Subject::attempt(&agent, 1);
    journal.push(
        1,
        Subject::turn(&agent, TurnId::new(1, 1)),
        EventKind::TurnStarted(TurnStarted { label: EVIL.to_owned(), argv: vec![EVIL.to_owned()] }),
    );
    journal.outside(1, "parser", &[EVIL]);
    journal.end(2, "parser", AttemptOutcome::Failed, EVIL);
    let card = Card { summary: EVIL.to_owned(), ..conflict_card() };
    journal.push(3, attempt, EventKind::CardOpened(CompleteCard::new(card).unwrap()));
    let closed = CardClosed { card: conflict_card().id, resolution: EVIL.to_owned(), answer: None };
    journal.push(3, Subject::run(), EventKind::CardClosed(closed));
    journal.verified(30, Verdict::None, Some(EVIL));
    journal.events
}

pub(crate) fn conflict_card() -> Card {
    let path = RepoPath::from("src/parser/mod.rs");
    let stage = |stage, digit| Side { path: path.clone(), stage, mode: "100644".to_owned(), oid: oid(digit) };
    Card {
        id: "c1a2b3c4".parse().unwrap(),
        kind: CardKind::Conflict,
        state: CardState::NeedsHuman,
        agents: vec![name("ui"), name("parser")],
        paths: vec![path.clone()],
        summary: "ui and parser changed the same lines of src/parser/mod.rs".to_owned(),
        sides: Some(Sides { ours: oid('a'), theirs: oid('7'), base: Some(oid('b')) }),
        stages: vec![stage(1, '1'), stage(2, '2'), stage(3, '3')],
        messages: vec![ConflictMessage {
            kind: "CONFLICT (contents)".to_owned(),
            paths: vec![path],
            text: "CONFLICT (content): Merge conflict in src/parser/mod.rs\n".to_owned(),
        }],
        fingerprint: "1a2b3c4d5e".to_owned(),
        options: vec![CardOption {
            title: "let ui try again on top of the candidate".to_owned(),
            command: "sandbox retry ui --fresh --run login-3".to_owned(),
        }],
        request: None,
        snapshot: None,
        resolution: None,
        answer: None,
        landing: None,
        proposal: None,
        history: Vec::new(),
    }
}

pub(crate) fn turn_record() -> TurnRecord {
    let turn = TurnId::new(1, 2);
    let contract = Contract { owns: vec!["docs/**".to_owned()], shares: vec!["README.md".to_owned()] };
    TurnRecord {
        v: 1,
        run_id: run(),
        agent: name("docs"),
        attempt: 1,
        turn,
        label: "write the guide".to_owned(),
        adapter: "command".to_owned(),
        object_format: ObjectFormat::Sha1,
        fork_point: oid('b'),
        base_ref: oid('b'),
        snapshot: oid('d'),
        tree: oid('e'),
        previous_tree: oid('c'),
        patch: Some("1.2.patch".to_owned()),
        patch_sha256: Some("8".repeat(64)),
        change_set: GitChangeSet {
            turn,
            actor: Actor::SubAgent,
            owner: Some(name("docs")),
            tool_name: Some("command".to_owned()),
            changed_paths: vec!["docs/guide.md".into(), "src/main.rs".into()],
            added_paths: vec!["docs/guide.md".into()],
            deleted_paths: Vec::new(),
            renamed_paths: Vec::new(),
            diff_stat: DiffStat { files: 2, insertions: 40, deletions: 1 },
            name_status: vec!["A\tdocs/guide.md".to_owned(), "M\tsrc/main.rs".to_owned()],
            outside_owned_scope: vec!["src/main.rs".into()],
            verifier_command: None,
            verifier_fresh_after_change: false,
        },
        checkpoint: GitCheckpoint {
            id: "docs@1.2".to_owned(),
            turn: Some(turn),
            kind: CheckpointKind::PatchBundle,
            head: Some(oid('d')),
            patch_path: None,
            commit_sha: None,
            changed_paths: Vec::new(),
            verifier_command: None,
            verifier_passed: None,
        },
        file_hashes: vec![FileHash { path: "docs/guide.md".into(), mode: "100644".to_owned(), oid: oid('1') }],
        owned_scope: contract,
        outside_since_fork: vec!["Cargo.toml".into(), "src/main.rs".into()],
        not_captured: NotCaptured {
            ignored: vec!["target/".into()],
            ignored_total: 3,
            nested_repositories: Vec::new(),
            refused: vec!["run.sock: a socket".to_owned()],
        },
        agent_head: Some(oid('6')),
        kept_tips: Vec::new(),
        history_rewritten: true,
        end: Some(ProcessEnd::Signaled(15)),
        interrupted: true,
        live: false,
        empty: false,
        usage: None,
    }
}

/// What was measured at a second of the run.
pub(crate) fn facts(second: i64, coordinator_alive: bool) -> Facts {
    let stat = DiffStat { files: 3, insertions: 120, deletions: 7 };
    let measured = AgentFacts { dirty: Some(4), stat: Some(stat), worktree_gone: false };
    Facts {
        checkout: Some(CheckoutFacts { branch: Some("main".to_owned()), dirty: 2 }),
        agents: [(name("parser"), measured)].into(),
        ..Facts::new(at(second), coordinator_alive)
    }
}

fn a_hint() -> Hint {
    let text = "`example.com` seems not to be reached: the agent has no network; see `sandbox.network`".to_owned();
    Hint { text, inferred: true }
}
