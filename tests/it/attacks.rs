//! More of what an agent can try, beside `isolation`: each attack is made without a box first, then in one. What cannot be
//! made without a box by an ordinary user is made in one only, and must be refused with the error that is named.
//!
//! `docs/attacks.md` lists every attack with the tests that make it.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::libc;
use worktree_sandbox::model::AttemptOutcome;

use crate::bench::{Bench, foreign_files};
use crate::isolation::{PASSED, Target, telling};
use crate::world::World;

/// An attack by a call that no program makes by itself.
fn call(number: libc::c_long, arguments: &str) -> String {
    format!("perl -e '$r = syscall({number}, {arguments}); exit($r < 0)'")
}

/// Calls a unix socket.
fn dial(path: &str) -> String {
    format!("perl -MIO::Socket::UNIX -e 'exit !IO::Socket::UNIX->new(Peer => \"{path}\")'")
}

/// From where the agent stands up to the root, by its letters.
const UP: &str = "d=$(pwd -P); up=$START; while [ \"$d\" != / ]; do up=$up/..; d=$(dirname \"$d\"); done";

/// What works without a box for whoever runs the tests.
fn attacks() -> Vec<(&'static str, String)> {
    let text = |script: &str| script.to_owned();
    vec![
        // Metadata of the host's files.
        ("change the times of a tool", text("perl -e 'exit !utime(1000, 1000, \"$ENV{TOOLS}/tool\")'")),
        ("change the group of a tool", text("chgrp $(id -g) $TOOLS/tool")),
        ("change the owner of a folder", text("chown $(id -u) $TOOLS")),
        (
            "set an attribute of a tool",
            call(libc::SYS_setxattr, "$f = \"$ENV{TOOLS}/tool\", $n = \"user.planted\", $v = \"1\", 1, 0"),
        ),
        (
            "change the mode by a descriptor",
            text("perl -e 'open(F, \"<\", \"$ENV{TOOLS}/tool\") && chmod(0700, *F) or exit 1'"),
        ),
        ("cut a tool short", text("perl -e 'truncate(\"$ENV{TOOLS}/tool\", 9) or exit 1'")),
        ("make a folder among the tools", text("mkdir $TOOLS/new")),
        ("make a link among the tools", text("ln -s x $TOOLS/link")),
        ("make a pipe among the tools", text("mkfifo $TOOLS/pipe")),
        // Ways out.
        ("up by /proc/self/cwd", format!("START=/proc/self/cwd; {UP}; grep -q secret \"$up$HOME/.ssh/id_ed25519\"")),
        ("climb out", format!("START=.; {UP}; cd \"$up\" && grep -q secret \"./$HOME/.ssh/id_ed25519\"")),
        ("by where another process stands", text("grep -q secret /proc/$VICTIM/cwd/.env")),
        ("list what another process holds open", text("ls /proc/$VICTIM/fd/0")),
        // Other processes.
        ("open the memory of another process", text("perl -e 'open(F, \"<\", \"/proc/$ENV{VICTIM}/mem\") or exit 1'")),
        ("open the program's memory", text("perl -e 'open(F, \"<\", \"/proc/$ENV{EXECUTOR}/mem\") or exit 1'")),
        ("read the program's variables", text("tr '\\0' '\\n' < /proc/$EXECUTOR/environ | grep -q =")),
        ("see what the program holds open", text("ls /proc/$EXECUTOR/fd | grep -q .")),
        ("signal the program", text("kill -0 $EXECUTOR")),
        ("trace another process", call(libc::SYS_ptrace, "0x4206, $ENV{VICTIM}+0, 0, 0")),
        ("hold another process", call(libc::SYS_pidfd_open, "$ENV{VICTIM}+0, 0")),
        ("slow another process down", text("renice -n 5 -p $VICTIM")),
        ("have another process killed first", text("echo 500 > /proc/$VICTIM/oom_score_adj")),
        ("bound another process", text("prlimit --pid $VICTIM --core=0")),
        // Memory and queues of the host's.
        (
            "read shared memory of the host's",
            text(
                "perl -e '$i = shmget($ENV{SHM}, 0, 0); defined $i && shmread($i, $b, 0, 6) && $b eq \"secret\" or exit 1'",
            ),
        ),
        ("read a file of shared memory", text("grep -q secret /dev/shm/sandbox-test-$SHM")),
        // Sockets where a desktop has them.
        ("call the key agent of gpg", dial("$ENV{HOME}/.gnupg/S.gpg-agent")),
        ("call an agent in a temporary folder", dial("$ENV{TOOLS}/../ssh-x/agent.1")),
        ("call the session bus", dial("$ENV{TOOLS}/../xdg/bus")),
        ("call docker", dial("$ENV{TOOLS}/../docker.sock")),
        ("know the session's folder", text("test -n \"$XDG_RUNTIME_DIR$DBUS_SESSION_BUS_ADDRESS\"")),
        ("know where docker is", text("test -n \"$DOCKER_HOST\"")),
        // The network beyond the machine's own loopback.
        (
            "call the machine's own address",
            text(
                "perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new(PeerAddr => \"$ENV{LAN}:$ENV{WIDE}\", Timeout => 2)'",
            ),
        ),
        (
            "send to the machine's own address",
            text(
                "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Proto => \"udp\", PeerAddr => \"$ENV{LAN}:$ENV{WIDEUDP}\"); exit !($s && $s->send(\"x\"))'",
            ),
        ),
        (
            "ask a name server",
            text(
                "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Proto => \"udp\", PeerAddr => \"$ENV{LAN}:53\"); exit !($s && $s->send(\"x\"))'",
            ),
        ),
    ]
}

