//! The controllers of a cloud-controller-manager.

use flyball_manager::table::{Controller, DEFAULT, State};

use crate::{lifecycle, node, route, service};

/// The one that needs `--cluster-cidr`.
pub(super) const ROUTES: &str = "node-route-controller";

/// All of them.
#[rustfmt::skip]
pub const CONTROLLERS: &[Controller] = &[
    Controller { name: "cloud-node-controller", aliases: &["cloud-node"], identity: Some("node-controller"),
        watches: "nodes",
        writes: "nodes(patch,update); nodes/status(patch); events(create,patch,update)",
        state: State::Done, start: Some(node::start),
        ..DEFAULT
    },
    Controller { name: "cloud-node-lifecycle-controller", aliases: &["cloud-node-lifecycle"], identity: Some("node-controller"),
        watches: "nodes",
        writes: "nodes(delete,patch); events(create,patch,update)",
        state: State::Done, start: Some(lifecycle::start),
        ..DEFAULT
    },
    Controller { name: "service-lb-controller", aliases: &["service"], identity: Some("service-controller"),
        watches: "services; nodes",
        writes: "services/status(patch); events(create,patch,update)",
        state: State::Done, start: Some(service::start),
        ..DEFAULT
    },
    Controller { name: ROUTES, aliases: &["route"], identity: Some("route-controller"),
        watches: "nodes",
        writes: "nodes/status(patch); events(create,patch,update)",
        state: State::Done, start: Some(route::start),
        ..DEFAULT
    },
    // As upstream's own program has it.
    Controller { name: "node-ipam-controller", aliases: &["nodeipam"], identity: Some("node-controller"),
        watches: "nodes",
        writes: "nodes(patch); events(create,patch,update)",
        state: State::Done, start: Some(flyball_node::ipam::start),
        ..DEFAULT
    },
];
