//! Tables for the pods that keep a claim, the triggers, the condition and the finalizer.

use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{PersistentVolumeClaim, ResourceVersion, Timestamp, condition};
use flyball_cache::{Change, Origin};
use serde_json::{Value, json};

use super::invariants::check;
use super::plan::{Listed, UNUSED, View, conditions, keeps, needs_list, plan, refers};
use super::triggers::{claim_changed, pod_changed};
use crate::usage::Uses;

/// A pod in words: `node`, `ended`, `running`, `deleted`, `down` (deleted, and its node has shut it down),
/// `uid=…`, `claim=…`, `scratch` (an ephemeral volume of that name).
fn pod(words: &str) -> Pod {
    let mut object = json!({
        "metadata": {"namespace": "ns", "name": "p", "uid": "u1"}, "spec": {"volumes": []}, "status": {},
    });
    let mut volumes: Vec<Value> = vec![json!({"name": "tmp", "emptyDir": {}})];
    for word in words.split_whitespace() {
        match word.split_once('=') {
            Some(("uid", uid)) => object["metadata"]["uid"] = json!(uid),
            Some(("claim", name)) => {
                volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
            }
            _ => match word {
                "node" => object["spec"]["nodeName"] = json!("n"),
                "ended" => object["status"]["phase"] = json!("Succeeded"),
                "running" => {
                    object["status"]["containerStatuses"] = json!([{"name": "c", "state": {"running": {}}}]);
                }
                "debugged" => {
                    object["status"]["ephemeralContainerStatuses"] =
                        json!([{"name": "d", "state": {"running": {}}}]);
                }
                "deleted" | "down" => {
                    object["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
                    let grace = if word == "down" { 0 } else { 30 };
                    object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
                }
                "scratch" => {
                    volumes.push(json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}))
                }
                other => panic!("{other}"),
            },
        }
    }
    object["spec"]["volumes"] = json!(volumes);
    serde_json::from_value(object).unwrap()
}

fn claim(name: &str, owner: &str) -> PersistentVolumeClaim {
    let owners = match owner {
        "" => json!([]),
        uid => json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": true}]),
    };
    let meta = json!({"namespace": "ns", "name": name, "ownerReferences": owners});
    serde_json::from_value(json!({ "metadata": meta })).unwrap()
}

#[test]
fn pods_on_nodes_keep_their_claims() {
    #[rustfmt::skip]
    let table = [
        // case                                  claim        owner  pod                        kept   referred to
        ("waits for a node",                     "data",      "",    "claim=data",              false, true),
        ("on a node",                            "data",      "",    "node claim=data",         true,  true),
        ("another claim",                        "data",      "",    "node claim=other",        false, false),
        ("ended, but still there",               "data",      "",    "node ended claim=data",   true,  false),
        ("being deleted, running",               "data",      "",    "node deleted running claim=data", true, true),
        ("being deleted, a debugger runs",       "data",      "",    "node deleted debugged claim=data", true, true),
        ("being deleted, stopped",               "data",      "",    "node deleted claim=data",   true,  false),
        ("its node has shut it down",            "data",      "",    "node down claim=data",    true,  false),
        ("made for the pod",                     "p-scratch", "u1",  "node scratch",            true,  true),
        ("made for a pod of that name before",   "p-scratch", "u0",  "node scratch",            false, false),
        ("a user's claim of that name",          "p-scratch", "",    "node scratch",            false, false),
        ("made for a pod that ended",            "p-scratch", "u1",  "node ended scratch",      true,  false),
        ("made for a pod that is shut down",     "p-scratch", "u1",  "node down scratch",       false, false),
    ];
    for (case, name, owner, words, kept, referred) in table {
        let (claim, pod) = (claim(name, owner), pod(words));
        assert_eq!(Uses::of([&pod], keeps).contains(&claim), kept, "{case}: kept");
        assert_eq!(Uses::of([&pod], refers).contains(&claim), referred, "{case}: referred to");
    }
}

#[test]
fn a_list_of_pods_serves_claims_whose_deletion_was_known_before_it() {
    #[rustfmt::skip]
    let table = [
        // case                              claim    version  era  free
        ("known before the list",            "other", 40,      0,   true),
        ("the latest that was known",        "other", 50,      0,   true),
        ("deleted after the list",           "other", 51,      0,   false),
        ("used",                             "data",  40,      0,   false),
        ("deleted after a restore of etcd",  "other", 40,      1,   false),
    ];
    let uses = Uses::of([&pod("node claim=data")], keeps);
    let listed = Listed { namespace: "ns".into(), era: 0, claims_reached: ResourceVersion(50), uses };
    for (case, name, version, era, free) in table {
        let mut claim = claim(name, "");
        claim.metadata.resource_version = ResourceVersion(version);
        assert_eq!(listed.shows_unused(&claim, era), free, "{case}");
    }
}

