use std::sync::Arc;

use flyball_api::{ObjectMeta, ResourceClaim, ResourceClaimTemplate};
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::{claim, group, pod};
use crate::resource_claim::consumer::{Consumer, consumer_of};
use crate::resource_claim::invariants::check_creations;
use crate::resource_claim::plan::{
    ENTRY, EntryNeed, Gates, Known, Need, NeedError, after, group_need, needs_work, plan, pod_need, reserve,
};
use flyball_runtime::{Outcome, Plan};

const GATES: Gates = Gates { admin_access: true, prioritized_list: true, groups: true };

/// ResourceClaims, and the templates `gpu`, `admin` and `listed`.
struct World(Vec<Arc<ResourceClaim>>);

impl World {
    /// ResourceClaims such as `app-g-1=of:app,for:g`.
    fn of(words: &str) -> Self {
        let one = |word: &str| {
            let (name, traits) = word.split_once('=').unwrap_or((word, ""));
            Arc::new(claim(name, &traits.replace(',', " ")))
        };
        Self(words.split_whitespace().map(one).collect())
    }
}

impl Known for World {
    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<ResourceClaim>> {
        assert_eq!(namespace, "ns");
        self.0.iter().find(|claim| claim.metadata.name == name).cloned()
    }

    fn generated_for(&self, consumer: &Consumer<'_>, entry: &str) -> Option<SmolStr> {
        let is_generated = |claim: &&Arc<ResourceClaim>| {
            consumer.owns(claim) && claim.metadata.annotations.get(ENTRY) == Some(entry)
        };
        self.0.iter().find(is_generated).map(|claim| claim.metadata.name.clone())
    }

    fn template(&self, namespace: &str, name: &str) -> Option<Arc<ResourceClaimTemplate>> {
        let request = match name {
            "gpu" => json!({"name": "r", "exactly": {"deviceClassName": "gpu"}}),
            "admin" => json!({"name": "r", "exactly": {"deviceClassName": "gpu", "adminAccess": true}}),
            "listed" => json!({"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]}),
            _ => return None,
        };
        let template = json!({
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"devices": {"requests": [request]}}},
        });
        Some(Arc::new(serde_json::from_value(template).unwrap()))
    }
}

