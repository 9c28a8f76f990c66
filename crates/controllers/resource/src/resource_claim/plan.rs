//! Which ResourceClaims to create for a consumer, to record in its status, and to reserve for it. Pure.

use std::fmt;
use std::sync::Arc;

use flyball_api::pod::{Pod, PodResourceClaim};
use flyball_api::{Key, Object, PodGroup, ResourceClaim, ResourceClaimTemplate, ResourceVersion};
use flyball_client::Patch;
use flyball_runtime::{Effect, ErrorKinds, Event, Message, Outcome, Plan, Waiting, Write};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::FIELD_MANAGER;
use super::consumer::{Consumer, Entry, Kind, consumer_of, is_done, is_for_pod, is_reserved};

/// The annotation of a generated ResourceClaim with the name of the entry.
pub const ENTRY: &str = "resource.kubernetes.io/pod-claim-name";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gates {
    pub admin_access: bool,
    pub prioritized_list: bool,
    /// Whether pod groups can have ResourceClaims.
    pub groups: bool,
}

/// Where ResourceClaims and their templates are looked up.
pub trait Known {
    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<ResourceClaim>>;
    /// The name of the ResourceClaim that was generated for an entry of this consumer, recorded or not.
    fn generated_for(&self, consumer: &Consumer<'_>, entry: &str) -> Option<SmolStr>;
    fn template(&self, namespace: &str, name: &str) -> Option<Arc<ResourceClaimTemplate>>;
}

/// What an entry of a consumer needs.
#[derive(Debug, PartialEq)]
pub enum Need {
    Nothing,
    /// The ResourceClaim of this name has to be recorded in the status.
    Record(SmolStr),
    /// This ResourceClaim has to be created and recorded.
    Create(Value),
}

/// Why an entry cannot get what it needs.
#[derive(Debug, PartialEq)]
pub enum NeedError {
    MissingTemplate(SmolStr),
    Invalid(String),
}

impl fmt::Display for NeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingTemplate(name) => write!(
                f,
                "resource claim template {name:?}: resourceclaimtemplate.resource.k8s.io {name:?} not found"
            ),
            Self::Invalid(problem) => f.write_str(problem),
        }
    }
}

/// An entry of a consumer with what it needs.
pub type EntryNeed = (SmolStr, Result<Need, NeedError>);

/// Whether an entry may fail only because the informer of the templates, which has reached this version, lags behind the pod.
pub fn may_lag(needs: &[EntryNeed], templates: ResourceVersion, pod: &Pod) -> bool {
    needs.iter().any(|(_, need)| need.is_err()) && templates < pod.metadata.resource_version
}

/// Marks the creation of a ResourceClaim in an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Creation {
    /// The entry that it is for.
    pub entry: SmolStr,
    pub admin_access: bool,
}

/// Creates the ResourceClaims that the entries of a consumer need; nothing is tried after a failure. The rest follows from
/// their names: see [`after`].
pub fn plan(consumer: &Consumer<'_>, needs: &[EntryNeed]) -> Plan<Creation> {
    let (mut effects, mut waiting) = (vec![], None);
    for (entry, need) in needs {
        let failed = |message| Event::warning("FailedResourceClaimCreation", message);
        let about = format!("{} {entry}: ", consumer.kind.entry());
        match need {
            Ok(Need::Nothing | Need::Record(_)) => {}
            Ok(Need::Create(body)) => {
                // Upstream: the message has a place for the name, which is not known.
                let failed = failed(Message::ThenError(format!("{about}create ResourceClaim : ")));
                effects.push(creation(consumer, entry, body).on_failure(failed).into());
            }
            Err(error) => {
                effects.push(Effect::Event(failed(format!("{about}{error}").into())));
                effects.push(Effect::Fail(format!("entry {entry}: {error}")));
                waiting = missing_template(consumer, error);
                break;
            }
        }
    }
    Plan::of(effects).waiting_for(waiting)
}

fn creation(consumer: &Consumer<'_>, entry: &SmolStr, body: &Value) -> Write<Creation> {
    let prefix = body["metadata"]["generateName"].as_str().unwrap_or_default();
    let key = Key::new(consumer.meta.namespace.as_str(), format!("{prefix}*").as_str());
    let tag = Creation { entry: entry.clone(), admin_access: wants_admin_access(&body["spec"]) };
    Write::create::<ResourceClaim>(key, body.clone()).why("it requests devices by a template").tag(tag)
}

fn missing_template(consumer: &Consumer<'_>, error: &NeedError) -> Option<Waiting> {
    let NeedError::MissingTemplate(name) = error else { return None };
    let key = Key::new(consumer.meta.namespace.as_str(), name.as_str());
    Some(Waiting::on::<ResourceClaimTemplate>(&key, "to be created"))
}

