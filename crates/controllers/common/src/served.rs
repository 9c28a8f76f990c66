//! What the server serves: asked for when it is first needed, and remembered.

use std::sync::Arc;
use std::time::Duration;

use flyball_client::{Client, Discovery, Error};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Asks the server what it serves, and remembers the answer.
pub struct Served {
    client: Client,
    known: Mutex<Option<(Instant, Arc<Discovery>)>>,
}

impl Served {
    pub fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// What the server serves, and how old that knowledge is if it is not new.
    pub async fn known(&self) -> Result<(Arc<Discovery>, Option<Duration>), Error> {
        let known = self.known.lock().clone();
        match known {
            Some((when, served)) => Ok((served, Some(when.elapsed()))),
            None => Ok((self.discover().await?, None)),
        }
    }

    /// What the server serves now.
    pub async fn discover(&self) -> Result<Arc<Discovery>, Error> {
        let served = Arc::new(self.client.discover().await?);
        *self.known.lock() = Some((Instant::now(), served.clone()));
        Ok(served)
    }
}
