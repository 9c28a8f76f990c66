//! The shell: list, plan, delete, create, report.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, Node, Object, PartialObject, Resource};
use flyball_cache::Informer;
use flyball_client::Patch;
use flyball_runtime::config::duration;
use flyball_runtime::events::{ObjectRef, Recorder};
use flyball_runtime::metrics::{Counter, RunningController};
use flyball_runtime::{Chain, Context, Next, Reconcile, SyncError};
use ipnet::IpNet;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior};

use super::plan::{NewRoute, View, plan};
use super::status::{Missing, reports};
use crate::provider::AnyRoutes;
use crate::surroundings::all;
use crate::{CloudError, Route};

/// Questions to the cloud, and writes, that may be under way at once.
const AT_ONCE: usize = 200;
/// How often a condition is tried to be written against others who write the node.
const TRIES: usize = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);
/// A period of nothing would leave no time for anything else.
const SHORTEST_PERIOD: Duration = Duration::from_millis(10);

pub(super) struct Controller {
    pub(super) cx: Arc<Context>,
    pub(super) events: Recorder,
    pub(super) routes: Arc<dyn AnyRoutes>,
    pub(super) nodes: Arc<Informer<Node>>,
    pub(super) cluster: String,
    pub(super) ranges: Vec<IpNet>,
    pub(super) syncs: Counter,
    pub(super) running: RunningController,
}

impl Reconcile for Controller {
    async fn sync(&self, _: &Key) -> Result<Next, SyncError> {
        self.running.begin();
        let failed = |error| SyncError::other("error listing routes", error);
        self.round().await.map(|()| Next::Settled).map_err(failed)
    }
}

impl Controller {
    /// Round after round. They begin a period apart, however long each takes.
    pub(super) async fn run(self: Arc<Self>, period: Duration) {
        self.running.begin();
        let mut ticks = tokio::time::interval(period.max(SHORTEST_PERIOD));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.round().await {
                tracing::warn!(error = %Chain(&error), "cannot list the routes; trying again in the next round");
            }
        }
    }

    async fn round(&self) -> Result<(), CloudError> {
        self.syncs.inc();
        let routes = self.routes.list(&self.cluster).await?;
        let mut nodes = self.nodes.store().list();
        nodes.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let plan = plan(&View { nodes: &nodes, routes: &routes, ranges: &self.ranges });
        all(AT_ONCE, plan.delete.iter().map(|route| self.delete(route))).await;
        let created = all(AT_ONCE, plan.create.iter().map(|new| self.create(new))).await;
        let failed = plan.create.iter().zip(created).filter(|(_, created)| !created);
        let missing: Missing =
            failed.map(|(new, _)| (new.route.node.clone(), new.route.destination.clone())).collect();
        let reports = reports(&nodes, &routes, &missing, self.cx.clock.now());
        all(AT_ONCE, reports.into_iter().map(|(node, patch)| self.report(node, patch))).await;
        Ok(())
    }

    async fn delete(&self, route: &Route) {
        let Route { name, destination, .. } = route;
        match self.routes.delete(&self.cluster, route).await {
            Ok(()) => tracing::info!(route = %name, %destination, "deleted a route"),
            Err(error) => {
                tracing::warn!(route = %name, %destination, error = %Chain(&error), "cannot delete a route; trying again in the next round");
            }
        }
    }

    /// Makes a route; says whether it is there now.
    async fn create(&self, new: &NewRoute) -> bool {
        let NewRoute { hint, route: Route { node, destination, .. } } = new;
        let began = Instant::now();
        let Err(error) = self.routes.create(&self.cluster, hint, &new.route).await else {
            tracing::info!(%node, %destination, "made a route");
            return true;
        };
        let (took, error) = (duration::print(began.elapsed()), Chain(&error));
        tracing::warn!(%node, %destination, %error, "cannot make a route; trying again in the next round");
        if let Some(node) = self.nodes.store().get(&Key::cluster(node.clone())) {
            let name = &node.metadata.name;
            let message =
                format!("Could not create route {hint} {destination} for node {name} after {took}: {error}");
            self.events.warning(
                &ObjectRef::named::<Node>("", name, node.uid()),
                "FailedToCreateRoute",
                message,
            );
        }
        false
    }

    async fn report(&self, node: &Node, patch: Value) {
        let key = node.key();
        let why = "its routes have changed";
        for attempt in 1.. {
            let writer = self.cx.writer(&key).unawaited();
            let patch = Patch::Strategic(patch.clone());
            match writer.patch_dynamic::<PartialObject>(&Node::TYPE, &key, Some("status"), patch, why).await {
                Err(error) if error.is_conflict() && attempt < TRIES => {
                    tokio::time::sleep(BETWEEN_TRIES).await
                }
                Err(error) if !error.is_not_found() => {
                    tracing::warn!(node = %key, error = %Chain(&error), "cannot report on the routes of a node; trying again in the next round");
                    return;
                }
                _ => return,
            }
        }
    }
}
