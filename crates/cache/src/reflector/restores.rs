//! Detects restores of etcd: the checks of a reflector after it has lost a watch, and what follows from them.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use tracing::warn;

use super::{BETWEEN_RELISTS, Reflector};
use crate::era::Evidence;
use crate::source::Failure;
use crate::witness::{Missing, Witness};

/// The timeout of the check of another resource.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

impl Reflector {
    /// Whether the server has an older state than the store, because etcd was restored. A watch does not show that.
    pub(super) async fn is_server_restored(&mut self) -> Result<bool, Failure> {
        let (evidence, missing) = self.witness.compare().await?;
        // What an earlier check has missed stays missing: its watch may have broken off after an event of another object, which is now
        // the newest.
        self.missing.retain(|(key, uid, _)| self.writer.holds(key, uid));
        let is_known = |(key, uid, _): &Missing| self.missing.iter().any(|(k, u, _)| (k, u) == (key, uid));
        if let Some(missing) = missing.filter(|missing| !is_known(missing)) {
            self.missing.push(missing);
        }
        match evidence {
            Evidence::None if self.missing.is_empty() => self.state.doubt.end(),
            Evidence::None | Evidence::Missing => {}
            Evidence::Restored => self.went_back("the current version"),
        }
        Ok(evidence == Evidence::Restored)
    }

    /// Whether the store still has an object that was missing on the server, although the watch has shown everything up to
    /// then.
    pub(super) fn is_missing(&mut self) -> bool {
        if self.missing.is_empty() {
            return false;
        }
        self.missing.retain(|(key, uid, _)| self.writer.holds(key, uid));
        let reached = self.writer.version_reached();
        let is_missing = self.missing.iter().any(|(_, _, version)| reached >= *version);
        if is_missing {
            self.missing.clear();
        } else if self.missing.is_empty() {
            self.state.doubt.end();
        }
        is_missing
    }

    /// The watch has ended as it does when the server is restored.
    pub(super) fn lost_watch(&mut self) {
        self.may_be_restored = true;
        if self.state.has_synced() {
            self.state.doubt.begin();
        }
    }

    /// The server has an earlier state than the cache: all resources are listed again, or this one only.
    pub(super) fn went_back(&self, noticed_by: &'static str) {
        let (resource, reached) = (&self.state.resource, self.writer.version_reached());
        if self.state.went_back(self.era) {
            warn!(%resource, %reached, noticed_by, "the server has gone back to an earlier version; listing all resources again");
        }
    }

    /// A custom or aggregated resource that fails cannot say whether etcd was restored, but others can. Controllers should not wait for
    /// each of many broken definitions.
    pub(super) async fn end_doubt_by_others(&self) {
        let (state, since) = (&self.state, Instant::now());
        if state.doubt.lasts().is_none() || Witness::is_built_in(&state.resource) {
            return;
        }
        match timeout(CHECK_TIMEOUT, state.era.check_builtin(since)).await {
            Ok(Some(Evidence::None)) => state.doubt.end(),
            Ok(Some(Evidence::Restored)) => self.all_went_back(),
            Ok(Some(Evidence::Missing) | None) | Err(_) => {}
        }
    }

    /// Called before the relist of a custom or aggregated resource that has returned to an earlier version: checks whether a
    /// built-in resource has, too. Such relists are rare.
    pub(super) async fn check_others(&self) {
        sleep_until(self.listed + BETWEEN_RELISTS).await;
        if self.state.era.check_builtin(Instant::now()).await == Some(Evidence::Restored) {
            self.all_went_back();
        }
    }

    /// A resource of the API server itself shows that etcd was restored.
    fn all_went_back(&self) {
        if self.state.era.end(self.era) {
            let resource = &self.state.resource;
            warn!(%resource, "the server has gone back to an earlier version; listing all resources again");
        }
    }

    /// Completes when any informer has detected a restore of etcd since the latest list began.
    pub(super) async fn era_ended(&self) {
        self.state.era.ended(self.era).await;
    }
}
