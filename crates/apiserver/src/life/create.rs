//! Creation of objects.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::Ops;
use crate::admission::{self, Operation};
use crate::error::ApiError;
use crate::meta;
use crate::options::Uids;
use crate::registry::Subresource;
use crate::store::{Entry, Key, Refused};

/// The limit on attempts to generate a name that is not taken, as in upstream.
const NAME_ATTEMPTS: usize = 8;

impl Ops<'_> {
    /// Creates an object that `decode` has read.
    pub async fn create(&mut self, namespace: &str, mut object: Value) -> Result<Arc<Entry>, ApiError> {
        self.check_namespace(namespace, &mut object)?;
        // The store refuses it, which a dry run does not reach.
        let has_version = !self.dry_run && !meta::text(&object, "resourceVersion").is_empty();
        remove_server_fields(&mut object);
        admission::mutate(self, Operation::Create, None, &mut object, None).await?;
        let generated =
            meta::text(&object, "name").is_empty() && !meta::text(&object, "generateName").is_empty();
        let attempts = if generated { NAME_ATTEMPTS } else { 1 };
        let mut last = None;
        for _ in 0..attempts {
            match self.create_once(namespace, object.clone(), (generated, has_version)).await {
                Err(error) if generated && error.reason == "AlreadyExists" => last = Some(error),
                done => return done,
            }
        }
        Err(last.unwrap_or_else(|| ApiError::internal("no name could be generated")))
    }

    /// Writes an object of the server's own without the checks that a client's object has to pass. One that exists gets the fields
    /// of `object` other than its metadata.
    pub(crate) fn write_own(&mut self, namespace: &str, mut object: Value) -> Result<(), ApiError> {
        let resource = Arc::clone(self.resource);
        let name = meta::text(&object, "name").to_owned();
        let key = Key::new(namespace, name.as_str());
        let old = self.server.store.get(&resource.shelf, &key);
        let before = old.as_ref().map(|entry| entry.value());
        match &before {
            None => {
                meta::of(&mut object).insert("namespace".to_owned(), json!(namespace));
                self.fill_metadata(&mut object, false);
                self.prepare_create(&mut object);
            }
            Some(before) => object["metadata"] = before["metadata"].clone(),
        }
        self.reshape(&mut object);
        if before.as_ref() == Some(&object) {
            return Ok(());
        }
        crate::apply::track_update(self, None, &mut object, before.as_ref());
        match self.put(&key, old.as_deref(), object) {
            Ok(_) => Ok(()),
            Err(Refused::Exists | Refused::Changed) => Err(ApiError::modified(resource.named(&name))),
        }
    }

    fn check_namespace(&self, namespace: &str, object: &mut Value) -> Result<(), ApiError> {
        let given = meta::text(object, "namespace");
        if self.resource.namespaced {
            if !given.is_empty() && given != namespace {
                return Err(ApiError::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            meta::of(object).insert("namespace".to_owned(), json!(namespace));
        }
        Ok(())
    }

    async fn create_once(
        &mut self,
        namespace: &str,
        mut object: Value,
        (generated, has_version): (bool, bool),
    ) -> Result<Arc<Entry>, ApiError> {
        let resource = Arc::clone(self.resource);
        self.fill_metadata(&mut object, generated);
        self.prepare_create(&mut object);
        self.reshape(&mut object);

        let name = meta::text(&object, "name").to_owned();
        let mut causes = meta::validate(&object, resource.namespaced, resource.strategy.name_rule());
        if let Some(custom) = &resource.custom {
            let findings = custom.validate(&object, None);
            causes.extend(findings.causes);
            self.notes.warn(findings.warnings);
        }
        causes.extend(resource.strategy.validate_create(&object));
        self.allow_by_gates(&mut causes, &object);
        self.refuse_if(&name, &causes)?;
        self.notes.warn(resource.strategy.warnings(&object));
        admission::validate(self, Operation::Create, None, Some(&object), None).await?;
        if has_version {
            return Err(ApiError::unexplained("resourceVersion should not be set on objects to be created"));
        }

        let claim = self.server.claim_addresses(self, None, &mut object)?;
        crate::apply::track_update(self, None, &mut object, None);
        let key = Key::new(if resource.namespaced { namespace } else { "" }, name.as_str());
        let object = self.for_storage(object).await?;
        match self.put(&key, None, object) {
            Ok(entry) => {
                claim.keep();
                Ok(entry)
            }
            Err(Refused::Exists | Refused::Changed) => Err(ApiError::already_exists(resource.named(&name))),
        }
    }

    fn fill_metadata(&self, object: &mut Value, generated: bool) {
        let mut rng = self.server.rng.lock();
        let uid = match self.server.options.uids {
            Uids::Random => meta::uuid(&mut *rng),
            Uids::Falling => {
                meta::falling_uuid(&mut *rng, self.server.drawn_uids.fetch_add(1, Ordering::Relaxed))
            }
        };
        if generated {
            let name = meta::generate_name(&mut *rng, meta::text(object, "generateName"));
            meta::of(object).insert("name".to_owned(), json!(name));
        }
        drop(rng);
        remove_server_fields(object);
        let fields = meta::of(object);
        fields.insert("uid".to_owned(), json!(uid));
        let created = self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        fields.insert("creationTimestamp".to_owned(), json!(created));
    }

    fn prepare_create(&self, object: &mut Value) {
        let resource = self.resource;
        if resource.generation {
            meta::of(object).insert("generation".to_owned(), json!(1));
        }
        if resource.has(Subresource::Status)
            && !resource.strategy.keep_status_on_create()
            && let Some(map) = object.as_object_mut()
        {
            map.remove("status");
            // The shape (of the stored version) adds the empty status that Go writes.
            self.reshape(object);
        }
        resource.strategy.prepare_create(&self.cx(), object);
    }
}

/// Removes what only the server may set.
fn remove_server_fields(object: &mut Value) {
    const FIELDS: [&str; 6] = [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "generation",
    ];
    let fields = meta::of(object);
    for field in FIELDS {
        fields.remove(field);
    }
}
