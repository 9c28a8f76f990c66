//! Words for pods, measures and autoscalers, so that tables read as such.

mod census;
mod mapping;
mod metric;
mod pace;
mod plan;
mod properties;
mod replicas;
mod selections;
mod wire;

use std::sync::Arc;

use flyball_api::Timestamp;
use flyball_api::horizontal_pod_autoscaler::HorizontalPodAutoscaler;
use flyball_api::pod::Pod;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::census::{Scope, WarmUp};
use super::plan::Settings;
use super::replicas::{Sample, Samples, Tolerances};

/// So many seconds after the beginning of the tests' time.
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
        tolerance: 0.1,
        downscale_window: SignedDuration::from_secs(300),
        warm_up: WARM_UP,
        own_tolerance: true,
        scale_to_zero: false,
        pod_level: true,
    }
}

/// Pods such as `a b:pending c:unready,young d:failed e:going`; each has a container `c` that asks for one CPU. Those
/// that are not young started an hour ago, and have been ready, or not, since five minutes after that.
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
            "done" => status["phase"] = json!("Succeeded"),
            "unready" => status["conditions"][0]["status"] = json!("False"),
            "young" => {
                status["startTime"] = json!(time(-60));
                status["conditions"][0]["lastTransitionTime"] = json!(time(-50));
            }
            "never-ready" => {
                status["conditions"][0]["status"] = json!("False");
                status["conditions"][0]["lastTransitionTime"] = json!(time(-3595));
            }
            "bare" => status["conditions"] = json!([]),
            "unstarted" => status["startTime"] = json!(null),
            "going" => {}
            other => panic!("no word for a pod: {other:?}"),
        }
    }
    if traits.contains("going") {
        object["metadata"]["deletionTimestamp"] = json!(time(0));
    }
    serde_json::from_value(object).unwrap()
}

/// Measures such as `a=500 b=1000`, in thousandths, over the last half minute.
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

fn scope(pods: &[Arc<Pod>], replicas: i32, is_cpu: bool) -> Scope<'_> {
    Scope { pods, replicas, tolerances: TOLERANCES, warm_up: is_cpu.then_some(WARM_UP), now: at(0) }
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
