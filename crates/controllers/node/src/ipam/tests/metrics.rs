use flyball_runtime::Metrics;

use super::{flags, node};
use flyball_runtime::metrics::RunningController;

use crate::ipam::metrics::Books;

#[test]
fn whatever_is_done_to_the_books_shows_in_upstreams_numbers() {
    let metrics = Metrics::default();
    let books = Books::new(&flags("10.0.0.0/22", "10.0.1.0/24", (0, 0, 0)).unwrap(), &metrics);
    books.with(|pool| pool.open()).unwrap();
    for name in ["a", "b"] {
        let searched = books.searched();
        books.with(|pool| pool.reserve(&node(name, ""), searched)).unwrap();
    }
    books.with(|pool| pool.follow(Some(&node("a", "")), None));
    let text = metrics.text();
    for line in [
        "node_ipam_controller_cirdset_max_cidrs{clusterCIDR=\"10.0.0.0/22\"} 4",
        "node_ipam_controller_cidrset_cidrs_allocations_total{clusterCIDR=\"10.0.0.0/22\"} 3",
        "node_ipam_controller_cidrset_cidrs_releases_total{clusterCIDR=\"10.0.0.0/22\"} 1",
        "node_ipam_controller_cidrset_usage_cidrs{clusterCIDR=\"10.0.0.0/22\"} 0.5",
        // The first search found a block at once, the second passed over that of the Services.
        "node_ipam_controller_cidrset_allocation_tries_per_request_sum{clusterCIDR=\"10.0.0.0/22\"} 1",
        "node_ipam_controller_cidrset_allocation_tries_per_request_count{clusterCIDR=\"10.0.0.0/22\"} 2",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
    }
}

#[test]
fn the_controller_shows_that_it_runs_while_it_does() {
    let metrics = Metrics::default();
    let shows = |value: &str| {
        let line = format!(
            "running_managed_controllers{{manager=\"kube-controller-manager\",name=\"nodeipam\"}} {value}"
        );
        metrics.text().lines().any(|shown| shown == line)
    };
    let running = RunningController::new(&metrics, "kube-controller-manager", "nodeipam");
    assert!(!shows("0") && !shows("1"), "a standby says nothing");
    running.begin();
    assert!(shows("1"));
    drop(running);
    assert!(shows("0"));
}
