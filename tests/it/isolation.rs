//! What an agent can reach. Each attack is made without a box first, in a world of its own, to show that it works there;
//! then in a box, with the effects looked for outside.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use worktree_sandbox::git::Place;
use worktree_sandbox::model::{AttemptOutcome, RefName};
use worktree_sandbox::store::{Occupant, RepoKey, Workplaces};
use worktree_sandbox::workspace::{Commission, Surroundings, create, require_fit};

use crate::bench::{Bench, run_id};
use crate::world::{World, is_root, lines};

/// A home with secrets, a repository with dirt, a second checkout, sockets, a process, a descriptor left open.
pub(crate) struct Target {
    pub(crate) world: Option<World>,
    tcp: TcpListener,
    udp: UdpSocket,
    _sockets: [UnixListener; 2],
    pub(crate) process: Child,
    open: std::os::fd::OwnedFd,
}

const FILES: [(&str, &str); 9] = [
    ("home/.ssh/id_ed25519", "secret key"),
    ("home/.ssh/authorized_keys", "nobody"),
    ("home/.aws/credentials", "secret cloud"),
    ("home/.config/gh/hosts.yml", "secret forge"),
    ("home/.bashrc", "# bashrc"),
    ("home/.cargo/config.toml", "# cargo"),
    ("bin/tool", "#!/bin/sh\necho tool works\n"),
    ("bin/credentials.json", "secret in a tool folder"),
    ("bin/my-Token.txt", "secret in a tool folder"),
];

