//! Completes and validates the options: canonical names, files, problems, and notices for the log.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use flyball_runtime::{
    config::{Config, ControllerLeader, LeaderMigration},
    gates::{Gate, Gates, Stage, without_effect},
    metrics::{DEPRECATED, Policy},
    version::CURRENT,
};
use flyball_serving::tls_notices;
use serde::Deserialize;

use crate::{
    component::Component,
    flags::{Effect, Parsed},
    options::Options,
    select::{Choice, choose},
    table::Controller,
    versions::versions,
};

/// A valid command line.
#[derive(Debug)]
pub struct Prepared {
    pub component: &'static Component,
    /// The options, with the configuration completed.
    pub options: Options,
    pub gates: Gates,
    pub controllers: Vec<&'static Controller>,
    /// The contents of `/flagz`.
    pub flagz: BTreeMap<String, String>,
    pub metrics: Policy,
    /// For the log: flags without effect, controllers that are missing.
    pub notices: Vec<String>,
}

/// Completes and validates; every problem is one line.
pub fn prepare(parsed: Parsed) -> Result<Prepared, Vec<String>> {
    let Parsed { component, mut options, given } = parsed;
    let flagz = component.flagz(&options);
    let mut problems = vec![];
    let gates = gates(&options).unwrap_or_else(|found| {
        problems.extend(found);
        Gates::default()
    });
    match component.canonical(&options.controllers) {
        Ok(names) => options.config.generic.controllers = names,
        Err(error) => problems.push(error.to_string()),
    }
    problems.extend((component.problems)(component, &options, &gates));
    match migration(&options) {
        Ok(migration) => options.config.generic.leader_migration = migration,
        Err(problem) => problems.push(problem),
    }
    let metrics = metrics_policy(&options).unwrap_or_else(|problem| {
        problems.push(problem);
        Policy::default()
    });
    if !problems.is_empty() {
        return Err(problems);
    }
    split_service_ranges(&mut options.config);
    let names = &options.config.generic.controllers;
    let chosen = |wanted: Choice| -> Vec<&'static Controller> {
        component
            .controllers
            .iter()
            .filter(|controller| choose(controller, names, &gates) == wanted)
            .collect()
    };
    let controllers = chosen(Choice::Run);
    let mut notices = notices(component, &given);
    notices.extend(tls_notices(&options.serving));
    notices.extend(tls_notices(&options.webhook_serving));
    notices.extend(gate_notices(component, &gates));
    let elsewhere = chosen(Choice::Cloud).into_iter().map(|controller| controller.name);
    let elsewhere: Vec<&str> = elsewhere.filter(|name| names.iter().any(|listed| listed == name)).collect();
    if !elsewhere.is_empty() {
        notices.push(format!(
            "controllers that live in a cloud-controller-manager and do not run here: {}",
            elsewhere.join(", ")
        ));
    }
    Ok(Prepared { component, controllers, flagz, metrics, notices, gates, options })
}

/// The gates, as the emulated version has them.
fn gates(options: &Options) -> Result<Gates, Vec<String>> {
    let versions = versions(options)?;
    Gates::emulating(versions, &options.feature_gates)
        .map_err(|errors| errors.iter().map(|error| format!("--feature-gates: {error}")).collect())
}

/// About gates that were set: those without effect, those that will be removed, and alpha gates of an older version.
fn gate_notices(component: &Component, gates: &Gates) -> Vec<String> {
    let mut idle: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut leaving = vec![];
    for (name, spec, _) in gates.given() {
        let unread = || {
            let is_unread = !(component.reads)(Gate::named(name)?);
            is_unread.then_some("another controller manager reads it")
        };
        if let Some(why) = without_effect(name).or_else(unread) {
            idle.entry(why).or_default().push(name);
        }
        if matches!(spec.stage, Stage::Ga | Stage::Deprecated) {
            leaving.push(name);
        }
    }
    let mut notices: Vec<String> = idle
        .into_iter()
        .map(|(why, names)| format!("--feature-gates has no effect here on {}: {why}", names.join(", ")))
        .collect();
    if !leaving.is_empty() {
        notices.push(format!(
            "--feature-gates names gates that a later release will not have: {}",
            leaving.join(", ")
        ));
    }
    let alpha = gates.all().filter(|(_, spec, on)| *on && spec.stage == Stage::Alpha);
    let alpha: Vec<&str> = alpha.map(|(name, ..)| name).collect();
    let emulated = gates.versions().emulated;
    if emulated < CURRENT && !alpha.is_empty() {
        notices.push(format!(
            "--feature-gates enables alpha features of {emulated}, which are not what that version had: {}",
            alpha.join(", ")
        ));
    }
    notices
}

