//! Candidates and cards.

use std::collections::BTreeSet;

use super::world::{World, failed, gitlink, main_branch, name, put, remove, task};
use crate::integrate::{Error, Placed};
use crate::model::card::{CardKind, CardState};
use crate::model::event::{Currency, EventKind, PreviewResult};
use crate::model::{AttemptOutcome, CommitId, RefName, RepoPath};

fn three() -> World {
    World::new(vec![
        task("parser", &["a.txt", "src/**"], &[]),
        task("lexer", &["b.txt"], &[]),
        task("docs", &["c.txt", "docs/**"], &[]),
    ])
}

fn card_of(world: &World, kind: CardKind) -> crate::model::card::Card {
    let state = world.state();
    let mut cards = state.open_cards().filter(|card| card.kind == kind);
    let card = cards.next().expect("a card of that kind").clone();
    assert!(cards.next().is_none(), "one card of that kind");
    card
}

#[test]
fn accepted_work_becomes_merge_commits_and_touches_nothing_else() {
    let world = three();
    let parser = world.works("parser", &world.base, &[put("a.txt", "x\n")]);
    world.works("docs", &world.base, &[put("docs/new", "d\n"), remove("c.txt")]);
    world.works("lexer", &world.base, &[]);
    world.write("untracked", "u");
    let before = world.users();

    let made = world.integrate();
    assert_eq!(world.users(), before);
    assert_eq!(world.content(&made.candidate, "a.txt"), "x");
    assert!(!world.paths(&made.candidate).contains(&"c.txt".to_owned()));
    assert_eq!(made.agent(&name("lexer")), Some(&Placed::Nothing), "no empty merge commit");

    let [first, docs] = world.parents(&made.candidate).try_into().unwrap();
    assert_eq!(
        world.message(&made.candidate).lines().next().unwrap(),
        "Merge agent docs: work of docs",
        "plan order, whatever order they ended in"
    );
    assert_eq!(
        world.parents(&docs),
        std::slice::from_ref(&world.base),
        "a contribution has only the fork point as parent"
    );
    let [base, contribution] = world.parents(&first).try_into().unwrap();
    assert_eq!(base, world.base);
    assert_eq!(
        world.message(&first),
        format!(
            "Merge agent parser: work of parser\n\nSandbox-Run: login-1\nSandbox-Agent: parser\nSandbox-Snapshot: {parser}\nSandbox-Contract: kept\n"
        )
    );
    assert_eq!(world.tree(&contribution), world.tree(&parser));
    let commit = world.repository.load_commit(&made.candidate).unwrap();
    assert_eq!((commit.author.identity.name.as_str(), commit.author.seconds), ("sandbox", 1_800_000_000));

    let reference = RefName::integration(world.run.id());
    assert_eq!(world.repository.load_ref(&reference).unwrap().as_ref(), Some(made.candidate.object()));
    let state = world.state();
    let candidate = state.candidate.unwrap();
    assert_eq!((candidate.head.to, candidate.head.tree), (made.candidate.clone(), made.tree.clone()));
    assert_eq!(candidate.merged, [name("parser"), name("docs")]);
    let docs = state.checkpoints.last().unwrap();
    assert_eq!(docs.changed_paths, [RepoPath::from("c.txt"), "docs/new".into()]);
    assert_eq!(docs.commit_sha.as_ref(), Some(&made.candidate));

    // Again: the same commits, and no checkpoint twice.
    let again = world.integrate();
    assert_eq!(again.candidate, made.candidate);
    assert_eq!(world.state().checkpoints.len(), 2);
}

