//! Verbs beside `run` and `resume` that die at any of their places: the same verb again comes to what it would have come to,
//! and nothing is left of the one that died.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::crash::{Outcome, QUICK};
use crate::decide::{CONFLICT, SCOPE};
use crate::flow::plan;
use crate::going::{Going, assert_none_left, processes_with, until};
use crate::world::{Ran, World};

/// A verb, and what is there before it.
#[derive(Debug, Clone, Copy)]
struct Verb {
    /// Makes what is there before it.
    before: fn() -> World,
    /// Its words; `CARD` stands for the one card that is open.
    words: &'static [&'static str],
    /// How it ends a second time, where everything had been done the first time.
    done: i32,
    /// Whether it is for changing the user's checkout.
    lands: bool,
    /// Whether it works in the very folders that were there: a copy of one is another, which an agent is not let into.
    stays: bool,
}

const VERB: Verb = Verb { before: World::new, words: &[], done: 0, lands: false, stays: false };

/// What a verb comes to.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    /// Of the newest run, if there is one yet.
    outcome: Option<Outcome>,
    /// All files of the program's own, of the worktrees and of what lists them. Numbers are by the journal's, and stand for
    /// any.
    files: BTreeSet<String>,
    /// The files of the user's checkout.
    checkout: BTreeMap<String, Vec<u8>>,
}

impl Left {
    #[track_caller]
    fn of(world: &World) -> Self {
        let has_runs = fs::read_dir(world.store().join("runs")).is_ok_and(|mut runs| runs.next().is_some());
        let mut files = BTreeSet::new();
        let keys = fs::read_dir(world.worktrees()).into_iter().flatten().flatten().map(|key| key.path());
        for folder in keys.chain([world.store(), world.repo.join(".git/worktrees")]) {
            list(&folder, &folder, &mut files);
        }
        let mut checkout = BTreeMap::new();
        for path in world.git(&["ls-files", "-co", "--exclude-standard"]).lines() {
            checkout.insert(path.to_owned(), fs::read(world.repo.join(path)).unwrap_or_default());
        }
        Self { outcome: has_runs.then(|| Outcome::of(world)), files, checkout }
    }
}

/// Lists a folder, as far as its names say something: not what is in git directories, and not what is there for boxes.
fn list(root: &Path, folder: &Path, files: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        // A folder that is empty for most of the time, and one whose files are called by a hash of what they are for.
        let is_passing = ["scratch", "incoming", ".trash"].contains(&name.as_str());
        if name == "receipts" {
            continue;
        }
        if !is_passing {
            let shown = path.strip_prefix(root).unwrap().display().to_string();
            files.insert(shown.chars().map(|letter| if letter.is_ascii_digit() { '#' } else { letter }).collect());
        }
        let goes_down = !["git", "capture", "capture-box", "tmp", "home"].contains(&name.as_str());
        if path.is_dir() && !path.is_symlink() && goes_down {
            list(root, &path, files);
        }
    }
}

/// A world that can be had again as it was, by a copy.
struct Again {
    world: World,
    words: Vec<String>,
    kept: tempfile::TempDir,
}

/// All folders of a world.
const FOLDERS: [&str; 3] = ["home", "state", "bin"];

impl Again {
    fn new(verb: Verb) -> Self {
        let world = (verb.before)();
        let card = open_card(&world);
        let words =
            verb.words.iter().map(|word| if *word == "CARD" { card.clone().unwrap() } else { (*word).to_owned() });
        let again = Self { words: words.collect(), world, kept: tempfile::tempdir().unwrap() };
        copy(&again.root(), again.kept.path());
        again
    }

    fn root(&self) -> PathBuf {
        self.world.home().parent().unwrap().to_owned()
    }

    fn restore(&self) -> &World {
        for folder in FOLDERS {
            fs::remove_dir_all(self.root().join(folder)).unwrap();
        }
        copy(self.kept.path(), &self.root());
        &self.world
    }

    /// Runs the verb with this in its surroundings; `None` where it was killed.
    fn run(&self, variable: (&str, &str)) -> Option<Ran> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let output = self.world.sandbox_command(&words).env(variable.0, variable.1).output().unwrap();
        (output.status.signal() != Some(9)).then(|| output.into())
    }
}

fn copy(from: &Path, to: &Path) {
    let folders = FOLDERS.map(|folder| from.join(folder));
    assert!(Command::new("cp").arg("-a").args(folders).arg(to).status().unwrap().success());
}

fn open_card(world: &World) -> Option<String> {
    let board = world.sandbox(&["board", "--json"]).json();
    board["data"]["lanes"][0]["cards"][0]["id"].as_str().map(str::to_owned)
}

