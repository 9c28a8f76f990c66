//! The shell: gather the tokens, sign, write.

use std::sync::Arc;

use flyball_api::{ConfigMap, Key, Object, Secret, manifest};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::plan::resigned;
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
        let Some(signed) = resigned(&info, tokens) else { return Ok(Next::Settled) };
        let doing = || format!("signing ConfigMap {key}");
        let body = manifest(&signed).map_err(|error| SyncError::other(doing(), error))?;
        let why = "it must be signed by every bootstrap token that may, and by no other";
        match self.cx.writer(key).update::<ConfigMap>(key, None, &body, why).await {
            Err(error) if error.is_not_found() => Ok(Next::Settled),
            written => written.map(|_| Next::Settled).map_err(|error| SyncError::api(doing())(error)),
        }
    }
}
