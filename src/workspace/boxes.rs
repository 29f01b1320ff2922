//! What each kind of box sees: the agent's, the capture's, the verifier's.
//!
//! Common to all: the repository's checkouts, its git directory, every other worktree and the user's home are not there;
//! the system is, read-only. An agent's box holds its worktree, writable, and its own git directory where the repository's
//! lies outside. A capture's box holds the worktree read-only, and nothing that an agent ever had but as data.

use std::path::{Path, PathBuf};

use sandbox::{Access, Expose, Nesting, Network as BoxNetwork, Policy, PrivateDir};

use super::environment::HostEnvironment;
use super::error::Error;
use super::open_files;
use super::outside::Outside;
use super::private::seen;
use super::surroundings::Surroundings;
use crate::model::plan::{Network, PinnedPaths, SandboxSettings};
use crate::store::Workplace;

/// The box an agent, or a verifier, works in. Host paths must lead where they led when the run started, as `pinned` says.
pub fn working_box(
    host: &HostEnvironment,
    around: &Surroundings,
    place: &Workplace,
    settings: &SandboxSettings,
    pinned: &PinnedPaths,
) -> Result<Policy, Error> {
    let home = PrivateDir { source: place.home(), target: host.home.clone() };
    let mut policy = hidden(Policy::new(place.worktree(), home, place.tmp()), host, around);
    policy.may_lack.clone_from(&settings.allow_degraded);
    policy = policy.network(network_of(&settings.network));
    if settings.network == Network::Host {
        policy = resolver(policy);
    }
    policy = policy.limits(sandbox::Limits { open_files: open_files::of_boxes(), ..settings.limits.of_box() });
    if settings.nested {
        refuse_nested_root()?;
        policy = policy.nesting(Nesting::Allowed);
    }
    let outside = Outside::load(host, around, place, settings, pinned)?;
    let may_show = |folder: &Path| !around.touches(folder) && outside.leaves(folder);
    for folder in host.tool_folders().into_iter().filter(|folder| may_show(folder)) {
        policy = exposed(policy, Expose::read_only(folder));
    }
    for (folder, target) in host.cargo_folders().into_iter().filter(|(folder, _)| may_show(folder)) {
        policy = policy.expose(read_only_at(&folder, &target));
    }
    for path in &outside.read_only {
        policy = exposed(policy, Expose::read_only(path));
    }
    for path in &outside.writable {
        policy = exposed(policy, Expose::read_write(path));
    }
    for folder in outside.to_cover(host, around) {
        policy = policy.hide(folder);
    }
    policy = policy
        .expose(Expose { source: place.git(), target: around.common.clone(), access: Access::ReadWrite })
        .expose(read_only_at(&around.common.join("objects"), &around.common.join("parent-objects")));
    for alternate in &around.alternates {
        policy = policy.expose(Expose::read_only(alternate));
    }
    Ok(policy
        .expose(read_only_at(&host.program, Path::new(seen::PROGRAM)))
        .pin(place.worktree().join(".git"))
        .listen(seen::TURN_SOCKET)
        .hostname("sandbox"))
}

/// The network of a box, as a plan wants it.
pub fn network_of(wanted: &Network) -> BoxNetwork {
    match wanted {
        Network::None => BoxNetwork::None,
        Network::Host => BoxNetwork::Host,
        Network::Allow(_) => BoxNetwork::Relay { port: seen::RELAY_PORT },
    }
}

/// The same box where nothing can be mounted: what is not named is not seen, so the tools that lie in places of their own are
/// named; and no socket can be offered.
pub fn without_mounts(mut policy: Policy, host: &HostEnvironment, around: &Surroundings) -> Policy {
    policy.listen.clear();
    for folder in host.tool_places() {
        let is_known = policy.expose.iter().any(|exposed| exposed.target == folder);
        let is_hidden = policy.hide.iter().any(|hidden| folder.starts_with(hidden));
        if !around.touches(&folder) && !is_known && !is_hidden {
            policy = exposed(policy, Expose::read_only(folder));
        }
    }
    policy
}

/// The box a capture is made in.
pub fn capture_box(host: &HostEnvironment, around: &Surroundings, place: &Workplace) -> Policy {
    let home = PrivateDir { source: place.capture_home(), target: host.home.clone() };
    let mut policy = hidden(Policy::new(place.worktree(), home, place.capture_tmp()), host, around)
        .workdir_access(Access::ReadOnly)
        .expose(Expose { source: place.capture(), target: seen::CAPTURE.into(), access: Access::ReadWrite })
        .expose(read_only_at(&place.git(), Path::new(seen::AGENT)))
        .expose(read_only_at(&around.common.join("objects"), Path::new(seen::PARENT_OBJECTS)));
    // The git program may itself lie where a box shows nothing.
    let folders: Vec<PathBuf> = host.tool_folders().into_iter().filter(|folder| !around.touches(folder)).collect();
    if host.is_unseen(&around.git) && !folders.iter().any(|folder| around.git.starts_with(folder)) {
        policy = policy.expose(Expose::read_only(&around.git));
    }
    for folder in folders {
        policy = exposed(policy, Expose::read_only(folder));
    }
    for alternate in &around.alternates {
        policy = policy.expose(Expose::read_only(alternate));
    }
    policy.expose(read_only_at(&host.program, Path::new(seen::PROGRAM))).hostname("capture")
}

fn hidden(policy: Policy, host: &HostEnvironment, around: &Surroundings) -> Policy {
    let mut policy = policy.hide(&around.worktrees_root);
    for checkout in &around.checkouts {
        policy = policy.hide(checkout);
    }
    // A git directory apart from the checkout (a submodule's, or `--separate-git-dir`), or a bare repository.
    if !around.checkouts.iter().any(|checkout| around.common.starts_with(checkout)) {
        policy = policy.hide(&around.common);
    }
    if let Some(runtime) = host.variable("XDG_RUNTIME_DIR").map(PathBuf::from)
        && runtime.is_absolute()
        && let Ok(runtime) = runtime.canonicalize()
        && !runtime.starts_with("/run")
    {
        policy = policy.hide(runtime);
    }
    policy
}

/// With the host's network come the host's names: the file may be a link into a folder the box does not show.
fn resolver(policy: Policy) -> Policy {
    match Path::new("/etc/resolv.conf").canonicalize() {
        Ok(file) if file.starts_with("/run") => policy.expose(Expose::read_only(file)),
        Ok(_) | Err(_) => policy,
    }
}

fn read_only_at(source: &Path, target: &Path) -> Expose {
    Expose::read_only(source).at(target)
}

/// Shows a path, but never a file in it that by its name holds a secret.
fn exposed(policy: Policy, expose: Expose) -> Policy {
    let path = expose.source.clone();
    let mut policy = policy.expose(expose);
    for secret in std::fs::read_dir(path).into_iter().flatten().flatten() {
        let name = secret.file_name().to_string_lossy().to_ascii_lowercase();
        if (name.starts_with("credentials") || name.contains("token"))
            && secret.file_type().is_ok_and(|kind| kind.is_file())
        {
            policy = policy.mask(secret.path());
        }
    }
    policy
}

/// A program that brings a sandbox wants a fresh `/proc` for it. The kernel gives none while parts of the one there are
/// covered, and for root they must be: root's boxes could write the kernel's settings through a fresh one.
pub fn refuse_nested_root() -> Result<(), Error> {
    if rustix::process::geteuid().is_root() { Err(Error::NestedAsRoot) } else { Ok(()) }
}
