//! What a request leaves behind besides its answer: warnings for the client and annotations for the audit log. Both
//! exist also for a request that is refused.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

/// The sum of all warnings' characters above which each is shortened; upstream's number.
const MOST: usize = 4 * 1024;
/// The characters of a shortened warning; upstream's number.
const SHORT: usize = 256;

/// Warnings and audit annotations of one request.
#[derive(Debug, Default)]
pub struct Notes {
    warnings: Mutex<Vec<String>>,
    annotations: Mutex<BTreeMap<String, String>>,
}

impl Notes {
    /// Adds texts for `Warning` headers.
    pub fn warn(&self, texts: impl IntoIterator<Item = String>) {
        self.warnings.lock().extend(texts);
    }

    /// Annotates the audit record. The first value of a key stays.
    pub fn annotate(&self, key: impl Into<String>, value: impl Into<String>) {
        self.annotations.lock().entry(key.into()).or_insert_with(|| value.into());
    }

    /// The warnings as headers carry them: each once, and short if they are too long together.
    pub fn warnings(&self) -> Vec<String> {
        let all = self.warnings.lock();
        let mut seen = BTreeSet::new();
        let all: Vec<&String> = all.iter().filter(|text| !text.is_empty() && seen.insert(*text)).collect();
        if all.iter().map(|text| text.chars().count()).sum::<usize>() <= MOST {
            return all.into_iter().cloned().collect();
        }
        let mut left = MOST;
        let short = all.into_iter().map(|text| text.chars().take(SHORT).collect::<String>());
        short
            .take_while(|text| {
                let is_room = left > 0;
                left = left.saturating_sub(text.chars().count());
                is_room
            })
            .collect()
    }

    pub fn annotations(&self) -> BTreeMap<String, String> {
        self.annotations.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_given_once_and_shortened_when_long() {
        let notes = Notes::default();
        notes.warn(["a".to_owned(), String::new(), "a".to_owned(), "b".to_owned()]);
        assert_eq!(notes.warnings(), ["a", "b"]);
        notes.warn([format!("c{}", "x".repeat(5000))]);
        assert_eq!(notes.warnings().iter().map(String::len).collect::<Vec<_>>(), [1, 1, SHORT]);
    }
}
