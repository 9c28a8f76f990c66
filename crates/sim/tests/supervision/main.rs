//! The effects of a panic: in a sync only its key is delayed, anywhere else its controller is set up again. Other controllers
//! are not affected, `/healthz` and the metrics show the panic, and nothing is written twice.

mod lag;
mod poisoned;
mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flyball_api::{ConfigMap, Key, Pod, ReplicaSet};
use flyball_client::ListParams;
use flyball_manager::access::{Rule, watch};
use flyball_manager::table::{Controller, Pace};
use flyball_runtime::{Context, Next, Place, Reconcile, Start, StartError, SyncError, Tasks, Write};
use serde_json::json;
use tokio::time::Instant;

use lag::Lagging;
use stage::{Diary, GRACE, Stage, until};

struct Looks;

impl Reconcile for Looks {
    async fn sync(&self, _key: &Key) -> Result<Next, SyncError> {
        Ok(Next::Settled)
    }
}

fn start_looking(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let (queue, maps) = (tasks.queue("test"), cx.informer::<ConfigMap>());
    tasks.feed(&maps, &queue, |change| [change.key()]);
    tasks.prepare(std::future::ready(()));
    tasks.spawn("endless loop", std::future::pending());
    tasks.workers(&queue, 2, Arc::new(Looks));
    Ok(())
}

const WATCHES: &[Rule] = &[watch("configmaps")];

pub(crate) const fn controller(name: &'static str, start: Start) -> Controller {
    Controller {
        name,
        aliases: &[],
        identity: None,
        gates: &[],
        on_by_default: true,
        watches: WATCHES,
        reads: &[],
        writes: &[],
        pace: Pace { qps: 1.0, burst: 1 },
        check: |_| Ok(()),
        start: Some(start),
    }
}

static FRAGILE: Controller = controller("fragile", start_looking);
static BYSTANDER: Controller = controller("bystander", start_looking);

/// Both controllers have synced one object.
async fn working(diary: Arc<Diary>) -> anyhow::Result<Stage> {
    let stage = Stage::start(diary, vec![&FRAGILE, &BYSTANDER], |way| way)?;
    stage.create("before").await?;
    stage.diary.has_synced("fragile", "before", 1).await;
    stage.diary.has_synced("bystander", "before", 1).await;
    Ok(stage)
}

