//! What can be typed. Only shapes: every value is checked on its way in, nothing is decided here.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use jiff::SignedDuration;
use sandbox::Layer;

use super::exit::Exit;
use crate::model::plan::{Argv, Network};
use crate::model::{AgentName, TurnId};

/// Runs many coding agents side by side on one repository, each in its own worktree and sandbox
///
/// Each agent works in a git worktree, a process group and an OS sandbox of its own, under a contract of files it owns. Every
/// turn is kept as a patch. What agents made is merged with git's own conflict detection, judged by the plan's verifier, and
/// put on your branch only when you ask for it.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "sandbox",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "`sandbox help <command>` shows examples; `sandbox --help` the exit codes.",
    after_long_help = after_long_help()
)]
pub struct Cli {
    /// What holds for every command.
    #[command(flatten)]
    pub globals: Globals,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

fn after_long_help() -> String {
    format!(
        "\
Examples:
  sandbox init                     write a starter plan.toml
  sandbox plan check plan.toml     see everything that is wrong with it
  sandbox run plan.toml            run it; nothing touches your branch
  sandbox status                   one row for each agent
  sandbox inspect parser --patch   read what one agent did
  sandbox land                     put the verified result on your branch

Where a command takes a run and none is named, it is the newest. Runs, agents and cards may be cut to a unique prefix.

{}

Environment:
  SANDBOX_WORKTREES  where worktrees are made
  SANDBOX_LOG        diagnostics for developers, such as `debug`
  NO_COLOR           no colours",
        Exit::table()
    )
}

/// What holds for every command.
#[derive(Debug, Clone, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Globals {
    /// Print JSON, and only JSON, on stdout
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub json: bool,
    /// Work as if started in this folder
    #[arg(short = 'C', value_name = "DIR", global = true, help_heading = "Everywhere")]
    pub dir: Option<PathBuf>,
    /// Say nothing but warnings and errors beside the answer
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Everywhere")]
    pub quiet: bool,
    /// Say more
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    pub verbose: bool,
    /// Never ask anything; accepted for scripts, since nothing is ever asked
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub no_input: bool,
}

