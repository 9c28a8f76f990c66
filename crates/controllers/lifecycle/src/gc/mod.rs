//! Deletes what has lost all its owners, and lets owners go once their dependents are.
//!
//! - **Promise**: an object whose owners are all gone is deleted; an owner that is deleted in the foreground
//!   goes after the dependents that block it, one that is to leave orphans goes after their references to it
//!   are. Nothing that has a living owner is ever deleted, however stale the caches are: absence is confirmed by
//!   the server or, if it no longer serves the owner's kind, was seen by a cache; and a deletion only takes the
//!   version that was judged or, of an object that changes all the time, the one whose owners did not.
//! - **Watches** every resource that can be listed, watched and deleted, custom ones included, by metadata only;
//!   discovery is repeated every 30 seconds, and soon after a definition of custom resources has changed.
//!   **Writes**: deletes objects, removes owner references, and the finalizers `foregroundDeletion` and `orphan`.
//! - Upstream: `pkg/controller/garbagecollector`. What differs: changes go into the graph at once, without a
//!   queue between; what a cache reports as deleted is confirmed live, too, while that is possible; an object is
//!   judged as the cache has it and deleted in that version only, which saves the request that reads it; what
//!   needs a kind that is not served waits until it is, without trying; once one owner is known to live, the
//!   others that a cache shows are not asked for; when the preferred version of a kind changes, its objects are
//!   followed in the old one until the new one is complete.
//!
//! In reading order: [`identity`] is what a reference points at; [`graph`] holds who owns whom and says what a
//! change calls for; [`plan`] judges one object; [`sync`] asks the server and acts; [`catalog`] and `monitors`
//! follow what the server serves.

pub mod absent;
mod act;
pub mod catalog;
pub mod dot;
pub mod graph;
pub mod identity;
pub mod invariants;
mod live;
mod monitors;
pub mod patches;
pub mod plan;
pub mod server;
pub mod sync;
#[cfg(test)]
mod tests;
pub mod unserved;

use std::sync::Arc;

use flyball_api::Uid;
use flyball_runtime::{Context, DebugPage, StartError, Tasks};

use monitors::Monitors;
use sync::{Collector, Delete, Orphan};

/// The name under which the controller runs and tells events.
pub const NAME: &str = "garbage-collector-controller";

/// On an owner that waits for its dependents to be deleted.
pub const FOREGROUND: &str = "foregroundDeletion";
/// On an owner whose dependents are to outlive it.
pub const ORPHAN: &str = "orphan";

pub fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let config = &cx.config.garbage_collector_controller;
    if !config.enable_garbage_collector {
        return Err(StartError::NotNeeded("--enable-garbage-collector is false".to_owned()));
    }
    let workers = usize::try_from(config.concurrent_gc_syncs).unwrap_or(1);
    let (deletions, orphanings) = (
        tasks.queue("garbage_collector_attempt_to_delete"),
        tasks.queue("garbage_collector_attempt_to_orphan"),
    );
    let server = live::Live::new(cx.clone());
    let (catalog, followed) = (server.catalog(), server.followed());
    let collector = Arc::new(Collector::new(server, deletions.clone(), orphanings.clone()));
    let monitors = Arc::new(Monitors::new(cx.clone(), collector.clone(), catalog, followed));

    cx.debug.offer(NAME, {
        let collector = collector.clone();
        move |page, query| {
            let uids: Vec<Uid> = query("uid").iter().map(|uid| uid.as_str().into()).collect();
            let body = (page == "graph").then(|| collector.look(|graph| dot::dot(graph, &uids)))?;
            Some(DebugPage { content_type: "text/vnd.graphviz", body })
        }
    });
    // The first look at discovery and the first lists are done on standby already.
    tasks.prepare({
        let monitors = monitors.clone();
        async move { monitors.first().await }
    });
    tasks.spawn("discovery", async move { monitors.follow().await });
    tasks.workers(&deletions, workers, Arc::new(Delete(collector.clone())));
    tasks.workers(&orphanings, workers, Arc::new(Orphan(collector)));
    Ok(())
}
