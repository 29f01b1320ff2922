//! What agents and verifiers reach by way of a list, in whole runs: a server on loopback, listed literally, and nothing else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::world::{Ran, World};

const SECRET: &str = "s3cret-which-nobody-inside-may-see";

/// A server that answers every request with its name, and tells the heads of what it was asked.
struct Server {
    port: u16,
    heads: Receiver<String>,
}

impl Server {
    fn new(name: &'static str) -> Self {
        Self::speaking(name, |stream| Some(Box::new(stream)))
    }

    /// One that speaks TLS by an authority whose certificate it writes to `authority`.
    fn secure(name: &'static str, authority: &Path) -> Self {
        let mut of_authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
        of_authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = rcgen::CertifiedIssuer::self_signed(of_authority, rcgen::KeyPair::generate().unwrap()).unwrap();
        std::fs::write(authority, issuer.pem()).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let own =
            rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let config = Arc::new(config.with_single_cert(vec![own.der().clone()], key).unwrap());
        Self::speaking(name, move |stream| {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            Some(Box::new(StreamOwned::new(connection, stream)))
        })
    }

    fn speaking(name: &'static str, wrap: impl Fn(TcpStream) -> Option<Box<dyn Talk>> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, heads) = channel();
        // It ends with the process of the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(mut stream) = wrap(stream) else { continue };
                let mut head = String::new();
                let mut reader = BufReader::new(&mut stream);
                while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|read| read > 0) {}
                // Whoever only looks whether something listens says nothing.
                if head.is_empty() || tell.send(head).is_err() {
                    continue;
                }
                let length = name.len();
                drop(
                    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{name}")
                        .and_then(|()| stream.flush()),
                );
            }
        });
        Self { port, heads }
    }

    fn asked(&self) -> Vec<String> {
        self.heads.try_iter().collect()
    }
}

trait Talk: Read + Write {}
impl<T: Read + Write> Talk for T {}

/// A world with a client: `ask URL [HEADER…]` prints what the proxy that the variables name answers, `direct HOST PORT` what
/// comes without it.
fn world() -> World {
    assert!(Path::new("/bin/bash").exists(), "these tests need `bash`, for its sockets");
    let world = World::new();
    let bash = |name: &str, text: &str| world.script(name, &format!("exec /bin/bash -c '{text}' {name} \"$@\"\n"));
    bash(
        "ask",
        "proxy=${HTTP_PROXY#http://}; url=$1; shift; \
         exec 3<>/dev/tcp/${proxy%:*}/${proxy##*:} || exit 1; \
         { printf \"GET %s HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\" \"$url\"; \
         for field; do printf \"%s\\r\\n\" \"$field\"; done; printf \"\\r\\n\"; } >&3; cat <&3",
    );
    bash("direct", "exec 3<>/dev/tcp/$1/$2 && echo connected");
    world
}

fn plan(world: &World, text: &str) {
    std::fs::write(world.repo.join("../plan.toml"), text).unwrap();
}

fn run(world: &World) -> Ran {
    world.sandbox(&["run", "../plan.toml"])
}

/// What the agent printed.
fn printed(world: &World) -> String {
    world.sandbox(&["logs", "a"]).expect(0).stdout
}

