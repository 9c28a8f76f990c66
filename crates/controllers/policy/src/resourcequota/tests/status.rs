use super::world::{ALL, list, now, quota, shown};
use crate::resourcequota::invariants::{check, written};
use crate::resourcequota::plan::{View, plan};
use crate::resourcequota::usage::{Objects, Source, Sources, Usage};

#[test]
fn the_status_is_written_when_it_changes() {
    #[rustfmt::skip]
    let table = [
        // case                              limits            status: limits    used            measured          new used
        ("first seen",                       "pods=5",         "",               "",             "pods=0",         Some("pods=0")),
        ("up to date",                       "pods=5",         "pods=5",         "pods=1",       "pods=1",         None),
        ("written in another way",           "memory=1Gi",     "memory=1024Mi",  "memory=0",     "memory=0",       None),
        ("used more",                        "pods=5",         "pods=5",         "pods=1",       "pods=2",         Some("pods=2")),
        ("another limit",                    "pods=6",         "pods=5",         "pods=1",       "pods=1",         Some("pods=1")),
        ("a limit less",                     "pods=5",         "pods=5 cpu=1",   "pods=1 cpu=1", "pods=1",         Some("pods=1")),
        ("not measured: stays",              "pods=5 cpu=1",   "pods=5 cpu=1",   "pods=1 cpu=1", "pods=2",         Some("cpu=1 pods=2")),
        ("never measured: not shown",        "count/x.y=5",    "",               "",             "",               Some("")),
        ("never measured, limits shown",     "count/x.y=5",    "count/x.y=5",    "",             "",               None),
        ("no limits at all",                 "",               "",               "",             "",               None),
    ];
    for (case, hard, status_hard, used, measured, want) in table {
        let quota = quota(hard, status_hard, used);
        let usage = Usage { used: list(measured), unknown: vec![] };
        let view = View { quota: &quota, usage: &usage };
        let plan = plan(&view);
        check(&view, &plan).unwrap();
        let got = written(&plan);
        assert_eq!(got.as_ref().map(|status| shown(&status.used)).as_deref(), want, "{case}");
        assert!(got.is_none_or(|status| status.hard.same_amounts(&quota.spec.hard)), "{case}");
    }
}

#[test]
fn the_plan_names_what_changes_and_what_is_unknown() {
    let quota = quota("pods=5 cpu=1", "pods=5 cpu=1", "pods=1 cpu=1");
    let fewer = super::world::quota("pods=5", "pods=5 cpu=1", "pods=1 cpu=1");
    let status = |why: &str| format!("update ResourceQuota/status n/q: {why}");
    let fail = "fail: widgets.example.com cannot be listed yet";
    #[rustfmt::skip]
    let table = [
        // case                  quota    measured          unknown                          plan
        ("usage",                &quota,  "pods=2",         None,                            status("usage or limits changed: pods")),
        ("nothing",              &quota,  "pods=1 cpu=1",   None,                            String::new()),
        ("a limit is removed",   &fewer,  "pods=1",         None,                            status("fewer resources are limited than before")),
        ("some are not known",   &quota,  "pods=2",         Some("widgets.example.com"),     format!("{fail}\n{}", status("usage or limits changed: pods"))),
        ("none is known",        &quota,  "",               Some("widgets.example.com"),     fail.to_owned()),
    ];
    for (case, quota, measured, unknown, want) in table {
        let unknown = unknown.and_then(|name| name.split_once('.'));
        let unknown = unknown.map(|(plural, group)| (group.into(), plural.into())).into_iter().collect();
        let usage = Usage { used: list(measured), unknown };
        assert_eq!(plan(&View { quota, usage: &usage }).to_string(), want, "{case}");
    }
}

fn counted(count: usize, filled: bool) -> Source {
    Source::new(&("".into(), "configmaps".into()), Objects::Others(Box::new(move |_| count)), move || filled)
}

#[test]
fn a_resource_that_cannot_be_listed_does_not_affect_others() {
    let mut sources = Sources::default();
    let secrets = ("".into(), "secrets".into());
    sources.put(("".into(), "configmaps".into()), counted(3, false));
    sources
        .put(secrets, Source::new(&("".into(), "secrets".into()), Objects::Others(Box::new(|_| 2)), || true));
    let usage = sources.usage(&quota("configmaps=9 secrets=9 count/secrets=9", "", ""), ALL, now());
    assert_eq!(shown(&usage.used), "count/secrets=2 secrets=2");
    assert_eq!(usage.unknown, [("".into(), "configmaps".into())]);
    sources.put(("".into(), "configmaps".into()), counted(3, true));
    let usage = sources.usage(&quota("configmaps=9", "", ""), ALL, now());
    assert_eq!((shown(&usage.used).as_str(), usage.unknown.len()), ("configmaps=3", 0));
}

#[test]
fn a_resource_that_is_no_longer_served_counts_as_zero() {
    let mut sources = Sources::default();
    let id = ("example.com".into(), "widgets".into());
    let hard = "count/widgets.example.com=9";
    assert!(sources.usage(&quota(hard, "", ""), ALL, now()).used.is_empty());
    sources.put(id.clone(), Source::new(&id, Objects::Others(Box::new(|_| 4)), || true));
    assert_eq!(shown(&sources.usage(&quota(hard, "", ""), ALL, now()).used), "count/widgets.example.com=4");
    sources.retire(&id);
    assert_eq!(shown(&sources.usage(&quota(hard, "", ""), ALL, now()).used), "count/widgets.example.com=0");
    assert!(sources.concerns(&id, &list(hard)) && !sources.concerns(&id, &list("pods=1")));
}

#[test]
fn objects_of_other_kinds_are_in_no_scope() {
    let mut scoped = flyball_api::ResourceQuota::clone(&quota("configmaps=9", "", ""));
    scoped.spec.scopes = vec!["Terminating".into()];
    let mut sources = Sources::default();
    sources.put(("".into(), "configmaps".into()), counted(3, true));
    assert_eq!(shown(&sources.usage(&scoped, ALL, now()).used), "configmaps=0");
}
