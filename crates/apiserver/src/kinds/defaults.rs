//! Default values. They belong to types: a probe gets its defaults wherever a probe occurs. Constant defaults are one table;
//! defaults that depend on other fields are functions in the files of their families. A parent gets its defaults before its
//! children.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::quantity::Quantity;
use super::schema::{self, Presence, Schema, Shape, Type, TypeId};
use super::{apps, autoscaling, batch, extension, network, pod, service, storage, various};

/// Sets the defaults of an object of a built-in kind; other objects are not changed.
pub fn apply(object: &mut Value) {
    let schema = schema::builtin();
    let of = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or("");
    if let Some(kind) = schema.kind(of("apiVersion"), of("kind")) {
        complete(schema, kind, object);
    }
}

/// Sets the defaults of a value of any type of the schema.
pub(crate) fn complete(schema: &Schema, kind: &Type, value: &mut Value) {
    let rule = &RULES[kind.id.index()];
    if !rule.concerned {
        return;
    }
    if let Value::Object(map) = value {
        for (field, constant) in &rule.constants {
            let pointer = kind.field(field).is_some_and(|f| f.presence == Presence::Optional);
            if map.get(*field).is_none_or(|value| is_unset(value, pointer)) {
                map.insert((*field).to_owned(), constant.clone());
            }
        }
    }
    if let Some(computed) = rule.computed {
        computed(value);
    }
    let Value::Object(map) = value else { return };
    for field in &kind.fields {
        if let Some(value) = map.get_mut(field.name) {
            descend(schema, kind, &field.shape, value);
        }
    }
}

fn descend(schema: &Schema, owner: &Type, shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Object(id), value @ Value::Object(_)) => complete(schema, schema.get(*id), value),
        (Shape::List(item), Value::Array(items)) => {
            items.iter_mut().for_each(|value| descend(schema, owner, item, value));
        }
        (Shape::Map(item), Value::Object(map)) if **item == Shape::Quantity && has_resource_lists(owner) => {
            map.values_mut().for_each(round_up);
        }
        (Shape::Map(item), Value::Object(map)) => {
            map.values_mut().for_each(|value| descend(schema, owner, item, value));
        }
        _ => {}
    }
}

/// The quantities in maps of core types are resource lists; those of devices are not.
fn has_resource_lists(owner: &Type) -> bool {
    owner.name.starts_with("core/v1.")
}

/// Whether a field is unset: absent, or empty and not a pointer in Go (shaping makes absent values empty).
fn is_unset(value: &Value, pointer: bool) -> bool {
    value.is_null() || !pointer && (value == "" || value == 0)
}

/// Rounds up to thousandths, the finest unit in resource lists.
fn round_up(value: &mut Value) {
    if let Some(quantity) = value.as_str().and_then(Quantity::parse) {
        let rounded = quantity.round_up_to_milli();
        if rounded != quantity {
            *value = Value::from(rounded.canonical());
        }
    }
}

/// Sets defaults that depend on other fields of the value.
type Compute = fn(&mut Value);

/// The defaults of one type.
#[derive(Default)]
struct Rule {
    constants: Vec<(&'static str, Value)>,
    computed: Option<Compute>,
    /// Whether this type or a type in it has defaults.
    concerned: bool,
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let schema = schema::builtin();
    let mut rules: Vec<Rule> = Vec::new();
    rules.resize_with(schema.len(), Rule::default);
    for kind in schema.types() {
        let rule = &mut rules[kind.id.index()];
        for field in &kind.fields {
            if let Some(value) = field.default.and_then(|json| serde_json::from_str(json).ok()) {
                rule.constants.push((field.name, value));
            }
        }
        for (_, fields) in CONSTANTS.iter().filter(|(name, _)| *name == kind.name) {
            rule.constants.extend(fields.iter().map(|(field, constant)| (*field, constant.value())));
        }
        rule.computed = COMPUTED.iter().find(|(name, _)| *name == kind.name).map(|(_, function)| *function);
    }
    let concerned = |rules: &[Rule], id: TypeId| {
        let rule = &rules[id.index()];
        let kind = schema.get(id);
        rule.computed.is_some()
            || !rule.constants.is_empty()
            || kind.fields.iter().any(|f| match innermost(&f.shape) {
                Shape::Object(inner) => rules[inner.index()].concerned,
                Shape::Quantity => has_resource_lists(kind),
                _ => false,
            })
    };
    // Types may be recursive: repeat until nothing changes.
    loop {
        let newly: Vec<TypeId> = schema
            .types()
            .map(|t| t.id)
            .filter(|id| !rules[id.index()].concerned && concerned(&rules, *id))
            .collect();
        if newly.is_empty() {
            return rules;
        }
        newly.iter().for_each(|id| rules[id.index()].concerned = true);
    }
});

