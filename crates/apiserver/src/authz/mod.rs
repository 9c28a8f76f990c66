//! RBAC over the stored roles and bindings, compiled when they change; for kubelets, the Node authorizer before it.

pub(crate) mod node;
pub(crate) mod references;

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde_json::Value;
use smol_str::SmolStr;

use crate::error::{ApiError, Named};
use crate::http::path::RequestInfo;
use crate::options::Authorization;
use crate::registry::User;
use crate::server::Inner;
use crate::store::ShelfId;

const RBAC: &str = "rbac.authorization.k8s.io";

/// One action to be authorized.
#[derive(Debug, Clone, Default)]
pub struct Attributes<'a> {
    pub verb: &'a str,
    /// Empty for cluster scope.
    pub namespace: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub name: &'a str,
    /// The path of a request that is not about a resource.
    pub path: Option<&'a str>,
    /// Fields that the request selects by, with the values that they must have.
    pub selected: &'a [(String, String)],
}

#[derive(Debug, Clone)]
struct Rule {
    verbs: Vec<SmolStr>,
    groups: Vec<SmolStr>,
    resources: Vec<SmolStr>,
    names: Vec<SmolStr>,
    urls: Vec<SmolStr>,
}

impl Rule {
    fn read(rule: &Value) -> Self {
        let list = |field: &str| {
            rule[field]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(SmolStr::from)
                .collect()
        };
        Self {
            verbs: list("verbs"),
            groups: list("apiGroups"),
            resources: list("resources"),
            names: list("resourceNames"),
            urls: list("nonResourceURLs"),
        }
    }

    fn allows(&self, wanted: &Attributes<'_>) -> bool {
        if !self.verbs.iter().any(|verb| verb == "*" || verb == wanted.verb) {
            return false;
        }
        if let Some(path) = wanted.path {
            return self.urls.iter().any(|url| match url.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => url == path,
            });
        }
        let resource = |allowed: &SmolStr| match (allowed.split_once('/'), wanted.subresource) {
            _ if allowed == "*" => true,
            (None, "") => allowed == wanted.resource,
            (Some((main, sub)), wanted_sub) => {
                (main == "*" || main == wanted.resource) && sub == wanted_sub && !wanted_sub.is_empty()
            }
            (None, _) => false,
        };
        self.groups.iter().any(|group| group == "*" || group == wanted.group)
            && self.resources.iter().any(resource)
            && (self.names.is_empty() || self.names.iter().any(|name| name == wanted.name))
    }
}

/// Rules by subject (`u:name`, `g:name`, `s:namespace:name`), with the namespace in which they apply; empty for all.
type Grants = FxHashMap<String, Vec<(SmolStr, Arc<Vec<Rule>>)>>;

/// Decides which user may do what.
pub struct Authorizer {
    mode: Authorization,
    grants: Mutex<Option<Arc<Grants>>>,
    /// What nodes may do that is not subject to restrictions.
    of_nodes: OnceLock<Vec<Rule>>,
}

impl Authorizer {
    pub fn new(mode: Authorization) -> Self {
        Self { mode, grants: Mutex::new(None), of_nodes: OnceLock::new() }
    }

    /// To be called after a change of roles or bindings: the rules are compiled again.
    pub fn forget(&self) {
        *self.grants.lock() = None;
    }

    fn grants(&self, server: &Inner) -> Arc<Grants> {
        // Held while compiling: a concurrent change must not be lost.
        let mut grants = self.grants.lock();
        Arc::clone(grants.get_or_insert_with(|| Arc::new(compile(server))))
    }

    /// Whether a user may perform an action.
    pub fn allows(&self, server: &Inner, user: &User, wanted: &Attributes<'_>) -> bool {
        self.decide(server, user, wanted).is_ok()
    }

    /// Whether a user may perform an action; if not, the reason, which may be empty.
    pub fn decide(&self, server: &Inner, user: &User, wanted: &Attributes<'_>) -> Result<(), String> {
        if self.mode == Authorization::AlwaysAllow
            || user.groups.iter().any(|group| group == "system:masters")
        {
            return Ok(());
        }
        let mut why = String::new();
        if let Some(node) = self.node(user) {
            let rules = self.of_nodes.get_or_init(|| node::rules(server));
            match node::decide(server, node, rules, user, wanted) {
                Ok(()) => return Ok(()),
                Err(reason) => why = reason,
            }
        }
        if self.is_granted(server, user, wanted) { Ok(()) } else { Err(why) }
    }

    /// The node that a user is, if nodes are authorized as such.
    pub(crate) fn node<'a>(&self, user: &'a User) -> Option<&'a str> {
        node::identity(user).filter(|_| self.mode == Authorization::NodeAndRbac)
    }

    fn is_granted(&self, server: &Inner, user: &User, wanted: &Attributes<'_>) -> bool {
        let grants = self.grants(server);
        let account = user.name.strip_prefix("system:serviceaccount:").map(|rest| format!("s:{rest}"));
        let groups = user.groups.iter().map(|group| format!("g:{group}"));
        let subjects = std::iter::once(format!("u:{}", user.name)).chain(account).chain(groups);
        subjects.filter_map(|subject| grants.get(&subject)).flatten().any(|(namespace, rules)| {
            (namespace.is_empty() || namespace == wanted.namespace)
                && rules.iter().any(|rule| rule.allows(wanted))
        })
    }

    /// Refuses a request that its user may not make.
    pub fn check(&self, server: &Inner, user: &User, info: &RequestInfo) -> Result<(), ApiError> {
        let wanted = attributes(info);
        let Err(reason) = self.decide(server, user, &wanted) else { return Ok(()) };
        let mut why = refusal(user, &wanted);
        if !reason.is_empty() {
            why = format!("{why}: {reason}");
        }
        let named = match info.is_resource {
            true => Named { group: &info.group, what: &info.resource, name: wanted.name },
            false => Named { group: "", what: "", name: "" },
        };
        let mut error = ApiError::forbidden(named, &why);
        if !info.is_resource {
            error.details = Some(serde_json::json!({}));
        }
        Err(error)
    }
}

