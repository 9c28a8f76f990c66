//! Checks the sources for what ARCHITECTURE.md lists under "What you will never find" and neither the compiler, clippy
//! nor Cargo checks.

use std::fs;
use std::path::{Path, PathBuf};

use flyball_runtime::gates::Gate;

use crate::root;

/// The sources under `folder` that are part of the product: no tests.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" && name != "target" {
                folders.push(path);
            } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).unwrap();
                let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
                found.push((path, product));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {folder}");
    found
}

/// Lines that contain one of `patterns` as a whole word, outside of comments, except in files whose path ends in one of `except`.
fn uses(folders: &[&str], patterns: &[&str], except: &[&str]) -> Vec<String> {
    let mut hits = Vec::new();
    for (path, text) in folders.iter().flat_map(|folder| sources(folder)) {
        if except.iter().any(|end| path.ends_with(end)) {
            continue;
        }
        for (at, line) in text.lines().enumerate() {
            let is_code = !line.trim_start().starts_with("//");
            if is_code && patterns.iter().any(|pattern| has_word(line, pattern)) {
                hits.push(format!("{}:{}: {}", path.display(), at + 1, line.trim()));
            }
        }
    }
    hits
}

fn has_word(line: &str, pattern: &str) -> bool {
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    line.match_indices(pattern).any(|(at, _)| !goes_on(&line[at + pattern.len()..]))
}

fn none(hits: Vec<String>) {
    assert!(hits.is_empty(), "ARCHITECTURE.md says that there are none:\n{}", hits.join("\n"));
}

const PRODUCT: &[&str] = &[
    "bin",
    "crates/api",
    "crates/cache",
    "crates/cel",
    "crates/client",
    "crates/cloud",
    "crates/controllers",
    "crates/election",
    "crates/keys",
    "crates/manager",
    "crates/queue",
    "crates/runtime",
    "crates/serving",
    "crates/tls",
];

#[test]
fn no_unbounded_channel() {
    none(uses(PRODUCT, &["unbounded_channel", "mpsc::unbounded", "std::sync::mpsc::channel"], &[]));
}

#[test]
fn no_clock_and_no_randomness_from_a_global() {
    // The clock itself, its display at start, and defaults that tests replace.
    let except =
        ["clock.rs", "metrics/process.rs", "serving/src/certs.rs", "cache/src/informers.rs", "elector.rs"];
    let folders = [
        "crates/api",
        "crates/cache",
        "crates/cel",
        "crates/controllers",
        "crates/election",
        "crates/queue",
        "crates/runtime",
        "crates/serving",
    ];
    none(uses(
        &folders,
        &["Timestamp::now", "SystemTime::now", "rand::rng", "rand::random", "thread_rng"],
        &except,
    ));
}

#[test]
fn no_await_in_a_plan_a_status_a_trigger_or_an_invariant() {
    let pure = ["plan.rs", "round.rs", "status.rs", "triggers.rs", "invariants.rs"];
    let hits = uses(&["crates/controllers", "crates/cloud"], &["async fn", ".await"], &[]);
    none(hits.into_iter().filter(|hit| pure.iter().any(|name| hit.contains(&format!("/{name}:")))).collect());
}

#[test]
fn no_controller_writes_past_the_executor() {
    none(uses(&["crates/controllers", "crates/cloud"], &[".writer"], &[]));
}

#[test]
fn no_network_crate_under_a_controller_and_no_family_under_another() {
    let network = ["h2", "hyper", "hyper-util", "kube", "rustls", "socket2", "tokio-rustls", "tower"];
    let shared = ["api", "cache", "cel", "client", "common", "keys", "queue", "runtime"];
    for folder in fs::read_dir(root().join("crates/controllers")).unwrap() {
        let manifest = folder.unwrap().path().join("Cargo.toml");
        for name in dependencies(&manifest) {
            let is_family = name.strip_prefix("flyball-").is_some_and(|rest| !shared.contains(&rest));
            let is_bad = network.contains(&name.as_str()) || is_family;
            assert!(!is_bad, "{} depends on {name}", manifest.display());
        }
    }
}

/// A gate that is accepted but read nowhere would be a promise that is not kept: it belongs to those without effect.
#[test]
fn no_gate_that_is_listed_as_read_and_is_not() {
    let lists = ["gates/read.rs", "cloud/src/program/mod.rs"];
    let sources: Vec<String> = PRODUCT
        .iter()
        .flat_map(|folder| sources(folder))
        .filter(|(path, _)| !lists.iter().any(|list| path.ends_with(list)))
        .flat_map(|(_, text)| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let is_read = |gate: &&Gate| sources.iter().any(|line| has_word(line, &format!("Gate::{}", gate.name())));
    none(Gate::ALL.iter().filter(|gate| !is_read(gate)).map(|gate| gate.name().to_owned()).collect());
}

/// The names in `[dependencies]`.
fn dependencies(manifest: &Path) -> Vec<String> {
    let text = fs::read_to_string(manifest).unwrap();
    let lines = text.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| Some(line.split(['.', ' ', '=']).next()?.to_owned()))
        .filter(|name| !name.is_empty())
        .collect()
}
