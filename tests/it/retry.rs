//! Going on with agents that did not end well, and what is given to worktrees.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::flow::plan;
use crate::world::{Ran, World};

fn row(world: &World, agent: &str) -> Value {
    let status = world.sandbox(&["status", "--json"]).expect(0).json();
    let rows = status["data"]["agents"].as_array().unwrap().clone();
    rows.into_iter().find(|row| row["agent"] == agent).unwrap()
}

fn worktree(world: &World, name: &str) -> PathBuf {
    let key = fs::read_dir(world.worktrees()).unwrap().next().unwrap().unwrap();
    key.path().join(name)
}

/// `root` fails at first; `top` builds on it.
const CHAIN: &str = r#"
[run]
name = "chain"
[verify]
command = ["true"]
[agents.root]
owns = ["docs/root"]
run = ["sh", "-ec", "echo $SANDBOX_ATTEMPT >> docs/root; test $SANDBOX_ATTEMPT != 1"]
[agents.top]
owns = ["docs/top"]
after = ["root"]
run = ["sh", "-ec", "cp docs/root docs/top"]
"#;

#[test]
fn an_agent_that_was_blocked_begins_once_its_prerequisite_is_mended() {
    let world = World::new();
    world.sandbox(&["run", &plan(&world, CHAIN)]).expect(1);
    assert_eq!(
        (row(&world, "root")["state"].clone(), row(&world, "top")["state"].clone()),
        ("failed".into(), "blocked".into())
    );
    // Tried too early it is blocked again, which is told with whom it waits for.
    let ran: Ran = world.sandbox(&["retry", "top"]).expect(1);
    assert!(ran.stdout.contains("`root`"), "{ran:?}");
    world.sandbox(&["retry", "root"]).expect(1);
    world.sandbox(&["retry", "top"]).expect(0);
    assert_eq!(world.git(&["show", "sandbox/chain-1/integration:docs/top"]), "1\n2");
}

#[test]
fn work_on_a_prerequisite_that_changed_since_is_stale_until_it_is_done_again() {
    let world = World::new();
    let text = CHAIN.replace("; test $SANDBOX_ATTEMPT != 1", "");
    world.sandbox(&["run", &plan(&world, &text)]).expect(0);
    world.sandbox(&["retry", "root"]).expect(1);
    let ran = world.sandbox(&["land"]).expect(1);
    assert!(ran.stdout.contains("`root`") && ran.stdout.contains("top"), "{ran:?}");
    // In its old worktree it would go on from the old work.
    let ran = world.sandbox(&["retry", "top", "--fresh"]).expect(0);
    drop(ran);
    world.sandbox(&["land"]).expect(0);
    assert_eq!((world.read("docs/root"), world.read("docs/top")), ("1\n2\n".to_owned(), "1\n2\n".to_owned()));
}

