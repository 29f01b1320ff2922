use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::RunId;
use crate::model::event::{Event, EventKind, RunFinished, Stage, StageEnter, StageExit, Subject};
use crate::store::layout::{RunDir, StateDir};
use crate::store::lock::RunLock;
use crate::store::{Error, Place, atomic};

fn run(folder: &Path) -> RunDir {
    let run = StateDir::in_common_dir(folder).run(&"login-1".parse::<RunId>().unwrap());
    atomic::create_dir(run.root()).unwrap();
    run
}

fn fixed_clock() -> Clock {
    Arc::new(|| Timestamp::UNIX_EPOCH)
}

fn open(run: &RunDir) -> Result<(JournalWriter, Opened), Error> {
    JournalWriter::open(run, RunLock::try_acquire(run)?, fixed_clock())
}

fn enter(text: &str) -> EventKind {
    EventKind::StageEnter(StageEnter { story_id: text.to_owned(), stage: Stage::Execute, invocation: None })
}

fn exit(text: &str) -> EventKind {
    let result = "ä \"quoted\"\n\u{1b}".to_owned();
    EventKind::StageExit(StageExit { story_id: text.to_owned(), stage: Stage::Land, result, duration_ms: 3 })
}

fn end() -> EventKind {
    EventKind::RunFinished(RunFinished { exit_code: 0, complete: true, landed: None })
}

fn unknown() -> EventKind {
    EventKind::Unknown { name: "later.invented".to_owned(), data: json!({"a": [1, null]}) }
}

/// A journal of four events, its bytes and its events.
fn written(run: &RunDir) -> (Vec<u8>, Vec<Event>) {
    let (mut writer, opened) = open(run).unwrap();
    assert_eq!(opened, Opened { events: Vec::new(), repair: None });
    let agent = "parser".parse().unwrap();
    let kinds = [enter("login-1"), exit("login-1"), unknown(), end()];
    let events = kinds.map(|kind| writer.append(Subject::attempt(&agent, 1), kind).unwrap()).to_vec();
    drop(writer);
    (std::fs::read(run.journal()).unwrap(), events)
}

fn line_ends(bytes: &[u8]) -> usize {
    bytes.split(|byte| *byte == b'\n').count() - 1
}

fn put(run: &RunDir, bytes: &[u8]) {
    atomic::write_derived(&run.journal(), &0).unwrap();
    OpenOptions::new().write(true).truncate(true).open(run.journal()).unwrap().write_all(bytes).unwrap();
}

#[test]
fn what_is_appended_is_read_back_and_gone_on_from() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    let (_, events) = written(&run);
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(events[0].timestamp, Timestamp::UNIX_EPOCH);
    assert_eq!(events[2].kind, unknown(), "a type that is not known is kept");
    let reading = read(&run).unwrap();
    assert_eq!((&reading.events, &reading.torn), (&events, &None));

    let (mut writer, opened) = open(&run).unwrap();
    assert_eq!((&opened.events, &opened.repair), (&events, &None));
    assert_eq!(writer.position(), reading.end);
    assert_eq!(writer.append(Subject::run(), end()).unwrap().seq, 5);
    assert_eq!(read(&run).unwrap().events.len(), 5);
}

