//! The programs of a real node and upstream's tests, built from their Go modules and cached outside the checkout.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flyball_sim::cluster::Assets;

use crate::assets;
use crate::go::{self, Program};

const CONTAINERD: &str = "github.com/containerd/containerd/v2";
const COREDNS: &str = "github.com/coredns/coredns";
const PLUGINS: &str = "github.com/containernetworking/plugins";

/// Name and package of what Kubernetes' own module has.
const KUBERNETES: [(&str, &str); 5] = [
    ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
    ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
    ("agnhost", "k8s.io/kubernetes/test/images/agnhost"),
    ("sample-apiserver", "k8s.io/sample-apiserver"),
    (E2E, "k8s.io/kubernetes/test/e2e"),
];
const E2E: &str = "e2e.test";
/// The programs that connect a CSI driver to Kubernetes: name, module and package.
pub(crate) const SIDECARS: [(&str, &str, &str); 3] = [
    ("csi-attacher", "github.com/kubernetes-csi/external-attacher/v4", "cmd/csi-attacher"),
    ("csi-provisioner", "github.com/kubernetes-csi/external-provisioner/v6", "cmd/csi-provisioner"),
    ("csi-resizer", "github.com/kubernetes-csi/external-resizer/v2", "cmd/csi-resizer"),
];
pub(crate) const CSI_DRIVER: &str = "csi-driver";
/// agnhost's own certificate, which it serves and reads at its root.
pub(crate) const CERTIFICATE: [&str; 2] = ["localhost.crt", "localhost.key"];

/// The folder with the built programs and images.
#[derive(Debug, Clone)]
pub(crate) struct Artefacts {
    folder: PathBuf,
}

impl Artefacts {
    /// Builds what is missing.
    pub(crate) fn provide() -> anyhow::Result<Self> {
        let folder = Assets::cache("cluster");
        let controlplane = assets::module();
        let cluster = crate::root().join("tools/cluster");
        let kubernetes = format!("kubernetes {}", go::pinned(&controlplane, "k8s.io/kubernetes")?);
        let ginkgo = format!("ginkgo {}", go::pinned(&controlplane, "github.com/onsi/ginkgo/v2")?);
        let containerd = format!("containerd {}", go::pinned(&cluster, CONTAINERD)?);
        let plugins = format!("plugins {}", go::pinned(&cluster, PLUGINS)?);
        let pause = go::digest(&cluster.join("pause"))?;
        let dns = crate::root().join("tools/dns");
        let coredns = format!("coredns {}, {}", go::pinned(&dns, COREDNS)?, go::digest(&dns)?);
        let csi = crate::root().join("tools/csi");
        let driver = go::digest(&csi)?;
        let versions = SIDECARS
            .iter()
            .map(|(name, module, _)| anyhow::Ok(format!("{name} {}", go::pinned(&csi, module)?)));
        let versions = versions.collect::<anyhow::Result<Vec<String>>>()?;
        let mut wanted: Vec<(&str, String, &Path, &str)> = Vec::new();
        for (name, package) in KUBERNETES {
            wanted.push((name, package.to_owned(), &controlplane, &kubernetes));
        }
        wanted.push(("ginkgo", "github.com/onsi/ginkgo/v2/ginkgo".to_owned(), &controlplane, &ginkgo));
        for name in ["containerd", "containerd-shim-runc-v2", "ctr"] {
            wanted.push((name, format!("{CONTAINERD}/cmd/{name}"), &cluster, &containerd));
        }
        for plugin in ["main/bridge", "main/loopback", "ipam/host-local", "meta/portmap"] {
            let name = plugin.split('/').next_back().unwrap_or(plugin);
            wanted.push((name, format!("{PLUGINS}/plugins/{plugin}"), &cluster, &plugins));
        }
        wanted.push(("pause", "./pause".to_owned(), &cluster, &pause));
        wanted.push(("coredns", ".".to_owned(), &dns, &coredns));
        wanted.push((CSI_DRIVER, ".".to_owned(), &csi, &driver));
        for ((name, module, package), version) in SIDECARS.iter().zip(&versions) {
            wanted.push((name, format!("{module}/{package}"), &csi, version));
        }
        let programs = wanted.iter().map(|(name, package, module, stamp)| Program {
            name,
            package,
            module,
            stamp,
            is_test: *name == E2E,
            has_kubernetes_version: package.starts_with("k8s.io/"),
        });
        let missing: Vec<Program<'_>> = programs.filter(|program| !program.is_built(&folder)).collect();
        if !missing.is_empty() {
            println!("Building a node and the tests into {}; the first time takes long.", folder.display());
            go::build(&missing, &folder)?;
        }
        for file in CERTIFICATE.iter().filter(|file| !folder.join(file).is_file()) {
            let source = go::source(&controlplane, "k8s.io/kubernetes")?;
            let source = source.join("test/images/agnhost/porter").join(file);
            std::fs::copy(&source, folder.join(file))
                .with_context(|| format!("copy {}", source.display()))?;
        }
        Ok(Self { folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}