fn show(need: Result<Need, NeedError>) -> String {
    match need {
        Ok(Need::Nothing) => "-".to_owned(),
        Ok(Need::Record(name)) => format!("record {name}"),
        Ok(Need::Create(claim)) => format!("create {}", claim["metadata"]["generateName"].as_str().unwrap()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn each_entry_of_a_pod_gets_a_resource_claim() {
    let absent =
        "resource claim template \"absent\": resourceclaimtemplate.resource.k8s.io \"absent\" not found";
    let unknown = "checking for claim before creating it: pod \"ns/app\", spec.resourceClaim \"g\": none of the supported fields are set";
    #[rustfmt::skip]
    let table = [
        // case                                           entry          recorded     claims                  traits      need
        ("none exists",                                   "g=tpl:gpu",   "",          "",                     "",         "create app-g-"),
        ("it exists, but is not recorded",                "g=tpl:gpu",   "",          "app-g-1=of:app,for:g", "",         "record app-g-1"),
        ("one for another entry does not count", "g=tpl:gpu",  "",          "app-h-1=of:app,for:h", "",         "create app-g-"),
        ("nor one without the annotation",                   "g=tpl:gpu",   "",          "app-g-1=of:app",       "",         "create app-g-"),
        ("it is there",                                   "g=tpl:gpu",   "g=app-g-1", "app-g-1=of:app,for:g", "",         "-"),
        ("it was deleted",                                "g=tpl:gpu",   "g=app-g-1", "",                     "",         "create app-g-"),
        ("it became another's",                           "g=tpl:gpu",   "g=app-g-1", "app-g-1=of:other",     "",         "create app-g-"),
        ("none is needed",                                "g=tpl:gpu",   "g=",        "",                     "",         "-"),
        ("a user creates it",                             "g=claim:mine", "",         "",                     "",         "-"),
        ("there is no such template",                     "g=tpl:absent", "",         "",                     "",         absent),
        ("no known field",                                "g=unknown",       "",          "",                     "",         unknown),
        ("a pod that has ended needs none",               "g=tpl:gpu",   "g=app-g-1", "",                     "ended",    "-"),
        ("a running pod does",                            "g=tpl:gpu",   "",          "",                     "running",  "create app-g-"),
    ];
    for (case, entry, recorded, claims, traits, want) in table {
        let pod = pod(entry, recorded, traits);
        let entry = &pod.spec.rare().resource_claims[0];
        assert_eq!(show(pod_need(&pod, None, entry, &World::of(claims), GATES)), want, "{case}");
    }
}

#[test]
fn a_pod_needs_work_when_a_resource_claim_has_to_be_created_recorded_or_reserved() {
    #[rustfmt::skip]
    let table = [
        // case                                  entries                   recorded      claims                                traits      want
        ("one has to be created",                 "g=tpl:gpu",              "",           "",                                   "",         true),
        ("one was deleted",                      "g=tpl:gpu",              "g=app-g-1",  "",                                   "",         true),
        ("none is needed",                       "g=tpl:gpu",              "g=",         "",                                   "",         false),
        ("it is there",                          "g=tpl:gpu",              "g=app-g-1",  "app-g-1=of:app",                     "running",  false),
        ("it became another's",                  "g=tpl:gpu",              "g=app-g-1",  "app-g-1=of:other,allocated",         "running",  false),
        ("but another entry needs something",    "g=tpl:gpu h=tpl:gpu",    "g=app-g-1",  "app-g-1=of:other",                   "",         true),
        ("it has to be reserved",                "g=tpl:gpu",              "g=app-g-1",  "app-g-1=of:app,allocated",           "running",  true),
        ("the scheduler reserves it",             "g=tpl:gpu",              "g=app-g-1",  "app-g-1=of:app,allocated",           "",         false),
        ("it is reserved",                       "g=tpl:gpu",              "g=app-g-1",  "app-g-1=of:app,allocated,user:app",  "running",  false),
        ("a named one is missing",               "g=claim:one",            "",           "",                                   "running",  false),
        ("a named one has to be reserved",       "g=claim:one",            "",           "one=allocated",                      "running",  true),
        ("no known field",                       "g=unknown",                  "",           "",                                   "",         true),
    ];
    for (case, entries, recorded, claims, traits, want) in table {
        let pod = pod(entries, recorded, traits);
        assert_eq!(needs_work(&pod, None, &World::of(claims), true), want, "{case}");
    }
    let (member, team) = (pod("g=tpl:gpu", "g=team-g-1", "group:team"), group("g=tpl:gpu", ""));
    assert!(
        !needs_work(&member, Some(&team), &World::of(""), true),
        "shared ResourceClaims are created for the group"
    );
}

#[test]
fn a_resource_claim_is_created_from_its_template() {
    let pod = pod("g=tpl:gpu", "", "");
    let need = pod_need(&pod, None, &pod.spec.rare().resource_claims[0], &World::of(""), GATES);
    let want = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": "app-g-",
            "labels": {"a": "b"},
            "annotations": {"c": "d", "resource.kubernetes.io/pod-claim-name": "g"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "app", "uid": "uid-app", "controller": true}],
        },
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    });
    assert_eq!(need, Ok(Need::Create(want)));
    let needs = [("g".into(), Ok(Need::Record("app-g-1".into())))];
    let recorded = after(&Consumer::from(&pod), &needs, &Outcome::default()).unwrap();
    assert_eq!(
        recorded.body().unwrap()["status"],
        json!({"resourceClaimStatuses": [{"name": "g", "resourceClaimName": "app-g-1"}]})
    );
}

#[test]
fn a_new_entry_does_not_displace_those_that_are_recorded() {
    let recorded = |needs: Vec<EntryNeed>| {
        let pod = pod("g=tpl:gpu h=tpl:gpu i=tpl:gpu", "g=app-g-1 h=app-h-1", "");
        let write = after(&Consumer::from(&pod), &needs, &Outcome::default())?;
        let body = write.body().unwrap();
        let statuses = body["status"]["resourceClaimStatuses"].as_array().unwrap().iter();
        let text = |status: &Value, field: &str| status[field].as_str().unwrap().to_owned();
        let statuses: Vec<_> = statuses
            .map(|status| format!("{}={}", text(status, "name"), text(status, "resourceClaimName")))
            .collect();
        Some(statuses.join(" "))
    };
    let nothing = |entry: &str| (entry.into(), Ok(Need::Nothing));
    let new = |entry: &str, name: &str| (entry.into(), Ok(Need::Record(name.into())));
    let failed = |entry: &str| (entry.into(), Err(NeedError::MissingTemplate("gpu".into())));
    #[rustfmt::skip]
    let table = [
        // needs                                                  recorded
        (vec![nothing("g"), nothing("h"), nothing("i")],          None),
        (vec![nothing("g"), nothing("h"), new("i", "app-i-1")],   Some("g=app-g-1 h=app-h-1 i=app-i-1")),
        (vec![nothing("g"), new("h", "app-h-2"), nothing("i")],   Some("g=app-g-1 h=app-h-2")),
        (vec![new("g", "app-g-2"), failed("h")],                  Some("g=app-g-2")),
    ];
    for (needs, want) in table {
        let case = format!("{needs:?}");
        assert_eq!(recorded(needs).as_deref(), want, "{case}");
    }
}

