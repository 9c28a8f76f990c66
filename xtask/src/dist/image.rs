//! Container images, written without a container tool: one layer with the program and what it expects of a system.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use flyball_sim::cluster::KUBERNETES_VERSION;
use serde_json::{Value, json};

use super::{Architecture, Release, gzip};
use crate::oci::{self, Layout, sha256, write};

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Writes the image of a program for all its architectures as one archive, which `ctr images import`, `podman load` and
/// `skopeo copy oci-archive:…` read.
pub(super) fn assemble(
    name: &str,
    program: &str,
    binaries: &[(Architecture, &[u8])],
    certificates: &[u8],
    release: &Release,
    out: &Path,
) -> anyhow::Result<()> {
    let layout = Layout::create(out.join(format!("{program}-layout")))?;
    let mut platforms = Vec::new();
    for (architecture, binary) in binaries {
        let tar = root(program, binary, certificates, out)?;
        let layer = layout.blob(&gzip(&tar)?, &format!("{}+gzip", oci::LAYER))?;
        let config = config(program, *architecture, &sha256(&tar), release);
        let mut manifest = layout.manifest(&config, &layer)?;
        manifest["platform"] = json!({"architecture": architecture.name(), "os": "linux"});
        platforms.push(manifest);
    }
    let index = json!({"schemaVersion": 2, "mediaType": oci::INDEX, "manifests": platforms});
    let mut index = layout.blob(index.to_string().as_bytes(), oci::INDEX)?;
    index["annotations"] = json!({
        "io.containerd.image.name": format!("{name}:{KUBERNETES_VERSION}"),
        "org.opencontainers.image.ref.name": KUBERNETES_VERSION,
    });
    layout.pack(&[index], &out.join(format!("{program}-{}-image.tar", release.version)))
}

/// The files of the image as a tar archive.
fn root(program: &str, binary: &[u8], certificates: &[u8], out: &Path) -> anyhow::Result<Vec<u8>> {
    let root = out.join(format!("{program}-root"));
    let executable = format!("usr/local/bin/{program}");
    for folder in ["etc/ssl/certs", "tmp", "usr/local/bin"] {
        std::fs::create_dir_all(root.join(folder)).with_context(|| format!("create {folder}"))?;
    }
    write(
        &root.join("etc/passwd"),
        b"root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n",
    )?;
    write(&root.join("etc/group"), b"root:x:0:\nnobody:x:65534:\n")?;
    write(&root.join("etc/ssl/certs/ca-certificates.crt"), certificates)?;
    write(&root.join(&executable), binary)?;
    for (path, mode) in [("tmp", 0o1777), (&executable, 0o755)] {
        std::fs::set_permissions(root.join(path), Permissions::from_mode(mode))
            .with_context(|| format!("set the mode of {path}"))?;
    }
    let archive = out.join(format!("{program}-root.tar"));
    oci::tar(&root, &archive)?;
    std::fs::remove_dir_all(&root).context("remove the root of an image")?;
    let bytes = std::fs::read(&archive).context("read a layer")?;
    std::fs::remove_file(&archive).context("remove a layer")?;
    Ok(bytes)
}

/// No user is set, as upstream's image sets none: kubeadm's files under /etc/kubernetes belong to root.
fn config(program: &str, architecture: Architecture, unpacked: &str, release: &Release) -> Value {
    json!({
        "created": release.time.to_string(),
        "architecture": architecture.name(),
        "os": "linux",
        "config": {
            "Entrypoint": [format!("/usr/local/bin/{program}")],
            "Env": [PATH],
            "Labels": {
                "org.opencontainers.image.title": program,
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.revision": release.commit,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{unpacked}")]},
        "history": [{"created": release.time.to_string(), "created_by": "cargo xtask dist"}],
    })
}
