//! Machines that cannot give a layer of the sandbox: what is refused there, what runs all the same when that is allowed, what
//! the record says of it, and what such a box still stops.
//!
//! The machines are real as far as a program can tell: namespaces are switched off by their own setting, or a filter of system
//! calls answers as a container's would.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::libc;
use nix::sys::signal::Signal;
use sandbox::{Host, Layer, Obstacle};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use serde_json::{Value, json};
use worktree_sandbox::model::AttemptOutcome;

use crate::bench::Bench;
use crate::flow::plan;
use crate::going::{assert_none_left, processes_with, until};
use crate::isolation::{ATTACKS, Target};
use crate::world::{Ran, World, is_root, program};

/// A machine that lacks something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Machine {
    /// `user.max_user_namespaces` is 0.
    NamespacesOff,
    /// A container forbids them.
    NamespacesDenied,
    /// No filter can be made.
    NoSeccomp,
    /// No Landlock.
    NoLandlock,
    /// Neither namespaces nor Landlock.
    NoLandlockAndDenied,
    /// Neither namespaces nor filters.
    NoSeccompAndOff,
    /// No namespaces, and no process may read another's memory.
    NoReadingAndDenied,
}

impl Machine {
    /// Runs `sandbox` there.
    fn sandbox(self, world: &World, arguments: &[&str]) -> Ran {
        let mut command = self.command(world, arguments);
        self.confined(move || command.output().unwrap()).into()
    }

    fn command(self, world: &World, arguments: &[&str]) -> Command {
        match self {
            Self::NamespacesOff | Self::NoSeccompAndOff => {
                let off = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
                let mut command = world.command("unshare");
                command.args(["-Ur", "sh", "-c", off, "sh"]).arg(program()).args(arguments);
                command
            }
            Self::NamespacesDenied
            | Self::NoSeccomp
            | Self::NoLandlock
            | Self::NoLandlockAndDenied
            | Self::NoReadingAndDenied => world.sandbox_command(arguments),
        }
    }

    /// Starts `sandbox` there.
    fn start(self, world: &World, arguments: &[&str]) -> Child {
        let mut command = self.command(world, arguments);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let (sender, started) = std::sync::mpsc::channel();
        self.confined(move || sender.send(command.spawn().unwrap()).unwrap());
        started.recv().unwrap()
    }

    /// What the machine answers to system calls. The last filter keeps others from being made.
    fn filters(self) -> Vec<BpfProgram> {
        let denied = || filter(new_spaces(), libc::EPERM);
        let no_landlock = || filter(always(libc::SYS_landlock_create_ruleset), libc::ENOSYS);
        match self {
            Self::NamespacesOff => vec![],
            Self::NamespacesDenied => vec![denied()],
            Self::NoSeccomp | Self::NoSeccompAndOff => vec![filter(no_filters(), libc::EINVAL)],
            Self::NoLandlock => vec![no_landlock()],
            Self::NoLandlockAndDenied => vec![no_landlock(), denied()],
            Self::NoReadingAndDenied => vec![filter(always(libc::SYS_process_vm_readv), libc::EPERM), denied()],
        }
    }

    /// Does something where these hold: they hold for the thread, and what it starts.
    fn confined<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let filters = self.filters();
        let confined = std::thread::spawn(move || {
            for filter in &filters {
                seccompiler::apply_filter(filter).unwrap();
            }
            work()
        });
        confined.join().unwrap()
    }
}

fn filter(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> BpfProgram {
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    SeccompFilter::new(rules, SeccompAction::Allow, answer, architecture).unwrap().try_into().unwrap()
}

fn always(call: i64) -> BTreeMap<i64, Vec<SeccompRule>> {
    BTreeMap::from([(call, Vec::new())])
}

fn new_spaces() -> BTreeMap<i64, Vec<SeccompRule>> {
    let flag = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let when = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag).unwrap();
    let rule = SeccompRule::new(vec![when]).unwrap();
    BTreeMap::from([(libc::SYS_unshare, vec![rule.clone()]), (libc::SYS_clone, vec![rule])])
}

fn no_filters() -> BTreeMap<i64, Vec<SeccompRule>> {
    let set = u64::from(libc::PR_SET_SECCOMP.unsigned_abs());
    let when = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, set).unwrap();
    let rules = vec![SeccompRule::new(vec![when]).unwrap()];
    BTreeMap::from([(libc::SYS_seccomp, Vec::new()), (libc::SYS_prctl, rules)])
}

const PLAN: &str = r#"
[run]
name = "two"
[verify]
command = ["sh", "-ec", "grep -q new docs/new; grep -q changed src/a.txt; test -w . && git status > /dev/null; test ! -e .env"]
[agents.docs]
owns = ["docs/**"]
run = ["sh", "-ec", "echo new > docs/new; git add -A; git commit -qm docs; git log --oneline | grep -q base"]
[agents.code]
owns = ["src/**"]
turns = [["sh", "-ec", "echo changed >> src/a.txt"], ["sh", "-ec", "git stash -q; git stash pop -q; mkdir -p src/deep && echo x > src/deep/x; cp -p src/a.txt src/copy"]]
"#;