#[test]
fn finishing_order_has_no_say() {
    let mut world = World::new(vec![
        task("one", &["a.txt"], &[]),
        task("two", &["a.txt"], &[]),
        task("three", &["b.txt"], &[]),
        task("four", &["src/**"], &["three"]),
        task("five", &["c.txt"], &[]),
    ]);
    let edits = [
        ("one", "a.txt", "one\n"),
        ("two", "a.txt", "two\n"),
        ("three", "b.txt", "three\n"),
        ("five", "README", "five\n"),
    ];
    let mut told = Vec::new();
    for (agent, path, content) in edits {
        let snapshot = world.commit(&world.base, std::slice::from_ref(&world.base), &[put(path, content)]);
        told.push(world.attempt(agent, 1, &world.base, &world.base, &snapshot));
    }
    world.tell(&told[2]);
    let fork = world.fork("four");
    let snapshot = world.commit(&fork, std::slice::from_ref(&fork), &[put("src/four", "four\n")]);
    told.push(world.attempt("four", 1, &fork, &fork, &snapshot));

    let mut seen = BTreeSet::new();
    let mut random = 12345_u64;
    for _ in 0..20 {
        for at in (1..told.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            told.swap(at, usize::try_from(random >> 33).unwrap() % (at + 1));
        }
        world.begin();
        for one in &told {
            world.tell(one);
        }
        let made = world.integrate();
        let cards: BTreeSet<_> =
            world.state().open_cards().map(|card| (card.id.clone(), card.summary.clone())).collect();
        assert_eq!(cards.len(), 2, "{cards:?}");
        seen.insert((made.candidate, cards));
    }
    assert_eq!(seen.len(), 1);
    // Another order of the plan is another candidate.
    world.plan.agents.swap(0, 1);
    let candidate = &seen.first().unwrap().0;
    assert_ne!(&world.integrate().candidate, candidate);
}

#[test]
fn a_conflict_is_a_card_and_the_others_go_on() {
    let world = World::new(vec![
        task("one", &["a.txt"], &[]),
        task("two", &["a.txt", "other"], &[]),
        task("three", &["b.txt"], &[]),
        task("four", &["c.txt"], &["two"]),
        task("five", &["src/**"], &["four"]),
    ]);
    world.works("one", &world.base, &[put("a.txt", "one\n")]);
    world.works("two", &world.base, &[put("a.txt", "two\n"), put("other", "o\n")]);
    world.works("three", &world.base, &[put("b.txt", "three\n")]);
    world.works("four", &world.fork("four"), &[put("c.txt", "four\n")]);
    world.works("five", &world.fork("five"), &[put("src/five", "five\n")]);
    let before = world.users();
    let made = world.integrate();
    assert_eq!(world.users(), before, "no MERGE_HEAD, no index, no file");

    let card = card_of(&world, CardKind::Conflict);
    assert_eq!(card.agents, [name("two"), name("one")]);
    assert_eq!(card.paths, [RepoPath::from("a.txt")]);
    assert_eq!(card.stages.iter().map(|stage| stage.stage).collect::<Vec<_>>(), [1, 2, 3]);
    let sides = card.sides.as_ref().unwrap();
    assert_eq!(world.content(&sides.ours, "a.txt"), "one");
    assert_eq!(world.content(&sides.theirs, "a.txt"), "two");
    assert_eq!(sides.base.as_ref(), Some(&world.base));
    let again =
        |option: &crate::model::card::CardOption| option.command.starts_with("sandbox retry two --fresh --run ");
    assert!(card.options.iter().any(again), "{:?}", card.options);

    assert_eq!(world.content(&made.candidate, "b.txt"), "three");
    assert_eq!(made.agent(&name("four")), Some(&Placed::Blocked(vec![name("two")])));
    assert_eq!(made.agent(&name("five")), Some(&Placed::Blocked(vec![name("two")])), "the cause, not the go-between");
    let state = world.state();
    let four = state.agent(&name("four")).unwrap().merge.clone().unwrap();
    assert_eq!((four.result, four.currency), (PreviewResult::Blocked, Currency::Unknown));
    let two = state.agent(&name("two")).unwrap().merge.clone().unwrap();
    assert_eq!(
        (two.result, two.currency, two.cards),
        (PreviewResult::Conflict, Currency::Dirty, vec![card.id.clone()])
    );
    assert_eq!(state.agent(&name("one")).unwrap().merge.as_ref().unwrap().currency, Currency::Current);
    assert_eq!(state.agent(&name("three")).unwrap().merge.as_ref().unwrap().currency, Currency::Behind);

    // Previews, then cards, then merges.
    let names = world.journal.borrow().names();
    let last = |what: &str| names.iter().rposition(|name| name == what).unwrap();
    let first_merge = {
        let events = world.journal.borrow().events();
        events
            .iter()
            .position(|event| matches!(&event.kind, EventKind::CandidateAdvanced(it) if it.contribution.is_some()))
            .unwrap()
    };
    assert!(last("merge.previewed") < last("card.opened") && last("card.opened") < first_merge);

    // The same card again: neither opened twice nor changed by an unrelated commit of the user's.
    world.user_commits("elsewhere", "x\n");
    let again = world.integrate();
    assert!(again.opened.is_empty() && again.closed.is_empty(), "{again:?}");
    assert_eq!(card_of(&world, CardKind::Conflict).id, card.id);
    // But another matter is another card.
    world.user_commits("a.txt", "user\n");
    let other = world.integrate();
    assert!(other.closed.contains(&card.id) && !other.opened.is_empty(), "{other:?}");
    let of_one = world.state().open_cards().find(|card| card.agents[0] == name("one")).unwrap().clone();
    assert_eq!(of_one.agents, [name("one")], "it conflicts with the target itself");
}

