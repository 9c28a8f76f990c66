//! Defaults and protections of volumes: default classes, finalizers while in use, and which claims may grow.

use serde_json::{Value, json};

use super::{Request, enabled, forbid};
use crate::error::ApiError;
use crate::kinds::Quantity;
use crate::life::Ops;
use crate::meta;
use crate::store::{Key, ShelfId};

const STORAGE: &str = "storage.k8s.io";
const NETWORK: &str = "networking.k8s.io";

pub(super) fn mutate(ops: &Ops<'_>, request: &Request<'_>, object: &mut Value) {
    if request.creates("", "persistentvolumeclaims") {
        if enabled(ops, "DefaultStorageClass") {
            let beta =
                object["metadata"]["annotations"].get("volume.beta.kubernetes.io/storage-class").is_some();
            let unset = object["spec"]["storageClassName"].is_null() && !beta;
            let keys = [
                "storageclass.kubernetes.io/is-default-class",
                "storageclass.beta.kubernetes.io/is-default-class",
            ];
            if let Some(class) = default_of(ops, STORAGE, "storageclasses", &keys).filter(|_| unset) {
                meta::child(object, "spec").insert("storageClassName".to_owned(), json!(class));
            }
        }
        protect(ops, object, "kubernetes.io/pvc-protection");
    }
    if request.creates("", "persistentvolumes") {
        protect(ops, object, "kubernetes.io/pv-protection");
    }
    if request.creates(STORAGE, "volumeattributesclasses") {
        protect(ops, object, "kubernetes.io/vac-protection");
    }
    if request.creates(NETWORK, "ingresses") && enabled(ops, "DefaultIngressClass") {
        let annotated = object["metadata"]["annotations"].get("kubernetes.io/ingress.class").is_some();
        let unset = object["spec"]["ingressClassName"].is_null() && !annotated;
        let keys = ["ingressclass.kubernetes.io/is-default-class"];
        if let Some(class) = default_of(ops, NETWORK, "ingressclasses", &keys).filter(|_| unset) {
            meta::child(object, "spec").insert("ingressClassName".to_owned(), json!(class));
        }
    }
}

/// The name of the class that an annotation marks as default: the newest, then the first by name.
fn default_of(ops: &Ops<'_>, group: &str, plural: &str, keys: &[&str]) -> Option<String> {
    let all = ops.server.store.all(&ShelfId::new(group, plural), None);
    let marked = all
        .iter()
        .map(|entry| entry.value())
        .filter(|class| keys.iter().any(|key| class["metadata"]["annotations"][*key] == "true"));
    let mut marked: Vec<Value> = marked.collect();
    marked.sort_by(|a, b| {
        let created = |class: &Value| meta::text(class, "creationTimestamp").to_owned();
        created(b).cmp(&created(a)).then_with(|| meta::text(a, "name").cmp(meta::text(b, "name")))
    });
    marked.first().map(|class| meta::text(class, "name").to_owned())
}

fn protect(ops: &Ops<'_>, object: &mut Value, finalizer: &str) {
    if !enabled(ops, "StorageObjectInUseProtection") || meta::finalizers(object).contains(&finalizer) {
        return;
    }
    let mut finalizers: Vec<String> = meta::finalizers(object).iter().map(|f| (*f).to_owned()).collect();
    finalizers.push(finalizer.to_owned());
    meta::set_finalizers(object, finalizers);
}

/// PersistentVolumeClaimResize: only a claim whose class allows it may grow.
pub(super) fn check_resize(
    ops: &Ops<'_>,
    request: &Request<'_>,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let Some(old) = old.filter(|_| request.updates("", "persistentvolumeclaims", None)) else {
        return Ok(());
    };
    let size =
        |claim: &Value| claim["spec"]["resources"]["requests"]["storage"].as_str().and_then(Quantity::parse);
    let (Some(before), Some(after)) = (size(old), size(new)) else { return Ok(()) };
    if after.compare(before).is_le() {
        return Ok(());
    }
    if old["status"]["phase"] != "Bound" {
        return Err(forbid(ops, new, "Only bound persistent volume claims can be expanded"));
    }
    let class = new["spec"]["storageClassName"].as_str().unwrap_or_default();
    let class = ops.server.store.get(&ShelfId::new(STORAGE, "storageclasses"), &Key::new("", class));
    let allowed = class.is_some_and(|class| class.value()["allowVolumeExpansion"] == true);
    match allowed {
        true => Ok(()),
        false => Err(forbid(
            ops,
            new,
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support \
             resize",
        )),
    }
}
