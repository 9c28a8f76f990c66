//! When all objects are delivered to the subscribers again.

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep_until};

pub(super) struct Resync {
    pub(super) period: Duration,
    due: Instant,
}

impl Resync {
    /// Due after one to two periods, so that not all resources resync at once.
    pub(super) fn begin(period: Duration, rng: &mut StdRng) -> Self {
        Self { period, due: Instant::now() + period.mul_f64(1.0 + rng.random::<f64>()) }
    }

    pub(super) async fn due(resync: Option<&Self>) {
        match resync {
            Some(resync) => sleep_until(resync.due).await,
            None => std::future::pending().await,
        }
    }
}
