//! Secrets that whoever asks never holds. The upstream speaks TLS with a certificate of an authority made for the test, which
//! the process that runs the proxy trusts by `SSL_CERT_FILE`: so that process is one of its own.

use super::scene::{Names, Scene, head, rest, rules};
use crate::bench::soon;
use sandbox::proxy::{Bounds, Decision, Injection, InjectionError, Injections, check_header};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Names the file of the authority that this process trusts.
const AUTHORITY: &str = "SANDBOX_TEST_AUTHORITY";

const SECRET: &str = "s3cret-of-the-user";

/// An upstream that tells the heads it got, and the body of its answer comes in two pieces with a wait between.
struct Upstream {
    port: u16,
    heads: mpsc::UnboundedReceiver<String>,
    go_on: mpsc::UnboundedSender<()>,
}

/// An authority, and a server's certificate and key by it, for these names.
fn certificates(names: &[&str]) -> (String, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let mut of_authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    of_authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let authority = rcgen::CertifiedIssuer::self_signed(of_authority, key).unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    (authority.pem(), vec![own.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
}

impl Upstream {
    async fn new(names: &[&str], authority: &Path) -> Self {
        let (pem, chain, key) = certificates(names);
        std::fs::write(authority, pem).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, heads) = mpsc::unbounded_channel();
        let (go_on, mut gone_on) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                tell.send(head(&mut stream).await).unwrap();
                let start =
                    "HTTP/1.1 302 Found\r\nlocation: https://elsewhere.example/\r\ntransfer-encoding: chunked\r\n\r\n";
                stream.write_all(start.as_bytes()).await.unwrap();
                stream.write_all(b"4\r\none \r\n").await.unwrap();
                stream.flush().await.unwrap();
                gone_on.recv().await.unwrap();
                stream.write_all(b"3\r\ntwo\r\n0\r\n\r\n").await.unwrap();
                stream.shutdown().await.unwrap();
            }
        });
        Self { port, heads, go_on }
    }
}

/// The file of the authority, where this process trusts it. `None`: it did not, so the test was run in one that does.
async fn authority(test: &str) -> Option<PathBuf> {
    if let Some(file) = std::env::var_os(AUTHORITY) {
        return Some(file.into());
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authority.pem");
    let run = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("proxy::injection::{test}")])
        .env(AUTHORITY, &file)
        .env("SSL_CERT_FILE", &file)
        .env_remove("SSL_CERT_DIR")
        .kill_on_drop(true)
        .output();
    let output = soon(run).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    None
}

fn injection(upstream: &str) -> Injection {
    Injection::new(upstream.parse().unwrap(), "X-Api-Key", format!("key {SECRET}").as_bytes()).unwrap()
}

