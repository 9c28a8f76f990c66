use flyball_runtime::Metrics;

use super::{flags, node};
use flyball_runtime::metrics::RunningController;

use crate::ipam::metrics::SharedPool;

#[test]
fn every_change_of_the_pool_shows_in_the_metrics() {
    let metrics = Metrics::default();
    let pool = SharedPool::new(&flags("10.0.0.0/22", "10.0.1.0/24", (0, 0, 0)).unwrap(), &metrics);
    pool.with(|pool| pool.open()).unwrap();
    for name in ["a", "b"] {
        pool.with(|pool| pool.allocate(&node(name, "")));
    }
    pool.with(|pool| pool.update(Some(&node("a", "")), None));
    let text = metrics.text();
    for line in [
        "node_ipam_controller_cirdset_max_cidrs{clusterCIDR=\"10.0.0.0/22\"} 4",
        "node_ipam_controller_cidrset_cidrs_allocations_total{clusterCIDR=\"10.0.0.0/22\"} 3",
        "node_ipam_controller_cidrset_cidrs_releases_total{clusterCIDR=\"10.0.0.0/22\"} 1",
        "node_ipam_controller_cidrset_usage_cidrs{clusterCIDR=\"10.0.0.0/22\"} 0.5",
        // The first search found a block at once, the second skipped that of the Services.
        "node_ipam_controller_cidrset_allocation_tries_per_request_sum{clusterCIDR=\"10.0.0.0/22\"} 1",
        "node_ipam_controller_cidrset_allocation_tries_per_request_count{clusterCIDR=\"10.0.0.0/22\"} 2",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_metric_shows_whether_the_controller_runs() {
    let metrics = Metrics::default();
    let shows = |value: &str| {
        let line = format!(
            "running_managed_controllers{{manager=\"kube-controller-manager\",name=\"nodeipam\"}} {value}"
        );
        metrics.text().lines().any(|shown| shown == line)
    };
    let running = RunningController::new(&metrics, "kube-controller-manager", "nodeipam");
    assert!(!shows("0") && !shows("1"), "a standby has no such metric");
    running.begin();
    assert!(shows("1"));
    drop(running);
    assert!(shows("0"));
}
