//! Whether Endpoints are mirrored, and the writes to their slices. Pure.

use std::sync::Arc;

use flyball_api::{EndpointSlice, Endpoints, Object, ObjectMeta, Service};
use flyball_runtime::{Effect, ErrorKinds, Event, Plan};

use super::mirror::{Mirror, mirror};
use crate::names::{LEADER, SKIP_MIRROR};
use crate::slices::{self, SliceWrite};

/// Everything that the decision depends on, borrowed from one snapshot.
pub struct View<'a> {
    pub endpoints: Option<&'a Endpoints>,
    /// The Service of the same name.
    pub service: Option<&'a Service>,
    /// The slices that this controller manages for it.
    pub slices: &'a [Arc<EndpointSlice>],
    /// The most addresses that are mirrored from one subset.
    pub capacity: usize,
}

/// Whether Endpoints may be mirrored: they have not opted out, and do not only serve leader election.
pub fn is_mirrored(endpoints: &Endpoints) -> bool {
    let ObjectMeta { labels, annotations, .. } = &endpoints.metadata;
    labels.get(SKIP_MIRROR) != Some("true") && !annotations.contains_key(LEADER)
}

impl<'a> View<'a> {
    /// The mirror of the Endpoints; `None` if they are not to be mirrored.
    pub fn mirror(&self) -> Option<Mirror<'a>> {
        self.mirrored_endpoints().map(|endpoints| mirror(endpoints, self.slices, self.capacity))
    }

    fn mirrored_endpoints(&self) -> Option<&'a Endpoints> {
        let has_selector = self.service?.spec.selector.is_some();
        self.endpoints.filter(|endpoints| !has_selector && is_mirrored(endpoints))
    }
}

/// The writes that make the slices equal to `mirror`; without one, all slices are deleted.
pub fn plan(view: &View<'_>, mirror: Option<&Mirror<'_>>) -> Plan<SliceWrite> {
    let (Some(endpoints), Some(mirror)) = (view.endpoints, mirror) else {
        let delete = |slice: &Arc<EndpointSlice>| slices::delete(slice).why("there is nothing to mirror");
        let deletions = (!view.slices.is_empty()).then(|| Effect::each(view.slices.iter().map(delete)));
        return Plan::of(deletions);
    };
    // The garbage collector deletes the slices of Endpoints that are being deleted. It could miss new ones.
    let create = mirror.create.iter().filter(|_| !endpoints.is_deleting());
    let create = create.map(|slice| slices::create(slice).why("no slice has these ports yet"));
    let update = mirror.update.iter().map(|slice| slices::update(slice).why("the Endpoints have changed"));
    let why = "the Endpoints have none of its addresses";
    let delete = mirror.delete.iter().map(|slice| slices::delete(slice).why(why));
    let writes: Vec<_> = create.chain(update).chain(delete).collect();
    let group =
        (!writes.is_empty()).then(|| Effect::sequence(writes).stop_on(ErrorKinds::NAMESPACE_TERMINATING));
    let events = events(mirror, view.capacity).into_iter().map(Effect::from);
    Plan::of(events.chain(group.map(Effect::from)))
}

/// Events about the addresses that are not mirrored.
fn events(mirror: &Mirror<'_>, capacity: usize) -> Vec<Event> {
    let Mirror { invalid, skipped, .. } = *mirror;
    let mut events = vec![];
    if invalid > 0 {
        let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
        events.push(Event::warning("InvalidIPAddress", message));
    }
    if skipped > invalid {
        let message = format!(
            "A max of {capacity} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} \
             addresses were skipped"
        );
        events.push(Event::warning("TooManyAddressesToMirror", message));
    }
    events
}
