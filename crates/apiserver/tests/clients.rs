//! Other clients: `kube::Client` on the library without a socket and over HTTPS with a certificate, and clients that accept
//! gzip.

#![allow(clippy::unwrap_used)] // errors should fail the test

use std::io::Read as _;

use bytes::Bytes;
use flyball_apiserver::pki::Ca;
use flyball_apiserver::{ApiServer, Authorization, Options, serve, tls};
use futures::{StreamExt as _, TryStreamExt as _};
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tower::ServiceExt as _;

fn server() -> ApiServer {
    ApiServer::new(Options { authorization: Authorization::AlwaysAllow, ..Options::default() }).unwrap()
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"key": value}})).unwrap()
}

#[tokio::test]
async fn a_kube_client_sits_on_the_library() {
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(server(), "default"));
    let made = maps.create(&PostParams::default(), &config_map("one", "a")).await.unwrap();
    let list = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.iter().map(|map| map.name_any()).collect::<Vec<_>>(), ["one"]);

    let since = made.resource_version().unwrap();
    let mut seen = maps.watch(&WatchParams::default(), &since).await.unwrap().boxed();
    let apply = Patch::Apply(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"other": "b"},
    }));
    let patched = maps.patch("one", &PatchParams::apply("test"), &apply).await.unwrap();
    assert_eq!(patched.data.unwrap().into_iter().collect::<Vec<_>>().len(), 2);
    maps.delete("one", &DeleteParams::default()).await.unwrap();
    assert!(matches!(seen.try_next().await.unwrap(), Some(WatchEvent::Modified(_))));
    assert!(matches!(seen.try_next().await.unwrap(), Some(WatchEvent::Deleted(_))));
    let gone = maps.get("one").await.unwrap_err();
    assert!(matches!(gone, kube::Error::Api(status) if status.is_not_found()));
}

#[tokio::test]
async fn a_client_certificate_is_a_user() {
    let ca = Ca::new("test-ca").unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = tls(&ca.server(&["127.0.0.1".to_owned()]).unwrap(), Some(&ca.pair.cert)).unwrap();
    let serving = tokio::spawn(serve(server(), listener, acceptor, std::future::pending()));

    let shown = ca.client("jane", "painters").unwrap();
    let kubeconfig = json!({
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "jane"}}],
        "clusters": [{"name": "it", "cluster": {
            "server": format!("https://{address}"), "certificate-authority-data": base64(&ca.pair.cert),
        }}],
        "users": [{"name": "jane", "user": {
            "client-certificate-data": base64(&shown.cert), "client-key-data": base64(&shown.key),
        }}],
    });
    let kubeconfig = serde_json::from_value(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    let reviews: Api<SelfSubjectReview> = Api::all(Client::try_from(config).unwrap());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let user = review.status.and_then(|status| status.user_info).unwrap();
    assert_eq!(user.username.as_deref(), Some("jane"));
    assert_eq!(user.groups.unwrap(), ["painters", "system:authenticated"]);
    serving.abort();
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[tokio::test]
async fn long_answers_are_compressed_for_who_asks() {
    let server = server();
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::new(server.clone(), "default"));
    for n in 0..4 {
        let map = config_map(&format!("big-{n}"), &"x".repeat(50_000));
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    let list = |encoding: &'static str| {
        let request = Request::get("/api/v1/namespaces/default/configmaps")
            .header(header::ACCEPT_ENCODING, encoding)
            .body(Full::new(Bytes::new()))
            .unwrap();
        let server = server.clone();
        async move {
            let response = server.oneshot(request).await.unwrap();
            let encoding = response.headers().get(header::CONTENT_ENCODING).cloned();
            (encoding, response.into_body().collect().await.unwrap().to_bytes())
        }
    };
    let (encoding, plain) = list("identity").await;
    assert_eq!(encoding, None);
    let (encoding, packed) = list("gzip").await;
    assert_eq!(encoding.unwrap(), "gzip");
    assert!(packed.len() * 10 < plain.len(), "{} bytes of {}", packed.len(), plain.len());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain);
}

#[tokio::test]
async fn a_head_over_http_2_has_no_body() {
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let (client, theirs) = tokio::io::duplex(64 << 10);
    let service = hyper_util::service::TowerToHyperService::new(server());
    let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(theirs), service);
    let serving = tokio::spawn(serving);
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client));
    let (mut sender, connection) = handshake.await.unwrap();
    let connected = tokio::spawn(connection);
    for (method, has_body) in [("GET", true), ("HEAD", false)] {
        for path in ["/api/v1/namespaces/default", "/api/v1/namespaces/nope", "/apis"] {
            let request = Request::builder().method(method).uri(format!("http://server{path}"));
            let response =
                sender.send_request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(!body.is_empty(), has_body, "{method} {path}: {body:?}");
        }
    }
    drop(sender);
    connected.await.unwrap().unwrap();
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_dry_run_may_be_asked_for_in_protocol_buffers() {
    let field =
        |number: u8, body: &[u8]| [&[number << 3 | 2, u8::try_from(body.len()).unwrap()], body].concat();
    let meta = [field(1, b"v1"), field(2, b"DeleteOptions")].concat();
    let options = [b"k8s\0".to_vec(), field(1, &meta), field(2, &field(5, b"All"))].concat();
    let server = server();
    let send = async |method: &str, path: &str, media: &str, body: Vec<u8>| {
        let request = Request::builder().method(method).uri(format!("/api/v1/namespaces/default/{path}"));
        let request = request.header("content-type", media).body(Full::new(Bytes::from(body))).unwrap();
        server.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    let map = br#"{"metadata": {"name": "a", "labels": {"x": "y"}}}"#.to_vec();
    assert_eq!(send("POST", "configmaps", "application/json", map).await, 201);
    let protobuf = "application/vnd.kubernetes.protobuf";
    for path in ["configmaps/a", "configmaps?labelSelector=x%3Dy"] {
        assert_eq!(send("DELETE", path, protobuf, options.clone()).await, 200);
        assert_eq!(send("GET", "configmaps/a", "", Vec::new()).await, 200, "{path}");
    }
}
