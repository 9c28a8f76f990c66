//! Whether the writes of a controller's account in the audit log are those that the table of controllers states.

use flyball_manager::access::of_account;
use flyball_manager::table::Controller;

use crate::audit::Entry;

/// A write that the table does not state for its account, as text. Accounts that are not in the table are ignored.
pub(super) fn unstated(controllers: &'static [Controller], entry: &Entry) -> Option<String> {
    let account = entry.user.strip_prefix("system:serviceaccount:kube-system:")?;
    if !entry.is_write() || !controllers.iter().any(|c| c.identity == Some(account)) {
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
    fn writes_beyond_the_table_are_named() {
        #[rustfmt::skip]
        let table = [
            (entry("deployment-controller", "create", "replicasets", ""),     None),
            (entry("deployment-controller", "update", "deployments", "status"), None),
            (entry("deployment-controller", "get", "secrets", ""),            None),
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
}
