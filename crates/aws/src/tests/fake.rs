//! A small server for tests: it answers each request with the next of its answers.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

pub(crate) struct Server {
    pub(crate) address: String,
    /// What was asked of it.
    pub(crate) seen: Arc<Mutex<Vec<String>>>,
}

/// Answers are written as `200 OK|body`.
pub(crate) async fn serving(answers: &[String]) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(vec![]));
    let (log, mut answers) = (seen.clone(), VecDeque::from(answers.to_vec()));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![];
            while !is_whole(&request) {
                let mut part = [0; 4096];
                let length = stream.read(&mut part).await.unwrap();
                request.extend(&part[..length]);
            }
            log.lock().push(String::from_utf8_lossy(&request).into_owned());
            let answer = answers.pop_front().unwrap_or_else(|| "500 Empty|".to_owned());
            let (head, body) = answer.split_once('|').unwrap();
            let text = format!(
                "HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(text.as_bytes()).await.unwrap();
        }
    });
    Server { address, seen }
}

/// Whether a request has come to its end, as its `Content-Length` says.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.parse().ok())?
    });
    body.len() >= length.unwrap_or(0)
}