#[test]
fn a_card_whose_matter_is_gone_is_closed_and_says_why() {
    let world = World::new(vec![task("one", &["a.txt"], &[]), task("two", &["a.txt"], &[])]);
    world.works("one", &world.base, &[put("a.txt", "one\n")]);
    let snapshot = world.works("two", &world.base, &[put("a.txt", "two\n")]);
    let first = world.integrate();
    let better = world.commit(&snapshot, std::slice::from_ref(&snapshot), &[put("a.txt", "one\n")]);
    world.tell(&world.attempt("two", 2, &world.base, &snapshot, &better));
    let second = world.integrate();
    assert_eq!(second.closed, first.opened);
    assert_eq!(second.agent(&name("two")), Some(&Placed::Contained), "the same change twice is no second merge");
    assert_eq!(second.candidate, world.state().candidate.unwrap().head.to);
    assert_eq!(world.state().candidate.unwrap().merged, [name("one"), name("two")]);
    let state = world.state();
    let card = &state.cards[0];
    assert_eq!((card.state, card.resolution.is_some()), (CardState::Closed, true));
}

#[test]
fn work_outside_the_contract_is_refused_on_the_trees_and_not_on_what_was_claimed() {
    let table: [(&str, Vec<super::world::Edit>, &[&str]); 5] = [
        ("added", vec![put("b.txt", "x\n"), put("a.txt", "a\n")], &["b.txt"]),
        ("deleted", vec![remove("b.txt")], &["b.txt"]),
        ("renamed out", vec![remove("src/lib.rs"), put("moved.rs", "lib\n")], &["moved.rs"]),
        ("renamed in", vec![remove("b.txt"), put("src/b.txt", "b\n")], &["b.txt"]),
        ("near name", vec![put("src2/x", "x\n")], &["src2/x"]),
    ];
    for (what, edits, outside) in table {
        let world = three();
        world.works("parser", &world.base, &edits);
        world.works("docs", &world.base, &[put("c.txt", "d\n")]);
        let made = world.integrate();
        let card = card_of(&world, CardKind::Scope);
        let expected: Vec<RepoPath> = outside.iter().map(|path| RepoPath::from(*path)).collect();
        assert_eq!(card.paths, expected, "{what}");
        assert!(card.options.iter().all(|option| !option.command.is_empty()), "{what}");
        assert_eq!(world.state().candidate.unwrap().merged, [name("docs")], "{what}");
        assert_eq!(world.content(&made.candidate, "a.txt"), "1\n2\n3\n4\n5", "{what}: nothing of it, not even its own");
        let merge = world.state().agent(&name("parser")).unwrap().merge.clone().unwrap();
        assert_eq!((merge.result, merge.currency), (PreviewResult::Held, Currency::Current), "{what}");
    }
}

