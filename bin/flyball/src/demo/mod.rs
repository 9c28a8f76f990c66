//! `flyball demo`: shows how a cluster recovers from failures. Each step does something, prints what should follow, and
//! fails if it does not follow.

mod objects;
mod stage;

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use flyball_api::cron_job::CronJob;
use flyball_api::deployment::Deployment;
use flyball_api::job::Job;
use flyball_api::{Key, Resource as _};
use flyball_client::{DeleteOptions, Patch, Propagation};
use flyball_playground::cluster::{Cluster, Options, Port};
use flyball_playground::nodes;
use flyball_playground::nodes::power::{Power, switch};
use flyball_playground::objects::Pod;
use serde_json::json;

use self::stage::Stage;
use crate::args::Demo;
use crate::lines::say;
use crate::up;

const NAMESPACE: &str = "default";
const WEB: &str = "web";
const OLD_IMAGE: &str = "nginx:1.27";
const NEW_IMAGE: &str = "nginx:1.28";
/// `--node-monitor-grace-period` of the demo; upstream's default is 50 s.
const NODE_GRACE: Duration = Duration::from_secs(4);
/// How long pods tolerate an unreachable node; upstream's default is five minutes.
const TOLERATION: Duration = Duration::from_secs(1);

struct Step {
    title: &'static str,
    /// The controllers that must run.
    needs: &'static [&'static str],
    play: for<'a> fn(&'a mut Stage) -> futures::future::BoxFuture<'a, anyhow::Result<()>>,
}

const STEPS: &[Step] = &[
    Step {
        title: "A Deployment of three nginx replicas",
        needs: &["deployment-controller", "replicaset-controller"],
        play: |stage| Box::pin(deploy(stage)),
    },
    Step {
        title: "One pod is deleted, and another takes its place",
        needs: &["deployment-controller", "replicaset-controller"],
        play: |stage| Box::pin(delete_a_pod(stage)),
    },
    Step {
        title: "A new image is rolled out",
        needs: &["deployment-controller", "replicaset-controller"],
        play: |stage| Box::pin(set_image(stage, NEW_IMAGE)),
    },
    Step {
        title: "And rolled back",
        needs: &["deployment-controller", "replicaset-controller"],
        play: |stage| Box::pin(set_image(stage, OLD_IMAGE)),
    },
    Step {
        title: "A node fails, and its pods are replaced on other nodes",
        needs: &[
            "deployment-controller",
            "replicaset-controller",
            "node-lifecycle-controller",
            "taint-eviction-controller",
        ],
        play: |stage| Box::pin(lose_a_node(stage)),
    },
    Step {
        title: "A Job runs to completion",
        needs: &["job-controller"],
        play: |stage| Box::pin(run_a_job(stage)),
    },
    Step {
        title: "A CronJob starts a Job at the full minute",
        needs: &["cronjob-controller", "job-controller"],
        play: |stage| Box::pin(run_a_cron_job(stage)),
    },
    Step {
        title: "The Deployment is deleted, with its ReplicaSets and pods",
        needs: &["deployment-controller", "garbage-collector-controller"],
        play: |stage| Box::pin(delete_all(stage)),
    },
];

pub(crate) async fn run(args: &Demo) -> anyhow::Result<()> {
    ensure!(
        args.pause.is_finite() && (0.0..=3600.0).contains(&args.pause),
        "--pause {} is not between 0 and 3600 seconds",
        args.pause
    );
    up::log();
    let cluster = Cluster::start(Options {
        port: Some(Port::Exactly(0)),
        manager_flags: vec![
            format!("--node-monitor-grace-period={}s", NODE_GRACE.as_secs()),
            "--node-monitor-period=1s".to_owned(),
        ],
        toleration: TOLERATION,
        nodes: nodes::Options { heartbeat: NODE_GRACE / 4, ..nodes::Options::default() },
        ..Options::default()
    })
    .await?;
    let mut stage = Stage::new(&cluster);
    let played = play(&mut stage, &cluster, Duration::from_secs_f64(args.pause)).await;
    stage.close().await;
    cluster.stop().await;
    played
}

async fn play(stage: &mut Stage, cluster: &Cluster, pause: Duration) -> anyhow::Result<()> {
    let running = &cluster.controllers().running;
    let mut skipped = 0;
    for (n, step) in STEPS.iter().enumerate() {
        say!("\n{}. {}", n + 1, step.title);
        let missing: Vec<&str> =
            step.needs.iter().copied().filter(|needed| !running.contains(needed)).collect();
        if !missing.is_empty() {
            skipped += 1;
            say!("   skipped: {} is not running", missing.join(", "));
            continue;
        }
        (step.play)(stage).await.with_context(|| format!("step {}, {:?}", n + 1, step.title))?;
        tokio::time::sleep(pause).await;
    }
    match skipped {
        0 => say!("\nAll {} steps succeeded.", STEPS.len()),
        _ => say!("\n{} of {} steps succeeded; {skipped} skipped.", STEPS.len() - skipped, STEPS.len()),
    }
    Ok(())
}

