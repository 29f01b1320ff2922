//! What a plan shows, writable, and hides of the host: it has its effect, and cannot be used against the user.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use serde_json::Value;
use worktree_sandbox::model::AttemptOutcome;
use worktree_sandbox::workspace::pin;

use crate::bench::Bench;
use crate::flow::plan;
use crate::world::World;

fn at(path: &Path) -> String {
    path.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_exposed_writable_can_be_written_and_nothing_beside_it() {
    let world = World::new();
    let home = world.home();
    for folder in ["cache/deep", "beside", ".cargo/registry"] {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
    fs::write(home.join("cache/kept"), "kept\n").unwrap();
    fs::write(home.join("cache/api-token"), "secret\n").unwrap();
    fs::write(home.join("one-file"), "old\n").unwrap();
    symlink(home.join("beside"), home.join("cache/way-out")).unwrap();
    let mut bench = Bench::new(world).await;
    let script = "set +e; cat ~/cache/kept; echo new > ~/cache/deep/new; echo new > ~/one-file; cat ~/cache/api-token
        (echo x > ~/cache/way-out/planted) 2>/dev/null && echo planted; (echo x > ~/cache/api-token) 2>/dev/null && echo written
        cp /bin/true ~/cache/s; chmod 4755 ~/cache/s; mknod ~/cache/null c 1 3 2>/dev/null && echo device
        ln ~/cache/kept linked 2>/dev/null && echo linked; mv ~/cache ~/cache2 2>/dev/null && echo moved
        touch ~/.cargo/registry/x 2>/dev/null && echo registry; echo done > done";
    // Not asked for: nothing of it is there.
    let end = bench.attempt(&["! ls ~/cache ~/one-file 2>/dev/null"]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    assert_eq!(bench.memory.printed(), "");
    bench.task().sandbox.expose_rw = ["~/cache", "~/one-file", "~/.cargo/registry"].map(str::to_owned).to_vec();
    let end = bench.attempt(&[script]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert_eq!(bench.memory.printed(), "kept\nregistry\n");
    assert_eq!(fs::read_to_string(home.join("cache/deep/new")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(home.join("one-file")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(home.join("cache/api-token")).unwrap(), "secret\n");
    assert!(!home.join("beside/planted").exists() && home.join("cache").is_dir());
    // The same folder, read-only for one agent and writable for another: the narrower word of one agent counts for it.
    bench.task().sandbox.expose = vec!["~/cache/deep".to_owned()];
    let end =
        bench.attempt(&["set +e; touch ~/cache/yes; touch ~/cache/deep/no 2>/dev/null && echo wrote; true"]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    assert!(home.join("cache/yes").exists() && !home.join("cache/deep/no").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_places_cannot_be_exposed_writable() {
    let mut world = World::new();
    let home = world.home();
    for folder in ["bin", "lib/tools/bin", ".rustup/toolchains"] {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
    symlink(&world.repo, home.join("way-in")).unwrap();
    symlink(home.join("bin"), home.join("other-bin")).unwrap();
    world.set("PATH", format!("{0}/bin:{0}/lib/tools/bin:/usr/local/bin:/usr/bin:/bin", home.display()));
    let mut bench = Bench::new(world).await;
    let forbidden = [
        (at(&bench.world.repo), "the repository"),
        (at(&bench.world.repo.join("src")), "the repository"),
        (at(&bench.world.repo.join(".git")), "the repository"),
        (at(&bench.world.repo.join(".git/hooks")), "the repository"),
        (at(&bench.world.worktrees()), "the worktrees of agents"),
        (at(&bench.worktree().join("src")), "the worktrees of agents"),
        (at(bench.workspace.place.private()), "the worktrees of agents"),
        (at(&bench.world.home()), "the repository"),
        (at(bench.world.home().parent().unwrap()), "the repository"),
        ("~/way-in/src".to_owned(), "the repository"),
        ("~".to_owned(), "the repository"),
        ("/".to_owned(), "the repository"),
        ("/usr".to_owned(), "programs that you run"),
        ("/usr/bin".to_owned(), "programs that you run"),
        ("~/bin".to_owned(), "programs that you run"),
        ("~/other-bin".to_owned(), "programs that you run"),
        ("~/lib".to_owned(), "programs that you run"),
        ("~/.rustup/toolchains".to_owned(), "programs that you run"),
        (at(bench.capturer.environment.program.parent().unwrap()), "programs that you run"),
        ("/proc/sys".to_owned(), "/proc"),
        ("relative".to_owned(), "absolute"),
        ("~/absent".to_owned(), "No such file"),
    ];
    for (path, why) in forbidden {
        bench.task().sandbox.expose_rw = vec![path.clone()];
        let end = bench.attempt(&["echo never > never"]).await;
        bench.expect(&end, AttemptOutcome::SandboxRefused);
        let reason = bench.reason();
        assert!(reason.contains(&format!("`{path}")) && reason.contains(why), "{path}: {reason}");
    }
    assert!(!bench.worktree().join("never").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_hidden_is_not_there() {
    // Not below the home or the system's temporary folder, where nothing is seen anyway.
    let around = tempfile::Builder::new().prefix("sandbox-hide-").tempdir_in("/var/lib");
    let around = around.or_else(|_| tempfile::Builder::new().prefix("sandbox-hide-").tempdir_in("/var/tmp")).unwrap();
    let folder = around.path().canonicalize().unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let visible = !folder.starts_with("/var/tmp");
    fs::create_dir_all(folder.join("sockets/below")).unwrap();
    fs::write(folder.join("sockets/below/data"), "data\n").unwrap();
    let socket = UnixListener::bind(folder.join("sockets/x.sock")).unwrap();
    socket.set_nonblocking(true).unwrap();
    let world = World::new();
    let home = world.home();
    fs::create_dir_all(home.join("shown/part")).unwrap();
    fs::write(home.join("shown/part/secret"), "secret\n").unwrap();
    fs::write(home.join("shown/open"), "open\n").unwrap();
    let mut bench = Bench::new(world).await;
    let call = format!(
        "set +e; cd {}; cat sockets/below/data && echo read; perl -MIO::Socket::UNIX -e 'exit !IO::Socket::UNIX->new(Peer => \"sockets/x.sock\")' && echo called
        cat ~/shown/part/secret ~/shown/open; true",
        folder.display()
    );
    bench.task().sandbox.expose = vec!["~/shown".to_owned()];
    let end = bench.attempt(&[&format!("{{ {call}; }} 2>/dev/null")]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    let baseline = bench.memory.printed();
    let seen = if visible { "data\nread\ncalled\n" } else { "" };
    assert_eq!(baseline, format!("{seen}secret\nopen\n"), "a read-only mount does not stop a call");
    drop(socket.accept());

    bench.memory.output.lock().unwrap().clear();
    bench.task().sandbox.hide = vec![at(&folder.join("sockets")), "~/shown/part".to_owned()];
    let end = bench
        .attempt(&[&format!("{{ {call}; ls -A sockets; touch sockets/new && echo new; }} 2>/dev/null; true")])
        .await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    assert_eq!(bench.memory.printed(), "open\n");
    assert!(socket.accept().is_err(), "somebody called");
    // Where something below is shown, it alone is there.
    bench.memory.output.lock().unwrap().clear();
    bench.task().sandbox.hide = vec![at(&folder)];
    bench.task().sandbox.expose = vec![at(&folder.join("sockets/below"))];
    let end = bench.attempt(&[&format!("find {} | sort | tail -n +2; true", folder.display())]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    let below = folder.join("sockets");
    assert_eq!(bench.memory.printed(), format!("{0}\n{0}/below\n{0}/below/data\n", below.display()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_folder_of_tools_is_gone_from_the_box() {
    let mut world = World::new();
    let tool = world.home().join("opt/bin/tool");
    fs::create_dir_all(tool.parent().unwrap()).unwrap();
    fs::write(&tool, "#!/bin/sh\necho tool\n").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    world.set("PATH", format!("{}:/usr/bin:/bin", tool.parent().unwrap().display()));
    let mut bench = Bench::new(world).await;
    let end = bench.attempt(&["tool"]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    assert_eq!(bench.memory.printed(), "tool\n");
    bench.task().sandbox.hide = vec!["~/opt".to_owned()];
    let end = bench.attempt(&["tool || echo gone"]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    assert!(bench.memory.printed().ends_with("gone\n"), "{}", bench.memory.printed());
    assert_eq!(tool.metadata().unwrap().mode() & 0o777, 0o755);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_box_needs_cannot_be_hidden() {
    let world = World::new();
    fs::create_dir_all(world.home().join("data/in")).unwrap();
    fs::write(world.home().join("file"), "").unwrap();
    let mut bench = Bench::new(world).await;
    let refused = [
        (at(bench.worktree()), "the agent's worktree"),
        (at(bench.worktree().parent().unwrap()), "the agent's worktree"),
        (at(&bench.worktree().join("src")), "the agent's own worktree"),
        (at(&bench.world.repo), "the agent's git directory"),
        (at(&bench.world.repo.join(".git")), "the agent's git directory"),
        (at(&bench.world.repo.join(".git/objects")), "git directory"),
        (at(bench.capturer.environment.program.parent().unwrap()), "this program"),
        (at(&bench.world.home()), "the agent's git directory"),
        ("/".to_owned(), "worktree"),
        (at(bench.capturer.surroundings.git.parent().unwrap()), "the git program"),
        ("/usr".to_owned(), "the git program"),
        ("/run".to_owned(), "what a box has of its own"),
        ("/etc".to_owned(), "no program starts"),
        ("/lib".to_owned(), "no program starts"),
        ("/proc/sys".to_owned(), "/proc"),
        ("~/file".to_owned(), "not a folder"),
        ("~/absent".to_owned(), "No such file"),
    ];
    for (path, why) in refused {
        bench.task().sandbox.hide = vec![path.clone()];
        let end = bench.attempt(&["echo never > never"]).await;
        bench.expect(&end, AttemptOutcome::SandboxRefused);
        let reason = bench.reason();
        assert!(reason.contains(&format!("`{path}`")) && reason.contains(why), "{path}: {reason}");
    }
    bench.task().sandbox.hide = vec!["~/data".to_owned()];
    bench.task().sandbox.expose = vec!["~/data".to_owned()];
    let end = bench.attempt(&["echo never > never"]).await;
    bench.expect(&end, AttemptOutcome::SandboxRefused);
    assert!(bench.reason().contains("name it in one of the lists"), "{}", bench.reason());
    assert!(!bench.worktree().join("never").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_place_of_a_box_is_made_on_the_host() {
    let own = Path::new("/run/sandbox");
    assert!(!own.exists(), "these tests need a machine without `{}`", own.display());
    let mut bench = Bench::new(World::new()).await;
    for writable in [false, true] {
        let list = vec!["/run".to_owned()];
        let sandbox = &mut bench.task().sandbox;
        (sandbox.expose, sandbox.expose_rw) = if writable { (Vec::new(), list) } else { (list, Vec::new()) };
        let end = bench.attempt(&["echo never > never"]).await;
        bench.expect(&end, AttemptOutcome::SandboxRefused);
        assert!(bench.reason().contains("would be made on the host"), "{}", bench.reason());
        assert!(!own.exists());
    }
}

/// Puts a link to the user's keys where the tools were.
const SWAP: &str = "mv ~/data/x/tools ~/data/x/mine && ln -s ../../.ssh ~/data/x/tools";

/// A world whose home has keys, and tools below a folder of data.
fn world_with_keys() -> World {
    let world = World::new();
    for folder in [".ssh", "data/x/tools"] {
        fs::create_dir_all(world.home().join(folder)).unwrap();
    }
    fs::write(world.home().join(".ssh/id"), "private key\n").unwrap();
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_made_a_link_of_is_not_shown_to_the_next() {
    for pinned in [false, true] {
        let mut bench = Bench::new(world_with_keys()).await;
        let readable = ["cat ~/.ssh/id"];
        bench.task().sandbox.expose = vec!["~/data/x/tools".to_owned()];
        if pinned {
            bench.capturer.pinned = pin(&bench.capturer.environment, &bench.plan).unwrap();
            // As long as it leads where it led, it is shown.
            let end = bench.attempt(&["ls -d ~/data/x/tools"]).await;
            bench.expect(&end, AttemptOutcome::NoChanges);
        }
        // Another agent, of another run say.
        let shown = std::mem::take(&mut bench.task().sandbox.expose);
        bench.task().sandbox.expose_rw = vec!["~/data".to_owned()];
        let end = bench.attempt(&[SWAP]).await;
        bench.expect(&end, AttemptOutcome::NoChanges);
        bench.memory.output.lock().unwrap().clear();
        bench.task().sandbox.expose_rw.clear();
        bench.task().sandbox.expose = shown;
        let end = bench.attempt(&readable).await;
        if pinned {
            bench.expect(&end, AttemptOutcome::SandboxRefused);
            let (reason, keys) = (bench.reason(), at(&bench.world.home().join(".ssh")));
            assert!(reason.contains("`~/data/x/tools`") && reason.contains(&keys), "{reason}");
            assert_eq!(bench.memory.printed(), "");
            // Nor written, nor taken for what is to be hidden.
            let path = std::mem::take(&mut bench.task().sandbox.expose);
            for hidden in [false, true] {
                let settings = &mut bench.task().sandbox;
                (settings.expose_rw, settings.hide) =
                    if hidden { (vec![], path.clone()) } else { (path.clone(), vec![]) };
                let end = bench.attempt(&["echo planted > ~/.ssh/id"]).await;
                bench.expect(&end, AttemptOutcome::SandboxRefused);
            }
            assert_eq!(fs::read_to_string(bench.world.home().join(".ssh/id")).unwrap(), "private key\n");
        } else {
            // The attack is one: so it went where nothing was pinned.
            bench.expect(&end, AttemptOutcome::NoChanges);
            assert_eq!(bench.memory.printed(), "private key\n");
        }
    }
}

#[test]
fn a_path_that_an_agent_could_make_lead_elsewhere_is_refused_before_anything_is_made() {
    let mut world = world_with_keys();
    let home = world.home();
    for folder in [".cargo/registry", "outside", "own", "later"] {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
    for (link, target) in [("way-in", "data/x"), ("data/x/out", "outside"), ("twice", "data/x/out")] {
        symlink(home.join(target), home.join(link)).unwrap();
    }
    world.set("NVM_DIR", home.join("own/nvm"));
    world.set("PATH", format!("/usr/local/bin:/usr/bin:/bin:{}", home.join("later/bin").display()));
    let agent = |name: &str, keys: &str| {
        format!("[agents.{name}]\nowns = [\"{name}\"]\nrun = [\"sh\", \"-c\", \"echo > {name}\"]\nsandbox.{keys}\n")
    };
    let writes = |paths: &str| agent("a", &format!("expose_rw = [{paths}]"));
    let refused = [
        (writes("'~/data'") + &agent("b", "expose = ['~/data/x/tools']"), "~/data/x/tools", "~/data", "agent `b`"),
        (writes("'~/data'") + &agent("b", "expose_rw = ['~/data/x']"), "~/data/x", "~/data", "agent `b`"),
        (writes("'~/data'") + &agent("b", "hide = ['~/data/x']"), "~/data/x", "~/data", "agent `b`"),
        (writes("'~/data'") + &agent("b", "expose = ['~/way-in']"), "~/way-in", "~/data", "agent `b`"),
        (writes("'~/way-in'") + &agent("b", "expose = ['~/data/x/tools']"), "~/data/x/tools", "~/way-in", "agent `b`"),
        (writes("'~/data', '~/data/x'"), "~/data/x", "~/data", "agent `a`"),
        (writes("'~/data']\nsandbox.expose = ['~/data/x'"), "~/data/x", "~/data", "agent `a`"),
        (writes("'~/data']\nsandbox.hide = ['~/data/x'"), "~/data/x", "~/data", "agent `a`"),
        (writes("'~/data'") + &agent("b", "expose = ['~/data/x/out']"), "~/data/x/out", "~/data", "agent `b`"),
        (writes("'~/data'") + &agent("b", "expose = ['~/twice']"), "~/twice", "~/data", "agent `b`"),
        // What no plan names and every box is shown, there or not.
        (writes("'~/.cargo'"), ".cargo/registry", "~/.cargo", "every box"),
        (writes("'~/own'"), "own/nvm", "~/own", "every box"),
        (writes("'~/later'"), "later/bin", "~/later", "every box"),
        // The verifier is shown what is under `sandbox`.
        (
            "[sandbox]\nexpose = ['~/data/x/tools']\n[verify]\ncommand = ['true']\n".to_owned()
                + &writes("'~/data']\nsandbox.expose = ["),
            "~/data/x/tools",
            "~/data",
            "the verifier",
        ),
    ];
    for (text, path, writable, whose) in refused {
        // Who only asks is told, too.
        let file = plan(&world, &text);
        for only_asking in [&["plan", "check", &file][..], &["run", "--dry-run", &file]] {
            let warned = world.sandbox(only_asking).expect(0).stderr;
            assert!(
                warned.contains("would refuse the plan on this machine") && warned.contains(path),
                "{text}{warned}"
            );
        }
        let ran = world.sandbox(&["run", &file]).expect(3);
        let told = &ran.stderr;
        assert!(told.contains(&format!("{path}`")) && told.contains(&format!("`{writable}`")), "{text}{told}");
        assert!(told.contains(whose) && told.contains("agent `a`"), "{text}{told}");
        let runs = fs::read_dir(world.store().join("runs")).into_iter().flatten().count();
        assert!(runs == 0 && !world.worktrees().exists(), "{text}");
    }
    // What is not there may be made a link by whoever comes first.
    let ran = world.sandbox(&["run", &plan(&world, &agent("b", "expose = ['~/data/absent']"))]).expect(3);
    assert!(ran.stderr.contains("~/data/absent"), "{ran:?}");
    // The place itself stays what it is: one may be shown what another writes.
    let text = writes("'~/data'") + &agent("b", "expose = ['~/data']") + &agent("c", "expose_rw = ['~/data']");
    world.sandbox(&["run", &plan(&world, &text)]).expect(1);
    assert_eq!(world.sandbox(&["status", "--json"]).expect(0).json()["data"]["agents"].as_array().unwrap().len(), 3);
}

#[test]
fn a_run_remembers_where_its_paths_led() {
    let world = world_with_keys();
    let outcome = |world: &World| {
        let status = world.sandbox(&["status", "--json"]).expect(0).json();
        status["data"]["agents"][0]["state"].as_str().unwrap().to_owned()
    };
    let text = "[run]\nname = 'p'\n[agents.a]\nowns = ['a']\nrun = ['sh', '-c', 'ls ~/data/x/tools >> a; echo >> a']\n\
                sandbox.expose = ['~/data/x/tools']\n";
    world.sandbox(&["run", &plan(&world, text)]).expect(1);
    assert_eq!(outcome(&world), "completed");
    let settings = world.store().join("runs/p-1/settings.json");
    let mut kept: Value = serde_json::from_str(&fs::read_to_string(&settings).unwrap()).unwrap();
    let tools = world.home().join("data/x/tools");
    assert_eq!(kept["pinnedPaths"]["~/data/x/tools"], at(&tools));
    fs::rename(&tools, world.home().join("data/x/mine")).unwrap();
    symlink(world.home().join(".ssh"), &tools).unwrap();
    world.sandbox(&["retry", "a"]).expect(1);
    assert_eq!(outcome(&world), "sandbox_refused");
    // One that was begun by a version that did not keep it goes on as it did.
    kept.as_object_mut().unwrap().remove("pinnedPaths");
    fs::write(&settings, kept.to_string()).unwrap();
    world.sandbox(&["retry", "a"]).expect(1);
    assert_eq!(outcome(&world), "completed");
}
