//! Which classes objects refer to, and which they no longer refer to. Pure.

use std::sync::Arc;

use flyball_api::{Key, PersistentVolume, PersistentVolumeClaim};
use flyball_cache::Change;

/// The class of a volume.
pub fn of_volume(volume: &PersistentVolume) -> impl Iterator<Item = &str> {
    volume.spec.volume_attributes_class_name.as_deref().into_iter().filter(|name| !name.is_empty())
}

/// The classes that a claim requests, has and is being moved to.
pub fn of_claim(claim: &PersistentVolumeClaim) -> impl Iterator<Item = &str> {
    let status = &claim.status;
    let target = status.modify_volume_status.as_ref();
    let names = [
        claim.spec.volume_attributes_class_name.as_deref(),
        status.current_volume_attributes_class_name.as_deref(),
        target.map(|target| target.target_volume_attributes_class_name.as_str()),
    ];
    names.into_iter().flatten().filter(|name| !name.is_empty())
}

/// The classes that an object no longer refers to.
pub fn released<'a, T, N: Iterator<Item = &'a str>>(
    change: &Change<'a, T>,
    names: impl Fn(&'a T) -> N,
) -> Vec<Key> {
    let of = |side: Option<&'a Arc<T>>| side.into_iter().flat_map(|object| names(object));
    of(change.old).filter(|old| !of(change.new).any(|new| new == *old)).map(Key::cluster).collect()
}
