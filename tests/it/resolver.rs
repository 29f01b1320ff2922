//! A command that resolves a conflict: in a box, over the conflicting paths alone, and never before a person took it.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::decide::{CONFLICT, card, id, land, world};
use crate::going::{Going, assert_none_left, processes_with, until};
use crate::world::World;

fn with<'a>(id: &'a str, script: &'a str) -> Vec<&'a str> {
    vec!["board", "resolve", id, "--with", "--", "sh", "-ec", script]
}

fn show(world: &World, id: &str) -> Value {
    world.sandbox(&["board", "show", id, "--json"]).expect(0).json()["data"].clone()
}

#[test]
fn a_proposal_is_looked_at_and_then_taken() {
    let world = world(CONFLICT);
    let id = id(&world);
    let (before, listed) = (world.picture(), world.git(&["worktree", "list"]));
    // The merge is under way there, and the card is told.
    let script = r#"
        test "$SANDBOX_CARD" = "$(sed 's/.*"id":"\(c[0-9a-f]*\)".*/\1/' "$SANDBOX_CARD_FILE")"
        grep -q '"excerpts"' "$SANDBOX_CARD_FILE"
        git status --porcelain | grep -q '^AA docs/shared\|^UU docs/shared'
        grep -q '<<<<<<<' docs/shared
        git checkout -q --theirs docs/shared
        echo and more >> docs/shared
    "#;
    let answer = world.sandbox(&[with(&id, script).as_slice()].concat()).expect(0);
    assert!(answer.stdout.contains("+and more") && answer.stdout.contains("--accept --run duel-1"), "{answer:?}");
    // Nothing is decided, and nothing of the user's is another.
    assert_eq!((world.picture(), world.git(&["worktree", "list"])), (before, listed));
    assert_eq!(card(&world)["state"], "needs-human");
    world.sandbox(&["merge"]).expect(5);
    let shown = show(&world, &id);
    let proposal = &shown["proposal"];
    assert_eq!(proposal["command"][0], "sh");
    assert_eq!(proposal["by"], "Tester <tester@example.org>");
    assert_eq!(proposal["resolved"][0]["path"], "docs/shared");
    assert!(shown["proposedPatch"].as_str().unwrap().contains("-from a\n+from b\n+and more\n"), "{shown:#}");
    // A second one has to wait for the first.
    let refused = world.sandbox(&with(&id, "true")).expect(2);
    assert!(refused.stderr.contains("a proposal waits already"), "{refused:?}");
    // It is kept, whatever git cleans up.
    world.git(&["reflog", "expire", "--expire=now", "--all"]);
    world.git(&["gc", "-q", "--prune=now"]);
    let taken =
        world.sandbox(&["board", "resolve", &id, "--accept", "--why", "looks right", "--json"]).expect(0).json();
    let taken = &taken["data"]["card"];
    assert_eq!(
        (&taken["answer"]["by"], &taken["answer"]["why"]),
        (&json!("Tester <tester@example.org>"), &json!("looks right"))
    );
    assert!(taken["resolution"].as_str().unwrap().contains("proposed"), "{taken:#}");
    let steps: Vec<&str> = taken["history"].as_array().unwrap().iter().map(|it| it["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["opened", "proposed", "answered"]);
    assert_eq!(taken.get("proposal"), None);
    assert!(world.git(&["for-each-ref", "refs/sandbox/duel-1/b/proposal-*"]).is_empty());
    assert_eq!(land(&world), "from b\nand more");
}

#[test]
fn a_proposal_can_be_turned_down() {
    let world = world(CONFLICT);
    let id = id(&world);
    let refused = world.sandbox(&["board", "resolve", &id, "--accept"]).expect(2);
    assert!(refused.stderr.contains("nothing is proposed"), "{refused:?}");
    world.sandbox(&with(&id, "echo both > docs/shared")).expect(0);
    // An edit beside it is another thing.
    world.sandbox(&["board", "resolve", &id, "--edit"]).expect(0);
    let discarded = world.sandbox(&["board", "resolve", &id, "--discard", "--why", "no", "--json"]).expect(0).json();
    assert_eq!(discarded["data"]["folder"], Value::Null);
    let shown = show(&world, &id);
    assert_eq!((shown.get("proposal"), &shown["state"]), (None, &json!("needs-human")));
    assert_eq!(shown["history"].as_array().unwrap().last().unwrap()["step"], "proposal-discarded");
    let discarded = world.sandbox(&["board", "resolve", &id, "--discard", "--json"]).expect(0).json();
    assert!(discarded["data"]["folder"].is_string(), "now the folder: {discarded}");
    world.sandbox(&["board", "resolve", &id, "--accept"]).expect(2);
    // Another one may be made, and deciding otherwise lets go of it.
    world.sandbox(&with(&id, "echo both > docs/shared")).expect(0);
    world.sandbox(&["board", "resolve", &id, "--take", "ours"]).expect(0);
    assert!(world.git(&["for-each-ref", "refs/sandbox/duel-1/b/proposal-*"]).is_empty());
    assert_eq!(land(&world), "from a");
}

/// Whatever is no resolution is refused with the reason, and everything is as it was.
#[test]
fn what_is_no_resolution_is_refused() {
    let world = world(CONFLICT);
    let id = id(&world);
    let before = (world.picture(), world.git(&["worktree", "list"]), world.git(&["for-each-ref"]), show(&world, &id));
    let refuse = |arguments: &[&str], words: &str| {
        let refused = world.sandbox(arguments).expect(2);
        assert!(refused.stderr.contains(words), "{words}: {refused:?}");
        let now = (world.picture(), world.git(&["worktree", "list"]), world.git(&["for-each-ref"]), show(&world, &id));
        assert_eq!(now, before, "{words}");
    };
    for (script, words) in [
        ("true", "changed nothing"),
        ("echo x >> docs/shared", "markers are left"),
        ("echo both > docs/shared; echo more >> docs/b", "`docs/b`"),
        ("echo both > docs/shared; echo new > docs/new", "`docs/new`"),
        ("echo both > docs/shared; git mv docs/b docs/c", "`docs/c`"),
        ("echo both > docs/shared; echo '* filter=x' > .gitattributes", "`.gitattributes`"),
        ("echo both > docs/shared; exit 3", "exit status 3"),
        ("echo both > docs/shared; kill -9 $$", "signal"),
        ("echo both > docs/shared; rm .git; echo gitdir: /tmp > .git", ".git"),
        ("echo both > docs/shared; rm docs/shared; mkdir docs/shared; git init -q docs/shared", "docs/shared"),
    ] {
        refuse(&with(&id, script), words);
    }
    refuse(&["board", "resolve", &id, "--with", "--time", "300ms", "--", "sleep", "60"], "timed out");
    refuse(&["board", "resolve", &id, "--with", "--", "no-such-program"], "no-such-program");
    // What it printed is kept.
    let refused = world.sandbox(&with(&id, "echo told you; exit 1")).expect(2);
    let log = world.store().join(format!("runs/duel-1/resolve/{id}.log"));
    assert!(fs::read_to_string(&log).unwrap().ends_with("told you\n"), "{refused:?}");
    // Of no other kind of card.
    let other = crate::decide::world(crate::decide::SCOPE);
    let refused = other.sandbox(&with(&crate::decide::id(&other), "true")).expect(2);
    assert!(refused.stderr.contains("no conflict"), "{refused:?}");
}

/// A command that is out for more than the conflict gets nothing of it.
#[test]
fn a_hostile_command_gets_nothing() {
    let mut world = world(CONFLICT);
    world.set("TOKEN", "secret");
    let id = id(&world);
    let canary = world.home().join("canary");
    let shown = canary.display().to_string();
    let repo = world.repo.display().to_string();
    let before = world.picture();
    let script = format!(
        r#"
        echo both > docs/shared
        # What lies outside is not there, or is its own.
        echo out > {shown} || true
        echo out > {repo}/README.md || true
        # What it plants in git is its own git's.
        for hook in post-checkout reference-transaction pre-commit post-index-change; do
            printf '#!/bin/sh\ntouch {shown}\n' > "$(git rev-parse --git-common-dir)/hooks/$hook"
            chmod +x "$(git rev-parse --git-common-dir)/hooks/$hook"
        done
        git config core.fsmonitor 'touch {shown}'
        git config core.hooksPath /tmp
        git config filter.evil.clean 'touch {shown}; tr a-z A-Z'
        git config core.worktree {repo}
        mkdir -p "$(git rev-parse --git-common-dir)/info"
        echo '* filter=evil' > "$(git rev-parse --git-common-dir)/info/attributes"
        echo '*' >> "$(git rev-parse --git-common-dir)/info/exclude"
        # Nor is there anybody to ask, or anything to take.
        test -z "$TOKEN"
        ! (exec 3<>/dev/tcp/127.0.0.1/1) 2>/dev/null
        # What it leaves behind is gone before its work is looked at.
        (setsid sh -c 'sleep 1; echo late > docs/shared; echo late > docs/b; sleep 60' >/dev/null 2>&1 &)
        "#
    );
    world.sandbox(&with(&id, &script)).expect(0);
    let shown = show(&world, &id);
    assert_eq!(shown["proposal"]["resolved"].as_array().unwrap().len(), 1);
    assert_eq!(world.git(&["show", &format!("{}:docs/shared", shown["proposal"]["keptIn"].as_str().unwrap())]), "both");
    assert_eq!(world.picture(), before);
    world.sandbox(&["board", "resolve", &id, "--accept"]).expect(0);
    assert_eq!(land(&world), "both");
    assert!(!canary.exists());
}

/// A command that is ended while it works: by a key, or with the program. Nothing of it is left, and nothing is decided.
#[test]
fn a_command_that_is_cut_short_leaves_the_card_as_it_was() {
    for (signal, marker, code) in
        [(Signal::SIGINT, 1, Some(130)), (Signal::SIGTERM, 2, Some(143)), (Signal::SIGKILL, 3, None)]
    {
        let world = world(CONFLICT);
        let id = id(&world);
        let state =
            || (world.picture(), world.git(&["worktree", "list"]), world.git(&["for-each-ref"]), show(&world, &id));
        let before = state();
        // It is half done, has a child that went away, and does not listen. What started it has the number in no word.
        let script = format!(
            "trap '' INT TERM; echo both > docs/shared; n=$((86570 + {marker})); setsid sleep $n & while :; do sleep $n; done"
        );
        let marker = format!("sleep 8657{marker}");
        let going = Going::start(&world, &with(&id, &script));
        until("it is at work", || (processes_with(&marker).len() > 1).then_some(()));
        going.signal(signal);
        match code {
            Some(code) => {
                let ran = going.wait().expect(code);
                assert!(ran.stdout.is_empty() && ran.stderr.contains("was stopped"), "{ran:?}");
                assert_eq!(state(), before, "{signal}");
            }
            None => drop(going.wait_dead()),
        }
        assert_none_left(&marker);
        assert_eq!((card(&world)["state"].as_str(), world.picture()), (Some("needs-human"), before.0.clone()));
        assert_eq!(show(&world, &id).get("proposal"), None, "{signal}");
        world.sandbox(&["merge"]).expect(5);
        // Whatever is said next finds nothing of it.
        world.sandbox(&with(&id, "echo both > docs/shared")).expect(0);
        assert_eq!(world.git(&["worktree", "list"]), before.1, "{signal}");
        world.sandbox(&["board", "resolve", &id, "--accept"]).expect(0);
        assert_eq!(land(&world), "both");
    }
}

/// A command died with the program, and a person decides otherwise: its folders go all the same.
#[test]
fn what_a_killed_command_left_goes_with_the_next_word() {
    let world = world(CONFLICT);
    let id = id(&world);
    let listed = world.git(&["worktree", "list"]);
    let going = Going::start(&world, &with(&id, "echo both > docs/shared; exec sleep $((86570 + 4))"));
    until("it is at work", || (!processes_with("sleep 86574").is_empty()).then_some(()));
    going.signal(Signal::SIGKILL);
    drop(going.wait_dead());
    assert_ne!(world.git(&["worktree", "list"]), listed, "its folder is there");
    world.sandbox(&["board", "resolve", &id, "--take", "theirs"]).expect(0);
    assert_none_left("sleep 86574");
    assert_eq!(world.git(&["worktree", "list"]), listed);
    assert_eq!(land(&world), "from b");
}
