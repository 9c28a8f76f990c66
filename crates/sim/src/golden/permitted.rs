//! Whether the requests of controllers in the audit log are those that the table of controllers states and that upstream's
//! roles allow.

use flyball_manager::access::of_account;
use flyball_manager::table::Controller;

use crate::audit::Entry;

/// A read or write that the table does not state for its account, as text. Accounts that are not in the table are ignored, and
/// so are requests for what is no resource (discovery, `/openapi`), which every authenticated user may make.
pub(super) fn unstated(controllers: &'static [Controller], entry: &Entry) -> Option<String> {
    let account = entry.user.strip_prefix("system:serviceaccount:kube-system:")?;
    if entry.resource.is_empty() || !controllers.iter().any(|c| c.identity == Some(account)) {
        return None;
    }
    let Entry { verb, resource, subresource, namespace, .. } = entry;
    let mut rules = of_account(controllers, account);
    let is_stated = rules.any(|rule| rule.allows(verb, resource, subresource, namespace));
    let part = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
    (!is_stated).then(|| {
        format!("{account} did {verb} {resource}{part}, which the table of controllers does not state")
    })
}

/// A request of the controller manager that its roles do not allow, as text.
pub(super) fn forbidden(entry: &Entry) -> Option<String> {
    let Entry { verb, resource, subresource, namespace, name, .. } = entry;
    let actor = entry.actor();
    let part = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
    let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    (entry.is_forbidden && entry.by_manager())
        .then(|| format!("{actor} may not {verb} {resource}{part} {place}{name}: no role allows it (403)"))
}

#[cfg(test)]
mod tests {
    use flyball_manager::table::CONTROLLERS;

    use super::*;

    fn entry(account: &str, verb: &str, resource: &str, subresource: &str) -> Entry {
        let line = serde_json::json!({
            "verb": verb, "stage": "ResponseComplete", "responseStatus": {"code": 200},
            "user": {"username": format!("system:serviceaccount:kube-system:{account}")},
            "objectRef": {"resource": resource, "subresource": subresource, "namespace": "a", "name": "x"},
        });
        Entry::parse(line.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn requests_beyond_the_table_are_named() {
        #[rustfmt::skip]
        let table = [
            (entry("deployment-controller", "create", "replicasets", ""),     None),
            (entry("deployment-controller", "update", "deployments", "status"), None),
            (entry("deployment-controller", "get", "deployments", ""),        None),
            (entry("deployment-controller", "get", "", ""),                   None),
            (entry("deployment-controller", "get", "secrets", ""),
                Some("deployment-controller did get secrets, which the table of controllers does not state")),
            (entry("deployment-controller", "list", "deployments", ""),
                Some("deployment-controller did list deployments, which the table of controllers does not state")),
            (entry("somebody-else", "delete", "nodes", ""),                   None),
            (entry("deployment-controller", "delete", "pods", ""),
                Some("deployment-controller did delete pods, which the table of controllers does not state")),
            (entry("replicaset-controller", "patch", "pods", "status"),
                Some("replicaset-controller did patch pods/status, which the table of controllers does not state")),
        ];
        for (entry, want) in table {
            assert_eq!(unstated(CONTROLLERS, &entry).as_deref(), want);
        }
    }

    #[test]
    fn only_refusals_of_the_authorizer_count() {
        let refused = |user: &str, decision: &str| {
            let line = serde_json::json!({
                "verb": "create", "stage": "ResponseComplete", "responseStatus": {"code": 403},
                "user": {"username": user}, "objectRef": {"resource": "pods", "namespace": "a", "name": "x"},
                "annotations": {"authorization.k8s.io/decision": decision},
            });
            forbidden(&Entry::parse(line.to_string().as_bytes()).unwrap())
        };
        let account = "system:serviceaccount:kube-system:job-controller";
        assert_eq!(
            refused(account, "forbid").as_deref(),
            Some("job-controller may not create pods a/x: no role allows it (403)")
        );
        assert_eq!(refused(account, "allow"), None, "a quota");
        assert_eq!(refused("kubernetes-admin", "forbid"), None);
    }
}
