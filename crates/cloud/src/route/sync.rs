//! The shell: list the routes of the cloud, plan, call the cloud, report. Rounds come at a fixed rate or, with a queue of one
//! key, after changes of Nodes.

use std::sync::Arc;

use flyball_api::{Key, Node};
use flyball_cache::Informer;
use flyball_runtime::events::Recorder;
use flyball_runtime::metrics::{Counter, RunningController};
use flyball_runtime::{Chain, Context, Next, Periodic, Plan, Reconcile, SyncError};
use ipnet::IpNet;
use tokio::time::Instant;

use super::invariants;
use super::plan::{CloudCalls, NewRoute, View, plan};
use super::status::{Creation, Observed, report};
use crate::Route;
use crate::provider::AnyRoutes;
use crate::surroundings::{all, nodes_by_name};

/// How many calls to the cloud are under way at once.
const CONCURRENCY: usize = 200;

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

impl Periodic for Controller {
    type Memory = ();
    type Observations = Observed;
    type Tag = ();

    async fn observe(&self, (): &()) -> Result<Observed, SyncError> {
        self.running.begin();
        self.syncs.inc();
        let routes = self.routes.list(&self.cluster).await;
        let routes = routes.map_err(|error| SyncError::other("error listing routes", error))?;
        let nodes = nodes_by_name(&self.nodes);
        let view = View { nodes: &nodes, routes: &routes, ranges: &self.ranges };
        let calls = plan(&view);
        self.cx.judge(|| invariants::check(&view, &calls));
        let creations = self.call(calls).await;
        Ok(Observed { nodes, routes, creations, now: self.cx.clock.now() })
    }

    fn round((): (), observed: &Observed) -> ((), Plan) {
        ((), report(observed))
    }

    fn events<'a>(&'a self, _: &'a Context) -> &'a Recorder {
        &self.events
    }
}

impl Reconcile for Controller {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        let observed = self.observe(&()).await?;
        let executor = self.cx.executor(key).without_barrier().events(&self.events);
        executor.execute(report(&observed)).await
    }
}

impl Controller {
    async fn call(&self, calls: CloudCalls) -> Vec<Creation> {
        for Route { name, destination, .. } in &calls.unparsable {
            tracing::warn!(route = %name, %destination, "cannot parse the destination of a route; it is left alone");
        }
        all(CONCURRENCY, calls.delete.iter().map(|route| self.delete(route))).await;
        all(CONCURRENCY, calls.create.into_iter().map(|new| self.create(new))).await
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

    async fn create(&self, new: NewRoute) -> Creation {
        let Route { node, destination, .. } = &new.route;
        let began = Instant::now();
        let created = self.routes.create(&self.cluster, &new.hint, &new.route).await;
        let error = created.err().map(|error| Chain(&error).to_string());
        match &error {
            None => tracing::info!(%node, %destination, "created a route"),
            Some(error) => {
                tracing::warn!(%node, %destination, %error, "cannot create a route; trying again in the next round");
            }
        }
        Creation { took: began.elapsed(), error, new }
    }
}
