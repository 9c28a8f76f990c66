//! What a sync has to remember or to count once its plan was executed. Pure.

use flyball_api::{Key, Uid};
use flyball_client::Verb;
use flyball_runtime::{ErrorKinds, Outcome};

use super::claim::{self, Step};
use super::writes::Tag;
use super::{provision, reclaim, volume};

/// A change of what is known about a claim or a volume and its operation (provisioning or deletion).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// The operation has ended.
    Done,
    /// An attempt has failed. The next one is made when the key is retried.
    Failed,
    /// An attempt has failed, and the next one is delayed.
    FailedAndDelayed,
    /// The next attempt is delayed. Upstream: provisionClaimOperation does not count it as an error if the server refuses the volume.
    Delayed,
    /// The deletion of the volume was requested from the server.
    DeletionRequested,
    /// A claim without a class got the default class, or could not be written.
    ClassSet { is_ok: bool },
    /// The server has a new recycler pod for the volume.
    RecyclerCreated(Key, Uid),
    /// The recycler pod has succeeded, and that is written.
    Recycled,
    /// The server refused the recycler pod, or it has failed and that is written. The next attempt is delayed.
    RecyclingFailed,
}

/// What to record after the step of a claim.
pub(super) fn of_claim(view: &claim::View<'_>, step: &Step<'_>, outcome: &Outcome<Tag>) -> Option<Record> {
    match step {
        Step::Bind(_) if outcome.is_ok() => Some(Record::Done),
        Step::Bind(_) => Some(Record::Failed),
        Step::SetClass(_) => Some(Record::ClassSet { is_ok: outcome.is_ok() }),
        Step::Provision(_) if provision::failure(view).is_some() => Some(Record::FailedAndDelayed),
        Step::Provision(_) if provision::refusal(outcome).is_some() => Some(Record::Delayed),
        // After a conflict the claim is synced again, as after any other change.
        Step::Provision(_) => {
            let failure = outcome.failure()?;
            (!failure.is_one_of(ErrorKinds::CONFLICT | ErrorKinds::OUTDATED)).then_some(Record::Failed)
        }
        _ => None,
    }
}

/// What to record after the step of a volume.
pub(super) fn of_volume(view: &volume::View, outcome: &Outcome<Tag>) -> Vec<Record> {
    let of_removal = match &view.removed {
        Some(Err(_)) => Some(Record::FailedAndDelayed),
        Some(Ok(())) if reclaim::stuck_finalizer(view, outcome).is_some() => Some(Record::FailedAndDelayed),
        // The finalizer is removed first. If that failed, the deletion was not requested.
        Some(Ok(())) if outcome.failure().is_none_or(|failure| failure.verb == Some(Verb::Delete)) => {
            Some(Record::DeletionRequested)
        }
        _ => None,
    };
    let pods = outcome.done.iter().filter(|done| matches!(done.tag, Tag::Pod));
    let created = pods.filter_map(|done| done.answer.written());
    let created = created.map(|pod| Record::RecyclerCreated(pod.key(), pod.uid.clone()));
    let refused = outcome.failures.iter().any(|failure| matches!(failure.tag, Some(Tag::Pod)));
    let refused = refused.then_some(Record::RecyclingFailed);
    let ended = (reclaim::is_recycled(view) && outcome.is_ok()).then(|| match reclaim::emptied(view) {
        Some(_) => Record::Recycled,
        None => Record::RecyclingFailed,
    });
    of_removal.into_iter().chain(created).chain(refused).chain(ended).collect()
}
