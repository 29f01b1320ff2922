//! Every form a repository can have: agents work in it and the user's part of it stays hidden and as it was.

use std::collections::BTreeMap;
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

const WORKS: &[Form] = &[
    ("plain", |world| world.repo.clone()),
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
    ("a worktree of a bare repository", |world| {
        let (bare, at) = (world.home().join("bare.git"), world.home().join("of-bare"));
        world.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
        git(world, &bare, &["worktree", "add", "-q", at.to_str().unwrap(), "main"]);
        at
    }),
    ("with a repository inside", |world| {
        world.git(&["clone", "-q", ".", "vendor/inner"]);
        fs::write(world.repo.join("vendor/inner/README.md"), "edited\n").unwrap();
        world.git(&["init", "-q", "empty-inner"]);
        world.repo.clone()
    }),
    ("a sparse checkout", |world| {
        world.git(&["sparse-checkout", "set", "--cone", "src"]);
        world.repo.clone()
    }),
    ("a sparse checkout by patterns", |world| {
        world.git(&["sparse-checkout", "set", "--no-cone", "/*", "!/docs/"]);
        world.repo.clone()
    }),
    ("a sparse index", |world| {
        world.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "src"]);
        world.repo.clone()
    }),
    ("a split index", |world| {
        world.git(&["config", "core.splitIndex", "true"]);
        world.git(&["update-index", "--split-index"]);
        world.repo.clone()
    }),
    ("an index of version 4, with an untracked cache and a file system monitor", |world| {
        world.git(&["update-index", "--index-version", "4", "--untracked-cache"]);
        // One that says that nothing has ever changed.
        let monitor = world.home().join("monitor");
        fs::write(&monitor, "#!/bin/sh\nprintf 'token\\0'\n").unwrap();
        fs::set_permissions(&monitor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        world.git(&["config", "core.fsmonitor", monitor.to_str().unwrap()]);
        world.git(&["status", "--porcelain"]);
        world.repo.clone()
    }),
    ("object ids of SHA-256", |world| fresh(world, &["--object-format=sha256"])),
    ("refs in a reftable", |world| {
        let known = world.git(&["version"]);
        let minor: u32 = known.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or_default();
        if minor >= 45 { fresh(world, &["--ref-format=reftable"]) } else { world.repo.clone() }
    }),
    ("lines that end in CRLF (`core.autocrlf`)", |world| {
        let at = world.home().join("crlf");
        world.git(&["clone", "-q", "-c", "core.autocrlf=true", ".", at.to_str().unwrap()]);
        assert!(fs::read_to_string(at.join("src/a.txt")).unwrap().contains("\r\n"));
        at
    }),
    ("`eol`, `ident` and `working-tree-encoding`", |world| {
        let rules = "src/*.txt eol=crlf\nident.c ident\nwide.txt working-tree-encoding=UTF-16LE eol=lf\n";
        world.write(".gitattributes", rules);
        world.write("ident.c", "/* $Id$ */\n");
        let wide: Vec<u8> = "wide\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        fs::write(world.repo.join("wide.txt"), wide).unwrap();
        world.commit("attributes");
        let at = world.home().join("attributes");
        world.git(&["clone", "-q", ".", at.to_str().unwrap()]);
        assert!(fs::read_to_string(at.join("ident.c")).unwrap().contains("$Id: "));
        at
    }),
    ("a filter, as of git-lfs", |world| {
        world.script("git-lfs", FILTER);
        filtered(world)
    }),
    ("a filter whose program is missing", |world| {
        world.script("git-lfs", FILTER);
        let at = filtered(world);
        // Long enough ago for git to go by its times, and not to read it again.
        let old = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
        fs::File::options().write(true).open(at.join("big.bin")).unwrap().set_modified(old).unwrap();
        world.git(&["status", "--porcelain"]);
        fs::remove_file(world.bin.join("git-lfs")).unwrap();
        at
    }),
    ("names of odd and non-UTF-8 bytes", |world| {
        use std::os::unix::ffi::OsStrExt;
        for name in [&b"\xff\xfe"[..], b"new\nline", b"tab\t", b"-dash", b"quote\"'", b"*", b":(top)x", b" space "] {
            fs::write(world.repo.join(std::ffi::OsStr::from_bytes(name)), "odd\n").unwrap();
        }
        world.commit("odd names");
        world.repo.clone()
    }),
    ("names that differ in case only", |world| {
        world.write("readme.MD", "another\n");
        world.write("SRC/a.txt", "another\n");
        world.commit("twins");
        world.repo.clone()
    }),
    ("empty folders", |world| {
        fs::create_dir_all(world.repo.join("empty/inner")).unwrap();
        fs::create_dir_all(world.repo.join("src/empty")).unwrap();
        world.repo.clone()
    }),
    ("a huge untracked file in the checkout", |world| {
        let file = fs::File::create(world.repo.join("huge")).unwrap();
        file.set_len(5 << 30).unwrap();
        world.repo.clone()
    }),
];

