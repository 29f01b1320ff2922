//! What commands that only look begin with: the repository, the run that is meant, and how it stands. Writes nothing and
//! waits for nobody.

use jiff::Timestamp;

use super::error::Error;
use super::printer::Printer;
use super::select;
use super::settings::Settings;
use crate::git::{Git, Head, Repository};
use crate::model::run::RunState;
use crate::report::{CheckoutFacts, Facts};
use crate::run::remarks;
use crate::store::{Format, RunDir, StateDir, format, lock};

/// A repository, looked at.
pub(super) struct View {
    pub(super) repository: Repository,
    pub(super) state: StateDir,
}

/// A run, looked at.
pub(super) struct RunView {
    pub(super) run: RunDir,
    pub(super) state: RunState,
    /// Whether its coordinator lives.
    pub(super) alive: bool,
}

impl View {
    /// The repository of the folder to work in.
    pub(super) fn open(settings: &Settings, printer: &mut Printer) -> Result<Self, Error> {
        let git = Git::find(None)?;
        let repository = Repository::discover(&git, &settings.dir)?;
        let state = StateDir::in_common_dir(repository.common_dir());
        match format::load(&state) {
            Ok(Format::Absent | Format::Current) => {}
            Ok(Format::Newer(found)) => printer.warn(&format!(
                "the state has format {found}, and this version knows formats up to {}: only what it knows is shown",
                format::VERSION
            )),
            // Looking at what is left must stay possible; writing is refused.
            Err(error) => printer.warn(&error.to_string()),
        }
        Ok(Self { repository, state })
    }

    /// The run that is meant.
    pub(super) fn run(&self, asked: Option<&str>) -> Result<RunView, Error> {
        RunView::load(select::find(&self.state, asked)?)
    }

    /// Warns of what the user's other tools did to a run. Not while somebody works on it: then much is only half done.
    pub(super) fn warn_of(&self, seen: &RunView, printer: &mut Printer) {
        if seen.alive {
            return;
        }
        match remarks(&self.repository, &seen.run, &seen.state) {
            Ok(told) => told.iter().for_each(|text| printer.warn(text)),
            Err(error) => printer.warn(&format!("how the worktrees of the run stand cannot be told: {error}")),
        }
    }

    /// The user's checkout as it is now; `None` where there is none, or where it cannot be told.
    pub(super) fn checkout(&self) -> Option<CheckoutFacts> {
        self.repository.top_level()?;
        let told = self.repository.load_head().and_then(|head| Ok((head, self.repository.count_changes()?)));
        match told {
            Ok((head, dirty)) => {
                let branch = match &head {
                    Head::Branch { name, .. } => Some(name.short().to_owned()),
                    Head::Detached(_) => None,
                };
                Some(CheckoutFacts { branch, dirty })
            }
            Err(error) => {
                tracing::warn!(%error, "the checkout cannot be looked at");
                None
            }
        }
    }
}

impl RunView {
    /// How a run stands now.
    pub(super) fn load(run: RunDir) -> Result<Self, Error> {
        // In this order a run that ends meanwhile has its end in the journal, and one that is taken up again has its lock
        // held the second time.
        let before = is_alive(&run)?;
        let state = select::load(&run)?;
        let alive = before || (state.finished.is_none() && is_alive(&run)?);
        Ok(Self { run, state, alive })
    }

    /// Nothing measured but the time.
    pub(super) fn facts(&self) -> Facts {
        Facts::new(Timestamp::now(), self.alive)
    }
}

/// Whether the coordinator of `run` lives.
pub(super) fn is_alive(run: &RunDir) -> Result<bool, Error> {
    Ok(lock::run_lock_state(run)?.is_held())
}
