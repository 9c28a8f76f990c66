//! Parsers of languages that users write.

use std::str::from_utf8;

use flyball_api::cron::{Schedule, Zone};
use flyball_api::selector::{FieldSelector, Selector};
use flyball_api::time::{format_duration, format_micros, parse_duration, parse_rfc3339};
use flyball_api::{Quantity, Timestamp};
use flyball_cel::{Env, Type, check};
use flyball_client::fuzzing as client;

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

/// A kubeconfig is either resolved to a server and a user or refused, without reading any file that it names.
pub(crate) fn kubeconfig(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    client::kubeconfig(text);
}
