//! The small change of text for people: escaping, widths, numbers, durations, lists.

use std::fmt::Display;

use jiff::SignedDuration;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How many paths a list in a view names before it counts the rest.
pub const LISTED: usize = 10;

/// Text that somebody else wrote, made safe to show in one line: control characters, and those that are invisible or reorder
/// what stands around them, are escaped.
pub fn clean(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_deceptive(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// [`clean`] for anything that can be displayed.
pub fn shown(value: impl Display) -> String {
    clean(&value.to_string())
}

/// Characters that are not control characters to Unicode but make a line look like another.
fn is_deceptive(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{feff}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fff9}'..='\u{fffb}'
            // Tags: letters that nobody sees, of which whole sentences can be made.
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// How many columns `text` takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text`, cut to at most `columns` columns, the cut marked.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if used + wide + 1 > columns {
            break;
        }
        used += wide;
        kept.push(character);
    }
    if columns > 0 {
        kept.push('…');
    }
    kept
}

/// `text` and enough spaces to fill `columns` columns.
pub fn padded(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(width(text));
    format!("{text}{}", " ".repeat(missing))
}

/// `1 file`, `2 files`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// The length of a list as a number for [`count`].
pub fn len<T>(list: &[T]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}

/// A list in a line: at most `most` of it by name, and how many more there are.
pub fn list<T: Display>(items: &[T], most: usize) -> String {
    let named: Vec<String> = items.iter().take(most).map(shown).collect();
    match items.len().saturating_sub(most) {
        0 => named.join(", "),
        more if named.is_empty() => more.to_string(),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// A list down the page, each line indented; at most [`LISTED`] of it.
pub fn lines<T: Display>(items: &[T], indent: &str) -> String {
    let mut out = String::new();
    for item in items.iter().take(LISTED) {
        out.extend([indent, &shown(item), "\n"]);
    }
    let more = items.len().saturating_sub(LISTED);
    if more > 0 {
        out.extend([indent, &format!("and {more} more\n")]);
    }
    out
}

/// A duration as people say it: two units at most.
pub fn duration(duration: SignedDuration) -> String {
    let millis = duration.as_millis().max(0);
    let seconds = millis / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    if millis == 0 {
        "0s".to_owned()
    } else if seconds < 1 {
        format!("{millis}ms")
    } else if seconds < 10 {
        format!("{seconds}.{}s", millis % 1000 / 100)
    } else if seconds < 60 {
        format!("{seconds}s")
    } else if seconds < 3600 {
        format!("{minutes}m {:02}s", seconds % 60)
    } else if days == 0 {
        format!("{hours}h {minutes:02}m")
    } else {
        format!("{days}d {hours:02}h")
    }
}

/// [`duration()`] of a number of milliseconds.
pub fn millis(milliseconds: u64) -> String {
    duration(SignedDuration::from_millis(i64::try_from(milliseconds).unwrap_or(i64::MAX)))
}

/// The time from `from` to `to`, never negative: clocks step.
pub fn since(from: jiff::Timestamp, to: jiff::Timestamp) -> SignedDuration {
    to.duration_since(from).max(SignedDuration::ZERO)
}

/// A command as one would type it, safe to show, cut to `columns`.
pub fn command(argv: &[String], columns: usize) -> String {
    cut(&clean(&shell_words::join(argv)), columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_an_agent_writes_steers_the_terminal() {
        for (text, safe) in [
            ("a\x1b[2Jb", "a\\u{1b}[2Jb"),
            ("a\r\nerror: fake", "a\\r\\nerror: fake"),
            ("a\u{9b}31m", "a\\u{9b}31m"),
            ("abc\u{202e}txt.exe", "abc\\u{202e}txt.exe"),
            ("soft\u{ad}tag\u{e0041}", "soft\\u{ad}tag\\u{e0041}"),
            ("zero\u{200b}width", "zero\\u{200b}width"),
            ("grün 語 ok", "grün 語 ok"),
        ] {
            assert_eq!(clean(text), safe);
        }
    }

    #[test]
    fn cutting_counts_columns_not_characters() {
        assert_eq!(cut("parser", 6), "parser");
        assert_eq!(cut("parsers", 6), "parse…");
        assert_eq!(cut("語語語", 4), "語…");
        assert_eq!(cut("語語", 4), "語語");
        assert_eq!(cut("abc", 0), "");
        assert_eq!(padded("語", 4), "語  ");
        for columns in 0..12 {
            assert!(width(&cut("a語b語c語d", columns)) <= columns);
        }
    }

    #[test]
    fn durations() {
        for (milliseconds, text) in [
            (0, "0s"),
            (1, "1ms"),
            (999, "999ms"),
            (1000, "1.0s"),
            (9_950, "9.9s"),
            (10_000, "10s"),
            (59_999, "59s"),
            (60_000, "1m 00s"),
            (3_599_000, "59m 59s"),
            (3_600_000, "1h 00m"),
            (90_000_000, "1d 01h"),
        ] {
            assert_eq!(millis(milliseconds), text);
        }
        let (early, late) = (jiff::Timestamp::from_second(5).unwrap(), jiff::Timestamp::from_second(9).unwrap());
        assert_eq!(since(late, early), SignedDuration::ZERO, "a clock that stepped back");
        assert_eq!(since(early, late), SignedDuration::from_secs(4));
    }

    #[test]
    fn lists() {
        assert_eq!(list(&["a", "b"], 3), "a, b");
        assert_eq!(list(&["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(list::<&str>(&[], 2), "");
        assert_eq!(lines(&(0..12).collect::<Vec<_>>(), " ").lines().last(), Some(" and 2 more"));
        assert_eq!(count(1, "file", "files"), "1 file");
        assert_eq!(count(0, "file", "files"), "0 files");
    }

    #[test]
    fn commands_can_be_pasted() {
        let argv = ["sh", "-c", "echo it's\n"].map(str::to_owned);
        assert_eq!(command(&argv, 80), "sh -c 'echo it'\\\\''s\\n'".replace("\\\\", "\\"));
        assert_eq!(command(&argv, 8), "sh -c '…");
    }
}
