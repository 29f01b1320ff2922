//! The coordinator's end of the socket.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::UCred;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, JoinSet};

use super::dispatcher::Dispatcher;
use super::protocol::{Answer, Kind, LINE_MAX, Refusal, answer_line, read_request};
use super::socket::{self, Place};
use crate::model::event::Requester;
use crate::store::{RunDir, atomic};

/// How long a client may take to say what it wants, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many clients there may be at once. One that waits for the end of an agent keeps its place until then.
const CLIENTS_MAX: usize = 32;

/// How long accepting waits after it failed, as it does without a free file handle.
const BREATH: Duration = Duration::from_millis(200);

/// Gives a new secret each time it is read.
const RANDOM: &str = "/proc/sys/kernel/random/uuid";

/// Listens until it is dropped, which takes the socket away. To be dropped before the run's lock is free.
#[derive(Debug)]
pub(crate) struct Server {
    task: JoinHandle<()>,
    _place: Place,
}

impl Server {
    /// Listens for who wants something of the coordinator of `run`, which holds the run's lock.
    pub(crate) fn listen(run: &RunDir, dispatcher: &Dispatcher) -> io::Result<Self> {
        let key = std::fs::read_to_string(RANDOM)?.trim().to_owned();
        // First, so that who finds the socket finds its key.
        atomic::write(&run.control_key(), key.as_bytes()).map_err(io::Error::other)?;
        let (listener, place) = socket::bind(run)?;
        Ok(Self { task: tokio::spawn(serve(listener, dispatcher.clone(), key.into())), _place: place })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: UnixListener, dispatcher: Dispatcher, key: Arc<str>) {
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    let mut clients = JoinSet::new();
    loop {
        while clients.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        let place = Arc::clone(&places).try_acquire_owned().ok();
        clients.spawn(attend(stream, place, dispatcher.clone(), Arc::clone(&key)));
    }
}

/// Serves one client: an answer for each line, until it goes or is silent.
async fn attend(stream: UnixStream, place: Option<OwnedSemaphorePermit>, dispatcher: Dispatcher, key: Arc<str>) {
    let by = match stream.peer_cred() {
        Ok(credentials) => credentials,
        Err(error) => {
            tracing::debug!(%error, "who asks cannot be told");
            return;
        }
    };
    let (read, mut write) = stream.into_split();
    let mut reader = BufReader::new(read);
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut reader).take(LINE_MAX as u64);
        let got = tokio::time::timeout(PATIENCE, bounded.read_until(b'\n', &mut line)).await;
        if !matches!(got, Ok(Ok(length)) if length > 0) {
            return;
        }
        let whole = line.last() == Some(&b'\n');
        let answer = match (place.is_some(), whole) {
            (false, _) => Err(Refusal::new(Kind::Busy, "too many ask at once: try again in a moment")),
            (true, false) if line.len() >= LINE_MAX => {
                Err(Refusal::new(Kind::BadRequest, format!("a request has at most {LINE_MAX} bytes")))
            }
            (true, _) => answer(&line, &by, &dispatcher, &key).await,
        };
        let Ok(text) = answer_line(&answer) else { return };
        let written = tokio::time::timeout(PATIENCE, write.write_all(text.as_bytes())).await;
        if !matches!(written, Ok(Ok(()))) || !whole || place.is_none() {
            return;
        }
    }
}

async fn answer(line: &[u8], by: &UCred, dispatcher: &Dispatcher, key: &str) -> Answer {
    let own = nix::unistd::geteuid().as_raw();
    if !may_ask(by.uid(), own) {
        let message = format!("this run is of user {own}, and user {} asks", by.uid());
        return Err(Refusal::new(Kind::Denied, message));
    }
    let command = read_request(line, key)?;
    let pid = by.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
    dispatcher.take(command, Requester { pid, uid: by.uid() }).await
}

/// Whether a user may ask something of a coordinator that runs as `own`.
fn may_ask(asking: u32, own: u32) -> bool {
    asking == own || asking == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_user_and_root_may_ask() {
        for (asking, own, may) in
            [(1000, 1000, true), (0, 1000, true), (0, 0, true), (1000, 0, false), (1001, 1000, false)]
        {
            assert_eq!(may_ask(asking, own), may, "{asking} asks {own}");
        }
    }
}
