//! The shell: look up, plan, execute.

use std::sync::Arc;

use flyball_api::{ConfigMap, Key, Object, Secret};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::plan::plan;
use crate::bootstrap_token::signing_token;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) infos: Arc<Informer<ConfigMap>>,
    pub(super) tokens: Arc<Informer<Secret>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(info) = self.infos.store().get(key) else { return Ok(Next::Settled) };
        let now = self.cx.clock.now();
        let mut secrets = self.tokens.store().list();
        secrets.sort_unstable_by_key(|secret| secret.key());
        let tokens = secrets.iter().filter_map(|secret| signing_token(secret, now));
        self.cx.executor(key).execute(plan(&info, tokens)).await
    }
}
