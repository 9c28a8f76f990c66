//! The two promises under faults: nothing with a living owner is deleted, and in the end everything without one is.

use flyball_api::Key;
use flyball_queue::{Priority, Queue};
use flyball_runtime::Retry;
use futures::FutureExt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::world::{KINDS, World};
use crate::gc::identity::Item;
use crate::gc::server::Server;
use crate::gc::sync::Collector;
use crate::gc::{FOREGROUND, ORPHAN};

struct Run {
    collector: Collector<World>,
    deletions: Queue<Item>,
    orphanings: Queue<Item>,
    /// Items that failed and come back later: deletions and orphanings.
    failed: Vec<(Item, bool)>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let (deletions, orphanings) = (Queue::default(), Queue::default());
        let collector = Collector::new(World::new(seed), deletions.clone(), orphanings.clone());
        Self { collector, deletions, orphanings, failed: vec![] }
    }

    fn world(&self) -> &World {
        &self.collector.server
    }

    /// Shows the caches one more change of a kind.
    fn show(&self, kind: usize) -> bool {
        let mut changes = vec![];
        let shown = self.world().with(|state| {
            state.show(kind, &mut |kind, change| {
                changes.push((kind.clone(), change.old.cloned(), change.new.cloned(), change.origin));
            })
        });
        for (kind, old, new, origin) in changes {
            let change = flyball_cache::MetaChange { old: old.as_ref(), new: new.as_ref(), origin };
            self.collector.change(Priority::Change, |graph| graph.observe(&kind, &change));
        }
        shown
    }

    /// Works off one item, if there is one.
    async fn work(&mut self) -> bool {
        let deletion = self.deletions.next().now_or_never().flatten().map(|item| (*item).clone());
        if let Some(item) = deletion {
            let done = self.collector.examine(&item).await;
            self.note(item, false, done.err().is_some_and(|error| error.retry() == Retry::Backoff));
            return true;
        }
        let orphaning = self.orphanings.next().now_or_never().flatten().map(|item| (*item).clone());
        if let Some(item) = orphaning {
            let done = self.collector.orphan(&item).await;
            self.note(item, true, done.err().is_some_and(|error| error.retry() == Retry::Backoff));
            return true;
        }
        false
    }

    fn note(&mut self, item: Item, orphaning: bool, failed: bool) {
        if failed {
            self.failed.push((item, orphaning));
        }
    }

    fn retry(&mut self) {
        for (item, orphaning) in self.failed.drain(..) {
            let queue = if orphaning { &self.orphanings } else { &self.deletions };
            queue.add(item, Priority::Change);
        }
    }
}

/// What is left after everything has calmed down and should not be.
fn leftovers(world: &World) -> Vec<String> {
    world.with(|state| {
        let mut left = vec![];
        let blocks = |owner: &flyball_api::ObjectMeta| {
            state.objects().any(|(_, object)| {
                object
                    .owner_references
                    .iter()
                    .any(|r| r.uid == owner.uid && r.block_owner_deletion == Some(true))
            })
        };
        for (kind, meta) in state.objects() {
            let key: Key = meta.key();
            let mut owners = meta.owner_references.iter();
            // A cluster-scoped object with a namespaced owner is nobody's to judge.
            let judged = meta.owner_references.iter().all(|r| kind != "Global" || r.kind == "Global");
            if !meta.is_deleting()
                && judged
                && !meta.owner_references.is_empty()
                && owners.all(|reference| state.owner(&meta.namespace, reference).is_none())
            {
                left.push(format!("{kind} {key} has no owner left"));
            }
            if meta.is_deleting() && meta.has_finalizer(ORPHAN) {
                left.push(format!("{kind} {key} has orphans to free"));
            }
            if meta.is_deleting() && meta.has_finalizer(FOREGROUND) && !blocks(meta) {
                left.push(format!("{kind} {key} waits for nobody"));
            }
        }
        left
    })
}

async fn run(seed: u64) {
    let mut run = Run::new(seed);
    let mut rng = StdRng::seed_from_u64(seed ^ 0x5eed);
    for _ in 0..400 {
        match rng.random_range(0..10) {
            0..=2 => run.world().with(|state| state.meddle()),
            3..=6 => {
                run.show(rng.random_range(0..KINDS.len()));
            }
            7 if rng.random_ratio(1, 4) => run.retry(),
            _ => {
                run.work().await;
            }
        }
    }
    // The faults stop, and all must come to rest.
    run.world().with(|state| state.faults = false);
    for _ in 0..40 {
        for kind in 0..KINDS.len() {
            while run.show(kind) {}
        }
        run.retry();
        // Also what waits for its time.
        tokio::time::sleep(std::time::Duration::from_secs(2000)).await;
        let mut worked = 0;
        while worked < 1000 && run.work().await {
            worked += 1;
        }
        if worked == 0 {
            break;
        }
    }
    let broken = run.world().with(|state| state.broken.clone());
    assert_eq!(broken, Vec::<String>::new(), "seed {seed}");
    assert_eq!(leftovers(run.world()), Vec::<String>::new(), "seed {seed}");
    assert!(run.world().resource("v1", "Nothing").is_none());
}

/// Rerun one seed with `FLYBALL_SEED=7 cargo test -p flyball-lifecycle nothing_with_a_living_owner`.
#[test]
fn nothing_with_a_living_owner_is_deleted_and_all_without_one_is() {
    let seeds = match std::env::var("FLYBALL_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..1000,
    };
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(run(seed));
    }
}
