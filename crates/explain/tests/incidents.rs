//! Questions from real incidents: objects, the question, and the first lines of the answer. `incidents/*.yaml` has them.

use std::path::Path;

use anyhow::{Context as _, ensure};
use flyball_api::Timestamp;
use flyball_explain::kinds::{group_of, known};
use flyball_explain::{Question, Ref, World, explain, text};
use serde::Deserialize;
use serde_json::{Value, json};

/// The time at which all questions are asked.
const NOW: &str = "2026-01-01T12:00:00Z";
/// How many questions there are at least.
const QUESTIONS: usize = 50;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Incident {
    /// What a person would ask.
    question: String,
    /// `Kind name` in namespace `default`, or cluster-scoped.
    ask: String,
    #[serde(default)]
    not: Option<String>,
    /// Where people asked this.
    #[serde(default, rename = "source")]
    _source: String,
    objects: Vec<Value>,
    #[serde(default)]
    events: Vec<Said>,
    /// The first lines of the answer, whole.
    expect: Vec<String>,
}

/// An event in short.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    on: String,
    reason: String,
    message: String,
    #[serde(default)]
    count: Option<i64>,
}

fn named(text: &str) -> anyhow::Result<(&str, &str)> {
    text.split_once(' ').with_context(|| format!("{text:?} is not `Kind name`"))
}

impl Incident {
    fn world(&self) -> anyhow::Result<World> {
        let now: Timestamp = NOW.parse()?;
        let mut objects = Vec::new();
        for object in &self.objects {
            let mut object = object.clone();
            let kind = object["kind"].as_str().context("an object without kind")?.to_owned();
            if let Some(resource) = known(&kind).filter(|_| object["apiVersion"].is_null()) {
                object["apiVersion"] = json!(resource.api_version());
            }
            if known(&kind).is_none_or(|resource| resource.namespaced)
                && object["metadata"]["namespace"].is_null()
            {
                object["metadata"]["namespace"] = json!("default");
            }
            objects.push(object);
        }
        for (number, said) in self.events.iter().enumerate() {
            let (kind, name) = named(&said.on)?;
            objects.push(json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e{number}"), "namespace": "default"},
                "involvedObject": {"kind": kind, "name": name}, "reason": said.reason, "message": said.message,
                "type": "Warning", "count": said.count.unwrap_or(1), "source": {"component": "test"},
                "lastTimestamp": format!("2026-01-01T11:59:{number:02}Z"),
            }));
        }
        Ok(World::of(now, objects))
    }

    fn answer(&self) -> anyhow::Result<String> {
        let world = self.world()?;
        let (kind, name) = named(&self.ask)?;
        let object =
            self.objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        let object = object.with_context(|| format!("{} is not among the objects", self.ask))?;
        let group = match object["apiVersion"].as_str().and_then(|version| version.rsplit_once('/')) {
            Some((group, _)) => group.to_owned(),
            None => group_of(kind).to_owned(),
        };
        let is_namespaced = known(kind)
            .filter(|known| known.group == group.as_str())
            .is_none_or(|resource| resource.namespaced);
        let namespace = if is_namespaced { "default" } else { "" };
        let question =
            self.not.as_deref().map(str::parse::<Question>).transpose().map_err(anyhow::Error::msg)?;
        let explanation = explain(&world, &Ref::new(&group, kind, namespace, name), question, 30)?;
        ensure!(serde_json::to_value(&explanation)?["object"]["name"] == name, "as JSON");
        Ok(text(&explanation, false))
    }
}

#[test]
fn incidents_are_explained() -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/incidents");
    let mut files: Vec<_> = std::fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?;
    files.sort_by_key(std::fs::DirEntry::path);
    let (mut count, mut wrong) = (0, Vec::new());
    for file in files {
        let path = file.path();
        let incidents: Vec<Incident> = serde_yaml::from_str(&std::fs::read_to_string(&path)?)
            .with_context(|| path.display().to_string())?;
        for incident in incidents {
            count += 1;
            let answer = incident.answer().with_context(|| incident.question.clone())?;
            let got: Vec<&str> = answer.lines().take(incident.expect.len()).collect();
            if got != incident.expect {
                wrong.push(format!(
                    "{}\n  expected {:#?}\n  got {got:#?}",
                    incident.question, incident.expect
                ));
            }
        }
    }
    ensure!(count >= QUESTIONS, "only {count} questions");
    ensure!(wrong.is_empty(), "{} of {count} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}
