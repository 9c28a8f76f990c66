//! Whether a bootstrap token is deleted now, later or never. Pure.

use std::time::Duration;

use flyball_api::{Object, Secret, Timestamp};
use flyball_client::DeleteOptions;
use flyball_runtime::{Plan, Waiting, Write, exactly};

use crate::bootstrap_token::{Expiry, is_token};

pub fn plan(secret: &Secret, now: Timestamp) -> Plan {
    match Expiry::of(secret) {
        _ if !is_token(secret) => Plan::default(),
        expiry if expiry.is_past(now) => {
            // Only in the version that was read: its expiration may just have been changed.
            let version = Some(secret.metadata.resource_version);
            let options = DeleteOptions { resource_version: version, ..exactly(&secret.metadata) };
            Plan::of([
                Write::delete_with::<Secret>(secret.key(), options).why("the bootstrap token has expired")
            ])
        }
        Expiry::At(expiry) => Plan::after(Duration::try_from(expiry.duration_since(now)).unwrap_or_default())
            .waiting_for([Waiting::until(expiry, "when it is deleted")]),
        Expiry::Never | Expiry::Unreadable => Plan::default(),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_are_deleted_when_they_expire() {
        const TOKEN: &str = "bootstrap.kubernetes.io/token";
        const GONE: &str =
            "delete Secret kube-system/bootstrap-token-abcdef: the bootstrap token has expired";
        #[rustfmt::skip]
        let table = [
            // expiration          type      expiration                      plan
            ("past",               TOKEN,    Some("2026-03-10T11:59:59Z"),   GONE),
            ("this second",        TOKEN,    Some("2026-03-10T12:00:00Z"),   GONE),
            ("not a time",         TOKEN,    Some("soon"),                   GONE),
            ("in the future",      TOKEN,    Some("2026-03-10T12:01:00Z"),   "again after 60s\nwaiting for 2026-03-10T12:01:00Z, when it is deleted"),
            ("none",               TOKEN,    None,                           ""),
            ("another secret",     "Opaque", Some("2026-03-10T11:59:59Z"),   ""),
        ];
        for (case, type_, expiration, want) in table {
            let data = expiration.map_or(json!({}), |text| json!({"expiration": BASE64.encode(text)}));
            let meta = json!({"namespace": "kube-system", "name": "bootstrap-token-abcdef", "uid": "u"});
            let secret: Secret =
                serde_json::from_value(json!({"metadata": meta, "type": type_, "data": data})).unwrap();
            let now = "2026-03-10T12:00:00Z".parse().unwrap();
            assert_eq!(plan(&secret, now).to_string(), want, "{case}");
        }
    }
}