/// What nobody but root could do without a box either, or no machine can be relied on to have: the script, and the numbers
/// of the error that it must meet.
fn refused() -> Vec<(&'static str, String, &'static [i32])> {
    const NOT_THERE: &[i32] = &[libc::ENOENT, libc::EACCES];
    const EPERM: &[i32] = &[libc::EPERM];
    const NO_NET: &[i32] = &[libc::ENETUNREACH];
    const READ_ONLY: &[i32] = &[libc::EROFS, libc::EACCES, libc::EPERM, libc::ENOENT];
    let open = |path: &str| format!("open(F, \"<\", \"{path}\") or die $!+0 . qq(\\n)");
    let write = |path: &str| format!("open(F, \">\", \"{path}\") or die $!+0 . qq(\\n)");
    let call =
        |number: libc::c_long, arguments: &str| format!("syscall({number}, {arguments}) >= 0 or die $!+0 . qq(\\n)");
    let socket = |family: i32, kind: i32, protocol: i32| {
        format!("socket(S, {family}, {kind}, {protocol}) or die $!+0 . qq(\\n)")
    };
    let send = |address: &str, port: u16| {
        format!(
            "use Socket; socket(S, PF_INET, SOCK_DGRAM, 0); send(S, \"x\", 0, sockaddr_in({port}, inet_aton(\"{address}\"))) or die $!+0 . qq(\\n)"
        )
    };
    let connect = |address: &str, port: u16| {
        format!(
            "use Socket; socket(S, PF_INET, SOCK_STREAM, 0); connect(S, sockaddr_in({port}, inet_aton(\"{address}\"))) or die $!+0 . qq(\\n)"
        )
    };
    vec![
        ("the root of init", open("/proc/1/root/etc/passwd"), NOT_THERE),
        ("the folder of init", open("/proc/1/cwd/etc/passwd"), NOT_THERE),
        ("what init holds open", "defined readlink(\"/proc/1/fd/0\") or die $!+0 . qq(\\n)".to_owned(), NOT_THERE),
        ("the memory of init", open("/proc/1/mem"), NOT_THERE),
        ("the variables of init", open("/proc/1/environ"), NOT_THERE),
        ("a descriptor of init's", format!("$p = syscall({}, 1, 0); {}", libc::SYS_pidfd_open, call(libc::SYS_pidfd_getfd, "$p, 0, 0")), &[libc::EPERM, libc::EBADF]),
        ("the namespaces of init", format!("open(F, \"<\", \"/proc/1/ns/mnt\") or die $!+0 . qq(\\n); {}", call(libc::SYS_setns, "fileno(F), 0")), &[libc::EPERM, libc::EACCES, libc::ENOENT]),
        ("bind what is above", call(libc::SYS_mount, "$a = \"..\", $b = \"/mnt\", 0, 4096, 0"), EPERM),
        ("another root", "chroot(\"/tmp\") or die $!+0 . qq(\\n)".to_owned(), EPERM),
        ("a device", call(libc::SYS_mknodat, "-100, $a = \"/tmp/null\", 0020666, 259"), EPERM),
        ("a device in the worktree", call(libc::SYS_mknodat, "-100, $a = \"null\", 0020666, 259"), EPERM),
        ("a capability of a file", call(libc::SYS_setxattr, "$f = \"README.md\", $n = \"security.capability\", $v = pack(\"L5\", 0x02000001, 0x400, 0, 0, 0), 20, 0"), EPERM),
        ("a trusted attribute", call(libc::SYS_setxattr, "$f = \"README.md\", $n = \"trusted.x\", $v = \"1\", 1, 0"), EPERM),
        ("another owner", "chown(0, 0, \"README.md\") or die $!+0 . qq(\\n)".to_owned(), &[libc::EPERM, libc::EINVAL]),
        ("user 0", "$< = 0; $< == 0 or die $!+0 . qq(\\n)".to_owned(), &[libc::EPERM, libc::EINVAL]),
        ("the kernel's settings", write("/proc/sys/kernel/core_pattern"), READ_ONLY),
        ("the kernel's requests", write("/proc/sysrq-trigger"), READ_ONLY),
        ("the kernel's memory", open("/proc/kcore"), &[libc::EPERM, libc::EACCES, libc::ENOENT]),
        ("a control group", write("/sys/fs/cgroup/cgroup.procs"), READ_ONLY),
        ("the kernel's module list", write("/sys/module/kernel/uevent"), READ_ONLY),
        ("a higher priority", "setpriority(0, 0, -5) or die $!+0 . qq(\\n)".to_owned(), &[libc::EACCES, libc::EPERM]),
        ("real time", call(libc::SYS_sched_setscheduler, "0, 1, $p = pack(\"i\", 1)"), EPERM),
        ("to be killed last", "open(F, \">\", \"/proc/self/oom_score_adj\") && syswrite(F, \"-500\") or die $!+0 . qq(\\n)".to_owned(), &[libc::EACCES, libc::EPERM]),
        ("a higher limit", call(libc::SYS_prlimit64, "0, 4, $l = pack(\"QQ\", 1 << 30, 1 << 30), 0"), EPERM),
        ("marks on a file system", call(libc::SYS_fanotify_init, "0, 0"), EPERM),
        ("the clock", call(libc::SYS_clock_settime, "0, $t = pack(\"QQ\", 0, 0)"), EPERM),
        ("another name of the machine", call(libc::SYS_sethostname, "$n = \"x\", 1"), EPERM),
        ("swap", call(libc::SYS_swapon, "$n = \"README.md\", 0"), EPERM),
        ("quotas", call(libc::SYS_quotactl, "0, 0, 0, 0"), &[libc::EPERM, libc::ENOSYS, libc::EINVAL, libc::ENODEV, libc::ENOENT]),
        ("the kernel's log", call(libc::SYS_syslog, "3, $b = \"x\" x 64, 64"), EPERM),
        ("accounting", call(libc::SYS_acct, "$n = \"README.md\""), EPERM),
        ("a restart", call(libc::SYS_reboot, "0xfee1dead, 672274793, 0, 0"), EPERM),
        ("a raw socket", socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP), EPERM),
        ("packets", socket(libc::AF_PACKET, libc::SOCK_RAW, 0), EPERM),
        ("the machine's host", socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0), EPERM),
        ("the kernel's ciphers", socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0), EPERM),
        ("bluetooth", socket(31, libc::SOCK_RAW, 1), EPERM),
        ("a socket by io_uring", call(libc::SYS_io_uring_setup, "8, $p = \"\\0\" x 120"), EPERM),
        ("the metadata service", connect("169.254.169.254", 80), NO_NET),
        ("a host of the world", connect("93.184.216.34", 443), NO_NET),
        ("a name server of the world", send("9.9.9.9", 53), NO_NET),
        ("a private network", connect("10.0.0.1", 22), NO_NET),
        ("docker", "use IO::Socket::UNIX; IO::Socket::UNIX->new(Peer => \"/run/docker.sock\") or die $!+0 . qq(\\n)".to_owned(), NOT_THERE),
        ("docker by its old name", "use IO::Socket::UNIX; IO::Socket::UNIX->new(Peer => \"/var/run/docker.sock\") or die $!+0 . qq(\\n)".to_owned(), NOT_THERE),
        ("the system's bus", "use IO::Socket::UNIX; IO::Socket::UNIX->new(Peer => \"/run/dbus/system_bus_socket\") or die $!+0 . qq(\\n)".to_owned(), NOT_THERE),
    ]
}

