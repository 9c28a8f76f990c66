//! Signatures are added, corrected and removed.

use flyball_api::ConfigMap;
use serde_json::{Value, json};

use super::jws::detached;
use super::plan::plan;
use crate::bootstrap_token::SigningToken;

const CONTENT: &str = "apiVersion: v1\nkind: Config\n";

fn token(id: &str) -> SigningToken {
    SigningToken { id: id.to_owned(), secret: format!("{id}-half") }
}

fn info(data: Value) -> ConfigMap {
    let metadata = json!({"name": "cluster-info", "labels": {"theirs": "x"}});
    serde_json::from_value(json!({"metadata": metadata, "data": data, "binaryData": {"logo": "eA=="}}))
        .unwrap()
}

#[test]
fn the_signature_is_what_upstream_makes() {
    // Upstream: cluster-bootstrap's own test of its signatures.
    let token = SigningToken { id: "joshua".to_owned(), secret: "my voice is my passcode".to_owned() };
    assert_eq!(
        detached("Hello from the other side. I must have called a thousand times.", &token),
        "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"
    );
}

#[test]
fn there_is_a_signature_for_every_signing_token_and_no_other() {
    let signed = |ids: &[&str]| {
        let mut data = json!({"kubeconfig": CONTENT, "more": "kept"});
        for id in ids {
            data[format!("jws-kubeconfig-{id}")] = json!(detached(CONTENT, &token(id)));
        }
        data
    };
    let mut forged = signed(&["aaaaaa"]);
    forged["jws-kubeconfig-aaaaaa"] = json!("forged");
    #[rustfmt::skip]
    let table = [
        // case                     present                        tokens                       wanted
        ("first token",             signed(&[]),                   vec!["aaaaaa"],              Some(signed(&["aaaaaa"]))),
        ("another token",           signed(&["aaaaaa"]),           vec!["aaaaaa", "bbbbbb"],    Some(signed(&["aaaaaa", "bbbbbb"]))),
        ("a token is deleted",      signed(&["aaaaaa", "bbbbbb"]), vec!["bbbbbb"],              Some(signed(&["bbbbbb"]))),
        ("the last one is deleted", signed(&["aaaaaa"]),           vec![],                      Some(signed(&[]))),
        ("a signature is forged",   forged,                        vec!["aaaaaa"],              Some(signed(&["aaaaaa"]))),
        ("settled",                 signed(&["aaaaaa"]),           vec!["aaaaaa"],              None),
        ("settled without tokens",  signed(&[]),                   vec![],                      None),
        ("nothing to sign",         json!({"jws-kubeconfig-x": "y"}), vec!["aaaaaa"],           None),
        ("no data at all",          json!({}),                     vec!["aaaaaa"],              None),
    ];
    for (case, present, tokens, want) in table {
        let plan = plan(&info(present), tokens.into_iter().map(token));
        let written = plan.writes().first().and_then(|write| write.body());
        let got = written.clone().map(|body| serde_json::from_value::<ConfigMap>(body).unwrap());
        assert_eq!(got, want.map(info), "{case}");
        if let Some(body) = written {
            assert_eq!(body["binaryData"], json!({"logo": "eA=="}), "{case}: foreign data is sent back");
            let text = "update ConfigMap cluster-info: it must have the signatures of all signing bootstrap tokens, and no others";
            assert_eq!(plan.to_string(), text, "{case}");
        }
    }
}