#[test]
fn cut_at_every_byte_it_opens_and_loses_no_whole_event() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    let (bytes, events) = written(&run);
    for cut in 0..=bytes.len() {
        put(&run, &bytes[..cut]);
        let ends = line_ends(&bytes[..cut]);
        let only_end_missing = bytes.get(cut) == Some(&b'\n');
        let whole = ends + usize::from(only_end_missing);
        let torn = cut > 0 && bytes[cut - 1] != b'\n';

        let reading = read(&run).unwrap();
        assert_eq!(reading.events, events[..ends], "cut at {cut}");
        assert_eq!(reading.torn.is_some(), torn);
        assert_eq!(reading.into_events(), events[..whole]);
        assert_eq!(std::fs::read(run.journal()).unwrap().len(), cut, "reading changes nothing");

        let (mut writer, opened) = open(&run).unwrap();
        assert_eq!(opened.events, events[..whole], "cut at {cut}");
        match opened.repair {
            None => assert!(!torn),
            Some(Repair::Ended { seq }) => assert!(only_end_missing && seq == whole as u64),
            Some(Repair::MovedAside { path, bytes: count }) => {
                let line_start = bytes[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                assert_eq!(std::fs::read(&path).unwrap(), &bytes[line_start..cut], "every byte is kept");
                assert_eq!(count, (cut - line_start) as u64);
                std::fs::remove_file(path).unwrap();
            }
        }
        let next = writer.append(Subject::run(), end()).unwrap();
        assert_eq!(next.seq, whole as u64 + 1);
        drop(writer);
        let after = read(&run).unwrap();
        assert_eq!((after.events.len(), after.torn), (whole + 1, None));
    }
}

#[test]
fn torn_ends_are_kept_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    for number in 1..=2 {
        put(&run, format!("{{\"half {number}").as_bytes());
        let (_, opened) = open(&run).unwrap();
        assert_eq!(opened.repair, Some(Repair::MovedAside { path: run.torn(number), bytes: 8 }));
    }
    assert_eq!(std::fs::read(run.torn(1)).unwrap(), b"{\"half 1");
}

#[test]
fn blocks_that_never_reached_the_disk_are_a_torn_end() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    let (bytes, events) = written(&run);
    for tail in [&b"\0\0\0\0"[..], b"\0\0\0}}\n"] {
        put(&run, &[&bytes, tail].concat());
        let (_, opened) = open(&run).unwrap();
        assert_eq!(opened.events, events);
        assert!(matches!(opened.repair, Some(Repair::MovedAside { .. })));
        assert_eq!(std::fs::read(run.journal()).unwrap(), bytes);
    }
    // With a whole line after them it is no end.
    put(&run, &[&b"\0\0\n"[..], &bytes].concat());
    assert!(matches!(open(&run), Err(Error::Damaged { .. })));
}

#[test]
fn damage_is_refused_with_its_place_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    let (bytes, _) = written(&run);
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let (one, two, three) = (lines[0], lines[1], lines[2]);
    let first = one.len() as u64;
    let other_run = String::from_utf8(two.to_vec()).unwrap().replace("login-1", "login-2").into_bytes();
    let cases: [(&str, Vec<u8>, u64, u64); 7] = [
        ("a line that is no JSON", [one, b"{oops}\n", three].concat(), 2, first),
        ("a last line that has its end and is no event", [one, b"{\"v\":1}\n"].concat(), 2, first),
        ("an empty line", [one, b"\n", two].concat(), 2, first),
        ("a missing line", [one, three].concat(), 2, first),
        ("a line twice", [one, one].concat(), 2, first),
        ("a whole line without its end that belongs elsewhere", [one, &three[..three.len() - 1]].concat(), 2, first),
        ("another run's line", [one, &other_run].concat(), 2, first),
    ];
    for (what, bytes, line, offset) in cases {
        put(&run, &bytes);
        for error in [open(&run).map(drop).unwrap_err(), read(&run).map(drop).unwrap_err()] {
            let Error::Damaged { place, .. } = &error else { panic!("{what}: {error:?}") };
            assert_eq!(*place, Some(Place { line, offset }), "{what}");
            assert!(error.to_string().contains(&format!("at line {line} (byte {offset})")), "{error}");
        }
        assert_eq!(std::fs::read(run.journal()).unwrap(), bytes, "{what}: changed");
        assert!(!run.torn(1).exists());
    }
}

#[test]
fn a_newer_line_is_named_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    let (bytes, _) = written(&run);
    for newer in [&b"{\"v\":2}\n"[..], b"{\"v\":2,\"seq\":\"new\"}\n", b"{\"v\":2}"] {
        let all = [&bytes, newer].concat();
        put(&run, &all);
        assert!(matches!(read(&run), Err(Error::Newer { found: 2, known: 1, .. })));
        assert!(matches!(open(&run), Err(Error::Newer { found: 2, known: 1, .. })));
        assert_eq!(std::fs::read(run.journal()).unwrap(), all);
    }
}

