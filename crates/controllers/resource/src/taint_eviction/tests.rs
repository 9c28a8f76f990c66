//! Taints and tolerations of devices, written as words.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::taint::Taint;
use flyball_api::{DeviceTaintRule, Object, ResourceClaim, ResourceSlice, Timestamp, Uid};
use flyball_cache::{Change, Origin};
use flyball_client::Patch;
use flyball_runtime::{Plan, Write};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::devices::devices_of;
use super::invariants::check;
use super::plan::{
    self, DeviceTaint, Eviction, View, claim_eviction, current, evicting, plan, pod_eviction, selects,
};
use super::rules::{self, Counts};
use super::triggers::pod_changed;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

fn time(seconds: i64) -> String {
    flyball_api::time::format_seconds(at(seconds))
}

/// A ResourceClaim with one device `d`, reserved for the pod `app`, with tolerations such as `k=v/NoExecute@5 */NoExecute`.
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
fn taints(words: &str) -> Vec<DeviceTaint> {
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
fn a_dry_run_rule_is_tolerated_like_one_with_no_execute() {
    let rule: DeviceTaintRule = serde_json::from_value(json!({
        "metadata": {"name": "dry-run", "uid": "rule-x"},
        "spec": {"taint": {"key": "k", "effect": "None", "timeAdded": time(5)}},
    }))
    .unwrap();
    let would = |tolerations: &str| claim_eviction(&claim(tolerations), |_| vec![evicting(&rule)]).is_some();
    assert!(would("") && would("k/None") && !would("k/NoExecute") && !would("*/NoExecute"));
}

#[test]
fn resource_claims_tolerate_taints_by_effect_key_value_and_time() {
    #[rustfmt::skip]
    let table = [
        // case                                          tolerations                         taints          due, rules
        ("no taints",                                    "",                                 "",             "never"),
        ("not tolerated",                                "",                                 "k=v:5",        "5"),
        ("tolerated",                                    "k=v/NoExecute",                    "k=v:5",        "never"),
        ("another value",                                "k=w/NoExecute",                    "k=v:5",        "5"),
        ("another key",                                  "j/NoExecute",                      "k=v:5",        "5"),
        ("any value",                                    "k/NoExecute",                      "k=v:5",        "never"),
        ("anything",                                     "*/NoExecute",                      "k=v:5",        "never"),
        ("another effect",                               "*/NoSchedule",                     "k=v:5",        "5"),
        ("an empty effect does not match",               "*/",                               "k=v:5",        "5"),
        ("for some time",                                "k/NoExecute@30",                   "k=v:5",        "35"),
        ("for a negative time",                          "k/NoExecute@-30",                  "k=v:5",        "5"),
        ("the shortest counts",                          "k/NoExecute@30 */NoExecute@20",    "k=v:5",        "25"),
        ("without a limit beats a limit",                   "k/NoExecute@30 */NoExecute",       "k=v:5",        "never"),
        ("the first of several",                         "k/NoExecute@30",                   "k:5 j:9",      "9"),
        ("rules are listed",                             "",                                 "rule-b:5 rule-a:7 k:1", "1 rule-a rule-b"),
        ("but not rules that are tolerated",             "rule-a/NoExecute",                 "rule-b:5 rule-a:7",     "5 rule-b"),
    ];
    for (case, tolerations, words, want) in table {
        let got =
            claim_eviction(&claim(tolerations), |_| taints(words)).map_or("never".to_owned(), |eviction| {
                let rules: String = eviction.rules.iter().map(|rule| format!(" {rule}")).collect();
                format!("{}{rules}", eviction.due.as_second() - at(0).as_second())
            });
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn a_pod_is_evicted_with_the_resource_claims_that_it_uses() {
    let pod = |node: &str, entry: Value, recorded: Value| -> Pod {
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "app", "uid": "uid-app"},
            "spec": {"nodeName": node, "resourceClaims": [entry]},
            "status": {"resourceClaimStatuses": recorded},
        }))
        .unwrap()
    };
    let named = json!({"name": "g", "resourceClaimName": "c"});
    let template = json!({"name": "g", "resourceClaimTemplateName": "t"});
    let recorded = json!([{"name": "g", "resourceClaimName": "c"}]);
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
        ("it uses the ResourceClaim",  pod("node-1", named.clone(), json!([])),               Some(claim("")),  true),
        ("it has no node",             pod("", named.clone(), json!([])),                     Some(claim("")),  false),
        ("there is no ResourceClaim",  pod("node-1", named.clone(), json!([])),               None,             false),
        ("not reserved for it",          pod("node-1", named.clone(), json!([])),               Some(unreserved()), false),
        ("created for it",              pod("node-1", template.clone(), recorded.clone()),         Some(own()),      true),
        ("created for another",         pod("node-1", template.clone(), recorded.clone()),         Some(claim("")),  false),
        ("not created yet",            pod("node-1", template.clone(), json!([])),            Some(own()),      false),
        ("none is needed",             pod("node-1", template.clone(), json!([{"name": "g"}])), Some(own()),    false),
    ];
    for (case, pod, claim, want) in table {
        let claim = claim.map(Arc::new);
        let eviction = pod_eviction(&pod, |_| claim.clone(), |_| taints("k:0"), false);
        assert_eq!(eviction.is_some(), want, "{case}");
    }
}

