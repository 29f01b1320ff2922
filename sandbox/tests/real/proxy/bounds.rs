//! What a hostile client cannot use up.

use super::scene::{Came, Clock, Names, Scene, Server, WAYS, ask, head, rest, rules};
use crate::bench::soon;
use sandbox::proxy::{Bounds, Injections, Proxy, Resolve, Setup};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

const MOMENT: Duration = Duration::from_millis(200);

async fn impatient(rules: sandbox::proxy::Rules, bounds: Bounds) -> Scene {
    Scene::with(rules, &Names::default(), Injections::default(), bounds).await
}

#[tokio::test]
async fn a_head_without_end_is_cut_off() {
    let server = Server::new("it").await;
    let scene = Scene::new(rules(&["127.0.0.1:PORT"], &[], server.port()), &Names::default()).await;
    let start = format!("GET http://{}/ HTTP/1.1\r\nhost: x\r\n", server.at);
    for (what, more) in [
        ("one long field", format!("x: {}\r\n\r\n", "y".repeat(1 << 20))),
        ("many fields", "x: y\r\n".repeat(10_000)),
        ("a long target", String::new()),
    ] {
        let request = if more.is_empty() {
            format!("GET http://{}/{} HTTP/1.1\r\n\r\n", server.at, "a".repeat(1 << 20))
        } else {
            format!("{start}{more}")
        };
        let answer = scene.say(&request).await;
        // By then the client may still be talking, and be reset before it hears the answer.
        let refused = answer.starts_with("HTTP/1.1 431 ") || answer.starts_with("HTTP/1.1 414 ") || answer.is_empty();
        assert!(refused, "{what}: {answer}");
    }
    assert_eq!(ask(scene.at, WAYS[1], "127.0.0.1", server.port()).await, Came::Reached("it".to_owned()));
}

#[tokio::test]
async fn who_says_nothing_or_too_slowly_is_cut_off() {
    let scene = impatient(rules(&[], &[], 1), Bounds { head: MOMENT, ..Bounds::default() }).await;
    for begun in [&b""[..], b"G", b"GET http://a.example/ HTTP/1.1\r\nhost: x\r\n", &[5], &[5, 1, 0, 5, 1]] {
        let mut stream = scene.connect().await;
        stream.write_all(begun).await.unwrap();
        // It ends by itself: nothing more is said.
        let answer = rest(&mut stream).await;
        assert!(!answer.contains("200 OK"), "{begun:?}: {answer}");
    }
    // A byte now and then does not help: the whole head has its time.
    let mut stream = scene.connect().await;
    let clock = Clock::stop();
    while stream.write_all(b"x").await.is_ok() {
        clock.pass(MOMENT / 4).await;
        assert!(clock.passed() < 4 * MOMENT, "it is still listened to");
    }
    assert!(clock.passed() >= MOMENT, "cut off after {:?}", clock.passed());
}

#[tokio::test]
async fn a_tunnel_in_which_nothing_moves_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let idle = Duration::from_mins(10);
    let mut scene = impatient(rules(&["127.0.0.1:PORT"], &[], at.port()), Bounds { idle, ..Bounds::default() }).await;
    let clock = Clock::stop();
    for half_closed in [false, true] {
        let mut client = scene.connect().await;
        client.write_all(format!("CONNECT {at} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        let (mut server, _) = soon(listener.accept()).await.unwrap();
        soon(head(&mut client)).await;
        // As long as something moves, it lives: for more than twice the limit.
        for _ in 0..10 {
            server.write_all(b"x").await.unwrap();
            soon(client.read_u8()).await.unwrap();
            clock.pass(idle / 4).await;
        }
        if half_closed {
            client.shutdown().await.unwrap();
        }
        clock.pass(idle / 2).await;
        assert!(client.try_read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock), "too soon");
        clock.pass(idle / 2).await;
        assert_eq!(rest(&mut client).await, "");
        drop(soon(server.read_to_end(&mut Vec::new())).await);
        let visit = scene.visit().await;
        assert!(visit.took >= 2 * idle && visit.down == 10, "{visit:?}");
    }
}

/// A resolver whose answers come when its door is opened.
#[derive(Clone)]
struct Slow(Arc<Door>);

struct Door {
    open: Semaphore,
    asked: AtomicUsize,
}

