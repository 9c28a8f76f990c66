//! Mass creation in growing batches: one, two, four … The first failure ends it, so that a quota that is used
//! up costs a few requests and not thousands.

use futures::stream::{self, StreamExt};

use crate::gather::AT_ONCE;

/// What came of a slow start.
#[derive(Debug)]
pub struct Progress<E> {
    pub done: usize,
    /// The first failure, after which no further batch was begun.
    pub failure: Option<E>,
}

/// Calls `make` up to `count` times, in batches that double while all of a batch succeed.
pub async fn slow_start<E, F: Future<Output = Result<(), E>>>(
    count: usize,
    mut make: impl FnMut(usize) -> F,
) -> Progress<E> {
    let mut progress = Progress { done: 0, failure: None };
    let (mut next, mut batch) = (0, 1);
    while next < count && progress.failure.is_none() {
        let end = count.min(next + batch);
        let mut outcomes = stream::iter(next..end).map(&mut make).buffered(AT_ONCE);
        while let Some(outcome) = outcomes.next().await {
            match outcome {
                Ok(()) => progress.done += 1,
                Err(error) => progress.failure = progress.failure.or(Some(error)),
            }
        }
        (next, batch) = (end, batch * 2);
    }
    progress
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;

    #[test]
    fn a_failure_ends_it_with_its_batch() {
        #[rustfmt::skip]
        let table = [
            // count, call that fails, calls made, succeeded
            ( 0, None,     0,  0),
            ( 1, None,     1,  1),
            (10, None,    10, 10),
            (10, Some(0),  1,  0),
            (10, Some(1),  3,  2),
            (10, Some(4),  7,  6),
            (10, Some(9), 10,  9),
        ];
        for (count, failing, calls, done) in table {
            let mut made = 0;
            let progress = block_on(slow_start(count, |n| {
                made += 1;
                async move { if Some(n) == failing { Err("refused") } else { Ok(()) } }
            }));
            assert_eq!((made, progress.done), (calls, done), "{count} with {failing:?} failing");
            assert_eq!(progress.failure.is_some(), failing.is_some());
        }
    }
}
