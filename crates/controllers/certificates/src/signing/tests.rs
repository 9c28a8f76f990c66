//! What is signed, for how long, and by which authority.

use std::time::Duration;

use flyball_api::{CertificateSigningRequest, Timestamp};
use flyball_runtime::config::{CsrSigning, SignerFiles};
use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

use super::authorities::load;
use super::plan::{View, lifetime, plan, validity};
use crate::csr::testing::{CLIENT, USAGES, csr, request_pem};
use crate::csr::{has_failed, is_issued};
use crate::rules::Signer;
use crate::x509::{Authority, Serial};

/// Expires at the beginning of 2027.
fn authority() -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_after = rcgen::date_time_ymd(2027, 1, 1);
    let certificate = params.self_signed(&key).unwrap().pem();
    Authority::from_pem(certificate.as_bytes(), key.serialize_pem().as_bytes()).unwrap()
}

#[test]
fn only_approved_requests_are_signed_and_only_once() {
    const ISSUED: &str = "update CertificateSigningRequest/status x: it is approved and keeps the rules of kubernetes.io/kube-apiserver-client-kubelet";
    const FAILED: &str = "update CertificateSigningRequest/status x: kubernetes.io/kube-apiserver-client-kubelet does not sign it: subject organization is not system:nodes";
    const PENDING: &str = "waiting for CertificateSigningRequest/x to be approved";
    const LATE: &str = "2027-01-02T00:00:00Z";
    const NOW: &str = "2026-03-10T12:00:00Z";
    let good = request_pem("system:nodes", "system:node:n");
    let bad = request_pem("others", "system:node:n");
    #[rustfmt::skip]
    let table: [(&str, &str, &str, &[&str], &str); 8] = [
        ("pending",               NOW,  &good, &[],                       PENDING),
        ("approved",              NOW,  &good, &["Approved"],             ISSUED),
        ("approved and denied",   NOW,  &good, &["Approved", "Denied"],   ""),
        ("failed",                NOW,  &good, &["Approved", "Failed"],   ""),
        ("against the rules",     NOW,  &bad,  &["Approved"],             FAILED),
        ("unapproved and wrong",  NOW,  &bad,  &[],                       PENDING),
        ("unreadable",            NOW,  "?",   &["Approved"],             "invalid: reading certificate request x: it must be a PEM block of type CERTIFICATE REQUEST"),
        ("the authority expired", LATE, &good, &["Approved"],             "fail: signing certificate request x: the authority's own certificate expired at 2027-01-01T00:00:00Z"),
    ];
    for (case, now, pem, conditions, want) in table {
        let csr = csr(pem, CLIENT, USAGES, conditions);
        let plan = plan(&View {
            csr: &csr,
            signer: Signer::KubeletClient,
            authority: &authority(),
            max_lifetime: Duration::from_secs(3600),
            serial: Serial::default(),
            now: now.parse().unwrap(),
        });
        assert_eq!(plan.to_string(), want, "{case}");
        for write in plan.writes() {
            let written: CertificateSigningRequest = serde_json::from_value(write.body().unwrap()).unwrap();
            assert_eq!(
                (is_issued(&written), has_failed(&written)),
                (want == ISSUED, want == FAILED),
                "{case}"
            );
        }
    }
}

#[test]
fn lifetimes_are_as_requested_within_bounds() {
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
fn certificates_are_backdated_and_expire_with_their_authority() {
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
    fn no_certificate_outlives_its_authority_or_expires_before_it_is_valid(
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
