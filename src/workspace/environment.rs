//! What of the user's environment a box gets: variables from an allow-list, and the tools that lie where a box would not
//! show them.
//!
//! Taken once, at the start; nothing below reads the process's own environment again.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sandbox::proxy::Upstream;
use sandbox::{Enforcement, Launcher, Layer, Reach, SHARED_FOLDERS};

use super::error::Error;
use crate::model::plan::Network;
use crate::store::env;

/// The user's environment.
#[derive(Debug, Clone)]
pub struct HostEnvironment {
    /// The home directory, without links on the way.
    pub home: PathBuf,
    /// Every variable.
    pub variables: BTreeMap<OsString, OsString>,
    /// This program.
    pub program: PathBuf,
}

/// Variables that every box gets, where the user has them: they say how to talk, not who the user is.
const PASSED: [&str; 11] = [
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "TZ",
    "NO_COLOR",
    "USER",
    "LOGNAME",
    "SHELL",
    "EDITOR",
    "RUSTUP_TOOLCHAIN",
];

/// Variables that name the place of a tool, with the place below the home where it lies if they are not set. The place is
/// shown read-only, and the variable passed where it was set.
const TOOL_ROOTS: [(&str, &str); 14] = [
    ("RUSTUP_HOME", ".rustup"),
    ("NVM_DIR", ".nvm"),
    ("PYENV_ROOT", ".pyenv"),
    ("RBENV_ROOT", ".rbenv"),
    ("ASDF_DATA_DIR", ".asdf"),
    ("VOLTA_HOME", ".volta"),
    ("SDKMAN_DIR", ".sdkman"),
    ("BUN_INSTALL", ".bun"),
    ("DENO_INSTALL", ".deno"),
    ("FNM_DIR", ".local/share/fnm"),
    ("MISE_DATA_DIR", ".local/share/mise"),
    ("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python"),
    ("GHCUP_INSTALL_BASE_PREFIX", ".ghcup"),
    ("JAVA_HOME", ""),
];

/// Variables by which programs find a proxy; some of them read one alone, and some one spelling alone.
const PROXY_VARIABLES: [&str; 10] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "CARGO_HTTP_PROXY",
    "npm_config_proxy",
    "npm_config_https_proxy",
    "PIP_PROXY",
];

/// What a variable holds inside instead of a secret: something, for programs that want a key before they ask anything.
const STAND_IN: &str = "injected-by-sandbox";

/// Folders below `$CARGO_HOME` that a build without network needs.
const CARGO_FOLDERS: [&str; 2] = ["registry", "git"];

/// What the kernel appends to the path of a program whose file was deleted or replaced.
const DELETED: &str = " (deleted)";

impl HostEnvironment {
    /// The environment of this process. `None` if it has no usable home directory.
    pub fn of_this_process() -> Option<Self> {
        let variables: BTreeMap<_, _> = std::env::vars_os().collect();
        let home = PathBuf::from(variables.get(OsStr::new("HOME"))?).canonicalize().ok()?;
        let program = std::env::current_exe().ok()?;
        Some(Self { home, variables, program: undeleted(&program) })
    }

    /// The value of a variable, if it has one.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// What starts boxes: this very program, even if its file was replaced meanwhile.
    pub fn launcher(&self) -> Launcher {
        match std::env::current_exe() {
            Ok(own) if own == self.program || own.as_os_str() == deleted(&self.program) => Launcher::default(),
            Ok(_) | Err(_) => Launcher::new(&self.program),
        }
    }

    /// Refuses to go on without the program's own file, which boxes are shown.
    pub fn require_program(&self) -> Result<(), Error> {
        if self.program.is_file() { Ok(()) } else { Err(Error::Program { path: self.program.clone() }) }
    }

