use flyball_api::{Key, PartialObject, ResourceType};
use futures::StreamExt;
use serde_json::json;

use super::*;
use crate::RawObject;
use crate::fake::{Act, Log, fake, ok};
use crate::frames::EventKind;
use crate::request::{DeleteOptions, ListParams, Patch};

const PODS: ResourceType = ResourceType::new("", "v1", "pods", "Pod", true);

fn unlimited() -> ClientOptions {
    ClientOptions { qps: 0.0, ..ClientOptions::default() }
}

fn scripted(acts: Vec<Act>) -> (Client, Log) {
    let (transport, log) = fake(move |_, n| acts.get(n).or(acts.last()).cloned().unwrap_or(Act::Lose));
    (Client::new(transport, unlimited()), log)
}

fn outcome<T>(result: &Result<T, Error>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(Error::Status(_)) => "status",
        Err(Error::OutcomeUnknown { .. }) => "unknown",
        Err(Error::Unreachable { .. }) => "unreachable",
        Err(Error::Credentials { .. }) => "credentials",
        Err(Error::Deadline { .. }) => "deadline",
        Err(Error::Fenced { .. }) => "fenced",
        Err(Error::Outdated { .. }) => "outdated",
        Err(Error::Held { .. }) => "held",
        Err(Error::Decode { .. }) => "decode",
        Err(Error::TooLarge { .. }) => "too large",
        Err(Error::Invalid { .. }) => "invalid",
    }
}

