//! What the tests start as a box's init, and the small attacks they run inside of boxes.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::exit,
    reason = "a helper of tests: it prints what it finds, and starts itself again"
)]

mod calls;
mod hogs;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::{Command, Stdio};

type Outcome = Result<String, Box<dyn std::error::Error>>;

fn main() {
    sandbox::init_main_if_asked();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["open-for-writing", path] => open_for_writing(path),
        ["tcp", address] => TcpStream::connect(address).map(|_| "connected".to_owned()).map_err(Into::into),
        ["say", address, text] => say(address, text),
        ["listen", address] => std::net::TcpListener::bind(address).map(|_| "bound".to_owned()).map_err(Into::into),
        ["udp", address] => udp(address),
        ["resolve", name] => resolve(name),
        ["abstract", name] => abstract_socket(name),
        ["unix", path] => unix_socket(path),
        ["datagram-pair", path] => datagram_pair(path),
        ["limit", pid] => limit(pid),
        ["set-id", path] => set_id(path),
        ["toggle-flag", path] => toggle_flag(path),
        ["new-user-namespace"] => new_user_namespace(),
        ["calls", names @ ..] => calls(names),
        #[cfg(target_arch = "x86_64")]
        ["i386"] => Ok(calls::call_as_i386()),
        ["type"] => Ok(calls::type_for_the_user()),
        ["read-key"] => calls::read_key().map_err(Into::into),
        ["hog", what @ ..] => hogs::hog(what),
        ["keys", root] => keys(root),
        ["threads"] => threads(),
        ["stray", behaviour, mark] => stray(behaviour, mark),
        ["signal", pid] => signal(pid),
        ["hop", mark] => hop(mark, HOPS),
        ["hop", mark, left] => left.parse().map_err(Into::into).and_then(|left| hop(mark, left)),
        ["write-on", path] => write_on(path),
        ["without-namespaces"] => without_namespaces(&["probe"]),
        ["without-namespaces", rest @ ..] => without_namespaces(rest),
        ["probe"] => probe(),
        ["probe-group"] => probe_group(),
        ["probe-without", name] => probe_without(name),
        ["parent", root] => parent(root, "echo started; setsid /bin/sleep 1000 & exec /bin/sleep 1000"),
        ["parent", root, script] => parent(root, script),
        other => Err(format!("no such helper: {other:?}").into()),
    };
    match outcome {
        Ok(text) => println!("ok {text}"),
        Err(error) => {
            println!("failed {error}");
            std::process::exit(1);
        }
    }
}

fn open_for_writing(path: &str) -> Outcome {
    std::fs::OpenOptions::new().write(true).open(path)?;
    Ok("opened".to_owned())
}

fn abstract_socket(name: &str) -> Outcome {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    Ok("connected".to_owned())
}

/// Says hello and returns the answer.
fn unix_socket(path: &str) -> Outcome {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(b"hello")?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Says something, with `\\r` and `\\n` for what they stand for, and returns the answer.
fn say(address: &str, text: &str) -> Outcome {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(text.replace("\\r", "\r").replace("\\n", "\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn udp(address: &str) -> Outcome {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    socket.send_to(b"hello", address)?;
    Ok("sent".to_owned())
}

fn resolve(name: &str) -> Outcome {
    let found: Vec<_> = std::net::ToSocketAddrs::to_socket_addrs(&(name, 80))?.collect();
    Ok(format!("{found:?}"))
}

/// Sends to a socket with a path by way of a pair that was made for another purpose.
fn datagram_pair(path: &str) -> Outcome {
    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, sendto, socketpair};
    let (one, _two) = socketpair(AddressFamily::Unix, SockType::Datagram, None, SockFlag::SOCK_CLOEXEC)?;
    sendto(std::os::fd::AsRawFd::as_raw_fd(&one), b"hello", &UnixAddr::new(path)?, MsgFlags::empty())?;
    Ok("sent".to_owned())
}

/// Reads a limit of another process, which takes the right to set it.
fn limit(pid: &str) -> Outcome {
    calls::limit_of(pid.parse()?)?;
    Ok("reached".to_owned())
}

/// Turns the file's flag to be left out of backups, by a handle that can only read.
fn toggle_flag(path: &str) -> Outcome {
    let file = std::fs::File::open(path)?;
    let flags = rustix::fs::ioctl_getflags(&file)?;
    rustix::fs::ioctl_setflags(&file, flags ^ rustix::fs::IFlags::NODUMP)?;
    Ok("turned".to_owned())
}

fn set_id(path: &str) -> Outcome {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o4755))?;
    Ok("set".to_owned())
}