/// What to do.
#[derive(Debug, Clone, Subcommand)]
pub enum Verb {
    /// Run a plan: agents side by side, then merge and verify
    #[command(after_help = "\
Examples:
  sandbox run plan.toml
  sandbox run plan.toml --dry-run     what would be done, in which order
  sandbox run plan.toml --land        put the result on the target if everything is well
  sandbox run plan.toml --json        the events of the run, one a line")]
    Run(RunArgs),
    /// Run one agent without a plan
    #[command(after_help = "\
Examples:
  sandbox exec --name docs --owns 'docs/**' -- ./write-docs
  sandbox exec --name fix --time 10m --allow-host api.example.com:443 --env API_KEY -- my-agent 'mend the login'
  sandbox exec --name fix --verify 'make test' --land -- my-agent 'mend the login'")]
    Exec(Box<ExecArgs>),
    /// Show how a run stands, one row for each agent
    #[command(after_help = "\
Examples:
  sandbox status
  sandbox status login-3 --watch
  sandbox status --json | jq '.data.agents[] | {agent, state}'")]
    Status(StatusArgs),
    /// Show what an agent did: its attempts, turns, patches and output
    #[command(after_help = "\
Nothing is ever applied. `--patch --reverse` prints what would undo the work; check it with `git apply --check` first.

Examples:
  sandbox inspect parser
  sandbox inspect parser --turn 1.2
  sandbox inspect parser --patch | git apply --stat
  sandbox inspect parser --turn 1.2 --patch --reverse
  sandbox inspect parser --network    what it asked of the network, and what was refused")]
    Inspect(InspectArgs),
    /// Print the output of an agent or of the verifier, or the events of a run
    #[command(after_help = "\
Examples:
  sandbox logs                    the events of the newest run
  sandbox logs parser --follow    what the agent prints, as it comes
  sandbox logs verify             what the verifier printed
  sandbox logs parser --json | jq -r '.data.outputs[].text'")]
    Logs(LogsArgs),
    /// Show what waits for a decision
    #[command(after_help = "\
Examples:
  sandbox board
  sandbox board show c1a2")]
    Board(BoardArgs),
    /// Merge anew what the agents made, then verify it
    #[command(after_help = "\
Examples:
  sandbox merge
  sandbox merge login-3")]
    Merge(GoOnArgs),
    /// Judge what was merged, unless that very tree has been judged before
    #[command(after_help = "\
Examples:
  sandbox verify
  sandbox verify --fresh    judge it again, with empty caches")]
    Verify(VerifyArgs),
    /// Put the verified result on the target branch
    #[command(after_help = "\
The target moves only if nothing is in the way, only from the commit that was verified, and your own changes are never touched.

Examples:
  sandbox land
  sandbox land login-3
  sandbox land --hooks    ask your own pre-merge-commit hook first")]
    Land(LandArgs),
    /// Go on with a run that was cut short, to its end, or with one that is paused
    #[command(after_help = "\
What was done is not done again. Agents that were at work have their attempt once more, in the same worktree; what they had
changed is kept as a turn of its own. A run that is at work and paused goes on.

Examples:
  sandbox resume
  sandbox resume login-3")]
    Resume(GoOnArgs),
    /// Try an agent again
    #[command(after_help = "\
Examples:
  sandbox retry parser                in the same worktree, nothing wiped
  sandbox retry parser --fresh        in a new worktree, on top of what has been merged
  sandbox retry parser --from-fork    in a new worktree, from where it began")]
    Retry(RetryArgs),
    /// Leave an agent out of a run; what it did so far is kept
    #[command(after_help = "\
Examples:
  sandbox skip parser
  sandbox skip parser --run login-3")]
    Skip(SkipArgs),
    /// Begin nothing new in a run; what is at work goes on
    #[command(after_help = "\
Examples:
  sandbox pause
  sandbox resume    goes on")]
    Pause(RunOnly),
    /// End a run that is under way, or one agent of it; what was done so far is kept
    #[command(after_help = "\
Examples:
  sandbox stop
  sandbox stop login-3
  sandbox stop parser    ends one agent; the others go on")]
    Stop(StopArgs),
    /// List the runs of this repository
    #[command(after_help = "\
Examples:
  sandbox runs
  sandbox runs --json | jq -r '.data.runs[].run'")]
    Runs,
    /// Remove the worktrees of runs that ended; snapshots and patches stay
    #[command(after_help = "\
Nothing is removed that is not kept elsewhere: work that no snapshot and patch hold stays where it is, and is named.
Git's settings `sandbox.clean.olderThan`, `.keep`, `.maxBytes` and `.ignored` stand for flags that are not given.

Examples:
  sandbox clean --dry-run
  sandbox clean login-3
  sandbox clean --older-than 14d --keep 20
  sandbox clean --max-bytes 5GiB --keep 3
  sandbox clean --records --older-than 90d
  git config --global sandbox.clean.keep 10")]
    Clean(CleanArgs),
    /// Check this machine and repository, or what is kept of a run
    #[command(after_help = "\
Examples:
  sandbox doctor
  sandbox doctor --json
  sandbox doctor --run
  sandbox doctor --run login-3 --repair")]
    Doctor(DoctorArgs),
    /// Write a starter plan
    #[command(after_help = "\
Examples:
  sandbox init
  sandbox init plans/login.toml")]
    Init(InitArgs),
    /// Work with plan files
    Plan(PlanArgs),
    /// In an agent's box: end a turn, so that what is there now is kept as one
    #[command(after_help = "\
Everything in the box is stopped, captured and goes on. For agents, and for the scripts that drive them.

Examples:
  sandbox turn 'the parser reads numbers'")]
    Turn(TurnArgs),
    /// In an agent's box: ask for more paths than the contract has
    #[command(after_help = "\
The contract of the attempt that asks stays as it is. What is granted holds from the agent's next attempt on.

Examples:
  sandbox ask --owns 'src/config/**' --why 'the parser needs a new setting'")]
    Ask(AskArgs),
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  sandbox completions bash > ~/.local/share/bash-completion/completions/sandbox
  sandbox completions fish > ~/.config/fish/completions/sandbox.fish")]
    Completions(CompletionsArgs),
    /// Print the manual, or write all its pages into a folder
    #[command(after_help = "\
Examples:
  sandbox man | man -l -
  sandbox man ~/.local/share/man/man1")]
    Man(ManArgs),
}

