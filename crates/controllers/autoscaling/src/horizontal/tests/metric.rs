use flyball_api::horizontal_pod_autoscaler::MetricSpec;
use serde_json::{Value, json};

use super::{WARM_UP, pods, samples, workload};
use crate::horizontal::metric::Metric;
use crate::horizontal::proposal::{Inputs, Measured, propose};

fn resource(target: Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn container(target: Value) -> Value {
    json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": target}})
}

fn object(target: Value) -> Value {
    let of = json!({"apiVersion": "v1", "kind": "Service", "name": "s"});
    json!({"type": "Object", "object": {"describedObject": of, "metric": {"name": "rps"}, "target": target}})
}

fn external(target: Value) -> Value {
    let metric = json!({"name": "q", "selector": {"matchLabels": {"a": "b"}}});
    json!({"type": "External", "external": {"metric": metric, "target": target}})
}

fn per_pod() -> Value {
    json!({"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "5"}}})
}

/// The metric with a selector that the server does not refuse.
fn selecting(mut spec: Value, section: &str) -> Value {
    spec[section]["metric"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Foo"}]});
    spec
}

const SELECTOR: &str =
    "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}";

fn with_inputs<R>(with: impl FnOnce(&Inputs<'_>) -> R) -> R {
    let pods = pods("a b");
    let workload = workload(&pods, 2, false);
    with(&Inputs { namespace: "ns", workload, status_replicas: 2, warm_up: WARM_UP, pod_level: true })
}

#[test]
fn each_type_has_its_name_and_its_status() {
    let percent = json!({"type": "Utilization", "averageUtilization": 50});
    let average = json!({"type": "AverageValue", "averageValue": "500m"});
    let value = json!({"type": "Value", "value": "5"});
    let each = json!({"type": "AverageValue", "averageValue": "5"});
    let used = || Measured::Samples(samples("a=900 b=700"));
    let rates = || Measured::Samples(samples("a=9000 b=7000"));
    let external_name = format!("external metric q({SELECTOR})");
    #[rustfmt::skip]
    let table = [
        // spec                     answer                    replicas  name                                                      current
        (resource(percent.clone()),  used(),                   4, "cpu resource utilization (percentage of request)",           json!({"averageUtilization": 80, "averageValue": "800m"})),
        (resource(average.clone()),  used(),                   4, "cpu resource",                                               json!({"averageValue": "800m"})),
        (container(percent.clone()), used(),                   4, "cpu container resource utilization (percentage of request)", json!({"averageUtilization": 80, "averageValue": "800m"})),
        (container(average.clone()), used(),                   4, "cpu resource",                                               json!({"averageValue": "800m"})),
        (per_pod(),                  rates(),                  4, "pods metric rps",                                            json!({"averageValue": "8"})),
        (object(value.clone()),      Measured::Total(15_000),  6, "Service metric rps",                                         json!({"value": "15"})),
        (object(each.clone()),       Measured::Total(15_000),  3, "external metric rps(nil)",                                   json!({"averageValue": "7500m"})),
        (external(value.clone()),    Measured::Total(15_000),  6, external_name.as_str(),                                       json!({"value": "15"})),
        (external(each.clone()),     Measured::Total(15_000),  3, external_name.as_str(),                                       json!({"averageValue": "7500m"})),
    ];
    for (spec, answer, replicas, name, current) in table {
        let spec: MetricSpec = serde_json::from_value(spec).unwrap();
        let metric = Metric::read(&spec).unwrap();
        let proposal = with_inputs(|inputs| propose(&metric, Ok(answer), inputs)).unwrap();
        assert_eq!((proposal.count.replicas, proposal.name.as_str()), (replicas, name));
        let shown = serde_json::to_value(&proposal.status).unwrap();
        assert_eq!(shown["type"], json!(spec.type_));
        let section = format!("{}{}", spec.type_[..1].to_lowercase(), &spec.type_[1..]);
        assert_eq!(shown[&section]["current"], current, "{name}");
    }
}

#[test]
fn memory_is_shown_in_binary_units() {
    let target = json!({"type": "AverageValue", "averageValue": "1Mi"});
    let spec = json!({"type": "Resource", "resource": {"name": "memory", "target": target}});
    let spec: MetricSpec = serde_json::from_value(spec).unwrap();
    let answer = Ok(Measured::Samples(samples("a=10485760000 b=10485760000")));
    let proposal = with_inputs(|inputs| propose(&Metric::read(&spec).unwrap(), answer, inputs)).unwrap();
    let shown = serde_json::to_value(&proposal.status).unwrap();
    assert_eq!(shown["resource"]["current"], json!({"averageValue": "10Mi"}));
}

#[test]
fn each_failure_states_what_was_attempted() {
    let percent = json!({"type": "Utilization", "averageUtilization": 50});
    let average = json!({"type": "AverageValue", "averageValue": "5"});
    let value = json!({"type": "Value", "value": "5"});
    let nothing = json!({"type": "Value"});
    let outside = format!("unable to get external metric ns/q/{SELECTOR}: E");
    let no_operator = "\"Foo\" is not a valid label selector operator".to_owned();
    let neither = "neither a value target nor an average value target was set";
    #[rustfmt::skip]
    let table = [
        (resource(percent.clone()),  "FailedGetResourceMetric",  "failed to get cpu utilization: unable to get metrics for resource cpu: E".to_owned(),
            "failed to get cpu resource metric value: *".to_owned()),
        (resource(average.clone()),  "FailedGetResourceMetric",  "failed to get cpu usage: unable to get metrics for resource cpu: E".to_owned(),
            "failed to get cpu resource metric value: *".to_owned()),
        (resource(nothing.clone()),  "FailedGetResourceMetric",
            "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set".to_owned(),
            "failed to get cpu resource metric value: *".to_owned()),
        (container(percent.clone()), "FailedGetContainerResourceMetric", "failed to get cpu utilization: unable to get metrics for resource cpu: E".to_owned(),
            "failed to get c container metric value: *".to_owned()),
        (per_pod(),                  "FailedGetPodsMetric",      "unable to get metric rps: E".to_owned(),
            "failed to get pods metric value: *".to_owned()),
        (object(value.clone()),      "FailedGetObjectMetric",    "unable to get metric rps: Service on ns s/E".to_owned(),
            "failed to get object metric value: *".to_owned()),
        (object(average.clone()),    "FailedGetObjectMetric",    "unable to get metric rps: Service on ns s/E".to_owned(),
            "failed to get object metric value: failed to get rps object metric: *".to_owned()),
        (object(nothing.clone()),    "FailedGetObjectMetric",    format!("invalid object metric source: {neither}"),
            "failed to get object metric value: *".to_owned()),
        (external(value.clone()),    "FailedGetExternalMetric",  outside.clone(),
            "failed to get q external metric value: failed to get external metric q: *".to_owned()),
        (external(average.clone()),  "FailedGetExternalMetric",  outside.clone(),
            "failed to get q external metric value: failed to get q external metric: *".to_owned()),
        (external(nothing.clone()),  "FailedGetExternalMetric",  format!("invalid external metric source: {neither}"),
            "failed to get q external metric value: *".to_owned()),
        (selecting(external(value.clone()), "external"), "FailedGetExternalMetric", no_operator.clone(),
            "failed to get q external metric value: failed to get external metric q: *".to_owned()),
        (selecting(external(average.clone()), "external"), "FailedGetExternalMetric", no_operator.clone(),
            "failed to get q external metric value: failed to get q external metric: *".to_owned()),
        (selecting(object(average.clone()), "object"), "FailedGetObjectMetric", no_operator.clone(),
            "failed to get object metric value: *".to_owned()),
        (selecting(per_pod(), "pods"), "FailedGetPodsMetric",   no_operator.clone(),
            "failed to get pods metric value: *".to_owned()),
        (json!({"type": "Odd"}),     "InvalidMetricSourceType",  "unknown metric source type \"Odd\"".to_owned(),
            "*".to_owned()),
    ];
    for (spec, reason, message, error) in table {
        let spec: MetricSpec = serde_json::from_value(spec).unwrap();
        let invalid = match Metric::read(&spec) {
            Ok(metric) => with_inputs(|inputs| propose(&metric, Err("E".to_owned()), inputs)).unwrap_err(),
            Err(invalid) => invalid,
        };
        assert_eq!((invalid.reason, invalid.message.as_str()), (reason, message.as_str()));
        assert_eq!(invalid.error, error.replace('*', &message));
        assert_eq!(invalid.is_spec_error, reason == "InvalidMetricSourceType");
    }
}
