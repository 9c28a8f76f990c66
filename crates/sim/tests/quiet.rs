//! Controllers that wait for something do so at a slow pace. Virtual time.

use std::time::Duration;

use anyhow::ensure;
use flyball_sim::api::{Call, Content};
use flyball_sim::golden::backend::Backend;
use flyball_sim::{load, testbed};
use http::Method;
use load::NAMESPACE;
use serde_json::json;

/// Long enough for the first, faster looks to be over.
const BACKED_OFF: Duration = Duration::from_secs(120);
const WATCHED: Duration = Duration::from_secs(300);
/// A namespace whose content stays is looked at every few seconds at most, as upstream does.
const LOOKS: usize = 100;

#[test]
fn a_namespace_sync_period_of_zero_is_none() -> anyhow::Result<()> {
    let controllers = ["namespace-controller"];
    testbed::embedded("a_namespace_sync_period_of_zero_is_none", &controllers, async |cluster| {
        let api = cluster.api().clone();
        load::create_namespace(&api).await?;
        let held = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "held", "finalizers": ["example.com/stays"]}});
        let config_maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
        api.send(Call::new(Method::POST, &config_maps).body(&held, Content::Json)).await?;
        let flags = ["--namespace-sync-period=0s".to_owned()];
        cluster.start_kcm(&controllers.map(str::to_owned), &flags).await?;
        api.send(Call::new(Method::DELETE, &format!("/api/v1/namespaces/{NAMESPACE}"))).await?;
        tokio::time::sleep(BACKED_OFF).await;
        let before = cluster.history().len();
        tokio::time::sleep(WATCHED).await;
        let history = cluster.history();
        let lists = history[before..]
            .iter()
            .filter(|record| record.verb == "list" && record.resource == "configmaps");
        let lists = lists.count();
        ensure!((1..LOOKS).contains(&lists), "{lists} looks in {WATCHED:?}");
        Ok(())
    })
}
