//! What the journal takes in of things that wait to be put on a branch, and what it makes of what is in it.

use serde_json::{Value, json};

use super::*;
use crate::model::currency::{Mutation, Refusal, State};
use crate::store::journal::system_clock;
use crate::store::{RunLock, StateDir, atomic};

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn line(seq: u64, kind: &str, agent: Option<&str>, data: &Value) -> Event {
    let mut line = json!({
        "v": 1, "seq": seq, "timestamp": "2026-03-04T10:20:10Z", "runId": "login-1", "type": kind, "data": data,
    });
    if let Some(agent) = agent {
        line["agent"] = agent.into();
    }
    serde_json::from_value(line).unwrap()
}

fn process(pid: u32) -> Value {
    json!({"pid": pid, "startTicks": 1, "bootId": "b"})
}

fn started() -> Value {
    json!({
        "version": "0", "invocation": process(1), "target": "refs/heads/main", "base": A, "baseTree": A, "jobs": 1,
        "land": false, "agents": [{"name": "a", "title": null, "after": [], "attempts": 1}], "verifyCommand": null,
        "identity": {"name": "n", "email": "e"}, "gitVersion": "2", "isolation": [],
        "baseline": {
            "enabled": true, "available": true, "baselineDirtyPaths": [], "baselineUntrackedPaths": [],
            "baselineIgnoredCount": 0, "baselineHashes": {}, "sessionId": "login-1", "checkpoints": [],
        },
    })
}

fn previewed(key: &str, result: &str, cards: &[&str]) -> Value {
    json!({
        "onto": A, "contribution": B, "snapshot": B, "currency": "BEHIND", "result": result, "cards": cards,
        "blockedBy": [], "observationKey": key,
    })
}

fn advanced(to: &str, contribution: Option<&str>) -> Value {
    json!({"reference": "refs/heads/sandbox/login-1/integration", "onto": A, "from": A, "to": to, "tree": A, "contribution": contribution})
}

fn effect(kind: &str, pid: Option<u32>, work: Option<&str>) -> Value {
    let mut effect = json!({"key": kind, "effect": kind, "reference": "refs/heads/main", "before": A, "after": B});
    if let Some(pid) = pid {
        effect["invocation"] = process(pid);
    }
    if let Some(key) = work {
        effect["works"] = json!([{"agent": "a", "observationKey": key, "attempt": 1}]);
    }
    effect
}

fn open(folder: &std::path::Path) -> Recorder {
    let run = StateDir::in_common_dir(folder).run(&"login-1".parse().unwrap());
    atomic::create_dir(run.root()).unwrap();
    let lock = RunLock::try_acquire(&run).unwrap();
    let (writer, opened) = JournalWriter::open(&run, lock, system_clock()).unwrap();
    Recorder::new(writer, &opened.events, Box::new(Quiet))
}

fn tell(recorder: &Recorder, kind: &str, agent: Option<&str>, data: &Value) -> Result<(), Refusal> {
    let event = line(1, kind, agent, data);
    match recorder.record(event.subject, event.kind) {
        Ok(_) => Ok(()),
        Err(Error::NotAdmitted { refusal, event }) => {
            assert_eq!(event, kind);
            Err(refusal)
        }
        Err(error) => panic!("{error}"),
    }
}

fn merging(state: &RunState) -> (State, Mutation, u32) {
    let item = state.agents[0].merging.as_ref().unwrap();
    (item.state, item.mutation, item.without_effect)
}

#[test]
fn what_must_not_follow_does_not_get_into_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = open(folder.path());
    let a = Some("a");
    let anew = || advanced(A, None);
    let steps: Vec<(&str, Option<&str>, Value, Option<Refusal>)> = vec![
        ("run.started", None, started(), None),
        ("merge.previewed", a, previewed("k", "conflict", &[]), Some(Refusal::IncompleteCard)),
        ("merge.previewed", a, previewed("k", "clean", &[]), None),
        ("candidate.advanced", a, advanced(B, Some(B)), Some(Refusal::NothingClaimed)),
        ("effect.claimed", None, effect("merge", Some(1), Some("other")), Some(Refusal::OtherKey)),
        ("effect.confirmed", None, effect("merge", Some(1), Some("k")), Some(Refusal::NothingClaimed)),
        ("candidate.advanced", None, anew(), None),
        ("effect.claimed", None, effect("merge", Some(1), Some("k")), Some(Refusal::InspectionPending)),
        ("merge.previewed", a, previewed("k", "clean", &[]), None),
        ("effect.claimed", None, effect("merge", Some(1), Some("k")), None),
        ("effect.claimed", None, effect("merge", Some(1), Some("k")), Some(Refusal::ClaimOpen)),
        ("candidate.advanced", None, anew(), Some(Refusal::ClaimOpen)),
        ("merge.previewed", a, previewed("l", "clean", &[]), Some(Refusal::ClaimOpen)),
        ("candidate.advanced", a, advanced(B, Some(B)), None),
        ("effect.confirmed", None, effect("merge", Some(2), Some("k")), Some(Refusal::Foreign)),
        ("effect.confirmed", None, effect("merge", Some(1), Some("k")), None),
        ("effect.released", None, effect("merge", Some(1), Some("k")), Some(Refusal::NothingClaimed)),
        ("candidate.advanced", None, anew(), None),
        ("merge.previewed", a, previewed("k", "clean", &[]), None),
        ("effect.claimed", None, effect("merge", Some(1), Some("k")), Some(Refusal::Spent)),
    ];
    let mut written = 0;
    for (at, (kind, agent, data, wanted)) in steps.into_iter().enumerate() {
        assert_eq!(tell(&recorder, kind, agent, &data).err(), wanted, "step {at}: {kind}");
        written += u64::from(wanted.is_none());
        assert_eq!(recorder.state().last_seq, written, "step {at}: {kind}");
    }
    assert_eq!(merging(&recorder.state()), (State::Confirmed, Mutation::Done, 0));
}

