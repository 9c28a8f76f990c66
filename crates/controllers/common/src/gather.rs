//! Many requests on behalf of one object, a bounded number of them under way at a time: each holds its body, its
//! stream and its place in line, and a server that is asked thousands of things at once only makes them wait.

use futures::stream::{self, Buffered, Collect, StreamExt};

/// How many requests one key has under way. An API server works on 200 writes at once, for everybody together.
pub(crate) const AT_ONCE: usize = 50;

/// What [`gather`] returns.
pub type Gathering<F> = Collect<Buffered<stream::Iter<std::vec::IntoIter<F>>>, Vec<<F as Future>::Output>>;

/// Awaits all of `calls` and returns what came of them, in their order.
pub fn gather<F: Future>(calls: impl IntoIterator<Item = F>) -> Gathering<F> {
    let calls: Vec<F> = calls.into_iter().collect();
    stream::iter(calls).buffered(AT_ONCE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test]
    async fn all_are_called_few_at_a_time_and_answers_keep_their_order() {
        let (running, most) = (Cell::new(0), Cell::new(0));
        let call = |n: usize| {
            let (running, most) = (&running, &most);
            async move {
                running.set(running.get() + 1);
                most.set(running.get().max(most.get()));
                for _ in 0..n % 3 {
                    tokio::task::yield_now().await;
                }
                running.set(running.get() - 1);
                n
            }
        };
        let answers = gather((0..3 * AT_ONCE).map(call)).await;
        assert_eq!(answers, (0..3 * AT_ONCE).collect::<Vec<_>>());
        assert!(most.get() > 1 && most.get() <= AT_ONCE, "{}", most.get());
    }
}
