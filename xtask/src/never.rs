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
        for (at, line) in code(&text) {
            if patterns.iter().any(|pattern| has_word(line, pattern)) {
                hits.push(format!("{}:{}: {}", path.display(), at + 1, line.trim()));
            }
        }
    }
    hits
}

/// The lines outside of comments, with their numbers from 0.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
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
    "crates/apiserver",
    "crates/aws",
    "crates/cache",
    "crates/cel",
    "crates/client",
    "crates/cloud",
    "crates/controllers",
    "crates/election",
    "crates/explain",
    "crates/journal",
    "crates/keys",
    "crates/linux",
    "crates/manager",
    "crates/outbound",
    "crates/playground",
    "crates/queue",
    "crates/replay",
    "crates/runtime",
    "crates/serving",
    "crates/testing",
    "crates/tls",
    "crates/ui",
];

const CONTROLLERS: &[&str] = &["crates/controllers", "crates/cloud"];
/// The files of a controller that are pure by their name.
const PURE: [&str; 5] = ["plan.rs", "round.rs", "status.rs", "triggers.rs", "invariants.rs"];
const ASYNC: &[&str] = &["async fn", "async move", "async {", ".await"];

#[test]
fn no_unbounded_channel() {
    none(uses(PRODUCT, &["unbounded_channel", "mpsc::unbounded", "std::sync::mpsc::channel"], &[]));
}

#[test]
fn no_clock_and_no_randomness_from_a_global() {
    let except = [
        "runtime/src/clock.rs",
        // The time of a line, of the start, of a question: shown, never decided on.
        "manager/src/logging/mod.rs",
        "runtime/src/metrics/process.rs",
        "bin/flyball/src/why.rs",
        "bin/flyball/src/up.rs",
        // Real time, beside that of a cluster which it moves.
        "playground/src/timeline.rs",
        // Defaults that tests replace.
        "cache/src/informers.rs",
        "election/src/elector.rs",
        "apiserver/src/options.rs",
        // The days for which certificates are valid, and when a plugin has answered.
        "serving/src/certs.rs",
        "client/src/credentials/exec.rs",
        "client/src/credentials/validity.rs",
        // Secrets, and the name of a candidate, which no other may have.
        "controllers/certificates/src/signing/sync.rs",
        "election/src/lib.rs",
        "keys/src/lib.rs",
        "keys/src/padding.rs",
        "keys/src/rsa.rs",
        "replay/src/redact.rs",
        "apiserver/src/authn/token.rs",
    ];
    let patterns = [
        "Timestamp::now",
        "Zoned::now",
        "std::time::Instant",
        "SystemTime::now",
        "rand::rng",
        "rand::random",
        "thread_rng",
        "Uuid::new_v4",
        "SystemRandom::new",
    ];
    none(uses(PRODUCT, &patterns, &except));
}

/// What runs in simulations, which must repeat exactly.
const SIMULATED: &[&str] = &[
    "crates/api",
    "crates/apiserver",
    "crates/cache",
    "crates/controllers",
    "crates/playground",
    "crates/queue",
    "crates/replay",
    "crates/runtime",
    "crates/sim",
];

/// tokio's `watch` wakes its receivers in a random order, and `select!` begins with a random branch.
#[test]
fn no_random_order_in_simulations() {
    // Real sockets, files and programs.
    let except = [
        "apiserver/src/serve.rs",
        "apiserver/src/store/durable.rs",
        "controllers/storage/src/attach_detach/flex/call.rs",
        "sim/src/proxy.rs",
        // A replay has no connections, and nothing else moves its clock.
        "playground/src/cluster/expose.rs",
        "playground/src/cluster/service.rs",
        "playground/src/timeline.rs",
    ];
    let channels = uses(SIMULATED, &["tokio::sync"], &except);
    none(channels.into_iter().filter(|hit| has_word(hit, "watch")).collect());
    let mut unordered = vec![];
    for (path, text) in SIMULATED.iter().flat_map(|folder| sources(folder)) {
        if except.iter().any(|end| path.ends_with(end)) {
            continue;
        }
        let lines: Vec<_> = code(&text).collect();
        for pair in lines.windows(2).filter(|pair| pair[0].1.contains("select! {")) {
            if pair[1].1.trim() != "biased;" {
                unordered.push(format!("{}:{}: a select! without `biased`", path.display(), pair[0].0 + 1));
            }
        }
    }
    none(unordered);
}

#[test]
fn no_await_in_a_pure_file() {
    none(uses_in_pure_files(ASYNC));
}

#[test]
fn no_log_line_in_a_pure_file() {
    let levels = ["tracing::trace", "tracing::debug", "tracing::info", "tracing::warn", "tracing::error"];
    none(uses_in_pure_files(&levels));
}

/// Pure are the files of a controller that are so by their name, and every file whose header says "Pure".
fn uses_in_pure_files(patterns: &[&str]) -> Vec<String> {
    let is_pure = |path: &Path, text: &str| {
        let mut header = text.lines().take_while(|line| line.starts_with("//!"));
        let is_named = PURE.iter().any(|name| path.ends_with(name));
        let is_of_controller = CONTROLLERS.iter().any(|folder| path.starts_with(root().join(folder)));
        (is_named && is_of_controller) || header.any(says_pure)
    };
    let all: Vec<_> = PRODUCT.iter().flat_map(|folder| sources(folder)).collect();
    let pure: Vec<_> = all.iter().filter(|(path, text)| is_pure(path, text)).collect();
    assert!(pure.len() > 200, "the headers of pure files are not found any more");
    let hits = pure.into_iter().flat_map(|(path, text)| {
        let hits = code(text).filter(|(_, line)| patterns.iter().any(|pattern| has_word(line, pattern)));
        hits.map(|(at, line)| format!("{}:{}: {}", path.display(), at + 1, line.trim()))
    });
    hits.collect()
}

