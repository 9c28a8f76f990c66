//! What must hold for everything that is done about a disk; for tables and properties.

use super::plan::{Force, Place, Step};

/// Checks the steps that are planned for one disk.
///
/// # Errors
/// The invariant that is broken, in words.
pub fn check(places: &[Place<'_>], steps: &[Step<'_>]) -> Result<(), String> {
    let place = |node: &str| places.iter().find(|place| place.node == node);
    let is = |node: &str, holds: fn(&Place<'_>) -> bool| place(node).is_some_and(holds);
    let is_exclusive = places.iter().filter_map(|place| place.want).any(|want| want.disk.is_exclusive);
    let brought: Vec<&str> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Attach(node) | Step::Admit(node) => Some(*node),
            _ => None,
        })
        .collect();
    let is_elsewhere = |node: &str| places.iter().any(|other| other.node != node && other.is_held());
    let detached = || {
        steps.iter().filter_map(|step| match step {
            Step::Detach(node, force) => Some((*node, *force)),
            _ => None,
        })
    };
    let rules = [
        ("nothing comes where nobody wants it", brought.iter().all(|node| is(node, |at| at.want.is_some()))),
        ("nothing comes where it is", brought.iter().all(|node| is(node, |at| !at.is_held()))),
        ("an exclusive disk comes to one node", !is_exclusive || brought.len() <= 1),
        (
            "an exclusive disk comes only when no other node has it",
            !is_exclusive || !brought.iter().any(|node| is_elsewhere(node)),
        ),
        (
            "nothing goes from where it is wanted",
            detached().all(|(node, _)| is(node, |at| at.want.is_none())),
        ),
        (
            "nothing goes while its node's status names it",
            detached().all(|(node, _)| is(node, |at| !at.is_reported)),
        ),
        (
            "nothing goes that is mounted, but from a node that is down or not well",
            detached().all(|(node, force)| match force {
                None => is(node, |at| !at.stand.is_mounted),
                Some(Force::OutOfService) => is(node, |at| at.stand.is_out_of_service),
                Some(Force::Timeout) => {
                    is(node, |at| !at.stand.is_mounted || !at.stand.is_healthy || at.stand.is_out_of_service)
                }
            }),
        ),
    ];
    rules.iter().find(|(_, holds)| !holds).map_or(Ok(()), |(rule, _)| Err(format!("{rule}: {steps:?}")))
}
