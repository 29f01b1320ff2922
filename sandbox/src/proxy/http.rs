//! HTTP/1.1: tunnels, requests passed on, and requests that get a secret.
//!
//! `hyper` reads and writes every message; nothing of a request goes out as it came in but method, path, body, and fields
//! that are about neither the connection nor the framing.

use super::dial::Unreached;
use super::endpoint::{EndpointError, Target};
use super::injection::Injection;
use super::meter::{Activity, Metered, Open};
use super::server::Shared;
use super::visit::{Decision, Protocol};
use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// The longest head of a request, in bytes and in fields.
const HEAD: usize = 64 << 10;
const FIELDS: usize = 128;
/// The same for answers, which come from where the user trusts.
const ANSWER_HEAD: usize = 256 << 10;
const ANSWER_FIELDS: usize = 256;

/// The port of a request in absolute form that names none.
const HTTP: u16 = 80;
/// That of a host with a secret.
const HTTPS: u16 = 443;

/// Says of an answer that the proxy gave it, and why.
const ERROR_FIELD: &str = "x-proxy-error";
/// Of a refusal.
const BLOCKED: &str = "blocked-by-sandbox";

/// Fields that are about one connection (RFC 9110 section 7.6.1), beside those that `Connection` names.
const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// What goes back: a text of the proxy's own, or what comes from a server.
type Answer = Response<Either<Full<Bytes>, Passing>>;

/// A tunnel that was agreed to, and begins once the answer is out.
struct Tunnel {
    client: hyper::upgrade::OnUpgrade,
    server: Metered<TcpStream>,
    open: Open,
}

/// One connection of a client.
struct Connection {
    shared: Arc<Shared>,
    activity: Arc<Activity>,
    tunnel: Mutex<Option<Tunnel>>,
}

pub(super) async fn serve(shared: &Arc<Shared>, client: Metered<TcpStream>, activity: &Arc<Activity>) {
    let connection =
        Arc::new(Connection { shared: Arc::clone(shared), activity: Arc::clone(activity), tunnel: Mutex::default() });
    let service = service_fn(|request| {
        let connection = Arc::clone(&connection);
        async move { Ok::<_, Infallible>(connection.answer(request).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.bounds.head)
        .max_buf_size(HEAD)
        .max_headers(FIELDS)
        // Who has said all may close that half and still wants the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(client), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::trace!(%error, "a connection to the proxy ended");
    }
    let tunnel = connection.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Tunnel { client, mut server, open }) = tunnel {
        if let Ok(client) = client.await {
            // An error says that one end is gone, which ends the tunnel either way.
            drop(tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut server).await);
        }
        drop(open);
    }
}