#[tokio::test]
async fn requests_get_the_secret_and_nobody_else_does() {
    let Some(authority) = authority("requests_get_the_secret_and_nobody_else_does").await else { return };
    let mut upstream = Upstream::new(&["127.0.0.1", "api.example"], &authority).await;
    let port = upstream.port;
    let injections = Injections::load(vec![injection(&format!("127.0.0.1:{port}"))]).unwrap();
    let names = Names::default();
    let mut scene = Scene::with(rules(&[], &[], port), &names, injections, Bounds::default()).await;
    let fields = "host: evil.example\r\nAuthorization: Bearer stand-in\r\nx-api-key: stand-in\r\nX-API-KEY: again\r\n\
                  Cookie: a=b\r\nx-goog-api-key: stand-in\r\nproxy-authorization: Basic x\r\nx-kept: 1\r\n\
                  connection: x-api-key, close\r\n\r\n";
    for target in [
        format!("http://127.0.0.1:{port}/v1/messages?beta=1"),
        format!("/127.0.0.1:{port}/v1/messages?beta=1"),
        format!("//../v1?x/../../127.0.0.1:{port}/v1/messages?beta=1"),
    ] {
        let mut client = scene.connect().await;
        client.write_all(format!("GET {target} HTTP/1.1\r\n{fields}").as_bytes()).await.unwrap();
        let answer = soon(head(&mut client)).await;
        if target.starts_with("//") {
            assert!(answer.starts_with("HTTP/1.1 40"), "{answer}");
            assert!(matches!(scene.visit().await.decision, Decision::Invalid(_)));
            continue;
        }
        // The redirect is the client's affair.
        assert!(answer.starts_with("HTTP/1.1 302 Found\r\n") && answer.contains("elsewhere.example"), "{answer}");
        let asked = soon(upstream.heads.recv()).await.unwrap();
        assert!(asked.starts_with("GET /v1/messages?beta=1 HTTP/1.1\r\n"), "{asked}");
        let mut fields: Vec<&str> = asked.lines().skip(1).filter(|line| !line.is_empty()).collect();
        fields.sort_unstable();
        let host = format!("host: 127.0.0.1:{port}");
        assert_eq!(fields, [host.as_str(), &format!("x-api-key: key {SECRET}"), "x-kept: 1"]);
        // The first piece is here while the server waits with the second.
        let mut piece = [0; 9];
        soon(client.read_exact(&mut piece)).await.unwrap();
        assert_eq!(&piece, b"4\r\none \r\n");
        upstream.go_on.send(()).unwrap();
        let end = rest(&mut client).await;
        assert_eq!(end, "3\r\ntwo\r\n0\r\n\r\n");
        let visit = scene.visit().await;
        assert!(visit.decision == Decision::Injected && visit.address.is_some(), "{visit:?}");
        assert!(!format!("{visit:?}{answer}{end}").contains(SECRET), "{visit:?}");
    }
    // What could come back with the request in it is not sent.
    for method in ["TRACE", "TRACK", "DEBUG", "get"] {
        let ask = format!("{method} http://127.0.0.1:{port}/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let answer = scene.say(&ask).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{method}: {answer}");
        assert!(matches!(scene.visit().await.decision, Decision::Invalid(_)), "{method}");
    }
    assert!(upstream.heads.try_recv().is_err(), "none of them reached the upstream");
    // A secret is no permission to reach the host in another way.
    let answer = scene.say(&format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 403 ") && !answer.contains(SECRET), "{answer}");
    assert!(matches!(scene.visit().await.decision, Decision::Refused(_)));
}

#[tokio::test]
async fn a_secret_goes_to_no_host_but_its_own() {
    let Some(authority) = authority("a_secret_goes_to_no_host_but_its_own").await else { return };
    let mut upstream = Upstream::new(&["other.example"], &authority).await;
    let port = upstream.port;
    let names = Names::default().with("api.example", &[&["127.0.0.1"]]);
    let of = |allow: &[&str], deny: &[&str]| rules(allow, deny, port);
    let host = format!("api.example:{port}");
    for (what, rules, host, status, says) in [
        ("the certificate is another's", of(&["127.0.0.1:PORT"], &[]), host.as_str(), "502", "TLS"),
        ("the address is special", of(&["api.example:PORT"], &[]), &host, "403", "loopback"),
        ("it is denied", of(&["127.0.0.1:PORT"], &["api.example:*"]), &host, "403", "deny-list"),
        ("its address is denied", of(&[], &["127.0.0.1:*"]), &host, "403", "deny-list"),
        ("it is another port", of(&["127.0.0.1:PORT"], &[]), "api.example:1", "403", "not in the allow-list"),
    ] {
        let injections = Injections::load(vec![injection(&format!("api.example:{port}"))]).unwrap();
        let scene = Scene::with(rules, &names, injections, Bounds::default()).await;
        let answer = scene.say(&format!("GET http://{host}/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(says), "{what}: {answer}");
        assert!(!answer.contains(SECRET), "{what}: {answer}");
        let told = format!("{:?}", scene.end().await);
        assert!(!told.contains(SECRET), "{what}: {told}");
    }
    assert!(upstream.heads.try_recv().is_err(), "no request reached the other");
}

#[tokio::test]
async fn what_cannot_hold_a_secret_is_refused() {
    assert!(matches!(check_header("host"), Err(InjectionError::Framing { .. })));
    assert!(matches!(check_header("no header"), Err(InjectionError::Header { .. })));
    let bad = Injection::new("a.example".parse().unwrap(), "x", format!("{SECRET}\n").as_bytes()).unwrap_err();
    assert!(!format!("{bad} {bad:?}").contains(SECRET), "{bad:?}");
    assert!(!format!("{:?}", injection("a.example")).contains(SECRET));
}
