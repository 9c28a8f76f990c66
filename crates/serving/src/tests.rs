//! Requests, mostly without sockets. The expected responses were recorded from upstream's server.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use flyball_client::{Body, Client, ClientOptions, Transport, TransportError};
use flyball_runtime::DebugPage;
use futures::future::BoxFuture;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};

use super::{answer::Answer, *};

mod cluster;
mod hostile;
mod reviewing;

/// An API server that answers reviews: token `good` is alice's; alice may get /metrics.
#[derive(Default)]
struct Reviews {
    asked: Mutex<Vec<Value>>,
    failing: AtomicUsize,
}

struct ReviewWire(Arc<Reviews>);

impl Transport for ReviewWire {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        let server = self.0.clone();
        Box::pin(async move {
            let mut review: Value = serde_json::from_slice(request.body()).unwrap();
            server.asked.lock().push(review.clone());
            let failing = server.failing.load(Ordering::Relaxed);
            let code = if failing > 0 { 500 } else { 201 };
            server.failing.store(failing.saturating_sub(1), Ordering::Relaxed);
            review["status"] = match review["kind"].as_str() {
                Some("TokenReview") if review["spec"]["token"] == "good" => {
                    json!({"authenticated": true, "user": {"username": "alice", "groups": ["people"]}})
                }
                Some("TokenReview") if review["spec"]["token"] == "unsure" => {
                    json!({"authenticated": false, "error": "the issuer cannot be reached"})
                }
                Some("TokenReview") => json!({"authenticated": false}),
                _ => {
                    let spec = &review["spec"];
                    let path = spec["nonResourceAttributes"]["path"] == "/metrics";
                    json!({"allowed": path && spec["user"] == "alice"})
                }
            };
            let body = Full::from(review.to_string()).map_err(|never| match never {}).boxed_unsync();
            Ok(http::Response::builder().status(code).body(body).unwrap())
        })
    }
}

/// One controller with one page, which shows its parameters.
fn controllers() -> DebugPages {
    let pages = DebugPages::default();
    pages.offer("a-controller", |page, query| {
        let body = format!("{page} {}", query("x").join(","));
        (page == "page").then_some(DebugPage { content_type: "text/plain", body })
    });
    pages
}

fn pages() -> Pages {
    Pages {
        configz: "{}".to_owned(),
        flagz: Some(BTreeMap::from([("v".to_owned(), "2".to_owned()), ("master".to_owned(), String::new())])),
        statusz: Some("1.36".to_owned()),
        debug: true,
        metrics: Metrics::default(),
        checks: Arc::new(|| {
            vec![("leaderElection".to_owned(), Ok(())), ("job-controller".to_owned(), Ok(()))]
        }),
        remarks: Arc::new(BTreeMap::new),
        decisions: Some(DecisionLog::default()),
        controllers: controllers(),
        set_verbosity: None,
        now: Arc::new(Timestamp::now),
    }
}

struct Bench {
    server: Server,
    reviews: Arc<Reviews>,
}

impl Bench {
    fn new(pages: Pages, authentication: AuthenticationOptions) -> Self {
        Self::with_cluster(pages, authentication, None)
    }

    fn with_cluster(pages: Pages, authentication: AuthenticationOptions, cluster: Option<ClusterCa>) -> Self {
        let reviews = Arc::new(Reviews::default());
        let client = || Some(Client::new(Arc::new(ReviewWire(reviews.clone())), ClientOptions::default()));
        let metrics = pages.metrics.clone();
        let authenticator = Authenticator::new(&authentication, client(), cluster, metrics.clone()).unwrap();
        let authorizer = Authorizer::new(&AuthorizationOptions::default(), client(), metrics);
        Self { server: Server::new(pages, authenticator, authorizer), reviews }
    }

    async fn get(&self, path: &str, headers: Headers<'_>) -> (StatusCode, Answer, String) {
        self.send(Method::GET, path, headers, "", &Peer::default()).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: Headers<'_>,
        body: &str,
        peer: &Peer,
    ) -> (StatusCode, Answer, String) {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.server.answer(request.body(Full::from(body.to_owned())).unwrap(), peer).await;
        let text = answer.body().clone().collect().await.unwrap().to_bytes();
        (answer.status(), answer, String::from_utf8(text.to_vec()).unwrap())
    }
}

type Headers<'a> = &'a [(&'a str, &'a str)];

const GOOD: Headers<'_> = &[("authorization", "Bearer good")];

