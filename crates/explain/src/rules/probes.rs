//! Probes that fail, from the kubelet's events.

use crate::finding::Finding;
use crate::object::Obj;
use crate::words::{counted, one_line};
use crate::world::World;

use super::containers::containers;

pub(super) fn failing(world: &World, pod: Obj<'_>) -> Vec<Finding> {
    if pod.has("Ready", "True") || pod.text("/status/phase") != "Running" {
        return Vec::new();
    }
    let unready: Vec<&str> = containers(pod)
        .filter(|container| !container.is_init && !container.status.is_true("/ready"))
        .filter(|container| !container.status.at("/state/running").is_null())
        .map(|container| container.status.text("/name"))
        .collect();
    let Some(name) = unready.first() else { return Vec::new() };
    if let Some(event) = world.event(pod, &["Unhealthy"]) {
        let (probe, said) = event.message.split_once(" probe failed: ").unwrap_or(("", event.message));
        let probe = if probe.is_empty() { "a".to_owned() } else { format!("the {}", probe.to_lowercase()) };
        let restarts = match probe.as_str() {
            "the liveness" | "the startup" => "; the kubelet restarts the container when it fails too often",
            _ => "",
        };
        let text = format!(
            "container {name}: {probe} probe fails ({}): {}{restarts}",
            counted(event.count, "time"),
            one_line(said, 200)
        );
        return vec![Finding::blocks("probe", pod, text).advise(probe_advice(pod, name, said))];
    }
    let spec = pod.list("/spec/containers").find(|spec| spec.text("/name") == *name);
    let has = |probe: &str| spec.is_some_and(|spec| !spec.at(probe).is_null());
    let text = match (has("/readinessProbe"), has("/startupProbe")) {
        (_, true) => format!("container {name} runs; its startup probe has not succeeded yet"),
        (true, false) => format!("container {name} runs; its readiness probe has not succeeded yet"),
        (false, false) => return Vec::new(),
    };
    vec![Finding::waits("probe", pod, text)]
}

fn probe_advice(pod: Obj<'_>, container: &str, said: &str) -> String {
    let advice = match said {
        said if said.contains("connection refused") => {
            "nothing listens on the probe's port: check the port and "
        }
        said if said.contains("statuscode: 404") => "the probe's path does not exist: check the path and ",
        said if said.contains("Timeout") || said.contains("deadline exceeded") => {
            "it answers too late: raise timeoutSeconds, or check "
        }
        _ => "check ",
    };
    format!("{advice}kubectl -n {} logs {} -c {container}", pod.namespace(), pod.name())
}
