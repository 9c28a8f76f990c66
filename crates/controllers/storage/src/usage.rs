//! Which claims a pod uses: those that it names, and those of its ephemeral volumes. Pure.

use flyball_api::pod::{Pod, Volume, VolumeSource};
use flyball_api::{Key, ObjectMeta, PersistentVolumeClaim, Uid};
use flyball_cache::{Index, Store};
use rustc_hash::FxHashSet;
use smol_str::{SmolStr, format_smolstr};
use std::sync::Arc;

/// Pods by the claims that they use, as `namespace/name`.
pub const BY_CLAIM: Index<Pod> = Index::new("claim", |pod, emit| {
    for volume in &pod.spec.volumes {
        if let Some(name) = claim_name(&pod.metadata, volume) {
            emit(&format_smolstr!("{}/{name}", pod.metadata.namespace));
        }
    }
});

/// The pods that may use a claim.
pub fn pods_of(pods: &Store<Pod>, claim: &Key) -> Vec<Arc<Pod>> {
    pods.by(&BY_CLAIM, &format_smolstr!("{claim}"))
}

/// The claim of a volume, if it has one.
pub fn claim_name(pod: &ObjectMeta, volume: &Volume) -> Option<SmolStr> {
    match &volume.source {
        VolumeSource::Claim { name, .. } => Some(name.clone()),
        VolumeSource::Ephemeral(_) => Some(made_name(pod, volume)),
        VolumeSource::Csi { .. } | VolumeSource::Inline(..) => None,
    }
}

/// The name of the claim for an ephemeral volume.
pub fn made_name(pod: &ObjectMeta, volume: &Volume) -> SmolStr {
    format_smolstr!("{}-{}", pod.name, volume.name)
}

/// Whether a claim was created for an ephemeral volume of a pod. A user may have created another of that name.
pub fn is_made_for(claim: &PersistentVolumeClaim, pod: &ObjectMeta) -> bool {
    claim.metadata.namespace == pod.namespace && claim.metadata.is_controlled_by(&pod.uid)
}

/// The keys of the claims that a pod uses.
pub fn claims_of(pod: &Pod) -> impl Iterator<Item = Key> {
    let names = pod.spec.volumes.iter().filter_map(|volume| claim_name(&pod.metadata, volume));
    names.map(|name| Key::new(pod.metadata.namespace.as_str(), name))
}

/// The claims of one namespace that some pods use.
#[derive(Debug, Default)]
pub struct Uses {
    named: FxHashSet<SmolStr>,
    made: FxHashSet<(SmolStr, Uid)>,
}

impl Uses {
    /// The claims of those volumes that `counts` accepts.
    pub fn of<'a>(
        pods: impl IntoIterator<Item = &'a Pod>,
        counts: impl Fn(&Pod, &VolumeSource) -> bool,
    ) -> Self {
        let mut uses = Self::default();
        for pod in pods {
            for volume in pod.spec.volumes.iter().filter(|volume| counts(pod, &volume.source)) {
                match &volume.source {
                    VolumeSource::Claim { name, .. } => {
                        uses.named.insert(name.clone());
                    }
                    VolumeSource::Ephemeral(_) => {
                        uses.made.insert((made_name(&pod.metadata, volume), pod.metadata.uid.clone()));
                    }
                    VolumeSource::Csi { .. } | VolumeSource::Inline(..) => {}
                }
            }
        }
        uses
    }

    /// Whether a claim is among them.
    pub fn contains(&self, claim: &PersistentVolumeClaim) -> bool {
        let meta = &claim.metadata;
        let is_made = || {
            let owner = meta.controller().map(|owner| (meta.name.clone(), owner.uid.clone()));
            owner.is_some_and(|owner| self.made.contains(&owner))
        };
        self.named.contains(&meta.name) || is_made()
    }
}
