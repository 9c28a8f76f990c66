//! The shell: look up, plan, execute. It reads the server where the cache is not enough: before it deletes the tokens of an
//! account, and before it fills a secret.

use std::sync::Arc;

use flyball_api::{Key, Resource, Secret, ServiceAccount};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::contents::lacks;
use super::keys::{AccountKey, SecretKey};
use super::plan::{View, plan, plan_deleted};
use super::signer::Signer;
use crate::token_secret::BY_ACCOUNT;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) accounts: Arc<Informer<ServiceAccount>>,
    pub(super) secrets: Arc<Informer<Secret>>,
    pub(super) signer: Signer,
    pub(super) authority: Vec<u8>,
}

/// Deletes the tokens of a deleted account.
impl Reconcile<AccountKey> for Controller {
    async fn sync(&self, deleted: &AccountKey) -> Result<Next, SyncError> {
        let tokens = self.secrets.store().by(&BY_ACCOUNT, &deleted.key.to_string());
        if tokens.is_empty() {
            return Ok(Next::Settled);
        }
        let current = self.live::<ServiceAccount>(&deleted.key).await?;
        self.cx.executor(&deleted.key).execute(plan_deleted(deleted, current.as_ref(), &tokens)).await
    }
}

/// Fills or deletes a token secret, or removes the reference to one that does not exist.
impl Reconcile<SecretKey> for Controller {
    async fn sync(&self, token: &SecretKey) -> Result<Next, SyncError> {
        let named = token.account_ref();
        let cached = self.secrets.store().get(&token.key).filter(|secret| secret.metadata.uid == token.uid);
        let mut account = self.accounts.store().get(&token.account).filter(|account| named.matches(account));
        if cached.is_some() && account.is_none() {
            let live = self.live::<ServiceAccount>(&token.account).await?;
            account = live.filter(|account| named.matches(account)).map(Arc::new);
        }
        let lacks = cached.as_ref().is_some_and(|secret| lacks(secret, &self.authority).anything());
        let live = match lacks && account.is_some() {
            true => self.live::<Secret>(&token.key).await?,
            false => None,
        };
        let plan = plan(&View {
            token,
            cached: cached.as_deref(),
            live: live.as_ref(),
            account: account.as_deref(),
            authority: &self.authority,
            signer: &self.signer,
        });
        self.cx.executor(&token.key).execute(plan).await
    }
}

impl Controller {
    /// An object as the server has it; `None` if there is none.
    async fn live<T: Resource>(&self, key: &Key) -> Result<Option<T>, SyncError> {
        match self.cx.client.get::<T>(key).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(SyncError::api(format!("reading {} {key}", T::TYPE.kind))(error)),
        }
    }
}
