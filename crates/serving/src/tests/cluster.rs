//! The cluster's CAs: what is in the ConfigMap, what is missing, and what is invalid.

use super::*;

/// An API server with one response.
struct Answers(u16, Value);

impl Transport for Answers {
    fn send(
        &self,
        _request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let body = Full::from(self.1.to_string()).map_err(|never| match never {}).boxed_unsync();
        let answer = http::Response::builder().status(self.0).body(body).unwrap();
        Box::pin(async move { Ok(answer) })
    }
}

async fn read(code: u16, answer: Value) -> Result<(), String> {
    let client = Client::new(Arc::new(Answers(code, answer)), ClientOptions::default());
    ClusterCa::default().read(&client).await.map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_missing_config_map_is_no_error_and_an_unreadable_one_is() {
    let status = |reason: &str, code: u16| json!({"kind": "Status", "reason": reason, "code": code});
    let data = |key: &str, value: &str| json!({"data": {key: value}});
    assert_eq!(read(200, json!({"data": {}})).await, Ok(()));
    assert_eq!(read(200, data("requestheader-allowed-names", "null")).await, Ok(()));
    assert_eq!(read(404, status("NotFound", 404)).await, Ok(()));
    #[rustfmt::skip]
    let table = [
        (403, status("Forbidden", 403),                             "cannot read ConfigMap kube-system/extension-apiserver-authentication"),
        (500, status("InternalError", 500),                         "cannot read ConfigMap"),
        (200, data("client-ca-file", "rubbish"),                    "client-ca-file holds no certificate"),
        (200, data("requestheader-allowed-names", "front-proxy"),   "requestheader-allowed-names is not a list"),
        (200, data("requestheader-group-headers", "[1]"),           "requestheader-group-headers is not a list"),
    ];
    for (code, answer, want) in table {
        let problem = read(code, answer.clone()).await.unwrap_err();
        assert!(problem.contains(want), "{answer}: {problem}");
    }
}

#[tokio::test]
async fn front_proxies_are_not_trusted_if_their_names_are_invalid() {
    let proxies = Ca::new();
    let map = |names: &str| {
        json!({"data": {
            "requestheader-client-ca-file": proxies.pem,
            "requestheader-allowed-names": names,
            "requestheader-username-headers": "[\"X-Remote-User\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
        }})
    };
    let speaks: Headers<'_> = &[("x-remote-user", "bob"), ("x-remote-group", "system:masters")];
    #[rustfmt::skip]
    let table: &[(&str, &[&str], u16, u16)] = &[
        // case                      names, one update after the other       front-proxy  someone
        ("one name",                 &["[\"front-proxy\"]"],                    200, 401),
        ("any name",                 &["[]"],                                   200, 200),
        ("no list",                  &["front-proxy"],                          403, 403),
        ("half a list",              &["[\"front-proxy\""],                     403, 403),
        ("no list after one",        &["[\"front-proxy\"]", "front-proxy"],     200, 401),
        ("one after no list",        &["front-proxy", "[\"front-proxy\"]"],     200, 401),
    ];
    for (case, updates, named, other) in table {
        let cluster = ClusterCa::default();
        for names in *updates {
            let _ = cluster.apply(&map(names));
        }
        let bench = Bench::with_cluster(pages(), AuthenticationOptions::default(), Some(cluster));
        for (name, code) in [("front-proxy", named), ("someone", other)] {
            let proxy = proxies.client(name, "x");
            let (status, _, _) = bench.send(Method::GET, "/configz", speaks, "", &proxy).await;
            assert_eq!(status.as_u16(), *code, "{case}: {name}");
        }
    }
}

#[tokio::test]
async fn a_subject_is_read_as_a_whole_or_not_at_all() {
    use rcgen::DnType::{CommonName, CustomDnType, OrganizationName};
    let uid = || CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
    let wide = |text: &str| rcgen::DnValue::BmpString(text.try_into().unwrap());
    let text = |text: &str| rcgen::DnValue::Utf8String(text.to_owned());
    let (ca, cluster) = (Ca::new(), ClusterCa::default());
    cluster.apply(&json!({"data": {"client-ca-file": ca.pem}})).unwrap();
    #[rustfmt::skip]
    let table = [
        // case                            subject                                                        code  UID
        ("a name",                         vec![(CommonName, text("alice"))],                              200, ""),
        ("a name and a UID",               vec![(CommonName, text("alice")), (uid(), text("17"))],         200, "17"),
        ("an empty UID",                   vec![(CommonName, text("alice")), (uid(), text(""))],           401, ""),
        ("a name we cannot read",          vec![(CommonName, wide("alice"))],                              401, ""),
        ("a group we cannot read",         vec![(CommonName, text("alice")), (OrganizationName, wide("x"))], 401, ""),
        ("no name",                        vec![(OrganizationName, text("system:masters"))],               403, ""),
    ];
    for (case, subject, code, uid) in table {
        let bench = Bench::with_cluster(pages(), AuthenticationOptions::default(), Some(cluster.clone()));
        let mut parameters = rcgen::CertificateParams::new(vec![]).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in subject {
            parameters.distinguished_name.push(kind, value);
        }
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &ca.issuer).unwrap();
        let peer = Peer { certificates: vec![CertificateDer::from(certificate.der().to_vec())] };
        let (status, _, body) = bench.send(Method::GET, "/metrics", &[], "", &peer).await;
        assert_eq!(status.as_u16(), code, "{case}: {body}");
        let asked = bench.reviews.asked.lock();
        let asked = asked.first().map(|review| review["spec"]["uid"].as_str().unwrap_or_default());
        assert_eq!(asked.unwrap_or_default(), uid, "{case}");
    }
}
