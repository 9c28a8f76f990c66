//! The API server's audit log.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use flyball_apiserver::{Record, Stage};
use jiff::Timestamp;
use serde::Deserialize;

/// One request as the server recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// `create`, `update`, `patch`, `delete`, `deletecollection`, `watch`, …
    pub verb: String,
    /// `ResponseStarted`, `ResponseComplete` or `Panic`.
    pub stage: String,
    pub user: String,
    pub resource: String,
    /// The subresource; empty for the object itself.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name, where the request named one.
    pub name: String,
    /// The status code of the answer.
    pub code: u16,
    /// Whether the user's roles do not allow it. Quota and other admission plugins also answer 403.
    pub is_forbidden: bool,
    /// When the server received it.
    pub received: Option<Timestamp>,
}

impl Entry {
    /// Whether a controller manager made this request: as itself or as one of its controllers.
    pub fn by_manager(&self) -> bool {
        self.user == "system:kube-controller-manager"
            || self.user.starts_with("system:serviceaccount:kube-system:")
    }

    /// Whether this is the final record of a request that may change objects.
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
            && matches!(self.stage.as_str(), "ResponseComplete" | "Panic")
    }

    /// The user, shortened to the controller's account or `kcm`.
    pub fn actor(&self) -> &str {
        match self.user.as_str() {
            "system:kube-controller-manager" => "kcm",
            user => user.strip_prefix("system:serviceaccount:kube-system:").unwrap_or(user),
        }
    }

    /// An entry of the embedded server's log.
    pub(crate) fn of(record: &Record) -> Self {
        let stage = match record.stage {
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
        };
        Self {
            verb: record.verb.to_owned(),
            stage: stage.to_owned(),
            user: record.user.to_string(),
            resource: record.resource.to_string(),
            subresource: record.subresource.to_string(),
            namespace: record.namespace.to_string(),
            name: record.name.to_string(),
            code: record.code,
            is_forbidden: record.is_forbidden,
            received: Some(record.at),
        }
    }

    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let event: Event = serde_json::from_slice(line).ok()?;
        let object = event.object_ref.unwrap_or_default();
        Some(Self {
            verb: event.verb,
            stage: event.stage,
            user: event.user.username,
            resource: object.resource,
            subresource: object.subresource,
            namespace: object.namespace,
            name: object.name,
            code: event.response_status.map_or(0, |status| status.code),
            is_forbidden: event.annotations.decision.as_deref() == Some("forbid"),
            received: event.request_received_timestamp.and_then(|time| time.parse().ok()),
        })
    }
}

/// The audit event as audit.k8s.io/v1 writes it, as far as we read it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    verb: String,
    stage: String,
    user: User,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    request_received_timestamp: Option<String>,
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Deserialize, Default)]
struct Annotations {
    #[serde(rename = "authorization.k8s.io/decision")]
    decision: Option<String>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

/// Reads a growing log file, each line once. Lines that are not audit events are skipped.
pub struct AuditLog {
    path: PathBuf,
    position: u64,
    partial: Vec<u8>,
}

impl AuditLog {
    /// From the file's beginning; the file may not exist yet.
    pub fn tail(path: PathBuf) -> Self {
        Self { path, position: 0, partial: Vec::new() }
    }

    /// What was written since the last call.
    pub fn read(&mut self) -> std::io::Result<Vec<Entry>> {
        let mut file = match std::fs::File::open(&self.path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        file.seek(SeekFrom::Start(self.position))?;
        let read = file.read_to_end(&mut self.partial)?;
        self.position += read as u64;
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return Ok(Vec::new()) };
        let rest = self.partial.split_off(end + 1);
        let complete = std::mem::replace(&mut self.partial, rest);
        Ok(complete.split(|byte| *byte == b'\n').filter_map(Entry::parse).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"stage":"ResponseComplete","verb":"create","user":{"username":"system:serviceaccount:kube-system:job-controller"},"objectRef":{"resource":"pods","namespace":"x"},"responseStatus":{"code":201}}"#;

    #[test]
    fn a_line_is_read_once_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let mut log = AuditLog::tail(path.clone());
        assert!(log.read().unwrap().is_empty(), "no file yet");

        let (head, tail) = LINE.split_at(40);
        std::fs::write(&path, format!("{LINE}\nnot json\n{head}")).unwrap();
        let first = log.read().unwrap();
        assert_eq!(first.len(), 1);
        assert_eq!((first[0].actor(), first[0].code), ("job-controller", 201));
        assert!(first[0].by_manager() && first[0].is_write());

        std::fs::write(&path, format!("{LINE}\nnot json\n{head}{tail}\n")).unwrap();
        assert_eq!(log.read().unwrap().len(), 1);
        assert!(log.read().unwrap().is_empty());
    }
}
