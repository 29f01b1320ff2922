//! The end of whoever asks.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::protocol::{Answer, Command, LINE_MAX, read_answer, request_line};
use super::socket;
use crate::run::Error;
use crate::store::RunDir;

/// How long the coordinator may take to take a request in.
const TAKEN_IN: Duration = Duration::from_secs(5);

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// An answer.
    Answered(Answer),
    /// Nobody listens there.
    Nobody,
    /// Somebody listens, and took nothing in in time: nothing was asked.
    NotTaken,
    /// Somebody listens, and gave no answer in time. What was asked for may be done still.
    NoAnswer,
}

/// Asks the coordinator of `run`, and waits up to `patience` for its answer.
pub fn ask(run: &RunDir, command: &Command, patience: Duration) -> Result<Asked, Error> {
    let failed = |source: io::Error| Error::Control { run: run.id().clone(), source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(exchange(run, command, patience)).map_err(failed)
}

async fn exchange(run: &RunDir, command: &Command, patience: Duration) -> io::Result<Asked> {
    let key = match std::fs::read_to_string(run.control_key()) {
        Ok(key) => key,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Asked::Nobody),
        Err(error) => return Err(error),
    };
    let mut stream = match socket::connect(run).await {
        Ok(stream) => stream,
        // It has died and its socket is left; or it is about to make one, or has just removed it.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(Asked::Nobody);
        }
        // It takes nobody in: it is stopped, say.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Asked::NotTaken),
        Err(error) => return Err(error),
    };
    let line = request_line(&key, command)?;
    match tokio::time::timeout(TAKEN_IN, stream.write_all(line.as_bytes())).await {
        Ok(Ok(())) => {}
        // It ended meanwhile.
        Ok(Err(_)) => return Ok(Asked::Nobody),
        Err(_) => return Ok(Asked::NotTaken),
    }
    let mut answer = Vec::new();
    let mut reader = BufReader::new(stream).take(LINE_MAX as u64);
    let read = tokio::time::timeout(patience, reader.read_until(b'\n', &mut answer)).await;
    Ok(match read {
        // It ended before it answered.
        Ok(Ok(0) | Err(_)) => Asked::Nobody,
        Ok(Ok(_)) => read_answer(&answer).map_or(Asked::NoAnswer, Asked::Answered),
        Err(_) => Asked::NoAnswer,
    })
}
