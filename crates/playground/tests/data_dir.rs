//! What outlives a cluster in its data directory, and what does not.

use std::path::Path;

use anyhow::{Context as _, ensure};
use flyball_api::ResourceType;
use flyball_client::ListParams;
use flyball_playground::cluster::{Cluster, Components, Options, Port, StartError};
use serde_json::json;

const DEFINITIONS: ResourceType = ResourceType::new(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    false,
);
const WIDGETS: ResourceType = ResourceType::new("example.com", "v1", "widgets", "Widget", true);

fn options(folder: &Path, components: Components, port: Option<Port>) -> Options {
    Options { data_dir: Some(folder.to_owned()), components, port, ..Options::default() }
}

/// Whoever still holds the server of a cluster that has stopped.

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_cluster_lets_go_of_its_data() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut held = Vec::new();
    for (components, port) in
        [(Components::None, None), (Components::All, Some(Port::Exactly(0))), (Components::All, None)]
    {
        let cluster = Cluster::start(options(folder.path(), components, port)).await?;
        held.push(cluster.server().clone());
        cluster.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn selectors_find_custom_objects_after_a_restart() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let start = || Cluster::start(options(folder.path(), Components::None, None));
    let cluster = start().await?;
    let client = cluster.admin();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        },
    });
    client.create_dynamic(&DEFINITIONS, None, &definition).await?;
    for (name, colour) in [("a", "red"), ("b", "blue")] {
        let metadata = json!({"name": name, "labels": {"colour": colour}});
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata});
        client.create_dynamic(&WIDGETS, "default", &widget).await?;
    }
    cluster.stop().await;

    let client = start().await?.admin();
    let red = ListParams { label_selector: Some("colour=red".into()), ..ListParams::default() };
    let by_name = ListParams { field_selector: Some("metadata.name=b".into()), ..ListParams::default() };
    for (params, want) in [(red, "a"), (by_name, "b")] {
        let found = client.list_dynamic(&WIDGETS, Some("default"), &params).await?;
        let names: Vec<_> = found.items.iter().map(|item| item["metadata"]["name"].as_str()).collect();
        ensure!(names == [Some(want)], "{params:?}: {names:?}");
    }
    Ok(())
}

/// The server listens, and its components fail.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_fails_to_start_lets_go_of_its_port_and_its_data() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::start(options(folder.path(), Components::All, Some(Port::Exactly(0)))).await?;
    let port = cluster.address().context("it serves")?.port();
    cluster.stop().await;
    for _ in 0..3 {
        let start = |flags: &[&str]| {
            let manager_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
            let options = options(folder.path(), Components::All, Some(Port::Exactly(port)));
            Cluster::start(Options { manager_flags, ..options })
        };
        let failed = start(&["--no-such-flag"]).await;
        ensure!(matches!(failed, Err(StartError::Flags(_))), "{:?}", failed.err());
        start(&[]).await.context("right after that")?.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn a_directory_with_other_things_is_not_used() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("pki"))?;
    std::fs::write(folder.path().join("pki/ca.key"), "precious")?;
    let refused = Cluster::start(options(folder.path(), Components::None, None)).await;
    ensure!(matches!(refused, Err(StartError::NotOurs { .. })), "{:?}", refused.err());
    ensure!(std::fs::read_to_string(folder.path().join("pki/ca.key"))? == "precious");
    ensure!(std::fs::read_dir(folder.path())?.count() == 1, "nothing was added");
    Ok(())
}
