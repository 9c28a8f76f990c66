//! Informers of resources that appear, move to another version and go while the controller manager runs. Virtual time.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_sim::api::{Api, Call, Content};
use flyball_sim::golden::backend::Backend;
use flyball_sim::golden::embedded::InProcess;
use flyball_sim::{load, testbed};
use http::Method;
use load::NAMESPACE;
use serde_json::{Value, json};

/// Enough for discovery to be read again, and for new informers to list.
const NOTICED: Duration = Duration::from_secs(120);
/// Enough for a watch to end and for the next to be opened, and for a resync.
const LONG: Duration = Duration::from_secs(1800);

/// A definition with these versions, each served and the first stored.
fn definition(plural: &str, group: &str, kind: &str, versions: &[&str]) -> Value {
    let version = |name: &&str| {
        json!({"name": name, "served": true, "storage": *name == versions[0],
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": versions.iter().map(version).collect::<Vec<_>>()}})
}

async fn post(api: &Api, collection: &str, object: &Value) -> anyhow::Result<()> {
    api.send(Call::new(Method::POST, collection).body(object, Content::Json)).await.context("create")?;
    Ok(())
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The watches of a path that were opened since the history had this length.
fn watches_since(cluster: &InProcess, length: usize, path: &str) -> usize {
    let history = cluster.history();
    let later = history.iter().skip(length);
    later.filter(|record| record.verb == "watch" && record.uri.starts_with(path)).count()
}

#[test]
fn a_quota_watches_a_resource_in_one_version_when_the_preferred_one_moves() -> anyhow::Result<()> {
    let test = "a_quota_watches_a_resource_in_one_version_when_the_preferred_one_moves";
    let controllers = ["resourcequota-controller"];
    testbed::embedded(test, &controllers, async |cluster| {
        let api = cluster.api().clone();
        load::create_namespace(&api).await?;
        post(&api, DEFINITIONS, &definition("widgets", "example.com", "Widget", &["v1beta1"])).await?;
        cluster.start_kcm(&controllers.map(str::to_owned), &[]).await?;
        let widgets = |version: &str| format!("/apis/example.com/{version}/namespaces/{NAMESPACE}/widgets");
        let widget = |name: &str, version: &str| json!({"apiVersion": format!("example.com/{version}"), "kind": "Widget", "metadata": {"name": name}});
        let quotas = format!("/api/v1/namespaces/{NAMESPACE}/resourcequotas");
        let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
            "spec": {"hard": {"count/widgets.example.com": "5"}}});
        post(&api, &quotas, &quota).await?;
        post(&api, &widgets("v1beta1"), &widget("one", "v1beta1")).await?;
        tokio::time::sleep(NOTICED).await;
        ensure!(watches_since(cluster, 0, "/apis/example.com/v1beta1/widgets") > 0, "it is watched");

        let path = format!("{DEFINITIONS}/widgets.example.com");
        let both = definition("widgets", "example.com", "Widget", &["v1beta1", "v1"]);
        let patch = json!({"spec": {"versions": both["spec"]["versions"]}});
        api.send(Call::new(Method::PATCH, &path).body(&patch, Content::MergePatch)).await?;
        tokio::time::sleep(NOTICED).await;
        let moved = cluster.history().len();
        post(&api, &widgets("v1"), &widget("two", "v1")).await?;
        tokio::time::sleep(LONG).await;
        ensure!(
            watches_since(cluster, moved, "/apis/example.com/v1/widgets") > 0,
            "it is watched in the new version"
        );
        let old = watches_since(cluster, moved, "/apis/example.com/v1beta1/widgets");
        ensure!(old == 0, "{old} watches of the old version were opened");
        let status = api.get(&format!("{quotas}/q")).await?["status"].take();
        ensure!(status["used"]["count/widgets.example.com"] == "2", "{status}");
        Ok(())
    })
}

/// A resource that both controllers watch is no longer served, and comes back.
#[test]
fn the_collector_stops_no_informer_that_another_controller_uses() -> anyhow::Result<()> {
    let test = "the_collector_stops_no_informer_that_another_controller_uses";
    let controllers = ["garbage-collector-controller", "podgroup-protection-controller"];
    let features = serde_json::from_value(json!({"featureGates": {"GenericWorkload": true}}))?;
    testbed::embedded_with(&features, test, &controllers, async |cluster| {
        let api = cluster.api().clone();
        load::create_namespace(&api).await?;
        let groups = definition("podgroups", "scheduling.k8s.io", "PodGroup", &["v1alpha2"]);
        post(&api, DEFINITIONS, &groups).await?;
        cluster
            .start_kcm(&controllers.map(str::to_owned), &["--feature-gates=GenericWorkload=true".to_owned()])
            .await?;
        let collection = format!("/apis/scheduling.k8s.io/v1alpha2/namespaces/{NAMESPACE}/podgroups");
        // Whether a group is gone some time after its deletion, for which its finalizer has to be removed.
        let is_released = async |name: &str| -> anyhow::Result<bool> {
            let group = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
                "metadata": {"name": name, "finalizers": ["scheduling.k8s.io/podgroup-protection"]}});
            post(&api, &collection, &group).await?;
            let path = format!("{collection}/{name}");
            api.send(Call::new(Method::DELETE, &path)).await?;
            tokio::time::sleep(NOTICED).await;
            Ok(api.send(Call::new(Method::GET, &path).tolerate(&[404])).await?.0 == 404)
        };
        tokio::time::sleep(NOTICED).await;
        ensure!(is_released("first").await?, "the controller works");

        let path = format!("{DEFINITIONS}/podgroups.scheduling.k8s.io");
        api.send(Call::new(Method::DELETE, &path)).await?;
        tokio::time::sleep(NOTICED).await;
        post(&api, DEFINITIONS, &groups).await?;
        tokio::time::sleep(LONG).await;
        ensure!(is_released("second").await?, "its informer was stopped");
        Ok(())
    })
}
