//! There is one bundle of the signer, and it is right.

use std::sync::Arc;

use flyball_api::{ClusterTrustBundle, Resource};
use serde_json::json;

use super::plan::{SIGNER, View, name, plan};

fn bundle(name: &str, content: &str) -> Arc<ClusterTrustBundle> {
    let metadata = json!({"name": name, "labels": {"theirs": "x"}});
    let spec = json!({"signerName": SIGNER, "trustBundle": content});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

#[test]
fn the_name_consists_of_the_signer_and_a_hash_of_the_content() {
    // Twelve bytes of the SHA-256 of "CA".
    assert_eq!(name("CA"), "kubernetes.io:kube-apiserver-serving:4b650e5c4785025dee7bd65e");
}

#[test]
fn the_right_bundle_is_published_before_others_are_deleted() {
    let right = name("CA");
    let create = format!("create ClusterTrustBundle {right}: the API server's CA must be published");
    let update = format!("update ClusterTrustBundle {right}: it must hold exactly the API server's CA");
    let delete = |name: &str| {
        format!("delete ClusterTrustBundle {name}: it does not hold the API server's current CA")
    };
    #[rustfmt::skip]
    let table = [
        // case             published                                                plan
        ("none",            vec![],                                                  vec![create.clone()]),
        ("right",           vec![bundle(&right, "CA")],                              vec![]),
        ("changed content", vec![bundle(&right, "other")],                           vec![update]),
        ("an old one",      vec![bundle("old", "old")],                              vec![create, delete("old")]),
        ("both",            vec![bundle("a", "old"), bundle(&right, "CA"), bundle("z", "old")], vec![delete("a"), delete("z")]),
    ];
    for (case, published, want) in table {
        let plan = plan(&View { resource: &ClusterTrustBundle::TYPE, bundle: "CA", published: &published });
        let got: Vec<String> = plan.writes().iter().map(ToString::to_string).collect();
        assert_eq!(got, want, "{case}");
        for body in plan.writes().iter().filter_map(|write| write.body()) {
            assert_eq!(body["spec"]["trustBundle"], "CA", "{case}");
            let kept = if published.is_empty() || case == "an old one" { json!(null) } else { json!("x") };
            assert_eq!(body["metadata"]["labels"]["theirs"], kept, "{case}: foreign labels are kept");
        }
    }
}
