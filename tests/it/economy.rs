//! How many git processes a run starts outside of boxes. Times vary with the machine, counts do not.

use std::fmt::Write as _;
use std::fs;

use crate::flow::plan;
use crate::world::World;

/// The git processes of a run of so many agents, with so many turns each.
fn processes(agents: usize, turns: usize) -> usize {
    let world = World::new();
    let mut text = String::from("[run]\nname = \"count\"\njobs = 1\n");
    for agent in 0..agents {
        let turns: Vec<String> =
            (0..turns).map(|turn| format!("[\"sh\", \"-c\", \"echo {turn} > docs/{agent}\"]")).collect();
        writeln!(text, "[agents.a{agent}]\nowns = [\"docs/{agent}\"]\nturns = [{}]", turns.join(", ")).unwrap();
    }
    let calls = world.state().join("calls");
    // What runs in a box does not see the file.
    world.script("git", &format!("test -f {0} && echo x >> {0}\nexec /usr/bin/git \"$@\"\n", calls.display()));
    fs::write(&calls, "").unwrap();
    world.sandbox(&["run", &plan(&world, &text)]).expect(1);
    fs::read_to_string(&calls).unwrap().lines().count()
}

#[test]
fn a_turn_and_an_agent_take_few_processes() {
    let [one, more_turns, more_agents] = [(1, 1), (1, 4), (4, 1)].map(|(agents, turns)| processes(agents, turns));
    // A pack received, walked, pinned; what changed; the patch.
    assert!(more_turns - one <= 3 * 5, "{one} {more_turns}");
    // All of a turn, the worktree, the contribution and its merge.
    assert!(more_agents - one <= 3 * 24, "{one} {more_agents}");
    assert!(one <= 70, "{one}");
}
