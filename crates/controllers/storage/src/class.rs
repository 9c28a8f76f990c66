//! The storage class of claims and volumes, and the default class. Pure.

use std::sync::Arc;

use flyball_api::{PersistentVolume, PersistentVolumeClaim, StorageClass};

use crate::names::{BETA_CLASS, IS_DEFAULT};

/// The class of a claim; empty for none.
pub(crate) fn of_claim(claim: &PersistentVolumeClaim) -> &str {
    let annotated = claim.metadata.annotations.get(BETA_CLASS);
    annotated.or(claim.spec.storage_class_name.as_deref()).unwrap_or_default()
}

/// The class of a volume; empty for none.
pub(crate) fn of_volume(volume: &PersistentVolume) -> &str {
    volume.metadata.annotations.get(BETA_CLASS).unwrap_or(&volume.spec.storage_class_name)
}

/// Whether a claim names no class, not even the empty one, and so gets the default class.
pub(crate) fn is_unset(claim: &PersistentVolumeClaim) -> bool {
    claim.spec.storage_class_name.is_none() && !claim.metadata.annotations.contains_key(BETA_CLASS)
}

/// Whether volumes of a class are bound only when a pod uses them.
pub(crate) fn waits_for_consumer(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

/// The default class: the newest that is marked as such, then the first by name.
pub(crate) fn default_of(classes: &[Arc<StorageClass>]) -> Option<&Arc<StorageClass>> {
    let is_marked = |class: &&Arc<StorageClass>| {
        IS_DEFAULT.iter().any(|key| class.metadata.annotations.get(key) == Some("true"))
    };
    classes.iter().filter(is_marked).min_by_key(|class| {
        (std::cmp::Reverse(class.metadata.creation_timestamp), class.metadata.name.clone())
    })
}