    /// The folders of `PATH` that exist, without links on the way, each once. Relative ones mean another folder in each
    /// place, and are left out.
    pub fn search_path(&self) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = Vec::new();
        let given = self.variable("PATH").into_iter().flat_map(std::env::split_paths);
        for folder in given.filter(|folder| folder.is_absolute()) {
            if let Ok(folder) = folder.canonicalize()
                && folder.is_dir()
                && !folders.contains(&folder)
            {
                folders.push(folder);
            }
        }
        folders
    }

    /// Where a tool of [`TOOL_ROOTS`] would lie.
    fn named_roots(&self) -> impl Iterator<Item = (&'static str, PathBuf)> + '_ {
        TOOL_ROOTS.iter().filter_map(|(variable, below_home)| match self.variable(variable) {
            Some(place) => Some((*variable, PathBuf::from(place))),
            None if below_home.is_empty() => None,
            None => Some((*variable, self.home.join(below_home))),
        })
    }

    /// Where it lies, if it is there.
    fn tool_roots(&self) -> impl Iterator<Item = (&'static str, PathBuf)> + '_ {
        self.named_roots().filter_map(|(variable, place)| Some((variable, place.canonicalize().ok()?)))
    }

    /// `$CARGO_HOME`, there or not.
    fn named_cargo_home(&self) -> PathBuf {
        self.variable("CARGO_HOME").map_or_else(|| self.home.join(".cargo"), PathBuf::from)
    }

    /// The same, if it is there.
    fn cargo_home(&self) -> Option<PathBuf> {
        self.named_cargo_home().canonicalize().ok()
    }

    /// Everything that each box is shown if it is there, by the names under which it is looked for.
    pub(super) fn named_places(&self) -> Vec<PathBuf> {
        let mut places: Vec<PathBuf> = self.variable("PATH").into_iter().flat_map(std::env::split_paths).collect();
        places.extend(self.named_roots().map(|(_, place)| place));
        let cargo = self.named_cargo_home();
        places.extend(CARGO_FOLDERS.map(|folder| cargo.join(folder)));
        places.retain(|place| place.is_absolute());
        places
    }

    /// Folders a box must be shown for the user's tools to work in it, because they lie where it sees nothing.
    pub fn tool_folders(&self) -> Vec<PathBuf> {
        let mut folders = self.search_path();
        folders.extend(self.tool_roots().map(|(_, place)| place));
        folders.retain(|folder| self.is_unseen(folder) && self.is_narrow(folder));
        folders.sort();
        folders.dedup();
        // What lies in a folder that is shown anyway needs no showing of its own.
        let all = folders.clone();
        folders.retain(|folder| !all.iter().any(|other| other != folder && folder.starts_with(other)));
        folders
    }

    /// Every folder that the user's tools lie in, seen by a box or not.
    pub fn tool_places(&self) -> Vec<PathBuf> {
        let mut folders = self.search_path();
        folders.extend(self.tool_roots().map(|(_, place)| place));
        folders.retain(|folder| self.is_narrow(folder));
        folders.sort();
        folders.dedup();
        folders
    }

    /// Folders of Cargo's that a build without network needs, and where a box has them: below its own home, since a box
    /// has a Cargo home of its own.
    pub fn cargo_folders(&self) -> Vec<(PathBuf, PathBuf)> {
        let Some(cargo) = self.cargo_home() else { return Vec::new() };
        let own = self.home.join(".cargo");
        let pairs = CARGO_FOLDERS.iter().map(|folder| (cargo.join(folder), own.join(folder)));
        pairs.filter(|(source, _)| source.is_dir()).collect()
    }

    /// Whether a folder may be shown at all: not one that holds the home, or everybody's temporary files.
    fn is_narrow(&self, folder: &Path) -> bool {
        !self.home.starts_with(folder) && !SHARED_FOLDERS.iter().any(|unseen| Path::new(unseen).starts_with(folder))
    }

    /// Whether a box would not see this place of the host.
    pub fn is_unseen(&self, place: &Path) -> bool {
        place.starts_with(&self.home) || SHARED_FOLDERS.iter().any(|unseen| place.starts_with(unseen))
    }

    /// The variables of a box, before those that name its own places: the allow-list, and what the plan names.
    /// Names the plan lists and the user has not set are given back apart.
    pub fn passed(&self, named: &[String]) -> (BTreeMap<OsString, OsString>, Vec<String>) {
        let mut passed: BTreeMap<OsString, OsString> = BTreeMap::new();
        let mut missing = Vec::new();
        let locale = self.variables.keys().filter(|key| key.as_encoded_bytes().starts_with(b"LC_")).cloned();
        let roots = self
            .tool_roots()
            .map(|(variable, _)| OsString::from(variable))
            .filter(|name| self.variables.contains_key(name));
        for name in PASSED.iter().map(OsString::from).chain(locale).chain(roots) {
            if let Some(value) = self.variables.get(&name) {
                passed.insert(name, value.clone());
            }
        }
        for name in named {
            match self.variables.get(OsStr::new(name)) {
                Some(value) => {
                    passed.insert(name.into(), value.clone());
                }
                None => missing.push(name.clone()),
            }
        }
        (passed, missing)
    }
}

/// What the kernel says of a program at `path` whose file is gone.
fn deleted(path: &Path) -> OsString {
    let mut text = path.as_os_str().to_owned();
    text.push(DELETED);
    text
}

/// The path that a program was started by, as far as the kernel still tells.
fn undeleted(path: &Path) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(DELETED.as_bytes()) {
        Some(before) if !path.exists() => PathBuf::from(OsStr::from_bytes(before)),
        Some(_) | None => path.to_owned(),
    }
}

