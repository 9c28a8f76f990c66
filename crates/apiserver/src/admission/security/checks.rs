//! The checks of the Pod Security Standards: each takes a pod and returns its violations, in upstream's words.

use std::collections::BTreeSet;

use serde_json::Value;

use super::policy::{Level, Standard, Version};
use crate::kinds::Json as _;

/// A pod or a template.
pub(super) struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
}

/// Validates a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) reason: &'static str,
    pub(super) detail: String,
}

struct Check {
    /// The minor version since which it holds.
    since: u32,
    level: Level,
    /// The restricted check that this baseline one replaces, and from which version on.
    replaced_since: Option<u32>,
    check: fn(&Pod<'_>, u32) -> Option<Violation>,
}

const fn baseline(since: u32, check: fn(&Pod<'_>, u32) -> Option<Violation>) -> Check {
    Check { since, level: Level::Baseline, replaced_since: None, check }
}

const fn replaced(since: u32, check: fn(&Pod<'_>, u32) -> Option<Violation>) -> Check {
    Check { since: 0, level: Level::Baseline, replaced_since: Some(since), check }
}

const fn restricted(since: u32, check: fn(&Pod<'_>, u32) -> Option<Violation>) -> Check {
    Check { since, level: Level::Restricted, replaced_since: None, check }
}

/// In the order in which violations are listed: by level, then by upstream's names of the checks.
const CHECKS: [Check; 19] = [
    baseline(0, app_armor),
    replaced(22, capabilities),
    baseline(0, host_namespaces),
    replaced(0, host_paths),
    baseline(0, host_ports),
    baseline(34, probe_hosts),
    baseline(0, privileged),
    replaced(35, proc_mount_outside_user_namespaces),
    baseline(0, selinux),
    replaced(19, seccomp),
    baseline(0, sysctls),
    baseline(0, windows_host_process),
    restricted(8, privilege_escalation),
    restricted(22, few_capabilities),
    restricted(35, proc_mount),
    restricted(0, volume_types),
    restricted(0, non_root),
    restricted(23, root_user),
    restricted(19, some_seccomp),
];

/// The newest version at which a rule changed.
const NEWEST: u32 = 35;

/// All violations of a standard by a pod.
pub(super) fn violations(pod: &Pod<'_>, standard: Standard) -> Vec<Violation> {
    let minor = match standard.version {
        Version::Latest => NEWEST,
        Version::Minor(minor) => minor.min(NEWEST),
    };
    let applies = |check: &&Check| {
        let replaced = check.replaced_since.is_some_and(|since| minor >= since);
        check.since <= minor
            && check.level <= standard.level
            && !(standard.level == Level::Restricted && replaced)
    };
    CHECKS.iter().filter(applies).filter_map(|check| (check.check)(pod, minor)).collect()
}

impl<'a> Pod<'a> {
    pub(super) fn of(object: &'a Value) -> Self {
        Self { metadata: &object["metadata"], spec: &object["spec"] }
    }

    fn containers(&self) -> impl Iterator<Item = &'a Value> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(|list| spec.items(list))
    }

    /// The names of the containers whose security context is bad.
    fn containers_with(&self, mut is_bad: impl FnMut(&'a Value) -> bool) -> Vec<&'a str> {
        let bad = self.containers().filter(|container| is_bad(&container["securityContext"]));
        bad.map(|container| container.text("name")).collect()
    }

    fn context(&self) -> &'a Value {
        &self.spec["securityContext"]
    }

    fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.metadata["annotations"].as_object().into_iter().flatten();
        all.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }

    fn is_windows(&self) -> bool {
        self.spec.text("os.name") == "windows"
    }

    /// In a user namespace, root has no privileges on the host.
    fn has_user_namespace(&self) -> bool {
        self.spec["hostUsers"] == false
    }
}

fn violation(reason: &'static str, detail: String) -> Option<Violation> {
    Some(Violation { reason, detail })
}

fn quoted<'s>(items: impl IntoIterator<Item = &'s str>) -> String {
    items.into_iter().map(|item| format!("\"{item}\"")).collect::<Vec<_>>().join(", ")
}

fn plural<'s>(one: &'s str, many: &'s str, count: usize) -> &'s str {
    if count == 1 { one } else { many }
}

/// `container "a"`, `containers "a", "b"`.
fn these(containers: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", containers.len()), quoted(containers.iter().copied()))
}

/// `pod and container "a"`; empty without an offender.
fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    let parts: Vec<String> = pod
        .then(|| "pod".to_owned())
        .into_iter()
        .chain((!containers.is_empty()).then(|| these(containers)))
        .collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

fn app_armor(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    const CONTAINERS: &str = "container.apparmor.security.beta.kubernetes.io/";
    let mut values: BTreeSet<&str> = BTreeSet::new();
    let mut is_bad = |context: &'_ Value| {
        let profile = &context["appArmorProfile"];
        profile.is_object() && !matches!(profile.text("type"), "RuntimeDefault" | "Localhost")
    };
    let of_pod = is_bad(pod.context());
    let containers = pod.containers_with(&mut is_bad);
    let contexts = std::iter::once(pod.context()).chain(pod.containers().map(|c| &c["securityContext"]));
    values.extend(
        contexts.filter(|context| is_bad(context)).map(|context| context.text("appArmorProfile.type")),
    );
    let annotations: BTreeSet<String> = pod
        .annotations()
        .filter(|(key, value)| {
            key.starts_with(CONTAINERS)
                && !value.is_empty()
                && *value != "runtime/default"
                && !value.starts_with("localhost/")
        })
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    let mut blamed: Vec<String> = setters(of_pod, &containers).into_iter().collect();
    if !annotations.is_empty() {
        blamed.push(plural("annotation", "annotations", annotations.len()).to_owned());
    }
    if blamed.is_empty() {
        return None;
    }
    let count = values.len() + annotations.len();
    let values = values.into_iter().chain(annotations.iter().map(String::as_str));
    let detail = format!("{} must not set AppArmor profile type to {}", blamed.join(" and "), quoted(values));
    violation(plural("forbidden AppArmor profile", "forbidden AppArmor profiles", count), detail)
}

/// The containers that add other capabilities, and those capabilities.
fn adding<'a>(pod: &Pod<'a>, allowed: &[&str]) -> (Vec<&'a str>, BTreeSet<&'a str>) {
    let mut added = BTreeSet::new();
    let containers = pod.containers_with(|context| {
        let all = context.items("capabilities.add").iter().filter_map(Value::as_str);
        let bad: Vec<&str> = all.filter(|name| !allowed.contains(name)).collect();
        added.extend(bad.iter().copied());
        !bad.is_empty()
    });
    (containers, added)
}

