//! Every form a repository can have: agents work in it and the user's part of it stays hidden and as it was.

use std::fs;
use std::path::{Path, PathBuf};

use crate::world::{Ran, World};

/// A form: its name, and how it is made beside a world's repository. Where it lies is given back.
type Form = (&'static str, fn(&World) -> PathBuf);

fn git(world: &World, folder: &Path, arguments: &[&str]) -> String {
    let mut command = world.command("git");
    let ran: Ran = command.current_dir(folder).args(arguments).output().unwrap().into();
    ran.expect(0).stdout.trim_end().to_owned()
}

fn file_url(path: &Path) -> String {
    format!("file://{}", path.display())
}

const FORMS: [Form; 10] = [
    ("a linked worktree", |world| {
        world.git(&["worktree", "add", "-q", "-b", "linked", "../linked"]);
        world.home().join("linked")
    }),
    ("an odd path", |world| {
        let odd = world.home().join("odd r\u{e9}p\u{f6}\n'\"$(x)");
        world.git(&["clone", "-q", ".", odd.to_str().unwrap()]);
        odd
    }),
    ("a shallow clone", |world| {
        world.write("README.md", "second\n");
        world.commit("second");
        let shallow = world.home().join("shallow");
        world.git(&["clone", "-q", "--depth", "1", &file_url(&world.repo), shallow.to_str().unwrap()]);
        shallow
    }),
    ("a clone that borrows objects", |world| {
        let shared = world.home().join("shared");
        world.git(&["clone", "-q", "--shared", ".", shared.to_str().unwrap()]);
        shared
    }),
    ("a git directory elsewhere", |world| {
        let (apart, at) = (world.home().join("apart"), world.home().join("git-dirs/apart"));
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        world.git(&["clone", "-q", "--separate-git-dir", at.to_str().unwrap(), ".", apart.to_str().unwrap()]);
        apart
    }),
    ("with submodules", |world| {
        let outer = world.home().join("outer");
        world.git(&["clone", "-q", ".", outer.to_str().unwrap()]);
        let allow = "protocol.file.allow=always";
        git(world, &outer, &["-c", allow, "submodule", "add", "-q", world.repo.to_str().unwrap(), "part"]);
        git(world, &outer, &["commit", "-q", "-m", "with a part"]);
        outer
    }),
    ("a submodule itself", |world| {
        let outer = world.home().join("outer");
        world.git(&["clone", "-q", ".", outer.to_str().unwrap()]);
        let allow = "protocol.file.allow=always";
        git(world, &outer, &["-c", allow, "submodule", "add", "-q", world.repo.to_str().unwrap(), "part"]);
        outer.join("part")
    }),
    ("a partial clone", |world| {
        world.git(&["config", "uploadpack.allowFilter", "true"]);
        let partial = world.home().join("partial");
        world.git(&["clone", "-q", "--filter=blob:none", &file_url(&world.repo), partial.to_str().unwrap()]);
        partial
    }),
    ("by way of a link", |world| {
        std::os::unix::fs::symlink(&world.repo, world.home().join("by-link")).unwrap();
        world.home().join("by-link")
    }),
    ("a detached and dirty checkout", |world| {
        let detached = world.home().join("detached");
        world.git(&["clone", "-q", ".", detached.to_str().unwrap()]);
        git(world, &detached, &["checkout", "-q", "--detach"]);
        fs::write(detached.join("README.md"), "dirt\n").unwrap();
        fs::write(detached.join("untracked"), "dirt\n").unwrap();
        detached
    }),
];

#[test]
fn agents_work_in_every_form_of_a_repository() {
    for (name, make) in FORMS {
        let world = World::new();
        let at = make(&world);
        fs::write(at.join(".env"), "secret of the checkout\n").unwrap();
        let before = git(&world, &at, &["status", "--porcelain"]);
        let script = format!(
            "set -e; test \"$(head -1 src/a.txt)\" = 'a line 1'; ! grep -q dirt README.md; echo new > new; git add new; git commit -qm new
             git log --oneline >/dev/null; git status >/dev/null; git stash list; git gc -q; git fsck --connectivity-only >/dev/null 2>&1
             ! cat '{0}/.env' '{1}/README.md' 2>/dev/null; echo more > more",
            at.display().to_string().replace('\'', "'\\''"),
            world.repo.display()
        );
        let mut command = world.command(crate::world::program());
        command.current_dir(&at).args(["exec", "--name", "one", "--", "sh", "-c", &script]);
        let ran: Ran = command.output().unwrap().into();
        // Without a verifier the result is unverified, which has an exit code of its own.
        assert_eq!(ran.code, Some(1), "{name}: {ran:?}");
        assert!(ran.stderr.contains("completed") || ran.stdout.contains("completed"), "{name}: {ran:?}");
        assert_eq!(git(&world, &at, &["show", "sandbox/one-1/one:more"]), "more", "{name}");
        assert_eq!(git(&world, &at, &["status", "--porcelain"]), before, "{name}");
        git(&world, &at, &["fsck", "--connectivity-only"]);
        let listed = git(&world, &at, &["worktree", "list"]);
        assert!(listed.contains("one-1--one"), "{name}: {listed}");
    }
}
