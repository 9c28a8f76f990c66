//! Which Services a change of Endpoints concerns. Changes of pods are in [`members`](crate::members).

use std::sync::Arc;

use flyball_api::{Endpoints, Key};
use flyball_cache::{Change, Origin};

use crate::names::LEADER;

/// The Service of the same name: deleted Endpoints may have to be created again, and Endpoints in the initial list may
/// have outlived their Service, unless they only serve leader election.
pub fn endpoints_changed(change: &Change<'_, Endpoints>) -> Option<Key> {
    let may_be_left_over = |endpoints: &Arc<Endpoints>| {
        change.origin == Origin::Initial && !endpoints.metadata.annotations.contains_key(LEADER)
    };
    change.new.is_none_or(may_be_left_over).then(|| change.key())
}
