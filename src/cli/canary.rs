//! The canary of `doctor`: a program that tries to break out, once outside, where it must succeed (else it proves nothing),
//! and once in a real box, where it must fail.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::{SocketAddr as NetAddress, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::{Access, Command, Enforcement, Expose, Host, Launcher, Policy, PrivateDir, Sandbox, Stdio};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;

use super::exit::Exit;
use super::printer::{Printer, Rules};
use crate::report::doctor::LayerCheck;
use crate::store::Scratch;
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
    called: bool,
    /// Calls of the kernel's that were let through.
    calls: Vec<String>,
    capabilities: String,
    no_new_privileges: bool,
    processes: usize,
    uid: u32,
}

/// What it tries itself on.
struct Cage {
    _folder: Scratch,
    work: PathBuf,
    home: PathBuf,
    tmp: PathBuf,
    outside: PathBuf,
    hidden: PathBuf,
    socket: String,
    _listener: UnixListener,
    tcp: TcpListener,
    udp: UdpSocket,
}

impl Cage {
    fn build() -> std::io::Result<Self> {
        let folder = Scratch::of_user("doctor").map_err(std::io::Error::other)?;
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
        let (tcp, udp) = (TcpListener::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        udp.set_nonblocking(true)?;
        Ok(Self { _folder: folder, work, home, tmp, outside, hidden, socket, _listener: listener, tcp, udp })
    }

    /// What the canary goes for, in the order of its arguments.
    fn prey(&self) -> std::io::Result<Prey> {
        let (tcp, udp) = (self.tcp.local_addr()?, self.udp.local_addr()?);
        Ok(Prey { outside: self.outside.clone(), hidden: self.hidden.clone(), socket: self.socket.clone(), tcp, udp })
    }

    /// Whether anything was sent to the host since this was asked last.
    fn was_sent_to(&self) -> bool {
        self.udp.recv(&mut [0; 8]).is_ok()
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

/// What the canary goes for.
struct Prey {
    outside: PathBuf,
    hidden: PathBuf,
    socket: String,
    tcp: NetAddress,
    udp: NetAddress,
}

impl Prey {
    fn to_arguments(&self) -> [OsString; 5] {
        let (tcp, udp) = (self.tcp.to_string(), self.udp.to_string());
        [self.outside.clone().into(), self.hidden.clone().into(), self.socket.clone().into(), tcp.into(), udp.into()]
    }

    fn of_arguments(arguments: &[OsString]) -> Option<Self> {
        let [outside, hidden, socket, tcp, udp] = arguments else { return None };
        let address = |text: &OsString| text.to_str()?.parse().ok();
        let (outside, hidden, socket) = (outside.into(), hidden.into(), socket.to_string_lossy().into_owned());
        Some(Self { outside, hidden, socket, tcp: address(tcp)?, udp: address(udp)? })
    }
}

/// The file in a folder that the canary goes for.
fn victim(folder: &Path) -> PathBuf {
    folder.join("victim")
}

/// How long a connection may take.
const CONNECTION: Duration = Duration::from_secs(2);

/// The canary itself, in this process.
fn sing(prey: &Prey) -> Song {
    let written = OpenOptions::new().append(true).open(victim(&prey.outside)).and_then(|mut file| file.write_all(b"x"));
    let connected = SocketAddr::from_abstract_name(&prey.socket).and_then(|address| UnixStream::connect_addr(&address));
    // Whether anything arrives is seen at the other end.
    drop(UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.send_to(b"x", prey.udp)));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or_default();
    let listed = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = listed.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok()).count();
    let let_through = sandbox::seldom_calls().into_iter().filter(|(_, denied)| !denied);
    Song {
        read: std::fs::read(victim(&prey.outside)).is_ok(),
        wrote: written.is_ok(),
        saw_hidden: victim(&prey.hidden).exists(),
        connected: connected.is_ok(),
        called: TcpStream::connect_timeout(&prey.tcp, CONNECTION).is_ok(),
        calls: let_through.map(|(name, _)| name.to_owned()).collect(),
        capabilities: field("CapEff:").to_owned(),
        no_new_privileges: field("NoNewPrivs:") == "1",
        processes,
        uid: rustix::process::geteuid().as_raw(),
    }
}

/// This program as the canary, in a box.
pub(super) fn inside(args: &[OsString]) -> Exit {
    let Some(prey) = Prey::of_arguments(args) else { return Exit::Usage };
    let song = sing(&prey);
    let mut printer = Printer::of_this_process(Rules { json: true, ..Rules::default() });
    printer.json(&song);
    Exit::Complete
}

/// Tries every layer. An error says why it could not be tried.
pub(super) async fn probe(host: &Host, home: &Path, program: &Path) -> Result<Vec<LayerCheck>, String> {
    let cage = Cage::build().map_err(|error| format!("no place to try a box in: {error}"))?;
    let prey = cage.prey().map_err(|error| format!("no place to try a box in: {error}"))?;
    let free = sing(&prey);
    if !(free.wrote && free.saw_hidden && free.connected && free.called && cage.was_sent_to()) {
        return Err("what a box must refuse fails outside of one too, so nothing would be proven".to_owned());
    }
    let tried = tokio::time::timeout(PATIENCE, try_in_a_box(host, &cage, &prey, home, program)).await;
    let mut seen = tried.map_err(|_| format!("a box did not answer within {} s", PATIENCE.as_secs()))??;
    seen.sent = cage.was_sent_to();
    Ok(judge(&seen))
}

/// What came of a box.
#[derive(Debug, Clone)]
struct Seen {
    song: Song,
    /// Whether something was sent out of it.
    sent: bool,
    /// How a program that does nothing ended.
    ran: bool,
    /// What a command left, and whether it is alive.
    left: u32,
    alive: bool,
}

async fn try_in_a_box(host: &Host, cage: &Cage, prey: &Prey, home: &Path, program: &Path) -> Result<Seen, String> {
    let enforcement = Enforcement::plan(&cage.policy(home, program), host).map_err(|refusal| refusal.to_string())?;
    let boxed = Sandbox::start(&enforcement, &Launcher::new(program)).await.map_err(told)?;
    let mut child = boxed.spawn(Command::new(["/bin/sh", "-c", "exec true"])).await.map_err(told)?;
    let ran = child.wait().await.map_err(told)?.status == sandbox::Status::Exited(0);
    let argv = [seen::PROGRAM.into(), ARGUMENT.into()].into_iter().chain(prey.to_arguments());
    let mut child = boxed.spawn(Command::new(argv).stdout(Stdio::Piped)).await.map_err(told)?;
    child.wait().await.map_err(told)?;
    let mut said = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(1 << 16).read_to_end(&mut said).await.map_err(told)?;
    }
    let song = serde_json::from_slice(&said);
    let song = song.map_err(|error| format!("the canary said nothing that makes sense: {error}"))?;
    // A grandchild whose parent is gone; its command line names this cage, so that it is known outside.
    let mark = format!("canary-of-{}", cage.socket.replace('/', "-"));
    let leave = format!("( ( sleep 300; : {mark} ) & ); exit 0");
    let mut child = boxed.spawn(Command::new(["/bin/sh", "-c", &leave])).await.map_err(told)?;
    let left = child.wait().await.map_err(told)?.leftovers;
    let alive = is_alive(&mark);
    boxed.shutdown().await.map_err(told)?;
    Ok(Seen { song, sent: false, ran, left, alive })
}

