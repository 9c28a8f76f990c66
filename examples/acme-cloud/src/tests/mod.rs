mod api;

use std::path::Path;

use flyball_cloud::conformance::{self, World, node};
use flyball_cloud::kit::http::{Credentials, Http, SecretFile};
use flyball_runtime::Metrics;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use self::api::AcmeApi;
use super::*;

#[tokio::test]
async fn acme_passes_the_conformance_suite() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "names: [a, b]").unwrap();
    let cloud = open(Opening::standalone("acme", Some(file.path()))).await.unwrap();
    let (running, gone) = (vec![node("a", ""), node("b", "")], vec![node("c", "acme://c")]);
    let report = conformance::check(&World { running, gone, ..World::new(cloud) }).await;
    assert!(report.is_passed() && report.passed().count() == 2, "{report}");
}

#[tokio::test]
async fn a_wrong_file_is_named_with_its_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    #[rustfmt::skip]
    let table = [
        ("names: []",        ": names needs a machine, such as [node-1]"),
        ("names: [a]\nx: 1", ":2: unknown field `x`, expected `names`"),
    ];
    for (text, want) in table {
        std::fs::write(file.path(), text).unwrap();
        let error = open(Opening::standalone("acme", Some(file.path()))).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}{want}", file.path().display())), "{error}");
    }
}

/// The API of Acme, at the address that is returned: it is busy first, wants a token, and knows the machines `a` and `b`.
async fn api() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut is_busy = true;
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let (status, body) = match path {
                _ if std::mem::take(&mut is_busy) => ("503 Busy", ""),
                _ if !request.contains("authorization: Bearer secret\r\n") => ("401 Who", ""),
                "/v1/machines/a" => ("200 OK", "{\"id\": \"a\", \"running\": true}"),
                "/v1/machines/b" => ("200 OK", "{\"id\": \"b\", \"running\": false}"),
                _ => ("404 None", ""),
            };
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn machines_behind_an_api_pass_the_conformance_suite() {
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "secret\n").unwrap();
    let metrics = Metrics::default();
    let http = Http::new("acme", &api().await, &metrics).unwrap();
    let http = http.with_credentials(Credentials::bearer(SecretFile::open(token.path()).unwrap()));
    let world = World {
        running: vec![node("a", "")],
        stopped: vec![node("b", "")],
        gone: vec![node("c", "acme://c")],
        ..World::new(Cloud::new("acme").with_instances(AcmeApi(http)))
    };
    let report = conformance::check(&world).await;
    assert!(report.is_passed() && report.passed().count() == 3, "{report}");
    let busy = "cloud_http_requests_total{api=\"acme\",code=\"503\",operation=\"getMachine\"} 1\n";
    assert!(metrics.text().contains(busy), "{}", metrics.text());
}

/// The blocks of the tutorial that are Rust are this program, in its order; those behind it are the machines behind an API.
#[test]
fn the_code_in_the_tutorial_is_this_program() {
    let read =
        |path: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let tutorial = read("../../docs/cloud.md");
    let (program, further) = tutorial.split_once("### Further parts").unwrap();
    assert_eq!(compare(program, &read("src/main.rs")), ("#[cfg(test)]\nmod tests;".to_owned(), 5));
    assert_eq!(compare(further, &read("src/tests/api.rs")), (String::new(), 1));
}

/// What is behind the last block of the page in the source, and how many blocks there are.
fn compare(page: &str, source: &str) -> (String, usize) {
    let (mut rest, mut blocks) = (source, 0);
    for block in page.split("```rust\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        let at =
            rest.find(block).unwrap_or_else(|| panic!("not in the source, or not in this order:\n{block}"));
        // Nothing between two blocks is left out but empty lines.
        if blocks > 0 {
            assert_eq!(rest[..at].trim(), "", "left out of the tutorial");
        }
        (rest, blocks) = (&rest[at + block.len()..], blocks + 1);
    }
    (rest.trim().to_owned(), blocks)
}
