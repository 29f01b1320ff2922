//! The lines of a conflict as text.

use super::look::{Look, Tone};
use super::text;
use crate::model::excerpt::{Content, Line, Lines, PathExcerpt, RegionExcerpt};
use crate::model::path::shown_bytes;

/// What stands in for a tab: its own width depends on where it stands.
const TAB: &str = "    ";

/// A path of a conflict: what each side has, then the places where they differ. Lines are marked as git marks them: `<` is
/// ours, `|` the base, `>` theirs.
pub(super) fn render(path: &PathExcerpt, look: Look) -> String {
    let mut out = String::new();
    for (name, content) in [("base", &path.base), ("ours", &path.ours), ("theirs", &path.theirs)] {
        let what = content.as_ref().map_or_else(|| "nothing".to_owned(), described);
        out.extend(["  ", &text::padded(name, 7), &what, "\n"]);
    }
    if let Some(note) = &path.note {
        out.extend(["  no lines are shown: ", &text::clean(note), "\n"]);
    }
    for region in &path.regions {
        out.push_str(&place(region, look));
    }
    if path.more_regions > 0 {
        let more = text::count(path.more_regions as u64, "more place is", "more places are");
        out.extend(["  ", &more, " not shown\n"]);
    }
    out
}

/// A patch, each line harmless.
pub(super) fn patch(patch: &Line) -> String {
    let mut out = String::new();
    for line in patch.bytes().split_inclusive(|byte| *byte == b'\n') {
        out.extend(["  ", &harmless(line.strip_suffix(b"\n").unwrap_or(line)), "\n"]);
    }
    out.push_str(&cut(patch));
    if patch.cut() > 0 {
        out.push('\n');
    }
    out
}

fn described(content: &Content) -> String {
    let mut text = format!("{} {} {}", content.kind.name(), content.mode, content.oid.short());
    if let Some(size) = content.size {
        text.extend([", ", &text::count(size, "byte", "bytes")]);
    }
    if let Some(target) = &content.target {
        text.extend([", to `", &harmless(target.bytes()), "`", &cut(target)]);
    }
    text
}

fn place(region: &RegionExcerpt, look: Look) -> String {
    let mut out = format!("  {}\n", Tone::Dim.paint(&headline(region), look));
    out.push_str(&lines(&region.before, ' ', "", look));
    out.push_str(&lines(&region.ours, '<', "ours", look));
    if let Some(base) = &region.base {
        out.push_str(&lines(base, '|', "base", look));
    }
    out.push_str(&lines(&region.theirs, '>', "theirs", look));
    out.push_str(&lines(&region.after, ' ', "", look));
    out
}

fn headline(region: &RegionExcerpt) -> String {
    let at = |name: &str, lines: &Lines| match lines.lines.len() + lines.more {
        0 => format!("{name} none before {}", lines.from),
        1 => format!("{name} {}", lines.from),
        several => format!("{name} {}-{}", lines.from, lines.from + several - 1),
    };
    let base = region.base.as_ref().map(|base| format!("{}, ", at("base", base))).unwrap_or_default();
    format!("lines: {}, {base}{}", at("ours", &region.ours), at("theirs", &region.theirs))
}

fn lines(lines: &Lines, mark: char, side: &str, look: Look) -> String {
    let tone = match mark {
        '<' => Tone::Warn,
        '>' => Tone::Good,
        _ => Tone::Dim,
    };
    let mut out = String::new();
    for (at, line) in lines.lines.iter().enumerate() {
        let shown = format!("{:>6} {mark} {}{}", lines.from + at, harmless(line.bytes()), cut(line));
        out.extend(["  ", &tone.paint(shown.trim_end(), look), "\n"]);
    }
    let margin = format!("         {mark} ");
    if lines.more > 0 {
        let side = if side.is_empty() { "what is around it" } else { side };
        let more = text::count(lines.more as u64, "more line", "more lines");
        out.extend([margin.as_str(), "(", &more, " of ", side, ")\n"]);
    }
    if lines.no_newline && !side.is_empty() {
        out.extend([margin.as_str(), "(no line end at the end of ", side, ")\n"]);
    }
    out
}

/// What somebody else wrote, with nothing in it that moves a terminal or reorders a line.
fn harmless(bytes: &[u8]) -> String {
    bytes.split(|byte| *byte == b'\t').map(|part| text::clean(&shown_bytes(part))).collect::<Vec<_>>().join(TAB)
}

fn cut(line: &Line) -> String {
    if line.cut() == 0 { String::new() } else { format!(" … ({} more bytes)", line.cut()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::excerpt::ContentKind;

    fn some(from: usize, lines: &[&[u8]], more: usize) -> Lines {
        Lines { from, lines: lines.iter().map(|line| Line::new(line, 12)).collect(), more, no_newline: false }
    }

    #[test]
    fn lines_of_a_conflict() {
        let content = |digit: char, size| {
            let (kind, mode) = (ContentKind::Text, "100644".to_owned());
            Some(Content {
                kind,
                mode,
                oid: digit.to_string().repeat(40).parse().unwrap(),
                size: Some(size),
                target: None,
            })
        };
        let region = RegionExcerpt {
            before: some(9, &[b"before"], 0),
            base: Some(some(10, &[], 0)),
            ours: some(10, &[b"\tours\x1b[2J", b"caf\xc3\xa9 \xff", b"far too long for this"], 3),
            theirs: Lines { no_newline: true, ..some(10, &["evil\u{202e}".as_bytes()], 0) },
            after: some(16, &[b"after"], 0),
        };
        let path = PathExcerpt {
            path: "a".into(),
            base: None,
            ours: content('1', 1),
            theirs: content('2', 20),
            regions: vec![region],
            more_regions: 2,
            note: None,
        };
        insta::assert_snapshot!(render(&path, Look::PLAIN), @r"
          base   nothing
          ours   text 100644 1111111111, 1 byte
          theirs text 100644 2222222222, 20 bytes
          lines: ours 10-15, base none before 10, theirs 10
               9   before
              10 <     ours\u{1b}[2J
              11 < café \xff
              12 < far too long … (9 more bytes)
                 < (3 more lines of ours)
              10 > evil\u{202e}
                 > (no line end at the end of theirs)
              16   after
          2 more places are not shown
        ");
        assert_eq!(patch(&Line::new(b"+a\x1bb\n-c\n", 3)), "  +a\\u{1b}\n … (5 more bytes)\n");
    }
}
