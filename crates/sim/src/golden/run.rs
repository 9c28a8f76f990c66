//! One run of one scenario: performs the steps in order, with scheduler, kubelet and heartbeats in the background.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::Method;
use serde_json::{Map, Value, json};

use super::StepError;
use super::backend::Backend;
use super::expected::Snapshot;
use super::kubelet::{Heart, Kubelet};
use super::normalise::text;
use super::permitted;
use super::scenario::{ManagerStart, Scenario};
use super::stage::Stage;
use super::steps::{self, arguments::Variables, files::Files};
use super::text::glob;
use crate::api::{Api, Call, Content, Error, Resource};
use crate::audit::Entry;

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The snapshots so far.
    pub snapshots: Vec<Snapshot>,
    /// Why it ended early, if it did.
    pub stopped: Option<String>,
}

pub struct Run<'a, B> {
    pub(super) backend: &'a mut B,
    pub(super) scenario: &'a Scenario,
    pub(super) api: Arc<Api>,
    pub(super) stage: Arc<Stage>,
    pub(super) kubelet: Kubelet,
    pub(super) heart: Heart,
    pub(super) patience: f64,
    pub(super) variables: Variables,
    pub(super) snapshots: Vec<Snapshot>,
    /// Requests of the controller manager since the last snapshot.
    pub(super) requests: Vec<Entry>,
    pub(super) seen_events: BTreeMap<String, i64>,
    /// Paths of objects outside of the namespace, which must be removed one by one.
    pub(super) tracked: Vec<String>,
    pub(super) verbose: bool,
    check_reads: bool,
    /// Requests that the table of controllers does not state or that its roles do not allow, as text.
    pub(super) violations: BTreeSet<String>,
    /// The simulated cloud as it is now.
    pub(super) cloud: Map<String, Value>,
    pub(super) files: Files,
}

/// Settings of a run.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub patience: f64,
    /// Whether each step is printed.
    pub verbose: bool,
    /// Whether reads must be those of the table of controllers, as writes must. Upstream reads other things than ours.
    pub check_reads: bool,
}

impl<'a, B: Backend> Run<'a, B> {
    /// Runs the scenario and cleans up after it.
    pub async fn perform(backend: &'a mut B, scenario: &'a Scenario, settings: Settings) -> Outcome {
        let namespace = backend.fresh_namespace();
        let api = Arc::clone(backend.api());
        let families = scenario.pod_ips.clone().unwrap_or_else(|| vec!["4".to_owned()]);
        let stage = Arc::new(Stage::new(Arc::clone(&api), namespace, backend.clock(), families));
        let mut run = Self {
            kubelet: Kubelet::start(Arc::clone(&stage)),
            heart: Heart::start(Arc::clone(&stage)),
            backend,
            scenario,
            api,
            stage,
            patience: settings.patience,
            variables: Variables::new(),
            snapshots: Vec::new(),
            requests: Vec::new(),
            seen_events: BTreeMap::new(),
            tracked: Vec::new(),
            verbose: settings.verbose,
            check_reads: settings.check_reads,
            violations: BTreeSet::new(),
            cloud: Map::new(),
            files: Files::default(),
        };
        let stopped = run.steps().await.err().map(|e| e.chain());
        run.poll_requests();
        // A step that waited in vain often did so because of a violation.
        let stopped = match (stopped, run.violations.first()) {
            (Some(why), Some(violation)) => Some(format!("{why}; {violation}")),
            (stopped, violation) => stopped.or_else(|| violation.cloned()),
        };
        let Self { kubelet, heart, backend, snapshots, tracked, .. } = run;
        drop((kubelet, heart));
        backend.stop_kcm().await;
        let cleaned =
            backend.clean(&tracked).await.map_err(|e| format!("cleaning up: {}", StepError::Api(e).chain()));
        Outcome { snapshots, stopped: stopped.or(cleaned.err()) }
    }

    async fn steps(&mut self) -> Result<(), StepError> {
        let scenario = self.scenario;
        if let Some(cloud) = &scenario.cloud {
            steps::change_cloud(self, cloud)?;
        }
        self.files.write(&scenario.files)?;
        if scenario.start_after {
            self.create_namespace().await?;
        }
        if scenario.kcm != Some(ManagerStart::Manual) {
            let flags = self.files.fill(&scenario.flags)?;
            self.backend.start_kcm(&scenario.controllers, &flags).await?;
        }
        // The requests of its start are checked, but are not part of the recording.
        self.poll_requests();
        self.requests.clear();
        if !scenario.start_after {
            self.create_namespace().await?;
        }
        for (index, step) in scenario.steps.iter().enumerate() {
            if let Some(how) = self.backend.kcm_ended() {
                return Err(StepError::Failed(how));
            }
            self.backend.restore_noticed().await;
            let name = format!("step {} ({})", index + 1, step.verb());
            if self.verbose {
                println!("    {} {}: {name}", self.stage.clock.stamp(0), scenario.name);
            }
            steps::perform(self, step)
                .await
                .map_err(|e| StepError::Failed(format!("{name}: {}", e.chain())))?;
        }
        Ok(())
    }

