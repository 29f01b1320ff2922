//! What a capture takes in, whatever the agent did to its worktree and to its git directory.
//!
//! Each case of a table is a turn of its own. In the moment its end is told nothing of the agent runs: the tree that was
//! recorded must then be what lies on the disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use worktree_sandbox::model::AttemptOutcome;
use worktree_sandbox::model::RepoPath;
use worktree_sandbox::model::change::TurnRecord;
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
    excludesFile = ~/ignored
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

/// What was there when a turn ended: the disk, and the tree that git makes of it.
type Look = (Files, Option<String>);

/// Runs each case as a turn of one attempt, and asserts that its tree is the disk.
async fn run_cases(bench: &mut Bench, cases: &[Case], with_naive: bool) -> Vec<Seen> {
    let disks: Arc<Mutex<Vec<Look>>> = Arc::default();
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
            // A pipe in the place of a file would keep it waiting.
            let output = Command::new("timeout")
                .args(["1", "git"])
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
    std::fs::write(world.home().join("ignored"), "*.swp\n").unwrap();
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
        without("ignored by the user everywhere", "echo x > a.swp", &[b"a.swp"]),
        case("removed", "rm a.swp"),
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

/// What stands before each lie: the agent's git directory as it was at first, and a change to lie about.
const HONEST: &str = r"
G=$(git rev-parse --path-format=absolute --git-common-dir); A=$(git rev-parse --path-format=absolute --git-dir)
";

const FIRST: &str = r#"
mkdir -p /tmp/honest && cp -a "$G/." /tmp/honest/ 2>/dev/null || true
"#;

const RESTORE: &str = r#"
G=$(cat /tmp/common); A=$(cat /tmp/admin)
for f in "$G"/* "$G"/.[a-z]*; do case "$f" in */parent-objects) ;; *) rm -rf "$f";; esac; done
for f in /tmp/honest/*; do case "$f" in */parent-objects) ;; *) cp -a "$f" "$G/";; esac; done
rm -f .gitattributes; git -C . add -A 2>/dev/null || true
n=$(cat /tmp/n 2>/dev/null || echo 0); n=$((n+1)); echo $n > /tmp/n
echo "content $n" > src/a.txt; echo "new $n" > "untracked-$n"; rm -rf docs; mkdir docs; echo "$n" > "docs/$n"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn no_lie_of_the_agents_git_directory_is_believed() {
    let mut bench = Bench::new(odd_world()).await;
    let files = foreign_files(bench.repository.common_dir());
    let prepare = format!("{HONEST}{FIRST}echo \"$G\" > /tmp/common; echo \"$A\" > /tmp/admin; echo first > first");
    let lies: [(&'static str, &'static str); 23] = [
        ("everything excluded", r#"echo '*' > "$G/info/exclude""#),
        (
            "another work tree",
            r"mkdir -p /tmp/else; echo lie > /tmp/else/lie; git config extensions.worktreeConfig true; git config --worktree core.worktree /tmp/else",
        ),
        ("no work tree", "git config extensions.worktreeConfig true; git config --worktree core.bare true"),
        ("a filter", r"git config filter.f.clean 'echo lie'; echo '*.txt filter=f' > .gitattributes"),
        (
            "a filter in info/attributes",
            r#"git config filter.f.clean 'echo lie'; echo '*.txt filter=f' > "$G/info/attributes""#,
        ),
        (
            "a filter that must work",
            r#"git config filter.f.clean false; git config filter.f.required true; echo '* filter=f' > "$G/info/attributes""#,
        ),
        (
            "a forged index",
            r"git update-index --add --cacheinfo 100644,$(git hash-object -w first),src/a.txt; git update-index --assume-unchanged src/a.txt",
        ),
        ("assumed unchanged", "git update-index --assume-unchanged src/a.txt"),
        ("skipped", "git update-index --skip-worktree src/a.txt run.sh; rm run.sh"),
        ("an index of rubbish", r#"head -c 5000 /dev/urandom > "$A/index""#),
        ("half an index", r#"head -c 40 "$A/index" > /tmp/i; cp /tmp/i "$A/index""#),
        ("no index, and everything excluded", r#"rm -f "$A/index"; echo '*' > "$G/info/exclude""#),
        ("an index that is a pipe", r#"rm -f "$A/index"; mkfifo "$A/index"; echo '*' > "$G/info/exclude""#),
        ("an index that is a link", r#"ln -sf /etc/passwd "$A/index""#),
        ("an index in two parts", r#"git update-index --split-index; echo '*' > "$G/info/exclude""#),
        (
            "a monitor",
            r#"printf '#!/bin/sh\nprintf "now\\0"\n' > /tmp/mon; chmod +x /tmp/mon; git config core.fsmonitor /tmp/mon; git config core.fsmonitorHookVersion 2; git update-index --fsmonitor; git status >/dev/null; echo late > src/b.txt; echo '*' > "$G/info/exclude""#,
        ),
        ("settings of rubbish", r#"echo '[' > "$G/config""#),
        ("unknown format", "git config core.repositoryFormatVersion 99"),
        (
            "an include",
            r#"printf '[core]\n\tfileMode = false\n' > "$G/inc"; git config include.path inc; chmod +x src/a.txt"#,
        ),
        ("a HEAD of rubbish", r#"echo rubbish > "$A/HEAD""#),
        ("a HEAD that is a pipe", r#"rm "$A/HEAD"; mkfifo "$A/HEAD""#),
        ("no git directory at all", r#"rm -rf "$G"/* 2>/dev/null || true"#),
        (
            "ignored case and modes",
            "git config core.fileMode false; git config core.ignoreCase true; chmod +x src/b.txt; git config core.symlinks false; rm -f l; ln -s first l; echo '*' > \"$G/info/exclude\"",
        ),
    ];
    let scripts: Vec<String> = lies.iter().map(|(_, lie)| format!("{RESTORE}{lie}")).collect();
    let prepare: &'static str = prepare.leak();
    let mut cases = vec![case("honest", prepare)];
    cases.extend(lies.iter().zip(scripts).map(|((name, _), script)| case(name, script.leak())));
    let seen = run_cases(&mut bench, &cases, true).await;
    assert_eq!(seen[0].naive.as_deref(), Some(seen[0].record.tree.as_str()), "without a lie both agree");
    let harmless: Vec<&str> = seen[1..]
        .iter()
        .filter(|seen| seen.naive.as_deref() == Some(seen.record.tree.as_str()))
        .map(|seen| seen.name)
        .collect();
    assert_eq!(harmless, Vec::<&str>::new(), "these are no lies: git itself sees through them");
    for seen in &seen[1..] {
        let names: Vec<_> = seen.captured.keys().filter(|name| name.starts_with(b"untracked-")).collect();
        assert!(!names.is_empty(), "{}", seen.name);
    }
    let after = foreign_files(bench.repository.common_dir());
    assert!(files.iter().all(|(path, hash)| after.get(path) == Some(hash)), "the user's git directory is as it was");
}

/// Content that stands under the name of other content: git believes that a file is stored already.
const FORGED: &str = r#"
G=$(git rev-parse --path-format=absolute --git-common-dir)/objects
at() { echo "$G/$(echo $1 | cut -c-2)/$(echo $1 | cut -c3-)"; }
real=$(echo real | git hash-object --stdin); liar=$(echo liar | git hash-object -w --stdin)
mkdir -p "$(dirname "$(at $real)")"; cp "$(at $liar)" "$(at $real)"; echo real > forged
half=$(echo half | git hash-object -w --stdin); chmod u+w "$(at $half)"; head -c 5 "$(at $half)" > /tmp/half; cp /tmp/half "$(at $half)"; echo half > damaged
echo /nonexistent > "$G/info/alternates"
git add forged 2>/dev/null && git cat-file -p :forged 2>/dev/null
"#;

#[tokio::test(flavor = "multi_thread")]
async fn no_object_of_the_agents_stands_in_for_a_file() {
    let mut bench = Bench::new(World::new()).await;
    run_cases(&mut bench, &[case("forged objects", FORGED)], false).await;
    assert_eq!(bench.memory.printed(), "liar\n", "git itself believes it");
    assert_eq!(bench.snapshot()[&b"forged"[..]].1, b"real\n");
    assert_eq!(bench.snapshot()[&b"damaged"[..]].1, b"half\n");
    bench.world.git(&["fsck", "--strict", "--no-dangling"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_captured_is_named() {
    let mut bench = Bench::new(odd_world()).await;
    let cases = [
        case("a pipe", "mkfifo pipe; mkfifo docs/pipe; echo x > beside"),
        case("a file that became a pipe", "rm docs/x.txt; mkfifo docs/x.txt"),
        case("a pipe that became a file", "rm pipe; echo x > pipe"),
        case(
            "a socket",
            "rm docs/pipe docs/x.txt; perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => \"sock\", Listen => 1) or die'",
        ),
        without("shut", "echo x > shut; chmod 000 shut", &[b"shut"]),
        case("opened", "chmod 644 shut"),
        case(
            "a repository",
            "mkdir sub; git -C sub init -q; echo x > sub/x; git -C sub add x; git -C sub commit -qm x",
        ),
        case("a repository without commits", "mkdir bare; git -C bare init -q; echo x > bare/x"),
        case(
            "a forced file in a repository",
            "git add -A 2>/dev/null || true; git update-index --add --cacheinfo 100644,$(git hash-object -w README.md),sub/x",
        ),
        case("no repository any more", "rm -rf sub/.git bare/.git"),
        case("a file into a repository", "git -C docs init -q; echo x > docs/new"),
    ];
    let seen = run_cases(&mut bench, &cases, false).await;
    let of = |name: &str| &seen.iter().find(|seen| seen.name == name).unwrap().record;
    let refused = |name: &str| of(name).not_captured.refused.join("\n");
    assert_eq!(refused("a pipe"), "`docs/pipe` is a named pipe\n`pipe` is a named pipe");
    assert!(refused("a file that became a pipe").contains("`docs/x.txt` is a named pipe"));
    assert_eq!(of("a file that became a pipe").change_set.deleted_paths, paths(&["docs/x.txt"]));
    assert!(refused("a socket").contains("`sock` is a socket"));
    assert!(refused("shut").contains("unable to index file 'shut'"), "{}", refused("shut"));
    assert_eq!(of("a repository").not_captured.nested_repositories, paths(&["sub"]));
    assert!(refused("a repository without commits").contains("'bare/' does not have a commit checked out"));
    for (turn, file) in [
        ("a repository", "sub/x"),
        ("a repository without commits", "bare/x"),
        ("a file into a repository", "docs/new"),
    ] {
        let (folder, file) = file.split_once('/').unwrap();
        let told =
            of(turn).not_captured.refused.iter().find(|line| line.starts_with(&format!("`{folder}` is a repository")));
        let kept = told.and_then(|line| line.rsplit(' ').next()).unwrap();
        assert_eq!(bench.world.git(&["cat-file", "-t", &format!("{kept}:{file}")]), "blob", "{turn}: {told:?}");
        bench.world.git(&["merge-base", "--is-ancestor", kept, of(turn).snapshot.as_str()]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_commit_of_the_agents_is_lost() {
    let mut bench = Bench::new(World::new()).await;
    let work = r#"
note() { git rev-parse "$1^{commit}" >> /tmp/ids; }
git config user.useConfigOnly true
echo 1 > one; git add one; git commit -qm one; note HEAD
echo s1 >> README.md; git stash -q; echo s2 >> README.md; git stash -q; echo s3 > u; git stash -q -u
note stash@{0}; note stash@{1}; note stash@{2}
git checkout -q -b side; git commit -q --allow-empty -m side; note side; git checkout -q -
git checkout -q --detach; git commit -q --allow-empty -m tagged; git tag -a -m t v9; note v9; git tag -m blob blob "HEAD:one"
git pack-refs --all; git checkout -q --orphan alone; git commit -qm alone; note alone
git worktree add -q --detach /tmp/second; git -C /tmp/second commit -q --allow-empty -m second; note "$(git -C /tmp/second rev-parse HEAD)"; cp /tmp/ids ids
"#;
    let end = bench.attempt(&[work, "true", "echo more > more"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    let ids = std::fs::read_to_string(bench.worktree().join("ids")).unwrap();
    assert_eq!(ids.lines().count(), 8);
    for (line, id) in ids.lines().enumerate() {
        let asked = bench.world.try_git(&["merge-base", "--is-ancestor", id, bench.record(1, 1).snapshot.as_str()]);
        assert_eq!(asked.code, Some(0), "commit {line}: {}", asked.stderr);
    }
    let first = bench.record(1, 1);
    assert!(first.history_rewritten && first.agent_head.is_some());
    assert!(first.not_captured.refused.is_empty(), "{:?}", first.not_captured);
    // What is kept is kept: the turns after it add nothing.
    assert_eq!((bench.record(1, 2).snapshot, bench.record(1, 2).kept_tips), (first.snapshot, vec![]));
    assert_eq!(bench.record(1, 3).kept_tips, vec![]);
    bench.check_replay();
    assert_eq!(bench.world.git(&["branch", "--list", "side"]), "", "the agent's branches are its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_of_the_user_are_left_out_on_both_ways() {
    let world = World::new();
    world.write(".gitattributes", "*.up filter=shout\n*.gone filter=gone\n");
    world.write("a.up", "Mixed Case\n");
    world.write("b.gone", "pointer\n");
    world.commit("files with filters");
    let config = world.home().join(".gitconfig");
    std::fs::write(&config, std::fs::read_to_string(&config).unwrap() + HOSTILE).unwrap();
    let scratch = world.home().join("plain");
    let plain = world.try_git(&["worktree", "add", "-q", "--detach", scratch.to_str().unwrap()]);
    assert_ne!(plain.code, Some(0), "git itself obeys the filters, and fails");
    world.git(&["worktree", "prune"]);
    let mut bench = Bench::new(world).await;
    let end = bench.attempt(&["grep -qx 'Mixed Case' a.up; test -z \"$(git status --porcelain)\""]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    let end = bench.attempt(&["echo Other > c.up"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert_eq!(bench.snapshot()[&b"c.up"[..]].1, b"Other\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn line_ends_are_what_gits_attributes_say() {
    let world = World::without_commits();
    world.write(
        ".gitattributes",
        "*.crlf text eol=crlf\n*.utf16 text working-tree-encoding=UTF-16LE\n*.id ident\n*.raw -text\n",
    );
    world.write("a.crlf", "one\r\ntwo\r\n");
    world.write("a.utf16", "o\0n\0e\0\n\0");
    world.write("a.id", "$Id$\n");
    world.write("a.raw", "one\r\n");
    world.commit("base");
    let mut bench = Bench::new(world).await;
    let end = bench.attempt(&["true"]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    let work = "printf 'three\\r\\n' >> a.crlf; printf 't\\0' >> a.utf16; echo more >> a.id; printf 'x\\r\\n' >> a.raw; echo '*.late text' >> .gitattributes; printf 'y\\r\\n' > b.late";
    let end = bench.attempt(&[work]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    bench.check_replay();
    let files = bench.snapshot();
    for (name, content) in [
        ("a.crlf", "one\ntwo\nthree\n"),
        ("a.utf16", "one\nt"),
        ("a.id", "$Id$\nmore\n"),
        ("a.raw", "one\r\nx\r\n"),
        ("b.late", "y\n"),
    ] {
        assert_eq!(String::from_utf8_lossy(&files[name.as_bytes()].1), content, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sparse_checkout_loses_nothing() {
    let world = World::new();
    world.git(&["sparse-checkout", "set", "src"]);
    let mut bench = Bench::new(world).await;
    assert!(!bench.worktree().join("docs").exists(), "the worktree is as sparse as the checkout");
    let end = bench.attempt(&["test -z \"$(git status --porcelain)\""]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    let end =
        bench.attempt(&["echo x >> src/a.txt; mkdir -p docs other; echo new > docs/new; echo new > other/new"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    let names = ["README.md", "docs/new", "docs/x.txt", "other/new", "src/a.txt", "src/b.txt"];
    assert_eq!(bench.names(), names, "what is outside the cone is there, new or not");
    bench.check_replay();
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stderr, reason = "a case that cannot run says so")]
async fn other_forms_of_repositories_are_captured_as_well() {
    for form in ["--object-format=sha256", "--ref-format=reftable"] {
        let world = World::without_commits();
        std::fs::remove_dir_all(world.repo.join(".git")).unwrap();
        let made = world.try_git(&["init", "-q", form]);
        if made.code != Some(0) {
            assert!(form.contains("reftable") && made.stderr.contains("unknown option"), "{made:?}");
            eprintln!("SKIPPED: this git knows no {form}");
            continue;
        }
        world.write("a", "1\n");
        world.commit("base");
        let mut bench = Bench::new(world).await;
        let work = "echo 2 > a; git commit -qam two; echo s > a; git stash -q; echo x > b; touch -d @1000000000 b";
        let end = bench.attempt(&[work, "echo y > b; touch -d @1000000000 b", "rm a"]).await;
        assert_eq!(end.outcome, AttemptOutcome::Completed, "{form}: {} {}", bench.reason(), bench.memory.printed());
        bench.check_replay();
        assert!(bench.record(1, 1).agent_head.is_some() && bench.record(1, 1).kept_tips.len() == 1, "{form}");
        assert_same(form, &bench.snapshot(), &disk(bench.worktree()));
    }
}
