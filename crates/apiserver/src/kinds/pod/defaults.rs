//! Defaults of pods that depend on other fields.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::kinds::json::Json;
use crate::kinds::quantity::Quantity;

/// Defaults of pods that pod templates do not get.
pub(in crate::kinds) fn default_pod(pod: &mut Value) {
    for list in ["spec.containers", "spec.initContainers"] {
        for container in pod.items_mut(list) {
            copy_missing(container, "resources.limits", "resources.requests");
        }
    }
    complete_pod_resources(pod);
    pod.or_put("spec.enableServiceLinks", true);
    if pod.flag("spec.hostNetwork") {
        for list in ["spec.containers", "spec.initContainers"] {
            for port in pod.items_mut(list).iter_mut().flat_map(|c| c.items_mut("ports")) {
                let number = port.at("containerPort").clone();
                port.or_put("hostPort", number);
            }
        }
    }
}

/// A resource with a limit and without a request gets the limit as its request.
fn copy_missing(value: &mut Value, from: &str, to: &str) {
    let Some(source) = value.map(from).cloned() else { return };
    let Some(target) = value.map_mut(to) else { return };
    for (name, quantity) in source {
        target.entry(name).or_insert(quantity);
    }
}

/// Sets pod-level requests from the sum of the containers' requests, otherwise from the pod-level limits.
fn complete_pod_resources(pod: &mut Value) {
    if pod.map("spec.resources.limits").is_none_or(|limits| limits.is_empty()) {
        return;
    }
    let sums = requested_by_containers(pod);
    if let Some(requests) = pod.map_mut("spec.resources.requests") {
        for (name, sum) in sums {
            requests.entry(name).or_insert_with(|| Value::from(sum.canonical()));
        }
    }
    copy_missing(pod, "spec.resources.limits", "spec.resources.requests");
}

/// The requests of a pod's containers: the maximum over time, of the regular containers with the sidecars, or of one init
/// container with the sidecars that were started before it.
fn requested_by_containers(pod: &Value) -> BTreeMap<String, Quantity> {
    let mut sidecars = BTreeMap::new();
    let mut most = BTreeMap::new();
    for container in pod.items("spec.initContainers") {
        if container.text("restartPolicy") == "Always" {
            sidecars = sum(sidecars, container);
        } else {
            most = larger(most, sum(sidecars.clone(), container));
        }
    }
    larger(most, pod.items("spec.containers").iter().fold(sidecars, sum))
}

fn sum(mut total: BTreeMap<String, Quantity>, container: &Value) -> BTreeMap<String, Quantity> {
    for (name, value) in container.map("resources.requests").into_iter().flatten() {
        let Some(quantity) = value.as_str().and_then(Quantity::parse) else { continue };
        if matches!(name.as_str(), "cpu" | "memory") {
            total
                .entry(name.clone())
                .and_modify(|so_far| *so_far = so_far.plus(quantity))
                .or_insert(quantity);
        }
    }
    total
}

fn larger(
    mut one: BTreeMap<String, Quantity>,
    other: BTreeMap<String, Quantity>,
) -> BTreeMap<String, Quantity> {
    for (name, quantity) in other {
        let held = one.entry(name).or_insert(quantity);
        if held.compare(quantity).is_lt() {
            *held = quantity;
        }
    }
    one
}

/// Sets the deprecated `serviceAccount` to `serviceAccountName`.
pub(in crate::kinds) fn default_spec(spec: &mut Value) {
    let older = spec.at("serviceAccount").clone();
    if older.is_string() {
        spec.or_put("serviceAccountName", older);
    }
    match spec.at("serviceAccountName").clone() {
        Value::Null => drop(spec.pull("serviceAccount")),
        name => spec.put("serviceAccount", name),
    }
}

