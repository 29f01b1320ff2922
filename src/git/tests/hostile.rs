//! The hostile set-up is hostile: with plain git, each part of it does harm. The tests of the other files show that it
//! does none to us.
#![expect(clippy::disallowed_methods, reason = "this shows what an unguarded git does")]

use std::process::Command as Process;

use super::super::testing::{Fixture, each_git, file};

/// A git that obeys environment and settings, as one started carelessly would.
fn careless(fixture: &Fixture, arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut process = Process::new(fixture.git.program());
    process.args(arguments).current_dir(fixture.root()).env("HOME", fixture.folder.path().join("home"));
    let output = process.env_remove("XDG_CONFIG_HOME").envs(environment.iter().copied()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn plain_git_is_misled() {
    each_git(|git| {
        let fixture = Fixture::hostile(git);
        let text = "line\n".repeat(20);
        let old = fixture.commit(&[], &[file("f", format!("{text}1\n"))]);
        let new = fixture.commit(&[&old], &[file("f", format!("{text}2\n"))]);
        let other = fixture.commit(&[&old], &[file("f", format!("{text}3\n"))]);
        fixture.check_out(&new);

        let (code, _) = careless(&fixture, &["status"], &[("GIT_DIR", "/nonexistent/trap")]);
        assert_ne!(code, Some(0), "an inherited GIT_DIR redirects it");
        let (_, patch) =
            careless(&fixture, &["-c", "diff.external=/bin/true", "diff", old.as_str(), new.as_str()], &[]);
        assert_eq!(patch, "", "an external diff swallows the patch");
        let (_, patch) = careless(&fixture, &["-c", "x.y=z", "diff", "--no-ext-diff", old.as_str(), new.as_str()], &[]);
        assert!(patch.contains("\u{1b}[") && !patch.contains("a/f"), "colours and missing prefixes: {patch}");
        let (code, _) = careless(&fixture, &["merge-tree", "--write-tree", new.as_str(), other.as_str()], &[]);
        assert_eq!(code, Some(0), "`merge.default=union` swallows the conflict");
        fixture.write("new file", "x");
        let (_, status) = careless(&fixture, &["status", "--porcelain"], &[]);
        assert!(!status.contains("new file"), "an untracked file is hidden: {status}");
    });
}
