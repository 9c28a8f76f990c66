//! `flyball up` as a new user meets it: a Deployment is created, replaces pods, scales, rolls out and back, and is deleted.
//! Once with our own client, once with a stock kubectl from `KUBEBUILDER_ASSETS`.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use flyball_api::deployment::Deployment;
use flyball_api::{CronJob, Key, Resource as _};
use flyball_cache::{Informer, InformerOptions, Informers};
use flyball_client::{DeleteOptions, Patch, Propagation};
use flyball_playground::objects::Pod;
use serde_json::{Value, json};

use common::{Up, kubectl};

const PATIENCE: Duration = Duration::from_secs(60);

fn web(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "nginx", "image": image}]},
            },
        },
    })
}

fn image(name: &str) -> Patch {
    Patch::Strategic(
        json!({"spec": {"template": {"spec": {"containers": [{"name": "nginx", "image": name}]}}}}),
    )
}

/// Waits until exactly these many pods are there, all ready and of this image.
async fn settled(pods: &Arc<Informer<Pod>>, count: usize, image: &str) -> anyhow::Result<Vec<Arc<Pod>>> {
    let changed = Arc::new(tokio::sync::Notify::new());
    let _subscription = pods.subscribe({
        let changed = Arc::clone(&changed);
        Box::new(move |_| changed.notify_one())
    });
    let seen = async {
        loop {
            let all = pods.store().in_namespace("default");
            let good = |pod: &Pod| {
                pod.status.is_true("Ready")
                    && !pod.metadata.is_deleting()
                    && pod.spec.containers.iter().all(|container| container.image == image)
            };
            if all.len() == count && all.iter().all(|pod| good(pod)) {
                return all;
            }
            changed.notified().await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, seen).await;
    waited.with_context(|| {
        let there: Vec<String> = pods
            .store()
            .list()
            .iter()
            .map(|pod| {
                format!("{} {} ready={}", pod.metadata.name, pod.status.phase, pod.status.is_true("Ready"))
            })
            .collect();
        format!("no {count} ready pods of {image}; there are {there:?}")
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_heals_scales_rolls_out_and_back_and_goes() -> anyhow::Result<()> {
    let up = Up::start(&[])?;
    let client = up.client().await?;
    let informers = Informers::new(client.clone(), InformerOptions::default());
    let pods = informers.get::<Pod>();
    pods.synced().await;
    let key = Key::new("default", "web");

    client.create::<Deployment>("default", &web("nginx:1")).await.context("create")?;
    let before = settled(&pods, 3, "nginx:1").await?;

    let victim = &before[0];
    client.delete::<Pod>(&victim.metadata.key(), &DeleteOptions::default()).await.context("delete a pod")?;
    tokio::time::timeout(PATIENCE, async {
        while pods.store().get(&victim.metadata.key()).is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .context("the deleted pod stays")?;
    let after = settled(&pods, 3, "nginx:1").await?;
    let is_old = |pod: &Pod| before.iter().any(|old| old.metadata.name == pod.metadata.name);
    ensure!(after.iter().filter(|pod| !is_old(pod)).count() == 1, "one pod has another name");

    let scale = |n: u32| Patch::Merge(json!({"spec": {"replicas": n}}));
    client.patch::<Deployment>(&key, None, &scale(5)).await.context("scale up")?;
    settled(&pods, 5, "nginx:1").await?;
    client.patch::<Deployment>(&key, None, &scale(2)).await.context("scale down")?;
    settled(&pods, 2, "nginx:1").await?;

    client.patch::<Deployment>(&key, None, &image("nginx:2")).await.context("roll out")?;
    settled(&pods, 2, "nginx:2").await?;
    client.patch::<Deployment>(&key, None, &image("nginx:1")).await.context("roll back")?;
    settled(&pods, 2, "nginx:1").await?;

    let why = up.flyball(&["why", "deploy/web"])?;
    ensure!(
        why.starts_with("Deployment default/web: 2 of 2 replicas available\n")
            && why.contains("deployment-controller  ReplicaSet web-"),
        "why does not say so: {why}"
    );

    let suspended = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "suspend": true, "jobTemplate": {"spec": {"template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}}},
    });
    client.create::<CronJob>("default", &suspended).await.context("create a suspended CronJob")?;
    let want = "CronJob default/nightly: suspended\nBlocked: it is suspended (set by ";
    tokio::time::timeout(PATIENCE, async {
        while !up.flyball(&["why", "cj", "nightly"])?.contains(want) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::Ok(())
    })
    .await
    .context(want)??;

    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    client.delete_dynamic(&Deployment::TYPE, &key, &options).await.context("delete")?;
    settled(&pods, 0, "").await?;
    up.stop()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_kubectl_walks_through() -> anyhow::Result<()> {
    let Some(binary) = kubectl() else {
        eprintln!("SKIPPED a_stock_kubectl_walks_through: KUBEBUILDER_ASSETS names no folder with a kubectl");
        return Ok(());
    };
    let up = Up::start(&[])?;
    let run = |line: &str| up.kubectl(&binary, line);
    let manifest = up.file("web.json", &web("nginx:1").to_string())?;

    let applied = run(&format!("apply -f {manifest}"))?;
    ensure!(applied.contains("deployment.apps/web created"), "{applied}");
    run("rollout status deployment/web --timeout=60s")?;
    let names = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let list = "get pods -l app=web -o name";
    let before = names(&run(list)?);
    ensure!(before.len() == 3, "{before:?}");

    run(&format!("delete {}", before[0]))?;
    run("rollout status deployment/web --timeout=60s")?;
    let after = names(&run(list)?);
    ensure!(after.len() == 3 && !after.contains(&before[0]), "{before:?} became {after:?}");

    run("scale deployment/web --replicas=5")?;
    run("rollout status deployment/web --timeout=60s")?;
    ensure!(names(&run(list)?).len() == 5, "not five");

    run("set image deployment/web nginx=nginx:2")?;
    run("rollout status deployment/web --timeout=60s")?;
    let images = "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}";
    ensure!(run(images)? == "nginx:2", "not rolled out");
    run("rollout undo deployment/web")?;
    run("rollout status deployment/web --timeout=60s")?;
    ensure!(run(images)? == "nginx:1", "not rolled back");

    let logs = run("logs deployment/web")?;
    ensure!(logs.contains("is simulated on node-"), "{logs}");
    ensure!(run("exec deployment/web -- echo hello")? == "hello\n", "exec does not say hello");
    let refused =
        run("exec deployment/web -- cat /etc/hosts").err().context("nothing runs, and yet exec did")?;
    let refused = format!("{refused:#}");
    ensure!(refused.contains("cannot be run") && refused.contains("exit code 126"), "{refused}");
    for websockets in ["true", "false"] {
        let protocol = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
        let talk = |line: &str, input: &str| up.kubectl_with_input(&binary, line, input, protocol);
        let said = talk("exec -i deployment/web -- cat", "one\ntwo")?;
        ensure!(said == "one\ntwo", "websockets {websockets}: {said:?}");
        let said = talk("exec -i deployment/web -- sh", "echo a\nfalse || echo b\nexit 0\n")?;
        ensure!(said == "a\nb\n", "websockets {websockets}: {said:?}");
    }
    run("expose deployment web --port=80 --name=web")?;
    let page = |path: &str| run(&format!("get --raw {path}"));
    let pod = names(&run(list)?)[0].replacen("pod/", "", 1);
    let own = page(&format!("/api/v1/namespaces/default/pods/{pod}:8080/proxy/who"))?;
    ensure!(own.contains(&format!("pod {pod} in")) && own.contains("port 8080, path /who"), "{own}");
    let any = eventually(|| page("/api/v1/namespaces/default/services/web:80/proxy/"))?;
    ensure!(any.contains("pod web-") && any.contains("port 80, path /\n"), "{any}");
    ensure!(page("/api/v1/nodes/node-1/proxy/healthz")? == "ok");
    let endpoints =
        run("get endpointslices kubernetes -o jsonpath={.endpoints[0].addresses[0]}:{.ports[0].port}")?;
    ensure!(endpoints == format!("127.0.0.1:{}", up.port()?), "{endpoints}");
    run("delete service web")?;
    let nodes = run("get nodes")?;
    ensure!(nodes.matches(" Ready ").count() == 3, "{nodes}");

    run("delete deployment web")?;
    run("wait --for=delete pod -l app=web --timeout=60s")?;
    up.stop()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_up_goes_on_where_the_first_was() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data").display().to_string();
    let first = Up::start(&["--data-dir", &data])?;
    let client = first.client().await?;
    client.create::<Deployment>("default", &web("nginx:1")).await?;
    let informers = Informers::new(client, InformerOptions::default());
    let before = settled(&informers.get::<Pod>(), 3, "nginx:1").await?;
    first.stop()?;

    let second = Up::start(&["--data-dir", &data])?;
    let informers = Informers::new(second.client().await?, InformerOptions::default());
    let after = settled(&informers.get::<Pod>(), 3, "nginx:1").await?;
    for pod in &after {
        ensure!(
            before.iter().any(|old| old.metadata.uid == pod.metadata.uid),
            "{} is new",
            pod.metadata.name
        );
    }
    second.stop()
}

#[test]
fn what_cannot_work_is_said() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (used, damaged, file) = (path("used"), path("damaged"), path("file"));
    std::fs::write(&file, "no folder")?;
    std::fs::create_dir_all(folder.path().join("damaged/objects"))?;
    std::fs::write(folder.path().join("damaged/objects/objects.redb"), "no database")?;
    let up = Up::start(&["--data-dir", &used])?;
    let (port, pid) = (up.port()?, up.pid());
    let (inside, config) = (format!("{file}/data"), format!("{file}/config"));
    let new = |more: &[&'static str]| [&["up", "--port", "0"], more].concat();
    #[rustfmt::skip]
    let table: [(Vec<&str>, i32, String); 18] = [
        (vec!["up", "--port", &port],                     1, format!("port {port} is taken; choose another one with --port, or any free one with --port 0")),
        (vec!["up", "--port", "0", "--data-dir", &used],  1, format!("the data directory {used} is in use by another process ({pid}): stop that one first, or choose another directory with --data-dir")),
        (vec!["up", "--port", "0", "--data-dir", &damaged], 1, format!("{damaged}/objects/objects.redb is damaged")),
        (vec!["up", "--port", "0", "--data-dir", &inside], 1, format!("cannot use {inside}: Not a directory")),
        (vec!["up", "--port", "0", "--kubeconfig", &config], 1, format!("cannot write the kubeconfig {config}; name another file with --kubeconfig: Not a directory")),
        (new(&["--controllers", "deploment"]),            1, "there is no controller \"deploment\"; did you mean deployment?".to_owned()),
        (new(&["--nodes", "many"]),                       2, "invalid value 'many' for '--nodes <NODES>'".to_owned()),
        (new(&["--nodes", "1001"]),                       2, "1001 is not in 0..=1000".to_owned()),
        (new(&["--nodes=-1"]),                            2, "invalid value '-1' for '--nodes <NODES>'".to_owned()),
        (new(&["--log-format", "xml"]),                   2, "[possible values: text, json]".to_owned()),
        (new(&["--", "--node-monitor-period=soon"]),      1, "--node-monitor-period".to_owned()),
        (vec!["up", "--port", "0", "--data-dir", &file],  1, format!("--data-dir {file}: this is a file, not a directory")),
        (new(&["--controllers=-deployment-controller"]),  1, "write --controllers='*,-deployment-controller'".to_owned()),
        (vec!["why", "deploy", "web"],                    1, "Deployment default/web does not exist".to_owned()),
        (vec!["why", "node/node-9"],                      1, "Node node-9 does not exist".to_owned()),
        (vec!["why", "web"],                              1, "\"web\" is not of the form KIND/NAME".to_owned()),
        (vec!["why", "dog/web"],                          1, "the cluster has no kind \"dog\"".to_owned()),
        (vec!["node", "stop", "node-9"],                  1, "there is no node \"node-9\"; there are: node-1, node-2, node-3".to_owned()),
    ];
    for (arguments, code, want) in table {
        let (ended, said) = up.fails(&arguments)?;
        ensure!(said.contains(&want), "{arguments:?} said {said:?}, not {want:?}");
        ensure!(ended == Some(code), "{arguments:?} ended with {ended:?}, not {code}");
        ensure!(!said.contains("panicked"), "{arguments:?} panicked: {said:?}");
    }
    up.stop()
}

#[test]
fn a_node_is_switched_off_and_on() -> anyhow::Result<()> {
    let up = Up::start(&["--nodes", "2"])?;
    up.flyball(&["node", "stop", "node-2"])?;
    let listed = up.flyball(&["node", "list"])?;
    ensure!(listed.lines().any(|line| line.starts_with("node-2") && line.contains("off")), "{listed}");
    up.flyball(&["node", "start", "node-2"])?;
    let listed = up.flyball(&["node", "list"])?;
    ensure!(!listed.contains("off"), "{listed}");
    up.stop()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_a_node_that_dies_move() -> anyhow::Result<()> {
    let up = Up::start(&[
        "--pods-move-after",
        "1",
        "--",
        "--node-monitor-grace-period=4s",
        "--node-monitor-period=500ms",
    ])?;
    let client = up.client().await?;
    let informers = Informers::new(client.clone(), InformerOptions::default());
    let pods = informers.get::<Pod>();
    client.create::<Deployment>("default", &web("nginx:1")).await.context("create")?;
    let before = settled(&pods, 3, "nginx:1").await?;
    let node = before[0].spec.node_name.clone();
    let victims: Vec<&Arc<Pod>> = before.iter().filter(|pod| pod.spec.node_name == node).collect();

    up.flyball(&["node", "stop", &node])?;
    let moved =
        |pod: &Pod| pod.spec.node_name != node && pod.status.is_true("Ready") && !pod.metadata.is_deleting();
    tokio::time::timeout(PATIENCE, async {
        while pods.store().list().iter().filter(|pod| moved(pod)).count() < 3 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .context("the pods did not move")?;
    let listed = up.flyball(&["node", "list"])?;
    let line =
        listed.lines().find(|line| line.starts_with(node.as_str())).context("the node is not listed")?;
    ensure!(line.contains("off") && line.contains("Unknown"), "{listed}");
    for victim in victims {
        let why = up.flyball(&["why", &format!("pod/{}", victim.metadata.name)])?;
        ensure!(why.contains("a NoExecute taint that it does not tolerate any longer"), "{why}");
    }

    up.flyball(&["node", "start", &node])?;
    let after = settled(&pods, 3, "nginx:1").await?;
    ensure!(after.iter().all(|pod| pod.spec.node_name != node), "pods are back on {node}");
    up.stop()
}

#[test]
fn the_demo_shows_what_it_says() -> anyhow::Result<()> {
    let output =
        std::process::Command::new(env!("CARGO_BIN_EXE_flyball")).args(["demo", "--pause", "0"]).output()?;
    let (printed, problems) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{}: {printed}{problems}", output.status);
    ensure!(printed.contains("All 8 steps succeeded."), "{printed}");
    Ok(())
}

/// What becomes possible soon: controllers are at work.
fn eventually(attempt: impl Fn() -> anyhow::Result<String>) -> anyhow::Result<String> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(_) if begun.elapsed() < Duration::from_secs(30) => {
                std::thread::sleep(Duration::from_millis(200));
            }
            done => return done,
        }
    }
}
