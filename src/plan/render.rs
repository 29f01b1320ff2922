//! Findings as text for people: one line that an editor can jump to, and the line of the plan it is about.

use std::fmt::Write;
use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::finding::{Finding, Findings, Severity, clean, line_of};

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
    out.push_str(&clean(label));
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

/// The line a finding begins on. Only that line is handed over, so the size of the plan does not matter.
fn snippet(text: &str, span: Range<usize>, finding: &Finding, renderer: &Renderer) -> String {
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let line = line_of(text, span.start);
    let (start, end) = (span.start.clamp(line.start, line.end), span.end.clamp(line.start, line.end));
    let marked = start - line.start..end.max(start) - line.start;
    let line = Snippet::source(&text[line])
        .line_start(finding.line.unwrap_or(1))
        .annotation(AnnotationKind::Primary.span(marked));
    let mut group = Group::with_level(level).element(line);
    if let Some(help) = &finding.help {
        group = group.element(Level::HELP.message(help));
    }
    renderer.render(&[group])
}
