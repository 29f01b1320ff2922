//! Deciding cards: resolve, approve, dismiss. What was decided holds for exactly the matter of the card, and everything
//! else is refused with all as it was.

use std::fs;

use serde_json::Value;

use crate::flow::plan;
use crate::world::World;

/// `b` conflicts with `a` in one file, and changes another beside it.
pub(crate) const CONFLICT: &str = r#"
[run]
name = "duel"
[verify]
command = ["sh", "-ec", "! grep -q '<<<' docs/shared"]
[agents.a]
owns = ["docs/a"]
shares = ["docs/shared"]
run = ["sh", "-ec", "mkdir -p docs; echo from a > docs/shared; echo a > docs/a"]
[agents.b]
owns = ["docs/b"]
shares = ["docs/shared"]
run = ["sh", "-ec", "mkdir -p docs; echo from b > docs/shared; echo b > docs/b"]
"#;

/// `wide` goes beyond what it owns.
pub(crate) const SCOPE: &str = r#"
[run]
name = "duel"
[verify]
command = ["true"]
[agents.wide]
owns = ["docs/mine"]
run = ["sh", "-ec", "mkdir -p docs; echo 1 > docs/mine; echo 2 > docs/theirs"]
"#;

pub(crate) fn world(text: &str) -> World {
    let world = World::new();
    world.write("docs/shared", "base\n");
    world.git(&["add", "docs/shared"]);
    world.git(&["commit", "-qm", "shared"]);
    world.sandbox(&["run", &plan(&world, text)]).expect(5);
    world
}

pub(crate) fn card(world: &World) -> Value {
    let board = world.sandbox(&["board", "--json"]).expect(0).json();
    let cards = board["data"]["lanes"][0]["cards"].as_array().unwrap().clone();
    assert_eq!(cards.len(), 1, "{board:#}");
    cards[0].clone()
}

pub(crate) fn id(world: &World) -> String {
    card(world)["id"].as_str().unwrap().to_owned()
}

/// Merges, lands, and says what stands in the conflicting file.
#[track_caller]
pub(crate) fn land(world: &World) -> String {
    world.sandbox(&["merge"]).expect(0);
    world.sandbox(&["land"]).expect(0);
    assert_eq!(world.git(&["show", "main:docs/b"]), "b", "what did not conflict came along");
    world.git(&["show", "main:docs/shared"])
}

#[test]
fn one_side_is_taken() {
    for (side, expected) in [("ours", "from a"), ("theirs", "from b")] {
        let world = world(CONFLICT);
        let before = world.picture();
        let decided =
            world.sandbox(&["board", "resolve", &id(&world), "--take", side, "--why", "it is right"]).expect(0);
        assert!(decided.stdout.contains("sandbox merge duel-1"), "{decided:?}");
        assert_eq!(world.picture(), before, "deciding merges nothing");
        assert_eq!(land(&world), expected);
        let message = world.git(&["log", "--format=%B", "main"]);
        assert!(message.contains("Sandbox-Resolved: c"), "{message}");
    }
}

#[test]
fn it_is_merged_by_hand() {
    let world = world(CONFLICT);
    let id = id(&world);
    let begun = world.sandbox(&["board", "resolve", &id, "--edit", "--json"]).expect(0).json();
    let folder = std::path::PathBuf::from(begun["data"]["folder"].as_str().unwrap());
    let file = folder.join("docs/shared");
    assert!(fs::read_to_string(&file).unwrap().contains("<<<<<<<"));
    // Nothing was done in it yet; then something is left over; then something else was changed too.
    let refuse = |words: &str| {
        let refused = world.sandbox(&["board", "resolve", &id, "--done"]).expect(2);
        assert!(refused.stderr.contains(words), "{words}: {refused:?}");
        assert!(folder.exists());
    };
    refuse("markers");
    fs::write(&file, "from both\n>>>>>>> theirs\n").unwrap();
    refuse("markers");
    fs::write(&file, "from both\n").unwrap();
    fs::write(folder.join("docs/b"), "changed\n").unwrap();
    refuse("docs/b");
    fs::write(folder.join("docs/b"), "b\n").unwrap();
    fs::write(folder.join("docs/new"), "new\n").unwrap();
    refuse("docs/new");
    fs::remove_file(folder.join("docs/new")).unwrap();
    // `clean` does not take it away.
    let kept = world.sandbox(&["clean", "duel-1"]).expect(0);
    assert!(kept.stdout.contains("--done") && folder.exists(), "{kept:?}");
    world.sandbox(&["board", "resolve", &id, "--done"]).expect(0);
    assert!(!folder.exists());
    let refused = world.sandbox(&["board", "resolve", &id, "--take", "ours"]).expect(2);
    assert!(refused.stderr.contains("closed already"), "an answer is given once: {refused:?}");
    world.sandbox(&["merge"]).expect(0);
    assert_eq!(world.git(&["show", "sandbox/duel-1/integration:docs/shared"]), "from both");
}

