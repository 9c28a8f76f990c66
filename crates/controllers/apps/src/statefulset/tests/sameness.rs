use serde_json::{Value, json};

use crate::statefulset::sameness::is_same;

#[test]
fn what_the_server_fills_in_is_no_change() {
    let template = |container: Value, spec: Value| {
        let mut template =
            json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [container]}});
        for (field, value) in spec.as_object().unwrap() {
            template["spec"][field] = value.clone();
        }
        template
    };
    let old = template(json!({"name": "c", "image": "i:1"}), json!({}));
    #[rustfmt::skip]
    let table = [
        ("nothing new",               json!({"name": "c", "image": "i:1"}),                                    json!({}),                              true),
        ("a default of the pod",      json!({"name": "c", "image": "i:1"}),                                    json!({"dnsPolicy": "ClusterFirst"}),   true),
        ("another value",             json!({"name": "c", "image": "i:1"}),                                    json!({"dnsPolicy": "Default"}),        false),
        ("something empty",           json!({"name": "c", "image": "i:1", "resources": {}}),                   json!({"securityContext": {}}),         true),
        ("a pull policy by tag",      json!({"name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent"}), json!({}),                              true),
        ("not by tag",                json!({"name": "c", "image": "i:1", "imagePullPolicy": "Always"}),       json!({}),                              false),
        ("another image",             json!({"name": "c", "image": "i:2"}),                                    json!({}),                              false),
        ("something unknown",         json!({"name": "c", "image": "i:1", "command": ["x"]}),                  json!({}),                              false),
    ];
    for (case, container, spec, want) in table {
        assert_eq!(is_same(&old, &template(container, spec)), want, "{case}");
    }
}

#[test]
fn nulls_of_older_servers_do_not_count_and_nothing_else_may_go() {
    let new = json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c"}]}});
    let with_null = json!({"metadata": {"creationTimestamp": null, "labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "resources": {}}]}});
    assert!(is_same(&with_null, &new));
    let with_more =
        json!({"metadata": {"labels": {"app": "db", "x": "y"}}, "spec": {"containers": [{"name": "c"}]}});
    assert!(!is_same(&with_more, &new) && !is_same(&new, &with_more));
    let two = json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c"}, {"name": "d"}]}});
    assert!(!is_same(&two, &new) && !is_same(&new, &two));
}

#[test]
fn pull_policies_follow_tags() {
    #[rustfmt::skip]
    let table = [
        ("i",                    "Always"),
        ("i:latest",             "Always"),
        ("reg:5000/i",           "Always"),
        ("reg:5000/i:1",         "IfNotPresent"),
        ("i@sha256:abc",         "IfNotPresent"),
    ];
    for (image, policy) in table {
        let (old, new) = (json!({"image": image}), json!({"image": image, "imagePullPolicy": policy}));
        assert!(is_same(&old, &new), "{image}");
    }
}
