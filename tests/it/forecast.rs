//! Conflicts to come are told while agents are at work, and nothing is touched by that.

use std::fs;

use nix::sys::signal::Signal;

use crate::flow::plan;
use crate::going::Going;
use crate::world::World;

/// Both change one file; `b` comes round to what `a` has. `apart` has nothing to do with either.
const PLAN: &str = r#"
[run]
name = "two"
jobs = 3
[agents.a]
owns = ["docs/a"]
shares = ["docs/shared"]
turns = [["sh", "-ec", "echo a > docs/shared"], ["sh", "-ec", "while ! test -f docs/end; do sleep 0.02; done"]]
[agents.b]
owns = ["docs/b*"]
shares = ["docs/shared"]
turns = [
    ["sh", "-ec", "echo b > docs/shared"],
    ["sh", "-ec", "while ! test -f docs/b-go; do sleep 0.02; done"],
    ["sh", "-ec", "echo a > docs/shared"],
    ["sh", "-ec", "while ! test -f docs/end; do sleep 0.02; done"],
]
[agents.apart]
owns = ["docs/apart"]
run = ["sh", "-ec", "echo 1 > docs/apart"]
"#;

#[test]
fn a_conflict_to_come_is_told_and_taken_back() {
    let world = World::new();
    let before = world.picture();
    let mut going = Going::start(&world, &["run", &plan(&world, PLAN), "--json"]);
    let told = going.wait_for(|event| event["type"] == "overlap.predicted");
    assert_eq!(told["data"]["paths"], serde_json::json!(["docs/shared"]), "{told:#}");
    let mut pair = [told["agent"].as_str().unwrap(), told["data"]["with"].as_str().unwrap()];
    pair.sort_unstable();
    assert_eq!(pair, ["a", "b"]);
    let status = world.sandbox(&["status"]).expect(0).stdout;
    assert!(status.contains("would conflict in docs/shared"), "{status}");
    assert_eq!(world.picture(), before);

    let key = fs::read_dir(world.worktrees()).unwrap().next().unwrap().unwrap().path();
    fs::write(key.join("two-1--b/docs/b-go"), "").unwrap();
    let told = going.wait_for(|event| event["type"] == "overlap.predicted");
    assert_eq!(told["data"]["paths"], serde_json::json!([]), "{told:#}");
    let status = world.sandbox(&["status"]).expect(0).stdout;
    assert!(!status.contains("would conflict"), "{status}");
    going.signal(Signal::SIGINT);
    assert_eq!(going.wait().code, Some(130));
    assert_eq!(world.picture(), before);
}