/// As git-lfs does it: the repository has a pointer, the checkout the content.
const FILTER: &str = "case $1 in clean) sed 's/^content /pointer /';; smudge) sed 's/^pointer /content /';; esac\n";

/// A repository made with these options, with the same first commit.
fn fresh(world: &World, options: &[&str]) -> PathBuf {
    let at = world.home().join("fresh");
    world.git(&[&["init", "-q"], options, &[at.to_str().unwrap()]].concat());
    for path in ["README.md", "src/a.txt", "src/b.txt", "docs/x.txt"] {
        fs::create_dir_all(at.join(path).parent().unwrap()).unwrap();
        fs::copy(world.repo.join(path), at.join(path)).unwrap();
    }
    git(world, &at, &["add", "-A"]);
    git(world, &at, &["commit", "-q", "-m", "base"]);
    at
}

/// A file behind a filter, in the repository and in the checkout.
fn filtered(world: &World) -> PathBuf {
    for (key, value) in [("clean", "git-lfs clean"), ("smudge", "git-lfs smudge"), ("required", "true")] {
        world.git(&["config", &format!("filter.lfs.{key}"), value]);
    }
    world.write(".gitattributes", "*.bin filter=lfs -text\n");
    world.write("big.bin", "content one\n");
    world.commit("behind a filter");
    assert_eq!(world.git(&["show", "HEAD:big.bin"]), "pointer one");
    world.repo.clone()
}

/// What an agent does in each: it looks at what it must and must not see, commits, cleans up, and changes files of each kind.
fn work(at: &Path, origin: &Path) -> String {
    let quoted = |path: &Path| path.display().to_string().replace('\'', "'\\''");
    format!(
        r#"set -e
test "$(head -1 src/a.txt | tr -d '\r')" = 'a line 1'
! grep -q dirt README.md
echo new > new; git add new; git commit -qm new
git log --oneline > /dev/null; git status > /dev/null; git stash list; git gc -q; git fsck --connectivity-only > /dev/null 2>&1
! cat '{}/.env' '{}/README.md' 2> /dev/null
sed -i 's/a line 10/changed/' src/a.txt
rm -f docs/x.txt
mkdir -p more/deep; echo more > more/deep/more
"#,
        quoted(at),
        quoted(origin)
    )
}

