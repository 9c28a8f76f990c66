//! Which claims are to be made for a consumer, and which are to be reserved for it. Pure.

use std::sync::Arc;

use flyball_api::pod::{Pod, PodResourceClaim};
use flyball_api::{Object, PodGroup, ResourceClaim, ResourceClaimTemplate};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::consumer::{Consumer, Kind, Stands, binds_to, is_done, is_for_pod, is_reserved};

/// Ties a claim to the entry that it was made for.
pub const ENTRY: &str = "resource.kubernetes.io/pod-claim-name";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gates {
    /// Claims may ask for access as an administrator.
    pub admin_access: bool,
    /// Claims may ask for one of several things.
    pub prioritized_list: bool,
    /// Groups of pods may ask for devices.
    pub groups: bool,
}

/// Where claims and templates are looked up.
pub trait Known {
    /// A claim by its name.
    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<ResourceClaim>>;
    /// The name of the claim that was made for an entry of this consumer, whether it was recorded or not.
    fn made_for(&self, consumer: &Consumer<'_>, entry: &str) -> Option<SmolStr>;
    /// A template by its name.
    fn template(&self, namespace: &str, name: &str) -> Option<Arc<ResourceClaimTemplate>>;
}

#[derive(Debug, PartialEq)]
pub enum Need {
    Nothing,
    /// This claim is to be recorded.
    Record(SmolStr),
    /// A claim is to be made, and recorded.
    Make(Value),
}

/// Whether there is anything to do for a pod: a claim is to be made, recorded or reserved. One that is another's stands in
/// the way of its entry, and is left alone.
///
/// Upstream: `podNeedsWork`. Where one entry needs something, all are provided for.
pub fn needs_work(pod: &Pod, group: Option<&PodGroup>, known: &impl Known, with_groups: bool) -> bool {
    let consumer = Consumer::from(pod);
    let claim = |name: &str| known.claim(&pod.metadata.namespace, name);
    let needs_reserving = |claim: &ResourceClaim| {
        let is_placed = !pod.spec.node_name.is_empty();
        is_placed && claim.status.allocation.is_some() && !is_reserved(pod, claim, with_groups)
    };
    consumer.entries.iter().any(|entry| match consumer.stands(entry) {
        Stands::NotMade(_) | Stands::Unknown => true,
        Stands::NotNeeded => false,
        Stands::Given(name) => claim(name).is_some_and(|claim| needs_reserving(&claim)),
        Stands::Made { name, .. } => match claim(name) {
            Some(claim) => is_for_pod(pod, &claim, with_groups) && needs_reserving(&claim),
            None => binds_to(pod, group, entry).kind == Kind::Pod,
        },
    })
}

/// What an entry of a pod needs. An error is told to the pod.
pub fn of_pod(
    pod: &Pod,
    group: Option<&PodGroup>,
    entry: &PodResourceClaim,
    known: &impl Known,
    gates: Gates,
) -> Result<Need, String> {
    let consumer = Consumer::from(pod);
    let is_its_own = |claim: &ResourceClaim| is_for_pod(pod, claim, gates.groups);
    let Some(template) = wanted(&consumer, entry, known, is_its_own)? else { return Ok(Need::Nothing) };
    let bound = binds_to(pod, group, entry);
    if let Some(name) = known.made_for(&bound, &entry.name) {
        return Ok(Need::Record(name));
    }
    // What a group shares is made for the group. Upstream makes claims for pods that have ended, and deletes them again.
    if bound.kind == Kind::Group || is_done(pod) {
        return Ok(Need::Nothing);
    }
    make(&consumer, entry, template, known, gates)
}

/// What an entry of a group needs. An error is told to the group.
pub fn of_group(
    group: &PodGroup,
    entry: &PodResourceClaim,
    known: &impl Known,
    gates: Gates,
) -> Result<Need, String> {
    let consumer = Consumer::from(group);
    let Some(template) = wanted(&consumer, entry, known, |claim| consumer.owns(claim))? else {
        return Ok(Need::Nothing);
    };
    match known.made_for(&consumer, &entry.name) {
        Some(name) => Ok(Need::Record(name)),
        None => make(&consumer, entry, template, known, gates),
    }
}

/// The template from which a claim is to be made for an entry; nothing if there is one, or none is needed.
fn wanted<'a>(
    consumer: &Consumer<'a>,
    entry: &'a PodResourceClaim,
    known: &impl Known,
    is_its_own: impl Fn(&ResourceClaim) -> bool,
) -> Result<Option<&'a SmolStr>, String> {
    let namespace = &consumer.meta.namespace;
    match consumer.stands(entry) {
        Stands::Given(_) | Stands::NotNeeded => Ok(None),
        Stands::NotMade(template) => Ok(Some(template)),
        Stands::Made { name, template } => {
            let is_there = known.claim(namespace, name).is_some_and(|claim| is_its_own(&claim));
            Ok((!is_there).then_some(template))
        }
        Stands::Unknown => {
            let (name, entry) = (&consumer.meta.name, &entry.name);
            let whose = match consumer.kind {
                Kind::Pod => format!("pod \"{namespace}/{name}\", spec.resourceClaim {entry:?}"),
                Kind::Group => format!("PodGroup {namespace}/{name}, spec.resourceClaim {entry}"),
            };
            Err(format!(
                "checking for claim before creating it: {whose}: none of the supported fields are set"
            ))
        }
    }
}

