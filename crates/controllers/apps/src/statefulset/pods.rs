//! The writes for one pod and its claims, with the events about them. Pure.

use flyball_api::pod::Pod;
use flyball_api::{Key, StatefulSet};
use flyball_runtime::{ErrorKinds, Event, Message, Write};

use super::identity::{has_its_storage, is_itself, pod_name};
use super::plan::{Step, Why};
use super::view::View;
use super::{claims, manifests};

/// Creates the pod with this ordinal, after its claims.
pub fn create(view: &View<'_>, ordinal: i32) -> Step {
    let (set, name) = (view.set, pod_name(view.set, ordinal));
    let revision = view.revision_for(ordinal);
    let body = manifests::pod(set, &view.template(revision), revision, ordinal);
    let claims = claims::create(view, ordinal, &name).on_failure(failure(set, "Create", &name));
    let create = Write::create::<Pod>(Key::new(set.metadata.namespace.as_str(), name.as_str()), body)
        .why(format_args!("the pod with ordinal {ordinal} is missing"))
        .on_failure(failure(set, "Create", &name))
        .no_event_for(ErrorKinds::ALREADY_EXISTS)
        .tag(None);
    // If the pod is refused, its claims still get the right owners, unless another pod has its name.
    let owners = claims::correct_owners(view, ordinal, None).on_failure(failure(set, "Update", &name));
    let create = Step::each([Step::from(create), owners.into()]).stop_on(ErrorKinds::ALREADY_EXISTS);
    Step::sequence([claims, create]).on_success(success(set, "Create", &name)).into()
}

pub fn delete(set: &StatefulSet, pod: &Pod, why: Why) -> Step {
    let delete = Write::delete(pod).why(why.text()).tag(Some(why));
    with_events(set, "Delete", &pod.metadata.name, [delete.into()])
}

/// Repairs the identity and the storage of a pod, and the owners of its claims.
pub fn repair(view: &View<'_>, ordinal: i32, pod: &Pod) -> Step {
    let (set, name) = (view.set.clone(), &pod.metadata.name);
    let (is_itself, has_its_storage) = (is_itself(&set, pod), has_its_storage(&set, pod));
    let claims = (!has_its_storage).then(|| claims::create(view, ordinal, name).into());
    let owners = claims::correct_owners(view, ordinal, Some(pod));
    let update = Write::get_then_update(pod, move |pod| {
        if !is_itself {
            manifests::identify(&set, pod, ordinal);
        }
        if !has_its_storage {
            manifests::equip(&set, pod, ordinal);
        }
    });
    // If only the owners of its claims were wrong, the pod itself is not written.
    let ignored = if is_itself && has_its_storage { ErrorKinds::CONFLICT } else { ErrorKinds::NONE };
    let update = update
        .why("its identity, its storage or the owners of its claims are wrong")
        .ignore(ignored)
        .tag(None);
    with_events(view.set, "Update", name, claims.into_iter().chain([owners.into(), update.into()]))
}

/// Creates the claims that a pending pod lacks, and corrects their owners.
pub fn provide_claims(view: &View<'_>, ordinal: i32, pod: &Pod) -> [Step; 2] {
    let name = &pod.metadata.name;
    let owners =
        claims::correct_owners(view, ordinal, Some(pod)).on_failure(failure(view.set, "Update", name));
    [claims::create(view, ordinal, name).into(), owners.into()]
}

/// Effects in sequence, with one event about all of them. A conflict causes no event.
fn with_events(set: &StatefulSet, verb: &str, pod: &str, effects: impl IntoIterator<Item = Step>) -> Step {
    Step::sequence(effects)
        .on_success(success(set, verb, pod))
        .on_failure(failure(set, verb, pod))
        .no_event_for(ErrorKinds::CONFLICT | ErrorKinds::ALREADY_EXISTS)
        .into()
}

fn success(set: &StatefulSet, verb: &str, pod: &str) -> Event {
    let message = format!("{verb} Pod {pod} in StatefulSet {} successful", set.metadata.name);
    Event::normal(format!("Successful{verb}"), message)
}

fn failure(set: &StatefulSet, verb: &str, pod: &str) -> Event {
    let message = format!("{verb} Pod {pod} in StatefulSet {} failed error: ", set.metadata.name);
    Event::warning(format!("Failed{verb}"), Message::ThenError(message))
}
