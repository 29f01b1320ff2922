//! What a card tells a person: what each side has, what that speaks for, what happened so far, and commands that exist.

use std::cell::Cell;
use std::fs;

use clap::Parser;
use serde_json::{Value, json};
use worktree_sandbox::cli::Cli;

use crate::decide::{CONFLICT, SCOPE, card, id, world};
use crate::flow::plan;
use crate::going::Going;
use crate::world::{World, lines};

/// Two agents that conflict at many paths, in every way that leaves a card readable.
const MANY: &str = r#"
[run]
name = "duel"
[verify]
command = ["true"]
[agents.a]
owns = ["docs/a"]
shares = ["docs/**"]
run = ["sh", "-ec", """
cd docs
sed -i '5s/.*/from a/; 15s/.*/also from a/' text
printf 'a\\000' > binary
ln -sfn to-a link
echo from a >> gone
echo a > new
printf 'esc \\033[2J a \\377\\n' > escape
printf 'no end' > end
"""]
[agents.b]
owns = ["docs/b"]
shares = ["docs/**"]
run = ["sh", "-ec", """
cd docs
sed -i '5s/.*/from b/; 15s/.*/also from b/' text
printf 'b\\000' > binary
ln -sfn to-b link
rm gone
echo b > new
printf 'esc \\033[2J b \\376\\n' > escape
printf 'no end either\\n' > end
"""]
"#;

fn many() -> World {
    let world = World::new();
    world.write("docs/text", &lines("text"));
    for (name, text) in [("binary", "base\0"), ("gone", "base\n"), ("escape", "base\n"), ("end", "base\n")] {
        world.write(&format!("docs/{name}"), text);
    }
    std::os::unix::fs::symlink("to-base", world.repo.join("docs/link")).unwrap();
    world.commit("docs");
    world.sandbox(&["run", &plan(&world, MANY)]).expect(5);
    world
}

fn show(world: &World, id: &str) -> Value {
    world.sandbox(&["board", "show", id, "--json"]).expect(0).json()["data"].clone()
}

fn collect_garbage(world: &World) {
    world.git(&["reflog", "expire", "--expire=now", "--all"]);
    world.git(&["gc", "-q", "--prune=now"]);
}

