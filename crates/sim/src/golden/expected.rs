//! Recordings: the snapshots of a scenario, as stored in a file.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::text::pretty;

/// The result of one `snapshot` step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub label: String,
    /// Objects by `Kind/name`.
    pub objects: BTreeMap<String, Value>,
    /// The field managers of each object, without the test itself: `MANAGER OPERATION SUBRESOURCE, …`. Recordings from before
    /// these were recorded have none, and are not compared.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub managers: BTreeMap<String, Value>,
    /// How often each event was seen since the last snapshot.
    pub events: BTreeMap<String, Value>,
    /// How often each request was made since the last snapshot.
    pub requests: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    pub name: String,
    /// How long a run took.
    pub seconds: u64,
    /// Differences between the runs that made the recording.
    pub flaky: Vec<String>,
    pub snapshots: Vec<Snapshot>,
}

impl Recording {
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("read {}", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut recording: Self = serde_json::from_str(text)?;
        unpack(&mut recording.snapshots)?;
        Ok(recording)
    }

    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        let mut packed = self.clone();
        pack(&mut packed.snapshots);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        }
        std::fs::write(path, pretty(&serde_json::to_value(&packed)?) + "\n")
            .with_context(|| format!("write {}", path.display()))
    }
}

type Section = fn(&mut Snapshot) -> &mut BTreeMap<String, Value>;

/// The sections in which a value that has not changed since an earlier snapshot is stored as a reference to it.
const PACKED: [Section; 2] = [|snapshot| &mut snapshot.objects, |snapshot| &mut snapshot.managers];

fn pack(snapshots: &mut [Snapshot]) {
    for section in PACKED {
        let mut last: HashMap<String, (String, Value)> = HashMap::new();
        for snapshot in &mut *snapshots {
            let label = snapshot.label.clone();
            for (key, value) in section(snapshot) {
                match last.get(key) {
                    Some((label, seen)) if seen == value => {
                        *value = Value::String(format!("<same as in '{label}'>"))
                    }
                    _ => {
                        last.insert(key.clone(), (label.clone(), value.clone()));
                    }
                }
            }
        }
    }
}

fn unpack(snapshots: &mut [Snapshot]) -> anyhow::Result<()> {
    for section in PACKED {
        let mut full: HashMap<(String, String), Value> = HashMap::new();
        for snapshot in &mut *snapshots {
            let label = snapshot.label.clone();
            for (key, value) in section(snapshot) {
                let reference = value
                    .as_str()
                    .and_then(|text| text.strip_prefix("<same as in '")?.strip_suffix("'>"))
                    .map(str::to_owned);
                match reference {
                    Some(label) => {
                        let seen = full.get(&(key.clone(), label.clone()));
                        *value = seen.with_context(|| format!("{key} is not in snapshot '{label}'"))?.clone();
                    }
                    None => {
                        full.insert((key.clone(), label.clone()), value.clone());
                    }
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn snapshot(label: &str, objects: Value) -> Snapshot {
        let objects = serde_json::from_value(objects).unwrap();
        Snapshot { label: label.to_owned(), objects, ..Snapshot::default() }
    }

    #[test]
    fn packing_loses_nothing() {
        let mut full = vec![
            snapshot("one", json!({"Pod/a": {"x": 1}, "Pod/b": {"y": 1}})),
            snapshot("two", json!({"Pod/a": {"x": 1}, "Pod/b": {"y": 2}})),
            snapshot("three", json!({"Pod/a": {"x": 1}, "Pod/b": {"y": 2}})),
        ];
        for snapshot in &mut full {
            snapshot.managers.insert("Pod/b".to_owned(), json!("kube-controller-manager Update"));
        }
        let mut packed = full.clone();
        pack(&mut packed);
        assert_eq!(packed[2].objects["Pod/a"], json!("<same as in 'one'>"));
        assert_eq!(packed[2].objects["Pod/b"], json!("<same as in 'two'>"));
        assert_eq!(packed[2].managers["Pod/b"], json!("<same as in 'one'>"));
        unpack(&mut packed).unwrap();
        assert_eq!(packed, full);
    }

    #[test]
    fn a_reference_to_nothing_names_the_object() {
        let mut broken = vec![snapshot("two", json!({"Pod/a": "<same as in 'one'>"}))];
        assert_eq!(unpack(&mut broken).unwrap_err().to_string(), "Pod/a is not in snapshot 'one'");
    }
}
