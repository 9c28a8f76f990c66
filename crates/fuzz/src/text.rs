//! Parsers of languages that users write.

use std::collections::BTreeMap;
use std::str::from_utf8;
use std::sync::LazyLock;

use flyball_api::cron::{Schedule, Zone};
use flyball_api::selector::{FieldSelector, Selector};
use flyball_api::time::{format_duration, format_micros, parse_duration, parse_rfc3339};
use flyball_api::{Quantity, Timestamp};
use flyball_cel::{Env, Program, Type, Value, check};
use flyball_client::fuzzing as client;
use serde_json::json;

/// What is printed reads as the same quantity.
pub(crate) fn quantity(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    if let Ok(quantity) = text.parse::<Quantity>() {
        let printed = quantity.to_string();
        let again = printed.parse::<Quantity>().expect("a printed quantity can be read");
        assert_eq!(again, quantity, "{text:?} is printed as {printed:?}");
        assert_eq!(again.to_string(), printed, "printing twice");
        let _ = (quantity.value(), quantity.milli_value(), quantity.to_f64());
    }
}

/// What is printed selects the same.
pub(crate) fn selector(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    if let Ok(selector) = Selector::parse(text) {
        let printed = selector.to_string();
        let again = Selector::parse(&printed).expect("a printed selector can be read");
        assert_eq!(again.to_string(), printed, "{text:?}");
    }
    if let Ok(fields) = text.parse::<FieldSelector>() {
        let printed = fields.to_string();
        let again = printed.parse::<FieldSelector>().expect("a printed field selector can be read");
        assert_eq!(again.to_string(), printed, "{text:?}");
    }
}

/// The next time of a schedule is later than the given time.
pub(crate) fn cron(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    if let Ok(schedule) = Schedule::parse(text, &Zone::UTC) {
        let mut time = Timestamp::from_second(1_800_000_000).expect("a time");
        for _ in 0..3 {
            let Some(next) = schedule.next(time) else { break };
            assert!(next > time, "{text:?} fires at {next} after {time}");
            time = next;
        }
    }
}

/// Times and durations read as they are printed.
pub(crate) fn time(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    if let Ok(duration) = parse_duration(text) {
        let printed = format_duration(duration);
        assert_eq!(parse_duration(&printed).ok(), Some(duration), "{text:?} is printed as {printed:?}");
    }
    if let Some(time) = parse_rfc3339(text) {
        let printed = format_micros(time);
        let again = parse_rfc3339(&printed).expect("a printed time can be read");
        // Like Go, digits are cut off; `as_microsecond` would round a time before 1970 up.
        let micros = |time: Timestamp| time.as_nanosecond().div_euclid(1000);
        assert_eq!(micros(again), micros(time), "{text:?} is printed as {printed:?}");
    }
}

/// Any expression is either given a type or reported, however deep or long it is.
pub(crate) fn cel(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    let mut env = Env::default();
    env.variable("object", Type::Dyn);
    env.variable("variables", Type::Dyn);
    let _ = check(text, &env);
}

/// What an evaluation may cost here: a fuzzer makes expensive expressions soon, and the budget of Kubernetes takes seconds.
const BUDGET: u64 = 20_000;

/// An expression that compiles gives the same each time, and stops soon after it has used its budget.
pub(crate) fn evaluate(data: &[u8]) {
    static OBJECT: LazyLock<serde_json::Value> = LazyLock::new(|| {
        json!({
            "name": "a", "n": 3, "x": 1.5, "yes": true, "no": null, "time": "2026-01-01T00:00:00Z", "cpu": "100m",
            "ip": "10.0.0.1", "list": [1, 2, 3, "a", [4], {"k": "v"}], "map": {"a": 1, "b": {"c": "\u{e4}\u{1f600}"}},
        })
    });
    let Ok(text) = from_utf8(data) else { return };
    let mut env = Env::default();
    env.variable("object", Type::Dyn);
    let Ok(program) = Program::compile(text, &env) else { return };
    let variables = BTreeMap::from([("object".into(), Value::of(&OBJECT))]);
    let evaluate = || {
        let evaluation = program.evaluate(&variables, BUDGET);
        let shown = evaluation.outcome.map_or_else(|error| error.to_string(), |value| value.to_string());
        (shown, evaluation.cost)
    };
    assert_eq!(evaluate(), evaluate(), "{text:?}");
}

/// A kubeconfig is either resolved to a server and a user or refused, without reading any file that it names.
pub(crate) fn kubeconfig(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    client::kubeconfig(text);
}

/// The machines, address pools and routes of the Linux cloud: used or refused.
pub(crate) fn inventory(data: &[u8]) {
    if let Ok(text) = from_utf8(data) {
        flyball_linux::fuzzing::inventory(text);
    }
}

/// An answer of AWS, in XML.
pub(crate) fn aws(data: &[u8]) {
    let _ = flyball_aws::fuzzing::answer(&String::from_utf8_lossy(data));
}

/// What a FlexVolume driver prints. An error becomes the message of an event, so it is short whatever the driver has printed.
pub(crate) fn flexvolume(data: &[u8]) {
    if let Err(error) = flyball_storage::attach_detach::flex::answer_in(data) {
        let text = flyball_client::Chain(&error).to_string();
        assert!(text.chars().count() < 4096, "{text}");
    }
}
