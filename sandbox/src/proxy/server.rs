//! The proxy itself: accepting connections, finding out what they speak, and ending them all.

use super::dial::{Dialer, Resolve, SystemResolver};
use super::http;
use super::injection::Injections;
use super::meter::{Activity, Metered};
use super::rules::Rules;
use super::socks;
use super::visit::Visit;
use nix::sys::resource::{Resource, getrlimit};
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::{JoinHandle, JoinSet};

/// How long to wait when no connection can be accepted, for lack of open files.
const PAUSE: Duration = Duration::from_millis(50);

/// What a SOCKS5 client says first; no request of HTTP begins so.
const SOCKS5: u8 = 5;

/// Told of each request.
pub(super) type Tell = Arc<dyn Fn(Visit) + Send + Sync>;

/// How much a proxy does at once, and how long it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections at once. Fewer where the process has few open files.
    pub connections: usize,
    /// For the head of a request to come.
    pub head: Duration,
    /// Without a byte in either direction, before a connection is closed.
    pub idle: Duration,
    /// For a name to be resolved.
    pub resolve: Duration,
    /// For a server to answer, TLS included.
    pub connect: Duration,
}

impl Default for Bounds {
    /// 256 connections; 30 s for a head, 10 minutes idle, 10 s for a name and for a server each.
    fn default() -> Self {
        Self {
            connections: 256,
            head: Duration::from_secs(30),
            idle: Duration::from_mins(10),
            resolve: Duration::from_secs(10),
            connect: Duration::from_secs(10),
        }
    }
}

/// What a proxy is to do.
#[derive(Clone)]
pub struct Setup {
    /// What may be reached.
    pub rules: Rules,
    /// Secrets, and where they go. A host with one may be reached in that way though no rule lists it.
    pub injections: Injections,
    /// Where addresses come from.
    pub resolver: Arc<dyn Resolve>,
    /// How much at once.
    pub bounds: Bounds,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("rules", &self.rules)
            .field("injections", &self.injections)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

impl Setup {
    /// Rules alone, with the system's resolver.
    pub fn new(rules: Rules) -> Self {
        Self { rules, injections: Injections::default(), resolver: Arc::new(SystemResolver), bounds: Bounds::default() }
    }
}

/// Connections of all proxies of this process: each may take two open files, and the process needs half of its own for the
/// rest of what it does.
static POOL: LazyLock<(Arc<Semaphore>, usize)> = LazyLock::new(|| {
    let (files, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((256, 256));
    let most = usize::try_from(files / 4).unwrap_or(usize::MAX).clamp(8, 4096);
    (Arc::new(Semaphore::new(most)), most)
});

/// What all connections of a proxy share.
pub(super) struct Shared {
    pub(super) dialer: Dialer,
    pub(super) injections: Injections,
    pub(super) bounds: Bounds,
    pub(super) tell: Tell,
}

/// A proxy at work. Dropping it ends all it does.
#[derive(Debug)]
pub struct Proxy {
    /// Dropped to have the task end.
    alive: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Serves what connects to `listener`, on the runtime this is called in. `tell` is called once for each request, when it
    /// is over, and must not block.
    pub fn start(listener: TcpListener, setup: Setup, tell: impl Fn(Visit) + Send + Sync + 'static) -> Self {
        let Setup { rules, injections, resolver, bounds } = setup;
        let dialer = Dialer::new(rules, resolver, bounds);
        let shared = Arc::new(Shared { dialer, injections, bounds, tell: Arc::new(tell) });
        let (alive, ended) = oneshot::channel();
        Self { alive, task: tokio::spawn(accept(listener, shared, ended)) }
    }

    /// Ends every connection, and returns when all requests have been told of.
    pub async fn stop(self) {
        drop(self.alive);
        // It neither panics nor is it aborted, but with the runtime.
        drop(self.task.await);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, mut ended: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    tokio::select! {
        _ = &mut ended => {}
        () = accept_all(&listener, &shared, &mut connections) => {}
    }
    connections.shutdown().await;
}

/// Accepts for ever. No connection is accepted before its box has room for it: what waits, waits in the kernel.
async fn accept_all(listener: &TcpListener, shared: &Arc<Shared>, connections: &mut JoinSet<()>) {
    let (pool, size) = &*POOL;
    // However many one box wants, there is something left for the others.
    let own = Arc::new(Semaphore::new(shared.bounds.connections.min(size / 4).max(1)));
    // The semaphores are never closed.
    while let Ok(room) = Arc::clone(&own).acquire_owned().await {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                // Only now: a box that nobody connects in is not to hold what others wait for.
                let Ok(place) = Arc::clone(pool).acquire_owned().await else { return };
                connections.spawn(serve(Arc::clone(shared), stream, (room, place)));
            }
            Err(error) => {
                tracing::debug!(%error, "no connection was accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

type Room = (OwnedSemaphorePermit, OwnedSemaphorePermit);

async fn serve(shared: Arc<Shared>, stream: TcpStream, _room: Room) {
    // For answers that come in small pieces. It fails only on what is no TCP any more.
    drop(stream.set_nodelay(true));
    let mut first = [0];
    let Ok(Ok(1)) = tokio::time::timeout(shared.bounds.head, stream.peek(&mut first)).await else { return };
    let activity = Activity::new();
    let idle = shared.bounds.idle;
    let client = Metered::new(stream, &activity, None);
    let speak = async {
        match first {
            [SOCKS5] => socks::serve(&shared, client, &activity).await,
            [_] => http::serve(&shared, client, &activity).await,
        }
    };
    tokio::select! {
        () = speak => {}
        () = activity.idle(idle) => {}
    }
}
