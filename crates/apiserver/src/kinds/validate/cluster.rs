//! Nodes, leases, runtime classes and devices.

use serde_json::{Value, json};

use super::{At, Faults, cidr, go_struct, names, quoting};
use crate::invalid::{Cause, Fault};
use crate::kinds::json::Json;

pub(in crate::kinds) fn node(object: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    taints(&mut faults, &spec);
    for range in spec.items("podCIDRs") {
        range.must_be(&mut faults, "", cidr);
    }
    if spec.value.items("podCIDRs").is_empty() {
        let text = spec.text("podCIDR");
        if !text.is_empty() {
            faults.extend(cidr(text).iter().map(|d| Cause::invalid(spec.path("podCIDRs[0]"), text, d)));
        }
    }
    faults
}

/// Upstream reports taints under `metadata`, although they are in the spec.
fn taints(faults: &mut Faults, spec: &At<'_>) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (at, taint) in spec.items("taints").enumerate() {
        let taint = At { value: taint.value, path: format!("metadata.taints[{at}]") };
        taint.must_be(faults, "key", names::qualified_name);
        taint.may_be(faults, "value", names::label_value);
        match taint.text("effect") {
            "" => faults.push(Cause::required(taint.path("effect"), "")),
            _ => taint.one_of(faults, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"]),
        }
        let key = (taint.text("key"), taint.text("effect"));
        if seen.contains(&key) {
            let value = go_struct(&[
                ("Key", &json!(key.0)),
                ("Value", &json!(taint.text("value"))),
                ("Effect", &json!(key.1)),
                ("TimeAdded", taint.value.at("timeAdded")),
            ]);
            let detail = "taints must be unique by key and effect pair";
            faults.push(quoting(Fault::Duplicate, taint.path.clone(), &value, detail));
        }
        seen.push(key);
    }
}

pub(in crate::kinds) fn node_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut faults = node(new);
    if !old.items("spec.podCIDRs").is_empty() && old.at("spec.podCIDRs") != new.at("spec.podCIDRs") {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        faults.push(Cause::forbidden("spec.podCIDRs", detail));
    }
    if !old.text("spec.providerID").is_empty() && old.at("spec.providerID") != new.at("spec.providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        faults.push(Cause::forbidden("spec.providerID", detail));
    }
    faults
}

pub(in crate::kinds) fn lease(object: &Value, _: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    if let Some(seconds) = spec.int("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        faults.push(Cause::invalid(spec.path("leaseDurationSeconds"), seconds, "must be greater than 0"));
    }
    spec.non_negative(&mut faults, "leaseTransitions");
    faults
}

pub(in crate::kinds) fn runtime_class(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let root = At::root(object);
    root.must_be_named(&mut faults, "handler", names::label);
    root.labels(&mut faults, "scheduling.nodeSelector");
    if let Some(old) = old {
        root.immutable(&mut faults, old, "handler");
    }
    faults
}

pub(in crate::kinds) fn resource_claim(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let root = At::root(object);
    claim_spec(&mut faults, &root.child("spec"));
    if let Some(old) = old {
        root.immutable(&mut faults, old, "spec");
    }
    faults
}

pub(in crate::kinds) fn resource_claim_template(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut faults = Vec::new();
    let root = At::root(object);
    claim_spec(&mut faults, &root.child("spec.spec"));
    if let Some(old) = old {
        root.immutable(&mut faults, old, "spec");
    }
    faults
}

fn claim_spec(faults: &mut Faults, spec: &At<'_>) {
    for request in spec.child("devices").items("requests") {
        request.must_be_named(faults, "name", names::label);
        let (exactly, several) = (request.child("exactly"), request.has("firstAvailable"));
        if exactly.value.is_object() == several {
            let detail = "exactly one of `exactly` or `firstAvailable` is required";
            if several {
                faults.push(request.invalid(detail));
            } else {
                faults.push(Cause::required(request.path.clone(), detail));
            }
            continue;
        }
        let alternatives: Vec<At<'_>> =
            if several { request.items("firstAvailable").collect() } else { vec![exactly] };
        for device in alternatives {
            device.must_be_named(faults, "deviceClassName", names::subdomain);
            device.one_of(faults, "allocationMode", &["All", "ExactCount"]);
            if let Some(count) = device.int("count").filter(|count| *count <= 0) {
                faults.push(Cause::invalid(device.path("count"), count, "must be greater than zero"));
            }
        }
    }
}

pub(in crate::kinds) fn resource_slice(object: &Value) -> Vec<Cause> {
    let mut faults = Vec::new();
    let spec = At::root(object).child("spec");
    spec.must_be_named(&mut faults, "driver", names::subdomain);
    spec.child("pool").require(&mut faults, "name");
    let places = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection", "sharedCounters"];
    let given = places.iter().filter(|field| spec.has(field)).count();
    if given == 0 {
        let detail =
            "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
        faults.push(Cause::required(spec.path.clone(), detail));
    }
    for device in spec.items("devices") {
        device.must_be_named(&mut faults, "name", names::label);
        for taint in device.items("taints") {
            taint.must_be_named(&mut faults, "key", names::qualified_name);
            taint.one_of(&mut faults, "effect", &["NoExecute", "NoSchedule", "None"]);
        }
    }
    faults
}
