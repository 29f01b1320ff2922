//! One brace-free glob as a small automaton over bytes. Matching a path and comparing two globs both read these steps, so
//! what is enforced and what is checked beforehand cannot drift apart.

/// A set of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ByteSet([u64; 4]);

impl ByteSet {
    pub(super) const EMPTY: Self = Self([0; 4]);

    pub(super) fn of(byte: u8) -> Self {
        let mut set = Self::EMPTY;
        set.insert(byte);
        set
    }

    /// Every byte a file name can hold: all but NUL and `/`.
    pub(super) fn name_bytes() -> Self {
        let mut set = Self([u64::MAX; 4]);
        set.remove(0);
        set.remove(b'/');
        set
    }

    /// Every byte a path can hold: all but NUL.
    pub(super) fn path_bytes() -> Self {
        let mut set = Self([u64::MAX; 4]);
        set.remove(0);
        set
    }

    pub(super) fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
    }

    fn remove(&mut self, byte: u8) {
        self.0[usize::from(byte / 64)] &= !(1 << (byte % 64));
    }

    pub(super) fn contains(self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] & (1 << (byte % 64)) != 0
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    pub(super) fn negated(self) -> Self {
        Self(self.0.map(|word| !word))
    }

    fn only(self) -> Option<u8> {
        let mut bytes = (0..=u8::MAX).filter(|byte| self.contains(*byte));
        let first = bytes.next()?;
        bytes.next().is_none().then_some(first)
    }
}

/// What a state waits for. State `n` is "about to take step `n`"; the state behind the last step accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// One byte of a set.
    One(ByteSet),
    /// `*`: any bytes but `/`, or nothing.
    Run,
    /// `**/` where a folder may begin: none or more whole folders. Always followed by [`Step::InFolder`].
    Folders,
    /// Inside a folder's name that [`Step::Folders`] began.
    InFolder,
    /// Any bytes at all, or nothing.
    Rest,
}

/// The steps of one glob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Automaton {
    steps: Vec<Step>,
    /// The bytes every match begins with, and those it ends with: they tell most pairs of globs apart without a search.
    prefix: Vec<u8>,
    suffix: Vec<u8>,
}

impl Automaton {
    pub(super) fn new(steps: Vec<Step>) -> Self {
        let literal = |step: &Step| match step {
            Step::One(set) => set.only(),
            Step::Run | Step::Folders | Step::InFolder | Step::Rest => None,
        };
        let prefix = steps.iter().map_while(literal).collect();
        let mut suffix: Vec<u8> = steps.iter().rev().map_while(literal).collect();
        suffix.reverse();
        Self { steps, prefix, suffix }
    }

    /// Whether a look at how matches begin and end is enough to see that no path matches both.
    pub(super) fn plainly_differs(&self, other: &Self) -> bool {
        let shorter = self.prefix.len().min(other.prefix.len());
        let common = self.suffix.len().min(other.suffix.len());
        self.prefix[..shorter] != other.prefix[..shorter]
            || self.suffix[self.suffix.len() - common..] != other.suffix[other.suffix.len() - common..]
    }

    /// The sets of bytes that it tells apart.
    pub(super) fn byte_sets(&self) -> impl Iterator<Item = ByteSet> + '_ {
        self.steps.iter().filter_map(|step| match step {
            Step::One(set) => Some(*set),
            Step::Run | Step::Folders | Step::InFolder | Step::Rest => None,
        })
    }

    pub(super) fn accepts(&self, state: usize) -> bool {
        state == self.steps.len()
    }

    pub(super) fn states(&self) -> usize {
        self.steps.len() + 1
    }

    /// Calls `visit` with `state` and with every state reachable from it without reading a byte.
    pub(super) fn close(&self, mut state: usize, visit: &mut impl FnMut(usize)) {
        loop {
            visit(state);
            state += match self.steps.get(state) {
                Some(Step::Run | Step::Rest) => 1,
                Some(Step::Folders) => 2,
                Some(Step::One(_) | Step::InFolder) | None => return,
            };
        }
    }

    /// Calls `visit` with every state reachable from `state` by reading `byte`.
    pub(super) fn step(&self, state: usize, byte: u8, visit: &mut impl FnMut(usize)) {
        let next = match self.steps.get(state) {
            Some(Step::One(set)) if set.contains(byte) => state + 1,
            Some(Step::Run) if byte != b'/' => state,
            Some(Step::Folders) if byte != b'/' => state + 1,
            Some(Step::InFolder) if byte == b'/' => state - 1,
            Some(Step::InFolder | Step::Rest) => state,
            Some(Step::One(_) | Step::Run | Step::Folders) | None => return,
        };
        self.close(next, visit);
    }

    /// Whether the whole of `path` matches. Takes time in proportion to the path's length times the glob's, never more.
    pub(super) fn matches(&self, path: &[u8]) -> bool {
        if !path.starts_with(&self.prefix) || !path.ends_with(&self.suffix) {
            return false;
        }
        let mut seen_at = vec![usize::MAX; self.states()];
        let mut current = Vec::new();
        self.close(self.prefix.len(), &mut |state| current.push(state));
        let mut next = Vec::new();
        for (at, byte) in path.iter().enumerate().skip(self.prefix.len()) {
            for state in &current {
                self.step(*state, *byte, &mut |to| {
                    if std::mem::replace(&mut seen_at[to], at) != at {
                        next.push(to);
                    }
                });
            }
            std::mem::swap(&mut current, &mut next);
            next.clear();
            if current.is_empty() {
                return false;
            }
        }
        current.iter().any(|state| self.accepts(*state))
    }
}