#[test]
fn claims_are_synced_when_a_pod_may_no_longer_use_them() {
    #[rustfmt::skip]
    let table = [
        // case                             before                    after                        claims
        ("new, without a node",             None,                     Some("claim=a scratch"),     "ns/a ns/p-scratch"),
        ("new, on a node",                  None,                     Some("node claim=a"),        ""),
        ("runs",                            Some("node claim=a"),     Some("node claim=a running"), ""),
        ("ended",                           Some("node claim=a"),     Some("node ended claim=a"),  "ns/a"),
        ("being deleted",                   Some("node claim=a"),     Some("node deleted claim=a"),  "ns/a"),
        ("gone",                            Some("node claim=a"),     None,                        "ns/a"),
        ("another one of its name",         Some("node claim=a"),     Some("uid=u2 node claim=b"), "ns/a"),
    ];
    for (case, before, after, want) in table {
        let side = |words: Option<&str>| words.map(|words| Arc::new(pod(words)));
        let (old, new) = (side(before), side(after));
        let change = Change { old: old.as_ref(), new: new.as_ref(), origin: Origin::Watch };
        let keys: Vec<_> = pod_changed(&change, false).iter().map(ToString::to_string).collect();
        assert_eq!(keys.join(" "), want, "{case}");
    }
    let new = Arc::new(pod("node claim=a"));
    let change = Change { old: None, new: Some(&new), origin: Origin::Watch };
    assert_eq!(pod_changed(&change, true).len(), 1, "every pod matters for the condition");
}

#[test]
fn the_condition_is_set_once() {
    let now = Timestamp::from_second(100).unwrap();
    let mut claim = claim("data", "");
    let arc = Arc::new(claim.clone());
    let change = Change { old: None, new: Some(&arc), origin: Origin::Watch };
    assert!(claim_changed(&change, true).is_some());
    let set = conditions(&claim, false, now).unwrap();
    assert_eq!(condition::find(&set, UNUSED).unwrap().reason, "NoPodsUsingPVC");
    claim.status.conditions = set;
    assert_eq!(conditions(&claim, false, now), None);
    let set = conditions(&claim, true, Timestamp::from_second(200).unwrap()).unwrap();
    assert_eq!(set.len(), 1);
    assert!(set[0].is_false() && set[0].last_transition_time.unwrap().as_second() == 200);
}

#[test]
fn a_claim_keeps_its_finalizer_while_the_cache_or_the_server_shows_a_user() {
    let now = Timestamp::from_second(100).unwrap();
    let release = "update PersistentVolumeClaim ns/data: no pod uses it";
    let wait = "waiting for PersistentVolumeClaim/ns/data to be used by no pod on a node";
    #[rustfmt::skip]
    let table = [
        // case                  finalizer  deleting  cached              on the server  list   plan
        ("without finalizer",    false,     false,    "",                 None,          false, "update PersistentVolumeClaim ns/data: pods may come to use it"),
        ("protected",            true,      false,    "",                 None,          false, ""),
        ("not listed yet",       true,      true,     "",                 None,          true,  wait),
        ("used, in the cache",   true,      true,     "node claim=data",  None,          false, wait),
        ("used, on the server",  true,      true,     "",                 Some(true),    true,  wait),
        ("not used",             true,      true,     "claim=data",       Some(false),   true,  release),
    ];
    for (case, has_finalizer, is_deleting, cached, is_kept, lists, want) in table {
        let mut claim = claim("data", "");
        if has_finalizer {
            claim.metadata.finalizers = ["kubernetes.io/pvc-protection".into()].into();
        }
        claim.metadata.deletion_timestamp = is_deleting.then_some(now);
        let pods = [Arc::new(pod(cached))];
        let mut view = View { claim: &claim, pods: &pods, is_kept, reports_unused: false, now };
        assert_eq!((needs_list(&view), plan(&view).to_string().as_str()), (lists, want), "{case}");
        view.reports_unused = true;
        let status = plan(&view).to_string().contains("PersistentVolumeClaim/status");
        assert_eq!(status, !is_deleting, "{case}: the condition comes first");
    }
}

/// Each plan is right for another view.
#[test]
fn the_invariants_tell_right_plans_from_wrong_ones() {
    let own = json!(["kubernetes.io/pvc-protection", "example.com/mine"]);
    let with = |finalizers: &Value, deleted: bool| {
        let mut claim = claim("data", "");
        claim.metadata.finalizers = serde_json::from_value(finalizers.clone()).unwrap();
        claim.metadata.deletion_timestamp = deleted.then_some(Timestamp::UNIX_EPOCH);
        claim
    };
    let (kept, leaving, bare) =
        (with(&own, false), with(&own, true), with(&json!(["example.com/mine"]), true));
    let user = [Arc::new(pod("node claim=data"))];
    fn view<'a>(claim: &'a PersistentVolumeClaim, pods: &'a [Arc<Pod>], is_kept: Option<bool>) -> View<'a> {
        View { claim, pods, is_kept, reports_unused: false, now: Timestamp::UNIX_EPOCH }
    }
    let release = || plan(&view(&leaving, &[], Some(false)));
    let protect = || plan(&view(&with(&json!(["example.com/mine"]), false), &[], None));
    assert_eq!((release().writes().len(), protect().writes().len()), (1, 1));
    #[rustfmt::skip]
    let table = [
        // case                                   view                               plan       broken
        ("right",                                 view(&leaving, &[], Some(false)),  release(), ""),
        ("the claim is not being deleted",        view(&kept, &[], Some(false)),     release(), "it is not being deleted"),
        ("a pod on the server keeps it",          view(&leaving, &[], Some(true)),   release(), "or one of them keeps it"),
        ("the server was not read",               view(&leaving, &[], None),         release(), "were not read"),
        ("a pod on a node uses it",               view(&leaving, &user, Some(false)), release(), "a pod on a node names it"),
        ("it is being deleted",                   view(&bare, &[], None),            protect(), "gets the finalizer"),
    ];
    for (case, view, plan, want) in table {
        let broken = check(&view, &plan).err().unwrap_or_default();
        assert!(broken.contains(want) && broken.is_empty() == want.is_empty(), "{case}: {broken}");
    }
}
