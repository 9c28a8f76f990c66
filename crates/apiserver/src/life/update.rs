//! Updates of objects: the main resource and subresources.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Ops;
use crate::admission::{self, Operation};
use crate::error::ApiError;
use crate::invalid::Cause;
use crate::meta;
use crate::registry::Subresource;
use crate::store::{Entry, Key, Refused};

/// What is updated, and what happens if the object does not exist.
#[derive(Debug, Clone, Copy, Default)]
pub struct Target {
    /// The subresource; `None` is the object itself.
    pub sub: Option<Subresource>,
    /// Create the object if it does not exist (apply, and kinds that allow it on PUT).
    pub create_missing: bool,
    /// Whether the change depends on the current state and may be retried on a newer one (patches).
    pub repeatable: bool,
}

/// The outcome of an update.
#[derive(Debug)]
pub struct Updated {
    pub entry: Arc<Entry>,
    pub created: bool,
}

/// The limit on attempts of a patch after conflicts, as in upstream.
const ATTEMPTS: usize = 5;

impl Ops<'_> {
    /// Changes an object. `change` gets the current state (`None` when it does not exist and may be created) and returns the
    /// wanted one, in storage form.
    pub async fn update(
        &mut self,
        key: &Key,
        target: Target,
        mut change: impl FnMut(&mut Self, Option<&Value>) -> Result<Value, ApiError> + Send,
    ) -> Result<Updated, ApiError> {
        let shelf = self.resource.shelf.clone();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let Some(entry) = self.server.store.get(&shelf, key) else {
                if !target.create_missing {
                    return Err(ApiError::not_found(self.resource.named(&key.name)));
                }
                return self.create_missing(key, &mut change).await;
            };
            let old = self.current(&entry).await?;
            let new = change(self, Some(&old))?;
            let conditional = !meta::text(&new, "resourceVersion").is_empty();
            match self.update_once(key, target, &entry, &old, new).await? {
                Ok(entry) => return Ok(Updated { entry, created: false }),
                Err(_) if conditional && !target.repeatable => {
                    return Err(ApiError::modified(self.resource.named(&key.name)));
                }
                Err(_) if attempt >= ATTEMPTS && target.repeatable => {
                    return Err(ApiError::modified(self.resource.named(&key.name)));
                }
                Err(_) => {}
            }
        }
    }

    async fn create_missing(
        &mut self,
        key: &Key,
        change: &mut (impl FnMut(&mut Self, Option<&Value>) -> Result<Value, ApiError> + Send),
    ) -> Result<Updated, ApiError> {
        let mut new = change(self, None)?;
        if !meta::text(&new, "uid").is_empty() {
            let uid = meta::text(&new, "uid");
            let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
            return Err(ApiError::conflict(self.resource.named(&key.name), &why));
        }
        meta::of(&mut new).remove("resourceVersion");
        let entry = self.create(&key.namespace, new).await?;
        Ok(Updated { entry, created: true })
    }

    /// One attempt; the inner error is a conflict.
    async fn update_once(
        &mut self,
        key: &Key,
        target: Target,
        entry: &Arc<Entry>,
        old: &Value,
        mut new: Value,
    ) -> Result<Result<Arc<Entry>, Refused>, ApiError> {
        self.check_identity(key, target, entry, old, &new)?;
        self.restore(target.sub, &mut new, old);
        admission::mutate(self, Operation::Update, target.sub, &mut new, Some(old)).await?;
        self.restore(target.sub, &mut new, old);
        self.prepare_update(target.sub, &mut new, old);
        self.reshape(&mut new);
        self.validate_update(target.sub, &new, old)?;
        admission::validate(self, Operation::Update, target.sub, Some(&new), Some(old)).await?;
        let claim = self.server.claim_addresses(self, Some(old), &mut new)?;
        crate::apply::track_update(self, target.sub, &mut new, Some(old));
        meta::of(&mut new).insert("resourceVersion".to_owned(), json!(entry.version.to_string()));
        if crate::apply::same_but_for_times(&new, old) {
            return Ok(Ok(Arc::clone(entry)));
        }
        let new = self.for_storage(new).await?;
        let outcome = if is_finished(&new) && !self.is_held_namespace(&new) {
            let last = Entry::new(
                entry.version,
                key.clone(),
                entry.facets.clone(),
                crate::store::Happened::Modified,
                &new,
            );
            let result = self.remove(key, entry, new.clone()).map(|()| Arc::new(last));
            if result.is_ok() && !self.dry_run {
                self.server.release_addresses(self.resource, &new);
            }
            result
        } else {
            self.put(key, Some(entry), new)
        };
        if outcome.is_ok() {
            claim.keep();
        }
        Ok(outcome)
    }

    /// A namespace stays until its own finalizers in `spec` are gone, too.
    fn is_held_namespace(&self, object: &Value) -> bool {
        self.resource.is("", "namespaces")
            && object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
    }

    fn check_identity(
        &self,
        key: &Key,
        target: Target,
        entry: &Entry,
        old: &Value,
        new: &Value,
    ) -> Result<(), ApiError> {
        let named = self.resource.named(&key.name);
        let name = meta::text(new, "name");
        if !name.is_empty() && name != key.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                key.name
            )));
        }
        let namespace = meta::text(new, "namespace");
        if self.resource.namespaced && !namespace.is_empty() && namespace != key.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let (uid, old_uid) = (meta::text(new, "uid"), meta::text(old, "uid"));
        if !uid.is_empty() && uid != old_uid && target.repeatable {
            // A patch has no preconditions: its uid is treated as a change.
            self.refuse_if(&key.name, &[Cause::invalid("metadata.uid", uid, "field is immutable")])?;
        }
        if !uid.is_empty() && uid != old_uid {
            let why =
                format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {old_uid}");
            return Err(ApiError::conflict(named, &why));
        }
        match meta::text(new, "resourceVersion") {
            "" if !self.resource.strategy.allow_unconditional_update() => {
                let detail = "must be specified for an update";
                self.refuse_if(&key.name, &[Cause::invalid("metadata.resourceVersion", 0, detail)])
            }
            "" => Ok(()),
            given => match given.parse::<u64>() {
                Ok(version) if version == entry.version => Ok(()),
                Ok(_) => Err(ApiError::modified(named)),
                Err(_) => Err(ApiError::bad_request(format!(
                    "metadata.resourceVersion: Invalid value: {given:?}: strconv.ParseUint: parsing {given:?}: invalid syntax"
                ))),
            },
        }
    }

    /// Restores the fields that this request may not change.
    fn restore(&self, sub: Option<Subresource>, new: &mut Value, old: &Value) {
        meta::keep_server_fields(new, old);
        let (Some(map), Some(before)) = (new.as_object_mut(), old.as_object()) else { return };
        if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("name".to_owned(), before["metadata"]["name"].clone());
        }
        match sub {
            None if self.resource.has(Subresource::Status) => match before.get("status") {
                Some(status) => {
                    map.insert("status".to_owned(), status.clone());
                }
                None => {
                    map.remove("status");
                }
            },
            Some(Subresource::Status) => {
                map.retain(|field, _| {
                    before.contains_key(field) || matches!(field.as_str(), "status" | "metadata")
                });
                for (field, value) in before {
                    if !matches!(field.as_str(), "status" | "metadata") {
                        map.insert(field.clone(), value.clone());
                    }
                }
            }
            _ => {}
        }
    }

    fn prepare_update(&self, sub: Option<Subresource>, new: &mut Value, old: &Value) {
        let strategy = &self.resource.strategy;
        match sub {
            Some(sub) => strategy.prepare_subresource_update(&self.cx(), sub, new, old),
            None => strategy.prepare_update(&self.cx(), new, old),
        }
        let counts = Self::is_main(sub) || sub == Some(Subresource::Scale);
        if self.resource.generation && counts && strategy.spec_changed(new, old) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            meta::of(new).insert("generation".to_owned(), json!(generation));
        }
    }

    fn validate_update(
        &mut self,
        sub: Option<Subresource>,
        new: &Value,
        old: &Value,
    ) -> Result<(), ApiError> {
        let resource = Arc::clone(self.resource);
        let mut causes = meta::validate_update(new, old, resource.namespaced);
        if let Some(custom) = &resource.custom {
            let findings = custom.validate(new, Some(old));
            causes.extend(findings.causes);
            self.notes.warn(findings.warnings);
        }
        causes.extend(match sub {
            Some(sub) => resource.strategy.validate_subresource_update(sub, new, old),
            None => resource.strategy.validate_update(new, old),
        });
        self.allow_by_gates(&mut causes, new);
        self.refuse_if(meta::text(old, "name"), &causes)?;
        if sub.is_none() {
            self.notes.warn(resource.strategy.warnings(new));
        }
        Ok(())
    }
}

/// Whether an update has removed the last finalizer of an object that is being deleted.
fn is_finished(object: &Value) -> bool {
    meta::is_deleting(object)
        && meta::finalizers(object).is_empty()
        && object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
}

impl Ops<'_> {
    /// Changes an object without the rules of its kind, for writes of the server itself (the node name of a binding).
    pub fn rewrite(
        &mut self,
        key: &Key,
        mut change: impl FnMut(&mut Value) -> Result<(), ApiError>,
    ) -> Result<Arc<Entry>, ApiError> {
        loop {
            let entry = self.get(key)?;
            let mut object = entry.value();
            change(&mut object)?;
            self.reshape(&mut object);
            if let Ok(entry) = self.put(key, Some(&entry), object) {
                return Ok(entry);
            }
        }
    }
}
