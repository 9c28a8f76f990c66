//! A default StorageClass whose volumes are folders of the node that a pod runs on. The driver and its sidecars are processes of the
//! nodes; tests that bring a driver of their own do not use it.

use std::path::Path;

use anyhow::Context as _;
use flyball_sim::api::{Api, Call, Content};
use flyball_sim::cluster::{Cluster, Process};
use http::Method;
use serde_json::json;

use super::artefacts::CSI_DRIVER;
use super::network::SERVER;
use super::node::{Node, Setup};

const DRIVER: &str = "folders.rig.flyball.dev";
const SOCKET: &str = "/var/lib/kubelet/plugins/folders/csi.sock";
/// Where the kubelet looks for drivers.
const REGISTRATION: &str = "/var/lib/kubelet/plugins_registry";
const VOLUMES: &str = "/var/lib/folders";
const KUBECONFIG: &str = "csi.kubeconfig";

/// Folders that a node must have before its kubelet starts.
pub(crate) fn folders() -> Vec<String> {
    let socket = Path::new(SOCKET).parent().unwrap_or(Path::new("/")).display().to_string();
    vec![socket, REGISTRATION.to_owned(), VOLUMES.to_owned()]
}

/// Writes the kubeconfig of the sidecars: the administrator's, with an address that nodes reach.
pub(crate) fn write_kubeconfig(cluster: &Cluster) -> anyhow::Result<()> {
    let admin =
        std::fs::read_to_string(cluster.dir().join("admin.kubeconfig")).context("read a kubeconfig")?;
    std::fs::write(cluster.dir().join(KUBECONFIG), admin.replace("127.0.0.1", &SERVER.to_string()))
        .context("write a kubeconfig")
}

/// Starts the driver of a node.
pub(crate) fn start(node: &Node, setup: &Setup<'_>) -> anyhow::Result<Vec<Process>> {
    let driver = [
        "hostpathplugin".to_owned(),
        format!("--drivername={DRIVER}"),
        format!("--nodeid={}", node.name),
        format!("--endpoint=unix://{SOCKET}"),
        format!("--statedir={VOLUMES}"),
    ];
    let registrar = [
        "registrar".to_owned(),
        format!("--csi-address={SOCKET}"),
        format!("--kubelet-registration-path={SOCKET}"),
        format!("--registration-folder={REGISTRATION}"),
    ];
    let provisioner = [
        format!("NODE_NAME={}", node.name),
        setup.artefacts.program("csi-provisioner").display().to_string(),
        format!("--csi-address={SOCKET}"),
        format!("--kubeconfig={}", setup.cluster.dir().join(KUBECONFIG).display()),
        "--node-deployment".to_owned(),
        "--feature-gates=Topology=true".to_owned(),
    ];
    let program = setup.artefacts.program(CSI_DRIVER);
    Ok(vec![
        node.spawn(setup, CSI_DRIVER, &program, &driver)?,
        node.spawn(setup, "csi-registrar", &program, &registrar)?,
        node.spawn(setup, "csi-provisioner", Path::new("env"), &provisioner)?,
    ])
}

/// Creates the StorageClass.
pub(crate) async fn create_class(api: &Api) -> anyhow::Result<()> {
    let driver = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
        "spec": {"attachRequired": false, "podInfoOnMount": false},
    });
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "folders", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    for (resource, object) in [("csidrivers", driver), ("storageclasses", class)] {
        let path = format!("/apis/storage.k8s.io/v1/{resource}");
        let call = Call::new(Method::POST, &path).body(&object, Content::Json);
        api.send(call).await.with_context(|| format!("create {resource}"))?;
    }
    Ok(())
}
