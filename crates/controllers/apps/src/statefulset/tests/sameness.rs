use serde_json::{Value, json};

use crate::statefulset::sameness::is_same;

pub(super) fn data(template: &Value) -> Value {
    json!({"spec": {"template": template}})
}

/// A template whose container has these fields besides its name and image.
fn template(container: Value, spec: Value) -> Value {
    let mut made = json!({"metadata": {"labels": {"app": "db"}}, "spec": spec});
    made["spec"]["containers"] = json!([{"name": "c", "image": "i:1"}]);
    for (field, value) in container.as_object().unwrap() {
        made["spec"]["containers"][0][field] = value.clone();
    }
    made
}

#[test]
fn defaults_of_the_server_are_no_change_and_values_of_users_are() {
    let probe = |more: Value| {
        let mut probe = json!({"httpGet": {"port": 80}});
        for (field, value) in more.as_object().unwrap() {
            probe[field] = value.clone();
        }
        json!({"livenessProbe": probe})
    };
    let volume = |source: Value| {
        let mut volume = json!({"name": "v"});
        for (field, value) in source.as_object().unwrap() {
            volume[field] = value.clone();
        }
        json!({"volumes": [volume]})
    };
    let init = |more: Value| {
        let mut init = json!({"name": "i", "image": "i:1"});
        for (field, value) in more.as_object().unwrap() {
            init[field] = value.clone();
        }
        json!({"initContainers": [init]})
    };
    let none = || json!({});
    #[rustfmt::skip]
    let table = [
        // case                               container before, and after                                                                    spec before, and after                                                                                                 same
        ("nothing new",                       none(), none(),                                                                                none(), none(),                                                                                                        true),
        ("a default of the pod",              none(), none(),                                                                                none(), json!({"dnsPolicy": "ClusterFirst"}),                                                                          true),
        ("another value",                     none(), none(),                                                                                none(), json!({"dnsPolicy": "Default"}),                                                                               false),
        ("restarts as by default",            none(), none(),                                                                                none(), json!({"restartPolicy": "Always"}),                                                                            true),
        ("a sidecar",                         none(), none(),                                                                                init(none()), init(json!({"restartPolicy": "Always"})),                                                                false),
        ("a container that restarts itself",  none(), json!({"restartPolicy": "Always"}),                                                    none(), none(),                                                                                                        false),
        ("a pod's grace period",              none(), none(),                                                                                none(), json!({"terminationGracePeriodSeconds": 30}),                                                                  true),
        ("a probe's grace period",            probe(none()), probe(json!({"terminationGracePeriodSeconds": 30})),                            none(), none(),                                                                                                        false),
        ("a probe's defaults",                probe(none()), probe(json!({"timeoutSeconds": 1, "periodSeconds": 10, "failureThreshold": 3})), none(), none(),                                                                                                        true),
        ("a slower probe",                    probe(none()), probe(json!({"periodSeconds": 11})),                                            none(), none(),                                                                                                        false),
        ("where a probe asks",                probe(none()), probe(json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}})),         none(), none(),                                                                                                        true),
        ("what a server always says",         none(), json!({"resources": {}}),                                                              none(), json!({"securityContext": {}}),                                                                                true),
        ("something empty that is asked for", none(), json!({"securityContext": {}}),                                                        none(), none(),                                                                                                        false),
        ("an affinity to nothing",            none(), none(),                                                                                none(), json!({"affinity": {}}),                                                                                       false),
        ("an empty selector",                 none(), none(),                                                                                none(), json!({"nodeSelector": {}}),                                                                                   true),
        ("a pull policy by tag",              none(), json!({"imagePullPolicy": "IfNotPresent"}),                                            none(), none(),                                                                                                        true),
        ("not by tag",                        none(), json!({"imagePullPolicy": "Always"}),                                                  none(), none(),                                                                                                        false),
        ("another image",                     none(), json!({"image": "i:2"}),                                                               none(), none(),                                                                                                        false),
        ("something unknown",                 none(), json!({"command": ["x"]}),                                                             none(), none(),                                                                                                        false),
        ("requests as limits",                json!({"resources": {"limits": {"cpu": "1"}}}), json!({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}), none(), none(),                                                                            false),
        ("a port's protocol",                 json!({"ports": [{"containerPort": 80}]}), json!({"ports": [{"containerPort": 80, "protocol": "TCP"}]}), none(), none(),                                                                                              true),
        ("a port of the host",                json!({"ports": [{"containerPort": 80}]}), json!({"ports": [{"containerPort": 80, "hostPort": 80}]}), json!({"hostNetwork": true}), json!({"hostNetwork": true}),                                                      false),
        ("links to services",                 none(), none(),                                                                                none(), json!({"enableServiceLinks": true}),                                                                           false),
        ("a file system of a driver",         none(), none(),                                                                                volume(json!({"csi": {"driver": "d"}})), volume(json!({"csi": {"driver": "d", "fsType": "ext4"}})),                    false),
        ("read only of a driver",             none(), none(),                                                                                volume(json!({"csi": {"driver": "d"}})), volume(json!({"csi": {"driver": "d", "readOnly": false}})),                   false),
        ("a file system of ScaleIO",          none(), none(),                                                                                volume(json!({"scaleIO": {}})), volume(json!({"scaleIO": {"fsType": "xfs"}})),                                         true),
        ("of another kind",                   none(), none(),                                                                                volume(json!({"scaleIO": {}})), volume(json!({"scaleIO": {"fsType": "ext4"}})),                                        false),
        ("a disk of Azure",                   none(), none(),                                                                                volume(json!({"azureDisk": {}})), volume(json!({"azureDisk": {"fsType": "ext4", "kind": "Shared", "readOnly": false, "cachingMode": "ReadWrite"}})), true),
        ("an empty directory",                none(), none(),                                                                                volume(none()), volume(json!({"emptyDir": {}})),                                                                       true),
        ("a secret that may be missing",      none(), none(),                                                                                volume(json!({"secret": {}})), volume(json!({"secret": {"optional": false}})),                                         false),
        ("the mode of its files",             none(), none(),                                                                                volume(json!({"secret": {}})), volume(json!({"secret": {"defaultMode": 420}})),                                        true),
        ("another mode",                      none(), none(),                                                                                volume(json!({"secret": {}})), volume(json!({"secret": {"defaultMode": 256}})),                                        false),
        ("a volume made for the pod",         none(), none(),                                                                                volume(json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}})), volume(json!({"ephemeral": {"volumeClaimTemplate": {"metadata": {}, "spec": {"volumeMode": "Filesystem", "resources": {}}}}})), true),
        ("an image as a volume",              none(), none(),                                                                                volume(json!({"image": {"reference": "i"}})), volume(json!({"image": {"reference": "i", "pullPolicy": "Always"}})),   true),
        ("an image of a tag",                 none(), none(),                                                                                volume(json!({"image": {"reference": "i:1"}})), volume(json!({"image": {"reference": "i:1", "pullPolicy": "Always"}})), false),
    ];
    for (case, container_before, container, spec_before, spec, want) in table {
        let (old, new) = (template(container_before, spec_before), template(container, spec));
        assert_eq!(is_same(&data(&old), &data(&new)), want, "{case}");
    }
}

