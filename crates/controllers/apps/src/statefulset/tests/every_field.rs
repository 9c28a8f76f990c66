//! Every field of a template, with every value that is the default of some field: it is a change, unless it is the default
//! of that very field.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::sameness::data;
use crate::statefulset::sameness::is_same;

/// The types of the API with their fields, as printed from upstream's.
const SCHEMA: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../apiserver/src/kinds/schema.txt"));
const TEMPLATE: &str = "core/v1.PodTemplateSpec";

/// All defaults of a v1.36 server, by the type that has the field. Containers have no image here, so their pull policy has no
/// default.
#[rustfmt::skip]
const DEFAULTS: &[&str] = &[
    r#"core/v1.AzureDiskVolumeSource.cachingMode = "ReadWrite""#,
    r#"core/v1.AzureDiskVolumeSource.fsType = "ext4""#,
    r#"core/v1.AzureDiskVolumeSource.kind = "Shared""#,
    r#"core/v1.AzureDiskVolumeSource.readOnly = false"#,
    r#"core/v1.ConfigMapVolumeSource.defaultMode = 420"#,
    r#"core/v1.Container.imagePullPolicy = "IfNotPresent""#,
    r#"core/v1.Container.resources = {}"#,
    r#"core/v1.Container.terminationMessagePath = "/dev/termination-log""#,
    r#"core/v1.Container.terminationMessagePolicy = "File""#,
    r#"core/v1.ContainerPort.protocol = "TCP""#,
    r#"core/v1.DownwardAPIVolumeSource.defaultMode = 420"#,
    r#"core/v1.EphemeralContainer.imagePullPolicy = "IfNotPresent""#,
    r#"core/v1.EphemeralContainer.resources = {}"#,
    r#"core/v1.EphemeralContainer.terminationMessagePath = "/dev/termination-log""#,
    r#"core/v1.EphemeralContainer.terminationMessagePolicy = "File""#,
    r#"core/v1.FileKeySelector.optional = false"#,
    r#"core/v1.GRPCAction.service = """#,
    r#"core/v1.HTTPGetAction.path = "/""#,
    r#"core/v1.HTTPGetAction.scheme = "HTTP""#,
    r#"core/v1.HostPathVolumeSource.type = """#,
    r#"core/v1.ISCSIVolumeSource.iscsiInterface = "default""#,
    r#"core/v1.ImageVolumeSource.pullPolicy = "IfNotPresent""#,
    r#"core/v1.ObjectFieldSelector.apiVersion = "v1""#,
    r#"core/v1.PersistentVolumeClaimSpec.resources = {}"#,
    r#"core/v1.PersistentVolumeClaimSpec.volumeMode = "Filesystem""#,
    r#"core/v1.PersistentVolumeClaimTemplate.metadata = {}"#,
    r#"core/v1.PersistentVolumeClaimTemplate.spec = {}"#,
    r#"core/v1.PodSpec.dnsPolicy = "ClusterFirst""#,
    r#"core/v1.PodSpec.restartPolicy = "Always""#,
    r#"core/v1.PodSpec.schedulerName = "default-scheduler""#,
    r#"core/v1.PodSpec.securityContext = {}"#,
    r#"core/v1.PodSpec.terminationGracePeriodSeconds = 30"#,
    r#"core/v1.PodTemplateSpec.metadata = {}"#,
    r#"core/v1.PodTemplateSpec.spec = {}"#,
    r#"core/v1.Probe.failureThreshold = 3"#,
    r#"core/v1.Probe.periodSeconds = 10"#,
    r#"core/v1.Probe.successThreshold = 1"#,
    r#"core/v1.Probe.timeoutSeconds = 1"#,
    r#"core/v1.ProjectedVolumeSource.defaultMode = 420"#,
    r#"core/v1.RBDVolumeSource.keyring = "/etc/ceph/keyring""#,
    r#"core/v1.RBDVolumeSource.pool = "rbd""#,
    r#"core/v1.RBDVolumeSource.user = "admin""#,
    r#"core/v1.ScaleIOVolumeSource.fsType = "xfs""#,
    r#"core/v1.ScaleIOVolumeSource.storageMode = "ThinProvisioned""#,
    r#"core/v1.SecretVolumeSource.defaultMode = 420"#,
    r#"core/v1.ServiceAccountTokenProjection.expirationSeconds = 3600"#,
    r#"core/v1.Volume.emptyDir = {}"#,
];

