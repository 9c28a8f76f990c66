//! The decisions of a replay. Two replays of the same recording have the same, to the letter; how long requests took is left out.

use flyball_runtime::decisions::{Decision, Outcome};
use ring::digest::{Context, SHA256};

/// All decisions, in order.
#[derive(Debug, Clone, Default)]
pub struct History(pub Vec<Decision>);

impl History {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Equal for equal histories.
    pub fn digest(&self) -> String {
        let mut context = Context::new(&SHA256);
        for decision in &self.0 {
            context.update(line(decision).as_bytes());
            context.update(b"\n");
        }
        context.finish().as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The first decision in which two histories differ, as text, if any.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let longer = self.len().max(other.len());
        let show = |history: &Self, n: usize| history.0.get(n).map(line);
        let n = (0..longer).find(|n| show(self, *n) != show(other, *n))?;
        let text = |history: &Self| show(history, n).unwrap_or_else(|| "no decision".to_owned());
        Some(format!("decision {} of {longer}: {}; and then: {}", n + 1, text(self), text(other)))
    }

    /// How many decisions each controller made, most first.
    pub fn by_controller(&self) -> Vec<(&'static str, usize)> {
        let mut counts = std::collections::BTreeMap::<&'static str, usize>::new();
        self.0.iter().for_each(|decision| *counts.entry(decision.controller).or_default() += 1);
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    }
}

/// One decision, without what depends on the machine.
pub fn line(decision: &Decision) -> String {
    let Decision { time, controller, owner, action, target, subresource, why, outcome, .. } = decision;
    let on = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
    format!("{time} {controller} {owner}: {action} {target}{on}: {why}{}", failed(outcome))
}

/// What the outcome adds to a line.
pub(crate) fn failed(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => String::new(),
        Outcome::Refused(detail) => format!(" (refused: {detail})"),
        Outcome::Unknown(detail) => format!(" (unknown: {detail})"),
        Outcome::NotSent(detail) => format!(" (not sent: {detail})"),
    }
}
