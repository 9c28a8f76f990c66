//! The policies and webhooks that are registered, compiled when they change.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::policy::Binding;
use super::webhooks::Webhook;
use super::{mutating, validating};
use crate::server::Inner;
use crate::store::ShelfId;

const GROUP: &str = "admissionregistration.k8s.io";

/// All policies and webhooks, in the order of their names.
#[derive(Default)]
pub(super) struct Set {
    pub(super) mutating: Vec<mutating::Policy>,
    pub(super) validating: Vec<validating::Policy>,
    pub(super) mutating_webhooks: Vec<Webhook>,
    pub(super) validating_webhooks: Vec<Webhook>,
}

impl Set {
    pub(super) fn is_empty(&self) -> bool {
        self.mutating.is_empty()
            && self.validating.is_empty()
            && self.mutating_webhooks.is_empty()
            && self.validating_webhooks.is_empty()
    }
}

/// Remembers what is compiled.
#[derive(Default)]
pub(crate) struct Registered {
    compiled: Mutex<Option<Arc<Set>>>,
}

impl Registered {
    /// A policy, a binding or a webhook configuration has been written.
    pub(crate) fn forget(&self) {
        *self.compiled.lock() = None;
    }

    pub(super) fn current(&self, server: &Inner) -> Arc<Set> {
        if let Some(set) = &*self.compiled.lock() {
            return Arc::clone(set);
        }
        let set = Arc::new(read(server));
        *self.compiled.lock() = Some(Arc::clone(&set));
        set
    }
}

fn read(server: &Inner) -> Set {
    let all = |plural: &str| -> Vec<Value> {
        let mut entries = server.store.all(&ShelfId::new(GROUP, plural), None);
        entries.sort_by(|one, other| one.key.name.cmp(&other.key.name));
        entries.iter().map(|entry| entry.value()).collect()
    };
    let bindings_of = |plural: &str, policy: &Value| -> Vec<Binding> {
        let name = crate::meta::text(policy, "name");
        all(plural).iter().map(Binding::read).filter(|binding| binding.policy() == name).collect()
    };
    let validating = all("validatingadmissionpolicies").into_iter().filter_map(|policy| {
        let bindings = bindings_of("validatingadmissionpolicybindings", &policy);
        (!bindings.is_empty()).then(|| validating::Policy::read(&policy, bindings))
    });
    let mutating = all("mutatingadmissionpolicies").into_iter().filter_map(|policy| {
        let bindings = bindings_of("mutatingadmissionpolicybindings", &policy);
        (!bindings.is_empty()).then(|| mutating::Policy::read(&policy, bindings))
    });
    Set {
        mutating: mutating.collect(),
        validating: validating.collect(),
        mutating_webhooks: all("mutatingwebhookconfigurations").iter().flat_map(Webhook::read).collect(),
        validating_webhooks: all("validatingwebhookconfigurations").iter().flat_map(Webhook::read).collect(),
    }
}
