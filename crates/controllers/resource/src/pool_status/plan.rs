//! The status that answers a request. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::condition::TRUE;
use flyball_api::time::format_seconds;
use flyball_api::{Object, ResourceClaim, ResourcePoolStatusRequest, ResourceSlice, Timestamp};
use flyball_runtime::{Plan, Waiting, Write};
use serde_json::{Value, json};
use smol_str::SmolStr;

pub(super) const COMPLETE: &str = "Complete";
pub(super) const FAILED: &str = "Failed";
const DEFAULT_LIMIT: i32 = 100;

/// Everything that the decision depends on.
pub struct View<'a> {
    pub request: &'a ResourcePoolStatusRequest,
    /// The slices of the driver.
    pub slices: &'a [Arc<ResourceSlice>],
    /// The ResourceClaims that devices of the driver are allocated to.
    pub claims: &'a [Arc<ResourceClaim>],
    pub now: Timestamp,
}

/// The slices of the latest generation of a pool.
#[derive(Debug, Default)]
struct Pool<'a> {
    generation: i64,
    slices: Vec<&'a ResourceSlice>,
}

impl Pool<'_> {
    fn is_complete(&self) -> bool {
        let wanted = self.slices.first().map_or(0, |slice| slice.spec.pool.resource_slice_count);
        i64::try_from(self.slices.len()).is_ok_and(|present| present >= wanted)
    }

    /// The node of its devices, if it is the same for all.
    fn node(&self) -> Option<&SmolStr> {
        let mut nodes = self.slices.iter().map(|slice| &slice.spec.node_name);
        let first = nodes.next().filter(|node| !node.is_empty())?;
        nodes.all(|node| node == first).then_some(first)
    }
}

/// Answers the request, once all slices of the pools that the answer contains are published.
pub fn plan(view: &View<'_>) -> Plan {
    let pools = pools(view.request, view.slices);
    let limit = usize::try_from(view.request.spec.limit.unwrap_or(DEFAULT_LIMIT)).unwrap_or(0);
    if let Some(pool) = pools.values().take(limit).find(|pool| !pool.is_complete()) {
        let until = "to be joined by the other ResourceSlices of its pool";
        let waiting = pool.slices.first().map(|slice| Waiting::on::<ResourceSlice>(&slice.key(), until));
        return Plan::default().waiting_for(waiting);
    }
    let why = "the request has no status yet";
    Plan::default().with_status(Write::status(view.request, &answer(view, &pools, limit)).why(why))
}

fn answer(view: &View<'_>, pools: &BTreeMap<&SmolStr, Pool<'_>>, limit: usize) -> Value {
    let View { request, now, .. } = *view;
    let allocations = allocations(&request.spec.driver, view.claims);
    let mut shown = vec![];
    for (name, pool) in pools.iter().take(limit) {
        let total: usize = pool.slices.iter().map(|slice| slice.spec.devices.len()).sum();
        let allocated = allocations.get(name).copied().unwrap_or(0);
        let mut status = json!({
            "driver": request.spec.driver,
            "poolName": name,
            "generation": pool.generation,
            "resourceSliceCount": pool.slices.len(),
            "totalDevices": total,
            "allocatedDevices": allocated,
            "availableDevices": total.saturating_sub(allocated),
            "unavailableDevices": 0,
        });
        if let Some(node) = pool.node() {
            status["nodeName"] = json!(node);
        }
        shown.push(status);
    }
    let message = format!("Calculated status for {} pools", shown.len());
    let condition = json!({
        "type": COMPLETE, "status": TRUE, "reason": "CalculationComplete", "message": message,
        "lastTransitionTime": format_seconds(now),
    });
    let mut status = json!({"poolCount": pools.len(), "conditions": [condition]});
    if !shown.is_empty() {
        status["pools"] = shown.into();
    }
    status
}

/// The pools that the request selects, by name.
fn pools<'a>(
    request: &ResourcePoolStatusRequest,
    slices: &'a [Arc<ResourceSlice>],
) -> BTreeMap<&'a SmolStr, Pool<'a>> {
    let mut pools: BTreeMap<&SmolStr, Pool<'_>> = BTreeMap::new();
    let is_selected = |slice: &&Arc<ResourceSlice>| {
        let is_named = |name: &SmolStr| name.is_empty() || *name == slice.spec.pool.name;
        slice.spec.driver == request.spec.driver && request.spec.pool_name.as_ref().is_none_or(is_named)
    };
    for slice in slices.iter().filter(is_selected) {
        let generation = slice.spec.pool.generation;
        let pool = pools.entry(&slice.spec.pool.name).or_default();
        if pool.slices.is_empty() || generation > pool.generation {
            *pool = Pool { generation, slices: vec![] };
        }
        if generation == pool.generation {
            pool.slices.push(slice);
        }
    }
    pools
}

/// How many devices of each pool of a driver are allocated to ResourceClaims.
fn allocations<'a>(driver: &str, claims: &'a [Arc<ResourceClaim>]) -> BTreeMap<&'a SmolStr, usize> {
    let mut allocations = BTreeMap::new();
    for claim in claims {
        let devices = claim.status.allocation.iter().flat_map(|allocation| &allocation.devices.results);
        for device in devices.filter(|device| device.driver == driver) {
            *allocations.entry(&device.pool).or_default() += 1;
        }
    }
    allocations
}
