//! Agents and a verifier that start in a folder of the worktree, and folders that cannot be entered.

use std::os::unix::fs::symlink;

use crate::flow::plan;
use crate::world::World;

const MONO: &str = r#"
[run]
name = "mono"
[workspace]
setup = ["test", "-f", "README.md"]
[verify]
workdir = "docs"
command = ["sh", "-ec", "test -f x.txt; test -f ../src/made"]
[agents.code]
owns = ["src/**"]
workdir = "src/"
turns = [
    ["sh", "-ec", "test -f a.txt; git rev-parse --show-prefix > made; git add made; git commit -qm made"],
    ["sh", "-ec", "basename $PWD >> made; mkdir -p deep; sandbox turn half; echo x > deep/x"],
]
"#;

#[test]
fn commands_start_where_the_plan_says() {
    let world = World::new();
    let file = plan(&world, MONO);
    world.sandbox(&["run", &file]).expect(0);
    assert_eq!(world.git(&["show", "sandbox/mono-1/integration:src/made"]), "src/\nsrc");
    let listed = world.git(&["ls-tree", "-r", "--name-only", "sandbox/mono-1/integration", "src"]);
    assert_eq!(listed, "src/a.txt\nsrc/b.txt\nsrc/deep/x\nsrc/made", "contracts and paths are the repository's");
    let shown = world.sandbox(&["run", &file, "--dry-run", "--json"]).expect(0).json();
    assert_eq!(shown["data"]["agents"][0]["workdir"], "src");
    assert_eq!(shown["data"]["verify"]["workdir"], "docs");
    // What judges elsewhere judges something else.
    plan(&world, &MONO.replace("workdir = \"docs\"", "workdir = \"src\""));
    let ran = world.sandbox(&["run", &file]).expect(6);
    assert!(ran.stdout.contains("the verifier failed"), "{ran:?}");
}

#[test]
fn a_folder_that_cannot_be_entered_is_an_outcome() {
    let world = World::new();
    symlink("/usr", world.repo.join("out")).unwrap();
    symlink("../..", world.repo.join("src/up")).unwrap();
    symlink("../docs", world.repo.join("src/near")).unwrap();
    world.commit("links");
    let agent = |name: &str, workdir: &str| {
        format!(
            "[agents.{name}]\nowns = ['made/{name}/**']\nworkdir = '{workdir}'\nrun = ['sh', '-ec', 'pwd -P > $TMPDIR/at; cd $(git rev-parse --show-toplevel); mkdir -p made/{name}; mv $TMPDIR/at made/{name}/at']\n"
        )
    };
    let cases = [
        ("gone", "nowhere/deep", "the worktree has no such folder"),
        ("file", "src/a.txt", "it is no folder"),
        ("out", "out", "a link leads out of the worktree"),
        ("out-below", "out/bin", "a link leads out of the worktree"),
        ("up", "src/up", "a link leads out of the worktree"),
    ];
    let mut text = "[run]\nname = 'bad'\n[verify]\ncommand = ['true']\n".to_owned();
    for (name, workdir, _) in cases {
        text += &agent(name, workdir);
    }
    text += &agent("near", "src/near");
    let ran = world.sandbox(&["run", &plan(&world, &text)]).expect(1);
    assert!(ran.stderr.contains("`gone` starts in `nowhere/deep`, which is no folder of the repository"), "{ran:?}");
    let rows = world.sandbox(&["status", "--json"]).expect(0).json()["data"]["agents"].as_array().unwrap().clone();
    for (name, workdir, why) in cases {
        let row = rows.iter().find(|row| row["agent"] == name).unwrap();
        assert_eq!(row["state"], "could_not_start", "{row:#}");
        let reason = row["reason"].as_str().unwrap();
        assert_eq!(reason, format!("cannot start in its `workdir` `{workdir}`: {why}"));
    }
    // A link that stays within is one like any other.
    let at = world.git(&["show", "sandbox/bad-1/integration:made/near/at"]);
    assert!(at.ends_with("/bad-1--near/docs"), "{at}");
    let tree = world.git(&["ls-tree", "-r", "--name-only", "sandbox/bad-1/integration", "made"]);
    assert_eq!(tree, "made/near/at", "nothing of the others has run");
}

/// The folder was there when the agent began, and a link is put in its place between two turns.
#[test]
fn a_link_put_there_meanwhile_leads_nowhere() {
    let world = World::new();
    let text = "[run]\nname = 'swap'\n[verify]\ncommand = ['true']\n[agents.a]\nowns = ['**']\nworkdir = 'docs'\n\
                turns = [['sh', '-ec', 'cd ..; rm -r docs; ln -s /usr docs'], ['sh', '-ec', 'touch ran']]\n";
    world.sandbox(&["run", &plan(&world, text)]).expect(1);
    let row = world.sandbox(&["status", "--json"]).expect(0).json()["data"]["agents"][0].clone();
    assert_eq!(row["state"], "could_not_start", "{row:#}");
    assert!(row["reason"].as_str().unwrap().ends_with("a link leads out of the worktree"), "{row:#}");
    world.sandbox(&["inspect", "a", "--turn", "1.1"]).expect(0);
    // A verifier's is looked up in what it judges, and without one there is no verdict.
    let text = "[run]\nname = 'swap'\n[verify]\nworkdir = 'docs'\ncommand = ['true']\n[agents.a]\nowns = ['**']\n\
                run = ['sh', '-ec', 'rm -r docs; ln -s src docs; rm -r src; ln -s .. src']\n";
    let ran = world.sandbox(&["run", &plan(&world, text)]).expect(6);
    assert!(ran.stdout.contains("cannot start in its `workdir` `docs`: a link leads out of the worktree"), "{ran:?}");
}

#[test]
fn one_agent_without_a_plan() {
    let world = World::new();
    world.sandbox(&["exec", "--name", "one", "--workdir", "docs", "--", "sh", "-ec", "cat x.txt > y.txt"]).expect(1);
    assert_eq!(world.git(&["show", "sandbox/one-1/one:docs/y.txt"]), "x");
    for bad in ["/usr", "../x", "a//b", ".git/hooks"] {
        let ran = world.sandbox(&["exec", "--name", "one", "--workdir", bad, "--", "true"]).expect(3);
        assert!(ran.stderr.contains(bad), "{ran:?}");
    }
}