impl Target {
    pub(crate) fn new() -> Self {
        let mut world = World::new();
        let base = world.home().parent().unwrap().to_owned();
        for (path, content) in FILES {
            fs::create_dir_all(base.join(path).parent().unwrap()).unwrap();
            fs::write(base.join(path), content).unwrap();
        }
        fs::set_permissions(base.join("bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(base.join("home/.ssh"), fs::Permissions::from_mode(0o700)).unwrap();
        world.write(".env", "secret of the checkout\n");
        world.git(&["config", "user.signingKey", "secret"]);
        world.git(&["worktree", "add", "-q", "../second"]);
        fs::write(world.home().join("second/.env"), "secret of the second checkout\n").unwrap();

        let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        udp.set_nonblocking(true).unwrap();
        let name = format!("sandbox-test-{}", base.display());
        let abstract_socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let in_home = UnixListener::bind(world.home().join("agent.sock")).unwrap();
        let process = world.command("sleep").arg("600").env("SECRET", "of a process").spawn().unwrap();
        // Left open for whoever is started, as a careless program would.
        let secret = fs::File::open(world.home().join(".ssh/id_ed25519")).unwrap();
        let open = nix::unistd::dup(&secret).unwrap();

        for (name, value) in [
            ("REPO", world.repo.display().to_string()),
            ("SECOND", world.home().join("second").display().to_string()),
            ("TOOLS", world.bin.display().to_string()),
            ("TCP", tcp.local_addr().unwrap().port().to_string()),
            ("UDP", udp.local_addr().unwrap().port().to_string()),
            ("ABSTRACT", name),
            ("SOCK", world.home().join("agent.sock").display().to_string()),
            ("VICTIM", process.id().to_string()),
            ("OPEN", open.as_raw_fd().to_string()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
            ("GITHUB_TOKEN", "secret".to_owned()),
            ("SSH_AUTH_SOCK", world.home().join("agent.sock").display().to_string()),
        ] {
            world.set(name, value);
        }
        Self { world: Some(world), tcp, udp, _sockets: [abstract_socket, in_home], process, open }
    }

    /// What an attack could change: every file of the world with its mode, owner, time and content.
    pub(crate) fn picture(base: &Path) -> BTreeMap<PathBuf, String> {
        fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let metadata = path.symlink_metadata().unwrap();
                if ["sandbox", "state", "worktrees", "objects", "refs", "logs"].iter().any(|ours| path.ends_with(ours))
                {
                    continue;
                }
                let mut content = Vec::new();
                if metadata.is_file() {
                    fs::File::open(&path).unwrap().read_to_end(&mut content).unwrap();
                }
                let facts = (metadata.mode(), metadata.uid(), metadata.gid(), metadata.nlink());
                let time = if metadata.is_dir() { 0 } else { metadata.mtime() };
                found.insert(path.clone(), format!("{facts:?} {time} {}", content.escape_ascii()));
                if metadata.is_dir() {
                    walk(&path, found);
                }
            }
        }
        let mut found = BTreeMap::new();
        walk(base, &mut found);
        found
    }

    pub(crate) fn has_been_reached(&self) -> bool {
        self.udp.recv(&mut [0; 16]).is_ok()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Attacks, each a script that ends with 0 if it worked.
pub(crate) const ATTACKS: [(&str, &str); 41] = [
    ("write the checkout", "echo x > $REPO/README.md"),
    ("add to the checkout", "echo x > $REPO/new"),
    ("remove from the checkout", "rm $REPO/docs/x.txt"),
    ("rename in the checkout", "mv $REPO/src/a.txt $REPO/src/z.txt"),
    ("list the checkout", "ls $REPO/src | grep -q ."),
    ("read the checkout's dirt", "grep -q secret $REPO/.env"),
    ("read another checkout", "grep -q secret $SECOND/.env"),
    ("list another checkout", "ls $SECOND | grep -q ."),
    ("write another checkout", "echo x > $SECOND/x"),
    ("read keys", "grep -q secret ~/.ssh/id_ed25519"),
    ("read cloud keys", "grep -q secret ~/.aws/credentials"),
    ("read forge keys", "grep -q secret ~/.config/gh/hosts.yml"),
    (
        "read keys by a way around",
        "grep -q secret \"$(realpath --relative-to=. ~ 2>/dev/null || echo ../../../../home)/.ssh/id_ed25519\"",
    ),
    ("read keys by a link", "ln -sf ~/.ssh/id_ed25519 l1 && grep -q secret l1"),
    ("write by a link", "ln -sf $REPO/src/b.txt l2 && echo x > l2"),
    ("write by a linked folder", "ln -sfn $REPO/src l3 && echo x > l3/planted"),
    ("hard-link a file", "ln $REPO/README.md h1"),
    ("hard-link an object", "ln \"$(find $REPO/.git -path '*objects/*' -type f | head -1)\" h2"),
    ("hard-link a tool", "ln $TOOLS/tool h3"),
    ("read the settings", "grep -q secret $REPO/.git/config"),
    ("change modes", "chmod 777 $TOOLS/tool"),
    ("change times", "touch -d @1000 $TOOLS/tool"),
    ("change owners", "chown $(stat -c %u $TOOLS/tool) $TOOLS/tool"),
    ("replace a tool", "echo x > $TOOLS/tool.new && mv $TOOLS/tool.new $TOOLS/tool"),
    ("read a secret among tools", "grep -q secret $TOOLS/credentials.json"),
    ("read a token among tools", "grep -q secret $TOOLS/my-Token.txt"),
    ("read what another process sees", "grep -q secret /proc/$VICTIM/root$HOME/.ssh/id_ed25519"),
    ("read another process's variables", "tr '\\0' '\\n' < /proc/$VICTIM/environ | grep -q '^SECRET='"),
    ("signal another process", "kill -0 $VICTIM"),
    ("stop another process", "kill -STOP $VICTIM && kill -CONT $VICTIM"),
    ("read an open descriptor", "grep -q secret /proc/self/fd/$OPEN"),
    ("read a cloud variable", "test -n \"$AWS_SECRET_ACCESS_KEY\""),
    ("read a forge variable", "test -n \"$GITHUB_TOKEN\""),
    ("find the key agent", "test -n \"$SSH_AUTH_SOCK\""),
    ("call a socket in the home", "perl -MIO::Socket::UNIX -e 'exit !IO::Socket::UNIX->new(Peer => $ENV{SOCK})'"),
    (
        "call an abstract socket",
        "perl -MSocket -e 'socket(my $s, PF_UNIX, SOCK_STREAM, 0); exit !connect($s, pack(\"S\", AF_UNIX) . \"\\0$ENV{ABSTRACT}\")'",
    ),
    (
        "call the host",
        "perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new(PeerAddr => \"127.0.0.1:$ENV{TCP}\", Timeout => 2)'",
    ),
    (
        "send to the host",
        "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Proto => \"udp\", PeerAddr => \"127.0.0.1:$ENV{UDP}\"); exit !($s && $s->send(\"x\") && !$ENV{SANDBOX})'",
    ),
    (
        "see the host's interfaces",
        "ls /sys/class/net /proc/sys/net/ipv4/conf >/dev/null; grep -vE 'lo:|Inter|face' /proc/net/dev | grep -q : || test -z \"$SANDBOX\"",
    ),
    ("see the host's processes", "test $(ls -d /proc/[0-9]* | wc -l) -gt 30 || test -z \"$SANDBOX\""),
    ("see the host's temporary files", "ls -d /tmp/sandbox-test-* | grep -q . && ls $TOOLS/../home/.bashrc"),
];

/// What the attacks need to know, by name. What they must not know is in the same environment.
pub(crate) const PASSED: [&str; 9] = ["REPO", "SECOND", "TOOLS", "TCP", "UDP", "ABSTRACT", "SOCK", "VICTIM", "OPEN"];

/// A script that makes the attacks and prints a line for each that worked.
pub(crate) fn telling(attacks: &[(&str, &str)]) -> String {
    let guarded = |(name, attack): &(&str, &str)| format!("( {attack} ) >/dev/null 2>&1 && echo \"worked: {name}\"");
    attacks.iter().map(guarded).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn attacks_that_work_outside_fail_inside() {
    // Without a box.
    let mut first = Target::new();
    let world = first.world.take().unwrap();
    world.git(&["worktree", "add", "-q", "../work"]);
    for (name, attack) in ATTACKS {
        let mut shell = world.command("sh");
        shell.current_dir(world.home().join("work")).args(["-c", attack]).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(shell.status().unwrap().success(), "`{name}` does not even work without a box: {attack}");
    }
    assert!(first.has_been_reached());
    drop(first);

    // In one.
    let mut target = Target::new();
    let mut bench = Bench::new(target.world.take().unwrap()).await;
    bench.task().sandbox.env = PASSED.map(str::to_owned).to_vec();
    let base = bench.world.home().parent().unwrap().to_owned();
    let before = Target::picture(&base);
    let scripts = telling(&ATTACKS);
    let end = bench.attempt(&[&format!("tool\n{scripts}\nls /proc/self/fd | wc -l; pwd; true")]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    let printed = bench.memory.printed();
    let worked: Vec<&str> = printed.lines().filter(|line| line.starts_with("worked")).collect();
    assert_eq!(worked, Vec::<&str>::new());
    assert!(printed.starts_with("tool works\n"), "{printed}");
    // The three streams, and the folder that is being listed.
    assert!(printed.ends_with(&format!("4\n{}\n", bench.worktree().display())), "{printed}");
    let after = Target::picture(&base);
    let changed: Vec<&PathBuf> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    assert_eq!(changed, Vec::<&PathBuf>::new(), "changed on the host");
    assert!(!target.has_been_reached());
    assert!(target.tcp.set_nonblocking(true).is_ok() && target.tcp.accept().is_err(), "somebody called");
    assert!(target.process.try_wait().unwrap().is_none(), "the process lives");
    assert!(target.open.as_raw_fd() > 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_of_its_own_is_no_way_into_the_users() {
    let mut target = Target::new();
    let mut bench = Bench::new(target.world.take().unwrap()).await;
    let base = bench.world.home().parent().unwrap().to_owned();
    let before = Target::picture(&base);
    let script = r"
cd ~; ls -A | sort > /tmp/before; git config --global user.name
mkdir -p .ssh .cargo .config
for f in .bashrc .gitconfig .ssh/authorized_keys .cargo/config.toml .config/x; do echo mine > $f; done
cat .bashrc
cp /bin/true /tmp/s; chmod 4755 /tmp/s; mknod /tmp/null c 1 3 2>/dev/null && cat /tmp/null 2>/dev/null && echo device
cat /tmp/before
";
    let end = bench.attempt(&[script, "cat ~/.bashrc; rm -rf ~/.ssh ~/.cargo ~/.config"]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    let printed = bench.memory.printed();
    assert!(printed.starts_with("Tester\n"), "{printed}");
    assert!(!printed.contains("device") && !printed.contains(".aws") && !printed.contains(".ssh"), "{printed}");
    assert_eq!(printed.lines().filter(|line| *line == "mine").count(), 2, "the home stays over the turns: {printed}");
    assert_eq!(Target::picture(&base), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn worktrees_of_others_are_invisible() {
    let mut bench = Bench::new(World::new()).await;
    // Another agent's worktree, made before and after the first.
    let other: worktree_sandbox::model::AgentName = "other".parse().unwrap();
    let key = RepoKey::of_common_dir(bench.repository.common_dir());
    let place = Workplaces::new(&bench.world.worktrees(), &key).place(&run_id(), &Occupant::agent(&other));
    let made = create(&Commission {
        repository: &bench.repository,
        head: &bench.repository.load_head().unwrap(),
        state: &bench.state,
        environment: &bench.capturer.environment,
        place: place.clone(),
        fork: bench.fork.commit.clone(),
        stand: Place::NewBranch(RefName::agent_branch(&run_id(), &other)),
        reason: "test".to_owned(),
    })
    .unwrap();
    fs::write(made.place.worktree().join("secret"), "secret\n").unwrap();
    let sees = format!(
        "W={}; O={}; P={}; ls -A \"$W\" \"$W\"/*; cat \"$O/secret\" && echo got; echo x > \"$O/x\" && echo got; \
         mkdir \"$W/new\" && echo got; ls \"$P\" && echo got; mv \"$PWD\" \"$PWD.x\" && echo got; \
         git rev-parse --verify -q refs/heads/sandbox/t-1/other && echo got; ls \"$(git rev-parse --git-common-dir)/worktrees\"; true",
        bench.world.worktrees().display(),
        place.worktree().display(),
        place.private().display()
    );
    let bare = bench.world.command("sh").current_dir(bench.worktree()).args(["-c", &sees]).output().unwrap();
    let bare = String::from_utf8_lossy(&bare.stdout).into_owned();
    assert!(bare.contains("t-1--other") && bare.contains("got"), "without a box: {bare}");
    drop(fs::rename(format!("{}.x", bench.worktree().display()), bench.worktree()));
    for planted in [place.worktree().join("x"), bench.world.worktrees().join("new")] {
        drop(fs::remove_file(&planted).or_else(|_| fs::remove_dir(&planted)));
    }

    let end = bench.attempt(&[&sees]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    let printed = bench.memory.printed();
    assert!(
        !printed.contains("got") && !printed.lines().any(|line| line == "t-1--other" || line == ".private"),
        "{printed}"
    );
    assert!(printed.contains("t-1--worker"), "its own is there: {printed}");
    assert!(!place.worktree().join("x").exists());
    let permissions = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    for folder in [bench.world.worktrees().as_path(), place.worktree().parent().unwrap(), place.private()] {
        assert_eq!(permissions(folder), 0o700, "{}", folder.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_inside_brings_no_command_along() {
    let mut bench = Bench::new(World::new()).await;
    let canary = bench.world.home().join("canary");
    let plant = format!(
        "git init -q sub; echo x > sub/x; git -C sub add x; git -C sub commit -qm x; printf '#!/bin/sh\\ntouch {0}\\n' > sub/.git/run; \
         chmod +x sub/.git/run; git -C sub config core.fsmonitor \"$PWD/sub/.git/run\"; git -C sub config core.hooksPath \"$PWD/sub/.git\"; git add sub; git commit -qm sub",
        canary.display()
    );
    let end = bench.attempt(&[&plant]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert_eq!(bench.record(1, 1).not_captured.nested_repositories.len(), 1);
    let world = &bench.world;
    for arguments in
        [&["status"][..], &["diff", "HEAD", "sandbox/t-1/worker"], &["merge", "-q", "sandbox/t-1/worker"], &["status"]]
    {
        world.git(arguments);
    }
    assert!(!canary.exists(), "the harvest, or the user's merge, ran it");
    // What a user does in the agent's worktree is another matter: there it would run.
    drop(world.command("git").current_dir(bench.worktree()).args(["-C", "sub", "status"]).output().unwrap());
    assert!(canary.exists(), "the trap does not even work");
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_places_cannot_be_exposed() {
    let world = World::new();
    fs::create_dir_all(world.home().join("data")).unwrap();
    fs::write(world.home().join("data/file"), "shown\n").unwrap();
    fs::write(world.home().join("data/api-token"), "secret\n").unwrap();
    std::os::unix::fs::symlink(&world.repo, world.home().join("way-in")).unwrap();
    let mut bench = Bench::new(world).await;
    let at = |path: &Path| path.display().to_string();
    let forbidden = [
        at(&bench.world.repo),
        at(&bench.world.repo.join("src")),
        at(&bench.world.repo.join(".git")),
        at(&bench.world.worktrees()),
        at(bench.workspace.place.private()),
        at(&bench.world.home()),
        at(bench.world.home().parent().unwrap()),
        "~/way-in".to_owned(),
        "~/way-in/src".to_owned(),
        "~/repo/src".to_owned(),
        "~".to_owned(),
        "/".to_owned(),
        "/proc".to_owned(),
        "relative".to_owned(),
        "~/absent".to_owned(),
    ];
    for path in forbidden {
        bench.task().sandbox.expose = vec![path.clone()];
        let end = bench.attempt(&["echo never > never"]).await;
        bench.expect(&end, AttemptOutcome::SandboxRefused);
        assert!(bench.reason().contains(&format!("`{path}`")), "{path}: {}", bench.reason());
    }
    bench.task().sandbox.expose = vec!["~/data".to_owned()];
    let end = bench.attempt(&["cat ~/data/*; touch ~/data/x 2>/dev/null || echo refused"]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    assert_eq!(bench.memory.printed(), "shown\nrefused\n");
    assert!(!bench.worktree().join("never").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_below_the_home_work() {
    let mut world = World::new();
    for (folder, name) in [(".cargo/bin", "fake-cargo"), ("bin", "own"), (".nvm/versions/bin", "node")] {
        let folder = world.home().join(folder);
        fs::create_dir_all(folder.join("lib")).unwrap();
        fs::write(folder.join("lib/part"), format!("{name} with all its parts\n")).unwrap();
        fs::write(folder.join(name), "#!/bin/sh\ncat \"$(dirname \"$0\")/lib/part\"\n").unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::create_dir_all(world.home().join(".cargo/registry/src")).unwrap();
    fs::write(world.home().join(".cargo/registry/src/lib.rs"), "from the registry\n").unwrap();
    fs::write(world.home().join(".cargo/credentials.toml"), "secret\n").unwrap();
    fs::create_dir_all(world.repo.join("node_modules/.bin")).unwrap();
    fs::write(world.home().join("a-file"), "").unwrap();
    let home = world.home().display().to_string();
    let path = format!(
        "{home}/.cargo/bin:{home}/bin:{home}/.nvm/versions/bin:{home}/a-file:{home}:{}/node_modules/.bin:.:/gone:/usr/bin:/bin",
        world.repo.display()
    );
    world.set("PATH", path);
    let mut bench = Bench::new(world).await;
    let script = "fake-cargo; own; node; cat ~/.cargo/registry/src/lib.rs; ls -A ~/.cargo; echo x > ~/.cargo/mine; \
                  ! touch ~/bin/x 2>/dev/null; ! touch ~/.cargo/registry/x 2>/dev/null; ! ls ~/a-file 2>/dev/null; ! ls ~/repo/node_modules 2>/dev/null";
    let end = bench.attempt(&[script]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    assert_eq!(
        bench.memory.printed(),
        "fake-cargo with all its parts\nown with all its parts\nnode with all its parts\nfrom the registry\nbin\nregistry\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stderr, reason = "a test that cannot run says so")]
async fn a_crate_is_built_with_the_users_own_cargo() {
    let real = |name: &str, below_home: &str| {
        let own = std::env::var_os(name).map(PathBuf::from);
        own.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(below_home))).filter(|path| path.is_dir())
    };
    let (Some(rustup), Some(cargo)) = (real("RUSTUP_HOME", ".rustup"), real("CARGO_HOME", ".cargo")) else {
        // Said aloud: a run of the suite that cannot do this shows it.
        eprintln!("SKIPPED: no cargo of this user's, so none can be tried in a box");
        return;
    };
    let mut world = World::new();
    world.write("Cargo.toml", "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n");
    world.write("src/main.rs", "fn main() { println!(\"built in a box\"); }\n");
    world.write(".gitignore", "/target\n");
    world.commit("a crate");
    world.set("RUSTUP_HOME", &rustup);
    world.set("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", cargo.join("bin").display()));
    let mut bench = Bench::new(world).await;
    let end = bench.attempt(&["cargo run -q --offline"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert!(bench.memory.printed().ends_with("built in a box\n"), "{}", bench.memory.printed());
    assert_eq!(bench.record(1, 1).not_captured.ignored.len(), 1, "`target/` is named, and stays outside the tree");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_box_works_wherever_things_lie() {
    let mut worlds = vec![("state beside the home, below the system's temporary folder", World::new())];
    let below = World::new();
    let state = below.home().join(".local/state");
    worlds.push(("state below the home, not there yet", below.with_state(state)));
    let odd = World::new();
    let state = odd.home().join("odd \u{fc}\n\"name'");
    worlds.push(("an odd name", odd.with_state(state)));
    let built = Path::new(env!("CARGO_TARGET_TMPDIR"));
    if tempfile::tempdir_in(built).is_ok() {
        let elsewhere = World::below(built);
        elsewhere.write("README.md", "readme\n");
        elsewhere.write("src/a.txt", &lines("a"));
        elsewhere.commit("base");
        worlds.push(("outside every temporary folder", elsewhere));
    } else {
        assert!(!is_root(), "the build's own folder cannot be written");
    }
    let marker = tempfile::Builder::new().prefix("marker").tempfile_in("/tmp").unwrap();
    for (name, world) in worlds {
        let mut bench = Bench::new(world).await;
        let script = "echo x > x; git add x; git commit -qm x; test \"$(cat README.md)\" = readme; sandbox turn half; ! ls /tmp/*marker* 2>/dev/null; echo y > y";
        let end = bench.attempt(&[script]).await;
        assert_eq!(end.outcome, AttemptOutcome::Completed, "{name}: {} {}", bench.reason(), bench.memory.printed());
        bench.check_replay();
        assert_eq!(bench.snapshot()[&b"y"[..]].1, b"y\n", "{name}");
        let mode = bench.workspace.place.private().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{name}");
        require_fit(&bench.capturer.surroundings, &bench.capturer.environment).unwrap();
    }
    drop(marker);
}

#[test]
fn places_that_cannot_be_kept_apart_are_refused() {
    let world = World::new();
    let environment = world.environment();
    let git = worktree_sandbox::git::Git::find_in(None, world.variables()).unwrap();
    let repository = worktree_sandbox::git::Repository::discover(&git, &world.repo).unwrap();
    let refused = |root: &Path, home: &Path| {
        let around = Surroundings::load(&repository, root).unwrap();
        let environment = worktree_sandbox::workspace::HostEnvironment { home: home.to_owned(), ..environment.clone() };
        require_fit(&around, &environment).err().map(|error| error.to_string())
    };
    let (home, repo) = (world.home(), world.repo.clone());
    assert_eq!(refused(&world.worktrees(), &home), None);
    for (root, home, says) in [
        (repo.join("worktrees"), home.clone(), "the folder for worktrees"),
        (repo.join(".git/worktrees-of-ours"), home.clone(), "the folder for worktrees"),
        (home.clone(), home.clone(), "the repository"),
        (world.worktrees(), repo.clone(), "your home directory"),
        (world.worktrees(), repo.join("home"), "your home directory"),
        (world.state(), world.state().join("home"), "your home directory"),
    ] {
        let message = refused(&root, &home).unwrap_or_default();
        assert!(message.contains(says), "{} and {}: {message}", root.display(), home.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_was_replaced_meanwhile_goes_on() {
    let mut world = World::new();
    // Git, too, may lie where a box shows nothing.
    let (own, git) = (world.home().join("opt/sandbox"), world.home().join("opt/git"));
    fs::create_dir(world.home().join("opt")).unwrap();
    fs::copy(crate::world::program(), &own).unwrap();
    fs::copy("/usr/bin/git", &git).unwrap();
    world.set("SANDBOX_GIT", &git);
    let mut bench = Bench::new(world).await;
    bench.capturer.environment.program.clone_from(&own);
    let end = bench.attempt(&["echo 1 > one"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    let next = own.with_extension("new");
    fs::copy(crate::world::program(), &next).unwrap();
    fs::rename(&next, &own).unwrap();
    let end = bench.attempt(&["echo 2 > two"]).await;
    bench.expect(&end, AttemptOutcome::Completed);

    // Something else in its place is believed nothing, and its going is said by name.
    fs::copy("/bin/false", &next).unwrap();
    fs::rename(&next, &own).unwrap();
    let end = bench.attempt(&["echo 3 > three"]).await;
    assert!(
        matches!(end.outcome, AttemptOutcome::SandboxRefused | AttemptOutcome::CaptureFailed),
        "{}",
        bench.reason()
    );
    fs::remove_file(&own).unwrap();
    let end = bench.attempt(&["echo 3 > three"]).await;
    bench.expect(&end, AttemptOutcome::SandboxRefused);
    assert!(bench.reason().contains("opt/sandbox") && bench.reason().contains("put it back"), "{}", bench.reason());
    assert!(!bench.worktree().join("three").exists());
}

#[test]
fn a_folder_that_others_can_write_holds_no_worktree() {
    let world = World::new();
    let environment = world.environment();
    let git = worktree_sandbox::git::Git::find_in(None, world.variables()).unwrap();
    let repository = worktree_sandbox::git::Repository::discover(&git, &world.repo).unwrap();
    let head = repository.load_head().unwrap();
    let state = worktree_sandbox::store::StateDir::in_common_dir(repository.common_dir());
    let key = RepoKey::of_common_dir(repository.common_dir());
    let place = Workplaces::new(&world.worktrees(), &key).place(&run_id(), &Occupant::agent(&"a".parse().unwrap()));
    let folder = place.worktree().parent().unwrap().to_owned();
    fs::create_dir_all(&folder).unwrap();
    let attempt = || {
        create(&Commission {
            repository: &repository,
            head: &head,
            state: &state,
            environment: &environment,
            place: place.clone(),
            fork: head.require_commit().unwrap().clone(),
            stand: Place::Detached,
            reason: "test".to_owned(),
        })
    };
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let message = attempt().unwrap_err().to_string();
    assert!(message.contains(folder.to_str().unwrap()) && message.contains("written by other users"), "{message}");
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1, "nothing is left behind");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    attempt().unwrap();
}