/// The name and the type of a field.
type Field = (&'static str, &'static str);

fn types() -> BTreeMap<&'static str, Vec<Field>> {
    let mut types: BTreeMap<_, Vec<Field>> = BTreeMap::new();
    let mut name = "";
    for line in SCHEMA.lines() {
        match line.strip_prefix('\t') {
            None => name = line.split('\t').next().unwrap(),
            Some(field) => {
                let mut words = field.split('\t');
                let field = (words.next().unwrap(), words.next().unwrap());
                types.entry(name).or_default().extend(Some(field).filter(|(name, _)| !name.is_empty()));
            }
        }
    }
    types
}

/// The path of a field from the template, with `[]` for an item of a list.
#[derive(Clone)]
struct Place {
    way: Vec<&'static str>,
    owner: &'static str,
    field: Field,
}

/// Every field of a template, with every path.
fn places(types: &BTreeMap<&'static str, Vec<Field>>) -> Vec<Place> {
    let mut found = vec![];
    let mut open = vec![(vec![], TEMPLATE)];
    while let Some((way, owner)) = open.pop() {
        for &field in &types[owner] {
            let item = field.1.trim_start_matches("[]");
            if types.contains_key(item) {
                let list = (item != field.1).then_some("[]");
                let inside = way.iter().copied().chain([field.0]).chain(list).collect();
                open.push((inside, item));
            }
            found.push(Place { way: way.clone(), owner, field });
        }
    }
    found
}

/// `value` at a path.
fn wrap(way: &[&'static str], value: Value) -> Value {
    way.iter().rev().fold(value, |inside, step| match *step {
        "[]" => json!([inside]),
        field => json!({field: inside}),
    })
}

/// Values to try in a field of a type: every default of any field, and others.
fn values(kind: &str) -> Vec<Value> {
    let texts = || DEFAULTS.iter().filter_map(|line| serde_json::from_str(line.split_once(" = ")?.1).ok());
    let all = texts().chain([json!("Always"), json!("x"), json!(true), json!(0), json!(7)]);
    let fits = |value: &Value| match kind {
        "string" | "time" | "quantity" => value.is_string(),
        "int32" | "int64" => value.is_number(),
        "intstr" => value.is_number() || value.is_string(),
        "bool" => value.is_boolean(),
        "any" => true,
        "[]string" => false,
        kind if kind.starts_with("{}") => false,
        kind if kind.starts_with("[]") => false,
        _ => value.is_object(),
    };
    let mut fitting: Vec<Value> = all.filter(fits).collect();
    match kind {
        "[]string" => fitting.push(json!(["x"])),
        kind if kind.starts_with("[]") => fitting.push(json!([{}])),
        kind if kind.starts_with("{}") => fitting.push(json!({"x": "y"})),
        _ => {}
    }
    fitting
}

#[test]
fn an_edit_is_a_change_unless_it_sets_the_default_of_that_field() {
    let types = types();
    let places = places(&types);
    assert!(places.len() > 1_000, "{} fields", places.len());
    let mut unchanged = BTreeSet::new();
    for Place { way, owner, field: (field, kind) } in &places {
        let old = data(&wrap(way, json!({})));
        for value in values(kind) {
            if is_same(&old, &data(&wrap(way, json!({*field: value})))) {
                unchanged.insert(format!("{owner}.{field} = {value}"));
            }
        }
    }
    let wanted: BTreeSet<String> = DEFAULTS.iter().map(|line| (*line).to_owned()).collect();
    assert_eq!(unchanged, wanted);
}
