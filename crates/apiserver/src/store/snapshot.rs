//! A store's objects as lines of JSON: a head with the version and the number of objects, then each object with its key,
//! `group/plural/namespace/name`.

use std::io::{self, BufRead, Read as _, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::durable::{parts, path};
use super::{Key, ShelfId, Store};

/// No line is longer. API servers take objects of three megabytes.
const LONGEST_LINE: u64 = 16 << 20;
/// All lines together: more than a cluster in memory can have.
const LARGEST: u64 = 1 << 30;
/// No store has a higher version: clients take versions for signed numbers.
const HIGHEST_VERSION: u64 = 1 << 62;

/// All objects of a store at one version.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub(super) version: u64,
    pub(super) objects: Vec<(ShelfId, Key, Value)>,
}

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("it cannot be read")]
    Read(#[from] io::Error),
    #[error("line {line} is not an object: {why}")]
    Line { line: usize, why: String },
    #[error("line {line} is longer than {LONGEST_LINE} bytes")]
    Long { line: usize },
    #[error("it holds more than {LARGEST} bytes")]
    Large,
    #[error("it ends too early: {found} of {expected} objects are there")]
    Short { expected: usize, found: usize },
}

#[derive(Serialize, Deserialize)]
struct Head {
    version: u64,
    objects: usize,
}

#[derive(Serialize)]
struct Saved<'a> {
    key: String,
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Loaded {
    key: String,
    object: Value,
}

impl Store {
    /// Writes a snapshot of what is there now. The store is locked only while references to its objects are copied.
    pub fn save(&self, out: &mut impl Write) -> io::Result<()> {
        let (version, contents) = self.contents();
        serde_json::to_writer(&mut *out, &Head { version, objects: contents.len() })?;
        out.write_all(b"\n")?;
        for (shelf, entry) in contents {
            let json = entry.json();
            let object = serde_json::from_slice(&json)?;
            serde_json::to_writer(&mut *out, &Saved { key: path(&shelf, &entry.key), object })?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

impl Snapshot {
    /// Reads what [`Store::save`] has written.
    pub fn read(lines: &mut impl BufRead) -> Result<Self, SnapshotError> {
        let (mut line, mut all) = (0, 0);
        // A small compressed file may hold more than fits into memory.
        let mut next = || {
            let mut text = String::new();
            let read = lines.by_ref().take(LONGEST_LINE).read_line(&mut text)? as u64;
            (line, all) = (line + 1, all + read);
            match read {
                0 => Ok(None),
                LONGEST_LINE => Err(SnapshotError::Long { line }),
                _ if all > LARGEST => Err(SnapshotError::Large),
                _ => Ok(Some((text, line))),
            }
        };
        let bad = |line, why: &dyn std::fmt::Display| SnapshotError::Line { line, why: why.to_string() };
        let (head, line) = next()?.ok_or_else(|| bad(1, &"it is empty"))?;
        let Head { version, objects: expected } =
            serde_json::from_str(&head).map_err(|error| bad(line, &error))?;
        if version > HIGHEST_VERSION {
            return Err(bad(line, &format!("no store has a version above {HIGHEST_VERSION}")));
        }
        let mut objects = Vec::new();
        while let Some((text, line)) = next()? {
            let Loaded { key, object } = serde_json::from_str(&text).map_err(|error| bad(line, &error))?;
            let (shelf, place) = parts(&key).ok_or_else(|| bad(line, &format!("{key:?} is not a key")))?;
            if let Some(problem) = problem(&object) {
                return Err(bad(line, &format!("{key:?} {problem}")));
            }
            objects.push((shelf, place, object));
        }
        match objects.len() == expected {
            true => Ok(Self { version, objects }),
            false => Err(SnapshotError::Short { expected, found: objects.len() }),
        }
    }

    /// Objects from elsewhere, each with its key as in a file. The version is the highest of theirs.
    pub fn of(objects: impl IntoIterator<Item = (String, Value)>) -> Result<Self, SnapshotError> {
        let mut snapshot = Self::default();
        for (line, (key, object)) in objects.into_iter().enumerate() {
            let bad = |why: String| SnapshotError::Line { line: line + 1, why };
            let (shelf, place) = parts(&key).ok_or_else(|| bad(format!("{key:?} is not a key")))?;
            if let Some(problem) = problem(&object) {
                return Err(bad(format!("{key:?} {problem}")));
            }
            let version = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
            if version > Some(HIGHEST_VERSION) {
                return Err(bad(format!("no store has a version above {HIGHEST_VERSION}")));
            }
            snapshot.raise(version.unwrap_or(0));
            snapshot.objects.push((shelf, place, object));
        }
        Ok(snapshot)
    }

    /// Moves it to a version that is not below `version`.
    pub fn raise(&mut self, version: u64) {
        self.version = self.version.max(version);
    }
}

/// Why the server cannot have such an object. It relies on the shape of what it has stored itself.
fn problem(object: &Value) -> Option<&'static str> {
    let metadata = object.get("metadata").and_then(Value::as_object);
    match metadata {
        None => Some("has no metadata"),
        Some(metadata) if metadata.get("name").and_then(Value::as_str).is_none_or(str::is_empty) => {
            Some("has no name")
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor, Read as _, repeat};

    use super::*;

    #[test]
    fn what_cannot_be_a_snapshot_is_refused_before_it_fills_the_memory() {
        let endless = Snapshot::read(&mut BufReader::new(repeat(b'0')));
        assert!(matches!(endless, Err(SnapshotError::Long { line: 1 })), "{endless:?}");
        let head = Cursor::new("{\"version\": 7, \"objects\": 1}\n");
        let endless = Snapshot::read(&mut BufReader::new(head.chain(repeat(b' '))));
        assert!(matches!(endless, Err(SnapshotError::Long { line: 2 })), "{endless:?}");
        let version = u64::MAX;
        let head = format!("{{\"version\": {version}, \"objects\": 0}}\n");
        let error = Snapshot::read(&mut Cursor::new(head)).unwrap_err().to_string();
        assert!(error.starts_with("line 1 is not an object: no store has a version above"), "{error}");
    }

    /// The server leaves out empty fields, so it could not read its own snapshot.
    #[test]
    fn an_object_without_a_name_is_refused() {
        for metadata in ["{}", r#"{"name": null}"#, r#"{"name": ""}"#] {
            let text = format!(
                "{{\"version\": 7, \"objects\": 1}}\n{{\"key\": \"/pods/ns/a\", \"object\": {{\"metadata\": {metadata}}}}}\n"
            );
            let error = Snapshot::read(&mut Cursor::new(text)).unwrap_err().to_string();
            assert!(error.contains("has no name"), "{metadata}: {error}");
        }
    }
}
