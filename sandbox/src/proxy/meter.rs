//! Counting bytes, and noticing that none come any more.

use super::visit::{Decision, Protocol, Visit};
use super::{Target, server::Tell};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// When a connection last had a byte, in either direction, on either side of the proxy.
#[derive(Debug)]
pub(super) struct Activity {
    begun: Instant,
    /// Milliseconds after `begun`.
    last: AtomicU64,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), last: AtomicU64::new(0) })
    }

    fn touch(&self) {
        self.last.store(millis(self.begun.elapsed()), Ordering::Relaxed);
    }

    /// Returns once there was no byte for `limit`.
    pub(super) async fn idle(&self, limit: Duration) {
        loop {
            let until = self.begun + Duration::from_millis(self.last.load(Ordering::Relaxed)) + limit;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Bytes of one visit.
#[derive(Debug, Default)]
pub(super) struct Counts {
    up: AtomicU64,
    down: AtomicU64,
}

/// A stream whose bytes are noticed, and counted where it leads to a server.
#[derive(Debug)]
pub(super) struct Metered<S> {
    inner: S,
    activity: Arc<Activity>,
    counts: Option<Arc<Counts>>,
}

impl<S> Metered<S> {
    pub(super) fn new(inner: S, activity: &Arc<Activity>, counts: Option<&Arc<Counts>>) -> Self {
        Self { inner, activity: Arc::clone(activity), counts: counts.map(Arc::clone) }
    }

    fn note(&self, bytes: usize, pick: impl Fn(&Counts) -> &AtomicU64) {
        if bytes > 0 {
            self.activity.touch();
            if let Some(counts) = &self.counts {
                pick(counts).fetch_add(bytes as u64, Ordering::Relaxed);
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.note(buf.filled().len() - before, |counts| &counts.down);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, buf);
        if let Poll::Ready(Ok(written)) = &polled {
            self.note(*written, |counts| &counts.up);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        if let Poll::Ready(Ok(written)) = &polled {
            self.note(*written, |counts| &counts.up);
        }
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

/// A visit under way. It is told when this is dropped, however that comes.
pub(super) struct Open {
    pub(super) counts: Arc<Counts>,
    visit: Visit,
    begun: Instant,
    tell: Tell,
}

impl Open {
    pub(super) fn new(protocol: Protocol, target: Option<Target>, tell: &Tell) -> Self {
        let visit = Visit {
            at: SystemTime::now(),
            protocol,
            target,
            // What holds until something else is known: whoever asked, or the proxy, is gone.
            decision: Decision::Failed("given up".to_owned()),
            address: None,
            up: 0,
            down: 0,
            took: Duration::ZERO,
        };
        Self { counts: Arc::default(), visit, begun: Instant::now(), tell: Arc::clone(tell) }
    }

    pub(super) fn decide(&mut self, decision: Decision) {
        self.visit.decision = decision;
    }

    pub(super) fn connected(&mut self, address: SocketAddr) {
        self.visit.address = Some(address);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut visit = self.visit.clone();
        visit.up = self.counts.up.load(Ordering::Relaxed);
        visit.down = self.counts.down.load(Ordering::Relaxed);
        visit.took = self.begun.elapsed();
        (self.tell)(visit);
    }
}