#[test]
fn each_path_shows_what_the_sides_have() {
    let world = many();
    let id = id(&world);
    let before = world.picture();
    let shown = show(&world, &id);
    let text = world.sandbox(&["board", "show", &id]).expect(0).stdout;
    let at = |path: &str| {
        let paths = shown["excerpts"]["paths"].as_array().unwrap();
        paths.iter().find(|it| it["path"] == path).unwrap_or_else(|| panic!("{path}: {shown:#}")).clone()
    };
    let kinds = |path: &str| ["base", "ours", "theirs"].map(|side| at(path)[side]["kind"].as_str().map(str::to_owned));
    let each = |kind: &str| [Some(kind.to_owned()), Some(kind.to_owned()), Some(kind.to_owned())];
    // Two places of one text, with their numbers and what is around them.
    let regions = at("docs/text")["regions"].as_array().unwrap().clone();
    assert_eq!(regions.len(), 2, "{regions:#?}");
    for (region, line, words) in [(&regions[0], 5, "from"), (&regions[1], 15, "also from")] {
        assert_eq!(region["ours"], json!({"from": line, "lines": [format!("{words} a")], "more": 0}));
        assert_eq!(region["theirs"], json!({"from": line, "lines": [format!("{words} b")], "more": 0}));
        assert_eq!(region["base"], json!({"from": line, "lines": [format!("text line {line}")], "more": 0}));
        assert_eq!(region["before"]["from"], line - 3);
        assert_eq!(region["after"]["lines"][0], format!("text line {}", line + 1));
    }
    // What is no text is described.
    assert_eq!(kinds("docs/binary"), each("binary"));
    assert_eq!(at("docs/binary")["ours"]["size"], 2);
    assert_eq!(kinds("docs/link"), each("symlink"));
    assert_eq!(
        (&at("docs/link")["ours"]["target"], &at("docs/link")["theirs"]["target"]),
        (&json!("to-a"), &json!("to-b"))
    );
    assert_eq!(kinds("docs/gone"), [Some("text".to_owned()), Some("text".to_owned()), None]);
    for path in ["docs/binary", "docs/link", "docs/gone"] {
        assert!(at(path)["note"].is_string() && at(path)["regions"] == json!([]), "{:#}", at(path));
    }
    // Both added it: there is no base.
    assert_eq!(at("docs/new")["base"], Value::Null);
    assert_eq!(at("docs/new")["regions"][0]["base"], Value::Null);
    assert_eq!(at("docs/new")["regions"][0]["theirs"]["lines"], json!(["b"]));
    // What is not UTF-8 is whole in JSON, and harmless in text.
    let odd = b"esc \x1b[2J a \xff".map(|byte| format!("{byte:02x}")).concat();
    assert_eq!(at("docs/escape")["regions"][0]["ours"]["lines"], json!([{ "bytes": odd }]));
    assert!(text.contains(r"esc \u{1b}[2J a \xff") && !text.contains('\x1b'), "{text}");
    assert_eq!(at("docs/end")["regions"][0]["ours"]["noNewline"], true);
    for part in ["    5 < from a", "    5 | text line 5", "    5 > from b", "to `to-a`", "it is no text", "nothing"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(shown.get("lean"), None, "they speak for different things");
    // It all comes from objects that are kept: nothing else changes it, and looking changes nothing.
    assert_eq!(world.picture(), before);
    fs::remove_dir_all(world.worktrees()).unwrap();
    world.git(&["rm", "-qrf", "docs"]);
    collect_garbage(&world);
    assert_eq!(show(&world, &id)["excerpts"], shown["excerpts"]);
    // Also what is in no commit would be kept.
    let reference = format!("refs/sandbox/duel-1/b/card-{id}");
    let kept = world.git(&["rev-list", "--objects", "--no-object-names", &format!("{reference}^{{tree}}")]);
    for stage in shown["stages"].as_array().unwrap() {
        assert!(kept.contains(stage["oid"].as_str().unwrap()), "{stage}");
    }
}

#[test]
fn what_is_left_out_is_counted() {
    let text = CONFLICT
        .replace("echo from a > docs/shared", "seq -f 'a %.0f' 400 > docs/shared; head -c 3000 /dev/zero | tr '\\\\0' x > docs/shared.2; for i in $(seq 3 20); do echo a > docs/shared.$i; done")
        .replace("echo from b > docs/shared", "seq -f 'b %.0f' 400 > docs/shared; head -c 3000 /dev/zero | tr '\\\\0' y > docs/shared.2; for i in $(seq 3 20); do echo b > docs/shared.$i; done")
        .replace(r#"shares = ["docs/shared"]"#, r#"shares = ["docs/shared*"]"#);
    let world = world(&text);
    let id = id(&world);
    let shown = show(&world, &id);
    let paths = shown["excerpts"]["paths"].as_array().unwrap();
    assert_eq!(paths.len() as u64 + shown["excerpts"]["morePaths"].as_u64().unwrap(), 20);
    assert!(paths.len() < 20);
    let at = |path: &str| paths.iter().find(|it| it["path"] == path).unwrap();
    let ours = &at("docs/shared")["regions"][0]["ours"];
    assert_eq!(ours["lines"].as_array().unwrap().len() as u64 + ours["more"].as_u64().unwrap(), 400);
    assert!(ours["more"].as_u64().unwrap() > 300);
    if let Some(long) = paths.iter().find(|it| it["path"] == "docs/shared.2") {
        let line = &long["regions"][0]["ours"]["lines"][0];
        assert_eq!(line["text"].as_str().unwrap().len() as u64 + line["cut"].as_u64().unwrap(), 3000);
    }
    let size = serde_json::to_string(&shown["excerpts"]).unwrap().len();
    assert!(size < 256 << 10, "{size}");
    assert_eq!(shown.get("lean"), None, "not all of it was looked at");
    let text = world.sandbox(&["board", "show", &id]).expect(0).stdout;
    assert!(text.contains("more lines of ours") && text.contains("more paths are not shown"), "{text}");
    // The journal does not hold them.
    let journal = fs::read_to_string(world.store().join("runs/duel-1/journal.jsonl")).unwrap();
    assert!(!journal.contains("a 399"));
}

/// What the facts speak for is said, and nothing is done by it.
#[test]
fn a_lean_is_advice() {
    for (ours, theirs, lean) in [
        ("echo same > docs/shared", "printf 'same\\\\nmore\\\\n' > docs/shared", Some("--take theirs")),
        ("printf 'same\\\\nmore\\\\n' > docs/shared", "echo more > docs/shared", Some("--take ours")),
        ("echo from a > docs/shared", "echo from b > docs/shared", None),
    ] {
        let world =
            world(&CONFLICT.replace("echo from a > docs/shared", ours).replace("echo from b > docs/shared", theirs));
        let id = id(&world);
        let shown = show(&world, &id);
        assert_eq!(shown["lean"]["option"].as_str().map(|it| it.contains(lean.unwrap_or("?"))), lean.map(|_| true));
        let text = world.sandbox(&["board", "show", &id]).expect(0).stdout;
        assert_eq!(text.contains("what the facts speak for: in `docs/shared`"), lean.is_some(), "{text}");
        world.sandbox(&["merge"]).expect(5);
        assert_eq!(show(&world, &id)["state"], "needs-human");
    }
}

/// The same matter is the same card, whatever became of it meanwhile; and its history says so.
#[test]
fn a_history_is_of_the_matter() {
    let text = CONFLICT.replace(
        "echo from b > docs/shared",
        "case $SANDBOX_ATTEMPT in 2) echo from a;; 4) echo other;; *) echo from b;; esac > docs/shared",
    );
    let world = world(&text);
    let first = id(&world);
    let steps = |id: &str| -> Vec<(String, u64, Option<String>)> {
        let shown = show(&world, id);
        let steps = shown["history"].as_array().unwrap().iter();
        steps
            .map(|it| {
                let text = |key: &str| it[key].as_str().map(str::to_owned);
                assert!(text("at").is_some(), "{it}");
                (text("step").unwrap(), it["seq"].as_u64().unwrap(), text("by"))
            })
            .collect()
    };
    let names = |id: &str| steps(id).into_iter().map(|(step, ..)| step).collect::<Vec<_>>();
    assert_eq!(names(&first), ["opened"]);
    world.sandbox(&["retry", "b"]).expect(0);
    assert_eq!(names(&first), ["opened", "closed"]);
    world.sandbox(&["retry", "b"]).expect(5);
    assert_eq!(id(&world), first, "the same matter is the same card");
    assert_eq!(names(&first), ["opened", "closed", "reopened"]);
    world.sandbox(&["board", "resolve", &first, "--take", "theirs", "--why", "it is right"]).expect(0);
    let told = steps(&first);
    assert_eq!(told.last().unwrap().0, "answered");
    assert_eq!(told.last().unwrap().2.as_deref(), Some("Tester <tester@example.org>"));
    // Each step is an event of the journal.
    let journal = fs::read_to_string(world.store().join("runs/duel-1/journal.jsonl")).unwrap();
    let events: Vec<Value> = journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (step, seq, _) in &told {
        let event = events.iter().find(|event| event["seq"] == *seq).unwrap();
        let expected = if step.ends_with("opened") { "card.opened" } else { "card.closed" };
        assert_eq!(event["type"], expected, "{step}");
        assert_eq!(event["data"].get("history"), None, "history is read off the journal, not kept in it");
    }
    let text = world.sandbox(&["board", "show", &first]).expect(0).stdout;
    assert!(text.contains("answered by Tester <tester@example.org>: ") && text.contains("it is right"), "{text}");
    // An answer is for its own matter: what `b` made now is another, and what was decided says nothing of it.
    world.sandbox(&["retry", "b"]).expect(5);
    let second = id(&world);
    assert_ne!(second, first);
    assert_eq!((names(&second), show(&world, &second).get("answer")), (vec!["opened".to_owned()], None));
    // And it was given once: nothing more can be said about what is closed.
    let decided = show(&world, &first);
    for words in [
        ["resolve", &first, "--take", "ours"].as_slice(),
        &["resolve", &first, "--edit"],
        &["resolve", &first, "--accept"],
        &["resolve", &first, "--with", "--", "true"],
        &["approve", &first],
        &["dismiss", &first],
    ] {
        let refused = world.sandbox(&[&["board"], words].concat()).expect(2);
        assert!(refused.stderr.contains("closed already"), "{words:?}: {refused:?}");
    }
    assert_eq!(show(&world, &first), decided);
}

#[test]
fn what_was_approved_is_approved_once() {
    let world = world(SCOPE);
    let id = id(&world);
    world.sandbox(&["board", "approve", &id]).expect(0);
    for verb in ["approve", "dismiss"] {
        let refused = world.sandbox(&["board", verb, &id]).expect(2);
        assert!(refused.stderr.contains("closed already"), "{refused:?}");
    }
}

/// What is decided about a merge that could not be computed holds, too.
#[test]
fn a_failed_merge_can_be_left_out() {
    let world = world(SCOPE);
    world.sandbox(&["board", "approve", &id(&world)]).expect(0);
    // The record of its turn is gone: what it changed cannot be told.
    fs::remove_file(world.store().join("runs/duel-1/agents/wide/turns/1.1.json")).unwrap();
    world.sandbox(&["merge"]).expect(5);
    let failed = card(&world);
    assert_eq!(failed["kind"], "merge_error");
    world.sandbox(&["board", "dismiss", failed["id"].as_str().unwrap()]).expect(0);
    // There was nothing but that.
    world.sandbox(&["merge"]).expect(1);
    assert!(world.sandbox(&["status"]).expect(0).stdout.contains("set aside"));
}

/// What a card says of a cause, and how that comes about.
type Break<'a> = (&'a str, &'a dyn Fn());

/// Each cause of a failed merge is a matter of its own: it has its own card, and what was decided about one is not decided
/// about another.
#[test]
fn each_cause_of_a_failed_merge_has_a_card_of_its_own() {
    let text = SCOPE.replace("; echo 2 > docs/theirs", "").replace("echo 1 > docs/mine", "echo 1 > docs/mine; true");
    let world = World::new();
    world.sandbox(&["run", &plan(&world, &text)]).expect(0);
    let record = world.store().join("runs/duel-1/agents/wide/turns/1.1.json");
    let kept = fs::read(&record).unwrap();
    let branch = "refs/heads/sandbox/duel-1/wide";
    let snapshot = world.git(&["rev-parse", branch]);
    let persons = |words: &str, on: &str| world.git(&["commit-tree", "-m", words, "-p", on, &format!("{on}^{{tree}}")]);
    let (one, two) = (persons("mine", &snapshot), persons("mine too", &snapshot));
    let mend = || {
        fs::write(&record, &kept).unwrap();
        world.git(&["update-ref", branch, &snapshot]);
    };
    let other_fork = String::from_utf8(kept.clone()).unwrap().replace(&world.git(&["rev-parse", "main"]), &one);
    let breaks: [Break<'_>; 5] = [
        ("is missing", &|| fs::remove_file(&record).unwrap()),
        ("damaged", &|| fs::write(&record, "{").unwrap()),
        ("fork point", &|| fs::write(&record, &other_fork).unwrap()),
        (&one, &|| drop(world.git(&["update-ref", branch, &one]))),
        (&two, &|| drop(world.git(&["update-ref", branch, &two]))),
    ];
    let mut ids: Vec<String> = Vec::new();
    for (words, spoil) in &breaks {
        mend();
        spoil();
        world.sandbox(&["merge"]).expect(5);
        let failed = card(&world);
        assert_eq!(failed["kind"], "merge_error");
        assert!(failed["summary"].as_str().unwrap().contains(words), "{words}: {failed:#}");
        let id = failed["id"].as_str().unwrap().to_owned();
        assert!(!ids.contains(&id), "{words}");
        ids.push(id);
    }
    // Each is decided about by itself: those that nobody decided about wait again, whatever was said to the others.
    for (at, (words, spoil)) in breaks.iter().enumerate() {
        mend();
        spoil();
        world.sandbox(&["merge"]).expect(5);
        assert_eq!(id(&world), ids[at], "{words}");
        world.sandbox(&["board", "dismiss", &ids[at]]).expect(0);
        world.sandbox(&["merge"]).expect(1);
        for (earlier, spoil) in &breaks[..at] {
            mend();
            spoil();
            world.sandbox(&["merge"]).expect(1);
            assert!(world.sandbox(&["status"]).expect(0).stdout.contains("set aside"), "{earlier}");
        }
    }
    mend();
    world.sandbox(&["merge"]).expect(0);
}

/// A card that waits tells of what would be merged now: after another attempt with the same conflict, of the new work.
#[test]
fn a_card_that_waits_is_of_the_present_work() {
    let world = world(&CONFLICT.replace("echo b > docs/b", "echo $SANDBOX_ATTEMPT > docs/b"));
    let id = id(&world);
    let names = |shown: &Value| -> Vec<String> {
        shown["history"].as_array().unwrap().iter().map(|it| it["step"].as_str().unwrap().to_owned()).collect()
    };
    let first = show(&world, &id);
    assert_eq!(first["snapshot"], world.git(&["rev-parse", "sandbox/duel-1/b"]));
    world.sandbox(&["merge"]).expect(5);
    assert_eq!(show(&world, &id), first, "what is the same is not told again");
    // Proposed for the earlier work.
    world.sandbox(&["board", "resolve", &id, "--with", "--", "sh", "-c", "echo both > docs/shared"]).expect(0);
    let proposed = show(&world, &id);
    assert!(proposed["proposal"].is_object());
    world.sandbox(&["retry", "b"]).expect(5);
    assert_eq!(self::id(&world), id, "the same conflict is the same card");
    let second = show(&world, &id);
    let theirs = second["sides"]["theirs"].as_str().unwrap();
    assert_ne!(theirs, first["sides"]["theirs"]);
    assert_eq!(world.git(&["show", &format!("{theirs}:docs/b")]), "2");
    assert_eq!(second["snapshot"], world.git(&["rev-parse", "sandbox/duel-1/b"]));
    let options = second["options"].to_string();
    assert!(options.contains(theirs) && !options.contains(first["sides"]["theirs"].as_str().unwrap()), "{options}");
    assert_eq!(names(&second), ["opened", "proposed", "updated"]);
    // What was proposed for other work is gone, and nobody can take it.
    assert_eq!(second.get("proposal"), None);
    assert!(world.git(&["for-each-ref", "refs/sandbox/duel-1/b/proposal-*"]).is_empty());
    let refused = world.sandbox(&["board", "resolve", &id, "--accept"]).expect(2);
    assert!(refused.stderr.contains("nothing is proposed"), "{refused:?}");
    // Its file tells the same, and nothing of it is lost.
    let file: Value =
        serde_json::from_slice(&fs::read(world.store().join(format!("runs/duel-1/cards/{id}.json"))).unwrap()).unwrap();
    assert_eq!((&file["sides"], &file["history"]), (&second["sides"], &second["history"]));
    collect_garbage(&world);
    let begun = world.sandbox(&["board", "resolve", &id, "--edit", "--json"]).expect(0).json();
    let folder = begun["data"]["folder"].as_str().unwrap().to_owned();
    assert_eq!(fs::read_to_string(format!("{folder}/docs/b")).unwrap(), "2\n");
    // A folder with earlier work is no answer to the present.
    world.sandbox(&["retry", "b"]).expect(5);
    assert_eq!(names(&show(&world, &id)), ["opened", "proposed", "updated", "updated"]);
    fs::write(format!("{folder}/docs/shared"), "from both\n").unwrap();
    let refused = world.sandbox(&["board", "resolve", &id, "--done"]).expect(2);
    assert!(refused.stderr.contains("earlier work"), "{refused:?}");
    world.sandbox(&["board", "resolve", &id, "--from", &folder]).expect(0);
    world.sandbox(&["merge"]).expect(0);
    assert_eq!(world.git(&["show", "sandbox/duel-1/integration:docs/b"]), "3");
    assert_eq!(world.git(&["show", "sandbox/duel-1/integration:docs/shared"]), "from both");
}

/// The target moves elsewhere: the card stays what it is, with what was proposed for it, and what is being merged by hand is
/// an answer to it.
#[test]
fn an_edit_outlives_a_target_that_moves_elsewhere() {
    for is_committed in [false, true] {
        let world = world(CONFLICT);
        let id = id(&world);
        let begun = world.sandbox(&["board", "resolve", &id, "--edit", "--json"]).expect(0).json();
        let folder = begun["data"]["folder"].as_str().unwrap().to_owned();
        world.sandbox(&["board", "resolve", &id, "--with", "--", "sh", "-c", "echo both > docs/shared"]).expect(0);
        let before = show(&world, &id);
        world.write("README.md", "moved\n");
        world.git(&["commit", "-qam", "moved"]);
        world.sandbox(&["merge"]).expect(5);
        assert_eq!(show(&world, &id), before);
        let now = world.sandbox(&["board", "resolve", &id, "--edit", "--json"]).expect(0).json();
        assert_eq!(now["data"]["folder"], folder);
        fs::write(format!("{folder}/docs/shared"), "from both\n").unwrap();
        if is_committed {
            world.git(&["-C", &folder, "commit", "-qam", "merged"]);
        }
        world.sandbox(&["board", "resolve", &id, "--done"]).expect(0);
        assert_eq!(crate::decide::land(&world), "from both");
        assert_eq!(world.git(&["show", "main:README.md"]), "moved");
    }
}

/// Plans that give a card of each kind, and the kind.
fn of_each_kind() -> Vec<(String, &'static str)> {
    let agent = |run: &str| {
        format!(
            "[run]\nname = \"duel\"\n[verify]\ncommand = [\"true\"]\n[agents.all]\nowns = [\"**\"]\nrun = [\"sh\", \"-ec\", \
             \"{run}\"]\n"
        )
    };
    vec![
        (CONFLICT.to_owned(), "conflict"),
        (SCOPE.to_owned(), "scope"),
        (agent("echo '* text' > .gitattributes"), "protected"),
        (agent("git init -q inner; cd inner; git commit -q --allow-empty -m x"), "nested_repository"),
        (agent("mkdir -p docs; echo a > docs/Name; echo b > docs/name"), "unsafe_tree"),
        (
            agent(
                "git config -f .gitmodules submodule.s.path s; git update-index --add --cacheinfo \
                 160000,1212121212121212121212121212121212121212,s",
            )
            .replace(r#"["**"]"#, r#"["**", ".gitmodules"]"#),
            "submodule",
        ),
    ]
}

/// Every command that a card names is one that the program takes.
#[test]
fn every_command_of_a_card_is_accepted() {
    let check = |world: &World, kind: &str| {
        let card = card(world);
        assert_eq!(card["kind"], kind);
        let shown = show(world, card["id"].as_str().unwrap());
        let options = shown["options"].as_array().unwrap();
        let commands: Vec<String> = options.iter().map(|it| it["command"].as_str().unwrap().to_owned()).collect();
        assert!(commands.iter().any(|it| it.starts_with("sandbox board dismiss")), "{kind}: {commands:?}");
        assert!(commands.iter().any(|it| it.starts_with("sandbox inspect")), "{kind}: {commands:?}");
        for command in &commands {
            let words = shell_words::split(command).unwrap();
            let rest: Vec<&str> = words[1..].iter().map(String::as_str).collect();
            match words[0].as_str() {
                "sandbox" => {
                    Cli::try_parse_from(&words).unwrap_or_else(|error| panic!("{command}: {error}"));
                    assert!(command.contains("duel-1"), "it names the run: {command}");
                }
                "git" => {
                    let ran = world.try_git(&rest);
                    assert!(matches!(ran.code, Some(0 | 1)) && !ran.stdout.is_empty(), "{command}: {ran:?}");
                }
                other => panic!("{other}: {command}"),
            }
            if words[1] == "inspect" {
                world.sandbox(&rest).expect(0);
            }
        }
        commands
    };
    for (text, kind) in of_each_kind() {
        let world = world(&text);
        let commands = check(&world, kind);
        let run = |start: &str, code: i32| {
            let command = commands.iter().find(|it| it.starts_with(start)).unwrap_or_else(|| panic!("{kind}: {start}"));
            let words = shell_words::split(command).unwrap();
            world.sandbox(&words[1..].iter().map(String::as_str).collect::<Vec<_>>()).expect(code)
        };
        if kind == "conflict" {
            let edit = commands.iter().find(|it| it.ends_with("--edit --run duel-1"));
            assert!(edit.is_some(), "{commands:?}");
            run("sandbox board resolve", 0);
            // The placeholder is no program: that much of it is accepted.
            let id = id(&world);
            let with = format!("sandbox board resolve {id} --with");
            assert!(run(&with, 2).stderr.contains("your-command"));
            run("sandbox retry b --fresh", 0);
        } else if commands.iter().any(|it| it.contains("approve")) {
            run("sandbox board approve", 0);
        } else {
            run("sandbox board dismiss", 0);
            // What is left out still was all there was.
            run("sandbox retry all", if kind == "nested_repository" { 5 } else { 1 });
        }
    }
    let world = world(SCOPE);
    world.sandbox(&["board", "approve", &id(&world)]).expect(0);
    fs::remove_file(world.store().join("runs/duel-1/agents/wide/turns/1.1.json")).unwrap();
    world.sandbox(&["merge"]).expect(5);
    check(&world, "merge_error");
}

/// A conflict that is met before an agent begins is kept like any other.
#[test]
fn a_card_of_a_fork_point_is_kept() {
    let text = format!("{CONFLICT}[agents.c]\nowns = [\"docs/c\"]\nafter = [\"a\", \"b\"]\nrun = [\"true\"]\n");
    let world = world(&text);
    let id = id(&world);
    let shown = show(&world, &id);
    collect_garbage(&world);
    assert_eq!(show(&world, &id)["excerpts"], shown["excerpts"]);
    assert_eq!(shown["history"].as_array().unwrap().len(), 1, "it was opened once: {shown:#}");
    world.sandbox(&["board", "resolve", &id, "--take", "ours"]).expect(0);
}

/// An agent for each lane, all at once: while one works, one waits for it, and the others have ended in every way.
const LANES: &str = r#"
[run]
name = "lanes"
jobs = 6
[verify]
command = ["true"]
[agents.waits]
owns = ["docs/waits"]
after = ["works"]
run = ["true"]
[agents.works]
owns = ["docs/works"]
run = ["sh", "-ec", "echo working; exec sleep 86561"]
[agents.ready]
owns = ["docs/ready"]
run = ["sh", "-ec", "echo ready > docs/ready"]
[agents.asks]
owns = ["docs/asks"]
run = ["sh", "-ec", "echo asks > docs/asks; sandbox ask --owns src/a.txt --why more"]
[agents.idle]
owns = ["docs/idle"]
run = ["true"]
[agents.fails]
owns = ["docs/fails"]
run = ["sh", "-ec", "echo fails > docs/fails; exit 3"]
"#;

#[test]
fn every_lane_is_told_while_the_run_is_at_work() {
    let world = World::new();
    let mut going = Going::start(&world, &["run", &plan(&world, LANES), "--json"]);
    let (ended, works) = (Cell::new(0), Cell::new(false));
    going.wait_for(|event| {
        works.set(works.get() || event["type"] == "turn.started" && event["agent"] == "works");
        ended.set(ended.get() + usize::from(event["type"] == "attempt.finished"));
        works.get() && ended.get() == 4
    });
    let lanes = ["waiting", "running", "checking", "needs-human", "merged", "blocked"];
    let agents = ["waits", "works", "ready", "asks", "idle", "fails"];
    let board = world.sandbox(&["board", "--json"]).expect(0).json()["data"].clone();
    let standings = board["agents"].as_array().unwrap();
    assert_eq!(standings.len(), 6, "{board:#}");
    for ((standing, agent), lane) in standings.iter().zip(agents).zip(lanes) {
        assert_eq!((&standing["agent"], &standing["lane"]), (&json!(agent), &json!(lane)), "{board:#}");
        assert!(!standing["reason"].as_str().unwrap().is_empty(), "{board:#}");
        assert_eq!(standing["cards"].as_array().unwrap().len(), usize::from(agent == "asks"), "{board:#}");
    }
    let cards: Vec<(&str, usize)> = board["lanes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lane| (lane["name"].as_str().unwrap(), lane["cards"].as_array().unwrap().len()))
        .collect();
    assert_eq!(cards, [("needs-human", 1), ("closed", 0)]);
    // The same in text: the card, then each agent below the other, in the order of the lanes.
    let text = world.sandbox(&["board"]).expect(0).stdout;
    let id = board["lanes"][0]["cards"][0]["id"].as_str().unwrap();
    assert!(text.starts_with("needs a decision\n") && text.contains(&format!("  {id}  scope_request  asks")), "{text}");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|line| !line.contains("LANE"))
        .skip(1)
        .map(|line| line.split_whitespace().take(2).collect())
        .collect();
    let expected: Vec<[&str; 2]> = lanes.into_iter().zip(agents).map(|(lane, agent)| [lane, agent]).collect();
    assert_eq!(rows, expected, "{text}");
    world.sandbox(&["stop"]).expect(0);
    going.wait().expect(143);
}
