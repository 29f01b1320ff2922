use clap::CommandFactory;

use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(shell_words::split(line).unwrap())
}

#[test]
fn the_command_is_well_formed() {
    Cli::command().debug_assert();
}

/// Clap gives a global option's value to any argument of the same id, so that none may share one.
#[test]
fn no_argument_takes_the_place_of_a_global_one() {
    let cli = parse("sandbox man pages").unwrap();
    assert_eq!(cli.globals.dir, None);
    let root = Cli::command();
    let global: Vec<&str> =
        root.get_arguments().filter(|arg| arg.is_global_set()).map(|arg| arg.get_id().as_str()).collect();
    assert!(global.contains(&"dir"), "{global:?}");
    let mut commands: Vec<&clap::Command> = root.get_subcommands().collect();
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands());
        for arg in command.get_arguments() {
            let id = arg.get_id().as_str();
            assert!(!global.contains(&id), "`{id}` of `{}` is a global option's", command.get_name());
        }
    }
}

#[test]
fn every_verb_and_option_is_understood() {
    for (line, name) in [
        ("sandbox run plan.toml --land --jobs 3 --dry-run --json", "run"),
        (
            "sandbox exec --name a --owns 'src/**' --owns docs/ --workdir src --title T --time 30m --network host --env KEY --expose /opt --expose-rw /srv/x --hide /srv/y --nested -- sh -c 'a b'",
            "exec",
        ),
        ("sandbox status login-3 --watch", "status"),
        ("sandbox inspect parser --run login-3 --turn 1.2 --patch --reverse", "inspect"),
        ("sandbox inspect parser --output", "inspect"),
        ("sandbox logs parser --follow --run login-3", "logs"),
        ("sandbox board", "board list"),
        ("sandbox board list --run login-3", "board list"),
        ("sandbox board show c12 --run login-3", "board show"),
        ("sandbox board resolve c1 --take theirs", "board resolve"),
        ("sandbox board resolve c1 --edit --run login-3", "board resolve"),
        ("sandbox board approve c1 --why 'it had to be'", "board approve"),
        ("sandbox board dismiss c1", "board dismiss"),
        ("sandbox merge login-3", "merge"),
        ("sandbox verify --fresh", "verify"),
        ("sandbox land", "land"),
        ("sandbox resume login-3", "resume"),
        ("sandbox retry parser --fresh --run login-3", "retry"),
        ("sandbox stop login", "stop"),
        ("sandbox runs -v", "runs"),
        ("sandbox clean login-1 login-2 --dry-run", "clean"),
        ("sandbox doctor -q --no-input", "doctor"),
        ("sandbox init", "init"),
        ("sandbox init --git --commit", "init"),
        ("sandbox plan check plan.toml", "plan check"),
        ("sandbox turn 'half done'", "turn"),
        ("sandbox ask --owns 'docs/**' --owns Makefile --why 'it moved'", "ask"),
        ("sandbox completions zsh", "completions"),
        ("sandbox -C /somewhere man", "man"),
    ] {
        let cli = parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(cli.verb.name(), name, "{line}");
    }
}

#[test]
fn an_agents_command_is_left_alone() {
    let cli = parse("sandbox exec --name a -- run --json -C x").unwrap();
    assert!(!cli.globals.json && cli.globals.dir.is_none());
    let Verb::Exec(exec) = cli.verb else { panic!("{:?}", cli.verb) };
    assert_eq!(exec.command, ["run", "--json", "-C", "x"]);
    assert!(exec.owns.is_empty() && exec.network == Network::None);
}

#[test]
fn what_is_wrong_is_refused() {
    for line in [
        "sandbox",
        "sandbox fly",
        "sandbox run",
        "sandbox run plan.toml --jobs many",
        "sandbox run plan.toml --jobs -1",
        "sandbox exec --name a",
        "sandbox exec --name a --land -- true",
        "sandbox exec --name a --verify '' -- true",
        "sandbox exec --name a --verify \"'x\" -- true",
        "sandbox exec --name a --",
        "sandbox exec --name Bad_Name -- true",
        "sandbox exec --name verify -- true",
        "sandbox exec --name a --time soon -- true",
        "sandbox exec --name a --time 0s -- true",
        "sandbox exec --name a --memory much -- true",
        "sandbox exec --name a --processes 0 -- true",
        "sandbox exec --name a --disk 0 -- true",
        "sandbox exec --name a --network all -- true",
        "sandbox exec --name a --env KEY=secret -- true",
        "sandbox exec -- true",
        "sandbox inspect parser --reverse",
        "sandbox inspect parser --patch --stat",
        "sandbox inspect parser --turn one",
        "sandbox ask --owns 'docs/**'",
        "sandbox ask --why 'it moved'",
        "sandbox board show",
        "sandbox board resolve c1",
        "sandbox board resolve c1 --take both",
        "sandbox board resolve c1 --edit --done",
        "sandbox completions tcsh",
        "sandbox runs -q -v",
        "sandbox init --commit",
        // Of later versions: not offered before they are there.
        "sandbox logs --heartbeat",
    ] {
        assert!(parse(line).is_err(), "{line} should be refused");
    }
}

/// Every command has examples, and every example is one the program understands.
#[test]
fn examples_in_the_help_work() {
    let mut seen = 0;
    let mut commands: Vec<clap::Command> = vec![Cli::command()];
    while let Some(mut command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        let help = command.render_long_help().to_string();
        let leaf = command.get_subcommands().next().is_none();
        let own = !matches!(command.get_name(), "list" | "show");
        assert!(!leaf || !own || help.contains("Examples:"), "{} has no examples", command.get_name());
        for line in help.lines().filter(|line| line.starts_with("  sandbox ")) {
            let line = line.trim().split(['|', '>']).next().unwrap_or(line);
            let line = line.split("  ").next().unwrap_or(line).trim();
            parse(line).unwrap_or_else(|error| panic!("`{line}` in the help: {error}"));
            seen += 1;
        }
    }
    assert!(seen > 30, "only {seen} examples found");
}

#[test]
fn help_tells_the_exit_codes() {
    let help = Cli::command().render_long_help().to_string();
    for exit in Exit::ALL {
        assert!(help.contains(&format!("{:>3}  ", exit.code())), "{exit:?} is not in the help");
    }
}

#[test]
fn a_verifier_is_words_and_never_a_shell_line() {
    let cli = parse("sandbox exec --name a --verify \"make 'a b' && c\" --land -- true").unwrap();
    let Verb::Exec(exec) = cli.verb else { panic!("{:?}", cli.verb) };
    assert_eq!(exec.verify.unwrap(), ["make", "a b", "&&", "c"]);
    assert!(exec.land);
}