/// `podIP` is the first of `podIPs`; if they differ, `podIP` counts.
pub(in crate::kinds) fn default_status(status: &mut Value) {
    let single = status.text("podIP").to_owned();
    match status.items("podIPs").first().map(|ip| ip.text("ip").to_owned()) {
        Some(first) if single.is_empty() => status.put("podIP", first),
        first if !single.is_empty() && first.as_ref() != Some(&single) => {
            status.put("podIPs", json!([{"ip": single}]));
        }
        _ => {}
    }
}

/// The pull policy, by the tag of the image, and the path of the termination message.
pub(in crate::kinds) fn default_container(container: &mut Value) {
    let policy = pull_policy(container.text("image"));
    container.or_put("imagePullPolicy", policy);
    container.or_put("terminationMessagePath", "/dev/termination-log");
    container.or_put("terminationMessagePolicy", "File");
}

/// A volume without a source is an empty directory.
pub(in crate::kinds) fn default_volume(volume: &mut Value) {
    if volume.as_object().is_some_and(|fields| fields.keys().all(|key| key == "name")) {
        volume.put("emptyDir", json!({}));
    }
    if volume.has("image") {
        let policy = pull_policy(volume.text("image.reference"));
        volume.or_put("image.pullPolicy", policy);
    }
}

/// `latest` can change, so it is always pulled; an image without tag and digest means `latest`.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let (path, tag) = match name.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (name, None),
    };
    // With capitals and no domain it is not a valid image name; upstream then finds no tag either.
    let repository = path.split_once('/').map_or(path, |(domain, rest)| {
        if domain.contains(['.', ':']) || domain == "localhost" || domain.chars().any(char::is_uppercase) {
            rest
        } else {
            path
        }
    });
    let is_name = !repository.is_empty()
        && repository.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/".contains(c));
    match (tag, digest) {
        _ if !is_name => "IfNotPresent",
        (None, None) | (Some("latest"), _) => "Always",
        _ => "IfNotPresent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_requests_what_its_containers_need_at_any_time() {
        let one =
            |memory: &str| json!({"resources": {"requests": {"memory": memory, "example.com/gpu": "1"}}});
        let sidecar = |memory: &str| {
            let mut container = one(memory);
            container["restartPolicy"] = json!("Always");
            container
        };
        #[rustfmt::skip]
        let table = [
            // case                                first                                   then                       requested
            ("containers add up",                  vec![],                                 vec![one("3Mi"), one("4Mi")], "7Mi"),
            ("sidecars run beside them",           vec![sidecar("2Mi")],                   vec![one("3Mi")],            "5Mi"),
            ("what prepares them runs before",     vec![one("9Mi"), one("4Mi")],           vec![one("3Mi")],            "9Mi"),
            ("beside the sidecars before it only", vec![sidecar("2Mi"), one("9Mi"), sidecar("1Mi")], vec![one("3Mi")],  "11Mi"),
            ("who asks for nothing gets the limit", vec![],                                vec![json!({})],             "90Mi"),
        ];
        for (case, first, then, want) in table {
            let mut pod = json!({"spec": {"initContainers": first, "containers": then,
                "resources": {"limits": {"memory": "90Mi"}}}});
            default_pod(&mut pod);
            assert_eq!(pod["spec"]["resources"]["requests"], json!({"memory": want}), "{case}");
        }
    }

    #[test]
    fn images_are_pulled_by_tag() {
        #[rustfmt::skip]
        let table = [
            ("nginx", "Always"), ("nginx:latest", "Always"), ("nginx:1.25", "IfNotPresent"), ("localhost:5000/x", "Always"),
            ("localhost:5000/x:2", "IfNotPresent"), ("x@sha256:00", "IfNotPresent"), ("x:latest@sha256:00", "Always"),
            ("", "IfNotPresent"), ("UPPER", "IfNotPresent"), ("REG/x", "Always"), ("a b", "IfNotPresent"),
        ];
        for (image, want) in table {
            assert_eq!(pull_policy(image), want, "{image:?}");
        }
    }
}