#[test]
fn an_eviction_waits_is_cancelled_or_is_made() {
    let pod = |conditions: Value| -> Pod {
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "app", "uid": "u"}, "spec": {"nodeName": "n"},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    };
    let marked = json!([{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByDeviceTaintManager",
        "message": "Device Taint manager: deleting due to NoExecute taint"}]);
    let why = "a device that it uses has a NoExecute taint that is not tolerated";
    let delete = format!("delete Pod ns/app: {why}");
    let marking = "event Normal DeviceTaintManagerEviction: Marking for deletion";
    let wait = "again after 5s\nwaiting for 2026-01-01T00:00:05Z, when it is evicted because of the taint of a device";
    #[rustfmt::skip]
    let table = [
        // case                     pod                 due       was scheduled  plan
        ("not evicted",             pod(json!([])),     None,     false,         String::new()),
        ("cancelled",               pod(json!([])),     None,     true,          "event Normal DeviceTaintManagerEviction: Cancelling deletion".to_owned()),
        ("later",                   pod(json!([])),     Some(5),  true,          wait.to_owned()),
        ("now",                     pod(json!([])),     Some(0),  true,          format!("{marking}\npatch Pod/status ns/app: {why}\n{delete}")),
        ("it has the condition",    pod(marked),        Some(-9), false,         format!("{marking}\n{delete}")),
    ];
    for (case, pod, due, was_scheduled, want) in table {
        let eviction = due.map(|due| Eviction { due: at(due), rules: Default::default() });
        let view = View { pod: &pod, eviction: eviction.as_ref(), was_scheduled, now: at(0) };
        assert_eq!(plan(&view).to_string(), want, "{case}");
        assert_eq!(check(&view, &plan(&view)), Ok(()), "{case}");
    }
}

#[test]
fn the_invariants_tell_right_plans_from_wrong_ones() {
    let pod = |uid: &str, more: Value| -> Pod {
        let mut metadata = json!({"namespace": "ns", "name": "app", "uid": uid});
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(json!({"metadata": metadata, "spec": {"nodeName": "n"}})).unwrap()
    };
    let (app, other) = (pod("u", json!({})), pod("v", json!({})));
    let leaving = pod("u", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
    let [now, later] = [0, 5].map(|due| Eviction { due: at(due), rules: Default::default() });
    let view = |pod, eviction| View { pod, eviction, was_scheduled: true, now: at(0) };
    let (evict, wait) = (|| plan(&view(&app, Some(&now))), || plan(&view(&app, Some(&later))));
    #[rustfmt::skip]
    let table = [
        // case                      view                          plan      broken
        ("right",                    view(&app, Some(&now)),       evict(),  ""),
        ("not evicted",              view(&app, None),             evict(),  "only a pod whose eviction is due"),
        ("not yet",                  view(&app, Some(&later)),     evict(),  "only a pod whose eviction is due"),
        ("being deleted",            view(&leaving, Some(&now)),   evict(),  "left alone"),
        ("another pod of its name",  view(&other, Some(&now)),     evict(),  "by its uid"),
        ("nothing to wait for",      view(&app, None),             wait(),   "is awaited"),
        ("marked only",              view(&app, Some(&now)),       Plan::of([Write::patch::<Pod>(app.key(), Patch::Merge(json!({})))]), "only to be deleted"),
    ];
    for (case, view, plan, want) in table {
        let broken = check(&view, &plan).err().unwrap_or_default();
        assert!(broken.contains(want) && broken.is_empty() == want.is_empty(), "{case}: {broken}");
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
fn rules_select_devices_by_driver_pool_and_name() {
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
            selects(&rule("NoExecute", selector.clone(), json!([])), "x", "p", "d"),
            want,
            "{selector}"
        );
    }
}

/// A slice of the pool `p` with one device `d`, with taints such as `k/NoExecute`.
fn slice(generation: i64, taints: &str) -> Arc<ResourceSlice> {
    let taints = taints.split_whitespace().map(|word| word.split_once('/').unwrap());
    let taints: Vec<Value> = taints.map(|(key, effect)| json!({"key": key, "effect": effect})).collect();
    let pool = json!({"name": "p", "generation": generation, "resourceSliceCount": 1});
    let devices = json!([{"name": "d", "taints": taints}]);
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": "slice"}, "spec": {"driver": "x", "pool": pool, "devices": devices},
        }))
        .unwrap(),
    )
}

