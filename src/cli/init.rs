//! `init`: writes a starter plan, commented, that fits the folder it is written for. Never over a file that exists.

use std::path::Path;

use serde::Serialize;

use super::args::InitArgs;
use super::error::{Error, ErrorKind};
use super::exit::Exit;
use super::printer::Printer;
use super::settings::Settings;
use crate::git::{Git, Repository};
use crate::model::ids::NAME_MAX;
use crate::model::{AgentName, CommitId};
use crate::report::{Envelope, text};
use crate::store::{self, atomic};
use crate::workspace::HostEnvironment;

/// Data of `init`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InitData {
    /// The file written.
    file: String,
    /// The verifier's command that was found to fit; `null` where none was.
    verify: Option<Vec<&'static str>>,
    /// The repository that was made; `null` where none was asked for.
    repository: Option<String>,
    /// Its first commit; `null` where none was asked for.
    commit: Option<CommitId>,
    /// Files that are not in that commit, because they look like secrets.
    left_out: Vec<String>,
}

pub(super) fn init(args: &InitArgs, settings: &Settings, printer: &mut Printer) -> Result<Exit, Error> {
    let path = settings.resolve(&args.file);
    let root = folder(&path);
    let git = if args.git { Some(require_no_repository(&root)?) } else { None };
    let verifier = verifier(|name| root.join(name).is_file());
    let plan = starter(&plan_name(&root), verifier);
    atomic::write_for_user(&path, plan.as_bytes(), atomic::Existing::Keep).map_err(|error| match &error {
        store::Error::Exists { .. } => {
            Error::new(ErrorKind::Usage, format!("`{}` exists already, and is left as it is", path.display()))
                .hint("name another file: `sandbox init other.toml`")
        }
        store::Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Error::new(ErrorKind::Usage, format!("the folder of `{}` does not exist", path.display()))
                .hint("make the folder first")
        }
        _ => error.into(),
    })?;
    let made = git.map(|git| Repository::init(&git, &root)).transpose()?;
    // After the plan, so that it is part of what a run starts from.
    let (commit, left_out) = match &made {
        Some(repository) if args.commit => {
            let (commit, left_out) = repository.commit_all("First commit")?;
            (Some(commit), left_out.iter().map(ToString::to_string).collect())
        }
        Some(_) | None => (None, Vec::new()),
    };
    let shown = args.file.to_string_lossy().into_owned();
    if made.is_some() {
        let next = match (&commit, left_out.len()) {
            (None, _) => "with no commit yet, which a run needs: `git add -A && git commit`",
            (Some(_), 0) => "with everything in it committed",
            (Some(_), _) => "with everything in it committed but what looks like a secret",
        };
        printer.answer(&format!("made {} a git repository, {next}\n", text::clean(&root.to_string_lossy())));
    }
    if !left_out.is_empty() {
        let names: Vec<String> = left_out.iter().map(|path| text::clean(path)).collect();
        printer.answer(&format!(
            "not committed, for every agent can read what is:\n  {}\nlist them in .gitignore, or add them if they hold no secret\n",
            names.join("\n  ")
        ));
    }
    printer.answer(&format!(
        "wrote {}\nnext: put your agents in, then `sandbox plan check {}`\n",
        text::clean(&path.to_string_lossy()),
        text::command(std::slice::from_ref(&shown), usize::MAX)
    ));
    let data = InitData {
        file: path.to_string_lossy().into_owned(),
        verify: verifier.map(<[_]>::to_vec),
        repository: made.map(|_| root.to_string_lossy().into_owned()),
        commit,
        left_out,
    };
    printer.json(&Envelope::answer("init", None, data, printer.warnings()));
    Ok(Exit::Complete)
}

