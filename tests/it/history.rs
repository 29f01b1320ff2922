//! The forms that agents' work has in the target's history: a merge, one commit, their own commits.

use serde_json::Value;

use crate::flow::plan;
use crate::world::World;

/// A world whose target has more than a first commit.
fn ready() -> World {
    let world = World::new();
    world.write("README.md", "second\n");
    world.commit("second");
    world
}

/// What one agent does with git below a folder of its own name, and what comes of its commits: how many were made again, or
/// the beginning of why they were not.
type Case = (&'static str, &'static str, Result<u64, &'static str>);

/// `c NAME` commits a file of that name. `raw` makes a commit of what it reads and moves HEAD there.
const TOOLS: &str = r#"
mkdir -p $SANDBOX_AGENT
c() { mkdir -p $SANDBOX_AGENT; echo "$1" > $SANDBOX_AGENT/$1; git add -A; git commit -qm "$1" ${2:+-m "$2"}; }
raw() { git add -A; t=$(git write-tree); p=$(git rev-parse HEAD); i=$(sed "s/TREE/$t/; s/PARENT/$p/" | git hash-object -t commit -w --stdin --literally); git update-ref HEAD $i; }
"#;

const CASES: [Case; 20] = [
    ("plain", "c one; c two", Ok(2)),
    ("rest", "c one; echo more > rest/more", Ok(1)),
    ("nothing", "echo x > nothing/x", Ok(0)),
    ("amended", "c one; c two; echo b > amended/two; git commit -qa --amend -m better", Ok(2)),
    ("detached", "git checkout -q --detach; c one", Ok(1)),
    ("branched", "git checkout -q -b mine; c one", Ok(1)),
    (
        "merges",
        "b=$(git symbolic-ref --short HEAD); git checkout -q -b side; c one; git checkout -q $b; c two; git merge -q --no-ff -m joined side",
        Ok(3),
    ),
    ("rebased", "c one; git rebase -q --onto HEAD~2 HEAD~1; echo second > README.md", Err("commit ")),
    ("refounded", "echo x > refounded/x; git add -A; git commit -q --amend -m mine", Err("commit ")),
    ("backward", "git reset -q --soft HEAD~1; echo x > backward/x", Err("its head was moved back")),
    ("orphan", "git checkout -q --orphan new; c one", Err("commit ")),
    ("forged", "c one; git update-ref HEAD $(git commit-tree -p HEAD -p HEAD~2 -m joined HEAD^{tree})", Err("commit ")),
    ("trailer", "c one 'Sandbox-Contract: kept'", Err("commit ")),
    ("control", r"echo x > control/x; git add -A; printf 'red \033[31m\n' | git commit -qF -", Err("commit ")),
    (
        "latin",
        r"echo x > latin/x; git add -A; printf 'caf\351\n' | git -c i18n.commitEncoding=ISO-8859-1 commit -qF -",
        Err("commit "),
    ),
    ("long", "c one; yes | head -c 70000 > m; git commit -q --amend -F m; rm m", Err("commit ")),
    ("future", "GIT_AUTHOR_DATE='@9000000000 +0000' c one", Err("commit ")),
    (
        "nameless",
        r"echo x > nameless/x; printf 'tree TREE\nparent PARENT\nauthor ... <a@b> 1700000000 +0000\ncommitter C <a@b> 1700000000 +0000\n\nx\n' | raw",
        Err("commit "),
    ),
    (
        "signed",
        r"echo x > signed/x; printf 'tree TREE\nparent PARENT\nauthor Ann <a@b> 1700000000 +0130\ncommitter C <a@b> 1700000000 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n nonsense\n -----END PGP SIGNATURE-----\n\nsigned\n\nSigned-off-by: Ann <a@b>\n' | raw",
        Ok(1),
    ),
    (
        "nested",
        "c one; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),nested/sub; git commit -qm sub; git rm -q --cached nested/sub; git commit -qm without",
        Err("in commit "),
    ),
];

/// The part of a reason that tells one from another.
const REASONS: [(&str, &str); 12] = [
    ("rebased", "which is neither its fork point nor a commit since"),
    ("refounded", "which is neither its fork point nor a commit since"),
    ("backward", "behind its fork point"),
    ("orphan", "has no parent"),
    ("forged", "which is neither its fork point nor a commit since"),
    ("trailer", "that only this program writes"),
    ("control", "control characters"),
    ("latin", "not UTF-8"),
    ("long", "more than 65536 bytes"),
    ("future", "a date that no clock shows"),
    ("nameless", "an author that no commit should have"),
    ("nested", "is a repository of its own"),
];

fn plan_of(cases: &[(&str, &str)], head: &str) -> String {
    let mut text = format!("[run]\nname = \"h\"\n{head}\n[verify]\ncommand = [\"true\"]\n");
    text.extend(cases.iter().map(|(agent, script)| {
        let script = serde_json::to_string(&format!("{TOOLS}{script}")).unwrap();
        format!("[agents.{agent}]\nowns = [\"{agent}/**\"]\nrun = [\"sh\", \"-ec\", {script}]\n")
    }));
    text
}

/// The steps of the candidate, by agent: the last of each.
fn step<'e>(events: &'e [Value], agent: &str) -> &'e Value {
    let of_agent = |event: &&Value| event["type"] == "candidate.advanced" && event["agent"] == agent;
    &events.iter().rfind(of_agent).unwrap_or_else(|| panic!("{agent} was not merged: {events:#?}"))["data"]
}

