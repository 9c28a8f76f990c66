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
fn uses(folders: &[impl AsRef<str>], patterns: &[&str], except: &[&str]) -> Vec<String> {
    let mut hits = Vec::new();
    for (path, text) in folders.iter().flat_map(|folder| sources(folder.as_ref())) {
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

/// Crates that are no part of what users run: the simulator and the fuzz targets.
const NO_PRODUCT: [&str; 2] = ["crates/fuzz", "crates/sim"];

/// All programs and crates that users run.
fn product() -> Vec<String> {
    let crates = fs::read_dir(root().join("crates")).unwrap();
    let mut folders: Vec<String> = crates
        .map(|folder| format!("crates/{}", folder.unwrap().file_name().to_string_lossy()))
        .filter(|folder| !NO_PRODUCT.contains(&folder.as_str()))
        .chain(["bin".to_owned()])
        .collect();
    folders.sort_unstable();
    folders
}

const CONTROLLERS: &[&str] = &["crates/controllers", "crates/cloud"];
/// The files of a controller that are pure by their name.
const PURE: [&str; 5] = ["plan.rs", "round.rs", "status.rs", "triggers.rs", "invariants.rs"];
const ASYNC: &[&str] = &["async fn", "async move", "async {", ".await"];

#[test]
fn no_unbounded_channel() {
    none(uses(&product(), &["unbounded_channel", "mpsc::unbounded", "std::sync::mpsc::channel"], &[]));
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
    none(uses(&product(), &patterns, &except));
}

/// Crates that run in no simulation, and so need not repeat exactly: clients of real clouds, sockets, the fuzz targets, and
/// clusters for other people's tests, which promise no order.
const NOT_SIMULATED: [&str; 7] = [
    "crates/aws",
    "crates/fuzz",
    "crates/linux",
    "crates/listen",
    "crates/outbound",
    "crates/serving",
    "crates/testing",
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
    let folders: Vec<String> = product()
        .into_iter()
        .filter(|folder| folder != "bin" && !NOT_SIMULATED.contains(&folder.as_str()))
        .chain(["crates/sim".to_owned()])
        .collect();
    let channels = ["watch::channel", "watch::Sender", "watch::Receiver", "sync::watch"];
    none(uses(&folders, &channels, &except));
    let grouped = uses(&folders, &["tokio::sync"], &except);
    none(grouped.into_iter().filter(|hit| has_word(hit, "watch")).collect());
    let mut unordered = vec![];
    for (path, text) in folders.iter().flat_map(|folder| sources(folder)) {
        if except.iter().any(|end| path.ends_with(end)) {
            continue;
        }
        let lines: Vec<_> = code(&text).filter(|(_, line)| !line.trim().is_empty()).collect();
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
    let all: Vec<_> = product().iter().flat_map(|folder| sources(folder)).collect();
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

/// A plan cannot be taken apart: its effects are private to `runtime`.
#[test]
fn no_event_past_the_executor_but_of_two_triggers() {
    let triggers = ["batch/src/cronjob/mod.rs", "lifecycle/src/gc/live.rs"];
    none(uses(CONTROLLERS, &["record_without_plan"], &triggers));
    // The methods of a `Recorder`; `Event::normal` is no method.
    none(uses(CONTROLLERS, &[".normal", ".warning", "Recorder::normal", "Recorder::warning"], &[]));
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

/// What controllers call `create`, `update`, `patch` or `delete` on, other than a client: themselves, and the API of a cloud.
const NO_CLIENTS: [&str; 8] =
    ["self", "routes", "balancers", "inner", "changes", "edits", "findings", "pool"];

#[test]
fn no_controller_writes_past_the_executor() {
    // Access reviews are requests of the verb `create` that store nothing.
    let reviews = "certificates/src/approving/sync.rs";
    let methods = [
        ".writer",
        ".create_dynamic",
        ".create_as",
        ".create_subresource",
        ".update_dynamic",
        ".update_as",
        ".patch_dynamic",
        ".patch_as",
        ".delete_dynamic",
        ".delete_collection",
        ".send_body",
        "Request::patch",
    ];
    none(uses(CONTROLLERS, &methods, &[reviews]));
    let mut hits = vec![];
    for (path, text) in CONTROLLERS.iter().flat_map(|folder| sources(folder)) {
        hits.extend(writes(&text).into_iter().map(|call| format!("{}: {call}", path.display())));
    }
    none(hits);
}

/// The calls in an async file that may be writes of a client: those of its methods on anything but `NO_CLIENTS`, and requests
/// whose verb is not one that reads. Clients are renamed, passed on and put into fields; what is called says it better.
fn writes(text: &str) -> Vec<String> {
    let lines: Vec<&str> = code(text).map(|(_, line)| line.trim()).collect();
    if !lines.iter().any(|line| ASYNC.iter().any(|pattern| has_word(line, pattern))) {
        return vec![];
    }
    // Chains of calls on one line each.
    let text = lines.join(" ").replace(" .", ".");
    let verbs = ["create", "update", "patch", "delete"];
    let mut found = vec![];
    for verb in verbs {
        for call in [format!(".{verb}("), format!(".{verb}::<")] {
            let receivers = text.match_indices(&call).map(|(at, _)| receiver(&text[..at]));
            found.extend(receivers.filter(|on| !NO_CLIENTS.contains(on)).map(|on| format!("{on}{call}")));
        }
        found.extend(text.contains(&format!("Client::{verb}")).then(|| format!("Client::{verb}")));
    }
    found.extend(text.contains("Client as ").then(|| "a client under another name".to_owned()));
    for request in ["Request::object(", "Request::collection("] {
        for (at, _) in text.match_indices(request) {
            let verb = text[at + request.len()..].trim_start();
            let reads =
                ["Verb::Get,", "Verb::List,", "Verb::Watch,"].iter().any(|read| verb.starts_with(read));
            found.extend((!reads).then(|| format!("{request}{}", &verb[..verb.len().min(20)])));
        }
    }
    found
}

/// The name before a call: `client` of `self.client`, and `mode` of `DirBuilder::new().mode(0o750)`.
fn receiver(before: &str) -> &str {
    let mut end = before.len();
    if before.ends_with(')') {
        let mut depth = 0;
        for (at, c) in before.char_indices().rev() {
            depth += match c {
                ')' => 1,
                '(' => -1,
                _ => 0,
            };
            if depth == 0 {
                end = at;
                break;
            }
        }
    }
    let name = before[..end].rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    &before[name..end]
}

#[test]
fn a_write_of_a_client_is_found_whatever_the_client_is_called() {
    let found = |call: &str| writes(&format!("async fn sync() {{\n    {call}.await;\n}}"));
    #[rustfmt::skip]
    let table = [
        ("self.cx.client.create(&pod)",              1),
        ("api.update::<Pod>(&pod)",                  1),
        ("self.cx\n        .client\n        .patch(&key)", 1),
        ("cx.client.named(\"a\").delete(&key)",      1),
        ("Client::delete(&api, &key)",               1),
        ("api.send(Request::object(Verb::Delete, resource, &key, None))", 1),
        ("api.send(Request::collection(verb, resource, None))", 1),
        ("api.send(Request::object(Verb::Get, resource, &key, None))", 0),
        ("self.routes.create(&self.cluster, &route)", 0),
        ("self.delete(key)",                         0),
    ];
    for (call, want) in table {
        assert_eq!(found(call).len(), want, "{call}: {:?}", found(call));
    }
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
    let sources: Vec<String> = product()
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
