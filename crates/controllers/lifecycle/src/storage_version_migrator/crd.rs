//! Definitions of custom resources: read, and told about migrations.

use flyball_api::{Key, PartialObject, ResourceType, StorageVersionMigration};
use flyball_client::Patch;
use flyball_runtime::{Context, SyncError};
use serde_json::Value;

use super::resource_of;

const DEFINITIONS: ResourceType = ResourceType::new(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    false,
);
const MANAGER: &str = "migration-runner-controller";

/// Tells the definition of what is migrated, if it is a custom resource.
pub(super) async fn tell(
    cx: &Context,
    migration: &StorageVersionMigration,
    why: &'static str,
    said: impl FnOnce(&Value) -> Value,
) -> Result<(), SyncError> {
    let resource = resource_of(migration);
    let key = Key::cluster(format!("{}.{}", resource.name, resource.namespace).as_str());
    let definition = match cx.client.get_dynamic(&DEFINITIONS, &key).await {
        Err(error) if error.is_not_found() => return Ok(()),
        read => read.map_err(SyncError::api(format!("reading definition {key}")))?,
    };
    let patch = Patch::Apply { manager: MANAGER.into(), force: true, object: said(&definition) };
    let (writer, kind) = (cx.writer(&resource).unawaited(), DEFINITIONS);
    let told = writer.patch_dynamic::<PartialObject>(&kind, &key, Some("status"), patch, why).await;
    told.map(drop).map_err(SyncError::api(format!("telling definition {key} of its migration")))
}
