//! Distributes the endpoints of one set of ports over slices with as few writes as possible: slices that must be updated
//! anyway are filled first, then a slice with enough room, and only then a new one. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use flyball_api::endpoint_slice::Endpoint;
use flyball_api::{EndpointSlice, Labels, ObjectMeta};

use super::families::is_reserved;
use crate::slices::{Identity, is_same};

/// The changes to the slices of one family.
#[derive(Debug, Default, PartialEq)]
pub struct Changes<'a> {
    pub create: Vec<EndpointSlice>,
    pub update: Vec<EndpointSlice>,
    pub delete: Vec<&'a EndpointSlice>,
    pub unchanged: Vec<&'a EndpointSlice>,
    /// How many endpoints are added.
    pub added: usize,
    pub removed: usize,
}

impl<'a> Changes<'a> {
    /// Adds the changes of another set of ports.
    pub(super) fn extend(&mut self, other: Changes<'a>) {
        self.create.extend(other.create);
        self.update.extend(other.update);
        self.delete.extend(other.delete);
        self.unchanged.extend(other.unchanged);
        self.added += other.added;
        self.removed += other.removed;
    }

    /// The slices that are created or updated.
    pub(super) fn written(&mut self) -> impl Iterator<Item = &mut EndpointSlice> {
        self.create.iter_mut().chain(&mut self.update)
    }

    /// Updates those unchanged slices that `must_change`.
    pub(super) fn update_where(&mut self, must_change: impl Fn(&EndpointSlice) -> bool) {
        let (changed, unchanged): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.unchanged).into_iter().partition(|slice| must_change(slice));
        self.unchanged = unchanged;
        self.update.extend(changed.into_iter().cloned());
    }

    /// The number of slices that are written.
    pub(super) fn count(&self) -> usize {
        self.create.len() + self.update.len() + self.delete.len()
    }

    /// All slices after the changes.
    pub(super) fn after(&self) -> impl Iterator<Item = &EndpointSlice> {
        self.create.iter().chain(&self.update).chain(self.unchanged.iter().copied())
    }

    /// Updates slices that would be deleted instead of creating new ones: one write instead of two.
    pub(super) fn reuse_deleted(&mut self, is_own: impl Fn(&EndpointSlice) -> bool) {
        let mut kept = vec![];
        for slice in std::mem::take(&mut self.delete) {
            match is_own(slice).then(|| self.create.pop()).flatten() {
                Some(mut new) => {
                    let ObjectMeta { labels, annotations, owner_references, .. } = new.metadata;
                    let old = slice.metadata.clone();
                    new.metadata = ObjectMeta { labels, annotations, owner_references, ..old };
                    self.update.push(new);
                }
                None => kept.push(slice),
            }
        }
        self.delete = kept;
    }
}

/// New slices of one set of ports.
pub struct Template<'a> {
    /// A new slice without endpoints.
    pub empty: &'a EndpointSlice,
    /// The most endpoints in one slice; at least 1.
    pub capacity: usize,
}

/// The endpoints to publish, by identity.
pub(crate) type Desired = BTreeMap<Identity, Endpoint>;

/// The changes that make the `existing` slices publish exactly the `desired` endpoints.
pub(crate) fn pack<'a>(
    existing: &[&'a EndpointSlice],
    mut desired: Desired,
    template: &Template<'_>,
) -> Changes<'a> {
    let mut changes = Changes::default();
    for slice in existing.iter().copied() {
        keep_desired(slice, &mut desired, &template.empty.metadata.labels, &mut changes);
    }
    changes.added = desired.len();

    changes.update.sort_by_key(|slice| Reverse(slice.endpoints.len()));
    for slice in &mut changes.update {
        fill(slice, &mut desired, template.capacity);
    }
    while !desired.is_empty() {
        match take_best_fit(&mut changes.unchanged, desired.len(), template.capacity) {
            Some(slice) => {
                let mut slice = slice.clone();
                fill(&mut slice, &mut desired, template.capacity);
                changes.update.push(slice);
            }
            None => {
                let mut slice = template.empty.clone();
                fill(&mut slice, &mut desired, template.capacity);
                changes.create.push(slice);
            }
        }
    }
    changes
}

/// Removes the endpoints of a slice from `desired`, and decides whether the slice must change.
fn keep_desired<'a>(
    slice: &'a EndpointSlice,
    desired: &mut Desired,
    labels: &Labels,
    changes: &mut Changes<'a>,
) {
    let mut kept = Vec::with_capacity(slice.endpoints.len());
    let mut differs = false;
    for endpoint in &slice.endpoints {
        if let Some(wanted) = desired.remove(&Identity::of(endpoint)) {
            differs |= !is_same(&wanted, endpoint);
            kept.push(wanted);
        }
    }
    let gone = slice.endpoints.len() - kept.len();
    changes.removed += gone;
    if gone > 0 && kept.is_empty() {
        changes.delete.push(slice);
    } else if gone > 0 || differs {
        let mut revised = EndpointSlice { endpoints: kept, ..without_endpoints(slice) };
        revised.metadata.labels = labels.clone();
        changes.update.push(revised);
    } else if !has_labels(slice, labels) {
        let mut revised = slice.clone();
        revised.metadata.labels = labels.clone();
        changes.update.push(revised);
    } else {
        changes.unchanged.push(slice);
    }
}

fn without_endpoints(slice: &EndpointSlice) -> EndpointSlice {
    EndpointSlice {
        metadata: slice.metadata.clone(),
        address_type: slice.address_type.clone(),
        ports: slice.ports.clone(),
        endpoints: vec![],
    }
}

/// Whether a slice has the labels of the Service. A change of reserved labels alone is not worth a write.
fn has_labels(slice: &EndpointSlice, wanted: &Labels) -> bool {
    let own = |labels: &Labels| labels.filtered(|key| !is_reserved(key));
    own(&slice.metadata.labels) == own(wanted)
}

fn fill(slice: &mut EndpointSlice, desired: &mut Desired, capacity: usize) {
    while slice.endpoints.len() < capacity
        && let Some((_, endpoint)) = desired.pop_first()
    {
        slice.endpoints.push(endpoint);
    }
}

/// The fullest slice into which `count` more endpoints fit.
fn take_best_fit<'a>(
    slices: &mut Vec<&'a EndpointSlice>,
    count: usize,
    capacity: usize,
) -> Option<&'a EndpointSlice> {
    let room = |slice: &EndpointSlice| capacity.checked_sub(slice.endpoints.len() + count);
    let fitting = slices.iter().enumerate().filter_map(|(at, slice)| Some((room(slice)?, at)));
    let (_, at) = fitting.min().filter(|_| count < capacity)?;
    Some(slices.remove(at))
}
