//! Deletion of objects: at once, after the grace period, or when the finalizers are gone.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::Ops;
use crate::admission;
use crate::error::ApiError;
use crate::invalid::Cause;
use crate::meta;
use crate::registry::Propagation;
use crate::store::{Entry, Facets, Happened, Key};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The options of a delete request.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    pub grace: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub propagation: Option<Propagation>,
    /// The deprecated form of the propagation policy.
    pub orphan_dependents: Option<bool>,
}

impl DeleteOptions {
    /// Reads the options from a request body.
    pub fn read(body: &Value) -> Result<Self, ApiError> {
        let propagation = match body["propagationPolicy"].as_str() {
            None => None,
            Some(text) => Some(propagation(text)?),
        };
        let orphan_dependents = body["orphanDependents"].as_bool();
        if propagation.is_some() && orphan_dependents.is_some() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            let value = body["propagationPolicy"].clone();
            return Err(invalid_options(&[Cause::invalid("propagationPolicy", value, detail)]));
        }
        let owned = |value: &Value| value.as_str().map(str::to_owned);
        Ok(Self {
            grace: body["gracePeriodSeconds"].as_i64(),
            uid: owned(&body["preconditions"]["uid"]),
            resource_version: owned(&body["preconditions"]["resourceVersion"]),
            propagation,
            orphan_dependents,
        })
    }
}

pub(super) fn propagation(text: &str) -> Result<Propagation, ApiError> {
    match text {
        "Background" => Ok(Propagation::Background),
        "Foreground" => Ok(Propagation::Foreground),
        "Orphan" => Ok(Propagation::Orphan),
        other => {
            let allowed = ["Foreground", "Background", "Orphan", "nil"];
            Err(invalid_options(&[Cause::not_supported("propagationPolicy", other, &allowed)]))
        }
    }
}

fn invalid_options(causes: &[Cause]) -> ApiError {
    let named = crate::error::Named { group: "meta.k8s.io", what: "DeleteOptions", name: "" };
    ApiError::invalid(named, causes)
}

/// The effect of a delete request.
enum Next {
    /// The object is being deleted already; nothing changes.
    Wait,
    /// The object is marked as being deleted and stays.
    Mark,
    Remove,
    /// The object is marked as being deleted, then removed.
    MarkAndRemove,
}