fn innermost(shape: &Shape) -> &Shape {
    match shape {
        Shape::List(inner) | Shape::Map(inner) => innermost(inner),
        shape => shape,
    }
}

/// A constant default.
#[derive(Clone, Copy)]
enum Constant {
    Text(&'static str),
    Int(i64),
    Bool(bool),
    Empty,
}

impl Constant {
    fn value(self) -> Value {
        match self {
            Constant::Text(text) => Value::from(text),
            Constant::Int(number) => Value::from(number),
            Constant::Bool(flag) => Value::from(flag),
            Constant::Empty => Value::Object(Map::new()),
        }
    }
}

use Constant::{Bool, Empty, Int, Text};

type Constants = &'static [(&'static str, Constant)];

const MODE_0644: Constants = &[("defaultMode", Int(0o644))];
const WEBHOOK: Constants = &[
    ("failurePolicy", Text("Fail")),
    ("matchPolicy", Text("Equivalent")),
    ("namespaceSelector", Empty),
    ("objectSelector", Empty),
    ("timeoutSeconds", Int(10)),
];

#[rustfmt::skip]
const CONSTANTS: &[(&str, Constants)] = &[
    ("core/v1.PodSpec", &[
        ("dnsPolicy", Text("ClusterFirst")), ("restartPolicy", Text("Always")), ("securityContext", Empty),
        ("terminationGracePeriodSeconds", Int(30)), ("schedulerName", Text("default-scheduler")),
    ]),
    ("core/v1.Probe", &[
        ("timeoutSeconds", Int(1)), ("periodSeconds", Int(10)), ("successThreshold", Int(1)), ("failureThreshold", Int(3)),
    ]),
    ("core/v1.GRPCAction", &[("service", Text(""))]),
    ("core/v1.HTTPGetAction", &[("path", Text("/")), ("scheme", Text("HTTP"))]),
    ("core/v1.SecretVolumeSource", MODE_0644),
    ("core/v1.ConfigMapVolumeSource", MODE_0644),
    ("core/v1.DownwardAPIVolumeSource", MODE_0644),
    ("core/v1.ProjectedVolumeSource", MODE_0644),
    ("core/v1.ServiceAccountTokenProjection", &[("expirationSeconds", Int(3600))]),
    ("core/v1.HostPathVolumeSource", &[("type", Text(""))]),
    ("core/v1.AzureDiskVolumeSource", &[("readOnly", Bool(false))]),
    ("core/v1.ObjectFieldSelector", &[("apiVersion", Text("v1"))]),
    ("core/v1.Secret", &[("type", Text("Opaque"))]),
    ("core/v1.EndpointPort", &[("protocol", Text("TCP"))]),
    ("core/v1.NamespaceStatus", &[("phase", Text("Active"))]),
    ("core/v1.PersistentVolumeStatus", &[("phase", Text("Pending"))]),
    ("core/v1.PersistentVolumeClaimSpec", &[("volumeMode", Text("Filesystem"))]),
    ("core/v1.PersistentVolumeClaimStatus", &[("phase", Text("Pending"))]),
    ("apps/v1.DeploymentSpec", &[
        ("replicas", Int(1)), ("revisionHistoryLimit", Int(10)), ("progressDeadlineSeconds", Int(600)),
    ]),
    ("apps/v1.ReplicaSetSpec", &[("replicas", Int(1))]),
    ("apps/v1.DaemonSetSpec", &[("revisionHistoryLimit", Int(10))]),
    ("apps/v1.StatefulSetSpec", &[
        ("podManagementPolicy", Text("OrderedReady")), ("persistentVolumeClaimRetentionPolicy", Empty),
        ("replicas", Int(1)), ("revisionHistoryLimit", Int(10)),
    ]),
    ("apps/v1.StatefulSetPersistentVolumeClaimRetentionPolicy", &[
        ("whenDeleted", Text("Retain")), ("whenScaled", Text("Retain")),
    ]),
    ("batch/v1.CronJobSpec", &[
        ("concurrencyPolicy", Text("Allow")), ("suspend", Bool(false)), ("successfulJobsHistoryLimit", Int(3)),
        ("failedJobsHistoryLimit", Int(1)),
    ]),
    ("batch/v1.PodFailurePolicyOnPodConditionsPattern", &[("status", Text("True"))]),
    ("autoscaling/v1.HorizontalPodAutoscalerSpec", &[("minReplicas", Int(1))]),
    ("autoscaling/v2.HorizontalPodAutoscalerSpec", &[("minReplicas", Int(1))]),
    ("discovery/v1.EndpointPort", &[("name", Text("")), ("protocol", Text("TCP"))]),
    ("storage/v1.StorageClass", &[("reclaimPolicy", Text("Delete")), ("volumeBindingMode", Text("Immediate"))]),
    ("storage/v1.CSIDriverSpec", &[
        ("attachRequired", Bool(true)), ("podInfoOnMount", Bool(false)), ("storageCapacity", Bool(false)),
        ("fsGroupPolicy", Text("ReadWriteOnceWithFSType")), ("requiresRepublish", Bool(false)),
        ("seLinuxMount", Bool(false)),
    ]),
    ("networking/v1.NetworkPolicyPort", &[("protocol", Text("TCP"))]),
    ("networking/v1.IngressClassParametersReference", &[("scope", Text("Cluster"))]),
    ("rbac/v1.RoleRef", &[("apiGroup", Text("rbac.authorization.k8s.io"))]),
    ("admissionregistration/v1.ValidatingWebhook", WEBHOOK),
    ("admissionregistration/v1.MutatingWebhook", WEBHOOK),
    ("admissionregistration/v1.MutatingWebhook", &[("reinvocationPolicy", Text("Never"))]),
    ("admissionregistration/v1.RuleWithOperations", &[("scope", Text("*"))]),
    ("admissionregistration/v1.NamedRuleWithOperations", &[("scope", Text("*"))]),
    ("admissionregistration/v1.ServiceReference", &[("port", Int(443))]),
    ("admissionregistration/v1.ValidatingAdmissionPolicySpec", &[("failurePolicy", Text("Fail"))]),
    ("admissionregistration/v1.MutatingAdmissionPolicySpec", &[("failurePolicy", Text("Fail"))]),
    ("admissionregistration/v1.MatchResources", &[
        ("matchPolicy", Text("Equivalent")), ("namespaceSelector", Empty), ("objectSelector", Empty),
    ]),
    ("apiextensions/v1.ServiceReference", &[("port", Int(443))]),
    ("apiregistration/v1.ServiceReference", &[("port", Int(443))]),
    ("scheduling/v1.PriorityClass", &[("preemptionPolicy", Text("PreemptLowerPriority"))]),
    ("flowcontrol/v1.FlowSchemaSpec", &[("matchingPrecedence", Int(1000))]),
    ("flowcontrol/v1.ExemptPriorityLevelConfiguration", &[("nominalConcurrencyShares", Int(0)), ("lendablePercent", Int(0))]),
    ("flowcontrol/v1.LimitedPriorityLevelConfiguration", &[("nominalConcurrencyShares", Int(30)), ("lendablePercent", Int(0))]),
    ("flowcontrol/v1.QueuingConfiguration", &[("handSize", Int(8)), ("queues", Int(64)), ("queueLengthLimit", Int(50))]),
    ("authentication/v1.TokenRequestSpec", &[("expirationSeconds", Int(3600))]),
];