impl Verb {
    /// Its name, as typed and as the envelope tells it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Exec(_) => "exec",
            Self::Status(_) => "status",
            Self::Inspect(_) => "inspect",
            Self::Logs(_) => "logs",
            Self::Board(BoardArgs { verb: None | Some(BoardVerb::List), .. }) => "board list",
            Self::Board(BoardArgs { verb: Some(BoardVerb::Show(_)), .. }) => "board show",
            Self::Board(BoardArgs { verb: Some(BoardVerb::Resolve(_)), .. }) => "board resolve",
            Self::Board(BoardArgs { verb: Some(BoardVerb::Approve(_)), .. }) => "board approve",
            Self::Board(BoardArgs { verb: Some(BoardVerb::Dismiss(_)), .. }) => "board dismiss",
            Self::Merge(_) => "merge",
            Self::Verify(_) => "verify",
            Self::Land(_) => "land",
            Self::Resume(_) => "resume",
            Self::Retry(_) => "retry",
            Self::Stop(_) => "stop",
            Self::Pause(_) => "pause",
            Self::Skip(_) => "skip",
            Self::Runs => "runs",
            Self::Clean(_) => "clean",
            Self::Doctor(_) => "doctor",
            Self::Init(_) => "init",
            Self::Plan(PlanArgs { verb: PlanVerb::Check(_) }) => "plan check",
            Self::Turn(_) => "turn",
            Self::Ask(_) => "ask",
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
        }
    }
}

/// What `doctor` looks at.
#[derive(Debug, Clone, Default, Args)]
pub struct DoctorArgs {
    /// Look at what is kept of this run, or of the newest, instead of the machine: what is missing or damaged, and what
    /// depends on it
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    pub run: Option<String>,
    /// Write anew what follows from the journal: status.json, git-progress, cards, and the journal's torn last line
    #[arg(long, requires = "run")]
    pub repair: bool,
}

/// What boxes may do without.
#[derive(Debug, Clone, Default, Args)]
pub struct Degraded {
    /// Go on without a layer of the sandbox that this machine cannot give: `namespaces`, `seccomp` or `limits`; recorded; may be
    /// given several times
    #[arg(long = "allow-degraded", value_name = "LAYER", value_parser = layer)]
    pub allow_degraded: Vec<Layer>,
}

impl Degraded {
    /// The layers.
    pub fn layers(&self) -> BTreeSet<Layer> {
        self.allow_degraded.iter().copied().collect()
    }
}

/// `run`
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// The plan file
    pub plan: PathBuf,
    /// Put the result on the target if nothing is in the way
    #[arg(long)]
    pub land: bool,
    /// How many agents run at once; 0 is one for each core [default: as the plan says]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Only show what would be done: order, contracts, commands
    #[arg(long)]
    pub dry_run: bool,
    /// What boxes may do without.
    #[command(flatten)]
    pub degraded: Degraded,
}

/// `exec`
#[derive(Debug, Clone, Args)]
pub struct ExecArgs {
    /// The agent's name
    #[arg(long)]
    pub name: AgentName,
    /// Files it owns, as a glob from the repository's root; may be given several times [default: everything]
    #[arg(long, value_name = "GLOB")]
    pub owns: Vec<String>,
    /// The folder it starts in, as a path from the repository's root [default: the root]
    #[arg(long, value_name = "PATH")]
    pub workdir: Option<String>,
    /// What it is for, in a line
    #[arg(long)]
    pub title: Option<String>,
    /// How long it may take, such as `30m`
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub time: Option<SignedDuration>,
    /// The most memory of its processes together, such as `4GiB`
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<u64>,
    /// The most processes and threads it may have at once [default: 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub processes: Option<u32>,
    /// The most disk space of what it can write, such as `5GiB`
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub disk: Option<u64>,
    /// Its network: `none` or `host`
    #[arg(long, value_name = "NETWORK", value_parser = network, default_value = "none")]
    pub network: Network,
    /// A host it may reach, through a proxy; may be given several times
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "network")]
    pub allow_host: Vec<String>,
    /// A variable to pass in, by name; may be given several times
    #[arg(long, value_name = "NAME", value_parser = variable)]
    pub env: Vec<String>,
    /// A path outside the repository to show it, read-only; may be given several times
    #[arg(long, value_name = "PATH")]
    pub expose: Vec<String>,
    /// A path outside the repository to show it, writable; may be given several times
    #[arg(long, value_name = "PATH")]
    pub expose_rw: Vec<String>,
    /// A folder of the host to hide from it; may be given several times
    #[arg(long, value_name = "PATH")]
    pub hide: Vec<String>,
    /// Let its programs make namespaces, for one that brings a sandbox of its own; not for root
    #[arg(long)]
    pub nested: bool,
    /// What judges the result: a command and its arguments, quoted as one, such as `'cargo test'`; no shell runs it
    #[arg(long, value_name = "COMMAND", value_parser = words)]
    pub verify: Option<Argv>,
    /// Put the result on the target if nothing is in the way; only what was judged lands
    #[arg(long, requires = "verify")]
    pub land: bool,
    /// What boxes may do without.
    #[command(flatten)]
    pub degraded: Degraded,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `status`
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    /// The run [default: the newest]
    pub run: Option<String>,
    /// Show it again whenever it changes, until it ends
    #[arg(long)]
    pub watch: bool,
}