/// Everything in the repository's git directory but our own folder, byte for byte.
fn git_directory(world: &World) -> BTreeMap<String, String> {
    fn walk(folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else {
                found.insert(path.display().to_string(), hex::encode(fs::read(&path).unwrap()));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&world.repo.join(".git"), &mut found);
    found
}

#[test]
fn without_leave_nothing_is_begun() {
    let denied = "a container or system-call filter forbids namespaces";
    let table: [(Machine, &[&str], &str, Option<&str>); 11] = [
        (Machine::NamespacesOff, &[], "switched off (user.max_user_namespaces is 0)", Some("namespaces")),
        (Machine::NamespacesOff, &["--allow-degraded=seccomp"], "max_user_namespaces", Some("namespaces")),
        (Machine::NamespacesDenied, &[], denied, Some("namespaces")),
        (Machine::NamespacesDenied, &["--allow-degraded", "limits"], denied, Some("namespaces")),
        (Machine::NoSeccomp, &[], "system calls cannot be filtered", Some("seccomp")),
        (Machine::NoSeccomp, &["--allow-degraded=namespaces"], "system calls cannot be filtered", Some("seccomp")),
        (Machine::NoLandlockAndDenied, &[], denied, None),
        (Machine::NoLandlockAndDenied, &["--allow-degraded=namespaces"], "no Landlock either", None),
        (Machine::NoReadingAndDenied, &[], denied, None),
        (Machine::NoReadingAndDenied, &["--allow-degraded=namespaces"], "kernel.yama.ptrace_scope is 2 or 3", None),
        (
            Machine::NoSeccompAndOff,
            &["--allow-degraded=namespaces", "--allow-degraded=seccomp"],
            "no filter of system calls either",
            None,
        ),
    ];
    let world = World::new();
    let path = plan(&world, PLAN);
    let before = (world.picture(), git_directory(&world));
    for (machine, flags, cause, way_on) in table {
        for verb in [&["run", &path][..], &["exec", "--name", "one"]] {
            let command = if verb[0] == "exec" { &["--", "touch", "ran"][..] } else { &[] };
            let arguments: Vec<&str> = [verb, flags, command].concat();
            let ran = machine.sandbox(&world, &arguments).expect(4);
            let told: Vec<&str> = ran.stderr.lines().collect();
            let case = format!("{machine:?} {arguments:?}: {told:#?}");
            assert!(told[0].starts_with("error: ") && told[0].contains(cause), "{case}");
            assert!(told[1].starts_with("hint: "), "{case}");
            let flag = way_on.map(|layer| format!("--allow-degraded={layer}"));
            assert_eq!(
                told.get(2).is_some_and(|line| line.ends_with(&flag.clone().unwrap_or_default())),
                flag.is_some(),
                "{case}"
            );
            assert_eq!(ran.stdout, "", "{case}");
        }
        assert_eq!((world.picture(), git_directory(&world)), before, "{machine:?}");
        assert!(!world.store().exists() && !world.worktrees().exists(), "{machine:?}");
    }
    let ran = Machine::NamespacesOff.sandbox(&world, &["run", &path, "--json"]).expect(4).json();
    assert_eq!(ran["error"]["hints"].as_array().unwrap().len(), 2, "{ran:#}");
    // What could only be pretended is refused with the flag too.
    let listed = PLAN.replace("[verify]", "[sandbox]\nnetwork = { allow = [\"example.org:443\"] }\n[verify]");
    let listed = ["run", &plan(&world, &listed), "--allow-degraded=namespaces"];
    let ran = Machine::NamespacesOff.sandbox(&world, &listed).expect(4);
    assert!(ran.stderr.contains("cannot be kept in: a list of allowed addresses"), "{ran:?}");
    assert!(!world.store().exists());
    for wrong in ["all", "landlock", "policy", ""] {
        let ran = world.sandbox(&["run", &path, &format!("--allow-degraded={wrong}")]).expect(2);
        assert!(ran.stderr.contains("namespaces"), "{ran:?}");
    }
}

/// What is said of the layers a run did without, everywhere it is said.
fn recorded(world: &World, events: &[Value]) -> Vec<Value> {
    let of = |kind: &str| -> Vec<&Value> { events.iter().filter(|event| event["type"] == kind).collect() };
    let run = events[0]["runId"].as_str().unwrap();
    let host: Value =
        serde_json::from_slice(&fs::read(world.store().join("runs").join(run).join("host.json")).unwrap()).unwrap();
    let data = |arguments: &[&str]| world.sandbox(arguments).expect(0).json()["data"].clone();
    let status = data(&["status", run, "--json"]);
    let inspect = data(&["inspect", "docs", "--run", run, "--json"]);
    let told = |value: &Value| value.get("degraded").cloned().unwrap_or(json!([]));
    vec![
        told(&host),
        told(&of("run.started")[0]["data"]),
        told(&of("attempt.started")[0]["data"]),
        told(&of("verify.finished")[0]["data"]),
        told(&status),
        told(&inspect["attempts"][0]),
    ]
}

#[test]
fn with_leave_a_run_makes_the_same_and_says_what_it_did_without() {
    let tree = |world: &World| world.git(&["rev-parse", "HEAD^{tree}"]);
    let whole = World::new();
    let path = plan(&whole, PLAN);
    let flags = ["run", &path, "--json", "--land", "--allow-degraded=namespaces", "--allow-degraded=seccomp"];
    let events = whole.sandbox(&flags).expect(0).json_lines();
    let wanted = tree(&whole);
    assert_eq!(recorded(&whole, &events), vec![json!([]); 6], "what is there is used, whatever may be missing");
    assert!(events[0]["data"]["isolation"].as_array().unwrap().contains(&json!("pid-namespace")));

    for (machine, layer) in [
        (Machine::NamespacesOff, "namespaces"),
        (Machine::NamespacesDenied, "namespaces"),
        (Machine::NoSeccomp, "seccomp"),
    ] {
        let mut world = World::new();
        world.write(".env", "SECRET=1\n");
        world.write(".git/info/exclude", ".env\n");
        let by_plan = PLAN.replace("[verify]", &format!("[sandbox]\nallow_degraded = [\"{layer}\"]\n[verify]"));
        let by_flag = format!("--allow-degraded={layer}");
        let (path, more) = match machine {
            Machine::NamespacesDenied => (plan(&world, &by_plan), vec![]),
            _ => (plan(&world, PLAN), vec![by_flag.as_str()]),
        };
        world.set("LANG", "C.UTF-8");
        let arguments: Vec<&str> = ["run", &path, "--json", "--land"].into_iter().chain(more).collect();
        let events = machine.sandbox(&world, &arguments).expect(0).json_lines();
        assert_eq!(tree(&world), wanted, "{machine:?}");
        assert_eq!(recorded(&world, &events), vec![json!([layer]); 6], "{machine:?}");
        let isolation = events[0]["data"]["isolation"].as_array().unwrap();
        let has = |name: &str| isolation.contains(&json!(name));
        assert_eq!(
            (has("pid-namespace"), has("seccomp")),
            (layer != "namespaces", layer != "seccomp"),
            "{isolation:?}"
        );
        for arguments in [&["status"][..], &["inspect", "docs"]] {
            let told = world.sandbox(arguments).expect(0).stdout;
            assert!(told.contains(&format!("without {layer}, as was allowed")), "{told}");
        }
        // The worktrees lead where they led, and git works in them.
        for worktree in
            world.git(&["worktree", "list", "--porcelain"]).lines().filter_map(|line| line.strip_prefix("worktree "))
        {
            world.git(&["-C", worktree, "status"]);
        }
        // A receipt of a weaker box says nothing of a whole one, nor the other way round.
        let again = world.sandbox(&["verify", "--json"]);
        let judged = again.json();
        assert_eq!(judged["data"]["verifier"]["reused"], json!(false), "{judged:#}");
    }
}

#[test]
fn a_weak_run_says_so_at_its_start_and_at_its_end() {
    let world = World::new();
    let path = plan(&world, PLAN);
    let ran =
        Machine::NamespacesOff.sandbox(&world, &["run", &path, "--allow-degraded=namespaces", "--quiet"]).expect(0);
    let told = ran.stderr;
    let first = told.lines().next().unwrap();
    assert!(first.starts_with("warning: degraded, as was allowed: this machine gives no namespaces; "), "{told}");
    let ran = Machine::NamespacesOff.sandbox(&world, &["merge", "--allow-degraded=namespaces"]).expect(0);
    assert!(ran.stdout.contains("degraded  without namespaces, as was allowed"), "{}", ran.stdout);
    assert!(ran.stderr.starts_with("warning: degraded, as was allowed: "), "{}", ran.stderr);
    let ran = Machine::NamespacesOff.sandbox(&world, &["run", &path, "--allow-degraded=namespaces"]).expect(0);
    assert!(ran.stderr.contains("do not run git in ") && ran.stderr.contains("--docs until it ends"), "{}", ran.stderr);
    let status = world.sandbox(&["status", "--json"]).expect(0).json();
    let layers = fs::read_to_string(world.store().join("runs/two-1/host.json")).unwrap();
    assert_eq!(status["data"]["leakyPossible"] == json!(true), !layers.contains("kill-group"), "{status:#}");
}

/// No machine without namespaces gives a share of the processor.
#[test]
fn a_limit_that_is_left_out_is_told_of_box_by_box() {
    let of_one = PLAN.replace("[agents.code]", "sandbox.limits.cpu_weight = 50\n[agents.code]");
    let of_all = PLAN.replace("[verify]", "[sandbox.limits]\ncpu_weight = 50\n[verify]");
    let whole = json!(["namespaces"]);
    let without = json!(["namespaces", "limits"]);
    for (text, boxes, code, judged) in [
        (of_one, &["agent `docs`"][..], &whole, &whole),
        (of_all, &["agent `code`", "agent `docs`", "the verifier"], &without, &without),
    ] {
        let world = World::new();
        let path = plan(&world, &text);
        let flags = ["--allow-degraded=namespaces", "--allow-degraded=limits"];
        let refused = Machine::NamespacesOff.sandbox(&world, &["run", &path, flags[0]]).expect(4);
        assert!(refused.stderr.contains("`: a share of the processor"), "{}", refused.stderr);
        assert!(refused.stderr.contains("--allow-degraded=limits"), "{}", refused.stderr);
        assert!(!refused.stderr.contains("systemd-run"), "it would not help: {}", refused.stderr);
        assert!(!world.store().exists());

        let warned = |ran: &Ran| {
            boxes.iter().all(|whose| {
                let line = format!("degraded, as was allowed: {whose} runs without the limit `cpu_weight`");
                ran.stderr.contains(&line)
            })
        };
        let ran = Machine::NamespacesOff.sandbox(&world, &["run", &path, flags[0], flags[1], "--json"]).expect(0);
        assert!(warned(&ran), "{}", ran.stderr);
        let (of_code, others): (Vec<Value>, Vec<Value>) =
            ran.json_lines().into_iter().partition(|it| it["type"] == "attempt.started" && it["agent"] == "code");
        assert_eq!(&of_code[0]["data"]["degraded"], code);
        let told = [&without, &without, &without, judged, &without, &without];
        assert_eq!(recorded(&world, &others), told.map(Value::clone), "{boxes:?}");
        let host = fs::read(world.store().join("runs/two-1/host.json")).unwrap();
        let host: Value = serde_json::from_slice(&host).unwrap();
        let left_out: BTreeMap<&str, [&str; 1]> = boxes.iter().map(|whose| (*whose, ["cpu_weight"])).collect();
        assert_eq!(host["leftOut"], json!(left_out));
        let said = "without namespaces and some limits, as was allowed";
        assert!(world.sandbox(&["inspect", "docs"]).expect(0).stdout.contains(said));
        assert_eq!(world.sandbox(&["inspect", "code"]).expect(0).stdout.contains(said), *code == without);
        assert!(world.sandbox(&["status"]).expect(0).stdout.contains(said));
        let again = Machine::NamespacesOff.sandbox(&world, &["merge", flags[0], flags[1]]).expect(0);
        assert!(again.stdout.contains(said) && warned(&again), "{again:?}");
    }
}

#[test]
fn a_run_goes_on_in_another_form() {
    let world = World::new();
    let path = plan(
        &world,
        &PLAN
            .replace("grep -q new docs/new;", "grep -q new docs/new; grep -q more docs/more;")
            .replace(
                "echo new > docs/new;",
                "if test $SANDBOX_ATTEMPT -gt 1; then echo more > docs/more; fi; echo new > docs/new;",
            )
            .replace(
                "git commit -qm docs;",
                "git commit -qm docs || git log; git cat-file --batch-check --batch-all-objects | grep -q tree;",
            ),
    );
    world.sandbox(&["run", &path]).expect(6);
    // Begun with namespaces; each verb must be told anew.
    Machine::NamespacesDenied.sandbox(&world, &["retry", "docs"]).expect(4);
    let flag = "--allow-degraded=namespaces";
    Machine::NamespacesDenied.sandbox(&world, &["retry", "docs", flag]).expect(0);
    let status = world.sandbox(&["status", "--json"]).expect(0).json();
    assert_eq!(status["data"]["degraded"], json!(["namespaces"]));
    let inspect = world.sandbox(&["inspect", "docs", "--json"]).expect(0).json();
    let attempts = inspect["data"]["attempts"].as_array().unwrap();
    assert_eq!((&attempts[0]["degraded"], &attempts[1]["degraded"]), (&json!([]), &json!(["namespaces"])));
    // And back, in the same worktree.
    world.sandbox(&["retry", "docs"]).expect(0);
    for verb in ["merge", "verify", "land"] {
        Machine::NamespacesOff.sandbox(&world, &[verb]).expect(4);
        Machine::NamespacesOff.sandbox(&world, &[verb, flag]).expect(0);
    }
    Machine::NamespacesOff.sandbox(&world, &["clean"]).expect(4);
    Machine::NamespacesOff.sandbox(&world, &["clean", flag]).expect(0);
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1);
    assert!(world.read("docs/more").contains("more"));
}

