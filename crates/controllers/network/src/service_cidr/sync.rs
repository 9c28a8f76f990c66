//! The shell: look up, plan, write.

use std::sync::Arc;

use flyball_api::{IPAddress, Key, Object, Resource, ServiceCIDR};
use flyball_cache::Informer;
use flyball_client::Patch;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Next, Reconcile, SyncError};
use serde_json::{Value, json};

use super::plan::{Action, FINALIZER, READY, Verdict, View, plan};
use super::{NAME, invariants};

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) cidrs: Arc<Informer<ServiceCIDR>>,
    pub(super) addresses: Arc<Informer<IPAddress>>,
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let Some(cidr) = self.cidrs.store().get(key) else { return Ok(Next::Settled) };
        let addresses = if cidr.is_deleting() { self.addresses.store().list() } else { vec![] };
        let all = self.cidrs.store().list();
        let view = View { cidr: &cidr, all: &all, addresses: &addresses, now: self.cx.clock.now() };
        let actions = plan(&view);
        self.cx.judge(|| invariants::broken(&view, &actions));
        for action in actions {
            match action {
                Action::Wait(left) => return Ok(Next::After(left)),
                Action::Protect => {
                    let patch = json!({"metadata": {"finalizers": [FINALIZER]}});
                    self.patch(key, patch, "addresses may depend on it").await?;
                }
                Action::Release => {
                    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
                    self.patch(key, patch, "no address depends on it").await?;
                }
                Action::Say(verdict) => self.say(&cidr, key, verdict).await?,
            }
        }
        Ok(Next::Settled)
    }
}

impl Controller {
    async fn patch(&self, key: &Key, patch: Value, why: &str) -> Result<(), SyncError> {
        let writer = self.cx.writer(key);
        match writer.patch::<ServiceCIDR>(key, None, Patch::Strategic(patch), why).await {
            Err(error) if !error.is_not_found() => {
                Err(SyncError::api(format!("changing the finalizers of ServiceCIDR {key}"))(error))
            }
            _ => Ok(()),
        }
    }

    async fn say(&self, cidr: &ServiceCIDR, key: &Key, verdict: Verdict) -> Result<(), SyncError> {
        let kind = ServiceCIDR::TYPE;
        let Verdict { status, reason, message } = verdict;
        let condition = json!({
            "type": "Ready", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": self.cx.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        });
        let object = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": key.name},
            "status": {"conditions": [condition]},
        });
        let patch = Patch::Apply { manager: NAME.into(), force: true, object };
        let said = self.cx.writer(key).patch::<ServiceCIDR>(key, Some("status"), patch, message).await;
        if said.is_err() && verdict == READY {
            let message = "The ServiceCIDR Status can not be set to Ready=True";
            self.events.warning(&ObjectRef::of(cidr), "KubernetesServiceCIDRError", message);
        }
        said.map(drop).map_err(SyncError::api(format!("writing the condition of ServiceCIDR {key}")))
    }
}