fn works(name: &str, make: fn(&World) -> PathBuf) {
    let world = World::new();
    let at = make(&world);
    // Seen by nobody, git included.
    let exclude = git(&world, &at, &["rev-parse", "--path-format=absolute", "--git-path", "info/exclude"]);
    fs::create_dir_all(Path::new(&exclude).parent().unwrap()).unwrap();
    fs::write(exclude, ".env\n").unwrap();
    fs::write(at.join(".env"), "secret of the checkout\n").unwrap();
    let is_detached = name.starts_with("a detached");
    let target = if is_detached { "target = \"main\"" } else { "" };
    let script = serde_json::to_string(&work(&at, &world.repo)).unwrap();
    let plan = format!(
        "[run]\nname = \"shape\"\n{target}\n[verify]\ncommand = [\"test\", \"-f\", \"new\"]\n[agents.one]\nowns = [\"**\"]\nrun = [\"sh\", \"-c\", {script}]\n"
    );
    let file = world.home().join("shape.toml");
    fs::write(&file, plan).unwrap();
    let state = || {
        let status = git(&world, &at, &["status", "--porcelain", "--ignored"]);
        (picture(&at), status, git(&world, &at, &["ls-files", "-v", "--", "README.md", "src/b.txt"]))
    };
    let sandbox = |arguments: &[&str]| -> Ran {
        let mut command = world.sandbox_command(arguments);
        command.current_dir(&at).output().unwrap().into()
    };
    let before = state();
    let ran = sandbox(&["run", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{name}: {ran:?} {:?}", sandbox(&["logs", "one"]));
    assert_eq!(state(), before, "{name}");
    assert_eq!(git(&world, &at, &["show", "sandbox/shape-1/one:more/deep/more"]), "more", "{name}");
    let branch = if is_detached { "main".to_owned() } else { git(&world, &at, &["symbolic-ref", "--short", "HEAD"]) };
    let old = git(&world, &at, &["rev-parse", &branch]);
    let landed = sandbox(&["land"]);
    assert_eq!(landed.code, Some(0), "{name}: {landed:?}");
    let new = git(&world, &at, &["rev-parse", &branch]);
    assert_eq!(new, git(&world, &at, &["rev-parse", "sandbox/shape-1/integration"]), "{name}");
    let is_sparse = name.starts_with("a sparse");
    let brought = git(&world, &at, &["diff-tree", "-r", "--name-status", &old, &new]);
    // What an agent does not have is not deleted by its not being there.
    let deleted = if is_sparse { "" } else { "D\tdocs/x.txt\n" };
    assert_eq!(brought, format!("{deleted}A\tmore/deep/more\nA\tnew\nM\tsrc/a.txt"), "{name}");
    let (mut untouched, mut after) = (before, state());
    if !is_detached {
        assert!(fs::read_to_string(at.join("src/a.txt")).unwrap().contains("changed"), "{name}");
        let is_outside = name == "a sparse checkout" || name == "a sparse index";
        assert_eq!(at.join("more").exists(), !is_outside, "{name}");
        for path in ["src/a.txt", "docs/x.txt", "new", "more", "more/deep", "more/deep/more", "docs"] {
            untouched.0.remove(path);
            after.0.remove(path);
        }
    }
    assert_eq!(after, untouched, "{name}");
    git(&world, &at, &["fsck", "--connectivity-only"]);
    if name.starts_with("a huge") {
        let journal = fs::read_to_string(world.store().join("runs/shape-1/journal.jsonl")).unwrap();
        assert!(journal.contains("not kept") && journal.contains("huge"), "{journal}");
    }
}

/// Every file below a folder that is not in its git directory: what kind it is, and its content.
fn picture(root: &Path) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().as_os_str().as_encoded_bytes().escape_ascii().to_string();
            let metadata = path.symlink_metadata().unwrap();
            if name == ".git" {
                continue;
            }
            let text = if metadata.is_dir() {
                folders.push(path);
                "a folder".to_owned()
            } else if metadata.is_symlink() {
                fs::read_link(&path).unwrap().display().to_string()
            } else if metadata.len() > 1 << 20 {
                format!("{} bytes", metadata.len())
            } else {
                fs::read(&path).unwrap().escape_ascii().to_string()
            };
            seen.insert(name, text);
        }
    }
    seen
}

/// Those that are refused, and where from.
const REFUSED: &[Form] = &[
    ("no commit yet", |world| {
        let at = world.home().join("unborn");
        world.git(&["init", "-q", at.to_str().unwrap()]);
        at
    }),
    ("a bare repository", |world| {
        let at = world.home().join("bare.git");
        world.git(&["clone", "-q", "--bare", ".", at.to_str().unwrap()]);
        at
    }),
    ("the folder of a git directory", |world| world.repo.join(".git")),
    ("a work tree that only `core.worktree` names", |world| {
        let apart = world.home().join("apart");
        fs::create_dir(&apart).unwrap();
        world.git(&["config", "core.worktree", apart.to_str().unwrap()]);
        world.repo.clone()
    }),
    ("the home directory", |world| {
        let at = world.home();
        git(world, &at, &["init", "-q"]);
        git(world, &at, &["commit", "-q", "--allow-empty", "-m", "base"]);
        at
    }),
    ("a partial clone without the files", |world| {
        world.git(&["config", "uploadpack.allowFilter", "true"]);
        let at = world.home().join("partial");
        let url = file_url(&world.repo);
        world.git(&["clone", "-q", "--no-checkout", "--filter=blob:none", &url, at.to_str().unwrap()]);
        at
    }),
    ("an extension that git does not know", |world| {
        let at = world.home().join("extended");
        world.git(&["clone", "-q", ".", at.to_str().unwrap()]);
        git(world, &at, &["config", "core.repositoryFormatVersion", "1"]);
        git(world, &at, &["config", "extensions.ofTomorrow", "true"]);
        at
    }),
    ("no repository at all", |world| {
        let at = world.home().join("plain-folder");
        fs::create_dir(&at).unwrap();
        at
    }),
];

