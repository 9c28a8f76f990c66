//! Deletes objects that have lost all their owners, and completes foreground deletion and orphaning of owners.
//!
//! - **Promise**: an object whose owners are all gone is deleted. In foreground deletion, an owner is deleted after the
//!   dependents that block it; with the propagation policy `Orphan`, after their references to it are removed. No object
//!   with an owner that exists is ever deleted, however stale the caches are: the absence of an owner is confirmed by
//!   the server or, if it no longer serves the owner's kind, was seen by a cache; and a deletion requires the version
//!   that was judged or, for an object that changes all the time, unchanged owners.
//! - **Watches** the metadata of every resource that can be listed, watched and deleted, custom ones included;
//!   discovery is repeated every 30 seconds, and soon after a CustomResourceDefinition has changed.
//!   **Writes**: deletes objects, removes owner references, and the finalizers `foregroundDeletion` and `orphan`.
//! - Upstream: `pkg/controller/garbagecollector`. What differs: changes are applied to the graph at once, without a
//!   queue between; a deletion that a cache reports is confirmed by a live read, too, while that is possible; an object
//!   is judged as the cache has it and deleted in that version only, which saves a read; an object that needs a kind that
//!   is not served waits until it is, without retries; once one owner is known to exist, the others that a cache shows are
//!   not read; orphaning waits for one round of discovery if definitions have changed just before, so that no dependent is
//!   missed; when the preferred version of a kind changes, its objects are watched in the old one until the cache of the
//!   new one is complete.
//!
//! In reading order: [`identity`] is what a reference points to; [`graph`] holds owners and dependents and is the trigger;
//! [`examination`] says what to find out about an object, [`plan`] judges it, [`orphaning`] has the order in which its dependents
//! are orphaned; [`sync`] observes, plans and executes; [`catalog`] and `monitors` watch the resources that the server serves.
//!
//! Besides [`sync`], these are async: `owners` and [`absent`] read owners from the server, `act` executes plans, [`server`] is the
//! trait through which all of them reach the server (`live` implements it; tests replace it), and `monitors` decides
//! which informers run, after each round of discovery (`common::discovery`).

pub mod absent;
mod act;
pub mod catalog;
pub mod dot;
pub mod examination;
pub mod graph;
pub mod identity;
pub mod invariants;
mod live;
mod monitors;
pub mod orphaning;
mod owners;
pub mod patches;
pub mod plan;
pub mod server;
pub mod sync;
#[cfg(test)]
mod tests;
pub mod unserved;

use std::sync::Arc;

use flyball_api::Uid;
use flyball_common::discovery::Rounds;
use flyball_runtime::{Context, DebugPage, StartError, Tasks};

use monitors::Monitors;
use sync::{Collector, Delete, Orphan};

/// The name under which the controller runs and records events.
pub const NAME: &str = "garbage-collector-controller";

/// On an owner that waits for its dependents to be deleted.
pub const FOREGROUND: &str = "foregroundDeletion";
/// On an owner whose dependents are to be orphaned.
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
    let rounds = Arc::new(Rounds::new(&cx.client));
    let server = live::Live::new(cx.clone(), rounds.coverage());
    let catalog = server.catalog();
    let collector = Arc::new(Collector::new(server, deletions.clone(), orphanings.clone()));
    let monitors = Arc::new(Monitors::new(cx.clone(), collector.clone(), catalog, rounds.coverage()));

    cx.debug.offer(NAME, &collector, |collector, page, query| {
        let uids: Vec<Uid> = query("uid").iter().map(|uid| uid.as_str().into()).collect();
        let body = (page == "graph").then(|| collector.read_graph(|graph| dot::dot(graph, &uids)))?;
        Some(DebugPage { content_type: "text/vnd.graphviz", body })
    });
    // The first discovery and the first lists are done on standby already.
    tasks.prepare({
        let (rounds, monitors) = (rounds.clone(), monitors.clone());
        async move {
            // If it fails, what is not known yet waits for the next one.
            let _ = rounds.once(&*monitors).await;
        }
    });
    tasks.spawn("discovery", async move { rounds.repeat(&*monitors).await });
    tasks.workers(&deletions, workers, Arc::new(Delete(collector.clone())));
    tasks.workers(&orphanings, workers, Arc::new(Orphan(collector)));
    Ok(())
}
