//! What the collector does to single objects: read them anew, take references and finalizers from them.

use flyball_api::{ObjectMeta, ResourceType, Uid};
use flyball_client::{Error, Patch};
use flyball_queue::Priority;
use serde_json::Value;
use smol_str::SmolStr;

use super::identity::Identity;
use super::patches;
use super::server::{Problem, Server, is_object_missing};
use super::sync::{Collector, TRIES};

/// How a server says that it does not take this kind of patch.
const UNSUPPORTED_MEDIA_TYPE: u16 = 415;

impl<S: Server> Collector<S> {
    /// The object as it is now; if there is none, the graph learns of it.
    pub(super) async fn read(
        &self,
        resource: &ResourceType,
        object: &Identity,
    ) -> Result<Option<ObjectMeta>, Problem> {
        match self.server.read(resource, object).await {
            Ok(meta) if meta.uid == object.uid => Ok(Some(meta)),
            Err(error) if !is_object_missing(&error, &object.name) => {
                Err(Problem::Api("reading it".to_owned(), error))
            }
            Ok(_) | Err(_) => {
                let namespace =
                    if resource.namespaced { object.namespace.clone() } else { SmolStr::default() };
                self.absent().add(Identity { namespace, ..object.clone() });
                self.is_absent(object.clone());
                Ok(None)
            }
        }
    }

    /// What to go by: what the cache has, at the first try, and after that the object as it is now.
    pub(super) async fn view(
        &self,
        resource: &ResourceType,
        object: &Identity,
        cached: &mut Option<ObjectMeta>,
    ) -> Result<Option<ObjectMeta>, Problem> {
        match cached.take() {
            Some(meta) => Ok(Some(meta)),
            None => self.read(resource, object).await,
        }
    }

    pub(super) fn is_absent(&self, object: Identity) {
        self.change(Priority::Change, |graph| graph.absent(&object));
    }

    /// Removes references to `owners` from an object.
    pub(super) async fn release(
        &self,
        resource: &ResourceType,
        object: &Identity,
        owners: &[Uid],
    ) -> Result<(), Problem> {
        let (strategic, why) =
            (patches::release(&object.uid, owners), "these owners are gone or go without it");
        self.patch(resource, object, strategic, |meta| patches::release_plainly(meta, owners), why).await
    }

    pub(super) async fn unblock(
        &self,
        resource: &ResourceType,
        object: &Identity,
        meta: &ObjectMeta,
    ) -> Result<(), Problem> {
        let why = "it and its owners may wait for each other in a circle";
        self.patch(resource, object, patches::unblock(meta), patches::unblock_plainly, why).await
    }

    /// Tries a strategic merge patch and, where that is not served, a plain one. An object that is gone is fine.
    pub(super) async fn patch(
        &self,
        resource: &ResourceType,
        object: &Identity,
        strategic: Value,
        plain: impl Fn(&ObjectMeta) -> Value + Send + Sync,
        why: &str,
    ) -> Result<(), Problem> {
        let failed = |error| Problem::Api("patching its owner references".to_owned(), error);
        let mut patched = self.server.patch(resource, object, Patch::Strategic(strategic), why).await;
        if patched.as_ref().is_err_and(|error| error.code() == Some(UNSUPPORTED_MEDIA_TYPE)) {
            let mut cached = self.server.cached(resource, object);
            for _ in 0..TRIES {
                let Some(seen) = self.view(resource, object, &mut cached).await? else { return Ok(()) };
                patched = self.server.patch(resource, object, Patch::Merge(plain(&seen)), why).await;
                if !patched.as_ref().is_err_and(Error::is_conflict) {
                    break;
                }
            }
        }
        match patched {
            Err(error) if !is_object_missing(&error, &object.name) => Err(failed(error)),
            _ => Ok(()),
        }
    }

    pub(super) async fn remove_finalizer(
        &self,
        object: &Identity,
        finalizer: &str,
        why: &str,
    ) -> Result<(), Problem> {
        let resource = self.resource(&object.api_version, &object.kind)?;
        let mut cached = self.server.cached(&resource, object);
        for _ in 0..TRIES {
            let Some(seen) = self.view(&resource, object, &mut cached).await? else { return Ok(()) };
            let removed = match patches::without_finalizer(&seen, finalizer) {
                Some(patch) => self.server.patch(&resource, object, Patch::Merge(patch), why).await,
                None => Ok(()),
            };
            match removed {
                Ok(()) => {
                    self.change(Priority::Change, |graph| {
                        graph.let_go(&object.uid);
                        vec![]
                    });
                    return Ok(());
                }
                Err(error) if error.is_conflict() => {}
                Err(error) if is_object_missing(&error, &object.name) => return Ok(()),
                Err(error) => return Err(Problem::Api(format!("removing its finalizer {finalizer}"), error)),
            }
        }
        Err(Problem::KeepsChanging)
    }

    pub(super) fn resource(&self, api_version: &SmolStr, kind: &SmolStr) -> Result<ResourceType, Problem> {
        let found = self.server.resource(api_version, kind);
        found.ok_or_else(|| Problem::UnknownKind(api_version.clone(), kind.clone()))
    }
}
