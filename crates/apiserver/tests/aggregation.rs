//! An embedded server behind another one: what it serves is in the discovery of the other, and requests arrive with a certificate.

#![allow(clippy::unwrap_used)] // errors should fail the test

use std::time::Duration;

use bytes::Bytes;
use flyball_apiserver::pki::Ca;
use flyball_apiserver::{ApiServer, FrontProxy, Options, StaticToken};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn send(server: &ApiServer, method: &str, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .header("accept", format!("{AGGREGATED},application/json"))
        .header("authorization", "Bearer admin")
        .body(Full::new(body));
    let response = server.clone().oneshot(request.unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn options() -> Options {
    Options { tokens: vec![StaticToken::new("admin", "admin", &["system:masters"])], ..Options::default() }
}

/// The version of a group in aggregated discovery.
async fn discovered(server: &ApiServer) -> Option<Value> {
    let (_, document) = send(server, "GET", "/apis", Value::Null).await;
    let groups = document["items"].as_array().unwrap();
    let group = groups.iter().find(|group| group["metadata"]["name"] == "g.io")?;
    Some(group["versions"][0].clone())
}

#[tokio::test]
async fn what_is_behind_a_server_is_in_its_discovery() {
    let (serving, proxies) = (Ca::new("serving").unwrap(), Ca::new("proxies").unwrap());
    let behind = ApiServer::new(Options { anonymous: false, ..options() }).unwrap();
    let definition = json!({"metadata": {"name": "widgets.g.io"}, "spec": {
        "group": "g.io", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wi"]},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(&behind, "POST", definitions, definition).await.0, 201);
    // The widgets may be seen with a certificate only: the token is for the server in front.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tls = flyball_apiserver::tls(
        &serving.server(&["w.default.svc".to_owned()]).unwrap(),
        Some(&proxies.pair.cert),
    );
    tokio::spawn(flyball_apiserver::serve(behind, listener, tls.unwrap(), std::future::pending()));

    let client = proxies.client("proxy", "system:masters").unwrap();
    let authority = proxies.pair.cert.clone();
    let front_proxy = Some(FrontProxy { client, authority, name: "proxy".to_owned() });
    let front = ApiServer::new(Options { front_proxy, ..options() }).unwrap();
    let service =
        json!({"metadata": {"name": "w"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
    assert_eq!(send(&front, "POST", "/api/v1/namespaces/default/services", service).await.0, 201);
    use base64::Engine as _;
    let bundle = base64::engine::general_purpose::STANDARD.encode(&serving.pair.cert);
    let registered = json!({"metadata": {"name": "v1.g.io"}, "spec": {
        "group": "g.io", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10, "caBundle": bundle,
        "service": {"namespace": "default", "name": "w", "port": port}}});
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    assert_eq!(send(&front, "POST", services, registered).await.0, 201);
    assert_eq!(discovered(&front).await.unwrap()["freshness"], "Stale", "nobody has asked it yet");
    tokio::time::timeout(Duration::from_secs(20), async {
        while discovered(&front).await.unwrap()["freshness"] != "Current" {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    let version = discovered(&front).await.unwrap();
    assert_eq!(version["resources"][0]["resource"], "widgets");
    assert_eq!(version["resources"][0]["shortNames"], json!(["wi"]));

    let widget = json!({"apiVersion": "g.io/v1", "kind": "Widget", "metadata": {"name": "a"}});
    assert_eq!(send(&front, "POST", "/apis/g.io/v1/widgets", widget).await.0, 201);
    let (code, list) = send(&front, "GET", "/apis/g.io/v1/widgets", Value::Null).await;
    assert_eq!((code, &list["items"][0]["metadata"]["name"]), (200, &json!("a")));

    assert_eq!(send(&front, "DELETE", &format!("{services}/v1.g.io"), Value::Null).await.0, 200);
    assert_eq!(discovered(&front).await, None);
    assert_eq!(send(&front, "GET", "/apis/g.io/v1/widgets", Value::Null).await.0, 404);

    let trust = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let (_, trust) = send(&front, "GET", trust, Value::Null).await;
    assert_eq!(trust["data"]["requestheader-allowed-names"], "[\"proxy\"]");
    assert_eq!(trust["data"]["requestheader-client-ca-file"], proxies.pair.cert);
}
