//! Consumers of devices (pods and pod groups), and the ResourceClaims of their `spec.resourceClaims` entries. Pure.

use flyball_api::pod::{Phase, Pod, PodResourceClaim, PodResourceClaimStatus};
use flyball_api::resource_claim::ConsumerReference;
use flyball_api::{Object, ObjectMeta, OwnerReference, PodGroup, ResourceClaim, Uid};
use smol_str::SmolStr;

const SCHEDULING: &str = "scheduling.k8s.io";

#[derive(Debug, Clone, Copy)]
pub struct Consumer<'a> {
    pub kind: Kind,
    pub meta: &'a ObjectMeta,
    pub entries: &'a [PodResourceClaim],
    /// The ResourceClaims that were generated for it.
    pub recorded: &'a [PodResourceClaimStatus],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Pod,
    Group,
}

impl Kind {
    /// The name of its entries in events.
    pub fn entry(self) -> &'static str {
        match self {
            Self::Pod => "PodResourceClaim",
            Self::Group => "PodGroupResourceClaim",
        }
    }

    pub(super) fn api_version(self) -> &'static str {
        match self {
            Self::Pod => "v1",
            Self::Group => "scheduling.k8s.io/v1alpha2",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Group => "PodGroup",
        }
    }

    /// Whether an owner reference is to this kind. That of a group may have another version.
    fn is_owner(self, owner: &OwnerReference) -> bool {
        match self {
            Self::Pod => owner.kind == "Pod" && owner.api_version == "v1",
            Self::Group => {
                let group = owner.api_version.split_once('/').map(|(group, _)| group);
                owner.kind == "PodGroup" && group == Some(SCHEDULING)
            }
        }
    }
}

impl<'a> From<&'a Pod> for Consumer<'a> {
    fn from(pod: &'a Pod) -> Self {
        Self {
            kind: Kind::Pod,
            meta: &pod.metadata,
            entries: &pod.spec.rare().resource_claims,
            recorded: &pod.status.rare().resource_claim_statuses,
        }
    }
}

impl<'a> From<&'a PodGroup> for Consumer<'a> {
    fn from(group: &'a PodGroup) -> Self {
        Self {
            kind: Kind::Group,
            meta: &group.metadata,
            entries: &group.spec.resource_claims,
            recorded: &group.status.resource_claim_statuses,
        }
    }
}

