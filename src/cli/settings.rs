//! What the global options and the surroundings come to. Built once; nothing later reads a flag, a variable or asks what a
//! stream is.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use super::args::Globals;
use super::printer::{Level, Rules};
use crate::report::Look;
use crate::report::human::Detail;
use crate::store::env;

/// What holds for every command.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder to work in, as given with `-C`, else the current one.
    pub dir: PathBuf,
    /// Whether stdout is for JSON only.
    pub json: bool,
    /// How much is said on stderr.
    pub level: Level,
    /// How the answer on stdout looks.
    pub look: Look,
    /// How stderr looks.
    pub err_look: Look,
    /// Whether a live block may stand on stderr, and on how many rows.
    pub live_rows: Option<usize>,
    /// Whether `SANDBOX_LOG` asks for diagnostics, and for which.
    pub log: Option<String>,
    /// The layer that the box lacks in which this is run, if it is run in one.
    pub degraded: Option<String>,
}

/// What the program was started with, beside its arguments.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// `NO_COLOR` is set and not empty.
    pub no_color: bool,
    /// `TERM` is `dumb`.
    pub dumb: bool,
    /// `SANDBOX_LOG`.
    pub log: Option<String>,
    /// `SANDBOX_DEGRADED`.
    pub degraded: Option<String>,
    /// The size of the terminal that stdout is, if it is one.
    pub out: Option<Size>,
    /// The size of the terminal that stderr is, if it is one.
    pub err: Option<Size>,
}

/// How large a terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
}

impl Size {
    /// The size of a terminal that does not tell.
    const USUAL: Self = Self { columns: 80, rows: 24 };

    fn of(stream: impl IsTerminal + rustix::fd::AsFd) -> Option<Self> {
        if !stream.is_terminal() {
            return None;
        }
        let told = rustix::termios::tcgetwinsize(stream).ok();
        let told = told.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        Some(told.map_or(Self::USUAL, |size| Self { columns: size.ws_col.into(), rows: size.ws_row.into() }))
    }

    /// The size of the terminal that stderr is, now.
    pub fn of_stderr() -> Option<Self> {
        Self::of(std::io::stderr())
    }
}

impl Surroundings {
    /// Those of this process. The only place of this room that reads variables.
    pub fn of_this_process() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            no_color: set(env::NO_COLOR).is_some(),
            dumb: set(env::TERM).is_some_and(|term| term == "dumb"),
            log: set(env::SANDBOX_LOG).map(|value| value.to_string_lossy().into_owned()),
            degraded: set(env::SANDBOX_DEGRADED).map(|value| value.to_string_lossy().into_owned()),
            out: Size::of(std::io::stdout()),
            err: Size::of_stderr(),
        }
    }
}

impl Settings {
    /// What they come to.
    pub fn new(globals: &Globals, around: &Surroundings) -> Self {
        let level = match (globals.quiet, globals.verbose) {
            (true, _) => Level::Quiet,
            (false, false) => Level::Normal,
            (false, true) => Level::Verbose,
        };
        let look = |size: Option<Size>| Look {
            width: size.map(|size| size.columns),
            color: size.is_some() && !around.no_color && !around.dumb,
        };
        // Diagnostics write to stderr on their own and would tear the block.
        let live = !globals.json && !around.dumb && level != Level::Quiet && around.log.is_none();
        Self {
            dir: globals.dir.clone().unwrap_or_else(|| PathBuf::from(".")),
            json: globals.json,
            level,
            look: look(around.out),
            err_look: look(around.err),
            live_rows: around.err.filter(|_| live).map(|size| size.rows),
            log: around.log.clone(),
            degraded: around.degraded.clone(),
        }
    }

    /// A path as it was typed, seen from the folder to work in.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        if self.dir == Path::new(".") { path.to_owned() } else { self.dir.join(path) }
    }

    /// How much of a run is told.
    pub fn detail(&self) -> Detail {
        match self.level {
            Level::Quiet => Detail::Quiet,
            Level::Normal => Detail::Normal,
            Level::Verbose => Detail::Verbose,
        }
    }

    /// What goes where.
    pub fn rules(&self) -> Rules {
        Rules { json: self.json, level: self.level, look: self.err_look }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { columns: 100, rows: 30 };

    fn terminal() -> Surroundings {
        Surroundings { out: Some(SIZE), err: Some(SIZE), ..Surroundings::default() }
    }

    #[test]
    fn colour_and_the_live_block_are_for_terminals_that_want_them() {
        let plain = Globals::default();
        let json = Globals { json: true, ..Globals::default() };
        let quiet = Globals { quiet: true, ..Globals::default() };
        for (globals, around, color, live) in [
            (&plain, terminal(), true, true),
            (&plain, Surroundings::default(), false, false),
            (&plain, Surroundings { no_color: true, ..terminal() }, false, true),
            (&plain, Surroundings { dumb: true, ..terminal() }, false, false),
            (&plain, Surroundings { log: Some("debug".to_owned()), ..terminal() }, true, false),
            (&json, terminal(), true, false),
            (&quiet, terminal(), true, false),
        ] {
            let settings = Settings::new(globals, &around);
            assert_eq!((settings.look.color, settings.live_rows.is_some()), (color, live), "{globals:?} {around:?}");
        }
        let piped = Settings::new(&plain, &Surroundings { out: None, ..terminal() });
        assert_eq!((piped.look, piped.err_look.width), (Look::PLAIN, Some(100)), "each stream for itself");
    }

    #[test]
    fn paths_are_seen_from_the_folder() {
        let at = |dir: Option<&str>| {
            let globals = Globals { dir: dir.map(PathBuf::from), ..Globals::default() };
            Settings::new(&globals, &Surroundings::default())
        };
        assert_eq!(at(None).resolve(Path::new("plan.toml")), Path::new("plan.toml"));
        assert_eq!(at(Some("/a")).resolve(Path::new("plan.toml")), Path::new("/a/plan.toml"));
        assert_eq!(at(Some("/a")).resolve(Path::new("/b")), Path::new("/b"));
    }
}
