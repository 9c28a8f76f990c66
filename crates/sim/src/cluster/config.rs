//! The command lines and files of a control plane.

use std::net::Ipv4Addr;
use std::path::Path;

use serde_json::json;

use super::pki::{Pki, write};
use crate::features::Features;

/// The loopback ports of one cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) api: u16,
    pub(super) etcd: u16,
    pub(super) peer: u16,
}

/// Differences of a cluster from the default.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub apiserver_flags: Vec<String>,
    /// What the API server serves beyond its defaults.
    pub features: Features,
    /// Whether the audit log has the controller manager's reads, too.
    pub audit_reads: bool,
    /// Kubelets that will join.
    pub kubelets: Option<Kubelets>,
}

/// What a control plane needs to serve real kubelets. They and the scheduler use `{name}.kubeconfig` in the cluster's folder.
#[derive(Debug, Clone)]
pub struct Kubelets {
    /// The address at which pods and nodes reach the API server.
    pub server: Ipv4Addr,
    /// The names of the nodes.
    pub nodes: Vec<String>,
}

/// The first address of `--service-cluster-ip-range`, which the service `kubernetes` gets.
const KUBERNETES_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

impl Options {
    /// The addresses of the API server beside loopback.
    pub(super) fn addresses(&self) -> Vec<Ipv4Addr> {
        self.kubelets.iter().flat_map(|kubelets| [kubelets.server, KUBERNETES_SERVICE]).collect()
    }
}

impl Kubelets {
    /// Name, user and group of each client.
    fn clients(&self) -> impl Iterator<Item = (String, String, &'static str)> {
        let components = ["kube-scheduler", "kube-proxy"];
        let nodes =
            self.nodes.iter().map(|node| (node.clone(), format!("system:node:{node}"), "system:nodes"));
        nodes
            .chain(components.map(|name| (name.to_owned(), format!("system:{name}"), "system:authenticated")))
    }
}

const TOKENS: &str = concat!(
    "admin-token,admin,admin-uid,\"system:masters\"\n",
    "kcm-token,system:kube-controller-manager,kcm-uid\n"
);

/// The audit policy: writes and watches; the administrator (the test itself) is left out.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: [admin]}
- {level: Metadata, verbs: [create, update, patch, delete, deletecollection, watch]}
";
const AUDIT_READS: &str = "\
- {level: Metadata, users: [\"system:kube-controller-manager\"]}
- {level: Metadata, userGroups: [\"system:serviceaccounts:kube-system\"]}
";
const AUDIT_NOTHING_ELSE: &str = "- {level: None}\n";

/// Writes the files that the API server reads at its start.
pub(super) fn write_files(dir: &Path, options: &Options) -> anyhow::Result<()> {
    let mut tokens = TOKENS.to_owned();
    for (name, user, group) in options.kubelets.iter().flat_map(Kubelets::clients) {
        tokens.push_str(&format!("{name}-token,{user},{name}-uid,\"{group}\"\n"));
    }
    write(&dir.join("tokens.csv"), &tokens)?;
    let reads = if options.audit_reads { AUDIT_READS } else { "" };
    write(&dir.join("audit-policy.yaml"), &format!("{AUDIT_POLICY}{reads}{AUDIT_NOTHING_ELSE}"))
}

/// Writes `admin.kubeconfig` and `kcm.kubeconfig` (with bearer tokens), and `kcm-cert.kubeconfig` (with a client
/// certificate, as kubeadm does it).
pub(super) fn write_kubeconfigs(
    dir: &Path,
    pki: &Pki,
    ports: Ports,
    options: &Options,
) -> anyhow::Result<()> {
    let local = format!("https://127.0.0.1:{}", ports.api);
    let config_at = |server: &str, user: serde_json::Value| {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": pki.path("ca.crt")}}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        })
        .to_string()
    };
    let config = |user| config_at(&local, user);
    let certificate = |name: &str| {
        json!({
            "client-certificate": pki.path(&format!("{name}.crt")),
            "client-key": pki.path(&format!("{name}.key")),
        })
    };
    write(&dir.join("admin.kubeconfig"), &config(json!({"token": "admin-token"})))?;
    write(&dir.join("kcm.kubeconfig"), &config(json!({"token": "kcm-token"})))?;
    write(&dir.join("admin-cert.kubeconfig"), &config(certificate("admin")))?;
    write(&dir.join("kcm-cert.kubeconfig"), &config(certificate("kcm")))?;
    if let Some(kubelets) = &options.kubelets {
        let server = format!("https://{}:{}", kubelets.server, ports.api);
        for (name, _, _) in kubelets.clients() {
            let user = json!({"token": format!("{name}-token")});
            write(&dir.join(format!("{name}.kubeconfig")), &config_at(&server, user))?;
        }
    }
    Ok(())
}

/// etcd without fsync: the data need not survive the test.
pub(super) fn etcd_args(dir: &Path, ports: Ports) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.peer);
    vec![
        format!("--data-dir={}", dir.join("etcd").display()),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
    ]
}