#[test]
fn an_edit_can_be_thrown_away() {
    let world = world(CONFLICT);
    let id = id(&world);
    let listed = world.git(&["worktree", "list"]);
    world.sandbox(&["board", "resolve", &id, "--edit"]).expect(0);
    let again = world.sandbox(&["board", "resolve", &id, "--edit"]).expect(0);
    assert!(again.stdout.contains("already"), "{again:?}");
    world.sandbox(&["board", "resolve", &id, "--discard"]).expect(0);
    assert_eq!(world.git(&["worktree", "list"]), listed);
    assert_eq!(card(&world)["state"], "needs-human");
    let refused = world.sandbox(&["board", "resolve", &id, "--done"]).expect(2);
    assert!(refused.stderr.contains("--edit"), "{refused:?}");
}

#[test]
fn it_is_taken_from_elsewhere() {
    let world = world(CONFLICT);
    let id = id(&world);
    let folder = world.state().join("mine");
    fs::create_dir_all(folder.join("docs")).unwrap();
    let from = folder.display().to_string();
    let refused = world.sandbox(&["board", "resolve", &id, "--from", &from]).expect(2);
    assert!(refused.stderr.contains("none of its paths"), "{refused:?}");
    fs::write(folder.join("docs/shared"), "from mine\n").unwrap();
    fs::write(folder.join("unrelated"), "not looked at\n").unwrap();
    world.sandbox(&["board", "resolve", &id, "--from", &from]).expect(0);
    assert_eq!(land(&world), "from mine");
}

#[test]
fn a_commit_must_be_the_merge() {
    let world = world(CONFLICT);
    let id = id(&world);
    let shown = world.sandbox(&["board", "show", &id, "--json"]).expect(0).json();
    let side = |name: &str| shown["data"]["sides"][name].as_str().unwrap().to_owned();
    let (ours, theirs) = (side("ours"), side("theirs"));
    for not_a_merge in [&theirs, "main"] {
        let refused = world.sandbox(&["board", "resolve", &id, "--from", not_a_merge]).expect(2);
        assert!(refused.stderr.contains("do not conflict"), "{refused:?}");
    }
    let refused = world.sandbox(&["board", "resolve", &id, "--from", "no-such-thing"]).expect(2);
    assert!(refused.stderr.contains("no-such-thing"), "{refused:?}");
    // A merge made with git alone, elsewhere.
    let folder = world.state().join("merge").display().to_string();
    world.git(&["worktree", "add", "-q", "--detach", &folder, &ours]);
    let inside = |arguments: &[&str]| world.git(&[&["-C", &folder], arguments].concat());
    drop(world.try_git(&["-C", &folder, "merge", "-q", &theirs]));
    fs::write(format!("{folder}/docs/shared"), "from git\n").unwrap();
    inside(&["add", "docs/shared"]);
    inside(&["commit", "-qm", "merged"]);
    let merged = inside(&["rev-parse", "HEAD"]);
    world.git(&["worktree", "remove", "--force", &folder]);
    world.sandbox(&["board", "resolve", &id, "--from", &merged]).expect(0);
    // What was chosen outlives git's own cleaning up.
    world.git(&["reflog", "expire", "--expire=now", "--all"]);
    world.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(land(&world), "from git");
}

