//! The claims of one pod: which to create, and which owner references to correct. Pure.

use flyball_api::pod::Pod;
use flyball_api::{Key, OwnerReference, PersistentVolumeClaim};
use flyball_common::pods::{FAILED_CREATE, SUCCESSFUL_CREATE};
use flyball_runtime::plan::Group;
use flyball_runtime::{ErrorKinds, Event, Message, Write};
use serde_json::Value;
use smol_str::SmolStr;

use super::identity::claim_names;
use super::manifests;
use super::plan::{Step, Why};
use super::retention::ownership;
use super::view::View;

/// Creates the missing claims of a pod. All are tried. A terminating claim is a failure: a new pod would use it, and it
/// would never be deleted.
pub fn create(view: &View<'_>, ordinal: i32, pod: &str) -> Group<Option<Why>> {
    let create = |(name, body): (SmolStr, Value)| -> Option<Step> {
        match view.claims.get(&name) {
            None => Some(creation(view, &name, body, pod).into()),
            Some(claim) if claim.metadata.is_deleting() => {
                Some(Step::Fail(format!("pvc {name} is being deleted")))
            }
            Some(_) => None,
        }
    };
    Step::each(claim_names(view.set, ordinal).zip(manifests::claims(view.set, ordinal)).filter_map(create))
}

fn creation(view: &View<'_>, name: &str, body: Value, pod: &str) -> Write<Option<Why>> {
    let set = &view.set.metadata;
    let success = format!("Create Claim {name} Pod {pod} in StatefulSet {} success", set.name);
    let failure = format!("Create Claim {name} for Pod {pod} in StatefulSet {} failed error: ", set.name);
    Write::create::<PersistentVolumeClaim>(Key::new(set.namespace.as_str(), name), body)
        .why(format_args!("the pod {pod} needs it"))
        .failure_prefix(format!("failed to create PVC {name}: "))
        .no_event_for(ErrorKinds::ALREADY_EXISTS)
        .on_success(Event::normal(SUCCESSFUL_CREATE, success))
        .on_failure(Event::warning(FAILED_CREATE, Message::ThenError(failure)))
        .tag(None)
}

/// Sets the owner references of the claims of a pod as the retention policy requires. `pod` is `None` if it does not exist
/// yet.
pub fn correct_owners(view: &View<'_>, ordinal: i32, pod: Option<&Pod>) -> Group<Option<Why>> {
    let holder = view.holder(ordinal, pod);
    let claims = claim_names(view.set, ordinal).filter_map(|name| view.claims.get(&name));
    Step::sequence(claims.flat_map(|claim| {
        let ownership = ownership(claim, view.set, &holder);
        let warning = ownership.is_contested.then(|| Step::from(conflict(&claim.metadata.name)));
        let correction = ownership.correction.map(|owners| correction(claim, owners).into());
        [warning, correction].into_iter().flatten()
    }))
}

fn conflict(claim: &str) -> Event {
    let message = format!(
        "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging controller, \
         the retention policy is ignored for this claim"
    );
    Event::warning("ConflictingController", message)
}

fn correction(claim: &PersistentVolumeClaim, owners: Vec<OwnerReference>) -> Write<Option<Why>> {
    let mut claim = claim.clone();
    claim.metadata.owner_references = owners.into();
    Write::replace(&claim)
        .why("the retention policy requires other owners")
        .failure_prefix(format!(
            "could not update claim {} for delete policy ownerRefs: ",
            claim.metadata.name
        ))
        .tag(None)
}
