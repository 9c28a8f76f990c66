//! When a VolumeAttributesClass may be deleted. Pure.

use flyball_api::{Object, VolumeAttributesClass};
use flyball_runtime::{Plan, Waiting};

use crate::finalizer::{self, Reasons};

const REASONS: Reasons = Reasons { protect: "claims may refer to it", release: "nothing refers to it" };

/// Everything that the decision depends on.
pub struct View<'a> {
    pub class: &'a VolumeAttributesClass,
    /// How many volumes and claims refer to it.
    pub users: usize,
}

/// Adds the finalizer, or removes it from a class that is being deleted and not in use.
pub fn plan(view: &View<'_>) -> Plan {
    let is_used = view.users > 0;
    let waiting = (is_used && finalizer::is_releasable(view.class)).then(|| {
        let until = format!("to be released by {} volumes and claims", view.users);
        Waiting::on::<VolumeAttributesClass>(&view.class.key(), until)
    });
    Plan::of(finalizer::plan(view.class, is_used, REASONS)).waiting_for(waiting)
}
