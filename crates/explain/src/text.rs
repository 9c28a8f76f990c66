//! An explanation as text for a terminal.

use crate::finding::{Explanation, Weight};

/// How the text is coloured.
fn paint(colour: bool, code: &str, text: &str) -> String {
    if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// The blocker first, then what is known, then the history.
pub fn text(explanation: &Explanation, colour: bool) -> String {
    let asked = &explanation.object;
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let code = if explanation.healthy { "1;32" } else { "1;31" };
    line(format!("{}: {}", paint(colour, "1", &asked.to_string()), paint(colour, code, &explanation.state)));
    match explanation.blocker() {
        Some(finding) => {
            let word = if finding.weight == Weight::Blocks {
                paint(colour, "1;31", "Blocked")
            } else {
                paint(colour, "1;33", "Waiting")
            };
            line(format!("{word}: {}", finding.text_for(asked)));
            if let Some(advice) = &finding.advice {
                line(format!("Try: {advice}"));
            }
        }
        None if explanation.findings.is_empty() && explanation.healthy => {
            line("Nothing keeps it from being as it should be.".to_owned())
        }
        None if explanation.findings.is_empty() => {
            line("No rule knows what keeps it so; the history below may.".to_owned())
        }
        None => {}
    }
    let rest = explanation.findings.iter().skip(usize::from(explanation.blocker().is_some()));
    for finding in rest {
        let word = match finding.weight {
            Weight::Blocks => "Also blocked",
            Weight::Waits => "Also waiting",
            Weight::Notes => "Note",
        };
        line(format!("{word}: {}", finding.text_for(asked)));
    }
    if explanation.tree.len() > 1 {
        line(String::new());
        line(paint(colour, "1", "What belongs to it:"));
        for level in &explanation.tree {
            let indent = "  ".repeat(level.depth + 1);
            if level.object.kind.is_empty() {
                line(format!("{indent}{}", level.object.name));
                continue;
            }
            let mark = if level.healthy { paint(colour, "32", "+") } else { paint(colour, "31", "-") };
            let name = if level.object.namespace == asked.namespace {
                level.object.short()
            } else {
                level.object.to_string()
            };
            let problem = level.problem.as_ref().map(|problem| format!("; {problem}")).unwrap_or_default();
            line(format!("{indent}{mark} {name}: {}{problem}", level.state));
        }
    }
    if !explanation.waiting.is_empty() {
        line(String::new());
        line(paint(colour, "1", "What controllers wait for:"));
        for wait in &explanation.waiting {
            line(format!("  {wait}"));
        }
    }
    if !explanation.history.is_empty() {
        line(String::new());
        line(paint(colour, "1", "What happened:"));
        for entry in &explanation.history {
            let object = if entry.object.name == asked.name && entry.object.kind == asked.kind {
                String::new()
            } else {
                format!("{}: ", entry.object.short())
            };
            line(format!(
                "  {}  {}  {object}{}",
                paint(colour, "2", entry.time.get(..19).unwrap_or(&entry.time)),
                paint(colour, "36", &entry.who),
                entry.what
            ));
        }
    }
    if !explanation.unknown.is_empty() {
        line(String::new());
        line(paint(colour, "1", "What is not known:"));
        for unknown in &explanation.unknown {
            line(format!("  {unknown}"));
        }
    }
    out
}