#[test]
fn turns_from_inside_are_refused_with_the_reason() {
    let world = World::new();
    let own = program().display().to_string();
    let script =
        format!("! command -v sandbox; {own} turn half > docs/told 2>&1 || code=$?; test $code = 4; cat docs/told");
    let arguments = ["exec", "--name", "one", "--allow-degraded=namespaces", "--", "sh", "-ec", &script];
    Machine::NamespacesOff.sandbox(&world, &arguments).expect(1);
    let told = world.git(&["show", "sandbox/one-1/one:docs/told"]);
    assert!(told.contains("turns cannot be ended from inside: this box is without namespaces"), "{told}");
}

/// What a box without namespaces does not stop, for root and for others; each is in `docs/threat-model.md`.
const OPEN: [&str; 2] = ["see the host's interfaces", "see the host's processes"];

async fn without_namespaces(world: World) -> Bench {
    let mut bench = Bench::new(world).await;
    bench.capturer.host = Host { obstacle: Some(Obstacle::NamespacesOff), ..bench.capturer.host.clone() };
    bench.capturer.may_lack = BTreeSet::from([Layer::Namespaces]);
    bench.task().sandbox.allow_degraded = BTreeSet::from([Layer::Namespaces]);
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn attacks_fail_without_namespaces_but_for_those_that_are_documented() {
    let mut target = Target::new();
    let mut bench = without_namespaces(target.world.take().unwrap()).await;
    let passed = ["REPO", "SECOND", "TOOLS", "TCP", "UDP", "ABSTRACT", "SOCK", "VICTIM", "OPEN"];
    bench.task().sandbox.env = passed.map(str::to_owned).to_vec();
    let base = bench.world.home().parent().unwrap().to_owned();
    let modes = |picture: &BTreeMap<std::path::PathBuf, String>| -> BTreeMap<_, _> {
        // The one file whose mode and time are changed by what is not stopped.
        picture
            .iter()
            .filter(|(path, _)| !path.ends_with("bin/tool"))
            .map(|(path, facts)| (path.clone(), facts.clone()))
            .collect()
    };
    let before = Target::picture(&base);
    let home = bench.world.home().display().to_string();
    let guarded = |(name, attack): &(&str, &str)| {
        // The home of the user, not the box's own.
        format!("( {} ) >/dev/null 2>&1 && echo \"worked: {name}\"", attack.replace('~', &home).replace("$HOME", &home))
    };
    let scripts = ATTACKS.iter().map(guarded).collect::<Vec<_>>().join("\n");
    let end = bench.attempt(&[&format!("tool\n{scripts}\ntrue")]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    let printed = bench.memory.printed();
    let worked: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("worked: ")).collect();
    assert_eq!(worked, OPEN, "{printed}");
    assert!(printed.starts_with("tool works\n"), "{printed}");
    let after = Target::picture(&base);
    let (before, after) = (modes(&before), modes(&after));
    let changed: Vec<_> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    assert_eq!(changed, Vec::<&std::path::PathBuf>::new(), "changed on the host");
    assert!(!target.has_been_reached());
    assert!(target.process.try_wait().unwrap().is_none(), "the process lives");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sibling_and_the_private_folders_of_others_cannot_be_read() {
    let mut bench = without_namespaces(World::new()).await;
    let other = bench.worktree().parent().unwrap().join("t-1--other");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("secret"), "secret\n").unwrap();
    let private = bench.workspace.place.private().to_owned();
    let sees = format!(
        "cat {0}/secret && echo got; echo x > {0}/x && echo got; ls {0} && echo got; ls {1} && echo got; echo x > {2}/x && echo got; \
         cat {2}/capture/config && echo got; echo x >> {2}/capture/config && echo got; echo x > {2}/repointed && echo got; \
         git rev-parse --verify -q refs/heads/sandbox/t-1/other && echo got; true",
        other.display(),
        other.parent().unwrap().display(),
        private.display(),
    );
    let bare = bench.world.command("sh").current_dir(bench.worktree()).args(["-c", &sees]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&bare.stdout).matches("got").count(), 8, "without a box");
    for planted in [other.join("x"), private.join("x"), private.join("repointed")] {
        fs::remove_file(planted).unwrap();
    }
    let end = bench.attempt(&[&format!("( {sees} ) 2>/dev/null")]).await;
    bench.expect(&end, AttemptOutcome::NoChanges);
    assert_eq!(bench.memory.printed(), "");
    assert!(!other.join("x").exists() && !private.join("x").exists());
}

