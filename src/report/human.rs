//! A run as it happens, for people: at most one short line for each event.

use jiff::Timestamp;
use sandbox::Layer;

use super::status::{stage_name, verdict_words};
use super::text;
use crate::model::RefName;
use crate::model::event::{
    AttemptFinished, CandidateAdvanced, EffectKind, Event, EventKind, MergePreviewed, PreviewResult, RunFinished,
    RunStarted, Stage, StageEnter, Subject, TurnFinished, VerifyFinished,
};

/// How much to tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Only what somebody has to look at.
    Quiet,
    /// What a person follows.
    #[default]
    Normal,
    /// Everything but the heartbeat.
    Verbose,
}

/// Tells a run line by line. Keeps only what the layout needs.
#[derive(Debug, Clone)]
pub struct Human {
    detail: Detail,
    started_at: Option<Timestamp>,
    target: Option<RefName>,
    label: usize,
}

impl Human {
    /// A teller of so much detail.
    pub fn new(detail: Detail) -> Self {
        Self { detail, started_at: None, target: None, label: 3 }
    }

    /// The line for an event, or `None` where it tells nothing at this detail. No line break, no escape sequences.
    pub fn line(&mut self, event: &Event) -> Option<String> {
        if let EventKind::RunStarted(started) = &event.kind {
            let longest = started.agents.iter().map(|agent| agent.name.as_str().len()).max();
            self.label = longest.unwrap_or(0).max(3);
            self.target.clone_from(&started.target);
        }
        let from = *self.started_at.get_or_insert(event.timestamp);
        let (detail, words) = self.words(event)?;
        if detail > self.detail {
            return None;
        }
        let elapsed = text::duration(text::since(from, event.timestamp));
        let label = event.subject.agent.as_ref().map_or("run", |agent| agent.as_str());
        Some(format!("{elapsed:>7}  {}  {}", text::padded(label, self.label), text::clean(&words)))
    }