async fn deploy(stage: &mut Stage) -> anyhow::Result<()> {
    let deployment = objects::deployment(WEB, OLD_IMAGE, 3);
    stage.client().create::<Deployment>(NAMESPACE, &deployment).await.context("create the Deployment")?;
    let pods = stage.until("three pods are ready", |pods| ready(pods, OLD_IMAGE, 3)).await?;
    for pod in pods {
        stage.say(&format!("{} is ready on {}", pod.metadata.name, pod.spec.node_name));
    }
    Ok(())
}

async fn delete_a_pod(stage: &mut Stage) -> anyhow::Result<()> {
    let before = stage.pods(WEB);
    let Some(victim) = before.first() else { bail!("there is no pod to delete") };
    let (name, uid) = (victim.metadata.name.clone(), victim.metadata.uid.clone());
    stage.say(&format!("delete pod {name}"));
    let options = DeleteOptions::uid(&uid);
    stage.client().delete::<Pod>(&victim.metadata.key(), &options).await.context("delete the pod")?;
    let after = stage
        .until("three pods are ready, and the deleted one is gone", |pods| {
            ready(pods, OLD_IMAGE, 3) && pods.iter().all(|pod| pod.metadata.uid != uid)
        })
        .await?;
    let new = after.iter().find(|pod| before.iter().all(|old| old.metadata.uid != pod.metadata.uid));
    let new = new.context("no pod has replaced it")?;
    stage.say(&format!("{} has replaced {name}", new.metadata.name));
    Ok(())
}

async fn set_image(stage: &mut Stage, image: &'static str) -> anyhow::Result<()> {
    stage.say(&format!("set the image to {image}"));
    let patch = Patch::Strategic(
        json!({"spec": {"template": {"spec": {"containers": [{"name": "nginx", "image": image}]}}}}),
    );
    let key = Key::new(NAMESPACE, WEB);
    stage.client().patch::<Deployment>(&key, None, &patch).await.context("set the image")?;
    stage
        .until("three pods of this image are ready, and no other is left", |pods| ready(pods, image, 3))
        .await?;
    stage.say(&format!("all three pods run {image}"));
    Ok(())
}

async fn lose_a_node(stage: &mut Stage) -> anyhow::Result<()> {
    let Some(node) = stage.pods(WEB).first().map(|pod| pod.spec.node_name.clone()) else {
        bail!("there is no pod on any node")
    };
    stage.say(&format!("switch {node} off; it becomes NotReady after {} s", NODE_GRACE.as_secs()));
    switch(stage.client(), &node, Power::Off).await?;
    stage
        .until("three pods are ready on other nodes", |pods| {
            let elsewhere = pods.iter().filter(|pod| {
                pod.spec.node_name != node && pod.status.is_true("Ready") && !pod.metadata.is_deleting()
            });
            elsewhere.count() == 3
        })
        .await?;
    stage.say("its pods are ready on other nodes");
    switch(stage.client(), &node, Power::On).await?;
    stage.until("the old pods are gone", |pods| ready(pods, OLD_IMAGE, 3)).await?;
    stage.say(&format!("{node} is on again, and its old pods are gone"));
    Ok(())
}

async fn run_a_job(stage: &mut Stage) -> anyhow::Result<()> {
    stage.client().create::<Job>(NAMESPACE, &objects::job("pi")).await.context("create the Job")?;
    stage.job_completes("pi", Duration::from_secs(30)).await?;
    stage.say("all three pods have succeeded, and the Job is complete");
    Ok(())
}

async fn run_a_cron_job(stage: &mut Stage) -> anyhow::Result<()> {
    stage
        .client()
        .create::<CronJob>(NAMESPACE, &objects::cron_job("tick"))
        .await
        .context("create the CronJob")?;
    stage.say("waiting for the full minute");
    let name = stage.job_of("tick", Duration::from_secs(75)).await?;
    stage.say(&format!("{name} was started"));
    stage.job_completes(&name, Duration::from_secs(30)).await?;
    stage.say(&format!("{name} is complete"));
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let key = Key::new(NAMESPACE, "tick");
    stage.client().delete_dynamic(&CronJob::TYPE, &key, &options).await.context("delete the CronJob")?;
    Ok(())
}

async fn delete_all(stage: &mut Stage) -> anyhow::Result<()> {
    let options = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
    let key = Key::new(NAMESPACE, WEB);
    stage.client().delete::<Deployment>(&key, &options).await.context("delete the Deployment")?;
    stage.until("no pod is left", |pods| pods.is_empty()).await?;
    match stage.client().get::<Deployment>(&key).await {
        Err(error) if error.is_not_found() => {}
        // With foreground deletion the Deployment itself is deleted last, right after its pods.
        Ok(_) => stage.gone::<Deployment>(&key).await?,
        Err(error) => return Err(error).context("read the Deployment"),
    }
    stage.say("pods, ReplicaSets and Deployment are gone");
    Ok(())
}

/// Whether there are exactly `count` pods, all ready and with this image.
fn ready(pods: &[std::sync::Arc<Pod>], image: &str, count: usize) -> bool {
    let is_ready = |pod: &Pod| {
        pod.status.is_true("Ready")
            && !pod.metadata.is_deleting()
            && pod.spec.containers.iter().all(|container| container.image == image)
    };
    pods.len() == count && pods.iter().all(|pod| is_ready(pod))
}
