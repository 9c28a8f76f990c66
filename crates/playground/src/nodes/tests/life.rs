//! Lifecycles of pods, second by second: `next` is called repeatedly, as the shell does.

use flyball_api::Timestamp;
use flyball_api::time::SignedDuration;
use serde_json::{Value, json};

use super::*;

const BIRTH: &str = "2026-01-01T00:00:00Z";

fn at(millis: i64) -> Timestamp {
    let birth: Timestamp = BIRTH.parse().unwrap();
    birth.checked_add(SignedDuration::from_millis(millis)).unwrap()
}

fn pod(policy: &str, annotations: Value, spec: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "generation": 1, "annotations": annotations},
        "spec": {"nodeName": "n", "restartPolicy": policy, "containers": [{"name": "c", "image": "nginx"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn place() -> Place {
    Place { host_ip: "172.18.0.1".into(), pod_ip: "10.244.1.2".into(), since: at(0) }
}

/// What `kubectl get pod` would show for a status, and the exit code and restarts of the first container.
fn summary(status: &PodStatus) -> String {
    let first = &status.container_statuses[0];
    let state = match (&first.state.waiting, &first.state.terminated) {
        (Some(waiting), _) => waiting.reason.to_string(),
        (_, Some(ended)) => format!("exit {}", ended.exit_code),
        _ if first.state.running.is_some() => "running".to_owned(),
        _ => "nothing".to_owned(),
    };
    let ready = if status.is_true("Ready") { ", ready" } else { "" };
    let restarts = match first.restart_count {
        0 => String::new(),
        count => format!(", restarts {count}"),
    };
    format!("{} ({state}{ready}{restarts})", status.phase)
}

/// Continues until `millis`, in steps of a quarter of a second, and returns each change with its second.
fn live_until(pod: &mut Pod, from: i64, millis: i64) -> Vec<String> {
    let mut story = Vec::new();
    for now in (from..=millis).step_by(250) {
        loop {
            match next(pod, &place(), at(now)) {
                Step::Rest(_) => break,
                Step::Remove => {
                    story.push(format!("{:.2} removed", now as f64 / 1000.0));
                    return story;
                }
                Step::Report(status, _) => {
                    // Through JSON, as through the server.
                    let text = serde_json::to_value(&*status).unwrap();
                    pod.status = serde_json::from_value(text).unwrap();
                    story.push(format!("{:.2} {}", now as f64 / 1000.0, summary(&pod.status)));
                }
            }
        }
    }
    story
}

#[test]
fn pods_start_run_fail_and_end_as_annotated() {
    let (created, runs) = ("0.00 Pending (ContainerCreating)", "0.50 Running (running, ready)");
    let none = || json!({});
    let sleep = json!({"containers": [{"name": "c", "command": ["sleep", "3"]}]});
    let probe = json!({"containers": [{"name": "c", "readinessProbe": {"initialDelaySeconds": 5}}]});
    let failing = |kind: &str, more: Value| {
        let mut probe = json!({"exec": {"command": ["sh", "-c", "exit 1"]}, "periodSeconds": 2});
        probe.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"containers": [{"name": "c", kind: probe}]})
    };
    let annotation = |key: &str, value: &str| json!({format!("flyball.dev/{key}"): value});
    #[rustfmt::skip]
    let table = [
        ("a server runs on",       pod("Always", none(), none()),                        vec![created, runs]),
        ("a task ends",            pod("Never", none(), none()),                         vec![created, runs, "2.00 Succeeded (exit 0)"]),
        ("a task takes its time",  pod("OnFailure", none(), sleep),                      vec![created, runs, "3.00 Succeeded (exit 0)"]),
        ("a task fails",           pod("Never", annotation("exit-code", "3"), none()),         vec![created, runs, "2.00 Failed (exit 3)"]),
        ("a slow start",           pod("Always", annotation("delay", "4s"), none()),           vec![created, "4.00 Running (running, ready)"]),
        ("never ready",            pod("Always", annotation("never-ready", "true"), none()),   vec![created, "0.50 Running (running)"]),
        ("no image",               pod("Always", annotation("fail", "image"), none()),         vec![created, "0.50 Pending (ImagePullBackOff)"]),
        ("a readiness probe",      pod("Always", none(), probe),                         vec![created, "0.50 Running (running)", "5.00 Running (running, ready)"]),
        ("never found ready",      pod("Always", none(), failing("readinessProbe", none())),   vec![created, "0.50 Running (running)"]),
        ("found dead",             pod("Never", none(), failing("livenessProbe", json!({"initialDelaySeconds": 1}))), vec![created, runs, "2.00 Succeeded (exit 0)"]),
        ("found dead early",       pod("Never", none(), failing("livenessProbe", json!({"failureThreshold": 1}))), vec![created, runs, "1.00 Failed (exit 137)"]),
        ("restarted as dead",      pod("Always", none(), failing("livenessProbe", none())),    vec![
            created, runs, "4.00 Running (running, ready, restarts 1)", "8.00 Running (CrashLoopBackOff, restarts 1)",
            "18.00 Running (running, ready, restarts 2)", "22.00 Running (CrashLoopBackOff, restarts 2)",
        ]),
        ("never started",          pod("Never", none(), failing("startupProbe", json!({"failureThreshold": 1}))), vec![created, "0.50 Running (running)", "1.00 Failed (exit 137)"]),
        ("a deadline",             pod("Always", none(), json!({"activeDeadlineSeconds": 9})), vec![created, runs, "9.00 Failed (exit 143)"]),
        ("it keeps failing",       pod("Always", annotation("fail", "true"), none()),          vec![
            created, runs,
            "2.00 Running (running, ready, restarts 1)",
            "4.00 Running (CrashLoopBackOff, restarts 1)", "14.00 Running (running, ready, restarts 2)",
            "16.00 Running (CrashLoopBackOff, restarts 2)", "36.00 Running (running, ready, restarts 3)",
            "38.00 Running (CrashLoopBackOff, restarts 3)",
        ]),
    ];
    for (case, mut pod, want) in table {
        assert_eq!(live_until(&mut pod, 0, 40_000), want, "{case}");
    }
}

#[test]
fn init_containers_run_one_after_the_other() {
    let init = json!({"initContainers": [
        {"name": "i", "command": ["sleep", "2"]}, {"name": "s", "restartPolicy": "Always"}, {"name": "j"}]});
    let mut staged = pod("Always", json!({}), init);
    let story = live_until(&mut staged, 0, 10_000);
    assert_eq!(story.last().unwrap(), "2.50 Running (running, ready)");
    let ended: Vec<bool> = staged
        .status
        .init_container_statuses
        .iter()
        .map(|status| status.state.terminated.is_some())
        .collect();
    assert_eq!(ended, [true, false, true], "the sidecar runs on");
    assert!(staged.status.is_true("Initialized"));

    let mut failing =
        pod("Never", json!({}), json!({"initContainers": [{"name": "i", "command": ["false"]}]}));
    assert!(live_until(&mut failing, 0, 10_000).last().unwrap().contains("Failed"));
}

#[test]
fn a_container_that_is_added_to_look_around_runs_once_and_changes_nothing_else() {
    let mut watched = pod("Always", json!({"flyball.dev/fail": "image"}), json!({}));
    live_until(&mut watched, 0, 1_000);
    let look = |name: &str, command: Value| json!({"name": name, "image": "busybox", "command": command});
    let added = json!([look("shell", json!(["sh"])), look("short", json!(["sh", "-c", "sleep 2; exit 3"]))]);
    watched.spec.ephemeral_containers = serde_json::from_value(added).unwrap();
    let story = live_until(&mut watched, 1_250, 10_000);
    assert_eq!(story, ["1.25 Pending (ImagePullBackOff)", "3.00 Pending (ImagePullBackOff)"]);
    let states = &watched.status.ephemeral_container_statuses;
    assert!(states[0].state.running.is_some() && states[0].restart_count == 0, "{states:?}");
    assert_eq!(states[1].state.terminated.as_ref().map(|ended| ended.exit_code), Some(3), "{states:?}");
}

#[test]
fn readiness_gates_are_waited_for() {
    let gates = json!({"readinessGates": [{"conditionType": "example.com/gate"}]});
    let mut gated = pod("Always", json!({}), gates);
    live_until(&mut gated, 0, 5_000);
    let ready = gated.status.condition("Ready").unwrap();
    assert_eq!(ready.reason.as_deref(), Some("ReadinessGatesNotReady"));
    let want = "corresponding condition of pod readiness gate \"example.com/gate\" does not exist.";
    assert_eq!(ready.message.as_deref(), Some(want));
    gated.status.conditions.push(crate::objects::Condition {
        type_: "example.com/gate".into(),
        status: "True".into(),
        ..Default::default()
    });
    assert_eq!(live_until(&mut gated, 6_000, 7_000), ["6.00 Running (running, ready)"]);
}

#[test]
fn pods_that_are_asked_to_go_stop_tell_it_and_are_removed() {
    let going = |policy: &str, grace: i64| {
        let mut pod = pod(policy, json!({"flyball.dev/run-for": "1h"}), json!({}));
        live_until(&mut pod, 0, 5_000);
        pod.metadata.deletion_timestamp = Some(at(10_000 + grace * 1000));
        pod.metadata.deletion_grace_period_seconds = Some(grace);
        pod
    };
    let end = |policy, grace| live_until(&mut going(policy, grace), 10_000, 50_000);
    assert_eq!(end("Always", 30), ["11.00 Succeeded (exit 0)", "11.00 removed"]);
    assert_eq!(end("Never", 30), ["11.00 Failed (exit 143)", "11.00 removed"]);

    let mut held = going("Always", 0);
    assert_eq!(live_until(&mut held, 10_000, 50_000), ["10.00 Succeeded (exit 0)"]);
    assert_eq!(next(&held, &place(), at(60_000)), Step::Rest(None), "only finalizers hold it");

    let mut unborn = pod("Always", json!({}), json!({}));
    unborn.metadata.deletion_timestamp = Some(at(30_000));
    unborn.metadata.deletion_grace_period_seconds = Some(30);
    assert!(
        matches!(next(&unborn, &place(), at(0)), Step::Report(..)),
        "its end is written though it never started"
    );
}

#[test]
fn a_pod_looks_again_when_something_is_due() {
    let mut task = pod("Never", json!({}), json!({}));
    live_until(&mut task, 0, 750);
    assert_eq!(next(&task, &place(), at(750)), Step::Rest(Some(Duration::from_millis(1250))));
    live_until(&mut task, 750, 5_000);
    assert_eq!(next(&task, &place(), at(9_000)), Step::Rest(None));
}
