//! `doctor` where something is missing: each layer is taken away in turn, and it says which, and what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::libc;
use serde_json::Value;

use crate::world::{Ran, World, is_root, program};

/// `doctor --json`, started by a shell after `before`.
fn doctor_after(world: &World, wrap: &[&str], before: &str) -> Ran {
    let script = format!("{before} exec {} doctor --json", program().display());
    let mut command = world.command("timeout");
    command.arg("60").args(wrap).args(["sh", "-c", &script]).output().unwrap().into()
}

/// A program that runs the rest of its arguments without one system call: it is answered with an error.
fn without_call(call: libc::c_long, errno: i32) -> String {
    format!(
        r#"syscall({prctl}, 38, 1, 0, 0, 0) == 0 or die "no_new_privs: $!";
my $filter = pack("SCCL" x 4, 0x20, 0, 0, 0, 0x15, 0, 1, {call}, 0x06, 0, 0, 0x00050000 | {errno}, 0x06, 0, 0, 0x7fff0000);
my $program = pack("S x6 P", 4, $filter);
syscall({prctl}, 22, 2, $program, 0, 0) == 0 or die "seccomp: $!";
exec @ARGV;"#,
        prctl = libc::SYS_prctl
    )
}

fn check(data: &Value, name: &str) -> Option<Value> {
    data["data"]["checks"].as_array()?.iter().find(|check| check["name"] == name).cloned()
}

#[test]
fn every_layer_says_how_it_was_probed() {
    let world = World::new();
    let fit = world.sandbox(&["doctor", "--json"]).expect(0).json();
    let layers = fit["data"]["layers"].as_array().unwrap();
    let names: Vec<&str> = layers.iter().map(|layer| layer["name"].as_str().unwrap()).collect();
    let expected = [
        "box",
        "files",
        "hiding",
        "network",
        "tcp",
        "udp",
        "calls",
        "leftovers",
        "processes",
        "rights",
        "no-new-rights",
        "user",
        "git",
    ];
    assert_eq!(names, expected, "{layers:#?}");
    for layer in layers {
        assert_eq!((&layer["present"], &layer["fix"]), (&Value::Bool(true), &Value::Null), "{layer}");
        assert!(layer["probed"].as_str().unwrap().contains(' '), "{layer}");
    }
    let text = world.sandbox(&["doctor"]).expect(0).stdout;
    assert!(text.contains("having an agent commit in a scratch repository") && text.ends_with("a run would start\n"));
    let left: Vec<_> = fs::read_dir(std::env::temp_dir())
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("sandbox-doctor-"))
        .filter(|entry| Path::new("/proc").join("self").exists() && entry.path().join("repository").is_dir())
        .filter(|entry| entry.metadata().is_ok_and(|it| it.modified().unwrap().elapsed().unwrap().as_secs() > 60))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// What is taken away, by what program and what script; the check that tells of it, its state, what is said; the exit code.
type Case<'c> = (&'c str, &'c [&'c str], &'c str, &'c str, &'c str, &'c str, i32);

#[test]
fn what_is_missing_is_named_with_what_to_do() {
    let world = World::new();
    let off = "echo 0 > /proc/sys/user/max_user_namespaces || exit 99;";
    let masked = "mount -t tmpfs none /proc/acpi 2>/dev/null || mount --bind /dev/null /proc/version || exit 99;";
    let namespaces = &["unshare", "--user", "--map-root-user", "--mount"][..];
    let (no_seccomp, no_landlock, no_unshare) = (
        without_call(libc::SYS_seccomp, libc::ENOSYS),
        without_call(libc::SYS_landlock_create_ruleset, libc::ENOSYS),
        without_call(libc::SYS_unshare, libc::EPERM),
    );
    let cases: [Case<'_>; 6] = [
        ("user namespaces", namespaces, off, "sandbox", "failed", "sysctl -w user.max_user_namespaces", 4),
        ("a fresh /proc", namespaces, masked, "sandbox", "failed", "/proc", 4),
        ("unshare", &["perl", "-e", &no_unshare], "", "sandbox", "failed", "namespaces", 4),
        ("seccomp", &["perl", "-e", &no_seccomp], "", "seccomp", "failed", "CONFIG_SECCOMP_FILTER", 4),
        ("landlock", &["perl", "-e", &no_landlock], "", "landlock", "warning", "Landlock", 0),
        ("a home", &["env", "-u", "HOME"], "", "home", "failed", "HOME", 4),
    ];
    for (name, wrap, before, which, state, says, code) in cases {
        let ran = doctor_after(&world, wrap, before).expect(code);
        let data = ran.json();
        let found = check(&data, which).unwrap_or_else(|| panic!("{name}: nothing is said of `{which}`: {data:#}"));
        assert_eq!(found["state"], state, "{name}: {found}");
        assert!(found.to_string().contains(says) && !found["fix"].is_null(), "{name}: {found}");
        assert_eq!(data["data"]["fit"], code == 0, "{name}");
        // What doctor says of a run is so.
        let script = format!("{before} exec {} exec --name try -- sh -c 'echo x > x'", program().display());
        let mut command = world.command("timeout");
        let ran: Ran = command.arg("60").args(wrap).args(["sh", "-c", &script]).output().unwrap().into();
        let started = ran.code == Some(1) && ran.stderr.contains("completed");
        assert_eq!(started, code == 0, "{name}: {ran:?}");
    }
}

#[test]
fn sockets_in_sight_are_told_with_the_line_that_hides_them() {
    let world = World::new();
    // In the home nobody sees them.
    let hidden = UnixListener::bind(world.home().join("own.sock")).unwrap();
    let told = |world: &World| check(&world.sandbox(&["doctor", "--json"]).expect(0).json(), "sockets").unwrap();
    assert!(!told(&world).to_string().contains("own.sock"), "{}", told(&world));
    drop(hidden);
    if !is_root() {
        // An ordinary user can make one only where agents see nothing; root's run of the suite makes one elsewhere.
        return;
    }
    let folder = tempfile::Builder::new().prefix("sandbox-sockets-").tempdir_in("/srv").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("service.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let check = told(&world);
    assert_eq!(check["state"], "warning", "{check}");
    assert!(check["found"].as_str().unwrap().contains(path.to_str().unwrap()), "{check}");
    let fix = check["fix"].as_str().unwrap().to_owned();
    let line = fix.split("`[sandbox]`: ").nth(1).unwrap();
    // The line does what is said of it.
    let call = format!(
        "perl -MIO::Socket::UNIX -e 'exit !IO::Socket::UNIX->new(Peer => \"{}\")' && echo called || echo nobody",
        path.display()
    );
    for (line, answer) in [("", "called"), (line, "nobody")] {
        let plan = world.home().join("plan.toml");
        let text = format!(
            "[sandbox]\n{line}\n[verify]\ncommand = ['true']\n[agents.a]\nowns = ['**']\nrun = ['sh', '-c', '''{call}; echo x > x''']\n"
        );
        fs::write(&plan, text).unwrap();
        world.sandbox(&["run", plan.to_str().unwrap()]).expect(0);
        assert_eq!(world.sandbox(&["logs", "a"]).expect(0).stdout.trim(), answer, "{line}");
    }
    drop(listener);
}
