//! What is signed, for how long, and by whom.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flyball_api::{CertificateSigningRequest, Timestamp};
use flyball_runtime::config::{CsrSigning, SignerFiles};
use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use serde_json::json;

use super::authorities::load;
use super::plan::{Action, lifetime, plan, validity};
use crate::approving::plan::{Right, approved, rights};
use crate::rules::Signer;

fn request_pem(organization: &str, name: &str) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::OrganizationName, organization);
    params.distinguished_name.push(DnType::CommonName, name);
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

fn csr(pem: &str, signer: &str, usages: &[&str], conditions: &[&str]) -> CertificateSigningRequest {
    let conditions: Vec<_> = conditions.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
    serde_json::from_value(json!({
        "metadata": {"name": "x"},
        "spec": {"request": BASE64.encode(pem), "signerName": signer, "usages": usages, "username": "system:node:n"},
        "status": {"conditions": conditions},
    }))
    .unwrap()
}

const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const USAGES: &[&str] = &["digital signature", "client auth"];

#[test]
fn only_what_is_approved_and_not_done_with_is_signed() {
    let good = request_pem("system:nodes", "system:node:n");
    let bad = request_pem("others", "system:node:n");
    #[rustfmt::skip]
    let table: [(&str, &str, &[&str], &str); 6] = [
        ("pending",              &good, &[],                       ""),
        ("approved",             &good, &["Approved"],             "sign"),
        ("approved and denied",  &good, &["Approved", "Denied"],   ""),
        ("failed",               &good, &["Approved", "Failed"],   ""),
        ("against the rules",    &bad,  &["Approved"],             "fail: subject organization is not system:nodes"),
        ("unapproved and wrong", &bad,  &[],                       ""),
    ];
    for (case, pem, conditions, want) in table {
        let got = match plan(&csr(pem, CLIENT, USAGES, conditions), Signer::KubeletClient).unwrap() {
            None => String::new(),
            Some(Action::Sign(_)) => "sign".to_owned(),
            Some(Action::Fail(why)) => format!("fail: {why}"),
        };
        assert_eq!(got, want, "{case}");
    }
}

#[test]
fn a_node_may_renew_and_who_may_boot_can_ask_for_any() {
    let own = request_pem("system:nodes", "system:node:n");
    let anothers = request_pem("system:nodes", "system:node:m");
    let wrong = request_pem("others", "system:node:n");
    const SERVING: &str = "kubernetes.io/kubelet-serving";
    #[rustfmt::skip]
    let table: [(&str, CertificateSigningRequest, &[Right]); 6] = [
        ("its own",          csr(&own, CLIENT, USAGES, &[]),             &[Right::SelfNodeClient, Right::NodeClient]),
        ("another node's",   csr(&anothers, CLIENT, USAGES, &[]),        &[Right::NodeClient]),
        ("against the rules", csr(&wrong, CLIENT, USAGES, &[]),          &[]),
        ("another signer",   csr(&own, SERVING, USAGES, &[]),            &[]),
        ("decided",          csr(&own, CLIENT, USAGES, &["Denied"]),     &[]),
        ("approved",         csr(&own, CLIENT, USAGES, &["Approved"]),   &[]),
    ];
    for (case, csr, want) in table {
        assert_eq!(rights(&csr).unwrap(), want, "{case}");
        for right in want {
            let approved = approved(&csr, *right);
            assert!(rights(&approved).unwrap().is_empty(), "{case}: approved once");
            assert!(plan(&approved, Signer::KubeletClient).unwrap().is_some(), "{case}: then signed");
        }
    }
}

#[test]
fn lifetimes_are_what_was_asked_for_within_bounds() {
    const YEAR: u64 = 365 * 24 * 3600;
    #[rustfmt::skip]
    let table = [
        // asked        signer   given
        (None,          YEAR,    YEAR),
        (Some(3600),    YEAR,    3600),
        (Some(600),     YEAR,    600),
        (Some(599),     YEAR,    600),
        (Some(-5),      YEAR,    600),
        (Some(i32::MAX), YEAR,   YEAR),
        (Some(3600),    60,      60),
        (Some(30),      60,      600),
    ];
    for (asked, longest, want) in table {
        assert_eq!(lifetime(asked, Duration::from_secs(longest)).as_secs(), want, "{asked:?} {longest}");
    }
}

