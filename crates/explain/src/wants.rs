//! What has to be read next, given what has been read. Pure: the gatherer asks again until there is nothing more.

use serde_json::Value;

use crate::kinds::{group_of, known};
use crate::object::{Obj, Ref};
use crate::world::World;

/// Most pods whose events, nodes and claims are read.
const PODS: usize = 20;

/// One request: an object, or a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Want {
    pub group: String,
    pub kind: String,
    pub namespace: String,
    /// One object; `None`: a list.
    pub name: Option<String>,
    pub labels: Option<String>,
    pub fields: Option<String>,
}

impl Want {
    fn one(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::all_of(group, kind, namespace) }
    }

    fn all_of(group: &str, kind: &str, namespace: &str) -> Self {
        Self {
            group: group.into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: None,
            labels: None,
            fields: None,
        }
    }

    fn known(kind: &str, namespace: &str, name: &str) -> Self {
        Self::one(group_of(kind), kind, namespace, name)
    }

    fn list(kind: &str, namespace: &str) -> Self {
        Self::all_of(group_of(kind), kind, namespace)
    }

    /// The events about an object.
    fn events(object: Obj<'_>) -> Self {
        let namespace = if object.namespace().is_empty() { "default" } else { object.namespace() };
        let fields = format!("involvedObject.kind={},involvedObject.name={}", object.kind(), object.name());
        Self { fields: Some(fields), ..Self::list("Event", namespace) }
    }
}

/// Everything that the rules may look at for this object and that can be named now.
pub fn wants(world: &World, asked: &Ref) -> Vec<Want> {
    let mut wants = vec![Want::one(&asked.group, &asked.kind, &asked.namespace, &asked.name)];
    let Some(object) = world.find(asked).found() else { return wants };
    let mut owner = Some(object);
    let mut depth = 0;
    while let Some(found) = owner {
        wants.push(Want::events(found));
        if let Some(next) = found.controller() {
            wants.push(Want::one(next.group, next.kind, found.namespace(), next.name));
        }
        owner = world.controller_of(found).filter(|_| depth < 8);
        depth += 1;
    }
    of_object(world, object, &mut wants);
    wants
}

/// The text form of a selector of a spec, for a list request.
fn selector(value: &Value) -> Option<String> {
    crate::world::compile(value).map(|selector| selector.to_string())
}

