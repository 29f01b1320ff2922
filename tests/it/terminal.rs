//! What an agent writes cannot do anything to the terminal of whoever looks: titles, the clipboard, colours, the cursor.

use std::fs;
use std::process::Stdio;

use crate::world::{Ran, World, program};

/// Sequences that a terminal acts on, as an agent may print, name a file after, or commit with.
const SEQUENCES: [(&str, &str); 12] = [
    ("title", r"\033]0;owned\007"),
    ("title, ended otherwise", r"\033]2;owned\033\\"),
    ("clipboard", r"\033]52;c;b3duZWQ=\007"),
    ("link", r"\033]8;;http://owned\033\\text\033]8;;\033\\"),
    ("answer", r"\033[c\033[6n\033[21t"),
    ("clear", r"\033[2J\033[H"),
    ("other screen", r"\033[?1049h\033[?25l"),
    ("device control", r"\033P$qm\033\\"),
    ("eight bits", r"\302\2330m\302\235 0;owned\302\234"),
    ("raw eight bits", r"\2332J\235owned\234"),
    ("overwrite", r"hidden\rshown\b\b\b\v\f"),
    ("turned around", r"\342\200\256gnp.exe\342\201\246"),
];

/// What the program says on a terminal of its own.
fn on_a_terminal(world: &World, arguments: &[&str]) -> Vec<u8> {
    let words = shell_words::join([program().to_str().unwrap()].iter().chain(arguments));
    let mut command = world.command("timeout");
    command.args(["30", "script", "-qec", &words, "/dev/null"]).env("TERM", "xterm-256color");
    command.stdin(Stdio::null()).output().unwrap().stdout
}

/// Whether there is anything but text, the program's own colours and its own moves of the cursor.
fn acts(said: &[u8]) -> Option<String> {
    let Ok(text) = std::str::from_utf8(said) else { return Some("bytes that are no text".to_owned()) };
    if let Some(at) = text.find("owned\u{7}").or_else(|| text.find("\u{1b}]")).or_else(|| text.find("\u{1b}P")) {
        return Some(text[at..].chars().take(40).collect());
    }
    let odd = |c: char| {
        ('\u{80}'..='\u{9f}').contains(&c)
            || matches!(c, '\u{7}' | '\u{8}' | '\u{b}' | '\u{c}' | '\u{202e}' | '\u{2066}')
    };
    if let Some(at) = text.find(odd) {
        return Some(text[at..].chars().take(40).collect());
    }
    // What is left of sequences is the program's own: colours, and taking its own block back.
    for part in text.split('\u{1b}').skip(1) {
        let end = part.find(|c: char| c.is_ascii_alphabetic());
        let own = part.starts_with('[') && end.is_some_and(|end| matches!(&part[end..=end], "m" | "A" | "J" | "K"));
        let hostile = part.starts_with("[2J") || part.starts_with("[?");
        if !own || hostile {
            return Some(part.chars().take(40).collect());
        }
    }
    None
}

fn hostile_plan(world: &World) -> String {
    let prints: Vec<String> = SEQUENCES.iter().map(|(_, sequence)| format!("printf '{sequence}\\n'; ")).collect();
    let names: Vec<String> = SEQUENCES
        .iter()
        .map(|(_, sequence)| format!("printf x > \"$(printf 'f{}')\"; ", sequence.replace("http://", "")))
        .collect();
    let commit = r#"git add -A; git commit -qm "$(printf '\033]0;owned\007 subject')"; sandbox turn "$(printf '\033]0;owned\007 label')""#;
    let (prints, names) = (prints.concat(), names.concat());
    let script = format!("{prints} set +e; {names} {commit}; printf 'no end \\033]0;owned'; exit 0");
    world.script("hostile", &script);
    "[agents.hostile]\nowns = ['f*']\nrun = ['hostile']\n[agents.other]\nowns = ['src/**']\nrun = ['sh', '-c', 'printf x > \"$(printf \"o\\033]0;owned\\007\")\"']\n[verify]\ncommand = ['sh', '-c', 'printf \"\\033]0;owned\\007\"; exit 1']\n".to_owned()
}

#[test]
fn nothing_an_agent_writes_moves_the_terminal() {
    // The check itself sees each of them, as a terminal would get it.
    for (name, sequence) in SEQUENCES {
        let raw = std::process::Command::new("printf").arg(sequence).output().unwrap().stdout;
        assert!(acts(&raw).is_some(), "`{name}` is not even seen: {raw:?}");
    }
    let world = World::new();
    let file = world.home().join("plan.toml");
    fs::write(&file, hostile_plan(&world)).unwrap();
    let live = on_a_terminal(&world, &["run", file.to_str().unwrap()]);
    assert_eq!(acts(&live), None, "run: {}", String::from_utf8_lossy(&live));
    let text = String::from_utf8_lossy(&live);
    assert!(text.contains("hostile") && text.contains("other"), "{text}");
    let cards: Ran = world.sandbox(&["board", "--json"]);
    let cards = cards.json();
    let card = cards["data"]["lanes"][0]["cards"][0]["id"].as_str().unwrap_or_default().to_owned();
    assert!(!card.is_empty(), "{cards:#}");
    let verbs: [&[&str]; 16] = [
        &["status"],
        &["runs"],
        &["board"],
        &["board", "show", &card],
        &["inspect", "hostile"],
        &["inspect", "hostile", "--files"],
        &["inspect", "hostile", "--stat"],
        &["inspect", "hostile", "--patch"],
        &["inspect", "hostile", "--patch", "--reverse"],
        &["inspect", "hostile", "--output"],
        &["inspect", "hostile", "--turn", "1.1"],
        &["inspect", "hostile", "--turn", "1.1", "--output"],
        &["logs"],
        &["logs", "hostile"],
        &["logs", "verify"],
        &["clean", "--dry-run"],
    ];
    for verb in verbs {
        let said = on_a_terminal(&world, verb);
        assert!(!said.is_empty(), "{verb:?} says nothing");
        assert_eq!(acts(&said), None, "{verb:?}: {}", String::from_utf8_lossy(&said));
    }
}