#[test]
fn what_an_earlier_attempt_left_outside_counts_still() {
    let world = three();
    let first = world.works("parser", &world.base, &[put("b.txt", "sneaked in\n"), put("a.txt", "1\n")]);
    let second = world.commit(&first, std::slice::from_ref(&first), &[put("a.txt", "2\n")]);
    // The second attempt for itself touches only what it owns.
    world.tell(&world.attempt("parser", 2, &world.base, &first, &second));
    let made = world.integrate();
    assert_eq!(card_of(&world, CardKind::Scope).paths, [RepoPath::from("b.txt")]);
    assert_eq!(made.candidate, world.base);
}

#[test]
fn repositories_inside_and_names_that_collide_are_held() {
    let world = three();
    let cases = [
        (vec![gitlink("src/sub", &world.base)], CardKind::NestedRepository, "src/sub"),
        (vec![put("src/LIB.rs", "x\n")], CardKind::UnsafeTree, "src/LIB.rs"),
        (vec![put("src/x/HEAD", "ref\n"), put("src/x/objects/a", "x\n")], CardKind::UnsafeTree, "src/x"),
        (vec![put("src/x/HEAD", "ref\n"), put("src/x/commondir", "../y\n")], CardKind::UnsafeTree, "src/x"),
    ];
    for (edits, kind, path) in cases {
        world.begin();
        world.works("parser", &world.base, &edits);
        let made = world.integrate();
        assert_eq!(card_of(&world, kind).paths, [RepoPath::from(path)]);
        assert_eq!(made.candidate, world.base);
    }
}

#[test]
fn what_is_unsafe_only_together_is_held_where_it_comes_together() {
    let world = World::new(vec![
        task("parser", &["x/HEAD", "x/config", "up/**"], &[]),
        task("docs", &["x/objects/**", "x/refs/**", "UP/**"], &[]),
    ]);
    let cases = [
        (
            vec![put("x/HEAD", "ref\n"), put("x/config", "c\n")],
            vec![put("x/objects/a", "a\n"), put("x/refs/a", "a\n")],
            "x",
        ),
        (vec![put("up/one", "1\n")], vec![put("UP/one", "2\n")], "UP/one"),
    ];
    for (first, second, path) in cases {
        world.begin();
        world.works("parser", &world.base, &first);
        let alone = world.integrate();
        assert_ne!(alone.candidate, world.base, "each for itself is harmless");
        world.works("docs", &world.base, &second);
        let both = world.integrate();
        assert_eq!(card_of(&world, CardKind::UnsafeTree).paths, [RepoPath::from(path)]);
        assert_eq!(world.tree(&both.candidate), world.tree(&alone.candidate));
    }
}

#[test]
fn a_history_that_says_all_is_merged_takes_nothing_away() {
    let world = three();
    world.works("parser", &world.base, &[put("a.txt", "x\n")]);
    world.integrate();
    // As if the agent had done `git merge -s ours` of the target and of the candidate: their commits are its parents.
    let user = world.user_commits("b.txt", "the user's\n");
    let candidate = world.state().candidate.unwrap().head.to;
    let forged = world.commit(&world.base, &[world.base.clone(), user, candidate], &[put("docs/x", "d\n")]);
    world.tell(&world.attempt("docs", 1, &world.base, &world.base, &forged));

    // Without protection: merging the agent's own commit would take back what it pretends to have merged.
    let main = world.repository.resolve("main").unwrap();
    let merger = crate::git::Merger::new(&world.repository, &main).unwrap();
    let crate::git::Preview::Clean { tree } = merger.preview(&main, &forged).unwrap() else { panic!("clean") };
    let lost = world.repository.load_entry(&tree, &"b.txt".into()).unwrap();
    assert_eq!(lost, world.repository.load_entry(&world.tree(&world.base), &"b.txt".into()).unwrap());

    let made = world.integrate();
    assert_eq!(world.content(&made.candidate, "b.txt"), "the user's");
    assert_eq!(world.content(&made.candidate, "a.txt"), "x");
    assert_eq!(world.content(&made.candidate, "docs/x"), "d");
}

