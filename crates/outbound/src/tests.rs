//! The client against a small server.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use flyball_runtime::{Chain, Metrics};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::{Call, Credentials, Http, OpenError, SecretFile};

/// Answers each request with the next of its answers; what was asked of it. An empty answer closes the connection.
struct Server {
    address: String,
    seen: Arc<Mutex<Vec<String>>>,
}

async fn serving(answers: &[&str]) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(vec![]));
    let mut answers: VecDeque<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
    let log = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            log.lock().push(String::from_utf8_lossy(&request[..length]).into_owned());
            let Some((head, body)) = answers.pop_front().and_then(|answer| {
                let (head, body) = answer.split_once('|')?;
                Some((head.to_owned(), body.to_owned()))
            }) else {
                continue;
            };
            let text = format!(
                "HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(text.as_bytes()).await.unwrap();
        }
    });
    Server { address, seen }
}

fn client(server: &Server, metrics: &Metrics) -> Http {
    let mut http = Http::new("acme", &server.address, metrics).unwrap();
    http.first_backoff = Duration::from_millis(1);
    http
}

#[tokio::test]
async fn what_passes_is_tried_again_and_counted() {
    let server = serving(&["503 Busy|", "429 Slow\r\nRetry-After: 0|", "", "200 OK|{\"name\":\"a\"}"]).await;
    let metrics = Metrics::default();
    let machine: Value = client(&server, &metrics).get("getMachine", "/machines/a?view=full").await.unwrap();
    assert_eq!(machine, json!({"name": "a"}));
    let seen = server.seen.lock().clone();
    assert_eq!(seen.len(), 4);
    assert!(seen[0].starts_with("GET /v1/machines/a?view=full HTTP/1.1\r\n"), "{}", seen[0]);
    let text = metrics.text();
    for code in ["503", "429", "none", "200"] {
        let line =
            format!("cloud_http_requests_total{{api=\"acme\",code=\"{code}\",operation=\"getMachine\"}} 1\n");
        assert!(text.contains(&line), "{line}{text}");
    }
    assert!(
        text.contains("cloud_http_request_duration_seconds_count{api=\"acme\",operation=\"getMachine\"} 4\n"),
        "{text}"
    );
}

#[tokio::test]
async fn what_the_server_may_have_done_is_not_done_twice() {
    #[rustfmt::skip]
    let table = [
        // answer                         attempts  error
        ("",                                     1, "the connection was closed before the response arrived"),
        ("500 Oops|",                            1, "the server answers 500 Internal Server Error"),
        ("404 No|{\n \"error\": \"gone\"}",      1, "the server answers 404 Not Found: { \"error\": \"gone\"}"),
        ("429 Slow\r\nRetry-After: 600|later",   1, "the server answers 429 Too Many Requests: later"),
        ("429 Slow|",                            4, "the server answers 429 Too Many Requests"),
    ];
    for (answer, attempts, want) in table {
        let server = serving(&[answer; 4]).await;
        let call = Call::post("makeMachine", "/machines").json(&json!({"name": "a"})).unwrap();
        let error = client(&server, &Metrics::default()).send(call).await.unwrap_err();
        let shown = Chain(&error).to_string();
        let start = format!("POST {}/machines: {want}", server.address);
        assert!(shown.starts_with(&start), "{shown}");
        assert_eq!(server.seen.lock().len(), attempts, "{answer}");
        assert!(server.seen.lock()[0].ends_with("{\"name\":\"a\"}"));
    }
}

#[tokio::test]
async fn who_cannot_be_reached_is_named_and_a_wrong_answer_is_shown() {
    let gone = Server { address: "http://127.0.0.1:1/v1".to_owned(), seen: Arc::default() };
    let error = client(&gone, &Metrics::default()).send(Call::post("x", "/x")).await.unwrap_err();
    let shown = Chain(&error).to_string();
    assert!(shown.starts_with("POST http://127.0.0.1:1/v1/x: the server cannot be reached: "), "{shown}");
    let server = serving(&["200 OK|{\"name\":5}"]).await;
    #[derive(Debug, serde::Deserialize)]
    struct Machine {
        #[expect(dead_code)]
        name: String,
    }
    let error = client(&server, &Metrics::default()).get::<Machine>("get", "/x").await.unwrap_err();
    let shown = Chain(&error).to_string();
    assert!(
        shown.contains("the response is not valid JSON of the expected form: invalid type: integer `5`"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_secret_that_changes_between_attempts_is_the_new_one() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "first\n").unwrap();
    let server = serving(&["503 Busy|", "200 OK|{}", "200 OK|{}"]).await;
    let path = file.path().to_owned();
    let bearer = Credentials::bearer(SecretFile::open(file.path()).unwrap());
    let rotating = Credentials::signing(move |request| {
        let sign = bearer.sign(request);
        std::fs::write(&path, "second one").unwrap();
        sign
    });
    let http = client(&server, &Metrics::default()).with_credentials(rotating);
    http.get::<Value>("get", "/x").await.unwrap();
    // A file that is wrong changes nothing.
    std::fs::write(file.path(), "").unwrap();
    let password = SecretFile::open(file.path()).unwrap_err().to_string();
    assert!(password.ends_with(": it is empty; it must have one line with the secret"), "{password}");
    http.get::<Value>("get", "/x").await.unwrap();
    let seen = server.seen.lock().clone();
    let secrets: Vec<&str> = seen
        .iter()
        .filter_map(|request| request.lines().find_map(|line| line.strip_prefix("authorization: ")))
        .collect();
    assert_eq!(secrets, ["Bearer first", "Bearer second one", "Bearer second one"]);
}

#[test]
fn a_wrong_address_or_file_is_named() {
    for wrong in ["api.example.com", "ftp://a", "https://", "https://a?x=1"] {
        let error = Http::new("acme", wrong, &Metrics::default()).unwrap_err().to_string();
        assert_eq!(error, format!("{wrong:?} is not an address such as https://api.example.com/v1"));
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let http = Http::new("acme", "https://a", &Metrics::default()).unwrap();
    let error = http.clone().with_authorities(file.path()).unwrap_err();
    assert!(matches!(error, OpenError::NoAuthority { .. }), "{error}");
    let error = http.with_authorities("/no/such/file".as_ref()).unwrap_err().to_string();
    assert_eq!(error, "cannot read the certificate authorities in /no/such/file");
}
