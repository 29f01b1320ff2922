//! What a plan shows, writable, and hides of the host: it has its effect, and cannot be used against the user.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use worktree_sandbox::model::AttemptOutcome;

use crate::bench::Bench;
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
