//! The address of a service that a webhook or an aggregated API server is behind. The embedded server has no network of its own in which cluster IPs
//! work, so it goes to an endpoint of the service, as upstream does with `--enable-aggregator-routing`.

use serde_json::Value;

use crate::server::Inner;
use crate::store::{Key, ShelfId};

/// Host and port to connect to.
pub(crate) fn resolve(
    server: &Inner,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<(String, u16), String> {
    let service = server.store.get(&ShelfId::new("", "services"), &Key::new(namespace, name));
    let Some(service) = service.map(|entry| entry.value()) else {
        return Err(format!("service {name:?} not found"));
    };
    let spec = &service["spec"];
    if spec["type"] == "ExternalName" {
        return Ok((spec["externalName"].as_str().unwrap_or_default().to_owned(), port));
    }
    let ports = spec["ports"].as_array().into_iter().flatten();
    let Some(declared) = ports.into_iter().find(|declared| declared["port"] == port) else {
        return Err(format!("no service port {port} found for service {name:?}"));
    };
    let wanted = declared["name"].as_str().unwrap_or_default();
    let slices = server.store.all(&ShelfId::new("discovery.k8s.io", "endpointslices"), Some(namespace));
    let own = slices.iter().filter(|slice| {
        slice.facets.labels.iter().any(|(key, value)| key == "kubernetes.io/service-name" && value == name)
    });
    let found = own.map(|entry| entry.value()).find_map(|slice| endpoint(&slice, wanted));
    found.ok_or_else(|| format!("no endpoints available for service {name:?}"))
}

/// A ready address of a slice with the port of a name.
fn endpoint(slice: &Value, wanted: &str) -> Option<(String, u16)> {
    let mut ports = slice["ports"].as_array()?.iter();
    let port = ports.find(|port| port["name"].as_str().unwrap_or_default() == wanted)?["port"].as_u64()?;
    let mut endpoints = slice["endpoints"].as_array()?.iter();
    let ready = endpoints.find(|endpoint| endpoint["conditions"]["ready"] != false)?;
    Some((ready["addresses"][0].as_str()?.to_owned(), port.try_into().ok()?))
}
