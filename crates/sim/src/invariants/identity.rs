//! Rules for accounts, tokens and certificates.

use jiff::Timestamp;
use serde_json::Value;

use super::values::{ensure, has_condition, items, text, uid};
use super::{Rule, ServerState, Write, rule};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    rule("serviceaccount-controller",                                      "only the default account",                         default_account),
    rule("serviceaccount-token-controller",                                "no token of an existing account is deleted",       token_in_use),
    rule("serviceaccount-token-controller",                                "a token is for an account that exists or existed", token_of_account),
    rule("legacy-serviceaccount-token-cleaner-controller",                 "only tokens that were marked invalid before",      invalid_first),
    rule("root-ca-certificate-publisher-controller",                       "only its own ConfigMaps",                          root_ca),
    rule("kube-apiserver-serving-clustertrustbundle-publisher-controller", "only bundles of its signer",                       bundles),
    rule("certificatesigningrequest-signing-controller",                   "only approved requests, and once",                 signed),
    rule("certificatesigningrequest-approving-controller",                 "only kubelets' requests, and never revoked",       approved),
    rule("certificatesigningrequest-cleaner-controller",                   "only requests that are old enough",                stale_requests),
    rule("podcertificaterequest-cleaner-controller",                       "only requests that are old enough",                stale_pod_requests),
    rule("bootstrap-signer-controller",                                    "only signatures in cluster-info",                  signatures),
    rule("token-cleaner-controller",                                       "only expired tokens",                              expired),
];

const GROUP: &str = "certificates.k8s.io";

fn default_account(_: &ServerState, write: &Write) -> Result<(), String> {
    let holds = write.creates("", "serviceaccounts") && write.name == "default";
    ensure(holds, || "it is another".to_owned())
}

fn account_of(secret: &Value) -> (&str, &str) {
    let annotations = &secret["metadata"]["annotations"];
    (
        text(&annotations["kubernetes.io/service-account.name"]),
        text(&annotations["kubernetes.io/service-account.uid"]),
    )
}

fn token_in_use(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.deletes("", "secrets") {
        return Ok(());
    }
    let (name, wanted) = account_of(&write.before);
    let account = state.get("", "serviceaccounts", &write.namespace, name);
    let lives = !account.is_null() && (wanted.is_empty() || uid(&account) == wanted);
    ensure(!lives, || format!("account {name} is there"))
}

fn token_of_account(state: &ServerState, write: &Write) -> Result<(), String> {
    if !write.changes("", "secrets") || write.after["data"]["token"].is_null() {
        return Ok(());
    }
    let (name, wanted) = account_of(&write.after);
    let accounts = state.versions_named("", "serviceaccounts", &write.namespace, name);
    ensure(accounts.iter().any(|account| uid(account) == wanted), || {
        format!("there was no account {name} {wanted}")
    })
}

fn invalid_first(_: &ServerState, write: &Write) -> Result<(), String> {
    let since = &write.before["metadata"]["labels"]["kubernetes.io/legacy-token-invalid-since"];
    ensure(!write.deletes("", "secrets") || since.is_string(), || "it was never marked".to_owned())
}

fn root_ca(_: &ServerState, write: &Write) -> Result<(), String> {
    ensure(write.is_on("", "configmaps") && write.name == "kube-root-ca.crt", || "it is another".to_owned())
}

fn bundles(_: &ServerState, write: &Write) -> Result<(), String> {
    let signer = |bundle: &Value| bundle["spec"]["signerName"].clone();
    let own = |bundle: &Value| bundle.is_null() || signer(bundle) == "kubernetes.io/kube-apiserver-serving";
    ensure(own(&write.before) && own(&write.after), || format!("{} is another's", signer(&write.before)))
}

fn certificate(request: &Value) -> &str {
    text(&request["status"]["certificate"])
}

fn signed(_: &ServerState, write: &Write) -> Result<(), String> {
    let (before, after) = (certificate(&write.before), certificate(&write.after));
    if !write.is_on(GROUP, "certificatesigningrequests") || write.verb == "delete" || before == after {
        return Ok(());
    }
    ensure(before.is_empty(), || "it had a certificate".to_owned())?;
    let is_approved = has_condition(&write.after, "Approved");
    let is_refused = has_condition(&write.after, "Denied") || has_condition(&write.after, "Failed");
    ensure(is_approved && !is_refused, || write.after["status"]["conditions"].to_string())
}

fn approved(_: &ServerState, write: &Write) -> Result<(), String> {
    if write.subresource != "approval" {
        return Ok(());
    }
    let kinds = |request: &Value| -> Vec<String> {
        items(&request["status"]["conditions"]).map(|said| text(&said["type"]).to_owned()).collect()
    };
    let (before, after) = (kinds(&write.before), kinds(&write.after));
    let signer = text(&write.after["spec"]["signerName"]);
    ensure(signer == "kubernetes.io/kube-apiserver-client-kubelet", || format!("it is for {signer}"))?;
    ensure(before.iter().all(|kind| after.contains(kind)), || format!("{before:?} became {after:?}"))?;
    ensure(!has_condition(&write.after, "Denied"), || "it was denied".to_owned())
}

/// Age of an object in seconds.
fn age(state: &ServerState, object: &Value) -> i64 {
    let made = text(&object["metadata"]["creationTimestamp"]).parse::<Timestamp>();
    made.map_or(i64::MAX, |made| state.now().as_second() - made.as_second())
}

fn stale_requests(state: &ServerState, write: &Write) -> Result<(), String> {
    let age = age(state, &write.before);
    // One whose certificate has expired is deleted at once.
    let holds = !write.deletes(GROUP, "certificatesigningrequests")
        || age >= 3600
        || !certificate(&write.before).is_empty();
    ensure(holds, || format!("it is {age} s old"))
}

fn stale_pod_requests(state: &ServerState, write: &Write) -> Result<(), String> {
    let age = age(state, &write.before);
    ensure(write.verb == "delete" && age >= 15 * 60, || format!("it is {age} s old"))
}

fn signatures(_: &ServerState, write: &Write) -> Result<(), String> {
    let is_own = write.namespace == "kube-public" && write.name == "cluster-info";
    ensure(is_own && write.is_on("", "configmaps"), || "it is another".to_owned())?;
    let content = |map: &Value| {
        let mut data = map["data"].as_object().cloned().unwrap_or_default();
        data.retain(|key, _| !key.starts_with("jws-kubeconfig-"));
        data
    };
    ensure(content(&write.before) == content(&write.after), || "more has changed".to_owned())
}

fn expired(state: &ServerState, write: &Write) -> Result<(), String> {
    use base64::Engine as _;
    let token = &write.before;
    let is_token = token["type"] == "bootstrap.kubernetes.io/token" && write.namespace == "kube-system";
    ensure(write.deletes("", "secrets") && is_token, || "it is no token".to_owned())?;
    let end = base64::engine::general_purpose::STANDARD
        .decode(text(&token["data"]["expiration"]))
        .unwrap_or_default();
    let end = String::from_utf8_lossy(&end).into_owned();
    // A token without a valid expiration counts as expired, as upstream.
    let Ok(end_at) = end.parse::<Timestamp>() else { return Ok(()) };
    ensure(end_at <= state.now(), || format!("it ends at {end}, and it is {}", state.now()))
}
