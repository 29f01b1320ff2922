//! From what is asked for to a connection, with every address checked on the way.

use super::endpoint::{Host, Target};
use super::rules::{Refusal, Rules};
use super::server::Bounds;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Look-ups at once. A look-up holds a thread until the system's resolver gives up, whoever still waits for it.
const LOOKUPS: usize = 8;

/// Gives the addresses of a name: the system's resolver, or what stands in for it.
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of `name`, in the order in which they are to be tried.
    fn resolve(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;
}

/// The resolver of the system, with all that its settings say.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Why there is no connection.
pub(super) enum Unreached {
    /// It may not be.
    Refused(Refusal),
    /// Its name has no address that is known.
    Unresolved(String),
    /// Nothing answers there.
    Unanswered(String),
}

/// What connections are made with.
pub(super) struct Dialer {
    pub(super) rules: Rules,
    resolver: Arc<dyn Resolve>,
    lookups: Arc<Semaphore>,
    bounds: Bounds,
}

impl Dialer {
    pub(super) fn new(rules: Rules, resolver: Arc<dyn Resolve>, bounds: Bounds) -> Self {
        Self { rules, resolver, lookups: Arc::new(Semaphore::new(LOOKUPS)), bounds }
    }

    /// Connects to `target`, which the rules allow by what it is called. `exempt` is an address that counts as listed.
    pub(super) async fn dial(&self, target: &Target, exempt: Option<IpAddr>) -> Result<TcpStream, Unreached> {
        let addresses = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.look_up(name).await.map_err(Unreached::Unresolved)?,
        };
        let own = own_addresses()
            .await
            .map_err(|error| Unreached::Unresolved(format!("the addresses of this machine are not known: {error}")))?;
        self.rules.check_addresses(&addresses, target.port, &own, exempt).map_err(Unreached::Refused)?;
        self.connect(&addresses, target.port).await.map_err(Unreached::Unanswered)
    }

    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, String> {
        let looking = async {
            // Who gives up waiting for a place leaves nothing behind: no look-up begins that nobody waits for.
            let place = Arc::clone(&self.lookups).acquire_owned().await;
            let found = self.resolver.resolve(name.to_owned());
            // Apart, so that its place is taken until it is over, also when nobody waits for it any more.
            let apart = tokio::spawn(async move {
                let _place = place;
                found.await
            });
            apart.await
        };
        match tokio::time::timeout(self.bounds.resolve, looking).await {
            Err(_) => Err(format!("its name was not resolved in {} s", self.bounds.resolve.as_secs())),
            Ok(Err(_)) => Err("its name could not be resolved".to_owned()),
            Ok(Ok(Err(error))) => Err(format!("its name could not be resolved: {error}")),
            Ok(Ok(Ok(addresses))) if addresses.is_empty() => Err("its name has no address".to_owned()),
            Ok(Ok(Ok(addresses))) => Ok(addresses.iter().map(IpAddr::to_canonical).collect()),
        }
    }

    /// The first of the addresses that answers. Each has its share of the time.
    async fn connect(&self, addresses: &[IpAddr], port: u16) -> Result<TcpStream, String> {
        let share = self.bounds.connect / u32::try_from(addresses.len().clamp(1, 4)).unwrap_or(1);
        let all = async {
            let mut last = "it has no address".to_owned();
            for address in addresses {
                match tokio::time::timeout(share, TcpStream::connect(SocketAddr::new(*address, port))).await {
                    Ok(Ok(stream)) => return Ok(stream),
                    Ok(Err(error)) => last = format!("{address} does not answer: {error}"),
                    Err(_) => last = format!("{address} does not answer"),
                }
            }
            Err(last)
        };
        let late = || Err(format!("it did not answer in {} s", self.bounds.connect.as_secs()));
        tokio::time::timeout(self.bounds.connect, all).await.unwrap_or_else(|_| late())
    }
}

/// The addresses of this machine's interfaces, as they are now.
async fn own_addresses() -> io::Result<BTreeSet<IpAddr>> {
    let listed = tokio::task::spawn_blocking(|| {
        let interfaces = nix::ifaddrs::getifaddrs()?;
        let addresses = interfaces.filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
        });
        Ok::<_, nix::Error>(addresses.collect::<BTreeSet<_>>())
    });
    Ok(listed.await.map_err(io::Error::other)??)
}
