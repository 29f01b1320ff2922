//! Submodules: every change of one waits for a person, and what the disk cannot tell of them is no change.

use serde_json::Value;
use worktree_sandbox::model::AttemptOutcome;

use crate::bench::Bench;
use crate::flow::plan;
use crate::world::World;

/// A commit of nowhere: what a submodule is at need not be in this repository.
const OTHER: &str = "1212121212121212121212121212121212121212";

/// A world whose repository has a submodule `vendor`, and the commit that is at. The user has it filled.
fn with_submodule() -> (World, String) {
    let world = World::new();
    let part = world.home().join("part");
    world.git(&["clone", "-q", ".", part.to_str().unwrap()]);
    let allow = "protocol.file.allow=always";
    world.git(&["-c", allow, "submodule", "--quiet", "add", part.to_str().unwrap(), "vendor"]);
    world.commit("with a submodule");
    let at = world.git(&["rev-parse", "HEAD:vendor"]);
    (world, at)
}

/// Runs one agent that owns everything.
fn run(world: &World, script: &str, code: i32) {
    let script = serde_json::to_string(script).unwrap();
    let text = format!(
        "[run]\nname = \"sub\"\n[verify]\ncommand = [\"true\"]\n[agents.all]\nowns = [\"**\", \".gitmodules\"]\nrun = [\"sh\", \
         \"-ec\", {script}]\n"
    );
    world.sandbox(&["run", &plan(world, &text)]).expect(code);
}

/// The one card that waits, in full.
fn card(world: &World) -> Value {
    let board = world.sandbox(&["board", "--json"]).expect(0).json();
    let lanes = board["data"]["lanes"].as_array().unwrap();
    let cards = lanes.iter().flat_map(|lane| lane["cards"].as_array().unwrap());
    let open: Vec<&Value> = cards.filter(|card| card["state"] == "needs-human").collect();
    assert_eq!(open.len(), 1, "{board:#}");
    world.sandbox(&["board", "show", open[0]["id"].as_str().unwrap(), "--json"]).expect(0).json()["data"].clone()
}

/// What the target has at a path: mode and object.
fn at(world: &World, path: &str) -> String {
    let found = world.git(&["ls-tree", "main", path]);
    found.split('\t').next().unwrap().replace(" commit ", " ").replace(" blob ", " ")
}

#[test]
fn a_folder_that_is_gone_changes_nothing() {
    for script in ["rmdir vendor", "rmdir vendor; mkdir vendor", "mkdir -p vendor/empty/folders"] {
        let (world, old) = with_submodule();
        let picture = world.picture();
        run(&world, script, 1);
        assert!(world.sandbox(&["status"]).expect(0).stdout.contains("no_changes"), "{script}");
        assert_eq!(world.picture(), picture, "{script}");
        // Beside other work, and beside a history of its own.
        for commit in ["", "git add new; git commit -qm new"] {
            run(&world, &format!("{script}; date +%N > new; {commit}"), 0);
            world.sandbox(&["land"]).expect(0);
            assert_eq!(at(&world, "vendor"), format!("160000 {old}"), "{script}");
            assert_eq!(world.git(&["diff", "--name-only", "HEAD~1"]), "new", "{script}");
        }
        assert!(world.repo.join("vendor/README.md").is_file(), "{script}: the user's own is as it was");
    }
}

