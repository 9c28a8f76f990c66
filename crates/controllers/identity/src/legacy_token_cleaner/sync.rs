//! The shell: reads since when use is tracked, and takes a snapshot of all token secrets, once per round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{ConfigMap, Key, Object, Secret, ServiceAccount, Timestamp};
use flyball_cache::Informer;
use flyball_runtime::{Context, Outcome, Periodic, Plan, SyncError};
use smol_str::SmolStr;

use super::plan::{Days, Token, View, earlier_round, is_unused, parse_date, plan};
use crate::token_secret::{AccountRef, is_token};

/// The ConfigMap in which the API server notes since when it tracks the use of tokens.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
const SINCE: &str = "since";

pub(super) struct Cleaner {
    pub(super) cx: Arc<Context>,
    pub(super) accounts: Arc<Informer<ServiceAccount>>,
    pub(super) secrets: Arc<Informer<Secret>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) period: Duration,
}

/// The secrets that pods mount, by namespace, filled on demand.
type Mounted = BTreeMap<SmolStr, BTreeSet<SmolStr>>;

impl Periodic for Cleaner {
    type Memory = ();
    type Observations = View;
    type Tag = ();

    async fn observe(&self, (): &()) -> Result<View, SyncError> {
        let tracked_since = self.tracked_since().await?;
        let days = Days::new(self.cx.clock.now(), tracked_since, self.period);
        let tokens = days.as_ref().map(|days| self.tokens(days)).unwrap_or_default();
        Ok(View { tokens, days })
    }

    fn round((): (), view: &View) -> ((), Plan) {
        ((), plan(view))
    }

    fn finish(&self, (): &mut (), outcome: &Outcome) -> Option<Duration> {
        earlier_round(outcome)
    }
}

impl Cleaner {
    /// The day on which the API server began to track the use of tokens.
    async fn tracked_since(&self) -> Result<Timestamp, SyncError> {
        let key = Key::new("kube-system", TRACKING);
        let doing = || format!("reading since when tokens are tracked from ConfigMap {key}");
        let map =
            self.cx.client.get::<ConfigMap>(&key).await.map_err(|error| SyncError::api(doing())(error))?;
        let since = map.data.get(SINCE);
        let day = since.and_then(parse_date);
        day.ok_or_else(|| {
            let found = since.map_or("it is missing".to_owned(), |since| format!("not {since:?}"));
            SyncError::other(doing(), format!("its entry {SINCE:?} must be a day like 2026-01-31; {found}"))
        })
    }

    fn tokens(&self, days: &Days) -> Vec<Token> {
        let mut mounted = Mounted::new();
        let mut secrets: Vec<Arc<Secret>> = self.secrets.store().list();
        secrets.retain(|secret| is_token(secret));
        secrets.sort_unstable_by_key(|secret| secret.key());
        let token = |secret: Arc<Secret>| {
            let account = AccountRef::of(&secret).and_then(|named| self.accounts.store().get(&named.key));
            let is_mounted =
                is_unused(&secret, account.as_deref(), days) && self.is_mounted(&secret, &mut mounted);
            Token { secret, account, is_mounted }
        };
        secrets.into_iter().map(token).collect()
    }

    fn is_mounted(&self, secret: &Secret, mounted: &mut Mounted) -> bool {
        let namespace = &secret.metadata.namespace;
        let names = mounted.entry(namespace.clone()).or_insert_with(|| {
            let pods = self.pods.store().in_namespace(namespace);
            pods.iter().flat_map(|pod| pod.spec.secret_names().cloned().collect::<Vec<_>>()).collect()
        });
        names.contains(&secret.metadata.name)
    }
}
