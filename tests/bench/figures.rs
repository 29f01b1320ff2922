//! The figures.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::{Command as BoxCommand, Enforcement, Launcher, Sandbox};
use worktree_sandbox::change::bundle::{self, Ledger, Turn};
use worktree_sandbox::change::{Captured, Snapshot};
use worktree_sandbox::git::{Identity, Merger, NewCommit, Place, Preview, Signature};
use worktree_sandbox::model::change::Actor;
use worktree_sandbox::model::plan::{AgentTask, Plan};
use worktree_sandbox::model::{AgentName, RefName, TurnId};
use worktree_sandbox::plan::{CompiledContract, Single};
use worktree_sandbox::store::Occupant;
use worktree_sandbox::workspace::{Commission, Workspace, create, remove, working_box};

use crate::scene::{BRANCHES, Scene, path, program};
use crate::table::{Table, median};

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let done = work();
    (done, begun.elapsed())
}

fn plan() -> Plan {
    Single::new("worker", vec!["true".to_owned()]).into_plan().unwrap()
}

fn make(scene: &Scene, task: &AgentTask) -> Workspace {
    create(&Commission {
        repository: &scene.capturer.repository,
        head: &scene.head,
        state: &scene.state,
        environment: &scene.capturer.environment,
        place: scene.work.place(&scene.run, &Occupant::agent(&task.name)),
        fork: scene.fork.commit.clone(),
        stand: Place::NewBranch(RefName::agent_branch(&scene.run, &task.name)),
        reason: "measuring".to_owned(),
    })
    .unwrap()
}

fn unmake(scene: &Scene, workspace: &Workspace, agent: &AgentName) {
    remove(&scene.capturer.repository, &scene.state, &workspace.place).unwrap();
    scene.git(&["update-ref", "-d", RefName::agent_branch(&scene.run, agent).as_str()]);
}

fn enforcement(scene: &Scene, workspace: &Workspace, task: &AgentTask) -> Enforcement {
    let capturer = &scene.capturer;
    let policy =
        working_box(&capturer.environment, &capturer.surroundings, &workspace.place, &task.sandbox, &capturer.pinned)
            .unwrap();
    Enforcement::plan(&policy, &capturer.host).unwrap()
}

/// A box beside a plain child process, and beside `bwrap` where that is installed.
pub(crate) async fn boxes(scene: &Scene, rounds: usize, table: &mut Table) {
    let plan = plan();
    let task = &plan.agents[0];
    let workspace = make(scene, task);
    let wrap = which::which("bwrap").ok();
    let (mut bare, mut whole, mut killed, mut plainly) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut wrapped, mut unwrapped) = (Vec::new(), Vec::new());
    // In turns, so that what else the machine does falls on all of them.
    for _ in 0..rounds {
        bare.push(run_through(&mut Command::new("/bin/true")));
        plainly.push(kill(&mut Command::new("/usr/bin/env")));

        let begun = Instant::now();
        let boxed = Sandbox::start(&enforcement(scene, &workspace, task), &Launcher::new(program())).await.unwrap();
        boxed.spawn(BoxCommand::new(["/bin/true"])).await.unwrap().wait().await.unwrap();
        whole.push(begun.elapsed());

        boxed.spawn(BoxCommand::new(["/bin/sleep", "1000"])).await.unwrap();
        let begun = Instant::now();
        boxed.kill().await.unwrap();
        killed.push(begun.elapsed());

        if let Some(wrap) = &wrap {
            wrapped.push(run_through(bwrap(wrap, scene, &workspace).arg("/bin/true")));
            unwrapped.push(kill(&mut bwrap(wrap, scene, &workspace)));
        }
    }
    let set_up = private_folders(scene, task, rounds);
    unmake(scene, &workspace, &task.name);
    let (spawned, whole, killed) = (median(bare), median(whole), median(killed));
    let over = whole.saturating_sub(spawned);
    table.times("start of a box, over fork and exec", None, over, Some(("fork and exec", spawned)), "8 ms");
    table.times("killing all of a box", None, killed, Some(("killing a child", median(plainly))), "50 ms");
    if wrap.is_some() {
        let of = |name, times| Some((name, median(times)));
        table.times("a box, from nothing to the end of `true`", None, whole, of("bwrap", wrapped), "");
        table.times("killing all of a box", None, killed, of("killing bwrap", unwrapped), "");
    } else {
        println!("`bwrap` is not installed: no box is measured beside one of its\n");
    }
    let (ours, git) = set_up;
    let name = "git worktree add, no file";
    table.times("private git directories and folders", None, ours.saturating_sub(git), Some((name, git)), "30 ms");
}

/// From nothing to the end of a command.
fn run_through(command: &mut Command) -> Duration {
    let (status, took) = timed(|| command.status().unwrap());
    assert!(status.success(), "{command:?}");
    took
}

