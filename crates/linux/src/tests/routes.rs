//! Routes to the pod ranges of nodes.

use super::*;

#[tokio::test]
async fn routes_lead_over_internal_addresses_and_foreign_ones_stay() {
    let foreign = BTreeSet::from(["10.244.9.0/24".parse().unwrap()]);
    let kernel = Arc::new(Memory { foreign, ..Memory::default() });
    let (_file, file, _cloud) = opened(kernel.clone(), FILE);
    let here = Held { address: "10.244.5.1".parse().unwrap(), interface: "lan".into() };
    kernel.seen.lock().addresses.push(SeenAddress { held: here, is_ours: false });
    let table = MainTable::new(file, kernel.clone(), pod_ranges());
    let route = |node: &Node, destination: &str| Route {
        node: node.metadata.name.clone(),
        node_addresses: Some(node.status.addresses.to_vec()),
        destination: destination.into(),
        ..Route::default()
    };
    table.create("c", "h", &route(&at("n1", "10.0.0.11"), "10.244.1.0/24")).await.unwrap();
    // The same range on another node: the next hop is replaced.
    table.create("c", "h", &route(&at("n2", "10.0.0.12"), "10.244.1.0/24")).await.unwrap();
    let hole = PodRoute { destination: "10.244.8.0/24".parse().unwrap(), via: None };
    let lost =
        PodRoute { destination: "10.244.7.0/24".parse().unwrap(), via: Some("10.0.0.99".parse().unwrap()) };
    kernel.routes.lock().extend([hole, lost]);
    let listed = table.list("c").await.unwrap();
    let shown: Vec<_> = listed.iter().map(|r| (&*r.destination, &*r.node, r.is_blackhole)).collect();
    let want = [("10.244.1.0/24", "n2", false), ("10.244.7.0/24", "", false), ("10.244.8.0/24", "", true)];
    assert_eq!(shown, want);
    #[rustfmt::skip]
    let wrong = [
        (at("n1", "10.0.0.11"), "10.244.9.0/24", "there is a route for 10.244.9.0/24 in the main table that is not ours"),
        (at("n1", "10.0.0.77"), "10.244.2.0/24", "10.0.0.77, the internal address of node n1, is not an address of its machine in "),
        (at("n1", "10.0.0.11"), "fd01::/64",     "node n1 has no internal IPv6 address to reach fd01::/64 over"),
        // What a kubelet may write.
        (at("n1", "10.0.0.11"), "10.0.0.5/32",   "10.0.0.5/32 is not within --cluster-cidr, 10.244.0.0/16,fd01::/48; the podCIDRs of its Node must be"),
        (at("n1", "10.0.0.11"), "0.0.0.0/0",     "0.0.0.0/0 is not within --cluster-cidr"),
        (at("n1", "10.0.0.11"), "10.244.5.0/24", "10.244.5.0/24 contains 10.244.5.1, which is an address of a machine"),
        (at("n1", "10.0.0.11"), "10.244.1.4/32", "10.244.1.4/32 overlaps 10.244.1.0/24, which there is a route for"),
        (at("n1", "10.0.0.11"), "10.244.0.0/16", "10.244.0.0/16 contains 10.244.5.1"),
        (at("n1", "10.0.0.11"), "everywhere",    "\"everywhere\" is not a range such as 10.244.1.0/24"),
    ];
    for (node, destination, want) in wrong {
        let error = table.create("c", "h", &route(&node, destination)).await.unwrap_err().to_string();
        assert!(error.starts_with(want), "{destination}: {error}");
    }
}
