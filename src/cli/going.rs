//! Showing a run while it goes on: the work on threads of its own, the printer here.
//!
//! Events come through a channel in the order of the journal. This side folds them anew, so that nothing of the work waits
//! for a slow terminal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use bytes::BytesMut;

use super::error::{Error, ErrorKind};
use super::exit::Exit;
use super::printer::Printer;
use super::settings::{Settings, Size};
use crate::model::AgentName;
use crate::model::event::Event;
use crate::model::run::RunState;
use crate::report::human::Human;
use crate::report::summary::SummaryData;
use crate::report::{AgentFacts, Envelope, Facts, live, text};
use crate::run::{self, Ending, Observer, Report, Signals};

/// How often a live block is drawn anew while nothing happens: its clocks go on.
const TICK: Duration = Duration::from_millis(500);

/// The longest line of an agent's that is shown as one.
const LINE_MAX: usize = 4096;

/// How many bytes of output may wait for a slow terminal. More is left out there; the logs have it.
const WAITING_MAX: usize = 4 << 20;

/// What is shown of a run while it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telling {
    /// With `--json`, every event, a line each, and nothing else.
    Events,
    /// With `--json`, one answer at the end.
    Answer(&'static str),
}

enum News {
    Event(Box<Event>),
    Warning(String),
    Output(AgentName, Vec<u8>),
}

struct Wire {
    news: Sender<News>,
    waiting: Arc<AtomicUsize>,
    left_out: bool,
}

impl Wire {
    fn new(waiting: &Arc<AtomicUsize>) -> (Self, Receiver<News>) {
        let (news, receiver) = mpsc::channel();
        (Self { news, waiting: Arc::clone(waiting), left_out: false }, receiver)
    }

    fn pass_on(&self, agent: &AgentName, chunk: &[u8]) {
        self.waiting.fetch_add(chunk.len(), Ordering::Relaxed);
        drop(self.news.send(News::Output(agent.clone(), chunk.to_vec())));
    }
}

impl Observer for Wire {
    fn event(&mut self, event: &Event, _state: &RunState) {
        // Nobody listens only when the program ends.
        drop(self.news.send(News::Event(Box::new(event.clone()))));
    }

    fn warning(&mut self, text: &str) {
        drop(self.news.send(News::Warning(text.to_owned())));
    }

    fn output(&mut self, agent: &AgentName, chunk: &[u8]) {
        if self.waiting.load(Ordering::Relaxed) + chunk.len() > WAITING_MAX {
            self.left_out = true;
            return;
        }
        if std::mem::take(&mut self.left_out) {
            self.pass_on(agent, b"\n(output was left out here: `sandbox logs` has all of it)\n");
        }
        self.pass_on(agent, chunk);
    }
}

/// Does the work and shows it. What comes back is told as the summary, and as the exit.
pub(super) fn drive<W, F>(settings: &Settings, printer: &mut Printer, telling: Telling, work: W) -> Result<Exit, Error>
where
    W: FnOnce(Box<dyn Observer>, Signals) -> F + Send,
    F: Future<Output = Result<Report, run::Error>>,
{
    let waiting = Arc::new(AtomicUsize::new(0));
    let (wire, news) = Wire::new(&waiting);
    let runtime = threads()?;
    let report = std::thread::scope(|scope| {
        let observer = Box::new(wire);
        let working = scope.spawn(|| {
            runtime.block_on(async {
                let signals = Signals::listen(leave)?;
                work(observer, signals).await
            })
        });
        show(&news, &waiting, settings, printer, telling);
        working.join()
    });
    printer.end_live();
    let report =
        report.map_err(|_| Error::new(ErrorKind::Internal, "the run met a fault of ours"))?.map_err(Error::from)?;
    conclude(&report, settings, printer, telling)
}

/// Ends the program where it stands. Whatever it waits for, a terminal that takes nothing among it, is not waited for.
#[expect(clippy::exit, reason = "who asks a third time, or has waited a minute, is not to wait any more")]
pub(super) fn leave(ending: Ending) {
    std::process::exit(ending.exit_code().into());
}

/// The threads that work is done on.
pub(super) fn threads() -> Result<tokio::runtime::Runtime, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("sandbox").build();
    runtime
        .map_err(|error| Error::new(ErrorKind::Environment, "cannot start the threads of the program").because(error))
}

