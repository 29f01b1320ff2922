//! How text is to look: how wide, and whether in colour.

/// What the place where text goes can show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// How many columns there are; `None` where lines may be as long as they like (a file, a pipe).
    pub width: Option<usize>,
    /// Whether colour is wanted.
    pub color: bool,
}

impl Look {
    /// Text for a pipe or a file: no colour, no bound on a line.
    pub const PLAIN: Self = Self { width: None, color: false };

    /// Text for a terminal of this width, without colour.
    pub fn columns(width: usize) -> Self {
        Self { width: Some(width), color: false }
    }
}

/// What a piece of text means, for those who see colours. The text alone always says it too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing in particular.
    #[default]
    Plain,
    /// Went well.
    Good,
    /// Needs somebody.
    Warn,
    /// Went wrong.
    Bad,
    /// Of less interest.
    Dim,
    /// A heading.
    Strong,
}

impl Tone {
    /// `text` in this tone, if the look has colour. The text must hold no escape sequences of its own.
    pub fn paint(self, text: &str, look: Look) -> String {
        let code = match self {
            Self::Plain => return text.to_owned(),
            Self::Good => "32",
            Self::Warn => "33",
            Self::Bad => "31",
            Self::Dim => "2",
            Self::Strong => "1",
        };
        if look.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_only_where_wanted() {
        let color = Look { width: None, color: true };
        assert_eq!(Tone::Bad.paint("x", color), "\x1b[31mx\x1b[0m");
        assert_eq!(Tone::Bad.paint("x", Look::PLAIN), "x");
        assert_eq!(Tone::Plain.paint("x", color), "x");
    }
}
