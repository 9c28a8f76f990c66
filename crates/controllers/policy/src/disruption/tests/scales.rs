use std::time::Duration;

use flyball_api::{OwnerReference, ResourceType};

use flyball_client::{ApiStatus, DiscoveredResource, Discovery, Error};

use crate::disruption::owners::{Scale, Total};
use crate::disruption::plan::Problem;
use crate::disruption::scales::{Answer, Trust, Unknown, scalable};

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

fn scale(uid: &str, replicas: i32) -> Scale {
    Scale { uid: uid.into(), replicas }
}

fn refused() -> Error {
    let message = "no".into();
    Error::Status(Box::new(ApiStatus {
        code: 403,
        reason: "Forbidden".into(),
        message,
        ..ApiStatus::default()
    }))
}

fn no_kind() -> Unknown {
    Unknown::NoKind { kind: "Widget".into(), version: "v1".into() }
}

#[test]
fn an_owner_that_is_not_found_is_looked_for_in_newer_discovery() {
    let seconds = Duration::from_secs;
    #[rustfmt::skip]
    let table = [
        // case                         answer                         age of discovery  trust
        ("found",                       Ok(Some(scale("a", 1))),       Some(9),          Trust::Full),
        ("its kind is not found",       Err(no_kind()),                Some(9),          Trust::None),
        ("the owner is not found",      Ok(None),                      Some(9),          Trust::None),
        ("discovery is recent",         Ok(None),                      Some(2),          Trust::For(seconds(3))),
        ("discovery was just read",     Err(no_kind()),                None,             Trust::Full),
        ("the read was refused",        Err(Unknown::Api(refused())),  Some(9),          Trust::Full),
    ];
    for (case, answer, age, want) in table {
        assert_eq!(Trust::of(&answer, age.map(seconds)), want, "{case}");
    }
}

#[test]
fn an_unknown_scale_ends_the_sum_with_upstreams_words() {
    let again_after = Some(Duration::from_secs(3));
    #[rustfmt::skip]
    let table = [
        // case                    answer                          message                                             error
        ("the owner is gone",      Ok(None),                       "found no controllers for pod \"p\"",               false),
        ("no such kind",           Err(no_kind()),                 "no matches for kind \"Widget\" in version \"v1\"", false),
        ("the read was refused",   Err(Unknown::Api(refused())),   "no",                                               true),
    ];
    for (case, scale, message, has_error) in table {
        let (problem, error) = Answer { scale, again_after }.known("p").unwrap_err();
        assert_eq!(problem, Problem::Scale { message: message.into(), again_after }, "{case}");
        assert_eq!(error.is_some(), has_error, "{case}");
    }
    let known = Answer { scale: Ok(Some(scale("a", 3))), again_after: None }.known("p");
    assert_eq!(known.unwrap(), scale("a", 3));
}

#[test]
fn owners_below_one_deployment_count_once() {
    let mut total = Total::default();
    [scale("a", 3), scale("b", 2), scale("a", 3)].iter().for_each(|scale| total.add(scale));
    assert_eq!(total.replicas(), 5);
    total.add(&scale("c", i32::MAX));
    assert_eq!(total.replicas(), i32::MAX);
}
