//! SOCKS5 (RFC 1928), as far as a proxy of TCP connections needs it.

use super::dial::Unreached;
use super::meter::{Activity, Metered, Open};
use super::server::Shared;
use super::visit::{Decision, Protocol};
use super::{EndpointError, Target};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

const SUCCEEDED: u8 = 0;
const FAILURE: u8 = 1;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const REFUSED: u8 = 5;
const NO_SUCH_COMMAND: u8 = 7;
const NO_SUCH_ADDRESS: u8 = 8;

type Client = Metered<TcpStream>;

/// What a client asked for, or why that cannot be had: a reply, and the reason for the record.
type Asked = Result<Target, (u8, &'static str)>;

pub(super) async fn serve(shared: &Arc<Shared>, mut client: Client, activity: &Arc<Activity>) {
    let Ok(Ok(asked)) = tokio::time::timeout(shared.bounds.head, ask(&mut client)).await else { return };
    // An error says that the client is gone.
    drop(carry_out(shared, &mut client, activity, asked).await);
}

async fn carry_out(shared: &Shared, client: &mut Client, activity: &Arc<Activity>, asked: Asked) -> io::Result<()> {
    let target = match asked {
        Ok(target) => target,
        Err((code, reason)) => {
            Open::new(Protocol::Socks, None, &shared.tell).decide(Decision::Invalid(reason));
            return reply(client, code).await;
        }
    };
    let mut open = Open::new(Protocol::Socks, Some(target.clone()), &shared.tell);
    if let Err(refusal) = shared.dialer.rules.check(&target) {
        open.decide(Decision::Refused(refusal));
        return reply(client, NOT_ALLOWED).await;
    }
    let stream = match shared.dialer.dial(&target, None).await {
        Ok(stream) => stream,
        Err(unreached) => {
            let (code, decision) = match unreached {
                Unreached::Refused(refusal) => (NOT_ALLOWED, Decision::Refused(refusal)),
                Unreached::Unresolved(reason) => (HOST_UNREACHABLE, Decision::Failed(reason)),
                Unreached::Unanswered(reason) => (REFUSED, Decision::Failed(reason)),
            };
            open.decide(decision);
            return reply(client, code).await;
        }
    };
    open.connected(stream.peer_addr()?);
    open.decide(Decision::Allowed);
    reply(client, SUCCEEDED).await?;
    let mut server = Metered::new(stream, activity, Some(&open.counts));
    tokio::io::copy_bidirectional(client, &mut server).await.map(drop)
}

/// The greeting and the request.
async fn ask(client: &mut Client) -> io::Result<Asked> {
    let mut greeting = [0; 2];
    client.read_exact(&mut greeting).await?;
    let mut methods = vec![0; greeting[1].into()];
    client.read_exact(&mut methods).await?;
    let method = if methods.contains(&NO_AUTHENTICATION) { NO_AUTHENTICATION } else { NO_METHOD };
    client.write_all(&[VERSION, method]).await?;
    if method == NO_METHOD {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut request = [0; 4];
    client.read_exact(&mut request).await?;
    let [version, command, _, kind] = request;
    if version != VERSION {
        return Ok(Err((FAILURE, "no request of SOCKS5")));
    }
    let host = match kind {
        1 => {
            let mut octets = [0; 4];
            client.read_exact(&mut octets).await?;
            Ipv4Addr::from(octets).to_string()
        }
        4 => {
            let mut octets = [0; 16];
            client.read_exact(&mut octets).await?;
            Ipv6Addr::from(octets).to_string()
        }
        3 => {
            let mut name = vec![0; client.read_u8().await?.into()];
            client.read_exact(&mut name).await?;
            match String::from_utf8(name) {
                Ok(name) => name,
                Err(_) => return Ok(Err((FAILURE, "a host that cannot be read"))),
            }
        }
        _ => return Ok(Err((NO_SUCH_ADDRESS, "a kind of address that is not known"))),
    };
    let port = client.read_u16().await?;
    if command != CONNECT {
        return Ok(Err((NO_SUCH_COMMAND, "a command other than CONNECT")));
    }
    Ok(Target::new(&host, port).map_err(|error| {
        let reason = match error {
            EndpointError::Number { .. } => "a number that is no address as it is written",
            _ => "a host that cannot be read",
        };
        (FAILURE, reason)
    }))
}

/// A reply. The address in it is of no use to a client, and says nothing.
async fn reply(client: &mut Client, code: u8) -> io::Result<()> {
    client.write_all(&[VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    client.flush().await
}