    /// What to say of an event, and from which detail on.
    fn words(&self, event: &Event) -> Option<(Detail, String)> {
        let normal = |words: String| Some((Detail::Normal, words));
        let verbose = |words: String| Some((Detail::Verbose, words));
        let loud = |words: String| Some((Detail::Quiet, words));
        match &event.kind {
            EventKind::RunStarted(started) => normal(run_started(event, started)),
            EventKind::RunFinished(finished) => normal(self.run_finished(finished)),
            EventKind::RunPaused(asked) => {
                loud(format!("paused{}: nothing new begins until `sandbox resume {}`", asked.by.words(), event.run_id))
            }
            EventKind::RunContinued(_) => loud("continued".to_owned()),
            EventKind::RetryRequested(requested) => {
                let how = if requested.from_fork { ", from its fork point" } else { "" };
                normal(format!("is to be tried again{how}, asked for{}", requested.by.words()))
            }
            EventKind::StageEnter(enter) => Some(stage_enter(enter)),
            EventKind::StageExit(exit) => {
                let time = text::millis(exit.duration_ms);
                verbose(format!("{} ended: {} in {time}", stage_name(exit.stage), exit.result))
            }
            EventKind::AttemptStarted(started) => {
                let attempt = event.subject.attempt.unwrap_or(1);
                let granted = match started.granted.as_slice() {
                    [] => String::new(),
                    granted => format!(", with {} as granted", text::list(granted, 4)),
                };
                let begins = format!("attempt {attempt} starts, from {}{granted}", started.fork_point.short());
                if started.degraded.contains(&Layer::Namespaces) {
                    let place = started.worktree.display();
                    return loud(format!(
                        "{begins}; do not run git in {place} until it ends: an agent could make it run programs"
                    ));
                }
                normal(begins)
            }
            EventKind::AttemptFinished(finished) => Some(attempt_finished(finished)),
            EventKind::TurnStarted(started) => {
                verbose(format!("turn {} runs: {}", turn(&event.subject), text::command(&started.argv, 80)))
            }
            EventKind::TurnFinished(finished) => Some(turn_finished(&event.subject, finished)),
            EventKind::EffectClaimed(effect) => {
                verbose(format!("moving {} to {}", effect.reference.short(), effect.after.short()))
            }
            EventKind::EffectConfirmed(effect) => {
                let moved = format!("{} is now {}", effect.reference.short(), effect.after.short());
                match effect.effect {
                    EffectKind::Merge => verbose(moved),
                    EffectKind::Land => normal(format!("landed: {moved}")),
                }
            }
            EventKind::EffectReleased(effect) => {
                let note = effect.note.as_ref().map_or_else(String::new, |note| format!(": {note}"));
                loud(format!("{} was not moved{note}", effect.reference.short()))
            }
            EventKind::TargetMoved(moved) => loud(super::moves::words(moved)),
            EventKind::CardOpened(card) => loud(format!("card {} ({}): {}", card.id, card.kind, card.summary)),
            EventKind::CardProposed(proposed) => loud(format!(
                "card {}: `{}` proposes a resolution",
                proposed.card,
                shell_words::join(&proposed.proposal.command)
            )),
            EventKind::ProposalDiscarded(discarded) => {
                normal(format!("card {}: the proposal was turned down by {}", discarded.card, discarded.by))
            }
            EventKind::CardClosed(closed) => normal(format!("card {} closed: {}", closed.card, closed.resolution)),
            EventKind::MergePreviewed(previewed) => Some(previewed_words(previewed)),
            EventKind::CandidateAdvanced(advanced) => Some(advanced_words(advanced)),
            EventKind::VerifyFinished(finished) => Some(verify_finished(finished)),
            EventKind::GateDecided(decided) if decided.open => normal("the gate is open".to_owned()),
            EventKind::GateDecided(decided) => {
                let blocks = text::count(text::len(&decided.blocks), "thing is", "things are");
                normal(format!("the gate is closed: {blocks} in the way"))
            }
            EventKind::HookFinished(hook) => {
                let time = text::millis(hook.duration_ms);
                match &hook.error {
                    None => verbose(format!("hook {} ended well in {time}", text::clean(&hook.hook))),
                    Some(error) => loud(format!("hook {} {}", text::clean(&hook.hook), text::clean(error))),
                }
            }
            EventKind::ChangeDetected(change) => {
                verbose(format!("turn {} changed {}", change.turn, super::inspect::stat_words(change.diff_stat)))
            }
            EventKind::ScopeWarning(warning) => {
                loud(format!("outside its contract: {}", text::list(&warning.outside_owned_scope, 3)))
            }
            EventKind::OverlapPredicted(overlap) if overlap.paths.is_empty() => {
                normal(format!("would merge with {} by now", overlap.with))
            }
            EventKind::OverlapPredicted(overlap) => loud(format!(
                "would conflict with {} in {} ({})",
                overlap.with,
                text::list(&overlap.paths, 3),
                text::list(&overlap.kinds, 3)
            )),
            EventKind::CheckpointCreated(checkpoint) => verbose(format!("checkpoint {}", checkpoint.id)),
            EventKind::VerifierFresh(fresh) => verbose(format!("tree {} {}", fresh.tree.short(), fresh.verdict)),
            // The whole message follows at the end; `GateDecided` has told already.
            EventKind::CompletionBlocked(blocked) => verbose(format!("not complete: {}", blocked.next_action)),
            EventKind::Unknown { .. } => None,
        }
    }

    fn run_finished(&self, finished: &RunFinished) -> String {
        let target = self.target.as_ref().map_or("the target", RefName::short);
        match (&finished.landed, finished.complete) {
            (Some(commit), _) => format!("finished: {target} is now {}", commit.short()),
            (None, true) => format!("finished, complete; {target} was not touched"),
            (None, false) => {
                format!("finished, not complete (exit code {}); {target} was not touched", finished.exit_code)
            }
        }
    }
}

fn turn(subject: &Subject) -> String {
    subject.turn.map_or_else(|| "?".to_owned(), |turn| turn.to_string())
}

fn run_started(event: &Event, started: &RunStarted) -> String {
    let agents = text::count(text::len(&started.agents), "agent", "agents");
    let target = started.target.as_ref().map_or_else(String::new, |target| format!(" for {}", target.short()));
    format!("{}: {agents}, {} at once, from {}{target}", event.run_id, started.jobs, started.base.short())
}

fn stage_enter(enter: &StageEnter) -> (Detail, String) {
    match enter.stage {
        Stage::ParentVerify => (Detail::Normal, "verifying the candidate".to_owned()),
        Stage::Prepare | Stage::Execute | Stage::Verify | Stage::Integrate | Stage::Land | Stage::Complete => {
            (Detail::Verbose, format!("{} begins", stage_name(enter.stage)))
        }
    }
}

