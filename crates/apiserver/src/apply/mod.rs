//! Server-side apply and the bookkeeping of `managedFields`.

mod managed;
mod set;
mod typed;

use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::invalid::Cause;
use crate::life::{Ops, Target, Updated};
use crate::meta;
use crate::registry::Subresource;
use crate::resource::Resource;
use crate::store::Key;
use managed::Entry;
use set::Set;
use typed::{Difference, Typed};

const BEFORE_FIRST_APPLY: &str = "before-first-apply";

pub(crate) struct Apply<'a> {
    pub(crate) manager: &'a str,
    /// Take ownership of fields of other managers.
    pub(crate) force: bool,
    /// The part that is applied.
    pub(crate) sub: Option<Subresource>,
}

impl Apply<'_> {
    /// Applies a configuration; creates the object if it is missing.
    pub(crate) async fn run(
        &self,
        ops: &mut Ops<'_>,
        key: &Key,
        config: &Value,
    ) -> Result<Updated, ApiError> {
        self.check_config(ops, key, config)?;
        let target = Target { sub: self.sub, create_missing: self.sub.is_none(), repeatable: true };
        ops.applying = true;
        let updated = ops.update(key, target, |ops, old| self.applied(ops, config, old)).await;
        ops.applying = false;
        updated
    }

    fn check_config(&self, ops: &Ops<'_>, key: &Key, config: &Value) -> Result<(), ApiError> {
        let resource = ops.resource;
        if !config.is_object() {
            return Err(ApiError::bad_request(
                "error decoding YAML: an apply configuration must be an object",
            ));
        }
        let version = config["apiVersion"].as_str().unwrap_or_default();
        let kind = config["kind"].as_str().unwrap_or_default();
        if version != resource.api_version() || kind != resource.kind {
            return Err(ApiError::bad_request(format!(
                "invalid object type: {version}, Kind={kind} (expected {}, Kind={})",
                resource.api_version(),
                resource.kind
            )));
        }
        if config["metadata"]["managedFields"].as_array().is_some_and(|list| !list.is_empty()) {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        let name = meta::text(config, "name");
        if !name.is_empty() && name != key.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                key.name
            )));
        }
        match undeclared(resource, config) {
            None => Ok(()),
            Some(why) => {
                let (namespace, group) = (meta::text(config, "namespace"), &resource.group);
                let version = &resource.version;
                Err(ApiError::unexplained(format!(
                    "failed to create typed patch object ({namespace}/{name}; {group}/{version}, Kind={kind}): {why}"
                )))
            }
        }
    }

    /// The object after the apply, with its new `managedFields`.
    fn applied(&self, ops: &mut Ops<'_>, config: &Value, old: Option<&Value>) -> Result<Value, ApiError> {
        let resource = std::sync::Arc::clone(ops.resource);
        let typed = Typed::of(&resource);
        let sub = self.sub.map_or("", Subresource::segment);
        let time = ops.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let mut wanted = typed::fields_of(config, typed);
        wanted.strip();
        let live = match old {
            Some(old) if resource.converts() => resource.strategy.serve(old.clone()),
            Some(old) => old.clone(),
            None => json!({}),
        };
        let mut entries = managed::read(&live);
        if old.is_some() && entries.is_empty() {
            let mut fields = typed::fields_of(&live, typed);
            fields.strip();
            entries.push(Entry {
                manager: BEFORE_FIRST_APPLY.to_owned(),
                operation: "Update".to_owned(),
                api_version: resource.api_version().to_string(),
                time: time.clone(),
                subresource: String::new(),
                fields,
            });
        }
        let mut merged = typed::merge(&live, config, typed);
        self.prune(&mut merged, &entries, &wanted, typed, sub);
        self.resolve_conflicts(ops, &live, &merged, &mut entries, typed, sub)?;
        let place = entries.iter().position(|entry| entry.is_applied_by(self.manager, sub));
        let previous = place.map(|at| entries.remove(at));
        let time = match previous {
            Some(previous) if previous.fields == wanted => previous.time,
            _ => time,
        };
        entries.push(Entry {
            manager: self.manager.to_owned(),
            operation: "Apply".to_owned(),
            api_version: resource.api_version().to_string(),
            time,
            subresource: sub.to_owned(),
            fields: wanted,
        });
        managed::write(&mut merged, entries);
        if let Some(old) = old {
            meta::of(&mut merged)
                .entry("resourceVersion")
                .or_insert_with(|| old["metadata"]["resourceVersion"].clone());
        }
        ops.decode(merged)
    }

    /// Removes the fields that this manager applied before, no longer applies, and no other manager owns.
    fn prune(&self, merged: &mut Value, entries: &[Entry], wanted: &Set, typed: Typed<'_>, sub: &str) {
        let Some(last) = entries.iter().find(|entry| entry.is_applied_by(self.manager, sub)) else { return };
        let mut owned = wanted.clone();
        for other in entries.iter().filter(|entry| !entry.is_applied_by(self.manager, sub)) {
            owned.union(&other.fields);
        }
        let mut gone = last.fields.clone();
        gone.subtract(&owned);
        typed::remove(merged, &gone, Some(&owned), typed);
    }

    fn resolve_conflicts(
        &self,
        ops: &Ops<'_>,
        live: &Value,
        merged: &Value,
        entries: &mut [Entry],
        typed: Typed<'_>,
        sub: &str,
    ) -> Result<(), ApiError> {
        let mut difference = typed::compare(Some(live), Some(merged), typed);
        difference.changed.strip();
        let mut conflicts: Vec<(String, Vec<String>)> = Vec::new();
        for entry in entries.iter_mut().filter(|entry| !entry.is_applied_by(self.manager, sub)) {
            let common = entry.fields.intersection(&difference.changed);
            if !common.is_empty() {
                conflicts.push((owner_text(entry), common.paths()));
                entry.fields.subtract(&common);
            }
            entry.fields.subtract_below(&difference.removed);
        }
        if self.force || conflicts.is_empty() {
            return Ok(());
        }
        Err(conflict_error(ops, &conflicts))
    }
}

