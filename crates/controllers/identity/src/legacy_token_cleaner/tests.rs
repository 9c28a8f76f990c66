//! Which tokens are invalidated, which are deleted, and which stay.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Secret, ServiceAccount, Timestamp};
use flyball_client::{ApiStatus, Error};
use flyball_runtime::plan::{Answer, Done, Failure, Operation};
use flyball_runtime::{ErrorKinds, Outcome, Plan, Retry};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::plan::{
    AFTER_FAILURE, Days, INVALID_SINCE, LAST_USED, Token, View, earlier_round, parse_date, plan, tokens,
    tracked_since,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Use is tracked since January, today is 2026-06-15, and the period is ten days.
fn days() -> Days {
    Days::new(time("2026-06-15T12:00:00Z"), parse_date("2026-01-01").unwrap(), 10 * DAY).unwrap()
}

/// A token of account `robot`, changed by words: `made=TIME used=DAY invalid=DAY of=NAME uid=UID deleting opaque`.
fn token(words: &str) -> Secret {
    let mut secret = json!({
        "metadata": {
            "name": "t", "namespace": "n", "uid": "u-t", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {},
            "annotations": {"kubernetes.io/service-account.name": "robot", "kubernetes.io/service-account.uid": "u1"},
        },
        "type": "kubernetes.io/service-account-token",
    });
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let metadata = &mut secret["metadata"];
        match key {
            "made" => metadata["creationTimestamp"] = json!(value),
            "used" => metadata["labels"][LAST_USED] = json!(value),
            "invalid" => metadata["labels"][INVALID_SINCE] = json!(value),
            "of" => metadata["annotations"]["kubernetes.io/service-account.name"] = json!(value),
            "uid" => metadata["annotations"]["kubernetes.io/service-account.uid"] = json!(value),
            "deleting" => metadata["deletionTimestamp"] = json!("2026-06-01T00:00:00Z"),
            "opaque" => secret["type"] = json!("Opaque"),
            other => panic!("{other}"),
        }
    }
    serde_json::from_value(secret).unwrap()
}

fn robot(secrets: Value) -> ServiceAccount {
    let account = json!({"metadata": {"name": "robot", "namespace": "n", "uid": "u1"}, "secrets": secrets});
    serde_json::from_value(account).unwrap()
}

#[test]
fn the_day_since_when_use_is_tracked_is_read_or_what_is_wrong_is_said() {
    #[rustfmt::skip]
    let table = [
        (json!({"since": "2026-01-31"}), "2026-01-31T00:00:00Z"),
        (json!({}),                      "its entry \"since\" must be a day like 2026-01-31; it is missing"),
        (json!({"since": "today"}),      "its entry \"since\" must be a day like 2026-01-31; not \"today\""),
    ];
    for (data, want) in table {
        let map = serde_json::from_value(json!({"data": data})).unwrap();
        let found = tracked_since(&map).map_or_else(|problem| problem, |since| since.to_string());
        assert_eq!(found, want);
    }
}

#[test]
fn what_pods_mount_is_asked_once_per_namespace_and_only_where_it_matters() {
    let named = |name: &str, words: &str| {
        let mut secret = token(words);
        secret.metadata.name = name.into();
        Arc::new(secret)
    };
    let secrets = vec![
        named("c", ""),
        named("b", ""),
        named("a", "used=2026-06-14"),
        named("d", "opaque"),
        named("e", "of=nobody"),
    ];
    let account = Arc::new(robot(json!([{"name": "a"}, {"name": "b"}, {"name": "c"}])));
    let asked = RefCell::new(vec![]);
    let mounted = |namespace: &str| {
        asked.borrow_mut().push(namespace.to_owned());
        BTreeSet::from(["a".into(), "c".into()])
    };
    let found = tokens(secrets, &days(), |key| (key.name == "robot").then(|| account.clone()), mounted);
    let found: Vec<String> = found
        .iter()
        .map(|token| {
            format!("{} {} {}", token.secret.metadata.name, token.account.is_some(), token.is_mounted)
        })
        .collect();
    assert_eq!(found, ["a true false", "b true false", "c true true", "e false false"]);
    assert_eq!(*asked.borrow(), ["n"]);
}

fn planned(secret: Secret, account: Option<&ServiceAccount>, is_mounted: bool) -> Plan {
    let account = account.cloned().map(Arc::new);
    let token = Token { secret: Arc::new(secret), account, is_mounted };
    plan(&View { tokens: vec![token], days: Some(days()) })
}