/// From the decision to the end of a command that goes on, and of all it started: until nobody holds its output.
fn kill(command: &mut Command) -> Duration {
    let mut child = command.args(["/bin/sh", "-c", "echo up; exec sleep 60"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    // One that is killed before it is up may leave something behind.
    output.read_line(&mut String::new()).unwrap();
    let ended = || {
        child.kill().unwrap();
        child.wait().unwrap();
        output.read_line(&mut String::new()).unwrap();
    };
    timed(ended).1
}

/// A box of `bwrap` that shows about what ours does.
fn bwrap(wrap: &std::path::Path, scene: &Scene, workspace: &Workspace) -> Command {
    let place = &workspace.place;
    let common = scene.capturer.repository.common_dir();
    let mut command = Command::new(wrap);
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/", "/", "--dev", "/dev"]);
    command.args(["--proc", "/proc", "--tmpfs", "/var/tmp", "--tmpfs", "/run"]);
    command.arg("--bind").arg(place.tmp()).arg("/tmp");
    command.arg("--bind").arg(place.home()).arg(&scene.capturer.environment.home);
    for hidden in [&scene.repo, &scene.root.join("worktrees")] {
        command.arg("--tmpfs").arg(hidden);
    }
    command.arg("--bind").arg(place.git()).arg(common);
    command.arg("--ro-bind").arg(common.join("objects")).arg(common.join("parent-objects"));
    command.arg("--bind").arg(place.worktree()).arg(place.worktree());
    command.arg("--ro-bind").arg(place.worktree().join(".git")).arg(place.worktree().join(".git"));
    command.arg("--chdir").arg(place.worktree());
    command
}

/// A worktree without a file in it, ours with all that belongs to it and plain git's.
fn private_folders(scene: &Scene, task: &AgentTask, rounds: usize) -> (Duration, Duration) {
    let nothing = scene.git(&["hash-object", "-t", "tree", "/dev/null"]);
    scene.git(&["hash-object", "-t", "tree", "-w", "/dev/null"]);
    let empty = scene.git(&["commit-tree", &nothing, "-m", "nothing"]);
    let name: AgentName = "nothing".parse().unwrap();
    let (mut ours, mut git) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let at = scene.root.join("plain-worktree");
        git.push(timed(|| scene.git(&["worktree", "add", "-q", "--detach", at.to_str().unwrap(), &empty])).1);
        scene.git(&["worktree", "remove", "--force", at.to_str().unwrap()]);
        let commission = Commission {
            repository: &scene.capturer.repository,
            head: &scene.head,
            state: &scene.state,
            environment: &scene.capturer.environment,
            place: scene.work.place(&scene.run, &Occupant::agent(&name)),
            fork: empty.parse().unwrap(),
            stand: Place::Detached,
            reason: format!("measuring beside {}", task.name),
        };
        let (made, took) = timed(|| create(&commission).unwrap());
        ours.push(took);
        remove(&scene.capturer.repository, &scene.state, &made.place).unwrap();
    }
    (median(ours), median(git))
}

/// Everything but the agent's own work, part by part.
pub(crate) async fn agent(scene: &Scene, rounds: usize, table: &mut Table) {
    let plan = plan();
    let task = &plan.agents[0];
    let (mut git, mut made, mut captured, mut totals, mut scans) = (vec![], vec![], vec![], vec![], vec![]);
    for round in 0..rounds {
        git.push(git_worktree_add(scene, round));
        let (workspace, making) = timed(|| make(scene, task));
        let begun = Instant::now();
        let boxed = Sandbox::start(&enforcement(scene, &workspace, task), &Launcher::new(program())).await.unwrap();
        let starting = begun.elapsed();
        let (base, first) = capture(scene, &workspace, &scene.fork, "start").await;
        edit(&workspace, round);
        let (after, second) = capture(scene, &workspace, &base.snapshot, "turn").await;
        let ((), writing) = timed(|| write_bundle(scene, task, &base, &after));
        let begun = Instant::now();
        boxed.shutdown().await.unwrap();
        let ending = begun.elapsed();
        scans.push(plain_scan(scene, &workspace));
        let ((), removing) = timed(|| unmake(scene, &workspace, &task.name));
        made.push(making);
        captured.push(second + writing);
        totals.push(making + starting + first + second + writing + ending + removing);
    }
    let files = Some(scene.files);
    let git = median(git);
    let beside = Some(("git worktree add", git));
    table.times("one agent, all but its own work", files, median(totals), beside, bound_of_agent(scene.files));
    table.times("a worktree with its private directories", files, median(made), beside, "git + 30 ms");
    let scan = Some(("git add, git write-tree", median(scans)));
    table.times("capture and bundle of a turn", files, median(captured), scan, bound_of_turn(scene.files));
}

fn bound_of_agent(files: usize) -> &'static str {
    match files {
        1_000 => "ratio 3",
        50_000 => "ratio 1.3",
        _ => "",
    }
}

fn bound_of_turn(files: usize) -> &'static str {
    match files {
        1_000 => "24 ms",
        10_000 => "49 ms",
        50_000 => "191 ms",
        _ => "",
    }
}