impl Connection {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if request.method() == Method::CONNECT {
            return self.connect(request).await;
        }
        match (request.uri().scheme_str(), request.uri().authority()) {
            (Some("http"), Some(authority)) => {
                let authority = authority.as_str().to_owned();
                self.forward(request, &authority).await
            }
            (Some("https"), _) => {
                self.invalid(Protocol::Http, "a request for `https://` that is no CONNECT: it would be sent in clear")
            }
            (Some(_), _) | (None, Some(_)) => self.invalid(Protocol::Http, "a scheme other than `http`"),
            (None, None) => self.with_base_url(request).await,
        }
    }

    fn invalid(&self, protocol: Protocol, reason: &'static str) -> Answer {
        Open::new(protocol, None, &self.shared.tell).decide(Decision::Invalid(reason));
        text(StatusCode::BAD_REQUEST, "bad-request", &format!("this proxy cannot carry out {reason}"))
    }

    fn unreadable(&self, protocol: Protocol, error: &EndpointError) -> Answer {
        let reason = match error {
            EndpointError::Number { .. } => "a number that is no address as it is written",
            EndpointError::UserInfo => "a user name in the address",
            _ => "a host or port that cannot be read",
        };
        Open::new(protocol, None, &self.shared.tell).decide(Decision::Invalid(reason));
        text(StatusCode::BAD_REQUEST, "bad-request", &format!("the address {error}"))
    }

    /// Opens a tunnel.
    async fn connect(&self, request: Request<Incoming>) -> Answer {
        let authority = request.uri().authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
        let target = match Target::parse(&authority, None) {
            Ok(target) => target,
            Err(error) => return self.unreadable(Protocol::Connect, &error),
        };
        let mut open = Open::new(Protocol::Connect, Some(target.clone()), &self.shared.tell);
        let checked = self.shared.dialer.rules.check(&target).map_err(Unreached::Refused);
        let server = match checked {
            Ok(()) => self.dial(&target, None, &mut open).await,
            Err(unreached) => Err(unreached),
        };
        let server = match server {
            Ok(server) => server,
            Err(unreached) => return self.unreached(&target, unreached, &mut open),
        };
        open.decide(Decision::Allowed);
        let tunnel = Tunnel { client: hyper::upgrade::on(request), server, open };
        *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
        Response::new(Either::Left(Full::default()))
    }

    /// Passes on a request in absolute form.
    async fn forward(&self, mut request: Request<Incoming>, authority: &str) -> Answer {
        let target = match Target::parse(authority, Some(HTTP)) {
            Ok(target) => target,
            Err(error) => return self.unreadable(Protocol::Http, &error),
        };
        let shared = Arc::clone(&self.shared);
        let written = (target.port != HTTP).then_some(target.port);
        if let Some(injection) = shared.injections.find(&target.host, written) {
            return self.inject(request, injection).await;
        }
        let mut open = Open::new(Protocol::Http, Some(target.clone()), &shared.tell);
        if let Err(refusal) = shared.dialer.rules.check(&target) {
            return self.unreached(&target, Unreached::Refused(refusal), &mut open);
        }
        let server = match self.dial(&target, None, &mut open).await {
            Ok(server) => server,
            Err(unreached) => return self.unreached(&target, unreached, &mut open),
        };
        rewrite(&mut request, &target, HTTP);
        open.decide(Decision::Allowed);
        self.exchange(server, request, &target, open).await
    }

    /// A request to the proxy itself, whose path begins with the host it is for.
    async fn with_base_url(&self, mut request: Request<Incoming>) -> Answer {
        let shared = Arc::clone(&self.shared);
        let whole = request.uri().path_and_query().map(|it| it.as_str().to_owned()).unwrap_or_default();
        let rest = whole.strip_prefix('/').unwrap_or_default();
        let (host, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
        let injection = Target::parse(host, Some(HTTPS)).ok();
        let injection = injection.and_then(|target| shared.injections.find(&target.host, Some(target.port)));
        let named = injection.is_some() || Target::parse(host, None).is_ok();
        let (true, Ok(uri)) = (named, rest.parse::<Uri>()) else {
            // What stands there may be any path, so it is not told of.
            let reason = "a request to the proxy itself, whose path does not begin with `/HOST:PORT/`";
            Open::new(Protocol::Http, None, &shared.tell).decide(Decision::Invalid(reason));
            return text(StatusCode::NOT_FOUND, "bad-request", &format!("this proxy cannot carry out {reason}"));
        };
        let host = host.to_owned();
        *request.uri_mut() = uri;
        match injection {
            Some(injection) => self.inject(request, injection).await,
            None => self.forward(request, &host).await,
        }
    }

    /// Passes on a request over TLS, with a secret in place of whatever authenticated it.
    async fn inject(&self, mut request: Request<Incoming>, injection: &Injection) -> Answer {
        if !Injection::allows(request.method()) {
            return self.invalid(
                Protocol::Http,
                "a request of this method to a host that gets a secret, which could come back",
            );
        }
        let target = injection.target();
        let mut open = Open::new(Protocol::Http, Some(target.clone()), &self.shared.tell);
        if let Err(refusal) = self.shared.dialer.rules.check_denied(target) {
            return self.unreached(target, Unreached::Refused(refusal), &mut open);
        }
        let server = match self.dial(target, injection.exempt(), &mut open).await {
            Ok(server) => server,
            Err(unreached) => return self.unreached(target, unreached, &mut open),
        };
        let secured = self.shared.injections.secure(target, server);
        let server = match tokio::time::timeout(self.shared.bounds.connect, secured).await {
            Ok(Ok(server)) => server,
            Ok(Err(reason)) => return self.unreached(target, Unreached::Unanswered(reason), &mut open),
            Err(_) => {
                let late = Unreached::Unanswered("TLS took too long".to_owned());
                return self.unreached(target, late, &mut open);
            }
        };
        rewrite(&mut request, target, HTTPS);
        injection.apply(request.headers_mut());
        open.decide(Decision::Injected);
        self.exchange(server, request, target, open).await
    }

    async fn dial(
        &self,
        target: &Target,
        exempt: Option<IpAddr>,
        open: &mut Open,
    ) -> Result<Metered<TcpStream>, Unreached> {
        let stream = self.shared.dialer.dial(target, exempt).await?;
        let address = stream.peer_addr().map_err(|error| Unreached::Unanswered(error.to_string()))?;
        open.connected(address);
        drop(stream.set_nodelay(true));
        Ok(Metered::new(stream, &self.activity, Some(&open.counts)))
    }

    fn unreached(&self, target: &Target, unreached: Unreached, open: &mut Open) -> Answer {
        match unreached {
            Unreached::Refused(refusal) => {
                open.decide(Decision::Refused(refusal));
                text(StatusCode::FORBIDDEN, BLOCKED, &self.shared.dialer.rules.explain(target, refusal))
            }
            Unreached::Unresolved(reason) | Unreached::Unanswered(reason) => {
                let answer =
                    text(StatusCode::BAD_GATEWAY, "unreachable", &format!("`{target}` could not be reached: {reason}"));
                open.decide(Decision::Failed(reason));
                answer
            }
        }
    }

    async fn exchange<S>(&self, server: S, request: Request<Incoming>, target: &Target, mut open: Open) -> Answer
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let sent = send(server, request).await;
        let (mut response, driver) = match sent {
            Ok((response, _)) if response.status().is_informational() => {
                let reason = "it wants to speak something else than HTTP".to_owned();
                return self.unreached(target, Unreached::Unanswered(reason), &mut open);
            }
            Ok(sent) => sent,
            Err(error) => {
                let reason = format!("it did not answer well: {error}");
                return self.unreached(target, Unreached::Unanswered(reason), &mut open);
            }
        };
        drop_hop_by_hop(response.headers_mut());
        *response.version_mut() = Version::HTTP_11;
        response.map(|body| Either::Right(Passing { body, _driver: driver, _open: open }))
    }
}