/// Removes what was made in the host's memory.
struct Shared {
    key: i32,
    file: PathBuf,
}

impl Shared {
    fn new(world: &World, key: i32) -> Self {
        let made = format!("$i = shmget({key}, 16, 01600); defined $i && shmwrite($i, \"secret\", 0, 6) or die $!");
        assert!(world.command("perl").args(["-e", &made]).status().unwrap().success());
        let file = PathBuf::from(format!("/dev/shm/sandbox-test-{key}"));
        fs::write(&file, "secret\n").unwrap();
        Self { key, file }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let gone = format!("$i = shmget({}, 0, 0); shmctl($i, 0, 0)", self.key);
        drop(std::process::Command::new("perl").args(["-e", &gone]).status());
        drop(fs::remove_file(&self.file));
    }
}

/// What of the host's is there to be reached, beside a [`Target`].
struct Surroundings {
    _shared: Shared,
    _sockets: Vec<UnixListener>,
    tcp: TcpListener,
    udp: UdpSocket,
}

fn surround(world: &mut World, key: i32) -> Surroundings {
    let base = world.home().parent().unwrap().to_owned();
    let mut sockets = Vec::new();
    for path in ["home/.gnupg/S.gpg-agent", "ssh-x/agent.1", "xdg/bus", "docker.sock"] {
        fs::create_dir_all(base.join(path).parent().unwrap()).unwrap();
        sockets.push(UnixListener::bind(base.join(path)).unwrap());
    }
    // Where packets to the world would leave from. A machine without any address of its own cannot show that it is not
    // reached.
    let outward = UdpSocket::bind("0.0.0.0:0").unwrap();
    let routed = outward.connect("192.0.2.1:9");
    assert!(routed.is_ok(), "this test needs a network interface beside loopback");
    let lan = outward.local_addr().unwrap().ip();
    let (tcp, udp) = (TcpListener::bind((lan, 0)).unwrap(), UdpSocket::bind((lan, 0)).unwrap());
    udp.set_nonblocking(true).unwrap();
    tcp.set_nonblocking(true).unwrap();
    for (name, value) in [
        ("EXECUTOR", std::process::id().to_string()),
        ("SHM", key.to_string()),
        ("LAN", lan.to_string()),
        ("WIDE", tcp.local_addr().unwrap().port().to_string()),
        ("WIDEUDP", udp.local_addr().unwrap().port().to_string()),
        ("XDG_RUNTIME_DIR", base.join("xdg").display().to_string()),
        ("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}/xdg/bus", base.display())),
        ("DOCKER_HOST", format!("unix://{}/docker.sock", base.display())),
    ] {
        world.set(name, value);
    }
    Surroundings { _shared: Shared::new(world, key), _sockets: sockets, tcp, udp }
}