fn refused(name: &str, words: &str, make: fn(&World) -> PathBuf) {
    let world = World::new();
    let at = make(&world);
    let text = "[run]\nname = \"shape\"\n[verify]\ncommand = [\"true\"]\n[agents.one]\nowns = [\"**\"]\nrun = [\"touch\", \"new\"]\n";
    let file = world.home().join("shape.toml");
    fs::write(&file, text).unwrap();
    let listed = || {
        let mut command = world.command("find");
        command.current_dir("/").arg(world.home()).arg(world.state()).args(["-printf", "%p %y %s\n"]);
        let found: Ran = command.output().unwrap().into();
        let mut lines: Vec<String> = found.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let before = listed();
    for arguments in [&["run", file.to_str().unwrap(), "--land"][..], &["exec", "--name", "one", "--", "true"]] {
        let mut command = world.sandbox_command(arguments);
        let ran: Ran = command.current_dir(&at).output().unwrap().into();
        assert!(matches!(ran.code, Some(2 | 4)), "{name}: {ran:?}");
        assert!(ran.stderr.contains("error: ") && ran.stderr.contains(words), "{name}: no `{words}` in {ran:?}");
    }
    assert_eq!(listed(), before, "{name}: nothing is made");
}

/// The table of the documentation: a kind of repository, and what happens.
fn documented() -> BTreeMap<String, String> {
    let text = include_str!("../../docs/repositories.md");
    let table = text.split("<!-- shapes -->").nth(1).unwrap().split("<!-- end -->").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = |line: &str| -> Vec<String> { line.split('|').map(|cell| cell.trim().to_owned()).collect() };
    rows.map(cells).map(|mut cells| (cells.remove(1), cells.remove(1))).collect()
}

#[test]
fn every_row_of_the_documentation_is_tested() {
    let documented = documented();
    let tested: Vec<&str> = WORKS.iter().chain(REFUSED).map(|(name, _)| *name).collect();
    assert!(tested.iter().all(|name| documented.contains_key(*name)), "{tested:?}");
    assert_eq!(tested.len(), documented.len(), "{documented:?}");
    assert!(WORKS.iter().all(|(name, _)| documented[*name] == "works"));
}

/// A part of those that work, so that several are tried at once.
fn part_works(part: usize) {
    for (name, make) in WORKS.iter().skip(part).step_by(3) {
        works(name, *make);
    }
}

#[test]
fn agents_work_and_land_in_every_form_of_a_repository() {
    part_works(0);
}

#[test]
fn agents_work_and_land_in_every_other_form_of_a_repository() {
    part_works(1);
}

#[test]
fn agents_work_and_land_in_every_third_form_of_a_repository() {
    part_works(2);
}

#[test]
fn what_cannot_be_worked_in_is_refused_before_anything_is_made() {
    let documented = documented();
    for (name, make) in REFUSED {
        refused(name, documented[*name].strip_prefix("refused: ").unwrap(), *make);
    }
}

/// Names are one only where some file system takes them for one: by their letters, if they are text.
#[test]
fn names_are_bytes_and_letters() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    // What is there, and what an agent adds beside it.
    let table: [(&[u8], &str, i32); 4] = [
        (b"docs-\xfe", r"docs-\375", 0),
        (b"docs-\xfe", r"DOCS-\376", 5),
        ("caf\u{e9}".as_bytes(), r"cafe\314\201", 5),
        ("caf\u{e9}".as_bytes(), r"cafe", 0),
    ];
    for (known, new, code) in table {
        let world = World::new();
        fs::write(world.repo.join(OsStr::from_bytes(known)), "known\n").unwrap();
        world.commit("an odd name");
        let script = serde_json::to_string(&format!("echo new > \"$(printf '{new}')\"")).unwrap();
        let text = format!(
            "[run]\nname = \"names\"\n[verify]\ncommand = [\"true\"]\n[agents.one]\nowns = [\"**\"]\nrun = [\"sh\", \"-c\", {script}]\n"
        );
        let file = world.home().join("names.toml");
        fs::write(&file, text).unwrap();
        world.sandbox(&["run", file.to_str().unwrap()]).expect(code);
        if code == 5 {
            let board = world.sandbox(&["board", "--json"]).expect(0).json();
            let card = &board["data"]["lanes"][0]["cards"][0];
            let shown = world.sandbox(&["board", "show", card["id"].as_str().unwrap()]).expect(0).stdout;
            assert!(card["kind"] == "unsafe_tree" && shown.contains("are one file"), "{shown}");
        }
    }
}
