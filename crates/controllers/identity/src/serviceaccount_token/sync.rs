//! The shell: look up, plan, execute. It reads the server where the cache is not enough: before it deletes the tokens of an
//! account, and before it fills a secret.

use std::sync::Arc;

use flyball_api::{Secret, ServiceAccount};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::invariants;
use super::keys::{AccountKey, SecretKey};
use super::plan::{Need, View, need, plan, plan_deleted};
use super::signer::Signer;
use crate::token_secret::BY_ACCOUNT;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) accounts: Arc<Informer<ServiceAccount>>,
    pub(super) secrets: Arc<Informer<Secret>>,
    pub(super) signer: Signer,
    pub(super) authority: Arc<str>,
}

/// Deletes the tokens of a deleted account.
impl Reconcile<AccountKey> for Controller {
    async fn sync(&self, deleted: &AccountKey) -> Result<Next, SyncError> {
        let tokens = self.secrets.store().by(&BY_ACCOUNT, &deleted.key.to_string());
        if tokens.is_empty() {
            return Ok(Next::Settled);
        }
        let current = self.cx.find::<ServiceAccount>(&deleted.key).await?;
        let plan = plan_deleted(deleted, current.as_ref(), &tokens);
        self.cx.judge(|| invariants::check_deleted(deleted, current.as_ref(), &tokens, &plan));
        self.cx.executor(&deleted.key).execute(plan).await
    }
}

/// Fills or deletes a token secret, or removes the reference to one that does not exist.
impl Reconcile<SecretKey> for Controller {
    async fn sync(&self, token: &SecretKey) -> Result<Next, SyncError> {
        let named = token.account_ref();
        let mut view = View {
            token,
            cached: self.secrets.store().get(&token.key).filter(|secret| secret.metadata.uid == token.uid),
            live: None,
            cached_account: self
                .accounts
                .store()
                .get(&token.account)
                .filter(|account| named.matches(account)),
            live_account: None,
            authority: self.authority.as_bytes(),
            signer: &self.signer,
        };
        while let Some(need) = need(&view) {
            match need {
                Need::Account => {
                    view.live_account = Some(self.cx.find::<ServiceAccount>(&token.account).await?)
                }
                Need::Secret => view.live = Some(self.cx.find::<Secret>(&token.key).await?),
            }
        }
        let plan = plan(&view);
        self.cx.judge(|| invariants::check(&view, &plan));
        self.cx.executor(&token.key).execute(plan).await
    }
}
