//! What a controller is given: a clock, settings, caches, its own identity, and the ways to write and to tell.

use std::sync::Arc;

use flyball_api::{Key, Resource, ResourceType};
use flyball_cache::{Informer, Informers};
use flyball_client::{Client, Error, ListParams};
use serde_json::Value;
use smol_str::format_smolstr;

use crate::barrier::Barrier;
use crate::clock::Clock;
use crate::config::Config;
use crate::debug::DebugPages;
use crate::decisions::{Decision, DecisionLog, Outcome};
use crate::events::Recorder;
use crate::extensions::Extensions;
use crate::gates::Gates;
use crate::metrics::Metrics;
use crate::writer::Writer;

/// What all controllers of a process share.
#[derive(Clone)]
pub struct Shared {
    /// The manager that runs them, `kube-controller-manager` for one.
    pub component: &'static str,
    /// What time it is.
    pub clock: Clock,
    /// The settings, from flags.
    pub config: Arc<Config>,
    /// Which features are on.
    pub gates: Gates,
    /// The caches, one per resource.
    pub informers: Informers,
    /// The decision log.
    pub decisions: DecisionLog,
    /// What controllers show about themselves.
    pub debug: DebugPages,
    /// Where numbers go.
    pub metrics: Metrics,
    /// The certificates (PEM) by which we trust the API server, if we were told any.
    pub server_ca: Option<Arc<str>>,
    /// What this manager brings along for its own controllers.
    pub extensions: Extensions,
}

/// The surroundings of one run of one controller.
pub struct Context {
    /// The controller's name.
    pub name: &'static str,
    /// The manager that runs it.
    pub component: &'static str,
    /// What time it is.
    pub clock: Clock,
    /// The settings, from flags.
    pub config: Arc<Config>,
    /// Which features are on.
    pub gates: Gates,
    /// The caches, one per resource, for the rarer ways of getting at them.
    pub informers: Informers,
    /// The API server under the controller's own identity, for live reads. Writes go through a [`Writer`].
    pub client: Client,
    /// Tells users what happens.
    pub events: Recorder,
    /// Where numbers go.
    pub metrics: Metrics,
    /// The certificates (PEM) by which we trust the API server, if we were told any.
    pub server_ca: Option<Arc<str>>,
    /// What controllers show about themselves.
    pub debug: DebugPages,
    /// What this manager brings along for its own controllers: a connection to a cloud, say.
    pub extensions: Extensions,
    pub(crate) barrier: Barrier,
    reader: Client,
    decisions: DecisionLog,
}

impl Context {
    /// The surroundings of the controller `name`, which acts with `client` and tells through `events`. `reader`
    /// may list whatever is cached.
    pub fn new(
        name: &'static str,
        shared: &Shared,
        client: Client,
        reader: Client,
        events: Recorder,
    ) -> Self {
        let Shared {
            component,
            clock,
            config,
            gates,
            informers,
            decisions,
            debug,
            metrics,
            server_ca,
            extensions,
        } = shared.clone();
        let barrier = Barrier::new(informers.clone(), reader.clone());
        Self {
            name,
            component,
            clock,
            config,
            gates,
            informers,
            client,
            events,
            metrics,
            server_ca,
            debug,
            extensions,
            barrier,
            reader,
            decisions,
        }
    }

    /// The cache of a kind.
    pub fn informer<T: Resource>(&self) -> Arc<Informer<T>> {
        self.informers.get::<T>()
    }

    /// An object with all its fields as the server has it now, for a PUT: caches hold only what is read. It is
    /// listed under the identity that fills the caches, as a controller may often write what it may not get.
    pub async fn whole<T: Resource>(&self, key: &Key) -> Result<Option<Value>, Error> {
        self.whole_dynamic(&T::TYPE, key).await
    }

    /// The same for an object of any resource.
    pub async fn whole_dynamic(&self, resource: &ResourceType, key: &Key) -> Result<Option<Value>, Error> {
        let field_selector = Some(format_smolstr!("metadata.name={}", key.name));
        let params = ListParams { field_selector, ..ListParams::default() };
        let namespace = Some(key.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let mut found = self.reader.list_as::<Value>(resource, namespace, &params).await?.items;
        Ok(found.pop())
    }

    /// The way to write while reconciling `owner`.
    pub fn writer<'a>(&'a self, owner: &'a Key) -> Writer<'a> {
        Writer::new(self, owner)
    }

    /// Logs a write that was made.
    pub(crate) fn decide(&self, decision: Decision) {
        let Decision { controller, action, target, subresource, why, owner, .. } = &decision;
        match &decision.outcome {
            Outcome::Done => {
                tracing::info!(controller, %owner, action, %target, %subresource, why = why.as_str(), "wrote")
            }
            Outcome::Refused(error) | Outcome::Unknown(error) | Outcome::NotSent(error) => {
                tracing::info!(controller, %owner, action, %target, %subresource, why = why.as_str(), error, "write failed");
            }
        }
        self.decisions.record(decision);
    }
}