/// The variables that name a box's own places.
pub fn box_variables(host: &HostEnvironment, enforcement: &Enforcement) -> Vec<(OsString, OsString)> {
    let (own_programs, degraded) = match enforcement.reach() {
        Reach::Namespace => (PathBuf::from(super::seen::PROGRAM).parent().map(Path::to_owned), None),
        // The program lies where it lies, and there is no turn to be ended by it.
        Reach::Descendants => (None, Some(Layer::Namespaces.name())),
    };
    let path = std::env::join_paths(own_programs.into_iter().chain(host.search_path())).unwrap_or_default();
    let places = [("HOME", enforcement.home().into()), ("TMPDIR", enforcement.tmp().into()), ("PATH", path)];
    let told = [("SANDBOX", Some("1")), (env::SANDBOX_DEGRADED, degraded)];
    let told = told.into_iter().filter_map(|(name, value)| Some((name, OsString::from(value?))));
    places.into_iter().chain(told).map(|(name, value)| (name.into(), value)).collect()
}

/// The variables that lead programs to the proxy of a box, and away from the secrets it puts in.
///
/// One address for all: what speaks SOCKS speaks HTTP's `CONNECT` as well, and a proxy of another kind in one of the variables
/// is what programs disagree about.
pub fn network_variables(network: &Network) -> Vec<(OsString, OsString)> {
    let Network::Allow(list) = network else { return Vec::new() };
    let proxy = format!("http://127.0.0.1:{}", super::seen::RELAY_PORT);
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    let mut set = |name: &str, value: &str| variables.push((name.into(), value.into()));
    for name in PROXY_VARIABLES {
        set(name, &proxy);
    }
    for name in ["NO_PROXY", "no_proxy"] {
        set(name, "localhost,127.0.0.1,::1");
    }
    set("NODE_USE_ENV_PROXY", "1");
    for (host, injection) in &list.inject {
        set(&injection.env, STAND_IN);
        if let (Some(variable), Ok(upstream)) = (&injection.base_url, host.parse::<Upstream>()) {
            set(variable, &format!("{proxy}/{upstream}"));
        }
    }
    variables
}