pub(crate) fn attributes(info: &RequestInfo) -> Attributes<'_> {
    Attributes {
        verb: info.verb,
        namespace: info.namespace.as_deref().unwrap_or_default(),
        group: &info.group,
        resource: &info.resource,
        subresource: &info.subresource,
        name: info.name.as_deref().or_else(|| selected_name(info)).unwrap_or_default(),
        path: (!info.is_resource).then_some(info.path.as_str()),
        selected: &info.selected,
    }
}

/// The name of the only object that a list, a watch or a deletion of a collection selects.
fn selected_name(info: &RequestInfo) -> Option<&str> {
    let is_many = matches!(info.verb, "list" | "watch" | "deletecollection");
    let named = info.selected.iter().find(|(field, _)| field == "metadata.name");
    named.filter(|_| is_many).map(|(_, name)| name.as_str())
}

fn refusal(user: &User, wanted: &Attributes<'_>) -> String {
    let name = &user.name;
    if let Some(path) = wanted.path {
        return format!("User {name:?} cannot {} path {path:?}", wanted.verb);
    }
    let resource = match wanted.subresource {
        "" => wanted.resource.to_owned(),
        sub => format!("{}/{sub}", wanted.resource),
    };
    let scope = match wanted.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    format!(
        "User {name:?} cannot {} resource {resource:?} in API group {:?} {scope}",
        wanted.verb, wanted.group
    )
}

fn compile(server: &Inner) -> Grants {
    let all = |plural: &str| server.store.all(&ShelfId::new(RBAC, plural), None);
    let rules = |object: &Value| {
        Arc::new(object["rules"].as_array().into_iter().flatten().map(Rule::read).collect::<Vec<_>>())
    };
    let mut roles: FxHashMap<(SmolStr, SmolStr), Arc<Vec<Rule>>> = FxHashMap::default();
    for entry in all("clusterroles").iter().chain(&all("roles")) {
        roles.insert((entry.key.namespace.clone(), entry.key.name.clone()), rules(&entry.value()));
    }
    let mut grants = Grants::default();
    for entry in all("clusterrolebindings").iter().chain(&all("rolebindings")) {
        let binding = entry.value();
        let namespace = &entry.key.namespace;
        let role = binding["roleRef"]["name"].as_str().unwrap_or_default();
        let of = if binding["roleRef"]["kind"] == "Role" { namespace.clone() } else { SmolStr::default() };
        let Some(rules) = roles.get(&(of, role.into())) else { continue };
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let name = subject["name"].as_str().unwrap_or_default();
            let key = match subject["kind"].as_str() {
                Some("User") => format!("u:{name}"),
                Some("Group") => format!("g:{name}"),
                Some("ServiceAccount") => {
                    let home = subject["namespace"].as_str().unwrap_or(namespace);
                    format!("s:{home}:{name}")
                }
                _ => continue,
            };
            grants.entry(key).or_default().push((namespace.clone(), Arc::clone(rules)));
        }
    }
    grants
}

impl Rule {
    fn to_json(&self) -> Value {
        let mut out = serde_json::Map::new();
        let fields = [
            ("verbs", &self.verbs),
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ];
        for (name, list) in fields.iter().filter(|(_, list)| !list.is_empty()) {
            out.insert((*name).to_owned(), serde_json::json!(list));
        }
        Value::Object(out)
    }
}

impl Authorizer {
    /// The rules that apply to a user in a namespace: those for resources, and those for other paths.
    pub fn rules_of(&self, server: &Inner, user: &User, namespace: &str) -> (Vec<Value>, Vec<Value>) {
        let all = |field: &str| serde_json::json!({"verbs": ["*"], "apiGroups": ["*"], field: ["*"]});
        if self.mode == Authorization::AlwaysAllow
            || user.groups.iter().any(|group| group == "system:masters")
        {
            return (
                vec![all("resources")],
                vec![serde_json::json!({"verbs": ["*"], "nonResourceURLs": ["*"]})],
            );
        }
        let grants = self.grants(server);
        let account = user.name.strip_prefix("system:serviceaccount:").map(|rest| format!("s:{rest}"));
        let groups = user.groups.iter().map(|group| format!("g:{group}"));
        let subjects = std::iter::once(format!("u:{}", user.name)).chain(account).chain(groups);
        let (mut resources, mut urls) = (Vec::new(), Vec::new());
        for (home, rules) in subjects.filter_map(|subject| grants.get(&subject)).flatten() {
            if !home.is_empty() && home != namespace {
                continue;
            }
            for rule in rules.iter() {
                if rule.urls.is_empty() { resources.push(rule.to_json()) } else { urls.push(rule.to_json()) }
            }
        }
        (resources, urls)
    }
}
