//! What a pod does follows from the image of its first container: `never-ready` runs without becoming ready, `pending`
//! is bound but never starts, `unschedulable` is never bound, `exit-N` ends with that code, `stuck` does not confirm its
//! deletion, anything else runs and is ready.

use serde_json::Value;

use super::normalise::{items, text};
use super::steps::arguments::PodPhase;

/// What is to be done for a pod.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Duty {
    /// It is as it should be.
    Nothing,
    Bind,
    ConfirmDelete,
    Report(PodPhase, Option<i64>),
}

/// What scheduler or kubelet does next for a pod, as its image says.
pub(crate) fn duty(pod: &Value, hold_delete: bool) -> Duty {
    let image = text(&pod["spec"]["containers"][0]["image"]);
    let image = image.rsplit('/').next().unwrap_or_default().split(':').next().unwrap_or_default();
    let bound = !text(&pod["spec"]["nodeName"]).is_empty();
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return if bound && image != "stuck" && !hold_delete { Duty::ConfirmDelete } else { Duty::Nothing };
    }
    if !bound {
        let gated = !items(&pod["spec"]["schedulingGates"]).is_empty();
        return if image == "unschedulable" || gated { Duty::Nothing } else { Duty::Bind };
    }
    if !matches!(text(&pod["status"]["phase"]), "" | "Pending") {
        return Duty::Nothing;
    }
    let exit_code = image.strip_prefix("exit-").and_then(|code| code.parse().ok());
    match (image, exit_code) {
        ("pending", _) => Duty::Nothing,
        ("never-ready", _) => Duty::Report(PodPhase::Running, None),
        (_, Some(0)) => Duty::Report(PodPhase::Succeeded, Some(0)),
        (_, Some(code)) => Duty::Report(PodPhase::Failed, Some(code)),
        _ => Duty::Report(PodPhase::Ready, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_image_says_what_a_pod_does() {
        let pod = |image: &str, node: &str, phase: &str| {
            json!({
                "metadata": {}, "spec": {"nodeName": node, "containers": [{"image": image}]},
                "status": {"phase": phase},
            })
        };
        #[rustfmt::skip]
        let table = [
            ("nginx",                "",  "Pending", Duty::Bind),
            ("x/unschedulable:1",    "",  "Pending", Duty::Nothing),
            ("nginx",                "n", "Pending", Duty::Report(PodPhase::Ready, None)),
            ("reg:5000/never-ready", "n", "Pending", Duty::Report(PodPhase::Running, None)),
            ("pending",              "n", "Pending", Duty::Nothing),
            ("exit-0",               "n", "Pending", Duty::Report(PodPhase::Succeeded, Some(0))),
            ("exit-3:v1",            "n", "Pending", Duty::Report(PodPhase::Failed, Some(3))),
            ("nginx",                "n", "Running", Duty::Nothing),
        ];
        for (image, node, phase, want) in table {
            assert_eq!(duty(&pod(image, node, phase), false), want, "{image} on {node:?}");
        }
        let mut gone = pod("nginx", "n", "Running");
        gone["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(duty(&gone, false), Duty::ConfirmDelete);
        assert_eq!(duty(&gone, true), Duty::Nothing);
    }
}
