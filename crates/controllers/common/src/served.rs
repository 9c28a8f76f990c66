//! Cached discovery: which resources the server serves.

use std::sync::Arc;
use std::time::Duration;

use flyball_client::{Client, Discovery, Error};
use parking_lot::Mutex;
use tokio::time::Instant;

pub struct Served {
    client: Client,
    known: Mutex<Option<(Instant, Arc<Discovery>)>>,
}

impl Served {
    pub fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// The cached discovery with its age, or a new one.
    pub async fn known(&self) -> Result<(Arc<Discovery>, Option<Duration>), Error> {
        let known = self.known.lock().clone();
        match known {
            Some((when, served)) => Ok((served, Some(when.elapsed()))),
            None => Ok((self.discover().await?, None)),
        }
    }

    /// Discovers again.
    pub async fn discover(&self) -> Result<Arc<Discovery>, Error> {
        let served = Arc::new(self.client.discover().await?);
        *self.known.lock() = Some((Instant::now(), served.clone()));
        Ok(served)
    }
}