#[test]
fn the_first_failure_ends_the_plan_with_an_event() {
    let pod = pod("g=tpl:gpu h=tpl:absent i=tpl:gpu", "", "");
    let world = World::of("");
    let need = |entry| pod_need(&pod, None, entry, &world, GATES);
    let entries = &pod.spec.rare().resource_claims;
    let needs: Vec<_> = entries.iter().map(|entry| (entry.name.clone(), need(entry))).collect();
    let absent =
        "resource claim template \"absent\": resourceclaimtemplate.resource.k8s.io \"absent\" not found";
    let want = format!(
        "\
create ResourceClaim ns/app-g-*: it requests devices by a template
  else event Warning FailedResourceClaimCreation: PodResourceClaim g: create ResourceClaim : <error>
event Warning FailedResourceClaimCreation: PodResourceClaim h: {absent}
fail: entry h: {absent}
waiting for ResourceClaimTemplate/ns/absent to be created"
    );
    let consumer = Consumer::from(&pod);
    let planned = plan(&consumer, &needs);
    assert_eq!(planned.to_string(), want);
    assert_eq!(check_creations(&consumer, &planned), Ok(()));
    // The same plan is wrong for other consumers.
    let broken = |consumer: &Consumer<'_>| check_creations(consumer, &planned).unwrap_err();
    assert!(broken(&Consumer { entries: &entries[1..], ..consumer }).contains("for no entry"));
    let other = ObjectMeta { uid: "uid-other".into(), ..pod.metadata.clone() };
    assert!(broken(&Consumer { meta: &other, ..consumer }).contains("does not own it"));
    let twice = [&entries[0], &entries[0]].map(|entry| (entry.name.clone(), need(entry)));
    let twice = plan(&consumer, &twice);
    assert!(check_creations(&consumer, &twice).unwrap_err().contains("the second for its entry"));
}

#[test]
fn long_names_are_cut_in_proportion() {
    #[rustfmt::skip]
    let table = [
        // pod  entry  base
        (50,    5,     format!("{}-{}-", "p".repeat(50), "e".repeat(5))),
        (51,    5,     format!("{}-{}", "p".repeat(50), "e".repeat(4))),
        (100,   60,    format!("{}-{}", "p".repeat(35), "e".repeat(21))),
    ];
    for (pod_length, entry_length, want) in table {
        let mut pod = pod(&format!("{}=tpl:gpu", "e".repeat(entry_length)), "", "");
        pod.metadata.name = "p".repeat(pod_length).into();
        let need = pod_need(&pod, None, &pod.spec.rare().resource_claims[0], &World::of(""), GATES);
        assert_eq!(show(need), format!("create {want}"));
        assert!(want.len() <= 57);
    }
}

#[test]
fn disabled_features_are_refused() {
    let disabled = Gates { admin_access: false, prioritized_list: false, groups: false };
    #[rustfmt::skip]
    let table = [
        ("g=tpl:gpu",    GATES, "create app-g-"),
        ("g=tpl:admin",  GATES, "create app-g-"),
        ("g=tpl:listed", GATES, "create app-g-"),
        ("g=tpl:gpu",    disabled, "create app-g-"),
        ("g=tpl:admin",  disabled, "admin access is requested, but the feature is disabled"),
        ("g=tpl:listed", disabled, "template includes a prioritized list of subrequests, but the feature is disabled"),
    ];
    for (entry, gates, want) in table {
        let pod = pod(entry, "", "");
        assert_eq!(
            show(pod_need(&pod, None, &pod.spec.rare().resource_claims[0], &World::of(""), gates)),
            want
        );
    }
}

