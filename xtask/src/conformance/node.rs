//! A node: its own network, mount and UTS namespaces with containerd, a kubelet and kube-proxy in them.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use flyball_sim::cluster::{Cluster, Process};
use serde_json::json;

use super::artefacts::Artefacts;
use super::command::run;
use super::network::{self, Address};
use super::{dns, images, storage};

/// Folders that a node does not share with the machine: their contents are removed with the rig.
pub(crate) const OWN_FOLDERS: [&str; 4] = ["/var/lib", "/var/log", "/run", "/tmp"];
const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";
/// How long containerd may take to serve on a busy machine.
const SERVES_WITHIN: Duration = Duration::from_secs(120);

pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) address: Address,
    folder: PathBuf,
    // Dropped in this order; the last one holds the namespaces.
    storage: Vec<Process>,
    kube_proxy: Option<Process>,
    kubelet: Option<Process>,
    containerd: Option<Process>,
    holder: Process,
}

/// What all nodes need.
pub(crate) struct Setup<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) artefacts: &'a Artefacts,
    /// The archive with the images.
    pub(crate) images: &'a Path,
    /// The cgroup under which pods get theirs: `/flyball-rig-1`.
    pub(crate) cgroup: &'a str,
    /// The names and addresses of all nodes, as in `/etc/hosts`.
    pub(crate) hosts: &'a Path,
}

impl Node {
    /// Creates the namespaces of a node.
    pub(crate) fn create(setup: &Setup<'_>, name: &str, address: Address) -> anyhow::Result<Self> {
        let folder = setup.cluster.dir().join(name);
        let mut script = "set -e\nmount --make-rshared /\n".to_owned();
        for path in OWN_FOLDERS {
            let own = folder.join(path.trim_start_matches('/').replace('/', "-"));
            std::fs::create_dir_all(&own).with_context(|| format!("create {}", own.display()))?;
            script.push_str(&format!("mount --bind {} {path}\n", own.display()));
        }
        let needed = storage::folders().join(" ");
        script.push_str(&format!("chmod 1777 /tmp\nmkdir -p /run/lock /var/lib/cni {needed}\n"));
        script.push_str(&format!("mount --bind {} /etc/hosts\n", setup.hosts.display()));
        script.push_str(&format!(
            "hostname {name}\ntouch {}\nexec sleep infinity\n",
            folder.join("made").display()
        ));
        let args = ["--mount", "--net", "--uts", "sh", "-c", &script].map(str::to_owned);
        let holder = setup.cluster.start_program(name, Path::new("unshare"), &args)?;
        Ok(Self {
            name: name.to_owned(),
            address,
            folder,
            storage: Vec::new(),
            kube_proxy: None,
            kubelet: None,
            containerd: None,
            holder,
        })
    }