fn new_user_namespace() -> Outcome {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER)?;
    Ok("made".to_owned())
}

/// How often a hopper hops: for longer than any box lets it, and not for ever where a test goes wrong.
const HOPS: u32 = 2000;

/// Forks away: each process leaves its session, starts the next and ends. TERM does nothing to it.
fn hop(mark: &str, left: u32) -> Outcome {
    let Some(left) = left.checked_sub(1) else {
        return Ok("landed".to_owned());
    };
    let mut term = nix::sys::signal::SigSet::empty();
    term.add(nix::sys::signal::Signal::SIGTERM);
    term.thread_block()?;
    let _ = nix::unistd::setsid();
    Command::new("/proc/self/exe").args(["hop", mark, &left.to_string()]).spawn()?;
    std::process::exit(0);
}

/// The answer to each call, one a line.
fn calls(names: &[&str]) -> Outcome {
    let answers: Result<Vec<String>, String> =
        names.iter().map(|name| calls::call(name).map(|answer| format!("{name} {answer}"))).collect();
    Ok(answers?.join("\n"))
}

/// Threads, processes, pipes and sockets, as programs use them.
fn threads() -> Outcome {
    let threads: Vec<_> = (0..8).map(|n| std::thread::spawn(move || n * 2)).collect();
    let sum: i32 = threads.into_iter().map(|thread| thread.join().unwrap_or(-1000)).sum();
    let (mut one, mut two) = UnixStream::pair()?;
    one.write_all(b"x")?;
    two.read_exact(&mut [0])?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    client.write_all(b"y")?;
    listener.accept()?.0.read_exact(&mut [0])?;
    let output = Command::new("/bin/echo").arg("child").output()?;
    Ok(format!("{sum} {}", String::from_utf8(output.stdout)?.trim()))
}

fn signal(pid: &str) -> Outcome {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.parse()?), None)?;
    Ok("signalled".to_owned())
}

/// Stays, in one of the ways that leftovers of agents do. TERM does nothing to any of them.
fn stray(behaviour: &str, mark: &str) -> Outcome {
    use nix::sys::signal::Signal;
    let mut polite = nix::sys::signal::SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        polite.add(signal);
    }
    polite.thread_block()?;
    let again = |behaviour: &str| {
        let mut command = Command::new("/proc/self/exe");
        command.args(["stray", behaviour, mark]);
        command
    };
    match behaviour {
        "deaf" => println!("up"),
        "session" => {
            nix::unistd::setsid()?;
            println!("up");
        }
        // The one in the middle ends at once.
        "daemon" => {
            again("middle").spawn()?.wait()?;
        }
        "middle" => {
            nix::unistd::setsid()?;
            again("deaf").spawn()?;
            std::process::exit(0);
        }
        "hopper" => {
            for _ in 0..3 {
                Command::new("/proc/self/exe").args(["hop", mark]).spawn()?;
            }
            println!("up");
        }
        "stopped" => {
            println!("up");
            nix::sys::signal::raise(Signal::SIGSTOP)?;
        }
        // Ends itself; what it started holds the output.
        "holder" => {
            again("deaf").stdin(Stdio::null()).spawn()?;
            again("session").stdin(Stdio::null()).spawn()?;
        }
        other => return Err(format!("no such behaviour: {other}").into()),
    }
    loop {
        nix::unistd::pause();
    }
}

/// Writes a byte at a time, for ever.
fn write_on(path: &str) -> Outcome {
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    loop {
        file.write_all(b"x")?;
    }
}

/// Goes where no user namespace can be made, and does something there.
fn without_namespaces(what: &[&str]) -> Outcome {
    use std::os::unix::process::CommandExt as _;
    let (user, group) = (nix::unistd::getuid(), nix::unistd::getgid());
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER)?;
    let set = |path: &str, text: String| -> std::io::Result<()> {
        std::fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
    };
    set("/proc/self/setgroups", "deny".to_owned())?;
    set("/proc/self/uid_map", format!("{user} {user} 1"))?;
    set("/proc/self/gid_map", format!("{group} {group} 1"))?;
    set("/proc/sys/user/max_user_namespaces", "0".to_owned())?;
    Err(Command::new("/proc/self/exe").args(what).exec().into())
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn probe() -> Outcome {
    let host = runtime()?.block_on(sandbox::Host::probe(&sandbox::Launcher::default()));
    Ok(format!("{:?} landlock {} seccomp {}", host.obstacle, host.landlock.is_some(), host.seccomp))
}

