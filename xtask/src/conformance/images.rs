//! Container images under the names that the tests use, assembled from programs of this machine and built ones: there is no registry to pull from.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use flyball_sim::cluster::Assets;
use serde_json::{Value, json};

use super::artefacts::{Artefacts, CERTIFICATE, CSI_DRIVER, SIDECARS};
use crate::oci::{self, Layout, tar, write};

pub(crate) const PAUSE: &str = "registry.k8s.io/pause:3.10.2";

/// Which files an image has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Pause,
    Busybox,
    Agnhost,
    Csi,
    ApiServer,
}

struct Image {
    name: &'static str,
    content: Content,
    entrypoint: &'static [&'static str],
    command: &'static [&'static str],
    user: &'static str,
}

const fn agnhost(name: &'static str, command: &'static [&'static str], user: &'static str) -> Image {
    Image { name, content: Content::Agnhost, entrypoint: &["/agnhost"], command, user }
}

const fn busybox(name: &'static str, command: &'static [&'static str]) -> Image {
    Image { name, content: Content::Busybox, entrypoint: &[], command, user: "" }
}

const fn api_server(name: &'static str, entrypoint: &'static [&'static str]) -> Image {
    Image { name, content: Content::ApiServer, entrypoint, command: &[], user: "" }
}

const fn csi(name: &'static str, entrypoint: &'static [&'static str]) -> Image {
    Image { name, content: Content::Csi, entrypoint, command: &[], user: "" }
}

/// As upstream's `test/utils/image/manifest.go` names them. nginx is busybox's web server; the tests only need a page on port 80.
const IMAGES: [Image; 19] = [
    Image { name: PAUSE, content: Content::Pause, entrypoint: &["/pause"], command: &[], user: "" },
    agnhost("registry.k8s.io/e2e-test-images/agnhost:2.63.0", &["pause"], ""),
    agnhost("registry.k8s.io/e2e-test-images/agnhost:2.55", &["pause"], ""),
    agnhost("registry.k8s.io/e2e-test-images/glibc-dns-testing:2.0.0", &["pause"], ""),
    agnhost("registry.k8s.io/e2e-test-images/nautilus:1.8", &["test-webserver"], ""),
    agnhost("registry.k8s.io/e2e-test-images/nonroot:1.5", &["pause"], "1234"),
    busybox("registry.k8s.io/e2e-test-images/busybox:1.36.1-1", &["sh"]),
    busybox("registry.k8s.io/e2e-test-images/busybox:1.37.0-1", &["sh"]),
    busybox("registry.k8s.io/e2e-test-images/nginx:1.15-4", WEB_SERVER),
    busybox("registry.k8s.io/e2e-test-images/nginx:1.27-0", WEB_SERVER),
    api_server("registry.k8s.io/e2e-test-images/sample-apiserver:1.29.2", &["/sample-apiserver"]),
    api_server("registry.k8s.io/etcd:3.6.8-0", &[]),
    csi("registry.k8s.io/sig-storage/csi-attacher:v4.11.0", &["/csi-attacher"]),
    csi("registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.16.0", &["/csi-driver", "registrar"]),
    csi("registry.k8s.io/sig-storage/csi-provisioner:v6.1.1", &["/csi-provisioner"]),
    csi("registry.k8s.io/sig-storage/csi-resizer:v2.1.0", &["/csi-resizer"]),
    // Tests of snapshots are left out, but every driver comes with it.
    csi("registry.k8s.io/sig-storage/csi-snapshotter:v8.5.0", &["/csi-driver", "idle"]),
    csi("registry.k8s.io/sig-storage/hostpathplugin:v1.17.1", &["/csi-driver", "hostpathplugin"]),
    csi("registry.k8s.io/sig-storage/livenessprobe:v2.18.0", &["/csi-driver", "livenessprobe"]),
];
const WEB_SERVER: &[&str] = &["busybox", "httpd", "-f", "-p", "80", "-h", "/www"];

/// Programs of this machine that tests run inside agnhost, with the libraries they need. (busybox's own `wget` of Debian 12 crashes
/// if it is given a timeout.)
const BORROWED: [&str; 6] = ["curl", "dig", "getent", "nc", "ss", "wget"];

/// Writes one archive that `ctr images import` reads. Returns its path.
pub(crate) fn assemble(artefacts: &Artefacts, folder: &Path) -> anyhow::Result<PathBuf> {
    let layout = Layout::create(folder.join("layout"))?;
    let mut manifests = Vec::new();
    let mut layers: Vec<(Content, Value)> = Vec::new();
    for image in &IMAGES {
        let layer = match layers.iter().find(|(content, _)| *content == image.content) {
            Some((_, layer)) => layer.clone(),
            None => {
                let bytes = layer(image.content, artefacts, folder)?;
                let layer = layout.blob(&bytes, oci::LAYER)?;
                layers.push((image.content, layer.clone()));
                layer
            }
        };
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": {
                "Entrypoint": image.entrypoint,
                "Cmd": image.command,
                "User": image.user,
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            },
            // A tar without compression has the same digest as what it unpacks to.
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
            "history": [{"comment": image.name}],
        });
        let mut manifest = layout.manifest(&config, &layer)?;
        manifest["annotations"] = json!({"io.containerd.image.name": image.name});
        manifests.push(manifest);
    }
    let archive = folder.join("images.tar");
    layout.pack(&manifests, &archive)?;
    Ok(archive)
}

fn layer(content: Content, artefacts: &Artefacts, folder: &Path) -> anyhow::Result<Vec<u8>> {
    let root = folder.join("root");
    let archive = folder.join("layer.tar");
    for dir in ["tmp", "var/tmp", "etc", "bin", "usr/bin", "lib", "www", "proc", "sys", "dev", "root"] {
        std::fs::create_dir_all(root.join(dir)).context("create the root of an image")?;
    }
    for dir in ["tmp", "var/tmp"] {
        let mode = Permissions::from_mode(0o1777);
        std::fs::set_permissions(root.join(dir), mode).context("set the mode of /tmp")?;
    }
    write(&root.join("etc/passwd"), b"root:x:0:0:root:/root:/bin/sh\nnonroot:x:1234:1234::/:/bin/sh\nuser-defined-in-image:x:1000:1000::/:/bin/sh\n")?;
    write(
        &root.join("etc/group"),
        b"root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n",
    )?;
    match content {
        Content::Pause => copy(&artefacts.program("pause"), &root.join("pause"))?,
        Content::Busybox => {
            install_busybox(&root)?;
            install_shell(&root)?;
            write(&root.join("www/index.html"), b"<h1>Welcome to nginx!</h1>\n")?;
        }
        Content::Agnhost => {
            install_busybox(&root)?;
            install_shell(&root)?;
            for program in ["agnhost", "coredns"] {
                copy(&artefacts.program(program), &root.join(program))?;
            }
            // The borrowed programs ask libraries that would otherwise ask the DNS server first.
            write(&root.join("etc/nsswitch.conf"), b"hosts: files dns\n")?;
            // Like busybox's.
            write(&root.join("etc/wgetrc"), b"tries = 1\n")?;
            // What nautilus serves.
            write(&root.join("data.json"), br#"{"image": "nautilus.jpg"}"#)?;
            for file in CERTIFICATE {
                copy(&artefacts.program(file), &root.join(file))?;
            }
            std::os::unix::fs::symlink("agnhost", root.join("agnhost-2")).context("link agnhost-2")?;
            std::fs::create_dir_all(root.join("uploads")).context("create /uploads")?;
            for program in BORROWED {
                borrow(program, &root)?;
            }
        }
        Content::ApiServer => {
            copy(&artefacts.program("sample-apiserver"), &root.join("sample-apiserver"))?;
            copy(&Assets::find()?.binary("etcd"), &root.join("usr/local/bin/etcd"))?;
        }
        Content::Csi => {
            install_busybox(&root)?;
            for program in SIDECARS.map(|(name, ..)| name).into_iter().chain([CSI_DRIVER]) {
                copy(&artefacts.program(program), &root.join(program))?;
            }
        }
    }
    tar(&root, &archive)?;
    std::fs::remove_dir_all(&root).context("remove the root of an image")?;
    let bytes = std::fs::read(&archive).context("read a layer")?;
    std::fs::remove_file(&archive).context("remove a layer")?;
    Ok(bytes)
}

fn install_busybox(root: &Path) -> anyhow::Result<()> {
    let program = find("busybox").context("no busybox in PATH")?;
    copy_with_libraries(&program, &root.join("bin/busybox"), root)?;
    let applets = Command::new(&program).arg("--list").output().context("run busybox --list")?;
    for applet in String::from_utf8_lossy(&applets.stdout).lines().filter(|applet| *applet != "busybox") {
        std::os::unix::fs::symlink("/bin/busybox", root.join("bin").join(applet))
            .with_context(|| format!("link {applet}"))?;
    }
    Ok(())
}

/// Makes bash the shell: that of Debian's busybox takes its own `nc` before one in PATH, and hides variables of the environment whose
/// names a shell cannot use.
fn install_shell(root: &Path) -> anyhow::Result<()> {
    borrow("bash", root)?;
    let shell = root.join("bin/sh");
    std::fs::remove_file(&shell).context("remove busybox's shell")?;
    std::os::unix::fs::symlink("/usr/bin/bash", &shell).context("link sh")
}

/// Copies a program of this machine with its libraries; it is left out if the machine does not have it.
fn borrow(name: &str, root: &Path) -> anyhow::Result<()> {
    let Some(program) = find(name) else {
        println!("  no {name} on this machine: tests that run it in a pod will fail");
        return Ok(());
    };
    copy_with_libraries(&program, &root.join("usr/bin").join(name), root)
}

/// The libraries are those that the dynamic linker names; a program without any has none.
fn copy_with_libraries(program: &Path, place: &Path, root: &Path) -> anyhow::Result<()> {
    copy(program, place)?;
    let libraries = Command::new("ldd").arg(program).output().context("run ldd")?;
    let named = String::from_utf8_lossy(&libraries.stdout);
    for library in named.split_whitespace().filter(|word| word.starts_with('/')) {
        let place = root.join(library.trim_start_matches('/'));
        if !place.exists() {
            copy(Path::new(library), &place)?;
        }
    }
    Ok(())
}

/// A program in PATH.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    }
    std::fs::copy(from, to).with_context(|| format!("copy {}", from.display())).map(drop)
}