/// Refuses to make a folder a repository that is in one: a repository inside another is seldom meant, and agents could
/// not work in it as part of the outer one. Refuses the home directory too, which no run would accept.
fn require_no_repository(root: &Path) -> Result<Git, Error> {
    let git = Git::find(None)?;
    match Repository::discover(&git, root) {
        Ok(found) => {
            let at = found.top_level().unwrap_or(found.common_dir());
            let said = format!("`{}` is in a git repository already: {}", root.display(), at.display());
            return Err(Error::new(ErrorKind::Usage, said).hint("leave out --git"));
        }
        Err(crate::git::Error::NotARepository { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let environment = HostEnvironment::of_this_process().ok_or(crate::run::Error::NoHome)?;
    if environment.home.starts_with(root) {
        let said =
            format!("`{}` is your home directory, or holds it: agents could not be kept out of it", root.display());
        return Err(Error::new(ErrorKind::Usage, said).hint("make a folder for the project"));
    }
    Ok(git)
}

/// The folder a file lies in, with its real name.
fn folder(path: &Path) -> std::path::PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    parent.canonicalize().unwrap_or_else(|_| parent.to_owned())
}

/// The folder's name as a plan's name, as far as it lends itself to one.
fn plan_name(root: &Path) -> String {
    let folder = root.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let plain: String = folder.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let parts: Vec<&str> = plain.split('-').filter(|part| !part.is_empty()).collect();
    let name: String = parts.join("-").chars().take(NAME_MAX).collect();
    match name.trim_end_matches('-').parse::<AgentName>() {
        Ok(name) => name.to_string(),
        Err(_) => "work".to_owned(),
    }
}

/// What people judge such a project with, told by the files that lie in it.
fn verifier(is_there: impl Fn(&str) -> bool) -> Option<&'static [&'static str]> {
    const KNOWN: [(&str, &[&str]); 6] = [
        ("Cargo.toml", &["cargo", "test", "--workspace", "--offline"]),
        ("package.json", &["npm", "test"]),
        ("go.mod", &["go", "test", "./..."]),
        ("pyproject.toml", &["python3", "-m", "pytest"]),
        ("pom.xml", &["mvn", "--offline", "verify"]),
        ("Makefile", &["make", "test"]),
    ];
    KNOWN.into_iter().find(|(file, _)| is_there(file)).map(|(_, command)| command)
}

fn starter(name: &str, verifier: Option<&[&str]>) -> String {
    let verify = match verifier {
        Some(command) => format!("[verify]\ncommand = {command:?}"),
        None => "# [verify]\n# command = [\"make\", \"test\"]".to_owned(),
    };
    STARTER.replace("@NAME@", name).replace("@VERIFY@", &verify)
}

const STARTER: &str = include_str!("starter.toml");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders() {
        for (folder, name) in [
            ("/home/me/app", "app"),
            ("/home/me/My App_2", "my-app-2"),
            ("/home/me/--x--", "x"),
            ("/home/me/語", "work"),
            ("/home/me/base", "work"),
            ("/", "work"),
            ("/a-very-long-folder-name-that-goes-on-and-on", "a-very-long-folder-name-that-goe"),
            ("/abcdefghijklmnopqrstuvwxyz01234-6789", "abcdefghijklmnopqrstuvwxyz01234"),
        ] {
            assert_eq!(plan_name(Path::new(folder)), name, "{folder}");
        }
    }

    #[test]
    fn the_verifier_fits_the_project() {
        assert_eq!(verifier(|file| file == "go.mod").unwrap(), ["go", "test", "./..."]);
        assert_eq!(verifier(|file| file != "Cargo.toml").unwrap(), ["npm", "test"]);
        assert_eq!(verifier(|_| false), None);
    }

    /// Both as written and with every example uncommented, the starter is a plan without findings but the known one.
    #[test]
    fn the_starter_is_a_plan() {
        for verifier in [None, Some(&["make", "test"][..])] {
            let text = starter("app", verifier);
            let table: toml::Table = toml::from_str(&text).unwrap();
            assert_eq!(table["run"]["name"].as_str(), Some("app"));
            assert_eq!(table.contains_key("verify"), verifier.is_some());
            let agents = table["agents"].as_table().unwrap();
            assert!(agents.values().all(|agent| agent["owns"].is_array() && agent["run"].is_array()));
            let (plan, findings) = crate::plan::load("plan.toml", &text).unwrap();
            assert_eq!((plan.agents.len(), plan.verify.is_some()), (2, verifier.is_some()));
            let known = findings.iter().all(|finding| verifier.is_none() && finding.message.contains("verifier"));
            assert!(known, "{findings:?}");
            let uncommented: Vec<&str> = text
                .lines()
                .map(|line| {
                    line.strip_prefix("# ").filter(|rest| rest.contains(" = ") || rest.starts_with('[')).unwrap_or(line)
                })
                .collect();
            let text = uncommented.join("\n");
            let (plan, findings) = crate::plan::load("plan.toml", &text).unwrap();
            assert!(findings.is_empty(), "{findings:?}");
            assert!(plan.target.is_some() && plan.jobs == 4 && plan.workspace.setup.is_some() && plan.verify.is_some());
        }
    }
}
