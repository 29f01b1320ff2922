//! Random trees, random work, random orders of finishing: the candidate is what plain `git merge` makes of it in plan order.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::world::{Edit, World, name, task};
use crate::git::Renames;
use crate::git::tests::reference::{Reference, Verdict};
use crate::integrate::Placed;
use crate::model::CommitId;

/// The paths that there can be. Some can be a file or a folder.
const PATHS: [&str; 12] = [
    "a.txt",
    "b.txt",
    "src/one",
    "src/two",
    "src/three",
    "lib/one",
    "lib/two",
    "docs/x",
    "docs/y",
    "node",
    "node/inner",
    "tool",
];

/// What contracts there can be.
const OWNS: [&[&str]; 5] =
    [&["**"], &["**"], &["src/**", "lib/**", "a.txt"], &["docs/**", "node", "node/**"], &["*.txt", "src/*"]];

/// One thing that is done to a path.
#[derive(Debug, Clone)]
enum Deed {
    Edit(usize, usize, u8),
    Write(usize, u8),
    Remove(usize),
    Move(usize, usize),
    Flag(usize),
    Link(usize, usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    let path = || 0..PATHS.len();
    prop_oneof![
        6 => (path(), 0..12usize, any::<u8>()).prop_map(|(path, line, what)| Deed::Edit(path, line, what)),
        2 => (path(), 0..4u8).prop_map(|(path, what)| Deed::Write(path, what)),
        1 => path().prop_map(Deed::Remove),
        1 => (path(), path()).prop_map(|(from, to)| Deed::Move(from, to)),
        1 => path().prop_map(Deed::Flag),
        1 => (path(), path()).prop_map(|(path, to)| Deed::Link(path, to)),
    ]
}

type Files = std::collections::BTreeMap<&'static str, (&'static str, String)>;

fn lines(of: &str) -> String {
    (0..12).map(|line| [of, " ", &line.to_string(), "\n"].concat()).collect()
}

/// Puts a file where nothing but a file may be.
fn place(files: &mut Files, path: &'static str, file: (&'static str, String)) {
    files.retain(|other, _| !other.starts_with(&format!("{path}/")) && !path.starts_with(&format!("{other}/")));
    files.insert(path, file);
}

fn apply(files: &mut Files, deed: &Deed) {
    match *deed {
        Deed::Edit(path, line, what) => {
            if let Some((mode, content)) = files.get_mut(PATHS[path])
                && *mode != "120000"
            {
                let edited = content
                    .lines()
                    .enumerate()
                    .map(|(at, old)| if at == line { format!("edited {what}\n") } else { format!("{old}\n") });
                *content = edited.collect();
            }
        }
        Deed::Write(path, what) => place(files, PATHS[path], ("100644", lines(&format!("new {what}")))),
        Deed::Remove(path) => drop(files.remove(PATHS[path])),
        Deed::Move(from, to) => {
            if let Some(file) = files.remove(PATHS[from]) {
                place(files, PATHS[to], file);
            }
        }
        Deed::Flag(path) => {
            if let Some((mode, _)) = files.get_mut(PATHS[path])
                && *mode != "120000"
            {
                *mode = if *mode == "100644" { "100755" } else { "100644" };
            }
        }
        Deed::Link(path, to) => {
            // Within the folder it is in, so that it does not lead out.
            place(files, PATHS[path], ("120000", PATHS[to].rsplit('/').next().unwrap_or_default().to_owned()));
        }
    }
}

fn edits(from: &Files, to: &Files) -> Vec<Edit> {
    let gone = from.keys().filter(|path| !to.contains_key(*path)).map(|path| Edit::Remove(path));
    let put = to.iter().filter(|(path, file)| from.get(*path) != Some(file));
    gone.chain(put.map(|(path, (mode, content))| Edit::Put(path, mode, content.clone()))).collect()
}

#[derive(Debug, Clone)]
struct Trial {
    base: Vec<usize>,
    agents: Vec<(usize, Vec<Deed>)>,
    order: Vec<usize>,
}

fn trial() -> impl Strategy<Value = Trial> {
    let base = proptest::sample::subsequence((0..PATHS.len()).collect::<Vec<_>>(), 4..PATHS.len());
    let agents = proptest::collection::vec((0..OWNS.len(), proptest::collection::vec(deed(), 1..5)), 2..6);
    (base, agents).prop_flat_map(|(base, agents)| {
        let order = Just((0..agents.len()).collect::<Vec<_>>()).prop_shuffle();
        (Just(base), Just(agents), order).prop_map(|(base, agents, order)| Trial { base, agents, order })
    })
}

