//! Any object of the API as JSON, with the few questions that rules ask of it. Missing fields read as empty.

use std::fmt;

use flyball_api::Timestamp;
use flyball_api::time::parse_rfc3339;
use serde::Serialize;
use serde_json::Value;

/// What identifies an object for a reader.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Ref {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

impl Ref {
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self { group: group.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }

    /// `Pod web-1`: without the namespace, for a text about objects of one namespace.
    pub fn short(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }
}

impl fmt::Display for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.is_empty() {
            true => write!(f, "{} {}", self.kind, self.name),
            false => write!(f, "{} {}/{}", self.kind, self.namespace, self.name),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Obj<'a>(pub &'a Value);

/// One condition of a status.
#[derive(Debug, Clone, Copy)]
pub struct Condition<'a> {
    pub kind: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
    pub since: Option<Timestamp>,
}

impl<'a> Obj<'a> {
    /// The value at a JSON pointer; null if there is none.
    pub fn at(self, pointer: &str) -> &'a Value {
        self.0.pointer(pointer).unwrap_or(&Value::Null)
    }

    pub fn text(self, pointer: &str) -> &'a str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    pub fn int(self, pointer: &str) -> Option<i64> {
        self.at(pointer).as_i64()
    }

    /// The number, or 0.
    pub fn count(self, pointer: &str) -> i64 {
        self.int(pointer).unwrap_or(0)
    }

    pub fn is_true(self, pointer: &str) -> bool {
        self.at(pointer).as_bool().unwrap_or(false)
    }

    pub fn list(self, pointer: &str) -> impl Iterator<Item = Obj<'a>> + Clone {
        self.at(pointer).as_array().map(Vec::as_slice).unwrap_or_default().iter().map(Obj)
    }

    pub fn texts(self, pointer: &str) -> Vec<&'a str> {
        self.list(pointer).filter_map(|item| item.0.as_str()).collect()
    }

    /// The pairs of an object with texts, such as labels.
    pub fn pairs(self, pointer: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let object = self.at(pointer).as_object();
        object.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }

    pub fn time(self, pointer: &str) -> Option<Timestamp> {
        parse_rfc3339(self.text(pointer))
    }

    pub fn kind(self) -> &'a str {
        self.text("/kind")
    }

    pub fn group(self) -> &'a str {
        self.text("/apiVersion").rsplit_once('/').map_or("", |(group, _)| group)
    }

    pub fn name(self) -> &'a str {
        self.text("/metadata/name")
    }

    pub fn namespace(self) -> &'a str {
        self.text("/metadata/namespace")
    }

    pub fn uid(self) -> &'a str {
        self.text("/metadata/uid")
    }

    pub fn label(self, key: &str) -> Option<&'a str> {
        self.at("/metadata/labels").get(key).and_then(Value::as_str)
    }

    pub fn annotation(self, key: &str) -> Option<&'a str> {
        self.at("/metadata/annotations").get(key).and_then(Value::as_str)
    }

    pub fn named(self) -> Ref {
        Ref::new(self.group(), self.kind(), self.namespace(), self.name())
    }

    pub fn is_deleting(self) -> bool {
        !self.at("/metadata/deletionTimestamp").is_null()
    }

    pub fn conditions(self) -> impl Iterator<Item = Condition<'a>> {
        self.list("/status/conditions").map(|condition| Condition {
            kind: condition.text("/type"),
            status: condition.text("/status"),
            reason: condition.text("/reason"),
            message: condition.text("/message"),
            since: condition.time("/lastTransitionTime"),
        })
    }

    pub fn condition(self, kind: &str) -> Option<Condition<'a>> {
        self.conditions().find(|condition| condition.kind == kind)
    }

    pub fn has(self, condition: &str, status: &str) -> bool {
        self.condition(condition).is_some_and(|condition| condition.status == status)
    }

    /// The owner with `controller: true`: group, kind, name, uid.
    pub fn controller(self) -> Option<Owner<'a>> {
        self.owners().find(|owner| owner.is_controller)
    }

    pub fn owners(self) -> impl Iterator<Item = Owner<'a>> {
        self.list("/metadata/ownerReferences").map(|owner| Owner {
            group: owner.text("/apiVersion").rsplit_once('/').map_or("", |(group, _)| group),
            kind: owner.text("/kind"),
            name: owner.text("/name"),
            uid: owner.text("/uid"),
            is_controller: owner.is_true("/controller"),
        })
    }

    /// Whether it has an owner reference to the object: by uid, or by kind and name where a uid is not known.
    pub fn is_owned_by(self, owner: Obj<'_>) -> bool {
        let same = |reference: &Owner<'_>| match reference.uid.is_empty() || owner.uid().is_empty() {
            true => reference.kind == owner.kind() && reference.name == owner.name(),
            false => reference.uid == owner.uid(),
        };
        let reachable = owner.namespace().is_empty() || owner.namespace() == self.namespace();
        reachable && self.owners().any(|reference| same(&reference))
    }

    /// Whether every one of these labels is on the object.
    pub fn matches_labels(self, wanted: &[(String, String)]) -> bool {
        wanted.iter().all(|(key, value)| self.label(key) == Some(value))
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    pub group: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub is_controller: bool,
}