fn capabilities(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    const DEFAULT: [&str; 13] = [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    let (containers, added) = adding(pod, &DEFAULT);
    if containers.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not include {} in securityContext.capabilities.add",
        these(&containers),
        quoted(added)
    );
    violation("non-default capabilities", detail)
}

fn few_capabilities(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor >= 25 && pod.is_windows() {
        return None;
    }
    let drops_all = |context: &Value| context.items("capabilities.drop").iter().any(|name| name == "ALL");
    let keeping = pod.containers_with(|context| !drops_all(context));
    let (containers, added) = adding(pod, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", these(&keeping)));
    }
    if !containers.is_empty() {
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            these(&containers),
            quoted(added)
        ));
    }
    if details.is_empty() { None } else { violation("unrestricted capabilities", details.join("; ")) }
}

fn host_namespaces(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .iter()
        .filter(|field| pod.spec.flag(field))
        .map(|field| format!("{field}=true"))
        .collect();
    if shared.is_empty() { None } else { violation("host namespaces", shared.join(", ")) }
}

fn host_paths(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let volumes = pod.spec.items("volumes").iter().filter(|volume| volume.has("hostPath"));
    let names: Vec<&str> = volumes.map(|volume| volume.text("name")).collect();
    if names.is_empty() {
        return None;
    }
    let noun = plural("volume", "volumes", names.len());
    violation("hostPath volumes", format!("{noun} {}", quoted(names)))
}

fn host_ports(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let mut ports = BTreeSet::new();
    let mut containers = Vec::new();
    for container in pod.containers() {
        let taken = container.items("ports").iter().filter_map(|port| port.int("hostPort"));
        let taken: Vec<String> = taken.filter(|port| *port != 0).map(|port| port.to_string()).collect();
        if !taken.is_empty() {
            containers.push(container.text("name"));
            ports.extend(taken);
        }
    }
    if containers.is_empty() {
        return None;
    }
    let uses = plural("uses", "use", containers.len());
    let noun = plural("hostPort", "hostPorts", ports.len());
    let ports = ports.into_iter().collect::<Vec<_>>().join(", ");
    violation("hostPort", format!("{} {uses} {noun} {ports}", these(&containers)))
}

