//! What may be reached and what may not, by each way of asking.

use super::scene::{Came, Names, Scene, Server, WAYS, ask, rules};
use sandbox::proxy::{AddressKind, Decision, Refusal};
use tokio::net::TcpListener;

/// What is allowed, what is denied, what is asked for, and what comes of it. `PORT` is the server's.
type Row = (&'static [&'static str], &'static [&'static str], &'static str, Came);

#[tokio::test]
async fn only_what_is_listed_is_reached() {
    use Came::{Failed, Invalid, Refused};
    let server = Server::new("it").await;
    let port = server.port();
    let names = Names::default()
        .with("good.example", &[&["127.0.0.1"]])
        .with("sub.good.example", &[&["127.0.0.1"]])
        .with("metadata.example", &[&["169.254.169.254"]])
        .with("private.example", &[&["10.0.0.1"]])
        .with("mapped.example", &[&["::ffff:127.0.0.1"]])
        .with("mixed.example", &[&["127.0.0.1", "10.0.0.1"]])
        .with("none.example", &[&[]])
        .with("localhost", &[&["127.0.0.1"]]);
    let reached = || Came::Reached("it".to_owned());
    let table: [Row; 38] = [
        // Listed, by address and by name.
        (&["127.0.0.1:PORT"], &[], "127.0.0.1", reached()),
        (&["good.example:PORT", "127.0.0.1:PORT"], &[], "good.example", reached()),
        (&["good.example:PORT", "127.0.0.1:PORT"], &[], "GOOD.Example.", reached()),
        (&["*.good.example:PORT", "127.0.0.1:*"], &[], "sub.good.example", reached()),
        (&["localhost:*", "127.0.0.1:PORT"], &[], "localhost", reached()),
        // Not listed: nothing, another name, another port, the address of a listed name, the suffix itself.
        (&[], &[], "127.0.0.1", Refused),
        (&[], &[], "good.example", Refused),
        (&["good.example:PORT"], &[], "other.example", Refused),
        (&["good.example:1", "127.0.0.1:1"], &[], "good.example", Refused),
        (&["good.example:PORT"], &[], "127.0.0.1", Refused),
        (&["*.good.example:PORT", "127.0.0.1:PORT"], &[], "good.example", Refused),
        (&["good.example:PORT", "127.0.0.1:PORT"], &[], "good.example.evil.example", Refused),
        // Listed by name alone, and special by address.
        (&["good.example:PORT"], &[], "good.example", Refused),
        (&["localhost:PORT"], &[], "localhost", Refused),
        (&["metadata.example:PORT"], &[], "metadata.example", Refused),
        (&["private.example:PORT"], &[], "private.example", Refused),
        (&["mapped.example:PORT"], &[], "mapped.example", Refused),
        (&["mapped.example:PORT", "127.0.0.1:PORT"], &[], "mapped.example", reached()),
        (&["mapped.example:PORT", "127.0.0.1:PORT"], &["127.0.0.1:*"], "mapped.example", Refused),
        (&["mixed.example:PORT", "127.0.0.1:PORT"], &[], "mixed.example", Refused),
        (&["good.example:PORT", "127.0.0.1:1"], &[], "good.example", Refused),
        // Addresses that nobody listed.
        (&["good.example:PORT"], &[], "169.254.169.254", Refused),
        (&["good.example:PORT"], &[], "[::1]", Refused),
        (&["127.0.0.1:PORT"], &[], "[::ffff:127.0.0.1]", reached()),
        (&["[::ffff:127.0.0.1]:PORT"], &["127.0.0.1:*"], "[::ffff:127.0.0.1]", Refused),
        (&["[64:ff9b::7f00:1]:PORT"], &["127.0.0.1:*"], "[64:ff9b::7f00:1]", Refused),
        (&["127.0.0.1:PORT"], &[], "127.0.0.2", Refused),
        (&["127.0.0.1:PORT"], &[], "0.0.0.0", Refused),
        // Denied, whatever is allowed: by name, by suffix, by the address it has.
        (&["127.0.0.1:PORT"], &["127.0.0.1:PORT"], "127.0.0.1", Refused),
        (&["*.good.example:PORT", "127.0.0.1:PORT"], &["sub.good.example:*"], "sub.good.example", Refused),
        (&["good.example:PORT", "127.0.0.1:PORT"], &["127.0.0.1:*"], "good.example", Refused),
        // Numbers that some resolvers take for 127.0.0.1 are no names.
        (&["127.0.0.1:PORT"], &[], "2130706433", Invalid),
        (&["127.0.0.1:PORT"], &[], "0x7f.1", Invalid),
        (&["127.0.0.1:PORT"], &[], "127.1", Invalid),
        (&["127.0.0.1:PORT"], &[], "0177.0.0.1", Invalid),
        (&["127.0.0.1:PORT"], &[], "127.0.0.0x1", Invalid),
        // Listed, and not there.
        (&["gone.example:PORT"], &[], "gone.example", Failed),
        (&["none.example:PORT"], &[], "none.example", Failed),
    ];
    for (allow, deny, host, expected) in table {
        let scene = Scene::new(rules(allow, deny, port), &names).await;
        for way in WAYS {
            let came = ask(scene.at, way, host, port).await;
            assert_eq!(came, expected, "{way:?} {host}, allowed {allow:?}, denied {deny:?}");
        }
        for visit in scene.end().await {
            let decided = match &expected {
                Came::Reached(_) => visit.decision == Decision::Allowed && visit.up > 0 && visit.down > 0,
                Refused => matches!(visit.decision, Decision::Refused(_)) && visit.address.is_none(),
                Failed => matches!(visit.decision, Decision::Failed(_)),
                Invalid => matches!(visit.decision, Decision::Invalid(_)) && visit.target.is_none(),
            };
            assert!(decided, "{visit:?}");
        }
    }
}