/// A path of the plan with a leading `~/` taken as below `home`.
pub(super) fn expand_home(path: &str, home: &Path) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(below) => home.join(below),
        None if path == "~" => home.to_owned(),
        None => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(home: &Path, variables: &[(&str, &str)]) -> HostEnvironment {
        HostEnvironment {
            home: home.canonicalize().unwrap(),
            variables: variables.iter().map(|(key, value)| (key.into(), value.into())).collect(),
            program: PathBuf::from("/nonexistent"),
        }
    }

    #[test]
    fn only_named_variables_pass() {
        let home = tempfile::tempdir().unwrap();
        let host = environment(
            home.path(),
            &[("LANG", "C"), ("LC_TIME", "C"), ("AWS_SECRET_ACCESS_KEY", "x"), ("SSH_AUTH_SOCK", "/s"), ("KEY", "k")],
        );
        let (passed, missing) = host.passed(&["KEY".to_owned(), "ABSENT".to_owned()]);
        let names: Vec<_> = passed.keys().map(|key| key.to_string_lossy()).collect();
        assert_eq!(names, ["KEY", "LANG", "LC_TIME"]);
        assert_eq!(missing, ["ABSENT"]);
    }

    #[test]
    fn tools_below_the_home_are_shown() {
        let home = tempfile::tempdir().unwrap();
        for folder in [".cargo/bin", ".cargo/registry", ".rustup/toolchains", "bin", ".ssh"] {
            std::fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        let path = format!("/usr/bin:{0}/.cargo/bin:{0}/bin:{0}/gone", home.path().display());
        let host = environment(home.path(), &[("PATH", &path)]);
        let shown: Vec<_> = host.tool_folders();
        assert_eq!(host.cargo_folders(), [(host.home.join(".cargo/registry"), host.home.join(".cargo/registry"))]);
        let expected: Vec<_> = [".cargo/bin", ".rustup", "bin"].iter().map(|folder| host.home.join(folder)).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn nothing_wide_or_relative_is_shown() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("bin/file")).unwrap();
        let own = home.path().display();
        let above = home.path().parent().unwrap().display();
        let path = format!(".:bin:{own}:{above}:/tmp:/:/run:{own}/bin:{own}/bin/../bin::/dev/shm");
        let host = environment(home.path(), &[("PATH", &path), ("NVM_DIR", "/tmp"), ("JAVA_HOME", "/")]);
        assert_eq!(host.tool_folders(), [host.home.join("bin")]);
    }

    #[test]
    fn a_program_that_was_replaced_is_known_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("odd (deleted)");
        std::fs::create_dir(&odd).unwrap();
        assert_eq!(undeleted(&odd), odd);
        assert_eq!(undeleted(&folder.path().join("gone (deleted)")), folder.path().join("gone"));
        assert_eq!(undeleted(Path::new("/bin/x")), Path::new("/bin/x"));
        let mut host = environment(folder.path(), &[]);
        assert!(host.require_program().unwrap_err().to_string().contains("/nonexistent"));
        host.program = std::env::current_exe().unwrap();
        host.require_program().unwrap();
    }

    #[test]
    fn programs_are_led_to_the_proxy() {
        use crate::model::plan::{AllowList, Injection};
        assert!(network_variables(&Network::None).is_empty() && network_variables(&Network::Host).is_empty());
        let injection = |base_url: Option<&str>| Injection {
            header: "x-api-key".to_owned(),
            env: "KEY".to_owned(),
            prefix: String::new(),
            base_url: base_url.map(str::to_owned),
        };
        let inject = [("API.example.com:443", Some("A_URL")), ("b.example:8443", Some("B_URL")), ("c.example", None)];
        let inject = inject.map(|(host, base_url)| (host.to_owned(), injection(base_url))).into();
        let variables: BTreeMap<_, _> =
            network_variables(&Network::Allow(AllowList { inject, ..AllowList::default() })).into_iter().collect();
        let value = |name: &str| variables.get(OsStr::new(name)).and_then(|value| value.to_str()).unwrap();
        for name in PROXY_VARIABLES {
            assert_eq!(value(name), "http://127.0.0.1:3128");
        }
        assert_eq!(value("NO_PROXY"), "localhost,127.0.0.1,::1");
        assert_eq!(value("KEY"), "injected-by-sandbox");
        assert_eq!(value("A_URL"), "http://127.0.0.1:3128/api.example.com");
        assert_eq!(value("B_URL"), "http://127.0.0.1:3128/b.example:8443");
    }

    #[test]
    fn home_is_expanded() {
        let home = Path::new("/home/u");
        assert_eq!(expand_home("~/a", home), Path::new("/home/u/a"));
        assert_eq!(expand_home("~", home), home);
        assert_eq!(expand_home("/a/~/b", home), Path::new("/a/~/b"));
    }
}
