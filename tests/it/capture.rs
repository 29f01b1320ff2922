//! What a capture takes in, whatever the agent did to its worktree and to its git directory.
//!
//! Each case of a table is a turn of its own. In the moment its end is told nothing of the agent runs: the tree that was
//! recorded must then be what lies on the disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use worktree_sandbox::model::AttemptOutcome;
use worktree_sandbox::model::RepoPath;
use worktree_sandbox::model::change::{Actor, CheckpointKind, TurnRecord};
use worktree_sandbox::model::event::EventKind;

use crate::bench::{Bench, Files, assert_same, disk, foreign_files};
use crate::world::World;

/// What git's own settings of a user may be. None of it may change a tree or a patch.
const HOSTILE: &str = r#"
[color]
    ui = always
[core]
    quotePath = true
    hooksPath = /nonexistent/hooks
    fsmonitor = /bin/false
    abbrev = 5
    safecrlf = true
    compression = 0
    bigFileThreshold = 1
    pager = false
    untrackedCache = true
    splitIndex = true
[diff]
    noprefix = true
    mnemonicPrefix = true
    external = /bin/false
    renames = copies
    algorithm = patience
    context = 0
    suppressBlankEmpty = true
    relative = true
    ignoreSubmodules = all
    submodule = log
[apply]
    whitespace = error
    ignoreWhitespace = change
[status]
    showUntrackedFiles = no
[commit]
    gpgSign = true
[index]
    version = 4
    skipHash = true
[feature]
    manyFiles = true
[checkout]
    workers = 8
[filter "shout"]
    smudge = tr a-z A-Z
    clean = tr A-Z a-z
    required = true
[filter "gone"]
    smudge = /nonexistent/smudge
    process = /nonexistent/process
    required = true
"#;

/// One turn: what it is called, what it does, and what is then on the disk but not in the tree.
struct Case {
    name: &'static str,
    script: &'static str,
    left_out: &'static [&'static [u8]],
}

const fn case(name: &'static str, script: &'static str) -> Case {
    Case { name, script, left_out: &[] }
}

const fn without(name: &'static str, script: &'static str, left_out: &'static [&'static [u8]]) -> Case {
    Case { name, script, left_out }
}

/// A turn that has ended, and the disk at that time.
struct Seen {
    name: &'static str,
    record: TurnRecord,
    disk: Files,
    captured: Files,
    /// What `git add -A` with the agent's own git directory makes of it; `None` where that fails.
    naive: Option<String>,
}

/// Runs each case as a turn of one attempt, and asserts that its tree is the disk.
async fn run_cases(bench: &mut Bench, cases: &[Case], with_naive: bool) -> Vec<Seen> {
    let disks: Arc<Mutex<Vec<(Files, Option<String>)>>> = Arc::default();
    let (worktree, seen) = (bench.worktree().to_owned(), Arc::clone(&disks));
    let naive = with_naive.then(|| Naive::of(bench));
    bench.memory.observe(move |event| {
        if matches!(event.kind, EventKind::TurnFinished(_)) {
            let tree = naive.as_ref().and_then(Naive::tree);
            seen.lock().unwrap().push((disk(&worktree), tree));
        }
    });
    let scripts: Vec<&str> = cases.iter().map(|case| case.script).collect();
    let end = bench.attempt(&scripts).await;
    bench.expect(&end, AttemptOutcome::Completed);
    bench.check_replay();
    let disks = std::mem::take(&mut *disks.lock().unwrap());
    assert_eq!(disks.len(), cases.len());
    let mut found = Vec::new();
    for (number, (case, (mut disk, naive))) in (1..).zip(cases.iter().zip(disks)) {
        let record = bench.record(bench.attempts, number);
        let captured = bench.tree(&record.tree);
        for path in case.left_out {
            assert!(disk.remove(*path).is_some(), "{}: `{}` is on the disk", case.name, path.escape_ascii());
        }
        let gitlinks = captured.iter().filter(|(_, (mode, _))| mode == "160000");
        disk.extend(gitlinks.map(|(path, entry)| (path.clone(), entry.clone())));
        assert_same(case.name, &captured, &disk);
        found.push(Seen { name: case.name, record, disk, captured, naive });
    }
    found
}

