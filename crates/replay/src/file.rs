//! The file of a recording: gzip members with lines of JSON, like the journal, so that `zcat` reads it and a kill costs the last
//! member at most.
//!
//! The first line is the [`Head`]. Then come the objects as they were at the start (`key`, `object`), and changes (`at`, `key`,
//! `type`): an object that is new, a merge patch to its last state, or nothing for a deletion. The last line has `end`.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use flyball_api::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attribute::Author;

const FORMAT: u64 = 1;
/// A member that is larger is written at once.
const MEMBER: usize = 1 << 20;
/// No member is larger when it is unpacked: it ends with the first object beyond [`MEMBER`]. What claims to be is damaged.
const LARGEST_MEMBER: u64 = 32 << 20;

/// What the first line says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    #[serde(rename = "flyballRecording")]
    format: u64,
    /// When the recording began, by the clock of the cluster.
    pub time: Timestamp,
    /// The version of the server.
    pub server: String,
    /// The resources that could not be read, and why.
    pub missing: Vec<String>,
}

impl Head {
    pub fn new(time: Timestamp, server: String, missing: Vec<String>) -> Self {
        Self { format: FORMAT, time, server, missing }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum What {
    Added,
    Modified,
    Deleted,
}

/// What happened to one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub at: Timestamp,
    /// `group/plural/namespace/name`
    pub key: String,
    pub what: What,
    /// The resourceVersion: the order of all changes in the cluster.
    pub version: u64,
    /// Who made it, as far as managedFields tell.
    pub by: Vec<Author>,
    /// The new object, the merge patch, or null.
    pub body: Value,
}

/// A whole recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    pub head: Head,
    pub objects: Vec<(String, Value)>,
    pub changes: Vec<Change>,
    pub end: Timestamp,
    /// Whether the file ends as the recording did.
    pub is_complete: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("this is not a file of `flyball record`")]
    Foreign,
    #[error(
        "it was written by a newer version: it has format {found}, and this version knows {FORMAT} at most"
    )]
    Newer { found: u64 },
    #[error("line {line} is damaged: {why}")]
    Line { line: usize, why: String },
    #[error("it cannot be read")]
    Read(#[from] io::Error),
}

/// Any line but the first.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    #[serde(skip_serializing_if = "String::is_empty")]
    key: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    what: Option<What>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    by: Vec<Author>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<Timestamp>,
}

/// Writes a recording.
pub struct Writer<W> {
    out: W,
    member: Vec<u8>,
}

impl<W: Write> Writer<W> {
    pub fn begin(out: W, head: &Head) -> io::Result<Self> {
        let mut writer = Self { out, member: Vec::new() };
        writer.line(head)?;
        Ok(writer)
    }

    pub fn object(&mut self, key: &str, object: &Value) -> io::Result<()> {
        self.line(&Line { key: key.to_owned(), object: Some(object.clone()), ..Line::default() })
    }

    pub fn change(&mut self, change: Change) -> io::Result<()> {
        let Change { at, key, what, version, by, body } = change;
        let (object, patch) = match what {
            What::Added => (Some(body), None),
            What::Modified => (None, Some(body)),
            What::Deleted => (None, None),
        };
        self.line(&Line {
            at: Some(at),
            key,
            what: Some(what),
            version: Some(version),
            by,
            object,
            patch,
            end: None,
        })
    }

    /// The last line.
    pub fn end(mut self, end: Timestamp) -> io::Result<()> {
        self.line(&Line { end: Some(end), ..Line::default() })?;
        self.flush()
    }

    /// Writes what has been collected.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.member.is_empty() {
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            packed.write_all(&self.member)?;
            self.out.write_all(&packed.finish()?)?;
            self.member.clear();
        }
        self.out.flush()
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.member, line)?;
        self.member.push(b'\n');
        if self.member.len() >= MEMBER { self.flush() } else { Ok(()) }
    }
}

