//! What token secrets lack, get, and which go with their account.

use std::sync::Arc;

use flyball_api::{Secret, ServiceAccount, Uid};
use flyball_cache::{Change, Origin};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::serviceaccount_token::plan::{claims, filled, lacks, left_behind, without_reference};
use crate::serviceaccount_token::triggers::{account_changed, secret_changed};

const CA: &[u8] = b"CA";

fn secret(name: &str, annotations: Value, data: Value) -> Arc<Secret> {
    let secret = json!({
        "metadata": {"name": name, "namespace": "n", "uid": format!("uid of {name}"), "annotations": annotations},
        "type": "kubernetes.io/service-account-token", "data": data,
    });
    Arc::new(serde_json::from_value(secret).unwrap())
}

fn account(uid: &str) -> ServiceAccount {
    serde_json::from_value(json!({"metadata": {"name": "robot", "namespace": "n", "uid": uid}})).unwrap()
}

fn of(uid: &str) -> Value {
    match uid {
        "" => json!({"kubernetes.io/service-account.name": "robot"}),
        _ => json!({"kubernetes.io/service-account.name": "robot", "kubernetes.io/service-account.uid": uid}),
    }
}

#[test]
fn missing_and_wrong_data_is_noticed() {
    #[rustfmt::skip]
    let table = [
        // case                    data (CA is Q0E=)                                              lacks
        ("empty",                  json!({}),                                                     "ca namespace token"),
        ("complete",               json!({"ca.crt": "Q0E=", "namespace": "bg==", "token": "dA=="}), ""),
        ("another CA",             json!({"ca.crt": "eA==", "namespace": "bg==", "token": "dA=="}), "ca"),
        ("a CA that is no base64", json!({"ca.crt": "?", "namespace": "bg==", "token": "dA=="}),    "ca"),
        ("an empty token",         json!({"ca.crt": "Q0E=", "namespace": "bg==", "token": ""}),     "token"),
        ("no namespace",           json!({"ca.crt": "Q0E=", "token": "dA=="}),                      "namespace"),
        ("any namespace will do",  json!({"ca.crt": "Q0E=", "namespace": "eA==", "token": "dA=="}), ""),
    ];
    for (case, data, want) in table {
        let lacks = lacks(&secret("t", of("u"), data), CA);
        let words = [(lacks.authority, "ca"), (lacks.namespace, "namespace"), (lacks.token, "token")];
        let words: Vec<&str> = words.into_iter().filter(|(lacks, _)| *lacks).map(|(_, word)| word).collect();
        assert_eq!(words.join(" "), want, "{case}");
        assert_eq!(lacks.anything(), !want.is_empty(), "{case}");
    }
    assert!(
        !lacks(&secret("t", of("u"), json!({"ca.crt": "eA==", "namespace": "bg==", "token": "dA=="})), b"")
            .anything()
    );
}

#[test]
fn a_secret_gets_what_it_lacks_and_keeps_the_rest() {
    let held = secret(
        "t",
        json!({"kubernetes.io/service-account.name": "robot", "mine": "x"}),
        json!({"extra": "eA==", "token": "b2xk"}),
    );
    let lacking = lacks(&held, CA);
    let whole = filled(&held, &account("u1"), lacking, CA, None);
    let got = serde_json::to_value(&whole).unwrap();
    assert_eq!(got["data"], json!({"ca.crt": "Q0E=", "extra": "eA==", "namespace": "bg==", "token": "b2xk"}));
    assert_eq!(
        got["metadata"]["annotations"],
        json!({
            "kubernetes.io/service-account.name": "robot", "kubernetes.io/service-account.uid": "u1", "mine": "x",
        })
    );
    assert!(!lacks(&whole, CA).anything());
    let with_token = filled(&held, &account("u1"), lacking, CA, Some("t"));
    assert_eq!(with_token.data.get("token"), Some("dA=="));
}

