//! Which bundle there should be, and which should not. Pure.

use std::sync::Arc;

use flyball_api::{ClusterTrustBundle, Object, ResourceType};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

pub const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";

#[derive(Debug, PartialEq)]
pub enum Action<'a> {
    /// There is none of that name: make it.
    Create(Value),
    /// It says something else: replace what it says.
    Update(Value),
    /// It is of another content.
    Delete(&'a ClusterTrustBundle),
}

/// The name of the bundle with this content.
pub fn name(bundle: &str) -> String {
    let hash = digest(&SHA256, bundle.as_bytes());
    let hex: String = hash.as_ref().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("{}:{hex}", SIGNER.replace('/', ":"))
}

/// What to do, first to last: the right one is there before others go.
pub fn plan<'a>(
    resource: &ResourceType,
    bundle: &str,
    published: &'a [Arc<ClusterTrustBundle>],
) -> Vec<Action<'a>> {
    let name = name(bundle);
    let spec = json!({"signerName": SIGNER, "trustBundle": bundle});
    let whole = |metadata: Value| json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": metadata, "spec": spec});
    let ours = published.iter().find(|found| found.meta().name == name);
    let write = match ours {
        None => Some(Action::Create(whole(json!({"name": name})))),
        Some(found) if found.spec.trust_bundle == bundle => None,
        Some(found) => Some(Action::Update(whole(json!(found.metadata)))),
    };
    let others = published.iter().filter(|found| found.meta().name != name);
    write.into_iter().chain(others.map(|found| Action::Delete(found))).collect()
}
