use std::{fs, path::Path};

use super::*;
use crate::table::OURS;

/// The roles that a kube-apiserver v1.36.4 creates: a header per role, then a line of verbs, groups, resources and names per
/// rule, some with a feature gate.
const UPSTREAM: &str = include_str!("../../apiserver/src/kinds/bootstrap.txt");

fn covers(columns: &str, rule: &Rule) -> bool {
    let columns =
        columns.split_once('\t').filter(|(first, _)| first.contains('=')).map_or(columns, |(_, rest)| rest);
    let lists: Vec<Vec<&str>> = columns.split('\t').map(|list| list.split(',').collect()).collect();
    let [verbs, groups, resources, names @ ..] = &lists[..] else { return false };
    let (plural, group) = (rule.plural(), if rule.group().is_empty() { "core" } else { rule.group() });
    let has = |list: &[&str], wanted: &str| list.iter().any(|known| *known == "*" || *known == wanted);
    let scale = plural.split_once('/').map(|(_, sub)| format!("*/{sub}"));
    has(groups, group)
        && (has(resources, &plural) || scale.is_some_and(|any| has(resources, &any)))
        && names.iter().flatten().all(|name| rule.names.contains(name))
        && rule.verbs.iter().all(|verb| has(verbs, verb))
}

/// The rules of an upstream role: `clusterrole NAME` or `role NAMESPACE/NAME`.
fn upstream<'a>(head: &'a str) -> impl Iterator<Item = &'static str> + 'a {
    let named = move |line: &&str| line.split(' ').take(2).eq(head.split(' '));
    UPSTREAM.lines().skip_while(move |line| !named(line)).skip(1).map_while(|line| line.strip_prefix('\t'))
}

fn is_granted(account: &str, rule: &Rule) -> bool {
    // Verb by verb, since upstream has them in several rules.
    rule.verbs.iter().all(|verb| {
        let one = Rule { verbs: std::slice::from_ref(verb), ..*rule };
        let cluster = format!("clusterrole system:controller:{account}");
        let within = rule.namespace.map(|namespace| format!("role {namespace}/system:controller:{account}"));
        upstream(&cluster).any(|line| covers(line, &one))
            || within.is_some_and(|head| upstream(&head).any(|line| covers(line, &one)))
    })
}

// A request that is not granted there fails on a real server.
#[test]
fn what_the_table_states_is_granted_by_upstreams_roles() {
    let mut refused = Vec::new();
    for c in CONTROLLERS.iter().filter(|c| !OURS.contains(&c.name)) {
        let Some(account) = c.identity else { continue };
        // Without its gate a server has no such rule.
        let rules = c.reads.iter().chain(c.writes).filter(|rule| rule.gate.is_none());
        refused
            .extend(rules.filter(|rule| !is_granted(account, rule)).map(|rule| format!("{account}: {rule}")));
    }
    refused.sort();
    refused.dedup();
    assert!(
        refused.is_empty(),
        "the table states what upstream's roles do not grant, and a real server would refuse:\n{}",
        refused.join("\n")
    );
}

#[test]
fn the_roles_in_deploy_are_those_that_the_table_writes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/rbac-controllers.yaml");
    if std::env::var_os("FLYBALL_BLESS").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page(),
        "deploy/rbac-controllers.yaml is out of date; FLYBALL_BLESS=1 cargo test -p flyball-manager"
    );
}