/// The fragile controller was set up again after this many panics at one place, was unhealthy and is healthy now; the other
/// one was not affected.
async fn recovers(stage: &Stage, place: Place, panics: usize) -> anyhow::Result<()> {
    until("set up anew", || stage.diary.set_ups("fragile").len() == panics + 1).await;
    assert_eq!(stage.panics("fragile", place), panics as u64);
    assert_eq!(stage.is_well("fragile"), Some(false), "a probe has to see it");
    assert!(stage.remark("fragile").contains(place.as_str()));
    stage.create("after").await?;
    stage.diary.has_synced("fragile", "after", 1).await;
    stage.diary.has_synced("bystander", "after", 1).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(stage.is_well("fragile"), Some(true), "no probe may restart the process over it");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(stage.remark("fragile"), "");
    assert_eq!(stage.diary.set_ups("fragile").len(), panics + 1);
    assert_eq!(stage.diary.set_ups("bystander").len(), 1);
    assert_eq!((stage.is_well("bystander"), stage.remark("bystander").as_str()), (Some(true), ""));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_panics_costs_its_key_a_pause_and_nothing_else() -> anyhow::Result<()> {
    let stage = working(Arc::default()).await?;
    stage.diary.poison("fragile", Place::Sync, "default/poison", 3);
    stage.create("poison").await?;
    stage.diary.has_synced("fragile", "poison", 1).await;
    assert_eq!(stage.metric("flyball_quarantined_keys{name=\"fragile\"}"), 1);
    assert_eq!(
        (stage.is_well("fragile"), stage.remark("fragile").as_str()),
        (Some(true), "1 key in quarantine")
    );

    // Other keys do not wait for it, and a change of the object does not end its delay.
    let asked = Instant::now();
    stage.touch("poison", 1).await?;
    stage.create("after").await?;
    stage.diary.has_synced("fragile", "after", 1).await;
    assert!(asked.elapsed() < Duration::from_secs(1), "it took {:?}", asked.elapsed());
    stage.diary.has_synced("fragile", "poison", 4).await;
    let syncs = stage.diary.syncs("fragile", "poison");
    let pauses: Vec<u64> = syncs.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs()).collect();
    assert_eq!(pauses, [2, 4, 8]);

    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(stage.diary.syncs("fragile", "poison").len(), 4, "it came through");
    assert_eq!(stage.panics("fragile", Place::Sync), 3);
    assert_eq!(stage.metric("flyball_quarantined_keys{name=\"fragile\"}"), 0);
    assert_eq!(stage.remark("fragile"), "");
    assert_eq!((stage.diary.set_ups("fragile").len(), stage.diary.set_ups("bystander").len()), (1, 1));

    // Workers are done with their keys and loops only wait: the grace period is not needed.
    assert!(stage.stop().await? < GRACE);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_panics_at_its_start_is_set_up_anew() -> anyhow::Result<()> {
    let diary = Arc::<Diary>::default();
    diary.poison("fragile", Place::Start, "fragile", 3);
    let stage = Stage::start(diary, vec![&FRAGILE, &BYSTANDER], |way| way)?;
    stage.create("before").await?;
    stage.diary.has_synced("bystander", "before", 1).await;
    assert_eq!(stage.diary.syncs("fragile", "before"), [], "what is half set up does not run");
    assert_eq!(stage.is_well("fragile"), Some(false));
    recovers(&stage, Place::Start, 3).await?;
    let set_ups = stage.diary.set_ups("fragile");
    let pauses: Vec<u64> = set_ups.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_a_trigger_panicked_on_is_not_lost() -> anyhow::Result<()> {
    let stage = working(Arc::default()).await?;
    stage.diary.poison("fragile", Place::Trigger, "default/odd", 1);
    let asked = Instant::now();
    stage.create("odd").await?;
    stage.diary.has_synced("fragile", "odd", 1).await;
    assert!(asked.elapsed() < Duration::from_secs(2), "the first time nothing is gained by waiting");
    recovers(&stage, Place::Trigger, 1).await
}

#[tokio::test(start_paused = true)]
async fn an_object_on_which_a_trigger_always_panics_keeps_no_other_waiting() -> anyhow::Result<()> {
    let stage = working(Arc::default()).await?;
    stage.diary.poison("fragile", Place::Trigger, "default/poison", usize::MAX);
    stage.create("poison").await?;
    let (began, mut failures) = (Instant::now(), 0);
    for n in 0..360 {
        let (name, asked) = (format!("healthy-{n}"), Instant::now());
        stage.touch("poison", n).await?;
        stage.create(&name).await?;
        stage.diary.has_synced("fragile", &name, 1).await;
        assert!(asked.elapsed() < Duration::from_millis(100), "{name} took {:?}", asked.elapsed());
        // A kubelet probes every ten seconds, and restarts after eight failures in a row.
        failures = if stage.is_well("fragile") == Some(true) { 0 } else { failures + 1 };
        assert!(failures < 8, "at {:?}", began.elapsed());
        tokio::time::sleep_until(began + Duration::from_secs(10 * (n as u64 + 1))).await;
    }
    let set_ups = stage.diary.set_ups("fragile").len();
    assert!((15..=22).contains(&set_ups), "set up {set_ups} times in an hour");
    assert!(stage.diary.syncs("fragile", "poison").is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_panics_is_started_again_with_its_controller() -> anyhow::Result<()> {
    let diary = Arc::<Diary>::default();
    diary.poison("fragile", Place::Loop, "endless loop", 2);
    let stage = working(diary).await?;
    recovers(&stage, Place::Loop, 2).await?;
    assert_eq!(stage.diary.times("fragile", Place::Loop, "endless loop").len(), 3);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn without_its_preparation_a_controller_does_not_work() -> anyhow::Result<()> {
    let diary = Arc::<Diary>::default();
    diary.poison("fragile", Place::Preparation, "fragile", 2);
    let stage = Stage::start(diary, vec![&FRAGILE, &BYSTANDER], |way| way)?;
    stage.create("before").await?;
    stage.diary.has_synced("bystander", "before", 1).await;
    recovers(&stage, Place::Preparation, 2).await?;
    let (prepared, synced) =
        (stage.diary.times("fragile", Place::Preparation, "fragile"), stage.diary.syncs("fragile", "before"));
    assert!(
        prepared.len() == 3 && synced.iter().all(|sync| *sync >= prepared[2]),
        "{prepared:?}, {synced:?}"
    );
    Ok(())
}

/// Ends of slow work, so that a test can see whether it was awaited.
static SYNCED: AtomicUsize = AtomicUsize::new(0);
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// A controller whose syncs are slow.
struct TakesTime;

impl Reconcile for TakesTime {
    async fn sync(&self, key: &Key) -> Result<Next, SyncError> {
        if key.name == "slow" {
            tokio::time::sleep(Duration::from_secs(4)).await;
            SYNCED.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Next::Settled)
    }
}

fn start_slow(cx: Arc<Context>, tasks: &mut Tasks) -> Result<(), StartError> {
    let (queue, maps) = (tasks.queue("test"), cx.informer::<ConfigMap>());
    tasks.feed(&maps, &queue, |change| [change.key()]);
    tasks.workers(&queue, 2, Arc::new(TakesTime));
    tasks.spawn("writer", async move {
        let (owner, body) = (Key::new("default", "slow"), json!({"metadata": {"name": "written"}}));
        let write = Write::create::<ConfigMap>(Key::new("default", "written"), body).why("the test wants it");
        let written = cx.executor(&owner).perform([write]).await;
        WRITTEN.fetch_add(usize::from(written.is_ok()), Ordering::Relaxed);
        std::future::pending().await
    });
    Ok(())
}

static SLOW: Controller = controller("slow", start_slow);

#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_waited_for_before_a_controller_is_set_up_anew() -> anyhow::Result<()> {
    let stage = Stage::start_with(
        Arc::default(),
        vec![&SLOW],
        |way| way,
        |way| Arc::new(Lagging { inner: way, lag: Duration::from_secs(3) }),
    )?;
    stage.create("slow").await?;
    stage.diary.has_synced("slow", "slow", 1).await;
    stage.diary.poison("slow", Place::Trigger, "default/odd", 1);
    stage.create("odd").await?;
    until("set up anew", || stage.diary.set_ups("slow").len() == 2).await;
    assert_eq!(SYNCED.load(Ordering::Relaxed), 1, "the sync was cut off");
    assert_eq!(WRITTEN.load(Ordering::Relaxed), 1, "the loop was cut off from the answer to its write");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_set_up_anew_still_waits_for_what_it_wrote() -> anyhow::Result<()> {
    const LAG: Duration = Duration::from_secs(20);
    let of_table = flyball_manager::table::CONTROLLERS.iter().find(|row| row.name == "replicaset-controller");
    let stage = Stage::start(Arc::default(), of_table.into_iter().collect(), |way| {
        Arc::new(Lagging { inner: way, lag: LAG })
    })?;
    let client = stage.identities.main();
    let labels = json!({"app": "a"});
    let set = |name: &str, replicas: u32| {
        json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
    };
    let pods =
        async || anyhow::Ok(client.list::<Pod>(Some("default"), &ListParams::default()).await?.items.len());
    client.create::<ReplicaSet>("default", &set("web", 10)).await?;
    // The caches see this one when the pods of the first have been created and are not visible yet.
    tokio::time::sleep(LAG / 2).await;
    stage.diary.poison("replicaset-controller", Place::Trigger, "default/odd", 1);
    client.create::<ReplicaSet>("default", &set("odd", 0)).await?;
    until("set up anew", || stage.diary.set_ups("replicaset-controller").len() == 2).await;
    assert_eq!(pods().await?, 10);
    tokio::time::sleep(LAG / 4).await;
    assert_eq!(pods().await?, 10, "its cache shows no pod yet, but it knows that it has made them");
    tokio::time::sleep(LAG * 10).await;
    assert_eq!(pods().await?, 10);
    assert!(stage.diary.syncs("replicaset-controller", "web").len() >= 2, "it goes on once it sees them");
    Ok(())
}
