//! The network of a box that has a list of what it may reach: its proxy, the record of what was asked, and what to tell of
//! refusals.
//!
//! Steps: [`prepare`] reads the list and the secrets, before there is a box; [`Gateway::open`] serves the box's relay;
//! [`Gateway::close`] ends all of it, when the box is gone, and gives what is certain: what was refused, and how often.
//!
//! The record is written by a task of its own, so that a slow disk holds up no request. It is bounded: after
//! [`RECORD_MAX`] bytes, and while too many wait for the disk, requests are only counted, and the last line of the attempt says how many are left out. A record that
//! cannot be written is told of, and fails nothing.

use std::collections::BTreeMap;
use std::io::SeekFrom;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use sandbox::Sandbox;
use sandbox::proxy::{Decision, Endpoint, Injection, Injections, Proxy, Rules, Setup, Upstream, Visit};
use serde::Serialize;
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::attempt::with_causes;
use crate::model::network::{NetworkLeftOut, NetworkVisit};
use crate::model::plan::{AllowList, Network};
use crate::workspace::HostEnvironment;

/// Where a plan, and `exec`, have what agents may reach.
pub const OF_AGENTS: &str = "`sandbox.network.allow` (with `exec`: `--allow-host`)";

/// Where a plan has what its verifier may reach.
pub const OF_VERIFIER: &str = "`verify.network.allow`";

/// The longest record of one agent, in bytes; some 20,000 requests.
const RECORD_MAX: u64 = 4 << 20;

/// How many requests wait to be written down at most, for as long as the disk is slow.
const WAITING: usize = 16 << 10;

/// How many different refusals are told of.
const TOLD: usize = 16;

/// What the proxy of a box is to do; `None` where the box has none. The error is why the box cannot have its network.
///
/// `place` is where the user has the list, for advice.
pub async fn prepare(network: &Network, host: &HostEnvironment, place: &str) -> Result<Option<Setup>, String> {
    let list = match network {
        Network::None | Network::Host => return Ok(None),
        Network::Allow(list) => list,
    };
    let mut setup = Setup::new(rules(list, place)?);
    let injections = injections(list, host)?;
    // Reads the certificates that the system trusts.
    let loaded = tokio::task::spawn_blocking(|| Injections::load(injections)).await;
    setup.injections = loaded.map_err(|error| error.to_string())?.map_err(|error| with_causes(&error))?;
    Ok(Some(setup))
}

/// Whether all secrets of a box are there, and fit for a header. The error names the variable, never its value.
pub fn check_secrets(network: &Network, host: &HostEnvironment) -> Result<(), String> {
    match network {
        Network::None | Network::Host => Ok(()),
        Network::Allow(list) => injections(list, host).map(drop),
    }
}

fn rules(list: &AllowList, place: &str) -> Result<Rules, String> {
    let read = |text: &String| text.parse::<Endpoint>().map_err(|error| format!("`{text}` {error}"));
    let mut rules = Rules::new().place(place);
    for entry in &list.allow {
        rules = rules.allow(read(entry)?);
    }
    for entry in &list.deny {
        rules = rules.deny(read(entry)?);
    }
    Ok(rules)
}

fn injections(list: &AllowList, host: &HostEnvironment) -> Result<Vec<Injection>, String> {
    let one = |(name, injection): (&String, &crate::model::plan::Injection)| {
        let upstream: Upstream = name.parse().map_err(|error| format!("`{name}` {error}"))?;
        let secret = host.variable(&injection.env).ok_or_else(|| {
            format!("the variable {}, whose value is the secret for `{name}`, is not set", injection.env)
        })?;
        let value = [injection.prefix.as_bytes(), secret.as_encoded_bytes()].concat();
        Injection::new(upstream, &injection.header, &value)
            .map_err(|error| format!("the variable {}, whose value is the secret for `{name}`: {error}", injection.env))
    };
    list.inject.iter().map(one).collect()
}

/// A proxy at work for one box.
#[derive(Debug)]
pub struct Gateway {
    proxy: Proxy,
    scribe: JoinHandle<Heard>,
}

/// What the scribe knows at the end.
#[derive(Debug, Default)]
struct Heard {
    refused: BTreeMap<String, u64>,
    more: u64,
    lost: Option<std::io::Error>,
}

