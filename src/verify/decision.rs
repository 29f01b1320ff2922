//! From what happened to what it means. Pure, and the only place where a pass comes from.

use crate::agent::supervise::{Cut, Ended};
use crate::model::plan::VerifySettings;
use crate::model::{ProcessEnd, RepoPath, Verdict, VerifyStatus};

/// What became of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ran {
    /// It never ran, for this reason.
    NotStarted(String),
    /// It ran, and ended.
    Ended(Ended),
}

/// What became of the tree that was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scan {
    /// Nobody looked, since it could not matter any more.
    Skipped,
    /// It was looked at; these tracked paths are not what they were.
    Done(Vec<RepoPath>),
    /// It could not be looked at, for this reason.
    Failed(String),
}

/// What it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    /// What the command did.
    pub status: VerifyStatus,
    /// What that says of the tree.
    pub verdict: Verdict,
    /// Why it is no verdict that counts.
    pub error: Option<String>,
}

/// Whether the state of the tree can still make a difference: only a command that ended well can be unworthy of belief.
pub(super) fn wants_scan(ran: &Ran) -> bool {
    matches!(ran, Ran::Ended(Ended { cut: None, end: ProcessEnd::Exited(0), .. }))
}

/// Decides.
pub(super) fn decide(ran: &Ran, scan: &Scan, settings: &VerifySettings) -> Decision {
    let none = |status, error: String| Decision { status, verdict: Verdict::None, error: Some(error) };
    let (cut, end) = match ran {
        Ran::NotStarted(why) => return none(VerifyStatus::Error, why.clone()),
        Ran::Ended(Ended { cut, end, .. }) => (*cut, *end),
    };
    // What a command says after it was told to end is not its own verdict, be it 0.
    match cut {
        Some(Cut::TimedOut) => {
            return none(VerifyStatus::Timeout, format!("timed out after {:#}", settings.timeout));
        }
        Some(Cut::OutputLimit) => {
            let limit = settings.sandbox.limits.output;
            return none(VerifyStatus::Error, format!("wrote more than {limit} bytes of output"));
        }
        Some(Cut::Limit(met)) => return none(VerifyStatus::Error, met.to_string()),
        Some(Cut::Idle) => return none(VerifyStatus::Error, "was silent for too long".to_owned()),
        Some(Cut::Stopped) => return none(VerifyStatus::Error, "stopped before its end".to_owned()),
        None => {}
    }
    match end {
        ProcessEnd::Signaled(signal) => none(VerifyStatus::Error, format!("died of signal {signal}")),
        ProcessEnd::Exited(0) => match scan {
            Scan::Done(changed) if changed.is_empty() => {
                Decision { status: VerifyStatus::Success, verdict: Verdict::Pass, error: None }
            }
            Scan::Done(changed) => Decision {
                status: VerifyStatus::Success,
                verdict: Verdict::Blocked,
                error: Some(format!("changed what it judged: {}", some_of(changed))),
            },
            Scan::Failed(why) => none(VerifyStatus::Success, format!("its worktree could not be checked: {why}")),
            Scan::Skipped => none(VerifyStatus::Success, "its worktree was not checked".to_owned()),
        },
        ProcessEnd::Exited(_) => Decision { status: VerifyStatus::TestFailure, verdict: Verdict::Fail, error: None },
    }
}

