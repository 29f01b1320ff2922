//! A proxy that lets through what a list names, for a box whose network is its own.
//!
//! A box with [`crate::Network::Relay`] has nothing but loopback, and on it one port. Its listening socket was made inside
//! and is held outside ([`crate::Sandbox::take_relay`]): a socket stays in the network it was made in, so whatever connects
//! there is a process of the box, and what is done for it is done in the parent's network, by the parent's rules. Nothing
//! is copied from process to process on the way.
//!
//! This module can be used without the rest of the crate, with any listening socket.
//!
//! # How it works
//!
//! One [`Proxy`] serves one box, so rules and records never mix. The first byte of a connection tells what it speaks:
//!
//! - **HTTP/1.1** (RFC 9110, 9112). `CONNECT host:port` opens a tunnel. A request in absolute form, `GET http://host/path`,
//!   is made anew for the server: its framing, `Host` and hop-by-hop fields are ours, so what two readers could understand in
//!   two ways never leaves. A request to the proxy itself, `GET /HOST:PORT/path`, is taken for one to that host: for programs
//!   that know a base URL and no proxy.
//! - **SOCKS5** (RFC 1928), without authentication, `CONNECT` alone, with names, IPv4 and IPv6 addresses.
//!
//! For each request, in this order:
//!
//! 1. The host and port are read by one grammar ([`Target`]). Numbers that some resolvers take for addresses (`127.1`,
//!    `0x7f000001`, `2130706433`) are no names, and are refused.
//! 2. [`Rules`] decide on the name as written. A name that is not listed is not even resolved.
//! 3. The name is resolved, once. *Every* address must be one that may be reached: not denied, and not special
//!    ([`AddressKind`]: loopback, link-local with the metadata services of clouds, private, reserved, the host's own)
//!    unless that very address and port are listed. One address that may not be reached refuses the name, for a name
//!    that has good and bad addresses is how filters are got round.
//! 4. One of the addresses that were checked is connected to, never the name: what a second look-up would say does not matter.
//!
//! A refusal is `403` with the field `X-Proxy-Error: blocked-by-sandbox` and a text that says why and what to list; in SOCKS it
//! is reply 2. A name that cannot be resolved, or a server that does not answer, is `502`, or reply 4 or 5.
//!
//! # Secrets
//!
//! For a host with an [`Injection`], a plain request through the proxy, `http://HOST/path` or `/HOST/path` to the proxy itself (`:PORT` where it is not 443),
//! loses every field that could authenticate it, gets the secret, and is sent over TLS to that host and no other. So whoever
//! asks never holds the secret. No redirect is followed. The secret is in no record, no message and no answer of the proxy's
//! own. It cannot be kept from a server that sends it back.
//!
//! # What holds
//!
//! - Nothing is reached that the rules do not name.
//! - Bounded: connections at once, of a box and of all boxes of the process together, so that no box uses up the open files
//!   of the process; the size of a request's head and the time it may take; look-ups at once; the time to connect; the time
//!   without a byte. Connections beyond the bound wait to be accepted.
//! - Nothing is gathered up: bodies go through as they come.
//! - Each request is told of once, when it is over, as a [`Visit`], which holds neither path, query nor field.
//! - When a [`Proxy`] is dropped or stopped, so is everything it does.
//!
//! # What does not
//!
//! What is said in a tunnel is not seen. Who may reach a host may send it anything, and by `CONNECT` to a host that serves
//! others too (a content network) perhaps reach these. The name is a claim of the client's; only the address is checked.

mod address;
mod dial;
mod endpoint;
mod http;
mod injection;
mod meter;
mod rules;
mod server;
mod socks;
mod visit;

pub use address::AddressKind;
pub use dial::{Resolve, SystemResolver};
pub use endpoint::{Endpoint, EndpointError, Host, Target};
pub use injection::{Injection, InjectionError, Injections, Upstream, check_header};
pub use rules::{Refusal, Rules};
pub use server::{Bounds, Proxy, Setup};
pub use visit::{Decision, Protocol, Visit};