fn attempt_finished(finished: &AttemptFinished) -> (Detail, String) {
    let detail = if finished.outcome.lets_dependents_start() { Detail::Normal } else { Detail::Quiet };
    let mut words = format!("{} in {}", finished.outcome, text::millis(finished.duration_ms));
    if !finished.reason.is_empty() {
        words.extend([": ", &finished.reason]);
    }
    if finished.snapshot.is_some() && finished.changed_since_fork > 0 {
        words.extend([", ", &text::count(finished.changed_since_fork, "path changed", "paths changed")]);
    }
    if !finished.outside_since_fork.is_empty() {
        words.extend([", ", &finished.outside_since_fork.len().to_string(), " outside its contract"]);
    }
    let mut hints = finished.hints.iter().map(|hint| hint.text.as_str());
    if let Some(hint) = hints.next() {
        words.extend(["; hint: ", hint]);
        if hints.len() > 0 {
            words.extend(["; ", &text::count(text::len(&finished.hints) - 1, "more hint", "more hints")]);
        }
    }
    (detail, words)
}

fn turn_finished(subject: &Subject, finished: &TurnFinished) -> (Detail, String) {
    let how = if finished.interrupted { "was cut short and saved" } else { "saved" };
    let changed = match finished.changed {
        0 => "nothing changed".to_owned(),
        changed => text::count(changed, "path changed", "paths changed"),
    };
    let mut words = format!("turn {} {how}: {changed}", turn(subject));
    if let Some(end) = finished.end.filter(|end| !end.is_success()) {
        words.extend([", ", &end.to_string()]);
    }
    if finished.leftover_processes > 0 {
        let left = text::count(finished.leftover_processes.into(), "process", "processes");
        words.extend([", left ", &left, ", killed"]);
    }
    (if finished.interrupted { Detail::Quiet } else { Detail::Normal }, words)
}

fn previewed_words(previewed: &MergePreviewed) -> (Detail, String) {
    let cards = || text::list(&previewed.cards, 3);
    match previewed.result {
        PreviewResult::Clean => (Detail::Verbose, format!("merges cleanly onto {}", previewed.onto.short())),
        PreviewResult::Conflict => (Detail::Quiet, format!("not merged: conflict, card {}", cards())),
        PreviewResult::SetAside => (Detail::Quiet, "left out, as was decided".to_owned()),
        PreviewResult::Held => (Detail::Quiet, format!("not merged: held by card {}", cards())),
        PreviewResult::Error => (Detail::Quiet, format!("not merged: the merge failed, card {}", cards())),
        PreviewResult::Blocked => {
            (Detail::Quiet, format!("not merged: waits for {}", text::list(&previewed.blocked_by, 3)))
        }
    }
}

fn advanced_words(advanced: &CandidateAdvanced) -> (Detail, String) {
    match &advanced.contribution {
        Some(_) => (Detail::Normal, format!("merged into the candidate, now {}", advanced.to.short())),
        None => (Detail::Verbose, format!("the candidate begins at {}", advanced.onto.short())),
    }
}

