//! What token secrets hold, and which are deleted with their account.

use std::sync::Arc;

use flyball_api::{Key, Secret, ServiceAccount, Uid};
use flyball_cache::{Change, Origin};
use flyball_runtime::ErrorKinds;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::serviceaccount_token::contents::{claims, filled, lacks};
use crate::serviceaccount_token::invariants::{check, check_deleted};
use crate::serviceaccount_token::keys::{AccountKey, SecretKey};
use crate::serviceaccount_token::plan::{Need, View, need, plan, plan_deleted, without_reference};
use crate::serviceaccount_token::signer::Signer;
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
fn missing_and_wrong_entries_are_found() {
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

fn deleted(uid: &str) -> AccountKey {
    AccountKey { key: Key::new("n", "robot"), uid: Uid::from(uid) }
}

fn deletions(secrets: &[Arc<Secret>], gone: &str, current: Option<&ServiceAccount>) -> Vec<Key> {
    let plan = plan_deleted(&deleted(gone), current, secrets);
    plan.writes().iter().map(|write| write.key.clone()).collect()
}

#[test]
fn tokens_are_deleted_with_their_account_and_no_other() {
    let all = [
        secret("old", of("u1"), json!({})),
        secret("any", of(""), json!({})),
        secret("new", of("u2"), json!({})),
    ];
    #[rustfmt::skip]
    let table = [
        // case                         deleted  current       plan
        ("the account is deleted",      "u1",    None,         "delete Secret n/old: its service account does not exist\ndelete Secret n/any: its service account does not exist"),
        ("it was created again",        "u1",    Some("u2"),   "delete Secret n/old: its service account does not exist"),
        ("the server still has it",     "u1",    Some("u1"),   ""),
        ("it has no tokens",            "u3",    Some("u2"),   ""),
    ];
    for (case, gone, current, want) in table {
        let current = current.map(account);
        let plan = plan_deleted(&deleted(gone), current.as_ref(), &all);
        assert_eq!(plan.to_string(), want, "{case}");
        assert_eq!(check_deleted(&deleted(gone), current.as_ref(), &all, &plan), Ok(()), "{case}");
        assert!(plan.writes().iter().all(|write| write.ignore == ErrorKinds::NOT_FOUND), "{case}");
    }
}

#[test]
fn a_token_secret_is_filled_deleted_or_its_reference_removed() {
    let signer = Signer::from_pem(include_bytes!("keys/p256-pkcs8.pem")).unwrap();
    let empty = || secret("t", of("u"), json!({}));
    let full = || secret("t", of("u"), json!({"ca.crt": "Q0E=", "namespace": "bg==", "token": "dA=="}));
    let changed = || {
        let mut changed = Secret::clone(&empty());
        changed.metadata.resource_version = flyball_api::ResourceVersion(9);
        Arc::new(changed)
    };
    const FILL: &str = "update Secret n/t: it must hold a token, the namespace and the cluster's CA";
    const DELETE: &str = "delete Secret n/t: its service account does not exist";
    const REMOVE: &str = "update ServiceAccount n/robot: the token secret does not exist";
    let (cache, server, other, nowhere) = ("cache", "server", "another of that name", "");
    #[rustfmt::skip]
    let table = [
        // case                          cached         on the server    the account is in  reads             plan
        ("incomplete",                   Some(empty()), Some(empty()),   cache,             "Secret",         FILL),
        ("complete",                     Some(full()),  Some(full()),    cache,             "",               ""),
        ("complete on the server",       Some(empty()), Some(full()),    cache,             "Secret",         ""),
        ("changed on the server",        Some(empty()), Some(changed()), cache,             "Secret",         ""),
        ("deleted on the server",        Some(empty()), None,            cache,             "Secret",         ""),
        ("the cache of accounts lags",   Some(empty()), Some(empty()),   server,            "Account Secret", FILL),
        ("the same, and complete",       Some(full()),  Some(full()),    server,            "Account",        ""),
        ("the account is deleted",       Some(empty()), Some(empty()),   nowhere,           "Account",        DELETE),
        ("the account was made again",   Some(full()),  Some(full()),    other,             "Account",        DELETE),
        ("the secret is deleted",        None,          None,            cache,             "",               REMOVE),
        ("both are deleted",             None,          None,            nowhere,           "",               ""),
    ];
    for (case, cached, on_server, place, reads, want) in table {
        let token = SecretKey::of(&empty()).unwrap();
        let mut view = View {
            token: &token,
            cached,
            live: None,
            cached_account: (place == cache).then(|| Arc::new(account("u"))),
            live_account: None,
            authority: CA,
            signer: &signer,
        };
        let mut read = vec![];
        while let Some(need) = need(&view) {
            read.push(format!("{need:?}"));
            match need {
                Need::Account if place == other => view.live_account = Some(Some(account("u2"))),
                Need::Account => view.live_account = Some((place == server).then(|| account("u"))),
                Need::Secret => view.live = Some(on_server.as_deref().cloned()),
            }
        }
        assert_eq!(read.join(" "), reads, "{case}");
        let plan = plan(&view);
        assert_eq!(plan.to_string(), want, "{case}");
        assert_eq!(check(&view, &plan), Ok(()), "{case}");
        for body in plan.writes().iter().filter_map(|write| write.body()) {
            let filled: Secret = serde_json::from_value(body).unwrap();
            assert!(!lacks(&filled, CA).anything(), "{case}");
        }
    }
}

#[test]
fn the_invariants_tell_right_plans_from_wrong_ones() {
    let signer = Signer::from_pem(include_bytes!("keys/p256-pkcs8.pem")).unwrap();
    let (empty, full) = (secret("t", of("u"), json!({})), secret("t", of("u"), json!({"token": "dA=="})));
    let token = SecretKey::of(&empty).unwrap();
    let view =
        |cached: Option<&Arc<Secret>>, live: Option<&Arc<Secret>>, account: Option<ServiceAccount>| View {
            token: &token,
            cached: cached.cloned(),
            live: live.map(|live| Some(Secret::clone(live))),
            cached_account: account.map(Arc::new),
            live_account: Some(None),
            authority: CA,
            signer: &signer,
        };
    let robot = || Some(account("u"));
    let fill = || plan(&view(Some(&empty), Some(&empty), robot()));
    let (delete, remove) = (|| plan(&view(Some(&empty), None, None)), || plan(&view(None, None, robot())));
    #[rustfmt::skip]
    let table = [
        // case                       view                                           plan      broken
        ("right",                     view(Some(&empty), Some(&empty), robot()),     fill(),   ""),
        ("the server was not read",   view(Some(&empty), None, robot()),             fill(),   "the cache shows as it is"),
        ("it has a token",            view(Some(&full), Some(&full), robot()),       fill(),   "entries of a secret are kept"),
        ("the account is gone",       view(Some(&empty), Some(&empty), None),        fill(),   "for an account that exists"),
        ("the account exists",        view(Some(&empty), None, robot()),             delete(), "has no account for it"),
        ("nobody looked for it",      View { live_account: None, ..view(Some(&empty), None, None) }, delete(), "has no account for it"),
        ("the secret exists",         view(Some(&empty), None, robot()),             remove(), "only if the secret is gone"),
    ];
    for (case, view, plan, want) in table {
        let broken = check(&view, &plan).err().unwrap_or_default();
        assert!(broken.contains(want) && broken.is_empty() == want.is_empty(), "{case}: {broken}");
    }
    let all = [secret("old", of("u1"), json!({})), secret("any", of(""), json!({}))];
    let both = plan_deleted(&deleted("u1"), None, &all);
    assert_eq!(check_deleted(&deleted("u1"), None, &all, &both), Ok(()));
    assert!(
        check_deleted(&deleted("u1"), Some(&account("u2")), &all, &both).is_err(),
        "`any` may be of the new one"
    );
    assert!(check_deleted(&deleted("u2"), None, &all, &both).is_err(), "`old` is of another");
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
fn only_tokens_that_name_an_account_are_synced() {
    let opaque: Arc<Secret> = Arc::new(
        serde_json::from_value(json!({"metadata": {"name": "o", "annotations": of("u")}, "type": "Opaque"}))
            .unwrap(),
    );
    #[rustfmt::skip]
    let table = [
        ("a token",               secret("t", of("u"), json!({})),  true),
        ("without a uid",         secret("t", of(""), json!({})),   true),
        ("that names no account", secret("t", json!({}), json!({})), false),
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
    /// A token that may belong to an existing account is never deleted with another.
    #[test]
    fn tokens_of_existing_accounts_stay(
        uids in proptest::collection::vec(0..4usize, 0..8),
        gone in 1..4usize,
        existing in proptest::option::of(1..4usize),
    ) {
        prop_assume!(existing != Some(gone));
        let uid = |n: usize| if n == 0 { String::new() } else { format!("u{n}") };
        let name = |index: usize| format!("t{index}");
        let all: Vec<_> =
            uids.iter().enumerate().map(|(i, n)| secret(&name(i), of(&uid(*n)), json!({}))).collect();
        let current = existing.map(|n| account(&uid(n)));
        for key in deletions(&all, &uid(gone), current.as_ref()) {
            let secret = all.iter().find(|secret| secret.metadata.name == key.name).unwrap();
            let named = secret.metadata.annotations.get("kubernetes.io/service-account.uid");
            let may_be_of = |n: usize| named.is_none_or(|named| named == uid(n));
            prop_assert!(!existing.is_some_and(may_be_of), "{named:?} is deleted while {existing:?} exists");
            prop_assert!(may_be_of(gone));
        }
    }
}
