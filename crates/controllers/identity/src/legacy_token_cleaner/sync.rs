//! The shell: reads since when use is tracked, and takes a snapshot of all token secrets, once per round.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::pod::Pod;
use flyball_api::{ConfigMap, Key, Secret, ServiceAccount, Timestamp};
use flyball_cache::Informer;
use flyball_runtime::{Context, Outcome, Periodic, Plan, SyncError};
use smol_str::SmolStr;

use super::plan::{Days, View, earlier_round, plan, tokens, tracked_since};

/// The ConfigMap in which the API server notes since when it tracks the use of tokens.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

pub(super) struct Cleaner {
    pub(super) cx: Arc<Context>,
    pub(super) accounts: Arc<Informer<ServiceAccount>>,
    pub(super) secrets: Arc<Informer<Secret>>,
    pub(super) pods: Arc<Informer<Pod>>,
    pub(super) period: Duration,
}

impl Periodic for Cleaner {
    type Memory = ();
    type Observations = View;
    type Tag = ();

    async fn observe(&self, (): &()) -> Result<View, SyncError> {
        let tracked_since = self.tracked_since().await?;
        let days = Days::new(self.cx.clock.now(), tracked_since, self.period);
        let account = |key: &Key| self.accounts.store().get(key);
        let all = |days: &Days| tokens(self.secrets.store().list(), days, account, |name| self.mounted(name));
        Ok(View { tokens: days.as_ref().map(all).unwrap_or_default(), days })
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
        tracked_since(&map).map_err(|problem| SyncError::other(doing(), problem))
    }

    /// The secrets that the pods of a namespace mount.
    fn mounted(&self, namespace: &str) -> BTreeSet<SmolStr> {
        let pods = self.pods.store().in_namespace(namespace);
        pods.iter().flat_map(|pod| pod.spec.secret_names().cloned().collect::<Vec<_>>()).collect()
    }
}
