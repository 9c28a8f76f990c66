//! The parts of the shell that read and write single objects, and try again when an object has changed.

use flyball_api::{ObjectMeta, ResourceType, Uid};
use flyball_queue::Priority;
use flyball_runtime::Plan;
use smol_str::SmolStr;

use super::identity::Identity;
use super::plan::{self, Finalizer, Target};
use super::server::{Problem, Server, is_object_missing};
use super::sync::{Collector, TRIES};

/// The code for a kind of patch that a resource does not take.
const UNSUPPORTED_MEDIA_TYPE: u16 = 415;

/// The outcome of a plan for one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    /// The object does not exist any more.
    Missing,
    /// It has changed since it was read.
    Conflict,
    /// The resource takes no strategic merge patches.
    Unsupported,
}

impl<S: Server> Collector<S> {
    /// Executes a plan for one object. If the object does not exist, the graph is updated.
    pub(super) async fn perform(&self, object: &Identity, plan: Plan) -> Result<Answer, Problem> {
        let outcome = self.server.perform(&object.key(), plan).await;
        let failure = outcome.failures.into_iter().find_map(|failure| Some((failure.doing, failure.error?)));
        match failure {
            None => Ok(Answer::Done),
            Some((_, error)) if error.is_conflict() => Ok(Answer::Conflict),
            Some((_, error)) if error.code() == Some(UNSUPPORTED_MEDIA_TYPE) => Ok(Answer::Unsupported),
            Some((_, error)) if is_object_missing(&error, &object.name) => {
                self.is_absent(object);
                Ok(Answer::Missing)
            }
            Some((doing, error)) => Err(Problem::Api(doing, error)),
        }
    }

    /// The object as it is now. If it does not exist, the graph is updated.
    async fn read(&self, target: Target<'_>) -> Result<Option<ObjectMeta>, Problem> {
        let Target { resource, object } = target;
        match self.server.read(resource, object).await {
            Ok(meta) if meta.uid == object.uid => Ok(Some(meta)),
            Err(error) if !is_object_missing(&error, &object.name) => {
                Err(Problem::Api("reading it".to_owned(), error))
            }
            Ok(_) | Err(_) => {
                let namespace =
                    if resource.namespaced { object.namespace.clone() } else { SmolStr::default() };
                self.absent().add(Identity { namespace, ..object.clone() });
                self.is_absent(object);
                Ok(None)
            }
        }
    }

    /// The object as the cache has it, at the first try, and after that as it is now.
    pub(super) async fn view(
        &self,
        target: Target<'_>,
        cached: &mut Option<ObjectMeta>,
    ) -> Result<Option<ObjectMeta>, Problem> {
        match cached.take() {
            Some(meta) => Ok(Some(meta)),
            None => self.read(target).await,
        }
    }

    fn is_absent(&self, object: &Identity) {
        self.change(Priority::Change, |graph| graph.absent(object));
    }

    /// Removes the references of one object to `owners`.
    pub(super) async fn release(&self, object: &Identity, owners: &[Uid]) -> Result<(), Problem> {
        let resource = self.resource(&object.api_version, &object.kind)?;
        let target = Target { resource: &resource, object };
        let release = |over: Option<&ObjectMeta>| Plan::of([plan::release(target, owners, over)]);
        match self.perform(object, release(None)).await? {
            Answer::Done | Answer::Missing => return Ok(()),
            Answer::Conflict => return Err(Problem::KeepsChanging),
            Answer::Unsupported => {}
        }
        let mut cached = self.server.cached(&resource, object);
        for _ in 0..TRIES {
            let Some(seen) = self.view(target, &mut cached).await? else { return Ok(()) };
            match self.perform(object, release(Some(&seen))).await? {
                Answer::Done | Answer::Missing => return Ok(()),
                Answer::Conflict | Answer::Unsupported => {}
            }
        }
        Err(Problem::KeepsChanging)
    }

    pub(super) async fn remove_finalizer(
        &self,
        object: &Identity,
        finalizer: Finalizer,
    ) -> Result<(), Problem> {
        let resource = self.resource(&object.api_version, &object.kind)?;
        let target = Target { resource: &resource, object };
        let mut cached = self.server.cached(&resource, object);
        for _ in 0..TRIES {
            let Some(seen) = self.view(target, &mut cached).await? else { return Ok(()) };
            let plan = Plan::of(plan::remove_finalizer(target, &seen, finalizer));
            match self.perform(object, plan).await? {
                Answer::Done => {
                    self.change(Priority::Change, |graph| {
                        graph.finished(&object.uid);
                        vec![]
                    });
                    return Ok(());
                }
                Answer::Missing => return Ok(()),
                Answer::Conflict | Answer::Unsupported => {}
            }
        }
        Err(Problem::KeepsChanging)
    }

    pub(super) fn resource(&self, api_version: &SmolStr, kind: &SmolStr) -> Result<ResourceType, Problem> {
        let found = self.server.resource(api_version, kind);
        found.ok_or_else(|| Problem::UnknownKind(api_version.clone(), kind.clone()))
    }
}
