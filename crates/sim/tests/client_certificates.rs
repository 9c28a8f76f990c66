//! A controller manager whose client certificate has expired, beside upstream's, on a real API server. Skipped without assets.

use std::time::Duration;

use anyhow::ensure;
use flyball_sim::cluster::{Cluster, Manager, Validity};
use flyball_sim::load::until;
use flyball_sim::ours::{self, Profile};

/// Neither ends: both say that they are not authorized, and go on. When the files are replaced, ours reads them after the next 401;
/// upstream reads them every five minutes.
#[tokio::test]
async fn an_expired_client_certificate_is_waited_out_as_upstream_does() -> anyhow::Result<()> {
    let test = "an_expired_client_certificate_is_waited_out_as_upstream_does";
    Cluster::play(test, async |cluster| {
        let upstreams = match cluster.assets().upstream_manager() {
            Ok(program) => program,
            Err(skip) => {
                skip.announce(test);
                return Ok(());
            }
        };
        let (api, ours) = (cluster.api().await?, ours::binary(Profile::Debug)?);
        let kubeconfig = cluster.replace_manager_certificate(Validity::Expired)?;
        let flags = [format!("--kubeconfig={}", kubeconfig.display())];
        let controllers = ["pod-garbage-collector-controller".to_owned()];
        for (name, binary) in [("upstream", &upstreams), ("ours", &ours)] {
            let manager = Manager { binary, controllers: &controllers, leader_elect: true, flags: &flags };
            let mut process = cluster.start_manager(name, &manager)?;
            let log = process.log().to_owned();
            until("a refused request in the log", Duration::from_secs(60), || async {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                Ok((log.matches("Unauthorized").count() < 3).then_some(log))
            })
            .await?;
            ensure!(process.ended().is_none(), "{name} has ended");
            if name == "ours" {
                cluster.replace_manager_certificate(Validity::Long)?;
                until("the lease", Duration::from_secs(60), || async {
                    let leases =
                        api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases").await?;
                    let leases = leases["items"].as_array().cloned().unwrap_or_default();
                    let is_held = leases.iter().any(|lease| {
                        lease["metadata"]["name"] == "kube-controller-manager"
                            && lease["spec"]["holderIdentity"].is_string()
                    });
                    Ok((!is_held).then(|| "nobody holds it".to_owned()))
                })
                .await?;
            }
            process.kill();
        }
        Ok(())
    })
    .await
}
