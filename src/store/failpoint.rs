//! Places where a test has the program die on the spot, as if the machine had been switched off, or has what it is about to
//! do refused, as by a full disk.
//!
//! Each effect has two places, `<what> <which> before` and `<what> <which> after`: `git update-ref before`,
//! `journal turn.finished after`.
//! - `SANDBOX_DIE_AT=place:n` kills the program when it comes to the place for the n-th time; `*` stands for every place.
//! - `SANDBOX_FAIL_AT=place:n:ENOSPC` has that one effect refused with this error; `place:n+:ENOSPC` all from it on.
//! - `SANDBOX_DIE_LOG` names a file that gets a line for each place it comes to.
//!
//! Only in builds with debug assertions: a released program has no such places.

use std::io;

/// Before an effect: here the program can be made to die, or the effect be refused.
#[cfg(debug_assertions)]
pub fn before(what: &'static str, which: &str) -> io::Result<()> {
    debug::before(what, which)
}

/// After an effect, before anything knows of it: here the program can be made to die.
#[cfg(debug_assertions)]
pub fn after(what: &'static str, which: &str) {
    debug::after(what, which);
}

/// Before an effect; nothing is here in this build.
#[cfg(not(debug_assertions))]
#[inline]
pub fn before(_what: &'static str, _which: &str) -> io::Result<()> {
    Ok(())
}

/// After an effect; nothing is here in this build.
#[cfg(not(debug_assertions))]
#[inline]
pub fn after(_what: &'static str, _which: &str) {}

/// The kind of a file, which many files share: their folder's name and their own without digits.
#[cfg(debug_assertions)]
pub fn kind(path: &std::path::Path) -> String {
    let name =
        |path: Option<&std::ffi::OsStr>| path.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = path.parent().map(|folder| name(folder.file_name())).unwrap_or_default();
    let own: String = name(path.file_name()).chars().filter(|letter| !letter.is_ascii_digit()).collect();
    match folder.as_str() {
        "cards" | "turns" | "output" => format!("{folder}/{}", own.rsplit('.').next().unwrap_or_default()),
        // By the hash of what they are for.
        _ if folder.len() == 2 => "receipt".to_owned(),
        _ => own,
    }
}

/// The kind of a file; nobody asks in this build.
#[cfg(not(debug_assertions))]
#[inline]
pub fn kind(_path: &std::path::Path) -> &'static str {
    ""
}

#[cfg(debug_assertions)]
mod debug {
    use std::io::{self, Write};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rustix::io::Errno;

    use crate::store::env::of_tests::{SANDBOX_DIE_AT, SANDBOX_DIE_LOG, SANDBOX_FAIL_AT};

    /// A place, and the how many-th time that it counts.
    struct At {
        place: String,
        nth: usize,
        /// Whether each time after it counts too.
        on: bool,
        seen: AtomicUsize,
    }

    impl At {
        fn parse(text: &str) -> Option<Self> {
            let (place, nth) = text.rsplit_once(':')?;
            let on = nth.ends_with('+');
            let nth = nth.trim_end_matches('+').parse().ok()?;
            Some(Self { place: place.to_owned(), nth, on, seen: AtomicUsize::new(0) })
        }

        fn is_now(&self, place: &str) -> bool {
            if self.place != "*" && self.place != place {
                return false;
            }
            let seen = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
            if self.on { seen >= self.nth } else { seen == self.nth }
        }
    }

    fn death() -> Option<&'static At> {
        static DEATH: OnceLock<Option<At>> = OnceLock::new();
        DEATH.get_or_init(|| At::parse(&std::env::var(SANDBOX_DIE_AT).ok()?)).as_ref()
    }

    fn refusal() -> Option<&'static (At, Errno)> {
        static REFUSAL: OnceLock<Option<(At, Errno)>> = OnceLock::new();
        let read = || {
            let asked = std::env::var(SANDBOX_FAIL_AT).ok()?;
            let (at, error) = asked.rsplit_once(':')?;
            Some((At::parse(at)?, errno(error)?))
        };
        REFUSAL.get_or_init(read).as_ref()
    }

    fn errno(name: &str) -> Option<Errno> {
        Some(match name {
            "ENOSPC" => Errno::NOSPC,
            "EDQUOT" => Errno::DQUOT,
            "EMFILE" => Errno::MFILE,
            "EACCES" => Errno::ACCESS,
            "EROFS" => Errno::ROFS,
            "EIO" => Errno::IO,
            _ => return None,
        })
    }

    pub(super) fn before(what: &str, which: &str) -> io::Result<()> {
        let place = come(what, which, "before");
        match refusal() {
            Some((at, error)) if at.is_now(&place) => Err((*error).into()),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn after(what: &str, which: &str) {
        come(what, which, "after");
    }

    /// Comes to a place, and dies there if that was asked for.
    fn come(what: &str, which: &str, when: &str) -> String {
        let place = if which.is_empty() { format!("{what} {when}") } else { format!("{what} {which} {when}") };
        if let Some(path) = std::env::var_os(SANDBOX_DIE_LOG) {
            let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
            drop(log.and_then(|mut log| log.write_all(format!("{place}\n").as_bytes())));
        }
        if death().is_some_and(|death| death.is_now(&place)) {
            let _killed = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            // The signal is on its way; nothing more is done until it is here.
            loop {
                std::thread::park();
            }
        }
        place
    }
}
