//! The merges of a long history, each made again by ours and by git's own: the same verdict, and the same tree or the same
//! stages.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::super::testing::{Fixture, each_git};
use super::super::*;
use super::reference::{Reference, Verdict};
use crate::model::CommitId;

/// A row of numbers that look random and are always the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below
    }
}

type Tree = BTreeMap<String, (&'static str, Vec<u8>)>;

fn text(dice: &mut Dice) -> Vec<u8> {
    let mut text = String::new();
    for line in 0..10 + dice.roll(30) {
        writeln!(text, "line {line}, {}", dice.roll(1000)).unwrap();
    }
    text.into_bytes()
}

/// The first tree: some folders of some files each.
fn first(dice: &mut Dice) -> Tree {
    let mut tree = Tree::new();
    for folder in 0..12 {
        for file in 0..8 {
            tree.insert(format!("d{folder}/f{file}.txt"), ("100644", text(dice)));
        }
    }
    tree.insert("blob".to_owned(), ("100644", b"\0binary".to_vec()));
    tree.insert("link".to_owned(), ("120000", b"d0/f0.txt".to_vec()));
    tree
}

/// Does one of the things that people do to a tree.
fn change(tree: &mut Tree, dice: &mut Dice) {
    let paths: Vec<String> = tree.keys().cloned().collect();
    let path = paths[dice.roll(paths.len())].clone();
    match dice.roll(20) {
        // An edit of some lines, by far the most frequent.
        0..=11 => {
            let Some((mode, content)) = tree.get_mut(&path) else { return };
            if *mode == "120000" {
                *content = paths[dice.roll(paths.len())].clone().into_bytes();
                return;
            }
            let mut lines: Vec<Vec<u8>> = content.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            for _ in 0..=dice.roll(3) {
                let at = dice.roll(lines.len() + 1);
                let new = format!("edit {}\n", dice.roll(100_000)).into_bytes();
                match dice.roll(3) {
                    0 => lines.insert(at, new),
                    1 if at < lines.len() => lines[at] = new,
                    _ if at < lines.len() && lines.len() > 1 => drop(lines.remove(at)),
                    _ => lines.push(new),
                }
            }
            *content = lines.concat();
        }
        12 => drop(tree.insert(format!("d{}/n{}.txt", dice.roll(14), dice.roll(60)), ("100644", text(dice)))),
        13 if tree.len() > 40 => drop(tree.remove(&path)),
        14 => {
            let file = tree.remove(&path).unwrap();
            tree.insert(format!("d{}/r{}.txt", dice.roll(14), dice.roll(60)), file);
        }
        // A folder renamed.
        15 => {
            let Some((folder, _)) = path.split_once('/') else { return };
            let (old, new) = (format!("{folder}/"), format!("m{}/", dice.roll(20)));
            for path in paths.iter().filter(|path| path.starts_with(&old)) {
                let file = tree.remove(path).unwrap();
                tree.insert(path.replacen(&old, &new, 1), file);
            }
        }
        16 => {
            let Some((mode, _)) = tree.get_mut(&path) else { return };
            *mode = match *mode {
                "100644" => "100755",
                "100755" => "100644",
                other => other,
            };
        }
        17 => drop(tree.insert("blob".to_owned(), ("100644", format!("\0binary {}", dice.roll(1000)).into_bytes()))),
        18 => {
            // Another type: a link, or a file again.
            let Some((mode, content)) = tree.get_mut(&path) else { return };
            (*mode, *content) =
                if *mode == "120000" { ("100644", b"a file now\n".to_vec()) } else { ("120000", b"blob".to_vec()) };
        }
        // The same new file on several branches, now and then with the same content.
        _ => drop(
            tree.insert(format!("common{}", dice.roll(6)), ("100644", format!("v{}\n", dice.roll(3)).into_bytes())),
        ),
    }
    // A file and a folder cannot have one name.
    let names: Vec<String> = tree.keys().cloned().collect();
    for name in &names {
        let below = format!("{name}/");
        if tree.range(below.clone()..).next().is_some_and(|(other, _)| other.starts_with(&below)) {
            tree.remove(name);
        }
    }
}

/// Writes a history of so many commits on eight branches, every `apart`-th of them a merge.
fn write_history(fixture: &Fixture, commits: usize, apart: usize) {
    let mut dice = Dice(20_260_101);
    let mut stream = Vec::new();
    let mut heads: Vec<(usize, Tree)> = Vec::new();
    let mut emit = |mark: usize, parents: &[usize], before: &Tree, tree: &Tree| {
        let who = format!("A <a@example.com> {} +0000", 1_700_000_000 + mark);
        let mut head = format!("commit refs/test/history\nmark :{mark}\nauthor {who}\ncommitter {who}\ndata 2\nm\n\n");
        for (at, parent) in parents.iter().enumerate() {
            writeln!(head, "{} :{parent}", if at == 0 { "from" } else { "merge" }).unwrap();
        }
        stream.extend(head.bytes());
        for path in before.keys().filter(|path| !tree.contains_key(*path)) {
            stream.extend(format!("D {path}\n").bytes());
        }
        for (path, file) in tree.iter().filter(|(path, file)| before.get(*path) != Some(file)) {
            stream.extend(format!("M {} inline {path}\ndata {}\n", file.0, file.1.len()).bytes());
            stream.extend(&file.1);
            stream.push(b'\n');
        }
    };
    let tree = first(&mut dice);
    emit(1, &[], &Tree::new(), &tree);
    heads.extend((0..8).map(|_| (1, tree.clone())));
    for mark in 2..=commits {
        let at = dice.roll(heads.len());
        let (parent, before) = heads[at].clone();
        let other = dice.roll(heads.len());
        if mark % apart == 0 && heads[other].0 != parent {
            // What such a merge was resolved to is of no matter to the next one.
            let (second, theirs) = heads[other].clone();
            let mut tree = before.clone();
            let taken = theirs.into_iter().filter(|(path, _)| {
                let clash =
                    |known: &String| known.starts_with(&format!("{path}/")) || path.starts_with(&format!("{known}/"));
                !before.contains_key(path) && !before.keys().any(clash)
            });
            tree.extend(taken);
            emit(mark, &[parent, second], &before, &tree);
            // Both go on from it, as where work is merged often; else no two branches would merge for long.
            heads[other] = (mark, tree.clone());
            heads[at] = (mark, tree);
        } else {
            let mut tree = before.clone();
            change(&mut tree, &mut dice);
            emit(mark, &[parent], &before, &tree);
            heads[at] = (mark, tree);
        }
    }
    for (at, (mark, _)) in heads.iter().enumerate() {
        stream.extend(format!("reset refs/heads/branch-{at}\nfrom :{mark}\n\n").bytes());
    }
    stream.extend(b"done\n");
    let import = Command::new(&fixture.git, Access::Write, "fast-import").args(["--quiet", "--done"]);
    drop(import.folder(fixture.root()).input(Input::Bytes(stream)).success().unwrap());
}

/// Every merge of the history, made again.
fn replay(git: &Git, commits: usize, apart: usize) -> (usize, BTreeMap<String, usize>) {
    let fixture = Fixture::new(git);
    write_history(&fixture, commits, apart);
    let reference = Reference::new(&fixture.repository, &fixture.folder.path().join("reference"));
    let listed = fixture.run("rev-list", ["--merges", "--parents", "--branches"]);
    let mut kinds = BTreeMap::new();
    let mut merges = 0;
    for line in listed.lines() {
        let ids: Vec<CommitId> = line.split(' ').map(|id| id.parse().unwrap()).collect();
        let [_, ours, theirs] = ids.as_slice() else { panic!("{line}") };
        let preview = Merger::new(&fixture.repository, ours).unwrap().preview(ours, theirs).unwrap();
        reference.assert_same(&Verdict::of(&preview), [ours, theirs]);
        let found = match &preview {
            Preview::Clean { .. } => vec!["clean".to_owned()],
            Preview::Conflict(conflict) => conflict.kinds.clone(),
        };
        for kind in found {
            *kinds.entry(kind).or_insert(0) += 1;
        }
        merges += 1;
    }
    (merges, kinds)
}

#[test]
fn the_merges_of_a_history_are_gits_own() {
    let git = Git::find(None).unwrap();
    let (merges, kinds) = replay(&git, 800, 16);
    assert!(merges >= 30 && kinds.len() >= 4 && kinds["clean"] > 3, "{merges} {kinds:?}");
}

#[test]
#[ignore = "takes minutes"]
#[expect(clippy::print_stdout, reason = "the figures are what it is run for")]
fn the_merges_of_a_long_history_are_gits_own() {
    each_git(|git| {
        let (merges, kinds) = replay(git, 5000, 15);
        println!("{merges} merges of 5000 commits, by git {}: {kinds:?}", git.version());
        assert!(merges >= 200 && kinds.len() >= 6 && kinds["clean"] > 20, "{merges} {kinds:?}");
    });
}
