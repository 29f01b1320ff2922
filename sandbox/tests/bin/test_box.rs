//! What the tests start as a box's init, and the small attacks they run inside of boxes.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::exit,
    reason = "a helper of tests: it prints what it finds, and starts itself again"
)]

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
        ["abstract", name] => abstract_socket(name),
        ["unix", path] => unix_socket(path),
        ["new-user-namespace"] => new_user_namespace(),
        ["hop"] => hop(),
        ["write-on", path] => write_on(path),
        ["without-namespaces"] => without_namespaces(),
        ["probe"] => probe(),
        ["parent", root] => parent(root),
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

fn new_user_namespace() -> Outcome {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER)?;
    Ok("made".to_owned())
}

/// Forks away for ever: each process leaves its session, starts the next and ends. TERM does nothing to it.
fn hop() -> Outcome {
    let mut term = nix::sys::signal::SigSet::empty();
    term.add(nix::sys::signal::Signal::SIGTERM);
    term.thread_block()?;
    let _ = nix::unistd::setsid();
    Command::new("/proc/self/exe").arg("hop").spawn()?;
    std::process::exit(0);
}

/// Writes a byte at a time, for ever.
fn write_on(path: &str) -> Outcome {
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    loop {
        file.write_all(b"x")?;
    }
}

/// Goes where no user namespace can be made, and probes from there.
fn without_namespaces() -> Outcome {
    let (user, group) = (nix::unistd::getuid(), nix::unistd::getgid());
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER)?;
    let set = |path: &str, text: String| -> std::io::Result<()> {
        std::fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
    };
    set("/proc/self/setgroups", "deny".to_owned())?;
    set("/proc/self/uid_map", format!("{user} {user} 1"))?;
    set("/proc/self/gid_map", format!("{group} {group} 1"))?;
    set("/proc/sys/user/max_user_namespaces", "0".to_owned())?;
    let output = Command::new("/proc/self/exe").arg("probe").stderr(Stdio::inherit()).output()?;
    Ok(String::from_utf8(output.stdout)?)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn probe() -> Outcome {
    let host = runtime()?.block_on(sandbox::Host::probe(&sandbox::Launcher::default()));
    Ok(format!("{:?}", host.obstacle))
}

/// Starts a box whose command shares this process's output, and stays until its input ends.
fn parent(root: &str) -> Outcome {
    use sandbox::{Enforcement, Host, Launcher, Policy, PrivateDir, Sandbox, Stdio as To};
    let root = std::path::PathBuf::from(root);
    let home = PrivateDir { source: root.join("home"), target: root.join("user") };
    let policy = Policy::new(root.join("work"), home, root.join("tmp"));
    runtime()?.block_on(async {
        let launcher = Launcher::default();
        let plan = Enforcement::plan(&policy, &Host::probe(&launcher).await)?;
        let sandbox = Sandbox::start(&plan, &launcher).await?;
        // One that outlives us must not keep the box alive with something it inherited.
        let mut bystander = Command::new("/bin/sleep");
        bystander.arg("60").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let stdout = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3)?;
        let command =
            sandbox::Command::new(["/bin/sh", "-c", "echo started; setsid /bin/sleep 1000 & exec /bin/sleep 1000"]);
        let mut child = sandbox.spawn(command.stdout(To::Fd(stdout))).await?;
        // Until the box ends without us; the tests kill this process otherwise.
        let end = child.wait().await;
        sandbox.ended().await;
        Ok(format!("{end:?}"))
    })
}
