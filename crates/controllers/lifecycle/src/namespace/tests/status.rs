use flyball_api::condition::Condition;
use flyball_api::{Resource, ResourceType, Timestamp};
use flyball_client::{Discovery, DiscoveryFailure};

use crate::namespace::content::{Collection, Remains};
use crate::namespace::status::Findings;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn remains(objects: usize, finalizers: &[(&str, usize)], error: Option<&str>) -> Remains {
    Remains {
        objects,
        finalizers: finalizers.iter().map(|(name, count)| ((*name).into(), *count)).collect(),
        error: error.map(str::to_owned),
        ..Remains::default()
    }
}

const CONFIG_MAPS: ResourceType = ResourceType::new("", "v1", "configmaps", "ConfigMap", true);
const DEPLOYMENTS: ResourceType = ResourceType::new("apps", "v1", "deployments", "Deployment", true);

fn collection(resource: ResourceType) -> Collection {
    Collection { resource, can_list: true, can_delete_collection: true }
}

fn shown(conditions: &[Condition]) -> Vec<String> {
    conditions.iter().map(|c| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message)).collect()
}

const FINE: [&str; 5] = [
    "NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered: All resources successfully discovered",
    "NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types successfully parsed",
    "NamespaceDeletionContentFailure=False ContentDeleted: All content successfully deleted, may be waiting on finalization",
    "NamespaceContentRemaining=False ContentRemoved: All content successfully removed",
    "NamespaceFinalizersRemaining=False ContentHasNoFinalizers: All content-preserving finalizers finished",
];

#[test]
fn an_empty_namespace_has_all_conditions_and_none_is_true() {
    let findings = Findings::default();
    let conditions = findings.update(&[], at(5)).unwrap();
    assert_eq!(shown(&conditions), FINE);
    assert_eq!(findings.failure(), None);
    assert_eq!(findings.update(&conditions, at(9)), None, "nothing new, nothing to write");
}

#[test]
fn each_finding_is_reported_by_its_own_condition() {
    let failures = ["b.io/v1", "a.io/v1"].map(|group| DiscoveryFailure {
        group_version: group.to_owned(),
        problem: format!("stale GroupVersion discovery: {group}"),
    });
    let discovery = Discovery { resources: vec![], failures: failures.into() };
    let maps = remains(1, &[("x/hold", 1)], Some("z is wrong"));
    let deployments = remains(2, &[("x/hold", 2), ("w/hold", 1)], Some("a is wrong"));
    let findings = Findings::of(
        Ok(&discovery),
        &[(collection(CONFIG_MAPS), maps), (collection(DEPLOYMENTS), deployments)],
        true,
    );
    let conditions = findings.update(&[], at(5)).unwrap();
    let mut want = FINE;
    want[0] = "NamespaceDeletionDiscoveryFailure=True DiscoveryFailed: Discovery failed for some groups, 2 failing: \
        unable to retrieve the complete list of server APIs: a.io/v1: stale GroupVersion discovery: a.io/v1, \
        b.io/v1: stale GroupVersion discovery: b.io/v1";
    want[2] = "NamespaceDeletionContentFailure=True ContentDeletionFailed: Failed to delete all resource types, \
        2 remaining: a is wrong, z is wrong";
    want[3] = "NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: \
        configmaps. has 1 resource instances, deployments.apps has 2 resource instances";
    want[4] = "NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers \
        remaining: w/hold in 1 resource instances, x/hold in 3 resource instances";
    assert_eq!(shown(&conditions), want);
    assert!(
        findings
            .failure()
            .is_some_and(|failure| failure.contains("a.io/v1") && failure.contains("z is wrong"))
    );
}

#[test]
fn a_condition_keeps_its_time_until_its_status_changes_and_other_conditions_stay() {
    let stranger = Condition { type_: "Other".into(), status: "True".into(), ..Condition::default() };
    let mut held = Findings::default();
    held.remain(&CONFIG_MAPS, &remains(2, &[], None));
    let first = held.update(&[stranger], at(10)).unwrap();
    let time = |conditions: &[Condition], type_: &str| {
        conditions.iter().find(|c| c.type_ == type_).and_then(|c| c.last_transition_time)
    };
    let mut fewer = Findings::default();
    fewer.remain(&CONFIG_MAPS, &remains(1, &[], None));
    let second = fewer.update(&first, at(20)).unwrap();
    assert_eq!(time(&second, "NamespaceContentRemaining"), Some(at(10)), "the message alone has changed");
    let third = Findings::default().update(&second, at(30)).unwrap();
    assert_eq!(time(&third, "NamespaceContentRemaining"), Some(at(30)));
    assert_eq!(time(&third, "NamespaceFinalizersRemaining"), Some(at(10)));
    assert_eq!(third[0].type_, "Other");
    assert_eq!(third.len(), 6);
}

#[test]
fn pods_that_remain_are_reported_only_without_an_order_and_failed_discovery_is() {
    let pods = [(collection(flyball_api::pod::Pod::TYPE), remains(2, &[("x/hold", 2)], None))];
    let unordered = Findings::of(Ok(&Discovery { resources: vec![], failures: vec![] }), &pods, false);
    let mut want = FINE;
    want[3] = "NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: \
        pods. has 2 resource instances";
    want[4] = "NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers \
        remaining: x/hold in 2 resource instances";
    assert_eq!(shown(&unordered.update(&[], at(5)).unwrap()), want);
    let findings = Findings::of(Err(&"no answer".to_owned()), &pods, true);
    let mut want = FINE;
    want[0] = "NamespaceDeletionDiscoveryFailure=True DiscoveryFailed: no answer";
    assert_eq!(shown(&findings.update(&[], at(5)).unwrap()), want);
    assert_eq!(findings.failure().as_deref(), Some("no answer"));
}
