//! Who asks for devices, a pod or a group of pods, and which claim stands for each of its entries. Pure.

use flyball_api::pod::{Phase, Pod, PodResourceClaim, PodResourceClaimStatus};
use flyball_api::resource_claim::ConsumerReference;
use flyball_api::{Object, ObjectMeta, OwnerReference, PodGroup, ResourceClaim};
use smol_str::SmolStr;

const SCHEDULING: &str = "scheduling.k8s.io";

#[derive(Debug, Clone, Copy)]
pub struct Consumer<'a> {
    /// A pod or a group of pods.
    pub kind: Kind,
    pub meta: &'a ObjectMeta,
    pub entries: &'a [PodResourceClaim],
    /// What was made for it.
    pub recorded: &'a [PodResourceClaimStatus],
}

/// What can ask for devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Pod,
    Group,
}

impl Kind {
    /// What its entries are called in events.
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

    /// Whether a reference is to one of these. Groups may have been written in another version.
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

/// Which claim stands for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands<'a> {
    /// One that somebody else makes.
    Given(&'a SmolStr),
    /// One that was made from the template.
    Made { name: &'a SmolStr, template: &'a SmolStr },
    /// It was found that none is needed.
    NotNeeded,
    /// One that is to be made from this template.
    NotMade(&'a SmolStr),
    /// The entry says nothing that is known here.
    Unknown,
}

impl<'a> Consumer<'a> {
    /// Which claim stands for one of its entries.
    pub fn stands(&self, entry: &'a PodResourceClaim) -> Stands<'a> {
        match (&entry.resource_claim_name, &entry.resource_claim_template_name) {
            (Some(name), _) => Stands::Given(name),
            (None, Some(template)) => match self.recorded.iter().find(|made| made.name == entry.name) {
                None => Stands::NotMade(template),
                Some(PodResourceClaimStatus { resource_claim_name: Some(name), .. }) => {
                    Stands::Made { name, template }
                }
                Some(_) => Stands::NotNeeded,
            },
            (None, None) => Stands::Unknown,
        }
    }

    /// The names of the claims that stand for its entries.
    pub fn claims(&self) -> impl Iterator<Item = &'a SmolStr> + use<'a> {
        let this = *self;
        this.entries.iter().filter_map(move |entry| match this.stands(entry) {
            Stands::Given(name) | Stands::Made { name, .. } => Some(name),
            _ => None,
        })
    }

    /// Whether it owns a claim.
    pub fn owns(&self, claim: &ResourceClaim) -> bool {
        claim.metadata.controller().is_some_and(|owner| owner.uid == self.meta.uid)
    }

    /// The words by which a claim is reserved for it.
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

/// What a reservation is for, if that can be checked.
pub fn reserved_for(reference: &ConsumerReference) -> Option<Kind> {
    match (reference.api_group.as_str(), reference.resource.as_str()) {
        ("", "pods") => Some(Kind::Pod),
        (SCHEDULING, "podgroups") => Some(Kind::Group),
        _ => None,
    }
}

/// The pod that a claim was made for.
pub fn owning_pod(claim: &ResourceClaim) -> Option<&OwnerReference> {
    claim.metadata.controller().filter(|owner| Kind::Pod.is_owner(owner))
}

/// Whether a claim is the one that was made for a pod, or for the group that the pod names.
pub fn is_for_pod(pod: &Pod, claim: &ResourceClaim, with_groups: bool) -> bool {
    let group = &pod.spec.rare().pod_group_name;
    let is_groups = |owner: &OwnerReference| {
        with_groups && !group.is_empty() && owner.name == *group && Kind::Group.is_owner(owner)
    };
    Consumer::from(pod).owns(claim) || claim.metadata.controller().is_some_and(is_groups)
}

/// Whether a claim is reserved for a pod, or for the group that the pod names.
pub fn is_reserved(pod: &Pod, claim: &ResourceClaim, with_groups: bool) -> bool {
    let group = &pod.spec.rare().pod_group_name;
    claim.status.reserved_for.iter().any(|reference| {
        let is_groups = with_groups
            && !group.is_empty()
            && reserved_for(reference) == Some(Kind::Group)
            && reference.name == *group;
        reference.uid == *pod.uid() || is_groups
    })
}

/// Whoever a claim for an entry of a pod is reserved for: its group, if that asks for the very same.
pub fn binds_to<'a>(pod: &'a Pod, group: Option<&'a PodGroup>, entry: &PodResourceClaim) -> Consumer<'a> {
    let group = group.filter(|group| group.spec.resource_claims.contains(entry));
    group.map_or_else(|| Consumer::from(pod), Consumer::from)
}

/// Whether none of a pod's containers runs or will ever run.
pub fn is_done(pod: &Pod) -> bool {
    let has_ended = matches!(pod.status.phase, Phase::Succeeded | Phase::Failed);
    has_ended || (pod.metadata.is_deleting() && pod.spec.node_name.is_empty())
}