/// Records the ResourceClaims in the status of the consumer once they are created. An apply removes what it does not repeat, so
/// entries that are recorded and need nothing are repeated. (Upstream does not, and two entries displace each other for ever.)
pub fn after(consumer: &Consumer<'_>, needs: &[EntryNeed], outcome: &Outcome<Creation>) -> Option<Write> {
    let created = |entry: &SmolStr| {
        let done = outcome.written().find(|done| done.tag.entry == *entry)?;
        done.answer.written().map(|created| created.name.clone())
    };
    let recorded_before = |entry: &SmolStr| {
        let found = consumer.recorded.iter().find(|recorded| recorded.name == *entry)?;
        found.resource_claim_name.clone()
    };
    let mut is_any_new = false;
    let mut recorded = vec![];
    for (entry, need) in needs {
        let new = match need {
            Ok(Need::Record(name)) => Some(name.clone()),
            Ok(Need::Create(_)) => created(entry),
            Ok(Need::Nothing) | Err(_) => None,
        };
        is_any_new |= new.is_some();
        let kept = || recorded_before(entry).filter(|_| *need == Ok(Need::Nothing));
        recorded.extend(new.or_else(kept).map(|claim| (entry.clone(), claim)));
    }
    is_any_new.then(|| record(consumer, &recorded))
}

/// Whether there is anything to do for a pod: a ResourceClaim has to be created, recorded or reserved. One of the recorded
/// name that belongs to another consumer blocks its entry, and is left alone.
///
/// Upstream: `podNeedsWork`. If one entry needs something, all are processed.
pub fn needs_work(pod: &Pod, group: Option<&PodGroup>, known: &impl Known, with_groups: bool) -> bool {
    let consumer = Consumer::from(pod);
    let claim = |name: &str| known.claim(&pod.metadata.namespace, name);
    let needs_reserving = |claim: &ResourceClaim| {
        let is_scheduled = !pod.spec.node_name.is_empty();
        is_scheduled && claim.status.allocation.is_some() && !is_reserved(pod, claim, with_groups)
    };
    consumer.entries.iter().any(|entry| match consumer.resolve(entry) {
        Entry::Missing(_) | Entry::Unknown => true,
        Entry::NotNeeded => false,
        Entry::Named(name) => claim(name).is_some_and(|claim| needs_reserving(&claim)),
        Entry::Generated { name, .. } => match claim(name) {
            Some(claim) => is_for_pod(pod, &claim, with_groups) && needs_reserving(&claim),
            None => consumer_of(pod, group, entry).kind == Kind::Pod,
        },
    })
}

/// What an entry of a pod needs.
pub fn pod_need(
    pod: &Pod,
    group: Option<&PodGroup>,
    entry: &PodResourceClaim,
    known: &impl Known,
    gates: Gates,
) -> Result<Need, NeedError> {
    let consumer = Consumer::from(pod);
    let is_its_own = |claim: &ResourceClaim| is_for_pod(pod, claim, gates.groups);
    let Some(template) = needed_template(&consumer, entry, known, is_its_own)? else {
        return Ok(Need::Nothing);
    };
    let owner = consumer_of(pod, group, entry);
    if let Some(name) = known.generated_for(&owner, &entry.name) {
        return Ok(Need::Record(name));
    }
    // Shared ResourceClaims are created for the group. Upstream creates some for pods that have ended, and deletes them.
    if owner.kind == Kind::Group || is_done(pod) {
        return Ok(Need::Nothing);
    }
    create(&consumer, entry, template, known, gates)
}

/// What an entry of a group needs.
pub fn group_need(
    group: &PodGroup,
    entry: &PodResourceClaim,
    known: &impl Known,
    gates: Gates,
) -> Result<Need, NeedError> {
    let consumer = Consumer::from(group);
    let Some(template) = needed_template(&consumer, entry, known, |claim| consumer.owns(claim))? else {
        return Ok(Need::Nothing);
    };
    match known.generated_for(&consumer, &entry.name) {
        Some(name) => Ok(Need::Record(name)),
        None => create(&consumer, entry, template, known, gates),
    }
}

/// The template of an entry that has no ResourceClaim, but needs one.
fn needed_template<'a>(
    consumer: &Consumer<'a>,
    entry: &'a PodResourceClaim,
    known: &impl Known,
    is_its_own: impl Fn(&ResourceClaim) -> bool,
) -> Result<Option<&'a SmolStr>, NeedError> {
    let namespace = &consumer.meta.namespace;
    match consumer.resolve(entry) {
        Entry::Named(_) | Entry::NotNeeded => Ok(None),
        Entry::Missing(template) => Ok(Some(template)),
        Entry::Generated { name, template } => {
            let is_there = known.claim(namespace, name).is_some_and(|claim| is_its_own(&claim));
            Ok((!is_there).then_some(template))
        }
        Entry::Unknown => {
            let (name, entry) = (&consumer.meta.name, &entry.name);
            let whose = match consumer.kind {
                Kind::Pod => format!("pod \"{namespace}/{name}\", spec.resourceClaim {entry:?}"),
                Kind::Group => format!("PodGroup {namespace}/{name}, spec.resourceClaim {entry}"),
            };
            Err(NeedError::Invalid(format!(
                "checking for claim before creating it: {whose}: none of the supported fields are set"
            )))
        }
    }
}

