//! Horizontal pod autoscalers: defaults, and the older version as a view of the newer. Fields that v1 does not have
//! are in annotations, as in upstream.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::apps::prints;
use super::json::Json;
use super::print;
use super::validate;
use crate::invalid::Cause;
use crate::registry::{Column, Strategy};

/// `autoscaling/v2` HorizontalPodAutoscaler.
pub(super) struct V2;
/// `autoscaling/v1` HorizontalPodAutoscaler, stored as v2.
pub(super) struct V1;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// With `HPAScaleToZero`, an autoscaler may have no replicas at least.
pub(crate) fn allow_zero(faults: &mut Vec<Cause>, object: &Value) {
    if object.int("spec.minReplicas") == Some(0) {
        faults.retain(|fault| fault.field != "spec.minReplicas");
    }
}

/// The default metric is 80 % of the requested cpu. If `behavior` is set, its missing fields get defaults.
pub(super) fn default_spec(spec: &mut Value) {
    if spec.items("metrics").is_empty() {
        spec.put("metrics", json!([cpu_metric(80)]));
    }
    if !spec.has("behavior") {
        return;
    }
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    spec.or_put("behavior.scaleUp.stabilizationWindowSeconds", 0);
    for (direction, policies) in [("scaleUp", json!([pods, percent])), ("scaleDown", json!([percent]))] {
        spec.or_put(&format!("behavior.{direction}.selectPolicy"), "Max");
        spec.or_put(&format!("behavior.{direction}.policies"), policies);
    }
}

fn cpu_metric(percent: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

/// Whether a metric is CPU utilisation, for which v1 has a field.
fn is_cpu_utilization(metric: &Value) -> bool {
    metric.text("type") == "Resource" && metric.text("resource.name") == "cpu"
}

impl Strategy for V2 {
    fn validate_create(&self, object: &Value) -> Vec<Cause> {
        validate::autoscaling::autoscaler(object)
    }

    prints!(print::AUTOSCALER);
}

impl Strategy for V1 {
    fn to_storage(&self, mut hpa: Value) -> Value {
        hpa.put("apiVersion", "autoscaling/v2");
        let mut metrics: Vec<Value> = from_annotation(&mut hpa, METRICS).unwrap_or_default();
        if let Some(percent) = hpa.pull("spec.targetCPUUtilizationPercentage").and_then(|p| p.as_i64()) {
            metrics.insert(0, cpu_metric(percent));
        }
        if metrics.is_empty() {
            metrics.push(cpu_metric(80));
        }
        hpa.put("spec.metrics", metrics);
        if let Some(behavior) = from_annotation::<Value>(&mut hpa, BEHAVIOR) {
            hpa.put("spec.behavior", behavior);
        }
        let mut current: Vec<Value> = from_annotation(&mut hpa, CURRENT_METRICS).unwrap_or_default();
        if let Some(percent) = hpa.pull("status.currentCPUUtilizationPercentage") {
            let now = json!({"averageUtilization": percent, "averageValue": "0"});
            current.insert(0, json!({"type": "Resource", "resource": {"name": "cpu", "current": now}}));
        }
        if !current.is_empty() {
            hpa.put("status.currentMetrics", current);
        }
        if let Some(conditions) = from_annotation::<Value>(&mut hpa, CONDITIONS) {
            hpa.put("status.conditions", conditions);
        }
        hpa
    }

    fn serve(&self, mut hpa: Value) -> Value {
        hpa.put("apiVersion", "autoscaling/v1");
        let take = |hpa: &mut Value, path: &str| hpa.pull(path).filter(|value| !value.is_null());
        let mut rest = list(take(&mut hpa, "spec.metrics"));
        let cpu =
            rest.iter().position(|m| is_cpu_utilization(m) && m.has("resource.target.averageUtilization"));
        if let Some(at) = cpu {
            let metric = rest.remove(at);
            hpa.put(
                "spec.targetCPUUtilizationPercentage",
                metric.at("resource.target.averageUtilization").clone(),
            );
        }
        to_annotation(&mut hpa, METRICS, (!rest.is_empty()).then_some(Value::Array(rest)));
        let mut current = list(take(&mut hpa, "status.currentMetrics"));
        let cpu = current.iter().position(is_cpu_utilization);
        if let Some(at) = cpu {
            let percent = current[at].at("resource.current.averageUtilization").clone();
            if percent.is_i64() {
                hpa.put("status.currentCPUUtilizationPercentage", percent);
                current.remove(at);
            }
        }
        to_annotation(&mut hpa, CURRENT_METRICS, (!current.is_empty()).then_some(Value::Array(current)));
        let conditions = take(&mut hpa, "status.conditions");
        to_annotation(&mut hpa, CONDITIONS, conditions);
        let behavior = take(&mut hpa, "spec.behavior");
        to_annotation(&mut hpa, BEHAVIOR, behavior);
        super::reshape(&mut hpa);
        hpa
    }

    fn validate_create(&self, object: &Value) -> Vec<Cause> {
        validate::autoscaling::autoscaler(object)
    }

    prints!(print::AUTOSCALER);
}

fn list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn from_annotation<T: serde::de::DeserializeOwned>(hpa: &mut Value, key: &str) -> Option<T> {
    let annotations = hpa.at_mut("metadata.annotations")?.as_object_mut()?;
    let text = annotations.remove(key)?;
    let empty = annotations.is_empty();
    if empty {
        hpa.pull("metadata.annotations");
    }
    serde_json::from_str(text.as_str()?).ok()
}

fn to_annotation(hpa: &mut Value, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        hpa.put_entry("metadata.annotations", key, value.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_minimum_of_zero_depends_on_the_gate() {
        for (min, faults) in [(0, ""), (-1, "spec.minReplicas")] {
            let metric = json!({"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "5"}}});
            let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
            let hpa = json!({"spec": {"minReplicas": min, "maxReplicas": 3, "scaleTargetRef": target, "metrics": [metric]}});
            let mut found = validate::autoscaling::autoscaler(&hpa);
            assert_eq!(found.len(), 1, "without the gate");
            allow_zero(&mut found, &hpa);
            let fields: Vec<&str> = found.iter().map(|fault| fault.field.as_str()).collect();
            assert_eq!(fields.join(" "), faults, "{min}");
        }
    }
}
