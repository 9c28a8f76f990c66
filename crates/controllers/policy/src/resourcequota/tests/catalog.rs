use flyball_api::ResourceType;
use flyball_client::{DiscoveredResource, Discovery, DiscoveryFailure};

use crate::resourcequota::catalog::quotable;

fn found(group: &str, plural: &str, namespaced: bool, verbs: &str, preferred: bool) -> DiscoveredResource {
    DiscoveredResource {
        resource: resource(group, plural, namespaced),
        verbs: verbs.split_whitespace().map(Into::into).collect(),
        subresources: vec![],
        preferred,
        short_names: vec![],
        categories: vec![],
    }
}

fn resource(group: &str, plural: &str, namespaced: bool) -> ResourceType {
    ResourceType {
        group: group.into(),
        version: "v1".into(),
        plural: plural.into(),
        kind: "K".into(),
        namespaced,
    }
}

#[test]
fn namespaced_resources_that_can_be_created_and_watched_can_be_limited() {
    const ALL: &str = "create list watch delete get";
    let discovery = Discovery {
        resources: vec![
            found("", "configmaps", true, ALL, true),
            found("", "nodes", false, ALL, true),
            found("", "events", true, ALL, true),
            found("events.k8s.io", "events", true, ALL, true),
            found("example.com", "events", true, ALL, true),
            found("", "bindings", true, "create", true),
            found("apps", "deployments", true, ALL, true),
            found("old", "deployments", true, ALL, false),
            found("example.com", "readonly", true, "list watch get", true),
        ],
        failures: vec![DiscoveryFailure {
            group_version: "broken.example.com/v1".into(),
            problem: "down".into(),
        }],
    };
    let followed =
        [resource("broken.example.com", "things", true), resource("gone.example.com", "things", true)];
    let got: Vec<String> =
        quotable(&discovery, followed.into_iter()).iter().map(ToString::to_string).collect();
    assert_eq!(
        got,
        ["configmaps", "deployments.apps", "things.broken.example.com", "events.example.com"]
            .map(str::to_owned)
            .into_iter()
            .collect::<Vec<_>>(),
        "order is that of groups"
    );
}