#[test]
fn an_agents_attributes_and_the_users_drivers_silence_no_conflict() {
    let settings = "[merge \"ours\"]\ndriver = true\n[rerere]\nenabled = true\nautoupdate = true\n";
    let agents = vec![task("one", &["a.txt"], &[]), task("two", &["a.txt", ".gitattributes"], &[])];
    for attributes in ["a.txt merge=union\n", "a.txt merge=ours\n"] {
        let world = World::with_settings(agents.clone(), settings);
        world.works("one", &world.base, &[put("a.txt", "one\n")]);
        world.works("two", &world.base, &[put("a.txt", "two\n"), put(".gitattributes", attributes)]);
        world.integrate();
        assert_eq!(card_of(&world, CardKind::Conflict).agents, [name("two"), name("one")], "{attributes}");
    }
}

#[test]
fn every_kind_of_conflict_is_a_card() {
    type Edits = Vec<super::world::Edit>;
    let binary = |text: &str| put("a.txt", &format!("\0{text}"));
    let table: [(&str, Edits, Edits, &str); 6] = [
        ("modify/delete", vec![remove("a.txt")], vec![put("a.txt", "x\n")], "modify/delete"),
        ("binary", vec![binary("1")], vec![binary("2")], "binary"),
        ("add/add", vec![put("n", "1\n")], vec![put("n", "2\n")], "contents"),
        ("file against folder", vec![put("n", "1\n")], vec![put("n/x", "2\n")], "file/directory"),
        (
            "renamed to two places",
            vec![remove("a.txt"), put("one", "1\n2\n3\n4\n5\n")],
            vec![remove("a.txt"), put("two", "1\n2\n3\n4\n5\n")],
            "rename/rename",
        ),
        (
            "link against file",
            vec![super::world::Edit::Put("n", "120000", "b.txt".to_owned())],
            vec![put("n", "2\n")],
            "distinct modes",
        ),
    ];
    for (what, one, two, kind) in table {
        for (first, second) in [(&one, &two), (&two, &one)] {
            let world = World::new(vec![task("one", &["**"], &[]), task("two", &["**"], &[])]);
            world.works("one", &world.base, first);
            world.works("two", &world.base, second);
            world.integrate();
            let card = card_of(&world, CardKind::Conflict);
            assert_eq!(card.agents, [name("two"), name("one")], "{what}");
            assert!(card.messages.iter().any(|message| message.kind.contains(kind)), "{what}: {:?}", card.messages);
            assert!(!card.paths.is_empty() && card.sides.is_some(), "{what}");
        }
    }
}

#[test]
fn a_conflict_without_stages_is_a_card_too() {
    let mut world = World::new(vec![task("one", &["**"], &[]), task("two", &["**"], &[])]);
    let names = ["d/1", "d/2", "d/3", "d/4"];
    let files: Vec<_> = names.iter().map(|name| put(name, &format!("{name} is a file\nwith lines\n"))).collect();
    world.base = world.commit(&world.base, std::slice::from_ref(&world.base), &files);
    world.run("reset", &["-q", "--hard", world.base.as_str()]);
    world.begin();
    // One splits the folder in two, the other adds to it.
    let mut split: Vec<_> = names.iter().map(|name| remove(name)).collect();
    let places = ["x/1", "x/2", "y/3", "y/4"];
    split.extend(names.iter().zip(places).map(|(from, to)| put(to, &format!("{from} is a file\nwith lines\n"))));
    world.works("one", &world.base, &split);
    world.works("two", &world.base, &[put("d/new", "n\n")]);
    world.integrate();
    let card = card_of(&world, CardKind::Conflict);
    assert!(card.stages.is_empty() && !card.paths.is_empty(), "{card:?}");
    assert_eq!(card.agents, [name("two"), name("one")]);
}