#[test]
fn a_card_outlives_gits_cleaning_up() {
    let world = world(CONFLICT);
    world.git(&["reflog", "expire", "--expire=now", "--all"]);
    world.git(&["gc", "-q", "--prune=now"]);
    world.sandbox(&["board", "resolve", &id(&world), "--take", "theirs"]).expect(0);
    assert_eq!(land(&world), "from b");
}

/// The target moves: elsewhere, and what was decided holds; in the conflicting file, and it is another matter.
#[test]
fn a_decision_is_about_its_matter() {
    for (path, code) in [("README.md", 0), ("docs/shared", 5)] {
        let world = world(CONFLICT);
        world.sandbox(&["board", "resolve", &id(&world), "--take", "theirs"]).expect(0);
        world.write(path, "moved\n");
        world.git(&["commit", "-qam", "moved"]);
        world.sandbox(&["merge"]).expect(code);
        let board = world.sandbox(&["board", "--json"]).expect(0).json();
        let open = board["data"]["lanes"][0]["cards"].as_array().unwrap().len();
        // Both conflict with the target now.
        assert_eq!(open, if code == 0 { 0 } else { 2 }, "{board:#}");
    }
}

#[test]
fn what_lies_outside_is_approved_by_name() {
    let world = world(SCOPE);
    let id = id(&world);
    let refused = world.sandbox(&["board", "resolve", &id, "--take", "theirs"]).expect(2);
    assert!(refused.stderr.contains("no conflict"), "{refused:?}");
    world.sandbox(&["board", "approve", &id, "--why", "agreed"]).expect(0);
    world.sandbox(&["merge"]).expect(0);
    world.sandbox(&["land"]).expect(0);
    assert_eq!(world.git(&["show", "main:docs/theirs"]), "2");
    let message = world.git(&["log", "-1", "--format=%B", "main"]);
    assert!(message.contains("Sandbox-Contract: approved by "), "{message}");
    let board = world.sandbox(&["board"]).expect(0).stdout;
    assert!(board.contains("agreed"), "{board}");
}

#[test]
fn work_is_left_out() {
    for (text, agents, left) in [(SCOPE, 1, "docs/theirs"), (CONFLICT, 2, "docs/b")] {
        let world = world(text);
        let before = world.picture();
        world.sandbox(&["board", "dismiss", &id(&world)]).expect(0);
        if agents == 2 {
            world.sandbox(&["merge"]).expect(0);
            world.sandbox(&["land"]).expect(0);
            assert_eq!(world.git(&["show", "main:docs/shared"]), "from a");
        } else {
            // With all of it left out nothing was done, and nothing was judged: that is no complete run.
            for verb in ["merge", "land"] {
                let ran = world.sandbox(&[verb]).expect(1);
                assert!(ran.stdout.contains("no other work is left"), "{ran:?}");
                assert!(ran.stdout.contains("not complete; main was not touched"), "{ran:?}");
            }
            assert_eq!(world.picture(), before);
        }
        assert!(!world.repo.join(left).exists());
        let told = world.sandbox(&["status"]).expect(0).stdout;
        assert!(told.contains("set aside"), "{told}");
    }
}

