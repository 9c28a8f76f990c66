//! The shell: plan, sign with the authority as it is now, write.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flyball_api::{CertificateSigningRequest, Key, manifest};
use flyball_cache::Informer;
use flyball_runtime::{Context, Fresh, Next, Reconcile, SyncError};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::authorities::Authorities;
use super::plan::{Action, failed, lifetime, plan, validity};
use crate::rules::Signer;
use crate::x509::{Authority, Request, Serial, Usages, issue};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) requests: Arc<Informer<CertificateSigningRequest>>,
    pub(super) authorities: Authorities,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(csr) = self.requests.store().get(key) else { return Ok(Next::Settled) };
        let signer = Signer::of(&csr).and_then(|signer| Some((signer, self.authorities.get(&signer)?)));
        let Some((signer, authority)) = signer else { return Ok(Next::Settled) };
        let unreadable =
            |error| SyncError::other(format!("reading certificate request {key}"), error).never();
        match plan(&csr, signer).map_err(unreadable)? {
            None => Ok(Next::Settled),
            Some(Action::Fail(why)) => {
                let failed = failed(&csr, &why, self.cx.clock.now());
                self.write(key, &failed, format!("{} does not sign it: {why}", signer.name())).await
            }
            Some(Action::Sign(request)) => {
                let signed = self
                    .sign(&csr, &request, authority)
                    .map_err(|error| SyncError::other(format!("signing certificate request {key}"), error))?;
                let mut issued = CertificateSigningRequest::clone(&csr);
                issued.status.certificate = BASE64.encode(signed).into();
                self.write(key, &issued, format!("approved, and right for {}", signer.name())).await
            }
        }
    }
}

type Unsigned = Box<dyn std::error::Error + Send + Sync>;

impl Controller {
    fn sign(
        &self,
        csr: &CertificateSigningRequest,
        request: &Request,
        authority: &Fresh<Authority>,
    ) -> Result<String, Unsigned> {
        let authority = authority.get();
        let longest = self.cx.config.csr_signing_controller.cluster_signing_duration;
        let lifetime = lifetime(csr.spec.expiration_seconds, longest);
        let validity = validity(self.cx.clock.now(), lifetime, authority.not_after)?;
        let usages = Usages::parse(&csr.spec.usages)?;
        let mut serial = Serial::default();
        SystemRandom::new().fill(&mut serial).map_err(|_| "the system has no random numbers")?;
        Ok(issue(&authority, request, &usages, validity, &serial)?)
    }

    async fn write(
        &self,
        key: &Key,
        csr: &CertificateSigningRequest,
        why: String,
    ) -> Result<Next, SyncError> {
        let doing = || format!("writing the status of certificate request {key}");
        let body = manifest(csr).map_err(|error| SyncError::other(doing(), error))?;
        let writer = self.cx.writer(key);
        match writer.update_status::<CertificateSigningRequest>(key, &body, why).await {
            Err(error) if error.is_not_found() => Ok(Next::Settled),
            written => written.map(|_| Next::Settled).map_err(|error| SyncError::api(doing())(error)),
        }
    }
}