/// What git makes of a worktree when it is asked with the agent's own git directory.
struct Naive {
    repo_objects: PathBuf,
    git: PathBuf,
    id: String,
    worktree: PathBuf,
}

impl Naive {
    fn of(bench: &Bench) -> Self {
        Self {
            repo_objects: bench.repository.common_dir().join("objects"),
            git: bench.workspace.place.git(),
            id: bench.workspace.place.name().to_owned(),
            worktree: bench.worktree().to_owned(),
        }
    }

    /// In copies, so that asking changes nothing.
    fn tree(&self) -> Option<String> {
        let scratch = tempfile::tempdir().unwrap();
        let worktree = scratch.path().join("worktree");
        let git = scratch.path().join("git");
        for (from, to) in [(&self.worktree, &worktree), (&self.git, &git)] {
            let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
            assert!(copied.success());
        }
        std::fs::remove_file(worktree.join(".git")).ok();
        let admin = git.join("worktrees").join(&self.id);
        let git = |arguments: &[&str]| {
            let output = Command::new("git")
                .args(arguments)
                .env_clear()
                .env("PATH", "/usr/local/bin:/usr/bin:/bin")
                .env("HOME", "/nonexistent")
                .env("GIT_DIR", &admin)
                .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &self.repo_objects)
                .current_dir(&worktree)
                .output()
                .unwrap();
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        git(&["add", "-A"])?;
        git(&["write-tree"])
    }
}

fn paths(names: &[&str]) -> Vec<RepoPath> {
    names.iter().map(|name| RepoPath::from(*name)).collect()
}

