//! What a run of the suite has found.

use std::fmt;

/// The checks by name, in the order in which they ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    lines: Vec<(&'static str, Line)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    Passed,
    Skipped(&'static str),
    Failed(String),
}

impl Report {
    /// Whether no check failed. Some may have been skipped.
    pub fn is_passed(&self) -> bool {
        self.failed().next().is_none()
    }

    pub fn passed(&self) -> impl Iterator<Item = &'static str> {
        self.lines.iter().filter(|(_, line)| *line == Line::Passed).map(|(check, _)| *check)
    }

    /// Checks that could not run, and what they lack.
    pub fn skipped(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.lines.iter().filter_map(|(check, line)| match line {
            Line::Skipped(why) => Some((*check, *why)),
            _ => None,
        })
    }

    pub fn failed(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.lines.iter().filter_map(|(check, line)| match line {
            Line::Failed(why) => Some((*check, why.as_str())),
            _ => None,
        })
    }

    pub(super) fn skip(&mut self, check: &'static str, why: &'static str) {
        self.lines.push((check, Line::Skipped(why)));
    }

    pub(super) fn add(&mut self, check: &'static str, result: Result<(), String>) {
        self.lines.push((check, result.map_or_else(Line::Failed, |()| Line::Passed)));
    }
}

/// One line for each check.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (check, line) in &self.lines {
            match line {
                Line::Passed => writeln!(f, "passed   {check}")?,
                Line::Skipped(why) => writeln!(f, "SKIPPED  {check}: {why}")?,
                Line::Failed(why) => writeln!(f, "FAILED   {check}: {why}")?,
            }
        }
        Ok(())
    }
}