/// The API server's command line, as in a real cluster except where a comment says why.
pub(super) fn apiserver_args(dir: &Path, pki: &Pki, ports: Ports, options: &Options) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    let mut args: Vec<String> = [
        ("etcd-servers", format!("http://127.0.0.1:{}", ports.etcd)),
        ("secure-port", ports.api.to_string()),
        ("tls-cert-file", pki.path("apiserver.crt")),
        ("tls-private-key-file", pki.path("apiserver.key")),
        ("client-ca-file", pki.path("ca.crt")),
        ("requestheader-client-ca-file", pki.path("ca.crt")),
        ("requestheader-allowed-names", "front-proxy".to_owned()),
        ("requestheader-username-headers", "X-Remote-User".to_owned()),
        ("requestheader-group-headers", "X-Remote-Group".to_owned()),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-".to_owned()),
        ("token-auth-file", file("tokens.csv")),
        ("service-account-issuer", "https://kubernetes.default.svc".to_owned()),
        ("service-account-key-file", pki.path("sa.pub")),
        ("service-account-signing-key-file", pki.path("sa.key")),
        // Both families, so that dual-stack services can be tested.
        ("service-cluster-ip-range", "10.96.0.0/16,fd00:96::/112".to_owned()),
        ("authorization-mode", "Node,RBAC".to_owned()),
        ("allow-privileged", "true".to_owned()),
        // The test's own load must not be queued behind the controller manager's.
        ("enable-priority-and-fairness", "false".to_owned()),
        ("max-requests-inflight", "2000".to_owned()),
        ("max-mutating-requests-inflight", "1000".to_owned()),
        ("audit-policy-file", file("audit-policy.yaml")),
        ("audit-log-path", file("audit.log")),
        // Megabytes; a rotated log would lose requests for us.
        ("audit-log-maxsize", "10000".to_owned()),
        ("cert-dir", file("apiserver-cert")),
    ]
    .into_iter()
    .map(|(flag, value)| format!("--{flag}={value}"))
    .collect();
    args.extend(match &options.kubelets {
        Some(kubelets) => flags_with_kubelets(pki, kubelets),
        None => flags_without_kubelets(),
    });
    args.extend(options.features.flags());
    args.extend(options.apiserver_flags.iter().cloned());
    args
}

fn flags_without_kubelets() -> Vec<String> {
    [
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        // The `kubernetes` service has no server here; its endpoints would only be noise.
        "--endpoint-reconciler-type=none",
        // Pods would wait for a service account that only exists where its controller runs.
        "--disable-admission-plugins=ServiceAccount",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The API server reaches pods directly and nodes by address; there is no kube-proxy next to it.
fn flags_with_kubelets(pki: &Pki, kubelets: &Kubelets) -> Vec<String> {
    vec![
        "--bind-address=0.0.0.0".to_owned(),
        format!("--advertise-address={}", kubelets.server),
        format!("--kubelet-client-certificate={}", pki.path("admin.crt")),
        format!("--kubelet-client-key={}", pki.path("admin.key")),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--enable-aggregator-routing=true".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        format!("--proxy-client-cert-file={}", pki.path("front-proxy.crt")),
        format!("--proxy-client-key-file={}", pki.path("front-proxy.key")),
    ]
}

/// How a controller manager is started, beside the flags that every one needs.
#[derive(Debug, Clone)]
pub struct Manager<'a> {
    pub binary: &'a Path,
    /// The value of `--controllers`; empty leaves the flag out.
    pub controllers: &'a [String],
    /// Whether it takes part in leader election.
    pub leader_elect: bool,
    pub flags: &'a [String],
}

/// The controller manager's command line: identities per controller, keys and certificates of the cluster.
pub(super) fn manager_args(dir: &Path, pki: &Pki, port: u16, manager: &Manager<'_>) -> Vec<String> {
    let keys = [
        ("service-account-private-key-file", pki.path("sa.key")),
        ("root-ca-file", pki.path("ca.crt")),
        ("cluster-signing-cert-file", pki.path("ca.crt")),
        ("cluster-signing-key-file", pki.path("ca.key")),
    ];
    let keys = keys.into_iter().map(|(flag, value)| format!("--{flag}={value}"));
    keys.chain(cloud_manager_args(dir, port, manager)).collect()
}

/// Further flags of a cloud-controller-manager. It has no account of its own here and uses the other manager's.
pub(super) fn cloud_manager_args(dir: &Path, port: u16, manager: &Manager<'_>) -> Vec<String> {
    let kubeconfig = dir.join("kcm.kubeconfig").display().to_string();
    let mut args: Vec<String> = [
        ("kubeconfig", kubeconfig.clone()),
        ("authentication-kubeconfig", kubeconfig.clone()),
        ("authorization-kubeconfig", kubeconfig),
        ("use-service-account-credentials", "true".to_owned()),
        ("leader-elect", manager.leader_elect.to_string()),
        ("secure-port", port.to_string()),
        ("bind-address", "127.0.0.1".to_owned()),
        ("cert-dir", dir.join(format!("kcm-cert-{port}")).display().to_string()),
    ]
    .into_iter()
    .map(|(flag, value)| format!("--{flag}={value}"))
    .collect();
    if !manager.controllers.is_empty() {
        args.push(format!("--controllers={}", manager.controllers.join(",")));
    }
    args.extend(manager.flags.iter().cloned());
    args
}