#[test]
fn an_agent_reaches_what_is_listed_and_nothing_else() {
    let world = world();
    let (listed, other) = (Server::new("the listed one"), Server::new("the other one"));
    let script = format!(
        "ask http://127.0.0.1:{0}/path?query; echo; for i in 1 2 3; do ask http://127.0.0.1:{1}/path?query; done; \
         ask http://metadata.example/; direct 127.0.0.1 {0} || echo no direct way; env | sort; echo y > docs/x.txt",
        listed.port, other.port
    );

    // Baseline: with the host's network all is reached, without one nothing is.
    let network = |network: &str| {
        format!(
            "[sandbox]\nnetwork = {network}\n[agents.a]\nowns = ['docs/**']\nrun = ['sh', '-c', {:?}]\n",
            format!("direct 127.0.0.1 {} || echo no direct way; echo $RANDOM$HTTP_PROXY. > docs/x.txt", other.port)
        )
    };
    plan(&world, &network("'host'"));
    let ran = run(&world).expect(1);
    assert!(ran.stderr.contains("agent `a` has the host's whole network"), "{}", ran.stderr);
    assert!(printed(&world).contains("connected"));
    let host = std::fs::read_to_string(world.store().join("runs/plan-1/host.json")).unwrap();
    assert!(host.contains("has the host's whole network"), "{host}");
    plan(&world, &network("'none'"));
    let ran = run(&world).expect(1);
    assert!(!ran.stderr.contains("whole network"), "{}", ran.stderr);
    assert!(printed(&world).contains("no direct way"));

    plan(
        &world,
        &format!(
            "[sandbox]\nnetwork = {{ allow = ['127.0.0.1:{}'] }}\n[agents.a]\nowns = ['docs/**']\nrun = ['sh', '-c', {script:?}]\n",
            listed.port
        ),
    );
    run(&world).expect(1);
    let printed = printed(&world);
    assert!(printed.contains("the listed one") && !printed.contains("the other one"), "{printed}");
    assert!(printed.contains("403 Forbidden") && printed.contains("x-proxy-error: blocked-by-sandbox"), "{printed}");
    let advice = format!(
        "`127.0.0.1:{0}` was refused: not in the allow-list; add \"127.0.0.1:{0}\" to `sandbox.network.allow`",
        other.port
    );
    assert!(printed.contains(&advice), "{printed}");
    assert!(printed.contains("no direct way"), "{printed}");
    for variable in ["HTTP_PROXY", "https_proxy", "ALL_PROXY", "CARGO_HTTP_PROXY", "npm_config_proxy", "PIP_PROXY"] {
        assert!(printed.contains(&format!("\n{variable}=http://127.0.0.1:3128\n")), "{variable}: {printed}");
    }
    assert_eq!((listed.asked().len(), other.asked().len()), (1, 0));

    // What is certain of it stands with the attempt.
    let inspected = world.sandbox(&["inspect", "a"]).expect(0).stdout;
    let hint = format!("hint: network: `127.0.0.1:{}` was refused 3 times: not in the allow-list; add", other.port);
    assert!(inspected.contains(&hint), "{inspected}");
    assert!(inspected.contains("`metadata.example:80` was refused once"), "{inspected}");

    // And each request in the record, without paths and queries.
    let record = world.sandbox(&["inspect", "a", "--network", "--json"]).expect(0).json();
    let visits = record["data"]["visits"].as_array().unwrap();
    let decisions: Vec<_> = visits.iter().map(|visit| visit["decision"].as_str().unwrap()).collect();
    assert_eq!(decisions, ["allowed", "refused", "refused", "refused", "refused"], "{record}");
    assert_eq!(visits[0]["address"], format!("127.0.0.1:{}", listed.port));
    assert_eq!(visits[0]["host"], "127.0.0.1");
    assert_eq!(visits[0]["attempt"], 1);
    assert!(visits[0]["bytesUp"].as_u64().unwrap() > 0 && visits[0]["bytesDown"].as_u64().unwrap() > 0, "{record}");
    assert_eq!(record["data"]["leftOut"], 0);
    let file = std::fs::read_to_string(world.store().join("runs/plan-3/agents/a/network.jsonl")).unwrap();
    assert!(file.lines().count() == 5 && !file.contains("path") && !file.contains("query"), "{file}");
    let text = world.sandbox(&["inspect", "a", "--network"]).expect(0).stdout;
    assert!(text.contains("not in the allow-list") && text.contains("metadata.example:80"), "{text}");
}

