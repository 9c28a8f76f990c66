//! Every controller has a rule; and rules can be broken.

use std::sync::Arc;

use flyball_apiserver::{ApiServer, Options};
use flyball_manager::table::CONTROLLERS;
use serde_json::{Value, json};

use super::witness::account;
use super::{WITHOUT, Witness, Write, rules};

#[test]
fn every_controller_of_the_table_has_a_rule_or_a_reason() {
    for controller in CONTROLLERS {
        let has_rule = rules().any(|rule| rule.controller == controller.name);
        let reason = WITHOUT.iter().find(|(name, _)| *name == controller.name);
        assert!(has_rule != reason.is_some(), "{}: a rule, or a reason in WITHOUT", controller.name);
        assert!(reason.is_none() || controller.start.is_none(), "{} could have one", controller.name);
    }
    for rule in rules() {
        assert!(
            CONTROLLERS.iter().any(|known| known.name == rule.controller),
            "{} is unknown",
            rule.controller
        );
    }
}

/// The rules that a write breaks on an empty server.
fn broken(controller: &str, write: Write) -> Vec<&'static str> {
    let witness = Witness::at(ApiServer::new(Options::default()).unwrap());
    witness.judge(&Write { account: account(controller).to_owned(), ..write });
    witness.tally().violations.iter().map(|broken| broken.rule).collect()
}

fn write(verb: &'static str, group: &str, resource: &str, before: Value, after: Value) -> Write {
    let known = if before.is_null() { &after } else { &before };
    let text = |field: &str| known["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    let body =
        json!({"metadata": {"resourceVersion": "1"}, "preconditions": {"uid": before["metadata"]["uid"]}});
    Write {
        verb,
        group: group.to_owned(),
        resource: resource.to_owned(),
        namespace,
        name,
        body,
        before: Arc::new(before),
        after: Arc::new(after),
        ..Write::default()
    }
}

#[test]
fn a_write_that_breaks_a_rule_is_told() {
    let object = |more: Value| {
        let mut object = json!({"metadata": {"name": "a", "namespace": "n", "uid": "u"}});
        object.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        object
    };
    let kept = |finalizer: &str, status: Value| json!({"metadata": {"name": "a", "uid": "u", "finalizers": [finalizer]}, "status": status});
    let job = |failed: i64| object(json!({"status": {"failed": failed}}));
    let node = |range: &str| object(json!({"spec": {"podCIDRs": [range]}}));
    let size = |storage: &str| object(json!({"spec": {"capacity": {"storage": storage}}}));
    let plain = || object(json!({}));
    let nothing = Value::Null;
    #[rustfmt::skip]
    let table: Vec<(&str, Write, &str)> = vec![
        ("replicaset-controller",         write("create", "", "pods", nothing.clone(), plain()),                         "never more pods than ever wanted"),
        ("job-controller",                write("update", "batch", "jobs", job(3), job(2)),                              "what was counted stays counted"),
        ("cronjob-controller",            write("create", "batch", "jobs", nothing.clone(), plain()),                    "none beside another, if that is forbidden"),
        ("statefulset-controller",        write("create", "", "pods", nothing.clone(), plain()),                         "only ordinals that were wanted"),
        ("deployment-controller",         write("delete", "apps", "replicasets", object(json!({"spec": {"replicas": 1}})), nothing.clone()), "only empty ReplicaSets are deleted"),
        ("garbage-collector-controller",  write("delete", "", "pods", plain(), nothing.clone()),                         "nothing goes that has an owner which lives"),
        ("namespace-controller",          write("delete", "", "pods", plain(), nothing.clone()),                         "only in a namespace that is going"),
        ("node-ipam-controller",          write("patch", "", "nodes", node("10.0.0.0/24"), node("10.0.1.0/24")),         "a node keeps its ranges"),
        ("persistentvolume-protection-controller", write("update", "", "persistentvolumes", kept("kubernetes.io/pv-protection", json!({"phase": "Bound"})), plain()), "a volume stays while it is bound"),
        ("persistentvolume-expander-controller", write("patch", "", "persistentvolumes", size("2Gi"), size("1Gi")),      "nothing shrinks"),
        ("ttl-controller",                write("update", "", "pods", kept("orphan", json!({})), kept("other", json!({}))), "nobody takes the finalizer of another away"),
        ("selinux-warning-controller",    write("update", "", "pods", plain(), plain()),                                 "nothing but events"),
        ("disruption-controller",         write("update", "policy", "poddisruptionbudgets", plain(), object(json!({"status": {"disruptionsAllowed": 2, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3}}))), "who may go leaves as many as must stay"),
        ("resourcequota-controller",      write("update", "", "resourcequotas", plain(), object(json!({"spec": {"hard": {"pods": "1"}}, "status": {"hard": {"pods": "2"}}}))), "limits in force are those that are asked for"),
    ];
    for (controller, write, rule) in table {
        let found = broken(controller, write.clone());
        assert!(found.contains(&rule), "{controller}: {write:?} broke {found:?} only");
    }
    let mut blind = write("delete", "", "pods", plain(), nothing);
    blind.body = json!({});
    assert!(broken("replicaset-controller", blind).contains(&"a delete names the object that it means"));
    let settled = write("update", "", "resourcequotas", plain(), plain());
    assert_eq!(broken("resourcequota-controller", settled), Vec::<&str>::new());
}
