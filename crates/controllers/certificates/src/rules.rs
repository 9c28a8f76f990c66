//! What Kubernetes' own signers sign: rules on subject, alternative names and usages. Approval and signing both use them.
//! The texts become condition messages.

use flyball_api::CertificateSigningRequest;

use crate::x509::Request;

/// One of Kubernetes' own signers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signer {
    KubeletServing,
    /// Client certificates of kubelets for the API server.
    KubeletClient,
    /// Client certificates of other clients of the API server.
    ApiServerClient,
    /// Requests from before signers had names.
    LegacyUnknown,
}

impl Signer {
    pub const ALL: [Self; 4] =
        [Self::KubeletServing, Self::KubeletClient, Self::ApiServerClient, Self::LegacyUnknown];

    /// The value of `spec.signerName`.
    pub fn name(self) -> &'static str {
        match self {
            Self::KubeletServing => "kubernetes.io/kubelet-serving",
            Self::KubeletClient => "kubernetes.io/kube-apiserver-client-kubelet",
            Self::ApiServerClient => "kubernetes.io/kube-apiserver-client",
            Self::LegacyUnknown => "kubernetes.io/legacy-unknown",
        }
    }

    /// The signer that a request names, if it is one of Kubernetes' own.
    pub fn of(csr: &CertificateSigningRequest) -> Option<Self> {
        Self::ALL.into_iter().find(|signer| csr.spec.signer_name == signer.name())
    }

    /// The rule that `request` breaks with these usages, if it breaks one.
    pub fn objection(self, request: &Request, usages: &[impl AsRef<str>]) -> Option<String> {
        match self {
            Self::KubeletServing => kubelet_serving(request, usages),
            Self::KubeletClient => kubelet_client(request, usages),
            Self::ApiServerClient => api_server_client(usages),
            Self::LegacyUnknown => None,
        }
    }
}

const NODES: &str = "system:nodes";
const NODE: &str = "system:node:";

const OTHER_ORGANIZATION: &str = "subject organization is not system:nodes";
const OTHER_NAME: &str = "subject common name does not begin with system:node:";

fn kubelet_client(request: &Request, usages: &[impl AsRef<str>]) -> Option<String> {
    let names = &request.names;
    let forbidden = [
        (request.subject.organization != [NODES], OTHER_ORGANIZATION),
        (!names.dns.is_empty(), "DNS subjectAltNames are not allowed"),
        (!names.emails.is_empty(), "Email subjectAltNames are not allowed"),
        (!names.addresses.is_empty(), "IP subjectAltNames are not allowed"),
        (!names.uris.is_empty(), "URI subjectAltNames are not allowed"),
        (!request.subject.common_name.starts_with(NODE), OTHER_NAME),
    ];
    first(&forbidden).or_else(|| other_usages("client auth", usages))
}

fn kubelet_serving(request: &Request, usages: &[impl AsRef<str>]) -> Option<String> {
    let names = &request.names;
    let forbidden = [
        (request.subject.organization != [NODES], OTHER_ORGANIZATION),
        (names.dns.is_empty() && names.addresses.is_empty(), "DNS or IP subjectAltName is required"),
        (!names.emails.is_empty(), "Email subjectAltNames are not allowed"),
        (!names.uris.is_empty(), "URI subjectAltNames are not allowed"),
    ];
    // Upstream's order: it decides which message a request gets that breaks two rules.
    let other_name = [(!request.subject.common_name.starts_with(NODE), OTHER_NAME)];
    first(&forbidden).or_else(|| other_usages("server auth", usages)).or_else(|| first(&other_name))
}

fn api_server_client(usages: &[impl AsRef<str>]) -> Option<String> {
    const CLIENT: &str = "client auth";
    let usages = || usages.iter().map(AsRef::as_ref);
    if let Some(other) = usages().find(|u| !["digital signature", "key encipherment", CLIENT].contains(u)) {
        return Some(format!("invalid usage for client certificate: {other}"));
    }
    let is_missing = !usages().any(|usage| usage == CLIENT);
    is_missing.then(|| format!("missing required usage for client certificate: {CLIENT}"))
}

/// The usages must be a digital signature, the purpose and, optionally, encipherment.
fn other_usages(purpose: &str, usages: &[impl AsRef<str>]) -> Option<String> {
    const ENCIPHERMENT: &str = "key encipherment";
    const SIGNATURE: &str = "digital signature";
    let has = |wanted: &str| usages.iter().any(|usage| usage.as_ref() == wanted);
    let others = usages.iter().any(|usage| ![purpose, ENCIPHERMENT, SIGNATURE].contains(&usage.as_ref()));
    if has(purpose) && has(SIGNATURE) && !others {
        return None;
    }
    let mut wanted = [purpose, SIGNATURE, ENCIPHERMENT];
    wanted.sort_unstable();
    Some(format!("usages did not match [{}]", wanted.join(" ")))
}

