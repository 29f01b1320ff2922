//! Whether a policy can stand: decided from its paths alone, without looking at the disk.
//!
//! The mounts do what the policy says, so a policy that says two things of one file is where isolation would be lost in
//! silence: a secret hidden at one path and seen at another, a read-only tree writable through a second name.

use crate::policy::{Access, Network, Policy};
use crate::refusal::Refusal;
use crate::wire::MOST_FILES;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// Where temporary files go inside.
pub(crate) const TMP: &str = "/tmp";

/// A host path seen at some place inside.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) access: Access,
    /// Laid over another mount on purpose, hence the one kind that may share a target.
    pub(crate) pinned: bool,
}

/// All that is bound, in no particular order.
pub(crate) fn placed(policy: &Policy) -> Vec<Placed> {
    let mut all = vec![
        Placed {
            source: policy.workdir.clone(),
            target: policy.workdir.clone(),
            access: policy.workdir_access,
            pinned: false,
        },
        Placed {
            source: policy.home.source.clone(),
            target: policy.home.target.clone(),
            access: Access::ReadWrite,
            pinned: false,
        },
        Placed { source: policy.tmp.clone(), target: PathBuf::from(TMP), access: Access::ReadWrite, pinned: false },
    ];
    all.extend(policy.expose.iter().map(|expose| Placed {
        source: expose.source.clone(),
        target: expose.target.clone(),
        access: expose.access,
        pinned: false,
    }));
    all.extend(policy.pin.iter().map(|path| Placed {
        source: path.clone(),
        target: path.clone(),
        access: Access::ReadOnly,
        pinned: true,
    }));
    all
}

/// Hidden directories that nothing else is put in place of.
pub(crate) fn hidden(policy: &Policy, placed: &[Placed]) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        policy.hide.iter().filter(|path| !placed.iter().any(|p| !p.pinned && p.target == **path)).cloned().collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Refuses a policy that cannot be enforced as it reads.
pub(crate) fn check(policy: &Policy) -> Result<(), Refusal> {
    check_names(policy)?;
    let placed = placed(policy);
    check_paths(policy, &placed)?;
    check_targets(policy, &placed)?;
    let covers = covers(policy, &placed);
    check_hidden(policy, &placed, &covers)?;
    check_read_only(&placed, &covers)
}

fn check_names(policy: &Policy) -> Result<(), Refusal> {
    if policy.network == (Network::Relay { port: 0 }) {
        return Err(Refusal::policy("a relay needs a port, and 0 is none", "name one"));
    }
    // One more is the relay's.
    if policy.listen.len() >= MOST_FILES {
        return Err(Refusal::policy(
            format!("{} sockets to listen on are more than {}", policy.listen.len(), MOST_FILES - 1),
            "name fewer",
        ));
    }
    let name = policy.hostname.as_bytes();
    if name.is_empty() || name.len() > 64 || name.contains(&0) {
        return Err(Refusal::policy(
            format!("host name `{}` is not of 1 to 64 bytes", policy.hostname.escape_debug()),
            "give a shorter name",
        ));
    }
    Ok(())
}

fn check_paths(policy: &Policy, placed: &[Placed]) -> Result<(), Refusal> {
    let sources = placed.iter().flat_map(|p| [&p.source, &p.target]);
    let single = policy.hide.iter().chain(&policy.mask).chain(&policy.listen);
    for path in sources.chain(single) {
        if !is_plain(path) {
            return Err(Refusal::policy(
                format!("path `{}` is not absolute and plain", path.display()),
                "give it absolute, without `.`, `..` or doubled slashes",
            ));
        }
    }
    Ok(())
}

/// Absolute, and spelled the one way that comparing by component can rely on.
fn is_plain(path: &Path) -> bool {
    let mut spelled = PathBuf::from("/");
    spelled.extend(path.components().filter(|c| matches!(c, Component::Normal(_))));
    spelled.as_os_str() == path.as_os_str() && !path.as_os_str().as_bytes().contains(&0)
}

fn check_targets(policy: &Policy, placed: &[Placed]) -> Result<(), Refusal> {
    let targets = placed.iter().map(|p| &p.target);
    for target in targets.chain(&policy.hide).chain(&policy.mask).chain(&policy.listen) {
        if target == Path::new("/") {
            return Err(Refusal::policy("the root itself cannot be a target", "name a directory below it"));
        }
        for kernel in ["/proc", "/dev", "/sys"] {
            if target.starts_with(kernel) {
                return Err(Refusal::policy(
                    format!("`{}` lies in {kernel}, which each box has of its own", target.display()),
                    "name a path elsewhere",
                ));
            }
        }
    }
    for (index, one) in placed.iter().enumerate() {
        let twice = placed.iter().skip(index + 1).any(|other| other.target == one.target && other.pinned == one.pinned);
        if twice {
            return Err(Refusal::policy(
                format!("two sources for `{}`", one.target.display()),
                "give each target one source",
            ));
        }
    }
    Ok(())
}

/// Everything that is mounted over something else.
fn covers(policy: &Policy, placed: &[Placed]) -> Vec<PathBuf> {
    let mut all = hidden(policy, placed);
    all.extend(policy.mask.iter().cloned());
    all.extend(placed.iter().map(|p| p.target.clone()));
    all
}

/// Where `path`, which lies in the source of `bind`, is seen through it, unless another mount covers that place.
fn seen_through(bind: &Placed, path: &Path, covers: &[PathBuf]) -> Option<PathBuf> {
    let rest = path.strip_prefix(&bind.source).ok()?;
    let image = if rest.as_os_str() == OsStr::new("") { bind.target.clone() } else { bind.target.join(rest) };
    let covered =
        covers.iter().any(|cover| *cover != bind.target && cover.starts_with(&bind.target) && image.starts_with(cover));
    (!covered).then_some(image)
}

fn check_hidden(policy: &Policy, placed: &[Placed], covers: &[PathBuf]) -> Result<(), Refusal> {
    for path in policy.hide.iter().chain(&policy.mask) {
        if placed.iter().any(|p| !p.pinned && p.source == *path && p.target == *path) {
            continue;
        }
        for bind in placed {
            if let Some(image) = seen_through(bind, path, covers) {
                return Err(Refusal::policy(
                    format!("`{}` is hidden, yet would be seen at `{}`", path.display(), image.display()),
                    format!("hide it there as well, or do not expose `{}`", bind.source.display()),
                ));
            }
        }
    }
    Ok(())
}

fn check_read_only(placed: &[Placed], covers: &[PathBuf]) -> Result<(), Refusal> {
    let writable = placed.iter().filter(|p| p.access == Access::ReadWrite);
    for bind in writable {
        for other in placed.iter().filter(|p| p.access == Access::ReadOnly) {
            if let Some(image) = seen_through(bind, &other.source, covers) {
                return Err(Refusal::policy(
                    format!(
                        "`{}` is exposed read-only, yet could be written at `{}`",
                        other.source.display(),
                        image.display()
                    ),
                    format!("do not expose `{}` writable", bind.source.display()),
                ));
            }
        }
    }
    Ok(())
}