#[test]
fn deny_wins_and_each_agent_has_its_own() {
    let world = world();
    let server = Server::new("reached");
    let ask = |agent: &str| format!("ask http://127.0.0.1:{}/; echo x > docs/{agent}.txt", server.port);
    plan(
        &world,
        &format!(
            "[sandbox]\nnetwork = {{ allow = ['127.0.0.1:*'], deny = ['127.0.0.1:{port}'] }}\n\
             [agents.a]\nowns = ['docs/a.txt']\nrun = ['sh', '-c', {a:?}]\n\
             [agents.b]\nowns = ['docs/b.txt']\nrun = ['sh', '-c', {b:?}]\n\
             sandbox.network = {{ allow = ['127.0.0.1:{port}'] }}\n\
             [agents.c]\nowns = ['docs/c.txt']\nrun = ['sh', '-c', {c:?}]\nsandbox.network = 'none'\n",
            port = server.port,
            a = ask("a"),
            b = ask("b"),
            c = format!("{} 2>&1", ask("c")),
        ),
    );
    run(&world).expect(1);
    let printed = |agent: &str| world.sandbox(&["logs", agent]).expect(0).stdout;
    assert!(printed("a").contains("in the deny-list"), "{}", printed("a"));
    assert!(printed("b").ends_with("reached"), "{}", printed("b"));
    assert!(!printed("c").contains("HTTP/1.1"), "{}", printed("c"));
    let asked = world.sandbox(&["inspect", "c", "--network"]).expect(0).stdout;
    assert_eq!(asked, "it asked nothing of the network\n");
}

#[test]
fn exec_takes_hosts_one_by_one() {
    let world = world();
    let server = Server::new("reached");
    let listed = format!("127.0.0.1:{}", server.port);
    let ask = format!("ask http://{listed}/; ask http://other.example/; echo x > x.txt");
    world
        .sandbox(&[
            "exec",
            "--name",
            "a",
            "--allow-host",
            "one.example:443",
            "--allow-host",
            &listed,
            "--",
            "sh",
            "-c",
            &ask,
        ])
        .expect(1);
    let printed = printed(&world);
    assert!(printed.contains("reached") && printed.contains("--allow-host"), "{printed}");
    let ran = world.sandbox(&["exec", "--name", "b", "--allow-host", "http://x", "--", "true"]).expect(3);
    assert!(ran.stderr.contains("a scheme"), "{}", ran.stderr);
    world.sandbox(&["exec", "--name", "b", "--allow-host", "x:1", "--network", "host", "--", "true"]).expect(2);
}

#[test]
fn a_verifier_has_what_is_listed_for_it_alone() {
    let world = world();
    let server = Server::new("reached");
    let verify =
        format!("ask http://127.0.0.1:{0}/ | grep -q reached && ask http://other.example/ | grep -q 403", server.port);
    let agent = "[agents.a]\nowns = ['docs/**']\nrun = ['sh', '-c', 'echo y > docs/x.txt']\n";
    plan(
        &world,
        &format!(
            "[verify]\ncommand = ['sh', '-c', {verify:?}]\nnetwork = {{ allow = ['127.0.0.1:{}'] }}\n{agent}",
            server.port
        ),
    );
    run(&world).expect(0);
    assert_eq!(server.asked().len(), 1);
    let file = std::fs::read_to_string(world.store().join("runs/plan-1/verify/network.jsonl")).unwrap();
    assert_eq!(file.lines().count(), 2, "{file}");
    // One that fails says what it was kept from.
    plan(
        &world,
        &format!(
            "[verify]\ncommand = ['sh', '-c', 'ask http://other.example/ | grep -q 200']\n\
             network = {{ allow = ['127.0.0.1:{}'] }}\n{agent}",
            server.port
        ),
    );
    let ran = run(&world).expect(6);
    let says = "network: `other.example:80` was refused once: not in the allow-list; add \"other.example:80\" to \
                `verify.network.allow`";
    assert!(ran.stderr.contains(says), "{}", ran.stderr);
    // What the agents may reach is not the verifier's.
    plan(
        &world,
        &format!(
            "[sandbox]\nnetwork = {{ allow = ['127.0.0.1:{}'] }}\n[verify]\ncommand = ['sh', '-c', {verify:?}]\n{agent}",
            server.port
        ),
    );
    run(&world).expect(6);
    assert_eq!(server.asked().len(), 0);
}

