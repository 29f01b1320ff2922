//! Findings as text for people: one line that an editor can jump to, and the line of the plan it is about.

use std::fmt::Write;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::finding::{Finding, Findings, Severity};

impl Findings {
    /// All findings as text. Without `color` it is plain ASCII but for what the plan itself holds.
    pub fn render(&self, color: bool) -> String {
        render(&self.label, &self.text, &self.findings, color)
    }
}

/// Findings about `text`, which is called `label`, as text for people.
pub fn render(label: &str, text: &str, findings: &[Finding], color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() }.decor_style(DecorStyle::Ascii);
    let mut out = String::new();
    for finding in findings {
        headline(&mut out, label, finding, color);
        if let Some(span) = &finding.span {
            out.push_str(&snippet(text, span.clone(), finding, &renderer));
            out.push('\n');
        } else if let Some(help) = &finding.help {
            out.push_str("  = help: ");
            out.push_str(help);
            out.push('\n');
        }
    }
    out
}

fn headline(out: &mut String, label: &str, finding: &Finding, color: bool) {
    out.push_str(label);
    if let (Some(line), Some(column)) = (finding.line, finding.column) {
        // Writing to a `String` cannot fail.
        let _ = write!(out, ":{line}:{column}");
    }
    let (on, off) = match (color, finding.severity) {
        (false, _) => ("", ""),
        (true, Severity::Error) => ("\x1b[1;31m", "\x1b[0m"),
        (true, Severity::Warning) => ("\x1b[1;33m", "\x1b[0m"),
    };
    let _ = writeln!(out, ": {on}{}{off}: {}", finding.severity, finding.message);
}

fn snippet(text: &str, span: std::ops::Range<usize>, finding: &Finding, renderer: &Renderer) -> String {
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    // Of a span over several lines the first is enough to find it.
    let first_line = text.get(span.clone()).and_then(|part| part.find('\n'));
    let end = first_line.map_or(span.end, |length| span.start + length);
    let mut group = Group::with_level(level)
        .element(Snippet::source(text).annotation(AnnotationKind::Primary.span(span.start..end.max(span.start))));
    if let Some(help) = &finding.help {
        group = group.element(Level::HELP.message(help));
    }
    renderer.render(&[group])
}
