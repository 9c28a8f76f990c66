//! A settled cluster stays silent: no writes while nothing changes, none after a restart, and no request that RBAC refuses.
//! On both backends.

use std::time::Duration;

use anyhow::ensure;
use flyball_sim::audit::Entry;
use flyball_sim::golden::backend::Backend;
use flyball_sim::load::{self, Request, count, until};

const CONTROLLERS: [&str; 2] = ["replicaset-controller", "replicationcontroller-controller"];
const SETS: u64 = 10;
const PODS_EACH: u64 = 5;
/// Longer than any pending resync or retry.
const SILENT_FOR: Duration = Duration::from_secs(20);

flyball_sim::on_both_backends! {
    a_settled_cluster_sees_no_writes needs super::CONTROLLERS,
}

async fn a_settled_cluster_sees_no_writes<B: Backend>(cluster: &mut B) -> anyhow::Result<()> {
    let api = cluster.api().clone();
    load::create_namespace(&api).await?;
    let controllers = CONTROLLERS.map(str::to_owned);
    cluster.start_kcm(&controllers, &[]).await?;
    let (pods, sets) = (load::path("v1", "pods"), load::path("apps/v1", "replicasets"));
    let load = (0..SETS)
        .map(|i| Request::create(&sets, load::workload("ReplicaSet", &format!("rs-{i}"), PODS_EACH)));
    load::send_all(&api, load).await?;
    until("all pods and statuses", Duration::from_secs(90), || async {
        let seen = count(&api, &pods).await?;
        let is_behind = |set: &serde_json::Value| set["status"]["replicas"].as_u64() != Some(PODS_EACH);
        let behind = load::count_if(&api, &sets, is_behind).await?;
        Ok((seen != SETS * PODS_EACH || behind > 0).then(|| format!("{seen} pods, {behind} sets behind")))
    })
    .await?;
    // Events are written asynchronously and may come a little later.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let so_far = cluster.audit();
    let refused: Vec<&Entry> = so_far.iter().filter(|e| e.by_manager() && e.code == 403).collect();
    ensure!(refused.is_empty(), "refused: {refused:#?}");
    let created =
        so_far.iter().filter(|e| is_change(e) && e.verb == "create" && e.resource == "pods").count();
    ensure!(created as u64 == SETS * PODS_EACH, "{created} pods were created");

    tokio::time::sleep(SILENT_FOR).await;
    silent("while nothing changes", &cluster.audit())?;
    cluster.stop_kcm().await;
    cluster.start_kcm(&controllers, &[]).await?;
    tokio::time::sleep(SILENT_FOR).await;
    silent("after a restart", &cluster.audit())?;
    ensure!(count(&api, &pods).await? == SETS * PODS_EACH);
    cluster.stop_kcm().await;
    Ok(())
}

fn silent(when: &str, entries: &[Entry]) -> anyhow::Result<()> {
    let writes: Vec<&Entry> = entries.iter().filter(|entry| is_change(entry)).collect();
    ensure!(writes.is_empty(), "written {when}: {writes:#?}");
    Ok(())
}

/// Writes other than tokens and reviews.
fn is_change(entry: &Entry) -> bool {
    let aside = matches!(entry.resource.as_str(), "tokenreviews" | "subjectaccessreviews");
    entry.by_manager() && entry.is_write() && !aside && entry.subresource != "token" && entry.code < 400
}