fn owner_text(entry: &Entry) -> String {
    let sub = match entry.subresource.as_str() {
        "" => String::new(),
        sub => format!(" with subresource {sub:?}"),
    };
    let how =
        if entry.operation == "Apply" { String::new() } else { format!(" using {}", entry.api_version) };
    format!("conflict with {:?}{sub}{how}", entry.manager)
}

fn conflict_error(ops: &Ops<'_>, conflicts: &[(String, Vec<String>)]) -> ApiError {
    let count: usize = conflicts.iter().map(|(_, paths)| paths.len()).sum();
    let text = match conflicts {
        [(owner, paths)] if paths.len() == 1 => format!("{owner}: {}", paths[0]),
        many => {
            let lines = many.iter().map(|(owner, paths)| {
                let owner = owner.replacen("conflict ", "conflicts ", 1);
                format!("{owner}:\n{}", paths.iter().map(|p| format!("- {p}")).collect::<Vec<_>>().join("\n"))
            });
            lines.collect::<Vec<_>>().join("\n")
        }
    };
    let noun = if count == 1 { "conflict" } else { "conflicts" };
    let mut error = ApiError::conflict(ops.resource.named(""), "");
    error.message = format!("Apply failed with {count} {noun}: {text}");
    error.details = Some(json!({}));
    for (owner, paths) in conflicts {
        for path in paths {
            error =
                error.with_cause(json!({"reason": "FieldManagerConflict", "message": owner, "field": path}));
        }
    }
    error
}

/// Which field of a configuration its kind does not have.
fn undeclared(resource: &Resource, config: &Value) -> Option<String> {
    let mut known = config.clone();
    if resource.custom.is_some()
        && let Some(fields) = known.as_object_mut()
    {
        // Schemas of custom resources need not describe what every object has.
        fields.retain(|field, _| !["apiVersion", "kind", "metadata"].contains(&field.as_str()));
    }
    typed::mistyped(&known, Typed::of(resource), "")
}

/// An object with a configuration merged into it, as mutating policies do: without owners of fields. Says what is wrong
/// with the configuration.
pub(crate) fn merged(resource: &Resource, object: &Value, config: &Value) -> Result<Value, String> {
    let typed = Typed::of(resource);
    if let Some(why) = undeclared(resource, config) {
        return Err(format!("failed to convert patch object to typed object: {why}"));
    }
    let mut wholes = Vec::new();
    typed::wholes(config, typed, "", &mut wholes);
    if !wholes.is_empty() {
        let wholes = wholes.join(", ");
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {wholes}"
        ));
    }
    Ok(typed::merge(object, config, typed))
}