/// That work is left out is said of the work that is there. What the agent does later waits again, also where it comes up
/// against the same thing.
#[test]
fn later_work_is_not_left_out_with_the_earlier() {
    // The second attempt changes nothing, and the third something beside what the card is about.
    let attempts = "case $SANDBOX_ATTEMPT in 1|2) echo b;; *) echo more > docs/b.more; echo b;; esac > docs/b";
    let conflict = CONFLICT
        .replace("echo b > docs/b", attempts)
        .replace(r#"owns = ["docs/b"]"#, r#"owns = ["docs/b", "docs/b.more"]"#);
    let scope = conflict.replace("echo from b > docs/shared", "echo out > docs/out");
    for (text, kind) in [(conflict, "conflict"), (scope, "scope")] {
        let world = world(&text);
        let waiting = card(&world);
        let id = waiting["id"].as_str().unwrap();
        assert_eq!(waiting["kind"], kind);
        world.sandbox(&["board", "dismiss", id, "--why", "not now"]).expect(0);
        let is_set_aside = || world.sandbox(&["status"]).expect(0).stdout.contains("set aside");
        for verb in [["merge"].as_slice(), &["resume"], &["retry", "b"]] {
            world.sandbox(verb).expect(0);
            assert!(is_set_aside(), "{verb:?}: there is nothing new");
        }
        let ran = world.sandbox(&["retry", "b"]).expect(5);
        assert!(!is_set_aside(), "{ran:?}");
        let again = card(&world);
        assert_eq!(again["id"], id, "it is the same matter");
        let shown = world.sandbox(&["board", "show", id, "--json"]).expect(0).json()["data"].clone();
        let steps: Vec<(&str, Option<&str>)> = shown["history"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| (it["step"].as_str().unwrap(), it["why"].as_str()))
            .collect();
        assert_eq!(steps.iter().map(|(step, _)| *step).collect::<Vec<_>>(), ["opened", "answered", "reopened"]);
        assert!(steps[1].1.unwrap().contains("not now") && steps[2].1.unwrap().contains("other work"), "{steps:?}");
        assert_eq!(shown.get("answer"), None);
        world.sandbox(&["land"]).expect(5);
        // It can be said of this, too.
        world.sandbox(&["board", "dismiss", id]).expect(0);
        world.sandbox(&["merge"]).expect(0);
        assert!(is_set_aside());
        world.sandbox(&["land"]).expect(0);
        assert!(world.try_git(&["show", "main:docs/b"]).code != Some(0));
    }
}

/// What is approved or resolved is what stands at the card's paths: it holds for later work that has the same there.
#[test]
fn what_was_let_in_is_let_in_with_later_work() {
    let more = "echo $SANDBOX_ATTEMPT > docs/b";
    let conflict = CONFLICT.replace("echo b > docs/b", more);
    let scope = conflict.replace("echo from b > docs/shared", "echo out > docs/out");
    for (text, words) in
        [(conflict, ["resolve", "--take", "theirs"].as_slice()), (scope, &["approve", "--why", "wanted"])]
    {
        let world = world(&text);
        world.sandbox(&[&["board", words[0], &id(&world)], &words[1..]].concat()).expect(0);
        world.sandbox(&["retry", "b"]).expect(0);
        world.sandbox(&["land"]).expect(0);
        assert_eq!(world.git(&["show", "main:docs/b"]), "2");
    }
}

#[test]
fn a_conflict_is_not_approved() {
    let world = world(CONFLICT);
    let refused = world.sandbox(&["board", "approve", &id(&world)]).expect(2);
    assert!(refused.stderr.contains("board resolve"), "{refused:?}");
    for bad in [
        vec!["board", "resolve", "c1"],
        vec!["board", "approve", "zz"],
        vec!["board", "dismiss", "c1", "--why", "a\nb"],
    ] {
        world.sandbox(&bad).expect(2);
    }
}

/// What decides how the repository itself is treated is nobody's who does not own it by name.
#[test]
fn protected_paths_wait_whoever_owns_them() {
    let text = |owns: &str, protect: &str| {
        format!(
            r#"
[run]
name = "duel"
[verify]
command = ["true"]
protect = [{protect}]
[agents.all]
owns = [{owns}]
run = ["sh", "-ec", "echo '* merge=union' > .gitattributes; mkdir -p tests/gate docs; echo 1 > tests/gate/a; echo 1 > docs/a"]
"#
        )
    };
    for (owns, protect, held) in [
        (r#""**""#, "", &[".gitattributes"][..]),
        (r#""**""#, r#""tests/gate/**""#, &[".gitattributes", "tests/gate/a"]),
        (r#""**", ".gitattributes", "tests/gate/**""#, r#""tests/gate/**""#, &[]),
    ] {
        let world = World::new();
        let ran = world.sandbox(&["run", &plan(&world, &text(owns, protect))]);
        if held.is_empty() {
            ran.expect(0);
            continue;
        }
        ran.expect(5);
        let card = card(&world);
        assert_eq!((card["kind"].as_str(), card["paths"].clone()), (Some("protected"), held.into()), "{card:#}");
        world.sandbox(&["board", "approve", card["id"].as_str().unwrap()]).expect(0);
        world.sandbox(&["merge"]).expect(0);
        world.sandbox(&["land"]).expect(0);
        assert_eq!(world.git(&["show", "main:.gitattributes"]), "* merge=union");
    }
}

/// The user's own merge drivers are commands: they do not run over what agents made, in the folder of an edit either.
#[test]
fn no_driver_of_the_users_runs_over_an_edit() {
    let world = world(CONFLICT);
    let canary = world.state().join("ran");
    let driver = format!("touch {}; false", canary.display());
    world.git(&["config", "merge.mine.driver", &driver]);
    fs::write(world.repo.join(".git/info/attributes"), "docs/shared merge=mine\n").unwrap();
    // First without our protection: an ordinary merge runs it.
    let shown = world.sandbox(&["board", "show", &id(&world), "--json"]).expect(0).json();
    let side = |name: &str| shown["data"]["sides"][name].as_str().unwrap().to_owned();
    let folder = world.state().join("merge").display().to_string();
    world.git(&["worktree", "add", "-q", "--detach", &folder, &side("ours")]);
    drop(world.try_git(&["-C", &folder, "merge", "-q", &side("theirs")]));
    assert!(canary.exists(), "the driver would run");
    world.git(&["worktree", "remove", "--force", &folder]);
    fs::remove_file(&canary).unwrap();
    drop(world.sandbox(&["board", "resolve", &id(&world), "--edit"]));
    assert!(!canary.exists());
}

/// A folder in which no merge is under way, be it half made or given up, is no resolution.
#[test]
fn a_merge_that_was_given_up_is_no_resolution() {
    let world = world(CONFLICT);
    let id = id(&world);
    let begun = world.sandbox(&["board", "resolve", &id, "--edit", "--json"]).expect(0).json();
    let folder = begun["data"]["folder"].as_str().unwrap().to_owned();
    world.git(&["-C", &folder, "merge", "--abort"]);
    for verb in ["--done", "--edit"] {
        let refused = world.sandbox(&["board", "resolve", &id, verb]).expect(2);
        assert!(refused.stderr.contains("--discard"), "{verb}: {refused:?}");
    }
    world.sandbox(&["board", "resolve", &id, "--discard"]).expect(0);
    // One that was committed there is one.
    world.sandbox(&["board", "resolve", &id, "--edit"]).expect(0);
    fs::write(format!("{folder}/docs/shared"), "from both\n").unwrap();
    world.git(&["-C", &folder, "add", "docs/shared"]);
    world.git(&["-C", &folder, "commit", "-qm", "merged"]);
    world.sandbox(&["board", "resolve", &id, "--done"]).expect(0);
    assert_eq!(land(&world), "from both");
}

/// A file that goes through a filter of the user's: what lies in a folder is not what is to be committed.
#[test]
fn what_goes_through_a_filter_is_taken_from_a_commit() {
    let world = world(CONFLICT);
    let id = id(&world);
    world.git(&["config", "filter.rot.clean", "tr a-z n-za-m"]);
    world.git(&["config", "filter.rot.smudge", "tr a-z n-za-m"]);
    fs::write(world.repo.join(".git/info/attributes"), "docs/shared filter=rot\n").unwrap();
    let begun = world.sandbox(&["board", "resolve", &id, "--edit", "--json"]).expect(0).json();
    let folder = begun["data"]["folder"].as_str().unwrap().to_owned();
    fs::write(format!("{folder}/docs/shared"), "plain\n").unwrap();
    for arguments in [["--done", ""].as_slice(), &["--from", &folder]] {
        let given: Vec<&str> = arguments.iter().copied().filter(|argument| !argument.is_empty()).collect();
        let refused = world.sandbox(&[&["board", "resolve", &id], given.as_slice()].concat()).expect(2);
        assert!(refused.stderr.contains("filter `rot`"), "{refused:?}");
    }
    world.git(&["-C", &folder, "add", "docs/shared"]);
    world.git(&["-C", &folder, "commit", "-qm", "merged"]);
    world.sandbox(&["board", "resolve", &id, "--done"]).expect(0);
    world.sandbox(&["merge"]).expect(0);
    let landed = world.git(&["cat-file", "blob", "sandbox/duel-1/integration:docs/shared"]);
    assert_eq!(landed, "cynva", "what the filter makes of it");
}

/// Cards of two runs have one id: what a card advises names its run.
#[test]
fn what_a_card_advises_names_its_run() {
    let world = world(CONFLICT);
    let first = id(&world);
    world.sandbox(&["run", &plan(&world, CONFLICT)]).expect(5);
    assert_eq!(id(&world), first);
    let shown = world.sandbox(&["board", "show", &first, "--run", "duel-1"]).expect(0).stdout;
    for line in shown.lines().filter(|line| line.contains(" sandbox ")) {
        assert!(line.contains("duel-1"), "{line}");
    }
    let refused = world.sandbox(&["board", "resolve", &first, "--from", ""]).expect(2);
    assert!(refused.stderr.contains("--from"), "{refused:?}");
}

/// A program that died after the card was closed leaves a folder that nothing needs.
#[test]
fn a_folder_whose_card_is_closed_goes() {
    let world = world(CONFLICT);
    let id = id(&world);
    let begun = world.sandbox(&["board", "resolve", &id, "--edit", "--json"]).expect(0).json();
    let folder = begun["data"]["folder"].as_str().unwrap().to_owned();
    world.sandbox(&["board", "resolve", &id, "--take", "ours"]).expect(0);
    fs::remove_dir_all(&folder).unwrap();
    world.sandbox(&["board", "resolve", &id, "--discard"]).expect(0);
    assert!(!world.git(&["worktree", "list"]).contains("card."));
    world.sandbox(&["board", "resolve", &id, "--discard"]).expect(2);
}

/// The user's own work, of which nothing else has a copy.
#[test]
fn what_lies_in_a_folder_alone_goes_by_the_users_word_alone() {
    let world = world(CONFLICT);
    let id = id(&world);
    fs::write(world.repo.join(".git/info/exclude"), "*.log\n/inner/\n").unwrap();
    let begin = || {
        let begun = world.sandbox(&["board", "resolve", &id, "--edit", "--json"]).expect(0).json();
        std::path::PathBuf::from(begun["data"]["folder"].as_str().unwrap())
    };
    // Ended, but with more in it than the merge.
    let folder = begin();
    fs::write(folder.join("docs/shared"), "from both\n").unwrap();
    fs::write(folder.join("my.log"), "notes\n").unwrap();
    world.git_in(&folder, &["init", "-q", "inner"]);
    let done = world.sandbox(&["board", "resolve", &id, "--done"]).expect(0);
    assert!(done.stderr.contains("stays: `inner`") && done.stderr.contains("--discard"), "{done:?}");
    fs::remove_dir_all(folder.join("inner")).unwrap();
    let stays = |words: &str| {
        let kept = world.sandbox(&["clean", "duel-1"]).expect(0).stdout;
        assert!(kept.contains(words) && kept.contains("--from"), "{kept}");
        assert!(folder.exists(), "{kept}");
    };
    stays("git ignores `my.log`");
    fs::remove_file(folder.join("my.log")).unwrap();
    // The card was closed with something else than what lies there now.
    fs::write(folder.join("docs/shared"), "from me\n").unwrap();
    stays("merged by hand in it is nowhere else");
    fs::write(folder.join("docs/shared"), "from both\n").unwrap();
    world.sandbox(&["clean", "duel-1"]).expect(0);
    assert!(!folder.exists(), "it is what the card was closed with");
}

/// One that nobody worked in goes once its card is closed; one in which somebody did, stays.
#[test]
fn a_folder_nobody_worked_in_is_cleaned_away() {
    for edit in [None, Some("mine\n")] {
        let world = world(CONFLICT);
        let id = id(&world);
        let begun = world.sandbox(&["board", "resolve", &id, "--edit", "--json"]).expect(0).json();
        let folder = std::path::PathBuf::from(begun["data"]["folder"].as_str().unwrap());
        if let Some(text) = edit {
            fs::write(folder.join("docs/shared"), text).unwrap();
        }
        world.sandbox(&["board", "resolve", &id, "--take", "ours"]).expect(0);
        world.sandbox(&["clean", "duel-1"]).expect(0);
        assert_eq!(folder.exists(), edit.is_some(), "{edit:?}");
    }
}
