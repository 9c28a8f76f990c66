//! Requests, mostly without sockets. The expected responses were recorded from upstream's server.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, LazyLock,
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

mod certificates;
mod cluster;
mod hostile;
mod logging;
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
    static STATE: LazyLock<Arc<String>> = LazyLock::new(|| Arc::new("page".to_owned()));
    let pages = DebugPages::default();
    pages.offer("a-controller", &STATE, |state, page, query| {
        let body = format!("{page} {}", query("x").join(","));
        (page == *state).then_some(DebugPage { content_type: "text/plain", body })
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
        mounted: None,
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
        let (head, body) = answer.into_parts();
        let text = body.collect().await.unwrap().to_bytes();
        let answer = Answer::from_parts(head, Full::new(text.clone()).boxed_unsync());
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

/// A page of another crate that says which path it got.
fn mounted() -> Mounted {
    let answer = |head: http::request::Parts| {
        let text = format!("mounted {}", head.uri.path());
        Box::pin(async move { answer::text(StatusCode::OK, text) }) as BoxFuture<'static, Answer>
    };
    Mounted { path: "/ui", answer: Arc::new(answer) }
}

#[tokio::test]
async fn mounted_pages_are_authorized_by_their_path_and_hidden_with_debug() {
    let (ca, cluster) = (Ca::new(), ClusterCa::default());
    cluster.apply(&json!({"data": {"client-ca-file": ca.pem}})).unwrap();
    let (admin, stranger) = (ca.client("admin", "system:masters"), Peer::default());
    #[rustfmt::skip]
    let table = [
        // debug   path              who         code
        (true,  "/ui",            &admin,     200),
        (true,  "/ui/stream?a=b", &admin,     200),
        (true,  "/uid",           &admin,     404),
        (true,  "/ui",            &stranger,  403),
        (true,  "/ui/main.js",    &stranger,  403),
        (false, "/ui",            &admin,     404),
    ];
    for (debug, path, peer, want) in table {
        let pages = Pages { debug, mounted: Some(mounted()), ..pages() };
        let bench = Bench::with_cluster(pages, AuthenticationOptions::default(), Some(cluster.clone()));
        let (code, _, text) = bench.send(Method::GET, path, &[], "", peer).await;
        assert_eq!(code.as_u16(), want, "{path}: {text}");
        assert_eq!(text.contains("mounted"), want == 200, "{path}: {text}");
    }
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
