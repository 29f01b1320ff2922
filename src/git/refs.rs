//! Refs: reading them, and moving them by compare-and-swap.
//!
//! Only git touches refs, never a file of ours: a repository may keep them as files or as a reftable. Every move names
//! the value it expects; another process that was faster is an outcome, [`Swap::Lost`], and then nothing has moved.

use super::command::{Access, Input};
use super::error::Error;
use super::repository::{Repository, parsed};
use crate::model::{CommitId, ObjectId, RefName};

/// One ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ref {
    /// Its full name.
    pub name: RefName,
    /// The object it names.
    pub id: ObjectId,
    /// What an annotated tag stands for.
    pub peeled: Option<ObjectId>,
    /// The ref that a symbolic ref points to.
    pub symbolic: Option<RefName>,
}

/// One move of one ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefEdit {
    /// Make a ref that does not exist.
    Create {
        /// The ref.
        name: RefName,
        /// Its value.
        new: ObjectId,
    },
    /// Move a ref that stands at `old`.
    Update {
        /// The ref.
        name: RefName,
        /// Its new value.
        new: ObjectId,
        /// The value it must have.
        old: ObjectId,
    },
    /// Delete a ref that stands at `old`.
    Delete {
        /// The ref.
        name: RefName,
        /// The value it must have.
        old: ObjectId,
    },
    /// Change nothing, but let the whole transaction fail unless the ref is so.
    Verify {
        /// The ref.
        name: RefName,
        /// The value it must have; none means that it must not exist.
        old: Option<ObjectId>,
    },
}

impl RefEdit {
    /// The ref it is about.
    pub fn name(&self) -> &RefName {
        match self {
            Self::Create { name, .. }
            | Self::Update { name, .. }
            | Self::Delete { name, .. }
            | Self::Verify { name, .. } => name,
        }
    }

    /// The value the ref must have before; none means that it must not exist.
    pub fn expected(&self) -> Option<&ObjectId> {
        match self {
            Self::Create { .. } => None,
            Self::Update { old, .. } | Self::Delete { old, .. } => Some(old),
            Self::Verify { old, .. } => old.as_ref(),
        }
    }

    /// One record of `update-ref --stdin -z`.
    fn record(&self, zero: &ObjectId) -> String {
        match self {
            Self::Create { name, new } => format!("create {name}\0{new}\0"),
            Self::Update { name, new, old } => format!("update {name}\0{new}\0{old}\0"),
            Self::Delete { name, old } => format!("delete {name}\0{old}\0"),
            Self::Verify { name, old } => format!("verify {name}\0{}\0", old.as_ref().unwrap_or(zero)),
        }
    }
}

/// How an attempt to move refs ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Swap {
    /// All refs have moved.
    Done,
    /// None has: this one did not have the value it should have had.
    Lost {
        /// The ref.
        name: RefName,
        /// What it should have been.
        expected: Option<ObjectId>,
        /// What it was.
        found: Option<ObjectId>,
    },
}

impl Swap {
    /// That all refs have moved; an error for who has no other answer to a ref that something else has moved.
    pub fn require(self) -> Result<(), Error> {
        let shown = |id: Option<ObjectId>| id.map_or_else(|| "nothing".to_owned(), |id| id.to_string());
        match self {
            Self::Done => Ok(()),
            Self::Lost { name, expected, found } => {
                Err(Error::RefMoved { reference: name, expected: shown(expected), found: shown(found) })
            }
        }
    }
}