#[tokio::test(start_paused = true)]
async fn every_failure_has_its_outcome_for_reads_and_for_writes() {
    let pod = || ok(r#"{"metadata":{"name":"a"}}"#);
    let gone = || Act::Reply(404, r#"{"kind":"Status","reason":"NotFound","code":404}"#.into());
    #[rustfmt::skip]
    let table = [
        // case                                 the server                                     read           tries secs  write     tries secs
        ("fine",                                 vec![pod()],                                  ("ok",           1,   0), ("ok",      1,   0)),
        ("throttled once",                       vec![Act::RetryAfter(429, 3), pod()],         ("ok",           2,   3), ("ok",      2,   3)),
        ("overloaded once",                      vec![Act::RetryAfter(503, 1), pod()],         ("ok",           2,   1), ("ok",      2,   1)),
        ("throttled without end",                vec![Act::RetryAfter(429, 1)],                ("status",      11,  10), ("status", 11,  10)),
        ("throttled for longer than we sleep",   vec![Act::RetryAfter(429, 61)],               ("status",       1,   0), ("status",  1,   0)),
        ("overloaded, without saying when",      vec![Act::Reply(503, String::new())],         ("status",       1,   0), ("status",  1,   0)),
        ("retry-after on a code that is final",  vec![Act::RetryAfter(404, 1)],                ("status",       1,   0), ("status",  1,   0)),
        ("refused",                              vec![gone()],                                 ("status",       1,   0), ("status",  1,   0)),
        ("connection lost once",                 vec![Act::Lose, pod()],                       ("ok",           2,   1), ("unknown", 1,   0)),
        ("connection lost again and again",      vec![Act::Lose],                              ("unreachable",  4,   3), ("unknown", 1,   0)),
        ("answer cut in the middle",             vec![Act::Cut(200, vec![r#"{"meta"#]), pod()],("ok",           2,   1), ("unknown", 1,   0)),
        ("refusal cut in the middle",            vec![Act::Cut(403, vec!["{"])],               ("status",       1,   0), ("status",  1,   0)),
        ("no answer",                            vec![Act::Hang],                              ("deadline",     1,  32), ("unknown", 1,  64)),
        ("an answer while webhooks are slow",    vec![Act::After(45, r#"{"metadata":{"name":"a"}}"#)],("deadline",     1,  32), ("ok",      1,  45)),
        ("not what was asked for",               vec![ok("hello")],                            ("decode",       1,   0), ("decode",  1,   0)),
        ("answer in pieces",                     vec![Act::Pieces(vec![r#"{"meta"#, r#"data":{}}"#])], ("ok",   1,   0), ("ok",      1,   0)),
    ];
    for (case, acts, read, write) in table {
        let key = Key::new("n", "a");
        for (want, is_write) in [(read, false), (write, true)] {
            let (client, log) = scripted(acts.clone());
            let start = Instant::now();
            let result: Result<PartialObject, Error> = match is_write {
                false => client.get_as(&PODS, &key, None).await,
                true => client.create_as(&PODS, Some("n"), &json!({"metadata": {"name": "a"}})).await,
            };
            let got = (outcome(&result), log.len(), start.elapsed().as_secs());
            assert_eq!(got, want, "{case}, write: {is_write}: {result:?}");
            if is_write {
                let open = matches!(want.0, "unknown" | "decode");
                assert_eq!(result.is_err_and(|e| e.outcome_unknown()), open, "{case}");
            }
        }
    }
}

/// An API server works on a request for a minute at most, but it may not notice that its client has gone.
#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_write_is_final_when_the_server_knows_that_nobody_waits_or_its_time_is_over() {
    let start = Instant::now();
    #[rustfmt::skip]
    let table = [
        // case                         the server      the outcome may change for
        ("closed by the server",        Act::Lose,       None),
        ("fell silent after 20 s",      Act::Silence(20), Some(60)),
        ("no answer in time",           Act::Hang,       Some(75)),
        ("a proxy did not wait for it", Act::RetryAfter(504, 1), Some(75)),
        ("the server ran out of time",  Act::Reply(504, r#"{"kind":"Status","reason":"Timeout","code":504}"#.into()), None),
    ];
    for (case, act, want) in table {
        let begun = start.elapsed();
        let (client, log) = scripted(vec![act]);
        let error = client.create_dynamic(&PODS, "n", &json!({})).await.unwrap_err();
        assert!(error.outcome_unknown(), "{case}: {error:?}");
        assert_eq!(log.len(), 1, "{case}: it is not sent again");
        let until = error.may_be_carried_out_until().map(|until| (until - start - begun).as_secs());
        assert_eq!(until, want, "{case}");
    }
}

#[test]
fn a_deadline_of_ones_own_also_holds_for_writes() {
    let options = ClientOptions::default().within(Duration::from_secs(5));
    assert_eq!((options.timeout, options.write_timeout), (Duration::from_secs(5), Duration::from_secs(5)));
    assert!(WRITE_TIMEOUT > CARRIED_OUT_WITHIN);
}

#[tokio::test]
async fn requests_look_as_upstreams() {
    let (transport, log) = fake(|_, _| ok(r#"{"kind":"Pod","metadata":{"name":"a","resourceVersion":"7"}}"#));
    let user_agent = crate::user_agent("v1.36.4", "0123456789", "replicaset-controller");
    let client = Client::new(transport, ClientOptions { user_agent: user_agent.clone(), ..unlimited() });
    let key = Key::new("n", "a");
    let body = json!({"metadata": {"name": "a"}});
    client.get_as::<PartialObject>(&PODS, &key, None).await.unwrap();
    client.create_dynamic(&PODS, "n", &body).await.unwrap();
    client.update_dynamic(&PODS, &key, Some("status"), &body).await.unwrap();
    client.patch_dynamic(&PODS, &key, None, &Patch::Strategic(body.clone())).await.unwrap();
    let apply = Patch::Apply { manager: "m".into(), force: true, object: body.clone() };
    client.patch_dynamic(&PODS, &key, None, &apply).await.unwrap();
    let gentle = Patch::Apply { manager: "m".into(), force: false, object: body.clone() };
    client.patch_dynamic(&PODS, &key, None, &gentle).await.unwrap();
    client.delete_dynamic(&PODS, &key, &DeleteOptions::default()).await.unwrap();
    let params =
        ListParams { label_selector: Some("a in (b,c)".into()), limit: Some(500), ..ListParams::default() };
    client.list_dynamic(&PODS, None, &params).await.unwrap();
    assert_eq!(
        log.lines(),
        [
            "GET /api/v1/namespaces/n/pods/a",
            "POST /api/v1/namespaces/n/pods",
            "PUT /api/v1/namespaces/n/pods/a/status",
            "PATCH /api/v1/namespaces/n/pods/a",
            "PATCH /api/v1/namespaces/n/pods/a?fieldManager=m&force=true",
            "PATCH /api/v1/namespaces/n/pods/a?fieldManager=m",
            "DELETE /api/v1/namespaces/n/pods/a",
            "GET /api/v1/pods?labelSelector=a+in+%28b%2Cc%29&limit=500",
        ]
    );
    let seen = log.all();
    assert!(seen.iter().all(|s| s.header("user-agent") == user_agent));
    // Only metadata of the deleted object is requested.
    let brief = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    let accept =
        |s: &crate::fake::Seen| if s.method == http::Method::DELETE { brief } else { "application/json" };
    assert!(seen.iter().all(|s| s.header("accept") == accept(s)));
    // Upstream's controller manager does not request compression.
    assert!(seen.iter().all(|s| s.header("accept-encoding").is_empty()));
    let types: Vec<&str> = seen.iter().map(|s| s.header("content-type")).collect();
    let json = "application/json";
    let (strategic, apply) = ("application/strategic-merge-patch+json", "application/apply-patch+yaml");
    assert_eq!(types, ["", json, json, strategic, apply, apply, json, ""]);
}

#[tokio::test]
async fn a_field_manager_goes_with_writes_only() {
    let (transport, log) = fake(|_, _| ok("{}"));
    let client = Client::new(transport, ClientOptions { field_manager: Some("me".into()), ..unlimited() });
    let key = Key::new("n", "a");
    client.get_dynamic(&PODS, &key).await.unwrap();
    client.create_dynamic(&PODS, "n", &json!({})).await.unwrap();
    client.delete_dynamic(&PODS, &key, &DeleteOptions::default()).await.unwrap();
    let with: Vec<bool> = log.all().iter().map(|s| s.target.ends_with("?fieldManager=me")).collect();
    assert_eq!(with, [false, true, false]);
}

#[tokio::test]
async fn deletions_carry_preconditions_and_return_the_object() {
    let (client, log) = scripted(vec![
        ok(r#"{"kind":"Status","status":"Success","details":{"name":"a"}}"#),
        ok(
            r#"{"kind":"Pod","metadata":{"name":"a","resourceVersion":"9","deletionTimestamp":"2026-01-01T00:00:00Z"}}"#,
        ),
    ]);
    let key = Key::new("n", "a");
    let uid = "11111111-2222-3333-4444-555555555555";
    let meta: PartialObject = serde_json::from_value(json!({"metadata": {"uid": uid}})).unwrap();
    let options = DeleteOptions::uid(&meta.metadata.uid).propagation(crate::request::Propagation::Background);
    let gone = client.delete_dynamic(&PODS, &key, &options).await.unwrap();
    assert!(gone.meta().is_none());
    let going = client.delete_dynamic(&PODS, &key, &options).await.unwrap();
    assert_eq!(going.meta().map(|m| (m.resource_version.0, m.is_deleting())), Some((9, true)));
    let body: serde_json::Value = serde_json::from_slice(&log.all()[0].body).unwrap();
    assert_eq!(
        body,
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}, "propagationPolicy": "Background"})
    );
}

#[tokio::test]
async fn pages_are_read_whole_or_object_by_object() {
    let page = r#"{"kind":"PodList","metadata":{"resourceVersion":"42","continue":"next","remainingItemCount":3},
                   "items":[{"metadata":{"name":"a"}}, {"metadata":{"name":"b"}}]}"#;
    let (client, log) =
        scripted(vec![ok(page), ok(page), ok(r#"{"metadata":{"resourceVersion":"1"},"items":null}"#)]);
    let params = ListParams { metadata_only: true, continue_: Some("here".into()), ..ListParams::default() };
    let list = client.list_as::<PartialObject>(&PODS, None, &params).await.unwrap();
    let names: Vec<&str> = list.items.iter().map(|o| o.metadata.name.as_str()).collect();
    assert_eq!(
        (list.resource_version.0, list.continue_.as_deref(), list.remaining),
        (42, Some("next"), Some(3))
    );
    assert_eq!(names, ["a", "b"]);
    let raw = client.list_raw(&PODS, None, &params).await.unwrap();
    assert_eq!(
        raw.items,
        [r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":{"name":"b"}}"#].map(RawObject::json)
    );
    let empty = client.list_raw(&PODS, None, &params).await.unwrap();
    assert!(empty.items.is_empty() && empty.continue_.is_none());
    assert!(
        log.all()[0]
            .header("accept")
            .starts_with("application/json;as=PartialObjectMetadataList;g=meta.k8s.io")
    );
}

#[tokio::test]
async fn a_watch_gives_events_then_the_servers_reason_to_stop() {
    let (client, log) = scripted(vec![Act::Pieces(vec![
        "{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n{\"type\":\"MODI",
        "FIED\",\"object\":{\"a\":2}}\n\n{\"type\":\"BOOKMARK\",\"object\":{}}\n",
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"old\"}}\n",
        "{\"type\":\"ADDED\",\"object\":{\"a\":3}}\n",
    ])]);
    let params = WatchParams {
        send_initial_events: true,
        metadata_only: true,
        timeout_seconds: Some(300),
        ..Default::default()
    };
    let mut watch = client.watch(&PODS, &params).await.unwrap();
    let mut kinds = vec![];
    let error = loop {
        match watch.next().await.unwrap() {
            Ok(event) => kinds.push(event.kind),
            Err(error) => break error,
        }
    };
    assert_eq!(kinds, [EventKind::Added, EventKind::Modified, EventKind::Bookmark]);
    assert!(error.is_expired(), "{error:?}");
    assert!(watch.next().await.is_none(), "nothing after an error");
    assert_eq!(
        log.lines(),
        [
            "GET /api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=300"
        ]
    );
    assert!(
        log.all()[0]
            .header("accept")
            .starts_with("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
    );
}

#[tokio::test]
async fn watches_end_as_they_end() {
    let event = "{\"type\":\"ADDED\",\"object\":{}}\n";
    #[rustfmt::skip]
    let table = [
        ("by the server",            Act::Pieces(vec![event]),             "ok, end"),
        ("in the middle of a frame", Act::Pieces(vec![event, "{\"type"]),  "ok, unreachable, end"),
        ("by a cut",                 Act::Cut(200, vec![event]),           "ok, unreachable, end"),
        ("with nonsense",            Act::Pieces(vec!["hello\n", event]),  "decode, end"),
        ("before it begins",         Act::Reply(410, String::new()),       "status"),
        ("unanswered",               Act::Lose,                            "unreachable"),
    ];
    for (case, act, want) in table {
        let (client, _) = scripted(vec![act]);
        let mut got = vec![];
        match client.watch(&PODS, &WatchParams::default()).await {
            Err(error) => got.push(outcome::<()>(&Err(error))),
            Ok(mut watch) => {
                while let Some(next) = watch.next().await {
                    got.push(outcome(&next));
                }
                got.push("end");
            }
        }
        assert_eq!(got.join(", "), want, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_wait_for_their_turn_like_any_request() {
    let (transport, log) = fake(|_, n| if n < 3 { Act::RetryAfter(429, 0) } else { ok("{}") });
    let client = Client::new(transport, ClientOptions { qps: 1.0, burst: 1, ..ClientOptions::default() });
    let start = Instant::now();
    client.get_raw("/version").await.unwrap();
    assert_eq!((log.len(), start.elapsed().as_secs()), (4, 3));
}

#[derive(Default)]
struct Notes(parking_lot::Mutex<Vec<String>>);

impl Observer for Notes {
    fn attempted(&self, a: &Attempt<'_>) {
        self.0.lock().push(format!(
            "{} {:?} retry={} sent={} got={}",
            a.method, a.code, a.is_retry, a.sent, a.received
        ));
    }

    fn throttled(&self, _: &str, _: &str, waited: Duration) {
        assert_eq!(waited, Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn observers_receive_every_attempt() {
    let notes = Arc::new(Notes::default());
    let (transport, _) = fake(|_, n| if n == 0 { Act::RetryAfter(429, 1) } else { ok("{}") });
    let client = Client::new(transport, ClientOptions { observer: Some(notes.clone()), ..unlimited() });
    client.create_dynamic(&PODS, "n", &json!({})).await.unwrap();
    assert_eq!(
        *notes.0.lock(),
        ["POST Some(429) retry=false sent=2 got=0", "POST Some(200) retry=true sent=2 got=2"]
    );
}
