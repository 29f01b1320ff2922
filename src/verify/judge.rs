//! One verification, from the candidate to the receipt.
//!
//! Steps:
//! 1. The box is planned and the environment taken in: what a receipt must be for.
//! 2. A receipt for exactly this is used again, unless a fresh one is asked for.
//! 3. Else: a new worktree of the candidate, a box, the command, watched to its end; the box ends with all in it.
//! 4. The worktree is looked at ([`super::scan`]), the verdict decided ([`super::decision`]), the worktree removed.
//! 5. The receipt is written, then the verdict told.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use sandbox::Enforcement;
use tokio_util::sync::CancellationToken;

use super::decision::{Decision, Ran, Scan, decide, wants_scan};
use super::environment::{Environment, passed};
use super::error::Error;
use super::parser::{Parsed, Parser};
use super::scan;
use super::transcript::Transcript;
use crate::agent::attempt::with_causes;
use crate::agent::clock::WorkClock;
use crate::agent::errand::{self, Errand};
use crate::agent::network;
use crate::agent::output::Allowance;
use crate::agent::supervise::Bounds;
use crate::change::{Capturer, Snapshot};
use crate::git::{Head, Place};
use crate::model::event::{EventKind, Subject, VerifierFresh, VerifyFinished};
use crate::model::plan::VerifySettings;
use crate::model::receipt::{Receipt, ReceiptKey, VerificationResult};
use crate::model::{Verdict, VerifyStatus};
use crate::store::{Occupant, Record, RunDir, StateDir, Workplace, Workplaces, failpoint, receipts};
use crate::workspace::{self, Commission, Workspace, working_box};

/// Longer than anything takes: a verifier may be silent for as long as it may run.
const EVER: Duration = Duration::from_hours(30 * 365 * 24);

/// What a receipt of the parent verifier judges.
const SCOPE: &str = "parent";

/// A verification to be made.
#[derive(Debug)]
pub struct Verification<'a> {
    /// The run's folder.
    pub run: &'a RunDir,
    /// The program's folder in the repository.
    pub state: &'a StateDir,
    /// The command, and its box.
    pub settings: &'a VerifySettings,
    /// What captures are made with.
    pub capturer: &'a Capturer,
    /// What the repository's HEAD is.
    pub head: &'a Head,
    /// Where the verifier of this run works. What lies there is removed.
    pub place: Workplace,
    /// What is to be judged.
    pub candidate: Snapshot,
    /// Whether to judge anew, whatever receipts there are.
    pub fresh: bool,
    /// Which verification of the run this is: names its log.
    pub number: u64,
    /// What reads single tests from the output.
    pub parser: Parser,
    /// What is told goes here.
    pub journal: &'a dyn Record,
    /// Told when everything is to stop.
    pub stop: CancellationToken,
    /// Told when not even the grace period counts any more.
    pub kill: CancellationToken,
    /// By what its time is measured.
    pub clock: WorkClock,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The receipt, with the verdict.
    pub receipt: Receipt,
    /// Whether it is that of an earlier verification.
    pub reused: bool,
    /// The `seq` of the event that told it.
    pub seq: u64,
    /// Parts of the environment that keep the newest receipt for the same tree and command from being used, by name.
    pub differing: Vec<String>,
    /// What went wrong without making a difference.
    pub warnings: Vec<String>,
}

/// Judges the candidate. `Err` means that we could not do our work; whatever the verifier does is a verdict.
pub async fn judge(verification: Verification<'_>) -> Result<Judged, Error> {
    let ours = Some((verification.run.id().clone(), Occupant::Verify));
    if Workplaces::occupant_of(verification.place.name().as_ref()) != ours {
        let place = verification.place.worktree().to_owned();
        return Err(Error::Place { place, run: verification.run.id().clone() });
    }
    let mut judge = Judge::new(&verification);
    if let Some(receipt) = judge.earlier()? {
        return judge.tell(receipt, true);
    }
    let receipt = judge.run_anew().await?;
    failpoint::after("verdict", "");
    receipts::store(verification.state, &receipt)?;
    judge.tell(receipt, false)
}

struct Judge<'a> {
    of: &'a Verification<'a>,
    /// The box, or why there is none.
    enforcement: Result<Enforcement, String>,
    key: ReceiptKey,
    parts: BTreeMap<String, String>,
    differing: Vec<String>,
    warnings: Vec<String>,
    /// What the network kept the verifier from.
    refused: Vec<String>,
}

/// A command that ran, or not, and what is left of it.
struct Trial {
    ran: Ran,
    transcript: Transcript,
    took: Duration,
    /// What the network kept it from.
    refused: Vec<String>,
}