fn verify_finished(finished: &VerifyFinished) -> (Detail, String) {
    let detail = if finished.verdict.is_pass() { Detail::Normal } else { Detail::Quiet };
    let time = if finished.reused {
        "from an earlier receipt".to_owned()
    } else {
        format!("in {}", text::millis(finished.duration_ms))
    };
    let command = text::command(&finished.command, 60);
    let error = finished.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    (detail, format!("verifier {} {time}: `{command}`{error}", verdict_words(finished.verdict).trim_end_matches(',')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    fn told(events: &[Event], detail: Detail) -> String {
        let mut human = Human::new(detail);
        events.iter().filter_map(|event| human.line(event)).map(|line| line + "\n").collect()
    }

    #[test]
    fn normal() {
        insta::assert_snapshot!(told(&samples::blocked_events(), Detail::Normal), @r"
            0s  run     login-3: 4 agents, 4 at once, from bbbbbbbbbb for main
          2.0s  parser  attempt 1 starts, from bbbbbbbbbb
          2.0s  ui      attempt 1 starts, from bbbbbbbbbb
          2.0s  docs    attempt 1 starts, from bbbbbbbbbb
           14s  parser  turn 1.1 saved: 3 paths changed
        1m 02s  parser  completed in 1m 02s, 3 paths changed
           14s  ui      turn 1.1 saved: 3 paths changed
        1m 03s  ui      completed in 1m 02s, 3 paths changed
           14s  docs    turn 1.1 saved: 2 paths changed
           14s  docs    outside its contract: src/main.rs
           29s  docs    turn 1.2 saved: nothing changed, exit status 1, left 1 process, killed
        1m 04s  docs    failed in 1m 02s: turn 1.2 ended with exit status 1, 3 paths changed, 1 outside its contract; hint: `example.com` seems not to be reached: the agent has no network; see `sandbox.network`
        1m 08s  api     attempt 1 starts, from bbbbbbbbbb
        1m 19s  api     turn 1.1 saved: 1 path changed
        1m 20s  api     completed in 1m 02s, 3 paths changed
        1m 21s  parser  merged into the candidate, now aaaaaaaaaa
        1m 21s  ui      card c1a2b3c4 (conflict): ui and parser changed the same lines of src/parser/mod.rs
        1m 21s  ui      not merged: conflict, card c1a2b3c4
        1m 21s  api     not merged: waits for ui
        1m 25s  run     verifying the candidate
        1m 45s  run     verifier failed in 20s: `cargo test --workspace`: 2 tests failed
        1m 46s  run     the gate is closed: 3 things are in the way
        1m 46s  run     finished, not complete (exit code 6); main was not touched
        ");
        insta::assert_snapshot!(told(&samples::landed_events(), Detail::Normal), @r"
            0s  run     login-3: 2 agents, 4 at once, from bbbbbbbbbb for main
          2.0s  parser  attempt 1 starts, from bbbbbbbbbb
          2.0s  notes   attempt 1 starts, from bbbbbbbbbb
           14s  parser  turn 1.1 saved: 3 paths changed
        1m 02s  parser  completed in 1m 02s, 3 paths changed
           14s  notes   turn 1.1 saved: nothing changed
        1m 03s  notes   no_changes in 1m 02s
        1m 04s  parser  merged into the candidate, now aaaaaaaaaa
        1m 10s  run     verifying the candidate
        1m 30s  run     verifier passed in 20s: `cargo test --workspace`
        1m 31s  run     the gate is open
        1m 32s  run     landed: main is now aaaaaaaaaa
        1m 33s  run     finished: main is now aaaaaaaaaa
        ");
    }

    #[test]
    fn quiet_tells_only_trouble() {
        insta::assert_snapshot!(told(&samples::blocked_events(), Detail::Quiet), @r"
           14s  docs    outside its contract: src/main.rs
        1m 04s  docs    failed in 1m 02s: turn 1.2 ended with exit status 1, 3 paths changed, 1 outside its contract; hint: `example.com` seems not to be reached: the agent has no network; see `sandbox.network`
        1m 21s  ui      card c1a2b3c4 (conflict): ui and parser changed the same lines of src/parser/mod.rs
        1m 21s  ui      not merged: conflict, card c1a2b3c4
        1m 21s  api     not merged: waits for ui
        1m 45s  run     verifier failed in 20s: `cargo test --workspace`: 2 tests failed
        ");
        assert_eq!(told(&samples::landed_events(), Detail::Quiet), "");
    }

    #[test]
    fn verbose() {
        insta::assert_snapshot!(told(&samples::landed_events(), Detail::Verbose), @r"
            0s  run     login-3: 2 agents, 4 at once, from bbbbbbbbbb for main
            0s  parser  prepare begins
          1.0s  parser  prepare ended: ok in 1.5s
          1.0s  parser  execute begins
          2.0s  parser  attempt 1 starts, from bbbbbbbbbb
            0s  notes   prepare begins
          1.0s  notes   prepare ended: ok in 1.5s
          1.0s  notes   execute begins
          2.0s  notes   attempt 1 starts, from bbbbbbbbbb
          5.0s  parser  turn 1.1 runs: sh -c ./work
           14s  parser  turn 1.1 saved: 3 paths changed
           14s  parser  checkpoint parser@1.1
        1m 02s  parser  completed in 1m 02s, 3 paths changed
        1m 02s  parser  execute ended: ok in 1.5s
          5.0s  notes   turn 1.1 runs: sh -c ./work
           14s  notes   turn 1.1 saved: nothing changed
        1m 03s  notes   no_changes in 1m 02s
        1m 03s  notes   execute ended: ok in 1.5s
        1m 04s  run     the candidate begins at bbbbbbbbbb
        1m 04s  parser  merges cleanly onto bbbbbbbbbb
        1m 04s  parser  merged into the candidate, now aaaaaaaaaa
        1m 10s  run     verifying the candidate
        1m 30s  run     verifier passed in 20s: `cargo test --workspace`
        1m 30s  run     parent-verify ended: ok in 1.5s
        1m 30s  run     tree ffffffffff pass
        1m 31s  run     the gate is open
        1m 32s  run     moving main to aaaaaaaaaa
        1m 32s  run     landed: main is now aaaaaaaaaa
        1m 33s  run     finished: main is now aaaaaaaaaa
        ");
    }

    #[test]
    fn an_agent_cannot_fake_a_line() {
        let events = samples::hostile_events();
        let told = told(&events, Detail::Verbose);
        assert_eq!(told.lines().count(), events.len(), "{told}");
        assert!(!told.chars().any(|c| c.is_control() && c != '\n'), "{told}");
        assert!(told.contains("\\n"), "the attempt is shown, escaped: {told}");
    }
}
