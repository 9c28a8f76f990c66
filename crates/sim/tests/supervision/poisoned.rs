//! One object whose sync always panics among a thousand others, for an hour.

use std::sync::Arc;
use std::time::Duration;

use flyball_api::{ConfigMap, Key, Pod, ReplicaSet};
use flyball_client::{ListParams, Patch};
use flyball_manager::table::Controller;
use flyball_runtime::{Context, Next, Place, Reconcile, StartError, SyncError, Tasks};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::controller;
use crate::stage::{Diary, Stage, until};

const HEALTHY: usize = 1000;
const HOUR: Duration = Duration::from_secs(3600);
/// How long a sync takes.
const SYNC: Duration = Duration::from_millis(100);

/// The delays of a panicking key in seconds, up to an hour.
fn quarantines() -> Vec<u64> {
    let mut waits: Vec<u64> = (1..=8).map(|power| 1 << power).collect();
    while waits.iter().sum::<u64>() + 300 < HOUR.as_secs() {
        waits.push(300);
    }
    waits
}

/// The times between its syncs.
fn gaps(times: &[Instant]) -> Vec<Duration> {
    times.windows(2).map(|pair| pair[1].duration_since(pair[0])).collect()
}

/// Finished syncs: key and time.
static DONE: Mutex<Vec<(String, Instant)>> = Mutex::new(vec![]);

/// Slow, and panics at the end if the object is the poisoned one.
struct Thorough;

impl Reconcile for Thorough {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        tokio::time::sleep(SYNC).await;
        assert_ne!(key.name, "poison", "cannot stomach this");
        DONE.lock().push((key.name.to_string(), Instant::now()));
        Ok(Next::Settled)
    }
}

fn start(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let (queue, maps) = (tasks.queue("test"), cx.informer::<ConfigMap>());
    tasks.feed(&maps, &queue, |change| [change.key()]);
    tasks.workers(&queue, 1, Arc::new(Thorough));
    Ok(())
}

static THOROUGH: Controller = controller("thorough", start);

/// A single worker, so that every other key would be affected.
#[tokio::test(start_paused = true)]
async fn no_other_key_is_delayed_by_more_than_one_sync() -> anyhow::Result<()> {
    let stage = Stage::start(Arc::default(), vec![&THOROUGH], |way| way)?;
    for n in 0..HEALTHY {
        stage.create(&format!("healthy-{n}")).await?;
    }
    // The cluster has objects of its own, too, so one of these need not be the last.
    let seen = || DONE.lock().iter().filter(|(name, _)| name.starts_with("healthy")).count();
    until("all were seen", || seen() == HEALTHY).await;
    tokio::time::sleep(SYNC * 10).await;
    stage.create("poison").await?;
    let began = Instant::now();
    for n in 0..HEALTHY {
        let (name, asked) = (format!("healthy-{n}"), Instant::now());
        stage.touch(&name, n).await?;
        tokio::time::sleep_until(began + HOUR / HEALTHY as u32 * (n as u32 + 1)).await;
        let done =
            DONE.lock().iter().find(|(done, when)| *done == name && *when >= asked).map(|(_, when)| *when);
        let took = done.map(|done| done.duration_since(asked));
        assert!(took.is_some_and(|took| took <= SYNC * 2), "{name} took {took:?}");
    }
    let tries = stage.diary.syncs("thorough", "poison");
    let waits: Vec<u64> = gaps(&tries).into_iter().map(|gap| (gap - SYNC).as_secs()).collect();
    assert_eq!(waits, quarantines());
    assert_eq!(stage.panics("thorough", Place::Sync), tries.len() as u64);
    assert_eq!(seen(), 2 * HEALTHY, "no key was synced without need");
    assert_eq!(stage.diary.set_ups("thorough").len(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn nor_in_a_real_controller() -> anyhow::Result<()> {
    const NAME: &str = "replicaset-controller";
    let diary = Arc::<Diary>::default();
    diary.poison(NAME, Place::Sync, "default/poison", usize::MAX);
    let of_table = flyball_manager::table::CONTROLLERS.iter().find(|row| row.name == NAME);
    let stage = Stage::start(diary, of_table.into_iter().collect(), |way| way)?;
    let client = stage.identities.main();
    let create = async |name: &str| {
        let labels = json!({"app": name});
        let template =
            json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let spec = json!({"replicas": 0, "selector": {"matchLabels": labels}, "template": template});
        client.create::<ReplicaSet>("default", &json!({"metadata": {"name": name}, "spec": spec})).await
    };
    for n in 0..HEALTHY {
        create(&format!("healthy-{n}")).await?;
    }
    create("poison").await?;
    let began = Instant::now();
    for n in 0..HEALTHY {
        let (name, asked) = (format!("healthy-{n}"), Instant::now());
        let grow = Patch::Merge(json!({"spec": {"replicas": 1}}));
        client.patch::<ReplicaSet>(&Key::new("default", name.as_str()), None, &grow).await?;
        tokio::time::sleep_until(began + HOUR / HEALTHY as u32 * (n as u32 + 1)).await;
        let syncs = stage.diary.syncs(NAME, &name);
        let waited = syncs.into_iter().find(|sync| *sync >= asked).map(|sync| sync.duration_since(asked));
        assert!(waited.is_some_and(|waited| waited <= SYNC), "{name} waited {waited:?}");
    }
    let pods = client.list::<Pod>(Some("default"), &ListParams::default()).await?.items;
    assert_eq!(pods.len(), HEALTHY, "one pod each");
    let waits: Vec<u64> =
        gaps(&stage.diary.syncs(NAME, "poison")).into_iter().map(|gap| gap.as_secs()).collect();
    assert_eq!(waits, quarantines());
    assert_eq!(stage.diary.set_ups(NAME).len(), 1);
    Ok(())
}
