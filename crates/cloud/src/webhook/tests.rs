use std::io::{Read, Write};
use std::net::TcpStream;

use flyball_runtime::metrics::Metrics;
use serde_json::{Value, json};

use super::*;
use crate::Cloud;

fn webhooks() -> Vec<Webhook> {
    vec![
        Webhook::new("labels", "/admit-labels", |request: AdmissionRequest| async move {
            match request.name.as_str() {
                "broken" => Err("the cloud is away".into()),
                "worse" => panic!("no such name"),
                "refused" => Ok(AdmissionResponse::refused("not this one")),
                _ => Ok(AdmissionResponse::patched(json!([{"op": "remove", "path": "/a"}]))),
            }
        }),
        Webhook::new("volumes", "/admit-volumes", |_| async { Ok(AdmissionResponse::allowed()) }),
    ]
}

fn posted(content_type: &str, body: &str) -> Posted {
    Posted { content_type: content_type.to_owned(), body: body.to_owned().into() }
}

fn review_of(name: &str) -> String {
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "u-1", "name": name}})
        .to_string()
}

#[tokio::test]
async fn requests_are_answered_as_upstream_does() {
    let json = "application/json";
    let failed = |why: &str| format!("error generating admission response: {why}");
    #[rustfmt::skip]
    let table = [
        ("text/plain",                  review_of("a"),               400, "Content-Type: \"text/plain\" should be \"application/json\"".to_owned()),
        ("application/json; charset=x", review_of("a"),               400, "Content-Type: \"application/json; charset=x\" should be \"application/json\"".to_owned()),
        (json,                          String::new(),                400, "admission request HTTP body is empty".to_owned()),
        (json,                          "{}".to_owned(),              400, "admission review can't be used: Request field is nil".to_owned()),
        (json,                          r#"{"kind": "Pod"}"#.to_owned(), 400,
            "could not deserialize incoming admission review: it is \"Pod\" of \"\", not AdmissionReview of admission.k8s.io/v1".to_owned()),
        (json,                          review_of("broken"),          500, failed("the cloud is away")),
        (json,                          review_of("worse"),           500, failed("the handler panicked")),
    ];
    let webhook = &webhooks()[0];
    for (content_type, body, code, want) in table {
        assert_eq!(answer(webhook, &posted(content_type, &body)).await, Reply::Text(code, want), "{body}");
    }
    let garbage = answer(webhook, &posted(json, "{")).await;
    assert!(
        matches!(&garbage, Reply::Text(400, why) if why.starts_with("could not deserialize")),
        "{garbage:?}"
    );
}

async fn reviewed(name: &str) -> Value {
    match answer(&webhooks()[0], &posted("application/json", &review_of(name))).await {
        Reply::Json(document) => serde_json::from_slice(&document).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn responses_have_the_uid_of_their_request() {
    let patch = "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL2EifV0=";
    let review = |response| json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
    assert_eq!(
        reviewed("a").await,
        review(json!({"uid": "u-1", "allowed": true, "patch": patch, "patchType": "JSONPatch"}))
    );
    assert_eq!(
        reviewed("refused").await,
        review(json!({
            "uid": "u-1", "allowed": false,
            "status": {"message": "not this one", "reason": "Forbidden", "code": 403},
        }))
    );
}

#[test]
fn the_list_names_the_webhooks_that_are_served() {
    #[rustfmt::skip]
    let table = [
        ("",             Ok("")),
        ("*",            Ok("labels volumes")),
        ("labels",       Ok("labels")),
        ("*,-labels",    Ok("volumes")),
        ("-labels",      Ok("")),
        ("labels,-labels,*", Ok("labels volumes")),
        ("-pods",        Err("--webhooks: there is no webhook \"pods\"; this cloud has: labels, volumes")),
    ];
    for (list, want) in table {
        let list: Vec<String> = list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let names = |chosen: Vec<Webhook>| chosen.iter().map(Webhook::name).collect::<Vec<_>>().join(" ");
        let cloud = webhooks().into_iter().fold(Cloud::new("c"), Cloud::with_webhook);
        let chosen = chosen(&cloud.webhooks, &list).map(names);
        assert_eq!(chosen.as_deref().map_err(String::as_str), want, "{list:?}");
    }
    assert_eq!(
        chosen(&[], &["x".to_owned()]).unwrap_err(),
        "--webhooks: there is no webhook \"x\"; this cloud has: none"
    );
}

/// Sends a request over TLS, trusting the server's own certificate, and returns the status line and the body.
fn post(address: std::net::SocketAddr, path: &str, body: &str) -> (String, String) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    let mut session =
        rustls::ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    let mut stream = rustls::Stream::new(&mut session, &mut socket);
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = vec![];
    // The server may close without the TLS farewell.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[derive(Debug)]
struct AnyCertificate;

impl rustls::client::danger::ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A port that was free just now.
fn free_port() -> i32 {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port().into()
}

#[test]
fn webhooks_are_served_over_https_and_failures_are_counted() {
    let mut options = (crate::CLOUD_CONTROLLER_MANAGER.defaults)();
    options.webhook_serving.bind_address = [127, 0, 0, 1].into();
    options.webhook_serving.port = free_port();
    let metrics = Metrics::default();
    assert!(serve(&[], &options, &metrics).unwrap().is_none(), "nothing to serve");
    let listening = serve(&webhooks(), &options, &metrics).unwrap().unwrap();
    let (status, body) = post(listening.address, "/admit-labels", &review_of("a"));
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(body.contains(r#""uid":"u-1""#), "{body}");
    let (status, body) = post(listening.address, "/admit-labels", &review_of("broken"));
    assert_eq!(
        (status.as_str(), body.as_str()),
        ("HTTP/1.1 500 Internal Server Error", "error generating admission response: the cloud is away\n")
    );
    let (status, body) = post(listening.address, "/elsewhere", "{}");
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 404 Not Found", "404 page not found\n"));
    let text = metrics.text();
    let counted = r#"cloud_provider_webhook_request_total{code="500",webhook="labels"} 1"#;
    assert!(text.contains(counted) && !text.contains(r#"code="200""#), "{text}");
    let taken = serve(&webhooks(), &options, &metrics).unwrap_err().to_string();
    let want =
        format!("cannot listen on {} (--webhook-bind-address, --webhook-secure-port)", listening.address);
    assert_eq!(taken, want);
    options.webhook_serving.port = 0;
    assert!(serve(&webhooks(), &options, &metrics).unwrap().is_none(), "port 0");
}
