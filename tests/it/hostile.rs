//! What an agent may do that no list of attacks has: to the program's own doors, to what it leaves for captures, to the
//! attempts that follow. Each must end with a name, lose no work, and harm nobody else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::libc;
use worktree_sandbox::model::AttemptOutcome;

use crate::bench::{Bench, foreign_files};
use crate::world::World;

/// Connections to the socket for turns: silent ones, half requests, rubbish, and one with a file sent along.
fn flood() -> String {
    let send = libc::SYS_sendmsg;
    format!(
        r#"set +e
cat > /tmp/flood.pl <<'END'
use IO::Socket::UNIX;
my $at = "/run/sandbox/turn.sock";
my $dial = sub {{ IO::Socket::UNIX->new(Peer => $at, Blocking => 0) }};
$SIG{{PIPE}} = "IGNORE";
# A file of the agent's, sent along with a request, as if somebody had asked for it.
open(my $file, "<", "sent-along") or die;
my $s = IO::Socket::UNIX->new(Peer => $at) or die "no socket";
my ($line, $control) = ("turn with a file\n", pack("Q l l l x4", 20, 1, 1, fileno($file)));
my $vector = pack("P Q", $line, length $line);
my $message = pack("Q L x4 P Q P Q l x4", 0, 0, $vector, 1, $control, length $control, 0);
print "sent ", syscall({send}, fileno($s), $message, 0), "\n";
print "answer ", scalar(<$s>);
my @silent = map {{ $dial->() }} 1 .. 40;
for (1 .. 200) {{ my $c = $dial->() or next; syswrite($c, "turn " . "x" x ($_ * 40)); close $c; }}
for (1 .. 200) {{ my $c = $dial->() or next; syswrite($c, chr($_)) for 1 .. 20; }}
for (1 .. 100) {{ my $c = $dial->() or next; syswrite($c, "turn again\n"); }}
END
echo x > sent-along; perl /tmp/flood.pl; echo y > y"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_socket_for_turns_stands_a_flood_and_takes_no_files() {
    let mut bench = Bench::new(World::new()).await;
    let end = bench.attempt(&[&flood()]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    let printed = bench.memory.printed();
    assert!(printed.contains("sent 17\n") && printed.contains("answer ok 1.1"), "{printed}");
    let held = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let kept: Vec<_> = held.filter(|path| path.ends_with("sent-along")).collect();
    assert!(kept.is_empty(), "{kept:?}");
    assert!(bench.records().len() < 10, "a flood ends no turns: {}", bench.records().len());
    assert_eq!(bench.snapshot()[&b"y"[..]].1, b"y\n");
    bench.check_replay();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_is_no_way_out_of_its_own_box() {
    let mut bench = Bench::new(World::new()).await;
    let (picture, files) = (bench.world.picture(), foreign_files(bench.repository.common_dir()));
    let capture = worktree_sandbox::change::inside::ARGUMENT;
    let script = format!(
        "set +e; exec 2>&1; P=/run/sandbox/bin/sandbox
for verb in 'run plan.toml --land' 'exec --name two -- true' land merge verify 'clean' stop 'retry worker' 'init --git' doctor 'board resolve x' __sandbox-init {capture} '{capture} x' ; do
    timeout 20 $P $verb </dev/null >/tmp/said 2>&1; echo \"$verb: $?\"
done
for fd in 0 1 3 9; do timeout 5 $P __sandbox-init $fd </dev/null >/tmp/said 2>&1; echo \"init $fd: $?\"; done
echo '[agents.a]' > plan.toml; timeout 20 $P plan check plan.toml >/dev/null; echo \"check: $?\"
LD_PRELOAD=/tmp/x.so LD_LIBRARY_PATH=/tmp timeout 20 $P turn preloaded; echo \"turn: $?\"
(echo x > $P) && echo written; (mv $P $P.old) && echo moved; (rm -f $P) && echo removed
kill -9 1 && echo 'init killed'; kill -STOP 1; kill -TERM 1; kill -ILL 1
echo end > end"
    );
    let end = bench.attempt(&[&script]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    let printed = bench.memory.printed();
    for word in ["written", "moved", "removed"] {
        assert!(!printed.lines().any(|line| line == word), "{printed}");
    }
    for line in
        printed.lines().filter(|line| line.starts_with("run ") || line.starts_with("exec ") || line.starts_with("land"))
    {
        assert!(!line.ends_with(": 0"), "a run inside of a box: {line}\n{printed}");
    }
    assert_eq!(bench.snapshot()[&b"end"[..]].1, b"end\n", "{printed}");
    assert_eq!(bench.world.picture(), picture);
    let after = foreign_files(bench.repository.common_dir());
    assert!(files.iter().all(|(path, hash)| after.get(path) == Some(hash)));
}

/// What an agent may leave in its worktree for a capture to choke on: how it is made, and what must be said of it, if it
/// is not simply taken in.
const LEFT: [(&str, &str, Option<&str>); 16] = [
    ("a pipe", "mkfifo pipe", Some("pipe")),
    (
        "a socket",
        "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => \"sock\", Listen => 1) or die'",
        Some("sock"),
    ),
    ("a huge file with nothing in it", "truncate -s 1T sparse", Some("sparse")),
    (
        "a folder that is very deep",
        "perl -e 'for (1 .. 1500) { mkdir \"d\" or die; chdir \"d\" or die } open F, \">\", \"f\"'",
        None,
    ),
    (
        "a folder deeper than a path is long",
        "perl -e 'for (1 .. 5000) { mkdir \"e\" or die; chdir \"e\" or die } open F, \">\", \"f\"'",
        Some("e/e/e"),
    ),
    ("many files", "mkdir many; perl -e 'for (1 .. 20000) { open F, \">\", \"many/$_\" or die }'", None),
    ("links in a circle", "ln -s b a; ln -s a b; ln -s . here; mkdir up; ln -s ../up up/up", None),
    ("links into the kernel", "ln -s /proc/self/mem mem; ln -s /dev/zero zero; ln -s /proc/1/root root", None),
    ("hard links", "echo x > one; for n in $(seq 200); do ln one link-$n; done", None),
    (
        "names like git's folder",
        "mkdir .GIT .Git 'git~1' '.git.' 2>/dev/null; for d in .GIT .Git 'git~1' '.git.'; do echo x > \"$d/config\"; done",
        Some(".G"),
    ),
    (
        "attributes of files",
        "perl -e 'syscall(188, $f = \"README.md\", $n = \"user.x\", $v = \"y\" x 60000, 60000, 0)'; setfacl -m u:0:rwx README.md 2>/dev/null || true",
        None,
    ),
    ("times beyond all bounds", "touch -d '1901-01-01' old; touch -d '2400-01-01' new; touch -d @0 zero-time", None),
    ("nobody may read it", "mkdir -p shut/in; echo x > shut/in/f; chmod 000 shut/in shut", Some("shut")),
    ("a file that names itself an option", "touch -- --exec=x -rf --output=x --force", None),
    (
        "ignore rules of a monstrous kind",
        "perl -e 'open F, \">\", \".gitignore\"; print F \"*a*a*a*a*a*a*a*a*a*a*b\\n\" x 3000'; n=$(printf 'a%.0s' $(seq 200)); touch $n",
        None,
    ),
    (
        "attributes of a monstrous kind",
        "perl -e 'open F, \">\", \".gitattributes\"; print F \"* filter=x$_ diff=y$_ text eol=crlf\\n\" for 1 .. 5000'",
        None,
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_for_a_capture_has_a_name_or_is_taken_in() {
    for (name, script, told) in LEFT {
        let mut bench = Bench::new(World::new()).await;
        let picture = bench.world.picture();
        let started = Instant::now();
        let end = bench.attempt(&[&format!("echo work > work; {script}")]).await;
        let took = started.elapsed();
        assert!(took < Duration::from_secs(25), "{name}: {took:?}");
        assert_eq!(bench.world.picture(), picture, "{name}");
        let record = bench.records().pop();
        let lost = record.as_ref().map(|record| format!("{:?}", record.not_captured)).unwrap_or_default();
        let said = format!("{} {:?} {lost}", bench.reason(), bench.finished().hints);
        match (end.outcome, told) {
            (AttemptOutcome::Completed, None) => {}
            // A part of what there is does not take the rest along.
            (outcome, Some("sparse")) if outcome != AttemptOutcome::Completed => panic!("{name}: {outcome}: {said}"),
            (
                AttemptOutcome::Completed | AttemptOutcome::CaptureFailed | AttemptOutcome::HarvestRefused,
                Some(part),
            ) => {
                assert!(said.contains(part), "{name}: not told: {said}");
            }
            (outcome, _) => panic!("{name}: {outcome}: {said}"),
        }
        if end.outcome == AttemptOutcome::Completed {
            assert_eq!(bench.snapshot()[&b"work"[..]].1, b"work\n", "{name}");
            bench.check_replay();
        }
        assert!(bench.worktree().join("work").is_file(), "{name}: the worktree is kept");
        // Else an ordinary user's run could not remove it, and would leave the world behind.
        bench.world.command("chmod").args(["-R", "u+rwX"]).arg(bench.worktree()).output().unwrap();
    }
}

#[test]
fn what_is_left_can_be_removed() {
    let deep = "mkdir deep; cd deep; perl -e 'for (1 .. 5000) { mkdir \"e\" or die; chdir \"e\" or die } open F, \">\", \"f\"'";
    // What it leaves, and what must be done by hand before that may go: what no capture could keep is kept.
    let cases = [
        ("mkfifo p; ln -s / out; ln -s ~ home; truncate -s 1T .ignored; echo .ignored > .gitignore", None),
        ("mkdir -p shut/in; touch shut/in/f; chmod 000 shut/in shut", Some("chmod -R u+rwx shut; rm -r shut")),
        (deep, Some("rm -rf deep")),
    ];
    for (script, mend) in cases {
        let world = World::new();
        let canary = world.home().join("canary");
        fs::write(&canary, "stays\n").unwrap();
        world.sandbox(&["exec", "--name", "left", "--", "sh", "-c", &format!("echo x > x; {script}")]);
        let listed = || world.git(&["worktree", "list", "--porcelain"]);
        let worktree = listed().lines().filter_map(|line| line.strip_prefix("worktree ")).nth(1).unwrap().to_owned();
        let cleaned = world.sandbox(&["clean", "left-1", "--ignored"]).expect(0);
        if let Some(mend) = mend {
            assert!(cleaned.stdout.contains("not all of it could be captured"), "{script}: {cleaned:?}");
            assert!(Path::new(&worktree).is_dir(), "{script}");
            assert!(world.command("sh").current_dir(&worktree).args(["-c", mend]).status().unwrap().success());
            world.sandbox(&["clean", "left-1", "--ignored"]).expect(0);
        }
        assert_eq!(listed().matches("worktree ").count(), 1, "{script}: {}", listed());
        assert!(!Path::new(&worktree).exists(), "{script}");
        assert_eq!(fs::read_to_string(canary).unwrap(), "stays\n");
    }
}

/// What an attempt may leave where the next one's mounts go: a link, a file or nothing in place of a folder.
const TRAPS: [(&str, &str); 5] = [
    ("a link in place of the tools' folder", "rm -rf ~/.cargo; ln -s /tmp ~/.cargo"),
    ("a link to the host", "rm -rf ~/.cargo; ln -s / ~/.cargo"),
    ("a link further down", "rm -rf ~/.cargo/registry; ln -s ../../.. ~/.cargo/registry"),
    ("a file", "rm -rf ~/.cargo; echo x > ~/.cargo"),
    ("nothing at all", "rm -rf ~/.cargo"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_trap_for_the_next_attempts_mounts_catches_nobody() {
    for (name, trap) in TRAPS {
        let world = World::new();
        fs::create_dir_all(world.home().join(".cargo/registry")).unwrap();
        fs::write(world.home().join(".cargo/registry/crate"), "from the host\n").unwrap();
        let mut bench = Bench::new(world).await;
        let end = bench
            .attempt(&[&format!(
                "set +e; {trap} 2>/dev/null; umount ~/.cargo/registry; mv ~/.cargo ~/.moved && {trap}; echo x > x"
            )])
            .await;
        bench.expect(&end, AttemptOutcome::Completed);
        let end = bench.attempt(&["cat ~/.cargo/registry/crate; echo y > y"]).await;
        match end.outcome {
            AttemptOutcome::Completed => assert!(bench.memory.printed().ends_with("from the host\n"), "{name}"),
            AttemptOutcome::SandboxRefused => {
                assert!(bench.reason().contains(".cargo"), "{name}: {}", bench.reason());
            }
            other => panic!("{name}: {other}: {}", bench.reason()),
        }
        let host = bench.world.home().join(".cargo/registry");
        assert!(host.is_dir() && !host.is_symlink(), "{name}");
        assert_eq!(fs::read_to_string(host.join("crate")).unwrap(), "from the host\n", "{name}");
    }
}

/// History that costs whoever takes it in: it is refused or taken in, in time and in little memory.
const COSTLY: [(&str, &str); 4] = [
    (
        "a tree that is small and endless",
        "b=$(echo x | git hash-object -w --stdin); t=$(printf '100644 blob %s\\tf\\n' $b | git mktree)
         for n in $(seq 12); do t=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\\t%s\\n' $t $i; done | git mktree); done
         git update-ref refs/heads/bomb $(git commit-tree $t -m bomb)",
    ),
    (
        "much that packs into little",
        "git config core.bigFileThreshold 4g; for n in 1 2; do b=$(head -c 200000000 /dev/zero | git hash-object -w --stdin); \
         t=$(printf '100644 blob %s\\tzeros\\n' $b | git mktree); git update-ref refs/heads/zeros-$n $(git commit-tree $t -m zeros); done",
    ),
    (
        "a long history",
        "t=$(git rev-parse HEAD^{tree}); c=$(git rev-parse HEAD); perl -e '
           print \"commit refs/heads/long\\ncommitter A <a\\@b> 1 +0000\\ndata 1\\nx\\nfrom $ARGV[0]\\n\"; print \"commit refs/heads/long\\ncommitter A <a\\@b> 1 +0000\\ndata 1\\nx\\n\" for 1 .. 20000' $c | git fast-import --quiet",
    ),
    (
        "many tips",
        "c=$(git rev-parse HEAD); t=$(git rev-parse HEAD^{tree}); for n in $(seq 300); do echo \"create refs/heads/n/$n $(git commit-tree $t -p $c -m $n)\"; done | git update-ref --stdin",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn history_that_costs_is_bounded() {
    for (name, script) in COSTLY {
        let mut bench = Bench::new(World::new()).await;
        let picture = bench.world.picture();
        let end = bench.attempt(&[&format!("echo work > work; {script}")]).await;
        assert!(
            matches!(
                end.outcome,
                AttemptOutcome::Completed | AttemptOutcome::HarvestRefused | AttemptOutcome::CaptureFailed
            ),
            "{name}: {} {}",
            end.outcome,
            bench.reason()
        );
        assert_eq!(bench.snapshot()[&b"work"[..]].1, b"work\n", "{name}: {}", bench.reason());
        assert_eq!(bench.world.picture(), picture, "{name}");
        bench.check_replay();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_the_kernel_wakes_spoils_its_own_turn_and_nothing_else() {
    let mut bench = Bench::new(World::new()).await;
    // A timer of the kernel's that sends SIGCONT undoes a stop: a live turn may see files that move. It is never merged.
    let script = format!(
        r#"perl -e '
my $event = pack("Q i i x48", 0, 18, 0); my $id = pack("i", 0);
syscall({}, 1, $event, $id) == 0 or die "no timer";
my $every = pack("q4", 0, 2000000, 0, 2000000); syscall({}, unpack("i", $id), 0, $every, 0) == 0 or die "not set";
for (my $n = 0; ; $n++) {{ open(my $f, ">", "moving.tmp"); print $f $n x 1000; close $f; rename "moving.tmp", "moving" }}' &
until test -e moving; do :; done
for i in 1 2 3; do timeout 20 sandbox turn $i || echo "not taken"; sleep 0.25; done
kill -9 $!; wait 2>/dev/null; echo end > end"#,
        libc::SYS_timer_create,
        libc::SYS_timer_settime
    );
    let end = bench.attempt(&[&format!("set +e\n{script}")]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert!(!bench.memory.printed().contains("no timer"), "{}", bench.memory.printed());
    assert!(!bench.records().last().unwrap().live, "what is merged is a turn of which nothing runs any more");
    assert_eq!(bench.snapshot()[&b"end"[..]].1, b"end\n");
    bench.check_replay();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_makes_is_out_of_other_users_reach() {
    let mut bench = Bench::new(World::new()).await;
    let end = bench.attempt(&["cp /bin/true s; chmod 6755 s; chmod 777 .; mkdir open; chmod 777 open; cp /bin/true ~/s; chmod 4755 ~/s; chmod 777 ~ /tmp; umask 0; echo x > x"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert_eq!(bench.worktree().join("s").metadata().unwrap().permissions().mode() & 0o7777, 0o6755, "made, but");
    let mut folder: &Path = bench.worktree();
    let mut closed = 0;
    while let Some(parent) = folder.parent().filter(|parent| parent.starts_with(bench.world.worktrees())) {
        closed += u32::from(parent.metadata().unwrap().permissions().mode() & 0o777 == 0o700);
        folder = parent;
    }
    assert!(closed > 0, "nothing above the worktree keeps others out");
    assert_eq!(bench.workspace.place.private().metadata().unwrap().permissions().mode() & 0o077, 0);
    // In git, no such bit exists.
    assert_eq!(bench.snapshot()[&b"s"[..]].0, "100755");
}

#[tokio::test(flavor = "multi_thread")]
async fn code_from_memory_is_confined_like_any_other() {
    let mut bench = Bench::new(World::new()).await;
    let script = format!(
        r#"set +e
perl -e '
my $fd = syscall({}, my $n = "x", 0); open(my $m, ">&=", $fd); binmode $m; open(my $b, "<", "/bin/sh"); local $/; print {{$m}} readline($b); $m->flush; open(my $r, "<", "/proc/self/fd/$fd"); close $m; $fd = fileno $r;
exec {{ "/proc/self/fd/$fd" }} "sh", "-c", "echo from memory; touch $ENV{{REPO}}/planted $ENV{{HOME}}/../planted /usr/planted && echo wrote; unshare -U true && echo nested"' 2>/dev/null
/lib64/ld-linux-x86-64.so.2 /bin/sh -c "echo by the loader; touch $REPO/planted && echo wrote" 2>/dev/null
echo end"#,
        libc::SYS_memfd_create
    );
    bench.world.set("REPO", bench.world.repo.clone());
    bench.capturer.environment = bench.world.environment();
    bench.task().sandbox.env = vec!["REPO".to_owned()];
    let end = bench.attempt(&[&script]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    let printed = bench.memory.printed();
    assert!(printed.starts_with("from memory\n") && printed.ends_with("end\n"), "{printed}");
    assert!(!printed.contains("wrote") && !printed.contains("nested"), "{printed}");
}

#[test]
fn twenty_agents_at_once_do_not_meet() {
    let world = World::new();
    let mut plan =
        vec!["[run]\njobs = 20\n[verify]\ncommand = ['sh', '-c', 'test $(ls made | wc -l) = 20']\n".to_owned()];
    plan.extend((0..20).map(|number| format!(
            "[agents.a{number}]\nowns = ['made/{number}']\nrun = ['sh', '-ec', 'mkdir -p made; echo {number} > made/{number}; git add .; git commit -qm {number}; git gc -q; git branch side; git stash list']\n"
        )));
    let file = world.home().join("crowd.toml");
    fs::write(&file, plan.concat()).unwrap();
    let before = world.picture();
    let ran = world.sandbox(&["run", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(world.picture(), before);
    let branches = world.git(&["for-each-ref", "--format=%(refname)", "refs/heads/sandbox/crowd-1/"]);
    assert_eq!(branches.lines().filter(|name| name.contains("/a")).count(), 20, "{branches}");
    assert_eq!(world.git(&["ls-tree", "--name-only", "sandbox/crowd-1/integration", "made/"]).lines().count(), 20);
    world.git(&["fsck", "--strict", "--no-dangling"]);
}
