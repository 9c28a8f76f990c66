//! The shell: look up the request and the current authority, plan, execute.

use std::sync::Arc;

use flyball_api::{CertificateSigningRequest, Key};
use flyball_cache::Informer;
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::authorities::Authorities;
use super::plan::{View, plan};
use crate::rules::Signer;
use crate::x509::Serial;

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) requests: Arc<Informer<CertificateSigningRequest>>,
    pub(super) authorities: Authorities,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(csr) = self.requests.store().get(key) else { return Ok(Next::Settled) };
        let signer = Signer::of(&csr).and_then(|signer| Some((signer, self.authorities.get(&signer)?.get())));
        let Some((signer, authority)) = signer else { return Ok(Next::Settled) };
        let mut serial = Serial::default();
        SystemRandom::new()
            .fill(&mut serial)
            .map_err(|_| SyncError::other("choosing a serial number", "the system has no random numbers"))?;
        let plan = plan(&View {
            csr: &csr,
            signer,
            authority: &authority,
            max_lifetime: self.cx.config.csr_signing_controller.cluster_signing_duration,
            serial,
            now: self.cx.clock.now(),
        });
        self.cx.executor(key).execute(plan).await
    }
}
