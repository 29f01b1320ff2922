//! The canary of `doctor`: a program that tries to break out, once outside, where it must succeed (else it proves nothing),
//! and once in a real box, where it must fail.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::{Access, Command, Enforcement, Expose, Host, Launcher, Policy, PrivateDir, Sandbox, Stdio};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use super::exit::Exit;
use super::printer::{Printer, Rules};
use crate::report::doctor::LayerCheck;
use crate::workspace::seen;

/// The argument that makes this program the canary.
pub(super) const ARGUMENT: &str = "__canary";

/// How long a box may take for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the canary managed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Song {
    /// Without this, not being able to write would prove nothing.
    read: bool,
    wrote: bool,
    saw_hidden: bool,
    connected: bool,
    capabilities: String,
    no_new_privileges: bool,
    processes: usize,
    uid: u32,
}

/// What it tries itself on.
struct Cage {
    _folder: TempDir,
    work: PathBuf,
    home: PathBuf,
    tmp: PathBuf,
    outside: PathBuf,
    hidden: PathBuf,
    socket: String,
    _listener: UnixListener,
}

impl Cage {
    fn build() -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("sandbox-doctor-").tempdir()?;
        let root = folder.path().canonicalize()?;
        let [work, home, tmp, outside, hidden] =
            ["work", "home", "tmp", "outside", "hidden"].map(|name| root.join(name));
        for part in [&work, &home, &tmp, &outside, &hidden] {
            std::fs::create_dir(part)?;
        }
        for file in [victim(&outside), victim(&hidden)] {
            OpenOptions::new().write(true).create_new(true).open(file)?;
        }
        let socket = root.to_string_lossy().into_owned();
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&socket)?)?;
        Ok(Self { _folder: folder, work, home, tmp, outside, hidden, socket, _listener: listener })
    }

    fn policy(&self, home: &Path, program: &Path) -> Policy {
        let home = PrivateDir { source: self.home.clone(), target: home.to_owned() };
        Policy::new(&self.work, home, &self.tmp)
            .workdir_access(Access::ReadWrite)
            .hide(&self.hidden)
            .expose(Expose::read_only(&self.outside))
            .expose(Expose::read_only(program).at(seen::PROGRAM))
            .hostname("canary")
    }
}

/// The file in a folder that the canary goes for.
fn victim(folder: &Path) -> PathBuf {
    folder.join("victim")
}

/// The canary itself, in this process.
fn sing(outside: &Path, hidden: &Path, socket: &str) -> Song {
    let written = OpenOptions::new().append(true).open(victim(outside)).and_then(|mut file| file.write_all(b"x"));
    let connected = SocketAddr::from_abstract_name(socket).and_then(|address| UnixStream::connect_addr(&address));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or_default();
    let listed = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = listed.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok()).count();
    Song {
        read: std::fs::read(victim(outside)).is_ok(),
        wrote: written.is_ok(),
        saw_hidden: victim(hidden).exists(),
        connected: connected.is_ok(),
        capabilities: field("CapEff:").to_owned(),
        no_new_privileges: field("NoNewPrivs:") == "1",
        processes,
        uid: rustix::process::geteuid().as_raw(),
    }
}

/// This program as the canary, in a box.
pub(super) fn inside(args: &[OsString]) -> Exit {
    let [outside, hidden, socket] = args else { return Exit::Usage };
    let song = sing(Path::new(outside), Path::new(hidden), &socket.to_string_lossy());
    let mut printer = Printer::of_this_process(Rules { json: true, ..Rules::default() });
    printer.json(&song);
    Exit::Complete
}

/// Tries every layer. An error says why it could not be tried.
pub(super) async fn probe(host: &Host, home: &Path, program: &Path) -> Result<Vec<LayerCheck>, String> {
    let cage = Cage::build().map_err(|error| format!("no place to try a box in: {error}"))?;
    let free = sing(&cage.outside, &cage.hidden, &cage.socket);
    if !(free.wrote && free.saw_hidden && free.connected) {
        return Err("what a box must refuse fails outside of one too, so nothing would be proven".to_owned());
    }
    let sung = tokio::time::timeout(PATIENCE, sing_in_a_box(host, &cage, home, program)).await;
    let caged = sung.map_err(|_| format!("a box did not answer within {} s", PATIENCE.as_secs()))??;
    Ok(judge(&caged))
}