/// `inspect`
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct InspectArgs {
    /// The agent
    pub agent: String,
    /// The run [default: the newest]
    #[arg(long)]
    pub run: Option<String>,
    /// Only this turn, as `attempt.turn`, such as `2.1`
    #[arg(long, value_name = "A.T")]
    pub turn: Option<TurnId>,
    /// Print the patch: of the turn, or of all the agent's work
    #[arg(long, group = "view")]
    pub patch: bool,
    /// Print the patch that would undo it
    #[arg(long, requires = "patch")]
    pub reverse: bool,
    /// Print how many lines changed in each file
    #[arg(long, group = "view")]
    pub stat: bool,
    /// Print which files changed
    #[arg(long, group = "view")]
    pub files: bool,
    /// Print what the agent printed
    #[arg(long, group = "view")]
    pub output: bool,
    /// Print what it asked of the network
    #[arg(long, group = "view", conflicts_with = "turn")]
    pub network: bool,
}

/// `logs`
#[derive(Debug, Clone, Args)]
pub struct LogsArgs {
    /// The agent, or `verify` for the verifier [default: the events of the run]
    pub agent: Option<String>,
    /// The run [default: the newest]
    #[arg(long)]
    pub run: Option<String>,
    /// Go on as more comes, until the agent, or the run, is done
    #[arg(short, long)]
    pub follow: bool,
}

/// `board`
#[derive(Debug, Clone, Args)]
pub struct BoardArgs {
    /// The run [default: the newest]
    #[arg(long, global = true)]
    pub run: Option<String>,
    /// What to show.
    #[command(subcommand)]
    pub verb: Option<BoardVerb>,
}

/// `board …`
#[derive(Debug, Clone, Subcommand)]
pub enum BoardVerb {
    /// List every card (this is what `board` alone does)
    List,
    /// Show one card in full
    Show(CardOnly),
    /// Say what stands where two sides conflict
    #[command(after_help = "\
A resolution is about the conflicting paths and no others. `sandbox merge` then takes it in, and the verifier judges it.

Examples:
  sandbox board resolve c1a2 --take theirs
  sandbox board resolve c1a2 --edit          merge it by hand in a folder of its own
  sandbox board resolve c1a2 --done          take what was merged there
  sandbox board resolve c1a2 --from my-merge
  sandbox board resolve c1a2 --with -- ./merge-lock-files
  sandbox board resolve c1a2 --accept        take what the command proposed")]
    Resolve(Box<ResolveArgs>),
    /// Let an agent's work be merged although it lies outside its contract, or grant what it asks for
    #[command(after_help = "\
Examples:
  sandbox board approve c1a2 --why 'the lock file had to change'")]
    Approve(DecideArgs),
    /// Leave the work out that a card holds, or refuse what it asks for
    #[command(after_help = "\
Examples:
  sandbox board dismiss c1a2 --why 'done by hand meanwhile'")]
    Dismiss(DecideArgs),
}

/// `board approve`, `board dismiss`
#[derive(Debug, Clone, Args)]
pub struct DecideArgs {
    /// The card
    pub card: String,
    /// Why; kept with the decision
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
}