/// A world whose repository has an odd file of each kind, and whose user has odd settings.
fn odd_world() -> World {
    let world = World::without_commits();
    world.write(".gitignore", "*.log\n/ignored/\n");
    world.write("README.md", "readme\n");
    world.write("src/a.txt", &crate::world::lines("a"));
    world.write("src/b.txt", &crate::world::lines("b"));
    world.write("run.sh", "#!/bin/sh\n");
    world.write("docs/x.txt", "x\n");
    world.commit("base");
    let config = world.home().join(".gitconfig");
    let text = std::fs::read_to_string(&config).unwrap() + HOSTILE;
    std::fs::write(config, text).unwrap();
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_work_is_captured() {
    let mut bench = Bench::new(odd_world()).await;
    let (before, files) = (bench.world.picture(), foreign_files(bench.repository.common_dir()));
    let cases = [
        case("untracked", "echo new > new.txt; mkdir -p deep/er; echo x > deep/er/file"),
        case("modified", "echo more >> src/a.txt"),
        case("staged", "echo staged > staged; git add staged; echo over >> staged"),
        case("committed", "echo c > committed; git add committed; git commit -qm one; echo later >> committed"),
        case("amended", "echo d >> committed; git commit -qa --amend -m two"),
        case("the base amended", "git reset -q --soft HEAD~1; git commit -qa --amend -m other"),
        case("deleted", "rm docs/x.txt"),
        case("deleted, staged", "git rm -qf staged"),
        case("renamed", "mv src/b.txt src/c.txt"),
        case("renamed by git", "git add -A; git mv src/c.txt src/d.txt"),
        case("case only", "mv README.md readme.md"),
        case("mode", "chmod +x src/a.txt; chmod -x run.sh"),
        case("mode back", "chmod -x src/a.txt; chmod +x run.sh"),
        case("symlink", "ln -s src/a.txt link; ln -s /etc/passwd out; ln -s nowhere dangling; ln -s . self"),
        case("symlink to file", "rm link; echo file > link"),
        case("file to symlink", "rm new.txt; ln -s deep new.txt"),
        case("folder to symlink", "rm -r deep; ln -s src deep"),
        case("symlink to folder", "rm deep; mkdir deep; echo x > deep/y"),
        case("file to folder", "rm link; mkdir link; echo x > link/in"),
        case("folder to file", "rm -r link; echo x > link"),
        case("binary", "printf '\\000\\001\\377' > bin; head -c 100000 /dev/urandom > random"),
        case("binary changed", "printf '\\000\\002' >> bin; printf x >> random"),
        case("crlf", "printf 'a\\r\\nb\\r\\n' > crlf; printf 'a\\r\\nb\\n' > mixed; printf 'a\\rb' > cr"),
        case("no newline at the end", "printf 'a\\nb' > nonl; printf 'x' >> src/a.txt"),
        case("newline again", "printf '\\n' >> nonl"),
        case("empty", ": > empty; mkdir nothing"),
        case("emptied", ": > crlf"),
        case("filled", "echo 1 > empty"),
        case(
            "odd names",
            "e=$(printf 'x\\377'); touch -- '-dash' '--all' ':(top)x' '*' 'a b' 'q\"q' 'tab\there' \"new\nline\" ünï 'back\\slash' \"$e\" '#x' '!x' ' lead' 'trail '",
        ),
        case("odd names changed", "for f in -dash '*' \"new\nline\" ünï; do echo 1 >> \"./$f\"; done"),
        case("odd names renamed", "mv -- '-dash' '--'; mv ünï ĝis"),
        case("long name", "n=$(printf '%0250d' 0); mkdir $n; echo x > $n/$n"),
        without("ignored", "echo x > a.log; mkdir ignored; echo x > ignored/y", &[b"a.log", b"ignored/y"]),
        without("ignored, forced", "git add -f a.log; git commit -qm forced a.log", &[b"ignored/y"]),
        without("ignored, forced, changed", "echo more >> a.log", &[b"ignored/y"]),
        case("ignored no more", "echo > .gitignore"),
        case("stashed", "git add -A; git commit -qm all; echo stash >> src/a.txt; git stash -q; echo kept > kept"),
        case("branched", "git checkout -q -b other; echo o > other; git add other; git commit -qm other"),
        case(
            "rebased",
            "git checkout -q -b third HEAD~1; echo 3 > three; git add three; git commit -qm 3; git rebase -q other",
        ),
        case("detached", "git checkout -q --detach; echo det > det; git add det; git commit -qm det"),
        case("orphan", "git checkout -q --orphan lone; git rm -rqf --cached .; echo lone > lone"),
        case("reset", "git reset -q --hard other || git checkout -qf other; rm -f lone"),
        case("nothing", "true"),
        case("same size, same time", "echo aaaa > same; touch -d @1000000000 same"),
        case("same size, same time, other content", "echo bbbb > same; touch -d @1000000000 same"),
    ];
    let seen = run_cases(&mut bench, &cases, false).await;

    let of = |name: &str| &seen.iter().find(|seen| seen.name == name).unwrap().record;
    assert!(of("the base amended").history_rewritten);
    assert!(of("orphan").agent_head.is_none());
    assert!(of("nothing").empty && of("nothing").patch.is_none());
    assert_eq!(of("ignored").not_captured.ignored, paths(&["a.log", "ignored/"]));
    assert_eq!(of("ignored, forced").not_captured.ignored, paths(&["ignored/"]));
    assert!(!of("stashed").kept_tips.is_empty(), "a stash is kept");
    let renamed = &of("renamed").change_set;
    assert_eq!(
        (renamed.renamed_paths[0].from.to_string(), renamed.renamed_paths[0].to.to_string()),
        ("src/b.txt".into(), "src/c.txt".into())
    );
    assert_eq!(renamed.changed_paths, paths(&["src/b.txt", "src/c.txt"]));
    for seen in &seen {
        assert_eq!(seen.record.not_captured.refused, Vec::<String>::new(), "{}", seen.name);
        assert!(!seen.captured.is_empty() && !seen.disk.is_empty(), "{}", seen.name);
    }

    assert_eq!(bench.world.picture(), before, "the user's repository is as it was");
    let after = foreign_files(bench.repository.common_dir());
    let strange: Vec<&Path> = after
        .iter()
        .filter(|(path, hash)| files.get(*path) != Some(hash) && !path.starts_with("objects/pack"))
        .map(|(path, _)| path.as_path())
        .chain(files.keys().filter(|path| !after.contains_key(*path)).map(PathBuf::as_path))
        .collect();
    assert_eq!(strange, Vec::<&Path>::new(), "files of the git directory that are not ours");
    bench.world.git(&["fsck", "--strict", "--no-dangling"]);
}