impl Recording {
    pub fn read(mut file: impl Read) -> Result<Self, ReadError> {
        let mut packed = Vec::new();
        file.read_to_end(&mut packed)?;
        let mut members = Members { rest: &packed, is_torn: false };
        let first = members.next().ok_or(ReadError::Foreign)?;
        let mut lines = first.split(|byte| *byte == b'\n');
        let head = head(lines.next().unwrap_or_default())?;
        let mut recording =
            Self { end: head.time, head, objects: Vec::new(), changes: Vec::new(), is_complete: false };
        let mut number = 1;
        for line in lines.filter(|line| !line.is_empty()) {
            number += 1;
            recording.take(line, number)?;
        }
        while let Some(member) = members.next() {
            for line in member.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                number += 1;
                recording.take(line, number)?;
            }
        }
        recording.is_complete &= !members.is_torn;
        Ok(recording)
    }

    fn take(&mut self, line: &[u8], number: usize) -> Result<(), ReadError> {
        let bad = |why: String| ReadError::Line { line: number, why };
        let line: Line = serde_json::from_slice(line).map_err(|error| bad(error.to_string()))?;
        match line {
            Line { end: Some(end), .. } => {
                (self.end, self.is_complete) = (self.end.max(end), true);
            }
            Line { at: Some(at), key, what: Some(what), version, by, object, patch, .. } => {
                let body = match what {
                    What::Added => object.ok_or_else(|| bad("it has no object".to_owned()))?,
                    What::Modified => patch.ok_or_else(|| bad("it has no patch".to_owned()))?,
                    What::Deleted => Value::Null,
                };
                self.end = self.end.max(at);
                let version = version.unwrap_or_default();
                self.changes.push(Change { at, key, what, version, by, body });
            }
            Line { object: Some(object), key, .. } => self.objects.push((key, object)),
            _ => return Err(bad("it is neither an object nor a change".to_owned())),
        }
        Ok(())
    }
}

fn head(line: &[u8]) -> Result<Head, ReadError> {
    #[derive(Deserialize)]
    struct Format {
        #[serde(rename = "flyballRecording")]
        format: u64,
    }
    let Format { format } = serde_json::from_slice(line).map_err(|_| ReadError::Foreign)?;
    match format {
        FORMAT => serde_json::from_slice(line).map_err(|_| ReadError::Foreign),
        found => Err(ReadError::Newer { found }),
    }
}

/// The members of a file up to its end, or up to where it is torn.
struct Members<'a> {
    rest: &'a [u8],
    is_torn: bool,
}

impl Members<'_> {
    fn next(&mut self) -> Option<Vec<u8>> {
        if self.rest.is_empty() || self.is_torn {
            return None;
        }
        let mut member = Vec::new();
        let unpacked = GzDecoder::new(&mut self.rest).take(LARGEST_MEMBER).read_to_end(&mut member);
        self.is_torn = unpacked.is_err() || member.len() as u64 == LARGEST_MEMBER;
        (!self.is_torn).then_some(member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(1_772_366_400 + second).unwrap()
    }

    fn recording() -> Recording {
        let change = |at, what, body| Change {
            at: time(at),
            key: "/pods/ns/a".to_owned(),
            what,
            version: 7,
            by: vec![Author { manager: "kubectl".into(), subresource: "scale".into() }],
            body,
        };
        Recording {
            head: Head::new(time(0), "v1.36.4".to_owned(), vec!["widgets: forbidden".to_owned()]),
            objects: vec![("/nodes//n".to_owned(), json!({"kind": "Node"}))],
            changes: vec![
                change(1, What::Added, json!({"kind": "Pod"})),
                change(2, What::Modified, json!({"spec": null})),
                change(3, What::Deleted, Value::Null),
            ],
            end: time(9),
            is_complete: true,
        }
    }

    /// With a member for each line.
    fn written(recording: &Recording) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::begin(&mut out, &recording.head).unwrap();
        for (key, object) in &recording.objects {
            writer.flush().unwrap();
            writer.object(key, object).unwrap();
        }
        for change in &recording.changes {
            writer.flush().unwrap();
            writer.change(change.clone()).unwrap();
        }
        writer.flush().unwrap();
        writer.end(recording.end).unwrap();
        out
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Recording::read(&*written(&recording())).unwrap(), recording());
    }

    #[test]
    fn a_torn_tail_costs_its_member_only() {
        let whole = written(&recording());
        let mut seen = std::collections::BTreeSet::new();
        for length in 0..whole.len() {
            match Recording::read(&whole[..length]) {
                Ok(read) => {
                    assert!(!read.is_complete, "{length}");
                    assert!(recording().changes.starts_with(&read.changes), "{length}");
                    seen.insert(read.objects.len() + read.changes.len());
                }
                Err(error) => assert!(matches!(error, ReadError::Foreign), "{length}: {error}"),
            }
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn what_is_no_recording_is_named() {
        let packed = |text: &str| {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(text.as_bytes()).unwrap();
            packed.finish().unwrap()
        };
        let head = serde_json::to_string(&recording().head).unwrap();
        #[rustfmt::skip]
        let table = [
            (b"plain text".to_vec(),                                    "not a file of `flyball record`"),
            (Vec::new(),                                                "not a file of `flyball record`"),
            (packed("{\"flyballSnapshot\":1}"),                         "not a file of `flyball record`"),
            (packed("{\"flyballRecording\":2}"),                        "it has format 2"),
            (packed(&format!("{head}\nnonsense")),                      "line 2 is damaged: expected"),
            (packed(&format!("{head}\n{{\"key\":\"/pods/ns/a\"}}")),    "line 2 is damaged: it is neither"),
        ];
        for (bytes, want) in table {
            let error = Recording::read(&*bytes).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
