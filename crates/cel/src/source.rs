//! The text of an expression, and reports of problems with line, column and a mark below the character.

use std::fmt::Write as _;

#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) characters: Vec<char>,
    lines: Vec<usize>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let after_breaks = characters.iter().enumerate().filter(|(_, c)| **c == '\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(after_breaks).collect();
        Self { characters, lines }
    }

    pub(crate) fn text(&self, from: usize, to: usize) -> String {
        self.characters.get(from..to.min(self.characters.len())).unwrap_or_default().iter().collect()
    }

    /// Whether handling it cannot overflow the caller's stack: it is short, and opens little, closed or not.
    pub(crate) fn is_shallow(&self) -> bool {
        const SHORT: usize = 120;
        const FEW: usize = 40;
        let opening = self.characters.iter().filter(|c| matches!(c, '(' | '[' | '{' | '?'));
        self.characters.len() <= SHORT && opening.count() <= FEW
    }

    /// Line and column, both counted from 0.
    fn place(&self, at: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= at).saturating_sub(1);
        (line, at - self.lines.get(line).copied().unwrap_or_default())
    }

    fn line(&self, number: usize) -> String {
        let start = self.lines.get(number).copied().unwrap_or_default();
        let end = self.lines.get(number + 1).map_or(self.characters.len(), |next| next - 1);
        self.text(start, end)
    }
}

/// A problem in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The position of a character; `None` if it is about the whole expression.
    pub(crate) at: Option<usize>,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at: Some(at), message: message.into() }
    }

    pub(crate) fn whole(message: impl Into<String>) -> Self {
        Self { at: None, message: message.into() }
    }
}

/// The limit on problems in a report; further ones are only counted.
const SHOWN: usize = 100;

/// A longer line is not quoted.
const LONGEST_LINE: usize = 16_384;

/// The report of all problems, in the order of their positions.
pub(crate) fn render(source: &Source, mut problems: Vec<Problem>) -> String {
    let more = problems.len().saturating_sub(SHOWN);
    problems.truncate(SHOWN);
    problems.sort_by_key(|problem| problem.at);
    let mut shown: Vec<String> = problems.iter().map(|problem| show(source, problem)).collect();
    if more > 0 {
        shown.push(format!("{more} more errors were truncated"));
    }
    shown.join("\n")
}

fn show(source: &Source, problem: &Problem) -> String {
    let Some(at) = problem.at else { return format!("ERROR: <input>:-1:0: {}", problem.message) };
    let (line, column) = source.place(at);
    let mut shown = format!("ERROR: <input>:{}:{}: {}", line + 1, column + 1, problem.message);
    let text = source.line(line).replace('\t', " ");
    if text.len() > LONGEST_LINE {
        return shown;
    }
    // As cel-go: wide marks below characters of more than one byte, which are often wide.
    let is_wide = |c: char| c.len_utf8() > 1;
    let mut marks: String =
        text.chars().take(column).map(|c| if is_wide(c) { '\u{ff0e}' } else { '.' }).collect();
    marks.push(if text.chars().nth(column).is_some_and(is_wide) { '\u{ff3e}' } else { '^' });
    let _ = write!(shown, "\n | {text}\n | {marks}");
    shown
}
