use flyball_api::{OwnerReference, ResourceType};
use flyball_client::{DiscoveredResource, Discovery};

use crate::disruption::scales::scalable;

fn served() -> Discovery {
    #[rustfmt::skip]
    let table = [
        // group          version    plural        kind         scale   preferred
        ("",              "v1",      "nodes",      "Node",      false,  true),
        ("apps",          "v1",      "daemonsets", "DaemonSet", false,  true),
        ("example.com",   "v2",      "widgets",    "Widget",    true,   true),
        ("example.com",   "v1",      "widgets",    "Widget",    true,   false),
        ("example.com",   "v1",      "gadgets",    "Gadget",    true,   true),
        ("other.example", "v1",      "widgets",    "Widget",    false,  true),
    ];
    let resources =
        table.into_iter().map(|(group, version, plural, kind, has_scale, preferred)| DiscoveredResource {
            resource: ResourceType::new(group, version, plural, kind, true),
            verbs: vec![],
            subresources: if has_scale {
                vec!["status".into(), "scale".into()]
            } else {
                vec!["status".into()]
            },
            preferred,
            short_names: vec![],
            categories: vec![],
        });
    Discovery { resources: resources.collect(), failures: vec![] }
}

#[test]
fn owners_of_any_kind_with_a_scale_are_found() {
    #[rustfmt::skip]
    let table = [
        // version             kind         found
        ("example.com/v2",     "Widget",    "/apis/example.com/v2/namespaces/ns/widgets/o/scale"),
        ("example.com/v1",     "Widget",    "/apis/example.com/v2/namespaces/ns/widgets/o/scale"), // the preferred version
        ("example.com/v1",     "Gadget",    "/apis/example.com/v1/namespaces/ns/gadgets/o/scale"),
        ("other.example/v1",   "Widget",    "widgets.other.example does not implement the scale subresource"),
        ("apps/v1",            "DaemonSet", "daemonsets.apps does not implement the scale subresource"),
        ("v1",                 "Node",      "nodes does not implement the scale subresource"),
        ("example.com/v3",     "Widget",    "no matches for kind \"Widget\" in version \"example.com/v3\""),
        ("v1",                 "Widget",    "no matches for kind \"Widget\" in version \"v1\""),
    ];
    for (api_version, kind, want) in table {
        let owner = OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: "o".into(),
            ..OwnerReference::default()
        };
        let served = served();
        let got = match scalable(&served, &owner) {
            Ok(resource) => resource.path(Some("ns"), Some("o"), Some("scale")),
            Err(unknown) => unknown.to_string(),
        };
        assert_eq!(got, want, "{api_version} {kind}");
    }
}
