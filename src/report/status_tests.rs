use super::*;
use crate::model::event::{Event, EventKind, StageEnter, Subject};
use crate::report::samples;

fn text(state: &RunState, alive: bool) -> String {
    StatusData::of(state, &samples::facts(75, alive)).render(Look::PLAIN)
}

#[test]
fn running() {
    insta::assert_snapshot!(text(&samples::running(), true), @r"
    login-3  running 1m 15s  (2 running, 1 pending)
    target    main from bbbbbbbbbb; checkout on main, 2 files changed
    verifier  not run yet: `cargo test --workspace`

    AGENT   STATE    STAGE           TRY  TURN  FILES      DIRTY  SCOPE      VERIFIED  MERGE  BRANCH
    parser  running  execute 1m 14s  1    1.1   3 +120 -7  4      kept       -         -      sandbox/login-3/parser
    docs    running  execute 1m 13s  1    -     -          -      2 outside  -         -      sandbox/login-3/docs
    ui      pending  after parser    -    -     -          -      -          -         -      -
    ! docs: outside its contract: src/main.rs, Cargo.toml
    ");
}

#[test]
fn a_dead_coordinator_is_told() {
    let state = samples::running();
    let text = text(&state, false);
    insta::assert_snapshot!(text, @r"
    login-3  interrupted 30s  (2 interrupted, 1 pending)
    target    main from bbbbbbbbbb; checkout on main, 2 files changed
    verifier  not run yet: `cargo test --workspace`

    AGENT   STATE        STAGE         TRY  TURN  FILES      DIRTY  SCOPE      VERIFIED  MERGE  BRANCH
    parser  interrupted  execute       1    1.1   3 +120 -7  4      kept       -         -      sandbox/login-3/parser
    docs    interrupted  execute       1    -     -          -      2 outside  -         -      sandbox/login-3/docs
    ui      pending      after parser  -    -     -          -      -          -         -      -
    ! docs: outside its contract: src/main.rs, Cargo.toml
    ");
    assert!(!text.contains("running"), "nothing runs: {text}");
    let data = StatusData::of(&state, &samples::facts(10_000, false));
    assert_eq!(data.elapsed_seconds, Some(30), "the clock stops at the last sign of life");
}

#[test]
fn blocked() {
    insta::assert_snapshot!(text(&samples::blocked(), false), @r"
    login-3  incomplete 1m 46s  (3 passed, 1 failed)
    target    main from bbbbbbbbbb; checkout on main, 2 files changed
    candidate aaaaaaaaaa (parser)
    verifier  failed by `cargo test --workspace`: 2 tests failed

    AGENT   STATE      STAGE  TRY  TURN  FILES      DIRTY  SCOPE      VERIFIED  MERGE              BRANCH
    parser  completed  -      1    1.1   3 +120 -7  4      kept       fail      merged             sandbox/login-3/parser
    ui      completed  -      1    1.1   3          -      kept       -         conflict c1a2b3c4  sandbox/login-3/ui
    api     completed  -      1    1.1   3          -      kept       -         waits for ui       sandbox/login-3/api
    docs    failed     -      1    1.1   3          -      1 outside  -         -                  sandbox/login-3/docs
    ! docs: outside its contract: src/main.rs
    ! card c1a2b3c4 (conflict): ui and parser changed the same lines of src/parser/mod.rs
    ");
}

#[test]
fn complete() {
    insta::assert_snapshot!(text(&samples::complete(), false), @r"
    login-3  complete 1m 32s  (2 passed)
    target    main from bbbbbbbbbb; checkout on main, 2 files changed
    candidate aaaaaaaaaa (parser)
    verifier  passed by `cargo test --workspace`

    AGENT   STATE       STAGE  TRY  TURN  FILES      DIRTY  SCOPE  VERIFIED  MERGE   BRANCH
    parser  completed   -      1    1.1   3 +120 -7  4      kept   pass      merged  sandbox/login-3/parser
    notes   no_changes  -      1    -     0          -      kept   -         -       sandbox/login-3/notes
    ");
}

#[test]
fn a_paused_run_is_told_as_such_alive_or_not() {
    let paused = RunState { paused: true, ..samples::running() };
    for (alive, words) in [(true, "running, paused"), (false, "interrupted while paused")] {
        let data = StatusData::of(&paused, &samples::facts(75, alive));
        let text = data.render(Look::PLAIN);
        assert!(text.starts_with(&format!("login-3  {words} ")), "{text}");
        assert!(text.contains("until `sandbox resume login-3`"), "{text}");
    }
}

#[test]
fn json() {
    let data = StatusData::of(&samples::running(), &samples::facts(75, true));
    insta::assert_snapshot!(serde_json::to_string_pretty(&data).unwrap(), @r#"
    {
      "run": "login-3",
      "state": "running",
      "paused": false,
      "coordinatorPid": 4711,
      "stage": null,
      "startedAt": "2025-06-15T15:06:40Z",
      "elapsedSeconds": 75,
      "lastActivityAt": "2025-06-15T15:07:10Z",
      "target": "refs/heads/main",
      "base": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
      "checkout": {
        "branch": "main",
        "dirty": 2
      },
      "counts": {
        "failed": 0,
        "passed": 0,
        "pending": 1,
        "running": 2,
        "total": 3
      },
      "agents": [
        {
          "agent": "parser",
          "title": "The parser",
          "state": "running",
          "reason": null,
          "limit": null,
          "stage": "execute",
          "stageSeconds": 74,
          "attempt": 1,
          "runningTurn": "1.2",
          "turns": 1,
          "waitingFor": [],
          "branch": "refs/heads/sandbox/login-3/parser",
          "worktree": "/var/worktrees/app/login-3--parser",
          "dirty": 4,
          "filesChanged": 3,
          "diffStat": {
            "files": 3,
            "insertions": 120,
            "deletions": 7
          },
          "lastCheckpoint": {
            "id": "parser@1.1",
            "turn": "1.1"
          },
          "verifier": "never",
          "contractKept": true,
          "outsideOwnedScope": [],
          "merge": null
        },
        {
          "agent": "docs",
          "title": "The docs",
          "state": "running",
          "reason": null,
          "limit": null,
          "stage": "execute",
          "stageSeconds": 73,
          "attempt": 1,
          "runningTurn": "1.1",
          "turns": 0,
          "waitingFor": [],
          "branch": "refs/heads/sandbox/login-3/docs",
          "worktree": "/var/worktrees/app/login-3--docs",
          "dirty": null,
          "filesChanged": null,
          "diffStat": null,
          "lastCheckpoint": null,
          "verifier": "never",
          "contractKept": false,
          "outsideOwnedScope": [
            "src/main.rs",
            "Cargo.toml"
          ],
          "merge": null
        },
        {
          "agent": "ui",
          "title": "The ui",
          "state": "pending",
          "reason": null,
          "limit": null,
          "stage": null,
          "stageSeconds": null,
          "attempt": null,
          "runningTurn": null,
          "turns": 0,
          "waitingFor": [
            "parser"
          ],
          "branch": null,
          "worktree": null,
          "dirty": null,
          "filesChanged": null,
          "diffStat": null,
          "lastCheckpoint": null,
          "verifier": "never",
          "contractKept": null,
          "outsideOwnedScope": [],
          "merge": null
        }
      ],
      "overlaps": [],
      "cards": [],
      "candidate": null,
      "verifyCommand": [
        "cargo",
        "test",
        "--workspace"
      ],
      "verifier": null,
      "blocks": null,
      "landed": null,
      "targetMoves": [],
      "degraded": [],
      "leakyPossible": false
    }
    "#);
}

#[test]
fn rows_fit_a_terminal() {
    for columns in [60, 80, 120] {
        let text = StatusData::of(&samples::blocked(), &samples::facts(75, false)).render(Look::columns(columns));
        let table = text.split("\n\n").nth(1).unwrap();
        let rows = table.lines().take(5);
        assert!(rows.clone().all(|row| crate::report::text::width(row) <= columns), "{text}");
        assert!(rows.clone().any(|row| row.contains("1 outside")), "what matters stays: {text}");
    }
}

#[test]
fn nothing_is_known_of_an_empty_journal() {
    let state = RunState::new("login-3".parse().unwrap());
    insta::assert_snapshot!(text(&state, false), @r"
    login-3  interrupted  (no agents)
    its journal does not tell how it began
    ");
}

/// Work that comes after a verification makes it stale for that agent, and only the same tree makes it fresh again.
#[test]
fn freshness_goes_with_the_tree() {
    let state = samples::complete();
    let row = |state: &RunState, agent: &str| {
        let data = StatusData::of(state, &samples::facts(75, true));
        data.agents.into_iter().find(|row| row.agent.as_str() == agent).unwrap().verifier
    };
    assert_eq!(row(&state, "parser"), Freshness::Fresh);
    assert_eq!(row(&state, "notes"), Freshness::Never, "it brought nothing that could be judged");

    let mut moved = state.clone();
    moved.candidate.as_mut().unwrap().head.tree = "1".repeat(40).parse().unwrap();
    assert_eq!(row(&moved, "parser"), Freshness::Stale);

    let mut newer = state.clone();
    let attempt = newer.agents[0].attempts.last_mut().unwrap();
    attempt.turns.last_mut().unwrap().1.snapshot = "2".repeat(40).parse().unwrap();
    assert_eq!(row(&newer, "parser"), Freshness::Stale);

    let mut again = state;
    let event = Event {
        v: 1,
        seq: 99,
        timestamp: samples::at(99),
        run_id: again.run_id.clone(),
        subject: Subject::attempt(&again.agents[0].name, 2),
        kind: EventKind::AttemptStarted(again.agents[0].attempts[0].started.clone().unwrap()),
    };
    again.apply(&event);
    assert_eq!(row(&again, "parser"), Freshness::Stale);
}

#[test]
fn every_condition_of_an_agent() {
    let agent = |name: &str| samples::running().agents.into_iter().find(|agent| agent.name.as_str() == name).unwrap();
    assert_eq!(AgentCondition::of(&agent("parser"), true), AgentCondition::Running);
    assert_eq!(AgentCondition::of(&agent("parser"), false), AgentCondition::Interrupted);
    assert_eq!(AgentCondition::of(&agent("ui"), true), AgentCondition::Pending);
    assert_eq!(AgentCondition::of(&agent("ui"), false), AgentCondition::Pending);
    let mut preparing = agent("ui");
    preparing.stage = Some((Stage::Prepare, samples::at(0)));
    assert_eq!(AgentCondition::of(&preparing, true), AgentCondition::Preparing);
    assert_eq!(AgentCondition::of(&preparing, false), AgentCondition::Interrupted);
    let mut done = samples::complete().agents.remove(0);
    assert_eq!(AgentCondition::of(&done, true), AgentCondition::Ended(AttemptOutcome::Completed));
    done.stage = Some((Stage::Execute, samples::at(0)));
    assert_eq!(AgentCondition::of(&done, true), AgentCondition::Running, "a retry begins");
    assert_eq!(AgentCondition::of(&done, false), AgentCondition::Ended(AttemptOutcome::Completed));
}

#[test]
fn a_stage_begun_again_is_running_again() {
    let mut state = samples::complete();
    assert_eq!(RunCondition::of(&state, false), RunCondition::Complete);
    let enter = StageEnter { story_id: "login-3".to_owned(), stage: Stage::Integrate, invocation: None };
    let event = Event {
        v: 1,
        seq: 99,
        timestamp: samples::at(99),
        run_id: state.run_id.clone(),
        subject: Subject::run(),
        kind: EventKind::StageEnter(enter),
    };
    state.apply(&event);
    assert_eq!(RunCondition::of(&state, true), RunCondition::Running);
    assert_eq!(RunCondition::of(&state, false), RunCondition::Interrupted);
}
