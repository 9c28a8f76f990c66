use flyball_api::ResourceVersion;
use flyball_api::pod::Pod;
use flyball_api::taint::Taint;
use serde_json::json;

use super::super::invariants::{check_mark, check_node};
use super::super::plan::{mark, must_mark, plan};
use super::{node, now};

#[test]
fn taints_and_labels_of_a_node_are_written_if_they_are_wrong() {
    let taints = "patch Node n: taints follow the conditions of the node";
    let labels = "patch Node n: deprecated labels follow those that replaced them";
    #[rustfmt::skip]
    let table = [
        // node                                     plan
        ("Ready=True",                              String::new()),
        ("Ready=False",                             format!("each\n  {taints}")),
        ("Ready=True kubernetes.io/os:=linux",      format!("each\n  {labels}")),
        ("Ready=False kubernetes.io/os:=linux",     format!("each\n  {taints}\n  {labels}")),
    ];
    for (text, want) in table {
        let plan = plan(&node(text), now());
        assert_eq!(plan.to_string(), want, "{text}");
        assert_eq!(check_node(&node(text), &plan), Ok(()), "{text}");
    }
    let mut other = node("Ready=False");
    let planned = plan(&other, now());
    other.spec.taints = [Taint { key: "mine".into(), effect: "NoExecute".into(), ..Taint::default() }].into();
    assert!(check_node(&other, &planned).unwrap_err().starts_with("taints with other effects are kept"));
    let mut later = node("Ready=False");
    later.metadata.resource_version = ResourceVersion(77);
    assert!(
        check_node(&later, &planned)
            .unwrap_err()
            .starts_with("a list of taints replaces the one that was read")
    );
}

#[test]
fn a_pod_on_a_node_that_is_not_ready_is_marked() {
    let live = |uid: &str, ready: &str| {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        json!({
            "metadata": {"namespace": "ns", "name": "p", "uid": uid},
            "spec": {"nodeName": "n"},
            "status": {"conditions": conditions},
        })
    };
    let pod = |ready| serde_json::from_value::<Pod>(live("u", ready)).unwrap();
    #[rustfmt::skip]
    let table = [
        // node             pod      must be marked
        ("Ready=False",     "True",  true),
        ("Ready=Unknown",   "True",  true),
        ("Ready=False",     "False", false),
        ("Ready=True",      "True",  false),
        ("",                "True",  false), // The node has never reported.
    ];
    for (text, ready, want) in table {
        assert_eq!(must_mark(&node(text), &pod(ready)), want, "{text}, pod {ready}");
    }
    let marked = "update Pod/status ns/p: its node is not ready\n  \
        then event Warning NodeNotReady: Node is not ready (Pod p)";
    #[rustfmt::skip]
    let table = [
        // on the server        plan
        (live("u", "True"),     marked),
        (live("u", "False"),    ""),
        (live("v", "True"),     ""), // Another pod has the name.
    ];
    for (live, want) in table {
        let plan = mark(&pod("True"), &live, now());
        assert_eq!(plan.to_string(), want, "{live}");
        assert_eq!(check_mark(&live, &plan), Ok(()), "{live}");
    }
    let plan = mark(&pod("True"), &live("u", "True"), now());
    let mut other = live("u", "True");
    other["status"]["phase"] = json!("Running");
    assert!(check_mark(&other, &plan).unwrap_err().starts_with("only the condition Ready changes"));
}
