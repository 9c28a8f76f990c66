//! The shell: a snapshot of all requests, once per round.

use std::sync::Arc;

use flyball_api::{CertificateSigningRequest, Object};
use flyball_cache::Informer;
use flyball_runtime::{Context, Periodic, Plan, SyncError};

use super::plan::{View, plan};

pub(super) struct Cleaner {
    pub(super) cx: Arc<Context>,
    pub(super) requests: Arc<Informer<CertificateSigningRequest>>,
}

impl Periodic for Cleaner {
    type Memory = ();
    type Observations = View;
    type Tag = ();

    async fn observe(&self, (): &()) -> Result<View, SyncError> {
        let mut requests = self.requests.store().list();
        requests.sort_unstable_by_key(|csr| csr.key());
        Ok(View { requests, now: self.cx.clock.now() })
    }

    fn round((): (), view: &View) -> ((), Plan) {
        ((), plan(view))
    }
}
