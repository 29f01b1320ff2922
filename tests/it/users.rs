//! Everything holds for an ordinary user as it does for root, and with the system's own git as with a newer one beside it:
//! run by root, the whole suite runs once more as another user, with the system's programs first.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::world::{PROGRAM_VARIABLE, SEARCH_VARIABLE, USER, is_root, program};

#[test]
fn the_suite_passes_as_an_ordinary_user() {
    if !is_root() {
        // This is that run, or the tests were not started by root: then all of them run as an ordinary user anyway.
        return;
    }
    // Copies, since the build's folder may be out of the user's reach.
    let folder = tempfile::Builder::new().prefix("sandbox-user-").tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (suite, sandbox) = (folder.path().join("suite"), folder.path().join("sandbox"));
    fs::copy(std::env::current_exe().unwrap(), &suite).unwrap();
    fs::copy(program(), &sandbox).unwrap();
    // Into a file: a pipe would be waited for as long as anything that a test left behind holds it.
    let written = folder.path().join("output");
    let file = fs::File::create(&written).unwrap();
    let status = Command::new(&suite)
        .args(["--skip", "source_rules::", "--skip", "docs::"])
        .env(PROGRAM_VARIABLE, &sandbox)
        .env(SEARCH_VARIABLE, "/usr/bin:/bin:/usr/local/bin")
        .env("HOME", "/nonexistent")
        .env("RUST_TEST_THREADS", "2")
        .current_dir("/")
        .uid(USER)
        .gid(USER)
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .status()
        .unwrap();
    let text = String::from_utf8_lossy(&fs::read(&written).unwrap()).into_owned();
    assert!(status.success(), "as uid {USER}:\n{text}");
    assert!(text.contains("test result: ok. ") && !text.contains(" 0 passed"), "as uid {USER}:\n{text}");
}
