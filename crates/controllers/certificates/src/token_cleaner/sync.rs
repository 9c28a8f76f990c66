//! The shell: delete what is over, wait for what will be.

use std::sync::Arc;

use flyball_api::{Key, Secret};
use flyball_cache::Informer;
use flyball_client::DeleteOptions;
use flyball_runtime::{Context, Next, Reconcile, SyncError, exactly};

use crate::bootstrap_token::{Expiry, is_token};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) tokens: Arc<Informer<Secret>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(secret) = self.tokens.store().get(key).filter(|secret| is_token(secret)) else {
            return Ok(Next::Settled);
        };
        let expiry = Expiry::of(&secret);
        if !expiry.is_past(self.cx.clock.now()) {
            return Ok(match expiry {
                Expiry::At(moment) => Next::After(self.cx.clock.until(moment)),
                Expiry::Never | Expiry::Unreadable => Next::Settled,
            });
        }
        // Only as it was judged: its time may have been moved, which the cache does not show yet.
        let version = Some(secret.metadata.resource_version);
        let options = DeleteOptions { resource_version: version, ..exactly(&secret.metadata) };
        let why = "the bootstrap token has expired";
        match self.cx.writer(key).delete::<Secret>(key, options, why).await {
            Err(error) if !error.is_not_found() => {
                Err(SyncError::api(format!("deleting bootstrap token {key}"))(error))
            }
            _ => Ok(Next::Settled),
        }
    }
}