/// The day since when the token is invalid, or `delete`.
fn result(secret: Secret, account: Option<&ServiceAccount>, is_mounted: bool) -> String {
    let plan = planned(secret, account, is_mounted);
    let Some(write) = plan.writes().first().copied() else { return String::new() };
    assert_eq!(write.ignore, ErrorKinds::NOT_FOUND | ErrorKinds::CONFLICT);
    match &write.operation {
        Operation::Patch(patch) => {
            let day = &patch.document()["metadata"]["labels"][INVALID_SINCE];
            format!("invalid since {}", day.as_str().unwrap())
        }
        Operation::Delete(options) => {
            assert!(options.resource_version.is_some(), "only the version that was read");
            "delete".to_owned()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn unused_tokens_are_invalidated_and_later_deleted() {
    #[rustfmt::skip]
    let table = [
        // case                              token                                result
        ("never used",                       "",                                  "invalid since 2026-06-15"),
        ("used long ago",                    "used=2026-06-04",                   "invalid since 2026-06-15"),
        ("used on the last day",             "used=2026-06-05",                   ""),
        ("used on an unparsable day",        "used=yesterday",                    ""),
        ("young",                            "made=2026-06-05T12:00:00Z",         ""),
        ("just old enough",                  "made=2026-06-05T11:59:59Z",         "invalid since 2026-06-15"),
        ("invalid for a while",              "invalid=2026-06-05",                ""),
        ("invalid for long",                 "invalid=2026-06-04",                "delete"),
        ("invalid, but used since",          "invalid=2026-06-04 used=2026-06-10", ""),
        ("invalid since an unparsable day",  "invalid=soon",                      "invalid since 2026-06-15"),
        ("being deleted",                    "invalid=2026-06-04 deleting",       ""),
        ("of another type",                  "opaque",                            ""),
        ("of a deleted account",             "uid=u0",                            ""),
        ("of another account",               "of=human",                          ""),
        ("without the uid of the account",   "uid= invalid=2026-06-04",           "delete"),
    ];
    let account = robot(json!([{"name": "other"}, {"name": "t"}]));
    for (case, words, want) in table {
        assert_eq!(result(token(words), Some(&account), false), want, "{case}");
    }
}

#[test]
fn tokens_that_are_mounted_or_were_created_by_users_stay() {
    let listed = robot(json!([{"name": "t"}]));
    assert_eq!(result(token("invalid=2026-06-04"), Some(&listed), true), "", "mounted");
    assert_eq!(result(token("invalid=2026-06-04"), Some(&robot(json!([]))), false), "", "created by a user");
    assert_eq!(result(token("invalid=2026-06-04"), None, false), "", "without an account");
}

#[test]
fn no_token_is_cleaned_up_before_use_was_tracked_for_long_enough() {
    #[rustfmt::skip]
    let table = [
        // now                      tracked since  cleaned up
        ("2026-06-12T00:00:00Z",    "2026-06-01",  true),
        ("2026-06-11T23:59:59Z",    "2026-06-01",  false),
    ];
    for (now, since, want) in table {
        let days = Days::new(time(now), parse_date(since).unwrap(), 10 * DAY);
        assert_eq!(days.is_some(), want, "{now}");
    }
    assert!(
        Days::new(time("2026-06-12T00:00:00Z"), parse_date("2026-06-01").unwrap(), Duration::MAX).is_none()
    );
}

#[test]
fn days_have_one_form() {
    for (text, want) in [
        ("2026-01-31", true),
        ("2026-02-30", false),
        ("2026-1-31", false),
        ("", false),
        ("20260131T0", false),
    ] {
        assert_eq!(parse_date(text).is_some(), want, "{text}");
    }
}

#[test]
fn the_label_is_put_on_the_secret_that_was_read() {
    let want = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
        "name": "t", "namespace": "n", "uid": "u-t", "labels": {INVALID_SINCE: "2026-06-15"},
    }});
    let account = robot(json!([{"name": "t"}]));
    let plan = planned(token(""), Some(&account), false);
    assert_eq!(plan.writes()[0].body(), Some(want));
    #[rustfmt::skip]
    assert_eq!(plan.to_string(), "each\n  patch Secret n/t: it is a legacy token that has not been used for the clean-up period");
}

#[test]
fn a_round_is_repeated_early_after_a_failure_or_a_conflict() {
    let error = |code, reason: &str| {
        Error::Status(Box::new(ApiStatus { code, reason: reason.into(), ..ApiStatus::default() }))
    };
    let refused = |error| vec![Done { tag: (), answer: Answer::Ignored(error) }];
    let failed = |error| {
        let (doing, message) = (String::new(), String::new());
        let (error, retry) = (Some(error), Retry::Backoff);
        vec![Failure { tag: Some(()), verb: None, doing, message, error, retry, is_expected: false }]
    };
    #[rustfmt::skip]
    let table = [
        ("done",      Outcome::default(),                                                                            None),
        ("gone",      Outcome { done: refused(error(404, "NotFound")), failures: vec![] },                           None),
        ("conflict",  Outcome { done: refused(error(409, "Conflict")), failures: vec![] },                           Some(Duration::from_secs(5))),
        ("forbidden", Outcome { done: vec![], failures: failed(error(403, "Forbidden")) },                           Some(AFTER_FAILURE)),
        ("both",      Outcome { done: refused(error(409, "Conflict")), failures: failed(error(403, "Forbidden")) },  Some(Duration::from_secs(5))),
    ];
    for (case, outcome, want) in table {
        assert_eq!(earlier_round(&outcome), want, "{case}");
    }
}

proptest! {
    /// No token is deleted that was used or invalidated within the period, is young, is mounted, or is not listed.
    #[test]
    fn deleted_tokens_were_unused_and_invalid_for_the_period(
        made in 1..31u32, used in proptest::option::of(1..31u32), invalid in proptest::option::of(1..31u32),
        mounted in any::<bool>(), listed in any::<bool>(),
    ) {
        let day = |n: u32| format!("2026-06-{n:02}");
        let words = [
            Some(format!("made={}T00:00:00Z", day(made))),
            used.map(|n| format!("used={}", day(n))),
            invalid.map(|n| format!("invalid={}", day(n))),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        let account = robot(if listed { json!([{"name": "t"}]) } else { json!([]) });
        let result = result(token(&words.join(" ")), Some(&account), mounted);
        if !result.is_empty() {
            prop_assert!(made <= 5 && used.is_none_or(|n| n < 5) && !mounted && listed);
        }
        if result == "delete" {
            prop_assert!(invalid.is_some_and(|n| n < 5));
        }
    }
}
