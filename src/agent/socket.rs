//! What an agent can say to the program from inside its box: `sandbox turn [label]` ends a turn, `sandbox ask` asks for more
//! paths.
//!
//! One connection, one line, `turn <label>` or `ask <JSON>`, one line as the answer: `ok <text>` or `error <reason>`. The
//! socket is the only thing in a box that reaches out of it, so it takes nothing else, and that only so often.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::ask::{ASKS_MAX, Ask, Reply};

/// The longest label, in characters.
pub const LABEL_MAX: usize = 100;

/// How many turns an agent may end itself in one attempt.
pub const TURNS_MAX: u32 = 500;

/// The least time between two requests.
const INTERVAL: Duration = Duration::from_millis(200);

/// How long a connection may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many connections are listened to at once.
const LISTENED_TO: usize = 64;

/// The most bytes a request to end a turn may have.
const TURN_MAX: usize = 1024;

/// The most bytes a request for paths may have.
const ASK_MAX: usize = 16 * 1024;

/// What a request for paths begins with.
const ASK: &[u8] = b"ask ";

/// The most bytes of an answer that are read.
const ANSWER_MAX: u64 = 16 * 1024;

/// The end of the socket that the program holds. Requests are taken in by a task of their own, so that waiting for one can
/// be given up at any moment and none is lost.
#[derive(Debug)]
pub struct AgentSocket {
    requests: mpsc::Receiver<Request>,
    task: JoinHandle<()>,
}

/// Something an agent wants. Dropping it unanswered tells the agent that it was not done.
#[derive(Debug)]
pub struct Request {
    /// What.
    pub wish: Wish,
    /// How it is told what became of that.
    pub asker: Asker,
}

/// What an agent may want.
#[derive(Debug, PartialEq, Eq)]
pub enum Wish {
    /// To end a turn, which it calls this.
    Turn(String),
    /// More paths.
    Paths(Ask),
}

/// Whoever waits for an answer.
#[derive(Debug)]
pub struct Asker(tokio::net::UnixStream);

impl AgentSocket {
    /// Over a socket that was made inside the box.
    pub fn new(listener: UnixListener) -> Self {
        let (sender, requests) = mpsc::channel(1);
        Self { requests, task: tokio::spawn(take_in(listener, sender)) }
    }

    /// The next request that is well-formed, not too many, and whose sender is still there: one may have been killed with
    /// the command before, and what it asked for is over.
    pub async fn next(&mut self) -> Request {
        loop {
            match self.requests.recv().await {
                Some(request) if request.asker.is_waiting() => return request,
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }
}

impl Drop for AgentSocket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Passes good requests on, one at a time, and refuses the others itself.
async fn take_in(listener: UnixListener, sender: mpsc::Sender<Request>) {
    let (mut turns, mut asks): (u32, u32) = (0, 0);
    let mut last: Option<Instant> = None;
    // Whoever connects and says nothing is in nobody's way.
    let mut listening = JoinSet::new();
    loop {
        let heard = tokio::select! {
            accepted = listener.accept(), if listening.len() < LISTENED_TO => {
                // A listener that fails stays quiet: the agent's command goes on without it.
                let Ok((stream, _)) = accepted else { return };
                listening.spawn(hear(stream));
                continue;
            }
            Some(heard) = listening.join_next() => heard,
        };
        let Ok(Some((mut stream, wish))) = heard else { continue };
        let (made, most, what) = match wish {
            Wish::Turn(_) => (&mut turns, TURNS_MAX, "end turns itself"),
            Wish::Paths(_) => (&mut asks, ASKS_MAX, "ask for paths"),
        };
        if *made >= most {
            answer(&mut stream, &format!("error an attempt may {what} at most {most} times\n")).await;
        } else if last.is_some_and(|last| last.elapsed() < INTERVAL) {
            answer(&mut stream, "error the request before was less than 0.2 s ago: wait a moment\n").await;
        } else {
            *made += 1;
            last = Some(Instant::now());
            if sender.send(Request { wish, asker: Asker(stream) }).await.is_err() {
                return;
            }
        }
    }
}

/// What a connection wants, if it says so in time. One that wants what nobody can have is told.
async fn hear(mut stream: tokio::net::UnixStream) -> Option<(tokio::net::UnixStream, Wish)> {
    match tokio::time::timeout(PATIENCE, read(&mut stream)).await {
        Ok(Ok(wish)) => Some((stream, wish)),
        Ok(Err(reason)) => {
            answer(&mut stream, &format!("error {reason}\n")).await;
            None
        }
        Err(_) => None,
    }
}

async fn read(stream: &mut tokio::net::UnixStream) -> Result<Wish, String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    while !bytes.contains(&b'\n') {
        let read = stream.read(&mut chunk).await.map_err(|error| error.to_string())?;
        if read == 0 {
            break;
        }
        bytes.extend_from_slice(&chunk[..read]);
        let most = if bytes.starts_with(ASK) { ASK_MAX } else { TURN_MAX };
        if bytes.len() > most {
            return Err("the request is too long".to_owned());
        }
    }
    parse_request(&bytes)
}

impl Asker {
    /// Whether anybody still waits for the answer.
    fn is_waiting(&self) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match rustix::event::poll(&mut polled, Some(&at_once)) {
            Ok(_) => !polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR),
            Err(_) => true,
        }
    }

    /// Tells the agent how it went.
    pub async fn answer(mut self, result: Result<String, String>) {
        let line = match result {
            Ok(text) => format!("ok {}\n", text.replace('\n', " ")),
            Err(reason) => format!("error {}\n", reason.replace('\n', " ")),
        };
        answer(&mut self.0, &line).await;
    }
}

