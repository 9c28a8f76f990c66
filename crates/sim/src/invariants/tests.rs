//! Every controller has a rule, and every rule can be broken: the files in `counterexamples/` hold one write for each rule that
//! breaks it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flyball_apiserver::store::{Facets, Key, ShelfId, Write as Put};
use flyball_apiserver::{ApiServer, Options};
use flyball_cloud::CLOUD_CONTROLLER_MANAGER;
use flyball_manager::table::CONTROLLERS;
use serde::Deserialize;
use serde_json::{Value, json};

use super::checker::account;
use super::{RuleChecker, Write, everyone, rules};

#[test]
fn every_controller_of_the_tables_has_a_rule() {
    let all: BTreeSet<&str> =
        CONTROLLERS.iter().chain(CLOUD_CONTROLLER_MANAGER.controllers).map(|known| known.name).collect();
    let ruled: BTreeSet<&str> = rules().map(|rule| rule.controller).collect();
    assert_eq!(ruled, all);
}

/// A write that breaks a rule. The default name is `a`, the default namespace `n`, and the uid is the name; `owner: x` is
/// short for a controller reference.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Planted {
    breaks: String,
    by: String,
    /// Objects by `group/plural`.
    #[serde(default)]
    there: BTreeMap<String, Vec<Value>>,
    /// The uids of the objects that the controller has created.
    #[serde(default)]
    made: Vec<String>,
    /// `verb group/plural`, or `verb group/plural/subresource`.
    write: String,
    #[serde(default)]
    before: Option<Value>,
    #[serde(default)]
    after: Option<Value>,
    #[serde(default)]
    body: Option<Value>,
    #[serde(default)]
    is_by_former_leader: bool,
}

fn object(mut short: Value) -> Value {
    let name = short["metadata"]["name"].as_str().unwrap_or("a").to_owned();
    let defaults = [("name", name.clone()), ("uid", name), ("namespace", "n".to_owned())];
    if !short["metadata"].is_object() {
        short["metadata"] = json!({});
    }
    let owner = short.as_object_mut().unwrap().remove("owner");
    let metadata = short["metadata"].as_object_mut().unwrap();
    for (field, value) in defaults {
        metadata.entry(field).or_insert(value.into());
    }
    if let Some(owner) = owner {
        metadata.insert("ownerReferences".into(), json!([{"controller": true, "name": owner, "uid": owner}]));
    }
    short
}

fn put(server: &ApiServer, shelf: &ShelfId, object: &Value) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let key = Key::new(text("namespace"), text("name"));
    let present = server.store().get(shelf, &key).map(|entry| entry.version);
    server.store().commit(shelf, &key, present, Put::Put(object.clone(), Facets::default())).unwrap();
}

impl Planted {
    /// The rules that the write breaks.
    fn broken(&self) -> Vec<&'static str> {
        let server = ApiServer::new(Options::default()).unwrap();
        let checker = RuleChecker::new(server.clone());
        let shelf = |place: &str| {
            let (group, plural) = place.split_once('/').unwrap();
            ShelfId::new(group, plural)
        };
        for (place, objects) in &self.there {
            objects.iter().for_each(|short| put(&server, &shelf(place), &object(short.clone())));
        }
        let account = account(&self.by);
        for uid in &self.made {
            let after = Arc::new(json!({"metadata": {"uid": uid}}));
            checker.state().note(&Write {
                account: account.into(),
                verb: "create",
                after,
                ..Write::default()
            });
        }
        let (verb, place) = self.write.split_once(' ').unwrap();
        let verbs = ["create", "update", "patch", "delete"];
        let mut parts = place.split('/');
        let (group, plural) = (parts.next().unwrap(), parts.next().unwrap());
        let [before, after] = [&self.before, &self.after].map(|short| short.clone().map(object));
        for state in [&before, &after].into_iter().flatten() {
            put(&server, &ShelfId::new(group, plural), state);
        }
        let known = before.as_ref().or(after.as_ref()).unwrap().clone();
        let named = || {
            let preconditions = json!({"uid": known["metadata"]["uid"]});
            json!({"metadata": {"resourceVersion": "1"}, "preconditions": preconditions})
        };
        let text = |field: &str| known["metadata"][field].as_str().unwrap_or_default().to_owned();
        checker.judge(&Write {
            account: account.to_owned(),
            verb: verbs.into_iter().find(|known| *known == verb).unwrap(),
            group: group.to_owned(),
            resource: plural.to_owned(),
            subresource: parts.next().unwrap_or_default().to_owned(),
            namespace: text("namespace"),
            name: text("name"),
            body: self.body.clone().unwrap_or_else(named),
            before: Arc::new(before.unwrap_or_default()),
            after: Arc::new(after.unwrap_or_default()),
            is_by_former_leader: self.is_by_former_leader,
        });
        let broken = checker.findings().violations;
        let own = |rule: &str| everyone::RULES.iter().any(|common| common.says == rule);
        broken.iter().filter(|it| it.controller == self.by || own(it.rule)).map(|it| it.rule).collect()
    }
}