impl Repository {
    /// The first of these refs that exists.
    pub(super) fn first_known<'n>(&self, names: &'n [RefName]) -> Result<Option<&'n RefName>, Error> {
        let asked: String = names.iter().flat_map(|name| [name.as_str(), "\n"]).collect();
        let command = self.common(Access::Read, "cat-file").arg("--batch-check=%(objectname)");
        let output = command.input(Input::Bytes(asked.into_bytes())).success()?;
        let mut answers = output.text()?.lines();
        let first = names.iter().find(|_| answers.next().is_some_and(|answer| !answer.ends_with(" missing")));
        Ok(first)
    }

    /// The object that a ref names; none if there is no such ref.
    pub fn load_ref(&self, name: &RefName) -> Result<Option<ObjectId>, Error> {
        let output = self.common(Access::Read, "rev-parse").args(["-q", "--verify", name.as_str()]).run()?;
        match output.code() {
            Some(0) => parsed(output.what(), output.line()?).map(Some),
            Some(1) => Ok(None),
            Some(_) | None => Err(output.failure()),
        }
    }

    /// Sets a ref, from whatever it holds now, or makes it. Lost where something else moves it between the look and that.
    pub fn move_ref(&self, name: &RefName, commit: &CommitId, why: &str) -> Result<Swap, Error> {
        let (name, new) = (name.clone(), commit.object().clone());
        let edit = match self.load_ref(&name)? {
            Some(old) if old == new => return Ok(Swap::Done),
            Some(old) => RefEdit::Update { name, new, old },
            None => RefEdit::Create { name, new },
        };
        self.swap_refs(&[edit], why)
    }

    /// Deletes a ref, whatever it holds now, if there is one. Lost where something else moves it between the look and that.
    pub fn drop_ref(&self, name: &RefName, why: &str) -> Result<Swap, Error> {
        match self.load_ref(name)? {
            Some(old) => self.swap_refs(&[RefEdit::Delete { name: name.clone(), old }], why),
            None => Ok(Swap::Done),
        }
    }

    /// All refs below `prefix` (`refs/sandbox/login-3/`), sorted by name. A ref whose name is not UTF-8 is left out; it
    /// cannot be one of ours.
    pub fn load_refs(&self, prefix: &str) -> Result<Vec<Ref>, Error> {
        self.load_refs_of(&[prefix])
    }

    /// The same for several prefixes, or full names, as one look at all of them.
    pub fn load_refs_of(&self, prefixes: &[&str]) -> Result<Vec<Ref>, Error> {
        let output = self
            .common(Access::Read, "for-each-ref")
            .arg("--format=%(objectname) %(*objectname) %(symref) %(refname)")
            .args(prefixes)
            .success()?;
        let mut refs = Vec::new();
        for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Ok(line) = std::str::from_utf8(line) else {
                tracing::debug!(name = %line.escape_ascii(), "a ref whose name is not UTF-8 is left out");
                continue;
            };
            let odd = || Error::unparsable(output.what(), format!("{line:?}"));
            let fields: Vec<&str> = line.split(' ').collect();
            let &[id, peeled, symbolic, name] = fields.as_slice() else { return Err(odd()) };
            refs.push(Ref {
                name: name.parse().map_err(|_| odd())?,
                id: parsed(output.what(), id)?,
                peeled: if peeled.is_empty() { None } else { Some(parsed(output.what(), peeled)?) },
                symbolic: if symbolic.is_empty() { None } else { Some(symbolic.parse().map_err(|_| odd())?) },
            });
        }
        Ok(refs)
    }

    /// All refs from which a commit can be reached. None where there is no such commit.
    pub fn load_refs_holding(&self, commit: &ObjectId) -> Result<Vec<RefName>, Error> {
        let output = self
            .common(Access::Read, "for-each-ref")
            .args(["--format=%(refname)", "--contains", commit.as_str()])
            .run()?;
        if !output.status.success() {
            return Ok(Vec::new());
        }
        let lines = output.stdout.split(|byte| *byte == b'\n');
        Ok(lines.filter_map(|line| std::str::from_utf8(line).ok()?.parse().ok()).collect())
    }

    /// The text of a `packed-refs` file with all refs for which `keep` says yes, names as bytes.
    pub fn load_packed_refs(&self, mut keep: impl FnMut(&[u8]) -> bool) -> Result<Vec<u8>, Error> {
        let output = self
            .common(Access::Read, "for-each-ref")
            .arg("--format=%(objectname) %(refname)%(if)%(*objectname)%(then) %(*objectname)%(end)")
            .success()?;
        let mut lines: Vec<Vec<&[u8]>> = output
            .stdout
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| line.split(|byte| *byte == b' ').collect())
            .collect();
        if lines.iter().any(|fields| !matches!(fields.len(), 2 | 3)) {
            return Err(Error::unparsable(output.what(), "a line has not two or three fields"));
        }
        lines.sort_by(|one, other| one[1].cmp(other[1]));
        let mut text = b"# pack-refs with: peeled fully-peeled sorted \n".to_vec();
        for fields in lines.iter().filter(|fields| keep(fields[1])) {
            text.extend([fields[0], b" ", fields[1], b"\n"].concat());
            if let Some(peeled) = fields.get(2) {
                text.extend([b"^", *peeled, b"\n"].concat());
            }
        }
        Ok(text)
    }

    /// Moves refs, all or none. `reason` goes into the reflogs.
    pub fn swap_refs(&self, edits: &[RefEdit], reason: &str) -> Result<Swap, Error> {
        let zero = self.object_format().zero();
        let records: String = edits.iter().map(|edit| edit.record(&zero)).collect();
        let reason: String = reason.chars().filter(|character| !character.is_control()).collect();
        let output = self
            .common(Access::Write, "update-ref")
            .config("core.filesRefLockTimeout", "5000")
            .config("core.packedRefsTimeout", "5000")
            .args(["-m", &reason, "--stdin", "-z"])
            .input(Input::Bytes(records.into_bytes()))
            .run()?;
        if output.status.success() {
            return Ok(Swap::Done);
        }
        // Git's exit code says only that nothing moved. Whether a value was another than expected is read, not guessed.
        for edit in edits {
            let found = self.load_ref(edit.name())?;
            if found.as_ref() != edit.expected() {
                return Ok(Swap::Lost { name: edit.name().clone(), expected: edit.expected().cloned(), found });
            }
        }
        Err(output.failure())
    }
}
