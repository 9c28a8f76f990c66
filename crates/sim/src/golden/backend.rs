//! Where a scenario runs: an API server, a controller manager that can be started and stopped, and a record of the
//! controller manager's requests.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flyball_api::{Key, ResourceVersion};
use serde_json::{Map, Value};

use super::StepError;
use super::clock::Clock;
use crate::api::{Api, Error, Resource};
use crate::audit::Entry;

/// A cluster-scoped object: the path of its group, its resource, its name.
pub type ClusterObject = (String, String, String);

/// A cluster and the controller manager under test. Used by one scenario at a time, from one task.
pub trait Backend {
    fn api(&self) -> &Arc<Api>;

    /// The time in the cluster.
    fn clock(&self) -> Clock;

    /// A namespace that no earlier scenario has used.
    fn fresh_namespace(&self) -> String {
        format!("g{:08x}", rand::random::<u32>())
    }

    /// The cluster-scoped objects that existed before any scenario.
    fn baseline(&self) -> &BTreeSet<ClusterObject>;

    /// Replaces the simulated cloud. The controller managers that are started afterwards are cloud-controller-managers.
    fn set_cloud(&mut self, cloud: &Map<String, Value>) -> Result<(), StepError>;

    /// Starts the controller manager, stopping one that runs, and waits until it watches.
    fn start_kcm(
        &mut self,
        controllers: &[String],
        flags: &[String],
    ) -> impl Future<Output = Result<(), StepError>>;

    /// Stops the controller manager, if it runs.
    fn stop_kcm(&mut self) -> impl Future<Output = ()>;

    /// How the controller manager ended by itself, if it did.
    fn kcm_ended(&mut self) -> Option<String>;

    /// The audit log since the last call.
    fn audit(&mut self) -> Vec<Entry>;

    /// Waits until the controller manager has seen an object as of `version`. Without faults this takes milliseconds, and this
    /// does not wait. Where every watch has its own delay, the object that was created first might be seen last, and a
    /// controller may then correctly reach another state.
    fn seen(&self, _resource: &Resource, _version: ResourceVersion) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// The same for an object that is gone from the server: one that its controller still believes to exist may get new dependents.
    fn lost_sight(&self, _resource: &Resource, _key: &Key) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// Waits, at most this long, until no key of the controller manager waits for a cache, or for its next attempt after a panic.
    /// Returns whether it waited.
    fn idle(&self, _within: Duration) -> impl Future<Output = bool> {
        std::future::ready(false)
    }

    /// Waits until the controller manager has noticed that the server was restored. Before that it may report what is gone, on
    /// which no step should rely. Returns whether it waited: whether there was a restore since the last call.
    fn restore_noticed(&self) -> impl Future<Output = bool> {
        std::future::ready(false)
    }

    /// Whether expected events may be missing.
    fn may_lose_events(&self) -> bool {
        false
    }

    /// Checks what is not in a snapshot, at each snapshot.
    fn inspect(&self) -> impl Future<Output = Result<(), StepError>> {
        std::future::ready(Ok(()))
    }

    /// Removes what the scenario left. `tracked` are the paths of objects outside of the scenario's namespace.
    fn clean(&mut self, tracked: &[String]) -> impl Future<Output = Result<(), Error>>;
}

/// Writes the file of a simulated cloud. It is renamed into place, so that a reader never sees half of it.
pub(super) fn write_cloud(file: &Path, cloud: &Map<String, Value>) -> Result<(), StepError> {
    let new = file.with_extension("new");
    let text = Value::Object(cloud.clone()).to_string();
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, file));
    written.map_err(|e| StepError::failed(format!("write {}: {e}", file.display())))
}

/// Kinds of which every cluster has objects of its own, or that the server manages by itself.
const NOT_OURS: [&str; 7] = [
    "componentstatuses",
    "apiservices",
    "ipaddresses",
    "namespaces",
    "flowschemas",
    "prioritylevelconfigurations",
    "leasecandidates",
];

/// All cluster-scoped objects that a scenario may have created.
pub(super) async fn cluster_objects(api: &Api) -> Result<Vec<(ClusterObject, Value)>, Error> {
    let mut out = Vec::new();
    for resource in api.preferred() {
        let ours = !NOT_OURS.contains(&resource.name.as_str()) && resource.allows("delete");
        let core_namespaces = resource.name == "namespaces" && resource.group.is_empty();
        if resource.namespaced || !(ours || core_namespaces) {
            continue;
        }
        for object in api.list(&resource, None, None).await? {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            out.push(((resource.path.clone(), resource.name.clone(), name), object));
        }
    }
    Ok(out)
}
