//! Takeover of volumes and devices: bound claims stay bound, attached disks stay attached, and what is released, lost or in
//! progress stays so.

use std::path::Path;

use anyhow::ensure;
use flyball_sim::api::Api;
use flyball_sim::cluster::Cluster;
use flyball_sim::load::{self, Request};
use serde_json::{Value, json};

use crate::{COMPANIONS, Relay, settle, state};

const CONTROLLERS: [&str; 9] = [
    "persistentvolume-binder-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "volumeattributesclass-protection-controller",
    "ephemeral-volume-controller",
    "resourceclaim-controller",
    "device-taint-eviction-controller",
];
/// Cluster-scoped resources that must not change.
const KINDS: [&str; 4] = ["persistentvolumes", "volumeattachments", "volumeattributesclasses", "nodes"];
const DRIVER: &str = "csi.example.com";

#[tokio::test]
async fn volumes_stay_bound_and_attached_when_the_controller_manager_changes() -> anyhow::Result<()> {
    let test = "volumes_stay_bound_and_attached_when_the_controller_manager_changes";
    Cluster::play(test, async |cluster| match cluster.assets().upstream_manager() {
        Ok(upstream) => play(cluster, &upstream).await,
        Err(skip) => {
            skip.announce(test);
            Ok(())
        }
    })
    .await
}

async fn play(cluster: &Cluster, upstream: &Path) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    let controllers: Vec<&str> = CONTROLLERS.into_iter().chain(COMPANIONS).collect();
    let mut relay = Relay::start(cluster, upstream, &controllers, &["--pvclaimbinder-sync-period=1s"])?;
    load::create_namespace(&api).await?;
    for requests in [machines(), classes(), volumes(), claims(), pods()] {
        load::send_all(&api, requests).await?;
        settle(&mut relay.log, &mut relay.process).await?;
    }
    attach(&api).await?;
    settle(&mut relay.log, &mut relay.process).await?;
    for requests in [changes(), loss()] {
        load::send_all(&api, requests).await?;
        settle(&mut relay.log, &mut relay.process).await?;
    }
    let built = state(&api, &KINDS).await?;
    let phase = |key: &str| built.get(key).and_then(|object| object["status"]["phase"].as_str());
    #[rustfmt::skip]
    let wanted = [
        ("persistentvolumeclaims/app",      Some("Bound")),
        ("persistentvolumeclaims/growing",  Some("Bound")),
        ("persistentvolumeclaims/lost",     Some("Lost")),
        ("persistentvolumeclaims/asked",    Some("Pending")),
        ("persistentvolumeclaims/waiting",  Some("Pending")),
        ("persistentvolumes/pv-free",       Some("Available")),
        ("persistentvolumes/pv-released",   Some("Released")),
        ("persistentvolumes/pv-failed",     Some("Failed")),
    ];
    for (key, want) in wanted {
        ensure!(phase(key) == want, "upstream left {key} as {:?}", built.get(key));
    }
    for node in ["nodes/node-1", "nodes/node-2"] {
        let attached = &built[node]["status"]["volumesAttached"];
        ensure!(attached.as_array().map(Vec::len) == Some(1), "upstream attached {attached} to {node}");
    }
    relay.hand_over(&api, &KINDS, &built).await
}

fn machines() -> Vec<Request> {
    let managed = json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"});
    let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": managed}});
    vec![
        Request::create("/api/v1/nodes", node("node-1")),
        Request::create("/api/v1/nodes", node("node-2")),
        Request::create(
            "/apis/storage.k8s.io/v1/csidrivers",
            json!({"metadata": {"name": DRIVER}, "spec": {"attachRequired": true}}),
        ),
    ]
}

fn classes() -> Vec<Request> {
    let class = |name: &str, mode: &str| {
        Request::create(
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({
                "metadata": {"name": name}, "provisioner": DRIVER, "volumeBindingMode": mode,
                "allowVolumeExpansion": true,
            }),
        )
    };
    vec![
        class("fast", "Immediate"),
        class("lazy", "WaitForFirstConsumer"),
        Request::create(
            "/apis/storage.k8s.io/v1/volumeattributesclasses",
            json!({"metadata": {"name": "silver"}, "driverName": DRIVER, "parameters": {"iops": "1"}}),
        ),
        Request::create(
            load::path("resource.k8s.io/v1", "resourceclaimtemplates"),
            json!({
                "metadata": {"name": "gpu"},
                "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
            }),
        ),
    ]
}

