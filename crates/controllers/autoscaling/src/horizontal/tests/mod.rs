//! Builds pods, samples and autoscalers from words, so that tables are readable.

mod decision;
mod mapping;
mod metric;
mod normalize;
mod plan;
mod pod_groups;
mod properties;
mod replicas;
mod selections;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use flyball_api::Timestamp;
use flyball_api::horizontal_pod_autoscaler::HorizontalPodAutoscaler;
use flyball_api::pod::Pod;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::decision::Settings;
use super::pod_groups::{WarmUp, Workload};
use super::replicas::{Count, Sample, Samples, Tolerances, Unchanged};

/// This many seconds after 2026-01-01T00:00:00Z.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

fn time(seconds: i64) -> String {
    flyball_api::time::format_seconds(at(seconds))
}

const TOLERANCES: Tolerances = Tolerances { down: 0.1, up: 0.1 };
const WARM_UP: WarmUp =
    WarmUp { initialization: SignedDuration::from_secs(120), readiness: SignedDuration::from_secs(10) };

fn settings() -> Settings {
    Settings {
        period: Duration::from_secs(15),
        tolerance: 0.1,
        downscale_window: SignedDuration::from_secs(300),
        warm_up: WARM_UP,
        own_tolerance: true,
        scale_to_zero: false,
        pod_level: true,
    }
}

/// Pods such as `a b:pending c:unready,young d:failed e:deleting`; each has a container `c` that requests one CPU. Pods that
/// are not young started an hour ago, and became ready or unready five minutes later.
fn pods(words: &str) -> Vec<Arc<Pod>> {
    words.split_whitespace().map(|word| Arc::new(pod(word))).collect()
}

fn pod(word: &str) -> Pod {
    let (name, traits) = word.split_once(':').unwrap_or((word, ""));
    let mut object = json!({
        "metadata": {"namespace": "ns", "name": name, "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {
            "phase": "Running",
            "startTime": time(-3600),
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": time(-3300)}],
        },
    });
    let status = &mut object["status"];
    for word in traits.split(',').filter(|word| !word.is_empty()) {
        match word {
            "pending" => status["phase"] = json!("Pending"),
            "failed" => status["phase"] = json!("Failed"),
            "succeeded" => status["phase"] = json!("Succeeded"),
            "unready" => status["conditions"][0]["status"] = json!("False"),
            "young" => {
                status["startTime"] = json!(time(-60));
                status["conditions"][0]["lastTransitionTime"] = json!(time(-50));
            }
            "never-ready" => {
                status["conditions"][0]["status"] = json!("False");
                status["conditions"][0]["lastTransitionTime"] = json!(time(-3595));
            }
            "no-condition" => status["conditions"] = json!([]),
            "no-start-time" => status["startTime"] = json!(null),
            "deleting" => {}
            other => panic!("unknown word: {other:?}"),
        }
    }
    if traits.contains("deleting") {
        object["metadata"]["deletionTimestamp"] = json!(time(0));
    }
    serde_json::from_value(object).unwrap()
}

/// Samples such as `a=500 b=1000`, in thousandths, taken 10 s ago over 30 s.
fn samples(words: &str) -> Samples {
    let one = |word: &str| {
        let (pod, value) = word.split_once('=').unwrap();
        let sample = Sample {
            value: value.parse().unwrap(),
            at: Some(at(-10)),
            window: SignedDuration::from_secs(30),
        };
        (pod.into(), sample)
    };
    words.split_whitespace().map(one).collect()
}

/// A count such as `3`, or `3 tolerated` where the value differs from the target.
fn shown(count: Count) -> String {
    let Count { replicas, unchanged } = count;
    match unchanged {
        None => replicas.to_string(),
        Some(Unchanged::WithinTolerance) => format!("{replicas} tolerated"),
        Some(Unchanged::UnmeasuredPods) => format!("{replicas} unmeasured"),
    }
}

fn workload(pods: &[Arc<Pod>], replicas: i32, is_cpu: bool) -> Workload<'_> {
    Workload { pods, replicas, tolerances: TOLERANCES, warm_up: is_cpu.then_some(WARM_UP), now: at(0) }
}

/// An autoscaler of a Deployment on CPU, with these fields in its spec and status.
fn hpa(spec: Value, status: Value) -> HorizontalPodAutoscaler {
    let mut object = json!({
        "metadata": {"namespace": "ns", "name": "hpa", "uid": "uid-hpa"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
            }}],
        },
        "status": status,
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}
