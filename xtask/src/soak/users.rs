//! The users of the cluster: each sends requests until the time is up and records in the ledger what the server has
//! accepted. Most return the kubelets of their pods, which must run until the cluster is at rest.

use std::collections::VecDeque;
use std::time::Duration;

use flyball_sim::load;
use flyball_sim::nodes::Nodes;
use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::ledger::Wanted;
use super::machines;
use super::shared::Shared;

const DEPLOYMENTS: &str = "soak-deployments";
const STATEFUL: &str = "soak-stateful";
const JOBS: &str = "soak-jobs";
const STORAGE_CLASS: &str = "soak";
/// Jobs that may be unfinished at a time: a manager that lives for seconds must be able to complete them.
const JOBS_AT_ONCE: usize = 12;

/// A Deployment as its user requested it.
struct App {
    name: String,
    replicas: u64,
    release: u64,
}

impl App {
    fn image(&self) -> String {
        format!("main:{}", self.release)
    }

    fn wanted(&self) -> Wanted {
        Wanted::Workload { replicas: self.replicas, image: self.image() }
    }

    fn change(&self) -> Value {
        json!({"spec": {"replicas": self.replicas, "template": load::template(&self.name, &self.image())}})
    }
}

/// Rolls Deployments of a constant size to new releases, scales others, and replaces some.
pub(super) async fn deployments(shared: Shared, mut random: StdRng) -> Option<Nodes> {
    const SURGE: usize = 2;
    const APPS: usize = 6;
    create_namespace(&shared, DEPLOYMENTS).await;
    let pods = machines::run_pods(&shared, DEPLOYMENTS);
    let collection = path("apps/v1", DEPLOYMENTS, "deployments");
    let mut apps: Vec<App> = Vec::new();
    let mut made = 0;
    while shared.goes_on() {
        if apps.len() < APPS {
            made += 1;
            let app = App { name: format!("d-{made}"), replicas: 8, release: 1 };
            let mut object = load::workload("Deployment", &app.name, app.replicas);
            object["spec"]["template"] = load::template(&app.name, &app.image());
            object["spec"]["strategy"] =
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": SURGE, "maxUnavailable": 1}});
            shared.ledger.bound(DEPLOYMENTS, &app.name, app.replicas as usize + SURGE);
            shared.create(&collection, &object).await;
            shared.create(&path("v1", DEPLOYMENTS, "services"), &service(&app.name)).await;
            shared.ledger.want(format!("{collection}/{}", app.name), app.wanted());
            shared.ledger.count("Deployments");
            apps.push(app);
        } else if random.random_ratio(1, 20) {
            let app = apps.remove(random.random_range(0..apps.len()));
            for gone in
                [format!("{collection}/{}", app.name), path("v1", DEPLOYMENTS, "services") + "/" + &app.name]
            {
                shared.delete(&gone).await;
                shared.ledger.want(gone, Wanted::Gone);
            }
        } else {
            let chosen = random.random_range(0..apps.len());
            let app = &mut apps[chosen];
            // Those with even numbers keep their size, so that the bound on their pods is tight.
            if chosen % 2 == 1 && random.random_ratio(1, 3) {
                app.replicas = random.random_range(1..=10);
                shared.ledger.bound(DEPLOYMENTS, &app.name, app.replicas as usize + SURGE);
            } else {
                app.release += 1;
                shared.ledger.count("rollouts");
            }
            shared.merge(&format!("{collection}/{}", app.name), &app.change()).await;
            shared.ledger.want(format!("{collection}/{}", app.name), app.wanted());
        }
        pause(&mut random, 500, 2500).await;
    }
    Some(pods)
}

/// Keeps some Jobs running, of both completion modes, and deletes half of those that are complete.
pub(super) async fn jobs(shared: Shared, mut random: StdRng) -> Option<Nodes> {
    create_namespace(&shared, JOBS).await;
    let pods = machines::run_pods(&shared, JOBS);
    let collection = path("batch/v1", JOBS, "jobs");
    let mut running: VecDeque<(String, Wanted)> = VecDeque::new();
    let mut made = 0;
    while shared.goes_on() {
        if running.len() < JOBS_AT_ONCE {
            made += 1;
            let (name, completions) = (format!("job-{made}"), random.random_range(1..=6));
            let mode = if random.random_bool(0.5) { "Indexed" } else { "NonIndexed" };
            shared.ledger.bound(JOBS, &name, completions as usize);
            shared.create(&collection, &job(&name, completions, mode)).await;
            let wanted = Wanted::Job { completions };
            shared.ledger.want(format!("{collection}/{name}"), wanted.clone());
            shared.ledger.count("Jobs");
            running.push_back((name, wanted));
        }
        if let Some((name, wanted)) = running.pop_front() {
            let path = format!("{collection}/{name}");
            let object = shared.get(&path).await;
            let done = object.as_ref().is_some_and(|job| job["status"]["completionTime"].is_string());
            if !done {
                running.push_back((name, wanted));
            } else if let Some(missing) = wanted.missing(object.as_ref()) {
                shared.ledger.violation(format!("Job {name} {missing}"));
            } else if random.random_bool(0.5) {
                shared.delete(&path).await;
                shared.ledger.want(path, Wanted::Gone);
            }
        }
        pause(&mut random, 100, 600).await;
    }
    Some(pods)
}

