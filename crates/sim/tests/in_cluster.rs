//! A manager in a pod: no kubeconfig; address in the environment, token and CA in the files of a kubelet. In place of a
//! container it runs in its own mount namespace. Skipped without assets, and where namespaces are not permitted.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flyball_sim::api::{Call, Content};
use flyball_sim::cluster::{Cluster, Manager};
use flyball_sim::load::{self, Request, count, until};
use flyball_sim::ours::{self, Profile};
use http::Method;
use serde_json::json;

const CONTROLLER: &str = "replicaset-controller";
const ACCOUNT: &str = "in-cluster-manager";
const ACCOUNTS: &str = "/api/v1/namespaces/kube-system/serviceaccounts";
const PODS: u64 = 5;

#[tokio::test]
async fn a_manager_in_a_pod_works_with_its_service_account() -> anyhow::Result<()> {
    let test = "a_manager_in_a_pod_works_with_its_service_account";
    let can_mount =
        Command::new("unshare").args(["-Urm", "mount", "-t", "tmpfs", "none", "/var/run"]).output();
    if !can_mount.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED {test}: unshare cannot make a mount namespace here");
        return Ok(());
    }
    Cluster::play(test, play).await
}

async fn play(cluster: &mut Cluster) -> anyhow::Result<()> {
    let api = cluster.api().await?;
    load::create_namespace(&api).await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
    load::send_all(&api, [Request::create(ACCOUNTS, account)]).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "kube-system"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    load::send_all(&api, [Request::create(bindings, binding)]).await?;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = format!("{ACCOUNTS}/{ACCOUNT}/token");
    let (_, answer) = api.send(Call::new(Method::POST, &path).body(&review, Content::Json)).await?;
    let token = answer["status"]["token"].as_str().context("no token")?;

    let program = in_a_pod(cluster, token)?;
    let flags =
        ["--kubeconfig=", "--authentication-kubeconfig=", "--authorization-kubeconfig="].map(str::to_owned);
    let controllers = [CONTROLLER.to_owned()];
    let manager = Manager { binary: &program, controllers: &controllers, leader_elect: true, flags: &flags };
    let mut process = cluster.start_manager("kube-controller-manager", &manager)?;
    let (pods, sets) = (load::path("v1", "pods"), load::path("apps/v1", "replicasets"));
    load::send_all(&api, [Request::create(&sets, load::workload("ReplicaSet", "web", PODS))]).await?;
    until("all pods", Duration::from_secs(120), || async {
        let seen = count(&api, &pods).await?;
        Ok((seen != PODS).then(|| format!("{seen} pods")))
    })
    .await?;
    // It had no other credentials than the token.
    ensure!(process.ended().is_none(), "the controller manager ended");
    process.stop(Duration::from_secs(20)).await?;
    Ok(())
}

/// A script that runs our manager with the files and variables that a kubelet gives to a pod.
fn in_a_pod(cluster: &Cluster, token: &str) -> anyhow::Result<PathBuf> {
    const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
    let (dir, program) = (cluster.dir(), ours::binary(Profile::Debug)?);
    let given = dir.join("pod");
    std::fs::create_dir(&given)?;
    std::fs::write(given.join("token"), token)?;
    std::fs::copy(dir.join("pki/ca.crt"), given.join("ca.crt"))?;
    let address = cluster.apiserver_address();
    let script = format!(
        "#!/bin/sh\n\
         export KUBERNETES_SERVICE_HOST={} KUBERNETES_SERVICE_PORT={}\n\
         exec unshare -Urm sh -c 'mount -t tmpfs none /var/run && mkdir -p {MOUNT} && cp {}/* {MOUNT} && \
         exec {} \"$@\"' pod \"$@\"\n",
        address.ip(),
        address.port(),
        given.display(),
        program.display(),
    );
    let file = dir.join("manager-in-a-pod");
    std::fs::write(&file, script)?;
    std::fs::set_permissions(&file, Permissions::from_mode(0o755))?;
    Ok(file)
}
