//! Warnings about pods and templates: deprecated volumes and labels, names that hide each other, fractions of bytes,
//! selectors that select nothing.

use serde_json::Value;

use crate::kinds::json::Json;
use crate::kinds::quantity::Quantity;
use crate::kinds::validate::At;

/// Volume source, its name in the warning, and the version since which it has no effect.
const VOLUMES: [(&str, &str, &str); 9] = [
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
];

/// Node label, the version since which it is deprecated, and its replacement.
const LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
];

/// The warnings about the pod spec at a path of an object.
pub(in crate::kinds) fn spec(object: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = At::root(object).child(path);
    for (label, since, instead) in LABELS {
        if spec.value.entry("nodeSelector", label).is_some() {
            let place = spec.path("nodeSelector");
            warnings.push(format!("{place}[{label}]: deprecated since {since}; use {instead:?} instead"));
        }
    }
    for volume in spec.items("volumes") {
        for (_, name, fate) in VOLUMES.iter().filter(|(field, ..)| volume.has(field)) {
            warnings.push(format!("{}: {fate}", volume.path(name)));
        }
    }
    host_aliases(&mut warnings, &spec);
    for secret in spec.items("imagePullSecrets").filter(|secret| secret.text("name").is_empty()) {
        warnings.push(format!("{}: invalid empty name \"\"", secret.path("name")));
    }
    for container in spec.items("initContainers").chain(spec.items("containers")) {
        self::container(&mut warnings, &container);
    }
    null_selectors(&mut warnings, &spec);
    warnings
}

fn host_aliases(warnings: &mut Vec<String>, spec: &At<'_>) {
    let mut seen: Vec<&str> = Vec::new();
    for alias in spec.items("hostAliases") {
        let ip = alias.text("ip");
        if seen.contains(&ip) {
            warnings.push(format!("{}: duplicate ip {ip:?}", alias.path("ip")));
        }
        seen.push(ip);
    }
}

fn container(warnings: &mut Vec<String>, container: &At<'_>) {
    for list in ["limits", "requests"] {
        for (name, amount) in container.child("resources").entries(list) {
            let bytes = matches!(name, "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
            if bytes && Quantity::parse(amount.text("")).is_some_and(|quantity| !quantity.is_whole()) {
                let (place, text) = (&amount.path, amount.text(""));
                warnings
                    .push(format!("{place}: fractional byte value {text:?} is invalid, must be an integer"));
            }
        }
    }
    let mut names: Vec<&str> = Vec::new();
    for variable in container.items("env") {
        let name = variable.text("name");
        if names.contains(&name) && !variable.text("value").contains(&format!("$({name})")) {
            let place = &variable.path;
            warnings.push(format!(
                "{place}: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
        names.push(name);
    }
    let mut ports: Vec<(String, (i64, &str))> = Vec::new();
    for port in container.items("ports") {
        let key = (port.int("containerPort").unwrap_or(0), port.text("protocol"));
        if let Some((first, _)) = ports.iter().find(|(_, taken)| *taken == key) {
            warnings.push(format!("{}: duplicate port definition with {first}", port.path));
        }
        ports.push((port.path.clone(), key));
    }
}

/// A missing selector selects nothing, which is rarely intended.
fn null_selectors(warnings: &mut Vec<String>, spec: &At<'_>) {
    let mut note = |at: &At<'_>| {
        if !at.has("labelSelector") {
            let place = at.path("labelSelector");
            warnings.push(format!("{place}: a null labelSelector results in matching no pod"));
        }
    };
    for constraint in spec.items("topologySpreadConstraints") {
        note(&constraint);
    }
    for side in ["podAffinity", "podAntiAffinity"] {
        let affinity = spec.child("affinity").child(side);
        for term in affinity.items("requiredDuringSchedulingIgnoredDuringExecution") {
            note(&term);
        }
        for weighted in affinity.items("preferredDuringSchedulingIgnoredDuringExecution") {
            note(&weighted.child("podAffinityTerm"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_are_warned_about_as_upstream_does() {
        #[rustfmt::skip]
        let table = [
            (json!({"volumes": [{"name": "v", "rbd": {}}]}), "spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+"),
            (json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}), "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead"),
            (json!({"imagePullSecrets": [{}]}), "spec.imagePullSecrets[0].name: invalid empty name \"\""),
            (json!({"containers": [{"resources": {"limits": {"memory": "100m"}}}]}), "spec.containers[0].resources.limits[memory]: fractional byte value \"100m\" is invalid, must be an integer"),
            (json!({"containers": [{"env": [{"name": "A"}, {"name": "A"}]}]}), "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply"),
            (json!({"containers": [{"ports": [{"containerPort": 80}, {"containerPort": 80}]}]}), "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"),
            (json!({"topologySpreadConstraints": [{"maxSkew": 1}]}), "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"),
        ];
        for (pod, want) in table {
            assert_eq!(spec(&json!({"spec": pod}), "spec"), [want]);
        }
    }
}