/// Whether a process of this machine has `mark` in its command line.
fn is_alive(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(mark))
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

/// What came of a box, as layers.
fn judge(seen: &Seen) -> Vec<LayerCheck> {
    let caged = &seen.song;
    let layer = |name, probed, held: bool, refused: String, managed: String| LayerCheck {
        name,
        present: held,
        probed,
        found: if held { refused } else { managed },
        fix: (!held).then(|| "do not run agents on this machine, and tell the makers of this program".to_owned()),
    };
    let no_rights = !caged.capabilities.is_empty() && caged.capabilities.bytes().all(|digit| digit == b'0');
    vec![
        layer("box", "running `true` in a box", seen.ran, "it ran".to_owned(), "it did not run".to_owned()),
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
            "tcp",
            "connecting to a port of the host's loopback",
            !caged.called,
            "refused".to_owned(),
            "it could".to_owned(),
        ),
        layer(
            "udp",
            "sending to a port of the host's loopback",
            !seen.sent,
            "nothing came".to_owned(),
            "it arrived".to_owned(),
        ),
        layer(
            "calls",
            "calling ptrace, io_uring and keyctl",
            caged.calls.is_empty(),
            "refused".to_owned(),
            format!("let through: {}", caged.calls.join(", ")),
        ),
        layer(
            "leftovers",
            "leaving a process behind whose parent is gone",
            seen.left > 0 && !seen.alive,
            format!("{} killed", seen.left),
            "it lives, or was not seen".to_owned(),
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
        let free = sing(&cage.prey().unwrap());
        assert!(free.wrote && free.saw_hidden && free.connected && free.called && cage.was_sent_to(), "{free:?}");
        let loose = Seen { song: free, sent: true, ran: false, left: 0, alive: true };
        for layer in judge(&loose).iter().filter(|layer| !matches!(layer.name, "no-new-rights" | "calls")) {
            // Who runs the tests may be nobody in particular, and see few processes.
            let of_the_user = matches!(layer.name, "rights" | "user" | "processes");
            assert!(of_the_user || (!layer.present && layer.fix.is_some()), "{}", layer.name);
        }
    }

    type Change = fn(&mut Seen);

    #[test]
    fn each_thing_that_does_not_hold_is_a_layer_that_is_not_there() {
        let song = Song {
            read: true,
            wrote: false,
            saw_hidden: false,
            connected: false,
            called: false,
            calls: Vec::new(),
            capabilities: "0000000000000000".to_owned(),
            no_new_privileges: true,
            processes: 2,
            uid: 1000,
        };
        let held = Seen { song, sent: false, ran: true, left: 1, alive: false };
        assert!(judge(&held).iter().all(|layer| layer.present));
        let changes: [(&str, Change); 15] = [
            ("box", |it| it.ran = false),
            ("files", |it| it.song.wrote = true),
            ("files", |it| it.song.read = false),
            ("hiding", |it| it.song.saw_hidden = true),
            ("network", |it| it.song.connected = true),
            ("tcp", |it| it.song.called = true),
            ("udp", |it| it.sent = true),
            ("calls", |it| it.song.calls.push("ptrace".to_owned())),
            ("leftovers", |it| it.left = 0),
            ("leftovers", |it| it.alive = true),
            ("processes", |it| it.song.processes = 50),
            ("rights", |it| it.song.capabilities = "1".to_owned()),
            ("rights", |it| it.song.capabilities.clear()),
            ("no-new-rights", |it| it.song.no_new_privileges = false),
            ("user", |it| it.song.uid = 0),
        ];
        for (name, change) in changes {
            let mut seen = held.clone();
            change(&mut seen);
            let missing: Vec<_> = judge(&seen).into_iter().filter(|layer| !layer.present).map(|it| it.name).collect();
            assert_eq!(missing, [name]);
        }
    }
}
