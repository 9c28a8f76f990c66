//! Which other objects a pod or a volume makes a kubelet read.

use serde_json::Value;

/// Names of the secrets in the pod's namespace.
pub(crate) fn secrets(pod: &Value) -> Vec<&str> {
    let spec = &pod["spec"];
    let mut names: Vec<&Value> = list(&spec["imagePullSecrets"]).map(|secret| &secret["name"]).collect();
    for container in containers(spec) {
        names.extend(list(&container["envFrom"]).map(|from| &from["secretRef"]["name"]));
        names.extend(list(&container["env"]).map(|env| &env["valueFrom"]["secretKeyRef"]["name"]));
    }
    for volume in list(&spec["volumes"]) {
        names.extend([
            &volume["azureFile"]["secretName"],
            &volume["secret"]["secretName"],
            &volume["csi"]["nodePublishSecretRef"]["name"],
        ]);
        let kinds = ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"];
        names.extend(kinds.map(|kind| &volume[kind]["secretRef"]["name"]));
        names.extend(list(&volume["projected"]["sources"]).map(|source| &source["secret"]["name"]));
    }
    texts(names)
}

pub(crate) fn config_maps(pod: &Value) -> Vec<&str> {
    let spec = &pod["spec"];
    let mut names: Vec<&Value> = Vec::new();
    for container in containers(spec) {
        names.extend(list(&container["envFrom"]).map(|from| &from["configMapRef"]["name"]));
        names.extend(list(&container["env"]).map(|env| &env["valueFrom"]["configMapKeyRef"]["name"]));
    }
    for volume in list(&spec["volumes"]) {
        names.push(&volume["configMap"]["name"]);
        names.extend(list(&volume["projected"]["sources"]).map(|source| &source["configMap"]["name"]));
    }
    texts(names)
}

/// Names of the persistent volume claims, those of ephemeral volumes among them.
pub(crate) fn claims(pod: &Value) -> Vec<String> {
    list(&pod["spec"]["volumes"]).filter_map(|volume| claim(pod, volume)).collect()
}

/// The claim behind a volume of a pod, if there is one.
pub(crate) fn claim(pod: &Value, volume: &Value) -> Option<String> {
    match volume["persistentVolumeClaim"]["claimName"].as_str() {
        Some(name) => Some(name.to_owned()),
        None if volume["ephemeral"].is_object() => {
            Some(format!("{}-{}", pod["metadata"]["name"].as_str()?, volume["name"].as_str()?))
        }
        None => None,
    }
}

/// Names of the resource claims, as far as they exist.
pub(crate) fn resource_claims(pod: &Value) -> Vec<&str> {
    let statuses = || list(&pod["status"]["resourceClaimStatuses"]);
    let mut names: Vec<&Value> = Vec::new();
    for claim in list(&pod["spec"]["resourceClaims"]) {
        match claim["resourceClaimName"].is_string() {
            true => names.push(&claim["resourceClaimName"]),
            false => names.extend(
                statuses()
                    .filter(|status| status["name"] == claim["name"])
                    .map(|status| &status["resourceClaimName"]),
            ),
        }
    }
    names.push(&pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"]);
    texts(names)
}

/// Namespaces and names of the secrets that a kubelet needs for a persistent volume.
pub(crate) fn volume_secrets(volume: &Value) -> Vec<(&str, &str)> {
    let spec = &volume["spec"];
    let home = &spec["claimRef"]["namespace"];
    let mut found: Vec<(&Value, &Value)> = Vec::new();
    let file = &spec["azureFile"];
    let file_namespace = if file["secretNamespace"].is_string() { &file["secretNamespace"] } else { home };
    found.push((file_namespace, &file["secretName"]));
    for kind in ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"] {
        let secret = &spec[kind]["secretRef"];
        let namespace = if secret["namespace"].is_string() { &secret["namespace"] } else { home };
        found.push((namespace, &secret["name"]));
    }
    for field in ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"] {
        let secret = &spec["csi"][field];
        found.push((&secret["namespace"], &secret["name"]));
    }
    found.into_iter().filter_map(|(namespace, name)| Some((namespace.as_str()?, name.as_str()?))).collect()
}

fn list(of: &Value) -> impl Iterator<Item = &Value> {
    of.as_array().into_iter().flatten()
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|field| list(&spec[field]))
}

fn texts(names: Vec<&Value>) -> Vec<&str> {
    names.into_iter().filter_map(Value::as_str).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_reference_objects_in_many_places() {
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {
                "imagePullSecrets": [{"name": "s1"}],
                "initContainers": [{"envFrom": [{"secretRef": {"name": "s2"}}, {"configMapRef": {"name": "c1"}}]}],
                "ephemeralContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "s3"}}}, {"valueFrom": {"configMapKeyRef": {"name": "c2"}}}]}],
                "volumes": [
                    {"name": "a", "secret": {"secretName": "s4"}}, {"name": "b", "configMap": {"name": "c3"}},
                    {"name": "c", "projected": {"sources": [{"secret": {"name": "s5"}}, {"configMap": {"name": "c4"}}]}},
                    {"name": "d", "persistentVolumeClaim": {"claimName": "k1"}}, {"name": "e", "ephemeral": {}},
                    {"name": "f", "iscsi": {"secretRef": {"name": "s6"}}},
                ],
                "resourceClaims": [{"name": "r", "resourceClaimName": "d1"}, {"name": "t", "resourceClaimTemplateName": "x"}, {"name": "u", "resourceClaimTemplateName": "y"}],
            },
            "status": {"resourceClaimStatuses": [{"name": "t", "resourceClaimName": "d2"}, {"name": "u"}]},
        });
        assert_eq!(secrets(&pod), ["s1", "s2", "s3", "s4", "s5", "s6"]);
        assert_eq!(config_maps(&pod), ["c1", "c2", "c3", "c4"]);
        assert_eq!(claims(&pod), ["k1", "p-e"]);
        assert_eq!(resource_claims(&pod), ["d1", "d2"]);
    }

    #[test]
    fn volumes_reference_secrets_of_their_claim_or_of_others() {
        #[rustfmt::skip]
        let table = [
            (json!({"azureFile": {"secretName": "s"}}),                                        vec![("home", "s")]),
            (json!({"azureFile": {"secretName": "s", "secretNamespace": "n"}}),                vec![("n", "s")]),
            (json!({"csi": {"nodeStageSecretRef": {"namespace": "n", "name": "s"}}}),          vec![("n", "s")]),
            (json!({"csi": {"controllerPublishSecretRef": {"namespace": "n", "name": "s"}}}),  vec![]),
            (json!({"rbd": {"secretRef": {"name": "s"}}}),                                     vec![("home", "s")]),
        ];
        for (mut spec, want) in table {
            spec["claimRef"] = json!({"namespace": "home"});
            assert_eq!(volume_secrets(&json!({"spec": spec})), want, "{spec}");
        }
    }
}
