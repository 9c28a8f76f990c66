//! Hints that allocate a Service's endpoints to zones in proportion to the CPUs of their nodes, as long as no endpoint gets
//! more than a fifth above its fair load. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use flyball_api::topology::ZONE;
use flyball_api::{EndpointSlice, Node};
use smol_str::SmolStr;

use super::hints::{for_zone, is_ready};
use super::packing::Changes;

/// How far above its fair load an endpoint may be.
const OVERLOAD: f64 = 0.2;

/// Labels of nodes that are not counted.
const EXCLUDED: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// Each zone's part of all CPUs: at least two zones, or none until the first node is seen.
pub type Ratios = BTreeMap<SmolStr, f64>;

/// How many endpoints are hinted to each zone.
pub type Allocated = BTreeMap<SmolStr, usize>;

/// Why a Service gets no hints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disabled {
    /// The Service no longer requests them.
    ByUser,
    /// A node does not state its CPUs or its zone, or there is only one zone.
    NodeInfo,
    NoNodes,
    FewEndpoints(usize, usize),
    /// Not enough endpoints for each zone.
    Overload(usize, usize),
    /// An endpoint without a zone.
    NoZone,
    NoHints,
}

impl fmt::Display for Disabled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disabled::ByUser => f.write_str("Topology Aware Hints has been disabled"),
            Disabled::NodeInfo => f.write_str(
                "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes",
            ),
            // Upstream's message, though no node was seen.
            Disabled::NoNodes => f.write_str("Nodes only ready in one zone"),
            Disabled::FewEndpoints(endpoints, zones) => {
                write!(f, "Insufficient number of endpoints ({endpoints} endpoints, {zones} zones)")
            }
            Disabled::Overload(endpoints, zones) => write!(
                f,
                "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold \
                 ({endpoints} endpoints, {zones} zones)"
            ),
            Disabled::NoZone => f.write_str("One or more endpoints do not have a zone specified"),
            Disabled::NoHints => f.write_str("No hints allocated for zones"),
        }
    }
}

/// Each zone's part of the CPUs of ready nodes; `None` if a node does not state enough, or there is only one zone.
pub fn ratios(nodes: &[Arc<Node>]) -> Option<Ratios> {
    let mut millis: BTreeMap<SmolStr, i64> = BTreeMap::new();
    for node in nodes {
        let labels = &node.metadata.labels;
        if EXCLUDED.iter().any(|role| labels.contains_key(role)) || !node.is_ready() {
            continue;
        }
        let zone = labels.get(ZONE).filter(|zone| !zone.is_empty())?;
        let cpu = node.status.allocatable.get("cpu").filter(|cpu| !cpu.is_zero())?;
        let sum = millis.entry(zone.into()).or_default();
        *sum = sum.saturating_add(cpu.milli_value());
    }
    let total = millis.values().fold(0_i64, |sum, part| sum.saturating_add(*part));
    (millis.len() > 1 && total > 0)
        .then(|| millis.into_iter().map(|(zone, part)| (zone, part as f64 / total as f64)).collect())
}

/// Whether a zone has too few endpoints, so that the Service must be synced.
pub fn is_overloaded(allocated: &Allocated, ratios: Option<&Ratios>) -> bool {
    if allocated.is_empty() {
        return false;
    }
    let Some(ratios) = ratios.filter(|ratios| !ratios.is_empty()) else { return true };
    let total: usize = allocated.values().sum();
    ratios
        .iter()
        .any(|(zone, ratio)| allocated.get(zone).is_none_or(|count| *count < minimum(total as f64 * ratio)))
}

/// The fewest endpoints that can carry the load of `share` endpoints.
fn minimum(share: f64) -> usize {
    (share * (1.0 / (1.0 + OVERLOAD))).ceil() as usize
}

struct Allocation {
    maximum: usize,
    desired: f64,
}

fn allocations(ratios: &Ratios, endpoints: usize) -> Result<BTreeMap<&SmolStr, Allocation>, Disabled> {
    if ratios.is_empty() {
        return Err(Disabled::NoNodes);
    }
    if ratios.len() > endpoints {
        return Err(Disabled::FewEndpoints(endpoints, ratios.len()));
    }
    let least = |ratio: &f64| minimum(ratio * endpoints as f64);
    let spare = endpoints.checked_sub(ratios.values().map(least).sum());
    let spare = spare.ok_or(Disabled::Overload(endpoints, ratios.len()))?;
    let allocation = |ratio: &f64| Allocation {
        maximum: least(ratio) + spare,
        desired: (ratio * endpoints as f64).max(least(ratio) as f64),
    };
    Ok(ratios.iter().map(|(zone, ratio)| (zone, allocation(ratio))).collect())
}

