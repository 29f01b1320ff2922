//! A proxy, the servers behind it, and a client that speaks all it understands.

use crate::bench::soon;
use sandbox::proxy::{Bounds, Injections, Proxy, Resolve, Rules, Setup, Visit};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A resolver that answers what it was told to, each time the next, the last for ever. It knows no other name.
#[derive(Clone, Default)]
pub(crate) struct Names {
    answers: Arc<Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Names {
    pub(crate) fn with(self, name: &str, answers: &[&[&str]]) -> Self {
        let parse = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        self.answers.lock().unwrap().insert(name.to_owned(), answers.iter().map(parse).collect());
        self
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Resolve for Names {
    fn resolve(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        self.asked.lock().unwrap().push(name.clone());
        let mut answers = self.answers.lock().unwrap();
        let answer = answers
            .get_mut(&name)
            .map(|all| if all.len() > 1 { all.pop_front() } else { all.front().cloned() }.unwrap());
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such name")) })
    }
}

/// Rules from text. `PORT` in an entry stands for the server's.
pub(crate) fn rules(allow: &[&str], deny: &[&str], port: u16) -> Rules {
    let entry = |text: &&str| text.replace("PORT", &port.to_string()).parse().unwrap();
    let rules = allow.iter().map(entry).fold(Rules::new().place("the list"), Rules::allow);
    deny.iter().map(entry).fold(rules, Rules::deny)
}

/// A proxy at work.
pub(crate) struct Scene {
    pub(crate) at: SocketAddr,
    pub(crate) proxy: Proxy,
    visits: mpsc::UnboundedReceiver<Visit>,
}

impl Scene {
    pub(crate) async fn new(rules: Rules, names: &Names) -> Self {
        Self::with(rules, names, Injections::default(), Bounds::default()).await
    }

    pub(crate) async fn with(rules: Rules, names: &Names, injections: Injections, bounds: Bounds) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (tell, visits) = mpsc::unbounded_channel();
        let setup = Setup { rules, injections, resolver: Arc::new(names.clone()), bounds };
        let proxy = Proxy::start(listener, setup, move |visit| drop(tell.send(visit)));
        Self { at, proxy, visits }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        soon(TcpStream::connect(self.at)).await.unwrap()
    }

    /// Says something, and gives all that comes until the other side is done.
    pub(crate) async fn say(&self, what: &str) -> String {
        let mut stream = self.connect().await;
        // It may have had enough before it was all said.
        drop(soon(stream.write_all(what.as_bytes())).await);
        rest(&mut stream).await
    }

    pub(crate) async fn visit(&mut self) -> Visit {
        soon(self.visits.recv()).await.unwrap()
    }

    /// All that is left to be told, once the proxy has stopped.
    pub(crate) async fn end(mut self) -> Vec<Visit> {
        soon(self.proxy.stop()).await;
        let mut all = Vec::new();
        while let Some(visit) = soon(self.visits.recv()).await {
            all.push(visit);
        }
        all
    }
}

/// A clock that stands still but when it is moved: how long something takes is then no matter of the machine's.
///
/// Tokio's own paused clock runs ahead whenever nothing is to be done, also while bytes are under way between sockets. It
/// does not while a blocking task is at work, so there is one, until this is dropped.
pub(crate) struct Clock {
    _held: std::sync::mpsc::Sender<()>,
    begun: Instant,
}

impl Clock {
    pub(crate) fn stop() -> Self {
        tokio::time::pause();
        let (held, until) = std::sync::mpsc::channel::<()>();
        drop(tokio::task::spawn_blocking(move || until.recv()));
        Self { _held: held, begun: Instant::now() }
    }

    /// Lets so much time pass, once all that is under way has arrived and been dealt with.
    pub(crate) async fn pass(&self, time: Duration) {
        for _ in 0..16 {
            // Sockets are looked at before this task's next turn.
            tokio::task::yield_now().await;
        }
        tokio::time::advance(time).await;
    }

    /// How much has passed.
    pub(crate) fn passed(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// Whatever comes, as text; a connection that is cut short ends it too.
pub(crate) async fn rest(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    drop(soon(stream.read_to_end(&mut all)).await);
    String::from_utf8_lossy(&all).into_owned()
}

/// Reads up to and with the empty line that ends a head.
pub(crate) async fn head<S: tokio::io::AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

/// A server of HTTP that says who it is, and tells what it was asked.
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    heads: mpsc::UnboundedReceiver<String>,
}

impl Server {
    pub(crate) async fn new(name: &'static str) -> Self {
        Self::at("127.0.0.1:0", name).await
    }

    pub(crate) async fn at(address: &str, name: &'static str) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let at = listener.local_addr().unwrap();
        let (tell, heads) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let tell = tell.clone();
                tokio::spawn(async move {
                    let asked = head(&mut stream).await;
                    let answer =
                        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{name}", name.len());
                    // Told first, so that it is there when the answer is.
                    drop(tell.send(asked));
                    drop(stream.write_all(answer.as_bytes()).await);
                });
            }
        });
        Self { at, heads }
    }

