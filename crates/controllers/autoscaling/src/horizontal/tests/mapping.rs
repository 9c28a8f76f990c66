use flyball_api::ResourceType;
use flyball_client::{DiscoveredResource, Discovery};

use crate::horizontal::mapping::{GroupKind, group_of, resources};

fn served() -> Discovery {
    #[rustfmt::skip]
    let table = [
        // group          version    plural                    kind                     preferred
        ("",              "v1",      "replicationcontrollers", "ReplicationController", true),
        ("apps",          "v1",      "deployments",            "Deployment",            true),
        ("example.com",   "v2",      "widgets",                "Widget",                true),
        ("example.com",   "v1",      "widgets",                "Widget",                false),
        ("example.com",   "v1",      "oldwidgets",             "Widget",                true),
        ("other.example", "v1",      "widgets",                "Widget",                true),
    ];
    let resources = table.into_iter().map(|(group, version, plural, kind, preferred)| DiscoveredResource {
        resource: ResourceType::new(group, version, plural, kind, true),
        verbs: vec![],
        subresources: vec![],
        preferred,
        short_names: vec![],
        categories: vec![],
    });
    Discovery { resources: resources.collect(), failures: vec![] }
}

#[test]
fn kinds_are_found_in_the_version_that_the_server_prefers() {
    #[rustfmt::skip]
    let table = [
        ("apps",          "Deployment",            "apps/v1/deployments"),
        ("apps",          "deployment",            "apps/v1/deployments"),
        ("",              "ReplicationController", "v1/replicationcontrollers"),
        ("example.com",   "Widget",                "example.com/v2/widgets example.com/v1/oldwidgets"),
        ("other.example", "Widget",                "other.example/v1/widgets"),
        ("apps",          "Widget",                "no matches for kind \"Widget\" in group \"apps\""),
        ("",              "Deployment",            "no matches for kind \"Deployment\" in group \"\""),
    ];
    for (group, kind, want) in table {
        let served = served();
        let got = match resources(&served, GroupKind { group, kind }) {
            Ok(found) => {
                let one = |found: &&ResourceType| format!("{}/{}", found.api_version(), found.plural);
                found.iter().map(one).collect::<Vec<_>>().join(" ")
            }
            Err(error) => error,
        };
        assert_eq!(got, want, "{kind} in {group:?}");
    }
}

#[test]
fn groups_are_split_off_their_versions() {
    assert_eq!(group_of("apps/v1"), Ok("apps"));
    assert_eq!(group_of("v1"), Ok(""));
    assert_eq!(group_of(""), Ok(""));
    assert_eq!(group_of("a/b/c"), Err("unexpected GroupVersion string: a/b/c".to_owned()));
}
