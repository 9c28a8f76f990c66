//! What must hold for every plan; for tables, properties and the simulator.

use std::collections::BTreeSet;

use flyball_api::ResourceClaim;
use flyball_api::resource_claim::ConsumerReference;
use flyball_runtime::{Plan, all_hold};
use serde_json::Value;

use super::consumer::Consumer;
use super::plan::{Creation, ENTRY};
use super::release::Release;

/// Checks which ResourceClaims are created for a consumer.
///
/// # Errors
/// The invariants that are broken, in words.
pub fn check_creations(consumer: &Consumer<'_>, plan: &Plan<Creation>) -> Result<(), String> {
    let (mut broken, mut seen) = (vec![], BTreeSet::new());
    for write in plan.writes() {
        let (entry, body) = (&write.tag.entry, write.body().unwrap_or_default());
        let meta = &body["metadata"];
        let owners = meta["ownerReferences"].as_array();
        let is_owner = |owner: &Value| {
            consumer.meta.uid.with_str(|uid| owner["uid"] == uid) && owner["controller"] == true
        };
        let rules = [
            ("it is for no entry of its consumer", consumer.entries.iter().any(|known| known.name == *entry)),
            ("it is the second for its entry", seen.insert(entry)),
            ("it does not name its entry", meta["annotations"][ENTRY] == entry.as_str()),
            ("its consumer does not own it", owners.is_some_and(|owners| owners.iter().any(is_owner))),
            ("it is in another namespace", write.key.namespace == consumer.meta.namespace),
        ];
        let not_held = rules.into_iter().filter(|(_, holds)| !holds);
        broken.extend(
            not_held.map(|(why, _)| format!("a ResourceClaim for {entry} is created although {why}")),
        );
    }
    all_hold(broken)
}

/// Checks what is done with a ResourceClaim of which these consumers remain.
///
/// # Errors
/// The invariants that are broken, in words.
pub fn check_release(
    claim: &ResourceClaim,
    remaining: &[ConsumerReference],
    release: &Release,
) -> Result<(), String> {
    let status = release.status.as_ref().unwrap_or(&claim.status);
    let is_in_use = !remaining.is_empty();
    let rules = [
        ("consumers that remain keep their reservation, and no others", status.reserved_for == remaining),
        ("devices in use stay allocated", !is_in_use || status.allocation == claim.status.allocation),
        ("a ResourceClaim in use is not deleted", !is_in_use || !release.delete),
        (
            "the finalizer stays while devices are allocated",
            !release.remove_finalizer || status.allocation.is_none(),
        ),
        ("nothing is allocated here", claim.status.allocation.is_some() || status.allocation.is_none()),
    ];
    let broken = rules.into_iter().filter(|(_, holds)| !holds);
    all_hold(broken.map(|(rule, _)| format!("{rule}: {release:?}")).collect())
}