#[tokio::test]
async fn what_is_not_listed_is_not_even_resolved() {
    let names = Names::default().with("secret.evil.example", &[&["127.0.0.1"]]);
    let scene = Scene::new(rules(&["good.example:PORT"], &["*.evil.example:*"], 80), &names).await;
    for way in WAYS {
        assert_eq!(ask(scene.at, way, "secret.evil.example", 80).await, Came::Refused);
        assert_eq!(ask(scene.at, way, "other.example", 80).await, Came::Refused);
    }
    assert_eq!(names.asked(), [""; 0]);
}

/// The second look-up would give another server: it is never made.
#[tokio::test]
async fn the_address_that_was_checked_is_the_one_connected_to() {
    let good = Server::new("good").await;
    let port = good.port();
    let mut evil = Server::at(&format!("127.0.0.2:{port}"), "evil").await;
    for way in WAYS {
        let names = Names::default().with("name.example", &[&["127.0.0.1"], &["127.0.0.2"]]);
        let allow = ["name.example:PORT", "127.0.0.1:PORT"];
        let mut scene = Scene::new(rules(&allow, &[], port), &names).await;
        assert_eq!(ask(scene.at, way, "name.example", port).await, Came::Reached("good".to_owned()));
        assert_eq!(names.asked(), ["name.example"]);
        assert_eq!(scene.visit().await.address, Some(good.at));
        // Asked anew it gives the other, which is refused: nothing of the first time is left.
        assert_eq!(ask(scene.at, way, "name.example", port).await, Came::Refused);
    }
    assert!(evil.is_untouched());
}

#[tokio::test]
async fn of_several_addresses_the_first_that_answers_is_taken() {
    let server = Server::at("127.0.0.3:0", "third").await;
    let port = server.port();
    let names = Names::default().with("name.example", &[&["127.0.0.4", "127.0.0.3"]]);
    let allow = ["name.example:PORT", "127.0.0.3:PORT", "127.0.0.4:PORT"];
    let scene = Scene::new(rules(&allow, &[], port), &names).await;
    for way in WAYS {
        assert_eq!(ask(scene.at, way, "name.example", port).await, Came::Reached("third".to_owned()));
    }
}

#[tokio::test]
async fn addresses_of_this_machine_are_refused_though_they_are_ordinary() {
    let interfaces = nix::ifaddrs::getifaddrs().unwrap();
    let own = interfaces.filter_map(|interface| Some(interface.address?.as_sockaddr_in()?.ip()));
    for address in own {
        let text = address.to_string();
        let names = Names::default().with("own.example", &[&[&text]]);
        let mut scene = Scene::new(rules(&["own.example:*"], &[], 80), &names).await;
        assert_eq!(ask(scene.at, WAYS[0], "own.example", 80).await, Came::Refused, "{text}");
        let decision = scene.visit().await.decision;
        assert!(matches!(decision, Decision::Refused(Refusal::Address { .. })), "{decision:?}");
    }
    assert_eq!(AddressKind::Own.name(), "an address of this machine");
}

#[tokio::test]
async fn a_refusal_says_why_and_what_to_list() {
    let names = Names::default().with("name.example", &[&["10.1.2.3"]]);
    let scene = Scene::new(rules(&["name.example:443"], &["bad.example:*"], 443), &names).await;
    for (host, says) in [
        ("other.example", "not in the allow-list; add \"other.example:443\" to the list"),
        ("bad.example", "in the deny-list"),
        (
            "name.example",
            "10.1.2.3 is a private address, which must be listed itself; if it is meant, add \"10.1.2.3:443\" to the list",
        ),
    ] {
        let answer =
            scene.say(&format!("GET http://{host}:443/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
        assert!(answer.contains("x-proxy-error: blocked-by-sandbox\r\n"), "{answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n`{host}:443` was refused: {says}\n")), "{answer}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_no_refusal() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let mut scene = Scene::new(rules(&["127.0.0.1:PORT"], &[], port), &Names::default()).await;
    for way in WAYS {
        assert_eq!(ask(scene.at, way, "127.0.0.1", port).await, Came::Failed);
        let Decision::Failed(reason) = scene.visit().await.decision else { panic!("it failed") };
        assert!(reason.contains("refused"), "{reason}");
    }
}