fn probe_hosts(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    const HANDLERS: [&str; 5] =
        ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop"];
    let mut hosts = BTreeSet::new();
    let mut containers = BTreeSet::new();
    for container in pod.containers() {
        for handler in HANDLERS {
            for action in ["httpGet", "tcpSocket"] {
                let host = container.at(handler).at(action).text("host");
                if !host.is_empty() {
                    hosts.insert(host);
                    containers.insert(container.text("name"));
                }
            }
        }
    }
    if containers.is_empty() {
        return None;
    }
    let containers: Vec<&str> = containers.into_iter().collect();
    let uses = plural("uses", "use", containers.len());
    let noun = plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len());
    violation("probe or lifecycle host", format!("{} {uses} {noun} {}", these(&containers), quoted(hosts)))
}

fn privileged(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let containers = pod.containers_with(|context| context.flag("privileged"));
    if containers.is_empty() {
        return None;
    }
    violation("privileged", format!("{} must not set securityContext.privileged=true", these(&containers)))
}

fn proc_mount_outside_user_namespaces(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor >= 35 && pod.has_user_namespace() { None } else { proc_mount(pod, minor) }
}

fn proc_mount(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let mut mounts = BTreeSet::new();
    let containers = pod.containers_with(|context| {
        let mount = context["procMount"].as_str().filter(|mount| *mount != "Default");
        mounts.extend(mount);
        mount.is_some()
    });
    if containers.is_empty() {
        return None;
    }
    let detail =
        format!("{} must not set securityContext.procMount to {}", these(&containers), quoted(mounts));
    violation("procMount", detail)
}

fn selinux(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    const TYPES: [&str; 4] = ["", "container_t", "container_init_t", "container_kvm_t"];
    let (mut types, mut user, mut role) = (BTreeSet::new(), false, false);
    let mut is_bad = |context: &Value| {
        let options = &context["seLinuxOptions"];
        let kind = options.text("type");
        let good_type = TYPES.contains(&kind) || (minor >= 31 && kind == "container_engine_t");
        if !good_type {
            types.insert(kind.to_owned());
        }
        let (has_user, has_role) = (!options.text("user").is_empty(), !options.text("role").is_empty());
        user |= has_user;
        role |= has_role;
        !good_type || has_user || has_role
    };
    let of_pod = is_bad(pod.context());
    let containers = pod.containers_with(&mut is_bad);
    let blamed = setters(of_pod, &containers)?;
    let mut bad = Vec::new();
    if !types.is_empty() {
        let noun = plural("type", "types", types.len());
        bad.push(format!("{noun} {}", quoted(types.iter().map(String::as_str))));
    }
    bad.extend(user.then(|| "user may not be set".to_owned()));
    bad.extend(role.then(|| "role may not be set".to_owned()));
    violation(
        "seLinuxOptions",
        format!("{blamed} set forbidden securityContext.seLinuxOptions: {}", bad.join("; ")),
    )
}

fn is_confined(profile: &Value) -> bool {
    matches!(profile.text("type"), "RuntimeDefault" | "Localhost")
}

/// Who sets an unconfined profile.
fn unconfined(pod: &Pod<'_>) -> Option<Violation> {
    let mut profiles = BTreeSet::new();
    let mut is_bad = |context: &Value| {
        let profile = &context["seccompProfile"];
        let bad = profile.is_object() && !is_confined(profile);
        if bad {
            profiles.insert(profile.text("type").to_owned());
        }
        bad
    };
    let of_pod = is_bad(pod.context());
    let containers = pod.containers_with(&mut is_bad);
    let blamed = setters(of_pod, &containers)?;
    let profiles = quoted(profiles.iter().map(String::as_str));
    violation(
        "seccompProfile",
        format!("{blamed} must not set securityContext.seccompProfile.type to {profiles}"),
    )
}

fn seccomp(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor >= 19 {
        return unconfined(pod);
    }
    const POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
    const CONTAINERS: &str = "container.seccomp.security.alpha.kubernetes.io/";
    let names: Vec<&str> = pod.containers().map(|container| container.text("name")).collect();
    let concerns =
        |key: &str| key == POD || key.strip_prefix(CONTAINERS).is_some_and(|name| names.contains(&name));
    let forbidden: BTreeSet<String> = pod
        .annotations()
        .filter(|(key, _)| concerns(key))
        .filter(|(_, value)| {
            !matches!(*value, "runtime/default" | "docker/default") && !value.starts_with("localhost/")
        })
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    let noun = plural("annotation", "annotations", forbidden.len());
    let list = forbidden.into_iter().collect::<Vec<_>>().join(", ");
    violation("seccompProfile", format!("forbidden {noun} {list}"))
}

