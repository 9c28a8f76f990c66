//! Plans, executed against a scripted server.

use flyball_api::pod::Pod;
use flyball_api::{Key, PartialObject, ResourceType};
use flyball_client::Patch;
use serde_json::{Value, json};

use super::*;
use crate::Retry;
use crate::events::ObjectRef;
use crate::scripted::{Refuse, context};

/// Executes effects; returns the outcome, the requests and events that the server saw (events last), and the bodies.
async fn perform<T: Send>(
    refuse: Refuse,
    effects: impl IntoIterator<Item = impl Into<Effect<T>>>,
) -> (Outcome<T>, Vec<String>, Vec<Value>) {
    let (server, cx, sink) = context(refuse);
    let owner = Key::new("ns", "owner");
    let about = ObjectRef::from_meta("v1", "Thing", &thing("owner").metadata);
    let outcome = cx.executor(&owner).about(about).perform(effects).await;
    drop(cx);
    sink.await;
    let (seen, bodies) = (server.seen.lock().clone(), server.bodies.lock().clone());
    (outcome, seen, bodies)
}

const THING: ResourceType = ResourceType::new("example.com", "v1", "things", "Thing", true);

fn thing(name: &str) -> PartialObject {
    serde_json::from_value(
        json!({"metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}")}}),
    )
    .unwrap()
}

fn write(name: &str, operation: Operation) -> Write {
    Write::of(THING, Key::new("ns", name), operation).why("a test")
}

fn create(name: &str) -> Write {
    write(name, Operation::Create(Body::new(&json!({"metadata": {"name": name}}))))
}

fn never(_: &str) -> Option<(u16, &'static str)> {
    None
}

#[tokio::test]
async fn groups_go_on_or_end_with_the_first_failure() {
    let four = || ["a", "b", "c", "d"].map(create);
    let refuse_b = |line: &str| (line == "POST b").then_some((403, "Forbidden"));
    #[rustfmt::skip]
    let table: [(&str, Group, &str); 4] = [
        ("sequence",     Effect::sequence(four()),   "POST a, POST b"),
        ("each",         Effect::each(four()),       "POST a, POST b, POST c, POST d"),
        ("concurrent",   Effect::concurrent(four()), "POST a, POST b, POST c, POST d"),
        ("slow start",   Effect::slow_start(four()), "POST a, POST b, POST c"),
    ];
    for (case, group, want) in table {
        let (outcome, seen, _) = perform(refuse_b, [group]).await;
        assert_eq!(seen.join(", "), want, "{case}");
        assert_eq!((outcome.failures.len(), outcome.done.len()), (1, seen.len() - 1), "{case}");
        assert_eq!(outcome.result().unwrap_err().to_string(), "creating Thing ns/b", "{case}");
    }
}

/// Every part of a plan has an effect: none can be left out by the shell that runs it.
#[tokio::test]
async fn a_plan_is_executed_with_its_status_its_requeue_and_what_it_waits_for() {
    let delay = Duration::from_secs(7);
    let refuse_a = |line: &str| (line == "POST a").then_some((403, "Forbidden"));
    let refuse_status = |line: &str| line.starts_with("PUT").then_some((403, "Forbidden"));
    #[rustfmt::skip]
    let table: [(&str, Refuse, bool, bool, &str); 3] = [
        // case                  refused        effects  status  result
        ("all succeeds",         never,         true,    true,   "After(7s)"),
        ("an effect fails",      refuse_a,      false,   true,   "creating Thing ns/a"),
        ("the status fails",     refuse_status, true,    false,  "updating the status of Thing ns/b"),
    ];
    for (case, refuse, effects, status, result) in table {
        let (server, cx, _sink) = context(refuse);
        let (owner, body) = (Key::new("ns", "owner"), Body::new(&json!({"metadata": {"name": "b"}})));
        let until = || Waiting::on::<Pod>(&Key::new("ns", "p"), "to stop");
        let plan = Plan::of([create("a")])
            .with_status(write("b", Operation::Update(body)).subresource("status"))
            .again_after(delay)
            .waiting_for([until()]);
        let executor = cx.executor(&owner);
        let done = executor.run(plan).await;
        assert_eq!((done.outcome.is_ok(), done.status.is_ok()), (effects, status), "{case}");
        assert_eq!(done.next, Next::After(delay), "{case}");
        assert_eq!(*server.seen.lock(), ["POST a", "PUT status"], "{case}: the status is written anyway");
        let said = done.result().map_or_else(|error| error.to_string(), |next| format!("{next:?}"));
        assert!(said.contains(result), "{case}: {said}");
        assert_eq!(cx.waiting(&owner), [until()], "{case}");
        assert_eq!(executor.execute(Plan::<()>::default()).await.unwrap(), Next::Settled, "{case}");
        assert_eq!(cx.waiting(&owner), [], "{case}: a later plan replaces what is waited for");
    }
}

