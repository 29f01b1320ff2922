//! Runs one command confined to one directory: `confine [--net] [--nested] [--show] DIR COMMAND [ARGUMENT]...`
//!
//! The command can write in DIR, in a home and a `/tmp` that are new and vanish, and nowhere else. `--net` gives it the
//! host's network, `--nested` lets it make namespaces, `--show` tells how it is confined.
//!
//! ```sh
//! cargo run -p sandbox --example confine -- --show . sh -c 'id; touch /etc/x; touch here; kill -9 -1'
//! ```
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use sandbox::{Command, Enforcement, Host, Launcher, Nesting, Network, Policy, PrivateDir, Sandbox, Status, Stdio};
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What the command line asks for.
struct Asked {
    network: bool,
    nested: bool,
    show: bool,
    dir: PathBuf,
    argv: Vec<OsString>,
}

fn main() {
    // Before anything else: this very program is also the init of its boxes.
    sandbox::init_main_if_asked();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => arguments().and_then(|asked| runtime.block_on(confine(&asked))),
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(code) => std::process::exit(code),
        Err(error) => {
            eprintln!("confine: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            std::process::exit(125);
        }
    }
}

fn arguments() -> Result<Asked, Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1).peekable();
    let (mut network, mut nested, mut show) = (false, false, false);
    while let Some(word) = words.next_if(|word| word.to_string_lossy().starts_with("--")) {
        match word.to_str() {
            Some("--net") => network = true,
            Some("--nested") => nested = true,
            Some("--show") => show = true,
            _ => return Err(format!("no such option: {}", word.display()).into()),
        }
    }
    // Paths of a policy are absolute and without links: mounts refuse to walk through one.
    let dir = PathBuf::from(words.next().ok_or("name a directory and a command")?).canonicalize()?;
    let argv: Vec<OsString> = words.collect();
    if argv.is_empty() {
        return Err("name a command".into());
    }
    Ok(Asked { network, nested, show, dir, argv })
}

async fn confine(asked: &Asked) -> Result<i32, Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let scratch = scratch.path().canonicalize()?;
    let (home, tmp) = (scratch.join("home"), scratch.join("tmp"));
    for folder in [&home, &tmp] {
        std::fs::create_dir(folder)?;
    }
    let user = std::env::var_os("HOME").ok_or("HOME is not set")?;
    let target = Path::new(&user).canonicalize()?;
    let policy = Policy::new(&asked.dir, PrivateDir { source: home, target }, tmp)
        .network(if asked.network { Network::Host } else { Network::None })
        .nesting(if asked.nested { Nesting::Allowed } else { Nesting::Denied });

    let launcher = Launcher::default();
    let host = Host::probe(&launcher).await;
    for shortcoming in host.shortcomings() {
        eprintln!("confine: {}; {}", shortcoming.cause, shortcoming.fix);
    }
    let enforcement = Enforcement::plan(&policy, &host)?;
    if asked.show {
        print!("{enforcement}");
        println!("in force: {}", enforcement.layers().iter().map(|layer| layer.name()).collect::<Vec<_>>().join(", "));
    }

    let sandbox = Sandbox::start(&enforcement, &launcher).await?;
    let mut command = Command::new(asked.argv.iter())
        .stdout(Stdio::Fd(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?))
        .stderr(Stdio::Fd(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?))
        .env("TMPDIR", "/tmp")
        .env("HOME", &user);
    for name in ["PATH", "LANG", "TERM"] {
        if let Some(value) = std::env::var_os(name) {
            command = command.env(name, value);
        }
    }
    let exit = sandbox.spawn(command).await?.wait().await?;
    sandbox.shutdown().await?;
    if exit.leftovers > 0 {
        eprintln!("confine: {} processes were left and have been killed", exit.leftovers);
    }
    Ok(match exit.status {
        Status::Exited(code) => code,
        Status::Signaled(signal) => 128 + signal,
    })
}