fn some_seccomp(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor >= 25 && pod.is_windows() {
        return None;
    }
    if let Some(found) = unconfined(pod) {
        return Some(found);
    }
    let of_pod = is_confined(&pod.context()["seccompProfile"]);
    let containers = pod.containers_with(|context| !of_pod && !context.has("seccompProfile"));
    if containers.is_empty() {
        return None;
    }
    violation(
        "seccompProfile",
        format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            these(&containers)
        ),
    )
}

fn sysctls(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    const ALLOWED: [(u32, &str); 12] = [
        (0, "kernel.shm_rmid_forced"),
        (0, "net.ipv4.ip_local_port_range"),
        (0, "net.ipv4.tcp_syncookies"),
        (0, "net.ipv4.ping_group_range"),
        (0, "net.ipv4.ip_unprivileged_port_start"),
        (27, "net.ipv4.ip_local_reserved_ports"),
        (29, "net.ipv4.tcp_keepalive_time"),
        (29, "net.ipv4.tcp_fin_timeout"),
        (29, "net.ipv4.tcp_keepalive_intvl"),
        (29, "net.ipv4.tcp_keepalive_probes"),
        (32, "net.ipv4.tcp_rmem"),
        (32, "net.ipv4.tcp_wmem"),
    ];
    let allowed = |name: &str| ALLOWED.iter().any(|(since, known)| minor >= *since && *known == name);
    let names = pod.context().items("sysctls").iter().map(|sysctl| sysctl.text("name"));
    let forbidden: Vec<&str> = names.filter(|name| !allowed(name)).collect();
    if forbidden.is_empty() { None } else { violation("forbidden sysctls", forbidden.join(", ")) }
}

fn windows_host_process(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let is_bad = |context: &Value| context.flag("windowsOptions.hostProcess");
    let blamed = setters(is_bad(pod.context()), &pod.containers_with(is_bad))?;
    violation("hostProcess", format!("{blamed} must not set securityContext.windowsOptions.hostProcess=true"))
}

fn privilege_escalation(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor >= 25 && pod.is_windows() {
        return None;
    }
    let containers = pod.containers_with(|context| context["allowPrivilegeEscalation"] != false);
    if containers.is_empty() {
        return None;
    }
    violation(
        "allowPrivilegeEscalation != false",
        format!("{} must set securityContext.allowPrivilegeEscalation=false", these(&containers)),
    )
}

fn volume_types(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    const ALLOWED: [&str; 9] = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    let (mut names, mut types) = (Vec::new(), BTreeSet::new());
    for volume in pod.spec.items("volumes") {
        if ALLOWED.iter().any(|allowed| volume.has(allowed)) {
            continue;
        }
        names.push(volume.text("name"));
        let source = volume.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
        types.insert(source.into_iter().find(|field| *field != "name").unwrap_or("unknown"));
    }
    if names.is_empty() {
        return None;
    }
    let (volumes, uses) = (plural("volume", "volumes", names.len()), plural("uses", "use", names.len()));
    let kinds = plural("restricted volume type", "restricted volume types", types.len());
    violation(
        "restricted volume types",
        format!("{volumes} {} {uses} {kinds} {}", quoted(names.iter().copied()), quoted(types)),
    )
}

fn non_root(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    if minor >= 35 && pod.has_user_namespace() {
        return None;
    }
    let of_pod = &pod.context()["runAsNonRoot"];
    let explicit = pod.containers_with(|context| context["runAsNonRoot"] == false);
    if let Some(blamed) = setters(*of_pod == false, &explicit) {
        return violation(REASON, format!("{blamed} must not set securityContext.runAsNonRoot=false"));
    }
    let silent = pod.containers_with(|context| *of_pod != true && !context.has("runAsNonRoot"));
    if silent.is_empty() {
        return None;
    }
    violation(REASON, format!("pod or {} must set securityContext.runAsNonRoot=true", these(&silent)))
}

fn root_user(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor >= 35 && pod.has_user_namespace() {
        return None;
    }
    let is_bad = |context: &Value| context["runAsUser"] == 0;
    let blamed = setters(is_bad(pod.context()), &pod.containers_with(is_bad))?;
    violation("runAsUser=0", format!("{blamed} must not set runAsUser=0"))
}
