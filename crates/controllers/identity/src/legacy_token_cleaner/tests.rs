//! Which tokens are marked, which go, and which stay.

use std::time::Duration;

use flyball_api::{Secret, ServiceAccount, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::plan::{Action, Days, INVALID_SINCE, LAST_USED, invalidation, parse_date, plan};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// In this world uses have been tracked for long, today is 2026-06-15, and the period is ten days.
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

fn verdict(secret: &Secret, account: Option<&ServiceAccount>, mounted: bool) -> String {
    match plan(secret, account, || mounted, &days()) {
        None => String::new(),
        Some(Action::Delete) => "delete".to_owned(),
        Some(Action::Invalidate(day)) => format!("invalid since {day}"),
    }
}

#[test]
fn unused_tokens_become_invalid_and_then_go() {
    #[rustfmt::skip]
    let table = [
        // case                              token                                verdict
        ("never used",                       "",                                  "invalid since 2026-06-15"),
        ("used long ago",                    "used=2026-06-04",                   "invalid since 2026-06-15"),
        ("used on the last day",             "used=2026-06-05",                   ""),
        ("used on no day",                   "used=yesterday",                    ""),
        ("young",                            "made=2026-06-05T12:00:00Z",         ""),
        ("just old enough",                  "made=2026-06-05T11:59:59Z",         "invalid since 2026-06-15"),
        ("invalid for a while",              "invalid=2026-06-05",                ""),
        ("invalid for long",                 "invalid=2026-06-04",                "delete"),
        ("invalid, but used since",          "invalid=2026-06-04 used=2026-06-10", ""),
        ("invalid since no day",             "invalid=soon",                      "invalid since 2026-06-15"),
        ("being deleted",                    "invalid=2026-06-04 deleting",       ""),
        ("of another type",                  "opaque",                            ""),
        ("of a dead account",                "uid=u0",                            ""),
        ("of another account",               "of=human",                          ""),
        ("that does not say which account",  "uid= invalid=2026-06-04",           "delete"),
    ];
    let account = robot(json!([{"name": "other"}, {"name": "t"}]));
    for (case, words, want) in table {
        assert_eq!(verdict(&token(words), Some(&account), false), want, "{case}");
    }
}

#[test]
fn tokens_that_are_mounted_or_were_made_by_hand_stay() {
    let listed = robot(json!([{"name": "t"}]));
    assert_eq!(verdict(&token("invalid=2026-06-04"), Some(&listed), true), "", "mounted");
    assert_eq!(verdict(&token("invalid=2026-06-04"), Some(&robot(json!([]))), false), "", "made by hand");
    assert_eq!(verdict(&token("invalid=2026-06-04"), None, false), "", "nobody's");
}

#[test]
fn nothing_is_judged_before_uses_were_tracked_for_long_enough() {
    #[rustfmt::skip]
    let table = [
        // now                      tracked since  judged
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
fn the_mark_is_put_on_that_very_secret() {
    let want = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
        "name": "t", "namespace": "n", "uid": "u-t", "labels": {INVALID_SINCE: "2026-06-15"},
    }});
    assert_eq!(invalidation(&token(""), "2026-06-15"), want);
}

proptest! {
    /// Nothing goes that was used or marked within the period, that is young, mounted, or not the account's own.
    #[test]
    fn what_is_deleted_was_unused_and_marked_for_long(
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
        let verdict = verdict(&token(&words.join(" ")), Some(&account), mounted);
        if !verdict.is_empty() {
            prop_assert!(made <= 5 && used.is_none_or(|n| n < 5) && !mounted && listed);
        }
        if verdict == "delete" {
            prop_assert!(invalid.is_some_and(|n| n < 5));
        }
    }
}