#[tokio::test(start_paused = true)]
async fn who_may_see_what() {
    #[rustfmt::skip]
    let table: &[(&str, Headers<'_>, u16)] = &[
        // path              headers                              code
        ("/healthz",         &[],                                 200),
        ("/healthz",         &[("authorization", "Bearer bad")],  401),
        ("/healthz",         &[("authorization", "Basic eDp5")],  200),
        ("/livez",           &[],                                 200),
        ("/readyz",          &[],                                 200),
        ("/metrics",         &[],                                 403),
        ("/metrics",         &[("authorization", "bearer good")], 200),
        ("/metrics",         &[("authorization", "bearer good luck")], 200),
        ("/metrics",         &[("authorization", "bearer  good")], 403),
        ("/metrics",         &[("authorization", "bearer")],      403),
        ("/metrics",         &[("authorization", "bearer g\u{fc}t")], 401),
        ("/%6detrics",       GOOD,                                200),
        ("/metrics%2fslis",  GOOD,                                403),
        ("/%6",              GOOD,                                400),
        ("/metrics/slis",    GOOD,                                403),
        ("/configz",         GOOD,                                403),
        ("/nowhere",         &[],                                 403),
        ("/healthz/anything", &[],                                403),
        ("/metrics",         &[("x-remote-user", "admin"), ("x-remote-group", "system:masters")], 403),
    ];
    let bench = Bench::new(pages(), AuthenticationOptions::default());
    for (path, headers, code) in table {
        let (status, answer, _) = bench.get(path, headers).await;
        assert_eq!(status.as_u16(), *code, "{path} {headers:?}");
        assert_eq!(answer.headers()[header::CACHE_CONTROL], "no-cache, private", "{path}");
    }
}

#[tokio::test]
async fn a_head_request_gets_no_body_and_its_length() {
    let bench = Bench::new(pages(), AuthenticationOptions::default());
    let (status, answer, body) = bench.send(Method::HEAD, "/healthz", &[], "", &Peer::default()).await;
    assert_eq!((status.as_u16(), body.as_str()), (200, ""));
    assert_eq!(answer.headers()[header::CONTENT_LENGTH], "2");
}

#[tokio::test(start_paused = true)]
async fn looking_up_a_token_is_counted() {
    let pages = pages();
    let metrics = pages.metrics.clone();
    let bench = Bench::new(pages, AuthenticationOptions::default());
    for token in ["Bearer good", "Bearer good", "Bearer bad"] {
        bench.get("/healthz", &[("authorization", token)]).await;
    }
    let text = metrics.text();
    for line in [
        "authentication_token_cache_request_total{status=\"hit\"} 1\n",
        "authentication_token_cache_request_total{status=\"miss\"} 2\n",
        "authentication_token_cache_fetch_total{status=\"ok\"} 1\n",
        "authentication_token_cache_fetch_total{status=\"error\"} 1\n",
        "authentication_token_cache_active_fetch_count{status=\"in_flight\"} 0\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}

#[tokio::test]
async fn refusals_are_upstreams_byte_for_byte() {
    let bench = Bench::new(pages(), AuthenticationOptions::default());
    let (_, answer, body) = bench.get("/metrics", &[]).await;
    let want = r#"{
  "kind": "Status",
  "apiVersion": "v1",
  "metadata": {},
  "status": "Failure",
  "message": "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"",
  "reason": "Forbidden",
  "details": {},
  "code": 403
}"#;
    assert_eq!(body, want);
    assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
    let (_, answer, body) = bench.get("/metrics", &[("authorization", "Bearer bad")]).await;
    assert!(body.contains("\"reason\": \"Unauthorized\",\n  \"code\": 401\n}"), "{body}");
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/json");
    let (_, _, body) = bench.get("/a&b", &[]).await;
    assert!(body.contains("/a&amp;b"), "{body}");
}

#[tokio::test(start_paused = true)]
async fn reviews_are_remembered_for_their_time_and_repeated_after_failures() {
    let bench = Bench::new(pages(), AuthenticationOptions::default());
    let asked = || bench.reviews.asked.lock().len();
    for _ in 0..3 {
        assert_eq!(bench.get("/metrics", GOOD).await.0, 200);
    }
    assert_eq!(asked(), 2, "one token review and one access review");
    tokio::time::sleep(Duration::from_secs(11)).await;
    bench.reviews.failing.store(2, Ordering::Relaxed);
    assert_eq!(bench.get("/metrics", GOOD).await.0, 200);
    assert_eq!(asked(), 2 + 2 + 2, "two failures and two answers");
    let access = bench.reviews.asked.lock()[1].clone();
    assert_eq!(access["spec"]["nonResourceAttributes"], json!({"path": "/metrics", "verb": "get"}));
    assert_eq!(access["spec"]["groups"], json!(["people", "system:authenticated"]));
}

#[tokio::test(start_paused = true)]
async fn no_one_is_allowed_if_the_api_server_is_unreachable() {
    let bench = Bench::new(pages(), AuthenticationOptions::default());
    bench.reviews.failing.store(1000, Ordering::Relaxed);
    assert_eq!(bench.get("/metrics", GOOD).await.0, 401);
    assert_eq!(bench.get("/metrics", &[]).await.0, 500);
    assert_eq!(bench.get("/healthz", &[]).await.0, 200);
}

#[tokio::test]
async fn health_shows_every_check_but_no_reasons() {
    let mut pages = pages();
    let bench = Bench::new(pages.clone(), AuthenticationOptions::default());
    #[rustfmt::skip]
    let table = [
        ("/healthz",                                 "ok"),
        ("/healthz?verbose",                         "[+]leaderElection ok\n[+]job-controller ok\nhealthz check passed\n"),
        ("/readyz?verbose",                          "[+]leaderElection ok\n[+]job-controller ok\nreadyz check passed\n"),
        ("/healthz?verbose&exclude=leaderElection&exclude=bar",
            "[+]leaderElection excluded: ok\n[+]job-controller ok\n\
             warn: some health checks cannot be excluded: no matches for \"bar\"\nhealthz check passed\n"),
        ("/healthz?exclude=job%2Dcontroller&verbose=1",
            "[+]leaderElection ok\n[+]job-controller excluded: ok\nhealthz check passed\n"),
    ];
    for (path, want) in table {
        assert_eq!(bench.get(path, &[]).await.2, want, "{path}");
    }
    pages.remarks =
        Arc::new(|| BTreeMap::from([("job-controller".to_owned(), "1 key in quarantine".to_owned())]));
    let remarked = Bench::new(pages.clone(), AuthenticationOptions::default());
    assert_eq!(remarked.get("/healthz", &[]).await.2, "ok");
    let verbose = "[+]leaderElection ok\n[+]job-controller ok (1 key in quarantine)\nhealthz check passed\n";
    assert_eq!(remarked.get("/healthz?verbose", &[]).await.2, verbose);
    pages.checks = Arc::new(|| vec![("ill".to_owned(), Err("the database is on fire".to_owned()))]);
    let bench = Bench::new(pages, AuthenticationOptions::default());
    let (status, answer, body) = bench.get("/healthz", &[]).await;
    assert_eq!(
        (status.as_u16(), body.as_str()),
        (500, "[-]ill failed: reason withheld\nhealthz check failed\n")
    );
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/plain; charset=utf-8");
    assert_eq!(bench.get("/healthz?exclude=ill", &[]).await.0, 200);
}

/// A CA for tests.
struct Ca {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    pem: String,
}

impl Ca {
    fn new() -> Self {
        let mut parameters = rcgen::CertificateParams::new(vec![]).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = parameters.self_signed(&key).unwrap().pem();
        Self { issuer: rcgen::Issuer::new(parameters, key), pem }
    }

    fn client(&self, name: &str, group: &str) -> Peer {
        let mut parameters = rcgen::CertificateParams::new(vec![]).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        parameters.distinguished_name.push(rcgen::DnType::OrganizationName, group);
        parameters.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        Peer { certificates: vec![CertificateDer::from(certificate.der().to_vec())] }
    }
}

#[tokio::test]
async fn certificates_identify_clients_and_front_proxies_impersonate_users() {
    let (clients, proxies, strangers) = (Ca::new(), Ca::new(), Ca::new());
    let cluster = ClusterCa::default();
    cluster
        .apply(&json!({"data": {
            "client-ca-file": clients.pem,
            "requestheader-client-ca-file": proxies.pem,
            "requestheader-allowed-names": "[\"front-proxy-client\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
        }}))
        .unwrap();
    let bench = Bench::with_cluster(pages(), AuthenticationOptions::default(), Some(cluster.clone()));
    let speaks: Headers<'_> = &[("x-remote-user", "bob"), ("x-remote-group", "system:masters")];
    #[rustfmt::skip]
    let table: &[(&str, Peer, Headers<'_>, u16)] = &[
        ("a master's certificate",           clients.client("admin", "system:masters"),     &[],    200),
        ("somebody's certificate",           clients.client("carol", "people"),             &[],    403),
        ("headers without being a proxy",    clients.client("carol", "people"),             speaks, 403),
        ("a proxy speaking for a master",    proxies.client("front-proxy-client", "x"),     speaks, 200),
        ("a proxy speaking for nobody",      proxies.client("front-proxy-client", "x"),     &[],    401),
        ("a proxy of another name",          proxies.client("someone", "x"),                speaks, 401),
        ("a certificate of a stranger",      strangers.client("admin", "system:masters"),   &[],    401),
        ("a certificate that is none",       Peer { certificates: vec![vec![1, 2, 3].into()] }, &[], 401),
        ("no certificate",                   Peer::default(),                               speaks, 403),
    ];
    for (case, peer, headers, code) in table {
        let (status, _, body) = bench.send(Method::GET, "/configz", headers, "", peer).await;
        assert_eq!(status.as_u16(), *code, "{case}: {body}");
    }
    // An invalid update does not change the CAs.
    cluster.apply(&json!({"data": {"client-ca-file": "rubbish"}})).unwrap_err();
    let admin = clients.client("admin", "system:masters");
    assert_eq!(bench.send(Method::GET, "/configz", &[], "", &admin).await.0, 200);
}

#[tokio::test]
async fn pages_for_authorized_users() {
    let ca = Ca::new();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.crt");
    std::fs::write(&file, &ca.pem).unwrap();
    let level = Arc::new(AtomicU32::new(0));
    let set = level.clone();
    let mut pages = pages();
    pages.set_verbosity = Some(Arc::new(move |wanted| set.store(wanted, Ordering::Relaxed)));
    let options = AuthenticationOptions { client_ca_file: file.display().to_string(), ..Default::default() };
    let bench = Bench::new(pages, options);
    let admin = ca.client("admin", "system:masters");
    #[rustfmt::skip]
    let table: &[(&str, &str, &str, &str, u16, &str)] = &[
        // method path             accept  body   code  contains
        ("GET", "/nowhere",        "",     "",    404, "404 page not found\n"),
        ("GET", "/healthz/job-controller", "", "", 404, "404 page not found\n"),
        ("GET", "/configz",        "",     "",    200, "{}"),
        ("GET", "/metrics",        "",     "",    200, "# TYPE process_start_time_seconds gauge\n"),
        ("GET", "/flagz",          "",     "",    200, "\nkube-controller-manager flagz\nWarning: "),
        ("GET", "/flagz",          "",     "",    200, "\nmaster: \nv: 2\n"),
        ("GET", "/flagz",          "application/json", "", 406, "only the following media types are accepted: application/json, application/yaml, text/plain"),
        ("GET", "/flagz",          "application/json;v=v1beta1;g=config.k8s.io;as=Flagz", "", 200, "\"flags\": {\n    \"master\": \"\",\n    \"v\": \"2\"\n  }"),
        ("GET", "/statusz",        "",     "",    200, "Paths: /configz /flagz /healthz /metrics\n"),
        ("GET", "/statusz",        "application/yaml;v=v1alpha1;g=config.k8s.io;as=Statusz", "", 200, "apiVersion: config.k8s.io/v1alpha1\n"),
        ("GET", "/debug/flags/v",  "",     "",    406, "unsupported http method\n"),
        ("PUT", "/debug/flags/v",  "",     "4",   200, "successfully set klog.logging.verbosity to 4\n"),
        ("PUT", "/debug/flags/v",  "",     "abc", 400, "\"abc\" is not a number\n"),
        ("GET", "/debug/decisions", "",    "",    200, "{\"decisions\":[],\"forgotten\":0}"),
        ("GET", "/debug/waiting",  "",     "",    200, "{\"waiting\":[]}"),
        ("GET", "/debug/waiting?limit=x", "", "", 400, "limit=\"x\" is not a number\n"),
        ("GET", "/debug/waiting?pod=x",   "", "", 400, "\"pod\" is none of controller, kind, namespace, name, limit\n"),
        ("GET", "/debug/pprof/",   "",     "",    404, "no Go runtime"),
        ("GET", "/debug/controllers/a-controller/page?x=1&x=2", "", "", 200, "page 1,2"),
        ("GET", "/debug/controllers/a-controller/other",        "", "", 404, "404 page not found\n"),
        ("GET", "/debug/controllers/b-controller/page",         "", "", 404, "404 page not found\n"),
        ("GET", "/debug/controllers/",                          "", "", 404, "404 page not found\n"),
        ("GET", "/debug/controllers/a-controller%2Fpage?x=1%202", "", "", 200, "page 1 2"),
        ("POST", "/metrics",       "",     "x",   200, "# TYPE "),
    ];
    for (method, path, accept, body, code, want) in table {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let (status, _, text) = bench.send(method, path, &[("accept", accept)], body, &admin).await;
        assert_eq!(status.as_u16(), *code, "{path}: {text}");
        assert!(text.contains(want), "{path}: {text}");
    }
    assert_eq!(level.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn profiling_hides_its_own_pages_and_no_others() {
    let (ca, cluster) = (Ca::new(), ClusterCa::default());
    cluster.apply(&json!({"data": {"client-ca-file": ca.pem}})).unwrap();
    let pages = Pages { debug: false, ..pages() };
    let bench = Bench::with_cluster(pages, AuthenticationOptions::default(), Some(cluster));
    let admin = ca.client("admin", "system:masters");
    #[rustfmt::skip]
    let table = [
        ("/debug/controllers/a-controller/page?x=1", 200),
        ("/debug/flags/v",                           404),
        ("/debug/decisions",                         404),
        ("/debug/waiting",                           404),
        ("/debug/pprof/",                            404),
    ];
    for (path, code) in table {
        assert_eq!(bench.send(Method::GET, path, &[], "", &admin).await.0.as_u16(), code, "{path}");
    }
}

#[test]
fn digests_are_sha_256() {
    let hex: String = certs::sha256(b"abc").unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

proptest::proptest! {
    #[test]
    fn no_request_panics(path in "/[a-z/]{0,12}", query in "[a-z%+&=0-9]{0,24}", accept in "[a-z0-9*/;=,. ]{0,40}") {
        let target = format!("{path}?{query}");
        if let Ok(request) = Request::get(&target).header("accept", &accept).body(()) {
            routes::route(&pages(), &request.into_parts().0, &path, &Bytes::new());
        }
        for page in ["/healthz", "/flagz", "/statusz", "/debug/decisions", "/debug/waiting", "/debug/flags/v"] {
            let target = format!("{page}?{query}");
            if let Ok(request) = Request::put(&target).header("accept", &accept).body(()) {
                routes::route(&pages(), &request.into_parts().0, page, &Bytes::from(query.clone()));
            }
        }
    }
}

#[test]
fn invalid_options_are_named_in_the_error() {
    #[rustfmt::skip]
    let table = [
        (ServingOptions { min_version: "TLS1".into(), ..Default::default() },                "--tls-min-version"),
        (ServingOptions { cipher_suites: vec!["ROT13".into()], ..Default::default() },       "\"ROT13\""),
        (ServingOptions { cipher_suites: vec!["TLS_RSA_WITH_RC4_128_SHA".into()], ..Default::default() }, "none of those given can be used"),
        (ServingOptions { cert_file: "x.crt".into(), ..Default::default() },                 "--tls-private-key-file"),
    ];
    for (options, want) in table {
        let problems = tls_problems(&options).join("; ");
        assert!(problems.contains(want), "{problems}");
    }
    let missing =
        ServingOptions { cert_file: "none.crt".into(), key_file: "none.key".into(), ..Default::default() };
    assert!(tls::server_config(&missing).unwrap_err().contains("none.crt"));
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/keys");
    let file = |end: &str| format!("{keys}/small.{end}");
    let options =
        ServingOptions { cert_file: file("crt"), key_file: file("key"), ..ServingOptions::default() };
    let problem = tls::server_config(&options).unwrap_err();
    for want in [file("key").as_str(), "it has 1024 bits", flyball_tls::KEYS] {
        assert!(problem.contains(want), "{problem}");
    }
    let good =
        ["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_RSA_WITH_RC4_128_SHA"].map(str::to_owned).to_vec();
    assert!(tls_problems(&ServingOptions { cipher_suites: good, ..Default::default() }).is_empty());
}

/// One request over TLS; what protocol was spoken, and the answer's code.
async fn fetch(
    address: std::net::SocketAddr,
    config: rustls::ClientConfig,
) -> Result<(Vec<u8>, u16), String> {
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let stream = tokio::net::TcpStream::connect(address).await.map_err(|e| e.to_string())?;
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let stream = stream.map_err(|e| e.to_string())?;
    let protocol = stream.get_ref().1.alpn_protocol().unwrap_or_default().to_vec();
    let request = Request::get("https://localhost/healthz").body(Full::<Bytes>::default()).unwrap();
    let (mut send, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(|e| e.to_string())?;
    tokio::spawn(connection);
    let answer = send.send_request(request).await.map_err(|e| e.to_string())?;
    Ok((protocol, answer.status().as_u16()))
}

#[tokio::test]
async fn large_keys_are_served_and_accepted_from_clients() {
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject as _;
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../keys/testdata");
    let file = |name: &str| format!("{data}/{name}");
    let read = |name: &str| std::fs::read(file(name)).unwrap();
    let bundle = [read("ca-p521.crt"), read("ca-rsa16384.crt")].concat();
    let provider = Arc::new(flyball_tls::provider());
    for (served, shown, want) in [
        ("p521", "rsa8192", Ok((b"h2".to_vec(), 200))),
        ("rsa8192", "p521", Ok((b"h2".to_vec(), 200))),
        ("p521", "rsa16384", Err(())),
    ] {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let options = ServingOptions {
            bind_address: free.ip(),
            port: free.port().into(),
            cert_file: file(&format!("{served}.crt")),
            key_file: file(&format!("{served}.key")),
            ..ServingOptions::default()
        };
        let bench = Bench::new(pages(), AuthenticationOptions::default());
        let listening = bench.server.listen(&options).unwrap().unwrap();
        let mut config = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(certs::roots(&bundle, "the bundle").unwrap())
            .with_client_auth_cert(
                certs::certificates(&read(&format!("{shown}.crt")), shown).unwrap(),
                PrivateKeyDer::from_pem_slice(&read(&format!("{shown}.key"))).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let got = fetch(listening.address, config).await;
        assert_eq!(got.clone().map_err(|_| ()), want, "{served} to {shown}: {got:?}");
    }
    // A certificate that one of these authorities has signed is its user's.
    let authority = subject::authority(certs::roots(&bundle, "the bundle").unwrap()).unwrap();
    for name in ["p521.crt", "rsa8192.crt"] {
        let certificates = certs::certificates(&read(name), name).unwrap();
        let peer = Peer { certificates };
        let subject = subject::verified(&authority, &peer).unwrap().unwrap();
        assert_eq!(subject.name, "system:kube-controller-manager", "{name}");
    }
}

#[tokio::test]
async fn the_self_signed_certificate_serves_localhost_and_is_kept_in_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = ServingOptions {
        bind_address: free.ip(),
        port: free.port().into(),
        cert_dir: dir.path().display().to_string(),
        ..ServingOptions::default()
    };
    let bench = Bench::new(pages(), AuthenticationOptions::default());
    let listening = bench.server.listen(&options).unwrap().unwrap();
    let pem = std::fs::read(dir.path().join("kube-controller-manager.crt")).unwrap();
    let roots = certs::roots(&pem, "the pair").unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = |version| {
        let builder = rustls::ClientConfig::builder_with_provider(provider.clone());
        let mut config = builder
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        config
    };
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        assert_eq!(fetch(listening.address, client(version)).await, Ok((b"h2".to_vec(), 200)));
    }
    // Another pair in its place is served without a restart.
    let (cert, key) = certs::self_signed().unwrap();
    std::fs::write(dir.path().join("kube-controller-manager.key"), &key).unwrap();
    std::fs::write(dir.path().join("kube-controller-manager.crt"), &cert).unwrap();
    let mut renewed = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(certs::roots(cert.as_bytes(), "the new pair").unwrap())
        .with_no_client_auth();
    renewed.alpn_protocols = vec![b"h2".to_vec()];
    let served = async {
        while fetch(listening.address, renewed.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), served).await.expect("the new pair is served");
    // The port is taken: the error says where and what to change.
    let again = Bench::new(pages(), AuthenticationOptions::default()).server.listen(&options);
    let message = again.unwrap_err().to_string();
    assert!(
        message.contains(&listening.address.to_string()) && message.contains("--secure-port"),
        "{message}"
    );
    drop(listening);
    let none = ServingOptions { port: 0, ..options };
    assert!(Bench::new(pages(), AuthenticationOptions::default()).server.listen(&none).unwrap().is_none());
}
