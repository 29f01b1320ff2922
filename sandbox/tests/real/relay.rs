//! A box with a relay: nothing is reached but by it, and by it only what the rules list.

use crate::bench::{Bench, run, shell, soon};
use crate::proxy::scene::{Names, Server, rules};
use sandbox::proxy::{Decision, Proxy, Rules, Setup};
use sandbox::{Network, Policy};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::mpsc;

const PORT: u16 = 3128;

/// Runs a script in a box whose relay leads to a proxy, and gives what it said and what the proxy told.
async fn behind(bench: &Bench, policy: &Policy, rules: Rules, names: &Names, script: &str) -> (String, Vec<Decision>) {
    let sandbox = bench.start(policy).await;
    let relay = sandbox.take_relay().unwrap().unwrap();
    assert!(sandbox.take_relay().unwrap().is_none(), "only once");
    let (tell, mut told) = mpsc::unbounded_channel();
    let setup = Setup { resolver: Arc::new(names.clone()), ..Setup::new(rules) };
    let proxy = Proxy::start(relay, setup, move |visit| drop(tell.send(visit.decision)));
    let ran = run(&sandbox, shell(script)).await;
    soon(sandbox.shutdown()).await.unwrap();
    soon(proxy.stop()).await;
    let mut decisions = Vec::new();
    while let Some(decision) = soon(told.recv()).await {
        decisions.push(decision);
    }
    (ran.out, decisions)
}

fn get(host: &str, at: SocketAddr) -> String {
    let request = format!("GET http://{host}:{}/ HTTP/1.1\\r\\nconnection: close\\r\\n\\r\\n", at.port());
    format!("/run/helper say 127.0.0.1:{PORT} '{request}'")
}

#[tokio::test]
async fn a_listed_host_is_reached_and_nothing_else_is() {
    let bench = Bench::new().await;
    let server = Server::new("hello from outside").await;
    let relay = bench.policy().network(Network::Relay { port: PORT });
    let names = Names::default().with("name.example", &[&["127.0.0.1"]]);
    let direct = format!(
        "/run/helper tcp {}; /run/helper tcp 192.0.2.1:80; /run/helper tcp 169.254.169.254:80; \
         /run/helper udp 192.0.2.1:53; /run/helper resolve name.example",
        server.at
    );

    // With the host's network all is in reach; with none, nothing is.
    let ran = bench.sh(&bench.policy().network(Network::Host), &format!("/run/helper tcp {}", server.at)).await;
    assert!(ran.ok(), "{}", ran.out);
    let ran = bench.sh(&bench.policy(), &get("127.0.0.1", server.at)).await;
    assert!(ran.out.contains("refused"), "{}", ran.out);

    let allowed = rules(&["name.example:PORT", "127.0.0.1:PORT"], &[], server.port());
    let script = format!("{}; {}", get("name.example", server.at), get("other.example", server.at));
    let (out, decisions) = behind(&bench, &relay, allowed.clone(), &names, &script).await;
    assert!(out.contains("hello from outside") && out.contains("403 Forbidden"), "{out}");
    assert!(matches!(decisions[..], [Decision::Allowed, Decision::Refused(_)]), "{decisions:?}");

    let (out, decisions) = behind(&bench, &relay, allowed, &names, &direct).await;
    let failed = out.lines().filter(|line| line.starts_with("failed ")).count();
    assert_eq!((failed, out.lines().count()), (5, 5), "{out}");
    assert!(decisions.is_empty(), "none of it came by: {decisions:?}");
}

#[tokio::test]
async fn a_box_without_a_relay_has_none() {
    let bench = Bench::new().await;
    for network in [Network::None, Network::Host] {
        let sandbox = bench.start(&bench.policy().network(network)).await;
        assert!(sandbox.take_relay().unwrap().is_none());
        soon(sandbox.shutdown()).await.unwrap();
    }
}

/// Beside other sockets that are handed out; and from no other place than the box.
#[tokio::test]
async fn a_relay_belongs_to_its_box_alone() {
    let bench = Bench::new().await;
    let policy = bench.policy().network(Network::Relay { port: PORT }).listen("/run/a.sock").listen("/run/b.sock");
    let (one, other) = (bench.start(&policy).await, bench.start(&policy).await);
    assert!(one.take_listener("/run/b.sock".as_ref()).unwrap().is_some());
    let (first, second) = (one.take_relay().unwrap().unwrap(), other.take_relay().unwrap().unwrap());
    assert_eq!(first.local_addr().unwrap(), second.local_addr().unwrap(), "the same address, in two networks");
    let connect = |sandbox| run(sandbox, shell("/run/helper tcp 127.0.0.1:3128"));
    let (ran, accepted) = soon(async { tokio::join!(connect(&one), first.accept()) }).await;
    assert!(ran.ok() && accepted.is_ok(), "{}", ran.out);
    // Nothing came to the other, nor does the host's own port lead to either.
    let outside = std::net::TcpStream::connect(("127.0.0.1", PORT));
    assert!(outside.is_err(), "this test needs port {PORT} to be free on the host");
    let ran = run(&other, shell("/run/helper tcp 127.0.0.1:3128")).await;
    assert!(ran.ok(), "{}", ran.out);
    soon(second.accept()).await.unwrap();
    // What was made inside cannot be taken over from inside.
    let ran = run(&one, shell("/run/helper listen 127.0.0.1:3128")).await;
    assert!(ran.out.contains("in use"), "{}", ran.out);
    soon(one.shutdown()).await.unwrap();
    soon(other.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_port_that_is_none_is_refused() {
    let bench = Bench::new().await;
    let refusal = sandbox::Enforcement::plan(&bench.policy().network(Network::Relay { port: 0 }), &bench.host);
    assert!(refusal.unwrap_err().to_string().contains("port"));
}
