//! Kinds that are off by default: their gate must be enabled and their version served. The roles of their controllers are in
//! `bootstrap.txt`, marked with the same gates.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::json::Json;
use super::shape::format_time;
use super::simple::Simple;
use crate::registry::Subresource::{self, Status};
use crate::registry::{Builtin, Cx, NameRule, ResourceInfo, Strategy};

/// Gates that change kinds which are served by default.
const OTHERS: [&str; 5] = [
    "DRAWorkloadResourceClaims",
    "HPAScaleToZero",
    "MaxUnavailableStatefulSet",
    "TaintTolerationComparisonOperators",
    "WorkloadWithJob",
];
const KEEPS_GROUPS: &str = "scheduling.k8s.io/podgroup-protection";

/// A gate, and a kind that is served where it is enabled.
type Gated = (&'static str, Builtin);

#[rustfmt::skip]
fn all() -> Vec<Gated> {
    let (ns, cl) = (ResourceInfo::namespaced, ResourceInfo::cluster);
    let (certificates, devices, groups) = ("certificates.k8s.io", "resource.k8s.io", "scheduling.k8s.io");
    let answers = || Simple::plain().conditional().status_keeps_metadata();
    vec![
        ("ClusterTrustBundle", Builtin::new(cl(certificates, "v1beta1", "clustertrustbundles", "ClusterTrustBundle"), TrustBundle)),
        ("PodCertificateRequest", Builtin::new(ns(certificates, "v1beta1", "podcertificaterequests", "PodCertificateRequest").with(&[Status]),
            Simple::plain().conditional())),
        ("DRADeviceTaintRules", Builtin::new(cl(devices, "v1beta2", "devicetaintrules", "DeviceTaintRule").generation().with(&[Status]), TaintRule)),
        ("DRAResourcePoolStatus", Builtin::new(cl(devices, "v1alpha3", "resourcepoolstatusrequests", "ResourcePoolStatusRequest").with(&[Status]), answers())),
        ("GenericWorkload", Builtin::new(ns(groups, "v1alpha2", "podgroups", "PodGroup").with(&[Status]), PodGroup)),
        ("GenericWorkload", Builtin::new(ns(groups, "v1alpha2", "workloads", "Workload"), Simple::plain())),
        ("StorageVersionAPI", Builtin::new(cl("internal.apiserver.k8s.io", "v1alpha1", "storageversions", "StorageVersion").with(&[Status]), answers())),
        ("StorageVersionMigrator", Builtin::new(cl("storagemigration.k8s.io", "v1beta1", "storageversionmigrations", "StorageVersionMigration").with(&[Status]), answers())),
    ]
}

fn version(kind: &Builtin) -> String {
    format!("{}/{}", kind.info.group, kind.info.version)
}

/// The gates that change what this server serves.
pub fn known_gates() -> BTreeSet<String> {
    all().iter().map(|(gate, _)| (*gate).to_owned()).chain(OTHERS.map(str::to_owned)).collect()
}

/// The versions that are not served by default.
pub fn known_versions() -> BTreeSet<String> {
    all().iter().map(|(_, kind)| version(kind)).collect()
}

/// The kinds that are served with these gates and these versions (as in `resource.k8s.io/v1beta2`) enabled; an error for an
/// unknown gate or version.
pub fn gated(gates: &BTreeSet<String>, versions: &BTreeSet<String>) -> Result<Vec<Builtin>, String> {
    for (what, wanted, known) in
        [("gate", gates, known_gates()), ("version of an API", versions, known_versions())]
    {
        if let Some(unknown) = wanted.difference(&known).next() {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            return Err(format!("no {what} is called {unknown:?}; known are {}", known.join(", ")));
        }
    }
    let is_served = |(gate, kind): &Gated| gates.contains(*gate) && versions.contains(&version(kind));
    Ok(all().into_iter().filter(is_served).map(|(_, kind)| kind).collect())
}

/// `certificates.k8s.io/v1beta1` ClusterTrustBundle.
struct TrustBundle;
/// `resource.k8s.io/v1beta2` DeviceTaintRule.
struct TaintRule;
/// `scheduling.k8s.io/v1alpha2` PodGroup.
struct PodGroup;

impl Strategy for TrustBundle {
    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn field_labels(&self) -> &'static [&'static str] {
        &["spec.signerName"]
    }

    fn field_values(&self, bundle: &Value) -> Vec<String> {
        vec![bundle.text("spec.signerName").to_owned()]
    }
}

impl Strategy for TaintRule {
    fn prepare_create(&self, cx: &Cx<'_>, rule: &mut Value) {
        stamp(cx, rule);
    }

    fn prepare_update(&self, cx: &Cx<'_>, new: &mut Value, old: &Value) {
        // The time changes with the effect: tolerationSeconds count from it.
        let is_same = |path: &str| new.at(path) == old.at(path);
        if !is_same("spec.taint.effect") && is_same("spec.taint.timeAdded") {
            new.put("spec.taint.timeAdded", format_time(cx.now, 0));
        }
        stamp(cx, new);
    }

    fn prepare_subresource_update(&self, _: &Cx<'_>, sub: Subresource, new: &mut Value, old: &Value) {
        if sub == Status {
            super::restore_user_metadata(new, old);
        }
    }
}

/// Sets the time of a taint without one.
fn stamp(cx: &Cx<'_>, rule: &mut Value) {
    if rule.at("spec.taint").is_object() {
        rule.or_put("spec.taint.timeAdded", format_time(cx.now, 0));
    }
}

impl Strategy for PodGroup {
    fn prepare_create(&self, _: &Cx<'_>, group: &mut Value) {
        group.or_put("metadata.finalizers", json!([]));
        if let Some(Value::Array(finalizers)) = group.at_mut("metadata.finalizers")
            && !finalizers.iter().any(|present| present == KEEPS_GROUPS)
        {
            finalizers.push(KEEPS_GROUPS.into());
        }
    }

    fn prepare_subresource_update(&self, _: &Cx<'_>, sub: Subresource, new: &mut Value, old: &Value) {
        if sub == Status {
            super::restore_user_metadata(new, old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_served_where_its_gate_and_its_version_are_on() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        #[rustfmt::skip]
        let table: [(&[&str], &[&str], &str); 6] = [
            (&[],                              &[],                                              ""),
            (&["DRADeviceTaintRules"],         &[],                                              ""),
            (&[],                              &["resource.k8s.io/v1beta2"],                     ""),
            (&["DRADeviceTaintRules"],         &["resource.k8s.io/v1beta2"],                     "devicetaintrules"),
            (&["GenericWorkload"],             &["scheduling.k8s.io/v1alpha2"],                  "podgroups workloads"),
            (&["MaxUnavailableStatefulSet"],   &["certificates.k8s.io/v1beta1"],                 ""),
        ];
        for (gates, versions, want) in table {
            let served = gated(&set(gates), &set(versions)).unwrap();
            let names: Vec<&str> = served.iter().map(|kind| kind.info.plural).collect();
            assert_eq!(names.join(" "), want, "{gates:?} {versions:?}");
        }
        let error = gated(&set(&["NoSuchGate"]), &set(&[])).err().unwrap();
        assert!(error.contains("NoSuchGate") && error.contains("GenericWorkload"), "{error}");
        let error = gated(&set(&[]), &set(&["apps/v1beta1"])).err().unwrap();
        assert!(error.contains("apps/v1beta1") && error.contains("resource.k8s.io/v1beta2"), "{error}");
    }
}
