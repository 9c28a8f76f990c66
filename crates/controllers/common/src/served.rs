//! Cached discovery: which resources the server serves.

use std::sync::Arc;
use std::time::Duration;

use flyball_client::{Client, DiscoveredResource, Discovery, Error};
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

    /// The first resource that `is_wanted`. If the cached discovery has none, it may be outdated, and discovery is repeated.
    pub async fn find(
        &self,
        is_wanted: impl Fn(&DiscoveredResource) -> bool,
    ) -> Result<Option<DiscoveredResource>, Error> {
        let found = |served: &Discovery| served.resources.iter().find(|found| is_wanted(found)).cloned();
        let (known, age) = self.known().await?;
        match (found(&known), age) {
            (None, Some(_)) => Ok(found(&*self.discover().await?)),
            (found, _) => Ok(found),
        }
    }

    /// Discovers again.
    pub async fn discover(&self) -> Result<Arc<Discovery>, Error> {
        let served = Arc::new(self.client.discover().await?);
        *self.known.lock() = Some((Instant::now(), served.clone()));
        Ok(served)
    }
}
