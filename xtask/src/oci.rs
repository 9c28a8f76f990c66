//! Archives and OCI image layouts, the same bytes for the same content.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// An image layout in a folder.
pub(crate) struct Layout {
    folder: PathBuf,
}

impl Layout {
    pub(crate) fn create(folder: PathBuf) -> anyhow::Result<Self> {
        let blobs = folder.join("blobs/sha256");
        std::fs::create_dir_all(&blobs).with_context(|| format!("create {}", blobs.display()))?;
        Ok(Self { folder })
    }

    /// Stores bytes under their digest. Returns their descriptor.
    pub(crate) fn blob(&self, bytes: &[u8], media_type: &str) -> anyhow::Result<Value> {
        let hash = sha256(bytes);
        write(&self.folder.join("blobs/sha256").join(&hash), bytes)?;
        Ok(json!({"mediaType": media_type, "digest": format!("sha256:{hash}"), "size": bytes.len()}))
    }

    /// Stores the manifest of an image with one layer, and its configuration. Returns the descriptor of the manifest.
    pub(crate) fn manifest(&self, config: &Value, layer: &Value) -> anyhow::Result<Value> {
        let config = self.blob(config.to_string().as_bytes(), CONFIG)?;
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
        self.blob(manifest.to_string().as_bytes(), MANIFEST)
    }

    /// Writes what lists the images, packs the layout into one archive and removes the folder.
    pub(crate) fn pack(self, manifests: &[Value], archive: &Path) -> anyhow::Result<()> {
        write(&self.folder.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
        write(&self.folder.join("index.json"), index.to_string().as_bytes())?;
        tar(&self.folder, archive)?;
        std::fs::remove_dir_all(&self.folder).with_context(|| format!("remove {}", self.folder.display()))
    }
}

/// In hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Packs the content of a folder: sorted, owned by root, and all of one time.
pub(crate) fn tar(folder: &Path, archive: &Path) -> anyhow::Result<()> {
    let status = Command::new("tar")
        .args(["--create", "--owner=0", "--group=0", "--numeric-owner"])
        .args(["--mtime=@0", "--sort=name", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(folder)
        .arg(".")
        .status()
        .context("run tar")?;
    if !status.success() {
        bail!("tar ended with {status}");
    }
    Ok(())
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("write {}", path.display()))
}