/// An agent that does not read its answer, or is gone, misses it and nothing else.
async fn answer(stream: &mut tokio::net::UnixStream, line: &str) {
    let written = tokio::time::timeout(PATIENCE, stream.write_all(line.as_bytes())).await;
    if !matches!(written, Ok(Ok(()))) {
        tracing::debug!("an agent did not take the answer to its request");
    }
}

/// What a request asks for; the label of a turn cleaned to one line of printable text.
fn parse_request(bytes: &[u8]) -> Result<Wish, String> {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if let Some(asked) = line.strip_prefix(ASK) {
        return Ask::parse(asked).map(Wish::Paths);
    }
    let text = String::from_utf8_lossy(line);
    let label = match text.split_once(' ') {
        Some(("turn", label)) => label,
        None if text == "turn" => "",
        Some(_) | None => return Err("the only requests are `turn <label>` and `ask <JSON>`".to_owned()),
    };
    let label: String = label.trim().chars().filter(|character| !character.is_control()).take(LABEL_MAX).collect();
    Ok(Wish::Turn(if label.is_empty() { "turn".to_owned() } else { label }))
}

/// The agent's side: asks over the socket at `path` to end a turn, and gives the answer back.
pub fn end_turn(path: &Path, label: &str) -> Result<String, String> {
    say(path, &format!("turn {}", label.replace('\n', " ")))
}

/// The agent's side: asks over the socket at `path` for more paths, and gives the answer back.
pub fn ask(path: &Path, ask: &Ask) -> Result<Reply, String> {
    let text = serde_json::to_string(ask).map_err(|error| error.to_string())?;
    let told = say(path, &format!("ask {text}"))?;
    serde_json::from_str(&told).map_err(|error| format!("the executor's answer cannot be read: {error}"))
}

fn say(path: &Path, line: &str) -> Result<String, String> {
    let fault = |error: std::io::Error| format!("cannot reach the executor: {error}");
    let mut stream = UnixStream::connect(path).map_err(fault)?;
    stream.write_all(format!("{line}\n").as_bytes()).map_err(fault)?;
    let mut text = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut text).map_err(fault)?;
    match text.trim_end().split_once(' ') {
        Some(("ok", told)) => Ok(told.to_owned()),
        Some(("error", reason)) => Err(reason.to_owned()),
        Some(_) | None => Err("the executor closed the connection without an answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_dead_get_no_turn() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let mut socket = AgentSocket::new(UnixListener::bind(&path).unwrap());
        let send = |text: &'static str| {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            stream
        };
        drop(send("turn gone\n"));
        let next = tokio::time::timeout(INTERVAL * 2, socket.next()).await;
        assert!(next.is_err(), "{next:?}");
        let waiting = send("turn here\n");
        let next = tokio::time::timeout(PATIENCE, socket.next()).await.unwrap();
        assert_eq!(next.wish, Wish::Turn("here".to_owned()));
        drop(waiting);
    }

    #[tokio::test]
    async fn the_silent_are_in_nobodys_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let mut socket = AgentSocket::new(UnixListener::bind(&path).unwrap());
        let silent: Vec<UnixStream> = (1..LISTENED_TO).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let mut asking = UnixStream::connect(&path).unwrap();
        asking.write_all(b"turn here\n").unwrap();
        let next = tokio::time::timeout(PATIENCE, socket.next()).await.unwrap();
        assert_eq!(next.wish, Wish::Turn("here".to_owned()));
        drop(silent);
    }

    #[test]
    fn requests() {
        let long = format!("turn {}\n", "x".repeat(300));
        let table: [(&[u8], Result<&str, ()>); 9] = [
            (b"turn parser done\n", Ok("parser done")),
            (b"turn\n", Ok("turn")),
            (b"turn  \n", Ok("turn")),
            (b"turn a\x1b[31mb\n", Ok("a[31mb")),
            (b"turn a\nturn b\n", Ok("a")),
            (b"", Err(())),
            (b"land\n", Err(())),
            (b"turning x\n", Err(())),
            (b"spawn sh\n", Err(())),
        ];
        for (bytes, expected) in table {
            let parsed = parse_request(bytes);
            let expected = expected.map(|label| Wish::Turn(label.to_owned()));
            assert_eq!(parsed.map_err(|_| ()), expected, "{:?}", bytes.escape_ascii().to_string());
        }
        assert_eq!(parse_request(long.as_bytes()), Ok(Wish::Turn("x".repeat(LABEL_MAX))));
        let asked = Ask { owns: vec!["a b".to_owned()], why: "it is".to_owned() };
        assert_eq!(parse_request(b"ask {\"owns\":[\"a b\"],\"why\":\"it is\"}\nturn x\n"), Ok(Wish::Paths(asked)));
        assert!(parse_request(b"ask\n").is_err() && parse_request(b"ask for more\n").is_err());
    }
}
