//! Puts the endpoints of one set of ports into as few changed slices as possible: slices that must change anyway
//! are filled first, then one that happens to have room, and only then a new one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use flyball_api::endpoint_slice::Endpoint;
use flyball_api::{EndpointSlice, Labels, ObjectMeta};

use super::plan::is_reserved;
use crate::slices::{Identity, says_the_same};

/// What is to happen to the slices of one family.
#[derive(Debug, Default, PartialEq)]
pub struct Changes<'a> {
    /// To be made; the server names them.
    pub create: Vec<EndpointSlice>,
    /// To be replaced under their names.
    pub update: Vec<EndpointSlice>,
    pub delete: Vec<&'a EndpointSlice>,
    /// To stay as they are.
    pub unchanged: Vec<&'a EndpointSlice>,
    /// How many endpoints are new.
    pub added: usize,
    pub removed: usize,
}

impl<'a> Changes<'a> {
    /// Puts the changes of another set of ports beside these.
    pub(super) fn extend(&mut self, other: Changes<'a>) {
        self.create.extend(other.create);
        self.update.extend(other.update);
        self.delete.extend(other.delete);
        self.unchanged.extend(other.unchanged);
        self.added += other.added;
        self.removed += other.removed;
    }

    /// Slices that will be written.
    pub(super) fn written(&mut self) -> impl Iterator<Item = &mut EndpointSlice> {
        self.create.iter_mut().chain(&mut self.update)
    }

    /// Moves those unchanged slices that `must_change` to the ones that are written.
    pub(super) fn disturb(&mut self, must_change: impl Fn(&EndpointSlice) -> bool) {
        let (disturbed, rest) =
            std::mem::take(&mut self.unchanged).into_iter().partition(|slice| must_change(slice));
        self.unchanged = rest;
        let disturbed: Vec<&EndpointSlice> = disturbed;
        self.update.extend(disturbed.into_iter().cloned());
    }

    /// Uses slices that would be deleted for those that would be made: one write instead of two.
    pub(super) fn recycle(&mut self, is_ours: impl Fn(&EndpointSlice) -> bool) {
        let mut kept = vec![];
        for slice in std::mem::take(&mut self.delete) {
            match is_ours(slice).then(|| self.create.pop()).flatten() {
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

/// How slices of one set of ports are to look.
pub struct Frame<'a> {
    /// A new slice, still empty.
    pub empty: &'a EndpointSlice,
    /// Endpoints in one slice, at most; at least 1.
    pub capacity: usize,
}

/// The endpoints that should be published, each once.
pub(crate) type Desired = BTreeMap<Identity, Endpoint>;

/// Brings `existing` slices to publish exactly what is `desired`.
pub(crate) fn pack<'a>(
    existing: &[&'a EndpointSlice],
    mut desired: Desired,
    frame: &Frame<'_>,
) -> Changes<'a> {
    let mut changes = Changes::default();
    for slice in existing.iter().copied() {
        keep_what_is_desired(slice, &mut desired, &frame.empty.metadata.labels, &mut changes);
    }
    changes.added = desired.len();

    changes.update.sort_by_key(|slice| Reverse(slice.endpoints.len()));
    for slice in &mut changes.update {
        fill(slice, &mut desired, frame.capacity);
    }
    while !desired.is_empty() {
        match take_best_fit(&mut changes.unchanged, desired.len(), frame.capacity) {
            Some(slice) => {
                let mut slice = slice.clone();
                fill(&mut slice, &mut desired, frame.capacity);
                changes.update.push(slice);
            }
            None => {
                let mut slice = frame.empty.clone();
                fill(&mut slice, &mut desired, frame.capacity);
                changes.create.push(slice);
            }
        }
    }
    changes
}

/// Takes what a slice already publishes out of `desired`, and decides whether the slice must change.
fn keep_what_is_desired<'a>(
    slice: &'a EndpointSlice,
    desired: &mut Desired,
    labels: &Labels,
    changes: &mut Changes<'a>,
) {
    let mut kept = Vec::with_capacity(slice.endpoints.len());
    let mut differs = false;
    for endpoint in &slice.endpoints {
        if let Some(wanted) = desired.remove(&Identity::of(endpoint)) {
            differs |= !says_the_same(&wanted, endpoint);
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

/// Whether a slice has the Service's own labels. Reserved ones do not count: a change of those alone is not
/// worth a write.
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

/// The slice that `count` more endpoints would leave least room in, if they fit into one at all.
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
