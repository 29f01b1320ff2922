//! Messages that are odd or meant to be understood in two ways; and those that are long.

use super::scene::{Names, Scene, Server, head, rest, rules, socks};
use crate::bench::soon;
use sandbox::proxy::Decision;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A request in absolute form with more fields.
fn get(port: u16, fields: &str) -> String {
    format!("GET http://127.0.0.1:{port}/a?b=c HTTP/1.1\r\n{fields}connection: close\r\n\r\n")
}

#[tokio::test]
async fn what_reaches_a_server_is_written_anew() {
    let mut server = Server::new("it").await;
    let port = server.port();
    let scene = Scene::new(rules(&["127.0.0.1:PORT"], &[], port), &Names::default()).await;
    let fields = "Host: evil.example\r\nHost: other.example\r\nProxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\n\
                  Keep-Alive: 5\r\nTE: trailers\r\nUpgrade: websocket\r\nConnection: upgrade, X-Mine\r\nX-Mine: 1\r\nX-Kept: 2\r\n";
    let answer = scene.say(&get(port, fields)).await;
    assert!(answer.ends_with("\r\n\r\nit"), "{answer}");
    let asked = server.asked().await;
    assert!(asked.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{asked}");
    let mut fields: Vec<&str> = asked.lines().skip(1).filter(|line| !line.is_empty()).collect();
    fields.sort_unstable();
    assert_eq!(fields, [format!("host: 127.0.0.1:{port}").as_str(), "x-kept: 2"], "{asked}");
}

#[tokio::test]
async fn requests_with_two_meanings_do_not_get_through() {
    let mut server = Server::new("it").await;
    let port = server.port();
    let scene = Scene::new(rules(&["127.0.0.1:PORT"], &[], port), &Names::default()).await;
    let with_body = |fields: &str, body: &str| {
        format!("POST http://127.0.0.1:{port}/ HTTP/1.1\r\nhost: x\r\n{fields}connection: close\r\n\r\n{body}")
    };
    let smuggled = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
    for (what, request) in [
        ("two lengths", with_body("content-length: 5\r\ncontent-length: 60\r\n", smuggled)),
        ("a length that is none", with_body("content-length: +5\r\n", smuggled)),
        ("an encoding that is none", with_body("transfer-encoding: chunked, identity\r\n", smuggled)),
        ("a space before the colon", with_body("transfer-encoding : chunked\r\n", smuggled)),
        ("a folded line", with_body("x: y\r\n z\r\ntransfer-encoding:\r\n chunked\r\n", smuggled)),
        ("a bare line break in a target", format!("GET http://127.0.0.1:{port}/\n/x HTTP/1.1\r\n\r\n")),
        ("a NUL in a field", with_body("x: a\0b\r\n", "")),
        ("https in clear", format!("GET https://127.0.0.1:{port}/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")),
        ("another scheme", format!("GET ftp://127.0.0.1:{port}/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")),
        ("a user", format!("GET http://u:p@127.0.0.1:{port}/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")),
        ("no port to connect to", "CONNECT 127.0.0.1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned()),
        (
            "a path to connect to",
            "CONNECT http://127.0.0.1/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(),
        ),
        ("a user to connect as", "CONNECT a@127.0.0.1:80 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned()),
        ("a port too many", "CONNECT 127.0.0.1:80:80 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned()),
        ("no HTTP", "hello\r\n\r\n".to_owned()),
        ("TLS to the proxy", "\u{16}\u{3}\u{1}\r\n\r\n".to_owned()),
    ] {
        let answer = scene.say(&request).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{what}: {answer}");
        assert!(server.is_untouched(), "{what}");
    }
}

#[tokio::test]
async fn a_base_url_leads_where_a_proxy_would() {
    let mut server = Server::new("it").await;
    let port = server.port();
    let mut scene = Scene::new(rules(&["127.0.0.1:PORT"], &[], port), &Names::default()).await;
    for (path, status, asks_for) in [
        (format!("/127.0.0.1:{port}/a/b?c=d"), "200", Some("/a/b?c=d")),
        (format!("/127.0.0.1:{port}?c=d"), "200", Some("/?c=d")),
        (format!("/127.0.0.1:{port}"), "200", Some("/")),
        (format!("/127.0.0.1:{port}/http://evil.example/"), "200", Some("/http://evil.example/")),
        ("/evil.example:80/a".to_owned(), "403", None),
        ("/127.0.0.1/a".to_owned(), "404", None),
        (format!("//127.0.0.1:{port}/a"), "404", None),
        ("/".to_owned(), "404", None),
        ("*".to_owned(), "404", None),
    ] {
        let answer = scene.say(&format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
        let visit = scene.visit().await;
        match asks_for {
            Some(asks_for) => {
                let asked = server.asked().await;
                assert!(asked.starts_with(&format!("GET {asks_for} HTTP/1.1\r\n")), "{asked}");
                assert!(asked.contains(&format!("host: 127.0.0.1:{port}\r\n")), "{asked}");
            }
            None => assert!(server.is_untouched() && visit.address.is_none(), "{path}: {visit:?}"),
        }
    }
}

/// With chunks and a length the chunks count, the length is not passed on, and what follows is nobody's request.
#[tokio::test]
async fn of_two_lengths_one_is_passed_on_and_the_connection_ends() {
    let mut server = Server::new("it").await;
    let port = server.port();
    for fields in ["transfer-encoding: chunked\r\ncontent-length: 3", "content-length: 3\r\ntransfer-encoding: chunked"]
    {
        let scene = Scene::new(rules(&["127.0.0.1:PORT"], &[], port), &Names::default()).await;
        let answer = scene
            .say(&format!(
                "POST http://127.0.0.1:{port}/ HTTP/1.1\r\nhost: x\r\n{fields}\r\n\r\n0\r\n\r\n\
                 GET http://127.0.0.1:{port}/smuggled HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
            ))
            .await;
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
        let asked = server.asked().await;
        assert!(asked.contains("transfer-encoding: chunked") && !asked.contains("content-length"), "{asked}");
        assert!(server.is_untouched());
        assert_eq!(scene.end().await.len(), 1);
    }
}

#[tokio::test]
async fn connections_are_kept_for_the_next_request() {
    let server = Server::new("it").await;
    let scene = Scene::new(rules(&["127.0.0.1:PORT"], &[], server.port()), &Names::default()).await;
    let mut stream = scene.connect().await;
    for _ in 0..3 {
        let say = format!("GET http://{}/ HTTP/1.1\r\nhost: x\r\n\r\n", server.at);
        stream.write_all(say.as_bytes()).await.unwrap();
        assert!(soon(head(&mut stream)).await.starts_with("HTTP/1.1 200 OK\r\n"));
        let mut body = [0; 2];
        soon(stream.read_exact(&mut body)).await.unwrap();
        assert_eq!(&body, b"it");
    }
    drop(stream);
    assert_eq!(scene.end().await.len(), 3);
}

/// Three MiB each way, by each way of asking, bit for bit and at the same time.
#[tokio::test]
async fn bytes_are_right_both_ways() {
    const SIZE: usize = 3 << 20;
    let up: Vec<u8> = (0..SIZE).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let down: Vec<u8> = (0..SIZE).map(|at| u8::try_from(at % 241).unwrap()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (expected, answer) = (up.clone(), down.clone());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (expected, answer) = (expected.clone(), answer.clone());
            tokio::spawn(async move {
                let (mut read, mut write) = stream.into_split();
                let writing = tokio::spawn(async move {
                    write.write_all(&answer).await.unwrap();
                    write.shutdown().await.unwrap();
                });
                let mut got = Vec::new();
                read.read_to_end(&mut got).await.unwrap();
                assert!(got == expected, "what went up");
                writing.await.unwrap();
            });
        }
    });
    let mut scene = Scene::new(rules(&["127.0.0.1:PORT"], &[], at.port()), &Names::default()).await;
    for by_socks in [true, false] {
        let mut stream = scene.connect().await;
        if by_socks {
            assert_eq!(socks(&mut stream, "127.0.0.1", at.port()).await, 0);
        } else {
            stream.write_all(format!("CONNECT {at} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
            assert!(soon(head(&mut stream)).await.starts_with("HTTP/1.1 200 OK\r\n"));
        }
        let (mut read, mut write) = stream.into_split();
        let (body, mut got) = (up.clone(), Vec::new());
        let writing = tokio::spawn(async move {
            write.write_all(&body).await.unwrap();
            // One direction ends, the other goes on.
            write.shutdown().await.unwrap();
        });
        soon(read.read_to_end(&mut got)).await.unwrap();
        assert!(got == down, "what came down");
        soon(writing).await.unwrap();
        let visit = scene.visit().await;
        assert_eq!((visit.up, visit.down), (SIZE as u64, SIZE as u64));
    }
}

/// A MiB in the body of a request and of its answer, with a length and in chunks.
#[tokio::test]
async fn bodies_are_right_both_ways() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let echo = hyper::service::service_fn(|request: hyper::Request<hyper::body::Incoming>| async move {
                Ok::<_, std::convert::Infallible>(hyper::Response::new(request.into_body()))
            });
            let server = hyper::server::conn::http1::Builder::new();
            tokio::spawn(server.serve_connection(hyper_util::rt::TokioIo::new(stream), echo));
        }
    });
    let body: Vec<u8> = (0..1 << 20).map(|at| b'a' + u8::try_from(at % 23).unwrap()).collect();
    let chunk = |piece: &[u8]| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
    let chunks = [body.chunks(10_000).flat_map(chunk).collect(), b"0\r\n\r\n".to_vec()].concat();
    let scene = Scene::new(rules(&["127.0.0.1:PORT"], &[], at.port()), &Names::default()).await;
    for (length, sent) in
        [(format!("content-length: {}", body.len()), &body), ("transfer-encoding: chunked".into(), &chunks)]
    {
        let mut stream = scene.connect().await;
        let head = format!(
            "POST http://{at}/ HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n{length}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        assert!(soon(super::scene::head(&mut stream)).await.starts_with("HTTP/1.1 100 Continue\r\n"));
        let (mut read, mut write) = stream.into_split();
        let sent = sent.clone();
        // When all is said, this half of the connection is closed.
        tokio::spawn(async move { write.write_all(&sent).await });
        let answer = soon(super::scene::head(&mut read)).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(&length), "{answer}");
        let mut came = Vec::new();
        soon(read.read_to_end(&mut came)).await.unwrap();
        let came = if length.starts_with("transfer") { without_chunks(&came) } else { came };
        assert!(came == body, "{length}: {} bytes of {}", came.len(), body.len());
    }
}

fn without_chunks(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|pair| pair == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend(&chunks[end + 2..end + 2 + length]);
        chunks = &chunks[end + 2 + length + 2..];
    }
}