#[test]
fn every_change_of_a_submodule_is_a_card_and_lands_once_it_is_approved() {
    let bump = format!("git update-index --cacheinfo 160000,{OTHER},vendor");
    let bumped = format!("160000 {OTHER}");
    let known = format!(
        "git config -f .gitmodules submodule.second.path second; git config -f .gitmodules submodule.second.url ../x; git update-index --add --cacheinfo 160000,{OTHER},second"
    );
    let table: [(String, &str, String, &str); 10] = [
        (bump.clone(), "vendor", bumped.clone(), "and is at"),
        (format!("{bump}; echo x > new"), "vendor", bumped.clone(), "and is at"),
        (format!("{bump}; git commit -qm bump"), "vendor", bumped.clone(), "and is at"),
        (format!("rmdir vendor; {bump}; git commit -qm bump; echo x > new"), "vendor", bumped.clone(), "and is at"),
        // As a filling that failed leaves it.
        (format!("echo gitdir: /nowhere > vendor/.git; {bump}"), "vendor", bumped.clone(), "and is at"),
        ("git rm -q --cached vendor".to_owned(), "vendor", String::new(), "is gone"),
        ("git rm -q vendor; git commit -qm gone".to_owned(), "vendor", String::new(), "is gone"),
        ("rmdir vendor; echo mine > vendor".to_owned(), "vendor", "100644 ".to_owned(), "is a file now"),
        ("echo mine > vendor/file".to_owned(), "vendor", "040000 ".to_owned(), "is gone"),
        (known, "second", bumped, "is new"),
    ];
    for (script, path, landed, words) in table {
        let (world, old) = with_submodule();
        // Else git has no room for the rest there.
        world.git(&["submodule", "--quiet", "deinit", "-f", "vendor"]);
        run(&world, &script, 5);
        let card = card(&world);
        let id = card["id"].as_str().unwrap();
        assert_eq!((&card["kind"], &card["paths"][0]), (&"submodule".into(), &path.into()), "{script}: {card:#}");
        let text = card["messages"][0]["text"].as_str().unwrap();
        assert!(text.contains(words) && text.contains(path), "{script}: {text}");
        assert!(path == "second" || text.contains(&old), "{script}: {text}");
        assert!(!landed.ends_with(OTHER) || text.contains(OTHER), "{script}: {text}");
        let shown = world.sandbox(&["board", "show", id]).expect(0).stdout;
        assert!(shown.contains(text) && shown.contains("board approve"), "{script}: {shown}");
        world.sandbox(&["merge"]).expect(5);
        world.sandbox(&["land"]).expect(5);
        let approved = world.sandbox(&["board", "approve", id, "--why", "it was planned", "--json"]).expect(0).json();
        assert!(approved.to_string().contains("it was planned"), "{approved:#}");
        world.sandbox(&["merge"]).expect(0);
        world.sandbox(&["land"]).expect(0);
        let found = at(&world, path);
        assert!(found.starts_with(&landed) && found.is_empty() == landed.is_empty(), "{script}: {found}");
        let journal = std::fs::read_to_string(world.store().join("runs/sub-1/journal.jsonl")).unwrap();
        assert!(journal.contains("it was planned") && journal.contains("Tester <tester@example.org>"), "{script}");
    }
}

#[test]
fn a_change_that_is_dismissed_is_left_out_with_the_rest() {
    let (world, old) = with_submodule();
    run(&world, &format!("git update-index --cacheinfo 160000,{OTHER},vendor; echo x > new"), 5);
    world.sandbox(&["board", "dismiss", card(&world)["id"].as_str().unwrap()]).expect(0);
    // It was all there was: nothing is left to be complete.
    world.sandbox(&["merge"]).expect(1);
    world.sandbox(&["land"]).expect(1);
    assert_eq!(at(&world, "vendor"), format!("160000 {old}"));
    assert_eq!(at(&world, "new"), "");
}

/// What is approved is a step from one commit to another, and not whatever comes at the same path.
#[test]
fn another_change_is_asked_for_again() {
    let (world, _) = with_submodule();
    run(&world, "git update-index --cacheinfo 160000,$(printf '%040d' $SANDBOX_ATTEMPT | tr 0 a),vendor", 5);
    let first = card(&world);
    world.sandbox(&["board", "approve", first["id"].as_str().unwrap()]).expect(0);
    world.sandbox(&["retry", "all"]).expect(5);
    assert_ne!(card(&world)["id"], first["id"]);
}

