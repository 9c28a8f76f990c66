use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use flyball_api::Timestamp;
use flyball_client::{Body, Client, ClientOptions, Fence, FenceClock, Transport, TransportError};
use flyball_runtime::metrics::Metrics;
use futures::future::BoxFuture;
use futures::stream;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use parking_lot::Mutex;
use proptest::prelude::{prop_assert, proptest};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::*;

fn settings(identity: &str) -> Settings {
    Settings::new(&LeaderElection::default(), identity.to_owned())
}

fn time() -> Timestamp {
    "2026-01-02T03:04:05.123456789Z".parse().unwrap()
}

fn record(holder: &str, transitions: i64) -> Record {
    let acquired = "2026-01-01T00:00:00.5Z".parse().ok();
    Record {
        holder: holder.to_owned(),
        duration_seconds: 15,
        acquired,
        renewed: acquired,
        transitions,
        ..Record::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_respects_other_holders_and_renews_an_own_lease() {
    #[rustfmt::skip]
    let table = [
        // case                                      holder     seen for  action    transitions  acquired now
        ("it does not exist",                        None,             0, "create",           0,  true),
        ("ours",                                     Some("me"),       1, "renew",            3,  false),
        ("ours, though by our clock it has run out", Some("me"),      60, "renew",            3,  false),
        ("another's",                                Some("you"),      1, "wait",             0,  false),
        ("another's, about to run out",              Some("you"),     14, "wait",             0,  false),
        ("another's, run out",                       Some("you"),     15, "take",             4,  true),
        ("given back",                               Some(""),         0, "take",             4,  true),
    ];
    for (case, holder, age, want, transitions, acquired) in table {
        let start = Instant::now();
        let seen = holder.map(|holder| Observation { record: record(holder, 3), since: start });
        let action = step(&settings("me"), seen.as_ref(), start + Duration::from_secs(age), time());
        let (name, written) = match action {
            Action::Create(record) => ("create", Some(record)),
            Action::Renew(record) => ("renew", Some(record)),
            Action::Take(record) => ("take", Some(record)),
            Action::Wait => ("wait", None),
            Action::EndTerm => ("end term", None),
        };
        assert_eq!(name, want, "{case}");
        let Some(written) = written else { continue };
        assert_eq!(written.holder, "me", "{case}");
        assert_eq!(written.transitions, transitions, "{case}");
        assert_eq!(written.acquired == written.renewed, acquired, "{case}");
        assert_eq!(written.to_spec()["renewTime"], "2026-01-02T03:04:05.123456Z", "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_coordinated_step_only_renews_what_the_server_assigned() {
    let settings = Settings { coordinated: true, ..settings("me") };
    let strategy = || "OldestEmulationVersion".to_owned();
    let (start, ours) = (Instant::now(), Record { strategy: strategy(), ..record("me", 3) });
    let leaving = Record { preferred_holder: "you".to_owned(), ..ours.clone() };
    #[rustfmt::skip]
    let table = [
        // case                    lease                     seen for  renews
        ("it does not exist",      None,                            0, Err(Action::Wait)),
        ("ours",                   Some(ours.clone()),              1, Ok(3)),
        ("ours, run out",          Some(ours),                     15, Err(Action::Wait)),
        ("ours, to be another's",  Some(leaving),                   1, Err(Action::EndTerm)),
        ("another's, run out",     Some(record("you", 3)),         60, Err(Action::Wait)),
        ("given back",             Some(record("", 3)),             0, Err(Action::Wait)),
    ];
    for (case, lease, age, want) in table {
        let seen = lease.map(|record| Observation { record, since: start });
        let renewed = match step(&settings, seen.as_ref(), start + Duration::from_secs(age), time()) {
            Action::Renew(record) => {
                assert_eq!(record.to_spec()["strategy"], strategy(), "{case}");
                Ok(record.transitions)
            }
            other => Err(other),
        };
        assert_eq!(renewed, want, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_change_of_the_record_extends_the_lease() {
    let start = Instant::now();
    let mut seen = None;
    Observation::note(&mut seen, record("you", 1), start);
    Observation::note(&mut seen, record("you", 1), start + Duration::from_secs(10));
    assert!(!seen.as_ref().unwrap().is_valid(start + Duration::from_secs(15)));
    let renewed = Record { renewed: Some(time()), ..record("you", 1) };
    Observation::note(&mut seen, renewed, start + Duration::from_secs(10));
    assert!(seen.as_ref().unwrap().is_valid(start + Duration::from_secs(24)));
}

#[test]
fn a_lease_is_read_and_written_as_client_go_does() {
    // As the v1.36.4 binary wrote it.
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system", "resourceVersion": "233",
            "labels": {"kept": "yes"}, "managedFields": [{"manager": "kube-controller-manager"}]},
        "spec": {"acquireTime": "2026-11-15T21:59:15.855802Z", "holderIdentity": "vm_27867aef",
            "leaseDurationSeconds": 15, "leaseTransitions": 0, "renewTime": "2026-11-15T21:59:43.939672Z"},
    });
    let record = Record::of_lease(&lease);
    assert_eq!(record.to_spec(), lease["spec"]);
    let written = record.in_lease(&lease);
    assert_eq!(written["metadata"]["labels"]["kept"], "yes");
    assert_eq!(written["metadata"]["resourceVersion"], "233");
    assert!(written["metadata"].get("managedFields").is_none());
    for odd in [json!({}), json!({"spec": {"holderIdentity": 7, "acquireTime": "yesterday"}}), json!(null)] {
        assert_eq!(Record::of_lease(&odd), Record::default());
    }
}

#[test]
fn timings_that_cannot_work_are_refused() {
    #[rustfmt::skip]
    let table: &[(f64, f64, f64, &str)] = &[
        // lease renew retry  problem
        (15.0, 10.0, 2.0,  ""),
        (10.0, 10.0, 2.0,  "--leader-elect-lease-duration (10s) must be longer than --leader-elect-renew-deadline (10s)"),
        (15.0, 2.0,  2.0,  "--leader-elect-renew-deadline (2s) must be longer than 1.2 times --leader-elect-retry-period (2s)"),
        (15.0, 10.0, 0.0,  "--leader-elect-retry-period must be greater than zero"),
        // Upstream accepts these two, too; `validity` keeps them safe.
        (10.9, 10.5, 2.0,  ""),
        (1.9,  1.5,  1.0,  ""),
        (0.9,  0.5,  0.2,  "--leader-elect-lease-duration must be at least one second"),
    ];
    for (lease, renew, retry, want) in table {
        let config = LeaderElection {
            lease_duration: Duration::from_secs_f64(*lease),
            renew_deadline: Duration::from_secs_f64(*renew),
            retry_period: Duration::from_secs_f64(*retry),
            ..LeaderElection::default()
        };
        assert_eq!(problems(&config).join("; "), *want);
        assert!(problems(&LeaderElection { leader_elect: false, ..config }).is_empty());
    }
    let config = LeaderElection {
        resource_lock: "endpoints".to_owned(),
        resource_name: String::new(),
        ..Default::default()
    };
    assert_eq!(problems(&config).len(), 2);
}

proptest! {
    /// Another process takes the lease after the duration that it records, in whole seconds.
    #[test]
    fn a_leader_never_writes_for_as_long_as_its_lease_records(lease in 1000_u64..100_000, renew in 1_u64..100_000) {
        let config = LeaderElection {
            lease_duration: Duration::from_millis(lease),
            renew_deadline: Duration::from_millis(renew.min(lease - 1)),
            ..LeaderElection::default()
        };
        let settings = Settings::new(&config, "me".to_owned());
        let Action::Create(record) = step(&settings, None, Instant::now(), Timestamp::UNIX_EPOCH) else {
            panic!("there is no lease yet")
        };
        prop_assert!(settings.validity() < record.duration(), "{:?} of {:?}", settings.validity(), record.duration());
        let shortest = settings.renew_deadline.min(record.duration() * 9 / 10);
        prop_assert!(settings.validity() >= shortest, "it may write while it renews, if there is room");
    }
}

/// A server with one lease and optimistic locking, which can be disconnected.
#[derive(Default)]
struct OneLease {
    lease: Mutex<Option<Value>>,
    version: AtomicU64,
    unplugged: AtomicBool,
    unwatchable: AtomicBool,
    writes: AtomicU64,
    requests: AtomicU64,
    changed: tokio::sync::watch::Sender<u64>,
}

impl OneLease {
    fn answer(&self, request: &http::Request<Bytes>) -> (u16, Value) {
        let failure =
            |code: u16, reason: &str| (code, json!({"kind": "Status", "reason": reason, "code": code}));
        let mut lease = self.lease.lock();
        if request.method() == http::Method::GET {
            return lease.clone().map_or_else(|| failure(404, "NotFound"), |lease| (200, lease));
        }
        let mut body: Value = serde_json::from_slice(request.body()).unwrap();
        match (&*lease, request.method().as_str()) {
            (Some(_), "POST") => return failure(409, "AlreadyExists"),
            (None, "PUT") => return failure(404, "NotFound"),
            (Some(old), "PUT")
                if old["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] =>
            {
                return failure(409, "Conflict");
            }
            _ => {}
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
        let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        body["metadata"]["resourceVersion"] = version.to_string().into();
        *lease = Some(body.clone());
        self.changed.send_replace(version);
        (200, body)
    }

    /// Every change after version `from`, one line each.
    fn watch(self: Arc<Self>, from: u64) -> Body {
        let changes = stream::unfold(
            (self.clone(), self.changed.subscribe(), from),
            async |(server, mut changed, from)| {
                let version = *changed.wait_for(|version| *version > from).await.ok()?;
                let (kind, object) = match &*server.lease.lock() {
                    Some(lease) => ("MODIFIED", lease.clone()),
                    None => ("DELETED", record("", 0).new_lease("kube-system", "kube-controller-manager")),
                };
                let line = json!({"type": kind, "object": object}).to_string() + "\n";
                Some((Ok(Frame::data(Bytes::from(line))), (server, changed, version)))
            },
        );
        StreamBody::new(changes).boxed_unsync()
    }

    /// The lease is what it was at an earlier time, with the version that it had. Watches show nothing.
    fn restore(&self, mut lease: Value) {
        lease["metadata"]["resourceVersion"] = "50".into();
        *self.lease.lock() = Some(lease);
        self.version.store(50, Ordering::Relaxed);
    }

    /// Another client writes or deletes the lease.
    fn meddle(&self, lease: Option<Value>) {
        let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        *self.lease.lock() = lease.map(|mut lease| {
            lease["metadata"]["resourceVersion"] = version.to_string().into();
            lease
        });
        self.changed.send_replace(version);
    }
}

struct Wire(Arc<OneLease>);

impl Transport for Wire {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let server = self.0.clone();
        Box::pin(async move {
            if server.unplugged.load(Ordering::Relaxed) {
                return Err(TransportError::NotSent("unplugged".into()));
            }
            server.requests.fetch_add(1, Ordering::Relaxed);
            let query = request.uri().query().unwrap_or_default().to_owned();
            if query.contains("watch=") {
                let watchable = !server.unwatchable.load(Ordering::Relaxed);
                let from = query.split('&').find_map(|part| part.strip_prefix("resourceVersion="));
                let from = from.and_then(|version| version.parse().ok()).unwrap_or_default();
                assert!(query.contains("metadata.name%3Dkube-controller-manager"), "{query}");
                let (code, body) = match watchable {
                    true => (200, server.watch(from)),
                    false => (403, Full::from("{}").map_err(|never| match never {}).boxed_unsync()),
                };
                return Ok(http::Response::builder().status(code).body(body).unwrap());
            }
            let (code, body) = server.answer(&request);
            let body = Full::from(body.to_string()).map_err(|never| match never {}).boxed_unsync();
            Ok(http::Response::builder().status(code).body(body).unwrap())
        })
    }
}

fn elector(server: &Arc<OneLease>, identity: &str) -> Elector {
    measured(server, identity, Metrics::default())
}

fn measured(server: &Arc<OneLease>, identity: &str, metrics: Metrics) -> Elector {
    let options = ClientOptions::default().within(Duration::from_secs(5));
    let client = Client::new(Arc::new(Wire(server.clone())), options);
    let (origin, epoch) = (Instant::now(), time());
    Elector::new(settings(identity), client, metrics, move || epoch + origin.elapsed()).with_random(|| 0.5)
}

fn holder(server: &OneLease) -> String {
    server.lease.lock().as_ref().map(|lease| Record::of_lease(lease).holder).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_leads_and_renews_every_retry_period() {
    let server = Arc::new(OneLease::default());
    let events = Arc::new(Mutex::new(vec![]));
    let recorded = events.clone();
    let mut elector = elector(&server, "me").on_event(move |_, text| recorded.lock().push(text));
    elector.acquire().await;
    assert_eq!(holder(&server), "me");
    assert!(timeout(Duration::from_secs(21), elector.renew()).await.is_err(), "nothing is lost");
    assert_eq!(server.writes.load(Ordering::Relaxed), 1 + 11);
    assert_eq!(*events.lock(), ["me became leader"]);
    assert_eq!(elector.health().check(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_as_soon_as_the_lease_it_watches_runs_out() {
    let server = Arc::new(OneLease::default());
    let mut leader = elector(&server, "dead");
    leader.acquire().await;
    let calls = Arc::new(Mutex::new(vec![]));
    let vacancies = calls.clone();
    let mut standby = elector(&server, "me").on_vacancy(move |since| vacancies.lock().push(since));
    let taken = tokio::spawn(async move {
        let free_since = standby.acquire().await;
        (Instant::now(), free_since)
    });
    // It renews for some time, and crashes a second after the last renewal.
    assert!(timeout(Duration::from_secs(61), leader.renew()).await.is_err());
    let renewed = Instant::now() - Duration::from_secs(1);
    let (requests, (taken, free_since)) = (server.requests.load(Ordering::Relaxed), taken.await.unwrap());
    assert_eq!(holder(&server), "me");
    let waited = taken - renewed;
    assert!(waited >= Duration::from_secs(15) && waited < Duration::from_millis(15_020), "{waited:?}");
    assert_eq!(server.lease.lock().as_ref().unwrap()["spec"]["leaseTransitions"], 1);
    assert_eq!(
        server.requests.load(Ordering::Relaxed) - requests,
        1,
        "it neither polls nor looks before it writes"
    );
    // After the middle between renew deadline and lease duration, the crashed leader cannot have written.
    let vacant = free_since - renewed;
    assert!(vacant >= Duration::from_millis(12_500) && vacant < Duration::from_millis(12_600), "{vacant:?}");
    assert_eq!(*calls.lock(), [free_since]);
}

#[tokio::test(start_paused = true)]
async fn a_holder_with_another_lease_duration_may_have_written_until_its_lease_is_taken() {
    #[rustfmt::skip]
    let table = [
        // its lease  vacant at  taken at  free since
        (15,             12.5,       15.0,      12.5),
        (60,             50.0,       60.0,      60.0),
        (6,               5.0,        6.0,       6.0),
    ];
    for (duration_seconds, vacant, taken, free) in table {
        let server = Arc::new(OneLease::default());
        let lease = Record { duration_seconds, ..record("other", 1) };
        server.meddle(Some(lease.new_lease("kube-system", "kube-controller-manager")));
        let (start, calls) = (Instant::now(), Arc::new(Mutex::new(vec![])));
        let vacancies = calls.clone();
        let mut standby = elector(&server, "me").on_vacancy(move |since| vacancies.lock().push(since));
        let free_since = standby.acquire().await;
        let is_at = |time: Instant, seconds: f64| ((time - start).as_secs_f64() - seconds).abs() < 0.1;
        assert!(
            is_at(Instant::now(), taken) && is_at(free_since, free),
            "{duration_seconds}: {free_since:?}"
        );
        assert!(matches!(&calls.lock()[..], [since] if is_at(*since, vacant)), "caches are updated early");
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_may_not_watch_takes_over_within_the_retry_period_of_upstream() {
    let server = Arc::new(OneLease { unwatchable: true.into(), ..OneLease::default() });
    let mut leader = elector(&server, "dead");
    leader.acquire().await;
    let mut standby = elector(&server, "me");
    let taken = tokio::spawn(async move {
        standby.acquire().await;
        Instant::now()
    });
    assert!(timeout(Duration::from_secs(61), leader.renew()).await.is_err());
    let renewed = Instant::now() - Duration::from_secs(1);
    let waited = taken.await.unwrap() - renewed;
    // It counts from when it read the lease, which is up to a retry period with its jitter later.
    assert!(waited >= Duration::from_secs(15) && waited < Duration::from_millis(18_300), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_standby_acts_at_once_when_the_lease_is_released() {
    let server = Arc::new(OneLease::default());
    let mut leader = elector(&server, "old");
    leader.acquire().await;
    let mut standby = elector(&server, "me");
    let taken = tokio::spawn(async move { standby.acquire().await });
    tokio::time::sleep(Duration::from_secs(3)).await;
    let start = Instant::now();
    leader.release().await.unwrap();
    let free_since = taken.await.unwrap();
    assert_eq!(holder(&server), "me");
    assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
    assert!(free_since >= start, "until then the other may have written");
}

/// The leader does not know yet, and writes: until its next renewal, which may be long in coming.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_deleted_or_restored_is_not_taken_before_its_holder_has_stopped() {
    let before = record("", 0).new_lease("kube-system", "kube-controller-manager");
    for (case, left) in [("deleted", None), ("restored to a time without a leader", Some(before))] {
        let server = Arc::new(OneLease::default());
        // Versions of the time before are lower.
        server.version.store(100, Ordering::Relaxed);
        let mut leader = elector(&server, "old");
        leader.acquire().await;
        let acquired = Instant::now();
        let mut standby = elector(&server, "me");
        let taken = tokio::spawn(async move { standby.acquire().await });
        tokio::time::sleep(Duration::from_secs(3)).await;
        match left {
            None => server.meddle(None),
            Some(lease) => server.restore(lease),
        }
        let free_since = taken.await.unwrap();
        assert_eq!(holder(&server), "me", "{case}");
        let waited = acquired.elapsed();
        assert!(
            (Duration::from_secs(15)..Duration::from_millis(15_100)).contains(&waited),
            "{case}: {waited:?}"
        );
        assert!(free_since >= acquired + Duration::from_secs(15), "{case}");
        let lost = timeout(Duration::from_secs(11), leader.renew()).await.expect("it has lost the lease");
        assert!(matches!(lost, Lost::Taken { .. } | Lost::RanOut { .. }), "{case}: {lost:?}");
    }
}

/// A released lease has a duration of a second, which is over long before the last holder has stopped.
#[tokio::test(start_paused = true)]
async fn a_standby_does_not_ask_all_the_time_for_a_lease_that_it_must_not_take_yet() {
    let server = Arc::new(OneLease { unwatchable: true.into(), ..OneLease::default() });
    server.version.store(100, Ordering::Relaxed);
    elector(&server, "old").acquire().await;
    let mut standby = elector(&server, "me");
    let taken = tokio::spawn(async move { standby.acquire().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let released = Record { duration_seconds: 1, ..record("", 0) };
    server.restore(released.new_lease("kube-system", "kube-controller-manager"));
    taken.await.unwrap();
    assert_eq!(holder(&server), "me");
    let requests = server.requests.load(Ordering::Relaxed);
    assert!(requests < 20, "{requests} requests");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_deleted_makes_it_again_and_goes_on() {
    let server = Arc::new(OneLease::default());
    let mut leader = elector(&server, "old");
    leader.acquire().await;
    let mut standby = elector(&server, "me");
    let taken = tokio::spawn(async move { standby.acquire().await });
    let leads = tokio::spawn(async move { leader.renew().await });
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.meddle(None);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(holder(&server), "old");
    assert!(!taken.is_finished() && !leads.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_stopped_past_its_lease_writes_nothing_and_ends() {
    let server = Arc::new(OneLease::default());
    let fence = Fence::new(FenceClock::Tokio(Instant::now()));
    let mut leader = elector(&server, "me").with_fence(fence.clone());
    assert!(fence.is_open(), "before its first lease nothing is known");
    leader.acquire().await;
    assert!(timeout(Duration::from_secs(30), leader.renew()).await.is_err());
    assert!(fence.is_open(), "it was renewed all the time");
    let writes = server.writes.load(Ordering::Relaxed);
    // Stopped: the elector's timers do not run.
    tokio::time::sleep(Duration::from_millis(12_501)).await;
    assert!(!fence.is_open());
    let lost = leader.renew().await;
    assert!(matches!(lost, Lost::RanOut { refused: 0, .. }), "{lost}");
    assert_eq!(server.writes.load(Ordering::Relaxed), writes, "the lease is not touched");
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_ends_the_leadership_and_is_counted() {
    let server = Arc::new(OneLease::default());
    let fence = Fence::new(FenceClock::Tokio(Instant::now()));
    let metrics = Metrics::default();
    let mut leader = measured(&server, "me", metrics.clone()).with_fence(fence.clone());
    leader.acquire().await;
    let series = "flyball_writes_refused_total{lease=\"kube-controller-manager\"} ";
    assert!(metrics.text().contains(&format!("{series}0\n")));
    let writer = tokio::spawn({
        let fence = fence.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(500)).await;
            fence.close();
            fence.check()
        }
    });
    let start = Instant::now();
    let lost = leader.renew().await;
    assert!(writer.await.unwrap().is_err());
    assert!(matches!(lost, Lost::RanOut { refused: 1, .. }), "{lost}");
    assert!(start.elapsed() < Duration::from_secs(1), "at once");
    assert!(metrics.text().contains(&format!("{series}1\n")));
}

/// Requests that are answered late: its renew deadline would end after the time for which the lease allows writes.
#[tokio::test(start_paused = true)]
async fn a_leader_without_work_ends_when_it_could_not_write_any_more() {
    let server = Arc::new(OneLease::default());
    let fence = Fence::new(FenceClock::Tokio(Instant::now()));
    let mut leader = elector(&server, "me").with_fence(fence.clone());
    leader.acquire().await;
    fence.hold_until(fence.now() + Duration::from_secs(5));
    server.unplugged.store(true, Ordering::Relaxed);
    let start = Instant::now();
    let lost = leader.renew().await;
    assert!(matches!(lost, Lost::RanOut { refused: 0, .. }), "{lost}");
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_leader_gives_up_at_the_renew_deadline_before_the_standby_may_act() {
    let server = Arc::new(OneLease::default());
    let mut leader = elector(&server, "me");
    leader.acquire().await;
    let start = Instant::now();
    server.unplugged.store(true, Ordering::Relaxed);
    let lost = leader.renew().await;
    let waited = start.elapsed();
    assert!(waited >= Duration::from_secs(10) && waited < Duration::from_secs(15), "{waited:?}");
    assert!(
        matches!(&lost, Lost::Late { lease, .. } if lease == "kube-system/kube-controller-manager"),
        "{lost}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_finds_another_holder_stops_at_once() {
    let server = Arc::new(OneLease::default());
    let mut leader = elector(&server, "me");
    leader.acquire().await;
    server.meddle(Some(record("you", 9).new_lease("kube-system", "kube-controller-manager")));
    let start = Instant::now();
    let lost = leader.renew().await;
    assert!(matches!(&lost, Lost::Taken { holder, .. } if holder == "you"), "{lost}");
    assert!(start.elapsed() < Duration::from_secs(1), "at once, not after the renew deadline");
    assert_eq!(holder(&server), "you", "the other's lease is left alone");
}

#[tokio::test(start_paused = true)]
async fn a_short_disconnection_costs_only_another_read() {
    let server = Arc::new(OneLease::default());
    let mut leader = elector(&server, "me");
    leader.acquire().await;
    let plug = server.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        plug.unplugged.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(5)).await;
        plug.unplugged.store(false, Ordering::Relaxed);
    });
    assert!(timeout(Duration::from_secs(60), leader.renew()).await.is_err(), "it must still lead");
    assert_eq!(server.lease.lock().as_ref().unwrap()["spec"]["leaseTransitions"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_the_next_attempt() {
    let server = Arc::new(OneLease::default());
    let mut leader = elector(&server, "old");
    leader.acquire().await;
    leader.release().await.unwrap();
    assert_eq!(holder(&server), "");
    assert_eq!(server.lease.lock().as_ref().unwrap()["spec"]["leaseDurationSeconds"], 1);
    let mut standby = elector(&server, "new");
    timeout(Duration::from_secs(1), standby.acquire()).await.unwrap();
    leader.release().await.unwrap();
    assert_eq!(holder(&server), "new", "only what is ours is released");
}

#[tokio::test(start_paused = true)]
async fn a_stuck_leader_is_reported_unhealthy_and_a_standby_never() {
    let server = Arc::new(OneLease::default());
    let mut leader = elector(&server, "me");
    leader.acquire().await;
    let health = leader.health();
    tokio::time::sleep(Duration::from_secs(35)).await;
    assert_eq!(health.check(), Ok(()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(health.check().unwrap_err().contains("kube-controller-manager"));
    assert_eq!(elector(&server, "standby").health().check(), Ok(()));
}

#[test]
fn identities_are_a_hostname_and_a_uuid() {
    let first = identity();
    let (host, id) = first.rsplit_once('_').unwrap();
    assert!(!host.is_empty());
    assert!(uuid::Uuid::parse_str(id).is_ok(), "{first}");
    assert_ne!(first, identity());
}