/// A number that no other test run on this machine uses.
fn key(which: i32) -> i32 {
    i32::try_from(std::process::id()).unwrap() * 4 + which
}

#[tokio::test(flavor = "multi_thread")]
async fn more_attacks_that_work_outside_fail_inside() {
    let attacks = attacks();
    let mut first = Target::new();
    let mut world = first.world.take().unwrap();
    let around = surround(&mut world, key(0));
    world.git(&["worktree", "add", "-q", "../work"]);
    for (name, attack) in &attacks {
        let mut shell = world.command("sh");
        shell.current_dir(world.home().join("work")).args(["-c", attack]).stdout(Stdio::null());
        let output = shell.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "`{name}` does not even work without a box: {attack}\n{said}");
    }
    assert!(around.tcp.accept().is_ok() && around.udp.recv(&mut [0; 16]).is_ok());
    drop((first, around));

    let mut target = Target::new();
    let mut world = target.world.take().unwrap();
    let around = surround(&mut world, key(1));
    let mut bench = Bench::new(world).await;
    let passed = PASSED.into_iter().chain(["EXECUTOR", "SHM", "LAN", "WIDE", "WIDEUDP"]);
    bench.task().sandbox.env = passed.map(str::to_owned).collect();
    let base = bench.world.home().parent().unwrap().to_owned();
    let before = Target::picture(&base);
    let table: Vec<(&str, &str)> = attacks.iter().map(|(name, attack)| (*name, attack.as_str())).collect();
    let end = bench.attempt(&[&format!("{}\ntrue", telling(&table))]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    assert_eq!(bench.memory.printed(), "");
    let after = Target::picture(&base);
    let changed: Vec<&PathBuf> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    assert_eq!(changed, Vec::<&PathBuf>::new(), "changed on the host");
    assert!(around.tcp.accept().is_err() && around.udp.recv(&mut [0; 16]).is_err(), "somebody called");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_root_could_do_is_refused_to_everybody() {
    let refused = refused();
    let mut bench = Bench::new(World::new()).await;
    let mut script = String::from("set +e\n");
    for (number, (_, attack, _)) in refused.iter().enumerate() {
        script += &["echo \"", &number.to_string(), " $(perl -e '", attack, "' 2>&1 | tail -1)\"\n"].concat();
    }
    let end = bench.attempt(&[&script]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    let printed = bench.memory.printed();
    assert_eq!(printed.lines().count(), refused.len(), "{printed}");
    let mut wrong = Vec::new();
    for (line, (name, attack, errors)) in printed.lines().zip(&refused) {
        let answer = line.split_once(' ').unwrap().1;
        if !answer.parse::<i32>().is_ok_and(|number| errors.contains(&number)) {
            wrong.push(format!("{name}: `{answer}` is not among {errors:?}: {attack}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_mount_of_a_box_lets_rights_or_devices_in() {
    let world = World::new();
    fs::create_dir(world.home().join("data")).unwrap();
    let mut bench = Bench::new(world).await;
    bench.task().sandbox.expose_rw = vec!["~/data".to_owned()];
    let end = bench.attempt(&["cat /proc/self/mountinfo; ls -A /run /run/sandbox"]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    let printed = bench.memory.printed();
    let mounts: Vec<Vec<&str>> =
        printed.lines().map(|line| line.split(' ').collect()).filter(|words: &Vec<&str>| words.len() > 6).collect();
    assert!(mounts.len() > 10, "{printed}");
    for words in mounts {
        let (place, options) = (words[4], words[5].split(',').collect::<Vec<_>>());
        assert!(options.contains(&"nosuid"), "set-user-id programs work in {place}: {options:?}");
        let device = place.starts_with("/dev/");
        assert!(options.contains(&"nodev") || device, "devices work in {place}: {options:?}");
    }
    // Nothing of the host's `/run`, with all its sockets, but what the program itself puts there.
    assert!(printed.contains("/run:\nsandbox\n\n/run/sandbox:\nbin\nturn.sock\n"), "{printed}");
}

/// A way to have the user's git run something: how it is planted, in a repository one stands in, and what the user then
/// does. `$C` is the command that must not run.
const PLANTED: [(&str, &str, &str); 17] = [
    ("fsmonitor", "git config core.fsmonitor $C", "git status"),
    (
        "hooksPath",
        "mkdir -p $G/h; cp $C $G/h/post-commit; git config core.hooksPath $G/h",
        "git commit -q --allow-empty -m x",
    ),
    ("alias", "git config alias.st \"!$C\"", "git st"),
    ("include", "printf '[core]\\n\\tfsmonitor = %s\\n' $C > $G/inc; git config include.path $G/inc", "git status"),
    (
        "includeIf",
        "printf '[core]\\n\\tfsmonitor = %s\\n' $C > $G/inc; git config includeIf.onbranch:**.path $G/inc",
        "git status",
    ),
    (
        "config.worktree",
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor $C",
        "git status",
    ),
    (
        "clean filter",
        "git config filter.x.clean $C; mkdir -p $G/info; echo '* filter=x' > $G/info/attributes",
        "echo more >> README.md; git add README.md",
    ),
    (
        "smudge filter",
        "git config filter.x.smudge $C; mkdir -p $G/info; echo '* filter=x' > $G/info/attributes",
        "rm README.md; git checkout README.md",
    ),
    (
        "text conversion",
        "git config diff.x.textconv $C; mkdir -p $G/info; echo '* diff=x' > $G/info/attributes",
        "git log -p",
    ),
    (
        "merge driver",
        "git config merge.x.driver $C; mkdir -p $G/info; echo '* merge=x' > $G/info/attributes",
        "git merge side",
    ),
    ("external diff", "git config diff.external $C", "echo more >> README.md; git diff"),
    ("pager", "git config core.pager $C", "PAGER=cat script -qec 'git log' /dev/null"),
    ("editor", "git config core.editor $C", "git commit -q --allow-empty"),
    ("sshCommand", "git config core.sshCommand $C", "git ls-remote ssh://nowhere.invalid/x"),
    (
        "credential helper",
        "git config credential.helper $C",
        "printf 'url=https://nowhere.invalid\\n\\n' | git credential fill",
    ),
    (
        "signing program",
        "git config gpg.program $C; git config commit.gpgSign true",
        "git commit -q --allow-empty -m x",
    ),
    (
        "commondir",
        "d=$(mktemp -d); cp -r $G/. $d/; git --git-dir=$d config core.fsmonitor $C; echo $d > $G/commondir",
        "git status",
    ),
];

/// Hooks, and what a user does that runs them. In the user's own repository these all run.
const HOOKS: [(&str, &str); 20] = [
    ("pre-commit", "git commit -q --allow-empty -m x"),
    ("prepare-commit-msg", "git commit -q --allow-empty -m x"),
    ("commit-msg", "git commit -q --allow-empty -m x"),
    ("post-commit", "git commit -q --allow-empty -m x"),
    ("reference-transaction", "git branch another"),
    ("post-checkout", "git checkout -q -b yet-another"),
    ("pre-merge-commit", "git merge -q --no-ff -m x side"),
    ("post-merge", "git merge -q --no-ff -m x side"),
    ("pre-rebase", "git rebase -q side"),
    ("post-rewrite", "git commit -q --amend -m y"),
    ("post-index-change", "echo more > more; git add more"),
    (
        "pre-auto-gc",
        "mkdir -p .git/objects/17; for n in 1 2 3; do : > .git/objects/17/$(printf %038d $n); done; git -c gc.auto=1 -c gc.autoDetach=false gc --auto",
    ),
    ("applypatch-msg", "git format-patch -q -1 --stdout side > p; git reset -q --hard HEAD; git am -q < p"),
    ("pre-applypatch", "git format-patch -q -1 --stdout side > p; git am -q < p"),
    ("post-applypatch", "git format-patch -q -1 --stdout side > p; git am -q < p"),
    ("pre-push", "git init -q --bare ../to.git; git push -q ../to.git main"),
    ("pre-receive", "git push -q . HEAD:refs/heads/received"),
    ("update", "git push -q . HEAD:refs/heads/received"),
    ("post-receive", "git push -q . HEAD:refs/heads/received"),
    ("post-update", "git push -q . HEAD:refs/heads/received"),
];

/// A repository with a branch that can be merged, rebased onto and made a patch of.
fn with_a_side() -> World {
    let world = World::new();
    world.git(&["checkout", "-q", "-b", "side"]);
    world.write("side", "side\n");
    world.write("src/b.txt", &crate::world::lines("b").replace("b line 3\n", "b line three\n"));
    world.commit("side");
    world.git(&["checkout", "-q", "main"]);
    world.write("src/b.txt", &crate::world::lines("b").replace("b line 17\n", "b line seventeen\n"));
    world.commit("main");
    world
}

/// Has something planted and then the user do something, in a repository.
fn shell(world: &World, folder: &Path, script: &str) {
    let script = format!("G=$(git rev-parse --path-format=absolute --git-common-dir)\n{script}");
    drop(world.command("timeout").current_dir(folder).args(["30", "sh", "-c", &script]).output().unwrap());
}

/// The script that plants a canary of this name, and a hook or settings that run it.
fn plant(name: &str, how: &str, canaries: &Path) -> String {
    let at = canaries.join(name.replace(' ', "-"));
    format!(
        "C=$G/run-{0}; printf '#!/bin/sh\\ntouch {1}\\n' > $C; chmod +x $C\n{how}\n",
        name.replace(' ', "-"),
        at.display()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_have_git_run_something_stays_inside() {
    let hooks = HOOKS.map(|(hook, then)| (hook, format!("mkdir -p $G/hooks; cp $C $G/hooks/{hook}"), then));
    let settings = PLANTED.map(|(name, how, then)| (name, how.to_owned(), then));
    let ways: Vec<(&str, String, &str)> = settings.into_iter().chain(hooks).collect();

    // Without a box each works, in a copy of its own.
    for (name, how, then) in &ways {
        let world = with_a_side();
        let canaries = world.home().join("canaries");
        fs::create_dir(&canaries).unwrap();
        shell(&world, &world.repo, &format!("{}{then}", plant(name, how, &canaries)));
        assert!(canaries.join(name.replace(' ', "-")).exists(), "`{name}` does not even work without a box");
    }

    // In one, all are planted and the agent's work is taken in; then the user does all of it.
    let world = with_a_side();
    let canaries = world.home().join("canaries");
    fs::create_dir(&canaries).unwrap();
    let mut bench = Bench::new(world).await;
    let files = foreign_files(bench.repository.common_dir());
    let start = "G=$(git rev-parse --path-format=absolute --git-common-dir)\n";
    let scripts: Vec<String> = ways
        .iter()
        .map(|(name, how, _)| {
            format!("{{ set +e; {start}{}\n}} 2>/dev/null; echo \"{name}\" >> done", plant(name, how, &canaries))
        })
        .collect();
    let turns: Vec<&str> = scripts.iter().map(String::as_str).collect();
    let end = bench.attempt(&turns).await;
    bench.expect(&end, AttemptOutcome::Completed);
    let after = foreign_files(bench.repository.common_dir());
    let changed: Vec<_> = files.keys().filter(|path| after.get(*path) != files.get(*path)).collect();
    assert!(changed.is_empty(), "{changed:?}");
    let world = &bench.world;
    for (_, _, then) in &ways {
        shell(
            world,
            &world.repo,
            &format!(
                "git checkout -qf main; {then}; git merge --abort; git am --abort; git rebase --abort; git checkout -qf main"
            ),
        );
    }
    shell(world, &world.repo, "git checkout -qf main; git merge -q -m x sandbox/t-1/worker; git status");
    let ran: Vec<_> = fs::read_dir(&canaries).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(ran.is_empty(), "something planted has run: {ran:?}");
    assert_eq!(fs::read_to_string(world.repo.join("done")).unwrap().lines().count(), ways.len(), "the work is there");
}

/// Files of a git directory that decide what git does or refuses, and a script for each that takes or breaks it.
const BROKEN: [(&str, &str); 16] = [
    ("reflogs", "git reflog expire --expire=now --expire-unreachable=now --all; test -z \"$(git reflog)\""),
    ("stash", "git stash clear; ! git rev-parse -q --verify refs/stash"),
    ("replacements", "git replace -f HEAD HEAD~1 && test -n \"$(git replace)\""),
    ("exclusions", "mkdir -p $G/info; echo '*' > $G/info/exclude"),
    ("attributes", "mkdir -p $G/info; echo '* -text' > $G/info/attributes"),
    ("grafts", "mkdir -p $G/info; git rev-parse HEAD > $G/info/grafts"),
    ("shallow", "git rev-parse HEAD > $G/shallow"),
    ("the index's lock", ": > $G/index.lock; : > $(git rev-parse --git-dir)/index.lock"),
    ("HEAD's lock", ": > $G/HEAD.lock"),
    ("the packed refs' lock", ": > $G/packed-refs.lock"),
    ("the settings' lock", ": > $G/config.lock"),
    ("a branch's lock", "mkdir -p $G/refs/heads; : > $G/refs/heads/main.lock"),
    ("a branch", "rm -f $G/refs/heads/main.lock $G/packed-refs.lock; git update-ref -d refs/heads/side"),
    ("HEAD", "echo 'ref: refs/heads/nowhere' > $G/HEAD"),
    ("alternates", "mkdir -p $G/objects/info; echo /nonexistent > $G/objects/info/alternates"),
    ("objects", "rm -rf $G/objects/pack $G/objects/[0-9a-f][0-9a-f]"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_file_of_the_git_directory_that_is_broken_is_the_agents_own() {
    let prepared = || {
        let world = with_a_side();
        world.write("README.md", "stashed\n");
        world.git(&["stash", "-q"]);
        world
    };
    for (name, script) in BROKEN {
        let world = prepared();
        let before = foreign_files(&world.repo.join(".git"));
        shell(&world, &world.repo, script);
        assert_ne!(foreign_files(&world.repo.join(".git")), before, "`{name}` does not even work without a box");
    }
    let mut bench = Bench::new(prepared()).await;
    let before = foreign_files(bench.repository.common_dir());
    for (name, script) in BROKEN {
        let script = format!(
            "set +e; G=$(git rev-parse --path-format=absolute --git-common-dir)\n{{ {script}; }} >/dev/null 2>&1; echo x >> x"
        );
        let end = bench.attempt(&[&script]).await;
        assert_eq!(end.outcome, AttemptOutcome::Completed, "{name}: {}", bench.reason());
        let after = foreign_files(bench.repository.common_dir());
        let changed: Vec<_> = before.keys().filter(|path| after.get(*path) != before.get(*path)).collect();
        assert!(changed.is_empty(), "{name}: {changed:?}");
    }
    bench.world.git(&["fsck", "--strict", "--no-dangling"]);
    assert_eq!(bench.world.git(&["stash", "list"]).lines().count(), 1);
    bench.check_replay();
}