impl Gateway {
    /// Serves the relay of a box. `attempt` goes into each line of the record at `path`.
    pub fn open(boxed: &Sandbox, setup: Setup, path: PathBuf, attempt: u64) -> std::io::Result<Option<Self>> {
        let Some(relay) = boxed.take_relay()? else { return Ok(None) };
        let (tell, told) = mpsc::channel(WAITING);
        let missed = Arc::new(AtomicU64::new(0));
        let rules = setup.rules.clone();
        let scribe = Scribe { attempt, rules, missed: Arc::clone(&missed), heard: Heard::default() };
        let scribe = tokio::spawn(scribe.write(told, path));
        let proxy = Proxy::start(relay, setup, move |visit| {
            if tell.try_send(visit).is_err() {
                missed.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Some(Self { proxy, scribe }))
    }

    /// Ends every connection, and gives what the box was kept from, in words.
    pub async fn close(self) -> Vec<String> {
        let Self { proxy, scribe } = self;
        proxy.stop().await;
        let heard = scribe.await.unwrap_or_default();
        let times = |count: u64| if count == 1 { "once".to_owned() } else { format!("{count} times") };
        let refusal = |(what, count): (&String, &u64)| {
            let (target, why) = what.split_once('\n').unwrap_or((what, ""));
            format!("network: `{target}` was refused {}: {why}", times(*count))
        };
        let mut hints: Vec<String> = heard.refused.iter().map(refusal).collect();
        if heard.more > 0 {
            hints.push(format!("network: others were refused {}", times(heard.more)));
        }
        hints.extend(heard.lost.map(|error| format!("network: not all that was asked could be written down: {error}")));
        hints
    }
}

struct Scribe {
    attempt: u64,
    rules: Rules,
    /// Requests that it was not told of, because too many waited.
    missed: Arc<AtomicU64>,
    heard: Heard,
}

impl Scribe {
    /// Writes down what comes until the proxy is gone.
    async fn write(mut self, mut told: mpsc::Receiver<Visit>, path: PathBuf) -> Heard {
        const AT_ONCE: usize = 256;
        let mut record = match Record::open(&path).await {
            Ok(record) => Some(record),
            Err(error) => {
                self.heard.lost = Some(error);
                None
            }
        };
        let (mut visits, mut left_out) = (Vec::new(), 0);
        while told.recv_many(&mut visits, AT_ONCE).await > 0 {
            for visit in visits.drain(..) {
                self.count(&visit);
                if !record.as_mut().is_some_and(|record| record.take(&line(&visit, self.attempt), RECORD_MAX)) {
                    left_out += 1;
                }
            }
            self.save(&mut record).await;
        }
        left_out += self.missed.load(Ordering::Relaxed);
        if left_out > 0
            && let Some(record) = &mut record
        {
            record.take(&NetworkLeftOut { attempt: self.attempt, left_out }, u64::MAX);
        }
        self.save(&mut record).await;
        self.heard
    }

    async fn save(&mut self, record: &mut Option<Record>) {
        if let Some(open) = record
            && let Err(error) = open.save().await
        {
            self.heard.lost = Some(error);
            *record = None;
        }
    }

    fn count(&mut self, visit: &Visit) {
        let (Some(target), Decision::Refused(refusal)) = (&visit.target, &visit.decision) else { return };
        let what = format!("{target}\n{}", self.rules.reason_and_advice(target, *refusal));
        if let Some(count) = self.heard.refused.get_mut(&what) {
            *count += 1;
        } else if self.heard.refused.len() < TOLD {
            self.heard.refused.insert(what, 1);
        } else {
            self.heard.more += 1;
        }
    }
}

fn line(visit: &Visit, attempt: u64) -> NetworkVisit {
    NetworkVisit {
        timestamp: Timestamp::try_from(visit.at).unwrap_or_default(),
        attempt,
        protocol: visit.protocol.name().to_owned(),
        host: visit.target.as_ref().map(|target| target.host.to_string()),
        port: visit.target.as_ref().map(|target| target.port),
        decision: visit.decision.name().to_owned(),
        reason: visit.decision.reason(),
        address: visit.address.map(|address| address.to_string()),
        bytes_up: visit.up,
        bytes_down: visit.down,
        duration_ms: u64::try_from(visit.took.as_millis()).unwrap_or(u64::MAX),
    }
}

/// The file, and what is to go into it next.
struct Record {
    file: File,
    size: u64,
    next: Vec<u8>,
}

impl Record {
    /// Opens the file. One that is there is continued, on a line of its own: the last one may be torn.
    async fn open(path: &Path) -> std::io::Result<Self> {
        if let Some(folder) = path.parent() {
            tokio::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).await?;
        }
        let mut file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path).await?;
        let mut size = file.metadata().await?.len();
        let mut next = Vec::new();
        if size > 0 {
            file.seek(SeekFrom::End(-1)).await?;
            if file.read_u8().await? != b'\n' {
                next.push(b'\n');
                size += 1;
            }
        }
        Ok(Self { file, size, next })
    }

    /// Takes in a line, if there is room for it below `most`.
    fn take(&mut self, line: &impl Serialize, most: u64) -> bool {
        let Ok(mut text) = serde_json::to_vec(line) else { return false };
        text.push(b'\n');
        let size = self.size + text.len() as u64;
        if size > most {
            return false;
        }
        self.size = size;
        self.next.append(&mut text);
        true
    }

    async fn save(&mut self) -> std::io::Result<()> {
        if self.next.is_empty() {
            return Ok(());
        }
        self.file.write_all(&self.next).await?;
        self.next.clear();
        self.file.flush().await
    }
}

