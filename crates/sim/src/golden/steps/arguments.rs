//! The arguments of steps, as a scenario writes them.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::golden::scenario::{OneOrMany, words};

/// `generate: {from, to, manifest}`.
#[derive(Debug, Clone, Deserialize)]
pub struct Generate {
    pub(in crate::golden) from: i64,
    pub(in crate::golden) to: i64,
    pub(in crate::golden) manifest: OneOrMany,
}

/// `refused: {code, manifest}`.
#[derive(Debug, Clone, Deserialize)]
pub struct Refused {
    pub(in crate::golden) code: u16,
    pub(in crate::golden) manifest: Value,
}

/// `patch: {target, type, subresource, body}`.
#[derive(Debug, Clone, Deserialize)]
pub struct Patch {
    pub(in crate::golden) target: String,
    #[serde(default, rename = "type")]
    pub(in crate::golden) kind: PatchKind,
    pub(in crate::golden) subresource: Option<String>,
    pub(in crate::golden) body: Value,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatchKind {
    /// RFC 7386.
    #[default]
    Merge,
    /// RFC 6902.
    Json,
    Strategic,
}

/// `scale: {target, replicas}`.
#[derive(Debug, Clone, Deserialize)]
pub struct Scale {
    pub(in crate::golden) target: String,
    pub(in crate::golden) replicas: i64,
}

/// `delete: target` or `{target, propagation, grace}`.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Short<DeleteArguments>")]
pub struct Delete {
    pub(in crate::golden) target: String,
    pub(in crate::golden) propagation: Option<String>,
    pub(in crate::golden) grace: Option<i64>,
}

#[derive(Deserialize)]
struct DeleteArguments {
    target: String,
    propagation: Option<String>,
    grace: Option<i64>,
}

/// One word where a table would do.
#[derive(Deserialize)]
#[serde(untagged)]
enum Short<T> {
    Word(String),
    Long(T),
}

impl From<Short<DeleteArguments>> for Delete {
    fn from(short: Short<DeleteArguments>) -> Self {
        match short {
            Short::Word(target) => Self { target, propagation: None, grace: None },
            Short::Long(DeleteArguments { target, propagation, grace }) => {
                Self { target, propagation, grace }
            }
        }
    }
}

/// Which pods a step is about.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Pick {
    pub(in crate::golden) select: Option<String>,
    pub(in crate::golden) names: Vec<String>,
    #[serde(deserialize_with = "words")]
    pub(in crate::golden) index: Option<Vec<String>>,
    pub(in crate::golden) phase: Option<String>,
    pub(in crate::golden) finished: bool,
    pub(in crate::golden) node: Option<String>,
    pub(in crate::golden) terminating: Terminating,
    pub(in crate::golden) pick: Which,
    pub(in crate::golden) optional: bool,
}

/// `terminating: true | false | any`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Terminating {
    /// Only pods that are not being deleted.
    #[default]
    No,
    Only,
    Any,
}

impl<'de> Deserialize<'de> for Terminating {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Bool(true) => Ok(Self::Only),
            Value::Bool(false) => Ok(Self::No),
            Value::String(word) if word == "any" => Ok(Self::Any),
            other => Err(serde::de::Error::custom(format!("terminating is true, false or any, not {other}"))),
        }
    }
}

/// `pick: all | N | [indexes]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Which {
    #[default]
    All,
    First(usize),
    At(Vec<usize>),
}

impl<'de> Deserialize<'de> for Which {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let number = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
        let which = match &value {
            Value::String(word) if word == "all" => Some(Self::All),
            Value::Array(places) => places.iter().map(number).collect::<Option<_>>().map(Self::At),
            one => number(one).map(Self::First),
        };
        which.ok_or_else(|| {
            serde::de::Error::custom(format!("pick is all, a number or a list of places, not {value}"))
        })
    }
}

/// `pods: {select / names / …, set}`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pods {
    #[serde(flatten)]
    pub(in crate::golden) pods: Pick,
    #[serde(flatten)]
    pub(in crate::golden) state: PodState,
    #[serde(default = "yes")]
    pub(in crate::golden) bind: bool,
    #[serde(default)]
    pub(in crate::golden) nodes: Vec<String>,
}