/// Sends a request on a connection of its own.
async fn send<S>(server: S, request: Request<Incoming>) -> hyper::Result<(Response<Incoming>, Driver)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(ANSWER_HEAD)
        .max_headers(ANSWER_FIELDS)
        .handshake(TokioIo::new(server))
        .await?;
    let driver = Driver(tokio::spawn(async move {
        // What goes wrong on it comes out where the answer is read.
        drop(connection.await);
    }));
    Ok((sender.send_request(request).await?, driver))
}

/// Makes a request one to the server itself.
fn rewrite(request: &mut Request<Incoming>, target: &Target, usual_port: u16) {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    if let Ok(uri) = path.parse::<Uri>() {
        *request.uri_mut() = uri;
    }
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    drop_hop_by_hop(headers);
    // The proxy has asked for the body already.
    headers.remove(header::EXPECT);
    let host = if target.port == usual_port { target.host.to_string() } else { target.to_string() };
    // The grammar of targets has nothing that a field could not hold.
    if let Ok(host) = HeaderValue::from_str(&host) {
        headers.insert(header::HOST, host);
    }
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

fn text(status: StatusCode, error: &'static str, line: &str) -> Answer {
    let mut answer = Response::new(Either::Left(Full::from(format!("{line}\n"))));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(ERROR_FIELD, HeaderValue::from_static(error));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// What drives a connection to a server. Dropped, the connection is closed.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The body of an answer on its way through. Once it is over, the visit is.
struct Passing {
    body: Incoming,
    _driver: Driver,
    _open: Open,
}

impl Body for Passing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
