//! The answer, and for how long it is kept. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use flyball_api::condition::{self, TRUE};
use flyball_api::time::{SignedDuration, format_seconds};
use flyball_api::{ResourceClaim, ResourcePoolStatusRequest, ResourceSlice, Timestamp};
use serde_json::{Value, json};
use smol_str::SmolStr;

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";
const DEFAULT_LIMIT: i32 = 100;
const HOUR: SignedDuration = SignedDuration::from_hours(1);
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// What is known of a pool: its slices of the latest generation.
#[derive(Debug, Default)]
struct Pool<'a> {
    generation: i64,
    slices: Vec<&'a ResourceSlice>,
}

impl Pool<'_> {
    fn is_whole(&self) -> bool {
        let wanted = self.slices.first().map_or(0, |slice| slice.spec.pool.resource_slice_count);
        i64::try_from(self.slices.len()).is_ok_and(|present| present >= wanted)
    }

    /// The node that all its devices are on, if they are on one.
    fn node(&self) -> Option<&SmolStr> {
        let mut nodes = self.slices.iter().map(|slice| &slice.spec.node_name);
        let first = nodes.next().filter(|node| !node.is_empty())?;
        nodes.all(|node| node == first).then_some(first)
    }
}

/// The status that answers a request; none while a pool that it would tell of is not published in full.
pub fn answer(
    request: &ResourcePoolStatusRequest,
    slices: &[Arc<ResourceSlice>],
    claims: &[Arc<ResourceClaim>],
    now: Timestamp,
) -> Option<Value> {
    let pools = pools(request, slices);
    let taken = taken(&request.spec.driver, claims);
    let limit = usize::try_from(request.spec.limit.unwrap_or(DEFAULT_LIMIT)).unwrap_or(0);
    let mut told = vec![];
    for (name, pool) in pools.iter().take(limit) {
        if !pool.is_whole() {
            return None;
        }
        let total: usize = pool.slices.iter().map(|slice| slice.spec.devices.len()).sum();
        let allocated = taken.get(name).copied().unwrap_or(0);
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
        told.push(status);
    }
    let message = format!("Calculated status for {} pools", told.len());
    let condition = json!({
        "type": COMPLETE, "status": TRUE, "reason": "CalculationComplete", "message": message,
        "lastTransitionTime": format_seconds(now),
    });
    let mut status = json!({"poolCount": pools.len(), "conditions": [condition]});
    if !told.is_empty() {
        status["pools"] = told.into();
    }
    Some(status)
}

/// The pools that are asked about, by name.
fn pools<'a>(
    request: &ResourcePoolStatusRequest,
    slices: &'a [Arc<ResourceSlice>],
) -> BTreeMap<&'a SmolStr, Pool<'a>> {
    let mut pools: BTreeMap<&SmolStr, Pool<'_>> = BTreeMap::new();
    let asked = |slice: &&Arc<ResourceSlice>| {
        let is_named = |name: &SmolStr| name.is_empty() || *name == slice.spec.pool.name;
        slice.spec.driver == request.spec.driver && request.spec.pool_name.as_ref().is_none_or(is_named)
    };
    for slice in slices.iter().filter(asked) {
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

/// How many devices of each pool of a driver claims have.
fn taken<'a>(driver: &str, claims: &'a [Arc<ResourceClaim>]) -> BTreeMap<&'a SmolStr, usize> {
    let mut taken = BTreeMap::new();
    for claim in claims {
        let devices = claim.status.allocation.iter().flat_map(|allocation| &allocation.devices.results);
        for device in devices.filter(|device| device.driver == driver) {
            *taken.entry(&device.pool).or_default() += 1;
        }
    }
    taken
}

/// Why a request can go; none if it stays.
pub fn reason_to_delete(request: &ResourcePoolStatusRequest, now: Timestamp) -> Option<&'static str> {
    let older = |then: Option<Timestamp>, age| then.is_some_and(|then| now.duration_since(then) > age);
    let made = request.metadata.creation_timestamp;
    let Some(status) = &request.status else {
        return older(made, DAY).then_some("nobody has answered it for a day");
    };
    let told = [COMPLETE, FAILED].into_iter().find_map(|kind| condition::find(&status.conditions, kind));
    let since = told.map_or(made, |told| told.last_transition_time);
    older(since, HOUR).then_some("it was answered more than an hour ago")
}