#[test]
fn paths_named_conflict_are_none() {
    let world = World::new(vec![task("conflict", &["**"], &[])]);
    world.works("conflict", &world.base, &[put("CONFLICT (contents)", "<<<<<<< ours\n=======\n>>>>>>> theirs\n")]);
    let made = world.integrate();
    assert_eq!(world.state().open_cards().count(), 0);
    assert_ne!(made.candidate, world.base);
}

#[test]
fn without_a_sound_record_nothing_is_merged() {
    let world = three();
    let snapshot = world.works("parser", &world.base, &[put("a.txt", "x\n")]);
    let record = world.run.turn(&name("parser"), crate::model::TurnId::new(1, 1));
    let told = std::fs::read_to_string(&record).unwrap();
    let other = world.user_commits("b.txt", "x\n");
    let damages: [(&str, &dyn Fn()); 3] = [
        ("missing", &|| std::fs::remove_file(&record).unwrap()),
        ("torn", &|| crate::store::atomic::write(&record, &told.as_bytes()[..40]).unwrap()),
        ("another fork point", &|| {
            let text = told.replace(world.base.as_str(), other.as_str());
            crate::store::atomic::write(&record, text.as_bytes()).unwrap();
        }),
    ];
    for (what, damage) in damages {
        crate::store::atomic::write(&record, told.as_bytes()).unwrap();
        damage();
        let made = world.integrate();
        assert_eq!(made.candidate, made.onto, "{what}");
        let card = card_of(&world, CardKind::MergeError);
        assert_eq!(card.agents, [name("parser")], "{what}: {}", card.summary);
        let merge = world.state().agent(&name("parser")).unwrap().merge.clone().unwrap();
        assert_eq!((merge.result, merge.currency), (PreviewResult::Error, Currency::Unknown), "{what}");
    }
    // Once it is back, all is well, and the card is closed.
    crate::store::atomic::write(&record, told.as_bytes()).unwrap();
    let made = world.integrate();
    assert_eq!(world.content(&made.candidate, "a.txt"), "x");
    assert_eq!((world.state().open_cards().count(), made.closed.len()), (0, 1));
    // A snapshot that the repository lost is told, too.
    let object =
        world.repository.common_dir().join("objects").join(&snapshot.as_str()[..2]).join(&snapshot.as_str()[2..]);
    std::fs::remove_file(object).unwrap();
    // Found again, since git2 keeps what it has read.
    let repository = crate::git::Repository::discover(&world.git, &world.root()).unwrap();
    let world = World { repository, ..world };
    let made = world.integrate();
    assert!(matches!(made.agent(&name("parser")), Some(Placed::Error(_))), "{made:?}");
    assert_eq!(made.candidate, made.onto);
}

#[test]
fn a_merge_that_cannot_be_computed_is_unknown_and_never_clean() {
    let world = three();
    world.works("parser", &world.base, &[put("a.txt", "x\n")]);
    world.works("docs", &world.base, &[put("c.txt", "x\n")]);
    // The blob that the target has at the agent's path is gone: git cannot merge the two contents.
    world.user_commits("a.txt", "1\n2\n3\n4\nuser\n");
    let blob = world.run("rev-parse", &["main:a.txt"]);
    let object = world.repository.common_dir().join("objects").join(&blob[..2]).join(&blob[2..]);
    std::fs::remove_file(object).unwrap();
    let made = world.integrate();
    let card = card_of(&world, CardKind::MergeError);
    assert_eq!(card.agents, [name("parser")]);
    let merge = world.state().agent(&name("parser")).unwrap().merge.clone().unwrap();
    assert_eq!((merge.result, merge.currency), (PreviewResult::Error, Currency::Unknown));
    assert_eq!(world.state().candidate.unwrap().merged, [name("docs")]);
    assert_eq!(world.content(&made.candidate, "c.txt"), "x");
}