fn of_object(world: &World, object: Obj<'_>, wants: &mut Vec<Want>) {
    let namespace = object.namespace();
    let selected =
        |kind: &str| Want { labels: selector(object.at("/spec/selector")), ..Want::list(kind, namespace) };
    match object.kind() {
        "Deployment" | "ReplicaSet" | "StatefulSet" => {
            if object.kind() == "Deployment" {
                wants.push(selected("ReplicaSet"));
                wants.extend(
                    world.dependents(object).filter(|set| set.count("/spec/replicas") > 0).map(Want::events),
                );
            }
            wants.push(selected("Pod"));
            wants.push(Want::list("HorizontalPodAutoscaler", namespace));
            let pods = crate::rules::pods_of(world, object);
            of_pods(world, pods, wants);
        }
        "DaemonSet" | "Job" | "ReplicationController" => {
            wants.push(match object.kind() {
                "ReplicationController" => Want::list("Pod", namespace),
                _ => selected("Pod"),
            });
            if object.kind() == "DaemonSet" {
                wants.push(Want::list("Node", ""));
            }
            of_pods(world, crate::rules::pods_of(world, object), wants);
        }
        "CronJob" => {
            wants.push(Want::list("Job", namespace));
            for job in world.dependents(object).filter(|job| job.kind() == "Job") {
                let is_over = job.has("Complete", "True");
                if !is_over {
                    wants.push(Want::events(job));
                    of_object(world, job, wants);
                }
            }
        }
        "Pod" => {
            wants.push(Want::list("PodDisruptionBudget", namespace));
            of_pod(world, object, wants);
        }
        "HorizontalPodAutoscaler" => {
            let target = Obj(object.at("/spec/scaleTargetRef"));
            let group = target.text("/apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
            wants.push(Want::one(group, target.text("/kind"), namespace, target.text("/name")));
        }
        "PersistentVolumeClaim" => of_claim(world, object, wants),
        "PersistentVolume" => {
            let claim = Obj(object.at("/spec/claimRef"));
            if !claim.text("/name").is_empty() {
                wants.push(Want::known(
                    "PersistentVolumeClaim",
                    claim.text("/namespace"),
                    claim.text("/name"),
                ));
            }
        }
        "Namespace" if object.is_deleting() => wants.push(Want::list("APIService", "")),
        "Service" => {
            wants.push(Want::list("Pod", namespace));
            let labels = Some(format!("kubernetes.io/service-name={}", object.name()));
            wants.push(Want { labels, ..Want::list("EndpointSlice", namespace) });
            let selector: Vec<(String, String)> =
                object.pairs("/spec/selector").map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            let pods = world
                .list("Pod", namespace)
                .filter(|pod| !selector.is_empty() && pod.matches_labels(&selector));
            of_pods(world, pods.collect(), wants);
        }
        "Ingress" => {
            let paths = object.list("/spec/rules").flat_map(|rule| rule.list("/http/paths"));
            let services = paths
                .map(|path| path.text("/backend/service/name"))
                .chain([object.text("/spec/defaultBackend/service/name")]);
            for name in services.filter(|name| !name.is_empty()) {
                wants.push(Want::known("Service", namespace, name));
                if let Some(service) = world.get("Service", namespace, name).found() {
                    of_object(world, service, wants);
                }
            }
            if !object.text("/spec/ingressClassName").is_empty() {
                wants.push(Want::known("IngressClass", "", object.text("/spec/ingressClassName")));
            }
        }
        "Node" => {
            wants.push(Want::known("Lease", "kube-node-lease", object.name()));
            let fields = Some(format!("spec.nodeName={}", object.name()));
            if object.is_true("/spec/unschedulable") {
                wants.push(Want { fields, ..Want::list("Pod", "") });
                wants.push(Want::list("PodDisruptionBudget", ""));
            }
        }
        "PodDisruptionBudget" => {
            wants.push(selected("Pod"));
            of_pods(world, world.selected(namespace, object.at("/spec/selector")), wants);
        }
        _ => {}
    }
}

/// What explains pods that are not ready: theirs only, and not of all of them.
fn of_pods(world: &World, mut pods: Vec<Obj<'_>>, wants: &mut Vec<Want>) {
    pods.retain(|pod| {
        pod.is_deleting() || !(pod.has("Ready", "True") || pod.text("/status/phase") == "Succeeded")
    });
    for pod in pods.into_iter().take(PODS) {
        wants.push(Want::events(pod));
        of_pod(world, pod, wants);
    }
}

fn of_pod(world: &World, pod: Obj<'_>, wants: &mut Vec<Want>) {
    let node = pod.text("/spec/nodeName");
    if !node.is_empty() {
        wants.push(Want::known("Node", "", node));
        wants.push(Want::known("Lease", "kube-node-lease", node));
    }
    for volume in pod.list("/spec/volumes") {
        let name = match volume.text("/persistentVolumeClaim/claimName") {
            "" if volume.at("/ephemeral/volumeClaimTemplate").is_null() => continue,
            "" => format!("{}-{}", pod.name(), volume.text("/name")),
            name => name.to_owned(),
        };
        wants.push(Want::known("PersistentVolumeClaim", pod.namespace(), &name));
        if pod.text("/status/phase") == "Pending"
            && let Some(claim) = world.get("PersistentVolumeClaim", pod.namespace(), &name).found()
        {
            wants.push(Want::events(claim));
            of_claim(world, claim, wants);
        }
    }
}

fn of_claim(world: &World, claim: Obj<'_>, wants: &mut Vec<Want>) {
    if claim.text("/status/phase") == "Bound" {
        wants.push(Want::known("PersistentVolume", "", claim.text("/spec/volumeName")));
        if let Some(class) = claim.at("/spec/storageClassName").as_str().filter(|class| !class.is_empty()) {
            wants.push(Want::known("StorageClass", "", class));
        }
    } else {
        wants.push(Want::list("StorageClass", ""));
        wants.push(Want::list("PersistentVolume", ""));
    }
    let class = claim
        .at("/spec/storageClassName")
        .as_str()
        .and_then(|name| world.get("StorageClass", "", name).found());
    let waits = class.is_some_and(|class| class.text("/volumeBindingMode") == "WaitForFirstConsumer");
    if claim.is_deleting() || waits {
        wants.push(Want::list("Pod", claim.namespace()));
    }
}

/// Whether a want names a kind that needs no discovery.
pub(crate) fn resource_of(want: &Want) -> Option<&'static flyball_api::ResourceType> {
    known(&want.kind).filter(|resource| resource.group == want.group.as_str())
}