#[test]
fn there_is_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    let (mut writer, _) = open(&run).unwrap();
    assert!(matches!(open(&run), Err(Error::Held { .. })));
    // The lock of another run does not do.
    let other = StateDir::in_common_dir(folder.path()).run(&"login-2".parse().unwrap());
    atomic::create_dir(other.root()).unwrap();
    let foreign = RunLock::try_acquire(&other).unwrap();
    assert!(JournalWriter::open(&run, foreign, fixed_clock()).is_err());
    writer.append(Subject::run(), end()).unwrap();
}

#[test]
fn who_lost_the_run_writes_nothing_more_into_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    let (mut stale, _) = open(&run).unwrap();
    stale.append(Subject::run(), enter("login-1")).unwrap();
    // Somebody took the lock's file away, and another coordinator holds the run now.
    std::fs::remove_file(run.lock()).unwrap();
    let (mut next, opened) = open(&run).unwrap();
    assert_eq!(opened.events.len(), 1);
    let refused = |writer: &mut JournalWriter| match writer.append(Subject::run(), end()) {
        Err(error @ Error::TakenOver { .. }) => assert!(error.to_string().contains("`login-1` was taken over")),
        other => panic!("{other:?}"),
    };
    refused(&mut stale);
    next.append(Subject::run(), exit("login-1")).unwrap();
    assert!(matches!(stale.append(Subject::run(), end()), Err(Error::JournalStopped { .. })), "for good");
    assert_eq!(read(&run).unwrap().events.len(), 2);

    // One that is written behind another's back is noticed as well.
    let line = std::fs::read(run.journal()).unwrap();
    OpenOptions::new().append(true).open(run.journal()).unwrap().write_all(&line).unwrap();
    refused(&mut next);
    drop(stale);
}

#[test]
fn a_run_whose_repository_is_moved_meanwhile_is_told_from_one_that_was_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    let run = run(&here);
    let (mut writer, _) = open(&run).unwrap();
    writer.append(Subject::run(), enter("login-1")).unwrap();
    atomic::rename(&here, &there).unwrap();
    let error = writer.append(Subject::run(), end()).unwrap_err();
    assert!(matches!(error, Error::RunMoved { .. }) && error.to_string().contains("was moved"), "{error}");
    assert!(!here.exists(), "nothing is made anew where it was");
    drop(writer);
    let moved = StateDir::in_common_dir(&there).run(run.id());
    assert_eq!(open(&moved).unwrap().1.events.len(), 1);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file of someone else's")]
fn a_journal_that_took_an_error_takes_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    let elsewhere = folder.path().join("elsewhere");
    std::fs::write(&elsewhere, "").unwrap();
    std::os::unix::fs::symlink(&elsewhere, run.journal()).unwrap();
    assert!(matches!(open(&run), Err(Error::Io { op: "open", .. })), "a link is no journal");
    std::fs::remove_file(run.journal()).unwrap();
    let (mut writer, _) = open(&run).unwrap();
    writer.replace_file(OpenOptions::new().append(true).open("/dev/full").unwrap());
    assert!(matches!(writer.append(Subject::run(), end()), Err(Error::Io { op: "append to", .. })));
    assert!(matches!(writer.append(Subject::run(), end()), Err(Error::JournalStopped { .. })));
}

