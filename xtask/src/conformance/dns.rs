//! The cluster's DNS server: CoreDNS beside the control plane, where pods of all nodes reach it.

use anyhow::Context as _;
use flyball_sim::cluster::{Cluster, Process};

use super::artefacts::Artefacts;
use super::network::SERVER;

/// The domain of services and pods.
pub(crate) const DOMAIN: &str = "cluster.local";

/// Starts it; it answers as soon as it has listed the services.
pub(crate) fn start(cluster: &Cluster, artefacts: &Artefacts) -> anyhow::Result<Process> {
    let kubeconfig = cluster.dir().join("admin.kubeconfig");
    let file = cluster.dir().join("Corefile");
    // An answer is kept for a second only, so that tests see changes early.
    let text = format!(
        ".:53 {{\n  bind {SERVER}\n  errors\n  kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{\n    kubeconfig {}\n    \
         pods insecure\n    ttl 1\n  }}\n}}\n",
        kubeconfig.display()
    );
    std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    let args = ["-conf".to_owned(), file.display().to_string()];
    cluster.start_program("coredns", &artefacts.program("coredns"), &args)
}