const NAMES: [&str; 5] = ["one", "two", "three", "four", "five"];

fn owns(globs: &[&str], path: &str) -> bool {
    globs.iter().any(|glob| match *glob {
        "**" => true,
        "*.txt" => path.strip_suffix(".txt").is_some_and(|stem| !stem.contains('/')),
        "src/*" => path.strip_prefix("src/").is_some_and(|rest| !rest.contains('/')),
        glob => glob.strip_suffix("**").map_or(path == glob, |folder| path.starts_with(folder)),
    })
}

fn try_it(trial: &Trial) {
    let plan = trial.agents.iter().zip(NAMES).map(|((contract, _), name)| task(name, OWNS[*contract], &[])).collect();
    let mut world = World::new(plan);
    let mut files = Files::new();
    for path in &trial.base {
        place(&mut files, PATHS[*path], ("100644", lines(PATHS[*path])));
    }
    let first = world.base.clone();
    let empty: Vec<Edit> = super::world::BASE.iter().map(|(path, _)| Edit::Remove(path)).collect();
    let emptied = world.commit(&first, &[], &empty);
    world.base = world.commit(&emptied, std::slice::from_ref(&first), &edits(&Files::new(), &files));
    world.run("reset", &["-q", "--hard", world.base.as_str()]);
    world.begin();
    let mut told = Vec::new();
    let mut snapshots: Vec<CommitId> = Vec::new();
    for ((_, deeds), name) in trial.agents.iter().zip(NAMES) {
        let mut own = files.clone();
        for deed in deeds {
            apply(&mut own, deed);
        }
        let snapshot = world.commit(&world.base, std::slice::from_ref(&world.base), &edits(&files, &own));
        told.push(world.attempt(name, 1, &world.base, &world.base, &snapshot));
        snapshots.push(snapshot);
    }
    for at in &trial.order {
        world.tell(&told[*at]);
    }
    let before = world.users();
    let made = world.integrate();
    assert_eq!(world.users(), before, "nothing of the user's");

    // The same by git alone: one after the other, in the order of the plan.
    let reference = Reference::new(&world.repository, &world.folder.path().join("reference"));
    let mut tip = world.base.clone();
    let mut merged = BTreeSet::new();
    for (at, snapshot) in snapshots.iter().enumerate() {
        let (base, tree) = (world.tree(&world.base), world.tree(snapshot));
        let changes = world.repository.load_changes(&base, &tree, Renames::Ignore).unwrap();
        let globs = OWNS[trial.agents[at].0];
        let outside = changes.iter().any(|change| !owns(globs, &change.path.to_string()));
        let placed = made.agent(&name(NAMES[at])).unwrap();
        if changes.is_empty() {
            assert_eq!(placed, &Placed::Nothing, "{}", NAMES[at]);
            continue;
        }
        if outside {
            assert!(matches!(placed, Placed::Held(_)), "{}: {placed:?}", NAMES[at]);
            continue;
        }
        match reference.merge(&tip, snapshot) {
            Verdict::Clean(tree) => {
                let changes_something = tree != world.tree(&tip).to_string();
                match placed {
                    Placed::Merged { tree: ours, .. } => assert_eq!(ours.to_string(), tree, "{}", NAMES[at]),
                    Placed::Contained => assert!(!changes_something, "{}", NAMES[at]),
                    other => panic!("{}: {other:?}", NAMES[at]),
                }
                if changes_something {
                    tip = reference.commit_merge_onto(&world.repository, &tip, snapshot, &tree);
                }
                merged.extend(changes.into_iter().map(|change| change.path));
            }
            Verdict::Conflict(stages) => {
                let Placed::Conflict(card) = placed else { panic!("{}: {placed:?}", NAMES[at]) };
                assert_eq!(card.stages.len(), stages.len(), "{}: {card:?}", NAMES[at]);
            }
        }
    }
    assert_eq!(made.tree, world.tree(&tip));
    let brought = world.repository.load_changes(&world.tree(&world.base), &made.tree, Renames::Ignore).unwrap();
    for change in brought {
        // What git carries along with a renamed folder or file stands in one of the contributions under another name.
        let renamed = trial.agents.iter().any(|(_, deeds)| deeds.iter().any(|deed| matches!(deed, Deed::Move(..))));
        assert!(renamed || merged.contains(&change.path), "{} is nobody's", change.path);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(12),
        max_shrink_iters: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_candidate_is_what_git_makes_in_plan_order(trial in trial()) {
        try_it(&trial);
    }
}
