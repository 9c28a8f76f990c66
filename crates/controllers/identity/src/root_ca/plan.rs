//! Whether the bundle has to be published, or published anew. Pure.

use flyball_api::{ConfigMap, Labels};
use flyball_client::Error;
use flyball_common::pods::is_namespace_going;
use serde_json::{Value, json};

/// The name of the ConfigMap in every namespace.
pub const CONFIG_MAP: &str = "kube-root-ca.crt";
/// The annotation that tells people what it is.
pub const DESCRIPTION: &str = "kubernetes.io/description";
const TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as \
    the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";
const ENTRY: &str = "ca.crt";

/// What to do about a namespace.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// There is none: make it.
    Create(Value),
    /// It says something else: replace its text.
    Update(Box<ConfigMap>),
}

/// What to do, given what is published.
pub fn plan(bundle: &str, published: Option<&ConfigMap>) -> Option<Action> {
    let Some(published) = published else {
        return Some(Action::Create(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "annotations": {DESCRIPTION: TEXT}},
            "data": {ENTRY: bundle},
        })));
    };
    let right = published.data.len() == 1 && published.data.get(ENTRY) == Some(bundle);
    let described = published.metadata.annotations.get(DESCRIPTION).is_some_and(|text| !text.is_empty());
    if right && described {
        return None;
    }
    let mut right = published.clone();
    right.metadata.annotations = right.metadata.annotations.with(DESCRIPTION, TEXT);
    right.data = Labels::from_iter([(ENTRY, bundle)]);
    Some(Action::Update(Box::new(right)))
}

/// Whether a bundle that could not be published need not be: its namespace is gone or going. One that is there already is
/// not of that kind, as somebody else may have made it, of another CA: it has to be looked at once the cache shows it.
pub fn is_needless(error: &Error) -> bool {
    error.is_not_found() || is_namespace_going(error)
}

#[cfg(test)]
mod tests {
    use flyball_client::{ApiStatus, StatusCause, StatusDetails};

    use super::*;

    #[test]
    fn a_bundle_that_is_there_already_is_looked_at_again() {
        #[rustfmt::skip]
        let table = [
            // code  reason            cause                    needless
            (404,    "NotFound",       "",                      true),
            (403,    "Forbidden",      "NamespaceTerminating",  true),
            (403,    "Forbidden",      "",                      false),
            (409,    "AlreadyExists",  "",                      false),
            (500,    "InternalError",  "",                      false),
        ];
        for (code, reason, cause, want) in table {
            let cause = StatusCause { reason: cause.into(), ..StatusCause::default() };
            let details = StatusDetails { causes: vec![cause], ..StatusDetails::default() };
            let status = ApiStatus { code, reason: reason.into(), details, ..ApiStatus::default() };
            assert_eq!(is_needless(&Error::Status(Box::new(status))), want, "{code} {reason}");
        }
    }

    #[test]
    fn publishes_exactly_the_bundle_with_a_description() {
        let map = |data: Value, annotations: Value| {
            let object = json!({"metadata": {"name": CONFIG_MAP, "annotations": annotations, "labels": {"theirs": "x"}}, "data": data, "binaryData": {"theirs": "eA=="}});
            serde_json::from_value::<ConfigMap>(object).unwrap()
        };
        let described = || json!({DESCRIPTION: "anything"});
        #[rustfmt::skip]
        let table = [
            // case                     published                                                     action
            ("missing",                 None,                                                          "create"),
            ("right",                   Some(map(json!({"ca.crt": "CA"}), described())),               ""),
            ("another bundle",          Some(map(json!({"ca.crt": "old"}), described())),              "update"),
            ("something beside it",     Some(map(json!({"ca.crt": "CA", "x": "y"}), described())),     "update"),
            ("not described",           Some(map(json!({"ca.crt": "CA"}), json!({}))),                 "update"),
        ];
        for (case, published, want) in table {
            let got = match plan("CA", published.as_ref()) {
                None => "",
                Some(Action::Create(body)) if body["data"]["ca.crt"] == "CA" => "create",
                Some(Action::Update(map))
                    if map.metadata.labels.get("theirs") == Some("x") && map.binary_data.len() == 1 =>
                {
                    "update"
                }
                Some(other) => panic!("{case}: {other:?}"),
            };
            assert_eq!(got, want, "{case}");
        }
    }
}