/// Records which fields a write other than an apply has changed.
pub(crate) fn track_update(ops: &Ops<'_>, sub: Option<Subresource>, new: &mut Value, old: Option<&Value>) {
    if ops.applying {
        return;
    }
    let reset = new["metadata"].get("managedFields").and_then(Value::as_array).is_some_and(|list| {
        list.is_empty() || list.iter().all(|entry| entry.as_object().is_some_and(serde_json::Map::is_empty))
    });
    let mut entries = match old {
        _ if reset => Vec::new(),
        // A client may write the entries itself (kubectl does when it migrates to server-side apply).
        _ if new["metadata"]["managedFields"].is_array() => managed::read(new),
        Some(old) => managed::read(old),
        None => Vec::new(),
    };
    // Upstream: fieldmanager/skipnonapplied.go: an object that has no entries gets none by updates.
    let is_tracked = ops.server.options.managed_fields && old.is_none();
    if entries.is_empty() && !is_tracked {
        meta::of(new).remove("managedFields");
        return;
    }
    let typed = Typed::of(ops.resource);
    // Fields with Go's zero value exist from the start and have no owner.
    let nothing = empty_of(ops.resource);
    let mut difference = typed::compare(Some(old.unwrap_or(&nothing)), Some(new), typed);
    difference.changed.strip();
    difference.removed.strip();
    if sub == Some(Subresource::Scale) && !difference.is_empty() {
        // Upstream: managedfields/scalehandler.go: the Scale of an object has the entries that own its replicas, and is
        // tracked like any object: only if it has entries. A Scale of zero replicas has no such field.
        if entries.iter().all(|entry| entry.fields.intersection(&difference.changed).is_empty()) {
            return managed::write(new, entries);
        }
        if crate::verbs::scale_of(ops.resource, new)["spec"].get("replicas").is_none() {
            entries.iter_mut().for_each(|entry| entry.fields.subtract(&difference.changed));
            return managed::write(new, entries);
        }
    }
    let sub = sub.map_or("", Subresource::segment);
    if sub.is_empty() && ops.resource.has(Subresource::Status) {
        difference.changed.below.remove("f:status");
    }
    if !difference.is_empty() {
        own(ops, sub, &mut entries, difference);
    }
    managed::write(new, entries);
}

/// The manager of the request owns what it has changed, and nobody else does.
fn own(ops: &Ops<'_>, sub: &str, entries: &mut Vec<Entry>, difference: Difference) {
    let time = ops.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let version = ops.resource.stored_version.as_str();
    let mine = |entry: &Entry| {
        entry.operation == "Update"
            && entry.manager == ops.manager
            && entry.subresource == sub
            && entry.api_version == version
    };
    for entry in entries.iter_mut().filter(|entry| !mine(entry)) {
        entry.fields.subtract(&difference.changed);
        entry.fields.subtract_below(&difference.removed);
    }
    let place = entries.iter().position(mine);
    let own = match place.map(|at| entries.remove(at)) {
        Some(mut own) => {
            let before = own.fields.clone();
            own.fields.union(&difference.changed);
            own.fields.subtract_below(&difference.removed);
            if own.fields != before {
                own.time = time;
            }
            own
        }
        None => Entry {
            manager: ops.manager.to_owned(),
            operation: "Update".to_owned(),
            api_version: version.to_owned(),
            time,
            subresource: sub.to_owned(),
            fields: difference.changed,
        },
    };
    entries.push(own);
}

fn empty_of(resource: &Resource) -> Value {
    let mut empty = json!({});
    if let Some(kind) = resource.shape {
        // An empty object has the right shape.
        let _ = crate::kinds::shape(crate::kinds::schema::builtin(), kind, &mut empty);
    }
    empty
}

/// Whether a write would change nothing.
pub(crate) fn same_but_for_times(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return new == old };
    same_fields(new, old, "metadata", |new, old| {
        let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return new == old };
        same_fields(new, old, "managedFields", |new, old| {
            let entries = |list: &Value| list.as_array().map_or(0, Vec::len);
            let pairs = new.as_array().into_iter().flatten().zip(old.as_array().into_iter().flatten());
            let same = |new: &Value, old: &Value| match (new.as_object(), old.as_object()) {
                (Some(new), Some(old)) => same_fields(new, old, "time", |_, _| true),
                _ => new == old,
            };
            entries(new) == entries(old) && pairs.into_iter().all(|(new, old)| same(new, old))
        })
    })
}

/// Whether two maps are equal, with a special comparison for one field. That field is compared last: it is the largest, and most
/// changes are in others.
fn same_fields(
    new: &Map<String, Value>,
    old: &Map<String, Value>,
    field: &str,
    rule: impl FnOnce(&Value, &Value) -> bool,
) -> bool {
    let others = |map: &'_ Map<String, Value>| map.len() - usize::from(map.contains_key(field));
    others(new) == others(old)
        && new.iter().all(|(name, value)| name == field || old.get(name) == Some(value))
        && rule(new.get(field).unwrap_or(&Value::Null), old.get(field).unwrap_or(&Value::Null))
}

/// Validates the options of an apply.
pub(crate) fn manager_required() -> ApiError {
    let named = crate::error::Named { group: "meta.k8s.io", what: "PatchOptions", name: "" };
    ApiError::invalid(named, &[Cause::required("fieldManager", "is required for apply patch")])
}
