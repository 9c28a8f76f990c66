//! Clients outside: over HTTPS with the kubeconfig, and as other users.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_testing::Cluster;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;

#[tokio::test]
async fn a_client_over_https_sees_pods_become_ready_and_outlives_an_hour() -> anyhow::Result<()> {
    let cluster = Cluster::builder().serve().start().await?;
    let kubeconfig = Kubeconfig::from_yaml(cluster.kubeconfig().context("no kubeconfig")?)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    ensure!(Some(config.cluster_url.to_string().trim_end_matches('/')) == cluster.url());
    let pods: Api<Pod> = Api::default_namespaced(Client::try_from(config)?);
    let since = pods.list(&ListParams::default()).await?.metadata.resource_version.context("no version")?;
    let mut seen = pods.watch(&WatchParams::default(), &since).await?.boxed();
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "x"}]},
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    loop {
        let event = seen.try_next().await?.context("the watch ended")?;
        let WatchEvent::Modified(pod) = event else { continue };
        if pod.status.and_then(|status| status.phase).as_deref() == Some("Running") {
            break;
        }
    }
    cluster.advance(Duration::from_secs(3600)).await?;
    ensure!(pods.get("a").await?.status.and_then(|status| status.phase).as_deref() == Some("Running"));
    cluster.stop().await?;
    Ok(())
}

#[tokio::test]
async fn another_user_may_do_what_its_roles_allow() -> anyhow::Result<()> {
    let cluster = Cluster::builder().nodes(0).controllers(["none"]).start().await;
    // A list that names no controller is refused with the reason, not with an idle cluster.
    ensure!(cluster.is_err_and(|error| format!("{error:?}").contains("none")));

    let cluster = Cluster::start().await?;
    cluster
        .apply(
            "
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: jane-views}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
",
        )
        .await?;
    let maps: Api<ConfigMap> =
        Api::default_namespaced(Client::new(cluster.service_as("jane", &[]), "default"));
    ensure!(maps.list(&ListParams::default()).await?.items.len() == 1, "the root certificates");
    let refused = maps.create(&PostParams::default(), &ConfigMap::default()).await;
    ensure!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403), "{refused:?}");
    Ok(())
}