/// Everything below a folder that holds these bytes.
fn holders(folder: &Path, bytes: &[u8], found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            holders(&path, bytes, found);
        } else if kind.is_file() {
            let content = std::fs::read(&path).unwrap();
            if content.windows(bytes.len()).any(|part| part == bytes) {
                found.push(path.display().to_string());
            }
        }
    }
}

#[test]
fn a_secret_goes_to_its_host_and_is_seen_by_nobody_inside() {
    let mut world = world();
    let authority = world.home().join("authority.pem");
    let server = Server::secure("thank you", &authority);
    world.set("SSL_CERT_FILE", &authority);
    world.set("THE_KEY", SECRET);
    let port = server.port;
    let script = format!(
        "ask http://127.0.0.1:{port}/by-proxy \"Authorization: Bearer $THE_KEY\" \"x-api-key: $THE_KEY\"; echo; \
         ask /${{THE_URL#http://*/}}/by-base-url \"x-api-key: $THE_KEY\"; echo; echo $THE_URL; \
         env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; echo y > docs/x.txt; true"
    );
    plan(
        &world,
        &format!(
            "[sandbox]\n[sandbox.network.inject.\"127.0.0.1:{port}\"]\nheader = 'X-Api-Key'\nenv = 'THE_KEY'\n\
             prefix = 'Key '\nbase_url = 'THE_URL'\n\
             [agents.a]\nowns = ['docs/**']\nrun = ['sh', '-c', {script:?}]\n"
        ),
    );
    let ran = run(&world).expect(1);
    let printed = printed(&world);
    assert_eq!(printed.matches("thank you").count(), 2, "{printed}");
    assert!(printed.contains("THE_KEY=injected-by-sandbox"), "{printed}");
    assert!(printed.contains(&format!("http://127.0.0.1:3128/127.0.0.1:{port}")), "{printed}");

    // The server has it, twice, and nothing of what the client sent in its place.
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    for (head, path) in asked.iter().zip(["/by-proxy", "/by-base-url"]) {
        assert!(head.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{head}");
        assert!(head.contains(&format!("x-api-key: Key {SECRET}\r\n")), "{head}");
        assert!(
            !head.contains("injected-by-sandbox") && !head.to_ascii_lowercase().contains("authorization"),
            "{head}"
        );
    }

    // Nobody else does: not the output, not what is told, not one file of the repository, the run and the worktrees.
    let inspected = world.sandbox(&["inspect", "a", "--network", "--json"]).expect(0);
    assert!(inspected.stdout.contains("\"injected\""), "{}", inspected.stdout);
    for text in [&printed, &ran.stdout, &ran.stderr, &inspected.stdout] {
        assert!(!text.contains(SECRET), "{text}");
    }
    let mut found = Vec::new();
    holders(&world.home(), SECRET.as_bytes(), &mut found);
    holders(&world.state(), SECRET.as_bytes(), &mut found);
    assert!(found.is_empty(), "{found:?}");
    // So that it is known that it would be found.
    world.write("leak.txt", SECRET);
    holders(&world.home(), SECRET.as_bytes(), &mut found);
    assert_eq!(found.len(), 1);
}

#[test]
fn a_secret_that_is_not_set_is_asked_for_before_anything_is_made() {
    let mut world = world();
    plan(
        &world,
        "[sandbox]\n[sandbox.network.inject.\"api.example\"]\nheader = 'x-api-key'\nenv = 'THE_KEY'\n\
         [agents.a]\nowns = ['docs/**']\nrun = ['true']\n",
    );
    let before = world.picture();
    world.set("THE_KEY", format!("{SECRET}\n"));
    let ran = run(&world).expect(4);
    assert!(ran.stderr.contains("THE_KEY") && !ran.stderr.contains(SECRET), "{}", ran.stderr);
    world.set("THE_KEY", "");
    let ran = run(&world).expect(4);
    assert!(ran.stderr.contains("THE_KEY") && ran.stderr.contains("`api.example`"), "{}", ran.stderr);
    assert_eq!(world.picture(), before);
    assert!(!world.store().join("runs").exists() && !world.worktrees().exists());
}
