//! The shell: gather the tokens, sign, execute.

use std::sync::Arc;

use flyball_api::{ConfigMap, Key, Object, Secret};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Plan, Reconcile, Refusals, SyncError, Write};

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
        let why = "it must be signed by every bootstrap token that may, and by no other";
        let write = |signed| Write::replace::<ConfigMap>(&signed).why(why).accept(Refusals::GONE);
        self.cx.executor(key).execute::<()>(Plan::of(resigned(&info, tokens).map(write))).await
    }
}
