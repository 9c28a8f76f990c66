use flyball_api::horizontal_pod_autoscaler::Behavior;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::at;
use crate::horizontal::history::{History, Past};
use crate::horizontal::normalize::{Limits, longest_period};

/// Numbers of replicas at times, such as `-60:5 -30:7`.
fn past(words: &str) -> Vec<Past> {
    let one = |word: &str| {
        let (when, replicas) = word.split_once(':').unwrap();
        Past { replicas: replicas.parse().unwrap(), at: at(when.parse().unwrap()) }
    };
    words.split_whitespace().map(one).collect()
}

fn normalized(behavior: Option<Value>, history: &mut History, current: i32, recommended: i32) -> String {
    let behavior: Option<Behavior> = behavior.map(|value| serde_json::from_value(value).unwrap());
    let limits = Limits {
        min: 2,
        max: 20,
        behavior: behavior.as_ref(),
        downscale_window: SignedDuration::from_secs(300),
        now: at(0),
    };
    let normalized = limits.normalize(current, recommended, history);
    let held = normalized.held.map_or("Not".to_owned(), |held| format!("{:?}", held.direction));
    let limited = if normalized.is_limited { "!" } else { "" };
    format!("{} {held} {:?}{limited}", normalized.replicas, normalized.limit)
}

#[test]
fn without_a_behavior_replicas_at_most_double_and_scaling_down_is_stabilized() {
    #[rustfmt::skip]
    let table = [
        // case                                current recommended  recommended before   want
        ("as recommended",                      5,  7,  "",              "7 Not Nothing"),
        ("twice as many at most",               5,  15, "",              "10 Not UpRate!"),
        ("or four",                             1,  9,  "",              "4 Not UpRate!"),
        ("never above maxReplicas",            15, 40, "",              "20 Not Max!"),
        ("exactly maxReplicas",                 15, 20, "",              "20 Not Nothing"),
        ("never below minReplicas",             5,  0,  "",              "2 Not Min!"),
        ("down at once without earlier recommendations", 5, 3, "",          "3 Not Nothing"),
        ("not while more was recommended recently", 5, 3, "-299:6 -10:4",  "6 Down Nothing"),
        ("at the edge of the window",           5,  3,  "-300:6",        "6 Down Nothing"),
        ("beyond the window",                   5,  3,  "-301:6",        "3 Not Nothing"),
        ("an earlier recommendation above the limit", 5, 3, "-10:30",       "10 Down UpRate!"),
    ];
    for (case, current, recommended, before, want) in table {
        let mut history = History { recommended: past(before), ..History::default() };
        assert_eq!(normalized(None, &mut history, current, recommended), want, "{case}");
    }
}

#[test]
fn recommendations_are_kept_as_long_as_they_matter() {
    let mut history = History { recommended: past("-400:9 -200:8 -301:7"), ..History::default() };
    normalized(None, &mut history, 5, 4);
    assert_eq!(history.recommended, past("-400:9 -200:8 0:4"), "the last that is too old makes room");
    normalized(None, &mut history, 5, 4);
    assert_eq!(history.recommended, past("0:4 -200:8 0:4"));
    normalized(None, &mut history, 5, 3);
    assert_eq!(history.recommended, past("0:4 -200:8 0:4 0:3"));
}

