//! Globs over repository paths: reading them, and asking whether a path matches.
//!
//! The language is small so that every question about it can be answered exactly. Matching is on bytes, case-sensitive,
//! from the repository's root. `*` and `?` never match `/`; `**` stands alone between slashes and matches any folders;
//! `[a-z]` and `[!a-z]` are one byte; `{a,b}` is shorthand for several globs; a trailing `/` means `/**`; `\` takes the
//! next character literally. There is no negation, no leading `/` and no `..`.
//!
//! Why not compile to `globset`: a contract is also *compared*, and the matcher and the comparison must agree about every
//! byte. Both walk the same automaton; `globset` serves as the oracle of the property test.

use crate::model::RepoPath;

use super::automaton::{Automaton, ByteSet, Step};
use super::overlap;

/// The longest glob, in bytes.
pub const MAX_LENGTH: usize = 1024;
/// How many globs one pair, or nest, of braces may stand for.
pub const MAX_ALTERNATIVES: usize = 256;
const MAX_DEPTH: usize = 16;

/// Why a text is not a glob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// Nothing at all.
    #[error("it is empty: write `**` for every path")]
    Empty,
    /// Longer than [`MAX_LENGTH`].
    #[error("it is longer than {MAX_LENGTH} bytes")]
    TooLong,
    /// It begins with `/`.
    #[error("it begins with `/`: globs start at the repository's root, so leave the slash out")]
    LeadingSlash,
    /// It begins with `!`.
    #[error("it begins with `!`: there is no negation (write `\\!` for a name that begins with it)")]
    Negation,
    /// Two slashes in a row, or an empty choice where a part should be.
    #[error("it has an empty part")]
    EmptyPart,
    /// A part `.` or `..`.
    #[error("it has a part `.` or `..`: write the path from the repository's root")]
    DotPart,
    /// `**` next to something else.
    #[error("`**` must stand alone between slashes, as in `src/**/*.rs`")]
    GluedStars,
    /// `[` without its `]`, or nothing in between.
    #[error("`[` needs at least one character and a closing `]` (write `\\[` for the character itself)")]
    OpenClass,
    /// Something in `[…]` that is not a single byte of a file name.
    #[error("`[…]` may only list single ASCII characters, never `/`: use `{{a,b}}` for anything longer")]
    BadClass,
    /// `[z-a]`.
    #[error("a range in `[…]` runs backwards")]
    BackwardRange,
    /// `{` without `}`, or the other way round.
    #[error("`{{` and `}}` do not pair up (write `\\{{` for the character itself)")]
    OpenBrace,
    /// Braces that stand for too many globs.
    #[error(
        "its braces stand for more than {MAX_ALTERNATIVES} globs, or nest more than {MAX_DEPTH} deep: write several globs instead"
    )]
    TooComplex,
    /// A `\` at the end.
    #[error("it ends with `\\`, which takes the next character literally")]
    TrailingBackslash,
    /// A NUL byte.
    #[error("it has a NUL character, which no path can have")]
    Nul,
    /// No path of a repository can match.
    #[error("no path of a repository can match it")]
    MatchesNothing,
}

/// One glob, ready to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    text: String,
    alternatives: Vec<Automaton>,
}

impl Glob {
    /// Reads a glob.
    pub fn new(text: &str) -> Result<Self, GlobError> {
        match text.as_bytes() {
            [] => return Err(GlobError::Empty),
            [b'!', ..] => return Err(GlobError::Negation),
            bytes if bytes.len() > MAX_LENGTH => return Err(GlobError::TooLong),
            bytes if bytes.contains(&0) => return Err(GlobError::Nul),
            _ => {}
        }
        let mut reader = Reader { rest: text.as_bytes() };
        let sequence = reader.sequence(0)?;
        if !reader.rest.is_empty() {
            return Err(GlobError::OpenBrace);
        }
        let mut alternatives = Vec::new();
        for pieces in expand(&sequence)? {
            let automaton = Automaton::new(steps(&pieces)?);
            if !alternatives.contains(&automaton) {
                alternatives.push(automaton);
            }
        }
        if !alternatives.iter().any(overlap::is_possible) {
            return Err(GlobError::MatchesNothing);
        }
        Ok(Self { text: text.to_owned(), alternatives })
    }