/// `board resolve`
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[command(group(ArgGroup::new("how").required(true).args(["take", "from", "edit", "done", "with", "accept", "discard"])))]
pub struct ResolveArgs {
    /// The card
    pub card: String,
    /// Take one side as it is: `ours` is the candidate's, `theirs` the agent's
    #[arg(long, value_name = "SIDE", value_enum)]
    pub take: Option<SideArg>,
    /// Take what a folder has at the conflicting paths, or what a commit has that merges both sides
    #[arg(long, value_name = "DIR|COMMIT")]
    pub from: Option<String>,
    /// Make a folder with the conflicting merge under way, to merge by hand
    #[arg(long)]
    pub edit: bool,
    /// Take what was merged in that folder, and remove it
    #[arg(long)]
    pub done: bool,
    /// Have a command, given last, propose a resolution: in a box, over the conflicting merge
    #[arg(long, requires = "command")]
    pub with: bool,
    /// Take what the command proposed
    #[arg(long)]
    pub accept: bool,
    /// Turn down what was proposed; else remove the folder of --edit with what was done in it
    #[arg(long)]
    pub discard: bool,
    /// Why; kept with the decision
    #[arg(long, value_name = "TEXT")]
    pub why: Option<String>,
    /// How long the command may take, such as `5m` [default: as the plan says for agents]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "with")]
    pub time: Option<SignedDuration>,
    /// The command's network: `none` or `host`
    #[arg(long, value_name = "NETWORK", value_parser = network, default_value = "none", requires = "with")]
    pub network: Network,
    /// A host the command may reach, through a proxy; may be given several times
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "network", requires = "with")]
    pub allow_host: Vec<String>,
    /// A variable to pass in to the command, by name; may be given several times
    #[arg(long, value_name = "NAME", value_parser = variable, requires = "with")]
    pub env: Vec<String>,
    /// What boxes may do without.
    #[command(flatten)]
    pub degraded: Degraded,
    /// The command and its arguments, with --with
    #[arg(last = true, value_name = "COMMAND", requires = "with")]
    pub command: Vec<String>,
}

/// A side of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SideArg {
    /// The candidate's.
    Ours,
    /// The agent's.
    Theirs,
}

/// A card.
#[derive(Debug, Clone, Args)]
pub struct CardOnly {
    /// The card
    pub card: String,
}

/// A run and nothing else.
#[derive(Debug, Clone, Args)]
pub struct RunOnly {
    /// The run [default: the newest]
    pub run: Option<String>,
}

/// `land`
#[derive(Debug, Clone, Args)]
pub struct LandArgs {
    /// The run [default: the newest]
    pub run: Option<String>,
    /// Run your `pre-merge-commit` hook first, outside every box, on a checkout of the result; it may refuse
    #[arg(long)]
    pub hooks: bool,
    /// What boxes may do without.
    #[command(flatten)]
    pub degraded: Degraded,
}

/// `resume` and `merge`
#[derive(Debug, Clone, Args)]
pub struct GoOnArgs {
    /// The run [default: the newest]
    pub run: Option<String>,
    /// What boxes may do without.
    #[command(flatten)]
    pub degraded: Degraded,
}

/// `verify`
#[derive(Debug, Clone, Args)]
pub struct VerifyArgs {
    /// The run [default: the newest]
    pub run: Option<String>,
    /// Judge it again whatever has been said of it, with empty caches
    #[arg(long)]
    pub fresh: bool,
    /// What boxes may do without.
    #[command(flatten)]
    pub degraded: Degraded,
}

/// `retry`
#[derive(Debug, Clone, Args)]
pub struct RetryArgs {
    /// The agent
    pub agent: String,
    /// The run [default: the newest]
    #[arg(long)]
    pub run: Option<String>,
    /// In a new worktree, on top of what has been merged; the old one is kept
    #[arg(long)]
    pub fresh: bool,
    /// In a new worktree, made from where the last one was made from; the old one is kept
    #[arg(long, conflicts_with = "fresh")]
    pub from_fork: bool,
    /// What boxes may do without.
    #[command(flatten)]
    pub degraded: Degraded,
}

/// `skip`
#[derive(Debug, Clone, Args)]
pub struct SkipArgs {
    /// The agent
    pub agent: String,
    /// The run [default: the newest]
    #[arg(long)]
    pub run: Option<String>,
    /// What boxes may do without.
    #[command(flatten)]
    pub degraded: Degraded,
}

/// `stop`
#[derive(Debug, Clone, Args)]
pub struct StopArgs {
    /// A run, or an agent of the newest run [default: the newest run]
    #[arg(value_name = "RUN|AGENT")]
    pub name: Option<String>,
    /// The run; a name before it is an agent's then
    #[arg(long)]
    pub run: Option<String>,
}

/// `clean`
#[derive(Debug, Clone, Args)]
pub struct CleanArgs {
    /// The runs [default: every run that is complete]
    pub runs: Vec<String>,
    /// Only show what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// Of complete runs, remove those in which nothing has happened for so long
    #[arg(long, value_name = "TIME", value_parser = age, conflicts_with = "runs")]
    pub older_than: Option<SignedDuration>,
    /// Of complete runs, leave the newest N alone, whatever else is said
    #[arg(long, value_name = "N", conflicts_with = "runs")]
    pub keep: Option<u64>,
    /// Of complete runs, remove those that have been idle longest, until no more than this is taken
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "runs")]
    pub max_bytes: Option<u64>,
    /// Forget these runs for good: refs, branches, patches, logs; never one with work that did not land
    #[arg(long)]
    pub records: bool,
    /// Also remove worktrees in which single files lie that git ignores
    #[arg(long)]
    pub ignored: bool,
    /// What boxes may do without.
    #[command(flatten)]
    pub degraded: Degraded,
}