/// The places where a verb is killed for the suite: after each kind of effect, the first time and the last.
fn chosen(places: &[&str]) -> Vec<String> {
    let mut chosen = Vec::new();
    for (at, place) in places.iter().enumerate().filter(|(_, place)| place.ends_with(" after")) {
        let is_there = |others: &[&str]| others.contains(place);
        // Written by the clock, so in no order with the rest; and made anew by whoever comes next.
        let is_derived = ["status.json", "latest.json", "cards/"].iter().any(|name| place.contains(name));
        // How many removals there are is not the same each time.
        let is_last = !place.starts_with("removal") && !is_there(&places[at + 1..]);
        if !is_derived && (!is_there(&places[..at]) || is_last) {
            let nth = places[..=at].iter().filter(|other| *other == place).count();
            chosen.push(format!("{place}:{nth}"));
        }
    }
    chosen
}

/// Kills a verb at some of its places, or at each, and has it done again.
#[track_caller]
fn dies(verb: Verb, everywhere: bool) {
    let again = Again::new(verb);
    let world = &again.world;
    let picture = world.picture();
    let log = again.kept.path().join("places");
    let ran = again.run(("SANDBOX_DIE_LOG", log.to_str().unwrap())).unwrap().expect(0);
    let expected = Left::of(world);
    let text = fs::read_to_string(&log).unwrap();
    let places: Vec<&str> = text.lines().collect();
    let deaths = if everywhere {
        (1..=places.len()).map(|nth| format!("*:{nth}")).collect()
    } else {
        // A world that has to be made anew each time takes a while.
        let all = chosen(&places);
        let step = if verb.stays { all.len().div_ceil(8) } else { 1 };
        all.into_iter().step_by(step).collect::<Vec<_>>()
    };
    assert!(!deaths.is_empty(), "{places:#?} {ran:?}");
    let (mut failed, mut never) = (Vec::new(), Vec::new());
    for death in deaths {
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let anew = verb.stays.then(|| Again::new(verb));
            let again = anew.as_ref().unwrap_or(&again);
            let world = if verb.stays { &again.world } else { again.restore() };
            let picture = if verb.stays { world.picture() } else { picture.clone() };
            if again.run(("SANDBOX_DIE_AT", &death)).is_some() {
                return false;
            }
            assert_none_left(&world.home().display().to_string());
            if !verb.lands {
                assert_eq!(world.picture(), picture, "{death}");
            }
            let second = again.run(("SANDBOX_DIE_AT", "nowhere:1")).unwrap();
            assert!([Some(0), Some(verb.done)].contains(&second.code), "{death}: {second:?}");
            assert_none_left(&world.home().display().to_string());
            let left = Left::of(world);
            let more: Vec<_> = left.files.difference(&expected.files).collect();
            let less: Vec<_> = expected.files.difference(&left.files).collect();
            assert!(more.is_empty() && less.is_empty(), "{death}: left {more:?}, missing {less:?}: {second:?}");
            assert_eq!(left, expected, "{death}: {second:?}");
            assert_eq!(world.git(&["fsck", "--no-dangling", "--no-progress"]), "", "{death}");
            true
        }));
        match told {
            Ok(true) => {}
            Ok(false) => never.push(death),
            Err(_) => failed.push(death),
        }
    }
    assert!(failed.is_empty(), "{:?}: {failed:?}", verb.words);
    // What the clock writes may be some places more or less.
    assert!(never.len() <= if everywhere { 8 } else { 0 }, "{:?} never came to {never:?}", verb.words);
}

/// A run that has landed, in a checkout with changes of the user's.
fn landed() -> World {
    let world = World::new();
    world.write("src/b.txt", "my own change\n");
    world.sandbox(&["run", &plan(&world, QUICK), "--land"]).expect(0);
    // What the user did in a worktree since is kept before it goes.
    let key = fs::read_dir(world.worktrees()).unwrap().next().unwrap().unwrap().path();
    fs::write(key.join("quick-1--a/docs/a"), "the user's, by hand\n").unwrap();
    world
}