impl<'a> Judge<'a> {
    fn new(of: &'a Verification<'a>) -> Self {
        let Verification { settings, capturer, candidate, .. } = of;
        let enforcement = enforcement(of);
        let environment =
            Environment::load(&capturer.environment, settings, enforcement.as_ref().map_err(String::as_str));
        let key = ReceiptKey {
            tree: candidate.tree.clone(),
            command: settings.command.clone(),
            environment: environment.hash(),
        };
        let newest = receipts::newest(of.state, &key.tree, &key.command).filter(|found| found.key != key);
        let differing = newest.map(|found| environment.differences(&found.environment_parts)).unwrap_or_default();
        Self {
            of,
            enforcement,
            key,
            parts: environment.into_parts(),
            differing,
            warnings: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// The receipt of an earlier verification of exactly this, if it is worth anything.
    fn earlier(&mut self) -> Result<Option<Receipt>, Error> {
        if self.of.fresh {
            return Ok(None);
        }
        let (receipt, warning) = receipts::load(self.of.state, &self.key)?;
        self.warnings.extend(warning.map(|warning| warning.to_string()));
        let receipt = receipt.filter(|receipt| is_lasting(receipt.verdict));
        if receipt.is_some() {
            self.differing.clear();
        } else if !self.differing.is_empty() {
            tracing::info!(differing = ?self.differing, "an earlier receipt is for another environment");
        }
        Ok(receipt)
    }

    async fn run_anew(&mut self) -> Result<Receipt, Error> {
        let Verification { capturer, state, place, .. } = self.of;
        let log = self.of.run.verify_output(self.of.number);
        remove_file(&log)?;
        tokio::task::block_in_place(|| workspace::remove(&capturer.repository, state, place))?;
        let made = tokio::task::block_in_place(|| self.make_workspace())?;
        let trial = match self.try_in(&made, &log).await {
            Ok(trial) if wants_scan(&trial.ran) => {
                let scan = scan::look(capturer, &made, &self.of.candidate).await;
                Ok((trial, scan))
            }
            Ok(trial) => Ok((trial, Scan::Skipped)),
            Err(error) => Err(error),
        };
        let removed = tokio::task::block_in_place(|| workspace::remove(&capturer.repository, state, place));
        if let Err(error) = removed {
            let text = format!("the verifier's worktree could not be removed: {}", with_causes(&error));
            self.warnings.push(text);
        }
        let (mut trial, scan) = trial?;
        self.refused = std::mem::take(&mut trial.refused);
        self.receipt(&trial, scan, &log)
    }

    fn make_workspace(&self) -> Result<Workspace, Error> {
        let Verification { capturer, head, state, place, candidate, run, .. } = self.of;
        let made = workspace::create(&Commission {
            repository: &capturer.repository,
            head,
            state,
            environment: &capturer.environment,
            place: place.clone(),
            fork: candidate.commit.clone(),
            stand: Place::Detached,
            reason: format!("the verifier of {} works here", run.id()),
        })?;
        scan::prepare(place)?;
        Ok(made)
    }

    /// Runs the command in a box of its own.
    async fn try_in(&self, workspace: &Workspace, log: &Path) -> Result<Trial, Error> {
        let mut transcript = Transcript::default();
        let tried = match &self.enforcement {
            Ok(enforcement) => self.run_command(enforcement, workspace, log, &mut transcript).await?,
            Err(why) => errand::Ran::not_started(why.clone()),
        };
        let errand::Ran { end, took, refused } = tried;
        let ran = match end {
            Ok(ended) => Ran::Ended(ended),
            Err(why) => Ran::NotStarted(why),
        };
        Ok(Trial { ran, transcript, took, refused })
    }

    async fn run_command(
        &self,
        enforcement: &Enforcement,
        workspace: &Workspace,
        log: &Path,
        transcript: &mut Transcript,
    ) -> Result<errand::Ran, Error> {
        let errand = Errand {
            whose: "verifier",
            capturer: self.of.capturer,
            enforcement,
            workspace,
            network: &self.of.settings.sandbox.network,
            network_of: network::OF_VERIFIER,
            network_log: self.of.run.verify_network(),
            number: self.of.number,
            command: &self.of.settings.command,
            workdir: self.of.settings.workdir.as_deref(),
            variables: self.variables(),
            log,
        };
        let ran = errand::run(&errand, self.bounds(), &mut |chunk| transcript.push(chunk)).await;
        ran.map_err(|error| match error {
            crate::agent::Error::Box(error) => Error::Box(error),
            error => error.into(),
        })
    }

    fn bounds(&self) -> Bounds {
        let Verification { settings, stop, kill, clock, .. } = self.of;
        Bounds {
            clock: clock.clone(),
            deadline: clock.now() + settings.timeout.unsigned_abs().min(EVER),
            idle: EVER,
            output: Allowance::new(settings.sandbox.limits.output),
            stop: stop.clone(),
            kill: kill.clone(),
        }
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        let Verification { capturer, settings, run, .. } = self.of;
        let (passed, _) = passed(&capturer.environment, settings);
        let mut variables: Vec<(OsString, OsString)> = passed.into_iter().collect();
        variables.push(("SANDBOX_RUN".into(), run.id().as_str().into()));
        variables.push(("SANDBOX_VERIFY".into(), "1".into()));
        variables
    }

    fn receipt(&self, trial: &Trial, scan: Scan, log: &Path) -> Result<Receipt, Error> {
        let Decision { status, verdict, error } = decide(&trial.ran, &scan, self.of.settings);
        let parsed = match status {
            VerifyStatus::Success | VerifyStatus::TestFailure => {
                let output = std::fs::read(log).map_err(|error| Error::io("read", log, error))?;
                Some((self.of.parser)(&output))
            }
            VerifyStatus::Timeout => None,
            VerifyStatus::Error => Some(Parsed::default()),
        };
        let (pass_count, fail_count, failures) = match parsed {
            Some(Parsed { pass_count, fail_count, failures }) => (pass_count, fail_count, Some(failures)),
            None => (None, None, None),
        };
        let output = trial.transcript.tail();
        let success = status == VerifyStatus::Success;
        Ok(Receipt {
            v: receipts::VERSION,
            key: self.key.clone(),
            environment_parts: self.parts.clone(),
            scope: SCOPE.to_owned(),
            result: VerificationResult { success, output, status, pass_count, fail_count, failures },
            verdict,
            error,
            end: match &trial.ran {
                Ran::NotStarted(_) => None,
                Ran::Ended(ended) => Some(ended.end),
            },
            log_sha256: trial.transcript.sha256(),
            changed_tracked_paths: match scan {
                Scan::Done(changed) => changed,
                Scan::Skipped | Scan::Failed(_) => Vec::new(),
            },
            timestamp: Timestamp::now(),
            duration_ms: u64::try_from(trial.took.as_millis()).unwrap_or(u64::MAX),
        })
    }

    fn tell(self, receipt: Receipt, reused: bool) -> Result<Judged, Error> {
        let Verification { journal, candidate, run, number, .. } = self.of;
        let log = Some(run.verify_output(*number)).filter(|log| !reused && log.exists());
        let finished = VerifyFinished {
            commit: candidate.commit.clone(),
            tree: candidate.tree.clone(),
            command: self.key.command.clone(),
            receipt: receipts::key_hash(&receipt.key)?,
            status: receipt.result.status,
            verdict: receipt.verdict,
            error: why_no_pass(&receipt).map(|why| [&[why], &self.refused[..]].concat().join("; ")),
            reused,
            duration_ms: receipt.duration_ms,
            log: log.and_then(|log| run.relative(&log)),
            degraded: match &self.enforcement {
                Ok(enforcement) => enforcement.lacks(),
                Err(_) => self.of.capturer.host.lacks(),
            },
        };
        let event = journal.record(Subject::run(), EventKind::VerifyFinished(finished))?;
        if receipt.verdict.is_pass() {
            let fresh = VerifierFresh { tree: candidate.tree.clone(), verdict: receipt.verdict };
            journal.record(Subject::run(), EventKind::VerifierFresh(fresh))?;
        }
        Ok(Judged { receipt, reused, seq: event.seq, differing: self.differing, warnings: self.warnings })
    }
}

/// Whether a verdict holds the next time too. One that was not given may be given then; one that hangs on what the base
/// fails at hangs on more than the receipt's key.
fn is_lasting(verdict: Verdict) -> bool {
    match verdict {
        Verdict::Pass | Verdict::Fail => true,
        Verdict::PassWithInherited | Verdict::Blocked | Verdict::None => false,
    }
}

fn enforcement(of: &Verification<'_>) -> Result<Enforcement, String> {
    let Verification { capturer, place, settings, .. } = of;
    let policy = working_box(&capturer.environment, &capturer.surroundings, place, &settings.sandbox, &capturer.pinned);
    let mut policy = policy.map_err(|error| with_causes(&error))?;
    // A verifier ends no turns, so nobody would answer.
    policy.listen.clear();
    capturer.enforcement(policy).map_err(|refusal| refusal.to_string())
}

fn why_no_pass(receipt: &Receipt) -> Option<String> {
    match (receipt.verdict, receipt.end) {
        (Verdict::Pass | Verdict::PassWithInherited, _) => None,
        (Verdict::Fail, Some(end)) => Some(format!("`{}` ended with {end}", shell_words::join(&receipt.key.command))),
        (Verdict::Fail | Verdict::Blocked | Verdict::None, _) => receipt.error.clone(),
    }
}

/// Removes the log of a verification that a crash cut short: a log is of one command.
fn remove_file(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("remove", path, error)),
    }
}