fn log(world: &World, format: &str, range: &str) -> Vec<String> {
    world.git(&["log", &format!("--format={format}"), "--reverse", range]).lines().map(str::to_owned).collect()
}

#[test]
fn own_commits_are_made_again_or_it_is_told_why_not() {
    let world = ready();
    let cases: Vec<(&str, &str)> = CASES.iter().map(|(agent, script, _)| (*agent, *script)).collect();
    let text = plan_of(&cases, "history = \"commits\"\njobs = 4");
    let path = plan(&world, &text);
    let ran = world.sandbox(&["run", &path, "--json"]).expect(0);
    let events = ran.json_lines();
    let shown = world.sandbox(&["status"]).expect(0).stdout;
    for (agent, _, expected) in CASES {
        let told = &step(&events, agent)["history"];
        match expected {
            Ok(commits) => {
                assert_eq!(
                    (told["form"].as_str(), told["commits"].as_u64()),
                    (Some("commits"), Some(commits)),
                    "{agent}"
                );
                assert!(told["reason"].is_null(), "{agent}: {told}");
            }
            Err(start) => {
                let reason = told["reason"].as_str().unwrap_or_else(|| panic!("{agent}: {told}"));
                let (_, part) = REASONS.iter().find(|(name, _)| *name == agent).unwrap();
                assert!(
                    told["form"] == "merge" && reason.starts_with(start) && reason.contains(part),
                    "{agent}: {told}"
                );
                assert!(shown.contains(&format!("{agent} came in as one commit: ")), "{agent}: {shown}");
            }
        }
        // Whatever the form: the files are those that the agent left.
        let (left, came) = (format!("sandbox/h-1/{agent}:{agent}"), format!("sandbox/h-1/integration:{agent}"));
        assert_eq!(world.git(&["rev-parse", &left]), world.git(&["rev-parse", &came]), "{agent}");
    }
    let second = |agent: &str| format!("{}^2", step(&events, agent)["to"].as_str().unwrap());
    let of = |agent: &str, format: &str| log(&world, format, &format!("main..{}", second(agent)));
    // Not on the target but for the merges, whose first parents are the candidate.
    let merges = log(&world, "%s", "main..sandbox/h-1/integration --first-parent".split(' ').next().unwrap());
    assert!(merges.iter().filter(|subject| subject.starts_with("Merge agent ")).count() == CASES.len(), "{merges:?}");
    assert_eq!(of("plain", "%s"), ["one", "two"]);
    assert_eq!(of("rest", "%s"), ["one", "rest: rest"]);
    assert_eq!(of("nothing", "%s"), ["nothing: nothing"]);
    assert_eq!(of("amended", "%s"), ["one", "better"]);
    assert_eq!(of("merges", "%s").last().unwrap(), "joined");
    assert_eq!(of("forged", "%s"), ["forged: forged"]);
    // The author's words are the agent's; who committed it is the run; nothing is signed.
    assert_eq!(of("signed", "%an <%ae> %ad %cn %GK%G?"), ["Ann <a@b> Tue Nov 14 23:43:20 2023 +0130 Tester N"]);
    let trailers = of("signed", "%(trailers:key=Signed-off-by,key=Sandbox-Agent,separator=%x2c)");
    assert_eq!(trailers, ["Signed-off-by: Ann <a@b>,Sandbox-Agent: signed"]);
    let raw = world.git(&["cat-file", "commit", &second("signed")]);
    assert!(!raw.contains("gpgsig"), "{raw}");
    // No commit object of an agent's is there.
    let shown = world.sandbox(&["inspect", "plain", "--json"]).expect(0).json();
    let head = shown["data"]["turns"][0]["record"]["agentHead"].as_str().map(str::to_owned);
    let head = head.unwrap_or_else(|| world.git(&["rev-parse", "sandbox/h-1/plain^2"]));
    assert_eq!(world.try_git(&["merge-base", "--is-ancestor", &head, "sandbox/h-1/integration"]).code, Some(1));
    // Again: the same.
    let before = world.git(&["rev-parse", "sandbox/h-1/integration"]);
    let summary = world.sandbox(&["merge", "--json"]).expect(0).json();
    assert_eq!(world.git(&["rev-parse", "sandbox/h-1/integration"]), before);
    let rows = summary["data"]["agents"].as_array().unwrap();
    let row = rows.iter().find(|row| row["agent"] == "orphan").unwrap();
    assert!(row["merge"]["history"]["reason"].as_str().unwrap().contains("has no parent"), "{row}");
    world.sandbox(&["land"]).expect(0);
    assert_eq!(world.git(&["rev-parse", "main"]), before);
    assert_eq!(
        world.git(&["blame", "-s", "-L1,1", "--abbrev=40", "plain/two"])[..40],
        world.git(&["rev-parse", &second("plain")])
    );
}

