//! The port of a pod that a port of a Service refers to.

use flyball_api::IntOrString;
use flyball_api::pod::{Container, Pod, RestartPolicy};
use flyball_api::service::ServicePort;

/// The target port in a pod: a number, or the port of that name in a container or sidecar. `None` if no container has such
/// a port; the pod is then not published under that port.
pub(crate) fn target(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match &port.target_port {
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::Text(name)) => name,
        None => return Some(port.port),
    };
    let is_sidecar = |container: &&Container| container.restart_policy == Some(RestartPolicy::Always);
    let containers = pod.spec.containers.iter();
    let sidecars = pod.spec.init_containers.iter().filter(is_sidecar);
    let wanted = protocol(&port.protocol);
    let mut ports = containers.chain(sidecars).flat_map(|container| container.ports.iter());
    ports
        .find(|candidate| candidate.name == *name && protocol(&candidate.protocol) == wanted)
        .map(|candidate| candidate.container_port)
}

fn protocol(name: &str) -> &str {
    if name.is_empty() { "TCP" } else { name }
}
