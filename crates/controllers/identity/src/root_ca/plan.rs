//! Whether the CA bundle of a namespace has to be created or corrected. Pure.

use flyball_api::{ConfigMap, Key, Labels};
use flyball_runtime::{ErrorKinds, Plan, Write};
use serde_json::json;

/// The name of the ConfigMap in every namespace.
pub const CONFIG_MAP: &str = "kube-root-ca.crt";
pub const DESCRIPTION: &str = "kubernetes.io/description";
const TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as \
    the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";
const ENTRY: &str = "ca.crt";

/// What the decision depends on.
#[derive(Debug)]
pub struct View<'a> {
    pub namespace: &'a str,
    /// The certificates to publish, in PEM form.
    pub bundle: &'a str,
    /// The ConfigMap that the namespace has.
    pub published: Option<&'a ConfigMap>,
}

pub fn plan(view: &View<'_>) -> Plan {
    Plan::of(match view.published {
        None => Some(create(view)),
        Some(published) => correct(published, view.bundle),
    })
}

fn create(view: &View<'_>) -> Write {
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "annotations": {DESCRIPTION: TEXT}},
        "data": {ENTRY: view.bundle},
    });
    // A ConfigMap that exists already is not accepted: it may hold another CA. The retry sees it in the cache.
    Write::create::<ConfigMap>(Key::new(view.namespace, CONFIG_MAP), body)
        .why("every namespace has the root CA")
        .ignore(ErrorKinds::NOT_FOUND | ErrorKinds::NAMESPACE_TERMINATING)
}

/// Replaces what the ConfigMap holds; `None` if it is right.
fn correct(published: &ConfigMap, bundle: &str) -> Option<Write> {
    let is_right = published.data.len() == 1 && published.data.get(ENTRY) == Some(bundle);
    let is_described = published.metadata.annotations.get(DESCRIPTION).is_some_and(|text| !text.is_empty());
    if is_right && is_described {
        return None;
    }
    let mut right = published.clone();
    right.metadata.annotations = right.metadata.annotations.with(DESCRIPTION, TEXT);
    right.data = Labels::from_iter([(ENTRY, bundle)]);
    Some(Write::replace(&right).why("it must hold exactly the root CA"))
}

#[cfg(test)]
mod tests {
    use flyball_client::{ApiStatus, Error, StatusCause, StatusDetails};
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_creation_that_finds_a_config_map_is_retried() {
        #[rustfmt::skip]
        let table = [
            // code  reason            cause                    accepted
            (404,    "NotFound",       "",                      true),
            (403,    "Forbidden",      "NamespaceTerminating",  true),
            (403,    "Forbidden",      "",                      false),
            (409,    "AlreadyExists",  "",                      false),
            (500,    "InternalError",  "",                      false),
        ];
        let plan = plan(&View { namespace: "ns", bundle: "CA", published: None });
        for (code, reason, cause, want) in table {
            let cause = StatusCause { reason: cause.into(), ..StatusCause::default() };
            let details = StatusDetails { causes: vec![cause], ..StatusDetails::default() };
            let status = ApiStatus { code, reason: reason.into(), details, ..ApiStatus::default() };
            let error = Error::Status(Box::new(status));
            assert_eq!(plan.writes()[0].ignore.contains(&error), want, "{code} {reason}");
        }
    }

    #[test]
    fn a_namespace_has_exactly_the_bundle_with_a_description() {
        let map = |data: Value, annotations: Value| {
            let object = json!({"metadata": {"name": CONFIG_MAP, "namespace": "ns", "annotations": annotations, "labels": {"theirs": "x"}}, "data": data, "binaryData": {"theirs": "eA=="}});
            serde_json::from_value::<ConfigMap>(object).unwrap()
        };
        let described = || json!({DESCRIPTION: "anything"});
        const CREATE: &str = "create ConfigMap ns/kube-root-ca.crt: every namespace has the root CA";
        const UPDATE: &str = "update ConfigMap ns/kube-root-ca.crt: it must hold exactly the root CA";
        #[rustfmt::skip]
        let table = [
            // case                     published                                                     plan
            ("missing",                 None,                                                          CREATE),
            ("right",                   Some(map(json!({"ca.crt": "CA"}), described())),               ""),
            ("another bundle",          Some(map(json!({"ca.crt": "old"}), described())),              UPDATE),
            ("another entry beside it", Some(map(json!({"ca.crt": "CA", "x": "y"}), described())),     UPDATE),
            ("no description",          Some(map(json!({"ca.crt": "CA"}), json!({}))),                 UPDATE),
        ];
        for (case, published, want) in table {
            let plan = plan(&View { namespace: "ns", bundle: "CA", published: published.as_ref() });
            assert_eq!(plan.to_string(), want, "{case}");
            for body in plan.writes().iter().filter_map(|write| write.body()) {
                assert_eq!(body["data"], json!({"ca.crt": "CA"}), "{case}");
                assert_eq!(body["metadata"]["annotations"][DESCRIPTION], TEXT, "{case}");
                let is_update = want == UPDATE;
                assert_eq!(body["metadata"]["labels"]["theirs"] == "x", is_update, "{case}: labels are kept");
                assert_eq!(
                    body["binaryData"]["theirs"] == "eA==",
                    is_update,
                    "{case}: foreign data is sent back"
                );
            }
        }
    }
}
