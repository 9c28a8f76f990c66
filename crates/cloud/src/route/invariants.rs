//! What must hold for whatever is decided about routes.

use ipnet::IpNet;

use super::plan::{Plan, View, plan};
use crate::Route;

/// The routes of the cloud after a plan was carried out.
pub fn after(view: &View<'_>, plan: &Plan<'_>) -> Vec<Route> {
    let stays = |route: &&Route| !plan.delete.iter().any(|gone| std::ptr::eq(*gone, *route));
    let kept = view.routes.iter().filter(stays).cloned();
    kept.chain(plan.create.iter().map(|new| new.route.clone())).collect()
}

/// Panics if a decision about routes should not have been made.
pub fn check(view: &View<'_>) {
    let decided = plan(view);
    let inside = |route: &Route, range: &IpNet| {
        let destination: IpNet = route.destination.parse().expect("an unreadable route is left alone");
        range.contains(&destination.network()) || range.contains(&destination.broadcast())
    };
    for route in &decided.delete {
        assert!(view.ranges.iter().any(|range| inside(route, range)), "{route:?} is not ours");
    }
    let routes = after(view, &decided);
    for node in view.nodes {
        for range in &node.spec.pod_cidrs {
            let leads = |route: &&Route| route.node == node.metadata.name && route.destination == *range;
            assert!(
                routes.iter().any(|route| leads(&route)),
                "{range} of {} has a route",
                node.metadata.name
            );
        }
    }
    let next = View { routes: &routes, ..*view };
    assert_eq!(plan(&next), Plan::default(), "after that there is nothing to do");
}
