//! Which changes of Endpoints and Services need a sync. Changes of slices are in [`slices`](crate::slices).

use std::sync::Arc;

use flyball_api::{Endpoints, Service};
use flyball_cache::Change;

use super::plan::is_mirrored;

/// Whether Endpoints may be, or might have been, mirrored.
pub fn endpoints_changed(change: &Change<'_, Endpoints>) -> bool {
    change.old.into_iter().chain(change.new).any(|endpoints| is_mirrored(endpoints))
}

/// Whether a Service without a selector was created or deleted, or a Service got or lost its selector.
pub fn service_changed(change: &Change<'_, Service>) -> bool {
    let selects = |service: &Arc<Service>| service.spec.selector.is_some();
    match (change.old, change.new) {
        (Some(old), Some(new)) => selects(old) != selects(new),
        (None, Some(service)) | (Some(service), None) => !selects(service),
        (None, None) => false,
    }
}