fn notices(component: &Component, given: &BTreeSet<&'static str>) -> Vec<String> {
    let mut notices = vec![];
    for section in component.sections() {
        for flag in section.flags.iter().filter(|flag| given.contains(flag.name)) {
            if let Some(why) = flag.deprecated {
                notices.push(format!("--{} is deprecated: {why}", flag.name));
            }
            if let Effect::Unsupported(why) = flag.effect {
                notices.push(format!("--{} has no effect here: {why}", flag.name));
            }
        }
    }
    notices
}

/// Upstream has the second range in a separate field.
fn split_service_ranges(config: &mut Config) {
    let ranges = config.node_ipam_controller.service_cidr.clone();
    if let Some((first, second)) = ranges.split_once(',') {
        config.node_ipam_controller.service_cidr = first.to_owned();
        config.node_ipam_controller.secondary_service_cidr = second.to_owned();
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MigrationFile {
    api_version: String,
    kind: String,
    leader_name: String,
    #[serde(default)]
    resource_lock: String,
    #[serde(default)]
    controller_leaders: Vec<LeaderEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaderEntry {
    name: String,
    component: String,
}

fn migration(options: &Options) -> Result<LeaderMigration, String> {
    if !options.config.generic.leader_migration_enabled {
        return Ok(LeaderMigration::default());
    }
    let path = &options.leader_migration_config;
    if path.is_empty() {
        let movers = ["route-controller", "service-controller", "cloud-node-lifecycle-controller"];
        let leader = |name: &str| ControllerLeader { name: name.to_owned(), component: "*".to_owned() };
        return Ok(LeaderMigration {
            leader_name: "cloud-provider-extraction-migration".to_owned(),
            resource_lock: "leases".to_owned(),
            controller_leaders: Some(movers.iter().map(|name| leader(name)).collect()),
        });
    }
    let invalid = |problem: String| format!("--leader-migration-config {path}: {problem}");
    let text = fs::read_to_string(path).map_err(|error| invalid(format!("cannot be read: {error}")))?;
    let file: MigrationFile = serde_yaml::from_str(&text).map_err(|error| invalid(error.to_string()))?;
    let versions =
        ["v1", "v1beta1", "v1alpha1"].map(|version| format!("controllermanager.config.k8s.io/{version}"));
    if file.kind != "LeaderMigrationConfiguration" || !versions.contains(&file.api_version) {
        return Err(invalid(format!(
            "kind and apiVersion must be LeaderMigrationConfiguration and one of {}, not {} and {}",
            versions.join(", "),
            file.kind,
            file.api_version
        )));
    }
    if file.leader_name.is_empty() {
        return Err(invalid("leaderName must not be empty".to_owned()));
    }
    // Later versions have no resourceLock: it is always a lease.
    if !matches!(file.resource_lock.as_str(), "" | "leases") {
        return Err(invalid(format!("resourceLock must be \"leases\", not {:?}", file.resource_lock)));
    }
    if let Some(entry) = file.controller_leaders.iter().find(|e| e.name.is_empty() || e.component.is_empty())
    {
        return Err(invalid(format!(
            "controllerLeaders: name and component must not be empty (got {:?})",
            entry.name
        )));
    }
    let leaders = file.controller_leaders.into_iter();
    Ok(LeaderMigration {
        leader_name: file.leader_name,
        resource_lock: "leases".to_owned(),
        controller_leaders: Some(
            leaders.map(|e| ControllerLeader { name: e.name, component: e.component }).collect(),
        ),
    })
}

fn metrics_policy(options: &Options) -> Result<Policy, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Manifest {
        #[serde(default)]
        allow_list_mapping: BTreeMap<String, String>,
    }
    let path = &options.metrics.allow_labels_manifest;
    let mut lists = BTreeMap::new();
    if !path.is_empty() {
        let invalid = |problem: String| format!("--allow-metric-labels-manifest {path}: {problem}");
        let text = fs::read_to_string(path).map_err(|error| invalid(format!("cannot be read: {error}")))?;
        let manifest: Manifest = serde_yaml::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        lists = manifest.allow_list_mapping;
    }
    lists.extend(options.metrics.allow_labels.clone());
    let allowed = lists
        .into_iter()
        .map(|(key, values)| (key, values.split(',').map(|value| value.trim().to_owned()).collect()));
    let mut disabled: BTreeSet<String> = options.metrics.disabled.iter().cloned().collect();
    if options.metrics.show_hidden_for_version.is_empty() {
        disabled.extend(DEPRECATED.map(str::to_owned));
    }
    Ok(Policy { disabled, allowed: allowed.collect() })
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