#[test]
fn stabilization_windows_apply_in_both_directions() {
    let behavior = json!({
        "scaleUp": {"stabilizationWindowSeconds": 60, "policies": [{"type": "Percent", "value": 900, "periodSeconds": 15}]},
        "scaleDown": {"stabilizationWindowSeconds": 120, "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
    });
    #[rustfmt::skip]
    let table = [
        // case                                      current recommended  before          want
        ("no earlier recommendations",               5,  7,  "",              "7 Not Nothing"),
        ("up to the lowest of the last minute",       5,  9,  "-59:7 -30:8",   "7 Up Nothing"),
        ("not at all if fewer were enough",            5,  9,  "-30:3",         "5 Up Nothing"),
        ("a minute ago does not count",               5,  9,  "-60:6",         "9 Not Nothing"),
        ("down to the highest of two minutes",       9,  3,  "-119:5 -30:4",  "5 Down Nothing"),
        ("not at all if more were needed",            9,  3,  "-30:12",        "9 Down Nothing"),
        ("two minutes ago does not count",            9,  3,  "-120:6",        "3 Not Nothing"),
        ("in between it stays",                       5,  5,  "-30:9 -20:3",   "5 Not Nothing"),
    ];
    for (case, current, recommended, before, want) in table {
        let mut history = History { recommended: past(before), ..History::default() };
        assert_eq!(normalized(Some(behavior.clone()), &mut history, current, recommended), want, "{case}");
    }
    // Without a window in the behavior, the window of the flag applies to scaling down, and none to scaling up.
    let plain = json!({"scaleUp": {"policies": [{"type": "Pods", "value": 9, "periodSeconds": 15}]}, "scaleDown": {}});
    let mut history = History { recommended: past("-299:7 -1:4"), ..History::default() };
    assert_eq!(normalized(Some(plain.clone()), &mut history, 8, 3), "8 Down DownRate!");
    let mut history = History { recommended: past("-1:4"), ..History::default() };
    assert_eq!(normalized(Some(plain), &mut history, 5, 9), "9 Not Nothing");
}

#[test]
fn policies_limit_each_rescale() {
    let pods = |value, period| json!({"type": "Pods", "value": value, "periodSeconds": period});
    let percent = |value, period| json!({"type": "Percent", "value": value, "periodSeconds": period});
    let rules = |select: &str, policies: Vec<Value>| json!({"stabilizationWindowSeconds": 0, "selectPolicy": select, "policies": policies});
    #[rustfmt::skip]
    let table = [
        // case                                  rules                                            added     removed   current recommended  want
        ("a number of pods",                       rules("Max", vec![pods(3, 60)]),                 "",       "",        5,  15, "8 Not UpRate!"),
        ("a percentage, rounded up",             rules("Max", vec![percent(50, 60)]),             "",       "",        5,  15, "8 Not UpRate!"),
        ("the highest limit",                     rules("Max", vec![pods(1, 60), percent(50, 60)]), "",      "",        5,  15, "8 Not UpRate!"),
        ("or the lowest",                        rules("Min", vec![pods(1, 60), percent(50, 60)]), "",      "",        5,  15, "6 Not UpRate!"),
        ("or not at all",                        rules("Disabled", vec![pods(9, 60)]),            "",       "",        5,  15, "5 Not UpRate!"),
        ("what was added in the period counts",  rules("Max", vec![pods(3, 60)]),                 "-59:2",  "",        5,  15, "6 Not UpRate!"),
        ("before it does not",                   rules("Max", vec![pods(3, 60)]),                 "-60:2",  "",        5,  15, "8 Not UpRate!"),
        ("more than allowed was added",          rules("Max", vec![pods(3, 60)]),                 "-9:4",   "",        5,  15, "5 Not UpRate!"),
        ("removed replicas may return",          rules("Max", vec![pods(3, 60)]),                 "",       "-9:2",    5,  15, "10 Not UpRate!"),
        ("never above maxReplicas",             rules("Max", vec![pods(30, 60)]),                "",       "",        15, 40, "20 Not Max!"),
        ("a number of pods down",                rules("Max", vec![pods(3, 60)]),                 "",       "",        9,  2,  "6 Not DownRate!"),
        ("a percentage down, cut off",           rules("Max", vec![percent(10, 60)]),             "",       "",        9,  2,  "8 Not DownRate!"),
        ("the lowest limit",                     rules("Max", vec![pods(1, 60), percent(50, 60)]), "",      "",        9,  2,  "4 Not DownRate!"),
        ("or the highest",                       rules("Min", vec![pods(1, 60), percent(50, 60)]), "",      "",        9,  2,  "8 Not DownRate!"),
        ("or none at all",                        rules("Disabled", vec![]),                       "",       "",        9,  2,  "9 Not DownRate!"),
        ("what was removed in the period counts", rules("Max", vec![pods(3, 60)]),                "",       "-9:2",    9,  2,  "8 Not DownRate!"),
        ("added replicas may go again",            rules("Max", vec![pods(3, 60)]),                 "-9:1",   "",        9,  2,  "5 Not DownRate!"),
        ("never below minReplicas",              rules("Max", vec![pods(30, 60)]),                "",       "",        9,  0,  "2 Not Min!"),
        ("nothing to do",                        rules("Max", vec![pods(1, 60)]),                 "",       "",        9,  9,  "9 Not Nothing"),
        ("a policy of an unknown type is ignored", rules("Max", vec![json!({"type": "Odd"})]),    "",       "",        5,  9,  "5 Not UpRate!"),
    ];
    for (case, rules, added, removed, current, recommended, want) in table {
        let behavior = json!({"scaleUp": rules, "scaleDown": rules});
        let mut history = History { added: past(added), removed: past(removed), ..History::default() };
        assert_eq!(normalized(Some(behavior), &mut history, current, recommended), want, "{case}");
    }
}

#[test]
fn an_empty_behavior_has_the_defaults_of_the_server() {
    let mut history = History::default();
    assert_eq!(normalized(Some(json!({})), &mut history, 3, 15), "7 Not UpRate!");
    assert_eq!(normalized(Some(json!({})), &mut history, 9, 2), "9 Down Nothing");
    assert_eq!(normalized(Some(json!({})), &mut History::default(), 9, 2), "2 Not Nothing");
}

#[test]
fn changes_are_kept_as_long_as_a_policy_counts_them() {
    let behavior: Behavior = serde_json::from_value(json!({
        "scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}, {"type": "Pods", "value": 1, "periodSeconds": 30}]},
        "scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 10}]},
    }))
    .unwrap();
    assert_eq!(longest_period(&behavior, 1, 2).as_secs(), 60);
    assert_eq!(longest_period(&behavior, 2, 1).as_secs(), 10);
    let mut history =
        History { added: past("-61:1 -59:2"), removed: past("-20:1 -15:3"), ..History::default() };
    history.record_change(3, 7, longest_period(&behavior, 3, 7), at(0));
    history.record_change(7, 2, longest_period(&behavior, 7, 2), at(0));
    assert_eq!(history.added, past("0:4 -59:2"));
    assert_eq!(history.removed, past("-20:1 0:5"));
}
