//! The table of `kubectl get pods`. READY counts containers; STATUS is the most specific reason of the containers, the phase
//! or the deletion.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::json::Json;
use crate::kinds::print::{AGE, NAME, text, wide};
use crate::registry::{Column, age, human_duration};

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    text("Ready"),
    text("Status"),
    text("Restarts"),
    AGE,
    wide("IP"),
    wide("Node"),
    wide("Nominated Node"),
    wide("Readiness Gates"),
];

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let or_none = |text: &str| Value::from(if text.is_empty() { "<none>" } else { text });
    let ip = pod.items("status.podIPs").first().map_or("", |ip| ip.text("ip"));
    vec![
        pod.at("metadata.name").clone(),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.status(pod).into(),
        summary.restarts.text(now).into(),
        age(pod, now).into(),
        or_none(ip),
        or_none(pod.text("spec.nodeName")),
        or_none(pod.text("status.nominatedNodeName")),
        or_none(&readiness_gates(pod)),
    ]
}

struct Summary {
    containers: usize,
    ready: usize,
    reason: String,
    restarts: Restarts,
}

/// How often containers were restarted, and when last.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += container.int("restartCount").unwrap_or(0);
        let finished = container.text("lastState.terminated.finishedAt").parse().ok();
        self.last = self.last.max(finished);
    }

    fn text(self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count != 0 => {
                format!("{} ({} ago)", self.count, human_duration(now.as_second() - last.as_second()))
            }
            _ => self.count.to_string(),
        }
    }
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let sidecars: Vec<&str> = pod
            .items("spec.initContainers")
            .iter()
            .filter(|container| container.text("restartPolicy") == "Always")
            .map(|container| container.text("name"))
            .collect();
        let gated = |c: &Value| c.text("type") == "PodScheduled" && c.text("reason") == "SchedulingGated";
        let reason = if pod.items("status.conditions").iter().any(gated) {
            "SchedulingGated"
        } else if pod.has("status.reason") {
            pod.text("status.reason")
        } else {
            pod.text("status.phase")
        };
        let containers = pod.items("spec.containers").len() + sidecars.len();
        let mut summary =
            Summary { containers, ready: 0, reason: reason.to_owned(), restarts: Restarts::default() };
        let of_sidecars = summary.read_init_containers(pod, &sidecars);
        let initialized = condition_holds(pod, "Initialized");
        if let Some(of_sidecars) = of_sidecars.or(initialized.then(|| sidecar_restarts(pod, &sidecars))) {
            summary.restarts = of_sidecars;
            summary.read_containers(pod);
        }
        summary
    }

    /// Sets the reason from the first init container that has not finished, and returns `None`. If all have finished, returns the
    /// restarts of the sidecars.
    fn read_init_containers(&mut self, pod: &Value, sidecars: &[&str]) -> Option<Restarts> {
        for (at, container) in pod.items("status.initContainerStatuses").iter().enumerate() {
            self.restarts.add(container);
            let terminated = container.at("state.terminated");
            let waiting = container.text("state.waiting.reason");
            let is_sidecar = sidecars.contains(&container.text("name"));
            if terminated.is_object() && terminated.int("exitCode").unwrap_or(0) == 0 {
                continue;
            }
            if is_sidecar && container.flag("started") {
                self.ready += usize::from(container.flag("ready"));
                continue;
            }
            self.reason = if terminated.is_object() {
                format!("Init:{}", exit_reason(terminated))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{at}/{}", pod.items("spec.initContainers").len())
            };
            return None;
        }
        Some(sidecar_restarts(pod, sidecars))
    }

    fn read_containers(&mut self, pod: &Value) {
        let (mut running, mut error) = (false, None);
        for container in pod.items("status.containerStatuses").iter().rev() {
            self.restarts.add(container);
            let (waiting, terminated) =
                (container.text("state.waiting.reason"), container.at("state.terminated"));
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if terminated.is_object() {
                self.reason = exit_reason(terminated);
                if terminated.int("exitCode").unwrap_or(0) != 0 {
                    error = Some(self.reason.clone());
                }
            } else if container.flag("ready") && container.has("state.running") {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            match error {
                _ if running && condition_holds(pod, "Ready") => self.reason = "Running".to_owned(),
                Some(error) => self.reason = error,
                None if running => self.reason = "NotReady".to_owned(),
                None => {}
            }
        }
    }

    fn status(&self, pod: &Value) -> &str {
        let finished = matches!(pod.text("status.phase"), "Succeeded" | "Failed");
        match pod.has("metadata.deletionTimestamp") {
            true if pod.text("status.reason") == "NodeLost" => "Unknown",
            true if !finished => "Terminating",
            _ => &self.reason,
        }
    }
}

