//! What the API promises its clients, as tables of requests and expected answers (`cases/*.txt`). The same tables
//! run against the embedded server and, where `KUBEBUILDER_ASSETS` names them, against etcd and kube-apiserver.

#![allow(clippy::unwrap_used)] // errors should fail the test

mod backend;
mod case;
mod hooks;
mod kubectl;
mod message;
mod real;

use std::sync::Arc;

use backend::Backend;

const FILES: [(&str, &str); 17] = [
    ("objects", include_str!("cases/objects.txt")),
    ("patches", include_str!("cases/patches.txt")),
    ("deletion", include_str!("cases/deletion.txt")),
    ("lists", include_str!("cases/lists.txt")),
    ("watches", include_str!("cases/watches.txt")),
    ("subresources", include_str!("cases/subresources.txt")),
    ("admission", include_str!("cases/admission.txt")),
    ("extension", include_str!("cases/extension.txt")),
    ("certificates", include_str!("cases/certificates.txt")),
    ("paths", include_str!("cases/paths.txt")),
    ("rules", include_str!("cases/rules.txt")),
    ("policies", include_str!("cases/policies.txt")),
    ("mutations", include_str!("cases/mutations.txt")),
    ("webhooks", include_str!("cases/webhooks.txt")),
    ("protobuf", include_str!("cases/protobuf.txt")),
    ("nodes", include_str!("cases/nodes.txt")),
    ("aggregation", include_str!("cases/aggregation.txt")),
];

/// Runs every case, each in a namespace of its own, and reports all that differ.
async fn run_all(backend: Backend) {
    let backend = Arc::new(backend);
    let hooks = hooks::start().await;
    let only = std::env::var("BEHAVIOUR").unwrap_or_default();
    let mut running = tokio::task::JoinSet::new();
    let mut number = 0;
    for (file, text) in FILES {
        for case in case::parse(file, text) {
            if !case.name.contains(&only) {
                continue;
            }
            number += 1;
            let backend = Arc::clone(&backend);
            let hooks = hooks.clone();
            running.spawn(async move { case.run(&backend, &format!("case-{number}"), &hooks).await });
        }
    }
    let mut checks = 0;
    let mut faults = Vec::new();
    for (count, found) in running.join_all().await {
        checks += count;
        faults.extend(found);
    }
    faults.sort();
    println!("{number} cases, {checks} checks");
    assert!(faults.is_empty(), "{} of {checks} checks differ:\n{}", faults.len(), faults.join("\n"));
    assert!(!only.is_empty() || checks >= 200, "only {checks} checks");
}

#[tokio::test]
async fn the_embedded_server_behaves() {
    run_all(Backend::embedded()).await;
}

#[tokio::test]
async fn the_real_server_behaves_the_same() {
    match real::start().await {
        Ok(real) => run_all(Backend::Real(real)).await,
        Err(why) => println!("skipped: {why}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_prints_the_same_on_both() {
    let real = match real::start().await {
        Ok(real) => real,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    let Backend::Embedded(server) = Backend::embedded() else { unreachable!("it was asked for") };
    let (url, ca) = kubectl::serve_embedded(server).await;
    let binary = real.assets.join("kubectl");
    let other = (format!("https://127.0.0.1:{}", real.port), real.ca.clone());
    let ours = {
        let binary = binary.clone();
        tokio::task::spawn_blocking(move || kubectl::transcript(&binary, &url, &ca)).await.unwrap()
    };
    let theirs =
        tokio::task::spawn_blocking(move || kubectl::transcript(&binary, &other.0, &other.1)).await.unwrap();
    let differing: Vec<String> = ours
        .iter()
        .zip(&theirs)
        .filter(|(ours, theirs)| ours != theirs)
        .map(|(ours, theirs)| format!("here: {ours}\nthere: {theirs}\n"))
        .collect();
    println!("{} commands", ours.len());
    assert!(
        differing.is_empty(),
        "{} of {} commands differ:\n{}",
        differing.len(),
        ours.len(),
        differing.join("\n")
    );
}