    /// The glob as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the whole of `path` matches.
    pub fn matches(&self, path: &RepoPath) -> bool {
        self.alternatives.iter().any(|automaton| automaton.matches(path.as_bytes()))
    }

    pub(super) fn alternatives(&self) -> &[Automaton] {
        &self.alternatives
    }
}

/// Several globs: a path matches where one of them does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GlobSet {
    globs: Vec<Glob>,
}

impl GlobSet {
    /// Reads all globs; the first bad one is named by its place.
    pub fn compile(texts: &[String]) -> Result<Self, (usize, GlobError)> {
        let read = |(at, text): (usize, &String)| Glob::new(text).map_err(|error| (at, error));
        Ok(Self { globs: texts.iter().enumerate().map(read).collect::<Result<_, _>>()? })
    }

    /// Whether one of the globs matches the whole of `path`.
    pub fn matches(&self, path: &RepoPath) -> bool {
        self.globs.iter().any(|glob| glob.matches(path))
    }

    /// The globs.
    pub fn globs(&self) -> &[Glob] {
        &self.globs
    }
}

/// What a glob says at one place, braces resolved.
#[derive(Debug, Clone, Copy)]
enum Piece {
    Byte(u8),
    Class(ByteSet),
    Slash,
    Star,
    /// `**`, written as one. Two `*` that only meet where braces end are not it.
    Stars,
    /// An empty choice of braces.
    Nothing,
}

/// A part of a glob with its braces.
enum Node {
    Piece(Piece),
    Either(Vec<Vec<Self>>),
}

struct Reader<'t> {
    rest: &'t [u8],
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// Everything up to the end, or up to a `,` or `}` where `depth` says we are inside braces.
    fn sequence(&mut self, depth: usize) -> Result<Vec<Node>, GlobError> {
        let mut nodes = Vec::new();
        while let Some(byte) = self.rest.first().copied() {
            if depth > 0 && matches!(byte, b',' | b'}') {
                break;
            }
            self.next();
            nodes.push(match byte {
                b'*' => Node::Piece(self.stars()?),
                b'?' => Node::Piece(Piece::Class(ByteSet::name_bytes())),
                b'/' => Node::Piece(Piece::Slash),
                b'[' => Node::Piece(Piece::Class(self.class()?)),
                b'{' => self.braces(depth + 1)?,
                b'}' => return Err(GlobError::OpenBrace),
                b'\\' => match self.next() {
                    None => return Err(GlobError::TrailingBackslash),
                    Some(b'/') => Node::Piece(Piece::Slash),
                    Some(literal) => Node::Piece(Piece::Byte(literal)),
                },
                literal => Node::Piece(Piece::Byte(literal)),
            });
        }
        Ok(nodes)
    }

    /// What follows a first `*`.
    fn stars(&mut self) -> Result<Piece, GlobError> {
        match self.rest {
            [b'*', b'*', ..] => Err(GlobError::GluedStars),
            [b'*', ..] => {
                self.next();
                Ok(Piece::Stars)
            }
            _ => Ok(Piece::Star),
        }
    }

    fn braces(&mut self, depth: usize) -> Result<Node, GlobError> {
        if depth > MAX_DEPTH {
            return Err(GlobError::TooComplex);
        }
        let mut choices = Vec::new();
        loop {
            choices.push(self.sequence(depth)?);
            match self.next() {
                Some(b',') => {}
                Some(_) => return Ok(Node::Either(choices)),
                None => return Err(GlobError::OpenBrace),
            }
        }
    }

    /// What follows `[`, up to and with its `]`.
    fn class(&mut self) -> Result<ByteSet, GlobError> {
        let negated = matches!(self.rest, [b'!' | b'^', ..]);
        if negated {
            self.next();
        }
        let mut set = ByteSet::EMPTY;
        let mut first = true;
        loop {
            let from = match self.next() {
                None => return Err(GlobError::OpenClass),
                Some(b']') if !first => break,
                Some(byte) => self.member(byte)?,
            };
            first = false;
            let range = matches!(self.rest, [b'-', end, ..] if *end != b']');
            let to = if range {
                self.next();
                let end = self.next().ok_or(GlobError::OpenClass)?;
                self.member(end)?
            } else {
                from
            };
            if to < from {
                return Err(GlobError::BackwardRange);
            }
            (from..=to).for_each(|byte| set.insert(byte));
        }
        Ok(if negated { set.negated() } else { set }.and(ByteSet::name_bytes()))
    }

    fn member(&mut self, byte: u8) -> Result<u8, GlobError> {
        let byte = if byte == b'\\' { self.next().ok_or(GlobError::OpenClass)? } else { byte };
        if byte.is_ascii() && byte != b'/' { Ok(byte) } else { Err(GlobError::BadClass) }
    }
}

