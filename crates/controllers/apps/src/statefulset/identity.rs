//! The identity of a pod of a set: its ordinal, its name and its claims. Pure.

use flyball_api::StatefulSet;
use flyball_api::pod::{Pod, VolumeSource};
use smol_str::{SmolStr, format_smolstr};

/// The label that repeats a pod's name, so that a Service can select one pod.
pub const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// The label that holds a pod's ordinal.
pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// The label with the name of the revision of a pod.
pub const REVISION: &str = "controller-revision-hash";

/// The name of the set and the ordinal in the name of a pod. The ordinal is `None` if it is too large for a set; the
/// result is `None` for a name of another form.
pub fn parent_and_ordinal(pod: &str) -> Option<(&str, Option<i32>)> {
    let (parent, digits) = pod.rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| (parent, digits.parse().ok()))
}

/// Whether the name of a pod has the name of the set.
pub fn is_member(set: &StatefulSet, pod: &Pod) -> bool {
    parent_and_ordinal(&pod.metadata.name).is_some_and(|(parent, _)| set.metadata.name == parent)
}

/// The ordinal in the name of a pod.
pub fn ordinal(pod: &Pod) -> Option<i32> {
    parent_and_ordinal(&pod.metadata.name)?.1
}

/// The name of the pod with this ordinal.
pub fn pod_name(set: &StatefulSet, ordinal: i32) -> SmolStr {
    format_smolstr!("{}-{ordinal}", set.metadata.name)
}

/// The name of the claim of this template and this pod.
pub fn claim_name(set: &StatefulSet, template: &str, ordinal: i32) -> SmolStr {
    format_smolstr!("{template}-{}-{ordinal}", set.metadata.name)
}

/// The names of all claims of the pod with this ordinal.
pub fn claim_names(set: &StatefulSet, ordinal: i32) -> impl Iterator<Item = SmolStr> {
    set.spec
        .volume_claim_templates
        .iter()
        .map(move |template| claim_name(set, &template.metadata.name, ordinal))
}

/// The revision of a pod; empty if it has no label for it.
pub fn revision(pod: &Pod) -> &str {
    pod.metadata.labels.get(REVISION).unwrap_or_default()
}

/// Whether the name and labels of a pod are those of its ordinal.
pub fn is_itself(set: &StatefulSet, pod: &Pod) -> bool {
    let meta = &pod.metadata;
    ordinal(pod).is_some_and(|ordinal| meta.name == pod_name(set, ordinal))
        && meta.namespace == set.metadata.namespace
        && meta.labels.get(POD_NAME) == Some(&meta.name)
}

/// Whether a pod mounts the claims of its ordinal.
pub fn has_its_storage(set: &StatefulSet, pod: &Pod) -> bool {
    let Some(ordinal) = ordinal(pod) else { return false };
    set.spec.volume_claim_templates.iter().all(|template| {
        let wanted = claim_name(set, &template.metadata.name, ordinal);
        pod.spec.volumes.iter().any(|volume| {
            volume.name == template.metadata.name
                && matches!(&volume.source, VolumeSource::Claim { name, .. } if *name == wanted)
        })
    })
}