#[rustfmt::skip]
const COMPUTED: &[(&str, Compute)] = &[
    ("core/v1.Pod", pod::default_pod),
    ("core/v1.Container", pod::default_container),
    ("core/v1.EphemeralContainer", pod::default_container),
    ("core/v1.PodSpec", pod::default_spec),
    ("core/v1.PodStatus", pod::default_status),
    ("core/v1.Volume", pod::default_volume),
    ("core/v1.ReplicationController", apps::default_replication_controller),
    ("core/v1.Service", service::default_service),
    ("core/v1.Namespace", various::default_namespace),
    ("core/v1.NodeStatus", various::default_node_status),
    ("core/v1.LimitRangeItem", various::default_limit_range_item),
    ("apps/v1.DeploymentSpec", apps::default_deployment_spec),
    ("apps/v1.DaemonSetSpec", apps::default_daemon_set_spec),
    ("apps/v1.StatefulSetSpec", apps::default_stateful_set_spec),
    ("batch/v1.Job", batch::default_job),
    ("autoscaling/v2.HorizontalPodAutoscalerSpec", autoscaling::default_spec),
    ("networking/v1.NetworkPolicySpec", network::default_network_policy_spec),
    ("rbac/v1.Subject", various::default_subject),
    ("resource/v1.ExactDeviceRequest", various::default_device_request),
    ("resource/v1.DeviceSubRequest", various::default_device_request),
    ("core/v1.PersistentVolume", storage::default_volume),
    ("storage/v1.CSIDriverSpec", storage::default_csi_driver_spec),
    ("apiextensions/v1.CustomResourceDefinition", extension::default_definition),
];
