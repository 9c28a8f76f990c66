use serde_json::json;

use crate::horizontal::wire::{ExternalValues, Groups, ObjectValues, PodMetricsList};

#[test]
fn a_pod_has_a_sample_if_all_its_containers_have() {
    let container = |name: &str, cpu: &str| json!({"name": name, "usage": {"cpu": cpu, "memory": "1Mi"}});
    let list: PodMetricsList = serde_json::from_value(json!({"items": [
        {"metadata": {"name": "a"}, "timestamp": "2026-01-01T00:00:00Z", "window": "30s",
         "containers": [container("c", "100m"), container("d", "20m")]},
        {"metadata": {"name": "half"}, "containers": [container("c", "5m"), {"name": "d", "usage": {"memory": "1Mi"}}], "window": "1m0s"},
        {"metadata": {"name": "none"}, "window": "30s", "containers": []},
    ]}))
    .unwrap();
    let show = |resource, container| {
        let samples = list.samples(resource, container);
        samples.iter().map(|(pod, sample)| format!("{pod}={}", sample.value)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(show("cpu", None), "a=120");
    assert_eq!(show("cpu", Some("c")), "a=100 half=5");
    assert_eq!(show("cpu", Some("d")), "a=20");
    assert_eq!(show("memory", None), "a=2097152000 half=2097152000");
    assert_eq!(list.samples("cpu", None)["a"].window.as_secs(), 30);
}

#[test]
fn both_versions_of_custom_metrics_are_read() {
    let values: ObjectValues = serde_json::from_value(json!({"items": [
        {"describedObject": {"kind": "Pod", "name": "a"}, "metricName": "rps", "timestamp": "2026-01-01T00:00:00Z", "window": 15, "value": "10"},
        {"describedObject": {"kind": "Pod", "name": "b"}, "metric": {"name": "rps"}, "windowSeconds": 20, "value": "500m"},
        {"describedObject": {"kind": "Pod", "name": "c"}, "metric": {"name": "rps"}, "value": "2k"},
    ]}))
    .unwrap();
    let samples = values.samples();
    let shown: Vec<_> =
        samples.iter().map(|(pod, s)| format!("{pod}={}/{}", s.value, s.window.as_secs())).collect();
    assert_eq!(shown.join(" "), "a=10000/15 b=500/20 c=2000000/60");
}

#[test]
fn external_series_are_summed() {
    let total = |values: serde_json::Value| serde_json::from_value::<ExternalValues>(values).unwrap().total();
    assert_eq!(total(json!({"items": [{"value": "1"}, {"value": "500m"}]})), 1500);
    assert_eq!(total(json!({"items": null})), 0);
    assert_eq!(total(json!({"items": [{"value": "9E"}, {"value": "9E"}]})), i64::MAX);
    assert_eq!(total(json!({"items": [{"value": "-3"}, {"value": "1"}]})), -2000, "not an overflow");
}

#[test]
fn the_custom_metrics_api_is_used_in_a_known_version() {
    const KNOWN: [&str; 2] = ["custom.metrics.k8s.io/v1beta2", "custom.metrics.k8s.io/v1beta1"];
    let group = |preferred: &str, versions: &[&str]| {
        let gv = |version: &&str| json!({"groupVersion": format!("custom.metrics.k8s.io/{version}")});
        json!({"name": "custom.metrics.k8s.io", "preferredVersion": gv(&preferred),
               "versions": versions.iter().map(gv).collect::<Vec<_>>()})
    };
    #[rustfmt::skip]
    let table = [
        (json!([group("v1beta2", &["v1beta2", "v1beta1"])]), "v1beta2"),
        (json!([group("v1beta1", &["v1beta1", "v1beta2"])]), "v1beta1"),
        (json!([group("v9", &["v9", "v1beta1"])]),           "v1beta1"),
        (json!([group("v9", &["v9"])]),                      "no known available metric versions found"),
        (json!([{"name": "apps"}]),                          "no custom metrics API (custom.metrics.k8s.io) registered"),
        (json!(null),                                        "no custom metrics API (custom.metrics.k8s.io) registered"),
    ];
    for (groups, want) in table {
        let groups: Groups = serde_json::from_value(json!({"groups": groups})).unwrap();
        let got = groups.version("custom.metrics.k8s.io", &KNOWN);
        assert_eq!(got.as_deref().unwrap_or_else(|error| error), want);
    }
}
