//! The image of a pod's first container says how the pod behaves: `never-ready` runs without becoming ready, `pending` is
//! bound but never starts, `unschedulable` is never bound, `exit-N` ends with that code, `stuck` does not confirm its
//! deletion, anything else runs and is ready.

use serde_json::Value;

use super::normalise::{items, text};
use super::steps::arguments::PodPhase;

/// What scheduler or kubelet do next for a pod.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum PodAction {
    Nothing,
    Bind,
    ConfirmDelete,
    Report(PodPhase, Option<i64>),
}

/// What scheduler or kubelet do next for a pod, according to its image.
pub(crate) fn next_action(pod: &Value, hold_delete: bool) -> PodAction {
    let image = text(&pod["spec"]["containers"][0]["image"]);
    let image = image.rsplit('/').next().unwrap_or_default().split(':').next().unwrap_or_default();
    let bound = !text(&pod["spec"]["nodeName"]).is_empty();
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return if bound && image != "stuck" && !hold_delete {
            PodAction::ConfirmDelete
        } else {
            PodAction::Nothing
        };
    }
    if !bound {
        let gated = !items(&pod["spec"]["schedulingGates"]).is_empty();
        return if image == "unschedulable" || gated { PodAction::Nothing } else { PodAction::Bind };
    }
    if !matches!(text(&pod["status"]["phase"]), "" | "Pending") {
        return PodAction::Nothing;
    }
    let exit_code = image.strip_prefix("exit-").and_then(|code| code.parse().ok());
    match (image, exit_code) {
        ("pending", _) => PodAction::Nothing,
        ("never-ready", _) => PodAction::Report(PodPhase::Running, None),
        (_, Some(0)) => PodAction::Report(PodPhase::Succeeded, Some(0)),
        (_, Some(code)) => PodAction::Report(PodPhase::Failed, Some(code)),
        _ => PodAction::Report(PodPhase::Ready, None),
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
            ("nginx",                "",  "Pending", PodAction::Bind),
            ("x/unschedulable:1",    "",  "Pending", PodAction::Nothing),
            ("nginx",                "n", "Pending", PodAction::Report(PodPhase::Ready, None)),
            ("reg:5000/never-ready", "n", "Pending", PodAction::Report(PodPhase::Running, None)),
            ("pending",              "n", "Pending", PodAction::Nothing),
            ("exit-0",               "n", "Pending", PodAction::Report(PodPhase::Succeeded, Some(0))),
            ("exit-3:v1",            "n", "Pending", PodAction::Report(PodPhase::Failed, Some(3))),
            ("nginx",                "n", "Running", PodAction::Nothing),
        ];
        for (image, node, phase, want) in table {
            assert_eq!(next_action(&pod(image, node, phase), false), want, "{image} on {node:?}");
        }
        let mut gone = pod("nginx", "n", "Running");
        gone["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(next_action(&gone, false), PodAction::ConfirmDelete);
        assert_eq!(next_action(&gone, true), PodAction::Nothing);
    }
}
