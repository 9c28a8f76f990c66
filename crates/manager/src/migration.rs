//! Leader migration: controllers move between the kube-controller-manager and the cloud-controller-manager under a second lease,
//! which both compete for.

use flyball_client::{Fence, FenceClock};
use flyball_election::{Elector, Settings};
use flyball_runtime::{Clock, Metrics, config::Generic};

use crate::{clients::Clients, prepare::Prepared, table::Controller};

/// The elector for the second lease, and the fence of the writes under it; `None` without a migration.
pub(crate) fn elector(
    generic: &Generic,
    settings: Settings,
    clients: &Clients,
    clock: Clock,
    metrics: &Metrics,
) -> Option<(Elector, Fence)> {
    let name = generic.leader_migration.leader_name.clone();
    generic.leader_migration_enabled.then(|| {
        let settings = Settings { name, ..settings };
        let fence = Fence::new(FenceClock::Boot);
        (clients.elector(settings, clock, metrics, fence.clone()), fence)
    })
}

/// The controllers under the main lease, and those under the migration's. Controllers that the migration assigns to another
/// component are in neither.
pub(crate) fn by_lease(prepared: &Prepared) -> (Vec<&'static Controller>, Vec<&'static Controller>) {
    let generic = &prepared.options.config.generic;
    let leaders = generic.leader_migration.controller_leaders.as_deref().unwrap_or_default();
    let (mut mine, mut migrated) = (vec![], vec![]);
    for controller in &prepared.controllers {
        match leaders.iter().find(|leader| leader.name == controller.name) {
            None => mine.push(*controller),
            Some(leader) if leader.component == "*" || leader.component == prepared.component.name => {
                migrated.push(*controller)
            }
            Some(leader) => {
                tracing::info!(
                    controller = controller.name,
                    leader = leader.component,
                    "the leader migration assigns this controller to another component"
                );
            }
        }
    }
    (mine, migrated)
}