/// What was changed and changed back is in a history for good: there it counts, and a person decides.
#[test]
fn contracts_hold_for_each_commit() {
    const SCRIPT: &str = "echo x > README.md; c one; git checkout -q HEAD~1 README.md; c two";
    for (history, code) in [("merge", 0), ("squash", 0), ("commits", 5)] {
        let world = ready();
        let text = plan_of(&[("sly", SCRIPT)], &format!("history = \"{history}\""));
        world.sandbox(&["run", &plan(&world, &text)]).expect(code);
        if code == 0 {
            continue;
        }
        let cards = world.sandbox(&["board", "list", "--json"]).expect(0).json().to_string();
        assert!(cards.contains("\"scope\"") && cards.contains("README.md"), "{cards}");
        let card = world.sandbox(&["status", "--json"]).expect(0).json();
        let card =
            card["data"]["cards"][0]["id"].as_str().or(card["data"]["cards"][0]["card"].as_str()).unwrap().to_owned();
        world.sandbox(&["board", "approve", &card]).expect(0);
        world.sandbox(&["merge"]).expect(0);
        let subjects = log(&world, "%s", "main..sandbox/h-1/integration^2");
        assert_eq!(subjects, ["one", "two"]);
        let kept = world.git(&["log", "-1", "--format=%(trailers:key=Sandbox-Contract)", "sandbox/h-1/integration"]);
        assert!(kept.starts_with("Sandbox-Contract: approved by "), "{kept}");
    }
}

/// One agent builds on another and changes the very lines that the other changed, in every form.
const CHAIN: &str = r#"
[verify]
command = ["sh", "-ec", "grep -q 'second' src/a.txt"]
[agents.first]
owns = ["first/**"]
shares = ["src/**"]
title = "Lay the ground"
run = ["sh", "-ec", "sed -i 's/a line 10/first/' src/a.txt; git commit -qam ground"]
[agents.next]
owns = ["next/**"]
shares = ["src/**"]
after = ["first"]
run = ["sh", "-ec", "sed -i 's/a line 12/second/' src/a.txt; [ $SANDBOX_ATTEMPT = 1 ] || sed -i 's/first/third/' src/a.txt; git commit -qam next"]
[agents.apart]
owns = ["docs/**"]
run = ["sh", "-ec", "echo y > docs/x.txt"]
"#;

#[test]
fn every_form_has_the_same_tree_and_lands() {
    let mut trees = Vec::new();
    let forms: [(&str, &[&str], usize); 3] = [
        ("merge", &["1/first", "1/next", "1/apart"], 6),
        ("squash", &["1/first", "1/next", "1/apart"], 3),
        ("commits", &["1/first", "1/next", "1/apart"], 6),
    ];
    for (form, first_parents, all) in forms {
        let world = ready();
        let head = format!("[run]\nname = \"c\"\nhistory = \"{form}\"\nmessage = \"1/{{agent}}\"\n{CHAIN}");
        world.sandbox(&["run", &plan(&world, &head), "--land"]).expect(0);
        trees.push(world.git(&["rev-parse", "main^{tree}"]));
        let base = world.git(&["rev-parse", "refs/sandbox/c-1/base"]);
        let range = format!("{base}..main");
        let firsts = world.git(&["log", "--format=%s", "--reverse", "--first-parent", &range]);
        assert_eq!(firsts.lines().collect::<Vec<_>>(), first_parents, "{form}");
        assert_eq!(world.git(&["rev-list", "--count", &range]), all.to_string(), "{form}");
        let merges = world.git(&["rev-list", "--count", "--merges", &range]);
        assert_eq!(merges == "0", form == "squash", "{form}");
        let blamed = world.git(&["blame", "--porcelain", "-L12,12", "src/a.txt"]);
        let summary = match form {
            "merge" => "summary next: next",
            "squash" => "summary 1/next",
            _ => "summary next",
        };
        assert!(blamed.lines().any(|line| line == summary), "{form}: {blamed}");
        // What has landed is there, and git throws away nothing that an agent still builds on.
        world.git(&["reflog", "expire", "--expire=now", "--all"]);
        world.git(&["gc", "-q", "--prune=now"]);
        world.sandbox(&["merge"]).expect(0);
        assert_eq!(world.git(&["rev-list", "--count", &range]), all.to_string(), "{form}");
        // One more attempt of the second changes what the first changed: held against what it builds on, that is clean.
        world.write("src/a.txt", &world.read("src/a.txt").replace("a line 1\n", "mine\n"));
        world.git(&["commit", "-qam", "mine"]);
        world.sandbox(&["retry", "next"]).expect(0);
        world.sandbox(&["land"]).expect(0);
        let text = world.read("src/a.txt");
        assert!(["mine", "third", "second"].iter().all(|word| text.contains(word)), "{form}: {text}");
    }
    assert!(trees.iter().all(|tree| *tree == trees[0]), "{trees:?}");
}