fn volumes() -> Vec<Request> {
    let volume = |name: &str, policy: &str, source: Value| {
        let mut spec = json!({
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": name,
            "persistentVolumeReclaimPolicy": policy,
        });
        if let (Some(spec), Value::Object(source)) = (spec.as_object_mut(), source) {
            spec.extend(source);
        }
        Request::create(
            "/api/v1/persistentvolumes",
            json!({"metadata": {"name": format!("pv-{name}")}, "spec": spec}),
        )
    };
    let csi = |name: &str| json!({"csi": {"driver": DRIVER, "volumeHandle": name}});
    let mut silver = csi("silver");
    silver["volumeAttributesClassName"] = "silver".into();
    vec![
        volume("app", "Retain", csi("app")),
        volume("silver", "Delete", silver),
        volume("fast", "Retain", csi("growing")),
        volume("free", "Retain", csi("free")),
        volume("released", "Retain", csi("released")),
        volume("failed", "Delete", json!({"nfs": {"server": "nfs.example.com", "path": "/"}})),
        volume("lost", "Retain", csi("lost")),
        // By a plugin that a driver has replaced.
        volume("old", "Delete", json!({"awsElasticBlockStore": {"volumeID": "vol-1"}})),
    ]
}

fn claims() -> Vec<Request> {
    let claim = |name: &str, class: &str, size: &str| {
        let mut claim = json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": {"requests": {"storage": size}},
            },
        });
        if class == "silver" {
            claim["spec"]["volumeAttributesClassName"] = class.into();
        }
        Request::create(load::path("v1", "persistentvolumeclaims"), claim)
    };
    vec![
        claim("app", "app", "1Gi"),
        claim("silver", "silver", "1Gi"),
        claim("growing", "fast", "1Gi"),
        claim("released", "released", "1Gi"),
        claim("failed", "failed", "1Gi"),
        claim("lost", "lost", "1Gi"),
        claim("old", "old", "1Gi"),
        claim("asked", "fast", "9Gi"),
        claim("waiting", "lazy", "1Gi"),
    ]
}

fn pods() -> Vec<Request> {
    let pod = |name: &str, spec: Value| {
        let mut pod = json!({
            "metadata": {"name": name},
            "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "main"}]},
        });
        if name == "silver" {
            // One disk for each node: upstream lists several in any order, and writes that.
            pod["spec"]["nodeName"] = "node-2".into();
        }
        if let (Some(into), Value::Object(spec)) = (pod["spec"].as_object_mut(), spec) {
            into.extend(spec);
        }
        Request::create(load::path("v1", "pods"), pod)
    };
    let uses =
        |claim: &str| json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]});
    let template = json!({"spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "lazy", "resources": {"requests": {"storage": "1Gi"}},
    }});
    vec![
        pod("app", uses("app")),
        pod("silver", uses("silver")),
        pod("scratch", json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]})),
        pod("gpu", json!({"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "gpu"}]})),
    ]
}

/// The statuses that a driver and a kubelet write: the disks are attached and mounted.
async fn attach(api: &Api) -> anyhow::Result<()> {
    let path = "/apis/storage.k8s.io/v1/volumeattachments";
    let asked = load::list(api, path).await?;
    ensure!(asked.len() == 2, "upstream asked for {} attachments", asked.len());
    let names = asked.iter().filter_map(|attachment| attachment["metadata"]["name"].as_str());
    let attached = json!({"status": {"attached": true}});
    load::send_all(api, names.map(|name| Request::merge(format!("{path}/{name}/status"), attached.clone())))
        .await?;
    let mounted = [("node-1", "app"), ("node-2", "silver")].map(|(node, handle)| {
        let body = json!({"status": {"volumesInUse": [format!("kubernetes.io/csi/{DRIVER}^{handle}")]}});
        Request::merge(format!("/api/v1/nodes/{node}/status"), body)
    });
    load::send_all(api, mounted).await?;
    Ok(())
}

/// Later changes: a claim grows, claims and a volume are deleted.
fn changes() -> Vec<Request> {
    let claim = |name: &str| format!("{}/{name}", load::path("v1", "persistentvolumeclaims"));
    let grown = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    vec![
        Request::merge(claim("growing"), grown),
        Request::delete(claim("released"), json!({})),
        Request::delete(claim("failed"), json!({})),
        Request::delete("/api/v1/persistentvolumes/pv-lost", json!({})),
    ]
}

/// Deletes a volume although it is bound.
fn loss() -> Vec<Request> {
    let unprotected = json!({"metadata": {"finalizers": null}});
    vec![Request::merge("/api/v1/persistentvolumes/pv-lost", unprotected)]
}