#[test]
fn a_tail_gives_every_event_once_and_only_whole_ones() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    let mut early = JournalTail::new(&run, Position::default());
    assert_eq!(early.poll().unwrap(), [], "before there is a journal");
    let (bytes, events) = written(&run);
    put(&run, b"");
    let mut file = OpenOptions::new().append(true).open(run.journal()).unwrap();
    let mut got = Vec::new();
    for byte in &bytes {
        file.write_all(&[*byte]).unwrap();
        let new = early.poll().unwrap();
        assert_eq!(new.len(), usize::from(*byte == b'\n'));
        got.extend(new);
    }
    assert_eq!(got, events);
    assert_eq!(early.position(), read(&run).unwrap().end);
    let half_way = Position { offset: bytes.iter().position(|byte| *byte == b'\n').unwrap() as u64 + 1, events: 1 };
    assert_eq!(JournalTail::new(&run, half_way).poll().unwrap(), events[1..]);
    // A torn end that is moved aside lies behind every position that was given.
    file.write_all(b"{\"half").unwrap();
    assert_eq!(early.poll().unwrap(), []);
    let (mut writer, _) = open(&run).unwrap();
    let next = writer.append(Subject::run(), end()).unwrap();
    assert_eq!(early.poll().unwrap(), [next]);
    put(&run, b"");
    assert!(matches!(early.poll(), Err(Error::Damaged { .. })), "a journal never gets shorter");
}

#[test]
fn a_watch_wakes_when_the_journal_grows() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path());
    let watch = JournalWatch::new(&run).unwrap();
    let (mut writer, _) = open(&run).unwrap();
    while watch.wait(Duration::ZERO).unwrap() {}
    let begun = Instant::now();
    let waiter = std::thread::spawn(move || watch.wait(Duration::from_secs(20)));
    writer.append(Subject::run(), end()).unwrap();
    assert!(waiter.join().unwrap().unwrap());
    assert!(begun.elapsed() < Duration::from_secs(10));
    let quiet = JournalWatch::new(&run).unwrap();
    assert!(!quiet.wait(Duration::from_millis(1)).unwrap());
}

#[test]
fn a_run_that_is_not_there_has_no_journal() {
    let folder = tempfile::tempdir().unwrap();
    let absent = StateDir::in_common_dir(folder.path()).run(&"login-9".parse().unwrap());
    assert!(matches!(read(&absent), Err(Error::NotFound { .. })));
    assert!(matches!(open(&absent), Err(Error::NotFound { .. })));
    assert!(!absent.root().exists());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A changed bit anywhere is refused, or leaves as many events, all others unchanged.
    #[test]
    fn a_flipped_bit_never_costs_an_event(at in 0_usize..10_000, bit in 0_u8..8) {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        let (mut bytes, events) = written(&run);
        // Not in the last line: there a lost line end looks like a crash.
        let end = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
        let at = at % (end + 1);
        let line = line_ends(&bytes[..at]);
        bytes[at] ^= 1 << bit;
        put(&run, &bytes);
        match open(&run) {
            Err(Error::Damaged { .. } | Error::Newer { .. }) => {}
            Err(other) => prop_assert!(false, "{other:?}"),
            Ok((_, opened)) => {
                prop_assert_eq!(opened.events.len(), events.len());
                prop_assert_eq!(opened.repair, None);
                for (number, (found, event)) in opened.events.iter().zip(&events).enumerate() {
                    prop_assert!(number == line || found == event);
                }
            }
        }
    }

    /// Cut in two anywhere, read in two goes: the same as read at once.
    #[test]
    fn reading_in_parts_equals_reading_all(texts in prop::collection::vec(".{0,20}", 1..8), cut in 0_usize..5_000) {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        let (mut writer, _) = open(&run).unwrap();
        for text in &texts {
            writer.append(Subject::run(), enter(text)).unwrap();
        }
        drop(writer);
        let bytes = std::fs::read(run.journal()).unwrap();
        let whole = read(&run).unwrap();
        prop_assert_eq!(whole.events.len(), texts.len());
        let mut tail = JournalTail::new(&run, Position::default());
        put(&run, &bytes[..cut % (bytes.len() + 1)]);
        let mut parts = tail.poll().unwrap();
        put(&run, &bytes);
        parts.extend(tail.poll().unwrap());
        prop_assert_eq!(parts, whole.events);
    }
}