/// StatefulSets with a disk for each pod: rolls, scales and replaces them.
pub(super) async fn stateful_sets(shared: Shared, mut random: StdRng) -> Option<Nodes> {
    const SETS: usize = 3;
    const LARGEST: u64 = 4;
    create_namespace(&shared, STATEFUL).await;
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": STORAGE_CLASS},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "Immediate",
    });
    shared.create("/apis/storage.k8s.io/v1/storageclasses", &class).await;
    let pods = machines::run_pods(&shared, STATEFUL);
    let collection = path("apps/v1", STATEFUL, "statefulsets");
    let mut sets: Vec<App> = Vec::new();
    let mut made = 0;
    while shared.goes_on() {
        if sets.len() < SETS {
            made += 1;
            let set = App { name: format!("s-{made}"), replicas: 2, release: 1 };
            for n in 0..LARGEST {
                shared.create("/api/v1/persistentvolumes", &disk(&format!("disk-{made}-{n}"))).await;
            }
            shared.ledger.bound(STATEFUL, &set.name, LARGEST as usize);
            shared.create(&collection, &stateful_set(&set)).await;
            shared.ledger.want(format!("{collection}/{}", set.name), set.wanted());
            shared.ledger.count("StatefulSets");
            sets.push(set);
        } else if random.random_ratio(1, 8) {
            let set = sets.remove(random.random_range(0..sets.len()));
            let path = format!("{collection}/{}", set.name);
            shared.delete(&path).await;
            shared.ledger.want(path, Wanted::Gone);
        } else {
            let chosen = random.random_range(0..sets.len());
            let set = &mut sets[chosen];
            if random.random_bool(0.5) {
                set.replicas = random.random_range(1..=LARGEST);
            } else {
                set.release += 1;
            }
            shared.merge(&format!("{collection}/{}", set.name), &set.change()).await;
            shared.ledger.want(format!("{collection}/{}", set.name), set.wanted());
        }
        pause(&mut random, 2000, 6000).await;
    }
    Some(pods)
}

/// Creates namespaces with objects of every kind, and deletes them while controllers still work on those.
pub(super) async fn namespaces(shared: Shared, mut random: StdRng) -> Option<Nodes> {
    let mut made = 0;
    while shared.goes_on() {
        made += 1;
        let name = format!("soak-brief-{made}");
        create_namespace(&shared, &name).await;
        let pods = machines::run_pods(&shared, &name);
        shared.ledger.count("namespaces deleted");
        for n in 0..5 {
            let map =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{n}")}});
            shared.create(&path("v1", &name, "configmaps"), &map).await;
        }
        shared.create(&path("apps/v1", &name, "deployments"), &load::workload("Deployment", "app", 3)).await;
        shared.create(&path("batch/v1", &name, "jobs"), &job("job", 2, "Indexed")).await;
        shared.create(&path("v1", &name, "services"), &service("app")).await;
        pause(&mut random, 500, 6000).await;
        let path = format!("/api/v1/namespaces/{name}");
        shared.delete(&path).await;
        shared.ledger.forget_namespace(&name);
        shared.ledger.want(path.clone(), Wanted::Gone);
        // Its kubelets must run until its last pod is gone.
        tokio::spawn({
            let shared = shared.clone();
            async move {
                while shared.get(&path).await.is_some() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                drop(pods);
            }
        });
    }
    None
}

async fn create_namespace(shared: &Shared, name: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    shared.create("/api/v1/namespaces", &namespace).await;
}

fn path(group_version: &str, namespace: &str, resource: &str) -> String {
    let root = if group_version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{group_version}") };
    format!("{root}/namespaces/{namespace}/{resource}")
}

async fn pause(random: &mut StdRng, from: u64, to: u64) {
    tokio::time::sleep(Duration::from_millis(random.random_range(from..to))).await;
}

fn service(app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": app},
        "spec": {"selector": {"app": app}, "clusterIP": "None", "ports": [{"port": 80}]},
    })
}

fn job(name: &str, completions: u64, mode: &str) -> Value {
    let mut template = load::template(name, "exit-0");
    template["spec"]["restartPolicy"] = "Never".into();
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"completions": completions, "parallelism": 3, "completionMode": mode, "template": template},
    })
}

fn disk(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": STORAGE_CLASS,
            "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": machines::DRIVER, "volumeHandle": name},
        },
    })
}

fn stateful_set(set: &App) -> Value {
    let mut object = load::workload("StatefulSet", &set.name, set.replicas);
    let spec = &mut object["spec"];
    spec["serviceName"] = set.name.as_str().into();
    spec["podManagementPolicy"] = "Parallel".into();
    spec["template"] = load::template(&set.name, &set.image());
    spec["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": "Delete", "whenScaled": "Retain"});
    spec["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": STORAGE_CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }]);
    object
}
