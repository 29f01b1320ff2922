//! What the gate must be told of the user's own files: those that were changed when the run began, that an agent changed, too,
//! and that are others by now.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use crate::flow::plan;
use crate::world::World;

const ONE: &str = r#"
[run]
name = "one"
[verify]
command = ["true"]
[agents.one]
owns = ["**"]
run = ["sh", "-ec", "CHANGE"]
"#;

/// The user has these files changed; an agent, which knows nothing of it, writes them by this script.
fn world(files: &[(&[u8], &str)], script: &str) -> World {
    let world = World::new();
    for (path, text) in files {
        edit(&world, path, text);
    }
    world.sandbox(&["run", &plan(&world, &ONE.replace("CHANGE", script))]).expect(0);
    world
}

fn edit(world: &World, path: &[u8], text: &str) {
    fs::write(world.repo.join(OsStr::from_bytes(path)), text).unwrap();
}

/// The paths that the gate names, merging anew.
#[track_caller]
fn named(world: &World, code: i32) -> Vec<Value> {
    let told = world.sandbox(&["merge", "--json"]).expect(code);
    let status = world.sandbox(&["status", "--json"]).expect(0).json();
    let blocks = status["data"]["blocks"].as_array().unwrap().clone();
    let mut named = Vec::new();
    for block in blocks {
        assert_eq!(block["kind"], "user_file_changed", "{told:?}");
        named.extend(block["paths"].as_array().unwrap().clone());
    }
    named
}

#[test]
fn a_file_that_the_user_changed_again_keeps_the_gate_shut() {
    let files: [(&[u8], &str); 3] = [(b"src/a.txt", "mine\n"), (b"src/b.txt", "mine\n"), (b"new", "mine\n")];
    let world = world(&files, "echo agent > src/a.txt; echo agent > new; echo agent > docs/x.txt");
    // As they were when the run began, they keep nothing: landing refuses to write over them, which is its own matter.
    assert_eq!(named(&world, 0), Vec::<Value>::new());
    // Nor does one that no agent changed, or that the user had not changed before.
    edit(&world, b"src/b.txt", "mine again\n");
    edit(&world, b"README.md", "mine\n");
    edit(&world, b"docs/x.txt", "mine\n");
    assert_eq!(named(&world, 0), Vec::<Value>::new());
    let before = world.picture();
    for (path, text) in [("src/a.txt", "mine again\n"), ("new", "mine again\n")] {
        edit(&world, path.as_bytes(), text);
        assert_eq!(named(&world, 1), [json!(path)], "{path}");
        edit(&world, path.as_bytes(), "mine\n");
        assert_eq!(named(&world, 0), Vec::<Value>::new(), "as it was, it keeps nothing: {path}");
    }
    // That it is gone is a change, too.
    fs::remove_file(world.repo.join("src/a.txt")).unwrap();
    edit(&world, b"new", "mine again\n");
    assert_eq!(named(&world, 1), [json!("new"), json!("src/a.txt")]);
    let refused = world.sandbox(&["land"]).expect(1);
    assert!(refused.stdout.contains("src/a.txt") && refused.stdout.contains("new"), "{refused:?}");
    edit(&world, b"new", "mine\n");
    edit(&world, b"src/a.txt", "mine\n");
    assert_eq!(world.git(&["rev-parse", "main"]), before["refs"].split(' ').nth(1).unwrap());
}

/// A name with a byte that is no UTF-8, and one that is what people are shown of it.
#[test]
fn a_name_that_is_no_text_is_not_taken_for_another() {
    let (bytes, text) = (b"odd-\xff".as_slice(), br"odd-\xff".as_slice());
    let script = r#"printf agent > \"$(printf 'odd-\\377')\"; printf agent > 'odd-\\xff'"#;
    let world = world(&[(bytes, "mine of bytes\n"), (text, "mine of text\n")], script);
    let changed = world.git(&["-c", "core.quotePath=true", "diff", "--name-only", "main", "sandbox/one-1/integration"]);
    assert_eq!(changed, "\"odd-\\\\xff\"\n\"odd-\\377\"", "the agent wrote both");
    // Of different content, so that one cannot pass for the other.
    assert_eq!(named(&world, 0), Vec::<Value>::new());
    let shown = json!({ "bytes": hex::encode(bytes) });
    for (path, before, named_as) in [(bytes, "mine of bytes\n", shown), (text, "mine of text\n", json!(r"odd-\xff"))] {
        edit(&world, path, "mine again\n");
        assert_eq!(named(&world, 1), [named_as], "{path:?}");
        edit(&world, path, before);
    }
}