#[test]
fn a_worktree_that_is_gone_is_told_and_made_anew_when_asked() {
    let world = World::new();
    world.sandbox(&["run", &plan(&world, CHAIN)]).expect(1);
    fs::remove_dir_all(worktree(&world, "chain-1--root")).unwrap();
    world.git(&["worktree", "prune"]);
    world.git(&["reflog", "expire", "--expire=now", "--all"]);
    world.git(&["gc", "-q", "--prune=now"]);
    let ran = world.sandbox(&["retry", "root"]).expect(2);
    assert!(ran.stderr.contains("no worktree") && ran.stderr.contains("retry root --fresh"), "{ran:?}");
    // Saying so has left the run in order.
    let status = world.sandbox(&["status", "--json"]).expect(0).json();
    assert_eq!(status["data"]["state"], "incomplete");
    world.sandbox(&["retry", "root", "--fresh"]).expect(1);
    assert_eq!(world.git(&["show", "refs/sandbox/chain-1/root/1.1:docs/root"]), "1", "the old work is still kept");
    assert_eq!(world.git(&["show", "sandbox/chain-1/integration:docs/root"]), "2");
    world.sandbox(&["retry", "top"]).expect(0);
    world.sandbox(&["clean", "chain-1"]).expect(0);
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn what_the_user_did_in_a_worktree_is_kept() {
    let world = World::new();
    world.sandbox(&["run", &plan(&world, CHAIN)]).expect(1);
    fs::write(worktree(&world, "chain-1--root").join("docs/by-hand"), "mine\n").unwrap();
    world.sandbox(&["clean", "chain-1"]).expect(0);
    assert_eq!(world.git(&["show", "refs/sandbox/chain-1/root/1.2:docs/by-hand"]), "mine");
}

#[test]
fn a_setup_that_fails_is_an_outcome_of_its_own() {
    let world = World::new();
    let text = r#"
[run]
name = "setup"
[workspace]
setup = ["sh", "-c", "echo built > built; echo what went wrong; exit 7"]
[verify]
command = ["true"]
[agents.one]
owns = ["docs/**"]
run = ["touch", "docs/new"]
"#;
    let before = world.picture();
    let ran = world.sandbox(&["run", &plan(&world, text)]).expect(1);
    assert!(ran.stdout.contains("setup_failed") && ran.stdout.contains("exit status 7"), "{ran:?}");
    assert!(!worktree(&world, "setup-1--one").join("docs/new").exists(), "the agent never ran");
    assert!(world.sandbox(&["logs", "one"]).expect(0).stdout.contains("what went wrong"));
    assert_eq!(world.picture(), before);
    // Tried again, it is set up again: nothing has made the worktree ready yet.
    let again = world.sandbox(&["retry", "one"]).expect(1);
    assert!(again.stdout.contains("setup_failed"), "{again:?}");
}

#[test]
fn files_that_git_ignores_are_seeded_and_never_merged() {
    let world = World::new();
    world.write(".gitignore", ".env\nnode_modules/\n*.local\nprivate/\n");
    world.write(".worktreeinclude", "# what agents need\n*.local\n!b.local\nprivate/shared/\n/README.md\nnotes\n");
    world.commit("rules");
    // Ignored everywhere by the user, and by nothing in the repository.
    fs::create_dir_all(world.home().join(".config/git")).unwrap();
    fs::write(world.home().join(".config/git/ignore"), "*.mine\n").unwrap();
    for (path, text) in [
        (".env", "SECRET=1\n"),
        ("node_modules/a/index.js", "a\n"),
        ("a.local", "a\n"),
        ("b.local", "b\n"),
        ("sub/c.local", "c\n"),
        ("private/shared/d", "d\n"),
        ("private/own/e", "e\n"),
        ("x.mine", "x\n"),
        ("notes", "untracked, not ignored\n"),
        ("README.md", "changed by the user\n"),
    ] {
        world.write(path, text);
    }
    std::os::unix::fs::symlink("/etc/passwd", world.repo.join("link.local")).unwrap();
    let text = r#"
[run]
name = "seed"
[workspace]
seed = [".env", "node_modules", "x.mine", "not-there"]
[verify]
command = ["true"]
[agents.one]
owns = ["docs/**"]
run = ["sh", "-ec", '''
for f in .env node_modules/a/index.js x.mine a.local sub/c.local private/shared/d; do test -f $f || { echo no $f; exit 1; }; done
for f in b.local private/own notes; do test ! -e $f || { echo there is $f; exit 1; }; done
test -L link.local
grep -q readme README.md
cat .env > docs/new
''']
"#;
    let before = world.picture();
    let ran = world.sandbox(&["run", &plan(&world, text)]);
    assert_eq!(ran.code, Some(0), "{ran:?} {}", world.sandbox(&["logs", "one"]).stdout);
    assert_eq!(world.picture(), before);
    let merged = world.git(&["diff", "--name-only", "main", "sandbox/seed-1/integration"]);
    assert_eq!(merged, "docs/new");
    let kept = world.git(&["ls-tree", "-r", "--name-only", "refs/sandbox/seed-1/one/1.1"]);
    for secret in [".env", "node_modules", "x.mine", "local", "private"] {
        assert!(!kept.contains(secret), "{secret} in {kept}");
    }
}

#[test]
fn a_list_of_what_to_seed_that_is_a_link_is_not_followed() {
    let world = World::new();
    fs::write(world.home().join("elsewhere"), "*\n").unwrap();
    std::os::unix::fs::symlink(world.home().join("elsewhere"), world.repo.join(".worktreeinclude")).unwrap();
    let ran = world.sandbox(&["run", &plan(&world, CHAIN)]).expect(3);
    assert!(ran.stderr.contains(".worktreeinclude"), "{ran:?}");
    // A fault ends the run in order, and is told as what it was.
    let told = fs::read_to_string(world.store().join("runs/chain-1/journal.jsonl")).unwrap();
    let last: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["data"]["exitCode"]), (&"run.finished".into(), &3.into()));
    assert_eq!(world.sandbox(&["status", "--json"]).expect(0).json()["data"]["state"], "incomplete");
    fs::remove_file(world.repo.join(".worktreeinclude")).unwrap();
    world.sandbox(&["retry", "root"]).expect(1);
    world.sandbox(&["retry", "root"]).expect(1);
    world.sandbox(&["retry", "top"]).expect(0);
}
