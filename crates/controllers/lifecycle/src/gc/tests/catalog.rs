use flyball_api::{ObjectMeta, ResourceType};
use flyball_client::{DiscoveredResource, Discovery, DiscoveryFailure};
use serde_json::json;

use crate::gc::catalog::{Catalog, changes, deletable, may_change_resources};

/// From `group/version/Kind verbs`, preferred unless it ends in `?`.
fn discovery(lines: &[&str], failed: &[&str]) -> Discovery {
    let resource = |line: &&str| {
        let (path, verbs) = line.split_once(' ').unwrap();
        let parts: Vec<&str> = path.split('/').collect();
        let kind = parts[2].trim_end_matches('?');
        DiscoveredResource {
            resource: resource(parts[0], parts[1], kind),
            verbs: verbs.split(',').map(Into::into).collect(),
            subresources: vec![],
            preferred: !path.ends_with('?'),
            short_names: vec![],
            categories: vec![],
        }
    };
    let failure =
        |group: &&str| DiscoveryFailure { group_version: (*group).to_owned(), problem: "down".to_owned() };
    Discovery {
        resources: lines.iter().map(resource).collect(),
        failures: failed.iter().map(failure).collect(),
    }
}

fn resource(group: &str, version: &str, kind: &str) -> ResourceType {
    let plural = format!("{}s", kind.to_lowercase());
    ResourceType {
        group: group.into(),
        version: version.into(),
        plural: plural.into(),
        kind: kind.into(),
        namespaced: true,
    }
}

const ALL: &str = "create,delete,get,list,watch";

#[test]
fn what_can_be_listed_watched_and_deleted_is_followed_in_one_version() {
    let found = discovery(
        &[
            &format!("/v1/Pod {ALL}"),
            &format!("/v1/Event {ALL}"),
            "/v1/Binding create",
            "apps/v1/Readable get,list,watch",
            &format!("apps/v1/Deployment {ALL}"),
            &format!("apps/v1beta1/Deployment? {ALL}"),
        ],
        &["gone.io/v1"],
    );
    let working = [resource("gone.io", "v1", "Thing"), resource("old.io", "v1", "Thing")];
    let followed = deletable(&found, |resource| resource.plural == "events", working.into_iter());
    let names: Vec<String> =
        followed.iter().map(|resource| format!("{} {}", resource.api_version(), resource.kind)).collect();
    assert_eq!(names, ["v1 Pod", "apps/v1 Deployment", "gone.io/v1 Thing"]);
}

#[test]
fn every_served_version_of_a_kind_can_be_looked_up() {
    let before = Catalog::new(&discovery(
        &[&format!("gone.io/v1/Thing {ALL}"), &format!("old.io/v1/Thing {ALL}")],
        &[],
    ));
    let found = discovery(
        &[&format!("apps/v1/Deployment {ALL}"), &format!("apps/v1beta1/Deployment? {ALL}")],
        &["gone.io/v1"],
    );
    let mut catalog = Catalog::new(&found);
    catalog.keep_failed(&before, &found);
    #[rustfmt::skip]
    let table = [
        ("apps/v1",      "Deployment", true),
        ("apps/v1beta1", "Deployment", true),
        ("apps/v1",      "deployment", true),
        ("apps/v1",      "DEPLOYMENT", false),
        ("apps/v2",      "Deployment", false),
        ("gone.io/v1",   "Thing",      true),
        ("gone.io/v1",   "thing",      true),
        ("old.io/v1",    "Thing",      false),
        ("",             "",           false),
        ("a/b/c",        "Thing",      false),
    ];
    for (version, kind, want) in table {
        assert_eq!(catalog.resource(version, kind).is_some(), want, "{version} {kind}");
    }
}

#[test]
fn another_version_of_a_resource_takes_the_place_of_the_one_before() {
    #[rustfmt::skip]
    let table = [
        // case                                       running                   wanted                    start     succeed                stop
        ("nothing new",                               "a/v1/T",                 "a/v1/T",                 "",       "",                    ""),
        ("comes",                                     "",                       "a/v1/T",                 "a/v1/T", "",                    ""),
        ("goes",                                      "a/v1/T",                 "",                       "",       "",                    "a/v1/T"),
        ("in another version",                        "a/v1/T",                 "a/v2/T",                 "",       "a/v2/T for a/v1/T",   ""),
        ("in an older one",                           "a/v2/T",                 "a/v1/T",                 "",       "a/v1/T for a/v2/T",   ""),
        ("while the other cannot be discovered",      "a/v1/T",                 "a/v1/T a/v2/T",          "",       "a/v2/T for a/v1/T",   ""),
        ("in the place of two",                       "a/v1/T a/v2/T",          "a/v3/T",                 "",       "a/v3/T for a/v1/T a/v2/T", ""),
        ("of another group",                          "a/v1/T",                 "b/v1/T",                 "b/v1/T", "",                    "a/v1/T"),
        ("of another kind",                           "a/v1/T",                 "a/v2/S",                 "a/v2/S", "",                    "a/v1/T"),
        ("others are not concerned",                  "a/v1/T a/v1/S",          "a/v2/T a/v1/S a/v1/R",   "a/v1/R", "a/v2/T for a/v1/T",   ""),
    ];
    let parse = |text: &str| -> std::collections::BTreeSet<ResourceType> {
        let one = |text: &str| {
            let parts: Vec<&str> = text.split('/').collect();
            resource(parts[0], parts[1], parts[2])
        };
        text.split_whitespace().map(one).collect()
    };
    let shown = |resources: &[ResourceType]| {
        let each = resources.iter().map(|r| format!("{}/{}", r.api_version(), r.kind));
        each.collect::<Vec<_>>().join(" ")
    };
    for (case, running, wanted, start, succeed, stop) in table {
        let changes = changes(&parse(running), &parse(wanted));
        let successions = changes.succeed.iter();
        let successions: Vec<String> = successions
            .map(|(new, old)| format!("{} for {}", shown(std::slice::from_ref(new)), shown(old)))
            .collect();
        let found = (shown(&changes.start), successions.join(", "), shown(&changes.stop));
        assert_eq!(found, (start.to_owned(), succeed.to_owned(), stop.to_owned()), "{case}");
    }
}

#[test]
fn a_label_or_annotation_of_a_definition_does_not_change_what_is_served() {
    let meta = |words: &str| {
        let has = |word: &str| words.split(' ').any(|known| known == word);
        let mut meta = json!({
            "name": "crd", "uid": if has("again") { "b" } else { "a" }, "resourceVersion": "7",
            "generation": if has("service") { 0 } else { 1 + i64::from(has("spec")) },
            "labels": {"l": has("label").to_string()}, "annotations": {"a": has("annotation").to_string()},
        });
        if has("deleting") {
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        serde_json::from_value::<ObjectMeta>(meta).unwrap()
    };
    #[rustfmt::skip]
    let table = [
        // old               new                           may change resources
        (None,               Some("-"),                    true),
        (Some("-"),          None,                         true),
        (Some("-"),          Some("annotation"),           false),
        (Some("-"),          Some("label"),                false),
        (Some("-"),          Some("-"),                    true), // its status
        (Some("-"),          Some("annotation spec"),      true),
        (Some("-"),          Some("annotation deleting"),  true),
        (Some("-"),          Some("annotation again"),     true),
        (Some("service"),    Some("service annotation"),   true),
    ];
    for (old, new, want) in table {
        let (before, after) = (old.map(meta), new.map(meta));
        assert_eq!(may_change_resources(before.as_ref(), after.as_ref()), want, "{old:?} {new:?}");
    }
}
