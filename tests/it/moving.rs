//! A target that moves while a run is about, in every way and at every moment: merged and verified once more and landed, or
//! refused by name; never forced, and never more than once by itself for one and the same state.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::flow::plan;
use crate::going::{Going, until};
use crate::world::{Ran, World};

/// One agent, and a verifier that passes.
const ONE: &str = r#"
[run]
name = "one"
[verify]
command = ["test", "-f", "docs/new"]
[agents.a]
owns = ["docs/**"]
run = ["sh", "-ec", "echo new > docs/new"]
"#;

fn control(world: &World) -> PathBuf {
    let folder = world.state().join("control");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Puts a `git` before the real one that writes down what it is asked for, and that does something of its own the first
/// time that this shell condition holds; `$*` is what it is asked for, `$C` a folder for notes.
fn git_that(world: &World, condition: &str, deed: &str) {
    let (control, repo, home) = (control(world), world.repo.display(), world.home());
    fs::write(control.join("deed"), format!("set -e\ncd {repo}\nC={}\n{deed}\n", control.display())).unwrap();
    drop(fs::remove_file(control.join("done")));
    let (control, home) = (control.display(), home.display());
    world.script(
        "git",
        &format!(
            r#"
C={control}
# Inside a box there is no such folder.
test -d $C || exec /usr/bin/git "$@"
printf '%s\n' "$*" >> $C/log
if ! test -e $C/done && {condition}; then
    touch $C/done
    env -i HOME={home} PATH=/usr/bin:/bin sh $C/deed > $C/said 2>&1 || touch $C/failed
    if test -e $C/instead; then rm $C/instead; exit 128; fi
fi
exec /usr/bin/git "$@"
"#
        ),
    );
}

/// That git is asked for something like this pattern of the shell's.
fn asked(pattern: &str) -> String {
    format!("case \"$*\" in {pattern}) true;; *) false;; esac")
}

/// That a run has claimed to move the target.
fn claimed(world: &World, run: &str) -> String {
    claimed_to(world, run, "land")
}

/// That a run has claimed to do this.
fn claimed_to(world: &World, run: &str, effect: &str) -> String {
    let journal = world.store().join(format!("runs/{run}/journal.jsonl"));
    format!("grep -q '\"effect.claimed\".*\"effect\":\"{effect}\"' {}", journal.display())
}

fn assert_done(world: &World) {
    let control = control(world);
    let said = fs::read_to_string(control.join("said")).unwrap_or_default();
    assert!(control.join("done").exists(), "its moment never came");
    assert!(!control.join("failed").exists(), "{said}");
}

fn journal(world: &World, run: &str) -> Vec<Value> {
    let text = fs::read_to_string(world.store().join(format!("runs/{run}/journal.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The data of every event of a type.
fn told(events: &[Value], kind: &str) -> Vec<Value> {
    events.iter().filter(|event| event["type"] == kind).map(|event| event["data"].clone()).collect()
}

/// What was told of effects of a kind: the word of each event, with its attempt.
fn effects(world: &World, run: &str, kind: &str) -> Vec<String> {
    let events = journal(world, run);
    let of_kind = events.iter().filter(|event| event["data"]["effect"] == kind);
    of_kind
        .map(|event| {
            let attempt = event["data"]["attempt"].as_u64().or_else(|| event["data"]["works"][0]["attempt"].as_u64());
            let name = event["type"].as_str().unwrap().trim_start_matches("effect.").to_owned();
            format!("{name} {}", attempt.unwrap_or(0))
        })
        .collect()
}

/// How the target can move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Move {
    Advance,
    Rewrite,
    Rewind,
    Delete,
    Switch,
}

impl Move {
    const ALL: [Self; 5] = [Self::Advance, Self::Rewrite, Self::Rewind, Self::Delete, Self::Switch];

    fn deed(self) -> &'static str {
        match self {
            Self::Advance => "echo theirs > docs/theirs; git add docs/theirs; git commit -qm theirs",
            Self::Rewrite => "git commit -q --amend -m again",
            Self::Rewind => "git reset -q --keep HEAD~1",
            Self::Delete => "git switch -q -c elsewhere; git branch -q -D main",
            Self::Switch => "git switch -q -c elsewhere",
        }
    }
}

/// A world whose target can be set back, with changes of the user's own that are in nobody's way.
fn ready() -> World {
    let world = World::new();
    world.write("later.txt", "later\n");
    world.commit("second");
    world.write("src/b.txt", "my own change\n");
    world.write("untracked.txt", "mine\n");
    world
}

/// Runs with `--land` while the target moves when the condition holds first, and says what came of it.
fn move_and_land(how: Move, condition: &dyn Fn(&World) -> String) -> (World, Ran) {
    let world = ready();
    let file = plan(&world, ONE);
    let note = "git rev-parse -q --verify main > $C/main || true; cat .git/HEAD > $C/head";
    git_that(&world, &condition(&world), &format!("{}\n{note}", how.deed()));
    let ran = world.sandbox(&["run", &file, "--land"]);
    assert_done(&world);
    (world, ran)
}

/// What must hold whatever moved: what the user did stands as they left it, or has the result on top of it.
#[track_caller]
fn assert_the_users_is_kept(world: &World, how: Move, landed: bool) {
    let noted = |name: &str| fs::read_to_string(control(world).join(name)).unwrap().trim().to_owned();
    let main = world.try_git(&["rev-parse", "-q", "--verify", "main"]).stdout.trim().to_owned();
    if landed {
        world.git(&["merge-base", "--is-ancestor", &noted("main"), "main"]);
    } else {
        assert_eq!(main, noted("main"), "{how:?}: the target is where the user put it");
        assert!(!world.repo.join("docs/new").exists(), "{how:?}");
    }
    assert_eq!(fs::read_to_string(world.repo.join(".git/HEAD")).unwrap().trim(), noted("head"), "{how:?}");
    assert_eq!((world.read("src/b.txt").as_str(), world.read("untracked.txt").as_str()), ("my own change\n", "mine\n"));
    let status = world.git(&["status", "--porcelain"]);
    assert_eq!(status, " M src/b.txt\n?? untracked.txt", "{how:?}");
    assert_eq!(world.git(&["fsck", "--no-dangling", "--no-progress"]), "");
    if how == Move::Switch || how == Move::Delete {
        let elsewhere = world.git(&["log", "-1", "--format=%s", "elsewhere"]);
        assert_eq!(elsewhere, "second", "{how:?}: the branch the user is on is not moved");
    }
}

/// When the target moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// Before anything was looked at.
    AtWork,
    /// After the candidate was looked at, and before it was made.
    Looked,
    /// After it was made.
    Made,
}

/// Each way to move the target, at one moment.
fn every_move_at(when: When, condition: &dyn Fn(&World) -> String) {
    let again = when != When::AtWork;
    for how in Move::ALL {
        let (world, ran) = move_and_land(how, condition);
        let events = journal(&world, "one-1");
        let moves: Vec<Value> = told(&events, "target.moved").iter().map(|data| data["how"].clone()).collect();
        let verdicts = told(&events, "verify.finished").len();
        match how {
            Move::Advance => {
                assert_eq!(ran.code, Some(0), "{how:?} {ran:?}");
                assert_the_users_is_kept(&world, how, true);
                assert_eq!(world.read("docs/theirs"), "theirs\n");
                assert_eq!(
                    (moves, verdicts),
                    (vec!["advanced".into()], 1 + usize::from(when == When::Made)),
                    "{how:?}"
                );
                assert_eq!(effects(&world, "one-1", "merge").len(), 2 * (1 + usize::from(again)), "{how:?}");
            }
            Move::Rewrite | Move::Rewind => {
                assert_eq!(ran.code, Some(5), "{how:?} {ran:?}");
                assert_the_users_is_kept(&world, how, false);
                let wanted = if how == Move::Rewrite { "rewritten" } else { "rewound" };
                assert_eq!(moves, [wanted], "{how:?}");
                let cards = told(&events, "card.opened");
                assert!(cards.len() == 1 && cards[0].to_string().contains("would come back"), "{how:?} {cards:?}");
            }
            Move::Delete => {
                assert_eq!(ran.code, Some(4), "{how:?} {ran:?}");
                assert!(ran.stderr.contains("`main`"), "{how:?} {ran:?}");
                assert_the_users_is_kept(&world, how, false);
                assert_eq!(moves, ["deleted"], "{how:?}");
            }
            Move::Switch => {
                assert_eq!(ran.code, Some(0), "{how:?} {ran:?}");
                assert_the_users_is_kept(&world, how, true);
                assert_eq!(moves, [] as [&str; 0], "the branch did not move");
            }
        }
        let confirmed = effects(&world, "one-1", "land").iter().filter(|word| word.starts_with("confirmed")).count();
        assert_eq!(confirmed, usize::from(matches!(how, Move::Advance | Move::Switch)), "{how:?}");
        assert_nothing_forced(&world);
    }
}

/// Everything that git was asked for from outside a box.
fn assert_nothing_forced(world: &World) {
    let log = fs::read_to_string(control(world).join("log")).unwrap();
    assert!(log.lines().count() > 20, "the log was written");
    for line in log.lines() {
        let mut words = line.split(' ');
        let mut command = None;
        while let Some(word) = words.next() {
            match word {
                "-c" | "-C" => drop(words.next()),
                option if option.starts_with('-') => {}
                subcommand => {
                    command = Some(subcommand);
                    break;
                }
            }
        }
        let rest: Vec<&str> = words.collect();
        let command = command.unwrap_or_default();
        let never =
            ["rebase", "reset", "stash", "push", "pull", "checkout", "switch", "cherry-pick", "am", "clean", "gc"];
        assert!(!never.contains(&command), "{line}");
        let forced = rest.iter().any(|word| ["--force", "-f", "--hard", "--autostash", "-D"].contains(word));
        assert!(!forced || (command == "worktree" && rest[0] != "add"), "{line}");
        if command == "merge" {
            assert!(rest.contains(&"--ff-only") && rest.contains(&"--no-autostash"), "{line}");
        }
    }
}

#[test]
fn moved_while_agents_are_at_work() {
    every_move_at(When::AtWork, &|_| asked("*worktree?add*"));
}

#[test]
fn moved_between_preview_and_merge() {
    every_move_at(When::Looked, &|_| asked("*merge-tree*"));
}

#[test]
fn moved_between_merge_and_landing() {
    every_move_at(When::Made, &|_| asked("*update-ref*sandbox:?candidate*"));
}

#[test]
fn moved_between_claim_and_act() {
    every_move_at(When::Made, &|world| claimed(world, "one-1"));
}

#[test]
fn a_target_that_moves_between_claim_and_merge_cancels_the_merge() {
    for how in [Move::Advance, Move::Rewrite, Move::Delete] {
        let (world, ran) = move_and_land(how, &|world| claimed_to(world, "one-1", "merge"));
        let events = journal(&world, "one-1");
        assert_eq!(told(&events, "effect.released")[0]["release"], "moved", "{how:?}");
        assert_eq!(effects(&world, "one-1", "merge")[..2], ["claimed 1", "released 1"], "{how:?}");
        assert_eq!(told(&events, "target.moved").len(), 1, "{how:?}");
        match how {
            Move::Advance => {
                assert_eq!(ran.code, Some(0), "{how:?} {ran:?}");
                assert_the_users_is_kept(&world, how, true);
                assert_eq!(effects(&world, "one-1", "merge")[2..], ["claimed 1", "confirmed 1"], "onto the new tip");
                assert_eq!(told(&events, "verify.finished").len(), 1, "what is not merged is not judged");
            }
            Move::Rewrite | Move::Rewind | Move::Delete | Move::Switch => {
                let wanted = if how == Move::Rewrite { 5 } else { 4 };
                assert_eq!(ran.code, Some(wanted), "{how:?} {ran:?}");
                assert_the_users_is_kept(&world, how, false);
                let branch = world.try_git(&["rev-parse", "-q", "--verify", "sandbox/one-1/integration"]);
                assert_eq!((branch.code, effects(&world, "one-1", "merge").len()), (Some(1), 2), "{how:?}");
            }
        }
        assert_nothing_forced(&world);
    }
}

#[test]
fn an_agents_branch_that_moves_between_claim_and_merge_cancels_the_merge() {
    let moments: [&dyn Fn(&World) -> String; 2] =
        [&|world| claimed_to(world, "one-1", "merge"), &|_| asked("*update-ref*sandbox:?candidate*")];
    for (at, moment) in moments.into_iter().enumerate() {
        let world = ready();
        let file = plan(&world, ONE);
        let deed = "a=sandbox/one-1/a; git rev-parse $a > $C/snapshot
            git update-ref refs/heads/$a $(git commit-tree main^{tree} -p $a -m theirs)";
        git_that(&world, &moment(&world), deed);
        let ran = world.sandbox(&["run", &file, "--land"]).expect(5);
        assert_done(&world);
        assert!(ran.stdout.contains("moved its branch"), "{at} {ran:?}");
        assert_eq!(effects(&world, "one-1", "merge"), ["claimed 1", "released 1"], "{at}");
        assert_eq!(told(&journal(&world, "one-1"), "effect.released")[0]["release"], "moved", "{at}");
        let branch = world.try_git(&["rev-parse", "-q", "--verify", "sandbox/one-1/integration"]);
        assert_eq!(branch.code, Some(1), "{at}");
        assert_eq!(world.git(&["log", "-1", "--format=%s", "sandbox/one-1/a"]), "theirs", "{at}: it is left alone");
        assert_nothing_forced(&world);
        // Once it is put back the run goes on by itself.
        let snapshot = fs::read_to_string(control(&world).join("snapshot")).unwrap();
        world.git(&["update-ref", "refs/heads/sandbox/one-1/a", snapshot.trim()]);
        world.sandbox(&["resume"]).expect(0);
        assert_eq!(world.read("docs/new"), "new\n");
    }
}

#[test]
fn the_report_tells_how_the_target_moved() {
    let world = ready();
    world.sandbox(&["run", &plan(&world, ONE)]).expect(0);
    let before = world.git(&["rev-parse", "main"]);
    world.write("docs/theirs", "theirs\n");
    world.git(&["add", "docs/theirs"]);
    world.git(&["commit", "-q", "-m", "theirs"]);
    let theirs = world.git(&["rev-parse", "main"]);
    let data = world.sandbox(&["land", "--json"]).expect(0).json()["data"].clone();
    let moved = &data["targetMoves"][0];
    assert_eq!(data["targetMoves"].as_array().unwrap().len(), 1, "{data:#}");
    assert_eq!(
        [&moved["how"], &moved["from"], &moved["to"], &moved["target"]],
        [&Value::from("advanced"), &before.into(), &theirs.into(), &"refs/heads/main".into()]
    );
    assert_eq!(data["agents"][0]["merge"]["standing"], "confirmed");
    let status = world.sandbox(&["status"]).expect(0);
    assert!(status.stdout.contains("main moved on from "), "{status:?}");
    assert_eq!(world.sandbox(&["status", "--json"]).expect(0).json()["data"]["targetMoves"], data["targetMoves"]);
}

#[test]
fn a_target_that_moves_twice_is_not_chased() {
    let world = ready();
    let file = plan(&world, ONE);
    // At every claim a colleague is faster, as often as it is tried.
    let deed =
        "rm -f $C/done; n=$(git rev-list --count main); echo $n > docs/t$n; git add docs/t$n; git commit -qm t$n";
    git_that(&world, &asked("*merge?--ff-only*"), deed);
    let ran = world.sandbox(&["run", &file, "--land"]).expect(1);
    assert!(ran.stdout.contains("moved again") && ran.stdout.contains("sandbox land one-1"), "{ran:?}");
    assert_eq!(effects(&world, "one-1", "land"), ["claimed 1", "released 1", "claimed 1", "released 1"]);
    assert_eq!(told(&journal(&world, "one-1"), "target.moved").len(), 2, "each is told of");
    assert_eq!(world.git(&["log", "-1", "--format=%s", "main"]), "t3");
    fs::remove_file(world.bin.join("git")).unwrap();
    world.sandbox(&["land"]).expect(0);
    assert_eq!(world.read("docs/new"), "new\n");
}

/// What a failing git says, as another git that holds the lock makes it.
const BUSY: &str = "echo 'fatal: Unable to create index.lock: File exists.' >&2";

#[test]
fn what_had_no_effect_is_tried_once_more_and_no_more() {
    // Once: nobody notices.
    let world = ready();
    let file = plan(&world, ONE);
    git_that(&world, &asked("*merge?--ff-only*"), &format!("{BUSY}; touch $C/instead"));
    world.sandbox(&["run", &file, "--land"]).expect(0);
    assert_done(&world);
    assert_eq!(effects(&world, "one-1", "land"), ["claimed 1", "released 1", "claimed 2", "confirmed 2"]);
    let releases = told(&journal(&world, "one-1"), "effect.released");
    assert_eq!(releases[0]["release"], "untouched");

    // Always: twice in all, by whatever process, until a person asks.
    let world = ready();
    let file = plan(&world, ONE);
    let before = world.picture();
    git_that(&world, &asked("*merge?--ff-only*"), &format!("{BUSY}; rm -f $C/done; touch $C/instead"));
    let ran = world.sandbox(&["run", &file, "--land"]).expect(1);
    assert!(ran.stdout.contains("git would not update"), "{ran:?}");
    let twice = ["claimed 1", "released 1", "claimed 2", "released 2"];
    assert_eq!(effects(&world, "one-1", "land"), twice);
    for _ in 0..2 {
        let ran = world.sandbox(&["resume"]).expect(1);
        assert!(
            ran.stdout.contains("tried for exactly this state already") || ran.stdout.contains("cannot_land"),
            "{ran:?}"
        );
    }
    assert_eq!((effects(&world, "one-1", "land").len(), world.picture()), (4, before), "`resume` tries it no more");
    world.sandbox(&["land"]).expect(1);
    assert_eq!(effects(&world, "one-1", "land").len(), 8, "a person's word is worth two tries again");
    fs::remove_file(world.bin.join("git")).unwrap();
    world.sandbox(&["land"]).expect(0);
    assert_eq!(world.read("docs/new"), "new\n");
}

#[test]
fn what_a_merge_gives_is_asked_once_more_before_it_is_a_persons_matter() {
    let world = ready();
    let file = plan(&world, ONE);
    git_that(&world, &asked("*merge-tree*"), "touch $C/instead");
    world.sandbox(&["run", &file]).expect(0);
    assert_done(&world);
    assert_eq!(told(&journal(&world, "one-1"), "card.opened").len(), 0);

    let world = ready();
    let file = plan(&world, ONE);
    git_that(&world, &asked("*merge-tree*"), "rm -f $C/done; touch $C/instead");
    world.sandbox(&["run", &file, "--land"]).expect(5);
    let events = journal(&world, "one-1");
    let (previews, cards) = (told(&events, "merge.previewed"), told(&events, "card.opened"));
    assert_eq!((&previews[0]["currency"], &previews[0]["result"]), (&"UNKNOWN".into(), &"error".into()));
    assert_eq!((cards.len(), &cards[0]["kind"]), (1, &"merge_error".into()), "not a conflict without files");
    assert_eq!(told(&events, "effect.claimed").len(), 0, "and nothing is begun");
    // It is asked again whenever the run goes on, and no person is needed once git is mended.
    world.sandbox(&["resume"]).expect(5);
    let events = journal(&world, "one-1");
    assert_eq!((told(&events, "merge.previewed").len(), told(&events, "card.opened").len()), (2, 1));
    assert_eq!(told(&events, "effect.claimed").len(), 0);
    fs::remove_file(world.bin.join("git")).unwrap();
    world.sandbox(&["resume"]).expect(0);
    assert_eq!(told(&journal(&world, "one-1"), "card.closed").len(), 1);
    assert_eq!(world.read("docs/new"), "new\n", "it was to land");
}

#[test]
fn a_candidate_that_could_not_be_moved_is_moved_at_the_second_try() {
    let world = ready();
    let file = plan(&world, ONE);
    git_that(&world, &asked("*update-ref*sandbox:?candidate*"), "echo busy; touch $C/instead");
    world.sandbox(&["run", &file]).expect(0);
    assert_done(&world);
    assert_eq!(effects(&world, "one-1", "merge"), ["claimed 1", "released 1", "claimed 2", "confirmed 2"]);
    assert_eq!(world.git(&["show", "sandbox/one-1/integration:docs/new"]), "new");
}

/// Two agents that are in nobody's way, and one that goes beyond its contract.
const BEYOND: &str = r#"
[run]
name = "beyond"
[verify]
command = ["true"]
[agents.a]
owns = ["docs/a"]
run = ["sh", "-ec", "echo a > docs/a"]
[agents.b]
owns = ["docs/b"]
run = ["sh", "-ec", "echo b > docs/b"]
[agents.c]
owns = ["docs/c"]
run = ["sh", "-ec", "echo c > docs/c; echo more > docs/more"]
"#;

#[test]
fn what_was_tried_in_vain_is_left_out_and_the_rest_is_merged() {
    let world = World::new();
    let file = plan(&world, BEYOND);
    let fails = asked("*update-ref*sandbox:?candidate*");
    git_that(&world, &fails, "rm -f $C/done; touch $C/instead");
    let ran = world.sandbox(&["run", &file]);
    assert!(ran.code.is_some_and(|code| code != 0), "{ran:?}");
    assert_eq!(effects(&world, "beyond-1", "merge"), ["claimed 1", "released 1", "claimed 2", "released 2"]);
    fs::remove_file(world.bin.join("git")).unwrap();
    let card = told(&journal(&world, "beyond-1"), "card.opened")[0]["id"].as_str().unwrap().to_owned();
    world.sandbox(&["board", "approve", &card]).expect(0);

    for _ in 0..2 {
        let ran = world.sandbox(&["resume"]).expect(1);
        assert!(ran.stdout.contains("it was tried for exactly this state already"), "{ran:?}");
        let files = world.git(&["ls-tree", "-r", "--name-only", "sandbox/beyond-1/integration", "docs/"]);
        assert!(files.contains("docs/c") && !files.contains("docs/a") && !files.contains("docs/b"), "{files}");
        assert_eq!(effects(&world, "beyond-1", "merge")[4..], ["claimed 1", "confirmed 1"], "once");
        assert_eq!(row(&world, "c")["merge"]["standing"], "confirmed");
    }
    let blocks = world.sandbox(&["status", "--json"]).json()["data"]["blocks"].as_array().unwrap().clone();
    for agent in ["a", "b"] {
        let block = blocks.iter().find(|block| block["agent"] == agent).unwrap();
        assert_eq!((&block["kind"], &block["next"]), (&"not_merged".into(), &"`sandbox merge beyond-1`".into()));
        assert!(block["message"].as_str().unwrap().contains("tried for exactly this state already"), "{block}");
    }
    world.sandbox(&["merge"]).expect(0);
    assert_eq!(world.git(&["show", "sandbox/beyond-1/integration:docs/a"]), "a");
}

#[test]
fn what_cannot_be_told_is_never_repeated() {
    let world = ready();
    let text = ONE.replace("echo new > docs/new", "echo new > docs/new; echo changed > docs/x.txt");
    let file = plan(&world, &text);
    // Git dies over the first file, and what stands there is neither the old nor the new.
    git_that(&world, &asked("*merge?--ff-only*"), "echo half > docs/x.txt; touch $C/instead");
    let base = world.git(&["rev-parse", "main"]);
    let ran = world.sandbox(&["run", &file, "--land"]).expect(5);
    assert!(ran.stdout.contains("docs/x.txt") && ran.stdout.contains("neither as before nor as after"), "{ran:?}");
    assert_eq!(effects(&world, "one-1", "land"), ["claimed 1"], "and not a second time");
    // It is a card of the run's own, with all that is known of it.
    let opened = told(&journal(&world, "one-1"), "card.opened");
    let [card] = opened.as_slice() else { panic!("{opened:?}") };
    let id = card["id"].as_str().unwrap();
    assert_eq!(
        [&card["kind"], &card["agents"], &card["paths"], &card["landing"]["target"], &card["landing"]["before"]],
        [
            &"landing".into(),
            &serde_json::json!([]),
            &serde_json::json!(["docs/x.txt"]),
            &"refs/heads/main".into(),
            &base.into()
        ]
    );
    let candidate = world.git(&["rev-parse", "sandbox/one-1/integration"]);
    assert_eq!(card["landing"]["after"], candidate);
    let rescue = card["landing"]["rescue"].as_str().unwrap();
    assert_eq!(world.git(&["show", &format!("{rescue}:docs/x.txt")]), "x");
    let lanes = world.sandbox(&["board", "list", "--json"]).json()["data"]["lanes"].clone();
    assert_eq!((&lanes[0]["name"], &lanes[0]["cards"][0]["id"]), (&"needs-human".into(), &card["id"]));
    let shown = world.sandbox(&["board", "show", id]).expect(0).stdout;
    for told in ["docs/x.txt", rescue, &candidate, "restore --source", "sandbox land one-1"] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    // Nobody's word says what became of it.
    for verb in [&["approve"][..], &["dismiss"], &["resolve", "--take", "ours"]] {
        let ran = world.sandbox(&[&["board", verb[0], id], &verb[1..]].concat());
        assert!(ran.code != Some(0) && ran.stderr.contains("`sandbox land one-1`"), "{verb:?} {ran:?}");
    }
    let before = world.picture();
    // That landing cannot go on keeps nothing else from it.
    for verb in ["resume", "land", "merge"] {
        let ran = world.sandbox(&[verb]).expect(5);
        assert!(ran.stdout.contains(id), "{verb}: {ran:?}");
        assert_eq!((world.picture(), effects(&world, "one-1", "land").len()), (before.clone(), 1), "{verb:?}");
        assert_eq!(told(&journal(&world, "one-1"), "card.opened").len(), 1, "{verb}");
    }
    // Something else is in the way: it is another card, and the only one.
    world.write("docs/new", "odd\n");
    world.sandbox(&["merge"]).expect(5);
    let row = |world: &World, lane: usize| {
        world.sandbox(&["board", "list", "--json"]).json()["data"]["lanes"][lane]["cards"].as_array().unwrap().clone()
    };
    assert_eq!((row(&world, 0).len(), row(&world, 1).len()), (1, 1));
    assert_ne!(row(&world, 0)[0]["id"], card["id"]);
    fs::remove_file(world.repo.join("docs/new")).unwrap();
    // As it was: it is known now, and the run goes on.
    world.git(&["restore", "docs/x.txt"]);
    world.sandbox(&["resume"]).expect(0);
    assert_eq!(world.read("docs/x.txt"), "changed\n");
    assert_eq!((row(&world, 0).len(), row(&world, 1).len()), (0, 2), "nothing waits any more");
    let closed = told(&journal(&world, "one-1"), "card.closed");
    assert!(closed.last().unwrap()["resolution"].as_str().unwrap().contains("not to have happened"), "{closed:?}");
    assert_eq!(effects(&world, "one-1", "land"), ["claimed 1", "released 1", "claimed 1", "confirmed 1"]);
}

#[test]
fn a_landing_that_a_person_finished_by_hand_is_known_and_its_card_goes() {
    let world = ready();
    let text = ONE.replace("echo new > docs/new", "echo new > docs/new; echo changed > docs/x.txt");
    git_that(&world, &asked("*merge?--ff-only*"), "echo half > docs/x.txt; touch $C/instead");
    world.sandbox(&["run", &plan(&world, &text), "--land"]).expect(5);
    world.git(&["restore", "docs/x.txt"]);
    world.git(&["merge", "-q", "--ff-only", "sandbox/one-1/integration"]);
    world.sandbox(&["land"]).expect(0);
    let events = journal(&world, "one-1");
    assert_eq!(effects(&world, "one-1", "land"), ["claimed 1", "confirmed 1"]);
    let closed = told(&events, "card.closed");
    assert!(closed.len() == 1 && closed[0]["resolution"].as_str().unwrap().contains("seen to have"), "{closed:?}");
}

#[test]
fn a_death_between_claim_and_act_costs_nothing() {
    let world = ready();
    let file = plan(&world, ONE);
    let journal_has = claimed(&world, "one-1");
    // Its own git ends it.
    git_that(&world, &format!("{journal_has} && echo $PPID > $C/pid"), "kill -KILL $(cat $C/pid)");
    for verb in [&["run", &file, "--land"][..], &["resume"]] {
        let ran = world.sandbox(verb);
        assert_eq!(ran.code, None, "{ran:?}");
        drop(fs::remove_file(control(&world).join("done")));
    }
    fs::remove_file(world.bin.join("git")).unwrap();
    world.sandbox(&["resume"]).expect(0);
    let landings = effects(&world, "one-1", "land");
    assert_eq!(landings.iter().filter(|word| word.starts_with("confirmed")).count(), 1, "{landings:?}");
    assert!(
        landings.iter().all(|word| word.ends_with('1')),
        "nothing was begun, so it is the first still: {landings:?}"
    );
    assert_eq!(world.git(&["log", "--format=%s", "--first-parent", "main"]), "Merge agent a\nsecond\nbase");
}

#[test]
fn a_death_while_the_same_is_merged_again_takes_nothing_out() {
    let world = ready();
    world.sandbox(&["run", &plan(&world, ONE)]).expect(0);
    let candidate = world.git(&["rev-parse", "sandbox/one-1/integration"]);
    for place in ["journal candidate.advanced after:1", "journal merge.previewed after:1"] {
        let ran: Ran = world.sandbox_command(&["merge"]).env("SANDBOX_DIE_AT", place).output().unwrap().into();
        assert_eq!(ran.code, None, "{place} {ran:?}");
        assert_eq!(world.git(&["rev-parse", "sandbox/one-1/integration"]), candidate, "{place}");
        let shut = world.sandbox(&["status", "--json"]).json();
        assert_ne!(shut["data"]["complete"], true, "{place}: {shut:#}");
        world.sandbox(&["resume"]).expect(0);
        assert_eq!(row(&world, "a")["merge"]["mergedAs"], candidate, "{place}");
    }
    assert_eq!(effects(&world, "one-1", "merge"), ["claimed 1", "confirmed 1"], "and is no new attempt");
    world.sandbox(&["land"]).expect(0);
    assert_eq!(world.read("docs/new"), "new\n");
}

#[test]
fn what_was_taken_out_again_is_not_landed_again_unasked() {
    let world = ready();
    let base = world.git(&["rev-parse", "main"]);
    world.sandbox(&["run", &plan(&world, ONE), "--land"]).expect(0);
    world.write("src/b.txt", "b\n");
    world.git(&["reset", "-q", "--hard", &base]);
    let before = world.picture();
    world.sandbox(&["resume"]).expect(1);
    assert_eq!(world.picture(), before);
    world.sandbox(&["land"]).expect(0);
    assert_eq!(world.read("docs/new"), "new\n", "a person asked");
}

/// Two agents that change the same line; a third that is in nobody's way.
const CLASH: &str = r#"
[run]
name = "clash"
[verify]
command = ["true"]
[agents.one]
owns = ["docs/one"]
shares = ["src/a.txt"]
run = ["sh", "-ec", "sed -i 's/a line 10/one/' src/a.txt; echo 1 > docs/one"]
[agents.two]
owns = ["docs/two"]
shares = ["src/a.txt"]
run = ["sh", "-ec", "sed -i 's/a line 10/two/' src/a.txt; echo 2 > docs/two"]
[agents.three]
owns = ["docs/three"]
run = ["sh", "-ec", "echo 3 > docs/three"]
"#;

fn row(world: &World, agent: &str) -> Value {
    let status = world.sandbox(&["status", "--json"]).expect(0).json();
    let rows = status["data"]["agents"].as_array().unwrap().clone();
    rows.into_iter().find(|row| row["agent"] == agent).unwrap()
}

#[test]
fn a_parked_conflict_sleeps_through_what_does_not_concern_it() {
    let world = World::new();
    world.sandbox(&["run", &plan(&world, CLASH)]).expect(5);
    let opened = |world: &World| told(&journal(world, "clash-1"), "card.opened");
    let first = opened(&world);
    assert_eq!(first.len(), 1);
    let merged = |world: &World| -> Vec<Value> {
        let claims = told(&journal(world, "clash-1"), "effect.claimed");
        claims.iter().flat_map(|claim| claim["works"].as_array().cloned().unwrap_or_default()).collect()
    };
    let named = |works: &[Value], agent: &str| works.iter().filter(|work| work["agent"] == agent).count();
    assert_eq!((named(&merged(&world), "one"), named(&merged(&world), "three")), (1, 1));

    // Again, and by another process, and with commits elsewhere.
    for round in 0..3 {
        if round > 0 {
            world.write("docs/elsewhere", &format!("{round}\n"));
            world.commit("elsewhere");
        }
        // In either order: each looks at the target.
        for verb in if round == 1 { ["resume", "merge"] } else { ["merge", "resume"] } {
            world.sandbox(&[verb]).expect(5);
            assert_eq!(opened(&world), first, "{round} {verb}");
            let row = row(&world, "two");
            assert_eq!(
                (&row["merge"]["standing"], &row["merge"]["cards"][0]),
                (&"parked".into(), &first[0]["id"]),
                "{row:#}"
            );
            let works = merged(&world);
            assert_eq!(named(&works, "two"), 0, "nothing is tried of it: {works:?}");
            assert_eq!(
                named(&works, "one"),
                1 + round,
                "the others go on, once for each tip: {round} {verb} {works:?}"
            );
        }
    }
    let blocked = world.sandbox(&["status", "--json"]).json()["data"]["blocks"].to_string();
    assert!(blocked.contains("open_card"), "it stays a reason for the run not to be complete: {blocked}");

    // A commit to the file it is about.
    let changed = world.read("src/a.txt").replace("a line 1\n", "theirs\n");
    world.write("src/a.txt", &changed);
    world.commit("the same file");
    world.sandbox(&["merge"]).expect(5);
    let anew = opened(&world);
    assert_eq!(anew.len(), 2, "one new card");
    assert_ne!(anew[0]["fingerprint"], anew[1]["fingerprint"]);
    world.sandbox(&["merge"]).expect(5);
    assert_eq!(opened(&world).len(), 2, "and no more");
    assert_eq!(told(&journal(&world, "clash-1"), "card.closed").len(), 1);
    let card = anew[1]["id"].as_str().unwrap();
    assert!(world.sandbox(&["board", "resolve", card, "--take", "theirs"]).code == Some(0));
    assert_eq!(row(&world, "two")["merge"]["standing"], "inspecting", "a decision is one to look again");
    world.sandbox(&["merge"]).expect(0);
    assert_eq!(row(&world, "two")["merge"]["standing"], "confirmed");
}

/// That the run goes on is enough to look at the target, while the gate is shut as well.
#[test]
fn a_run_that_goes_on_looks_at_where_the_target_is() {
    let world = World::new();
    world.sandbox(&["run", &plan(&world, CLASH)]).expect(5);
    let events = |kind: &str| told(&journal(&world, "clash-1"), kind);
    let first = events("card.opened");
    world.write("docs/elsewhere", "theirs\n");
    world.commit("elsewhere");
    for _ in 0..2 {
        world.sandbox(&["resume"]).expect(5);
        assert_eq!(
            (events("target.moved").len(), events("card.opened")),
            (1, first.clone()),
            "its card is what it was"
        );
        assert_eq!(row(&world, "two")["merge"]["standing"], "parked");
        assert_eq!(world.git(&["show", "sandbox/clash-1/integration:docs/elsewhere"]), "theirs");
        assert_eq!(effects(&world, "clash-1", "merge").len(), 4, "the others are merged once for each tip");
    }
    let changed = world.read("src/a.txt").replace("a line 1\n", "theirs\n");
    world.write("src/a.txt", &changed);
    world.commit("the same file");
    for _ in 0..2 {
        world.sandbox(&["resume"]).expect(5);
        assert_eq!((events("target.moved").len(), events("card.opened").len(), events("card.closed").len()), (2, 2, 1));
        assert_eq!(row(&world, "two")["merge"]["cards"][0], events("card.opened")[1]["id"]);
    }
}

#[test]
fn several_runs_land_on_one_target_one_after_the_other() {
    let world = ready();
    let names = ["first", "second", "third"];
    for name in names {
        let text = ONE.replace("\"one\"", &format!("\"{name}\"")).replace("docs/new", &format!("docs/{name}"));
        world.sandbox(&["run", &plan(&world, &text)]).expect(0);
    }
    // Two at once: the second waits for the first, which is held at its act.
    git_that(&world, &asked("*merge?--ff-only*"), "touch $C/held; while ! test -e $C/go; do sleep 0.05; done");
    let first = Going::start(&world, &["land", "first-1", "--json"]);
    until("the first is at its act", || control(&world).join("held").exists().then_some(()));
    let twice = world.sandbox(&["land", "first-1"]).expect(7);
    assert!(twice.stderr.contains("`first-1` is held by"), "one process at a time has a run: {twice:?}");
    let second = Going::start(&world, &["land", "second-2", "--json"]);
    until("the second comes to its landing", || {
        let events = journal(&world, "second-2");
        events.iter().any(|event| event["type"] == "stage.enter" && event["data"]["stage"] == "land").then_some(())
    });
    fs::write(control(&world).join("go"), "").unwrap();
    for going in [first, second] {
        let ran = going.wait();
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    assert_done(&world);
    world.sandbox(&["land", "third-3"]).expect(0);
    for (at, name) in names.into_iter().enumerate() {
        assert_eq!(world.read(&format!("docs/{name}")), "new\n");
        let events = journal(&world, &format!("{name}-{}", at + 1));
        let moves = told(&events, "target.moved");
        assert_eq!(moves.len(), usize::from(at > 0), "{name}: {moves:?}");
        let judged: Vec<Value> = told(&events, "verify.finished").iter().map(|data| data["tree"].clone()).collect();
        assert_eq!(judged.len(), 1 + usize::from(at > 0), "{name}: what was landed was judged");
    }
    let line = world.git(&["log", "--format=%s", "--first-parent", "main"]);
    assert_eq!(line, "Merge agent a\nMerge agent a\nMerge agent a\nsecond\nbase");
    assert_eq!(world.git(&["status", "--porcelain"]), " M src/b.txt\n?? untracked.txt");
    assert_nothing_forced(&world);
}

#[test]
fn each_operation_is_allowed_for_itself() {
    // Nobody can tell what to land on: the candidate is made all the same.
    let world = ready();
    world.git(&["switch", "-q", "--detach"]);
    let ran = world.sandbox(&["run", &plan(&world, ONE), "--land"]).expect(1);
    assert!(ran.stdout.contains("no branch to land on"), "{ran:?}");
    assert_eq!(world.git(&["show", "sandbox/one-1/integration:docs/new"]), "new");
    assert_eq!((effects(&world, "one-1", "merge").len(), effects(&world, "one-1", "land").len()), (2, 0));
    // It is not wanted.
    let world = ready();
    let text = ONE.replace("name = \"one\"", "name = \"one\"\nland = \"never\"");
    let file = plan(&world, &text);
    world.sandbox(&["run", &file]).expect(0);
    let before = world.picture();
    let ran = world.sandbox(&["land"]).expect(1);
    assert!(ran.stdout.contains("never"), "{ran:?}");
    assert_eq!((world.picture(), effects(&world, "one-1", "land").len()), (before, 0));
    // It was not asked for.
    let world = ready();
    world.sandbox(&["run", &plan(&world, ONE)]).expect(0);
    assert_eq!(effects(&world, "one-1", "land").len(), 0);
}

#[test]
fn work_on_a_branch_that_somebody_moved_is_not_merged() {
    let world = ready();
    world.sandbox(&["run", &plan(&world, ONE)]).expect(0);
    let snapshot = world.git(&["rev-parse", "sandbox/one-1/a"]);
    let tree = world.git(&["rev-parse", "main^{tree}"]);
    let theirs = world.git(&["commit-tree", &tree, "-p", &snapshot, "-m", "a person's own"]);
    world.git(&["update-ref", "refs/heads/sandbox/one-1/a", &theirs]);
    let before = world.picture();
    let ran = world.sandbox(&["merge"]).expect(5);
    assert!(ran.stdout.contains("merge_error") || ran.stdout.contains("moved its branch"), "{ran:?}");
    let cards = told(&journal(&world, "one-1"), "card.opened");
    assert!(cards[0]["summary"].as_str().unwrap().contains("something else moved its branch"), "{cards:?}");
    assert_eq!(row(&world, "a")["merge"]["standing"], "inspecting");
    assert_eq!(world.git(&["rev-parse", "sandbox/one-1/a"]), theirs, "and it is left alone");
    assert_eq!(world.picture(), before);
    world.git(&["branch", "-q", "theirs", &theirs]);
    world.git(&["update-ref", "refs/heads/sandbox/one-1/a", &snapshot]);
    world.sandbox(&["merge"]).expect(0);
    assert_eq!(row(&world, "a")["merge"]["standing"], "confirmed");
}