#[test]
fn who_takes_a_run_over_settles_what_was_claimed_and_knows_what_was_tried() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = open(folder.path());
    tell(&recorder, "run.started", None, &started()).unwrap();
    tell(&recorder, "merge.previewed", Some("a"), &previewed("k", "clean", &[])).unwrap();
    tell(&recorder, "effect.claimed", None, &effect("merge", Some(1), Some("k"))).unwrap();
    drop(recorder);
    let recorder = open(folder.path());
    assert_eq!(merging(&recorder.state()), (State::Reconciling, Mutation::Begun, 0));
    assert_eq!(tell(&recorder, "candidate.advanced", None, &advanced(A, None)), Err(Refusal::ClaimOpen));
    let mut undone = effect("merge", Some(2), Some("k"));
    undone["release"] = "undone".into();
    tell(&recorder, "effect.released", None, &undone).unwrap();
    drop(recorder);
    let recorder = open(folder.path());
    assert_eq!(merging(&recorder.state()), (State::Observed, Mutation::None, 1), "from the journal alone");
    tell(&recorder, "effect.claimed", None, &effect("merge", Some(3), Some("k"))).unwrap();
    let mut again = effect("merge", Some(3), Some("k"));
    again["release"] = "untouched".into();
    tell(&recorder, "effect.released", None, &again).unwrap();
    drop(recorder);
    let recorder = open(folder.path());
    assert_eq!(tell(&recorder, "effect.claimed", None, &effect("merge", Some(4), Some("k"))), Err(Refusal::Spent));
    let mut asked = effect("merge", Some(4), Some("k"));
    asked["asked"] = "user".into();
    assert_eq!(tell(&recorder, "effect.claimed", None, &asked), Ok(()));
}

/// What versions wrote that claimed landings only, and told neither who nor how.
#[test]
fn an_older_journal_is_read_for_what_it_says() {
    let fold = |lines: &[(&str, Option<&str>, Value)]| {
        let numbered = (1..).zip(lines);
        let events: Vec<Event> = numbered.map(|(seq, (kind, agent, data))| line(seq, kind, *agent, data)).collect();
        RunState::fold("login-1".parse().unwrap(), &events)
    };
    let merged = vec![
        ("run.started", None, started()),
        ("candidate.advanced", None, advanced(A, None)),
        ("merge.previewed", Some("a"), previewed("k", "clean", &[])),
        ("candidate.advanced", Some("a"), advanced(B, Some(B))),
    ];
    let state = fold(&merged);
    assert_eq!(merging(&state), (State::Confirmed, Mutation::Done, 0), "what was merged is");
    assert_eq!(state.target_tip.unwrap().to_string(), A);
    let unmerged = fold(&merged[..3]);
    assert_eq!(merging(&unmerged), (State::Observed, Mutation::None, 0), "what was not can be");
    let mut landing = merged.clone();
    landing.push(("effect.claimed", None, effect("land", None, None)));
    let state = fold(&landing);
    assert_eq!((state.open_claims.len(), state.landing.unwrap().state), (1, State::Claimed));
    landing.push(("effect.released", None, effect("land", None, None)));
    let state = fold(&landing).landing.unwrap();
    assert_eq!((state.state, state.without_effect), (State::Observed, 1), "nobody told how, so it was a try");
    landing.push(("effect.claimed", None, effect("land", None, None)));
    landing.push(("effect.confirmed", None, effect("land", None, None)));
    let state = fold(&landing);
    assert_eq!(state.landing.as_ref().map(|item| item.state), Some(State::Confirmed));
    assert_eq!((state.landed.clone(), state.target_tip), (state.landed.clone(), state.landed));
}
