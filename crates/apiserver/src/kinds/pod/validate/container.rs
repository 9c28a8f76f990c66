//! Validates the containers of a pod: names, images, ports, environment, resources, mounts, probes.

use std::cmp::Ordering;

use serde_json::Value;

use crate::invalid::{Cause, Fault};
use crate::kinds::json::Json;
use crate::kinds::quantity::Quantity;
use crate::kinds::validate::{At, Faults, config_key, go_struct, names, port_name, quoting};

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const FIELD_PATHS: [&str; 11] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.labels",
    "metadata.annotations",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// All containers of a pod spec; `volumes` are the names that mounts may refer to.
pub(super) fn check(faults: &mut Faults, spec: &At<'_>, volumes: &[&str]) {
    if spec.value.items("containers").is_empty() {
        faults.push(Cause::required(spec.path("containers"), ""));
    }
    let mut taken: Vec<&str> = Vec::new();
    for container in spec.items("containers") {
        one(faults, &container, &mut taken, volumes);
    }
    host_ports(faults, spec);
    for container in spec.items("initContainers") {
        one(faults, &container, &mut taken, volumes);
        init(faults, &container);
    }
}

fn one<'v>(faults: &mut Faults, container: &At<'v>, taken: &mut Vec<&'v str>, volumes: &[&str]) {
    let name = container.text("name");
    if container.require(faults, "name") {
        container.must_be(faults, "name", names::label);
        if taken.contains(&name) {
            faults.push(Cause::duplicate(container.path("name"), name));
        }
        taken.push(name);
    }
    let image = container.text("image");
    if container.require(faults, "image") && image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        faults.push(Cause::invalid(container.path("image"), image, detail));
    }
    container.one_of(faults, "terminationMessagePolicy", &["FallbackToLogsOnError", "File"]);
    ports(faults, container);
    environment(faults, container);
    mounts(faults, container, volumes);
    container.one_of(faults, "imagePullPolicy", &["Always", "IfNotPresent", "Never"]);
    resources(faults, &container.child("resources"));
    for field in PROBES {
        probe(faults, &container.child(field), field);
    }
    for hook in ["postStart", "preStop"] {
        let hook = container.child("lifecycle").child(hook);
        if hook.value.is_object() {
            handler(faults, &hook, &["exec", "httpGet", "tcpSocket", "sleep"]);
        }
    }
    security(faults, &container.child("securityContext"));
}

/// Probes and hooks are for regular containers and sidecars.
fn init(faults: &mut Faults, container: &At<'_>) {
    if container.text("restartPolicy") == "Always" {
        return;
    }
    let detail = "may not be set for init containers without restartPolicy=Always";
    for field in ["lifecycle"].iter().chain(&PROBES).filter(|field| container.has(field)) {
        faults.push(Cause::forbidden(container.path(field), detail));
    }
}

fn ports(faults: &mut Faults, container: &At<'_>) {
    let mut named: Vec<&str> = Vec::new();
    for port in container.items("ports") {
        let name = port.text("name");
        if !name.is_empty() {
            port.must_be(faults, "name", port_name);
            if named.contains(&name) {
                faults.push(Cause::duplicate(port.path("name"), name));
            }
            named.push(name);
        }
        match port.int("containerPort").unwrap_or(0) {
            0 => faults.push(Cause::required(port.path("containerPort"), "")),
            _ => port.between(faults, "containerPort", 1, 65_535),
        }
        if port.int("hostPort").unwrap_or(0) != 0 {
            port.between(faults, "hostPort", 1, 65_535);
        }
        port.one_of(faults, "protocol", &["SCTP", "TCP", "UDP"]);
    }
}

/// A host port can be used once.
fn host_ports(faults: &mut Faults, spec: &At<'_>) {
    let mut taken: Vec<String> = Vec::new();
    for port in spec.items("containers").flat_map(|container| container.items("ports").collect::<Vec<_>>()) {
        let Some(number) = port.int("hostPort").filter(|number| *number != 0) else { continue };
        let key = format!("{}/{}/{number}", port.text("protocol"), port.text("hostIP"));
        if taken.contains(&key) {
            faults.push(Cause::duplicate(port.path("hostPort"), key.as_str()));
        }
        taken.push(key);
    }
}

