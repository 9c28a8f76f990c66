//! Tables over `decide`: nodes and pods as JSON, the result as one line of text.

use std::sync::Arc;

use flyball_api::node::Node;
use serde_json::{Value, json};

use super::{Preparation, ScheduleResult, Snapshot, decide};
use crate::objects::Pod;

fn node(name: &str, extra: Value) -> Arc<Node> {
    let mut node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "3"}},
    });
    merge(&mut node, extra);
    Arc::new(serde_json::from_value(node).unwrap())
}

fn pod(name: &str, extra: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c"}]},
    });
    merge(&mut pod, extra);
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, from) => *into = from,
    }
}

fn and(mut one: Value, other: Value) -> Value {
    merge(&mut one, other);
    one
}

fn on(node: &str, name: &str, extra: Value) -> Arc<Pod> {
    pod(name, and(extra, json!({"spec": {"nodeName": node}})))
}

fn cpu(amount: &str) -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": amount}}}]}})
}

fn result(pod: &Pod, snapshot: &Snapshot) -> String {
    match decide(pod, snapshot) {
        ScheduleResult::Bind { node, .. } => format!("-> {node}"),
        ScheduleResult::Prepare { node, preparations } => {
            let all: Vec<String> = preparations
                .iter()
                .map(|preparation| match preparation {
                    Preparation::Promise { volume, claim } => format!("promise {volume} to {}", claim.name),
                    Preparation::Provision { claim } => format!("provision {}", claim.name),
                })
                .collect();
            format!("{node}: {}", if all.is_empty() { "wait".to_owned() } else { all.join(", ") })
        }
        ScheduleResult::Unschedulable { message, preemption: None } => message,
        ScheduleResult::Unschedulable { message, preemption: Some(preemption) } => {
            let victims: Vec<&str> =
                preemption.victims.iter().map(|pod| pod.metadata.name.as_str()).collect();
            format!("{message} evict {} from {}", victims.join(", "), preemption.node)
        }
    }
}

/// The message for a pod that no preemption could help.
fn unresolvable(message: &str, nodes: usize) -> String {
    format!(
        "0/{nodes} nodes are available: {message}. no new claims to deallocate, preemption: 0/{nodes} nodes are available: \
         {nodes} Preemption is not helpful for scheduling."
    )
}

/// The message for a pod that preemption could help, if there were pods of lower priority.
fn no_victims(message: &str, nodes: usize) -> String {
    format!(
        "0/{nodes} nodes are available: {message}. no new claims to deallocate, preemption: 0/{nodes} nodes are available: \
         {nodes} No preemption victims found for incoming pod."
    )
}

