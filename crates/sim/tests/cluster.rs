//! A real control plane in a test: what it serves, and that it ends with the test. Skipped without assets.

use std::process::Command;

use flyball_sim::api::Call;
use flyball_sim::client::{self, Tls};
use flyball_sim::cluster::{Cluster, Manager};
use http::Method;

#[tokio::test]
async fn a_cluster_has_users_roles_and_an_audit_log() -> anyhow::Result<()> {
    let Some(cluster) = Cluster::for_test("a_cluster_has_users_roles_and_an_audit_log").await? else {
        return Ok(());
    };
    let api = cluster.api().await?;
    assert!(api.list_named("namespaces", None, None).await?.len() >= 4);

    // The controller manager is authenticated, but not an administrator.
    let kubeconfig: serde_json::Value =
        serde_json::from_slice(&std::fs::read(cluster.dir().join("kcm.kubeconfig"))?)?;
    let server = kubeconfig["clusters"][0]["cluster"]["server"].as_str().unwrap_or_default();
    let ca = cluster.dir().join("pki/ca.crt");
    let manager = Tls::new(server, &ca, "kcm-token")?;
    assert_eq!(client::get(&manager, "/api/v1/pods").await?.status(), 200);
    let stranger = Tls::new(server, &ca, "no-such-token")?;
    assert_eq!(client::get(&stranger, "/api/v1/pods").await?.status(), 401);

    // Its writes are in the audit log; the administrator's are not.
    let mut log = cluster.audit_log();
    log.read()?;
    let body = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let path = "/api/v1/namespaces/default/configmaps";
    let request = http::Request::post(path).header("content-type", "application/json");
    let answer = client::ApiClient::send(&manager, request.body(body.to_string().into())?).await?;
    assert_eq!(answer.status(), 403);
    api.send(Call::new(Method::POST, path).body(&body, flyball_sim::api::Content::Json)).await?;
    let entries = log.read()?;
    let configmaps: Vec<_> = entries.iter().filter(|e| e.resource == "configmaps").collect();
    assert_eq!(configmaps.len(), 1, "{configmaps:?}");
    assert_eq!((configmaps[0].actor(), configmaps[0].code), ("kcm", 403));

    // Client certificates work as well as tokens do.
    let kubectl = cluster.assets().binary("kubectl");
    if kubectl.is_file() {
        let config = cluster.dir().join("admin-cert.kubeconfig");
        let output =
            Command::new(kubectl).arg("--kubeconfig").arg(config).args(["auth", "whoami"]).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("system:masters"), "{said}");
    }
    let dir = cluster.dir().to_owned();
    drop(cluster);
    assert!(!dir.exists(), "the cluster's folder is gone");
    Ok(())
}

#[tokio::test]
async fn the_api_server_can_go_and_come_back_with_its_history_forgotten() -> anyhow::Result<()> {
    let name = "the_api_server_can_go_and_come_back_with_its_history_forgotten";
    let Some(mut cluster) = Cluster::for_test(name).await? else { return Ok(()) };
    let api = cluster.api().await?;
    let before = api.get("/api/v1/namespaces").await?;
    let version = before["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    cluster.stop_apiserver().await?;
    assert!(client::get(&**cluster.client(), "/readyz").await.is_err());
    cluster.start_apiserver().await?;
    cluster.compact().await?;
    // A paged list from before must start again.
    let path = format!("/api/v1/namespaces?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(client::get(&**cluster.client(), &path).await?.status(), 410);
    Ok(())
}

#[tokio::test]
async fn a_controller_manager_that_ends_tells_its_status() -> anyhow::Result<()> {
    let Some(cluster) = Cluster::for_test("a_controller_manager_that_ends_tells_its_status").await? else {
        return Ok(());
    };
    let manager = Manager { binary: "false".as_ref(), controllers: &[], leader_elect: false, flags: &[] };
    let mut process = cluster.start_manager("broken", &manager)?;
    let status = process.wait_at_most(std::time::Duration::from_secs(20)).await?;
    assert_eq!(status.code(), Some(1));
    Ok(())
}