#[test]
fn a_device_has_the_taints_of_its_current_slices_and_of_rules() {
    let evicts = rule("NoExecute", json!({"driver": "x"}), json!([]));
    let other = rule("NoExecute", json!({"driver": "y"}), json!([]));
    let dry_run = rule("None", json!({"driver": "x"}), json!([]));
    #[rustfmt::skip]
    let table = [
        // case                                slices                                                    rules      as if           taints
        ("none",                               vec![],                                                   None,          None,            ""),
        ("of its driver",                      vec![slice(1, "a/NoExecute b/NoSchedule c/NoExecute")],   None,          None,            "a c"),
        ("an older generation does not count", vec![slice(1, "a/NoExecute"), slice(2, "b/NoExecute")],   None,          None,            "b"),
        ("of a rule",                          vec![slice(1, "a/NoExecute")],                            Some(&evicts), None,            "a k!"),
        ("a rule for another driver",          vec![slice(1, "a/NoExecute")],                            Some(&other),  None,            "a"),
        ("a dry run",                          vec![],                                                   Some(&dry_run), None,           ""),
        ("a dry run, as if it were none",      vec![],                                                   None,          Some(&dry_run),  "k!"),
        ("as if, for another driver",          vec![],                                                   None,          Some(&other),    ""),
    ];
    let claim = claim("");
    let device = &devices_of(&claim)[0];
    for (case, slices, rule, as_if, want) in table {
        let rules: Vec<_> = rule.cloned().map(Arc::new).into_iter().collect();
        let taints = plan::taints(device, &current(slices), &rules, as_if);
        let found = taints.iter().map(|(taint, rule)| {
            assert_eq!(taint.effect, "NoExecute", "{case}");
            format!("{}{}", taint.key, if rule.is_some() { "!" } else { "" })
        });
        assert_eq!(found.collect::<Vec<_>>().join(" "), want, "{case}");
    }
}

#[test]
fn the_pods_and_devices_that_a_rule_affects_are_counted() {
    let rule = rule("NoExecute", json!({"driver": "x", "pool": "p"}), json!([]));
    let pod = |namespace: &str, rules: &[&str]| {
        let rules = rules.iter().map(|rule| SmolStr::from(*rule)).collect();
        (SmolStr::from(namespace), Eviction { due: at(0), rules })
    };
    let pods =
        [pod("a", &["uid-rule"]), pod("a", &["uid-rule", "r"]), pod("b", &["uid-rule"]), pod("c", &["r"])];
    let published = [("x", "p", "d"), ("x", "p", "e"), ("x", "q", "d"), ("y", "p", "d")];
    let counts = rules::count(&rule, 7, pods, published, [("x", "p", "d")]);
    assert_eq!(counts, Counts { published: 2, allocated: 1, pods: 3, namespaces: 2, evicted: 7 });
}

#[test]
fn the_status_of_a_rule_shows_the_progress() {
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
        let planned = |rule: &DeviceTaintRule, now| rules::plan(rule, || counts, "manager", now);
        let first = planned(&rule, at(0));
        let (status, why) = want.split_once(' ').unwrap();
        assert_eq!(first.to_string(), format!("patch DeviceTaintRule/status rule: {why}"));
        let body = first.writes()[0].body().unwrap();
        assert_eq!(body["status"]["conditions"][0]["status"], json!(status));
        rule.status.conditions = serde_json::from_value(body["status"]["conditions"].clone()).unwrap();
        assert_eq!(planned(&rule, at(60)).to_string(), "", "it has not changed");
        let wait = "again after 6s\nwaiting for 2026-01-01T00:00:10Z, when its status may be updated again";
        assert_eq!(planned(&rule, at(4)).to_string(), wait);
        assert_eq!(planned(&rule, at(10)).to_string(), "");
        rule.metadata.generation = 3;
        assert_eq!(planned(&rule, at(4)).writes().len(), 1, "a new spec does not wait");
    }
}

#[test]
fn a_pod_is_synced_when_its_node_or_its_deletion_changes() {
    let pod = |node: &str, is_deleting: bool| -> Arc<Pod> {
        let deleted = is_deleting.then(|| time(0));
        let spec = json!({"nodeName": node, "resourceClaims": [{"name": "g", "resourceClaimName": "c"}]});
        let metadata = json!({"namespace": "ns", "name": "app", "uid": "u", "deletionTimestamp": deleted});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
    };
    #[rustfmt::skip]
    let table = [
        ("unchanged",          pod("n", false), pod("n", false), false),
        ("assigned to a node", pod("", false),  pod("n", false), true),
        ("its deletion begins", pod("n", false), pod("n", true),  true), // the rules no longer count it as pending
        ("its deletion goes on", pod("n", true),  pod("n", true),  false),
    ];
    for (case, old, new, want) in table {
        let change = Change { old: Some(&old), new: Some(&new), origin: Origin::Watch };
        assert_eq!(pod_changed(&change).is_some(), want, "{case}");
    }
}
