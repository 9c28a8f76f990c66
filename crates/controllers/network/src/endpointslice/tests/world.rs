//! Slices, pods and Services from short texts.

use std::sync::Arc;

use flyball_api::endpoint_slice::{Endpoint, EndpointConditions};
use flyball_api::pod::Pod;
use flyball_api::{EndpointSlice, ObjectMeta, Service};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::super::packing::Changes;
use crate::slices::Identity;

/// An endpoint from `ADDRESS`, `ADDRESS!` (not ready) and `ADDRESS@ZONE`, optionally with a hint `>ZONE`.
pub(super) fn endpoint(text: &str) -> Endpoint {
    let (text, hint) = text.split_once('>').map_or((text, None), |(text, hint)| (text, Some(hint)));
    let (text, zone) = text.split_once('@').map_or((text, None), |(text, zone)| (text, Some(zone)));
    let (address, ready) = text.strip_suffix('!').map_or((text, true), |address| (address, false));
    Endpoint {
        addresses: [address.into()].into(),
        conditions: EndpointConditions { ready: Some(ready), ..EndpointConditions::default() },
        zone: zone.map(SmolStr::new),
        node_name: zone.map(|zone| SmolStr::new(format!("node-{zone}"))),
        hints: hint.and_then(|zone| super::super::hints::for_zone(&zone.into())),
        ..Endpoint::default()
    }
}

/// A slice from `NAME: ENDPOINT ENDPOINT …`.
pub(super) fn slice(text: &str) -> EndpointSlice {
    let (name, endpoints) = text.split_once(':').unwrap_or((text, ""));
    EndpointSlice {
        metadata: ObjectMeta { name: name.trim().into(), ..ObjectMeta::default() },
        endpoints: endpoints.split_whitespace().map(endpoint).collect(),
        ..EndpointSlice::default()
    }
}

/// Slices from lines separated by `;`.
pub(super) fn slices(text: &str) -> Vec<EndpointSlice> {
    text.split(';').map(str::trim).filter(|line| !line.is_empty()).map(slice).collect()
}

fn shown(slice: &EndpointSlice) -> String {
    let endpoint = |endpoint: &Endpoint| {
        let ready = if endpoint.conditions.ready == Some(true) { "" } else { "!" };
        let hint = endpoint.hints.iter().flat_map(|hints| &hints.for_zones);
        let node = endpoint.hints.iter().flat_map(|hints| &hints.for_nodes);
        let hint =
            hint.map(|zone| format!(">{}", zone.name)).chain(node.map(|node| format!(">{}", node.name)));
        format!("{}{ready}{}", endpoint.addresses.join("+"), hint.collect::<String>())
    };
    slice.endpoints.iter().map(endpoint).collect::<Vec<_>>().join(" ")
}

/// The changes: `create ENDPOINTS; update NAME: ENDPOINTS; delete NAME`.
pub(super) fn described(changes: &Changes<'_>) -> String {
    let create = changes.create.iter().map(|slice| format!("create {}", shown(slice)));
    let update =
        changes.update.iter().map(|slice| format!("update {}: {}", slice.metadata.name, shown(slice)));
    let delete = changes.delete.iter().map(|slice| format!("delete {}", slice.metadata.name));
    create.chain(update).chain(delete).map(|line| line.trim().to_owned()).collect::<Vec<_>>().join("; ")
}

/// The slices after these changes; new ones are named by their position.
pub(super) fn applied(changes: &Changes<'_>, round: usize) -> Vec<Arc<EndpointSlice>> {
    let mut after: Vec<EndpointSlice> = changes.unchanged.iter().map(|slice| (*slice).clone()).collect();
    after.extend(changes.update.iter().cloned());
    for (at, slice) in changes.create.iter().enumerate() {
        let mut slice = slice.clone();
        slice.metadata.name = format!("{}{round}-{at}", slice.metadata.generate_name).into();
        after.push(slice);
    }
    after.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    after.into_iter().map(Arc::new).collect()
}

/// The endpoints to publish.
pub(super) fn desired(text: &str) -> super::super::packing::Desired {
    text.split_whitespace().map(endpoint).map(|endpoint| (Identity::of(&endpoint), endpoint)).collect()
}

/// A Service `web` that selects `app=web`, with `spec` over the defaults.
pub(super) fn service(spec: Value) -> Service {
    let mut whole = json!({
        "selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"],
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
    });
    if let (Value::Object(whole), Value::Object(spec)) = (&mut whole, spec) {
        whole.extend(spec);
    }
    let metadata = json!({"name": "web", "namespace": "ns", "uid": "0b0f3a52-93ab-4c1e-8d0f-0123456789ab"});
    serde_json::from_value(json!({"metadata": metadata, "spec": whole})).unwrap()
}

/// A pod from `NAME`, with marks after it: `!` not ready, `-` terminating, `?` without an address, `.` finished,
/// `*` on a node that does not exist.
pub(super) fn pod(text: &str) -> Pod {
    let name = text.trim_end_matches(['!', '-', '?', '.', '*']);
    let has = |mark: char| text.contains(mark);
    let number = name.bytes().fold(0_u32, |sum, byte| sum * 31 % 251 + u32::from(byte)) % 250;
    let ip = format!("10.1.{}.{number}", name.len());
    let deletion = has('-').then_some("2026-01-01T00:00:00Z");
    let ips = if has('?') { json!([]) } else { json!([{"ip": ip}, {"ip": format!("fd00::{number}")}]) };
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns", "labels": {"app": "web"}, "deletionTimestamp": deletion},
        "spec": {"nodeName": if has('*') { "lost" } else { "node-1" }, "containers": [
            {"name": "c", "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]},
        ]},
        "status": {
            "phase": if has('.') { "Succeeded" } else { "Running" },
            "podIPs": ips,
            "conditions": [{"type": "Ready", "status": if has('!') { "False" } else { "True" }}],
        },
    }))
    .unwrap()
}
