//! Which accounts a namespace lacks. Pure.

use flyball_api::Namespace;

/// The accounts that every namespace has.
pub const WANTED: [&str; 1] = ["default"];

/// The accounts to create in `namespace`, given which of the wanted ones there are.
pub fn plan(namespace: &Namespace, has: impl Fn(&str) -> bool) -> Vec<&'static str> {
    // Nothing can be created in a namespace that is going away.
    if namespace.status.phase != "Active" {
        return vec![];
    }
    WANTED.into_iter().filter(|name| !has(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_namespaces_get_what_they_lack() {
        #[rustfmt::skip]
        let table = [
            ("Active",      false, vec!["default"]),
            ("Active",      true,  vec![]),
            ("Terminating", false, vec![]),
            ("",            false, vec![]),
        ];
        for (phase, has, want) in table {
            let mut namespace = Namespace::default();
            namespace.status.phase = phase.into();
            assert_eq!(plan(&namespace, |_| has), want, "{phase}, {has}");
        }
    }
}