/// Hints every ready endpoint to a zone, most of them to their own. Slices whose hints are still valid are not changed. On
/// `Err` some hints have been set: the caller must clear them.
pub fn assign(changes: &mut Changes<'_>, ratios: Option<&Ratios>) -> Result<Allocated, Disabled> {
    let ratios = ratios.ok_or(Disabled::NodeInfo)?;
    let ready = |slice: &EndpointSlice| slice.endpoints.iter().filter(|e| is_ready(e)).count();
    let total = changes.create.iter().chain(&changes.update).map(ready).sum::<usize>()
        + changes.unchanged.iter().map(|slice| ready(slice)).sum::<usize>();
    let allocations = allocations(ratios, total)?;

    let mut allocated = keep_valid_hints(changes, &allocations);
    for slice in changes.written() {
        for endpoint in &mut slice.endpoints {
            endpoint.hints = None;
            if is_ready(endpoint) {
                let zone = endpoint.zone.as_ref().filter(|zone| !zone.is_empty()).ok_or(Disabled::NoZone)?;
                *allocated.entry(zone.clone()).or_default() += 1;
                endpoint.hints = for_zone(zone);
            }
        }
    }
    redistribute(changes, &allocations, &mut allocated);
    if allocated.is_empty() { Err(Disabled::NoHints) } else { Ok(allocated) }
}

/// Counts the hints of slices whose hints are valid, and updates the other slices.
fn keep_valid_hints(changes: &mut Changes<'_>, allocations: &BTreeMap<&SmolStr, Allocation>) -> Allocated {
    let mut allocated = Allocated::new();
    let mut kept = vec![];
    for slice in std::mem::take(&mut changes.unchanged) {
        match hints_of(slice) {
            Some(hints)
                if hints.iter().all(|(zone, count)| {
                    let taken = allocated.get(*zone).copied().unwrap_or_default();
                    allocations.get(zone).is_some_and(|allocation| taken + count <= allocation.maximum)
                }) =>
            {
                for (zone, count) in hints {
                    *allocated.entry(zone.clone()).or_default() += count;
                }
                kept.push(slice);
            }
            _ => changes.update.push(slice.clone()),
        }
    }
    changes.unchanged = kept;
    allocated
}

/// How many hints a slice has for each zone; `None` if one of its ready endpoints has no hint.
fn hints_of(slice: &EndpointSlice) -> Option<BTreeMap<&SmolStr, usize>> {
    let mut hints = BTreeMap::new();
    for endpoint in slice.endpoints.iter().filter(|endpoint| is_ready(endpoint)) {
        let zones = &endpoint.hints.as_ref().filter(|hints| !hints.for_zones.is_empty())?.for_zones;
        for zone in zones {
            *hints.entry(&zone.name).or_default() += 1;
        }
    }
    Some(hints)
}

/// Hints endpoints of zones that have too many to zones that have too few.
fn redistribute(
    changes: &mut Changes<'_>,
    allocations: &BTreeMap<&SmolStr, Allocation>,
    allocated: &mut Allocated,
) {
    let (mut giving, mut receiving) = surplus_and_need(allocations, allocated);
    let ready =
        changes.written().flat_map(|slice| &mut slice.endpoints).filter(|endpoint| is_ready(endpoint));
    for endpoint in ready {
        let Some(zone) = &endpoint.zone else { continue };
        let Some(to_give) = giving.get_mut(zone).filter(|count| **count > 0) else { continue };
        let Some((receiver, to_receive)) = receiving.iter_mut().find(|(_, count)| **count > 0) else {
            return;
        };
        endpoint.hints = for_zone(receiver);
        *to_give -= 1;
        *to_receive -= 1;
        *allocated.entry(receiver.clone()).or_default() += 1;
        if let Some(count) = allocated.get_mut(zone) {
            *count = count.saturating_sub(1);
        }
    }
}

/// How many endpoints each zone gives, and how many each receives.
fn surplus_and_need(
    allocations: &BTreeMap<&SmolStr, Allocation>,
    allocated: &Allocated,
) -> (Allocated, Allocated) {
    let (mut surplus, mut need) = (BTreeMap::new(), BTreeMap::new());
    for (zone, allocation) in allocations {
        let excess = allocated.get(*zone).copied().unwrap_or_default() as f64 - allocation.desired;
        if excess > 0.0 {
            surplus.insert(*zone, excess);
        } else if excess < 0.0 {
            need.insert(*zone, -excess);
        }
    }
    let (mut giving, mut receiving) = (Allocated::new(), Allocated::new());
    while let (Some((giver, give)), Some((receiver, receive))) = (most(&mut surplus), most(&mut need)) {
        let is_worth_it = (*give >= 1.0 || *receive >= 1.0) && *give >= 0.5 && *receive >= 0.5;
        if !is_worth_it {
            break;
        }
        *giving.entry(giver.clone()).or_default() += 1;
        *receiving.entry(receiver.clone()).or_default() += 1;
        *give -= 1.0;
        *receive -= 1.0;
    }
    (giving, receiving)
}

/// The zone with the greatest amount; the first one of equals.
fn most<'m, 'z>(amounts: &'m mut BTreeMap<&'z SmolStr, f64>) -> Option<(&'z SmolStr, &'m mut f64)> {
    let mut most: Option<(&SmolStr, &mut f64)> = None;
    for (zone, amount) in amounts {
        if *amount > most.as_ref().map_or(0.0, |(_, held)| **held) {
            most = Some((zone, amount));
        }
    }
    most
}
