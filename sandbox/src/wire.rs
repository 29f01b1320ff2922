//! Messages between the parent, the outer process and the box's init: one JSON value per packet, files beside it.
//!
//! The socket keeps packet bounds, so there is no framing to get wrong. A value too long for one packet travels in a
//! memory file; only orders may, for the parent must never map what comes out of a box.

use crate::limit::LimitHit;
use crate::plan::Enforcement;
use rustix::fs::MemfdFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Seek as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// The longest value that goes into a packet itself.
const INLINE: usize = 32 * 1024;
/// The longest value at all: well above what the kernel takes as arguments and environment of one program.
const LONGEST: u64 = 64 << 20;
/// Files in one packet: three streams, or those of a control group, and a memory file; or listeners.
pub(crate) const MOST_FILES: usize = 16;

const IN_PACKET: u8 = b'p';
const IN_FILE: u8 = b'f';

/// Paths as bytes, for they need not be UTF-8.
pub(crate) mod path {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        OsString::deserialize(deserializer).map(PathBuf::from)
    }
}

/// A list of them.
pub(crate) mod path_list {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use std::ffi::{OsStr, OsString};
    use std::path::PathBuf;

    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        paths.iter().map(|path| path.as_os_str()).collect::<Vec<&OsStr>>().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<OsString>::deserialize(deserializer)?.into_iter().map(PathBuf::from).collect())
    }
}

/// Several of them, or none.
pub(crate) mod paths {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use std::ffi::{OsStr, OsString};
    use std::path::PathBuf;

    #[expect(clippy::ref_option, reason = "what serde passes")]
    pub(crate) fn serialize<S: Serializer>(paths: &Option<Vec<PathBuf>>, serializer: S) -> Result<S::Ok, S::Error> {
        let texts = paths.as_ref().map(|paths| paths.iter().map(|path| path.as_os_str()).collect::<Vec<&OsStr>>());
        texts.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<PathBuf>>, D::Error> {
        let texts = Option::<Vec<OsString>>::deserialize(deserializer)?;
        Ok(texts.map(|texts| texts.into_iter().map(PathBuf::from).collect()))
    }
}

/// What the parent sends.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// First and once. `holds` tells whether the first file beside it is one to hold until the end.
    Start { enforcement: Enforcement, holds: bool },
    /// Start a command. `files` tells which of its three streams come beside the packet; the others are `/dev/null`.
    Spawn {
        id: u64,
        argv: Vec<OsString>,
        env: Vec<(OsString, OsString)>,
        cwd: OsString,
        below: OsString,
        files: [bool; 3],
        aside: bool,
    },
    /// A signal for every process of the box but init.
    Signal { id: u64, signal: i32 },
    /// Kill every process of the box but init.
    KillAll { id: u64 },
    /// Stop them all, and say so when they are.
    Freeze { id: u64 },
    /// Let them go on.
    Thaw { id: u64 },
}

/// What comes back.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// From the outer process, with a pidfd of init beside it.
    Born,
    /// All steps done; the listening sockets come beside it, in the order of the plan, that of the relay last.
    Ready,
    /// A step failed, or a guard, which are counted on from there: its index, the path it was about, the kernel's answer.
    Failed { step: usize, path: Option<OsString>, errno: i32 },
    /// The answer to an order.
    Answer { id: u64, answer: Answer },
    /// A command has ended, and nothing of it is left.
    Exited { id: u64, status: Status, leftovers: u32, escaped: u32, limit: Option<LimitHit> },
}

/// The answer to an order.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Done.
    Done,
    /// Done, to so many processes.
    Count(u32),
    /// A command did not start.
    NotStarted { stage: ChildStage, errno: i32 },
    /// A main command is running already.
    Busy,
    /// The kernel refused.
    Refused { errno: i32 },
    /// Still running when time was up.
    Restless { running: u32 },
}

/// How far a command got before it failed to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ChildStage {
    /// Fork, session, streams, limits.
    Setup,
    /// The working directory.
    Directory,
    /// The guards.
    Guard,
    /// The program.
    Program,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

/// A step that failed, as the one who carried it out sees it.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) path: Option<PathBuf>,
    pub(crate) errno: i32,
}

impl<E: Into<io::Error>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self { path: None, errno: error.into().raw_os_error().unwrap_or(nix::libc::EIO) }
    }
}

impl Fault {
    /// The same, about `path`, unless it names one already.
    pub(crate) fn at(self, path: impl Into<PathBuf>) -> Self {
        Self { path: Some(self.path.unwrap_or_else(|| path.into())), errno: self.errno }
    }
}

/// Puts a value into a packet, or into a memory file when it is too long for one.
pub(crate) fn pack<T: Serialize>(value: &T) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut packet = vec![IN_PACKET];
    serde_json::to_writer(&mut packet, value)?;
    if packet.len() <= INLINE {
        return Ok((packet, None));
    }
    if packet.len() as u64 > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "arguments and environment are too long"));
    }
    let mut file = File::from(rustix::fs::memfd_create(c"order", MemfdFlags::CLOEXEC)?);
    file.write_all(packet.get(1..).unwrap_or_default())?;
    file.rewind()?;
    Ok((vec![IN_FILE], Some(OwnedFd::from(file))))
}

/// Sends one packet, with files beside it.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    packet: &[u8],
    files: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if files.len() > MOST_FILES || (!files.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(files))) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(packet)], &mut beside, flags | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Packs and sends, waiting for room: for the side that is not asynchronous.
pub(crate) fn tell<T: Serialize>(socket: BorrowedFd<'_>, value: &T, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let (packet, file) = pack(value)?;
    let mut all = files.to_vec();
    all.extend(file.iter().map(|file| file.as_fd()));
    send(socket, &packet, &all, SendFlags::empty())
}

/// Receives one value and the files beside it; `None` when the other end is gone.
///
/// `long` tells whether a value may come in a memory file.
pub(crate) fn receive<T: DeserializeOwned>(
    socket: BorrowedFd<'_>,
    flags: RecvFlags,
    long: bool,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut packet = vec![0_u8; INLINE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let mut slices = [IoSliceMut::new(&mut packet)];
        match rustix::net::recvmsg(socket, &mut slices, &mut beside, flags | RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut files: Vec<OwnedFd> = Vec::new();
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            files.extend(rights);
        }
    }
    let body = packet.get(..got.bytes).unwrap_or_default();
    let value = match body.split_first() {
        None => return Ok(None),
        Some((&IN_PACKET, json)) => serde_json::from_slice(json)?,
        Some((&IN_FILE, _)) if long => {
            let file = files.pop().ok_or(io::ErrorKind::InvalidData)?;
            let mut json = Vec::new();
            File::from(file).take(LONGEST).read_to_end(&mut json)?;
            serde_json::from_slice(&json)?
        }
        Some(_) => return Err(io::Error::from(io::ErrorKind::InvalidData)),
    };
    Ok(Some((value, files)))
}