/// A pod's status as a kubelet writes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodState {
    pub(in crate::golden) set: PodPhase,
    pub(in crate::golden) exit_code: Option<i64>,
    pub(in crate::golden) reason: Option<String>,
    pub(in crate::golden) status: Option<Map<String, Value>>,
    #[serde(default)]
    pub(in crate::golden) restarts: i64,
    pub(in crate::golden) ready_since: Option<Value>,
}

impl PodState {
    pub(in crate::golden) fn simply(set: PodPhase) -> Self {
        Self { set, exit_code: None, reason: None, status: None, restarts: 0, ready_since: None }
    }
}

/// The states that a step can put a pod into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PodPhase {
    Ready,
    Running,
    NotReady,
    Pending,
    Succeeded,
    Failed,
}

impl PodPhase {
    pub(in crate::golden) fn phase(self) -> &'static str {
        match self {
            Self::Ready | Self::Running | Self::NotReady => "Running",
            Self::Pending => "Pending",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

fn yes() -> bool {
    true
}

/// `bind: {select / names / …, node}`.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Short<BindArguments>")]
pub struct Bind {
    pub(in crate::golden) pods: Pick,
    pub(in crate::golden) nodes: Vec<String>,
    pub(in crate::golden) node: Option<String>,
}

#[derive(Deserialize)]
struct BindArguments {
    #[serde(flatten)]
    pods: Pick,
    #[serde(default)]
    nodes: Vec<String>,
}

impl From<Short<BindArguments>> for Bind {
    fn from(short: Short<BindArguments>) -> Self {
        match short {
            Short::Word(select) => {
                Self { pods: Pick { select: Some(select), ..Pick::default() }, nodes: Vec::new(), node: None }
            }
            Short::Long(mut long) => {
                // Here `node` is where the pods go, not where they are.
                let node = long.pods.node.take();
                Self { pods: long.pods, nodes: long.nodes, node }
            }
        }
    }
}

/// `label: {select / names / …, labels, annotations}`.
#[derive(Debug, Clone, Deserialize)]
pub struct Label {
    #[serde(flatten)]
    pub(in crate::golden) pods: Pick,
    pub(in crate::golden) labels: Option<Value>,
    pub(in crate::golden) annotations: Option<Value>,
}

/// `delete-pods: {select / names / …, grace}`.
#[derive(Debug, Clone, Deserialize)]
pub struct DeletePods {
    #[serde(flatten)]
    pub(in crate::golden) pods: Pick,
    pub(in crate::golden) grace: Option<i64>,
}

/// `confirm-delete: {select / names / …}`: of pods that are being deleted, finished ones included.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Option<Short<Map<String, Value>>>")]
pub struct ConfirmDelete {
    pub(in crate::golden) pods: Pick,
}

impl TryFrom<Option<Short<Map<String, Value>>>> for ConfirmDelete {
    type Error = serde_json::Error;

    fn try_from(short: Option<Short<Map<String, Value>>>) -> Result<Self, serde_json::Error> {
        let mut fields = match short {
            None => Map::new(),
            Some(Short::Word(select)) => Map::from_iter([("select".to_owned(), select.into())]),
            Some(Short::Long(fields)) => fields,
        };
        for field in ["terminating", "finished"] {
            fields.entry(field).or_insert(true.into());
        }
        Ok(Self { pods: serde_json::from_value(Value::Object(fields))? })
    }
}

/// `evict: {select / names / …, code}`.
#[derive(Debug, Clone, Deserialize)]
pub struct Evict {
    #[serde(flatten)]
    pub(in crate::golden) pods: Pick,
    #[serde(default = "created")]
    pub(in crate::golden) code: u16,
}

fn created() -> u16 {
    201
}

/// `kubelet: on`, `off` or `{on, except, nodes, holdDelete}`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(try_from = "Short<KubeletArguments>")]
pub struct Kubelet {
    pub(in crate::golden) on: bool,
    pub(in crate::golden) except: Option<String>,
    pub(in crate::golden) nodes: Vec<String>,
    pub(in crate::golden) hold_delete: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KubeletArguments {
    #[serde(default = "yes")]
    on: bool,
    except: Option<String>,
    #[serde(default)]
    nodes: Vec<String>,
    #[serde(default)]
    hold_delete: bool,
}

impl TryFrom<Short<KubeletArguments>> for Kubelet {
    type Error = String;

    fn try_from(short: Short<KubeletArguments>) -> Result<Self, String> {
        match short {
            Short::Word(word) if word == "on" => Ok(Self { on: true, ..Self::default() }),
            Short::Word(word) if word == "off" => Ok(Self::default()),
            Short::Word(word) => Err(format!("a kubelet is on or off, not {word}")),
            Short::Long(KubeletArguments { on, except, nodes, hold_delete }) => {
                Ok(Self { on, except, nodes, hold_delete })
            }
        }
    }
}

/// `nodes: {names, labels, annotations, spec, status, ready, heartbeat}`.
#[derive(Debug, Clone, Deserialize)]
pub struct Nodes {
    pub(in crate::golden) names: Vec<String>,
    #[serde(default)]
    pub(in crate::golden) labels: Map<String, Value>,
    #[serde(default)]
    pub(in crate::golden) annotations: Map<String, Value>,
    #[serde(default)]
    pub(in crate::golden) spec: Map<String, Value>,
    #[serde(default)]
    pub(in crate::golden) status: Map<String, Value>,
    /// `null`: no condition is written at all.
    #[serde(default = "ready")]
    pub(in crate::golden) ready: Option<bool>,
    #[serde(default)]
    pub(in crate::golden) heartbeat: bool,
}

fn ready() -> Option<bool> {
    Some(true)
}

/// `heartbeat: {nodes, on, ready}`.
#[derive(Debug, Clone, Deserialize)]
pub struct Heartbeat {
    pub(in crate::golden) nodes: Vec<String>,
    #[serde(default = "yes")]
    pub(in crate::golden) on: bool,
    pub(in crate::golden) ready: Option<bool>,
}

/// `csr: {name, subject, signer, usages, …}`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Csr {
    pub(in crate::golden) name: String,
    pub(in crate::golden) subject: String,
    pub(in crate::golden) signer: String,
    pub(in crate::golden) usages: Vec<String>,
    pub(in crate::golden) user: Option<String>,
    #[serde(default)]
    pub(in crate::golden) groups: Vec<String>,
    #[serde(default)]
    pub(in crate::golden) ext: Vec<String>,
    pub(in crate::golden) expiration_seconds: Option<i64>,
}

/// `wait: {…}`, in its four forms.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "WaitArguments")]
pub struct Wait {
    pub(in crate::golden) what: Awaited,
    pub(in crate::golden) timeout: f64,
    pub(in crate::golden) optional: bool,
    pub(in crate::golden) shown: String,
}

#[derive(Debug, Clone)]
pub enum Awaited {
    /// The object does not exist.
    Gone(String),
    Count(Count),
    /// This many events were seen.
    Event {
        reason: String,
        at_least: usize,
    },
    /// An object has a condition.
    Condition {
        target: String,
        /// `Type=Status`.
        condition: String,
        /// Its reason, if given.
        reason: Option<String>,
    },
    /// A value in an object.
    Path {
        target: String,
        path: Option<String>,
        value: Wanted,
        /// Whether the status must be of the object's generation.
        generation: bool,
    },
}

/// What a value must be.
#[derive(Debug, Clone)]
pub enum Wanted {
    Is(Value),
    Not(Value),
}

/// `{count, select, phase, terminating, ready, is}`.
#[derive(Debug, Clone)]
pub struct Count {
    pub(in crate::golden) resource: String,
    pub(in crate::golden) select: Option<String>,
    pub(in crate::golden) phase: Option<String>,
    pub(in crate::golden) terminating: Terminating,
    pub(in crate::golden) ready: Option<bool>,
    pub(in crate::golden) is: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WaitArguments {
    gone: Option<String>,
    count: Option<String>,
    event: Option<String>,
    #[serde(rename = "for")]
    target: Option<String>,
    condition: Option<String>,
    reason: Option<String>,
    path: Option<String>,
    #[serde(default, deserialize_with = "present")]
    is: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    not: Option<Value>,
    select: Option<String>,
    phase: Option<String>,
    ready: Option<bool>,
    terminating: Option<Value>,
    at_least: Option<usize>,
    #[serde(default)]
    generation: bool,
    timeout: Option<f64>,
    #[serde(default)]
    optional: bool,
}

/// `is: null` is not the same as no `is`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl TryFrom<WaitArguments> for Wait {
    type Error = String;

    fn try_from(a: WaitArguments) -> Result<Self, String> {
        let subject = a.gone.as_ref().or(a.count.as_ref()).or(a.event.as_ref()).or(a.target.as_ref());
        let subject = subject.ok_or("a wait needs one of for, count, gone, event")?.clone();
        let (timeout, optional) = (a.timeout.unwrap_or(30.0), a.optional);
        let detail = a.condition.clone().or(a.path.clone()).unwrap_or_default();
        let what = if let Some(target) = a.gone {
            Awaited::Gone(target)
        } else if let Some(resource) = a.count {
            let is = a.is.as_ref().and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
            let terminating = match &a.terminating {
                None | Some(Value::Bool(true)) => Terminating::Any,
                Some(Value::Bool(false)) => Terminating::No,
                Some(Value::String(word)) if word == "only" => Terminating::Only,
                Some(other) => return Err(format!("terminating is true, false or only, not {other}")),
            };
            let is = is.ok_or("a count needs a number as its is")?;
            Awaited::Count(Count {
                resource,
                select: a.select,
                phase: a.phase,
                terminating,
                ready: a.ready,
                is,
            })
        } else if let Some(reason) = a.event {
            Awaited::Event { reason, at_least: a.at_least.unwrap_or(1) }
        } else if let Some(condition) = a.condition {
            Awaited::Condition { target: subject.clone(), condition, reason: a.reason }
        } else {
            let value = match (a.not, a.is) {
                (Some(value), _) => Wanted::Not(value),
                (None, Some(value)) => Wanted::Is(value),
                (None, None) if a.path.is_none() => Wanted::Is(Value::Null),
                (None, None) => return Err("a path needs an is or a not".to_owned()),
            };
            Awaited::Path { target: subject.clone(), path: a.path, value, generation: a.generation }
        };
        let shown = format!("{subject} {detail}").trim_end().to_owned();
        Ok(Self { what, timeout, optional, shown })
    }
}

/// `settle: {quiet, timeout}`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(from = "Option<SettleArguments>")]
pub struct Settle {
    pub(in crate::golden) quiet: Option<f64>,
    pub(in crate::golden) timeout: Option<f64>,
}

#[derive(Deserialize)]
struct SettleArguments {
    quiet: Option<f64>,
    timeout: Option<f64>,
}

impl From<Option<SettleArguments>> for Settle {
    fn from(arguments: Option<SettleArguments>) -> Self {
        arguments.map_or_else(Self::default, |a| Self { quiet: a.quiet, timeout: a.timeout })
    }
}

/// A value inside an object.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    pub(in crate::golden) target: String,
    pub(in crate::golden) path: String,
}

/// `raw: {method, path, body, type, code}`.
#[derive(Debug, Clone, Deserialize)]
pub struct Raw {
    pub(in crate::golden) method: Option<String>,
    pub(in crate::golden) path: String,
    #[serde(default)]
    pub(in crate::golden) body: Value,
    #[serde(rename = "type")]
    pub(in crate::golden) media_type: Option<String>,
    #[serde(default, deserialize_with = "words")]
    pub(in crate::golden) code: Option<Vec<String>>,
}

/// `kcm: stop | start | restart`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ManagerStep {
    Stop,
    /// Start it; a running one is stopped first.
    Start,
    Restart,
}

/// `snapshot: label` or `{label, only, ignore, settle, quiet}`.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Short<SnapshotArguments>")]
pub struct SnapshotStep {
    pub(in crate::golden) label: String,
    pub(in crate::golden) only: Vec<String>,
    pub(in crate::golden) ignore: Vec<String>,
    pub(in crate::golden) settle: bool,
    pub(in crate::golden) quiet: Option<f64>,
}

#[derive(Deserialize)]
struct SnapshotArguments {
    label: String,
    #[serde(default)]
    only: Vec<String>,
    #[serde(default)]
    ignore: Vec<String>,
    #[serde(default = "yes")]
    settle: bool,
    quiet: Option<f64>,
}

impl From<Short<SnapshotArguments>> for SnapshotStep {
    fn from(short: Short<SnapshotArguments>) -> Self {
        match short {
            Short::Word(label) => {
                Self { label, only: Vec::new(), ignore: Vec::new(), settle: true, quiet: None }
            }
            Short::Long(SnapshotArguments { label, only, ignore, settle, quiet }) => {
                Self { label, only, ignore, settle, quiet }
            }
        }
    }
}

/// The variables that a scenario has set.
pub(in crate::golden) type Variables = BTreeMap<String, Value>;
