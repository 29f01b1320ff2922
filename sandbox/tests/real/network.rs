//! What a box can reach, and how it can be reached.

use crate::bench::{Bench, run, shell, soon};
use sandbox::{Guard, Nesting, Network};
use std::os::linux::net::SocketAddrExt as _;
use std::path::Path;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[tokio::test]
async fn without_a_network_the_hosts_loopback_is_out_of_reach() {
    let bench = Bench::new().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!("/run/helper tcp {}", listener.local_addr().unwrap());
    let baseline = bench.sh(&bench.policy().network(Network::Host), &script).await;
    assert!(baseline.ok(), "{}", baseline.out);
    let ran = bench.sh(&bench.policy(), &script).await;
    assert!(ran.out.contains("refused"), "{}", ran.out);
}

#[tokio::test]
async fn without_a_network_only_loopback_exists_and_is_up() {
    let bench = Bench::new().await;
    let ran = bench.sh(&bench.policy(), "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; hostname").await;
    assert_eq!(ran.out.lines().next(), Some("lo"), "{}", ran.out);
    // Refused by a loopback that is up; unreachable if it were down.
    let ran = bench.sh(&bench.policy(), "/run/helper tcp 127.0.0.1:9").await;
    assert!(ran.out.contains("refused"), "{}", ran.out);
    let ran = bench.sh(&bench.policy(), "/run/helper tcp 192.0.2.1:9").await;
    assert!(ran.out.contains("unreachable"), "{}", ran.out);
}

#[tokio::test]
async fn abstract_sockets_of_the_host_are_out_of_reach() {
    let bench = Bench::new().await;
    let name = format!("sandbox-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let script = format!("/run/helper abstract {name}");
    let unfenced = |policy| bench.plan(&policy).without_guard(|guard| matches!(guard, Guard::Landlock { .. }));
    let baseline = bench.sh_by(&unfenced(bench.policy().network(Network::Host)), &script).await;
    assert!(baseline.ok(), "{}", baseline.out);
    let ran = bench.sh_by(&unfenced(bench.policy()), &script).await;
    assert!(ran.out.contains("refused"), "by the network namespace: {}", ran.out);
    if bench.host.landlock.is_some_and(|version| version >= 6) {
        for nesting in [Nesting::Denied, Nesting::Allowed] {
            let ran = bench.sh(&bench.policy().network(Network::Host).nesting(nesting), &script).await;
            assert!(ran.out.contains("not permitted"), "by the scope, with the host's network: {}", ran.out);
        }
    }
}

#[tokio::test]
async fn a_socket_made_inside_is_served_outside() {
    let bench = Bench::new().await;
    let deep = format!("/run/sandbox/{}turn.sock", "long/".repeat(30));
    let path = Path::new("/run/sandbox/turn.sock");
    let sandbox = bench.start(&bench.policy().listen(path).listen(&deep)).await;
    let listener = sandbox.take_listener(path).unwrap().unwrap();
    assert!(sandbox.take_listener(path).unwrap().is_none(), "only once");
    assert!(sandbox.take_listener(Path::new(&deep)).unwrap().is_some(), "longer than a socket's name may be");
    assert!(sandbox.take_listener(Path::new("/run/none")).unwrap().is_none());
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        stream.write_all(format!("{said} yourself").as_bytes()).await.unwrap();
    };
    let (ran, ()) =
        soon(async { tokio::join!(run(&sandbox, shell("/run/helper unix /run/sandbox/turn.sock")), serve) }).await;
    assert_eq!(ran.out, "ok hello yourself\n");
}
