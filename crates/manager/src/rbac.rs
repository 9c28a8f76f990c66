//! deploy/rbac-controllers.yaml: a role for each account of the table, with exactly what the table states, and one for the
//! informers.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::access::{Rule, of_account};
use crate::table::CONTROLLERS;

const HEAD: &str = "\
# What the manager's informers and each controller's service account need, written from the table in crates/manager/src/table.rs
# (`FLYBALL_BLESS=1 cargo test -p flyball-manager` rewrites it; a test checks it).
#
# A kube-apiserver creates roles for the same accounts by itself (system:kube-controller-manager, system:controller:*), and they
# cover all of this. Apply this file only where they are missing, or read it to see what a controller does.
";

pub fn page() -> String {
    let accounts: BTreeSet<&str> = CONTROLLERS.iter().filter_map(|c| c.identity).collect();
    let mut page = HEAD.to_owned();
    let watches = CONTROLLERS.iter().flat_map(|c| c.watches);
    // Informers of one namespace or name are covered by those of the whole resource.
    let watches = watches.map(|rule| Rule { names: &[], namespace: None, ..*rule });
    role(&mut page, &Who::manager(), None, watches.map(|rule| line(&rule)).collect());
    for account in accounts {
        let rules: Vec<&Rule> = of_account(CONTROLLERS, account).collect();
        let namespaces: BTreeSet<Option<&str>> = rules.iter().map(|rule| rule.namespace).collect();
        for namespace in namespaces {
            let within = rules.iter().filter(|rule| rule.namespace == namespace);
            role(&mut page, &Who::account(account), namespace, within.map(|rule| line(rule)).collect());
        }
    }
    page
}

struct Who<'a> {
    role: String,
    kind: &'static str,
    name: &'a str,
    /// The end of the subject.
    more: &'static str,
}

impl<'a> Who<'a> {
    fn manager() -> Self {
        Self {
            role: "flyball:informers".to_owned(),
            kind: "User",
            name: "system:kube-controller-manager",
            more: ", apiGroup: rbac.authorization.k8s.io",
        }
    }

    fn account(name: &'a str) -> Self {
        let role = format!("flyball:controller:{name}");
        Self { role, kind: "ServiceAccount", name, more: ", namespace: kube-system" }
    }
}

fn role(page: &mut String, who: &Who<'_>, namespace: Option<&str>, rules: BTreeSet<String>) {
    let Who { role, kind, name, more } = who;
    let (cluster, place) = match namespace {
        Some(namespace) => ("", format!(", namespace: {namespace}")),
        None => ("Cluster", String::new()),
    };
    let rules: String = rules.into_iter().collect();
    let _ = write!(
        page,
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {cluster}Role\n\
         metadata: {{name: \"{role}\"{place}}}\nrules:\n{rules}\
         ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {cluster}RoleBinding\n\
         metadata: {{name: \"{role}\"{place}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {cluster}Role, name: \"{role}\"}}\n\
         subjects: [{{kind: {kind}, name: \"{name}\"{more}}}]\n",
    );
}

fn line(rule: &Rule) -> String {
    let names = match rule.names {
        [] => String::new(),
        names => format!(", resourceNames: [\"{}\"]", names.join("\", \"")),
    };
    format!(
        "- {{apiGroups: [\"{}\"], resources: [\"{}\"]{names}, verbs: [{}]}}\n",
        rule.group(),
        rule.plural(),
        rule.verbs.join(", "),
    )
}

#[cfg(test)]
#[path = "rbac_tests.rs"]
mod tests;
