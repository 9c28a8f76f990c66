//! Which kinds rules name.

use flyball_api::ResourceType;
use flyball_client::{DiscoveredResource, Discovery};

use super::super::kinds::{kinds, names_any};
use super::super::policy::{MatchConstraints, ParamKind, Rule, Spec};

fn served() -> Discovery {
    #[rustfmt::skip]
    let resources = [
        ("", "v1", "pods", "Pod"), ("", "v1", "events", "Event"), ("", "v1", "secrets", "Secret"),
        ("apps", "v1", "deployments", "Deployment"), ("apps", "v1beta1", "deployments", "Deployment"),
        ("events.k8s.io", "v1", "events", "Event"),
    ];
    let resources = resources.into_iter().map(|(group, version, plural, kind)| DiscoveredResource {
        resource: ResourceType::new(group, version, plural, kind, true),
        verbs: vec![],
        subresources: vec![],
        preferred: true,
        short_names: vec![],
        categories: vec![],
    });
    Discovery { resources: resources.collect(), failures: vec![] }
}

/// `group,group version,version resource,resource`; `-` is the core group.
fn rule(text: &str) -> Rule {
    let mut words = text.split(' ').map(|names| {
        names.split(',').map(|name| if name == "-" { "" } else { name }.into()).collect::<Vec<_>>()
    });
    let mut next = || words.next().unwrap();
    Rule { api_groups: next(), api_versions: next(), resources: next() }
}

fn named(rules: &[&str]) -> Spec {
    let resource_rules = rules.iter().map(|text| rule(text)).collect();
    Spec { match_constraints: MatchConstraints { resource_rules }, ..Spec::default() }
}

#[test]
fn kinds_are_those_named_without_wildcards() {
    #[rustfmt::skip]
    let table: [(&str, &[&str], &str); 10] = [
        // case                         rules                                       kinds
        ("no rules",                    &[],                                        ""),
        ("one",                         &["apps v1 deployments"],                   "apps/v1, Kind=Deployment"),
        ("in the singular, loudly",     &["- v1 Secret"],                           "/v1, Kind=Secret"),
        ("in order, each once",         &["apps v1,v1beta1 deployments", "- v1 pods,pods"],
            "/v1, Kind=Pod; apps/v1, Kind=Deployment; apps/v1beta1, Kind=Deployment"),
        ("no group means any",          &["- v1 events"],       "/v1, Kind=Event; events.k8s.io/v1, Kind=Event"),
        ("any group",                   &["-,* v1 pods"],                           ""),
        ("any version",                 &["apps * deployments"],                    ""),
        ("any resource",                &["apps v1 *,deployments"],                 "apps/v1, Kind=Deployment"),
        ("subresources",                &["apps v1 deployments/scale"],             ""),
        ("not served",                  &["apps v2 deployments", "x v1 y"],         ""),
    ];
    for (case, rules, want) in table {
        let spec = named(rules);
        let found: Vec<String> = kinds(&spec, &served()).iter().map(ToString::to_string).collect();
        assert_eq!(found.join("; "), want, "{case}");
        assert!(found.is_empty() || names_any(&spec), "{case}");
    }
}

#[test]
fn at_most_ten_kinds_of_a_rule_are_checked() {
    let resources = (10..30).map(|at| DiscoveredResource {
        resource: ResourceType::new("g", "v1", Box::leak(format!("r{at}").into_boxed_str()), "K", true),
        ..served().resources.swap_remove(0)
    });
    let mut served = Discovery { resources: resources.collect(), failures: vec![] };
    for (at, found) in served.resources.iter_mut().enumerate() {
        found.resource.kind = format!("K{}", at + 10).into();
    }
    let all: Vec<String> = (10..30).map(|at| format!("r{at}")).collect();
    let spec = named(&[&format!("g v1 {}", all.join(",")), "g v1 r29"]);
    let found = kinds(&spec, &served);
    assert_eq!(found.len(), 10);
    assert_eq!(found.last().unwrap().kind, "K19");
}

#[test]
fn parameters_have_a_kind_if_their_version_can_be_read() {
    #[rustfmt::skip]
    let table = [
        ("v1",      "ConfigMap", "/v1, Kind=ConfigMap"),
        ("x.io/v1", "Limit",     "x.io/v1, Kind=Limit"),
        ("a/b/c",   "Limit",     "none"),
        ("",        "",          "none"),
    ];
    for (version, kind, want) in table {
        let params = ParamKind { api_version: version.into(), kind: kind.into() };
        let found = params.kind().map_or("none".to_owned(), |kind| kind.to_string());
        assert_eq!(found, want, "{version}");
    }
}
