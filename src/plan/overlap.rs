//! Whether some *possible* path matches two globs, decided on the globs and not on the files there happen to be.
//!
//! A breadth-first walk over pairs of states of the two automata, together with a third small one that knows what a path
//! of a repository can be (no empty parts, no `.`, no `..`, no `.git`). So the answer is exact, and what it gives is the
//! shortest path that matches both. Only one byte of each class is tried, where a class is a set of bytes that no automaton
//! in the walk tells apart.
//!
//! With shared lists the walk also carries which states of *all* the shared globs are alive, since "listed by both" is
//! about absence as well. That can blow up, so every walk pays from one [`Budget`]; when it is used up the answer is
//! [`TooComplex`], which the plan's check reports as an error. It is never taken for "no overlap".

use std::collections::{HashMap, HashSet};

use crate::model::RepoPath;

use super::automaton::{Automaton, ByteSet, Step};
use super::glob::{Glob, GlobError};

/// The work was more than the budget allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the globs are too complex to compare: use fewer or simpler ones")]
pub struct TooComplex;

/// How much comparing may still be done.
#[derive(Debug, Clone)]
pub struct Budget(u64);

impl Default for Budget {
    /// Enough for thousands of ordinary contracts; some seconds of work at the most.
    fn default() -> Self {
        Self::new(20_000_000)
    }
}

impl Budget {
    /// Looking at how two globs begin and end costs a small part of a step.
    const LOOKS: u64 = 32;
    /// The most steps for two globs without braces, so that one pair alone cannot take much memory.
    const ONE_WALK: u64 = 1_500_000;

    /// A budget of `steps`.
    pub fn new(steps: u64) -> Self {
        Self(steps.saturating_mul(Self::LOOKS))
    }

    /// A part of this budget for one walk.
    fn for_one_walk(&self) -> Self {
        Self(self.0.min(Self::ONE_WALK * Self::LOOKS))
    }

    fn look(&mut self) -> Result<(), TooComplex> {
        self.0 = self.0.checked_sub(1).ok_or(TooComplex)?;
        Ok(())
    }

    fn spend(&mut self, steps: usize) -> Result<(), TooComplex> {
        self.0 = self.0.checked_sub((steps as u64).saturating_mul(Self::LOOKS)).ok_or(TooComplex)?;
        Ok(())
    }
}

/// Why two globs could not be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OverlapError {
    /// One of them is no glob.
    #[error("not a glob: {0}")]
    Glob(#[from] GlobError),
    /// They are too complex.
    #[error(transparent)]
    TooComplex(#[from] TooComplex),
}

/// A path that matches both globs, if any path can.
pub fn overlap(a: &str, b: &str) -> Result<Option<RepoPath>, OverlapError> {
    let (a, b) = (Glob::new(a)?, Glob::new(b)?);
    Ok(common_path(&a, &b, None, &mut Budget::default())?)
}

/// A path that matches both globs; where `shared` is given, one that is not in both of its lists.
pub(super) fn common_path(
    a: &Glob,
    b: &Glob,
    shared: Option<(&[Glob], &[Glob])>,
    budget: &mut Budget,
) -> Result<Option<RepoPath>, TooComplex> {
    let mut shortest: Option<Vec<u8>> = None;
    for first in a.alternatives() {
        for second in b.alternatives() {
            budget.look()?;
            if first.plainly_differs(second) {
                continue;
            }
            let mut part = budget.for_one_walk();
            let given = part.0;
            let found = Walk::new(first, second, shared).run(&mut part)?;
            budget.0 -= given - part.0;
            if let Some(found) = found
                && shortest.as_ref().is_none_or(|known| found.len() < known.len())
            {
                shortest = Some(found);
            }
        }
    }
    Ok(shortest.map(RepoPath::new))
}

/// A path that matches `glob` and none of `cover`, if any path can.
pub(super) fn uncovered_path(glob: &Glob, cover: &[Glob], budget: &mut Budget) -> Result<Option<RepoPath>, TooComplex> {
    let anything = anything();
    for automaton in glob.alternatives() {
        let mut part = budget.for_one_walk();
        let given = part.0;
        // A path in the cover is one that is listed by both of two lists that are the same.
        let found = Walk::new(automaton, &anything, Some((cover, cover))).run(&mut part)?;
        budget.0 -= given - part.0;
        if let Some(found) = found {
            return Ok(Some(RepoPath::new(found)));
        }
    }
    Ok(None)
}

/// What every path matches.
fn anything() -> Automaton {
    Automaton::new(vec![Step::One(ByteSet::path_bytes()), Step::Rest])
}

/// Whether any path of a repository can match at all.
pub(super) fn is_possible(automaton: &Automaton) -> bool {
    let anything = anything();
    // One glob alone has few states, so the budget cannot run out; if it did, the glob is not called impossible.
    !matches!(Walk::new(automaton, &anything, None).run(&mut Budget::default()), Ok(None))
}

/// How far into a path's part we are, as far as it matters for whether git would take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Begin,
    Dot,
    DotDot,
    DotG,
    DotGi,
    DotGit,
    Other,
}