#[test]
fn shared_resource_claims_are_created_for_the_group() {
    let team = group("g=tpl:gpu", "");
    #[rustfmt::skip]
    let table = [
        // case                                     entry          recorded      claims                          of the pod            of the group
        ("the group comes first",                   "g=tpl:gpu",   "",           "",                             "-",                  "create team-g-"),
        ("then the pod records it",                 "g=tpl:gpu",   "",           "team-g-1=of-group:team,for:g", "record team-g-1",    "record team-g-1"),
        ("it is recorded",                         "g=tpl:gpu",   "g=team-g-1", "team-g-1=of-group:team,for:g", "-",                  "record team-g-1"),
        ("an entry of the pod alone",               "h=tpl:gpu",   "",           "",                             "create app-h-",        "create team-g-"),
        ("an entry with only the same name",        "g=tpl:admin", "",           "",                             "create app-g-",        "create team-g-"),
    ];
    for (case, entry, recorded, claims, of_the_pod, of_the_group) in table {
        let pod = pod(entry, recorded, "group:team");
        let world = World::of(claims);
        let entry = &pod.spec.rare().resource_claims[0];
        assert_eq!(show(pod_need(&pod, Some(&team), entry, &world, GATES)), of_the_pod, "{case}");
        assert_eq!(
            show(group_need(&team, &team.spec.resource_claims[0], &world, GATES)),
            of_the_group,
            "{case}"
        );
    }
    let odd = group("g=unknown", "");
    let want = "checking for claim before creating it: PodGroup ns/team, spec.resourceClaim g: none of the supported fields are set";
    assert_eq!(show(group_need(&odd, &odd.spec.resource_claims[0], &World::of(""), GATES)), want);
}

#[test]
fn resource_claims_are_reserved_for_pods_that_the_scheduler_did_not_assign() {
    #[rustfmt::skip]
    let table = [
        // case                           entries                     recorded      claims                                    traits      want
        ("allocated, and not reserved",   "g=claim:one",              "",           "one=allocated",                          "running",  "one"),
        ("the scheduler reserves it",      "g=claim:one",              "",           "one=allocated",                          "",         ""),
        ("it has ended",                  "g=claim:one",              "",           "one=allocated",                          "running ended", ""),
        ("not allocated",                 "g=claim:one",              "",           "one",                                    "running",  ""),
        ("reserved already",              "g=claim:one",              "",           "one=allocated,user:app",                 "running",  ""),
        ("reserved for another",          "g=claim:one",              "",           "one=allocated,user:other",               "running",  "one"),
        ("reserved for its group",        "g=claim:one",              "",           "one=allocated,group-user:team",          "running group:team", ""),
        ("reserved for another group",    "g=claim:one",              "",           "one=allocated,group-user:other",         "running group:team", "one"),
        ("several",                       "g=claim:one h=tpl:gpu",    "h=app-h-1",  "one=allocated app-h-1=allocated,of:app", "running",  "one app-h-1"),
        ("not before it is recorded",     "h=tpl:gpu g=claim:one",    "",           "one=allocated",                          "running",  ""),
        ("not while one is missing",      "h=claim:two g=claim:one",  "",           "one=allocated",                          "running",  ""),
        ("none is needed for one",        "h=tpl:gpu g=claim:one",    "h=",         "one=allocated",                          "running",  "one"),
        ("of another pod",                  "h=tpl:gpu",                "h=app-h-1",  "app-h-1=allocated,of:other",             "running",  "fail: ResourceClaim ns/app-h-1 was not created for Pod ns/app (Pod is not owner)"),
    ];
    for (case, entries, recorded, claims, traits, want) in table {
        let pod = pod(entries, recorded, traits);
        let effects = reserve(&pod, None, &World::of(claims), true);
        let got = Plan::of(effects).to_string();
        let why = "pods app uses it, and was not assigned by the scheduler";
        let update = |name: &str| format!("update ResourceClaim/status ns/{name}: {why}");
        let want = match want.starts_with("fail: ") {
            true => want.to_owned(),
            false => want.split_whitespace().map(update).collect::<Vec<_>>().join("\n"),
        };
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn reservations_name_the_pod_or_the_group_that_asks_for_the_same() {
    let pod = pod("g=claim:one h=claim:two", "", "group:team");
    let team = group("g=claim:one", "");
    let user = |entry: usize| {
        let reference = consumer_of(&pod, Some(&team), &pod.spec.rare().resource_claims[entry]).reference();
        serde_json::to_value(reference).unwrap()
    };
    assert_eq!(
        user(0),
        json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "team", "uid": "uid-team"})
    );
    assert_eq!(user(1), json!({"resource": "pods", "name": "app", "uid": "uid-app"}));
}