#[test]
fn a_pod_goes_where_its_own_rules_and_the_nodes_allow() {
    let zone = |zone: &str| json!({"metadata": {"labels": {"zone": zone}}});
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}});
    let bear = |toleration: Value| json!({"spec": {"tolerations": [toleration]}});
    let want = |terms: Value| {
        json!({"spec": {"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}})
    };
    let need = |operator: &str, values: &[&str]| {
        want(json!([{"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]}]))
    };
    let by_name =
        want(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]));
    let cordoned = || json!({"spec": {"unschedulable": true}});
    let ok = || "-> n".to_owned();
    let selector = || unresolvable("1 node(s) didn't match Pod's node affinity/selector", 1);
    let tainted = || unresolvable("1 node(s) had untolerated taint(s)", 1);
    #[rustfmt::skip]
    let table = [
        // case                           node                       pod                                        result
        ("anything goes",                 json!({}),                 json!({}),                                 ok()),
        ("no node is that large",         json!({}),                 cpu("3"),                                  unresolvable("1 Insufficient cpu", 1)),
        ("all of it",                     json!({}),                 cpu("2"),                                  ok()),
        ("cordoned",                      cordoned(),                json!({}),                                 unresolvable("1 node(s) were unschedulable", 1)),
        ("cordoned, and borne",           cordoned(),                bear(json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"})), ok()),
        ("tainted",                       taint("NoSchedule"),       json!({}),                                 tainted()),
        ("tainted against running",       taint("NoExecute"),        json!({}),                                 tainted()),
        ("tainted a little",              taint("PreferNoSchedule"), json!({}),                                 ok()),
        ("tainted, and borne",            taint("NoSchedule"),       bear(json!({"key": "k", "value": "v"})),   ok()),
        ("selected",                      zone("a"),                 json!({"spec": {"nodeSelector": {"zone": "a"}}}), ok()),
        ("not selected",                  zone("a"),                 json!({"spec": {"nodeSelector": {"zone": "b"}}}), selector()),
        ("in",                            zone("a"),                 need("In", &["a", "b"]),                   ok()),
        ("not in",                        zone("a"),                 need("NotIn", &["a"]),                     selector()),
        ("not in, without the label",     json!({}),                 need("NotIn", &["a"]),                     ok()),
        ("exists",                        zone("a"),                 need("Exists", &[]),                       ok()),
        ("does not exist",                zone("a"),                 need("DoesNotExist", &[]),                 selector()),
        ("greater",                       zone("7"),                 need("Gt", &["6"]),                        ok()),
        ("not less",                      zone("7"),                 need("Lt", &["6"]),                        selector()),
        ("no number",                     zone("a"),                 need("Gt", &["6"]),                        selector()),
        ("an empty term matches nothing", zone("a"),                 want(json!([{}])),                         selector()),
        ("by name",                       json!({}),                 by_name,                                   ok()),
    ];
    for (case, node_extra, pod_extra, want) in table {
        let snapshot = Snapshot::new([node("n", node_extra)], []);
        assert_eq!(result(&pod("p", pod_extra), &snapshot), want, "{case}");
    }
    let no_nodes = result(&pod("p", json!({})), &Snapshot::default());
    assert_eq!(no_nodes, "no nodes available to schedule pods");
}

#[test]
fn what_others_use_is_taken() {
    let port = |number: u16, protocol: &str| json!({"spec": {"containers": [{"name": "c", "ports": [{"hostPort": number, "protocol": protocol}]}]}});
    let done = || and(cpu("2"), json!({"status": {"phase": "Succeeded"}}));
    let ports = no_victims("1 node(s) didn't have free ports for the requested pod ports", 1);
    let ok = || "-> n".to_owned();
    #[rustfmt::skip]
    let table = [
        ("room for both",           vec![cpu("1")],                        cpu("1"),        ok()),
        ("room for one",            vec![cpu("1500m")],                    cpu("1"),        no_victims("1 Insufficient cpu", 1)),
        ("what has ended is free",  vec![done()],                          cpu("1"),        ok()),
        ("as many as allowed",      vec![json!({}), json!({}), json!({})], json!({}),       no_victims("1 Too many pods", 1)),
        ("the same port",           vec![port(80, "")],                    port(80, "TCP"), ports),
        ("another protocol",        vec![port(80, "UDP")],                 port(80, "TCP"), ok()),
    ];
    for (case, others, new, want) in table {
        let others = others.into_iter().enumerate().map(|(n, extra)| on("n", &format!("old-{n}"), extra));
        let snapshot = Snapshot::new([node("n", json!({}))], others);
        assert_eq!(result(&pod("p", new), &snapshot), want, "{case}");
    }
}

#[test]
fn init_containers_and_sidecars_count_as_they_run() {
    let request = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let spec = |init: Value, main: &str| json!({"spec": {"initContainers": init, "containers": [{"name": "c", "resources": request(main)}]}});
    let init = |cpu: &str| json!({"name": "i", "resources": request(cpu)});
    let sidecar = |cpu: &str| json!({"name": "s", "resources": request(cpu), "restartPolicy": "Always"});
    #[rustfmt::skip]
    let table = [
        ("init before main, not with it",   spec(json!([init("2")]), "2"),                   "-> n"),
        ("an init container too large",     spec(json!([init("3")]), "1"),                   "0/1"),
        ("a sidecar runs beside",           spec(json!([sidecar("1")]), "1"),                "-> n"),
        ("a sidecar runs beside: too much", spec(json!([sidecar("1500m")]), "1"),            "0/1"),
        ("and beside later init ones",      spec(json!([sidecar("1"), init("1500m")]), "0"), "0/1"),
    ];
    for (case, extra, want) in table {
        let got = result(&pod("p", extra), &Snapshot::new([node("n", json!({}))], []));
        assert!(got.starts_with(want), "{case}: {got}");
    }
}

#[test]
fn reasons_are_counted_and_sorted_as_text() {
    let tainted = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    let snapshot = Snapshot::new([node("a", json!({})), node("b", tainted.clone()), node("c", tainted)], []);
    let want = unresolvable("1 Insufficient cpu, 2 node(s) had untolerated taint(s)", 3);
    assert_eq!(result(&pod("p", cpu("3")), &snapshot), want);
}

#[test]
fn pods_keep_company_or_their_distance() {
    let zones = || {
        [("a1", "a"), ("a2", "a"), ("b1", "b")]
            .map(|(name, zone)| node(name, json!({"metadata": {"labels": {"zone": zone}}})))
    };
    let term =
        |key: &str, app: &str| json!([{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]);
    let rule = |kind: &str, terms: Value| json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}});
    let host = "kubernetes.io/hostname";
    let db = |node: &str| on(node, "db", json!({"metadata": {"labels": {"app": "db"}}}));
    let loner = on("a1", "loner", rule("podAntiAffinity", term("zone", "web")));
    let elsewhere = || on("a1", "x", json!({"metadata": {"namespace": "other", "labels": {"app": "db"}}}));
    let with_namespace = rule(
        "podAntiAffinity",
        json!([{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}, "namespaces": ["other"]}]),
    );
    let lonely = || unresolvable("3 node(s) didn't match pod affinity rules", 3);
    let to = |node: &str| format!("-> {node}");
    #[rustfmt::skip]
    let table = [
        ("near the db, by host",            vec![db("b1")],      rule("podAffinity", term(host, "db")),       to("b1")),
        ("near the db, by zone",            vec![db("a1")],      rule("podAffinity", term("zone", "db")),     to("a2")),
        ("no db to be near",                vec![],              rule("podAffinity", term("zone", "db")),     lonely()),
        ("the first of a group",            vec![],              rule("podAffinity", term("zone", "web")),    to("a1")),
        ("a topology without nodes",      vec![],              rule("podAffinity", term("rack", "web")),    lonely()),
        ("far from the db",                 vec![db("a1")],      rule("podAntiAffinity", term("zone", "db")), to("b1")),
        ("another namespace does not count", vec![elsewhere()],  rule("podAntiAffinity", term("zone", "db")), to("a2")),
        ("unless it is named",              vec![elsewhere()],   with_namespace,                              to("b1")),
        ("not wanted in the zone",          vec![loner],         json!({}),                                   to("b1")),
    ];
    for (case, others, extra, want) in table {
        assert_eq!(result(&pod("p", extra), &Snapshot::new(zones(), others)), want, "{case}");
    }
}

#[test]
fn pods_are_spread_over_domains() {
    let nodes = |names: &[(&str, &str)]| -> Vec<Arc<Node>> {
        let labelled = |zone: &str| json!({"metadata": {"labels": {"zone": zone}}});
        names.iter().map(|(name, zone)| node(name, labelled(zone))).collect()
    };
    let spread = |when: &str, extra: Value| {
        let rule = json!({
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": {"app": "web"}},
        });
        json!({"spec": {"topologySpreadConstraints": [and(rule, extra)]}})
    };
    let two = || nodes(&[("a", "a"), ("b", "b")]);
    let hard = |extra: Value| spread("DoNotSchedule", extra);
    let in_a = || json!({"spec": {"nodeSelector": {"zone": "a"}}});
    let skewed = "1 node(s) didn't match pod topology spread constraints";
    #[rustfmt::skip]
    let table = [
        ("to the emptier zone",      two(),                      vec!["a"],      hard(json!({})), "-> b".to_owned()),
        ("even, so anywhere",        two(),                      vec!["a", "b"], hard(json!({})), "-> a".to_owned()),
        ("a zone that is no choice", two(),                      vec!["a"],      and(hard(json!({})), in_a()), "-> a".to_owned()),
        ("and yet counts",           two(),                      vec!["a"],      and(hard(json!({"nodeAffinityPolicy": "Ignore"})), in_a()),
            format!("0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, {skewed}.")),
        ("a wish only",              two(),                      vec!["a"],      spread("ScheduleAnyway", json!({})), "-> b".to_owned()),
        ("too few domains",          nodes(&[("a", "a")]),       vec!["a"],      hard(json!({"minDomains": 2})), format!("0/1 nodes are available: {skewed}.")),
        ("no label",                 vec![node("n", json!({}))], vec![],         hard(json!({})), format!("0/1 nodes are available: {skewed} (missing required label).")),
    ];
    for (case, nodes, others, extra, want) in table {
        let others = others.iter().enumerate().map(|(n, node)| on(node, &format!("old-{n}"), json!({})));
        let got = result(&pod("p", extra), &Snapshot::new(nodes, others));
        assert!(got.starts_with(&want), "{case}: {got}");
    }
}

#[test]
fn the_best_of_the_nodes_is_taken() {
    let soft = json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}});
    let nodes = || [node("a", json!({})), node("b", json!({})), node("c", soft.clone())];
    let owned = || {
        json!({"metadata": {"ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]}})
    };
    let named = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]});
    let likes_b = json!({"spec": {"affinity": {"nodeAffinity":
        {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": named}]}}}});
    let web =
        json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}});
    let likes_web = json!({"spec": {"affinity": {"podAffinity":
        {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": web}]}}}});
    #[rustfmt::skip]
    let table = [
        ("the first, all else equal", vec![],                          json!({}),   "-> a"),
        ("the emptier one",           vec![on("a", "x", cpu("1"))],    cpu("100m"), "-> b"),
        ("not beside its sibling",    vec![on("a", "x", owned())],     owned(),     "-> b"),
        ("where it likes to be",      vec![],                          likes_b,     "-> b"),
        ("near others",               vec![on("b", "x", cpu("100m"))], likes_web,   "-> b"),
    ];
    for (case, others, extra, want) in table {
        assert_eq!(result(&pod("p", extra), &Snapshot::new(nodes(), others)), want, "{case}");
    }
}

fn ranked(priority: i32, amount: &str) -> Value {
    and(cpu(amount), json!({"spec": {"priority": priority}}))
}

#[test]
fn important_pods_push_others_aside() {
    let full = "0/1 nodes are available: 1 Insufficient cpu.";
    let peaceful = and(ranked(10, "2"), json!({"spec": {"preemptionPolicy": "Never"}}));
    let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let nominated = and(ranked(10, "2"), json!({"status": {"nominatedNodeName": "a"}}));
    let one = |extra| vec![on("a", "x", extra)];
    let two = vec![on("a", "x", ranked(1, "1")), on("a", "y", ranked(2, "1"))];
    #[rustfmt::skip]
    let table = [
        ("a lesser pod goes",      one(ranked(1, "2")),            ranked(10, "2"), format!("{full} evict x from a")),
        ("an equal stays",         one(ranked(10, "2")),           ranked(10, "2"), no_victims("1 Insufficient cpu", 1)),
        ("a peaceful pod waits",   one(ranked(1, "2")),            peaceful,        format!("{full} no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.")),
        ("one is leaving already", one(and(ranked(1, "2"), gone)), nominated,       format!("{full} no new claims to deallocate, preemption: not eligible due to a terminating pod on the nominated node.")),
        ("only as many as needed", two,                            ranked(10, "1"), format!("{full} evict x from a")),
    ];
    for (case, others, extra, want) in table {
        assert_eq!(result(&pod("p", extra), &Snapshot::new([node("a", json!({}))], others)), want, "{case}");
    }
}

#[test]
fn the_cheapest_victims_are_chosen() {
    let nodes = || [node("a", json!({})), node("b", json!({}))];
    let others = || [on("a", "x", ranked(1, "2")), on("b", "y", ranked(5, "2"))];
    let full = "0/2 nodes are available: 2 Insufficient cpu.";
    let mut snapshot = Snapshot::new(nodes(), others());
    assert_eq!(result(&pod("p", ranked(10, "2")), &snapshot), format!("{full} evict x from a"));

    let budget = json!({
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"guarded": "yes"}}}, "status": {"disruptionsAllowed": 0},
    });
    let guarded = and(ranked(1, "2"), json!({"metadata": {"labels": {"guarded": "yes"}}}));
    snapshot = Snapshot::new(nodes(), [on("a", "x", guarded), on("b", "y", ranked(5, "2"))]);
    snapshot.budgets = vec![Arc::new(serde_json::from_value(budget).unwrap())];
    let got = result(&pod("p", ranked(10, "2")), &snapshot);
    assert_eq!(got, format!("{full} evict y from b"), "a budget counts more than a rank");
}

#[test]
fn volumes_tie_pods_to_nodes() {
    let nodes = || ["a", "b"].map(|zone| node(zone, json!({"metadata": {"labels": {"zone": zone}}})));
    let wanted = json!({
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "storageClassName": "late", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    let claim = |extra: Value| Some(and(wanted.clone(), extra));
    let bound = || {
        claim(json!({
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "pv"},
        }))
    };
    let unbound = || claim(json!({}));
    let volume = |zone: &str, extra: Value| {
        let reach = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]);
        let volume = json!({
            "metadata": {"name": "pv"}, "status": {"phase": "Available"},
            "spec": {
                "storageClassName": "late", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": reach}},
            },
        });
        Some(and(volume, extra))
    };
    let class = |provisioner: &str, mode: &str| json!({"metadata": {"name": "late"}, "provisioner": provisioner, "volumeBindingMode": mode});
    let by_hand = || class("kubernetes.io/no-provisioner", "WaitForFirstConsumer");
    let made = || class("x.example", "WaitForFirstConsumer");
    let owned_by = |claim: &str| json!({"spec": {"claimRef": {"namespace": "default", "name": claim}}});
    let small = json!({"spec": {"capacity": {"storage": "1Mi"}}});
    let selected = claim(json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "b"}}}));
    let early = |message: &str| format!("0/2 nodes are available: {message}. not found");
    let none = || unresolvable("2 node(s) didn't find available persistent volumes to bind", 2);
    let lost = unresolvable("2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", 2);
    #[rustfmt::skip]
    let table = [
        ("no such claim",       None,      None,                            by_hand(), early("persistentvolumeclaim \"data\" not found")),
        ("where its volume is", bound(),   volume("b", json!({})),          by_hand(), "-> b".to_owned()),
        ("its volume is gone",  bound(),   None,                            by_hand(), lost),
        ("out of reach",        bound(),   volume("c", json!({})),          by_hand(), unresolvable("2 node(s) didn't match PersistentVolume's node affinity", 2)),
        ("not yet bound",       unbound(), None,                            class("x", "Immediate"), early("pod has unbound immediate PersistentVolumeClaims")),
        ("one is free",         unbound(), volume("b", json!({})),          by_hand(), "b: promise pv to data".to_owned()),
        ("one is promised",     unbound(), volume("b", owned_by("data")),   by_hand(), "b: wait".to_owned()),
        ("none is free",        unbound(), volume("b", owned_by("other")),  by_hand(), none()),
        ("too small",           unbound(), volume("b", small),              by_hand(), none()),
        ("one can be made",     unbound(), None,                            made(),    "a: provision data".to_owned()),
        ("one is being made",   selected,  None,                            made(),    "b: wait".to_owned()),
    ];
    for (case, claim, volume, class, want) in table {
        let mut snapshot = Snapshot::new(nodes(), []);
        let key = flyball_api::Key::new("default", "data");
        let claim = claim.map(|claim| Arc::new(serde_json::from_value(claim).unwrap()));
        snapshot.volumes.claims.extend(claim.map(|claim| (key, claim)));
        let volume = volume.map(|volume| Arc::new(serde_json::from_value(volume).unwrap()));
        snapshot.volumes.volumes.extend(volume.map(|volume| ("pv".into(), volume)));
        snapshot.volumes.classes.insert("late".into(), Arc::new(serde_json::from_value(class).unwrap()));
        let uses =
            json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}});
        assert_eq!(result(&pod("p", uses), &snapshot), want, "{case}");
    }
}