/// Two agents that take a submodule to different commits: each step is asked for, and which of them stays is a conflict.
#[test]
fn two_steps_of_one_submodule_are_a_conflict_that_can_be_resolved() {
    let (world, _) = with_submodule();
    let agent = |name: &str, digit: &str| {
        let id = digit.repeat(40);
        format!(
            "[agents.{name}]\nowns = [\"{name}\"]\nshares = [\"vendor\"]\nrun = [\"sh\", \"-ec\", \"git update-index --cacheinfo \
             160000,{id},vendor; echo {name} > {name}\"]\n"
        )
    };
    let text = format!("[run]\nname = \"sub\"\n[verify]\ncommand = [\"true\"]\n{}{}", agent("a", "3"), agent("b", "4"));
    world.sandbox(&["run", &plan(&world, &text)]).expect(5);
    let open = || -> Vec<(String, String)> {
        let board = world.sandbox(&["board", "--json"]).expect(0).json();
        let cards = board["data"]["lanes"][0]["cards"].as_array().unwrap().clone();
        let text = |card: &Value, key: &str| card[key].as_str().unwrap().to_owned();
        cards.iter().map(|card| (text(card, "kind"), text(card, "id"))).collect()
    };
    let steps = open();
    assert_eq!(steps.len(), 2, "{steps:?}");
    for (kind, id) in steps {
        assert_eq!(kind, "submodule");
        world.sandbox(&["board", "approve", &id]).expect(0);
    }
    world.sandbox(&["merge"]).expect(5);
    let conflict = card(&world);
    assert_eq!(conflict["kind"], "conflict");
    world.sandbox(&["board", "resolve", conflict["id"].as_str().unwrap(), "--take", "theirs"]).expect(0);
    // From the one to the other is a step that nobody has approved.
    world.sandbox(&["merge"]).expect(5);
    let last = card(&world);
    assert_eq!((&last["kind"], &last["stages"][0]["oid"]), (&"submodule".into(), &"3".repeat(40).into()));
    world.sandbox(&["board", "approve", last["id"].as_str().unwrap()]).expect(0);
    world.sandbox(&["merge"]).expect(0);
    world.sandbox(&["land"]).expect(0);
    assert_eq!(at(&world, "vendor"), format!("160000 {}", "4".repeat(40)));
}

/// What it is, what an agent does, and where a submodule is then that was elsewhere before.
type Case<'c> = (&'c str, String, Vec<(&'c str, &'c str)>);