fn make(
    consumer: &Consumer<'_>,
    entry: &PodResourceClaim,
    template: &str,
    known: &impl Known,
    gates: Gates,
) -> Result<Need, String> {
    let found = known.template(&consumer.meta.namespace, template).ok_or_else(|| {
        format!("resource claim template {template:?}: resourceclaimtemplate.resource.k8s.io {template:?} not found")
    })?;
    let spec = found.spec.spec.to_value();
    if !gates.admin_access && wants_admin_access(&spec) {
        return Err("admin access is requested, but the feature is disabled".to_owned());
    }
    if !gates.prioritized_list && has_prioritized_list(&spec) {
        return Err(
            "template includes a prioritized list of subrequests, but the feature is disabled".to_owned()
        );
    }
    Ok(Need::Make(manifest(consumer, &entry.name, &found, spec)))
}

fn requests(spec: &Value) -> impl Iterator<Item = &Value> {
    spec["devices"]["requests"].as_array().into_iter().flatten()
}

/// Whether the spec of a claim asks for access as an administrator.
pub fn wants_admin_access(spec: &Value) -> bool {
    requests(spec).any(|request| request["exactly"]["adminAccess"] == true)
}

fn has_prioritized_list(spec: &Value) -> bool {
    requests(spec).any(|request| request["firstAvailable"].as_array().is_some_and(|list| !list.is_empty()))
}

/// The claim: labels, annotations and spec of the template, and whoever asks for it as its owner.
fn manifest(consumer: &Consumer<'_>, entry: &str, template: &ResourceClaimTemplate, spec: Value) -> Value {
    let Consumer { kind, meta, .. } = consumer;
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": name_base(&meta.name, entry),
            "labels": template.spec.metadata.labels,
            "annotations": template.spec.metadata.annotations.with(ENTRY, entry),
            "ownerReferences": [{
                "apiVersion": kind.api_version(),
                "kind": kind.name(),
                "name": meta.name,
                "uid": meta.uid,
                "controller": true,
            }],
        },
        "spec": spec,
    })
}

/// Room for a hyphen and five random characters in a name of 63.
const LONGEST_BASE: usize = 57;

/// What the names of claims begin with. Where it would be too long, both parts give way by as much of their length.
fn name_base(owner: &str, entry: &str) -> String {
    let base = format!("{owner}-{entry}-");
    if base.len() <= LONGEST_BASE {
        return base;
    }
    let cut = |part: &str| part.chars().take(part.len() * LONGEST_BASE / base.len()).collect::<String>();
    format!("{}-{}", cut(owner), cut(entry))
}

/// The status by which claims are recorded, for an apply.
pub fn record(consumer: &Consumer<'_>, made: &[(SmolStr, SmolStr)]) -> Value {
    let statuses: Vec<Value> =
        made.iter().map(|(entry, claim)| json!({"name": entry, "resourceClaimName": claim})).collect();
    json!({
        "apiVersion": consumer.kind.api_version(),
        "kind": consumer.kind.name(),
        "metadata": {"name": consumer.meta.name, "namespace": consumer.meta.namespace},
        "status": {"resourceClaimStatuses": statuses},
    })
}

/// The claims to be reserved for a pod that somebody has put on a node without the scheduler, one after the other; the
/// scheduler does that itself for those it places. An error is a claim that is not the pod's. (Upstream: also for pods that
/// have ended, from which it takes the claim away again, for as long as another uses it.)
pub fn reservations(
    pod: &Pod,
    known: &impl Known,
    with_groups: bool,
) -> Result<Vec<(PodResourceClaim, Arc<ResourceClaim>)>, String> {
    let consumer = Consumer::from(pod);
    let mut wanted = vec![];
    if pod.spec.node_name.is_empty() || is_done(pod) {
        return Ok(wanted);
    }
    for entry in consumer.entries {
        let (name, is_made) = match consumer.stands(entry) {
            Stands::Given(name) => (name, false),
            Stands::Made { name, .. } => (name, true),
            Stands::NotNeeded => continue,
            // Once it is recorded, the pod is looked at again.
            Stands::NotMade(_) | Stands::Unknown => break,
        };
        let Some(claim) = known.claim(&pod.metadata.namespace, name) else { break };
        if is_made && !is_for_pod(pod, &claim, with_groups) {
            return Err(format!(
                "ResourceClaim {} was not created for Pod {} (Pod is not owner)",
                claim.key(),
                pod.key()
            ));
        }
        if claim.status.allocation.is_some() && !is_reserved(pod, &claim, with_groups) {
            wanted.push((entry.clone(), claim));
        }
    }
    Ok(wanted)
}