#[test]
fn no_label_or_annotation_is_a_default() {
    let old = template(json!({}), json!({}));
    for (field, value) in [("protocol", "TCP"), ("user", "admin"), ("restartPolicy", "Always"), ("type", "")]
    {
        for kind in ["labels", "annotations"] {
            let mut new = old.clone();
            new["metadata"][kind][field] = value.into();
            assert!(!is_same(&data(&old), &data(&new)), "{kind} {field}: {value}");
        }
    }
}

#[test]
fn nulls_of_older_servers_do_not_count_but_other_removals_do() {
    let with = |metadata: Value, containers: Value| {
        data(&json!({"metadata": metadata, "spec": {"containers": containers}}))
    };
    let new = with(json!({"labels": {"app": "db"}}), json!([{"name": "c"}]));
    let with_null = with(
        json!({"creationTimestamp": null, "labels": {"app": "db"}}),
        json!([{"name": "c", "resources": {}}]),
    );
    assert!(is_same(&with_null, &new));
    let with_more = with(json!({"labels": {"app": "db", "x": "y"}}), json!([{"name": "c"}]));
    assert!(!is_same(&with_more, &new) && !is_same(&new, &with_more));
    let two = with(json!({"labels": {"app": "db"}}), json!([{"name": "c"}, {"name": "d"}]));
    assert!(!is_same(&two, &new) && !is_same(&new, &two));
}

#[test]
fn data_without_a_template_equals_nothing() {
    let template = data(&template(json!({}), json!({})));
    assert!(!is_same(&json!({}), &template) && !is_same(&json!({}), &json!({})));
}

#[test]
fn pull_policies_follow_tags() {
    #[rustfmt::skip]
    let table = [
        ("i",                    "Always"),
        ("i:latest",             "Always"),
        ("i:1",                  "IfNotPresent"),
        ("reg:5000/i",           "Always"),
        ("reg:5000/i:1",         "IfNotPresent"),
        ("REG/i",                "Always"),
        ("i@sha256:abc",         "IfNotPresent"),
        ("i:latest@sha256:abc",  "Always"),
        ("UPPER",                "IfNotPresent"),
        ("a b",                  "IfNotPresent"),
        ("a//b",                 "IfNotPresent"),
        ("",                     "IfNotPresent"),
    ];
    for (image, policy) in table {
        for said in ["Always", "IfNotPresent", "Never"] {
            let old = template(json!({"image": image}), json!({}));
            let new = template(json!({"image": image, "imagePullPolicy": said}), json!({}));
            assert_eq!(is_same(&data(&old), &data(&new)), said == policy, "{image:?} {said}");
        }
    }
}