fn scalar_time(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The outcome of a deletion.
#[derive(Debug)]
pub struct Deleted {
    pub entry: Arc<Entry>,
    /// Whether the object is removed already.
    pub gone: bool,
}

impl Ops<'_> {
    /// Deletes an object, or marks it.
    pub async fn delete(&mut self, key: &Key, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        let mut checked = false;
        loop {
            let entry = self.get(key)?;
            let old = entry.value();
            self.check_preconditions(key, &entry, &old, options)?;
            if !checked {
                let shown = self.current(&entry).await?;
                admission::delete(self, &shown).await?;
                checked = true;
            }
            let mut new = old.clone();
            match self.mark(&mut new, options) {
                Next::Wait => return Ok(Deleted { entry, gone: false }),
                Next::Mark if new == old => return Ok(Deleted { entry, gone: false }),
                Next::Mark => {
                    if let Ok(entry) = self.put(key, Some(&entry), new) {
                        return Ok(Deleted { entry, gone: false });
                    }
                }
                Next::Remove => {
                    if self.remove(key, &entry, new.clone()).is_ok() {
                        return Ok(self.removed(key, &new));
                    }
                }
                Next::MarkAndRemove => {
                    // Two writes, as upstream: watchers see the mark before the removal.
                    let Ok(marked) = self.put(key, Some(&entry), new.clone()) else { continue };
                    meta::of(&mut new)
                        .insert("resourceVersion".to_owned(), json!(marked.version.to_string()));
                    if self.remove(key, &marked, new.clone()).is_ok() {
                        return Ok(self.removed(key, &new));
                    }
                }
            }
        }
    }

    fn removed(&self, key: &Key, last: &Value) -> Deleted {
        if !self.dry_run {
            self.server.release_addresses(self.resource, last);
        }
        let entry = Entry::new(self.written, key.clone(), Facets::default(), Happened::Deleted, last);
        Deleted { entry: Arc::new(entry), gone: true }
    }

    fn check_preconditions(
        &self,
        key: &Key,
        entry: &Entry,
        old: &Value,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let named = self.resource.kind_named(&key.name);
        let uid = meta::text(old, "uid");
        if let Some(wanted) = &options.uid
            && wanted != uid
        {
            let why = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have \
                 been deleted and then recreated"
            );
            return Err(ApiError::conflict(named, &why));
        }
        if let Some(wanted) = &options.resource_version
            && *wanted != entry.version.to_string()
        {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({}). \
                 The object might have been modified",
                entry.version
            );
            return Err(ApiError::conflict(named, &why));
        }
        Ok(())
    }

    /// Marks `object` as being deleted, and returns the effect.
    fn mark(&self, object: &mut Value, options: &DeleteOptions) -> Next {
        if self.resource.is("", "namespaces") {
            return self.mark_namespace(object);
        }
        let requested = options.grace.map(|grace| if grace < 0 { 1 } else { grace });
        let granted = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        let deleting = meta::is_deleting(object);
        let graceful = self.resource.strategy.graceful_delete(object, requested);
        if deleting && graceful.is_some() && granted > 0 && requested.is_none_or(|grace| grace >= granted) {
            return Next::Wait;
        }
        let finalizers = self.deletion_finalizers(object, options);
        meta::set_finalizers(object, finalizers);
        let held = !meta::finalizers(object).is_empty();
        let remaining = match (deleting, graceful, requested) {
            (true, Some(_), Some(shorter)) if granted > 0 => self.shorten(object, granted, shorter),
            (true, ..) => return if held { Next::Mark } else { Next::Remove },
            (false, Some(grace), _) => {
                self.stamp(object, grace);
                grace
            }
            (false, None, _) if held => {
                self.stamp(object, 0);
                return Next::Mark;
            }
            (false, None, _) => return Next::Remove,
        };
        if remaining == 0 && !held { Next::MarkAndRemove } else { Next::Mark }
    }

    /// A repeated delete can only shorten the grace period; returns what is left of it.
    fn shorten(&self, object: &mut Value, granted: i64, wanted: i64) -> i64 {
        let end = object["metadata"]["deletionTimestamp"].as_str().and_then(|t| t.parse().ok());
        let end: jiff::Timestamp = end.unwrap_or(self.now);
        let sooner = end.saturating_sub(SignedDuration::from_secs(granted - wanted)).unwrap_or(end);
        let (end, left) = match sooner < self.now {
            true => (self.now, wanted.min(1)),
            false => (sooner, wanted),
        };
        let fields = meta::of(object);
        fields.insert("deletionTimestamp".to_owned(), json!(scalar_time(end)));
        fields.insert("deletionGracePeriodSeconds".to_owned(), json!(left));
        left
    }

    fn stamp(&self, object: &mut Value, grace: i64) {
        let end = self.now.saturating_add(SignedDuration::from_secs(grace)).unwrap_or(self.now);
        let generation = object["metadata"]["generation"].as_i64();
        let fields = meta::of(object);
        fields.insert("deletionTimestamp".to_owned(), json!(scalar_time(end)));
        fields.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
        if let Some(generation) = generation.filter(|g| *g > 0) {
            fields.insert("generation".to_owned(), json!(generation + 1));
        }
    }

    fn mark_namespace(&self, object: &mut Value) -> Next {
        let held = object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
            || !meta::finalizers(object).is_empty();
        if !held {
            return Next::Remove;
        }
        if !meta::is_deleting(object) {
            meta::of(object).insert("deletionTimestamp".to_owned(), json!(scalar_time(self.now)));
        }
        meta::child(object, "status").insert("phase".to_owned(), json!("Terminating"));
        Next::Mark
    }

    /// The finalizers after a delete request: the garbage collector's two depend on the propagation policy.
    fn deletion_finalizers(&self, object: &Value, options: &DeleteOptions) -> Vec<String> {
        let present = meta::finalizers(object);
        let policy = match (options.propagation, options.orphan_dependents) {
            (Some(policy), _) => policy,
            (None, Some(true)) => Propagation::Orphan,
            (None, Some(false)) => Propagation::Background,
            (None, None) if present.contains(&ORPHAN) => Propagation::Orphan,
            (None, None) if present.contains(&FOREGROUND) => Propagation::Foreground,
            (None, None) => self.resource.strategy.default_propagation(),
        };
        let definition = self.resource.is("apiextensions.k8s.io", "customresourcedefinitions");
        let mut wanted: Vec<String> =
            present.iter().filter(|f| **f != ORPHAN && **f != FOREGROUND).map(|f| (*f).to_owned()).collect();
        match policy {
            Propagation::Orphan => wanted.push(ORPHAN.to_owned()),
            Propagation::Foreground => wanted.push(FOREGROUND.to_owned()),
            Propagation::Background => {}
        }
        if definition && !meta::is_deleting(object) && !present.contains(&crate::crd::CLEANUP) {
            // The objects of a definition are deleted before it.
            wanted.push(crate::crd::CLEANUP.to_owned());
        }
        let is_same = wanted.len() == present.len() && present.iter().all(|f| wanted.iter().any(|w| w == f));
        if is_same { present.iter().map(|f| (*f).to_owned()).collect() } else { wanted }
    }
}