#[tokio::test]
async fn a_group_of_which_each_is_executed_stops_on_some_errors() {
    let refuse_b = |line: &str| (line == "POST b").then_some((409, "AlreadyExists"));
    #[rustfmt::skip]
    let table = [
        (ErrorKinds::NONE,                        "POST a, POST b, POST c"),
        (ErrorKinds::CONFLICT,                    "POST a, POST b, POST c"),
        (ErrorKinds::ALREADY_EXISTS | ErrorKinds::CONFLICT, "POST a, POST b"),
    ];
    for (stop_on, want) in table {
        let group = Effect::<()>::each(["a", "b", "c"].map(create)).stop_on(stop_on);
        let (_, seen, _) = perform(refuse_b, [group]).await;
        assert_eq!(seen.join(", "), want, "{stop_on:?}");
    }
}

#[tokio::test]
async fn an_ignored_error_may_stop_a_sequence() {
    let refuse_a = |line: &str| (line == "POST a").then_some((404, "NotFound"));
    for (stop_on, want) in [(ErrorKinds::NONE, "POST a, POST b"), (ErrorKinds::NOT_FOUND, "POST a")] {
        let creations = ["a", "b"].map(|name| create(name).ignore(ErrorKinds::NOT_FOUND));
        let (outcome, seen, _) =
            perform(refuse_a, [Effect::<()>::sequence(creations).stop_on(stop_on)]).await;
        assert_eq!((seen.join(", ").as_str(), outcome.is_ok()), (want, true));
    }
}

