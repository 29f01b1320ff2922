//! Finding out what this machine can do, by doing it: an empty box is started and ended.

use crate::error::StartError;
use crate::host::{self, Host, Kernel, Obstacle, Settings};
use crate::launch::Launcher;
use crate::plan::Enforcement;
use crate::sandbox::Sandbox;

impl Host {
    /// Looks at this machine. Asking the kernel's settings would not do: containers and security modules refuse what these
    /// allow.
    pub async fn probe(launcher: &Launcher) -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let kernel = Kernel::parse(&rustix::system::uname().release().to_string_lossy());
        let obstacle = match Sandbox::start(&Enforcement::empty(uid, gid), launcher).await {
            Ok(sandbox) => {
                sandbox.kill().await.err().map(|error| Obstacle::Other { step: None, error: error.to_string() })
            }
            Err(error) => Some(obstacle(&error, uid)),
        };
        Self { uid, gid, kernel, obstacle }
    }
}

fn obstacle(error: &StartError, uid: u32) -> Obstacle {
    match error {
        StartError::Step { step, source, .. } => host::diagnose(Some(step), source, uid, settings()),
        StartError::Launch { .. }
        | StartError::Symlink { .. }
        | StartError::Died { .. }
        | StartError::TimedOut { .. }
        | StartError::Control(_) => Obstacle::Other { step: None, error: error.to_string() },
    }
}

fn settings() -> Settings {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().parse().ok();
    Settings {
        max_user_namespaces: read("user/max_user_namespaces"),
        unprivileged_userns_clone: read("kernel/unprivileged_userns_clone"),
        apparmor_restricts: read("kernel/apparmor_restrict_unprivileged_userns"),
    }
}
