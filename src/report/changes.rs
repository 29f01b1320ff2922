//! What an agent, or one of its turns, changed: as lines for each file, as a list of files, and as a patch.

use serde::Serialize;

use super::look::Look;
use super::table::{Cell, Table};
use super::text;
use crate::git::{ChangeKind, LineCount, TreeChange};
use crate::model::change::DiffStat;
use crate::model::{AgentName, RepoPath, TurnId};

/// Whose change it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangeOf {
    /// The agent.
    pub agent: AgentName,
    /// The turn; `null` for all that the agent changed since its fork point.
    pub turn: Option<TurnId>,
}

/// Data of `inspect --stat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatData {
    /// Whose change it is.
    #[serde(flatten)]
    pub of: ChangeOf,
    /// All files together.
    pub diff_stat: DiffStat,
    /// Each file; a renamed one as one that is gone and one that is new.
    pub files: Vec<FileStat>,
}

/// How many lines changed in one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileStat {
    /// The file.
    pub path: RepoPath,
    /// Lines added; `null` for a binary file.
    pub insertions: Option<u64>,
    /// Lines removed; `null` for a binary file.
    pub deletions: Option<u64>,
}

/// Files, insertions and deletions of these counts.
pub fn diff_stat(counts: &[LineCount]) -> DiffStat {
    let (insertions, deletions) = counts
        .iter()
        .filter_map(|count| count.lines)
        .fold((0, 0), |(plus, minus), (added, removed)| (plus + added, minus + removed));
    DiffStat { files: text::len(counts), insertions, deletions }
}

impl StatData {
    /// The lines that changed.
    pub fn of(of: ChangeOf, counts: &[LineCount]) -> Self {
        let file = |count: &LineCount| FileStat {
            path: count.path.clone(),
            insertions: count.lines.map(|(added, _)| added),
            deletions: count.lines.map(|(_, removed)| removed),
        };
        Self { of, diff_stat: diff_stat(counts), files: counts.iter().map(file).collect() }
    }

    /// As text: a line for each file, and their sum.
    pub fn render(&self, look: Look) -> String {
        if self.files.is_empty() {
            return "nothing changed\n".to_owned();
        }
        let mut table = Table::new(["FILE", "ADDED", "REMOVED"]);
        for file in &self.files {
            let lines =
                |count: Option<u64>| count.map_or_else(|| Cell::from("binary"), |count| count.to_string().into());
            table.row([file.path.to_string().into(), lines(file.insertions), lines(file.deletions)]);
        }
        format!("{}{}\n", table.render(look), super::inspect::stat_words(self.diff_stat))
    }
}

/// Data of `inspect --files`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FilesData {
    /// Whose change it is.
    #[serde(flatten)]
    pub of: ChangeOf,
    /// The files, by path.
    pub files: Vec<FileChange>,
}

/// What happened to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// `A` added, `M` modified, `D` deleted, `T` of another type, `R` renamed.
    pub status: char,
    /// The file; for one that was renamed, its new name.
    pub path: RepoPath,
    /// The name it had before.
    pub from: Option<RepoPath>,
}

impl FilesData {
    /// The files that changed.
    pub fn of(of: ChangeOf, changes: &[TreeChange]) -> Self {
        let file = |change: &TreeChange| {
            let (status, from) = match &change.kind {
                ChangeKind::Added => ('A', None),
                ChangeKind::Modified => ('M', None),
                ChangeKind::Deleted => ('D', None),
                ChangeKind::TypeChanged => ('T', None),
                ChangeKind::Renamed { from, .. } => ('R', Some(from.clone())),
            };
            FileChange { status, path: change.path.clone(), from }
        };
        Self { of, files: changes.iter().map(file).collect() }
    }

    /// As text: a line for each file, all of them.
    pub fn render(&self) -> String {
        let line = |file: &FileChange| {
            let from = file.from.as_ref().map_or_else(String::new, |from| format!("  (was {})", text::shown(from)));
            format!("{}  {}{from}\n", file.status, text::shown(&file.path))
        };
        self.files.iter().map(line).collect()
    }
}

/// Data of `inspect --patch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PatchData {
    /// Whose change it is.
    #[serde(flatten)]
    pub of: ChangeOf,
    /// Whether this patch undoes the change.
    pub reverse: bool,
    /// The patch, for `git apply`; empty where nothing changed; `null` where it is not text in UTF-8.
    pub patch: Option<String>,
    /// How long it is, in bytes.
    pub size: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of() -> ChangeOf {
        ChangeOf { agent: "a".parse().unwrap(), turn: None }
    }

    #[test]
    fn lines_of_files() {
        let count = |path: &str, lines| LineCount { path: RepoPath::new(path.as_bytes()), lines };
        let data = StatData::of(of(), &[count("logo.png", None), count("src/a\x1b.rs", Some((10, 2)))]);
        insta::assert_snapshot!(data.render(Look::PLAIN), @r"
        FILE            ADDED   REMOVED
        logo.png        binary  binary
        src/a\u{1b}.rs  10      2
        2 files, +10 -2
        ");
        insta::assert_snapshot!(serde_json::to_string(&data).unwrap(), @r#"{"agent":"a","turn":null,"diffStat":{"files":2,"insertions":10,"deletions":2},"files":[{"path":"logo.png","insertions":null,"deletions":null},{"path":"src/a\u001b.rs","insertions":10,"deletions":2}]}"#);
        assert_eq!(StatData::of(of(), &[]).render(Look::PLAIN), "nothing changed\n");
    }
}