/// The first few, and how many more.
fn some_of(paths: &[RepoPath]) -> String {
    const SHOWN: usize = 5;
    let mut text = paths.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if let Some(more) = paths.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        text.push_str(" and ");
        text.push_str(&more.to_string());
        text.push_str(" more");
    }
    text
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use sandbox::Limited;

    use super::*;
    use crate::model::LimitMet;
    use crate::model::plan::SandboxSettings;

    fn settings() -> VerifySettings {
        VerifySettings {
            command: vec!["true".to_owned()],
            timeout: SignedDuration::from_mins(5),
            workdir: None,
            sandbox: SandboxSettings::default(),
        }
    }

    const MEMORY: LimitMet = LimitMet { what: Limited::Memory, limit: 1 << 20, used: 1 << 21, of_machine: false };
    const CUTS: [Option<Cut>; 6] = [
        None,
        Some(Cut::TimedOut),
        Some(Cut::Idle),
        Some(Cut::OutputLimit),
        Some(Cut::Limit(MEMORY)),
        Some(Cut::Stopped),
    ];
    const ENDS: [ProcessEnd; 5] = [
        ProcessEnd::Exited(0),
        ProcessEnd::Exited(1),
        ProcessEnd::Exited(137),
        ProcessEnd::Signaled(11),
        ProcessEnd::Signaled(15),
    ];

    fn scans() -> [Scan; 4] {
        [
            Scan::Skipped,
            Scan::Done(Vec::new()),
            Scan::Done(vec![RepoPath::new("a.txt")]),
            Scan::Failed("unreadable".to_owned()),
        ]
    }

    /// What must come out, written without looking at how it is decided.
    fn expected(cut: Option<Cut>, end: ProcessEnd, scan: &Scan) -> (VerifyStatus, Verdict) {
        match (cut, end, scan) {
            (Some(Cut::TimedOut), _, _) => (VerifyStatus::Timeout, Verdict::None),
            (Some(_), _, _) | (None, ProcessEnd::Signaled(_), _) => (VerifyStatus::Error, Verdict::None),
            (None, ProcessEnd::Exited(0), Scan::Done(paths)) if paths.is_empty() => {
                (VerifyStatus::Success, Verdict::Pass)
            }
            (None, ProcessEnd::Exited(0), Scan::Done(_)) => (VerifyStatus::Success, Verdict::Blocked),
            (None, ProcessEnd::Exited(0), _) => (VerifyStatus::Success, Verdict::None),
            (None, ProcessEnd::Exited(_), _) => (VerifyStatus::TestFailure, Verdict::Fail),
        }
    }

    #[test]
    fn every_case_and_exactly_one_pass() {
        let mut passes = 0;
        let mut decisions = Vec::new();
        for scan in scans() {
            let never = decide(&Ran::NotStarted("no such program".to_owned()), &scan, &settings());
            assert_eq!((never.status, never.verdict), (VerifyStatus::Error, Verdict::None));
            assert_eq!(never.error.as_deref(), Some("no such program"));
            for (cut, end) in CUTS.into_iter().flat_map(|cut| ENDS.map(|end| (cut, end))) {
                let ran = Ran::Ended(Ended { end, leftovers: 0, cut });
                let decision = decide(&ran, &scan, &settings());
                let case = format!("{cut:?} {end:?} {scan:?}: {decision:?}");
                assert_eq!((decision.status, decision.verdict), expected(cut, end, &scan), "{case}");
                // Whoever reads a verdict that is none is told why.
                let gives_verdict = matches!(decision.verdict, Verdict::Pass | Verdict::Fail);
                assert_eq!(decision.error.is_none(), gives_verdict, "{case}");
                // Nobody goes without the look that could turn a pass.
                assert!(wants_scan(&ran) || decision == decide(&ran, &Scan::Skipped, &settings()), "{case}");
                passes += usize::from(decision.verdict.is_pass());
                decisions.push(decision);
            }
        }
        assert_eq!(passes, 1);
        assert_eq!(decisions.len(), 4 * 30);
    }

    #[test]
    fn reasons_name_what_they_are_about() {
        let ended = |cut, end| Ran::Ended(Ended { end, leftovers: 0, cut });
        let why = |ran: &Ran, scan: &Scan| decide(ran, scan, &settings()).error.unwrap();
        let late = ended(Some(Cut::TimedOut), ProcessEnd::Exited(0));
        assert_eq!(why(&late, &Scan::Skipped), "timed out after 5m");
        let large = ended(Some(Cut::Limit(MEMORY)), ProcessEnd::Signaled(9));
        assert_eq!(why(&large, &Scan::Skipped), "memory limit 1 MiB reached");
        let well = ended(None, ProcessEnd::Exited(0));
        let seven: Vec<_> = (0..7).map(|at| RepoPath::new(format!("f{at}"))).collect();
        assert_eq!(why(&well, &Scan::Done(seven)), "changed what it judged: f0, f1, f2, f3, f4 and 2 more");
        assert!(why(&well, &Scan::Failed("x".to_owned())).ends_with("could not be checked: x"));
    }
}
