use std::sync::Arc;

use flyball_api::{ResourceClaim, ResourceClaimTemplate};
use serde_json::json;
use smol_str::SmolStr;

use super::{claim, group, pod};
use crate::claim::consumer::{Consumer, binds_to};
use crate::claim::plan::{ENTRY, Gates, Known, Need, needs_work, of_group, of_pod, record, reservations};

const GATES: Gates = Gates { admin_access: true, prioritized_list: true, groups: true };

/// A world of claims, with the templates `gpu`, `admin` and `listed`.
struct World(Vec<Arc<ResourceClaim>>);

impl World {
    /// Claims such as `app-g-1=of:app,for:g`.
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

    fn made_for(&self, consumer: &Consumer<'_>, entry: &str) -> Option<SmolStr> {
        let is_made = |claim: &&Arc<ResourceClaim>| {
            consumer.owns(claim) && claim.metadata.annotations.get(ENTRY) == Some(entry)
        };
        self.0.iter().find(is_made).map(|claim| claim.metadata.name.clone())
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

fn show(need: Result<Need, String>) -> String {
    match need {
        Ok(Need::Nothing) => "-".to_owned(),
        Ok(Need::Record(name)) => format!("record {name}"),
        Ok(Need::Make(claim)) => format!("make {}", claim["metadata"]["generateName"].as_str().unwrap()),
        Err(problem) => problem,
    }
}

#[test]
fn each_entry_of_a_pod_gets_a_claim_of_its_own() {
    let absent =
        "resource claim template \"absent\": resourceclaimtemplate.resource.k8s.io \"absent\" not found";
    let unknown = "checking for claim before creating it: pod \"ns/app\", spec.resourceClaim \"g\": none of the supported fields are set";
    #[rustfmt::skip]
    let table = [
        // case                                           entry          recorded     claims                  traits      need
        ("it is made",                                    "g=tpl:gpu",   "",          "",                     "",         "make app-g-"),
        ("it was made, and is to be recorded",            "g=tpl:gpu",   "",          "app-g-1=of:app,for:g", "",         "record app-g-1"),
        ("what was made for another entry does not count", "g=tpl:gpu",  "",          "app-h-1=of:app,for:h", "",         "make app-g-"),
        ("nor what was made by others",                   "g=tpl:gpu",   "",          "app-g-1=of:app",       "",         "make app-g-"),
        ("it is there",                                   "g=tpl:gpu",   "g=app-g-1", "app-g-1=of:app,for:g", "",         "-"),
        ("it was deleted",                                "g=tpl:gpu",   "g=app-g-1", "",                     "",         "make app-g-"),
        ("it became another's",                           "g=tpl:gpu",   "g=app-g-1", "app-g-1=of:other",     "",         "make app-g-"),
        ("none is needed",                                "g=tpl:gpu",   "g=",        "",                     "",         "-"),
        ("somebody else makes it",                        "g=claim:mine", "",         "",                     "",         "-"),
        ("there is no such template",                     "g=tpl:absent", "",         "",                     "",         absent),
        ("nothing that is known is asked for",            "g=odd",       "",          "",                     "",         unknown),
        ("a pod that has ended needs none",               "g=tpl:gpu",   "g=app-g-1", "",                     "ended",    "-"),
        ("a running one does",                            "g=tpl:gpu",   "",          "",                     "running",  "make app-g-"),
    ];
    for (case, entry, made, claims, traits, want) in table {
        let pod = pod(entry, made, traits);
        let entry = &pod.spec.rare().resource_claims[0];
        assert_eq!(show(of_pod(&pod, None, entry, &World::of(claims), GATES)), want, "{case}");
    }
}

#[test]
fn a_pod_is_looked_at_when_something_is_to_be_done_for_it() {
    #[rustfmt::skip]
    let table = [
        // case                                  entries                   recorded      claims                                traits      want
        ("one is to be made",                    "g=tpl:gpu",              "",           "",                                   "",         true),
        ("one was deleted",                      "g=tpl:gpu",              "g=app-g-1",  "",                                   "",         true),
        ("none is needed",                       "g=tpl:gpu",              "g=",         "",                                   "",         false),
        ("it is there",                          "g=tpl:gpu",              "g=app-g-1",  "app-g-1=of:app",                     "running",  false),
        ("it became another's",                  "g=tpl:gpu",              "g=app-g-1",  "app-g-1=of:other,allocated",         "running",  false),
        ("but another entry needs something",    "g=tpl:gpu h=tpl:gpu",    "g=app-g-1",  "app-g-1=of:other",                   "",         true),
        ("it is to be reserved",                 "g=tpl:gpu",              "g=app-g-1",  "app-g-1=of:app,allocated",           "running",  true),
        ("the scheduler will do it",             "g=tpl:gpu",              "g=app-g-1",  "app-g-1=of:app,allocated",           "",         false),
        ("it is reserved",                       "g=tpl:gpu",              "g=app-g-1",  "app-g-1=of:app,allocated,user:app",  "running",  false),
        ("somebody else's is missing",           "g=claim:one",            "",           "",                                   "running",  false),
        ("somebody else's is to be reserved",    "g=claim:one",            "",           "one=allocated",                      "running",  true),
        ("nothing that is known is asked for",   "g=odd",                  "",           "",                                   "",         true),
    ];
    for (case, entries, made, claims, traits, want) in table {
        let pod = pod(entries, made, traits);
        assert_eq!(needs_work(&pod, None, &World::of(claims), true), want, "{case}");
    }
    let (member, team) = (pod("g=tpl:gpu", "g=team-g-1", "group:team"), group("g=tpl:gpu", ""));
    assert!(
        !needs_work(&member, Some(&team), &World::of(""), true),
        "what a group shares is made for the group"
    );
}

#[test]
fn a_claim_is_made_of_its_template() {
    let pod = pod("g=tpl:gpu", "", "");
    let need = of_pod(&pod, None, &pod.spec.rare().resource_claims[0], &World::of(""), GATES);
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
    assert_eq!(need, Ok(Need::Make(want)));
    let made = record(&Consumer::from(&pod), &[("g".into(), "app-g-1".into())]);
    assert_eq!(
        made["status"],
        json!({"resourceClaimStatuses": [{"name": "g", "resourceClaimName": "app-g-1"}]})
    );
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
        let need = of_pod(&pod, None, &pod.spec.rare().resource_claims[0], &World::of(""), GATES);
        assert_eq!(show(need), format!("make {want}"));
        assert!(want.len() <= 57);
    }
}

#[test]
fn gates_forbid() {
    let shut = Gates { admin_access: false, prioritized_list: false, groups: false };
    #[rustfmt::skip]
    let table = [
        ("g=tpl:gpu",    GATES, "make app-g-"),
        ("g=tpl:admin",  GATES, "make app-g-"),
        ("g=tpl:listed", GATES, "make app-g-"),
        ("g=tpl:gpu",    shut,  "make app-g-"),
        ("g=tpl:admin",  shut,  "admin access is requested, but the feature is disabled"),
        ("g=tpl:listed", shut,  "template includes a prioritized list of subrequests, but the feature is disabled"),
    ];
    for (entry, gates, want) in table {
        let pod = pod(entry, "", "");
        assert_eq!(
            show(of_pod(&pod, None, &pod.spec.rare().resource_claims[0], &World::of(""), gates)),
            want
        );
    }
}

#[test]
fn what_a_group_shares_is_made_for_the_group() {
    let team = group("g=tpl:gpu", "");
    #[rustfmt::skip]
    let table = [
        // case                                     entry          recorded      claims                          of the pod            of the group
        ("the group comes first",                   "g=tpl:gpu",   "",           "",                             "-",                  "make team-g-"),
        ("then the pod has it, too",                "g=tpl:gpu",   "",           "team-g-1=of-group:team,for:g", "record team-g-1",    "record team-g-1"),
        ("and is content",                          "g=tpl:gpu",   "g=team-g-1", "team-g-1=of-group:team,for:g", "-",                  "record team-g-1"),
        ("what is its own alone is made for it",    "h=tpl:gpu",   "",           "",                             "make app-h-",        "make team-g-"),
        ("so is what only has the same name",       "g=tpl:admin", "",           "",                             "make app-g-",        "make team-g-"),
    ];
    for (case, entry, made, claims, of_the_pod, of_the_group) in table {
        let pod = pod(entry, made, "group:team");
        let world = World::of(claims);
        let entry = &pod.spec.rare().resource_claims[0];
        assert_eq!(show(of_pod(&pod, Some(&team), entry, &world, GATES)), of_the_pod, "{case}");
        assert_eq!(
            show(of_group(&team, &team.spec.resource_claims[0], &world, GATES)),
            of_the_group,
            "{case}"
        );
    }
    let odd = group("g=odd", "");
    let want = "checking for claim before creating it: PodGroup ns/team, spec.resourceClaim g: none of the supported fields are set";
    assert_eq!(show(of_group(&odd, &odd.spec.resource_claims[0], &World::of(""), GATES)), want);
}

#[test]
fn claims_are_reserved_for_pods_that_the_scheduler_did_not_place() {
    #[rustfmt::skip]
    let table = [
        // case                           entries                     recorded      claims                                    traits      want
        ("allocated, and not reserved",   "g=claim:one",              "",           "one=allocated",                          "running",  "one"),
        ("the scheduler will do it",      "g=claim:one",              "",           "one=allocated",                          "",         ""),
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
        ("another's",                     "h=tpl:gpu",                "h=app-h-1",  "app-h-1=allocated,of:other",             "running",  "ResourceClaim ns/app-h-1 was not created for Pod ns/app (Pod is not owner)"),
    ];
    for (case, entries, made, claims, traits, want) in table {
        let pod = pod(entries, made, traits);
        let got = match reservations(&pod, &World::of(claims), true) {
            Ok(wanted) => {
                wanted.iter().map(|(_, claim)| claim.metadata.name.as_str()).collect::<Vec<_>>().join(" ")
            }
            Err(problem) => problem,
        };
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn reservations_name_the_pod_or_the_group_that_asks_for_the_same() {
    let pod = pod("g=claim:one h=claim:two", "", "group:team");
    let team = group("g=claim:one", "");
    let user = |entry: usize| {
        let reference = binds_to(&pod, Some(&team), &pod.spec.rare().resource_claims[entry]).reference();
        serde_json::to_value(reference).unwrap()
    };
    assert_eq!(
        user(0),
        json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "team", "uid": "uid-team"})
    );
    assert_eq!(user(1), json!({"resource": "pods", "name": "app", "uid": "uid-app"}));
}
