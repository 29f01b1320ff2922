//! What stands between a run and its completion, as a block of text.

use super::look::{Look, Tone};
use super::status::VerifierView;
use super::text;
use crate::model::RepoPath;
use crate::model::event::CompletionBlocked;
use crate::model::gate::GateBlock;
use crate::model::run::RunState;

/// What is in the way, each with what to do about it.
pub fn render_blocks(blocks: &[GateBlock], look: Look) -> String {
    let mut out = String::new();
    for block in blocks {
        let about = match (&block.agent, &block.card) {
            (Some(agent), _) => format!("{agent}: "),
            (None, Some(card)) => format!("card {card}: "),
            (None, None) => String::new(),
        };
        out.extend(["  - ", &Tone::Warn.paint(&format!("{about}{}", text::clean(&block.message)), look), "\n"]);
        if !block.paths.is_empty() {
            out.extend(["    ", &text::list(&block.paths, 5), "\n"]);
        }
        if !block.next.is_empty() {
            out.extend(["    -> ", &text::clean(&block.next), "\n"]);
        }
    }
    out
}

/// The whole message: what changed since the run's start, what of it no contract covers, what the verifier last said and of
/// what, what is in the way, and what to do next.
pub fn render_blocked(state: &RunState, blocked: &CompletionBlocked, look: Look) -> String {
    let heading = format!("run {} is not complete", state.run_id);
    let mut out = format!("{}\n", Tone::Strong.paint(&heading, look));
    out.push_str(&paths("changed since the run's start", &blocked.changed_paths));
    out.push_str(&paths("outside every contract", &blocked.outside_owned_scope));
    out.extend(["last verifier: ", &verifier_line(state, blocked), "\n"]);
    if let Some(gate) = &state.gate
        && !gate.blocks.is_empty()
    {
        out.push_str("in the way:\n");
        out.push_str(&render_blocks(&gate.blocks, look));
    }
    out.extend(["next: ", &text::clean(&blocked.next_action), "\n"]);
    out
}

fn paths(what: &str, paths: &[RepoPath]) -> String {
    if paths.is_empty() {
        return format!("{what}: nothing\n");
    }
    format!("{what}: {}\n{}", text::count(text::len(paths), "path", "paths"), text::lines(paths, "  "))
}

fn verifier_line(state: &RunState, blocked: &CompletionBlocked) -> String {
    match (VerifierView::of(state), &blocked.verifier_command, blocked.verifier_seq) {
        (Some(view), _, Some(seq)) => format!("{} (event {seq})", view.line()),
        (Some(view), _, None) => view.line(),
        (None, Some(command), _) => format!("never run: `{}`", text::command(command, 60)),
        (None, None, _) => "none in the plan".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn message() {
        let state = samples::blocked();
        insta::assert_snapshot!(render_blocked(&state, &samples::completion_blocked(), Look::PLAIN), @r"
        run login-3 is not complete
        changed since the run's start: 2 paths
          src/parser/mod.rs
          src/main.rs
        outside every contract: 1 path
          src/main.rs
        last verifier: failed by `cargo test --workspace`: 2 tests failed (event 54)
        in the way:
          - docs: failed: turn 1.2 ended with exit status 1
            -> retry it
          - card c1a2b3c4: conflict of ui with parser
            src/parser/mod.rs
            -> decide, then merge again
          - the verifier failed: 2 tests failed
            -> mend what it names
        next: decide card c1a2b3c4
        ");
    }

    #[test]
    fn without_a_verifier() {
        let blocked = CompletionBlocked {
            changed_paths: (0..30).map(|n| RepoPath::from(format!("f{n}").as_str())).collect(),
            outside_owned_scope: Vec::new(),
            verifier_command: None,
            verifier_seq: None,
            next_action: "add [verify] to the plan".to_owned(),
        };
        insta::assert_snapshot!(render_blocked(&samples::running(), &blocked, Look::PLAIN), @r"
        run login-3 is not complete
        changed since the run's start: 30 paths
          f0
          f1
          f2
          f3
          f4
          f5
          f6
          f7
          f8
          f9
          and 20 more
        outside every contract: nothing
        last verifier: none in the plan
        next: add [verify] to the plan
        ");
    }
}
