//! What is known about the cluster: objects, and what Flyball's manager remembers. Rules read nothing else.

use std::collections::{BTreeMap, BTreeSet};

use flyball_api::{LabelSelector, Selector, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use crate::kinds::group_of;
use crate::object::{Obj, Ref};

/// A write of a controller, from `/debug/decisions`.
#[derive(Debug, Clone, Deserialize)]
pub struct Decision {
    pub time: String,
    pub controller: String,
    #[serde(default)]
    pub owner: String,
    pub action: String,
    pub target: Named,
    #[serde(default)]
    pub subresource: String,
    #[serde(default)]
    pub why: String,
    pub outcome: String,
    #[serde(default)]
    pub detail: String,
}

/// What one key of a controller waits for, from `/debug/waiting`.
#[derive(Debug, Clone, Deserialize)]
pub struct Wait {
    pub controller: String,
    pub object: Named,
    pub r#for: Vec<Awaited>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Awaited {
    Object { object: Named, until: String },
    Time { time: String, when: String },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Named {
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl Named {
    pub fn is(&self, object: &Ref) -> bool {
        self.name == object.name
            && self.namespace == object.namespace
            && (self.kind.is_empty() || self.kind.eq_ignore_ascii_case(&object.kind))
    }

    pub fn text(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }
}

/// What is known of the decisions of the controllers.
#[derive(Debug, Clone, Default)]
pub enum Log {
    /// No manager was asked or it did not answer; why.
    #[default]
    NotAsked,
    Unreachable(String),
    /// The number of older decisions that it no longer has.
    Read {
        forgotten: u64,
    },
}

#[derive(Debug, Default)]
pub struct World {
    objects: BTreeMap<Ref, Value>,
    absent: BTreeSet<Ref>,
    /// The lists that were read whole: group, kind and namespace (empty: all).
    listed: BTreeSet<(String, String, String)>,
    /// What could not be read: kind and why.
    unread: BTreeMap<String, String>,
    /// Whether everything that is not in `objects` does not exist (tests).
    complete: bool,
    pub decisions: Vec<Decision>,
    pub waits: Vec<Wait>,
    pub log: Log,
    pub now: Timestamp,
}

/// What is known about one object.
#[derive(Debug, Clone, Copy)]
pub enum Lookup<'a> {
    Found(Obj<'a>),
    /// The server says that there is none.
    Absent,
    /// It was not read, or may not be.
    Unknown,
}

impl<'a> Lookup<'a> {
    pub fn found(self) -> Option<Obj<'a>> {
        match self {
            Self::Found(object) => Some(object),
            Self::Absent | Self::Unknown => None,
        }
    }

    pub fn is_absent(self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl World {
    pub fn at(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }

    /// A world in which nothing exists but these objects.
    pub fn of(now: Timestamp, objects: impl IntoIterator<Item = Value>) -> Self {
        let mut world = Self { complete: true, ..Self::at(now) };
        objects.into_iter().for_each(|object| world.insert(object));
        world
    }

    pub fn insert(&mut self, object: Value) {
        let named = Obj(&object).named();
        self.objects.insert(named, object);
    }

    /// Notes that the server has no such object.
    pub fn record_absent(&mut self, object: Ref) {
        self.absent.insert(object);
    }

    /// Notes that all objects of a kind in a namespace (empty: everywhere) are in this world.
    pub fn record_listed(&mut self, group: &str, kind: &str, namespace: &str) {
        self.listed.insert((group.to_owned(), kind.to_owned(), namespace.to_owned()));
    }

    fn is_listed(&self, named: &Ref) -> bool {
        let in_list = |namespace: &str| {
            self.listed.contains(&(named.group.clone(), named.kind.clone(), namespace.to_owned()))
        };
        in_list(&named.namespace) || in_list("")
    }

    /// Notes that objects of a kind could not be read.
    pub fn record_unread(&mut self, kind: &str, why: &str) {
        self.unread.entry(kind.to_owned()).or_insert_with(|| why.to_owned());
    }

    pub fn unread(&self) -> impl Iterator<Item = (&str, &str)> {
        self.unread.iter().map(|(kind, why)| (kind.as_str(), why.as_str()))
    }

    /// Whether the absence of objects of this kind from a list means that there are none.
    pub fn is_read(&self, kind: &str) -> bool {
        !self.unread.contains_key(kind)
    }

    pub fn find(&self, named: &Ref) -> Lookup<'_> {
        match self.objects.get(named) {
            Some(object) => Lookup::Found(Obj(object)),
            None if self.complete || self.absent.contains(named) || self.is_listed(named) => Lookup::Absent,
            None => Lookup::Unknown,
        }
    }

    /// The object of a known kind.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Lookup<'_> {
        self.find(&Ref::new(group_of(kind), kind, namespace, name))
    }

    /// The objects of a known kind in a namespace (empty: cluster-scoped ones, or all).
    pub fn list<'a, 'b>(
        &'a self,
        kind: &'b str,
        namespace: &'b str,
    ) -> impl Iterator<Item = Obj<'a>> + use<'a, 'b> {
        let group = group_of(kind);
        let wanted = move |named: &Ref| {
            named.kind == kind
                && named.group == group
                && (namespace.is_empty() || named.namespace == namespace)
        };
        self.objects.iter().filter(move |(named, _)| wanted(named)).map(|(_, object)| Obj(object))
    }

    pub fn all(&self) -> impl Iterator<Item = Obj<'_>> {
        self.objects.values().map(Obj)
    }

    /// The objects with an owner reference to this one.
    pub fn dependents<'a, 'b>(&'a self, owner: Obj<'b>) -> impl Iterator<Item = Obj<'a>> + use<'a, 'b> {
        self.all().filter(move |object| object.is_owned_by(owner))
    }

    /// The owner that controls the object, as far as it was read.
    pub fn controller_of(&self, object: Obj<'_>) -> Option<Obj<'_>> {
        let owner = object.controller()?;
        self.all()
            .find(|found| {
                object.namespace() == found.namespace()
                    && object.is_owned_by(*found)
                    && found.name() == owner.name
            })
            .or_else(|| {
                [object.namespace(), ""]
                    .into_iter()
                    .find_map(|ns| self.find(&Ref::new(owner.group, owner.kind, ns, owner.name)).found())
            })
    }

    /// The events about an object, oldest first. An event without a uid counts if kind and name fit.
    pub fn events(&self, object: Obj<'_>) -> Vec<Event<'_>> {
        let namespace = if object.namespace().is_empty() { "default" } else { object.namespace() };
        let about = |event: &Obj<'_>| {
            let uid = event.text("/involvedObject/uid");
            event.text("/involvedObject/kind") == object.kind()
                && event.text("/involvedObject/name") == object.name()
                && (uid.is_empty() || object.uid().is_empty() || uid == object.uid() || uid == object.name())
        };
        let found = self.list("Event", namespace).filter(about);
        let mut found: Vec<Event<'_>> = found.map(Event::of).collect();
        found.sort_by_key(|event| event.last);
        found
    }

    /// The latest event with one of these reasons.
    pub fn event(&self, object: Obj<'_>, reasons: &[&str]) -> Option<Event<'_>> {
        self.events(object).into_iter().rev().find(|event| reasons.contains(&event.reason))
    }

    /// The pods in the namespace that a selector of a spec matches.
    pub fn selected(&self, namespace: &str, selector: &Value) -> Vec<Obj<'_>> {
        let Some(selector) = compile(selector) else { return Vec::new() };
        self.list("Pod", namespace).filter(|pod| selector.matches_with(|key| pod.label(key))).collect()
    }
}

/// A selector of a spec (`matchLabels`, `matchExpressions`); `None` if it is invalid.
pub(crate) fn compile(selector: &Value) -> Option<Selector> {
    let selector: LabelSelector = serde_json::from_value(selector.clone()).ok()?;
    selector.compile().ok()
}

#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    pub reason: &'a str,
    pub message: &'a str,
    pub is_warning: bool,
    pub source: &'a str,
    pub count: i64,
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
}

impl<'a> Event<'a> {
    fn of(event: Obj<'a>) -> Self {
        let first = event.time("/firstTimestamp").or_else(|| event.time("/eventTime"));
        let last = event.time("/series/lastObservedTime").or_else(|| event.time("/lastTimestamp")).or(first);
        let source = match event.text("/source/component") {
            "" => event.text("/reportingComponent"),
            component => component,
        };
        Self {
            reason: event.text("/reason"),
            message: event.text("/message"),
            is_warning: event.text("/type") == "Warning",
            source,
            count: event.int("/series/count").or_else(|| event.int("/count")).unwrap_or(1),
            first,
            last: last.or_else(|| event.time("/metadata/creationTimestamp")),
        }
    }
}
