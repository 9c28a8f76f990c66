//! What must hold after every step, for tables and simulator alike.

use super::plan::{Action, READY, View, allocated};
use super::ranges::provides;

/// What is wrong with a plan; empty when nothing is.
pub fn broken(view: &View<'_>, actions: &[Action]) -> Vec<String> {
    let mut broken = vec![];
    let is_going = view.cidr.metadata.is_deleting();
    for action in actions {
        match action {
            Action::Protect if is_going => broken.push("a range that is going gets a finalizer".into()),
            Action::Say(verdict) if is_going == (*verdict == READY) => {
                broken.push(format!("a range says {:?} while going={is_going}", verdict.message));
            }
            Action::Release | Action::Wait(_) if !is_going => {
                broken.push("a range that nobody deleted is let go".into());
            }
            Action::Release => broken.extend(orphans(view)),
            _ => {}
        }
    }
    broken
}

/// Addresses that would belong to no range if this one went.
fn orphans(view: &View<'_>) -> Vec<String> {
    let others = || view.all.iter().filter(|other| other.metadata.name != view.cidr.metadata.name);
    let in_use = view.addresses.iter().filter_map(|address| allocated(address));
    let lost = in_use
        .filter(|address| provides(view.cidr, *address) && !others().any(|other| provides(other, *address)));
    lost.map(|address| format!("{address} would belong to no range")).collect()
}
