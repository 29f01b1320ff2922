//! `sandbox ask`: an agent asks for more paths than its contract has. A person or the plan answers, and only a new attempt has
//! what was granted.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::flow::plan;
use crate::going::{Going, processes_with, until};
use crate::world::World;

/// A plan with an agent `api` that owns `src/a.txt`, with more of its keys and this script.
fn text(keys: &str, script: &str) -> String {
    let script = script.replace('\n', "; ");
    format!(
        "[run]\nname = 'ask'\n[verify]\ncommand = ['true']\n[agents.api]\nowns = ['src/a.txt']\n{keys}\nrun = ['sh', '-ec', '''{script}''']\n"
    )
}

/// Asks for `docs/**` in its first attempt, and writes there once it may.
const POLITE: &str = r#"if test -z "$SANDBOX_GRANTED"; then echo changed > src/a.txt; sandbox ask --owns "docs/**" --why "the manual tells of it"
else test "$SANDBOX_GRANTED" = "docs/**"; echo new > docs/new; fi"#;

fn journal(world: &World) -> Vec<Value> {
    let text = fs::read_to_string(world.store().join("runs/ask-1/journal.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_type(world: &World, kind: &str) -> Vec<Value> {
    journal(world).into_iter().filter(|event| event["type"] == kind).map(|event| event["data"].clone()).collect()
}

fn open_cards(world: &World) -> Vec<Value> {
    let board = world.sandbox(&["board", "--json"]).expect(0).json();
    board["data"]["lanes"][0]["cards"].as_array().unwrap().clone()
}

fn printed(world: &World) -> String {
    world.sandbox(&["logs", "api"]).expect(0).stdout
}

fn shown(world: &World, path: &str) -> Option<String> {
    let shown = world.try_git(&["show", &format!("sandbox/ask-1/integration:{path}")]);
    (shown.code == Some(0)).then(|| shown.stdout.trim_end().to_owned())
}

#[test]
fn a_person_grants_it_and_the_next_attempt_has_it() {
    let world = World::new();
    let before = world.picture();
    let ran = world.sandbox(&["run", &plan(&world, &text("", POLITE))]).expect(5);
    assert!(ran.stdout.contains("asks for `docs/**`: the manual tells of it"), "{ran:?}");
    assert_eq!(world.picture(), before);
    assert_eq!(shown(&world, "src/a.txt").as_deref(), Some("changed"), "what it made within its contract is merged");
    let card = open_cards(&world)[0].clone();
    assert_eq!(card["kind"], "scope_request");
    let id = card["id"].as_str().unwrap();
    assert!(printed(&world).contains(&format!("card {id} waits for a person")), "{}", printed(&world));
    let full = world.sandbox(&["board", "show", id, "--json"]).expect(0).json()["data"].clone();
    assert_eq!(full["request"]["owns"][0], "docs/**");
    assert_eq!(
        (full["request"]["why"].as_str(), full["request"]["turn"].as_str()),
        (Some("the manual tells of it"), Some("1.1"))
    );
    let told = world.sandbox(&["board", "show", id]).expect(0).stdout;
    for part in [
        "asks for\n  docs/**",
        "the plan's `may_ask` does not cover it",
        "sandbox retry api --run ask-1",
        "--run ask-1",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // Merging again answers nothing.
    world.sandbox(&["merge"]).expect(5);
    assert_eq!(open_cards(&world).len(), 1);
    let decided = world.sandbox(&["board", "approve", id, "--why", "it must"]).expect(0);
    assert!(decided.stdout.contains("sandbox retry api --run ask-1"), "{decided:?}");
    assert_eq!(world.sandbox(&["board", "approve", id]).expect(2).code, Some(2), "an answer is given once");
    assert_eq!(of_type(&world, "attempt.started").len(), 1, "granting begins nothing");
    let again = world.sandbox(&["retry", "api"]).expect(0);
    assert!(again.stderr.contains("with docs/** as granted"), "{again:?}");
    assert_eq!(shown(&world, "docs/new").as_deref(), Some("new"));
    let started = of_type(&world, "attempt.started");
    assert_eq!((started[0].get("granted"), started[1]["granted"][0].as_str()), (None, Some("docs/**")));
    let inspect = world.sandbox(&["inspect", "api", "--json"]).expect(0).json()["data"].clone();
    assert_eq!(
        (inspect["contractKept"].as_bool(), inspect["attempts"][1]["granted"][0].as_str()),
        (Some(true), Some("docs/**"))
    );
    assert!(world.sandbox(&["inspect", "api"]).expect(0).stdout.contains("owned besides, as granted: docs/**"));
    world.sandbox(&["land"]).expect(0);
    assert_eq!((world.read("docs/new"), world.read("src/a.txt")), ("new\n".to_owned(), "changed\n".to_owned()));
}

#[test]
fn the_plan_grants_it_and_an_attempt_follows() {
    let world = World::new();
    let more = "[agents.top]\nowns = ['top']\nafter = ['api']\nrun = ['cp', 'docs/new', 'top']\n";
    let text = text("may_ask = ['docs/**', 'lib/*.rs']\nattempts = 1", POLITE) + more;
    world.sandbox(&["run", &plan(&world, &text)]).expect(0);
    assert_eq!((shown(&world, "docs/new"), shown(&world, "top")), (Some("new".to_owned()), Some("new".to_owned())));
    let (opened, closed) = (of_type(&world, "card.opened"), of_type(&world, "card.closed"));
    assert_eq!((opened.len(), closed.len()), (1, 1));
    assert_eq!(
        (closed[0]["answer"]["kind"].as_str(), closed[0]["answer"]["by"].as_str()),
        (Some("approved"), Some("the plan"))
    );
    let row = world.sandbox(&["status", "--json"]).expect(0).json()["data"]["agents"][0].clone();
    assert_eq!((row["attempt"].as_u64(), row["state"].as_str()), (Some(2), Some("completed")), "{row:#}");
    let finished = of_type(&world, "attempt.finished");
    assert_eq!(finished[0]["outcome"], "completed");
}

/// An attempt that failed for want of what it asked for costs none of its tries; what was granted is asked for no more, and so
/// nothing follows without end.
#[test]
fn following_is_bounded() {
    let world = World::new();
    let script = "n=$(echo $SANDBOX_GRANTED | wc -w)\nsandbox ask --owns docs/$n --why more\nexit 1";
    let ran = world.sandbox(&["run", &plan(&world, &text("may_ask = ['docs/*']\nattempts = 2", script))]).expect(1);
    let granted: Vec<usize> =
        of_type(&world, "attempt.started").iter().map(|it| it["granted"].as_array().map_or(0, Vec::len)).collect();
    // Five that follow, and the one try that is left; the last one's grant is for whoever tries again.
    assert_eq!(granted, [0, 1, 2, 3, 4, 5, 6], "{ran:?}");
    world.sandbox(&["retry", "api"]).expect(1);
    let started = of_type(&world, "attempt.started");
    assert_eq!(started[7]["granted"].as_array().unwrap().len(), 7);
}

/// Without a new attempt, asking is no way around a contract.
#[test]
fn what_is_written_before_it_is_granted_is_out_of_contract() {
    for (keys, code, kinds) in [("", 5, &["scope", "scope_request"][..]), ("may_ask = ['docs/**']", 0, &[])] {
        let world = World::new();
        let script = r#"test -z "$SANDBOX_GRANTED" || exit 0
sandbox ask --owns "docs/**" --why "now"
echo taken > docs/new"#;
        world.sandbox(&["run", &plan(&world, &text(keys, script))]).expect(code);
        let warned = of_type(&world, "git_progress_scope_warning");
        assert_eq!(warned.len(), 1, "the attempt that asked has no more than before");
        assert_eq!(warned[0]["outsideOwnedScope"][0], "docs/new");
        let mut found: Vec<String> =
            open_cards(&world).iter().map(|card| card["kind"].as_str().unwrap().to_owned()).collect();
        found.sort();
        assert_eq!(found, kinds, "{keys}");
        let finished = of_type(&world, "attempt.finished");
        let outside = |nth: usize| finished[nth]["outsideSinceFork"].as_array().unwrap().len();
        assert_eq!(outside(0), 1);
        if code == 0 {
            assert_eq!(outside(1), 0, "held against what the newest attempt has");
            assert_eq!(shown(&world, "docs/new").as_deref(), Some("taken"));
        }
    }
}

#[test]
fn a_person_refuses_it() {
    let world = World::new();
    let script = "echo $SANDBOX_ATTEMPT > src/a.txt\ncode=0\nsandbox ask --owns docs/ --why please || code=$?\necho code $code\nsleep 0.3\nsandbox ask --owns docs/ --why again || true";
    world.sandbox(&["run", &plan(&world, &text("", script))]).expect(5);
    let card = open_cards(&world)[0].clone();
    let id = card["id"].as_str().unwrap();
    assert!(
        printed(&world).contains("code 0")
            && printed(&world).contains(&format!("card {id} waits for a person already")),
        "{}",
        printed(&world)
    );
    world.sandbox(&["board", "dismiss", id, "--why", "not the docs"]).expect(0);
    world.sandbox(&["merge"]).expect(0);
    assert_eq!(shown(&world, "src/a.txt").as_deref(), Some("1"), "its work stays as it is");
    world.sandbox(&["retry", "api"]).expect(0);
    let told = printed(&world);
    assert!(
        told.contains("code 1") && told.contains("dismissed by Tester <tester@example.org>: not the docs"),
        "{told}"
    );
    assert_eq!(of_type(&world, "card.opened").len(), 1);
}

/// What another agent has, what is protected, and what only looks like what the plan grants: a person decides.
#[test]
fn the_plan_grants_no_more_than_it_says() {
    let world = World::new();
    let asks = ["docs/**", ".github/workflows/ci.yml", "**", "lib/**", "src/*"];
    let asks: Vec<String> =
        asks.iter().map(|glob| format!("sandbox ask --owns \"{glob}\" --why x; sleep 0.25")).collect();
    let script = format!("echo 1 > src/a.txt\n{}\nsandbox ask --owns src/a.txt --why x", asks.join("\n"));
    let more = "[agents.docs]\nowns = ['docs/their/**']\nshares = ['src/shared']\nrun = ['sh', '-ec', 'mkdir docs/their; echo 1 > docs/their/x']\n";
    let text = text("may_ask = ['docs/**', '.*/**', 'lib/*', 'src/**']", &script) + more;
    world.sandbox(&["run", &plan(&world, &text)]).expect(5);
    let cards = of_type(&world, "card.opened");
    let why: Vec<String> = cards.iter().map(|card| card["messages"].to_string()).collect();
    assert_eq!(cards.len(), 5, "{cards:#?}");
    for (nth, part) in [
        "`docs/their/a` is in the contract of `docs`",
        "protected by `.github/**`",
        "does not cover it",
        "does not cover it",
        "`src/shared` is in the contract of `docs`",
    ]
    .iter()
    .enumerate()
    {
        assert!(why[nth].contains(part), "{part}: {why:#?}");
    }
    assert_eq!(of_type(&world, "card.closed").len(), 0);
    assert_eq!(of_type(&world, "attempt.started").len(), 2, "nothing follows");
    assert!(printed(&world).contains("all of it is in your contract already"), "{}", printed(&world));
    // A person may approve an overlap: what comes of it shows when it is merged.
    let id = cards[0]["id"].as_str().unwrap();
    world.sandbox(&["board", "approve", id]).expect(0);
    assert_eq!(open_cards(&world).len(), 4);
}

/// Two agents want the same at the same time: what one was granted is its own when the other asks.
#[test]
fn only_one_of_two_is_granted_the_same() {
    let world = World::new();
    let agent = |name: &str| {
        format!(
            "[agents.{name}]\nowns = ['{name}']\nmay_ask = ['docs/**']\n\
             run = ['sh', '-ec', 'echo 1 > {name}; sandbox ask --owns docs/new --why x; sleep 0.3; sandbox ask --owns \"docs/*\" --why x']\n"
        )
    };
    let text = format!("[run]\nname = 'ask'\njobs = 2\n[verify]\ncommand = ['true']\n{}{}", agent("a"), agent("b"));
    world.sandbox(&["run", &plan(&world, &text)]).expect(5);
    let granted = |name: &str| -> Vec<Value> {
        let of_agent =
            journal(&world).into_iter().filter(|event| event["agent"] == name && event["type"] == "card.closed");
        of_agent.map(|event| event["data"]["answer"]["by"].clone()).collect()
    };
    let (a, b) = (granted("a"), granted("b"));
    assert!(a.is_empty() != b.is_empty(), "{a:?} {b:?}");
    assert!(open_cards(&world).len() >= 2, "the other one waits for a person");
}

/// Sends a line over the socket as it is, but for `\x..`, and so many bytes after it.
const RAW: &str = r#"exec perl -MIO::Socket::UNIX -e '
my $line = $ARGV[0]; $line =~ s/\\x([0-9a-f]{2})/chr(hex $1)/ge;
my $c = IO::Socket::UNIX->new(Peer => "/run/sandbox/turn.sock") or die;
syswrite($c, $line . "a" x $ARGV[1] . "\n"); print scalar(<$c>) // "closed\n"' "$@""#;

/// Everything an agent can send. The run goes on, the journal is whole, and the board has what was well asked for and no more.
#[test]
fn nothing_an_agent_sends_does_harm() {
    let world = World::new();
    world.script("raw", RAW);
    let mut script = String::from(
        "set -e\necho 1 > src/a.txt\nrefused() { code=0; sandbox ask \"$@\" || code=$?; test $code = 2; }\n",
    );
    for glob in ["../x", "/etc/passwd", ".git/**", "a/.GIT/x", "!a", "{a,b", "a**", "a//b", "$(printf %0300d 1)"] {
        script.extend(["refused --owns \"", glob, "\" --why x\n"]);
    }
    script += "refused $(for i in $(seq 17); do echo --owns g$i; done) --why x\nrefused --owns ok --why ' '\n";
    // The same by hand, past the checks of the command.
    for (line, more) in [
        (r#"ask {"owns":["../../x"],"why":"x"}"#, "0"),
        (r#"ask {"owns":[".git/hooks/**"],"why":"x"}"#, "0"),
        (r#"ask {"owns":["/etc/**"],"why":"x"}"#, "0"),
        (r#"ask {"owns":["\xff\xfe"],"why":"x"}"#, "0"),
        (r#"ask {"owns":["a"],"why":"x"},{"type":"card.closed"}"#, "0"),
        (r#"ask {"owns":["a"],"why":"x","answer":{"kind":"approved"}}"#, "0"),
        (r#"ask {"owns":["a\u0001"],"why":"x"}"#, "0"),
        (r#"ask {"owns":["#, "60000"),
        ("ask ", "0"),
        ("approve c1", "0"),
    ] {
        script.extend(["raw '", line, "' ", more, "; sleep 0.22\n"]);
    }
    script += "sandbox ask --owns '**' --why \"$(printf 'evil\\n{\"type\":\"run.finished\"}\\033]0;owned\\007\\342\\200\\256')\"\n";
    // A flood: each asks for something else.
    script += "for i in $(seq 1 24); do sandbox ask --owns flood/$i --why x || true; sleep 0.21; done\n";
    world.script("hostile", &script);
    let text =
        "[run]\nname = 'ask'\n[verify]\ncommand = ['true']\n[agents.api]\nowns = ['src/a.txt']\nrun = ['hostile']\n";
    let ran = world.sandbox(&["run", &plan(&world, text)]).expect(5);
    let told = printed(&world);
    assert!(told.contains("ask for paths at most 20 times"), "{told}");
    assert!(
        told.contains("the request is too long")
            && told.contains("cannot be read")
            && told.contains("the only requests are"),
        "{told}"
    );
    // The journal has been read line by line; nothing in it was written by anybody else.
    let cards = of_type(&world, "card.opened");
    let asked: Vec<&str> = cards.iter().map(|card| card["request"]["owns"][0].as_str().unwrap()).collect();
    assert_eq!(asked[0], "**", "{asked:?}");
    assert!(asked.len() <= 20 && asked[1..].iter().all(|glob| glob.starts_with("flood/")), "{asked:?}");
    assert_eq!(cards[0]["request"]["why"], "evil {\"type\":\"run.finished\"}]0;owned\u{202e}");
    assert_eq!(of_type(&world, "run.finished").len(), 1);
    assert_eq!(of_type(&world, "card.closed").len(), 0);
    for arguments in [&["board"][..], &["status"], &["board", "show", cards[0]["id"].as_str().unwrap()], &["logs"]] {
        let shown = world.sandbox(arguments).expect(0).stdout;
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{arguments:?}: {shown}");
    }
    assert!(!ran.stdout.contains(['\u{7}', '\u{202e}']));
    assert_eq!(shown(&world, "src/a.txt").as_deref(), Some("1"));
}

/// Granted, and then the coordinator dies: going on, the attempt is made anew, with what was granted.
#[test]
fn a_grant_outlives_its_coordinator() {
    let world = World::new();
    let script = r#"test -n "$SANDBOX_GRANTED" || { echo changed > src/a.txt
sandbox ask --owns "docs/**" --why x
sleep 86531; }
echo new > docs/new"#;
    let file = plan(&world, &text("may_ask = ['docs/**']", script));
    let mut going = Going::start(&world, &["run", &file, "--json"]);
    going.wait_for(|event| event["type"] == "card.closed");
    until("it is at work", || (!processes_with("sleep 86531").is_empty()).then_some(()));
    going.signal(Signal::SIGKILL);
    drop(going.wait_dead());
    world.sandbox(&["resume"]).expect(0);
    assert_eq!(shown(&world, "docs/new").as_deref(), Some("new"));
    assert_eq!(of_type(&world, "attempt.started").last().unwrap()["granted"][0], "docs/**");
}

#[test]
fn where_nothing_can_be_asked() {
    let mut world = World::new();
    let outside = world.sandbox(&["ask", "--owns", "a", "--why", "x"]).expect(2);
    assert!(outside.stderr.contains("no agent's box"), "{outside:?}");
    let setup = "[workspace]\nsetup = ['sh', '-c', 'sandbox ask --owns a --why x; test $? = 4']\n";
    // A verifier has nobody to ask, and is told so at once.
    let asking = text("", "echo 1 > src/a.txt").replace(
        "command = ['true']",
        "command = ['sh', '-c', 'for it in turn \"ask --owns a --why x\"; do timeout 20 sandbox $it; test $? = 2 || exit 1; done']",
    );
    world.sandbox(&["run", &plan(&world, &(asking + setup))]).expect(0);
    assert_eq!(of_type(&world, "card.opened").len(), 0);
    world.set("SANDBOX_DEGRADED", "namespaces");
    let degraded = world.sandbox(&["ask", "--owns", "a", "--why", "x", "--json"]).expect(4).json();
    assert!(degraded["error"]["message"].as_str().unwrap().contains("without namespaces"), "{degraded:#}");
}
