//! `doctor`: whether a run would start here, and what each answer rests on. Outside a repository only the machine is looked
//! at. Changes nothing but what it makes for itself in the temporary folder, and takes away again.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat, statvfs};
use sandbox::{Form, Host, Launcher};

use super::canary;
use super::error::{Error, ErrorKind};
use super::exit::Exit;
use super::printer::Printer;
use super::rehearsal;
use super::settings::Settings;
use super::sockets;
use super::view::RunView;
use crate::agent::attempt::with_causes;
use crate::git::{self, Git, Head, Repository, Version, load_user_attributes};
use crate::report::doctor::{Check, DoctorData, LayerCheck};
use crate::report::{Envelope, text};
use crate::run::{remarks, root_for};
use crate::store::{Format, StateDir, env, format, runs};
use crate::workspace::{HostEnvironment, Surroundings, require_fit};

/// Less free space than this is told of.
const SPACE_LOW: u64 = 1 << 30;

pub(super) fn doctor(settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime
        .map_err(|error| Error::new(ErrorKind::Environment, "cannot start what watches a box").because(error))?;
    let mut checks = Vec::new();
    let git = git_check(&mut checks);
    let environment = HostEnvironment::of_this_process();
    let root = environment.as_ref().and_then(|environment| worktrees(environment, &mut checks));
    let (kernel, layers) = if let Some(environment) = &environment {
        runtime.block_on(boxes(environment, git.as_ref(), &mut checks))
    } else {
        checks.push(Check::failed("home", "HOME does not name a folder", "set it to your home directory"));
        (None, Vec::new())
    };
    if let Some(git) = git {
        repository(&git, environment.as_ref(), root.as_deref(), settings, &mut checks);
    }
    let data = DoctorData::of(rustix::process::geteuid().as_raw(), kernel, checks, layers);
    let exit = if data.fit { Exit::Complete } else { Exit::Unfit };
    printer.answer(&data.render(settings.look));
    printer.json(&Envelope::answer("doctor", None, data, printer.warnings()));
    Ok(exit)
}

fn git_check(checks: &mut Vec<Check>) -> Option<Git> {
    let git = match Git::find(None) {
        Ok(git) => git,
        Err(error) => {
            let fix = format!("install git {} or newer, or name it in {}", Version::NEEDED, env::SANDBOX_GIT);
            checks.push(Check::failed("git", error.to_string(), fix));
            return None;
        }
    };
    let found = format!("git {} at {}", git.version(), git.program().display());
    checks.push(if git.is_recommended() {
        Check::ok("git", found)
    } else {
        let attributes =
            if git.has_attr_source() { "" } else { "; merge attributes are kept apart in a scratch folder" };
        Check::warning("git", format!("{found}{attributes}"), format!("git {} is recommended", Version::RECOMMENDED))
    });
    Some(git)
}

/// The folder for worktrees, where it can be told.
fn worktrees(environment: &HostEnvironment, checks: &mut Vec<Check>) -> Option<PathBuf> {
    let root = match root_for(environment) {
        Ok(root) => root,
        Err(error) => {
            checks.push(Check::failed("worktrees", error.to_string(), format!("set {}", env::SANDBOX_WORKTREES)));
            return None;
        }
    };
    let fix = format!("name another folder in {}", env::SANDBOX_WORKTREES);
    checks.push(place_check("worktrees", &root, fix));
    Some(root)
}

/// Whether files can be made at `path`, which need not exist yet, and how much room there is.
fn place_check(name: &'static str, path: &Path, fix: String) -> Check {
    let existing = path.ancestors().find(|part| part.exists()).unwrap_or(Path::new("/"));
    if accessat(CWD, existing, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_err() {
        return Check::failed(name, format!("`{}` cannot be written", existing.display()), fix);
    }
    match statvfs(existing) {
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            let found = format!("{}, {} MiB free", path.display(), free >> 20);
            if free < SPACE_LOW {
                Check::warning(name, found, "free some space, or use another disk")
            } else {
                Check::ok(name, found)
            }
        }
        Err(error) => Check::warning(name, format!("{}, free space unknown: {error}", path.display()), fix),
    }
}

