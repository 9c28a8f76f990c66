//! The audit log: user, verb, object and result of each request. It is kept in memory, bounded, and optionally written to a file
//! in upstream's format, one JSON event per line.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::http::path::RequestInfo;
use crate::registry::User;

/// When a record is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The response to a watch has begun.
    ResponseStarted,
    ResponseComplete,
}

#[derive(Debug, Clone)]
pub struct Record {
    /// When a record was made.
    pub stage: Stage,
    /// When the request was received.
    pub at: Timestamp,
    /// The verb, as in RBAC.
    pub verb: &'static str,
    pub user: SmolStr,
    pub groups: Vec<String>,
    /// API group of the object.
    pub group: SmolStr,
    /// API version of the object.
    pub version: SmolStr,
    pub resource: SmolStr,
    pub subresource: SmolStr,
    pub namespace: SmolStr,
    pub name: SmolStr,
    pub code: u16,
    /// Whether the user's roles do not allow the request. A 403 can also come from an admission plugin.
    pub is_forbidden: bool,
    pub uri: String,
    pub user_agent: String,
    /// What admission says about the request.
    pub annotations: BTreeMap<String, String>,
}

impl Record {
    /// The record of a request without a response.
    pub fn new(at: Timestamp, info: &RequestInfo, user: &User, agent: &str, uri: String) -> Self {
        Self {
            stage: Stage::ResponseComplete,
            at,
            verb: info.verb,
            user: user.name.as_str().into(),
            groups: user.groups.clone(),
            group: info.group.clone(),
            version: info.version.clone(),
            resource: info.resource.clone(),
            subresource: info.subresource.clone(),
            namespace: info.namespace.clone().unwrap_or_default(),
            name: info.name.clone().unwrap_or_default(),
            code: 0,
            is_forbidden: false,
            uri,
            user_agent: agent.to_owned(),
            annotations: BTreeMap::new(),
        }
    }

    /// The record as an `audit.k8s.io/v1` Event.
    pub fn event(&self) -> Value {
        let stage = match self.stage {
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
        };
        let decision = if self.is_forbidden { "forbid" } else { "allow" };
        let at = self.at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "stage": stage,
            "requestURI": self.uri, "verb": self.verb, "user": {"username": self.user, "groups": self.groups},
            "userAgent": self.user_agent, "responseStatus": {"metadata": {}, "code": self.code},
            "requestReceivedTimestamp": at, "stageTimestamp": at,
            "annotations": {"authorization.k8s.io/decision": decision},
        });
        for (key, value) in &self.annotations {
            event["annotations"][key] = json!(value);
        }
        if !self.resource.is_empty() {
            let fields = [
                ("resource", &self.resource),
                ("namespace", &self.namespace),
                ("name", &self.name),
                ("apiGroup", &self.group),
                ("apiVersion", &self.version),
                ("subresource", &self.subresource),
            ];
            let set = fields.iter().filter(|(_, value)| !value.is_empty());
            event["objectRef"] = set.map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        }
        event
    }
}

struct Log {
    records: VecDeque<Arc<Record>>,
    /// Number of the first record that is still kept.
    first: u64,
    file: Option<File>,
}

pub struct Audit {
    log: Mutex<Log>,
    keep: usize,
}

impl Audit {
    /// A log that keeps the last `keep` records, and writes to `file` if one is named.
    pub fn new(keep: usize, file: Option<&Path>) -> std::io::Result<Self> {
        let file = file.map(|path| File::options().create(true).append(true).open(path)).transpose()?;
        Ok(Self { log: Mutex::new(Log { records: VecDeque::new(), first: 0, file }), keep })
    }

    pub fn record(&self, record: Record) {
        let mut log = self.log.lock();
        if let Some(file) = &mut log.file {
            let line = format!("{}\n", record.event());
            if let Err(error) = file.write_all(line.as_bytes()) {
                tracing::error!(%error, "cannot write the audit log; it continues in memory only");
                log.file = None;
            }
        }
        log.records.push_back(Arc::new(record));
        while log.records.len() > self.keep {
            log.records.pop_front();
            log.first += 1;
        }
    }

    /// The records from number `from` on, and the number of the next one. Older records are dropped.
    pub fn since(&self, from: u64) -> (Vec<Arc<Record>>, u64) {
        let log = self.log.lock();
        let skip = usize::try_from(from.saturating_sub(log.first)).unwrap_or(usize::MAX);
        let records: Vec<_> = log.records.iter().skip(skip).cloned().collect();
        (records, log.first + log.records.len() as u64)
    }
}