/// The ResourceClaim of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<'a> {
    /// The entry names a ResourceClaim, which a user creates.
    Named(&'a SmolStr),
    /// Generated from the template, and recorded in the status of the consumer.
    Generated { name: &'a SmolStr, template: &'a SmolStr },
    /// The status of the consumer says that none is needed.
    NotNeeded,
    /// Not generated yet, or not recorded yet; with the template.
    Missing(&'a SmolStr),
    /// The entry has none of the known fields.
    Unknown,
}

impl<'a> Consumer<'a> {
    /// The ResourceClaim of one of its entries.
    pub fn resolve(&self, entry: &'a PodResourceClaim) -> Entry<'a> {
        match (&entry.resource_claim_name, &entry.resource_claim_template_name) {
            (Some(name), _) => Entry::Named(name),
            (None, Some(template)) => match self.recorded.iter().find(|recorded| recorded.name == entry.name)
            {
                None => Entry::Missing(template),
                Some(PodResourceClaimStatus { resource_claim_name: Some(name), .. }) => {
                    Entry::Generated { name, template }
                }
                Some(_) => Entry::NotNeeded,
            },
            (None, None) => Entry::Unknown,
        }
    }

    /// The names of the ResourceClaims of its entries.
    pub fn claims(&self) -> impl Iterator<Item = &'a SmolStr> + use<'a> {
        let this = *self;
        this.entries.iter().filter_map(move |entry| match this.resolve(entry) {
            Entry::Named(name) | Entry::Generated { name, .. } => Some(name),
            _ => None,
        })
    }

    /// Whether it owns a ResourceClaim.
    pub fn owns(&self, claim: &ResourceClaim) -> bool {
        claim.metadata.controller().is_some_and(|owner| owner.uid == self.meta.uid)
    }

    /// The reference by which a ResourceClaim is reserved for it.
    pub fn reference(&self) -> ConsumerReference {
        let (api_group, resource) = match self.kind {
            Kind::Pod => ("", "pods"),
            Kind::Group => (SCHEDULING, "podgroups"),
        };
        ConsumerReference {
            api_group: SmolStr::new_static(api_group),
            resource: SmolStr::new_static(resource),
            name: self.meta.name.clone(),
            uid: self.meta.uid.clone(),
        }
    }
}

/// The kind of consumer that a reservation is for; `None` for other kinds.
pub fn reserved_for(reference: &ConsumerReference) -> Option<Kind> {
    match (reference.api_group.as_str(), reference.resource.as_str()) {
        ("", "pods") => Some(Kind::Pod),
        (SCHEDULING, "podgroups") => Some(Kind::Group),
        _ => None,
    }
}

/// The pod that a ResourceClaim was generated for.
pub fn owning_pod(claim: &ResourceClaim) -> Option<&OwnerReference> {
    claim.metadata.controller().filter(|owner| Kind::Pod.is_owner(owner))
}

/// Whether a ResourceClaim was generated for a pod or for its group.
pub fn is_for_pod(pod: &Pod, claim: &ResourceClaim, with_groups: bool) -> bool {
    let group = &pod.spec.rare().pod_group_name;
    let is_of_group = |owner: &OwnerReference| {
        with_groups && !group.is_empty() && owner.name == *group && Kind::Group.is_owner(owner)
    };
    Consumer::from(pod).owns(claim) || claim.metadata.controller().is_some_and(is_of_group)
}

/// Whether a ResourceClaim is reserved for a pod or for its group.
pub fn is_reserved(pod: &Pod, claim: &ResourceClaim, with_groups: bool) -> bool {
    let group = &pod.spec.rare().pod_group_name;
    claim.status.reserved_for.iter().any(|reference| {
        let is_of_group = with_groups
            && !group.is_empty()
            && reserved_for(reference) == Some(Kind::Group)
            && reference.name == *group;
        reference.uid == *pod.uid() || is_of_group
    })
}

/// The consumer that owns, and reserves, the ResourceClaim of an entry of a pod: its group if that has an equal entry.
pub fn consumer_of<'a>(pod: &'a Pod, group: Option<&'a PodGroup>, entry: &PodResourceClaim) -> Consumer<'a> {
    let group = group.filter(|group| group.spec.resource_claims.contains(entry));
    group.map_or_else(|| Consumer::from(pod), Consumer::from)
}

/// Whether no container of a pod runs or will ever run.
pub fn is_done(pod: &Pod) -> bool {
    let has_ended = matches!(pod.status.phase, Phase::Succeeded | Phase::Failed);
    has_ended || (pod.metadata.is_deleting() && pod.spec.node_name.is_empty())
}

/// Whether a pod that is gone had ended, or never run, by its last state in the cache.
pub fn had_ended(gone: &Pod) -> bool {
    gone.spec.node_name.is_empty() || is_done(gone)
}

/// What is known of the consumer that a ResourceClaim is reserved for.
#[derive(Debug, Clone, Copy)]
pub enum Found<'a> {
    /// The cache has shown its deletion.
    Deleted,
    /// The pod of its name in the cache.
    Pod(Option<&'a Pod>),
    Group(Option<&'a PodGroup>),
    /// A kind that is not watched.
    Unwatched,
}

/// Whether a consumer uses the ResourceClaim that is reserved for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Yes,
    No,
    /// The cache lacks the consumer, which may be new: it uses the ResourceClaim if the server has it.
    IfItExists(Kind),
}

impl Use {
    pub fn of(uid: &Uid, found: Found<'_>) -> Self {
        let yes_if = |is_used| if is_used { Self::Yes } else { Self::No };
        match found {
            Found::Deleted => Self::No,
            Found::Pod(Some(pod)) => yes_if(pod.uid() == uid && !is_done(pod)),
            Found::Pod(None) => Self::IfItExists(Kind::Pod),
            Found::Group(Some(group)) => yes_if(group.uid() == uid),
            Found::Group(None) => Self::IfItExists(Kind::Group),
            // It is for others to say when such a consumer has ended.
            Found::Unwatched => Self::Yes,
        }
    }
}

/// Whether the pod that a ResourceClaim was generated for has ended or was replaced. `cached` is the pod of its name; `had_ended` is
/// what is remembered of one that is gone. One that the cache lacks may be new; if it is gone and had run, the garbage
/// collector deletes the ResourceClaim. Upstream deletes that of a pod without a node if it syncs it between the two events of
/// the pod's deletion, which it mostly does.
pub fn is_owner_done(owner: &OwnerReference, cached: Option<&Pod>, had_ended: bool) -> bool {
    cached.map_or(had_ended, |pod| *pod.uid() != owner.uid || is_done(pod))
}
