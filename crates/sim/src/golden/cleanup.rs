//! Removes what a scenario left behind, so that the next one can use the same cluster. No controller manager runs at this
//! point: namespaces are emptied and finalized here.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::backend::{ClusterObject, cluster_objects};
use crate::api::{Api, Call, Content, Error, Resource};

/// Owners are deleted before their dependents, which would be created again otherwise.
const OWNERS_FIRST: [&str; 10] = [
    "cronjobs",
    "deployments",
    "statefulsets",
    "daemonsets",
    "jobs",
    "replicasets",
    "replicationcontrollers",
    "horizontalpodautoscalers",
    "services",
    "endpoints",
];
/// Answers that mean that there is nothing more to remove.
const GONE: &[u16] = &[400, 403, 404, 405, 409, 422];

/// Deletes `tracked` and every cluster-scoped object that is not in `baseline`, namespaces with their content.
pub(super) async fn clean(
    api: &Api,
    baseline: &BTreeSet<ClusterObject>,
    tracked: &[String],
) -> Result<(), Error> {
    api.refresh().await?;
    for path in tracked {
        drop_finalizers(api, path).await?;
        delete_now(api, path).await?;
    }
    for (key, object) in cluster_objects(api).await? {
        if baseline.contains(&key) {
            continue;
        }
        let (group, resource, name) = key;
        let path = format!("{group}/{resource}/{name}");
        if resource == "namespaces" {
            remove_namespace(api, &name).await?;
            continue;
        }
        if object["metadata"]["finalizers"].is_array() {
            drop_finalizers(api, &path).await?;
        }
        delete_now(api, &path).await?;
        // The deletion itself may have added finalizers.
        drop_finalizers(api, &path).await?;
    }
    for namespace in ["default", "kube-system", "kube-public"] {
        delete_now(api, &format!("/api/v1/namespaces/{namespace}/events")).await?;
    }
    delete_now(api, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases").await
}

async fn remove_namespace(api: &Api, name: &str) -> Result<(), Error> {
    let path = format!("/api/v1/namespaces/{name}");
    api.send(Call::new(Method::DELETE, &path).tolerate(GONE)).await?;
    empty_namespace(api, name).await?;
    let (code, mut namespace) = api.send(Call::new(Method::GET, &path).tolerate(&[404])).await?;
    if code == 200 {
        namespace["spec"] = json!({"finalizers": []});
        namespace["metadata"]["finalizers"] = json!([]);
        api.send(Call::new(Method::PUT, &path).body(&namespace, Content::Json).tolerate(GONE)).await?;
        namespace["metadata"] = json!({"name": name});
        let finalize = format!("{path}/finalize");
        api.send(Call::new(Method::PUT, &finalize).body(&namespace, Content::Json).tolerate(GONE)).await?;
    }
    Ok(())
}

async fn empty_namespace(api: &Api, namespace: &str) -> Result<(), Error> {
    let mut resources: Vec<_> = api
        .preferred()
        .into_iter()
        .filter(|r| r.namespaced && r.allows("deletecollection") && r.group != "events.k8s.io")
        .collect();
    resources.sort_by_key(|r| {
        OWNERS_FIRST.iter().position(|owner| *owner == r.name).unwrap_or(OWNERS_FIRST.len())
    });
    for _ in 0..6 {
        let mut left = 0;
        for resource in &resources {
            let items = api.list(resource, Some(namespace), None).await?;
            left += items.len();
            empty_collection(api, resource, namespace, &items).await?;
        }
        if left == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn empty_collection(
    api: &Api,
    resource: &Resource,
    namespace: &str,
    items: &[Value],
) -> Result<(), Error> {
    if items.is_empty() {
        return Ok(());
    }
    for item in items.iter().filter(|item| item["metadata"]["finalizers"].is_array()) {
        drop_finalizers(api, &resource.url(Some(namespace), item["metadata"]["name"].as_str(), None)).await?;
    }
    delete_now(api, &resource.url(Some(namespace), None, None)).await
}

async fn drop_finalizers(api: &Api, path: &str) -> Result<(), Error> {
    let body = json!({"metadata": {"finalizers": null}});
    api.send(Call::new(Method::PATCH, path).body(&body, Content::MergePatch).tolerate(GONE)).await.map(drop)
}

async fn delete_now(api: &Api, path: &str) -> Result<(), Error> {
    let body = json!({
        "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "propagationPolicy": "Background",
    });
    api.send(Call::new(Method::DELETE, path).body(&body, Content::Json).tolerate(GONE)).await.map(drop)
}