fn conclude(report: &Report, settings: &Settings, printer: &mut Printer, telling: Telling) -> Result<Exit, Error> {
    let mut facts = Facts::new(jiff::Timestamp::now(), false);
    for agent in &report.state.agents {
        let begun = agent.attempts.iter().rev().find_map(|attempt| attempt.started.as_ref());
        if begun.is_some_and(|begun| begun.worktree.symlink_metadata().is_err()) {
            facts.agents.insert(agent.name.clone(), AgentFacts { worktree_gone: true, ..AgentFacts::default() });
        }
    }
    let summary = SummaryData::of(&report.state, &facts);
    printer.answer(&summary.render(settings.look));
    match telling {
        Telling::Events => {}
        Telling::Answer(command) => {
            let warnings = printer.warnings();
            printer.json(&Envelope::answer(command, Some(report.run.clone()), summary, warnings));
        }
    }
    let unknown = || Error::new(ErrorKind::Internal, format!("{} is no exit code of ours", report.exit_code));
    Exit::from_code(report.exit_code).ok_or_else(unknown)
}

/// Shows what comes until nothing more can.
fn show(news: &Receiver<News>, waiting: &AtomicUsize, settings: &Settings, printer: &mut Printer, telling: Telling) {
    let mut human = Human::new(settings.detail());
    let mut state: Option<RunState> = None;
    let mut output = Printed::default();
    let live_rows = settings.live_rows;
    loop {
        let next = match live_rows {
            Some(_) => news.recv_timeout(TICK),
            None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let mut lines = Vec::new();
        match next {
            Ok(News::Event(event)) => {
                let state = state.get_or_insert_with(|| RunState::new(event.run_id.clone()));
                state.apply(&event);
                if telling == Telling::Events {
                    printer.json(&event);
                }
                lines.extend(human.line(&event));
            }
            Ok(News::Warning(text)) => {
                printer.warn(&text);
                continue;
            }
            Ok(News::Output(agent, chunk)) => {
                waiting.fetch_sub(chunk.len(), Ordering::Relaxed);
                output.take_in(&agent, &chunk).iter().for_each(|line| printer.detail(line));
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        match (live_rows, &state) {
            (Some(_), Some(state)) => {
                let size = Size::of_stderr();
                let rows = size.map_or(24, |size| size.rows);
                printer.set_columns(size.map(|size| size.columns));
                let facts = Facts::new(jiff::Timestamp::now(), true);
                let look = crate::report::Look { width: size.map(|size| size.columns), ..settings.err_look };
                printer.live(&lines, live::block(state, &facts, rows, look));
            }
            (Some(_), None) | (None, _) => lines.iter().for_each(|line| printer.progress(line)),
        }
    }
}

/// What agents have printed since their last line end.
#[derive(Debug, Default)]
struct Printed(BTreeMap<AgentName, BytesMut>);

impl Printed {
    /// The lines that are whole now, each with the agent's name before it, and nothing in them that moves a terminal.
    fn take_in(&mut self, agent: &AgentName, chunk: &[u8]) -> Vec<String> {
        let held = self.0.entry(agent.clone()).or_default();
        held.extend_from_slice(chunk);
        let mut lines = Vec::new();
        while let Some(end) =
            held.iter().position(|byte| *byte == b'\n').or((held.len() > LINE_MAX).then_some(LINE_MAX))
        {
            let line = held.split_to(end + 1);
            lines.push(format!("{agent} | {}", text::clean(String::from_utf8_lossy(&line).trim_end())));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_that_stands_still_does_not_fill_the_memory() {
        let waiting = Arc::new(AtomicUsize::new(0));
        let (mut wire, news) = Wire::new(&waiting);
        let agent: AgentName = "a".parse().unwrap();
        let chunk = vec![b'x'; WAITING_MAX / 4];
        let come = || news.try_iter().map(|it| if let News::Output(_, chunk) = it { chunk.len() } else { 0 }).collect();
        (0..9).for_each(|_| wire.output(&agent, &chunk));
        let lengths: Vec<usize> = come();
        assert_eq!(lengths, [chunk.len(); 4]);
        // It goes on, and is told that something is missing.
        waiting.store(0, Ordering::Relaxed);
        wire.output(&agent, b"more");
        let lengths: Vec<usize> = come();
        assert!(lengths.len() == 2 && lengths[1] == 4, "{lengths:?}");
    }

    #[test]
    fn output_comes_in_lines() {
        let mut printed = Printed::default();
        let agent: AgentName = "a".parse().unwrap();
        assert_eq!(printed.take_in(&agent, b"one\ntw"), ["a | one"]);
        assert_eq!(printed.take_in(&agent, b"o\r\n\n"), ["a | two", "a | "]);
        assert!(printed.take_in(&agent, &[b'x'; LINE_MAX]).is_empty());
        assert_eq!(printed.take_in(&agent, b"yz").len(), 1);
    }
}
