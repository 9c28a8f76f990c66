//! Formats differences: where, what was recorded, what was observed.

use std::fmt::Write as _;

use serde_json::Value;

use super::compare::Difference;
use super::text::pretty;

const PLAIN_LINES: usize = 12;
const DIFF_LINES: usize = 60;
/// Above this many lines two values are not aligned: all old lines come before all new ones.
const ALIGN_AT_MOST: usize = 2000;
const CONTEXT: usize = 2;

/// The differences as text, grouped by snapshot; `-` is recorded, `+` is observed.
pub fn explain(differences: &[Difference]) -> String {
    let mut out = String::new();
    let mut last = None;
    for difference in differences {
        let (snapshot, path) = match difference.path.split_first() {
            Some((snapshot, path)) => (snapshot.as_str(), path),
            None => ("", &[][..]),
        };
        if last != Some(snapshot) {
            let _ = writeln!(out, "  at snapshot '{snapshot}':");
            last = Some(snapshot);
        }
        let _ = writeln!(out, "    {}", path.join(" / "));
        for line in lines(difference.want.as_ref(), difference.got.as_ref()) {
            let _ = writeln!(out, "      {line}");
        }
    }
    out
}

fn lines(want: Option<&Value>, got: Option<&Value>) -> Vec<String> {
    let (old, new) = (show(want), show(got));
    let compound = |value: Option<&Value>| value.is_some_and(|v| v.is_object() || v.is_array());
    if compound(want) && compound(got) {
        let mut lines = unified(&old, &new);
        lines.truncate(DIFF_LINES);
        return lines;
    }
    let removed = old.iter().take(PLAIN_LINES).map(|line| format!("- {line}"));
    removed.chain(new.iter().take(PLAIN_LINES).map(|line| format!("+ {line}"))).collect()
}

fn show(value: Option<&Value>) -> Vec<String> {
    value.map_or(vec!["(absent)".to_owned()], |value| pretty(value).lines().map(str::to_owned).collect())
}

#[derive(Clone, Copy, PartialEq)]
enum Edit {
    Keep,
    Remove,
    Add,
}

/// A line diff with a little context around every change.
fn unified(old: &[String], new: &[String]) -> Vec<String> {
    let edits = align(old, new);
    let near = |at: usize| {
        let window = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(edits.len());
        edits[window].iter().any(|(edit, _)| *edit != Edit::Keep)
    };
    let mut out = Vec::new();
    let mut skipped = false;
    for (at, (edit, line)) in edits.iter().enumerate() {
        if !near(at) {
            skipped = true;
            continue;
        }
        if std::mem::take(&mut skipped) {
            out.push("…".to_owned());
        }
        let mark = match edit {
            Edit::Keep => ' ',
            Edit::Remove => '-',
            Edit::Add => '+',
        };
        out.push(format!("{mark} {line}"));
    }
    out
}

/// The longest common subsequence, as a list of edits.
fn align<'a>(old: &'a [String], new: &'a [String]) -> Vec<(Edit, &'a str)> {
    if old.len() > ALIGN_AT_MOST || new.len() > ALIGN_AT_MOST {
        let removed = old.iter().map(|line| (Edit::Remove, line.as_str()));
        return removed.chain(new.iter().map(|line| (Edit::Add, line.as_str()))).collect();
    }
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let mut out = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            out.push((Edit::Keep, old[i].as_str()));
            i += 1;
            j += 1;
        } else if j == new.len() || i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]
        {
            out.push((Edit::Remove, old[i].as_str()));
            i += 1;
        } else {
            out.push((Edit::Add, new[j].as_str()));
            j += 1;
        }
    }
    out
}