/// Ways to have the parent's git run something, each by the agent's own git or straight on the disk.
const PLANTS: &str = r#"
canary=$1; repo=$2
printf '#!/bin/sh\ntouch %s\n' "$canary" > run; chmod +x run; here=$PWD
common=$(git rev-parse --git-common-dir)
for hook in pre-commit post-commit post-checkout post-merge reference-transaction pre-merge-commit post-index-change; do
    cp run "$common/hooks/$hook"; cp run "$repo/.git/hooks/$hook"
done
git config core.fsmonitor "$here/run"; git config core.hooksPath "$here"; git config core.pager "$here/run"
git config --file "$repo/.git/config" core.fsmonitor "$here/run"
echo "$PWD" > "$repo/.git/commondir"; echo "$PWD" > "$repo/.git/worktrees/t-1--worker/commondir"
git --git-dir="$repo/.git" update-ref refs/heads/main "$(git commit-tree -m x 'HEAD^{tree}')"
git --git-dir="$repo/.git" gc --prune=now; rm -rf "$repo/.git/objects"/??
echo x > "$repo/.git/index.lock"; echo x > "$repo/.git/info/attributes"
git update-ref -d refs/heads/main; git gc -q --prune=now; rm -f "$common/packed-refs"
echo work > work
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_parents_git_runs_nothing_and_loses_nothing() {
    // In a worktree without a box it does: the same, but for what would break the repository before it can be seen.
    let free = World::new();
    free.git(&["worktree", "add", "-q", "../work", "-b", "work"]);
    let gentle =
        |line: &&str| !["commondir", "update-ref", "rm -", "gc", "index.lock"].iter().any(|word| line.contains(word));
    let plants: Vec<&str> = PLANTS.lines().filter(gentle).collect();
    let plants = format!("common=$(git rev-parse --git-common-dir)\n{}", plants.join("\n"));
    let canary = free.home().join("canary");
    let mut shell = free.command("sh");
    shell.current_dir(free.home().join("work")).args(["-c", &plants, "sh"]).arg(&canary).arg(&free.repo);
    assert!(shell.output().unwrap().status.success());
    drop(free.try_git(&["status"]));
    assert!(canary.exists(), "the trap does not even work");

    let mut bench = without_namespaces(World::new()).await;
    let canary = bench.world.home().join("canary");
    let before = git_directory(&bench.world);
    let script =
        format!("set -- {} {}\n({PLANTS}) 2>/dev/null || true\n", canary.display(), bench.world.repo.display());
    let end = bench.attempt(&[&script.replace("set -e", "")]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    let after = git_directory(&bench.world);
    for (path, bytes) in &before {
        // A harvest moves the agent's own refs, and nothing else that was there.
        let ours = path.contains("/sandbox/")
            || path.contains("/refs/heads/sandbox")
            || path.contains("/logs/refs/heads/sandbox");
        assert!(ours || after.get(path) == Some(bytes), "{path} was changed");
    }
    let strange: Vec<&String> = after
        .keys()
        .filter(|path| !before.contains_key(*path))
        .filter(|path| !path.contains("/sandbox") && !path.contains("/objects/"))
        .collect();
    assert_eq!(strange, Vec::<&String>::new(), "new in the git directory");
    let world = &bench.world;
    world.git(&["fsck", "--full"]);
    for arguments in
        [&["status"][..], &["diff", "HEAD", "sandbox/t-1/worker"], &["merge", "-q", "sandbox/t-1/worker"], &["log"]]
    {
        world.git(arguments);
    }
    assert!(!canary.exists());
    assert_eq!(world.read("work"), "work\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_harvest_the_git_directory_is_byte_for_byte_the_same() {
    let mut bench = without_namespaces(World::new()).await;
    let of_ours =
        |path: &str| path.contains("/sandbox/") || path.contains("refs/sandbox") || path.contains("refs/heads/sandbox");
    let picture = |world: &World| -> BTreeMap<String, String> {
        git_directory(world).into_iter().filter(|(path, _)| !of_ours(path)).collect()
    };
    let before = picture(&bench.world);
    let end = bench.attempt(&["git commit -q --allow-empty -m x; git branch y; git stash list; git reset -q --hard HEAD~1; git branch -D y; git gc -q"]).await;
    assert!(matches!(end.outcome, AttemptOutcome::NoChanges), "{} {}", bench.reason(), bench.memory.printed());
    let after = picture(&bench.world);
    let differing: Vec<_> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    assert_eq!(differing, Vec::<&String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_the_agent_replaced_is_never_followed() {
    let canary_of = |bench: &Bench| bench.world.home().join("canary");
    for (name, replace) in [
        ("removed", "rm .git"),
        ("another file", "echo 'gitdir: /tmp/elsewhere' > .git"),
        ("a link to a secret", "ln -sf \"$REPO/.env\" .git"),
        ("a link to a folder", "mkdir d && rm .git && ln -s d .git"),
        ("a pipe", "rm .git && mkfifo .git"),
        ("a folder", "rm .git && mkdir -p .git/x"),
        ("a folder that is shut", "rm .git && mkdir -p .git/x && chmod 0 .git"),
        (
            "a repository",
            "rm .git && git init -q && printf '#!/bin/sh\\ntouch %s\\n' \"$CANARY\" > .git/run && chmod +x .git/run && git config core.fsmonitor .git/run",
        ),
    ] {
        let mut world = World::new();
        world.write(".env", "secret\n");
        world.set("REPO", world.repo.clone());
        world.set("CANARY", world.home().join("canary"));
        let mut bench = without_namespaces(world).await;
        bench.task().sandbox.env = vec!["REPO".to_owned(), "CANARY".to_owned()];
        let own = fs::read(bench.worktree().join(".git")).unwrap();
        let end = bench.attempt(&["echo kept > kept", &format!("echo x > x; {replace}")]).await;
        bench.expect(&end, AttemptOutcome::Tampered);
        assert!(bench.reason().contains(".git"), "{name}: {}", bench.reason());
        assert_eq!(bench.names().iter().filter(|path| *path == "kept").count(), 1, "{name}: the turn before is kept");
        let link = bench.worktree().join(".git");
        assert_eq!(fs::read(&link).unwrap(), own, "{name}");
        assert!(link.symlink_metadata().unwrap().is_file(), "{name}");
        // The user's own git reads nothing of what the agent wrote.
        bench.world.git(&["-C", bench.worktree().to_str().unwrap(), "status"]);
        if ["a folder", "a folder that is shut", "a repository"].contains(&name) {
            let reason = bench.reason();
            let aside = Path::new(reason.rsplit('`').nth(1).unwrap());
            assert!(
                aside.ends_with("replaced-git-1") && aside.is_dir(),
                "{name}, which stays to be looked at: {reason}"
            );
        }
        assert_eq!(fs::read(bench.world.repo.join(".env")).unwrap(), b"secret\n");
        assert!(!canary_of(&bench).exists(), "{name}");
    }
}

#[test]
fn nothing_is_left_behind_and_nobody_else_is_ended() {
    let world = World::new();
    let mut bystander = world.command("sleep").arg("86711").spawn().unwrap();
    let text = r#"
[run]
name = "strays"
[agents.one]
owns = ["**"]
run = ["sh", "-ec", '''
(setsid sleep 86712 &)
nohup sleep 86712 > /dev/null 2>&1 &
(setsid sh -c 'for i in 1 2 3 4 5 6 7 8; do sleep 86712 & done; exec sleep 86712' &)
printf '%s\\n' 'test $1 -lt 300 && setsid sh $0 $(($1 + 1)) 86712 &' > $TMPDIR/hop
for i in 1 2 3; do setsid sh $TMPDIR/hop 0 86712 & done
echo new > docs/new
''']
"#;
    let flag = "--allow-degraded=namespaces";
    let events =
        Machine::NamespacesOff.sandbox(&world, &["run", &plan(&world, text), flag, "--json"]).expect(1).json_lines();
    assert_none_left("86712");
    let finished = events.iter().find(|event| event["type"] == "attempt.finished").unwrap();
    assert_eq!(finished["data"]["outcome"], json!("completed"), "{finished:#}");
    assert!(finished["data"]["leftoverProcesses"].as_u64().unwrap() >= 3, "{finished:#}");
    assert!(bystander.try_wait().unwrap().is_none(), "a process that is not ours was ended");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn a_worktree_that_is_gone_or_another_keeps_nobody_from_going_on() {
    let world = World::new();
    let text = r#"
[run]
name = "gone"
[sandbox]
allow_degraded = ["namespaces"]
[agents.one]
owns = ["**"]
run = ["sh", "-ec", "echo half > half; test $SANDBOX_ATTEMPT != 1 || sleep 86741"]
"#;
    let path = plan(&world, text);
    let machine = Machine::NamespacesDenied;
    let mut number = 0;
    for (another, why) in [(false, "the folder is gone"), (true, "the folder was replaced by another")] {
        for verb in ["retry", "merge", "clean"] {
            number += 1;
            let mut executor = machine.start(&world, &["run", &path]);
            until("the agent runs", || (!processes_with("sleep 86741").is_empty()).then_some(()));
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(executor.id().cast_signed()), Signal::SIGKILL).unwrap();
            executor.wait().unwrap();
            assert_none_left("sleep 86741");
            let run = format!("gone-{number}");
            let key = fs::read_dir(world.worktrees()).unwrap().next().unwrap().unwrap().path();
            let worktree = key.join(format!("{run}--one"));
            // Out of the way, so that a new folder cannot get its number.
            fs::rename(&worktree, world.home().join(&run)).unwrap();
            let own = worktree.join(".git");
            if another {
                fs::create_dir(&worktree).unwrap();
                fs::write(&own, "the user's").unwrap();
            }
            let case = format!("{why}, {verb}");
            let arguments: &[&str] = match verb {
                "retry" => &["retry", "one", "--fresh"],
                "merge" => &["merge"],
                _ => &["clean", &run],
            };
            let ran = machine.sandbox(&world, arguments);
            assert!(matches!(ran.code, Some(0 | 1)), "{case}: {ran:?}");
            assert!(verb == "clean" || ran.stderr.contains(why), "{case}: {ran:?}");
            if another && verb == "clean" {
                assert!(ran.stdout.contains(why), "{ran:?}");
            }
            if another {
                assert_eq!(fs::read_to_string(&own).unwrap(), "the user's", "{case}");
            } else if verb == "clean" {
                assert!(ran.stdout.contains("its folder is gone"), "{ran:?}");
            }
            if verb == "retry" {
                assert_eq!(world.git(&["show", &format!("sandbox/{run}/one:half")]), "half", "{case}");
            }
        }
    }
}

/// Holds the lock of a box as its own processes do.
fn hold_box_lock(path: &Path) -> fs::File {
    use nix::fcntl::{FcntlArg, fcntl};
    let file = fs::File::open(path).unwrap();
    let (l_type, l_whence) = (nix::libc::F_RDLCK.try_into().unwrap(), nix::libc::SEEK_SET.try_into().unwrap());
    let whole = nix::libc::flock { l_type, l_whence, l_start: 0, l_len: 0, l_pid: 0 };
    fcntl(&file, FcntlArg::F_OFD_SETLK(&whole)).unwrap();
    file
}

#[test]
fn whoever_goes_on_waits_until_nothing_is_left_of_the_last_box() {
    let world = World::new();
    let text = r#"
[run]
name = "left"
[sandbox]
allow_degraded = ["namespaces"]
[agents.one]
owns = ["**"]
run = ["sh", "-ec", "echo done > done; test $SANDBOX_ATTEMPT != 1 || sleep 86731"]
"#;
    let machine = Machine::NamespacesDenied;
    let start = |arguments: &[&str]| machine.start(&world, arguments);
    let signal =
        |pid: u32, signal| nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.cast_signed()), signal).unwrap();
    let mut executor = start(&["run", &plan(&world, text)]);
    until("the agent runs", || (!processes_with("sleep 86731").is_empty()).then_some(()));
    // What every process of a box's own holds, held on by one that does not come to its end.
    let key = fs::read_dir(world.worktrees()).unwrap().next().unwrap().unwrap().path();
    let left = hold_box_lock(&key.join(".private/left-1--one/box.lock"));
    signal(executor.id(), Signal::SIGKILL);
    executor.wait().unwrap();

    let mut again = start(&["resume"]);
    let mut lines = BufReader::new(again.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut before = Vec::new();
    let told = lines.find(|line| {
        before.push(line.clone());
        line.contains("waiting until nothing is left of the last box in")
    });
    assert!(told.is_some_and(|line| line.contains("left-1--one")), "{before:#?}");
    assert!(again.try_wait().unwrap().is_none(), "it waits");
    let attempts = || {
        let inspect = world.sandbox(&["inspect", "one", "--json"]).expect(0).json();
        inspect["data"]["attempts"].as_array().unwrap().len()
    };
    assert_eq!(attempts(), 1);
    drop(left);
    let rest: Vec<String> = lines.collect();
    assert!(again.wait().unwrap().code() == Some(1), "no verifier: {rest:#?}");
    assert_eq!(attempts(), 2);
    assert_eq!(world.git(&["show", "sandbox/left-1/one:done"]), "done");
}

#[test]
fn an_executor_that_is_killed_takes_its_agents_along_and_the_link_is_mended() {
    let world = World::new();
    let text = r#"
[run]
name = "killed"
[sandbox]
allow_degraded = ["namespaces"]
[agents.one]
owns = ["**"]
run = ["sh", "-ec", "echo half > half; if test $SANDBOX_ATTEMPT = 1; then (setsid sleep 86721 &); sleep 86721; fi"]
"#;
    let path = plan(&world, text);
    let mut bystander = world.command("sleep").arg("86722").spawn().unwrap();
    for mended_by in [&["retry", "one"][..], &["merge"], &["clean", "killed-3"]] {
        let machine = Machine::NamespacesDenied;
        let mut executor = machine.start(&world, &["run", &path, "--json"]);
        until("the agent runs", || (processes_with("86721").len() >= 2).then_some(()));
        let worktrees = world.git(&["worktree", "list", "--porcelain"]);
        let worktree =
            worktrees.lines().filter_map(|line| line.strip_prefix("worktree ")).next_back().unwrap().to_owned();
        let link = || fs::read_to_string(Path::new(&worktree).join(".git")).unwrap_or_default();
        assert!(link().contains(".private"), "it leads to the agent's own: {}", link());
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(executor.id().cast_signed()), Signal::SIGKILL).unwrap();
        executor.wait().unwrap();
        assert_none_left("86721");
        assert!(link().contains(".private"), "nobody was there to mend it");
        let status = machine.sandbox(&world, &["status"]).expect(0).stdout;
        assert!(status.contains("run no git in its worktrees before `sandbox resume`"), "{status}");
        let ran = machine.sandbox(&world, mended_by);
        assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
        if mended_by[0] == "clean" {
            assert!(!Path::new(&worktree).exists(), "{ran:?}");
        } else {
            assert!(link().contains("/.git/worktrees/"), "{mended_by:?}: {}", link());
            world.git(&["-C", &worktree, "status"]);
        }
    }
    // What the killed one had written is kept.
    assert_eq!(world.git(&["show", "sandbox/killed-3/one:half"]), "half");
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn what_is_missing_but_not_needed_is_no_degradation() {
    let world = World::new();
    let path = plan(&world, PLAN);
    let events = Machine::NoLandlock.sandbox(&world, &["run", &path, "--json"]).expect(0).json_lines();
    assert_eq!(recorded(&world, &events), vec![json!([]); 6]);
    let host: Value = serde_json::from_slice(&fs::read(world.store().join("runs/two-1/host.json")).unwrap()).unwrap();
    assert!(host["shortcomings"][0].as_str().unwrap().contains("Landlock is not in use"), "{host:#}");
}

#[test]
fn doctor_says_what_would_go_on() {
    let world = World::new();
    let says = |machine: Machine| {
        let ran = machine.sandbox(&world, &["doctor", "--json"]).expect(4).json();
        let checks = ran["data"]["checks"].as_array().unwrap().clone();
        let check = checks.into_iter().find(|check| check["name"] == "degraded");
        check.map(|check| (check["state"].as_str().unwrap().to_owned(), check["found"].as_str().unwrap().to_owned()))
    };
    let (state, found) = says(Machine::NamespacesOff).unwrap();
    assert!(state == "warning" && found.contains("--allow-degraded=namespaces would work here"), "{state} {found}");
    let (_, found) = says(Machine::NoLandlockAndDenied).unwrap();
    assert!(found.contains("would not work here") && found.contains("no Landlock either"), "{found}");
    let (_, found) = says(Machine::NoSeccomp).unwrap();
    assert!(found.contains("--allow-degraded=seccomp would work here"), "{found}");
}

#[test]
fn an_ordinary_users_files_stay_theirs() {
    // As root the user's and the system's files are of one owner, so that only the rules stand before them.
    let world = World::new();
    let system = if is_root() { "/etc/sandbox-test-degraded" } else { "/tmp/sandbox-test-degraded" };
    let script =
        format!("! touch {system}; ! chmod u+s /bin/sh; ! echo x > /proc/sys/kernel/core_pattern; echo new > docs/new");
    let arguments = ["exec", "--name", "one", "--allow-degraded=namespaces", "--", "sh", "-ec", &script];
    Machine::NamespacesOff.sandbox(&world, &arguments).expect(1);
    assert!(world.git(&["show", "sandbox/one-1/one:docs/new"]).contains("new"));
    assert!(!Path::new(system).exists());
    assert_eq!(Path::new("/bin/sh").metadata().unwrap().permissions().mode() & 0o6000, 0);
}