fn probe_group() -> Outcome {
    let host = runtime()?.block_on(sandbox::Host::probe(&sandbox::Launcher::default()));
    Ok(format!("{:?}", host.kill_group))
}

/// Goes where the kernel refuses one call, and probes from there.
fn probe_without(name: &str) -> Outcome {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let (call, errno) = match name {
        "landlock" => (nix::libc::SYS_landlock_create_ruleset, nix::libc::ENOSYS),
        "landlock-half" => (nix::libc::SYS_landlock_restrict_self, nix::libc::EPERM),
        "seccomp" => (nix::libc::SYS_seccomp, nix::libc::ENOSYS),
        other => return Err(format!("no such call: {other}").into()),
    };
    let (allow, deny) = (SeccompAction::Allow, SeccompAction::Errno(errno.unsigned_abs()));
    let rules = [(call, Vec::new())].into_iter().collect();
    let program: BpfProgram = SeccompFilter::new(rules, allow, deny, std::env::consts::ARCH.try_into()?)?.try_into()?;
    seccompiler::apply_filter(&program)?;
    let output = Command::new("/proc/self/exe").arg("probe").stderr(Stdio::inherit()).output()?;
    Ok(String::from_utf8(output.stdout)?)
}

/// The tightest policy, with this program at `/run/helper`.
fn policy(root: &str) -> std::io::Result<sandbox::Policy> {
    let root = std::path::PathBuf::from(root);
    let home = sandbox::PrivateDir { source: root.join("home"), target: root.join("user") };
    let own = std::fs::read_link("/proc/self/exe")?;
    Ok(sandbox::Policy::new(root.join("work"), home, root.join("tmp"))
        .may_lack(sandbox::Layer::Namespaces)
        .expose(sandbox::Expose::read_only(own).at("/run/helper")))
}

/// Puts a key into the session, and tells what a child reads of it: as it is, in a box without a filter, and in a box.
fn keys(root: &str) -> Outcome {
    use sandbox::{Enforcement, Guard, Host, Launcher, Sandbox, Stdio as To};
    calls::make_key()?;
    let plain = Command::new("/proc/self/exe").arg("read-key").output()?;
    let mut said = String::from_utf8(plain.stdout)?;
    let policy = policy(root)?;
    runtime()?.block_on(async {
        let launcher = Launcher::default();
        let whole = Enforcement::plan(&policy, &Host::probe(&launcher).await)?;
        let unfiltered = whole.clone().without_guard(|guard| matches!(guard, Guard::Seccomp { .. }));
        for plan in [unfiltered, whole] {
            let sandbox = Sandbox::start(&plan, &launcher).await?;
            let command = sandbox::Command::new(["/run/helper", "read-key"]).stdout(To::Piped);
            let mut child = sandbox.spawn(command).await?;
            let mut out = child.stdout.take().ok_or("no output")?;
            child.wait().await?;
            tokio::io::AsyncReadExt::read_to_string(&mut out, &mut said).await?;
            sandbox.shutdown().await?;
        }
        Ok(said)
    })
}

/// Starts a box whose command shares this process's output, and stays until its input ends.
fn parent(root: &str, script: &str) -> Outcome {
    use sandbox::{Enforcement, Host, Launcher, Sandbox, Stdio as To};
    let policy = policy(root)?;
    runtime()?.block_on(async {
        let launcher = Launcher::default();
        let plan = Enforcement::plan(&policy, &Host::probe(&launcher).await)?;
        let sandbox = Sandbox::start(&plan, &launcher).await?;
        // One that outlives us must not keep the box alive with something it inherited.
        let mut bystander = Command::new("/bin/sleep");
        bystander.arg("60").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let stdout = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3)?;
        let command = sandbox::Command::new(["/bin/sh", "-c", script]).env("PATH", "/usr/bin:/bin");
        let mut child = sandbox.spawn(command.stdout(To::Fd(stdout))).await?;
        // Until the box ends without us; the tests kill this process otherwise.
        let end = child.wait().await;
        sandbox.ended().await;
        Ok(format!("{end:?}"))
    })
}