/// A real box, the canary in another, and an agent that does real work.
async fn boxes(
    environment: &HostEnvironment,
    git: Option<&Git>,
    checks: &mut Vec<Check>,
) -> (Option<String>, Vec<LayerCheck>) {
    let host = Host::probe(&Launcher::new(&environment.program)).await;
    let kernel = Some(host.kernel.to_string());
    checks.extend((!host.lacks().is_empty()).then(|| degraded(&host)));
    if let Some(obstacle) = &host.obstacle {
        checks.push(Check::failed("sandbox", obstacle.cause(), obstacle.fix()));
        return (kernel, Vec::new());
    }
    checks.extend(guards(&host));
    if !host.seccomp {
        return (kernel, Vec::new());
    }
    match canary::probe(&host, &environment.home, &environment.program).await {
        Ok(mut layers) => {
            if let Some(git) = git {
                layers.push(rehearsal::rehearse(git, &host, environment).await);
            }
            checks.push(Check::ok(
                "sandbox",
                "an empty box starts and ends; user, mount, pid, ipc, uts, cgroup and network namespaces",
            ));
            checks.push(sockets::check(environment));
            (kernel, layers)
        }
        Err(why) => {
            let fix = "look at the security settings of this machine; SANDBOX_LOG=debug tells more";
            checks.push(Check::failed("sandbox", why, fix));
            (kernel, Vec::new())
        }
    }
}

/// Whether a run could go on without what is missing.
fn degraded(host: &Host) -> Check {
    let flags: Vec<String> = host.lacks().iter().map(|layer| format!("--allow-degraded={layer}")).collect();
    let flags = flags.join(" ");
    let refusal = (host.form() == Form::LandlockOnly).then(|| host.refuses_landlock_only()).flatten();
    match refusal {
        None => {
            let weaker = host.shortcomings().into_iter().map(|lack| format!("; {}", lack.cause));
            let found = format!("{flags} would work here{}", weaker.collect::<String>());
            Check::warning("degraded", found, "docs/threat-model.md says what it does not stop")
        }
        Some(refusal) => {
            Check::failed("degraded", format!("{flags} would not work here: {}", refusal.cause), refusal.fix)
        }
    }
}

/// The rules on each process, beside what its box shows: tried in the same box.
fn guards(host: &Host) -> Vec<Check> {
    let lacks = host
        .shortcomings()
        .into_iter()
        .filter(|lack| lack.of == "landlock")
        .map(|lack| Check::warning("landlock", lack.cause, lack.fix));
    let mut checks: Vec<Check> = lacks.collect();
    if let (true, Some(version)) = (checks.is_empty(), host.landlock) {
        checks.push(Check::ok("landlock", format!("version {version}")));
    }
    let filter = if host.seccomp {
        Check::ok("seccomp", "system calls are filtered")
    } else {
        let fix = "run on a kernel with CONFIG_SECCOMP_FILTER, and outside containers that forbid it";
        Check::failed("seccomp", "no filter of system calls can be had", fix)
    };
    checks.push(filter);
    checks.push(limits(host));
    checks
}

/// What enforces each limit of a box here, and which cannot be had.
fn limits(host: &Host) -> Check {
    let (mut found, mut fix, mut fit) = (Vec::new(), None, true);
    for means in host.means() {
        match means.by {
            Ok(by) => found.push(format!("{}: {by}", means.limit)),
            Err(lack) => {
                found.push(format!("{}: cannot be had", means.limit));
                // A share of the processor is a convenience; a machine without a bound on processes can be brought down.
                fit &= means.limit == "cpu_weight";
                fix.get_or_insert(lack.fix);
            }
        }
    }
    let found = found.join("; ");
    if fit {
        Check { fix, ..Check::ok("limits", found) }
    } else {
        Check::warning("limits", found, fix.unwrap_or_default())
    }
}

fn repository(
    git: &Git,
    environment: Option<&HostEnvironment>,
    root: Option<&Path>,
    settings: &Settings,
    checks: &mut Vec<Check>,
) {
    let repository = match Repository::discover(git, &settings.dir) {
        Ok(repository) => repository,
        Err(git::Error::NotARepository { path }) => {
            let path = std::path::absolute(&path).unwrap_or(path);
            let found = format!("`{}` is in none: only the machine was looked at", path.display());
            return checks.push(Check::ok("repository", found));
        }
        Err(error) => return checks.push(failure("repository", error)),
    };
    checks.push(Check::ok("repository", facts(&repository)));
    checks.push(head(&repository));
    checks.push(place_check("state", repository.common_dir(), "make it writable for you".to_owned()));
    checks.push(format_check(&StateDir::in_common_dir(repository.common_dir())));
    if let (Some(environment), Some(root)) = (environment, root) {
        let fit = Surroundings::load(&repository, root).and_then(|around| require_fit(&around, environment));
        checks.push(match fit {
            Ok(()) => Check::ok("place", "repository, home and worktrees can be kept apart"),
            Err(error) => failure("place", error),
        });
    }
    checks.push(attributes(&repository));
    checks.push(commits(&repository));
    checks.extend(tampered_runs(&repository));
}

