//! Starting the outer process, and the control socket as the parent sees it.
#![expect(clippy::disallowed_methods, reason = "the one place that starts the init of a box")]

use crate::error::StartError;
use crate::init::ASKED;
use crate::sys;
use crate::wire::{self, Order, Report};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, Command};

/// The program that becomes the init of boxes: one whose `main` starts with [`crate::init_main_if_asked`].
#[derive(Clone, Debug)]
pub struct Launcher {
    exe: PathBuf,
}

impl Default for Launcher {
    /// This very program, by a path that stays right when its file is replaced.
    fn default() -> Self {
        Self { exe: PathBuf::from("/proc/self/exe") }
    }
}

impl Launcher {
    /// Another program, for callers whose `main` is not theirs.
    pub fn new(exe: impl Into<PathBuf>) -> Self {
        Self { exe: exe.into() }
    }
}

/// The parent's end of the control socket. While one exists, the box lives.
#[derive(Debug)]
pub(crate) struct Control {
    socket: AsyncFd<OwnedFd>,
}

/// Starts the outer process. Neither end of the socket is inherited by any other program: both are closed on exec, and the
/// outer process has its own as standard input.
pub(crate) fn launch(launcher: &Launcher) -> Result<(Child, Control), StartError> {
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(io::Error::from)?;
    let control = Control { socket: sys::watch(ours)? };
    let child = Command::new(&launcher.exe)
        .arg(ASKED)
        .env_clear()
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // What a terminal sends to all that runs in it (Ctrl-C, Ctrl-Z, its own end) is for the parent, who ends the box in
        // order.
        .process_group(0)
        .spawn()
        .map_err(|source| StartError::Launch { exe: launcher.exe.clone(), source })?;
    Ok((child, control))
}

impl Control {
    pub(crate) async fn send(&self, order: &Order, files: &[OwnedFd]) -> io::Result<()> {
        let (packet, file) = wire::pack(order)?;
        let all: Vec<BorrowedFd<'_>> = files.iter().chain(&file).map(|file| file.as_fd()).collect();
        let send = |socket: &OwnedFd| wire::send(socket.as_fd(), &packet, &all, SendFlags::DONTWAIT);
        self.socket.async_io(Interest::WRITABLE, send).await
    }

    /// The next report; `None` when the box has ended.
    pub(crate) async fn receive(&self) -> io::Result<Option<(Report, Vec<OwnedFd>)>> {
        let receive = |socket: &OwnedFd| wire::receive(socket.as_fd(), RecvFlags::DONTWAIT, false);
        match self.socket.async_io(Interest::READABLE, receive).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            other => other,
        }
    }
}
