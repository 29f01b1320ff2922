//! Networks with a list: how they are read, and what is wrong with them, with its place.

use crate::model::plan::{AllowList, Injection, Network};
use crate::plan::{Code, Single, load};

fn plan(sandbox: &str) -> String {
    format!("[verify]\ncommand = ['true']\n[agents.a]\nowns = ['**']\nrun = ['true']\n[sandbox]\n{sandbox}\n")
}

/// Code, the text it points at, and the message of each finding.
fn wrong(sandbox: &str) -> Vec<(Code, String, String)> {
    let text = plan(sandbox);
    let findings = load("plan.toml", &text).expect_err(sandbox).findings;
    let place = |finding: &crate::plan::Finding| {
        let line = text.lines().nth(finding.line.unwrap_or(1) - 1).unwrap_or_default();
        line.get(finding.column.unwrap_or(1) - 1..).unwrap_or_default().chars().take(9).collect::<String>()
    };
    findings.iter().map(|finding| (finding.code, place(finding), finding.message.clone())).collect()
}

#[test]
fn a_list_is_read_whole_and_passed_on_to_agents() {
    let text = plan(
        "network = { allow = ['a.example:443'], deny = ['b.example:*'], \
         inject = { 'api.example' = { header = 'x-api-key', env = 'KEY', prefix = 'Bearer ', base_url = 'URL' } } }",
    );
    let plan = load("plan.toml", &text).unwrap().0;
    let injection = Injection {
        header: "x-api-key".to_owned(),
        env: "KEY".to_owned(),
        prefix: "Bearer ".to_owned(),
        base_url: Some("URL".to_owned()),
    };
    let list = AllowList {
        allow: vec!["a.example:443".to_owned()],
        deny: vec!["b.example:*".to_owned()],
        inject: [("api.example".to_owned(), injection)].into(),
    };
    assert_eq!(plan.agents[0].sandbox.network, Network::Allow(list));
    assert_eq!(plan.verify.unwrap().sandbox.network, Network::None, "the verifier has only what it is given itself");
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let inject = |rest: &str| format!("network = {{ inject = {{ {rest} }} }}");
    for (sandbox, code, place, says) in [
        ("network = { allow = ['a.example'] }".to_owned(), Code::BadEndpoint, "'a.exampl", "has no port"),
        ("network = { allow = ['https://a.example:1'] }".to_owned(), Code::BadEndpoint, "'https://", "a scheme"),
        ("network = { deny = ['127.1:80'] }".to_owned(), Code::BadEndpoint, "'127.1:80", "a number"),
        ("network = { allow = ['*:443'] }".to_owned(), Code::BadEndpoint, "'*:443'] ", "`*`"),
        ("network = { allow = 'a.example:443' }".to_owned(), Code::WrongType, "'a.exampl", "list of strings"),
        ("network = { allow = [1] }".to_owned(), Code::WrongType, "1] }", "a string"),
        ("network = { alow = [] }".to_owned(), Code::UnknownKey, "alow = []", "unknown key"),
        ("network = 1".to_owned(), Code::WrongType, "1", "or a table"),
        ("network = 'all'".to_owned(), Code::BadValue, "'all'", "cannot be"),
        ("network = { inject = [] }".to_owned(), Code::WrongType, "[] }", "must be a table"),
        (inject("a = { header = 'x' }"), Code::BadInjection, "a = { hea", "no `env`"),
        (inject("a = { env = 'K' }"), Code::BadInjection, "a = { env", "no `header`"),
        (inject("a = { env = 'K', header = 'host' }"), Code::BadInjection, "'host' } ", "header"),
        (inject("a = { env = 'K', header = 'x y' }"), Code::BadInjection, "'x y' } }", "header"),
        (inject("a = { env = 'K=1', header = 'x' }"), Code::BadVariable, "'K=1', he", "not the name"),
        (inject("a = { env = 'HOME', header = 'x' }"), Code::BadVariable, "'HOME', h", "sets itself"),
        (inject("a = { env = 'K', header = 'x', prefix = \"\\n\" }"), Code::BadInjection, "\"\\n\" } } ", "visible"),
        (inject("'http://a' = { env = 'K', header = 'x' }"), Code::BadEndpoint, "'http://a", "a scheme"),
        (inject("a = { env = 'K', header = 'x', value = 's' }"), Code::UnknownKey, "value = '", "unknown key"),
        (inject("a = { env = 'K', header = 'x' }") + "\nenv = ['K']", Code::BadInjection, "network =", "passed in"),
    ] {
        let found = wrong(&sandbox);
        let [(found_code, found_place, message)] = &found[..] else { panic!("{sandbox}: {found:?}") };
        assert_eq!((*found_code, found_place.as_str()), (code, place), "{sandbox}: {message}");
        assert!(message.contains(says), "{sandbox}: {message}");
    }
}

#[test]
fn no_variable_means_two_things() {
    let two = |first: &str, second: &str| {
        wrong(&format!(
            "network = {{ inject = {{ a = {{ header = 'x', env = 'A', base_url = '{first}' }}, \
             b = {{ header = 'x', env = 'B', base_url = '{second}' }} }} }}"
        ))
    };
    assert!(two("URL", "URL")[0].2.contains("both `a` and `b`"));
    assert!(two("B", "OTHER")[0].2.contains("both a `base_url` and an `env`"));
    // An agent's own list against the plan's variables, and the other way round.
    let mixed =
        plan("env = ['K']") + "[agents.a.sandbox]\nnetwork = { inject = { h = { header = 'x', env = 'K' } } }\n";
    assert_eq!(load("plan.toml", &mixed).unwrap_err().findings[0].code, Code::BadInjection);
    let mixed =
        plan("network = { inject = { h = { header = 'x', env = 'K' } } }") + "[agents.a.sandbox]\nenv = ['K']\n";
    assert_eq!(load("plan.toml", &mixed).unwrap_err().findings[0].code, Code::BadInjection);
}

#[test]
fn without_a_file_the_same_holds() {
    let mut single = Single::new("a", vec!["true".to_owned()]);
    single.sandbox.network = Network::Allow(AllowList { allow: vec!["a.example".to_owned()], ..AllowList::default() });
    let findings = single.into_plan().unwrap_err().findings;
    assert_eq!((findings.len(), findings[0].code), (1, Code::BadEndpoint));
}
