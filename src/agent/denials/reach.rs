//! What a box lets its programs do, as far as a message about an error can be held against it.

use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

use sandbox::{Access, Nesting, Network, Policy};

use super::message::{Call, Complaint};

/// The longest path or name that a hint repeats, in characters.
const SHOWN: usize = 200;

/// Where a host keeps what all its users share. An agent has no business there, and showing it writable would change the
/// host for everybody.
const SYSTEM: [&str; 10] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/boot", "/proc", "/sys", "/dev"];

/// What a hint about a host is about, before its name.
pub(super) const A_HOST: &str = "host ";

/// What a box can write and reach.
#[derive(Debug, Clone)]
pub struct Reach {
    /// Places that differ from what holds them, and whether they can be written.
    places: Vec<(PathBuf, bool)>,
    hidden: Vec<PathBuf>,
    /// Folders of programs that the user runs.
    programs: Vec<PathBuf>,
    workdir: PathBuf,
    network: Network,
    nesting: Nesting,
}

impl Reach {
    /// That of a box of this policy. `programs` are folders that are never shown writable.
    pub fn new(policy: &Policy, programs: Vec<PathBuf>) -> Self {
        let writable = |path: &str| (PathBuf::from(path), true);
        let mut places = vec![writable("/tmp"), writable("/var/tmp"), writable("/run"), writable("/dev")];
        places.push((policy.workdir.clone(), policy.workdir_access == Access::ReadWrite));
        places.push((policy.home.target.clone(), true));
        places.extend(policy.expose.iter().map(|it| (it.target.clone(), it.access == Access::ReadWrite)));
        let closed = policy.hide.iter().chain(&policy.mask).chain(&policy.pin);
        // What is hidden and shown as well is shown.
        let closed: Vec<_> = closed.filter(|path| !places.iter().any(|(place, _)| place == *path)).cloned().collect();
        places.extend(closed.into_iter().map(|path| (path, false)));
        Self {
            places,
            hidden: policy.hide.clone(),
            programs,
            workdir: policy.workdir.clone(),
            network: policy.network,
            nesting: policy.nesting,
        }
    }

    /// What it is about, and what to make of it; `None` where this box denies nothing of the kind.
    pub(super) fn explain(&self, complaint: &Complaint) -> Option<(String, String)> {
        match complaint {
            Complaint::Write { path } => self.explain_write(path),
            Complaint::Host { name } => self.explain_host(name.as_deref()),
            Complaint::Call(call) => self.explain_call(*call),
        }
    }

    fn explain_write(&self, path: &str) -> Option<(String, String)> {
        let path = plain(&self.workdir, path);
        if self.place_of(&path).is_some_and(|(_, writable)| *writable) {
            return None;
        }
        // Files of one folder are one thing to tell.
        let folder = path.parent().unwrap_or(&path);
        let within = |places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
        let why = if path.starts_with(&self.workdir) {
            "the worktree's link to its repository stays as it is".to_owned()
        } else if within(&self.hidden) {
            "what lies there is hidden from agents; its own worktree is where it can write".to_owned()
        } else if within(&self.programs) || SYSTEM.iter().any(|system| path.starts_with(system)) {
            "the system is read-only for agents; install below the home or the worktree".to_owned()
        } else {
            format!(
                "outside the worktree; if it is meant to, add `{}` under `sandbox.expose_rw`",
                shown(folder.display())
            )
        };
        Some((
            format!("write {}", folder.display()),
            format!("write to `{}` seems to be blocked: {why}", shown(path.display())),
        ))
    }

    /// The innermost place that a path lies in.
    fn place_of(&self, path: &Path) -> Option<&(PathBuf, bool)> {
        self.places
            .iter()
            .filter(|(place, _)| path.starts_with(place))
            .max_by_key(|(place, _)| place.components().count())
    }

    fn explain_host(&self, name: Option<&str>) -> Option<(String, String)> {
        if name.is_some_and(is_local) {
            return None;
        }
        let why = match self.network {
            Network::Host => return None,
            Network::None => "the agent has no network; see `sandbox.network`",
            Network::Relay { .. } => "the agent reaches only what `sandbox.network` lists under `allow`, by its proxy",
        };
        let what = name.map_or_else(|| "a host".to_owned(), |name| format!("`{}`", shown(name)));
        Some((format!("{A_HOST}{}", name.unwrap_or_default()), format!("{what} seems not to be reached: {why}")))
    }

    fn explain_call(&self, call: Call) -> Option<(String, String)> {
        let (about, text) = match call {
            Call::Trace => (
                "trace",
                "tracing (`ptrace`) seems to be denied: debuggers, `strace` and leak checks do not work in the sandbox",
            ),
            Call::Perf => ("perf", "`perf` events seem to be denied: they are not for programs in the sandbox"),
            Call::IoUring => {
                ("io_uring", "`io_uring` seems to be denied: the sandbox has none; most programs can do without")
            }
            Call::Namespaces | Call::Mount if self.nesting == Nesting::Allowed => return None,
            Call::Namespaces => (
                "namespaces",
                "namespaces seem to be denied: a program that brings a sandbox of its own needs `sandbox.nested = true`, or its own switched off",
            ),
            Call::Mount => ("mount", "mounting seems to be denied: it is not for programs in the sandbox"),
            Call::Rights => (
                "rights",
                "other rights (`sudo`, set-user-id programs) seem to be denied: nobody gets any in the sandbox",
            ),
            Call::RawSocket => {
                ("raw", "raw sockets (`ping`) seem to be denied: they are not for programs in the sandbox")
            }
            Call::Docker => ("docker", "docker seems to be out of reach: the host's sockets are hidden from agents"),
            Call::KeyAgent => {
                ("keys", "the key agent seems to be out of reach: the host's sockets are hidden from agents")
            }
        };
        Some((about.to_owned(), text.to_owned()))
    }
}

/// A path from the root, without `.` and `..`: by its letters, for nothing is looked up.
fn plain(workdir: &Path, path: &str) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for part in workdir.join(path).components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    plain
}

fn shown(text: impl std::fmt::Display) -> String {
    let text = text.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn is_local(name: &str) -> bool {
    let address = name.parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.is_loopback() || address.is_unspecified())
}