fn sidecar_restarts(pod: &Value, sidecars: &[&str]) -> Restarts {
    let mut restarts = Restarts::default();
    let statuses = pod.items("status.initContainerStatuses").iter();
    statuses.filter(|status| sidecars.contains(&status.text("name"))).for_each(|status| restarts.add(status));
    restarts
}

fn exit_reason(terminated: &Value) -> String {
    match (terminated.text("reason"), terminated.int("signal").unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", terminated.int("exitCode").unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn condition_holds(pod: &Value, kind: &str) -> bool {
    pod.items("status.conditions").iter().any(|c| c.text("type") == kind && c.text("status") == "True")
}

fn readiness_gates(pod: &Value) -> String {
    let gates = pod.items("spec.readinessGates");
    let open = gates.iter().filter(|gate| condition_holds(pod, gate.text("conditionType"))).count();
    if gates.is_empty() { String::new() } else { format!("{open}/{}", gates.len()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn status_is_the_most_telling_word() {
        let now: Timestamp = "2024-01-01T01:00:00Z".parse().unwrap();
        let running = json!({"name": "c", "ready": true, "state": {"running": {}}});
        let done = json!({"name": "c", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
        let failed = json!({"name": "c", "state": {"terminated": {"exitCode": 2, "reason": "Error"}}});
        let crashing = json!({"name": "c", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"finishedAt": "2024-01-01T00:55:00Z"}}});
        let init = |state: Value| json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": state}]});
        #[rustfmt::skip]
        let table = [
            ("pending",       json!({"phase": "Pending"}),                                             "0/1", "Pending",               "0"),
            ("running",       json!({"phase": "Running", "containerStatuses": [running]}),             "1/1", "Running",               "0"),
            ("completed",     json!({"phase": "Succeeded", "containerStatuses": [done]}),              "0/1", "Completed",             "0"),
            ("failed",        json!({"phase": "Failed", "containerStatuses": [failed]}),               "0/1", "Error",                 "0"),
            ("one failed",    json!({"phase": "Failed", "containerStatuses": [done, failed]}),         "0/1", "Error",                 "0"),
            ("crashing",      json!({"phase": "Running", "containerStatuses": [crashing]}),            "0/1", "CrashLoopBackOff",      "3 (5m ago)"),
            ("evicted",       json!({"phase": "Failed", "reason": "Evicted"}),                         "0/1", "Evicted",               "0"),
            ("init waits",    init(json!({"waiting": {"reason": "PodInitializing"}})),                 "0/1", "Init:0/1",              "0"),
            ("init no image", init(json!({"waiting": {"reason": "ErrImagePull"}})),                    "0/1", "Init:ErrImagePull",     "0"),
            ("init failed",   init(json!({"terminated": {"exitCode": 3}})),                            "0/1", "Init:ExitCode:3",       "0"),
            ("init killed",   init(json!({"terminated": {"exitCode": 9, "signal": 9}})),               "0/1", "Init:Signal:9",         "0"),
            ("gated",         json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}), "0/1", "SchedulingGated", "0"),
        ];
        for (case, status, ready, word, restarts) in table {
            let pod = json!({"metadata": {"name": "p"}, "status": status,
                "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}});
            let row = cells(&pod, now);
            assert_eq!(
                [row[1].as_str(), row[2].as_str(), row[3].as_str()],
                [Some(ready), Some(word), Some(restarts)],
                "{case}"
            );
        }
        let leaving = json!({"metadata": {"name": "p", "deletionTimestamp": "2024-01-01T00:59:00Z"},
            "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Running", "containerStatuses": [running]}});
        assert_eq!(cells(&leaving, now)[2], "Terminating");
    }
}
