//! One bundle, and no other.

use std::sync::Arc;

use flyball_api::{ClusterTrustBundle, Object, Resource};
use serde_json::json;

use super::plan::{Action, SIGNER, name, plan};

fn bundle(name: &str, content: &str) -> Arc<ClusterTrustBundle> {
    let metadata = json!({"name": name, "labels": {"theirs": "x"}});
    let spec = json!({"signerName": SIGNER, "trustBundle": content});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

#[test]
fn the_name_is_the_signers_and_the_contents() {
    // Twelve bytes of the SHA-256 of "CA".
    assert_eq!(name("CA"), "kubernetes.io:kube-apiserver-serving:4b650e5c4785025dee7bd65e");
}

#[test]
fn the_right_bundle_is_published_before_others_go() {
    let right = name("CA");
    #[rustfmt::skip]
    let table = [
        // case             published                                                actions
        ("none",            vec![],                                                  vec!["create"]),
        ("right",           vec![bundle(&right, "CA")],                              vec![]),
        ("tampered with",   vec![bundle(&right, "other")],                           vec!["update"]),
        ("an old one",      vec![bundle("old", "old")],                              vec!["create", "delete old"]),
        ("both",            vec![bundle("a", "old"), bundle(&right, "CA"), bundle("z", "old")], vec!["delete a", "delete z"]),
    ];
    for (case, published, want) in table {
        let actions = plan(&ClusterTrustBundle::TYPE, "CA", &published);
        let got: Vec<String> = actions
            .iter()
            .map(|action| match action {
                Action::Create(body) if body["spec"]["trustBundle"] == "CA" => "create".to_owned(),
                Action::Update(body) if body["metadata"]["labels"]["theirs"] == "x" => "update".to_owned(),
                Action::Delete(other) => format!("delete {}", other.meta().name),
                other => panic!("{case}: {other:?}"),
            })
            .collect();
        assert_eq!(got, want, "{case}");
    }
}
