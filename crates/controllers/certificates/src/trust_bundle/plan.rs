//! Which bundle is published, and which are deleted. Pure.

use std::sync::Arc;

use flyball_api::{ClusterTrustBundle, Key, Object, ResourceType};
use flyball_runtime::plan::Operation;
use flyball_runtime::{Effect, ErrorKinds, Plan, Write, exactly};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

pub const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";

/// What the decision depends on.
#[derive(Debug)]
pub struct View<'a> {
    /// ClusterTrustBundles in the version that is served.
    pub resource: &'a ResourceType,
    /// The certificates to publish, in PEM form.
    pub bundle: &'a str,
    /// All bundles of the signer, by name.
    pub published: &'a [Arc<ClusterTrustBundle>],
}

/// The name of the bundle with this content.
pub fn name(bundle: &str) -> String {
    let hash = digest(&SHA256, bundle.as_bytes());
    let hex: String = hash.as_ref().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("{}:{hex}", SIGNER.replace('/', ":"))
}

/// Publishes the bundle, then deletes all others.
pub fn plan(view: &View<'_>) -> Plan {
    let name = name(view.bundle);
    let (wanted, others): (Vec<_>, Vec<_>) =
        view.published.iter().partition(|found| found.meta().name == name);
    let publish = publish(view, &name, wanted.first().copied());
    let deletions = others.into_iter().map(|other| {
        Write::of(view.resource.clone(), other.key(), Operation::Delete(exactly(other.meta())))
            .why("it does not hold the API server's current CA")
            .ignore(ErrorKinds::NOT_FOUND)
    });
    let deletions = Effect::from(Effect::each(deletions));
    Plan::of(publish.map(Effect::from).into_iter().chain([deletions]))
}

/// Creates the bundle or corrects its content; `None` if it is right.
fn publish(view: &View<'_>, name: &str, found: Option<&Arc<ClusterTrustBundle>>) -> Option<Write> {
    let View { resource, bundle, .. } = *view;
    let body = |metadata: Value| {
        let spec = json!({"signerName": SIGNER, "trustBundle": bundle});
        json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": metadata, "spec": spec}).into()
    };
    let (operation, why) = match found {
        None => (Operation::Create(body(json!({"name": name}))), "the API server's CA must be published"),
        Some(found) if found.spec.trust_bundle == bundle => return None,
        Some(found) => {
            (Operation::Update(body(json!(found.metadata))), "it must hold exactly the API server's CA")
        }
    };
    Some(Write::of(resource.clone(), Key::cluster(name), operation).why(why))
}