fn first(forbidden: &[(bool, &str)]) -> Option<String> {
    forbidden.iter().find(|(holds, _)| *holds).map(|(_, text)| (*text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x509::{AlternativeNames, Subject};

    /// `O=a,O=b,CN=c,DNS=d,IP=e,URI=f,email=g`
    fn request(text: &str) -> Request {
        let mut subject = Subject::default();
        let mut names = AlternativeNames::default();
        for (kind, value) in text.split(',').filter_map(|part| part.split_once('=')) {
            match kind {
                "O" => subject.organization.push(value.to_owned()),
                "CN" => subject.common_name = value.to_owned(),
                "DNS" => names.dns.push(value.to_owned()),
                "IP" => names.addresses.push(value.parse().unwrap()),
                "URI" => names.uris.push(value.to_owned()),
                "email" => names.emails.push(value.to_owned()),
                other => panic!("{other}"),
            }
        }
        Request { subject, names, public_key: vec![] }
    }

    #[test]
    fn each_signer_has_its_rules_and_reports_the_first_that_is_broken() {
        use Signer::*;
        const CLIENT: &str = "usages did not match [client auth digital signature key encipherment]";
        const SERVER: &str = "usages did not match [digital signature key encipherment server auth]";
        #[rustfmt::skip]
        let table = [
            // signer        request                                              usages                                               objection
            (KubeletClient,   "O=system:nodes,CN=system:node:n",                  "digital signature,client auth",                     ""),
            (KubeletClient,   "O=system:nodes,CN=system:node:n",                  "client auth,key encipherment,digital signature",    ""),
            (KubeletClient,   "O=system:nodes,CN=system:node:",                   "digital signature,client auth",                     ""),
            (KubeletClient,   "O=system:nodes,CN=system:node:n",                  "digital signature",                                 CLIENT),
            (KubeletClient,   "O=system:nodes,CN=system:node:n",                  "key encipherment,client auth",                      CLIENT),
            (KubeletClient,   "O=system:nodes,CN=system:node:n",                  "digital signature,client auth,server auth",         CLIENT),
            (KubeletClient,   "O=system:nodes,CN=system:node:n",                  "signing,client auth",                               CLIENT),
            (KubeletClient,   "O=other,CN=system:node:n",                         "server auth",                                       OTHER_ORGANIZATION),
            (KubeletClient,   "O=system:nodes,O=more,CN=system:node:n",           "digital signature,client auth",                     OTHER_ORGANIZATION),
            (KubeletClient,   "CN=system:node:n",                                 "digital signature,client auth",                     OTHER_ORGANIZATION),
            (KubeletClient,   "O=system:nodes,CN=node:n",                         "server auth",                                       OTHER_NAME),
            (KubeletClient,   "O=system:nodes,CN=system:node:n,DNS=n",            "digital signature,client auth",                     "DNS subjectAltNames are not allowed"),
            (KubeletClient,   "O=system:nodes,CN=system:node:n,IP=1.2.3.4",       "digital signature,client auth",                     "IP subjectAltNames are not allowed"),
            (KubeletClient,   "O=system:nodes,CN=x,IP=1.2.3.4,email=a@b",         "digital signature,client auth",                     "Email subjectAltNames are not allowed"),
            (KubeletClient,   "O=system:nodes,CN=system:node:n,URI=a://b",        "digital signature,client auth",                     "URI subjectAltNames are not allowed"),
            (KubeletServing,  "O=system:nodes,CN=system:node:n,DNS=n",            "digital signature,server auth",                     ""),
            (KubeletServing,  "O=system:nodes,CN=system:node:n,IP=::1",           "digital signature,server auth,key encipherment",    ""),
            (KubeletServing,  "O=system:nodes,CN=system:node:n",                  "digital signature,server auth",                     "DNS or IP subjectAltName is required"),
            (KubeletServing,  "O=system:nodes,CN=system:node:n,DNS=n,email=a@b",  "digital signature,server auth",                     "Email subjectAltNames are not allowed"),
            (KubeletServing,  "O=system:nodes,CN=system:node:n,DNS=n,URI=a://b",  "digital signature,server auth",                     "URI subjectAltNames are not allowed"),
            (KubeletServing,  "O=system:nodes,CN=other,DNS=n",                    "digital signature,server auth",                     OTHER_NAME),
            (KubeletServing,  "O=system:nodes,CN=other,DNS=n",                    "digital signature,client auth",                     SERVER),
            (KubeletServing,  "O=system:masters,CN=system:node:n,DNS=n",          "digital signature,server auth",                     OTHER_ORGANIZATION),
            (ApiServerClient, "CN=jane",                                          "client auth",                                       ""),
            (ApiServerClient, "O=a,O=b,CN=jane,DNS=x",                            "client auth,digital signature,key encipherment",    ""),
            (ApiServerClient, "CN=jane",                                          "digital signature",                                 "missing required usage for client certificate: client auth"),
            (ApiServerClient, "CN=jane",                                          "server auth,client auth",                           "invalid usage for client certificate: server auth"),
            (LegacyUnknown,   "CN=anything",                                      "any",                                               ""),
        ];
        for (signer, text, usages, want) in table {
            let usages: Vec<&str> = usages.split(',').collect();
            let got = signer.objection(&request(text), &usages).unwrap_or_default();
            assert_eq!(got, want, "{signer:?} {text} {usages:?}");
        }
    }
}
