//! The shell: observe, plan, execute.

use std::sync::Arc;

use flyball_api::{IPAddress, Key, Object, ServiceCIDR};
use flyball_cache::Informer;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::{Context, Next, Reconcile, SyncError};

use super::invariants;
use super::plan::{View, plan};

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
        let plan = plan(&view);
        self.cx.judge(|| invariants::check(&view, &plan));
        self.cx.executor(key).about(ObjectRef::of(&*cidr)).events(&self.events).execute(plan).await
    }
}