/// Every glob without braces that a glob with braces stands for, counted before it grows.
fn expand(sequence: &[Node]) -> Result<Vec<Vec<Piece>>, GlobError> {
    let mut all = vec![Vec::new()];
    for node in sequence {
        match node {
            Node::Piece(piece) => all.iter_mut().for_each(|pieces| pieces.push(*piece)),
            Node::Either(choices) => {
                let mut tails = Vec::new();
                for choice in choices {
                    tails.extend(if choice.is_empty() { vec![vec![Piece::Nothing]] } else { expand(choice)? });
                    if tails.len() * all.len() > MAX_ALTERNATIVES {
                        return Err(GlobError::TooComplex);
                    }
                }
                let join = |head: &Vec<Piece>| {
                    let head = head.clone();
                    tails.iter().map(move |tail| [head.as_slice(), tail.as_slice()].concat()).collect::<Vec<_>>()
                };
                all = all.iter().flat_map(join).collect();
            }
        }
    }
    Ok(all)
}

/// What a trailing slash stands for.
const FOLDERS: &[Piece] = &[Piece::Stars];

fn steps(pieces: &[Piece]) -> Result<Vec<Step>, GlobError> {
    let mut parts: Vec<&[Piece]> = pieces.split(|piece| matches!(piece, Piece::Slash)).collect();
    match parts.as_mut_slice() {
        [[]] => return Err(GlobError::Empty),
        [[], ..] => return Err(GlobError::LeadingSlash),
        [.., last] if last.is_empty() => *last = FOLDERS,
        _ => {}
    }
    let count = parts.len();
    let mut steps = Vec::new();
    for (at, part) in parts.into_iter().enumerate() {
        let last = at + 1 == count;
        let part: Vec<Piece> = part.iter().copied().filter(|piece| !matches!(piece, Piece::Nothing)).collect();
        match part.as_slice() {
            [] => return Err(GlobError::EmptyPart),
            [Piece::Byte(b'.')] | [Piece::Byte(b'.'), Piece::Byte(b'.')] => return Err(GlobError::DotPart),
            [Piece::Stars] if last => steps.extend([Step::One(ByteSet::path_bytes()), Step::Rest]),
            // A second `**/` says nothing new.
            [Piece::Stars] if steps.last() == Some(&Step::InFolder) => {}
            [Piece::Stars] => steps.extend([Step::Folders, Step::InFolder]),
            part if part.iter().any(|piece| matches!(piece, Piece::Stars)) => {
                return Err(GlobError::GluedStars);
            }
            part => {
                steps.extend(part.iter().filter_map(|piece| match piece {
                    Piece::Byte(byte) => Some(Step::One(ByteSet::of(*byte))),
                    Piece::Class(set) => Some(Step::One(*set)),
                    Piece::Star => Some(Step::Run),
                    // A part holds none of these any more.
                    Piece::Slash | Piece::Stars | Piece::Nothing => None,
                }));
                if !last {
                    steps.push(Step::One(ByteSet::of(b'/')));
                }
            }
        }
    }
    Ok(steps)
}
