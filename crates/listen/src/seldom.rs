//! Log lines that anyone can cause: at most one a second, with the number of lines that were suppressed.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub struct Seldom {
    state: Mutex<(Option<Instant>, u64)>,
}

impl Seldom {
    /// Calls `say` with the number of lines suppressed before this one, or suppresses this one.
    pub fn say(&self, say: impl FnOnce(u64)) {
        let mut state = self.state.lock();
        let (said, unsaid) = *state;
        if said.is_some_and(|said| said.elapsed() < PAUSE) {
            state.1 += 1;
            return;
        }
        *state = (Some(Instant::now()), 0);
        drop(state);
        say(unsaid);
    }
}

/// The same for each of a few subjects.
#[derive(Debug, Default)]
pub struct SeldomEach {
    subjects: Mutex<BTreeMap<String, Seldom>>,
}

impl SeldomEach {
    pub fn say(&self, subject: &str, say: impl FnOnce(u64)) {
        let mut subjects = self.subjects.lock();
        if !subjects.contains_key(subject) {
            subjects.insert(subject.to_owned(), Seldom::default());
        }
        if let Some(seldom) = subjects.get(subject) {
            seldom.say(say);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_a_second_has_the_number_of_suppressed_ones() {
        let (seldom, mut said) = (Seldom::default(), vec![]);
        for _ in 0..25 {
            seldom.say(|unsaid| said.push(unsaid));
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        assert_eq!(said, [0, 9, 9]);
    }
}