    async fn create_namespace(&self) -> Result<(), Error> {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": self.stage.namespace, "labels": self.scenario.namespace_labels},
        });
        self.api.send(Call::new(Method::POST, "/api/v1/namespaces").body(&namespace, Content::Json)).await?;
        Ok(())
    }

    /// Fills in `$NS`, `$NOW`, `$TIME+5` and `${variable}`, here and below.
    pub(super) fn fill(&self, value: &Value) -> Value {
        self.fill_with(value, &Variables::new())
    }

    pub(super) fn fill_with(&self, value: &Value, further: &Variables) -> Value {
        match value {
            Value::String(text) => self.fill_text(text, further),
            Value::Array(items) => items.iter().map(|item| self.fill_with(item, further)).collect(),
            Value::Object(map) => {
                let fill_key = |key: &str| super::dig::plain(&self.fill_text(key, further));
                Value::Object(map.iter().map(|(k, v)| (fill_key(k), self.fill_with(v, further))).collect())
            }
            other => other.clone(),
        }
    }

    fn fill_text(&self, text: &str, further: &Variables) -> Value {
        if !text.contains('$') {
            return text.into();
        }
        let text = text.replace("$NS", &self.stage.namespace).replace("$NOW", &self.stage.clock.stamp(0));
        let mut text = self.fill_times(&text);
        for (name, value) in self.variables.iter().chain(further) {
            let reference = format!("${{{name}}}");
            if text == reference {
                return value.clone();
            }
            text = text.replace(&reference, &super::dig::plain(value));
        }
        text.into()
    }

    fn fill_times(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("$TIME") {
            let (before, after) = rest.split_at(at);
            out.push_str(before);
            let shift = &after["$TIME".len()..];
            let signed = shift.starts_with(['+', '-']);
            let digits = shift.bytes().skip(1).take_while(u8::is_ascii_digit).count();
            match shift.get(..1 + digits).filter(|_| signed && digits > 0).and_then(|s| s.parse().ok()) {
                Some(seconds) => {
                    out.push_str(&self.stage.clock.stamp(seconds));
                    rest = &shift[1 + digits..];
                }
                None => {
                    out.push_str("$TIME");
                    rest = shift;
                }
            }
        }
        out + rest
    }

    pub(super) fn filled(&self, text: &str) -> String {
        super::dig::plain(&self.fill_text(text, &Variables::new()))
    }

    /// Finds the object for `resource/name` or `namespace:resource/name`; the name may be a placeholder or contain `*`.
    pub(super) async fn target(&self, target: &str) -> Result<Target, StepError> {
        let filled = self.filled(target);
        let (resource, name) = filled
            .split_once('/')
            .ok_or_else(|| StepError::failed(format!("{filled:?} is not of the form resource/name")))?;
        let (namespace, resource) = match resource.split_once(':') {
            Some((namespace, resource)) => (namespace.to_owned(), resource),
            None => (self.stage.namespace.clone(), resource),
        };
        let resource = self.api.resource(resource).await?;
        let mut name = name.to_owned();
        if name.contains(['<', '*']) {
            let items = self.api.list(&resource, Some(&namespace), None).await?;
            let is_placeholder = name.contains('<');
            if is_placeholder {
                self.observe().await?;
            }
            let matches = |found: &str| match is_placeholder {
                true => self.stage.names(|names| names.text(found)) == name,
                false => glob(&name, found),
            };
            let mut hits: Vec<&str> = items
                .iter()
                .map(|item| text(&item["metadata"]["name"]))
                .filter(|found| matches(found))
                .collect();
            hits.sort_unstable();
            let first =
                hits.first().ok_or_else(|| StepError::failed(format!("nothing is called {filled}")))?;
            name = (*first).to_owned();
        }
        Ok(Target { resource, namespace, name })
    }

    /// Assigns placeholders to the workloads of the namespace and their pods.
    pub(super) async fn observe(&self) -> Result<(), Error> {
        const OBSERVED: [&str; 9] = [
            "deployments",
            "statefulsets",
            "daemonsets",
            "replicasets",
            "replicationcontrollers",
            "cronjobs",
            "jobs",
            "controllerrevisions",
            "pods",
        ];
        let mut objects = Vec::new();
        for resource in OBSERVED {
            objects.extend(self.api.list_named(resource, Some(&self.stage.namespace), None).await?);
        }
        self.stage.names(|names| names.observe(&objects));
        Ok(())
    }

    /// Records the requests of the controller manager, and returns the number of those that show that it is not at rest.
    pub(super) fn poll_requests(&mut self) -> usize {
        let mut unrest = 0;
        for entry in self.backend.audit() {
            let controllers = self.scenario.component().controllers;
            if entry.is_write() || self.check_reads {
                self.violations.extend(permitted::unstated(controllers, &entry));
            }
            self.violations.extend(permitted::forbidden(&entry));
            if !self.is_of_interest(&entry) {
                continue;
            }
            if entry.resource != "events" {
                self.requests.push(entry);
            } else if entry.verb != "create" {
                continue; // a repeated event does not count
            }
            unrest += 1;
        }
        unrest
    }

    fn is_of_interest(&self, entry: &Entry) -> bool {
        let own = self.stage.namespace.as_str();
        let (namespace, resource) = (entry.namespace.as_str(), entry.resource.as_str());
        if !entry.is_write() || !entry.by_manager() {
            return false;
        }
        if matches!(resource, "tokenreviews" | "subjectaccessreviews" | "leases")
            || entry.subresource == "token"
        {
            return false;
        }
        if matches!(entry.code, 404 | 409) {
            return false; // lost races, retried
        }
        if namespace.is_empty() {
            // Other cluster-scoped objects are those that every cluster has.
            return resource == "namespaces" || self.scenario.cluster.iter().any(|kind| kind == resource);
        }
        if resource == "serviceaccounts" && namespace != own {
            return false;
        }
        namespace == own
            || self.scenario.namespaces.iter().any(|further| further == namespace)
            || resource == "events" && namespace == "default"
    }
}

/// An object that a step is about.
pub(super) struct Target {
    pub(super) resource: Arc<Resource>,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Target {
    pub(super) fn url(&self, subresource: Option<&str>) -> String {
        self.resource.url(Some(&self.namespace), Some(&self.name), subresource)
    }
}