/// `init`
#[derive(Debug, Clone, Args)]
pub struct InitArgs {
    /// The file to write; never one that exists
    #[arg(default_value = "plan.toml")]
    pub file: PathBuf,
    /// Make the folder a git repository first; never one that is in a repository already
    #[arg(long)]
    pub git: bool,
    /// With `--git`: commit everything that is there but files that hold secrets by custom (`.env`, keys), so that a run has something to start from
    #[arg(long, requires = "git")]
    pub commit: bool,
}

/// `plan`
#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub verb: PlanVerb,
}

/// `plan …`
#[derive(Debug, Clone, Subcommand)]
pub enum PlanVerb {
    /// Show everything that is wrong with a plan
    #[command(after_help = "\
Examples:
  sandbox plan check plan.toml
  sandbox plan check plan.toml --json")]
    Check(PlanFile),
}

/// A plan file.
#[derive(Debug, Clone, Args)]
pub struct PlanFile {
    /// The plan file
    pub file: PathBuf,
}

/// `turn`
#[derive(Debug, Clone, Args)]
pub struct TurnArgs {
    /// What the turn was, in a line
    pub label: Option<String>,
}

/// `ask`
#[derive(Debug, Clone, Args)]
pub struct AskArgs {
    /// Paths that are to be the agent's own, as a glob from the repository's root; may be given several times
    #[arg(long, value_name = "GLOB", required = true)]
    pub owns: Vec<String>,
    /// Why, in a line
    #[arg(long, value_name = "TEXT")]
    pub why: String,
}

/// `completions`
#[derive(Debug, Clone, Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `man`
#[derive(Debug, Clone, Args)]
pub struct ManArgs {
    /// Write every page into this folder instead of printing the first
    #[arg(value_name = "DIR")]
    pub into: Option<PathBuf>,
}

fn network(text: &str) -> Result<Network, String> {
    match text {
        "none" => Ok(Network::None),
        "host" => Ok(Network::Host),
        _ => Err("possible are `none` and `host`".to_owned()),
    }
}

fn layer(text: &str) -> Result<Layer, String> {
    let found = Layer::OPTIONAL.into_iter().find(|layer| layer.name() == text);
    found.ok_or_else(|| "possible are `namespaces`, `seccomp` and `limits`".to_owned())
}

fn words(text: &str) -> Result<Argv, String> {
    match shell_words::split(text) {
        Ok(words) if words.first().is_some_and(|program| !program.is_empty()) => Ok(words),
        Ok(_) => Err("a command is wanted".to_owned()),
        Err(_) => Err("a quotation mark is not closed".to_owned()),
    }
}

fn time(text: &str) -> Result<SignedDuration, String> {
    match text.parse::<SignedDuration>() {
        Ok(time) if time > SignedDuration::ZERO => Ok(time),
        Ok(_) => Err("it must be more than nothing".to_owned()),
        Err(_) => Err("write it as `90s`, `30m` or `2h 30m`".to_owned()),
    }
}

/// A time for which days and weeks are the usual units.
pub(super) fn age(text: &str) -> Result<SignedDuration, String> {
    let wrong = || "write it as `14d`, `2w` or `36h`".to_owned();
    let text = text.trim();
    let days = |suffix: char, days: i64| {
        Some(text.strip_suffix(suffix)?.trim_end().parse::<u32>().ok()?.into()).map(|n: i64| n * days)
    };
    let age = match days('d', 1).or_else(|| days('w', 7)) {
        Some(days) => SignedDuration::from_hours(days * 24),
        None => text.parse().map_err(|_| wrong())?,
    };
    if age > SignedDuration::ZERO { Ok(age) } else { Err(wrong()) }
}

pub(super) fn size(text: &str) -> Result<u64, String> {
    crate::plan::parse_size(text).ok_or_else(|| "write it as `64MiB`, `5GB` or a number of bytes".to_owned())
}

fn variable(text: &str) -> Result<String, String> {
    let name = !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if name { Ok(text.to_owned()) } else { Err("only the variable's name is wanted, never its value".to_owned()) }
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