impl Part {
    fn may_end(self) -> bool {
        match self {
            Self::Begin | Self::Dot | Self::DotDot | Self::DotGit => false,
            Self::DotG | Self::DotGi | Self::Other => true,
        }
    }

    fn then(self, byte: u8) -> Option<Self> {
        if byte == b'/' {
            return self.may_end().then_some(Self::Begin);
        }
        Some(match (self, byte.to_ascii_lowercase()) {
            (Self::Begin, b'.') => Self::Dot,
            (Self::Dot, b'.') => Self::DotDot,
            (Self::Dot, b'g') => Self::DotG,
            (Self::DotG, b'i') => Self::DotGi,
            (Self::DotGi, b't') => Self::DotGit,
            (Self::Begin | Self::Dot | Self::DotDot | Self::DotG | Self::DotGi | Self::DotGit | Self::Other, _) => {
                Self::Other
            }
        })
    }
}

/// One byte of each class that the automata tell apart, the most readable one.
fn alphabet<'a>(automata: impl Iterator<Item = &'a Automaton>) -> Vec<u8> {
    let mut sets: HashSet<ByteSet> = automata.flat_map(Automaton::byte_sets).collect();
    for group in [&b"/"[..], b".", b"gG", b"iI", b"tT", b"\0"] {
        let mut set = ByteSet::EMPTY;
        for byte in group {
            set.insert(*byte);
        }
        sets.insert(set);
    }
    let mut class = [0_u8; 256];
    for set in sets {
        // What a class becomes, outside the set and in it. There are never more classes than bytes.
        let mut renumbered = [[None; 2]; 256];
        let mut count = 0_u8;
        for byte in 0..=u8::MAX {
            let place = &mut class[usize::from(byte)];
            *place = *renumbered[usize::from(*place)][usize::from(set.contains(byte))].get_or_insert_with(|| {
                count = count.wrapping_add(1);
                count.wrapping_sub(1)
            });
        }
    }
    let readable = (b'a'..=b'z').chain(b'0'..=b'9').chain(b'A'..=b'Z').chain(b'!'..=b'~').chain(1..=u8::MAX);
    let mut taken = [false; 256];
    readable.filter(|byte| !std::mem::replace(&mut taken[usize::from(class[usize::from(*byte)])], true)).collect()
}

/// The states alive in a list of globs, as numbers for whole sets.
struct Subsets<'a> {
    automata: Vec<&'a Automaton>,
    sets: Vec<Vec<(usize, usize)>>,
    numbers: HashMap<Vec<(usize, usize)>, usize>,
    known: HashMap<(usize, u8), usize>,
}

impl<'a> Subsets<'a> {
    fn new(globs: &'a [Glob]) -> Self {
        let automata: Vec<_> = globs.iter().flat_map(Glob::alternatives).collect();
        let mut subsets = Self { automata, sets: Vec::new(), numbers: HashMap::new(), known: HashMap::new() };
        let mut start = Vec::new();
        for (at, automaton) in subsets.automata.iter().enumerate() {
            automaton.close(0, &mut |state| start.push((at, state)));
        }
        subsets.number(start);
        subsets
    }

    fn number(&mut self, mut set: Vec<(usize, usize)>) -> usize {
        set.sort_unstable();
        set.dedup();
        if let Some(number) = self.numbers.get(&set) {
            return *number;
        }
        let number = self.sets.len();
        self.numbers.insert(set.clone(), number);
        self.sets.push(set);
        number
    }

