//! Which requests a policy, a binding or a webhook is about: rules, selectors, and resources that are other versions of the
//! requested one.

use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;

use super::super::Operation;
use super::attributes::{Attributes, Objects};
use crate::error::{ApiError, Named};
use crate::resource::Resource;
use crate::selector::LabelSelector;
use crate::server::Inner;
use crate::store::{Key, ShelfId};

/// `matchConstraints` of policies, `matchResources` of bindings; webhooks have the same fields.
#[derive(Debug)]
pub(super) struct Constraints {
    namespaces: LabelSelector,
    objects: LabelSelector,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    /// A request for another version of a resource that the rules name counts.
    is_equivalent: bool,
    /// No rules match every request.
    needs_rule: bool,
}

#[derive(Debug)]
struct Rule {
    operations: Vec<SmolStr>,
    groups: Vec<SmolStr>,
    versions: Vec<SmolStr>,
    resources: Vec<SmolStr>,
    names: Vec<SmolStr>,
    scope: SmolStr,
}

fn texts(value: &Value) -> Vec<SmolStr> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(SmolStr::from).collect()
}

impl Constraints {
    /// Reads the fields of a policy's or a binding's constraints.
    pub(super) fn read(constraints: &Value) -> Self {
        Self {
            rules: rules(&constraints["resourceRules"]),
            excluded: rules(&constraints["excludeResourceRules"]),
            needs_rule: false,
            ..Self::selectors(constraints)
        }
    }

    /// Reads the same fields of a webhook.
    pub(super) fn of_webhook(webhook: &Value) -> Self {
        Self { rules: rules(&webhook["rules"]), needs_rule: true, ..Self::selectors(webhook) }
    }

    fn selectors(of: &Value) -> Self {
        let selector = |field: &str| LabelSelector::from_object(&of[field]).unwrap_or_default();
        Self {
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            rules: Vec::new(),
            excluded: Vec::new(),
            is_equivalent: of["matchPolicy"].as_str().unwrap_or("Equivalent") == "Equivalent",
            needs_rule: true,
        }
    }

    /// The resource in whose version the objects are to be shown; none if the request does not match.
    pub(super) fn matched(
        &self,
        server: &Inner,
        attributes: &Attributes,
        objects: &Objects<'_>,
    ) -> Result<Option<Arc<Resource>>, ApiError> {
        // Whether the namespace exists matters only if the rest matches.
        let in_namespace = self.selects_namespace(server, attributes, objects);
        if matches!(in_namespace, Ok(false)) || !self.selects_object(objects) {
            return Ok(None);
        }
        if self.ruled(&self.excluded, server, attributes, objects).is_some() {
            return Ok(None);
        }
        let matched = match self.rules.is_empty() && !self.needs_rule {
            true => Some(Arc::clone(&attributes.resource)),
            false => self.ruled(&self.rules, server, attributes, objects),
        };
        match matched {
            Some(matched) => in_namespace.map(|_| Some(matched)),
            None => Ok(None),
        }
    }

    fn selects_object(&self, objects: &Objects<'_>) -> bool {
        let selects = |object: &Value| self.objects.matches_map(object["metadata"]["labels"].as_object());
        self.objects.is_everything()
            || [&objects.new, &objects.old].into_iter().flatten().any(|object| selects(object))
    }

    fn selects_namespace(
        &self,
        server: &Inner,
        attributes: &Attributes,
        objects: &Objects<'_>,
    ) -> Result<bool, ApiError> {
        let is_namespace = attributes.resource.plural == "namespaces";
        if self.namespaces.is_everything() || (attributes.namespace.is_empty() && !is_namespace) {
            return Ok(true);
        }
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        if let (true, None, true, Some(new)) = (is_namespace, attributes.sub, writes, &objects.new) {
            return Ok(self.namespaces.matches_map(new["metadata"]["labels"].as_object()));
        }
        let name = attributes.namespace.as_str();
        match server.store.get(&ShelfId::new("", "namespaces"), &Key::new("", name)) {
            Some(entry) => Ok(self.namespaces.matches(&entry.facets.labels)),
            None => Err(ApiError::not_found(Named { group: "", what: "namespaces", name })),
        }
    }

    fn ruled(
        &self,
        rules: &[Rule],
        server: &Inner,
        attributes: &Attributes,
        objects: &Objects<'_>,
    ) -> Option<Arc<Resource>> {
        let names =
            |rule: &Rule| rule.names.is_empty() || rule.names.iter().any(|name| *name == objects.name);
        let requested = &attributes.resource;
        if rules.iter().any(|rule| rule.matches(attributes, requested) && names(rule)) {
            return Some(Arc::clone(requested));
        }
        if !self.is_equivalent || rules.is_empty() {
            return None;
        }
        let all = server.catalog.all();
        let is_other = |other: &&Arc<Resource>| {
            other.shelf == requested.shelf
                && (&other.group, &other.version) != (&requested.group, &requested.version)
                && attributes.sub.is_none_or(|sub| other.has(sub))
        };
        rules.iter().filter(|rule| names(rule)).find_map(|rule| {
            all.iter().filter(is_other).find(|other| rule.matches(attributes, other)).cloned()
        })
    }
}

fn rules(list: &Value) -> Vec<Rule> {
    list.as_array().into_iter().flatten().map(Rule::read).collect()
}

impl Rule {
    fn read(rule: &Value) -> Self {
        Self {
            operations: texts(&rule["operations"]),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: texts(&rule["resources"]),
            names: texts(&rule["resourceNames"]),
            scope: rule["scope"].as_str().unwrap_or("*").into(),
        }
    }

    /// Whether it names the operation and the resource, names of objects aside.
    fn matches(&self, attributes: &Attributes, resource: &Resource) -> bool {
        let has = |list: &[SmolStr], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        let is_clusters = attributes.namespace.is_empty() || resource.is("", "namespaces");
        let in_scope = match self.scope.as_str() {
            "Namespaced" => !is_clusters,
            "Cluster" => is_clusters,
            _ => true,
        };
        let is_resource = |named: &SmolStr| {
            let (main, sub) = named.split_once('/').unwrap_or((named, ""));
            (main == "*" || main == resource.plural) && (sub == "*" || sub == attributes.segment())
        };
        in_scope
            && has(&self.operations, attributes.operation_text())
            && has(&self.groups, &resource.group)
            && has(&self.versions, &resource.version)
            && self.resources.iter().any(is_resource)
    }
}