fn create(
    consumer: &Consumer<'_>,
    entry: &PodResourceClaim,
    template: &str,
    known: &impl Known,
    gates: Gates,
) -> Result<Need, NeedError> {
    let found = known
        .template(&consumer.meta.namespace, template)
        .ok_or_else(|| NeedError::MissingTemplate(template.into()))?;
    let spec = found.spec.spec.to_value();
    if !gates.admin_access && wants_admin_access(&spec) {
        return Err(NeedError::Invalid("admin access is requested, but the feature is disabled".to_owned()));
    }
    if !gates.prioritized_list && has_prioritized_list(&spec) {
        return Err(NeedError::Invalid(
            "template includes a prioritized list of subrequests, but the feature is disabled".to_owned(),
        ));
    }
    Ok(Need::Create(manifest(consumer, &entry.name, &found, spec)))
}

fn requests(spec: &Value) -> impl Iterator<Item = &Value> {
    spec["devices"]["requests"].as_array().into_iter().flatten()
}

/// Whether the spec of a ResourceClaim requests admin access.
pub fn wants_admin_access(spec: &Value) -> bool {
    requests(spec).any(|request| request["exactly"]["adminAccess"] == true)
}

fn has_prioritized_list(spec: &Value) -> bool {
    requests(spec).any(|request| request["firstAvailable"].as_array().is_some_and(|list| !list.is_empty()))
}

/// A ResourceClaim with labels, annotations and spec of the template, owned by the consumer.
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

/// The prefix of the name of a ResourceClaim. If it is too long, both parts are cut by the same proportion.
fn name_base(owner: &str, entry: &str) -> String {
    let base = format!("{owner}-{entry}-");
    if base.len() <= LONGEST_BASE {
        return base;
    }
    let cut = |part: &str| part.chars().take(part.len() * LONGEST_BASE / base.len()).collect::<String>();
    format!("{}-{}", cut(owner), cut(entry))
}

/// Applies the ResourceClaims of entries to the status of their consumer.
fn record(consumer: &Consumer<'_>, recorded: &[(SmolStr, SmolStr)]) -> Write {
    let statuses: Vec<Value> =
        recorded.iter().map(|(entry, claim)| json!({"name": entry, "resourceClaimName": claim})).collect();
    let object = json!({
        "apiVersion": consumer.kind.api_version(),
        "kind": consumer.kind.name(),
        "metadata": {"name": consumer.meta.name, "namespace": consumer.meta.namespace},
        "status": {"resourceClaimStatuses": statuses},
    });
    let patch = Patch::Apply { manager: FIELD_MANAGER.into(), force: true, object };
    let write = match consumer.kind {
        Kind::Pod => Write::patch::<Pod>(consumer.meta.key(), patch),
        Kind::Group => Write::patch::<PodGroup>(consumer.meta.key(), patch),
    };
    let why = "its status has to list the ResourceClaims that were generated for it";
    write.subresource("status").ignore(ErrorKinds::NOT_FOUND).why(why)
}

/// Reserves ResourceClaims for a pod that was assigned to a node without the scheduler, one after the other.
pub fn reserve(pod: &Pod, group: Option<&PodGroup>, known: &impl Known, with_groups: bool) -> Vec<Effect> {
    let write = |(entry, claim): &(PodResourceClaim, Arc<ResourceClaim>)| {
        let user = consumer_of(pod, group, entry).reference();
        let why = format!("{} {} uses it, and was not assigned by the scheduler", user.resource, user.name);
        let mut status = claim.status.clone();
        status.reserved_for.push(user);
        Write::status(&**claim, &status).why(why).into()
    };
    match reservations(pod, known, with_groups) {
        Ok(wanted) => wanted.iter().map(write).collect(),
        Err(problem) => vec![Effect::Fail(problem)],
    }
}

/// The ResourceClaims to reserve for a pod that was assigned to a node without the scheduler. The scheduler reserves those
/// of the pods that it assigns. The error is about a ResourceClaim that was generated for another pod. (Upstream: also for
/// pods that have ended, whose reservations it removes again for as long as another pod uses the ResourceClaim.)
fn reservations(
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
        let (name, is_generated) = match consumer.resolve(entry) {
            Entry::Named(name) => (name, false),
            Entry::Generated { name, .. } => (name, true),
            Entry::NotNeeded => continue,
            // The pod is synced again once it is recorded.
            Entry::Missing(_) | Entry::Unknown => break,
        };
        let Some(claim) = known.claim(&pod.metadata.namespace, name) else { break };
        if is_generated && !is_for_pod(pod, &claim, with_groups) {
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