    pub(crate) fn port(&self) -> u16 {
        self.at.port()
    }

    /// The head of the next request.
    pub(crate) async fn asked(&mut self) -> String {
        soon(self.heads.recv()).await.unwrap()
    }

    /// Whether nothing reached it that was not looked at.
    pub(crate) fn is_untouched(&mut self) -> bool {
        self.heads.try_recv().is_err()
    }
}

/// The ways of asking for a host and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Connect,
    Plain,
    Socks,
}

pub(crate) const WAYS: [Way; 3] = [Way::Connect, Way::Plain, Way::Socks];

/// What came of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// The server of that name answered.
    Reached(String),
    /// It may not be reached.
    Refused,
    /// It cannot be.
    Failed,
    /// It was no request.
    Invalid,
}

const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

/// Asks a proxy for `host:port`, and whatever answers there for its name.
pub(crate) async fn ask(proxy: SocketAddr, way: Way, host: &str, port: u16) -> Came {
    let mut stream = soon(TcpStream::connect(proxy)).await.unwrap();
    match way {
        Way::Connect => {
            let say = format!("CONNECT {host}:{port} HTTP/1.1\r\nhost: x\r\n\r\n");
            stream.write_all(say.as_bytes()).await.unwrap();
            let answer = soon(head(&mut stream)).await;
            if !answer.starts_with("HTTP/1.1 200 ") {
                return of_status(&answer);
            }
            stream.write_all(GET.as_bytes()).await.unwrap();
            of_answer(&rest(&mut stream).await)
        }
        Way::Plain => {
            let say = format!("GET http://{host}:{port}/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            stream.write_all(say.as_bytes()).await.unwrap();
            let answer = rest(&mut stream).await;
            if answer.starts_with("HTTP/1.1 200 ") { of_answer(&answer) } else { of_status(&answer) }
        }
        Way::Socks => match socks(&mut stream, host, port).await {
            0 => {
                stream.write_all(GET.as_bytes()).await.unwrap();
                of_answer(&rest(&mut stream).await)
            }
            2 => Came::Refused,
            4 | 5 => Came::Failed,
            _ => Came::Invalid,
        },
    }
}

/// Asks in SOCKS5, by address where the host is written as one, and gives the code of the reply.
pub(crate) async fn socks(stream: &mut TcpStream, host: &str, port: u16) -> u8 {
    let mut say = vec![5, 1, 0, 5, 1, 0];
    match host.trim_matches(['[', ']']).parse() {
        Ok(IpAddr::V4(address)) => say.extend([&[1][..], &address.octets()].concat()),
        Ok(IpAddr::V6(address)) => say.extend([&[4][..], &address.octets()].concat()),
        Err(_) => say.extend([&[3, u8::try_from(host.len()).unwrap()][..], host.as_bytes()].concat()),
    }
    say.extend(port.to_be_bytes());
    stream.write_all(&say).await.unwrap();
    let mut reply = [0; 12];
    soon(stream.read_exact(&mut reply)).await.unwrap();
    assert_eq!(reply[..3], [5, 0, 5]);
    reply[3]
}

fn of_status(answer: &str) -> Came {
    match answer.split(' ').nth(1) {
        Some("403") => {
            assert!(answer.contains("x-proxy-error: blocked-by-sandbox"), "{answer}");
            Came::Refused
        }
        Some("502") => Came::Failed,
        Some("400") => Came::Invalid,
        _ => panic!("unexpected: {answer}"),
    }
}

fn of_answer(answer: &str) -> Came {
    Came::Reached(answer.split("\r\n\r\n").nth(1).unwrap_or_else(|| panic!("unexpected: {answer}")).to_owned())
}