fn git_worktree_add(scene: &Scene, round: usize) -> Duration {
    let place = scene.root.join(format!("plain-{round}"));
    let name = place.to_str().unwrap();
    let (_, took) = timed(|| scene.git(&["worktree", "add", "-q", "--detach", name]));
    scene.git(&["worktree", "remove", "--force", name]);
    took
}

/// What an agent might do.
fn edit(workspace: &Workspace, round: usize) {
    let worktree = workspace.place.worktree();
    for number in [1, 7, 300] {
        fs::write(worktree.join(path(number)), format!("changed in round {round}\n")).unwrap();
    }
    fs::write(worktree.join("new.txt"), "new\n").unwrap();
}

/// The same scan by git alone, in a worktree like it.
fn plain_scan(scene: &Scene, workspace: &Workspace) -> Duration {
    let worktree = workspace.place.worktree();
    timed(|| {
        scene.git_in(worktree, &["add", "-A"]);
        scene.git_in(worktree, &["write-tree"]);
    })
    .1
}

async fn capture(scene: &Scene, workspace: &Workspace, previous: &Snapshot, label: &str) -> (Captured, Duration) {
    let begun = Instant::now();
    let captured = scene.capturer.capture(workspace, previous, label, None).await.unwrap();
    (captured, begun.elapsed())
}

fn write_bundle(scene: &Scene, task: &AgentTask, base: &Captured, after: &Captured) {
    let run = scene.state.run(&scene.run);
    let compiled = CompiledContract::new(&task.contract).unwrap();
    let ledger = Ledger {
        repository: &scene.capturer.repository,
        run: &run,
        agent: &task.name,
        adapter: "command",
        fork: &scene.fork,
        contract: &task.contract,
        compiled: &compiled,
    };
    let turn = Turn {
        id: TurnId::new(1, 1),
        label: "turn",
        actor: Actor::SubAgent,
        tool: None,
        base: &base.snapshot.commit,
        previous: &base.snapshot.tree,
        captured: after,
        ignored_before: &HashSet::new(),
        end: None,
        interrupted: false,
        live: false,
    };
    assert!(!bundle::write(&ledger, &turn).unwrap().empty);
}

/// A hundred agents merged one after the other, beside `git merge` in the checkout.
pub(crate) fn merging(scene: &Scene, table: &mut Table) {
    let repository = &scene.capturer.repository;
    let identity = Identity { name: "Bench".to_owned(), email: "bench@example.org".to_owned() };
    let signature = Signature { identity, seconds: 1_700_000_000, offset_minutes: 0 };
    let tips: Vec<_> = (0..BRANCHES).map(|number| scene.branch(number)).collect();
    let begun = Instant::now();
    let merger = Merger::new(repository, &scene.fork.commit).unwrap();
    let mut candidate = scene.fork.commit.clone();
    for tip in tips {
        let Preview::Clean { tree } = merger.preview(&candidate, &tip).unwrap() else { panic!("a conflict") };
        let parents = [candidate, tip];
        let merge =
            NewCommit { tree: &tree, parents: &parents, author: &signature, committer: &signature, message: "Merge" };
        candidate = repository.write_commit(&merge).unwrap();
    }
    let all = begun.elapsed();
    let place = scene.root.join("merging");
    scene.git(&["worktree", "add", "-q", "--detach", place.to_str().unwrap()]);
    let merge = |number: usize| {
        timed(|| scene.git_in(&place, &["merge", "-q", "--no-ff", "-m", "Merge", &format!("work-{number}")])).1
    };
    let times: Vec<Duration> = (0..BRANCHES).map(merge).collect();
    let (all_by_git, git) = (times.iter().sum(), median(times));
    scene.git(&["worktree", "remove", "--force", place.to_str().unwrap()]);
    let files = Some(scene.files);
    let one = all / u32::try_from(BRANCHES).unwrap();
    table.times("merging one agent", files, one, Some(("git merge", git)), "10 ms");
    let bound = if scene.files == 50_000 { "1 s" } else { "" };
    table.times("merging a hundred agents", files, all, Some(("a hundred times git merge", all_by_git)), bound);
}

/// What the coordinator needs while an agent works.
pub(crate) fn coordinator(scene: &Scene, table: &mut Table) {
    let file = scene.root.join("idle.toml");
    let text = "[run]\nname = \"idle\"\n[agents.sleeper]\nowns = [\"**\"]\nrun = [\"sleep\", \"3\"]\n";
    fs::write(&file, text).unwrap();
    let mut run = scene.sandbox(&["run", file.to_str().unwrap(), "--json"]);
    let mut child = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("\"turn.started\"")), "the agent did not start");
    let before = ticks(child.id());
    std::thread::sleep(Duration::from_secs(2));
    let used = ticks(child.id()) - before;
    let peak = peak_kib(child.id());
    lines.for_each(drop);
    child.wait().unwrap();
    table.figure("memory of the coordinator, at most", format!("{:.1} MiB", f64::from(peak) / 1024.0), "64 MiB");
    table.figure("its processor time while an agent works for 2 s", format!("{} ms", used * 10), "idle");
}

/// Processor time used so far, in hundredths of a second.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn peak_kib(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