fn environment(faults: &mut Faults, container: &At<'_>) {
    for variable in container.items("env") {
        let name = variable.text("name");
        if variable.require(faults, "name") && !name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=')
        {
            let detail = "a valid environment variable name must consist only of printable ASCII characters other than '='";
            faults.push(Cause::invalid(variable.path("name"), name, detail));
        }
        let from = variable.child("valueFrom");
        if from.value.is_null() {
            continue;
        }
        let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
        let given = sources.iter().filter(|source| from.has(source)).count();
        if given == 0 {
            let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
                          `fileKeyRef`";
            faults.push(Cause::invalid(from.path.clone(), "", detail));
        }
        if !variable.text("value").is_empty() {
            let detail = "may not be specified when `value` is not empty";
            faults.push(Cause::invalid(from.path.clone(), "", detail));
        } else if given > 1 {
            let detail = "may not have more than one field specified at a time";
            faults.push(Cause::invalid(from.path.clone(), "", detail));
        }
        field_reference(faults, &from.child("fieldRef"));
        for source in ["configMapKeyRef", "secretKeyRef"] {
            let source = from.child(source);
            if source.value.is_object() {
                source.must_be_named(faults, "key", config_key);
            }
        }
    }
    for source in container.items("envFrom") {
        for field in ["configMapRef", "secretRef"] {
            let reference = source.child(field);
            if reference.value.is_object() {
                reference.must_be_named(faults, "name", names::subdomain);
            }
        }
        if source.has("configMapRef") == source.has("secretRef") {
            let detail = if source.has("configMapRef") {
                "may not have more than one field specified at a time"
            } else {
                "must specify one of: `configMapRef` or `secretRef`"
            };
            faults.push(Cause::invalid(source.path.clone(), "", detail));
        }
    }
}

fn field_reference(faults: &mut Faults, reference: &At<'_>) {
    if reference.value.is_null() {
        return;
    }
    let path = reference.text("fieldPath");
    if !reference.require(faults, "fieldPath") {
        return;
    }
    let (base, subscript) = path.split_once('[').map_or((path, false), |(base, _)| (base, true));
    let is_map = matches!(base, "metadata.labels" | "metadata.annotations");
    if !FIELD_PATHS.contains(&base) {
        let detail = format!("error converting fieldPath: field label not supported: {path}");
        faults.push(Cause::invalid(reference.path("fieldPath"), path, &detail));
    } else if is_map && !subscript {
        let allowed = [
            "metadata.name",
            "metadata.namespace",
            "metadata.uid",
            "spec.nodeName",
            "spec.serviceAccountName",
            "status.hostIP",
            "status.hostIPs",
            "status.podIP",
            "status.podIPs",
        ];
        faults.push(Cause::not_supported(reference.path("fieldPath"), path, &allowed));
    }
}

fn mounts(faults: &mut Faults, container: &At<'_>, volumes: &[&str]) {
    let mut paths: Vec<&str> = Vec::new();
    for mount in container.items("volumeMounts") {
        let (name, path) = (mount.text("name"), mount.text("mountPath"));
        if mount.require(faults, "name") && !volumes.contains(&name) {
            faults.push(Cause::not_found(mount.path("name"), name));
        }
        mount.require(faults, "mountPath");
        if paths.contains(&path) {
            faults.push(Cause::invalid(mount.path("mountPath"), path, "must be unique"));
        }
        paths.push(path);
        let sub_path = mount.text("subPath");
        if sub_path.starts_with('/') {
            faults.push(Cause::invalid(mount.path("subPath"), sub_path, "must be a relative path"));
        } else if sub_path.split('/').any(|part| part == "..") {
            faults.push(Cause::invalid(mount.path("subPath"), sub_path, "must not contain '..'"));
        }
    }
    for device in container.items("volumeDevices") {
        if device.require(faults, "name") && !volumes.contains(&device.text("name")) {
            faults.push(Cause::not_found(device.path("name"), device.text("name")));
        }
        device.require(faults, "devicePath");
    }
}

