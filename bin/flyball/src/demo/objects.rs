//! The objects that the demo creates.

use serde_json::{Value, json};

pub(super) fn deployment(name: &str, image: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "nginx", "image": image, "ports": [{"containerPort": 80}]}]},
            },
        },
    })
}

/// A Job of three pods, two at a time.
pub(super) fn job(name: &str) -> Value {
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}});
    job["spec"] = job_spec();
    job["spec"]["completions"] = json!(3);
    job["spec"]["parallelism"] = json!(2);
    job
}

/// A CronJob that starts a Job every minute.
pub(super) fn cron_job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job_spec()}},
    })
}

fn job_spec() -> Value {
    json!({"template": {"spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "work", "image": "busybox", "command": ["sh", "-c", "echo working; sleep 1"]}],
    }}})
}