/// Whether a line of a header has the sentence "Pure.", or one that begins like "Pure: a function of".
fn says_pure(line: &str) -> bool {
    line.split_whitespace().any(|word| matches!(word, "Pure." | "Pure," | "Pure:" | "Pure;"))
}

#[test]
fn no_event_past_the_executor_but_of_two_triggers() {
    none(uses(CONTROLLERS, &["event.record"], &["batch/src/cronjob/mod.rs", "lifecycle/src/gc/live.rs"]));
}

/// `Executor::run` executes a whole plan; `perform` is for effects that are no plan.
#[test]
fn no_shell_that_executes_a_part_of_a_plan() {
    let hits = uses(CONTROLLERS, &["plan.effects", ").effects", "planned.effects"], &[]);
    none(hits.into_iter().filter(|hit| hit.contains("/sync.rs:") || hit.contains("perform(")).collect());
}

/// In simulations, what a shell plans is checked by the invariants of its controller.
#[test]
fn no_invariants_that_no_shell_judges_by() {
    let all: Vec<_> = CONTROLLERS.iter().flat_map(|folder| sources(folder)).collect();
    let folders = all.iter().filter(|(path, _)| path.ends_with("invariants.rs"));
    let is_judged = |folder: &Path| {
        let in_folder = all.iter().filter(|(path, _)| path.parent() == Some(folder));
        let mut shells = in_folder.filter(|(path, _)| !path.ends_with("invariants.rs"));
        shells.any(|(_, text)| text.contains(".judge(|| ") || text.contains("fn check("))
    };
    let unjudged = folders.filter(|(path, _)| path.parent().is_some_and(|folder| !is_judged(folder)));
    none(unjudged.map(|(path, _)| path.display().to_string()).collect());
}

/// `sync.rs` is the shell. Any further one is named in the header of `mod.rs`, so that a reader knows where requests are made.
#[test]
fn no_async_file_beside_sync_rs_that_the_header_does_not_name() {
    let mut unnamed = vec![];
    for (path, text) in CONTROLLERS.iter().flat_map(|folder| sources(folder)) {
        let is_async = code(&text).any(|(_, line)| ASYNC.iter().any(|pattern| has_word(line, pattern)));
        let Some(folder) = path.parent().filter(|_| is_async) else { continue };
        let (file, is_controller) = (path.file_name().unwrap(), folder.join("sync.rs").exists());
        // The folder of a part of a controller, such as `flex`, has no `sync.rs`; its `mod.rs` is such a further file.
        let is_part = folder.parent().is_some_and(|parent| parent.join("sync.rs").exists());
        let (module, name) = match (file == "sync.rs", file == "mod.rs") {
            (false, false) if is_controller || is_part => (folder, path.file_stem()),
            (false, true) if is_part => (folder.parent().unwrap(), folder.file_name()),
            _ => continue,
        };
        let header = fs::read_to_string(module.join("mod.rs")).unwrap();
        let header: String = header.lines().take_while(|line| line.starts_with("//!")).collect();
        let name = name.unwrap().to_string_lossy();
        if !header.contains(&format!("`{name}`")) && !header.contains(&format!("`{name}.rs`")) {
            unnamed.push(path.display().to_string());
        }
    }
    none(unnamed);
}

#[test]
fn no_controller_writes_past_the_executor() {
    // Access reviews are requests of the verb `create` that store nothing.
    let except = ["certificates/src/approving/sync.rs"];
    let methods = [
        ".writer",
        "client.create",
        ".create_dynamic",
        ".create_as",
        ".create_subresource",
        "client.update",
        ".update_dynamic",
        ".update_as",
        "client.patch",
        ".patch_dynamic",
        ".patch_as",
        "client.delete",
        "client.delete_dynamic",
        "client.delete_collection",
        ".send_body",
        "Request::patch",
    ];
    none(uses(CONTROLLERS, &methods, &except));
    let requests = uses(CONTROLLERS, &["Request::object", "Request::collection"], &[]);
    let verbs = ["Verb::Create", "Verb::Update", "Verb::Patch", "Verb::Delete", "Verb::DeleteCollection"];
    none(requests.into_iter().filter(|hit| verbs.iter().any(|verb| has_word(hit, verb))).collect());
}

#[test]
fn no_network_crate_under_a_controller_and_no_family_under_another() {
    let network = ["h2", "hyper", "hyper-util", "kube", "rustls", "socket2", "tokio-rustls", "tower"];
    let shared = ["api", "cache", "cel", "client", "common", "keys", "queue", "runtime"];
    // `crates/cloud` is also the program (`program/`, `webhook/`), shares the parsing of address ranges with node IPAM, and has
    // an HTTP client for providers.
    let exceptions = ["manager", "serving", "node", "outbound"];
    let families = fs::read_dir(root().join("crates/controllers")).unwrap();
    let families = families.map(|folder| (folder.unwrap().path(), &[][..]));
    for (folder, except) in families.chain([(root().join("crates/cloud"), &exceptions[..])]) {
        let manifest = folder.join("Cargo.toml");
        for name in dependencies(&manifest) {
            let is_allowed = |rest: &str| shared.contains(&rest) || except.contains(&rest);
            let is_family = name.strip_prefix("flyball-").is_some_and(|rest| !is_allowed(rest));
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
