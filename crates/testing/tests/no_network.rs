//! A cluster needs no network: no socket of this process is open while one works. Alone in its program, since sockets belong to
//! the process.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;

use anyhow::ensure;
use flyball_testing::Cluster;

/// The inodes of this process's sockets of the internet protocols.
fn sockets() -> anyhow::Result<BTreeSet<String>> {
    let mut internet = BTreeSet::new();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let Ok(text) = fs::read_to_string(format!("/proc/self/net/{table}")) else { continue };
        internet.extend(
            text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(9)).map(str::to_owned),
        );
    }
    let mut own = BTreeSet::new();
    for open in fs::read_dir("/proc/self/fd")? {
        let Ok(target) = fs::read_link(open?.path()) else { continue };
        let target = target.to_string_lossy().into_owned();
        own.extend(
            target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')).map(str::to_owned),
        );
    }
    Ok(own.intersection(&internet).cloned().collect())
}

#[tokio::test]
async fn a_cluster_opens_no_socket_unless_it_serves() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    cluster
        .apply("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: x}]}}")
        .await?;
    cluster.until("pod", "a", |pod| pod["status"]["phase"] == "Running").await?;
    ensure!(sockets()?.is_empty(), "{:?}", sockets()?);
    ensure!(cluster.url().is_none() && cluster.kubeconfig().is_none());

    let serving = Cluster::builder().serve().start().await?;
    ensure!(serving.url().is_some() && sockets()?.len() == 1, "{:?}", sockets()?);
    Ok(())
}