#[tokio::test]
async fn a_patch_is_sent_again_unless_its_outcome_is_unknown() {
    let patch = || {
        write("a", Operation::Patch(Patch::Merge(json!({}))))
            .attempts(3)
            .ignore(ErrorKinds::NOT_FOUND)
            .no_event_for(ErrorKinds::OUTCOME_UNKNOWN)
            .on_failure(Event::warning("No", "not patched"))
    };
    #[rustfmt::skip]
    let table: [(&str, Refuse, &str); 4] = [
        ("done",            never,                            "PATCH a"),
        ("refused",         |_| Some((403, "Forbidden")),     "PATCH a, PATCH a, PATCH a, event No not patched"),
        ("ignored",         |_| Some((404, "NotFound")),      "PATCH a"),
        ("outcome unknown", |_| Some((504, "Timeout")),       "PATCH a"),
    ];
    for (case, refuse, want) in table {
        let (_, seen, _) = perform(refuse, [patch()]).await;
        assert_eq!(seen.join(", "), want, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_of_the_latest_object_is_computed_again_after_a_conflict() {
    let conflict = |line: &str| line.starts_with("PATCH").then_some((409, "Conflict"));
    let patch = |from: u64, to: u64| {
        let version = move |thing: &PartialObject| thing.metadata.resource_version.0;
        let change = move |found: u64| (found < to).then(|| Patch::Merge(json!({"found": found})));
        let again =
            move |live: &Value| serde_json::from_value(live.clone()).map(|live| change(version(&live)));
        write(
            "a",
            Operation::PatchRetryOnConflict {
                patch: Patch::Merge(json!({"found": from})),
                recompute: Box::new(again),
            },
        )
    };
    // The server counts its versions from 11.
    let (outcome, seen, bodies) = perform(conflict, [patch(1, 13)]).await;
    assert_eq!(seen.join(", "), "PATCH a, GET a, PATCH a, GET a, PATCH a, GET a");
    assert_eq!([&bodies[0]["found"], &bodies[2]["found"], &bodies[4]["found"]], [1, 11, 12]);
    assert!(
        outcome.is_ok() && outcome.written().all(|done| done.answer.written().is_none()),
        "nothing to change"
    );
    let (outcome, seen, _) = perform(conflict, [patch(1, 99)]).await;
    assert_eq!((seen.len(), outcome.is_ok()), (9, false), "five attempts");
}

#[tokio::test]
async fn a_write_that_only_informs_ignores_every_response() {
    for code in [404, 405, 409, 422, 403, 500] {
        let refuse: Refuse = match code {
            404 => |_| Some((404, "NotFound")),
            405 => |_| Some((405, "MethodNotAllowed")),
            409 => |_| Some((409, "Conflict")),
            422 => |_| Some((422, "Invalid")),
            403 => |_| Some((403, "Forbidden")),
            _ => |_| Some((500, "InternalError")),
        };
        let (outcome, ..) = perform(refuse, [create("a").ignore(ErrorKinds::ANSWERED)]).await;
        assert_eq!((outcome.is_ok(), outcome.ignored().count()), (true, 1), "{code}");
        let (outcome, ..) = perform(refuse, [create("a").ignore(ErrorKinds::METHOD_NOT_SUPPORTED)]).await;
        assert_eq!(outcome.is_ok(), code == 405, "{code}");
    }
}

#[tokio::test]
async fn a_collection_is_deleted_with_one_request() {
    let options = flyball_client::DeleteOptions::default();
    let delete = || Write::delete_collection(THING, "ns", options.clone()).why("a test");
    assert_eq!(delete().to_string(), "deletecollection Thing ns/*: a test");
    let (outcome, seen, bodies) = perform(never, [delete()]).await;
    assert_eq!((seen.join(", ").as_str(), outcome.is_ok()), ("DELETE things", true));
    assert_eq!(bodies[0]["kind"], "DeleteOptions");
    let refuse = |_: &str| Some((403, "Forbidden"));
    let (outcome, ..) = perform(refuse, [delete()]).await;
    assert_eq!(outcome.result().unwrap_err().to_string(), "deleting Thing ns/*");
}

#[tokio::test]
async fn the_answer_to_one_write_is_its_metadata_an_ignored_error_or_a_failure() {
    let exists = |_: &str| Some((409, "AlreadyExists"));
    let (outcome, ..) = perform(never, [create("a")]).await;
    assert_eq!(outcome.answer().unwrap().written().unwrap().name, "a");
    let (outcome, ..) = perform(exists, [create("a").ignore(ErrorKinds::ALREADY_EXISTS)]).await;
    assert!(matches!(outcome.answer(), Ok(Answer::Ignored(error)) if error.is_already_exists()));
    let (outcome, ..) = perform(exists, [create("a")]).await;
    assert_eq!(outcome.answer().unwrap_err().to_string(), "creating Thing ns/a");
}

#[tokio::test]
async fn an_update_follows_the_last_write_of_its_own_object() {
    const OTHER: ResourceType = ResourceType::new("example.com", "v1", "others", "Other", true);
    let body = || json!({"metadata": {"name": "a"}});
    let again = |resource| Write::of(resource, Key::new("ns", "a"), Operation::UpdateAfterWrite(body()));
    // The server counts versions from 11. An object of another kind has the same name.
    let effects =
        [create("a"), Write::of(OTHER, Key::new("ns", "a"), Operation::Update(body().into())), again(THING)];
    let (outcome, _, bodies) = perform(never, effects).await;
    assert!(outcome.is_ok());
    assert_eq!(bodies[2]["metadata"]["resourceVersion"], "11");
}

#[test]
fn exact_bodies_keep_the_kind_and_the_raw_json() {
    let mut revision = flyball_api::ControllerRevision { revision: 2, ..Default::default() };
    revision.metadata.name = "a".into();
    revision.data = flyball_api::RawJson::parse(r#"{"z":1.0,"a":"\u003c"}"#).unwrap();
    let write = Write::replace(&revision);
    let Operation::Update(body) = &write.operation else { panic!("{write}") };
    let text = format!("{body:?}");
    assert!(text.contains(r#""data":{"z":1.0,"a":"\u003c"}"#), "{text}");
    assert!(text.contains(r#""kind":"ControllerRevision""#), "{text}");
}

#[tokio::test]
async fn events_follow_what_came_of_a_write() {
    let event = |reason: &str, message: Message| Event::normal(reason.to_owned(), message);
    let noted = |write: Write| {
        write
            .on_success(event("Yes", Message::ThenName("made ".into())))
            .on_failure(event("No", Message::ThenError("not made: ".into())))
            .on_failure(event("Too", "in order".into()))
    };
    let exists = |_: &str| Some((409, "AlreadyExists"));
    let generated = write("a-*", Operation::Create(Body::new(&json!({"metadata": {"generateName": "a-"}}))));
    #[rustfmt::skip]
    let table: [(&str, Refuse, Write, &str, bool); 5] = [
        ("done",                  never,  noted(create("a")),                          "event Yes made a",              true),
        ("under a new name",      never,  noted(generated),                            "event Yes made a-x",            true),
        ("refused",               exists, noted(create("a")),                          "event No not made: refused, event Too in order", false),
        ("refused and ignored",   exists, noted(create("a")).ignore(ErrorKinds::ALREADY_EXISTS), "",                              true),
        ("refused without event", exists, noted(create("a")).no_event_for(ErrorKinds::ALREADY_EXISTS),  "",                              false),
    ];
    for (case, refuse, write, want, is_ok) in table {
        let (outcome, seen, _) = perform(refuse, [write]).await;
        assert_eq!(seen[1..].join(", "), want, "{case}");
        assert_eq!(outcome.is_ok(), is_ok, "{case}");
    }
}

#[tokio::test]
async fn a_group_has_events_of_its_own_with_the_messages_of_its_failures() {
    let refuse = |line: &str| (line != "POST b").then_some((403, "Forbidden"));
    let group = Effect::<()>::each([create("a").failure_prefix("a: "), create("b"), create("c")])
        .on_success(Event::normal("Yes", "all made"))
        .on_failure(Event::warning("No", Message::ThenError("failed: ".into())));
    let (outcome, seen, _) = perform(refuse, [group]).await;
    assert_eq!(seen.last().map(String::as_str), Some("event No failed: [a: refused, refused]"));
    assert_eq!(outcome.failures.len(), 2);
    let always = |_: &str| Some((403, "Forbidden"));
    let group = Effect::<()>::each([create("a"), create("b")])
        .on_failure(Event::warning("No", Message::ThenError("failed: ".into())));
    let (outcome, seen, _) = perform(always, [group]).await;
    assert_eq!(
        seen.last().map(String::as_str),
        Some("event No failed: refused"),
        "equal messages appear once"
    );
    assert_eq!(outcome.failures.len(), 2);
    let fails = [Effect::<()>::Fail("no labels".into()), create("never").into()];
    let (outcome, seen, _) = perform(never, fails).await;
    assert_eq!((seen.len(), outcome.failure().unwrap().message.as_str()), (0, "no labels"));
}

#[tokio::test]
async fn a_second_write_carries_the_version_of_the_first() {
    let body = || json!({"metadata": {"name": "a", "resourceVersion": "3"}});
    let writes = [
        write("a", Operation::Update(Body::new(&body()))),
        write("a", Operation::UpdateAfterWrite(body())),
        write("a", Operation::Patch(flyball_client::Patch::Merge(body()))),
        write("a", Operation::PatchAfterWrite(body())),
    ];
    let (_, _, bodies) = perform(never, writes).await;
    let versions: Vec<_> = bodies.iter().map(|body| body["metadata"]["resourceVersion"].clone()).collect();
    assert_eq!(versions, ["3", "11", "3", "13"]);
}

#[tokio::test]
async fn get_then_update_replaces_the_version_that_the_plan_was_made_with() {
    let edit: Box<dyn FnOnce(&mut Value) + Send + Sync> =
        Box::new(|whole| whole["spec"] = json!({"size": 2}));
    let version = flyball_api::ResourceVersion(7);
    let (_, seen, bodies) = perform(never, [write("a", Operation::GetThenUpdate { version, edit })]).await;
    assert_eq!(seen, ["GET a", "PUT a"]);
    assert_eq!(
        (&bodies[1]["spec"]["size"], &bodies[1]["metadata"]["resourceVersion"]),
        (&json!(2), &json!("7"))
    );
}

#[tokio::test(start_paused = true)]
async fn get_then_update_retry_on_conflict_reads_again_after_a_conflict() {
    let edit = |is_needed: bool| {
        let edit = move |live: &Value| is_needed.then(|| live.clone());
        write("a", Operation::GetThenUpdateRetryOnConflict(std::sync::Arc::new(edit)))
    };
    let conflict = |line: &str| (line == "PUT a").then_some((409, "Conflict"));
    #[rustfmt::skip]
    let table: [(&str, Refuse, Write, usize, bool); 4] = [
        ("done",          never,                                        edit(true),  2,  true),
        ("not needed",    never,                                        edit(false), 1,  true),
        ("conflict",      conflict,                                     edit(true),  10, false),
        ("forbidden",     |line| (line == "PUT a").then_some((403, "Forbidden")), edit(true), 2, false),
    ];
    for (case, refuse, write, requests, is_ok) in table {
        let (outcome, seen, _) = perform(refuse, [write]).await;
        assert_eq!((seen.len(), outcome.is_ok()), (requests, is_ok), "{case}: {seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn update_retry_on_conflict_reads_only_after_a_conflict_or_a_lost_response() {
    let edit = || {
        let body = json!({"spec": {"replicas": 1}});
        Write::update_retry_on_conflict(THING, Key::new("ns", "a"), body, |body| {
            body["spec"]["replicas"] = json!(2)
        })
    };
    assert_eq!(edit().body(), Some(json!({"spec": {"replicas": 2}})));
    let conflict = |line: &str| (line == "PUT a").then_some((409, "Conflict"));
    let unreadable = |_: &str| Some((409, "Conflict"));
    let forbidden = |_: &str| Some((403, "Forbidden"));
    let lost = |line: &str| (line == "PUT a").then_some((504, "Timeout"));
    #[rustfmt::skip]
    let table: [(&str, Refuse, usize, usize); 5] = [
        // case                                      PUTs  GETs
        ("done",                        never,       1,    0),
        ("conflicts",                   conflict,    5,    4),
        ("and it cannot be read again", unreadable,  5,    4),
        ("another error",               forbidden,   1,    0),
        ("the response is lost",        lost,        1,    1),
    ];
    for (case, refuse, puts, gets) in table {
        let (outcome, seen, bodies) = perform(refuse, [edit()]).await;
        let count = |line: &str| seen.iter().filter(|seen| *seen == line).count();
        assert_eq!((count("PUT a"), count("GET a")), (puts, gets), "{case}");
        let written = seen.iter().zip(&bodies).filter(|(line, _)| *line == "PUT a");
        assert!(written.into_iter().all(|(_, body)| body["spec"]["replicas"] == 2), "{case}");
        assert_eq!(outcome.is_ok(), case == "done", "{case}");
    }
    // The read after the lost response shows that the edit was made.
    let uid = |body: &mut Value| body["metadata"]["uid"] = json!("u");
    let (outcome, ..) =
        perform(lost, [Write::update_retry_on_conflict(THING, Key::new("ns", "a"), json!({}), uid)]).await;
    assert!(outcome.is_ok());
}

#[test]
fn a_deletion_ignores_conflicts_only_if_the_uid_is_its_only_precondition() {
    let by_uid = Write::delete_with::<flyball_api::pod::Pod>(
        Key::new("ns", "a"),
        flyball_client::DeleteOptions::uid(&"u".into()),
    );
    assert_eq!(by_uid.ignore, ErrorKinds::NOT_FOUND | ErrorKinds::CONFLICT);
    let by_version = flyball_client::DeleteOptions {
        resource_version: Some(flyball_api::ResourceVersion(1)),
        ..flyball_client::DeleteOptions::uid(&"u".into())
    };
    let by_version = Write::delete_with::<flyball_api::pod::Pod>(Key::new("ns", "a"), by_version);
    assert_eq!(by_version.ignore, ErrorKinds::NOT_FOUND);
}

#[tokio::test]
async fn get_then_delete_deletes_with_the_uid_that_it_has_read() {
    let delete = || {
        let unreadable = Event::warning("NoGet", Message::ThenError("not read: ".into()));
        let options = flyball_client::DeleteOptions::default();
        write("a", Operation::GetThenDelete { options, unreadable })
            .on_success(Event::normal("Yes", Message::ThenName("deleted ".into())))
            .on_success(Event::normal("Too", "in order"))
            .on_failure(Event::warning("No", Message::ThenError("not deleted: ".into())))
    };
    #[rustfmt::skip]
    let table: [(&str, Refuse, &str, &str); 3] = [
        ("done",        never,                                                       "GET a, DELETE a, event Yes deleted a, event Too in order", ""),
        ("unreadable",  |line| (line == "GET a").then_some((404, "NotFound")),       "GET a, event NoGet not read: refused", "reading Thing ns/a"),
        ("undeletable", |line| (line == "DELETE a").then_some((403, "Forbidden")),   "GET a, DELETE a, event No not deleted: refused", "deleting Thing ns/a"),
    ];
    for (case, refuse, want, attempted) in table {
        let (outcome, seen, bodies) = perform(refuse, [delete()]).await;
        assert_eq!(seen.join(", "), want, "{case}");
        assert_eq!(outcome.is_ok(), case == "done");
        let doing = outcome.failure().map_or("", |failure| &failure.doing);
        assert_eq!(doing, attempted, "{case}");
        if case == "done" {
            assert_eq!(bodies[1]["preconditions"]["uid"], "u");
            let found: Vec<_> = outcome.written().filter_map(|done| done.answer.written()).collect();
            assert_eq!(found[0].uid, "u".into());
        }
    }
}

#[tokio::test]
async fn writes_with_ignored_errors_were_not_made() {
    let gone = |line: &str| (line == "POST b").then_some((409, "AlreadyExists"));
    let creations = ["a", "b"].map(|name| create(name).ignore(ErrorKinds::ALREADY_EXISTS).tag(name));
    let (outcome, ..) = perform(gone, creations).await;
    assert_eq!(outcome.written().map(|done| done.tag).collect::<Vec<_>>(), ["a"]);
    assert_eq!(outcome.ignored().map(|(tag, _)| *tag).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn an_invalid_object_is_not_retried() {
    let (outcome, ..) = perform::<()>(never, [Effect::Invalid("it has no end".into())]).await;
    let error = outcome.result().unwrap_err();
    assert_eq!((error.to_string().as_str(), error.retry()), ("it has no end", Retry::Never));
}

#[tokio::test]
async fn not_yet_is_retried_without_a_warning() {
    for (effect, is_expected) in
        [(Effect::NotYet("not served".into()), true), (Effect::Fail("broken".into()), false)]
    {
        let (outcome, ..) = perform::<()>(never, [effect]).await;
        let error = outcome.result().unwrap_err();
        assert_eq!((error.retry(), error.is_expected()), (Retry::Backoff, is_expected), "{error}");
    }
}

#[test]
fn a_key_waits_for_objects_and_times() {
    let object = Waiting::on::<flyball_api::pod::Pod>(&Key::new("ns", "a"), "to finish");
    let time = Waiting::until("2026-01-01T00:00:06Z".parse().unwrap(), "when it is deleted");
    assert_eq!(object.to_string(), "Pod/ns/a to finish");
    assert_eq!(time.to_string(), "2026-01-01T00:00:06Z, when it is deleted");
    assert_eq!(json!(time), json!({"time": "2026-01-01T00:00:06Z", "when": "when it is deleted"}));
}