#[test]
fn certificates_begin_a_little_early_and_end_with_their_authority() {
    #[rustfmt::skip]
    let table = [
        // case                      seconds      authority ends          from                   to
        ("long: the end moves, too", 24 * 3600,   "2027-01-01T00:00:00Z", "2026-03-10T11:55:00Z", "2026-03-11T11:55:00Z"),
        ("exactly the limit",        8 * 3600,    "2027-01-01T00:00:00Z", "2026-03-10T11:55:00Z", "2026-03-10T19:55:00Z"),
        ("short: the end stays",     8 * 3600 - 1,"2027-01-01T00:00:00Z", "2026-03-10T11:55:00Z", "2026-03-10T19:59:59Z"),
        ("cut off",                  48 * 3600,   "2026-03-11T00:00:00Z", "2026-03-10T11:55:00Z", "2026-03-11T00:00:00Z"),
        ("over",                     3600,        "2026-03-10T12:00:00Z", "",                     ""),
    ];
    let now: Timestamp = "2026-03-10T12:00:00.75Z".parse().unwrap();
    for (case, seconds, end, from, to) in table {
        let end: Timestamp = end.parse().unwrap();
        let got = validity(now, Duration::from_secs(seconds), end);
        let got = got.map(|v| (v.not_before.to_string(), v.not_after.to_string())).unwrap_or_default();
        assert_eq!(got, (from.to_owned(), to.to_owned()), "{case}");
    }
}

proptest! {
    #[test]
    fn no_certificate_outlives_its_authority_or_ends_before_it_begins(
        now in 0i64..4_000_000_000, seconds in 0u64..4_000_000_000, left in -1000i64..4_000_000_000,
    ) {
        let (now, end) = (Timestamp::from_second(now).unwrap(), Timestamp::from_second(now + left).unwrap());
        match validity(now, lifetime(None, Duration::from_secs(seconds)), end) {
            Ok(valid) => prop_assert!(valid.not_before < now && valid.not_after <= end && valid.not_before < valid.not_after),
            Err(_) => prop_assert!(left <= 0),
        }
    }
}

#[test]
fn flags_name_one_authority_for_all_or_one_for_each() {
    let dir = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let write = |name: &str, content: String| {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_string_lossy().into_owned()
    };
    let (cert, private) =
        (write("ca.crt", params.self_signed(&key).unwrap().pem()), write("ca.key", key.serialize_pem()));
    let own = || SignerFiles { cert_file: cert.clone(), key_file: private.clone() };
    let shared = || CsrSigning {
        cluster_signing_cert_file: cert.clone(),
        cluster_signing_key_file: private.clone(),
        ..CsrSigning::default()
    };
    let one = CsrSigning { kubelet_serving_signer_configuration: own(), ..CsrSigning::default() };
    let half = SignerFiles { key_file: String::new(), ..own() };
    let halved = CsrSigning { legacy_unknown_signer_configuration: half, ..CsrSigning::default() };
    let lost = CsrSigning { cluster_signing_key_file: "/nowhere/ca.key".to_owned(), ..shared() };
    #[rustfmt::skip]
    let table = [
        ("none",        CsrSigning::default(), Err("there is no authority to sign with")),
        ("one for all", shared(),              Ok(Signer::ALL.to_vec())),
        ("one for one", one.clone(),           Ok(vec![Signer::KubeletServing])),
        ("both",        CsrSigning { kubelet_serving_signer_configuration: own(), ..shared() }, Err("exclude the files of single signers")),
        ("half a pair", halved,                Err("both must be given")),
        ("lost",        lost,                  Err("cannot read /nowhere/ca.key")),
    ];
    for (case, config, want) in table {
        match (load(&config), want) {
            (Ok(found), Ok(signers)) => assert_eq!(found.into_keys().collect::<Vec<_>>(), signers, "{case}"),
            (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{case}: {error}"),
            (got, want) => panic!("{case}: {:?}, not {want:?}", got.map(|found| found.len())),
        }
    }
}
