//! Checks of routes.

use flyball_api::Node;

use super::{Report, World, ensure, settled};
use crate::Route;
use crate::provider::AnyRoutes;

struct Table<'a> {
    inner: &'a dyn AnyRoutes,
    cluster: &'a str,
}

pub(super) async fn check(world: &World, inner: &dyn AnyRoutes, report: &mut Report) {
    const CREATED: &str = "a route is created, and is listed as it was created";
    const TWICE: &str = "a route that is created twice is there once";
    const DELETED: &str = "a deleted route is gone, and the others stay";
    let table = Table { inner, cluster: &world.cluster };
    let ([first, second, ..], [node, ..]) = (&*world.ranges, &*world.running) else {
        for check in [CREATED, TWICE, DELETED] {
            report.skip(check, "the world has no Node, or no ranges");
        }
        return;
    };
    let (one, other) = (route(node, first), route(node, second));
    report.add(CREATED, table.created(&one).await);
    report.add(TWICE, table.twice(&one).await);
    report.add(DELETED, table.deleted(&one, &other).await);
}

fn route(node: &Node, range: &str) -> Route {
    Route {
        node: node.metadata.name.clone(),
        node_addresses: Some(node.status.addresses.to_vec()),
        destination: range.into(),
        ..Route::default()
    }
}

impl Table<'_> {
    async fn list(&self) -> Result<Vec<Route>, String> {
        settled(|| self.inner.list(self.cluster)).await
    }

    /// The routes for the same range.
    async fn listed(&self, route: &Route) -> Result<Vec<Route>, String> {
        let routes = self.list().await?.into_iter();
        Ok(routes.filter(|other| other.destination == route.destination).collect())
    }

    async fn created(&self, route: &Route) -> Result<(), String> {
        let before = self.listed(route).await?;
        ensure(before.is_empty(), || format!("there is one before: {before:?}"))?;
        settled(|| self.inner.create(self.cluster, "conformance", route)).await?;
        match &*self.listed(route).await? {
            [found] => {
                ensure(found.node == route.node, || {
                    format!("it leads to {:?}, not to {:?}", found.node, route.node)
                })?;
                ensure(!found.is_blackhole, || "it is a blackhole".to_owned())?;
                ensure(!found.name.is_empty(), || "it has no name".to_owned())
            }
            found => Err(format!("there are {}", found.len())),
        }
    }

    async fn twice(&self, route: &Route) -> Result<(), String> {
        // Whether that is a failure is up to the cloud.
        let _ = settled(|| self.inner.create(self.cluster, "conformance", route)).await;
        let found = self.listed(route).await?;
        ensure(found.len() == 1, || format!("there are {}", found.len()))
    }

    async fn deleted(&self, route: &Route, other: &Route) -> Result<(), String> {
        settled(|| self.inner.create(self.cluster, "conformance", other)).await?;
        for found in self.listed(route).await? {
            settled(|| self.inner.delete(self.cluster, &found)).await?;
        }
        let left = self.listed(route).await?;
        ensure(left.is_empty(), || format!("there still is {left:?}"))?;
        let others = self.listed(other).await?;
        for found in &others {
            settled(|| self.inner.delete(self.cluster, found)).await?;
        }
        ensure(others.len() == 1, || "the other one is gone, too".to_owned())
    }
}