    fn then(&mut self, from: usize, byte: u8, budget: &mut Budget) -> Result<usize, TooComplex> {
        if let Some(number) = self.known.get(&(from, byte)) {
            return Ok(*number);
        }
        budget.spend(self.sets[from].len())?;
        let mut next = Vec::new();
        for (at, state) in &self.sets[from] {
            self.automata[*at].step(*state, byte, &mut |to| next.push((*at, to)));
        }
        let number = self.number(next);
        self.known.insert((from, byte), number);
        Ok(number)
    }

    fn accepts(&self, number: usize) -> bool {
        self.sets[number].iter().any(|(at, state)| self.automata[*at].accepts(*state))
    }
}

/// Where a walk stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    a: usize,
    b: usize,
    part: Part,
    shared: (usize, usize),
}

struct Walk<'a> {
    a: &'a Automaton,
    b: &'a Automaton,
    shared: Option<(Subsets<'a>, Subsets<'a>)>,
    alphabet: Vec<u8>,
    seen: HashSet<Place>,
    /// Each place met, with the number of the one before it and the byte between.
    trail: Vec<(Place, usize, u8)>,
}

impl<'a> Walk<'a> {
    fn new(a: &'a Automaton, b: &'a Automaton, shared: Option<(&'a [Glob], &'a [Glob])>) -> Self {
        let shared = shared.map(|(first, second)| (Subsets::new(first), Subsets::new(second)));
        let lists = shared.iter().flat_map(|(first, second)| first.automata.iter().chain(&second.automata).copied());
        let alphabet = alphabet([a, b].into_iter().chain(lists));
        Self { a, b, shared, alphabet, seen: HashSet::new(), trail: Vec::new() }
    }

    fn arrive(&mut self, place: Place, before: usize, byte: u8) {
        if self.seen.insert(place) {
            self.trail.push((place, before, byte));
        }
    }

    fn run(mut self, budget: &mut Budget) -> Result<Option<Vec<u8>>, TooComplex> {
        self.start();
        let mut at = 0;
        while let Some((place, _, _)) = self.trail.get(at).copied() {
            if self.is_end(place) {
                return Ok(Some(self.path_to(at)));
            }
            budget.spend(self.alphabet.len())?;
            for nth in 0..self.alphabet.len() {
                let byte = self.alphabet[nth];
                self.read(place, at, byte, budget)?;
            }
            at += 1;
        }
        Ok(None)
    }

    fn start(&mut self) {
        let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
        self.a.close(0, &mut |state| firsts.push(state));
        self.b.close(0, &mut |state| seconds.push(state));
        for a in firsts {
            for b in &seconds {
                self.arrive(Place { a, b: *b, part: Part::Begin, shared: (0, 0) }, 0, 0);
            }
        }
    }

    fn read(&mut self, from: Place, at: usize, byte: u8, budget: &mut Budget) -> Result<(), TooComplex> {
        let Some(part) = from.part.then(byte) else { return Ok(()) };
        let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
        self.a.step(from.a, byte, &mut |state| firsts.push(state));
        if firsts.is_empty() {
            return Ok(());
        }
        self.b.step(from.b, byte, &mut |state| seconds.push(state));
        if seconds.is_empty() {
            return Ok(());
        }
        let shared = match &mut self.shared {
            None => (0, 0),
            Some((first, second)) => {
                (first.then(from.shared.0, byte, budget)?, second.then(from.shared.1, byte, budget)?)
            }
        };
        for a in firsts {
            for b in &seconds {
                self.arrive(Place { a, b: *b, part, shared }, at, byte);
            }
        }
        Ok(())
    }

    fn is_end(&self, place: Place) -> bool {
        let listed_by_both = self
            .shared
            .as_ref()
            .is_some_and(|(first, second)| first.accepts(place.shared.0) && second.accepts(place.shared.1));
        self.a.accepts(place.a) && self.b.accepts(place.b) && place.part.may_end() && !listed_by_both
    }

    fn path_to(&self, end: usize) -> Vec<u8> {
        let mut path = Vec::new();
        let mut at = end;
        // Only the places a walk begins with have no byte before them.
        while self.trail[at].2 != 0 {
            path.push(self.trail[at].2);
            at = self.trail[at].1;
        }
        path.reverse();
        path
    }
}
