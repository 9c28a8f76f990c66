//! The controllers of a cloud-controller-manager.

use flyball_manager::access::{EVENTS, rule, watch};
use flyball_manager::table::{Controller, DEFAULT};

use crate::{lifecycle, node, route, service};

/// The one that needs `--cluster-cidr`.
pub(super) const ROUTES: &str = "node-route-controller";

#[rustfmt::skip]
pub const CONTROLLERS: &[Controller] = &[
    Controller { name: "cloud-node-controller", aliases: &["cloud-node"], identity: Some("node-controller"),
        watches: &[watch("nodes")],
        reads: &[rule("nodes", &["get"])],
        writes: &[rule("nodes", &["patch", "update"]), rule("nodes/status", &["patch"]), EVENTS],
        start: Some(node::start),
        ..DEFAULT
    },
    Controller { name: "cloud-node-lifecycle-controller", aliases: &["cloud-node-lifecycle"], identity: Some("node-controller"),
        watches: &[watch("nodes")],
        reads: &[rule("nodes", &["get"])],
        writes: &[rule("nodes", &["delete", "patch"]), EVENTS],
        start: Some(lifecycle::start),
        ..DEFAULT
    },
    Controller { name: "service-lb-controller", aliases: &["service"], identity: Some("service-controller"),
        watches: &[watch("services"), watch("nodes")],
        writes: &[rule("services/status", &["patch"]), EVENTS],
        start: Some(service::start),
        ..DEFAULT
    },
    Controller { name: ROUTES, aliases: &["route"], identity: Some("route-controller"),
        watches: &[watch("nodes")],
        writes: &[rule("nodes/status", &["patch"]), EVENTS],
        start: Some(route::start),
        ..DEFAULT
    },
    // As upstream's own program has it.
    Controller { name: "node-ipam-controller", aliases: &["nodeipam"], identity: Some("node-controller"),
        watches: &[watch("nodes")],
        reads: &[rule("nodes", &["list"])],
        writes: &[rule("nodes", &["patch"]), EVENTS],
        start: Some(flyball_node::ipam::start),
        ..DEFAULT
    },
];