/// A server that says a piece and waits until it was heard before it says the next.
#[tokio::test]
async fn nothing_is_gathered_up_on_the_way() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (heard, mut next) = tokio::sync::mpsc::channel::<()>(1);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        head(&mut stream).await;
        let start = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(start.as_bytes()).await.unwrap();
        for _ in 0..5 {
            stream.write_all(b"9\r\ndata: 1\n\n\r\n").await.unwrap();
            next.recv().await.unwrap();
        }
        stream.write_all(b"0\r\n\r\n").await.unwrap();
    });
    let scene = Scene::new(rules(&["127.0.0.1:PORT"], &[], at.port()), &Names::default()).await;
    let mut stream = scene.connect().await;
    stream.write_all(get(at.port(), "host: x\r\n").as_bytes()).await.unwrap();
    assert!(soon(head(&mut stream)).await.contains("text/event-stream"));
    for _ in 0..5 {
        let mut piece = [0; 14];
        soon(stream.read_exact(&mut piece)).await.unwrap();
        assert_eq!(&piece, b"9\r\ndata: 1\n\n\r\n");
        heard.send(()).await.unwrap();
    }
    assert_eq!(rest(&mut stream).await, "0\r\n\r\n");
}

#[tokio::test]
async fn a_server_that_breaks_off_or_talks_nonsense_is_told_of() {
    for said in
        ["", "nonsense\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"]
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _): (TcpStream, _) = listener.accept().await.unwrap();
            head(&mut stream).await;
            stream.write_all(said.as_bytes()).await.unwrap();
        });
        let mut scene = Scene::new(rules(&["127.0.0.1:PORT"], &[], at.port()), &Names::default()).await;
        let answer = scene.say(&get(at.port(), "host: x\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{said:?}: {answer}");
        assert!(matches!(scene.visit().await.decision, Decision::Failed(_)), "{said:?}");
    }
}

