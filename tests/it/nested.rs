//! Agents that bring a sandbox of their own: they get namespaces, and nothing else that others have not.

use std::path::PathBuf;

use worktree_sandbox::model::AttemptOutcome;

use crate::bench::Bench;
use crate::isolation::{ATTACKS, PASSED, Target, telling};
use crate::world::{World, is_root};

/// A sandbox as such agents bring one: every namespace, a `/proc` of its own, a root put together from binds.
const INNER: &str = r#"
set -e
PATH=$PATH:/usr/sbin:/sbin
root=$(mktemp -d); mount -t tmpfs none "$root"; mkdir "$root/old" "$root/tmp"
for part in /usr /bin /lib /lib64 /etc /dev "$PWD"; do
    test -e "$part" || continue
    test -L "$part" && { cp -P "$part" "$root$part"; continue; }
    mkdir -p "$root$part"; mount --rbind "$part" "$root$part"
done
mkdir "$root/proc"; mount -t proc proc "$root/proc"
work=$PWD; cd "$root"; pivot_root . old; umount -l /old; cd "$work"
test $(ls -d /proc/[0-9]* | wc -l) -lt 8
echo inner > from-inside
echo "sandboxed $(id -u)"
"#;

/// What an inner sandbox could try against the outer one: to take its mounts away, or to write through them.
const WITH_NAMESPACES: [(&str, &str); 12] = [
    ("remount the root", "mount -o remount,rw,bind / && touch /usr/planted"),
    (
        "write through a bind",
        "mkdir -p /tmp/b; mount --rbind / /tmp/b && mount -o remount,rw,bind /tmp/b; touch /tmp/b/usr/planted",
    ),
    ("uncover the checkout", "umount -l $REPO; ls $REPO/src | grep -q ."),
    ("uncover the checkout's parent", "umount -l $(dirname $REPO); ls $REPO/src | grep -q ."),
    (
        "bind the checkout without what covers it",
        "mkdir -p /tmp/c; mount --bind $(dirname $REPO) /tmp/c && ls /tmp/c/repo/src | grep -q .",
    ),
    ("uncover the home", "umount -l $HOME; grep -q secret $HOME/.ssh/id_ed25519"),
    ("write the pinned link", "umount -l $PWD/.git; echo x > $PWD/.git"),
    ("uncover a masked file", "umount -l $TOOLS/credentials.json; grep -q secret $TOOLS/credentials.json"),
    ("a writable sysfs", "mkdir -p /tmp/s; unshare -n mount -t sysfs none /tmp/s"),
    ("the kernel's settings", "echo x > /proc/sys/kernel/core_pattern"),
    ("the host's devices", "mkdir -p /tmp/d; mount -t devtmpfs none /tmp/d"),
    ("a device of its own", "mknod /tmp/null c 1 3 && echo x > /tmp/null"),
];

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_own_sandbox_works_only_where_it_is_allowed() {
    let mut bench = Bench::new(World::new()).await;
    let start = format!("unshare -Urmpf sh -c '{}' 2>&1 || echo denied", INNER.replace('\'', "'\\''"));
    let end = bench.attempt(&[&start]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    assert!(bench.memory.printed().ends_with("denied\n"), "{}", bench.memory.printed());

    bench.memory.output.lock().unwrap().clear();
    bench.task().sandbox.nested = true;
    let end = bench.attempt(&[&start]).await;
    if is_root() {
        bench.expect(&end, AttemptOutcome::SandboxRefused);
        let reason = bench.reason();
        assert!(reason.contains("`sandbox.nested`") && reason.contains("as an ordinary user"), "{reason}");
        return;
    }
    bench.expect(&end, AttemptOutcome::Completed);
    assert_eq!(bench.memory.printed(), "sandboxed 0\n");
    assert_eq!(bench.snapshot()[&b"from-inside"[..]].1, b"inner\n");
    bench.check_replay();
}

#[tokio::test(flavor = "multi_thread")]
async fn attacks_fail_in_a_box_with_namespaces_and_in_those_made_inside() {
    if is_root() {
        // Refused, which the test above shows; the ordinary user's run of the suite makes these attacks.
        return;
    }
    let mut target = Target::new();
    let mut bench = Bench::new(target.world.take().unwrap()).await;
    bench.task().sandbox.env = PASSED.map(str::to_owned).to_vec();
    bench.task().sandbox.nested = true;
    let base = bench.world.home().parent().unwrap().to_owned();
    let before = Target::picture(&base);
    let attacks: Vec<(&str, &str)> = ATTACKS.into_iter().chain(WITH_NAMESPACES).collect();
    std::fs::write(bench.worktree().join("attacks.sh"), telling(&attacks)).unwrap();
    let script = "sh attacks.sh || echo; echo inside:; unshare -Urmpf --mount-proc sh -c 'sh attacks.sh; echo end'";
    let end = bench.attempt(&[script]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert_eq!(bench.memory.printed(), "\ninside:\nend\n");
    let after = Target::picture(&base);
    let changed: Vec<&PathBuf> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    assert_eq!(changed, Vec::<&PathBuf>::new(), "changed on the host");
    assert!(!target.has_been_reached());
    assert_eq!(bench.workspace.check().map_err(|error| error.to_string()), Ok(()));
}