/// What was written down, and how many requests are left out. A line that is torn, or of a later version, is passed over.
pub fn load(path: &Path) -> std::io::Result<(Vec<NetworkVisit>, u64)> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(error),
    };
    let (mut visits, mut left_out) = (Vec::new(), 0_u64);
    for line in text.split(|byte| *byte == b'\n') {
        if let Ok(visit) = serde_json::from_slice(line) {
            visits.push(visit);
        } else if let Ok(NetworkLeftOut { left_out: more, .. }) = serde_json::from_slice(line) {
            left_out = left_out.saturating_add(more);
        }
    }
    Ok((visits, left_out))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use sandbox::proxy::{Protocol, Refusal, Target};

    use super::*;

    fn visit(host: &str, decision: Decision) -> Visit {
        Visit {
            at: SystemTime::UNIX_EPOCH,
            protocol: Protocol::Connect,
            target: Some(Target::parse(host, Some(443)).unwrap()),
            decision,
            address: None,
            up: 1,
            down: 2,
            took: Duration::from_millis(3),
        }
    }

    /// What a scribe writes of these, after `missed` it was not told of.
    async fn written(path: &Path, attempt: u64, visits: impl IntoIterator<Item = Visit>, missed: u64) -> Heard {
        let (tell, told) = mpsc::channel(WAITING);
        let rules = Rules::new().place("the list");
        let missed = Arc::new(AtomicU64::new(missed));
        let scribe =
            tokio::spawn(Scribe { attempt, rules, missed, heard: Heard::default() }.write(told, path.to_owned()));
        for visit in visits {
            tell.send(visit).await.unwrap();
        }
        drop(tell);
        scribe.await.unwrap()
    }

    #[tokio::test]
    async fn a_record_is_bounded_and_says_what_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agents/a/network.jsonl");
        let many = (0..30_000).map(|_| visit("a.example", Decision::Refused(Refusal::NotListed)));
        let heard = written(&path, 1, many, 7).await;
        assert!(heard.lost.is_none() && heard.more == 0);
        assert_eq!(heard.refused.values().collect::<Vec<_>>(), [&30_000], "every one counts");
        let (visits, left_out) = load(&path).unwrap();
        assert!(visits.len() > 10_000 && visits.len() as u64 + left_out == 30_007, "{} {left_out}", visits.len());
        assert!(path.metadata().unwrap().len() < RECORD_MAX + 100);
        // The next attempt goes on in the same file, in which there is no room.
        written(&path, 2, [visit("b.example", Decision::Allowed)], 0).await;
        assert_eq!(load(&path).unwrap(), (visits, left_out + 1));
        assert_eq!(load(&folder.path().join("none")).unwrap(), (Vec::new(), 0));
    }

    #[tokio::test]
    async fn a_torn_line_takes_no_other_along() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.jsonl");
        written(&path, 1, [visit("a.example", Decision::Allowed), visit("b.example", Decision::Allowed)], 0).await;
        let whole = path.metadata().unwrap().len();
        OpenOptions::new().write(true).open(&path).await.unwrap().set_len(whole - 9).await.unwrap();
        for (attempt, host) in [(2, "c.example"), (3, "d.example")] {
            written(&path, attempt, [visit(host, Decision::Allowed)], 0).await;
        }
        let (visits, left_out) = load(&path).unwrap();
        let hosts: Vec<_> = visits.into_iter().filter_map(|visit| visit.host).collect();
        assert_eq!((hosts, left_out), (["a.example", "c.example", "d.example"].map(str::to_owned).to_vec(), 0));
        assert!(!std::fs::read_to_string(&path).unwrap().contains("\n\n"), "a whole line is followed by the next");
    }

    #[tokio::test]
    async fn refusals_are_told_of_by_what_and_why_and_not_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |host: String, refusal| visit(&host, Decision::Refused(refusal));
        let many = (0..40).map(|n| refused(format!("h{n:02}.example"), Refusal::NotListed));
        let others = [refused("h00.example".to_owned(), Refusal::Denied), visit("h00.example", Decision::Allowed)];
        let heard = written(&folder.path().join("network.jsonl"), 1, others.into_iter().chain(many), 0).await;
        assert_eq!((heard.refused.len(), heard.more), (TOLD, 25));
        let first: Vec<&String> = heard.refused.keys().take(2).collect();
        assert_eq!(first[0], "h00.example:443\nin the deny-list");
        assert_eq!(first[1], "h00.example:443\nnot in the allow-list; add \"h00.example:443\" to the list");
    }

    #[tokio::test]
    async fn a_record_that_cannot_be_written_fails_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let heard = written(folder.path(), 1, [visit("a.example", Decision::Refused(Refusal::NotListed))], 0).await;
        assert!(heard.lost.is_some() && heard.refused.len() == 1);
    }
}
