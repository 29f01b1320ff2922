//! An agent that meets a wall finds it explained: in its outcome and by `inspect`, whether it went on or gave up.

use worktree_sandbox::model::AttemptOutcome;
use worktree_sandbox::model::event::Hint;

use crate::bench::{Bench, sh};
use crate::world::World;

/// What real programs print in a real box, and a part of the hint; none where there is none to give.
const MEETS: [(&str, Option<&str>); 12] = [
    ("touch /opt/planted", Some("write to `/opt/planted` seems to be blocked")),
    ("echo x > /srv/planted", Some("add `/srv` under `sandbox.expose_rw`")),
    ("bash -c 'echo x > /usr/lib/planted'", Some("the system is read-only for agents")),
    ("perl -e 'open(F, \">\", \"/opt/planted\") or die \"cannot create /opt/planted: $!\\n\"'", Some("`/opt/planted`")),
    (
        "git clone -q https://sandbox.invalid/x.git /tmp/x",
        Some("`sandbox.invalid` seems not to be reached: the agent has no network"),
    ),
    ("git -C /tmp init -q /opt/planted", Some("`/opt/planted")),
    ("bash -c 'echo > /dev/tcp/93.184.216.34/80'", Some("the agent has no network")),
    ("unshare -Ur true", Some("`sandbox.nested = true`")),
    ("mkdir x; chmod 000 x; touch x/y; rmdir x", None),
    ("touch done; cat /etc/shadow", None),
    ("echo 'the docs tell of: Read-only file system'", None),
    ("touch \"$PWD/absent/x\"", None),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_real_programs_meet_is_explained() {
    let mut bench = Bench::new(World::new()).await;
    for (script, expected) in MEETS {
        bench.attempt(&[&format!("{{ {script}; }} 2>&1 || true; echo end")]).await;
        let hints = bench.finished().hints;
        match expected {
            Some(part) => {
                assert!(
                    hints.len() == 1 && hints[0].text.contains(part),
                    "{script}: {hints:?}\n{}",
                    bench.memory.printed()
                );
                assert!(hints[0].inferred && hints[0].text.contains("seem"), "{hints:?}");
            }
            None => assert_eq!(hints, [], "{script}"),
        }
        bench.memory.output.lock().unwrap().clear();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_and_a_success_are_explained_alike() {
    let mut bench = Bench::new(World::new()).await;
    let script = "for i in 1 2 3; do touch /opt/$i || true; done; echo done > done";
    let end = bench.attempt(&[script]).await;
    bench.expect(&end, AttemptOutcome::Completed);
    let completed = bench.finished().hints;
    assert!(completed.len() == 1 && completed[0].text.ends_with("(3 times)"), "{completed:?}");
    let end = bench.attempt(&[&format!("{script}; exit 1")]).await;
    bench.expect(&end, AttemptOutcome::Failed);
    assert_eq!(bench.finished().hints, completed);
    // What is lifted is explained no more, and setup is listened to as well.
    bench.task().sandbox.network = worktree_sandbox::model::plan::Network::Host;
    bench.setup = Some(sh("touch /opt/x; true"));
    bench.attempt(&["echo 'curl: (6) Could not resolve host: example.com'"]).await;
    let hints: Vec<Hint> = bench.finished().hints;
    assert!(hints.len() == 1 && hints[0].text.contains("`/opt/x`"), "{hints:?}");
}

#[test]
fn inspect_shows_hints_and_a_title_in_them_cannot_move_the_cursor() {
    let world = World::new();
    let script = "printf \"touch: cannot touch '/opt/\\\\033]0;owned\\\\007x': Read-only file system\\n\"; echo x > x";
    let ran = world.sandbox(&["exec", "--name", "walled", "--", "sh", "-c", script]);
    let told = format!("{}{}", ran.stdout, ran.stderr);
    assert!(told.contains("hint: write to `/opt/"), "{told}");
    let text = world.sandbox(&["inspect", "walled"]).expect(0).stdout;
    assert!(text.contains("hint: write to `/opt/") && !text.contains('\u{1b}'), "{text}");
    assert!(!told.contains('\u{1b}') && !told.contains('\u{7}'), "{told:?}");
    let json = world.sandbox(&["inspect", "walled", "--json"]).expect(0).json();
    let hint = &json["data"]["attempts"][0]["hints"][0];
    assert_eq!(hint["inferred"], true, "{json:#}");
    assert!(hint["text"].as_str().unwrap().contains("sandbox.expose_rw"), "{hint}");
}
