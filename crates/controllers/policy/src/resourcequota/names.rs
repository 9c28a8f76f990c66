//! The resource names in quotas, and the kind of object that each of them measures.

use std::borrow::Cow;

use smol_str::SmolStr;

/// The prefix of requests.
const REQUESTS: &str = "requests.";
const LIMITS: &str = "limits.";
const HUGE_PAGES: &str = "hugepages-";
const STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
const PER_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// The extended resource that every class of devices has without naming it.
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// The name that counts the objects of a resource.
pub fn count_of(group: &str, plural: &str) -> SmolStr {
    match group {
        "" => smol_str::format_smolstr!("count/{plural}"),
        _ => smol_str::format_smolstr!("count/{plural}.{group}"),
    }
}

/// The names that count the objects of a resource: some have an older name besides `count/…`.
pub fn counts_of(group: &str, plural: &str) -> Vec<SmolStr> {
    const OLD: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];
    let old = (group.is_empty() && OLD.contains(&plural)).then(|| SmolStr::new(plural));
    old.into_iter().chain([count_of(group, plural)]).collect()
}

/// The part of the usage of pods that a resource name of a quota measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfPods<'a> {
    /// The number of pods, including finished ones.
    Objects,
    /// The number of pods that have not finished.
    Living,
    /// The requests for a resource of pods that have not finished.
    Requests(&'a str),
    /// The limits for a resource of pods that have not finished.
    Limits(&'a str),
}

impl<'a> OfPods<'a> {
    /// `None` if the name is not about pods.
    pub fn parse(name: &'a str) -> Option<Self> {
        let is_compute = |name: &str| matches!(name, "cpu" | "memory" | "ephemeral-storage");
        match name {
            "count/pods" => return Some(Self::Objects),
            "pods" => return Some(Self::Living),
            _ if is_compute(name) || name.starts_with(HUGE_PAGES) => return Some(Self::Requests(name)),
            _ => {}
        }
        if let Some(resource) = name.strip_prefix(LIMITS) {
            return is_compute(resource).then_some(Self::Limits(resource));
        }
        let resource = name.strip_prefix(REQUESTS)?;
        let is_measured = is_compute(resource) || resource.starts_with(HUGE_PAGES) || is_extended(resource);
        is_measured.then_some(Self::Requests(resource))
    }
}

/// Whether a resource of containers is an extended resource; resources of device classes are.
fn is_extended(resource: &str) -> bool {
    resource.contains('/') && !resource.contains("kubernetes.io/") || resource.starts_with(DEVICE_CLASS)
}

/// The part of the usage of Services that a resource name of a quota measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfServices {
    Objects,
    /// The number of node ports.
    NodePorts,
    /// The number of Services of type LoadBalancer.
    LoadBalancers,
}

impl OfServices {
    /// `None` if the name is not about Services.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "services" | "count/services" => Some(Self::Objects),
            "services.nodeports" => Some(Self::NodePorts),
            "services.loadbalancers" => Some(Self::LoadBalancers),
            _ => None,
        }
    }
}

/// The part of the usage of PersistentVolumeClaims that a resource name of a quota measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfVolumeClaims<'a> {
    /// Count only the claims of this storage class.
    pub class: Option<&'a str>,
    /// Count the requested bytes instead of the claims.
    pub bytes: bool,
}

impl<'a> OfVolumeClaims<'a> {
    /// `None` if the name is not about claims.
    pub fn parse(name: &'a str) -> Option<Self> {
        let (class, what) = match name.rsplit_once(STORAGE_CLASS) {
            Some((class, what)) => (Some(class), what),
            None => (None, name),
        };
        match what {
            "persistentvolumeclaims" => Some(Self { class, bytes: false }),
            "requests.storage" => Some(Self { class, bytes: true }),
            "count/persistentvolumeclaims" if class.is_none() => Some(Self { class, bytes: false }),
            _ => None,
        }
    }
}

/// The part of the usage of ResourceClaims that a resource name of a quota measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfDeviceClaims<'a> {
    Objects,
    /// The number of requested devices of a class.
    Devices(&'a str),
    /// The same, minus what pods request themselves by the implicit extended resource name of the class.
    Implied(&'a str),
    /// The same for the classes with this extended resource name.
    Extended(&'a str),
}

impl<'a> OfDeviceClaims<'a> {
    /// `None` if the name is not about ResourceClaims. The class need not exist.
    pub fn parse(name: &'a str) -> Option<Self> {
        if name == "count/resourceclaims.resource.k8s.io" {
            return Some(Self::Objects);
        }
        if let Some(class) = name.strip_suffix(PER_DEVICE_CLASS) {
            return Some(Self::Devices(class));
        }
        let resource = name.strip_prefix(REQUESTS)?;
        match resource.strip_prefix(DEVICE_CLASS) {
            Some(class) => Some(Self::Implied(class)),
            None => is_extended(resource).then_some(Self::Extended(resource)),
        }
    }

    /// The extended resource that a pod may request instead of a ResourceClaim.
    pub fn resource(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Objects | Self::Devices(_) => None,
            Self::Implied(class) => Some(Cow::Owned(format!("{DEVICE_CLASS}{class}"))),
            Self::Extended(resource) => Some(Cow::Borrowed(resource)),
        }
    }
}
