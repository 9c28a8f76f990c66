//! The shell: looks up, asks the server where the cache is not enough, plans, and writes.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Object, Resource, Secret, ServiceAccount, manifest};
use flyball_cache::Informer;
use flyball_client::Error;
use flyball_runtime::{Context, Next, Reconcile, SyncError, exactly};
use serde_json::Value;

use super::keys::{AccountKey, SecretKey};
use super::plan::{claims, filled, lacks, left_behind, without_reference};
use super::signer::Signer;
use crate::token_secret::{BY_ACCOUNT, Claimed};

/// How often, and how far apart, the removal of a reference is tried while others write to the account.
const REMOVALS: usize = 10;
const BETWEEN: Duration = Duration::from_millis(100);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) accounts: Arc<Informer<ServiceAccount>>,
    pub(super) secrets: Arc<Informer<Secret>>,
    pub(super) signer: Signer,
    pub(super) authority: Vec<u8>,
}

/// Deletes the tokens of an account that is gone.
impl Reconcile<AccountKey> for Controller {
    async fn sync(&self, gone: &AccountKey) -> Result<Next, SyncError> {
        let tokens = self.secrets.store().by(&BY_ACCOUNT, &gone.key.to_string());
        if tokens.is_empty() {
            return Ok(Next::Settled);
        }
        let any = Claimed { key: gone.key.clone(), uid: None };
        let living = self.live_account(&any).await?;
        if living.as_ref().is_some_and(|account| account.metadata.uid == gone.uid) {
            return Ok(Next::Settled);
        }
        for secret in left_behind(&tokens, &gone.uid, living.is_some()) {
            self.delete(&gone.key, secret).await?;
        }
        Ok(Next::Settled)
    }
}

/// Repairs a token secret, or cleans up after one.
impl Reconcile<SecretKey> for Controller {
    async fn sync(&self, token: &SecretKey) -> Result<Next, SyncError> {
        let held = self.secrets.store().get(&token.key).filter(|secret| secret.metadata.uid == token.uid);
        let cached = self.accounts.store().get(&token.account).filter(|account| token.claimed().is(account));
        match (held, cached) {
            (None, None) => {}
            (None, Some(_)) => self.remove_reference(token).await?,
            (Some(secret), Some(account)) => self.fill(&secret, &account).await?,
            (Some(secret), None) => match self.live_account(&token.claimed()).await? {
                Some(account) => self.fill(&secret, &account).await?,
                None => self.delete(&token.key, &secret).await?,
            },
        }
        Ok(Next::Settled)
    }
}

impl Controller {
    /// The account as the server has it now.
    async fn live_account(&self, claimed: &Claimed) -> Result<Option<ServiceAccount>, SyncError> {
        match self.cx.client.get::<ServiceAccount>(&claimed.key).await {
            Ok(account) => Ok(Some(account).filter(|account| claimed.is(account))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(SyncError::api(format!("reading service account {}", claimed.key))(error)),
        }
    }

    async fn delete(&self, owner: &Key, secret: &Secret) -> Result<(), SyncError> {
        let (key, options) = (secret.key(), exactly(&secret.metadata));
        let why = "its service account is gone";
        match self.cx.writer(owner).delete::<Secret>(&key, options, why).await {
            // A conflict as well: if another secret has taken the name, the cache will show it.
            Err(error) if !error.is_not_found() => {
                Err(SyncError::api(format!("deleting token secret {key}"))(error))
            }
            _ => Ok(()),
        }
    }

    /// Gives a secret what it lacks, if it still does.
    async fn fill(&self, cached: &Secret, account: &ServiceAccount) -> Result<(), SyncError> {
        if !lacks(cached, &self.authority).anything() {
            return Ok(());
        }
        let key = cached.key();
        let live = match self.cx.client.get::<Secret>(&key).await {
            Ok(live) => live,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(SyncError::api(format!("reading token secret {key}"))(error)),
        };
        // If the cache is behind, its next change brings the secret back.
        let lacking = lacks(&live, &self.authority);
        if live.metadata.resource_version != cached.metadata.resource_version || !lacking.anything() {
            return Ok(());
        }
        let signed = lacking.token.then(|| self.signer.sign(&claims(&live, account))).transpose();
        let token = signed.map_err(|error| SyncError::other(format!("signing a token for {key}"), error))?;
        let whole = filled(&live, account, lacking, &self.authority, token.as_deref());
        let body = manifest(&whole)
            .map_err(|error| SyncError::other(format!("writing token secret {key}"), error))?;
        let why = "it must hold a token, the namespace and the cluster's CA";
        match self.cx.writer(&key).update::<Secret>(&key, None, &body, why).await {
            Err(error) if error.is_not_found() => Ok(()),
            written => written.map(drop).map_err(SyncError::api(format!("updating token secret {key}"))),
        }
    }

    /// Takes the reference to a secret that is gone out of its account, against others who write to it.
    async fn remove_reference(&self, token: &SecretKey) -> Result<(), SyncError> {
        let doing =
            || format!("removing the reference to {} from service account {}", token.key, token.account);
        let mut tries = 0;
        loop {
            tries += 1;
            match self.try_remove_reference(token).await {
                Err(error) if error.is_conflict() && tries < REMOVALS => tokio::time::sleep(BETWEEN).await,
                Err(error) if !error.is_not_found() => return Err(SyncError::api(doing())(error)),
                _ => return Ok(()),
            }
        }
    }

    async fn try_remove_reference(&self, token: &SecretKey) -> Result<(), Error> {
        // As served, so that nothing is lost of what we do not know.
        let live: Value = self.cx.client.get_dynamic(&ServiceAccount::TYPE, &token.account).await?;
        let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
        let is_it = token.account_uid.as_ref().is_none_or(|wanted| wanted.with_str(|wanted| wanted == uid));
        let Some(body) = without_reference(&live, &token.key.name).filter(|_| is_it) else { return Ok(()) };
        let writer = self.cx.writer(&token.key).unawaited();
        let why = "the token secret is gone";
        writer.update::<ServiceAccount>(&token.account, None, &body, why).await.map(drop)
    }
}
