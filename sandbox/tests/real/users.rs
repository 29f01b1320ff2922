//! The same tests once more as an ordinary user, when root runs them.

use crate::bench::helper;
use std::os::unix::fs::PermissionsExt as _;

const SOMEBODY: &str = "12345";

#[tokio::test]
async fn all_of_this_as_an_ordinary_user() {
    if !nix::unistd::geteuid().is_root() {
        // Then the other tests are just that.
        return;
    }
    // Copies, for the user may not be able to reach the build folder.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    let (tests, program, tmp) = (path.join("tests"), path.join("helper"), path.join("tmp"));
    std::fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    std::fs::copy(helper(), &program).unwrap();
    std::fs::create_dir(&tmp).unwrap();
    for (path, mode) in [(&path, 0o755), (&tests, 0o755), (&program, 0o755), (&tmp, 0o1777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let run = tokio::process::Command::new("setpriv")
        .args(["--reuid", SOMEBODY, "--regid", SOMEBODY, "--clear-groups"])
        .arg(&tests)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TMPDIR", &tmp)
        .env("SANDBOX_TEST_BOX", &program)
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(6 * crate::bench::SOON, run).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let passed = text.lines().filter(|line| line.ends_with("... ok")).count();
    assert!(passed > 30, "the tests did run: {text}");
}
