//! Taints and tolerations of devices, in words.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::taint::Taint;
use flyball_api::{DeviceTaintRule, ResourceClaim, Timestamp, Uid};
use flyball_cache::{Change, Origin};
use serde_json::{Value, json};

use super::plan::{Said, evicting, is_about, of_claim, of_pod};
use super::rules::{Counts, said, wait};
use super::triggers::pod_changed;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

fn time(seconds: i64) -> String {
    flyball_api::time::format_seconds(at(seconds))
}

/// A claim of one device `d`, reserved for the pod `app`, with tolerations such as `k=v/NoExecute@5 */NoExecute`.
fn claim(tolerations: &str) -> ResourceClaim {
    let one = |word: &str| {
        let (rest, seconds) = word
            .split_once('@')
            .map_or((word, Value::Null), |(rest, s)| (rest, json!(s.parse::<i64>().unwrap())));
        let (what, effect) = rest.split_once('/').unwrap();
        let mut toleration = match what.split_once('=') {
            Some((key, value)) => json!({"key": key, "value": value, "operator": "Equal"}),
            None if what == "*" => json!({"operator": "Exists"}),
            None => json!({"key": what, "operator": "Exists"}),
        };
        toleration["effect"] = json!(effect);
        toleration["tolerationSeconds"] = seconds;
        toleration
    };
    let tolerations: Vec<Value> = tolerations.split_whitespace().map(one).collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "c", "uid": "uid-c"},
        "status": {
            "allocation": {"devices": {"results": [{"request": "r", "driver": "x", "pool": "p", "device": "d", "tolerations": tolerations}]}},
            "reservedFor": [{"resource": "pods", "name": "app", "uid": "uid-app"}],
        },
    }))
    .unwrap()
}

/// Taints such as `k=v:0 other:10`, set at these times; those that begin with `rule-` come from that rule.
fn taints(words: &str) -> Vec<Said> {
    let one = |word: &str| {
        let (what, when) = word.split_once(':').unwrap();
        let (key, value) = what.split_once('=').unwrap_or((what, ""));
        let taint = json!({"key": key, "value": value, "effect": "NoExecute", "timeAdded": time(when.parse().unwrap())});
        let rule = key.starts_with("rule-").then(|| Uid::from(key));
        (serde_json::from_value::<Taint>(taint).unwrap(), rule)
    };
    words.split_whitespace().map(one).collect()
}

#[test]
fn what_a_rule_would_do_is_tolerated_as_if_it_did() {
    let rule: DeviceTaintRule = serde_json::from_value(json!({
        "metadata": {"name": "dry-run", "uid": "rule-x"},
        "spec": {"taint": {"key": "k", "effect": "None", "timeAdded": time(5)}},
    }))
    .unwrap();
    let would = |tolerations: &str| of_claim(&claim(tolerations), |_| vec![evicting(&rule)]).is_some();
    assert!(would("") && would("k/None") && !would("k/NoExecute") && !would("*/NoExecute"));
}

#[test]
fn a_claim_tolerates_taints_by_effect_key_value_and_time() {
    #[rustfmt::skip]
    let table = [
        // case                                          tolerations                         taints          when, because of
        ("nothing is said",                              "",                                 "",             "never"),
        ("not tolerated",                                "",                                 "k=v:5",        "5"),
        ("tolerated",                                    "k=v/NoExecute",                    "k=v:5",        "never"),
        ("another value",                                "k=w/NoExecute",                    "k=v:5",        "5"),
        ("another key",                                  "j/NoExecute",                      "k=v:5",        "5"),
        ("any value",                                    "k/NoExecute",                      "k=v:5",        "never"),
        ("anything",                                     "*/NoExecute",                      "k=v:5",        "never"),
        ("another effect",                               "*/NoSchedule",                     "k=v:5",        "5"),
        ("no effect is not every effect here",           "*/",                               "k=v:5",        "5"),
        ("for a while",                                  "k/NoExecute@30",                   "k=v:5",        "35"),
        ("for less than no time",                        "k/NoExecute@-30",                  "k=v:5",        "5"),
        ("the shortest counts",                          "k/NoExecute@30 */NoExecute@20",    "k=v:5",        "25"),
        ("for good beats for a while",                   "k/NoExecute@30 */NoExecute",       "k=v:5",        "never"),
        ("the first of several",                         "k/NoExecute@30",                   "k:5 j:9",      "9"),
        ("rules are named",                              "",                                 "rule-b:5 rule-a:7 k:1", "1 rule-a rule-b"),
        ("but not those that are tolerated",             "rule-a/NoExecute",                 "rule-b:5 rule-a:7",     "5 rule-b"),
    ];
    for (case, tolerations, words, want) in table {
        let got = of_claim(&claim(tolerations), |_| taints(words)).map_or("never".to_owned(), |eviction| {
            let rules: String = eviction.rules.iter().map(|rule| format!(" {rule}")).collect();
            format!("{}{rules}", eviction.due.as_second() - at(0).as_second())
        });
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn a_pod_goes_with_the_claims_that_it_uses() {
    let pod = |node: &str, entry: Value, recorded: Value| -> Pod {
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "app", "uid": "uid-app"},
            "spec": {"nodeName": node, "resourceClaims": [entry]},
            "status": {"resourceClaimStatuses": recorded},
        }))
        .unwrap()
    };
    let given = json!({"name": "g", "resourceClaimName": "c"});
    let template = json!({"name": "g", "resourceClaimTemplateName": "t"});
    let made = json!([{"name": "g", "resourceClaimName": "c"}]);
    let own = || {
        let mut claim = claim("");
        claim.metadata.owner_references = serde_json::from_value(
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "app", "uid": "uid-app", "controller": true}]),
        )
        .unwrap();
        claim
    };
    let unreserved = || {
        let mut claim = claim("");
        claim.status.reserved_for.clear();
        claim
    };
    #[rustfmt::skip]
    let table = [
        // case                        pod                                                    claim             goes
        ("it uses the claim",          pod("node-1", given.clone(), json!([])),               Some(claim("")),  true),
        ("it runs nowhere",            pod("", given.clone(), json!([])),                     Some(claim("")),  false),
        ("there is no claim",          pod("node-1", given.clone(), json!([])),               None,             false),
        ("it may not use it",          pod("node-1", given.clone(), json!([])),               Some(unreserved()), false),
        ("made for it",                pod("node-1", template.clone(), made.clone()),         Some(own()),      true),
        ("made for another",           pod("node-1", template.clone(), made.clone()),         Some(claim("")),  false),
        ("not made yet",               pod("node-1", template.clone(), json!([])),            Some(own()),      false),
        ("none is needed",             pod("node-1", template.clone(), json!([{"name": "g"}])), Some(own()),    false),
    ];
    for (case, pod, claim, want) in table {
        let claim = claim.map(Arc::new);
        let eviction = of_pod(&pod, |_| claim.clone(), |_| taints("k:0"), false);
        assert_eq!(eviction.is_some(), want, "{case}");
    }
}