/// A run whose result can land, and a hook of the user's that is asked first.
fn with_hook() -> World {
    let world = World::new();
    world.write("src/b.txt", "my own change\n");
    world.sandbox(&["run", &plan(&world, QUICK)]).expect(0);
    let hook = world.repo.join(".git/hooks/pre-merge-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\ntest -f docs/b\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    world
}

fn conflict() -> World {
    crate::decide::world(CONFLICT)
}

fn scope() -> World {
    crate::decide::world(SCOPE)
}

/// A conflict that was merged by hand, and not yet told so.
fn edited() -> World {
    let world = conflict();
    let id = crate::decide::id(&world);
    let begun = world.sandbox(&["board", "resolve", &id, "--edit", "--json"]).expect(0).json();
    let folder = PathBuf::from(begun["data"]["folder"].as_str().unwrap());
    fs::write(folder.join("docs/shared"), "from both\n").unwrap();
    world
}

const RESOLVE: [&str; 8] = [
    "board",
    "resolve",
    "CARD",
    "--with",
    "--",
    "sh",
    "-ec",
    "git checkout -q --theirs docs/shared; echo and more >> docs/shared",
];

/// A conflict for which a command has proposed something.
fn proposed() -> World {
    let world = conflict();
    let id = crate::decide::id(&world);
    let words = RESOLVE.map(|word| if word == "CARD" { id.as_str() } else { word });
    world.sandbox(&words).expect(0);
    world
}

/// An agent asked for more than it has, and was granted it by a person.
fn granted() -> World {
    let world = World::new();
    let text =
        "[run]\nname = 'ask'\n[verify]\ncommand = ['true']\n[agents.api]\nowns = ['src/a.txt']\nrun = ['sh', '-ec', '''
if test -z \"$SANDBOX_GRANTED\"; then sandbox ask --owns docs/new --why more; else echo new > docs/new; fi''']\n";
    world.sandbox(&["run", &plan(&world, text)]).expect(5);
    let card = open_card(&world).unwrap();
    world.sandbox(&["board", "approve", &card]).expect(0);
    world
}

macro_rules! deaths {
    ($($name:ident: $before:ident, $words:expr, done $done:literal $(, $flag:ident)*;)*) => {
        $(
            #[test]
            fn $name() {
                dies(Verb { before: $before, words: &$words, done: $done $(, $flag: true)*, ..VERB }, false);
            }
        )*

        /// Every place of every verb. Takes minutes.
        mod everywhere {
            use super::*;

            $(
                #[test]
                #[ignore = "takes minutes"]
                fn $name() {
                    dies(Verb { before: $before, words: &$words, done: $done $(, $flag: true)*, ..VERB }, true);
                }
            )*
        }
    };
}

deaths! {
    clean_dies: landed, ["clean"], done 0, stays;
    forgetting_a_run_dies: landed, ["clean", "--records", "--keep", "0"], done 0, stays;
    taking_a_side_dies: conflict, ["board", "resolve", "CARD", "--take", "theirs"], done 2;
    beginning_an_edit_dies: conflict, ["board", "resolve", "CARD", "--edit"], done 0;
    ending_an_edit_dies: edited, ["board", "resolve", "CARD", "--done"], done 2;
    discarding_an_edit_dies: edited, ["board", "resolve", "CARD", "--discard"], done 2;
    a_resolver_dies: conflict, RESOLVE, done 2;
    accepting_dies: proposed, ["board", "resolve", "CARD", "--accept"], done 2;
    discarding_a_proposal_dies: proposed, ["board", "resolve", "CARD", "--discard"], done 2;
    approving_dies: scope, ["board", "approve", "CARD"], done 2;
    dismissing_dies: scope, ["board", "dismiss", "CARD"], done 2;
    landing_past_a_hook_dies: with_hook, ["land", "--hooks"], done 0, lands;
    trying_again_dies: granted, ["retry", "api"], done 0, stays;
}

/// Nothing waits for a `stop` that dies, and the next one finds the run as it is.
#[test]
fn stopping_dies() {
    let world = World::new();
    let text = QUICK.replace("echo a > docs/a", "echo a > docs/a; exec sleep 86581");
    let mut going = Going::start(&world, &["run", &plan(&world, &text), "--json"]);
    going.wait_for(|event| event["type"] == "turn.started");
    until("it is at work", || (!processes_with("sleep 86581").is_empty()).then_some(()));
    let log = world.state().join("places");
    for nth in 1.. {
        let stop = |place: String| {
            let mut command = world.sandbox_command(&["stop"]);
            command.env("SANDBOX_DIE_AT", place).env("SANDBOX_DIE_LOG", &log).output().unwrap().status
        };
        if stop(format!("*:{nth}")).signal() != Some(9) {
            break;
        }
    }
    assert!(fs::read_to_string(&log).unwrap_or_default().is_empty(), "it writes nothing: it asks whoever may");
    going.wait().expect(143);
    world.sandbox(&["stop"]).expect(0);
    assert_none_left("sleep 86581");
}
