//! Which requests are deleted, and why.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flyball_api::{CertificateSigningRequest, Timestamp};
use flyball_runtime::ErrorKinds;
use flyball_runtime::plan::Operation;
use serde_json::json;

use super::plan::plan;
use crate::cleaner::View;

const NOW: &str = "2026-03-10T12:00:00Z";

/// A request of this age with conditions (`Approved 2h`, hours or minutes ago) and a certificate that expires at a time.
fn csr(age: &str, decided: &str, certificate: &str) -> CertificateSigningRequest {
    let now: Timestamp = NOW.parse().unwrap();
    let ago = |text: &str| {
        let (count, unit) = text.split_at(text.len() - 1);
        let seconds = count.parse::<i64>().unwrap() * if unit == "h" { 3600 } else { 60 };
        (now - flyball_api::time::SignedDuration::from_secs(seconds)).to_string()
    };
    let conditions: Vec<_> = decided
        .split(',')
        .filter(|word| !word.is_empty())
        .map(|word| match word.split_once(' ') {
            Some((kind, age)) => json!({"type": kind, "status": "True", "lastUpdateTime": ago(age)}),
            None => json!({"type": word, "status": "True"}),
        })
        .collect();
    let pem = match certificate {
        "" => String::new(),
        "unreadable" => BASE64.encode("no certificate"),
        end => BASE64.encode(ending(end)),
    };
    serde_json::from_value(json!({
        "metadata": {"name": "x", "resourceVersion": "7", "creationTimestamp": ago(age)},
        "status": {"conditions": conditions, "certificate": pem},
    }))
    .unwrap()
}

fn ending(end: &str) -> String {
    let end: Timestamp = end.parse().unwrap();
    let mut params = rcgen::CertificateParams::default();
    let day = end.strftime("%Y %m %d").to_string();
    let mut parts = day.split(' ').map(|part| part.parse::<i32>().unwrap());
    let (year, month, day) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    params.not_after = rcgen::date_time_ymd(year, month as u8, day as u8);
    let key = rcgen::KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().pem()
}

#[test]
fn a_request_is_deleted_when_it_is_no_longer_needed() {
    const GOOD: &str = "2027-01-01T00:00:00Z";
    const OVER: &str = "2026-03-10T00:00:00Z";
    #[rustfmt::skip]
    let table = [
        // case                                  age    decided                    certificate   why
        ("pending",                              "23h", "",                        "",           ""),
        ("pending for exactly a day",            "24h", "",                        "",           ""),
        ("pending for too long",                 "25h", "",                        "",           "it was created more than a day ago and is still pending"),
        ("issued",                               "99h", "Approved 59m",            GOOD,         ""),
        ("issued an hour ago",                   "99h", "Approved 61m",            GOOD,         "it was issued more than an hour ago"),
        ("issued, expired",                      "1h",  "Approved 1m",             OVER,         "its certificate has expired"),
        ("issued, unreadable",                   "1h",  "Approved 1m",             "unreadable", ""),
        ("issued, without a time",               "99h", "Approved",                GOOD,         ""),
        ("issued, never approved",               "1h",  "Other 1m",                OVER,         ""),
        ("approved, waiting to be signed",       "99h", "Approved 23h",            "",           ""),
        ("approved, never signed",               "99h", "Approved 25h",            "",           "it was approved more than a day ago and is still not signed"),
        ("denied",                               "99h", "Denied 59m",              "",           ""),
        ("denied an hour ago",                   "99h", "Denied 61m",              "",           "it was denied more than an hour ago"),
        ("failed",                               "99h", "Approved 2h,Failed 59m",  "",           ""),
        ("failed an hour ago",                   "99h", "Approved 2h,Failed 61m",  "",           "it failed more than an hour ago"),
        ("with another condition",               "99h", "Other 99h",               "",           ""),
    ];
    for (case, age, decided, certificate, why) in table {
        let view =
            View { requests: vec![Arc::new(csr(age, decided, certificate))], now: NOW.parse().unwrap() };
        let plan = plan(&view);
        let got: Vec<String> = plan.writes().iter().map(ToString::to_string).collect();
        let want = format!("delete CertificateSigningRequest x: {why}");
        assert_eq!(got, Vec::from_iter((!why.is_empty()).then_some(want)), "{case}");
        for write in plan.writes() {
            let Operation::Delete(options) = &write.operation else { panic!("{write}") };
            assert_eq!(
                options.resource_version.map(|version| version.to_string()),
                Some("7".into()),
                "{case}"
            );
            assert_eq!(write.ignore, ErrorKinds::NOT_FOUND | ErrorKinds::CONFLICT, "{case}");
        }
    }
}
