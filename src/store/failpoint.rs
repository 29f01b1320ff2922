//! Places where a test has the program die on the spot, as if the machine had been switched off.
//!
//! `SANDBOX_DIE_AT=name:n` kills it when it comes to the place of that name for the n-th time; `*` stands for every place.
//! `SANDBOX_DIE_LOG` names a file that gets a line for each place it comes to. Only in builds with debug assertions: a
//! released program has no such places.

/// A place where the program can be made to die: between two things that must not depend on each other's having happened.
#[cfg(debug_assertions)]
pub fn here(name: &'static str) {
    debug::here(name);
}

/// A place where the program can be made to die; not in this build.
#[cfg(not(debug_assertions))]
pub fn here(_name: &'static str) {}

#[cfg(debug_assertions)]
mod debug {
    use std::io::Write;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::store::env::of_tests::{SANDBOX_DIE_AT, SANDBOX_DIE_LOG};

    /// When to die.
    struct Death {
        name: String,
        nth: usize,
        seen: AtomicUsize,
    }

    fn death() -> Option<&'static Death> {
        static DEATH: OnceLock<Option<Death>> = OnceLock::new();
        let read = || {
            let asked = std::env::var(SANDBOX_DIE_AT).ok()?;
            let (name, nth) = asked.rsplit_once(':')?;
            Some(Death { name: name.to_owned(), nth: nth.parse().ok()?, seen: AtomicUsize::new(0) })
        };
        DEATH.get_or_init(read).as_ref()
    }

    pub(super) fn here(name: &str) {
        if let Some(path) = std::env::var_os(SANDBOX_DIE_LOG) {
            let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
            drop(log.and_then(|mut log| log.write_all(format!("{name}\n").as_bytes())));
        }
        let Some(death) = death().filter(|death| death.name == name || death.name == "*") else { return };
        if death.seen.fetch_add(1, Ordering::SeqCst) + 1 == death.nth {
            let _killed = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            // The signal is on its way; nothing more is done until it is here.
            loop {
                std::thread::park();
            }
        }
    }
}
