//! Which requests are approved, and by which right.

use flyball_api::CertificateSigningRequest;

use super::plan::{Right, View, plan, rights};
use crate::csr::testing::{CLIENT, USAGES, csr, request_pem};

#[test]
fn a_node_may_renew_its_own_certificate_and_a_bootstrapper_may_request_any() {
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
        ("denied",           csr(&own, CLIENT, USAGES, &["Denied"]),     &[]),
        ("approved",         csr(&own, CLIENT, USAGES, &["Approved"]),   &[]),
    ];
    for (case, csr, want) in table {
        assert_eq!(rights(&csr).unwrap(), want, "{case}");
        for right in want {
            let plan = plan(&View { csr: &csr, granted: Some(*right) });
            let [write] = plan.writes()[..] else { panic!("{case}: {plan}") };
            let approved: CertificateSigningRequest = serde_json::from_value(write.body().unwrap()).unwrap();
            assert!(rights(&approved).unwrap().is_empty(), "{case}: approved once");
            assert!(crate::csr::is_approved(&approved), "{case}");
        }
    }
}

#[test]
fn a_request_is_approved_or_waits_for_a_right() {
    let own = request_pem("system:nodes", "system:node:n");
    const WAITS: &str = "\
not yet: system:node:n may create none of selfnodeclient, nodeclient
waiting for CertificateSigningRequest/x to be approved or denied; system:node:n may create none of selfnodeclient, nodeclient";
    const INVALID: &str = "invalid: reading certificate request x: ";
    #[rustfmt::skip]
    let table = [
        // case            request  granted                      plan
        ("no right yet",   &own[..], None,                       WAITS),
        ("its own node",   &own,    Some(Right::SelfNodeClient), "update CertificateSigningRequest/approval x: system:node:n may create selfnodeclient"),
        ("any node",       &own,    Some(Right::NodeClient),     "update CertificateSigningRequest/approval x: system:node:n may create nodeclient"),
        ("unreadable",     "?",     None,                        INVALID),
    ];
    for (case, pem, granted, want) in table {
        let plan = plan(&View { csr: &csr(pem, CLIENT, USAGES, &[]), granted }).to_string();
        assert!(if want == INVALID { plan.starts_with(want) } else { plan == want }, "{case}: {plan}");
    }
}