#[test]
fn a_target_that_was_rewritten_gets_nothing_back() {
    let world = three();
    world.works("parser", &world.base, &[put("a.txt", "x\n")]);
    // The user replaces the base by another commit without `b.txt`.
    let other = world.commit(&world.base, &[], &[remove("b.txt")]);
    world.run("update-ref", &["refs/heads/main", other.as_str()]);
    let made = world.integrate();
    assert_eq!(made.candidate, other);
    let card = card_of(&world, CardKind::MergeError);
    assert!(card.summary.contains(world.base.short()), "{}", card.summary);
}

#[test]
fn only_completed_agents_are_merged() {
    for outcome in AttemptOutcome::ALL {
        if matches!(outcome, AttemptOutcome::Completed | AttemptOutcome::NoChanges) {
            continue;
        }
        let world = World::new(vec![task("parser", &["a.txt"], &[]), task("docs", &["c.txt"], &["parser"])]);
        world.works("parser", &world.base, &[put("a.txt", "x\n")]);
        world.works("docs", &world.fork("docs"), &[put("c.txt", "x\n")]);
        world.tell(&failed("parser", 2, outcome));
        let made = world.integrate();
        assert_eq!(made.candidate, world.base, "{outcome}");
        assert_eq!(made.agent(&name("parser")), Some(&Placed::Absent(Some(outcome))));
        assert_eq!(made.agent(&name("docs")), Some(&Placed::Blocked(vec![name("parser")])), "{outcome}");
    }
}

#[test]
fn somebody_elses_move_of_the_candidate_is_named() {
    let world = three();
    world.works("parser", &world.base, &[put("a.txt", "x\n")]);
    let made = world.integrate();
    let reference = RefName::integration(world.run.id());
    let foreign = world.commit(&world.base, std::slice::from_ref(&world.base), &[put("evil", "x\n")]);
    world.run("update-ref", &[reference.as_str(), foreign.as_str()]);
    let error = world.try_integrate().unwrap_err();
    assert!(matches!(&error, Error::CandidateMoved { .. }) && error.to_string().contains(foreign.as_str()), "{error}");
    assert_eq!(world.repository.load_ref(&reference).unwrap().as_ref(), Some(foreign.object()), "left as it is");
    world.run("update-ref", &["-d", reference.as_str()]);
    assert_eq!(world.integrate().candidate, made.candidate);

    let place = world.folder.path().join("look");
    world.run("worktree", &["add", "-q", place.to_str().unwrap(), "sandbox/login-1/integration"]);
    let error = world.try_integrate().unwrap_err();
    assert!(error.to_string().contains("look"), "{error}");
}

#[test]
fn a_crash_between_two_steps_is_gone_through_again() {
    let world = three();
    world.works("parser", &world.base, &[put("a.txt", "x\n")]);
    world.works("docs", &world.base, &[put("c.txt", "x\n")]);
    let made = world.integrate();
    let events = world.journal.borrow().events();
    let reference = RefName::integration(world.run.id());
    let begun = events.iter().position(|it| matches!(it.kind, EventKind::CandidateAdvanced(_))).unwrap();
    let places: [(usize, Option<&CommitId>); 5] = [
        (begun, None),
        (begun + 1, None),
        (begun + 1, Some(&world.base)),
        (begun + 3, Some(&world.base)),
        (events.len(), Some(&world.base)),
    ];
    for (kept, at) in places {
        world.begin();
        for event in &events[1..kept] {
            crate::store::Record::record(&*world.journal.borrow(), event.subject.clone(), event.kind.clone()).unwrap();
        }
        if let Some(at) = at {
            world.run("update-ref", &[reference.as_str(), at.as_str()]);
        }
        assert_eq!(world.integrate().candidate, made.candidate, "{kept} {at:?}");
        assert_eq!(world.repository.load_ref(&reference).unwrap().as_ref(), Some(made.candidate.object()));
    }
    assert_eq!(world.repository.load_ref(&main_branch()).unwrap().as_ref(), Some(world.base.object()));
}
