//! An agent's git directory is its own: all of git works in it, and nothing it does there reaches the user's repository but
//! what is fit for it.

use std::fs;

use worktree_sandbox::model::event::EventKind;
use worktree_sandbox::model::{AttemptOutcome, RefName, TurnId};

use crate::bench::{Bench, assert_same, disk, foreign_files};
use crate::world::World;

/// A world whose repository has a history to work with: two branches, a tag, a stash, a commit that no ref names.
fn world_with_history() -> World {
    let world = World::new();
    world.git(&["branch", "side"]);
    world.git(&["tag", "-a", "-m", "first", "v1"]);
    world.write("src/a.txt", &crate::world::lines("a").replace("a line 3\n", "a line three\n"));
    world.commit("second");
    world.git(&["config", "remote.origin.url", "https://user:secret@example.org/a.git"]);
    world.git(&["config", "credential.helper", "!echo password=secret"]);
    world.write("README.md", "stashed\n");
    world.git(&["stash", "-q"]);
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn everyday_git_works_and_stays_inside() {
    let mut bench = Bench::new(world_with_history()).await;
    let (picture, files) = (bench.world.picture(), foreign_files(bench.repository.common_dir()));
    let work = r#"
exec 2>&1
export GIT_EDITOR=true GIT_SEQUENCE_EDITOR=true GIT_PAGER=cat
git status; git log --oneline; git branch -a; git tag; git show v1 >/dev/null; git blame src/a.txt >/dev/null
test "$(git symbolic-ref --short HEAD)" = sandbox/t-1/worker
test -z "$(git for-each-ref refs/stash refs/sandbox)"
git config --local core.test yes; test "$(git config core.test)" = yes
echo one > one; git add one; git commit -qm "one"; git commit -q --amend -m "one, amended"
git checkout -q -b topic; echo two > two; git add two; git commit -qm two; echo 2 >> two; git commit -qam "fixup! two"
git rebase -q -i --autosquash sandbox/t-1/worker
git checkout -q sandbox/t-1/worker; git merge -q --no-ff -m merged topic
git revert --no-edit -m 1 HEAD >/dev/null; git cherry-pick topic >/dev/null
git stash list; echo s >> one; git stash push -q; git stash pop -q; git stash push -q; git stash drop -q
git tag mine; git branch -m topic renamed; git branch -D renamed; git rebase -q main; git diff main --stat >/dev/null
git bisect start HEAD v1 >/dev/null; git bisect reset
git notes add -m note; git worktree add -q /tmp/other; git worktree remove /tmp/other; git clean -nd; git reflog >/dev/null
git gc -q --prune=now; git repack -qad; git fsck --no-dangling; git archive HEAD >/dev/null
git submodule status; git sparse-checkout init --cone; git sparse-checkout disable
git init -q /tmp/scratch; cd /tmp/scratch; echo x > x; git add x; git commit -qm x; test "$(git log --format=%an)" = Tester
cd "$OLDPWD"; git log -1 --format='%an <%ae>'; git remote -v
! GIT_CONFIG_NOSYSTEM=1 git config --get-regexp 'credential|include|hook|filter'
"#;
    let end = bench.attempt(&[work]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    let printed = bench.memory.printed();
    assert!(printed.contains("Tester <tester@example.org>"), "{printed}");
    assert!(printed.contains("https://example.org/a.git") && !printed.contains("secret"), "{printed}");
    assert_eq!(bench.world.picture(), picture);
    let after = foreign_files(bench.repository.common_dir());
    let changed: Vec<_> = files.iter().filter(|(path, hash)| after.get(*path) != Some(hash)).collect();
    assert!(changed.is_empty(), "{changed:?}");
    // The commits are there for the user, by the agent's own branch.
    let log = bench.world.git(&["log", "--format=%s %an", "sandbox/t-1/worker"]);
    assert!(log.contains("one, amended Tester") && log.contains("two Tester"), "{log}");
    assert_same("the tree", &bench.snapshot(), &disk(bench.worktree()));
}

/// What a hostile agent does to the git directory that it sees. Where it fails, it fails.
const VANDALISM: &str = r#"
exec 2>/dev/null
G=$(git rev-parse --path-format=absolute --git-common-dir)
c=/tmp/canary; printf '#!/bin/sh\ntouch %s/canary\n' "$CANARY" > "$G/canary"; chmod +x "$G/canary"
for k in core.fsmonitor core.sshCommand core.pager core.editor diff.external credential.helper alias.status gpg.program; do git config $k "$G/canary"; done
git config core.hooksPath "$G/hooks"; git config include.path "$G/inc"; git config filter.x.clean "$G/canary"; git config filter.x.smudge "$G/canary"
for h in applypatch-msg pre-commit prepare-commit-msg commit-msg post-commit pre-rebase post-checkout post-merge pre-push post-rewrite reference-transaction post-index-change fsmonitor-watchman update pre-receive; do cp "$G/canary" "$G/hooks/$h"; done
echo '* filter=x diff=x merge=x' > "$G/info/attributes"; echo '*' > "$G/info/exclude"; echo "$G" > "$G/commondir"
git update-ref -d refs/heads/main; git update-ref -d refs/heads/side; git update-ref -d refs/tags/v1; git update-ref refs/heads/main HEAD
git update-ref refs/heads/sandbox/t-1/other HEAD; git replace -f HEAD HEAD~1; git stash clear; git reflog expire --expire=now --all
for l in index.lock HEAD.lock packed-refs.lock config.lock refs/heads/main.lock; do : > "$G/$l"; done
rm -rf "$G/refs" "$G/packed-refs" "$G/objects"; rm -rf "$G/worktrees"; mkdir -p "$G/objects"
echo vandal > vandal
exit 0
"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_planted_or_broken_inside_does_not_reach_the_user() {
    let mut world = world_with_history();
    let dangling = {
        let file = world.repo.join("dangling");
        fs::write(&file, "nothing names me\n").unwrap();
        let id = world.git(&["hash-object", "-w", "dangling"]);
        fs::remove_file(file).unwrap();
        id
    };
    // Without a box the same vandalism works: in a copy of the repository, commands of the user's run the canary.
    let copy = world.home().join("copy");
    world.git(&["clone", "-q", "--local", ".", copy.to_str().unwrap()]);
    world.set("CANARY", world.home());
    let mut unboxed = world.command("sh");
    drop(unboxed.current_dir(&copy).args(["-c", VANDALISM]).output().unwrap());
    drop(world.command("git").current_dir(&copy).args(["status"]).output().unwrap());
    assert!(world.home().join("canary").exists(), "the vandalism does not even work without a box");
    fs::remove_file(world.home().join("canary")).unwrap();

    let mut bench = Bench::new(world).await;
    bench.task().sandbox.env = vec!["CANARY".to_owned()];
    let (picture, files) = (bench.world.picture(), foreign_files(bench.repository.common_dir()));
    let end = bench.attempt(&[VANDALISM]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert_eq!(bench.names(), ["README.md", "docs/x.txt", "src/a.txt", "src/b.txt", "vandal"]);
    assert_eq!(bench.world.picture(), picture);
    let after = foreign_files(bench.repository.common_dir());
    assert!(files.iter().all(|(path, hash)| after.get(path) == Some(hash)));

    let world = &bench.world;
    world.git(&["fsck", "--strict", "--no-dangling"]);
    assert_eq!(world.git(&["cat-file", "-p", &dangling]), "nothing names me");
    let branch = RefName::agent_branch(bench.run.id(), bench.agent());
    for arguments in [
        &["status"][..],
        &["diff", "main", branch.short()],
        &["checkout", "-q", "-b", "landing"],
        &["merge", "-q", "--no-edit", branch.short()],
        &["commit", "-q", "--allow-empty", "-m", "x"],
        &["log", "-p", "-3"],
        &["stash", "list"],
        &["worktree", "list"],
        &["fetch", "-q", "."],
        &["gc", "-q"],
    ] {
        world.git(arguments);
    }
    for folder in [world.home(), bench.worktree().to_owned()] {
        assert!(!folder.join("canary").exists(), "something planted has run");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_link_to_the_repository_stands_fast() {
    let mut bench = Bench::new(World::new()).await;
    let dot_git = fs::read(bench.worktree().join(".git")).unwrap();
    let end = bench
        .attempt(&["for c in 'rm .git' 'rm -f .git' 'mv .git x' 'mv x .git' 'truncate -s0 .git' 'ln -sf x .git' 'chmod 000 .git' \"mv $PWD $PWD.x\" \"rmdir $PWD\" 'rm -rf .'; do sh -c \"$c\" && echo \"done: $c\"; done 2>/dev/null; echo x > x; true"])
        .await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert!(!bench.memory.printed().contains("done:"), "{}", bench.memory.printed());
    assert_eq!(fs::read(bench.worktree().join(".git")).unwrap(), dot_git);
    bench.check_replay();
}

/// Commits and files that a repository must not take in: how they are made, what is said of them, and whether they are in
/// the files too, so that not even these are taken.
const UNFIT: [(&str, &str, &str, bool); 6] = [
    (
        "a tree with `.git` in it",
        "b=$(echo '[core]' | git hash-object -w --stdin); t=$(printf '100644 blob %s\\tconfig\\n' $b | git mktree); \
         t=$(printf '040000 tree %s\\t.git\\n' $t | git mktree); git update-ref refs/heads/bad $(git commit-tree $t -m bad)",
        "hasDotgit",
        false,
    ),
    (
        "a command in `.gitmodules`",
        "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ./x\\n\\tupdate = !touch /tmp/x\\n' > .gitmodules; git add .; git commit -qm bad",
        "gitmodulesUpdate",
        true,
    ),
    (
        "an option as a url in `.gitmodules`",
        "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = -x\\n' > .gitmodules",
        "gitmodulesUrl",
        true,
    ),
    (
        "a missing tree",
        "echo gone > gone; git add gone; git commit -qm gone; t=$(git rev-parse HEAD^{tree}); \
         rm -f $(git rev-parse --git-common-dir)/objects/$(echo $t | cut -c-2)/$(echo $t | cut -c3-)",
        "",
        false,
    ),
    (
        "a damaged object",
        "echo bad > bad; git add bad; git commit -qm bad; b=$(git rev-parse HEAD:bad); \
         f=$(git rev-parse --git-common-dir)/objects/$(echo $b | cut -c-2)/$(echo $b | cut -c3-); chmod u+w $f; \
         printf 'xxxxxxxxxxxx' | dd of=$f bs=1 seek=2 conv=notrunc 2>/dev/null; rm bad; git update-index --force-remove bad",
        "",
        false,
    ),
    (
        "too much history",
        "head -c 3000000 /dev/urandom > large; git add large; git commit -qm large; git rm -q large; git commit -qm small",
        "larger than 1000000 bytes",
        false,
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_unfit_is_refused_and_the_files_are_kept() {
    for (name, script, reason, in_files) in UNFIT {
        let mut bench = Bench::new(World::new()).await;
        bench.capturer.pack_size = 1_000_000;
        let picture = bench.world.picture();
        let branch = RefName::agent_branch(bench.run.id(), bench.agent());
        let script = format!("echo work > work; {script}");
        let end = bench.attempt(&[&script]).await;
        assert_eq!(end.outcome, AttemptOutcome::HarvestRefused, "{name}: {}", bench.reason());
        assert!(bench.reason().contains(reason), "{name}: {}", bench.reason());
        assert_eq!(bench.world.picture(), picture, "{name}");
        assert!(bench.worktree().join("work").is_file(), "{name}: the worktree is kept");
        bench.world.git(&["fsck", "--strict", "--no-dangling", "--connectivity-only"]);
        let kept =
            bench.repository.load_ref(&RefName::snapshot(bench.run.id(), bench.agent(), TurnId::new(1, 1))).unwrap();
        let tip = bench.repository.load_ref(&branch).unwrap().unwrap();
        if in_files {
            assert_eq!((kept, &tip), (None, bench.fork.commit.object()), "{name}: nothing of it is named");
        } else {
            assert_eq!(kept.as_ref(), Some(&tip), "{name}");
            assert_eq!(bench.snapshot()[&b"work"[..]].1, b"work\n", "{name}");
            assert!(bench.record(1, 1).not_captured.refused[0].contains("own commits are not kept"), "{name}");
            assert_eq!(bench.record(1, 1).kept_tips, [], "{name}");
            bench.check_replay();
        }
        let incoming = fs::read_dir(&bench.capturer.incoming).into_iter().flatten();
        let mut left = incoming.map(|entry| entry.unwrap().file_name()).filter(|name| name != ".trash");
        assert_eq!(left.next(), None, "{name}");

        // The next attempt is possible, and what it does is taken in: without the commits, or once the files are gone.
        if in_files {
            fs::remove_file(bench.worktree().join(".gitmodules")).ok();
        }
        let end = bench.attempt(&["echo again > again"]).await;
        bench.expect(&end, AttemptOutcome::Completed);
        assert_eq!(bench.snapshot()[&b"again"[..]].1, b"again\n", "{name}");
        assert_eq!(bench.finished().hints.is_empty(), in_files && !script.contains("commit"), "{name}");
        bench.check_replay();
        assert_eq!(bench.world.picture(), picture, "{name}");
    }
}

/// What git is quick to stage may be more than a pack may hold: the largest of it is left out by name, and the rest is kept.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_for_a_pack_does_not_take_the_rest_along() {
    const LARGE: &str = "head -c 3000000 /dev/urandom";
    let cases: [(&str, String, &[&str], &[&str]); 7] = [
        ("one", format!("{LARGE} > large"), &["large"], &["work"]),
        (
            "several, and as few go as must",
            format!("for n in 1 2 3; do head -c 250000 /dev/urandom > part-$n; done; {LARGE} > large; {LARGE} > more"),
            &["large", "more"],
            &["part-1", "part-2", "part-3", "work"],
        ),
        (
            "many of a size",
            "for n in 1 2 3; do head -c $((400000 + n)) /dev/urandom > part-$n; done".to_owned(),
            &["part-3"],
            &["part-1", "part-2"],
        ),
        (
            "added by force",
            format!("echo 'l*' > .gitignore; {LARGE} > large; {LARGE} > listed; git add -f listed"),
            &["listed"],
            &["work"],
        ),
        (
            "in a repository inside",
            format!("git init -q inner; {LARGE} > inner/large; echo x > inner/small"),
            &["large"],
            &["work"],
        ),
        (
            "in a repository inside, with a commit",
            format!(
                "git init -q inner; git -C inner -c user.name=x -c user.email=x commit -q --allow-empty -m x; \
                 {LARGE} > inner/large; echo x > inner/small"
            ),
            &["large"],
            &["work"],
        ),
        (
            "what was small before",
            format!("{LARGE} > README.md; head -c 900000 /dev/zero > zeros"),
            &["README.md"],
            &["zeros", "work"],
        ),
    ];
    for (name, script, left_out, kept) in cases {
        let mut bench = Bench::new(World::new()).await;
        bench.capturer.pack_size = 1_000_000;
        let end = bench.attempt(&[&format!("echo work > work; {script}"), "echo again > again"]).await;
        bench.expect(&end, AttemptOutcome::Completed);
        let names = bench.names();
        for file in kept.iter().chain(&["again"]) {
            assert!(names.iter().any(|name| name == file), "{name}: {file} in {names:?}");
        }
        // What fits by itself comes with the next turn.
        let turns: &[u32] = if name.starts_with("many") { &[1] } else { &[1, 2] };
        for turn in turns.iter().copied() {
            let told = bench.record(1, turn).not_captured.refused;
            let spared: Vec<&String> = told.iter().filter(|line| line.contains("the pack would be larger")).collect();
            assert_eq!(spared.len(), left_out.len(), "{name}: {told:?}");
            for file in left_out {
                assert!(spared.iter().any(|line| line.contains(&format!("`{file}` is left out"))), "{name}: {told:?}");
                let before = if *file == "README.md" { Some(&b"readme\n"[..]) } else { None };
                let found = bench.tree(&bench.record(1, turn).tree);
                assert_eq!(found.get(file.as_bytes()).map(|(_, content)| content.as_slice()), before, "{name}: {file}");
            }
        }
        let hints = format!("{:?}", bench.finished().hints);
        assert!(hints.contains("turn 1.1 lacks files") && hints.contains(left_out[0]), "{name}: {hints}");
        bench.check_replay();
        bench.world.git(&["fsck", "--strict", "--no-dangling", "--connectivity-only"]);
        // Once there is room again, nothing is missing.
        bench.capturer.pack_size = 64 << 20;
        let end = bench.attempt(&["true"]).await;
        bench.expect(&end, AttemptOutcome::Completed);
        assert_same(name, &bench.snapshot(), &disk_of_tracked(&bench));
    }
}

/// The disk without what git ignores, and with the repositories inside as the snapshot has them.
fn disk_of_tracked(bench: &Bench) -> crate::bench::Files {
    let mut disk = disk(bench.worktree());
    disk.retain(|path, _| path != b"large" || !bench.worktree().join("listed").exists());
    disk.extend(bench.snapshot().into_iter().filter(|(_, (mode, _))| mode == "160000"));
    disk
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_that_was_killed_is_in_nobodys_way() {
    let mut bench = Bench::new(World::new()).await;
    let end = bench.attempt(&["echo 1 > one"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    let capture = bench.workspace.place.capture();
    fs::write(capture.join("index.lock"), "").unwrap();
    let end = bench.attempt(&["echo 2 > two"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    for damage in [&b""[..], b"DIRC\0\0\0\x02\0\0\0\x09", b"rubbish"] {
        fs::write(capture.join("index"), damage).unwrap();
        let end = bench.attempt(&["date +%N > three"]).await;
        bench.expect(&end, AttemptOutcome::Completed);
    }
    fs::remove_file(capture.join("index")).unwrap();
    let end = bench.attempt(&["rm one"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert_same("after all that", &bench.snapshot(), &disk(bench.worktree()));
    bench.check_replay();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_somebody_moved_is_left_where_it_is() {
    let mut bench = Bench::new(world_with_history()).await;
    let branch = RefName::agent_branch(bench.run.id(), bench.agent());
    bench.world.git(&["update-ref", branch.as_str(), "side"]);
    let end = bench.attempt(&["echo x > x"]).await;
    bench.expect(&end, AttemptOutcome::CaptureFailed);
    assert!(bench.reason().contains(branch.as_str()) && bench.reason().contains("moved by something else"));
    assert_eq!(bench.world.git(&["rev-parse", branch.as_str()]), bench.world.git(&["rev-parse", "side"]));
    let started = bench.memory.told().iter().any(|event| matches!(event.kind, EventKind::AttemptStarted(_)));
    assert!(!started, "nothing of the agent has run");
}
