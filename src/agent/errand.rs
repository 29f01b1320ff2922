//! One command in a box of its own, over a worktree that nothing else works in: a verifier, a resolver.
//!
//! It has no turns, and nobody answers it. When [`run`] returns, nothing of it is left.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::{BoxError, Command as BoxCommand, Enforcement, Sandbox, SpawnError, Stdio};
use tokio::time::Instant;

use super::attempt::{not_started, with_causes};
use super::error::Error;
use super::network::{self, Gateway};
use super::output::OutputLog;
use super::supervise::{Bounds, Ended, Happening, Supervisor, output_pipe};
use crate::change::Capturer;
use crate::model::os_refusal::OsRefusal;
use crate::model::plan::{Argv, Network};
use crate::store::failpoint;
use crate::store::lock::hold_workplace;
use crate::workspace::{self, Workspace};

/// A command, and all that its box is made of.
#[derive(Debug)]
pub struct Errand<'a> {
    /// Whose it is: `verifier`, `resolver`.
    pub whose: &'static str,
    /// What the machine and the user's environment are.
    pub capturer: &'a Capturer,
    /// The box.
    pub enforcement: &'a Enforcement,
    /// Its worktree.
    pub workspace: &'a Workspace,
    /// Its network.
    pub network: &'a Network,
    /// Where the user has what it may reach, for advice.
    pub network_of: &'static str,
    /// Where it is written down what it asked of the network.
    pub network_log: PathBuf,
    /// Which errand of its kind this is: goes into that record.
    pub number: u64,
    /// The command.
    pub command: &'a Argv,
    /// The folder of the worktree that it starts in, where that is not its top.
    pub workdir: Option<&'a str>,
    /// Its variables, but for those that name the box's own places.
    pub variables: Vec<(OsString, OsString)>,
    /// Where its output is kept.
    pub log: &'a Path,
}

/// What came of it.
#[derive(Debug)]
pub struct Ran {
    /// How it ended, or why it never ran.
    pub end: Result<Ended, String>,
    /// How long it took.
    pub took: Duration,
    /// What the network kept it from.
    pub refused: Vec<String>,
}

impl Ran {
    /// It never ran.
    pub fn not_started(why: String) -> Self {
        Self { end: Err(why), took: Duration::ZERO, refused: Vec::new() }
    }
}

/// Runs it to its end. `Err` means that we could not do our work.
pub async fn run(errand: &Errand<'_>, bounds: Bounds, on_output: &mut (dyn FnMut(&[u8]) + Send)) -> Result<Ran, Error> {
    let Errand { capturer, workspace, .. } = errand;
    tokio::task::block_in_place(|| workspace.enter(capturer.host.form(), &capturer.surroundings))?;
    let ran = behind(errand, bounds, on_output).await;
    match tokio::task::block_in_place(|| workspace.leave()) {
        Ok(()) => ran,
        Err(error @ workspace::Error::Tampered { .. }) => Ok(Ran::not_started(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// The same, in a worktree that is ready for it.
async fn behind(errand: &Errand<'_>, bounds: Bounds, on_output: &mut (dyn FnMut(&[u8]) + Send)) -> Result<Ran, Error> {
    let host = &errand.capturer.environment;
    let proxy = match network::prepare(errand.network, host, errand.network_of).await {
        Ok(proxy) => proxy,
        Err(why) => return Ok(Ran::not_started(why)),
    };
    let held = tokio::task::block_in_place(|| hold_workplace(&errand.workspace.place))?;
    let boxed = match Sandbox::start_holding(errand.enforcement, &host.launcher(), held).await {
        Ok(boxed) => boxed,
        Err(error) if OsRefusal::behind(&error).is_some_and(OsRefusal::is_lack) => {
            return Err(crate::change::Error::Start(error).into());
        }
        Err(error) => return Ok(Ran::not_started(with_causes(&error))),
    };
    failpoint::after("box", errand.whose);
    let open = |setup| Gateway::open(&boxed, setup, errand.network_log.clone(), errand.number);
    let gateway = proxy.map(open).transpose().map_err(Error::Pipe)?.flatten();
    let mut ran = run_command(errand, &boxed, bounds, on_output).await;
    let closed = boxed.shutdown().await;
    if let (Some(gateway), Ok(ran)) = (gateway, &mut ran) {
        ran.refused = gateway.close().await;
    }
    match closed {
        Ok(()) => ran,
        // What may still write into the tree leaves nothing to believe.
        Err(error @ BoxError::Escaped) => Ok(Ran::not_started(error.to_string())),
        Err(error) => Err(Error::Box(error)),
    }
}

async fn run_command(
    errand: &Errand<'_>,
    boxed: &Sandbox,
    mut bounds: Bounds,
    on_output: &mut (dyn FnMut(&[u8]) + Send),
) -> Result<Ran, Error> {
    let begun = Instant::now();
    let mut log = OutputLog::open(errand.log)?;
    let (stdout, stderr, output) = output_pipe()?;
    let mut command = BoxCommand::new(errand.command.iter().map(OsString::from))
        .cwd(errand.workspace.place.worktree())
        .stdout(Stdio::Fd(stdout))
        .stderr(Stdio::Fd(stderr));
    if let Some(workdir) = errand.workdir {
        command = command.below(workdir);
    }
    // What names the box's own places comes last, so that no variable points them elsewhere.
    let own = workspace::box_variables(&errand.capturer.environment, errand.enforcement);
    let own = own.into_iter().chain(workspace::network_variables(errand.network));
    for (name, value) in errand.variables.iter().cloned().chain(own) {
        command = command.env(name, value);
    }
    let child = match boxed.spawn(command).await {
        Ok(child) => child,
        Err(SpawnError::Box(error)) => return Err(Error::Box(error)),
        Err(error) => return Ok(Ran::not_started(not_started(&error, errand.workdir))),
    };
    failpoint::after("command", errand.whose);
    let mut supervisor = Supervisor::new(child, output, &bounds);
    let ended: Ended = loop {
        match supervisor.next(boxed, &mut bounds, &mut log, on_output, None).await? {
            Happening::Ended(ended) => break ended,
            Happening::Requested(request) => {
                request.asker.answer(Err("this command has no turns, and asks for nothing".to_owned())).await;
            }
        }
    };
    Ok(Ran { end: Ok(ended), took: begun.elapsed(), refused: Vec::new() })
}