fn read(file: &str) -> Vec<Planted> {
    serde_yaml::from_str(file).unwrap()
}

/// Every rule of a family is broken by what is example for it.
fn breaks_all(file: &str, family: &[super::Rule]) {
    let mut open: BTreeSet<(&str, &str)> = family.iter().map(|rule| (rule.controller, rule.says)).collect();
    for example in read(file) {
        let found = example.broken();
        assert!(
            found.contains(&example.breaks.as_str()),
            "{}: broke {found:?}, not {}",
            example.by,
            example.breaks
        );
        open.retain(|(controller, says)| {
            *says != example.breaks || !controller.is_empty() && *controller != example.by
        });
    }
    assert!(open.is_empty(), "nothing breaks {open:?}");
}

macro_rules! families {
    ($($family:ident),*) => { $(
        #[test]
        fn $family() {
            breaks_all(include_str!(concat!("counterexamples/", stringify!($family), ".yaml")), super::super::$family::RULES);
        }
    )* };
}

mod every_rule_can_be_broken {
    use super::breaks_all;

    families!(apps, batch, cloud, everyone, identity, lifecycle, network, node, policy, resource, storage);
}

#[test]
fn a_write_that_changes_nothing_breaks_no_rule() {
    let write =
        "{breaks: '', by: resourcequota-controller, write: update /resourcequotas, before: {}, after: {}}";
    assert_eq!(serde_yaml::from_str::<Planted>(write).unwrap().broken(), Vec::<&str>::new());
}

#[test]
fn at_rest_numbers_must_be_those_of_what_exists() {
    let server = ApiServer::new(Options::default()).unwrap();
    let checker = RuleChecker::new(server.clone());
    let broken_with = |quota: u64, budget: u64| {
        let hard = json!({"pods": "9"});
        let quota = json!({"spec": {"hard": hard}, "status": {"used": {"pods": quota.to_string()}}});
        put(&server, &ShelfId::new("", "resourcequotas"), &object(quota));
        let spec = json!({"selector": {"matchLabels": {"app": "x"}}});
        let budget = json!({"spec": spec, "status": {"currentHealthy": budget}});
        put(&server, &ShelfId::new("policy", "poddisruptionbudgets"), &object(budget));
        let all = ["resourcequota-controller", "disruption-controller"].map(str::to_owned);
        let broken = super::rest::broken(checker.state(), &all);
        broken.iter().map(|broken| broken.controller).collect::<Vec<_>>()
    };
    let status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let pod = json!({"metadata": {"labels": {"app": "x"}}, "status": status});
    put(&server, &ShelfId::new("", "pods"), &object(pod));
    assert_eq!(broken_with(1, 1), Vec::<&str>::new());
    assert_eq!(broken_with(2, 1), ["resourcequota-controller"]);
    assert_eq!(broken_with(1, 0), ["disruption-controller"]);
}
