//! The shell: once a day, look at all token secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{ConfigMap, Key, Object, Secret, ServiceAccount, Timestamp};
use flyball_cache::Informer;
use flyball_client::{DeleteOptions, Error, Patch};
use flyball_runtime::{Chain, Context, SyncError};
use smol_str::SmolStr;

use super::plan::{Action, Days, invalidation, parse_date, plan};
use crate::token_secret::{Claimed, is_token};

const PERIOD: Duration = Duration::from_secs(24 * 60 * 60);
/// How long after a look that failed the next one comes.
const AGAIN: Duration = Duration::from_secs(5 * 60);
/// How long after a look in which a token changed under our hands the next one comes.
const SOON: Duration = Duration::from_secs(5);
/// Where the API server says since when it tracks the use of tokens.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";

pub(super) struct Cleaner {
    pub(super) cx: Arc<Context>,
    pub(super) accounts: Arc<Informer<ServiceAccount>>,
    pub(super) secrets: Arc<Informer<Secret>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) period: Duration,
}

/// The secrets that the pods of each namespace draw on, found when they are first asked for.
type Mounted = BTreeMap<SmolStr, BTreeSet<SmolStr>>;

impl Cleaner {
    pub(super) async fn run(&self) {
        loop {
            let pause = match self.look().await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "cannot look for unused tokens; trying again");
                    AGAIN
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// One look at all tokens; says how long after it the next one is due.
    async fn look(&self) -> Result<Duration, SyncError> {
        let tracked = self.tracked_since().await?;
        let Some(days) = Days::new(self.cx.clock.now(), tracked, self.period) else { return Ok(PERIOD) };
        let mut mounted = Mounted::new();
        let mut tokens: Vec<Arc<Secret>> = self.secrets.store().list();
        tokens.retain(|secret| is_token(secret));
        tokens.sort_unstable_by_key(|secret| secret.key());
        let mut pause = PERIOD;
        for secret in tokens {
            let account = Claimed::by(&secret).and_then(|claimed| self.accounts.store().get(&claimed.key));
            let is_mounted = || self.is_mounted(&secret, &mut mounted);
            if let Some(action) = plan(&secret, account.as_deref(), is_mounted, &days) {
                pause = self.carry_out(&secret, &action).await.min(pause);
            }
        }
        Ok(pause)
    }

    /// The day on which the API server began to track the use of tokens.
    async fn tracked_since(&self) -> Result<Timestamp, SyncError> {
        let key = Key::new("kube-system", TRACKING);
        let doing = || format!("reading since when tokens are tracked from ConfigMap {key}");
        let map =
            self.cx.client.get::<ConfigMap>(&key).await.map_err(|error| SyncError::api(doing())(error))?;
        let since = map.data.get(SINCE);
        let day = since.and_then(parse_date);
        day.ok_or_else(|| {
            let told = since.map_or("it has none".to_owned(), |since| format!("not {since:?}"));
            SyncError::other(doing(), format!("its entry {SINCE:?} must be a day like 2026-01-31; {told}"))
        })
    }

    fn is_mounted(&self, secret: &Secret, mounted: &mut Mounted) -> bool {
        let namespace = &secret.metadata.namespace;
        let names = mounted.entry(namespace.clone()).or_insert_with(|| {
            let pods = self.pods.store().in_namespace(namespace);
            pods.iter().flat_map(|pod| pod.spec.secret_names().cloned().collect::<Vec<_>>()).collect()
        });
        names.contains(&secret.metadata.name)
    }

    /// Does what was planned; says when to look again.
    async fn carry_out(&self, secret: &Secret, action: &Action) -> Duration {
        let key = secret.key();
        let outcome = match action {
            Action::Invalidate(day) => self.invalidate(secret, day).await,
            Action::Delete => self.delete(secret).await,
        };
        match outcome {
            // It is no longer what it was judged by.
            Err(error) if error.is_conflict() => SOON,
            Err(error) if !error.is_not_found() => {
                tracing::warn!(secret = %key, ?action, error = %Chain(&error), "cannot clean up an unused token");
                AGAIN
            }
            _ => PERIOD,
        }
    }

    async fn invalidate(&self, secret: &Secret, day: &str) -> Result<(), Error> {
        let key = secret.key();
        let why = "a token of old that has not been used for long";
        let patch = Patch::Merge(invalidation(secret, day));
        self.cx.writer(&key).unawaited().patch::<Secret>(&key, None, patch, why).await.map(drop)
    }

    async fn delete(&self, secret: &Secret) -> Result<(), Error> {
        let key = secret.key();
        // Only as it was judged: a use in between changes it.
        let version = Some(secret.metadata.resource_version);
        let options = DeleteOptions { resource_version: version, ..DeleteOptions::default() };
        let why = "a token of old that has been invalid for long, and was not missed";
        self.cx.writer(&key).unawaited().delete::<Secret>(&key, options, why).await
    }
}
