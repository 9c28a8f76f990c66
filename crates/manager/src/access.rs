//! What a controller may do with the API, as data: the table of controllers states it, roles and docs derive from it, and
//! golden runs compare it with the audit log.

/// Verbs on one resource, as in a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// `plural`, `plural/subresource`, `plural.group` or `plural/subresource.group`; `*` stands for any.
    pub resource: &'static str,
    /// `get`, `update`, …
    pub verbs: &'static [&'static str],
    /// The only names; empty for any.
    pub names: &'static [&'static str],
    pub namespace: Option<&'static str>,
    /// Only with this feature gate.
    pub gate: Option<&'static str>,
}

/// The verbs of an informer.
const WATCH: &[&str] = &["list", "watch"];

/// What an event recorder needs.
pub const EVENTS: Rule = rule("events", &["create", "patch", "update"]);

/// These verbs on this resource.
pub const fn rule(resource: &'static str, verbs: &'static [&'static str]) -> Rule {
    Rule { resource, verbs, names: &[], namespace: None, gate: None }
}

/// An informer of this resource.
pub const fn watch(resource: &'static str) -> Rule {
    rule(resource, WATCH)
}

impl Rule {
    /// Only for objects of these names.
    pub const fn named(self, names: &'static [&'static str]) -> Self {
        Self { names, ..self }
    }

    pub const fn within(self, namespace: &'static str) -> Self {
        Self { namespace: Some(namespace), ..self }
    }

    /// Only with this feature gate.
    pub const fn behind(self, gate: &'static str) -> Self {
        Self { gate: Some(gate), ..self }
    }

    /// Whether this is the access of an informer.
    pub fn is_informer(&self) -> bool {
        self.verbs == WATCH
    }

    /// The plural name with its subresource, as in a role.
    pub fn plural(&self) -> String {
        match self.split() {
            (plural, Some(subresource), _) => format!("{plural}/{subresource}"),
            (plural, None, _) => plural.to_owned(),
        }
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &'static str {
        match self.split() {
            // `*` and `*/scale` are for every group.
            ("*", _, "") => "*",
            (_, _, group) => group,
        }
    }

    /// Whether it covers this request.
    pub fn allows(&self, verb: &str, plural: &str, subresource: &str, namespace: &str) -> bool {
        let (known, sub, _) = self.split();
        let covers_part = match sub {
            Some(sub) => sub == subresource,
            None => known == "*" || subresource.is_empty(),
        };
        (known == "*" || known == plural)
            && covers_part
            && self.verbs.contains(&verb)
            && self.namespace.is_none_or(|only| only == namespace)
    }

    fn split(&self) -> (&'static str, Option<&'static str>, &'static str) {
        let (path, group) = self.resource.split_once('.').unwrap_or((self.resource, ""));
        match path.split_once('/') {
            Some((plural, subresource)) => (plural, Some(subresource), group),
            None => (path, None, group),
        }
    }
}

/// As in docs/parity.md: `configmaps[cluster-info] in kube-public(update)`; an informer needs no verbs.
impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.resource)?;
        if !self.names.is_empty() {
            write!(f, "[{}]", self.names.join(", "))?;
        }
        if let Some(namespace) = self.namespace {
            write!(f, " in {namespace}")?;
        }
        if !self.is_informer() {
            write!(f, "({})", self.verbs.join(","))?;
        }
        match self.gate {
            Some(gate) => write!(f, " with {gate}"),
            None => Ok(()),
        }
    }
}

/// What the controllers of a table do under one account. Informers use the manager's own credentials.
pub fn of_account<'a>(
    controllers: &'a [crate::table::Controller],
    account: &'a str,
) -> impl Iterator<Item = &'a Rule> {
    let with_account = move |c: &&crate::table::Controller| c.identity == Some(account);
    controllers.iter().filter(with_account).flat_map(|c| c.reads.iter().chain(c.writes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_covers_what_it_names() {
        #[rustfmt::skip]
        let table = [
            // rule                                                   request                                        covered
            (rule("pods", &["delete"]),                               ("delete", "pods", "", "a"),                   true),
            (rule("pods", &["delete"]),                               ("delete", "pods", "status", "a"),             false),
            (rule("pods", &["delete"]),                               ("create", "pods", "", "a"),                   false),
            (rule("deployments/status.apps", &["update"]),            ("update", "deployments", "status", "a"),      true),
            (rule("deployments/status.apps", &["update"]),            ("update", "deployments", "", "a"),            false),
            (rule("*", &["delete"]),                                  ("delete", "widgets", "", "a"),                true),
            (rule("*/scale", &["update"]),                            ("update", "widgets", "scale", "a"),           true),
            (rule("*/scale", &["update"]),                            ("update", "widgets", "", "a"),                false),
            (rule("secrets", &["delete"]).within("kube-system"),      ("delete", "secrets", "", "default"),          false),
        ];
        for (rule, (verb, plural, subresource, namespace), want) in table {
            assert_eq!(
                rule.allows(verb, plural, subresource, namespace),
                want,
                "{rule}: {verb} {plural}/{subresource}"
            );
        }
    }

    #[test]
    fn groups_and_subresources_are_distinguished() {
        let rule = rule("deployments/status.apps", &["update"]);
        assert_eq!((rule.plural().as_str(), rule.group()), ("deployments/status", "apps"));
        assert_eq!((watch("*.*").plural().as_str(), watch("*.*").group()), ("*", "*"));
        assert_eq!(EVENTS.group(), "");
    }
}