#[test]
fn tokens_name_account_and_secret() {
    let claims = claims(&secret("t", of("u1"), json!({})), &account("u1"));
    assert_eq!(
        claims,
        json!({
            "iss": "kubernetes/serviceaccount",
            "kubernetes.io/serviceaccount/namespace": "n",
            "kubernetes.io/serviceaccount/secret.name": "t",
            "kubernetes.io/serviceaccount/service-account.name": "robot",
            "kubernetes.io/serviceaccount/service-account.uid": "u1",
            "sub": "system:serviceaccount:n:robot",
        })
    );
}

#[test]
fn tokens_go_with_their_account_and_no_other() {
    let all = [
        secret("old", of("u1"), json!({})),
        secret("any", of(""), json!({})),
        secret("new", of("u2"), json!({})),
    ];
    #[rustfmt::skip]
    let table = [
        // case                       gone   another lives  deleted
        ("the account is gone",       "u1",  false,         "old any"),
        ("it was made anew",          "u1",  true,          "old"),
        ("nobody's",                  "u3",  true,          ""),
    ];
    for (case, gone, another, want) in table {
        let names: Vec<&str> =
            left_behind(&all, &Uid::from(gone), another).iter().map(|s| s.metadata.name.as_str()).collect();
        assert_eq!(names.join(" "), want, "{case}");
    }
}

#[test]
fn only_the_reference_is_removed() {
    let account = json!({
        "metadata": {"name": "robot", "managedFields": [{}]}, "automountServiceAccountToken": false,
        "secrets": [{"name": "a", "kind": "Secret"}, {"name": "b"}, {"name": "a"}], "unknown": 1,
    });
    let got = without_reference(&account, "b").unwrap();
    assert_eq!(got["secrets"], json!([{"name": "a", "kind": "Secret"}, {"name": "a"}]));
    assert_eq!((&got["unknown"], got["metadata"].get("managedFields")), (&json!(1), None));
    assert_eq!(without_reference(&account, "a").unwrap()["secrets"], json!([{"name": "b"}]));
    assert_eq!(without_reference(&account, "c"), None);
    assert_eq!(without_reference(&json!({"metadata": {}}), "c"), None);
}

#[test]
fn only_tokens_that_name_an_account_are_looked_at() {
    let opaque: Arc<Secret> = Arc::new(
        serde_json::from_value(json!({"metadata": {"name": "o", "annotations": of("u")}, "type": "Opaque"}))
            .unwrap(),
    );
    #[rustfmt::skip]
    let table = [
        ("a token",               secret("t", of("u"), json!({})),  true),
        ("without an identity",   secret("t", of(""), json!({})),   true),
        ("that names nobody",     secret("t", json!({}), json!({})), false),
        ("of another type",       opaque,                           false),
    ];
    for (case, secret, want) in table {
        let added = Change { old: None, new: Some(&secret), origin: Origin::Watch };
        let gone = Change { old: Some(&secret), new: None, origin: Origin::Watch };
        assert_eq!(secret_changed(&added).is_some(), want, "{case}");
        assert_eq!(secret_changed(&gone).is_some(), want, "{case}");
    }
    let account = Arc::new(account("u"));
    assert!(account_changed(&Change { old: None, new: Some(&account), origin: Origin::Watch }).is_none());
    assert!(account_changed(&Change { old: Some(&account), new: None, origin: Origin::Watch }).is_some());
}

proptest! {
    /// Whatever secrets there are: one that may belong to a living account never goes with a dead one.
    #[test]
    fn tokens_of_living_accounts_stay(
        uids in proptest::collection::vec(0..4usize, 0..8),
        dead in 1..4usize,
        living in proptest::option::of(1..4usize),
    ) {
        prop_assume!(living != Some(dead));
        let uid = |n: usize| if n == 0 { String::new() } else { format!("u{n}") };
        let all: Vec<_> = uids.iter().map(|n| secret("t", of(&uid(*n)), json!({}))).collect();
        for secret in left_behind(&all, &Uid::from(uid(dead).as_str()), living.is_some()) {
            let named = secret.metadata.annotations.get("kubernetes.io/service-account.uid");
            let may_be_of = |n: usize| named.is_none_or(|named| named == uid(n));
            prop_assert!(!living.is_some_and(may_be_of), "{named:?} goes while {living:?} lives");
            prop_assert!(may_be_of(dead));
        }
    }
}