#[tokio::test]
async fn socks_has_one_command_and_one_method() {
    let scene = Scene::new(rules(&["127.0.0.1:*"], &[], 80), &Names::default()).await;
    for (say, reply) in [
        // No method that we have.
        (&[5, 1, 2][..], &[5, 0xff][..]),
        (&[5, 0], &[5, 0xff]),
        // BIND and UDP.
        (&[5, 1, 0, 5, 2, 0, 1, 127, 0, 0, 1, 0, 80], &[5, 0, 5, 7, 0, 1, 0, 0, 0, 0, 0, 0]),
        (&[5, 2, 2, 0, 5, 3, 0, 1, 127, 0, 0, 1, 0, 80], &[5, 0, 5, 7, 0, 1, 0, 0, 0, 0, 0, 0]),
        // No kind of address that we know; no port; another version; a name that is none.
        (&[5, 1, 0, 5, 1, 0, 9, 1, 1, 1, 1, 0, 80], &[5, 0, 5, 8, 0, 1, 0, 0, 0, 0, 0, 0]),
        (&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 0], &[5, 0, 5, 1, 0, 1, 0, 0, 0, 0, 0, 0]),
        (&[5, 1, 0, 4, 1, 0, 1, 127, 0, 0, 1, 0, 80], &[5, 0, 5, 1, 0, 1, 0, 0, 0, 0, 0, 0]),
        (&[5, 1, 0, 5, 1, 0, 3, 0, 0, 80], &[5, 0, 5, 1, 0, 1, 0, 0, 0, 0, 0, 0]),
        (&[5, 1, 0, 5, 1, 0, 3, 2, 0xff, 0xfe, 0, 80], &[5, 0, 5, 1, 0, 1, 0, 0, 0, 0, 0, 0]),
    ] {
        let mut stream = scene.connect().await;
        stream.write_all(say).await.unwrap();
        let mut got = vec![0; reply.len()];
        soon(stream.read_exact(&mut got)).await.unwrap();
        assert_eq!(got, reply, "{say:?}");
    }
}
