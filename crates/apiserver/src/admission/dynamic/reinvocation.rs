//! Which policies or webhooks see an object a second time, because another one has changed it after they did.

use std::collections::BTreeSet;

use serde_json::Value;

/// What one plugin remembers between its two rounds.
#[derive(Debug, Default)]
pub(super) struct Memory {
    is_second: bool,
    /// The object as the plugin left it.
    output: Option<Value>,
    /// Those that were called, and are to be called again if something changes.
    called: BTreeSet<String>,
    /// Those that are called in the second round.
    again: BTreeSet<String>,
}

impl Memory {
    /// The second round begins.
    pub(super) fn again(&mut self) {
        self.is_second = true;
    }

    pub(super) fn round(&self) -> usize {
        usize::from(self.is_second)
    }

    /// The plugin begins with this object, which built-in plugins may have changed since the first round.
    pub(super) fn begins(&mut self, object: Option<&Value>) {
        if self.is_second && self.output.as_ref() != object {
            self.changed();
        }
    }

    pub(super) fn ends(&mut self, object: Option<&Value>) {
        self.output = object.cloned();
    }

    /// Whether one takes part in this round.
    pub(super) fn calls(&self, id: &str) -> bool {
        !self.is_second || self.again.contains(id)
    }

    /// One has been called that wants to see later changes.
    pub(super) fn called(&mut self, id: &str) {
        self.called.insert(id.to_owned());
    }

    /// The object was changed: those called before are to see it again.
    pub(super) fn changed(&mut self) {
        let called = std::mem::take(&mut self.called);
        self.again.extend(called);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn those_called_before_a_change_are_called_again() {
        let mut memory = Memory::default();
        memory.begins(Some(&json!(1)));
        memory.called("a");
        memory.changed();
        memory.called("b");
        memory.ends(Some(&json!(2)));
        memory.again();
        memory.begins(Some(&json!(2)));
        assert_eq!((memory.calls("a"), memory.calls("b"), memory.calls("c")), (true, false, false));
    }

    #[test]
    fn what_plugins_change_between_rounds_counts() {
        let mut memory = Memory::default();
        memory.called("a");
        memory.ends(Some(&json!(1)));
        memory.again();
        memory.begins(Some(&json!(2)));
        assert!(memory.calls("a"));
    }
}
