//! Deployments, replica sets, daemon sets, stateful sets and replication controllers: defaults, when the
//! generation increases, and which fields a write to the status may change.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::json::Json;
use super::pod;
use super::print;
use super::validate;
use crate::invalid::Cause;
use crate::registry::{Column, Cx, Propagation, Strategy, Subresource};

/// `apps/v1` Deployment.
pub(super) struct Deployment;
/// `apps/v1` ReplicaSet.
pub(super) struct ReplicaSet;
/// `apps/v1` DaemonSet.
pub(super) struct DaemonSet;
/// `apps/v1` StatefulSet.
pub(super) struct StatefulSet;
/// `v1` ReplicationController.
pub(super) struct ReplicationController;

/// Sets the missing bound of a rolling update; other strategies have none.
pub(super) fn default_deployment_spec(spec: &mut Value) {
    spec.or_put("strategy.type", "RollingUpdate");
    if spec.text("strategy.type") == "RollingUpdate" {
        spec.or_put("strategy.rollingUpdate.maxUnavailable", "25%");
        spec.or_put("strategy.rollingUpdate.maxSurge", "25%");
    }
}

/// One pod at a time, and no surge.
pub(super) fn default_daemon_set_spec(spec: &mut Value) {
    spec.or_put("updateStrategy.type", "RollingUpdate");
    if spec.text("updateStrategy.type") == "RollingUpdate" {
        spec.or_put("updateStrategy.rollingUpdate.maxUnavailable", 1);
        spec.or_put("updateStrategy.rollingUpdate.maxSurge", 0);
    }
}

/// Upstream: pkg/apis/apps/v1/defaults.go, SetDefaults_StatefulSet: a strategy that is named without its
/// `rollingUpdate` does not get one, while one that is not named does. Claims of the template get their kind.
pub(super) fn default_stateful_set_spec(spec: &mut Value) {
    if spec.text("updateStrategy.type").is_empty() {
        spec.put("updateStrategy.type", "RollingUpdate");
        spec.or_put("updateStrategy.rollingUpdate", json!({}));
    }
    if spec.text("updateStrategy.type") == "RollingUpdate" && spec.has("updateStrategy.rollingUpdate") {
        spec.or_put("updateStrategy.rollingUpdate.partition", 0);
    }
    for claim in spec.items_mut("volumeClaimTemplates") {
        claim.put("apiVersion", "v1");
        claim.put("kind", "PersistentVolumeClaim");
    }
}

/// Selector and labels follow the template's labels.
pub(super) fn default_replication_controller(controller: &mut Value) {
    let labels = controller.at("spec.template.metadata.labels").clone();
    if labels.is_object() {
        controller.or_put("spec.selector", labels.clone());
        controller.or_put("metadata.labels", labels);
    }
}

macro_rules! prints {
    ($printer:expr) => {
        fn columns(&self) -> &'static [Column] {
            $printer.columns
        }

        fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
            $printer.row(object, now)
        }
    };
}
pub(super) use prints;

impl Strategy for Deployment {
    /// Also if annotations changed: they are copied to the replica sets.
    fn spec_changed(&self, new: &Value, old: &Value) -> bool {
        ["spec", "metadata.annotations"].iter().any(|path| new.at(path) != old.at(path))
    }

    fn prepare_subresource_update(&self, _: &Cx<'_>, sub: Subresource, new: &mut Value, old: &Value) {
        if sub == Subresource::Status {
            match old.at("metadata.labels") {
                Value::Null => drop(new.pull("metadata.labels")),
                labels => new.put("metadata.labels", labels.clone()),
            }
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<Cause> {
        validate::apps::deployment(object)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        validate::apps::deployment_update(new, old)
    }

    fn validate_subresource_update(&self, sub: Subresource, new: &Value, _: &Value) -> Vec<Cause> {
        if sub == Subresource::Status { validate::status::counts(new) } else { Vec::new() }
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        pod::warnings(object, "spec.template.spec")
    }

    prints!(print::DEPLOYMENT);
}

impl Strategy for ReplicaSet {
    fn validate_create(&self, object: &Value) -> Vec<Cause> {
        validate::apps::replica_set(object)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        validate::apps::replica_set_update(new, old)
    }

    fn validate_subresource_update(&self, sub: Subresource, new: &Value, _: &Value) -> Vec<Cause> {
        if sub == Subresource::Status { validate::apps::replica_counts(new) } else { Vec::new() }
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        pod::warnings(object, "spec.template.spec")
    }

    prints!(print::REPLICA_SET);
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

impl Strategy for DaemonSet {
    fn prepare_create(&self, _: &Cx<'_>, object: &mut Value) {
        let given = template_generation(object).max(1);
        object.put_entry("metadata.annotations", TEMPLATE_GENERATION, given.to_string());
    }

    fn prepare_update(&self, _: &Cx<'_>, new: &mut Value, old: &Value) {
        let changed = new.at("spec.template") != old.at("spec.template");
        let generation = template_generation(old) + i64::from(changed);
        new.put_entry("metadata.annotations", TEMPLATE_GENERATION, generation.to_string());
    }

    fn validate_create(&self, object: &Value) -> Vec<Cause> {
        validate::apps::daemon_set(object)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        validate::apps::daemon_set_update(new, old)
    }

    fn validate_subresource_update(&self, sub: Subresource, new: &Value, _: &Value) -> Vec<Cause> {
        if sub == Subresource::Status { validate::status::counts(new) } else { Vec::new() }
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        pod::warnings(object, "spec.template.spec")
    }

    prints!(print::DAEMON_SET);
}

fn template_generation(object: &Value) -> i64 {
    object.entry("metadata.annotations", TEMPLATE_GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

impl Strategy for StatefulSet {
    fn validate_create(&self, object: &Value) -> Vec<Cause> {
        validate::apps::stateful_set(object)
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<Cause> {
        validate::apps::stateful_set_update(new, old)
    }

    fn validate_subresource_update(&self, sub: Subresource, new: &Value, _: &Value) -> Vec<Cause> {
        if sub == Subresource::Status { validate::status::counts(new) } else { Vec::new() }
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        pod::warnings(object, "spec.template.spec")
    }

    prints!(print::STATEFUL_SET);
}

impl Strategy for ReplicationController {
    fn default_propagation(&self) -> Propagation {
        Propagation::Orphan
    }

    fn validate_create(&self, object: &Value) -> Vec<Cause> {
        validate::apps::replication_controller(object)
    }

    fn field_labels(&self) -> &'static [&'static str] {
        &["status.replicas"]
    }

    fn field_values(&self, object: &Value) -> Vec<String> {
        vec![object.int("status.replicas").unwrap_or(0).to_string()]
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        pod::warnings(object, "spec.template.spec")
    }

    prints!(print::REPLICATION_CONTROLLER);
}