/// Runs whose worktrees or refs the user's other tools have changed.
fn tampered_runs(repository: &Repository) -> Vec<Check> {
    let state = StateDir::in_common_dir(repository.common_dir());
    let listing = match runs::list(&state) {
        Ok(listing) => listing,
        Err(error) => return vec![failure("runs", error)],
    };
    let mut checks = Vec::new();
    for run in listing.runs {
        let id = run.id().clone();
        let seen = match RunView::load(run) {
            Ok(seen) => seen,
            Err(error) => {
                let fix = format!("`sandbox doctor --run {id}` tells what is damaged");
                checks.push(Check::warning("runs", format!("{id}: {error}"), fix));
                continue;
            }
        };
        if seen.alive {
            continue;
        }
        let fix = || format!("`sandbox status {}` shows how the run stands", seen.run.id());
        match remarks(repository, &seen.run, &seen.state) {
            Ok(told) => {
                let warning = |found| Check::warning("runs", format!("{}: {found}", seen.run.id()), fix());
                checks.extend(told.into_iter().map(warning));
            }
            Err(error) => {
                let found =
                    format!("{}: how its worktrees stand cannot be told: {}", seen.run.id(), with_causes(&error));
                checks.push(Check::warning("runs", found, fix()));
            }
        }
    }
    checks
}

/// What a room says of it, with the hints that the command line adds.
fn failure(name: &'static str, error: impl Into<Error>) -> Check {
    let failure = error.into().failure();
    let found = std::iter::once(failure.message).chain(failure.causes).collect::<Vec<_>>().join(": ");
    Check { name, state: crate::report::doctor::CheckState::Failed, found, fix: failure.hints.into_iter().next() }
}

fn facts(repository: &Repository) -> String {
    let top = repository.top_level().unwrap_or(repository.common_dir());
    let marks = [
        ("bare", repository.is_bare()),
        ("a linked worktree", repository.is_linked()),
        ("shallow", repository.is_shallow()),
        ("sparse", repository.is_sparse()),
        ("a partial clone", repository.is_partial_clone()),
        ("names that differ only in case are one", repository.ignores_case()),
    ];
    let marks = marks.iter().filter_map(|(mark, is)| is.then_some(*mark));
    std::iter::once(top.display().to_string()).chain(marks.map(str::to_owned)).collect::<Vec<_>>().join(", ")
}

fn head(repository: &Repository) -> Check {
    let head = match repository.load_head() {
        Ok(head) => head,
        Err(error) => return failure("commit", error),
    };
    let on = match &head {
        Head::Branch { name, .. } => format!("on {}", name.short()),
        Head::Detached(_) => "detached: a plan must name its target".to_owned(),
    };
    match head.require_commit() {
        Ok(commit) => Check::ok("commit", format!("{} {on}", commit.short())),
        Err(error) => failure("commit", error),
    }
}

fn format_check(state: &StateDir) -> Check {
    match format::load(state) {
        Ok(Format::Absent) => Check::ok("format", "no run yet"),
        Ok(Format::Current) => Check::ok("format", format!("{}", format::VERSION)),
        Ok(Format::Newer(found)) => {
            let found = format!("{found}, and this version knows up to {}", format::VERSION);
            Check::failed("format", found, "use the newer version of this program")
        }
        Err(error) => failure("format", error),
    }
}

/// What the user's own commits go through, and those of this program do not.
fn commits(repository: &Repository) -> Check {
    let hooks = match repository.load_passed_over_hooks() {
        Ok(hooks) => hooks,
        Err(error) => return failure("commits", error),
    };
    let mut apart = Vec::new();
    if repository.config().is_true("commit.gpgsign") {
        apart.push("`commit.gpgSign` is set, and its commits are not signed".to_owned());
    }
    if !hooks.is_empty() {
        apart.push(format!("it runs none of your hooks ({})", hooks.join(", ")));
    }
    if apart.is_empty() {
        return Check::ok("commits", "nothing that your own commits go through is left out for those of this program");
    }
    let fix =
        "`sandbox land --hooks` runs your pre-merge-commit hook; sign what has landed by a tag or commit of your own";
    Check::warning("commits", apart.join("; "), fix)
}

/// Merge attributes of the user's own, which apply to every merge.
fn attributes(repository: &Repository) -> Check {
    match load_user_attributes(repository) {
        Ok(lines) if lines.is_empty() => {
            Check::ok("attributes", "no merge attributes but those in the repository's tree")
        }
        Ok(lines) => {
            let found = format!("your own merge attributes apply to every merge: {}", text::list(&lines, 5));
            Check::warning("attributes", found, "see `info/attributes` and `core.attributesFile` if that is not meant")
        }
        Err(error) => failure("attributes", error),
    }
}
