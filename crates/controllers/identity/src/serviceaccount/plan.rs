//! Which accounts a namespace lacks. Pure.

use flyball_api::{Key, Namespace, ServiceAccount};
use flyball_runtime::{ErrorKinds, Plan, Write};
use serde_json::json;

/// The accounts that every namespace has.
pub const WANTED: [&str; 1] = ["default"];

/// Creates the wanted accounts that `namespace` does not have.
pub fn plan(namespace: &Namespace, has: impl Fn(&Key) -> bool) -> Plan {
    // Nothing can be created in a namespace that is being deleted.
    if namespace.status.phase != "Active" {
        return Plan::default();
    }
    let keys = WANTED.into_iter().map(|name| Key::new(namespace.metadata.name.as_str(), name));
    Plan::of(keys.filter(|key| !has(key)).map(create))
}

fn create(key: Key) -> Write {
    let body = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": key.name, "namespace": key.namespace},
    });
    Write::create::<ServiceAccount>(key, body)
        .why("every namespace has this account")
        .ignore(ErrorKinds::ALREADY_EXISTS | ErrorKinds::NAMESPACE_TERMINATING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_namespaces_get_the_accounts_that_they_lack() {
        #[rustfmt::skip]
        let table = [
            ("Active",      false, "create ServiceAccount ns/default: every namespace has this account"),
            ("Active",      true,  ""),
            ("Terminating", false, ""),
            ("",            false, ""),
        ];
        for (phase, has, want) in table {
            let mut namespace = Namespace::default();
            namespace.metadata.name = "ns".into();
            namespace.status.phase = phase.into();
            assert_eq!(plan(&namespace, |_| has).to_string(), want, "{phase}, {has}");
        }
    }
}