fn rule(effect: &str, selector: Value, conditions: Value) -> DeviceTaintRule {
    serde_json::from_value(json!({
        "metadata": {"name": "rule", "uid": "uid-rule", "generation": 2},
        "spec": {"deviceSelector": selector, "taint": {"key": "k", "effect": effect, "timeAdded": time(0)}},
        "status": {"conditions": conditions},
    }))
    .unwrap()
}

#[test]
fn rules_speak_of_the_devices_that_they_select() {
    #[rustfmt::skip]
    let table = [
        (json!(null),                                            false),
        (json!({}),                                              true),
        (json!({"driver": "x"}),                                 true),
        (json!({"driver": "y"}),                                 false),
        (json!({"driver": "x", "pool": "p", "device": "d"}),     true),
        (json!({"driver": "x", "pool": "p", "device": "e"}),     false),
    ];
    for (selector, want) in table {
        assert_eq!(
            is_about(&rule("NoExecute", selector.clone(), json!([])), "x", "p", "d"),
            want,
            "{selector}"
        );
    }
}

#[test]
fn the_status_of_a_rule_says_how_far_it_is() {
    let counts = |pods, namespaces, evicted| Counts { published: 1, allocated: 2, pods, namespaces, evicted };
    let would = "1 published device selected. 2 allocated devices selected. 3 pods would be evicted in 1 namespace if \
                 the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to \
                 trigger an update.";
    #[rustfmt::skip]
    let table = [
        ("NoExecute",  counts(0, 0, 0), "False NotStarted: ".to_owned()),
        ("NoExecute",  counts(1, 1, 0), "True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.".to_owned()),
        ("NoExecute",  counts(4, 2, 1), "True PodsPendingEviction: 4 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller.".to_owned()),
        ("NoExecute",  counts(0, 0, 5), "False Completed: 5 pods evicted since starting the controller.".to_owned()),
        ("None",       counts(3, 1, 0), format!("False NoEffect: {would}")),
        ("NoSchedule", counts(0, 0, 0), "False OtherEffect: Eviction only happens for the NoExecute effect.".to_owned()),
    ];
    for (effect, counts, want) in table {
        let mut rule = rule(effect, json!({}), json!([]));
        let new = said(&rule, counts, at(0)).unwrap();
        assert_eq!(format!("{} {}: {}", new.status, new.reason, new.message), want);
        rule.status.conditions = vec![new];
        assert_eq!(said(&rule, counts, at(60)), None, "nothing new");
        assert_eq!(wait(&rule, at(4)).map(|wait| wait.as_secs()), Some(6));
        assert_eq!(wait(&rule, at(10)), None);
        rule.metadata.generation = 3;
        assert_eq!(wait(&rule, at(4)), None, "a new spec does not wait");
    }
}

#[test]
fn a_pod_is_looked_at_when_it_comes_to_a_node_or_goes() {
    let pod = |node: &str, is_going: bool| -> Arc<Pod> {
        let going = is_going.then(|| time(0));
        let spec = json!({"nodeName": node, "resourceClaims": [{"name": "g", "resourceClaimName": "c"}]});
        let metadata = json!({"namespace": "ns", "name": "app", "uid": "u", "deletionTimestamp": going});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
    };
    #[rustfmt::skip]
    let table = [
        ("as before",          pod("n", false), pod("n", false), false),
        ("placed",             pod("", false),  pod("n", false), true),
        ("it has begun to go", pod("n", false), pod("n", true),  true), // the rules that ended it count it no more
        ("it is still going",  pod("n", true),  pod("n", true),  false),
    ];
    for (case, old, new, looks) in table {
        let change = Change { old: Some(&old), new: Some(&new), origin: Origin::Watch };
        assert_eq!(pod_changed(&change).is_some(), looks, "{case}");
    }
}
