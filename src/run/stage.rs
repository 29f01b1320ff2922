//! A stage between its two events, however it ends.

use std::time::Instant;

use super::error::Error;
use super::recorder::Recorder;
use crate::model::event::{EventKind, StageEnter, StageExit, Subject};
use crate::store::Record;

/// Does the work of a stage. It gives a value and what the stage's end is told to be. What went wrong first is the error:
/// after a failed write the end of the stage cannot be written either.
pub(super) async fn stage<T>(
    recorder: &Recorder,
    subject: Subject,
    enter: StageEnter,
    work: impl Future<Output = Result<(T, String), Error>>,
) -> Result<T, Error> {
    let begun = Instant::now();
    let StageEnter { story_id, stage, .. } = enter.clone();
    tokio::task::block_in_place(|| recorder.record(subject.clone(), EventKind::StageEnter(enter)))?;
    let result = work.await;
    let told = result.as_ref().map_or_else(|_| "error".to_owned(), |(_, told)| told.clone());
    let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let exit = StageExit { story_id, stage, result: told, duration_ms };
    let ended = tokio::task::block_in_place(|| recorder.record(subject, EventKind::StageExit(exit)));
    match (result, ended) {
        (Ok((value, _)), Ok(_)) => Ok(value),
        (Ok(_), Err(error)) => Err(error.into()),
        (Err(error), Ok(_)) => Err(error),
        (Err(error), Err(again)) => {
            tracing::warn!(error = %again, "the end of a stage was not written down");
            Err(error)
        }
    }
}
