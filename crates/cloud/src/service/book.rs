//! What this process has done for each Service: the memory between two syncs of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::{Key, Service, Uid};
use parking_lot::Mutex;

use super::backends::Backends;
use super::numbers::Pass;
use super::plan::{Done, wants_balancer};

/// Services that have, or may have, a load balancer of ours.
#[derive(Default)]
pub(super) struct Book {
    pages: Mutex<BTreeMap<Key, Page>>,
}

struct Page {
    service: Arc<Service>,
    done: Done,
    /// Changes of nodes that wait for this Service.
    passes: Vec<Arc<Pass>>,
}

impl Book {
    /// What was done for a Service.
    pub(super) fn done(&self, key: &Key) -> Option<Done> {
        self.pages.lock().get(key).map(|page| page.done.clone())
    }

    /// The Service of that name as it was last seen.
    pub(super) fn last_seen(&self, key: &Key) -> Option<Arc<Service>> {
        self.pages.lock().get(key).map(|page| page.service.clone())
    }

    /// The Service of that name which this one has replaced.
    pub(super) fn predecessor(&self, key: &Key, uid: &Uid) -> Option<Arc<Service>> {
        self.last_seen(key).filter(|service| service.metadata.uid != *uid)
    }

    /// Notes that work for a Service begins: what was done before does not count until it succeeds.
    pub(super) fn begin(&self, key: &Key, service: &Arc<Service>, backends: Backends) {
        let mut pages = self.pages.lock();
        let page = pages.entry(key.clone()).or_insert_with(|| Page {
            service: service.clone(),
            done: Done::default(),
            passes: vec![],
        });
        page.service = service.clone();
        page.done = Done { ensured: None, backends };
    }

    /// Notes that the load balancer of a Service fits it.
    pub(super) fn ensured(&self, key: &Key, service: &Arc<Service>) {
        if let Some(page) = self.pages.lock().get_mut(key) {
            page.done.ensured = Some(service.clone());
        }
    }

    /// Notes that a Service has no load balancer any more.
    pub(super) fn strike(&self, key: &Key) {
        self.pages.lock().remove(key);
    }

    /// The Services whose load balancers point to other nodes than these. Each has `pass` wait for it.
    pub(super) fn misdirected(&self, backends: &Backends, pass: &Arc<Pass>) -> Vec<Key> {
        let mut found = vec![];
        for (key, page) in self.pages.lock().iter_mut() {
            if wants_balancer(&page.service) && page.done.backends != *backends {
                page.passes.push(pass.clone());
                found.push(key.clone());
            }
        }
        found
    }

    /// Lets go of whoever waits for a Service.
    pub(super) fn finish_passes(&self, key: &Key) {
        let passes = self.pages.lock().get_mut(key).map(|page| std::mem::take(&mut page.passes));
        drop(passes);
    }
}