fn is_standard(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// Resources that containers cannot overcommit: the request must be the limit.
fn is_exclusive(name: &str) -> bool {
    name.starts_with("hugepages-") || name.contains('/')
}

fn resources(faults: &mut Faults, resources: &At<'_>) {
    for list in ["limits", "requests"] {
        for (name, amount) in resources.entries(list) {
            resource(faults, name, &amount);
        }
    }
    let amount = |list: &str, name: &str| resources.value.entry(list, name).and_then(Quantity::parse);
    for (name, request) in resources.entries("requests") {
        let Some(wanted) = Quantity::parse(request.text("")) else { continue };
        let path = resources.path("requests");
        match amount("limits", name) {
            None if is_exclusive(name) => {
                let detail = "Limit must be set for non overcommitable resources";
                faults.push(Cause::required(resources.path("limits"), detail));
            }
            Some(limit) if is_exclusive(name) && limit.compare(wanted) != Ordering::Equal => {
                let detail = format!("must be equal to {name} limit of {}", limit.canonical());
                faults.push(Cause::invalid(path, request.text(""), &detail));
            }
            Some(limit) if wanted.compare(limit) == Ordering::Greater => {
                let detail = format!("must be less than or equal to {name} limit of {}", limit.canonical());
                faults.push(Cause::invalid(path, request.text(""), &detail));
            }
            _ => {}
        }
    }
}

fn resource(faults: &mut Faults, name: &str, amount: &At<'_>) {
    if !is_standard(name) && !name.contains('/') {
        for detail in [
            "must be a standard resource type or fully qualified",
            "must be a standard resource for containers",
        ] {
            faults.push(Cause::invalid(amount.path.clone(), name, detail));
        }
    }
    let Some(quantity) = Quantity::parse(amount.text("")) else { return };
    if quantity.sign() == Ordering::Less {
        faults.push(amount.invalid("must be greater than or equal to 0"));
    }
    if name.contains('/') && !quantity.is_whole() {
        faults.push(amount.invalid("must be an integer"));
    }
}

fn probe(faults: &mut Faults, probe: &At<'_>, field: &str) {
    if probe.value.is_null() {
        return;
    }
    handler(faults, probe, &["exec", "httpGet", "tcpSocket", "grpc"]);
    for number in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        probe.non_negative(faults, number);
    }
    let threshold = probe.int("successThreshold").unwrap_or(1);
    if field != "readinessProbe" && threshold != 1 {
        faults.push(Cause::invalid(probe.path("successThreshold"), threshold, "must be 1"));
    }
    if let Some(period) = probe.int("terminationGracePeriodSeconds") {
        if field == "readinessProbe" {
            let detail = "must not be set for readinessProbes";
            faults.push(Cause::invalid(probe.path("terminationGracePeriodSeconds"), period, detail));
        } else if period <= 0 {
            let detail = "must be greater than 0";
            faults.push(Cause::invalid(probe.path("terminationGracePeriodSeconds"), period, detail));
        }
    }
}

fn handler(faults: &mut Faults, at: &At<'_>, kinds: &[&str]) {
    let given: Vec<&&str> = kinds.iter().filter(|kind| at.has(kind)).collect();
    if given.is_empty() {
        faults.push(Cause::required(at.path.clone(), "must specify a handler type"));
    }
    for extra in given.iter().skip(1) {
        faults.push(Cause::forbidden(at.path(extra), "may not specify more than 1 handler type"));
    }
    let Some(first) = given.first() else { return };
    let action = at.child(first);
    match **first {
        "exec" => {
            action.require(faults, "command");
        }
        "httpGet" | "tcpSocket" => match action.value.at("port") {
            Value::String(_) => action.must_be(faults, "port", port_name),
            _ => action.between(faults, "port", 1, 65_535),
        },
        "grpc" => action.between(faults, "port", 1, 65_535),
        _ => {}
    }
    if **first == "httpGet" {
        action.require(faults, "path");
        action.one_of(faults, "scheme", &["HTTP", "HTTPS"]);
    }
}

fn security(faults: &mut Faults, context: &At<'_>) {
    for field in ["runAsUser", "runAsGroup"] {
        context.between(faults, field, 0, i64::from(i32::MAX));
    }
    if context.value.at("allowPrivilegeEscalation") == &Value::Bool(false) && context.value.flag("privileged")
    {
        let field = |name: &str| context.value.at(name);
        let value = go_struct(&[
            ("Capabilities", field("capabilities")),
            ("Privileged", field("privileged")),
            ("SELinuxOptions", field("seLinuxOptions")),
            ("WindowsOptions", field("windowsOptions")),
            ("RunAsUser", field("runAsUser")),
            ("RunAsGroup", field("runAsGroup")),
            ("RunAsNonRoot", field("runAsNonRoot")),
            ("ReadOnlyRootFilesystem", field("readOnlyRootFilesystem")),
            ("AllowPrivilegeEscalation", field("allowPrivilegeEscalation")),
            ("ProcMount", field("procMount")),
            ("SeccompProfile", field("seccompProfile")),
            ("AppArmorProfile", field("appArmorProfile")),
        ]);
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        faults.push(quoting(Fault::Invalid, context.path.clone(), &value, detail));
    }
}