/// What the capture makes of an index that nobody should believe, or that says nothing.
#[tokio::test(flavor = "multi_thread")]
async fn no_index_makes_a_submodule_vanish_or_a_file() {
    let (world, old) = with_submodule();
    let mut bench = Bench::new(world).await;
    let index = "$(git rev-parse --path-format=absolute --git-dir)/index";
    let zero = "0".repeat(40);
    let forged = |mode_and_id: &str, path: &str| {
        format!("printf '{mode_and_id} 0\\t{path}\\n' | git -c core.protectNTFS=false update-index --index-info")
    };
    let link = format!("160000 {OTHER}");
    let conflict =
        format!("printf '0 {zero} 0\\tvendor\\n160000 {OTHER} 2\\tvendor\\n' | git update-index --index-info");
    let gone = "git init -q gone; git -C gone commit -q --allow-empty -m x; git add gone 2>&1; rm -rf gone";
    let cases: Vec<Case<'_>> = vec![
        ("no index", format!("rmdir vendor; rm -f {index}"), vec![]),
        ("an index of rubbish", format!("echo rubbish > {index}"), vec![]),
        ("in conflict", conflict, vec![]),
        ("a file around it", forged(&link, "README.md/in"), vec![]),
        ("a file at it", forged(&link, "src/a.txt"), vec![]),
        ("files below it", forged(&link, "docs"), vec![]),
        // What git takes in no index, beside what it takes.
        ("a bad name", format!("{}; {}", forged(&link, "git~1/x"), forged(&link, "vendor")), vec![("vendor", OTHER)]),
        ("put back", "true".to_owned(), vec![("vendor", old.as_str())]),
        // One that was made here is a thing of the disk.
        ("a clone that is gone", gone.to_owned(), vec![]),
        ("a folder kept for one", format!("mkdir kept; {}", forged(&link, "kept")), vec![("kept", OTHER)]),
        ("and it is gone", format!("{}; rmdir kept", forged(&link, "kept")), vec![("kept", "")]),
    ];
    let mut expected: std::collections::BTreeMap<&str, &str> = [("vendor", old.as_str())].into();
    for (name, script, changes) in cases {
        let honest = format!("rm -f {index}; git reset -q");
        let end = bench.attempt(&[&format!("{honest}; {script}; date +%N > beside")]).await;
        assert_eq!(end.outcome, AttemptOutcome::Completed, "{name}: {} {}", bench.reason(), bench.memory.printed());
        for (path, id) in changes {
            if id.is_empty() {
                expected.remove(path)
            } else {
                expected.insert(path, id)
            };
        }
        let snapshot = bench.snapshot();
        let links = snapshot.iter().filter(|(_, (mode, _))| mode == "160000");
        let found: std::collections::BTreeMap<&str, &str> = links
            .map(|(path, (_, id))| (std::str::from_utf8(path).unwrap(), std::str::from_utf8(id).unwrap()))
            .collect();
        assert_eq!(found, expected, "{name}: {}", bench.memory.printed());
        for file in [".gitmodules", "README.md", "src/a.txt", "docs/x.txt", "beside"] {
            assert!(snapshot.contains_key(file.as_bytes()), "{name}: {file}");
        }
        let record = bench.record(bench.attempts, 1);
        assert!(!record.not_captured.nested_repositories.iter().any(|path| *path == "vendor".into()), "{name}");
    }
    bench.check_replay();
}

/// A submodule that was filled in the box has its git directory where no capture looks: git would fail at it.
#[tokio::test(flavor = "multi_thread")]
async fn a_submodule_that_was_filled_is_where_the_index_says() {
    let (world, old) = with_submodule();
    let mut bench = Bench::new(world).await;
    let fill = |path: &str| {
        format!(
            "M=$(git rev-parse --path-format=absolute --git-dir)/modules/{path}; mkdir -p $M; git init -q --separate-git-dir=$M {path}; \
             echo inside > {path}/inside; git -C {path} add inside; git -C {path} commit -qm inside; echo x > beside"
        )
    };
    let told = |bench: &Bench| bench.memory.printed().lines().last().map(str::to_owned).unwrap_or_default();
    let at = |bench: &Bench, path: &str| {
        let found = bench.snapshot().remove(path.as_bytes()).map(|(_, id)| String::from_utf8(id).unwrap());
        found.unwrap_or_default()
    };
    // Not added: the files are kept, and nothing else has changed.
    let end = bench.attempt(&[&fill("vendor")]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert_eq!(at(&bench, "vendor"), old);
    let refused = bench.record(1, 1).not_captured.refused;
    let kept = refused.iter().find(|line| line.starts_with("`vendor` is a repository")).unwrap();
    let kept = kept.rsplit(' ').next().unwrap();
    assert_eq!(bench.world.git(&["show", &format!("{kept}:inside")]), "inside");
    // Added; a second one that is new, too.
    let end = bench.attempt(&["git add vendor; git -C vendor rev-parse HEAD"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert_eq!(at(&bench, "vendor"), told(&bench));
    let end = bench.attempt(&[&format!("{}; git add second 2>&1; git -C second rev-parse HEAD", fill("second"))]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert_eq!(at(&bench, "second"), told(&bench));
    assert!(!bench.snapshot().contains_key(&b"second/inside"[..]));
    assert_eq!(bench.snapshot()[&b"beside"[..]].1, b"x\n");
    bench.check_replay();
}