impl Resolve for Slow {
    fn resolve(&self, _: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        let door = Arc::clone(&self.0);
        door.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            drop(door.open.acquire().await);
            Err(io::Error::other("too late"))
        })
    }
}

/// However often a client asks for a name that takes long, few look-ups are made, and none once nobody waits for it.
#[tokio::test]
async fn look_ups_do_not_pile_up() {
    let slow = Slow(Arc::new(Door { open: Semaphore::new(0), asked: AtomicUsize::new(0) }));
    let bounds = Bounds { resolve: MOMENT, ..Bounds::default() };
    let (rules, injections) = (rules(&["slow.example:443"], &[], 1), Injections::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let setup = Setup { rules, injections, resolver: Arc::new(slow.clone()), bounds };
    let proxy = Proxy::start(listener, setup, drop);
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..40 {
        all.spawn(async move {
            let mut client = TcpStream::connect(at).await.unwrap();
            client.write_all(b"CONNECT slow.example:443 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            head(&mut client).await
        });
    }
    while let Some(answer) = soon(all.join_next()).await {
        let answer = answer.unwrap();
        assert!(answer.starts_with("HTTP/1.1 50"), "{answer}");
    }
    let asked = || slow.0.asked.load(Ordering::Relaxed);
    let before = asked();
    assert!((1..40).contains(&before), "{before} look-ups at once");
    soon(proxy.stop()).await;
    // Those that were begun end now; all that waits for them, or would begin after them, is gone when nobody holds the door.
    slow.0.open.close();
    soon(async {
        while Arc::strong_count(&slow.0) > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(asked(), before, "look-ups that began after the end");
}

/// More connections than there is room for: all are served, some later.
#[tokio::test]
async fn connections_beyond_the_bound_wait() {
    let server = Server::new("it").await;
    let port = server.port();
    let bounds = Bounds { connections: 4, ..Bounds::default() };
    let scene =
        Scene::with(rules(&["127.0.0.1:PORT"], &[], port), &Names::default(), Injections::default(), bounds).await;
    // Four that hold all the room there is.
    let mut holders = Vec::new();
    for _ in 0..4 {
        let mut holder = scene.connect().await;
        holder.write_all(b"GET http://nowhere.example/ HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        assert!(soon(head(&mut holder)).await.starts_with("HTTP/1.1 403 "));
        holders.push(holder);
    }
    let mut fifth = scene.connect().await;
    fifth.write_all(b"GET http://nowhere.example/ HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let waiting = tokio::time::timeout(MOMENT, fifth.read_u8()).await;
    assert!(waiting.is_err(), "there is no room: {waiting:?}");
    holders.pop();
    assert!(soon(head(&mut fifth)).await.starts_with("TTP/1.1 403 ") || !holders.is_empty());
    drop((holders, fifth));
    let mut all = tokio::task::JoinSet::new();
    for number in 0..300 {
        let at = scene.at;
        all.spawn(async move { ask(at, WAYS[number % 3], "127.0.0.1", port).await });
    }
    while let Some(came) = soon(all.join_next()).await {
        assert_eq!(came.unwrap(), Came::Reached("it".to_owned()));
    }
    assert_eq!(scene.end().await.len(), 305);
}

#[tokio::test]
async fn when_it_stops_so_does_all_it_does() {
    for drop_it in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let scene = Scene::new(rules(&["127.0.0.1:PORT"], &[], at.port()), &Names::default()).await;
        let mut client = scene.connect().await;
        client.write_all(format!("CONNECT {at} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        let (mut server, _) = soon(listener.accept()).await.unwrap();
        soon(head(&mut client)).await;
        // A plain request whose answer never comes.
        let mut waiting = scene.connect().await;
        waiting.write_all(format!("GET http://{at}/ HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        let (mut silent, _) = soon(listener.accept()).await.unwrap();
        soon(head(&mut silent)).await;
        let proxy_at = scene.at;
        if drop_it {
            drop(scene);
        } else {
            let visits = scene.end().await;
            assert_eq!(visits.len(), 2, "{visits:?}");
        }
        for stream in [&mut client, &mut waiting, &mut server, &mut silent] {
            assert_eq!(rest(stream).await, "");
        }
        soon(async { while TcpStream::connect(proxy_at).await.is_ok() {} }).await;
    }
}
