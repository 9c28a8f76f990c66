//! The writes that bring the EndpointSlices of a Service up to date with its pods, and the events about them. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use flyball_api::pod::Pod;
use flyball_api::{EndpointSlice, Key, Node, Object, Service, Timestamp};
use flyball_runtime::{Effect, ErrorKinds, Event, Message, Plan, Waiting, Write};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::families::{Families, LeftOut, families, is_owned};
use super::hint_states::HintState;
use super::hints::{self, HintMode};
use super::packing::Changes;
use super::topology::{self, Disabled, Ratios};
use crate::addresses::Family;
use crate::names::TRIGGER_TIME;
use crate::slices::{self, SliceWrite};

/// The zones of existing nodes, by node name.
pub type Zones = FxHashMap<SmolStr, Option<SmolStr>>;

/// Everything that the decision depends on, borrowed from one snapshot.
pub struct View<'a> {
    pub service: &'a Service,
    /// The pods that it selects.
    pub pods: &'a [Arc<Pod>],
    /// The zones of the pods' nodes.
    pub zones: &'a Zones,
    /// The slices that this controller manages for the Service.
    pub slices: &'a [Arc<EndpointSlice>],
    /// The most endpoints in one slice.
    pub capacity: usize,
    /// The time of the change that led to this sync, for the trigger time annotation.
    pub trigger: Option<Timestamp>,
    /// Each zone's share of the CPUs; `None` if a node lacks a zone or CPUs. Only needed in [`HintMode::Auto`].
    pub ratios: Option<&'a Ratios>,
    /// The hints after the last sync.
    pub hints: &'a HintState,
    /// The hints that the Service requests.
    pub mode: HintMode,
}

/// A plan, and the data that metrics and the next sync need.
pub struct Planned<'a> {
    pub plan: Plan<SliceWrite>,
    /// The changes in each family of the Service.
    pub changes: Vec<(Family, Changes<'a>)>,
    /// The hints after this sync.
    pub hints: HintState,
}

/// Writes the slices of each address family. If one family fails, the others are still written. One event reports all
/// failures and the pods that are left out.
pub fn plan<'a>(view: &View<'a>) -> Planned<'a> {
    let Families { mut changes, outdated, left_out } = families(view);
    let mut hints = view.hints.clone();
    let mut effects: Vec<Effect<SliceWrite>> =
        left_out.iter().map(|pod| Effect::Fail(pod.to_string())).collect();
    for (family, changes) in &mut changes {
        let event = set_hints(view, *family, changes, &mut hints);
        changes.reuse_deleted(|slice| is_owned(slice, view.service));
        changes.written().for_each(|slice| set_trigger_time(slice, view.trigger));
        effects.extend(event.map(Effect::from));
        let writes = writes(view.service, changes);
        if !writes.is_empty() {
            effects.push(Effect::sequence(writes).stop_on(ErrorKinds::NAMESPACE_TERMINATING).into());
        }
    }
    for slice in outdated {
        if let Some(family) = Family::named(&slice.address_type) {
            hints.disable(family);
        }
        let why = "the Service no longer has this family";
        effects.push(delete(view.service, slice, "error deleting", why).into());
    }
    let prefix = format!("Error updating Endpoint Slices for Service {}: ", view.service.key());
    let event = Event::warning("FailedToUpdateEndpointSlices", Message::ThenError(prefix));
    let group = (!effects.is_empty()).then(|| Effect::each(effects).on_failure(event));
    Planned { plan: Plan::of(group).waiting_for(missing_nodes(&left_out)), changes, hints }
}

/// Sets the topology hints that the Service requests. Returns an event if they are enabled or disabled by this.
fn set_hints(
    view: &View<'_>,
    family: Family,
    changes: &mut Changes<'_>,
    hints: &mut HintState,
) -> Option<Event> {
    let disabled = |why: Disabled| {
        let message = format!("{why}, addressType: {}", family.as_str());
        Event::warning("TopologyAwareHintsDisabled", message)
    };
    if view.mode == HintMode::Auto {
        return match topology::assign(changes, view.ratios) {
            Ok(allocated) => hints.enable(family, allocated).then(|| {
                let message =
                    format!("Topology Aware Hints has been enabled, addressType: {}", family.as_str());
                Event::normal("TopologyAwareHintsEnabled", message)
            }),
            Err(why) => {
                hints::clear(changes);
                hints.disable(family);
                Some(disabled(why))
            }
        };
    }
    match view.mode {
        HintMode::SameZone => hints::prefer_close(changes, false),
        HintMode::SameNode => hints::prefer_close(changes, true),
        HintMode::None | HintMode::Auto => hints::clear(changes),
    }
    hints.disable(family).then(|| disabled(Disabled::ByUser))
}

fn set_trigger_time(slice: &mut EndpointSlice, trigger: Option<Timestamp>) {
    let annotations = &slice.metadata.annotations;
    slice.metadata.annotations = match trigger {
        Some(time) => annotations.with(TRIGGER_TIME, &time.to_string()),
        None => annotations.without(TRIGGER_TIME),
    };
}

/// The writes of one family.
fn writes(service: &Service, changes: &Changes<'_>) -> Vec<Write<SliceWrite>> {
    let key = service.key();
    // No slices are created for a Service that is being deleted: the garbage collector deletes its slices, and could
    // miss new ones.
    let create = changes.create.iter().filter(|_| !service.is_deleting()).map(|slice| {
        slices::create(slice)
            .why(format_args!("{} endpoints that do not fit into other slices", slice.endpoints.len()))
            .failure_prefix(format!("failed to create EndpointSlice for Service {key}: "))
    });
    let update = changes.update.iter().map(|slice| {
        let count = slice.endpoints.len();
        slices::update(slice)
            .why(format_args!("endpoints, hints or labels have changed; {count} endpoints now"))
            .failure_prefix(format!(
                "failed to update {} EndpointSlice for Service {key}: ",
                slice.metadata.name
            ))
    });
    let delete = changes
        .delete
        .iter()
        .map(|slice| delete(service, slice, "failed to delete", "it has no endpoints any more"));
    create.chain(update).chain(delete).collect()
}

/// `problem` is how the error of a failed deletion begins.
fn delete(service: &Service, slice: &EndpointSlice, problem: &str, why: &'static str) -> Write<SliceWrite> {
    let (name, key) = (&slice.metadata.name, service.key());
    let prefix = format!("{problem} {name} EndpointSlice for Service {key}: ");
    slices::delete(slice).why(why).failure_prefix(prefix)
}

fn missing_nodes(left_out: &[LeftOut<'_>]) -> Vec<Waiting> {
    let nodes: BTreeSet<&str> =
        left_out.iter().map(|left_out| left_out.pod.spec.node_name.as_str()).collect();
    nodes.into_iter().map(|node| Waiting::on::<Node>(&Key::cluster(node), "to exist")).collect()
}
