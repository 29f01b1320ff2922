//! Following a run: waits in the kernel, until its folder changes, its coordinator ends, or nobody reads any more. No loop
//! asks again and again.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::error::{Error, ErrorKind};
use super::printer;
use crate::model::event::Invocation;
use crate::store::{FolderWatch, RunDir, process};

/// Waits for news of a run.
pub(super) struct Follower {
    watch: FolderWatch,
    also: Option<PathBuf>,
    coordinator: Option<(Invocation, OwnedFd)>,
}

/// Why waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// Something changed, or may have.
    Changed,
    /// The time is over.
    Nothing,
    /// Nobody reads the answer any more.
    ReaderGone,
}

impl Follower {
    /// Follows the folder of `run`, and `also` a folder in it that may come later. To be made before the first look.
    pub(super) fn new(run: &RunDir, also: Option<PathBuf>) -> Result<Self, Error> {
        let follower = Self { watch: FolderWatch::new(run.root())?, also, coordinator: None };
        follower.cover()?;
        Ok(follower)
    }

    /// Says who coordinates the run now, so that its death is noticed though it writes nothing.
    pub(super) fn coordinated_by(&mut self, invocation: Option<&Invocation>) {
        let Some(invocation) = invocation else { return };
        if self.coordinator.as_ref().is_some_and(|(known, _)| known == invocation) {
            return;
        }
        // The handle first: then it is of that very process if the process is still the same.
        let handle = i32::try_from(invocation.pid)
            .ok()
            .and_then(Pid::from_raw)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let same = process::is_same_process_alive(invocation).unwrap_or(false);
        self.coordinator = handle.filter(|_| same).map(|handle| (invocation.clone(), handle));
    }

    /// Waits for news, at most `limit`.
    pub(super) fn wait(&mut self, limit: Option<Duration>) -> Result<News, Error> {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let reader = printer::reader();
        let nobody = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        let mut fds = vec![PollFd::new(&self.watch, PollFlags::IN), PollFd::new(&reader, PollFlags::empty())];
        let coordinator: Option<BorrowedFd<'_>> = self.coordinator.as_ref().map(|(_, handle)| handle.as_fd());
        fds.extend(coordinator.map(|handle| PollFd::from_borrowed_fd(handle, PollFlags::IN)));
        let told = poll(&mut fds, limit.as_ref());
        let reader_gone = fds[1].revents().intersects(nobody);
        let ended = fds.get(2).is_some_and(|handle| !handle.revents().is_empty());
        match told {
            Ok(0) => return Ok(News::Nothing),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Error::new(ErrorKind::Environment, "cannot wait for the run").because(error)),
        }
        if reader_gone {
            return Ok(News::ReaderGone);
        }
        if ended {
            // It would wake us at once from now on. Whoever asks the lock next sees that nobody holds it.
            self.coordinator = None;
        }
        self.watch.drain()?;
        self.cover()?;
        Ok(News::Changed)
    }

    fn cover(&self) -> Result<(), Error> {
        if let Some(also) = &self.also {
            self.watch.cover(also)?;
        }
        Ok(())
    }
}
