//! Who a pod of a set is: its ordinal, its name, the claims that belong to it. Pure.

use flyball_api::StatefulSet;
use flyball_api::pod::{Pod, VolumeSource};
use smol_str::{SmolStr, format_smolstr};

/// The label that repeats a pod's name, so that a Service can select one pod.
pub const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// The label that holds a pod's ordinal.
pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// The label that names the revision a pod was made from.
pub const REVISION: &str = "controller-revision-hash";

/// The name of the set that a pod's name says it belongs to, and its number; `None` for a number that no set
/// counts up to. Nothing at all for a name of another form.
pub fn parent_and_ordinal(pod: &str) -> Option<(&str, Option<i32>)> {
    let (parent, digits) = pod.rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| (parent, digits.parse().ok()))
}

/// Whether a pod's name says that it belongs to the set.
pub fn is_member(set: &StatefulSet, pod: &Pod) -> bool {
    parent_and_ordinal(&pod.metadata.name).is_some_and(|(parent, _)| set.metadata.name == parent)
}

/// The number in a pod's name.
pub fn ordinal(pod: &Pod) -> Option<i32> {
    parent_and_ordinal(&pod.metadata.name)?.1
}

/// What the pod of this number is called.
pub fn pod_name(set: &StatefulSet, ordinal: i32) -> SmolStr {
    format_smolstr!("{}-{ordinal}", set.metadata.name)
}

/// What the claim of this template and this pod is called.
pub fn claim_name(set: &StatefulSet, template: &str, ordinal: i32) -> SmolStr {
    format_smolstr!("{template}-{}-{ordinal}", set.metadata.name)
}

/// The names of all claims that the pod of this number has.
pub fn claim_names(set: &StatefulSet, ordinal: i32) -> impl Iterator<Item = SmolStr> {
    set.spec
        .volume_claim_templates
        .iter()
        .map(move |template| claim_name(set, &template.metadata.name, ordinal))
}

/// The revision that a pod was made from; empty if it does not say.
pub fn revision(pod: &Pod) -> &str {
    pod.metadata.labels.get(REVISION).unwrap_or_default()
}

/// Whether a pod is named and labelled as the set's pod of its number.
pub fn is_itself(set: &StatefulSet, pod: &Pod) -> bool {
    let meta = &pod.metadata;
    ordinal(pod).is_some_and(|ordinal| meta.name == pod_name(set, ordinal))
        && meta.namespace == set.metadata.namespace
        && meta.labels.get(POD_NAME) == Some(&meta.name)
}

/// Whether a pod mounts the claims that belong to its number.
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