async fn sing_in_a_box(host: &Host, cage: &Cage, home: &Path, program: &Path) -> Result<Song, String> {
    let enforcement = Enforcement::plan(&cage.policy(home, program), host).map_err(|refusal| refusal.to_string())?;
    let boxed = Sandbox::start(&enforcement, &Launcher::new(program)).await.map_err(told)?;
    let argv: [OsString; 5] = [
        seen::PROGRAM.into(),
        ARGUMENT.into(),
        cage.outside.clone().into(),
        cage.hidden.clone().into(),
        cage.socket.clone().into(),
    ];
    let mut child = boxed.spawn(Command::new(argv).stdout(Stdio::Piped)).await.map_err(told)?;
    child.wait().await.map_err(told)?;
    let mut said = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(1 << 16).read_to_end(&mut said).await.map_err(told)?;
    }
    boxed.shutdown().await.map_err(told)?;
    serde_json::from_slice(&said).map_err(|error| format!("the canary said nothing that makes sense: {error}"))
}

/// An error and what it came from, in a line.
fn told(error: impl std::error::Error) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        line = format!("{line}: {cause}");
        next = cause.source();
    }
    line
}

/// What the canary managed in a box, as layers.
fn judge(caged: &Song) -> Vec<LayerCheck> {
    let layer = |name, probed, held: bool, refused: String, managed: String| LayerCheck {
        name,
        present: held,
        probed,
        found: if held { refused } else { managed },
        fix: (!held).then(|| "do not run agents on this machine, and tell the makers of this program".to_owned()),
    };
    let no_rights = !caged.capabilities.is_empty() && caged.capabilities.bytes().all(|digit| digit == b'0');
    vec![
        layer(
            "files",
            "writing to a file outside that it can read",
            caged.read && !caged.wrote,
            "refused".to_owned(),
            "it could, or could not even read it".to_owned(),
        ),
        layer("hiding", "looking for a hidden file", !caged.saw_hidden, "not there".to_owned(), "seen".to_owned()),
        layer(
            "network",
            "connecting to a socket of the host by its abstract name",
            !caged.connected,
            "refused".to_owned(),
            "it could".to_owned(),
        ),
        layer(
            "processes",
            "counting the processes in sight",
            caged.processes <= 3,
            format!("{}, its own", caged.processes),
            format!("{}, others' too", caged.processes),
        ),
        layer("rights", "reading its capabilities", no_rights, "none".to_owned(), caged.capabilities.clone()),
        layer(
            "no-new-rights",
            "reading whether programs can give it rights",
            caged.no_new_privileges,
            "they cannot".to_owned(),
            "they can".to_owned(),
        ),
        layer("user", "asking who it is", caged.uid != 0, format!("uid {}", caged.uid), "root".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_a_box_the_canary_gets_out() {
        let cage = Cage::build().unwrap();
        let free = sing(&cage.outside, &cage.hidden, &cage.socket);
        assert!(free.wrote && free.saw_hidden && free.connected, "{free:?}");
        let layers = judge(&free);
        for name in ["files", "hiding", "network"] {
            assert!(layers.iter().any(|layer| layer.name == name && !layer.present && layer.fix.is_some()), "{name}");
        }
        let caged = Song {
            read: true,
            wrote: false,
            saw_hidden: false,
            connected: false,
            capabilities: "0000000000000000".to_owned(),
            no_new_privileges: true,
            processes: 2,
            uid: 1000,
        };
        assert!(judge(&caged).iter().all(|layer| layer.present));
        for told_nothing in
            [Song { capabilities: String::new(), ..caged.clone() }, Song { read: false, ..caged.clone() }]
        {
            assert!(!judge(&told_nothing).iter().all(|layer| layer.present), "{told_nothing:?}");
        }
    }
}