    /// Waits until the namespaces are as they should be.
    pub(crate) async fn made(&mut self) -> anyhow::Result<()> {
        let made = self.folder.join("made");
        for _ in 0..600 {
            if made.exists() {
                return Ok(());
            }
            if let Some(status) = self.holder.ended() {
                bail!("{} ended with {status}; see {}", self.name, self.holder.log().display());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("{} has no namespaces after 30 s", self.name)
    }

    /// The process whose namespaces are the node's.
    pub(crate) fn holder(&self) -> u32 {
        self.holder.id()
    }

    /// Starts containerd, imports the images and starts kubelet and kube-proxy. The node becomes ready with [`Self::connect`].
    pub(crate) async fn start(&mut self, setup: &Setup<'_>) -> anyhow::Result<()> {
        let programs = setup.artefacts;
        let config = self.write("containerd.toml", &self.containerd_config(programs))?;
        let args = ["--config".to_owned(), config];
        self.containerd = Some(self.spawn_built(setup, "containerd", &args)?);
        self.import(setup).await?;
        let kubelet = self.write("kubelet.json", &self.kubelet_config(setup))?;
        let kubelet = [
            format!("--config={kubelet}"),
            format!("--kubeconfig={}", kubeconfig(setup.cluster, &self.name)),
            format!("--hostname-override={}", self.name),
            format!("--node-ip={}", self.address.ip),
            "--cert-dir=/var/lib/kubelet/pki".to_owned(),
            "--v=2".to_owned(),
        ];
        self.kubelet = Some(self.spawn_built(setup, "kubelet", &kubelet)?);
        let proxy = self.write("kube-proxy.json", &self.proxy_config(setup))?;
        self.kube_proxy = Some(self.spawn_built(setup, "kube-proxy", &[format!("--config={proxy}")])?);
        self.storage = storage::start(self, setup)?;
        Ok(())
    }

    /// Gives the node a pod network: the range that the controller manager assigned to it.
    pub(crate) fn connect(&self, pods: &str) -> anyhow::Result<()> {
        let network = json!({
            "cniVersion": "1.0.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
                    "ipam": {
                        "type": "host-local", "ranges": [[{"subnet": pods}]], "routes": [{"dst": "0.0.0.0/0"}],
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": true}},
            ],
        });
        // Written in place: containerd notices a write, but not a file that is moved in.
        let file = self.cni_folder().join("pods.conflist");
        std::fs::write(&file, network.to_string()).with_context(|| format!("write {}", file.display()))
    }

    /// Why a program of this node ended, if one did.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let programs = [&mut self.containerd, &mut self.kubelet, &mut self.kube_proxy];
        programs.into_iter().flatten().chain(&mut self.storage).find_map(|process| {
            let status = process.ended()?;
            Some(format!("{} ended with {status}; see {}", process.name(), process.log().display()))
        })
    }

    async fn import(&self, setup: &Setup<'_>) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + SERVES_WITHIN;
        let mut ctr = self.inside(&setup.artefacts.program("ctr"));
        ctr.extend(["--address", CONTAINERD_SOCKET, "--namespace", "k8s.io"].map(str::to_owned));
        let with = |args: &[&str]| -> Vec<String> {
            ctr.iter().cloned().chain(args.iter().map(|arg| (*arg).to_owned())).collect()
        };
        while let Err(e) = run("nsenter", &with(&["version"])).await {
            if tokio::time::Instant::now() > deadline {
                return Err(e.context("wait for containerd"));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let archive = setup.images.display().to_string();
        run("nsenter", &with(&["images", "import", "--local", &archive]))
            .await
            .context("import the images")?;
        // Never collected, as the kubelet marks the sandbox image itself.
        run("nsenter", &with(&["images", "label", images::PAUSE, "io.cri-containerd.pinned=pinned"]))
            .await
            .context("pin the image of sandboxes")
    }

    /// The arguments of `nsenter` that run a program in the namespaces of this node.
    fn inside(&self, program: &Path) -> Vec<String> {
        let target = self.holder.id().to_string();
        let args = ["--target", &target, "--mount", "--net", "--uts", "--"].map(str::to_owned);
        args.into_iter().chain([program.display().to_string()]).collect()
    }

    fn spawn_built(&self, setup: &Setup<'_>, name: &str, args: &[String]) -> anyhow::Result<Process> {
        self.spawn(setup, name, &setup.artefacts.program(name), args)
    }

    /// Starts a program in the namespaces of this node.
    pub(crate) fn spawn(
        &self,
        setup: &Setup<'_>,
        name: &str,
        program: &Path,
        args: &[String],
    ) -> anyhow::Result<Process> {
        let mut all = self.inside(program);
        all.extend(args.iter().cloned());
        setup.cluster.start_program(&format!("{}-{name}", self.name), Path::new("nsenter"), &all)
    }

    fn write(&self, file: &str, text: &str) -> anyhow::Result<String> {
        let path = self.folder.join(file);
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(path.display().to_string())
    }

    fn cni_folder(&self) -> PathBuf {
        self.folder.join("cni")
    }

    fn containerd_config(&self, programs: &Artefacts) -> String {
        let cni = self.cni_folder();
        // It watches the folder, so the folder must exist.
        let _ = std::fs::create_dir_all(&cni);
        format!(
            r#"version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{pause}"

[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE a process cannot lower its score below its parent's.
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{programs}"]
    conf_dir = "{cni}"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    runtime_path = "{programs}/containerd-shim-runc-v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
"#,
            pause = images::PAUSE,
            programs = programs.folder().display(),
            cni = cni.display(),
        )
    }

    fn kubelet_config(&self, setup: &Setup<'_>) -> String {
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
            "failCgroupV1": false,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": format!("{}/{}", setup.cgroup, self.name),
            "enforceNodeAllocatable": ["pods"],
            "failSwapOn": false,
            "authentication": {
                "anonymous": {"enabled": false},
                "webhook": {"enabled": true},
                "x509": {"clientCAFile": setup.cluster.certificate("ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "clusterDomain": dns::DOMAIN,
            "clusterDNS": [network::SERVER],
            "resolvConf": "",
            // The disk belongs to the machine; how full it is says nothing about the rig.
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "volumePluginDir": "/var/lib/kubelet/plugins-exec",
            "volumeStatsAggPeriod": "10s",
            "nodeStatusReportFrequency": "10s",
            "syncFrequency": "10s",
            "serializeImagePulls": false,
            "shutdownGracePeriod": "0s",
        })
        .to_string()
    }

    fn proxy_config(&self, setup: &Setup<'_>) -> String {
        json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": kubeconfig(setup.cluster, "kube-proxy")},
            "hostnameOverride": self.name,
            "mode": "nftables",
            "clusterCIDR": network::PODS,
            // These belong to the machine's own network namespace.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        })
        .to_string()
    }
}

fn kubeconfig(cluster: &Cluster, name: &str) -> String {
    cluster.dir().join(format!("{name}.kubeconfig")).display().to_string()
}

/// The address of the n-th node, counted from one.
pub(crate) fn ip(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 88, 0, 10 + n)
}
