//! A transport that never writes: every write gets a response as if it had been carried out. With it, a controller manager can
//! be tried beside the leader.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::transport::{Body, Transport, TransportError};

/// The version of objects that were not written. The barrier does not wait for it.
const NOT_WRITTEN: &str = "0";

/// Reads through another transport, and sends no writes.
pub struct Shadow {
    inner: Arc<dyn Transport>,
}

impl Shadow {
    pub fn over(inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(Self { inner })
    }
}

impl Transport for Shadow {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
        if is_harmless(&request) {
            return self.inner.send(request);
        }
        let inner = self.inner.clone();
        Box::pin(async move {
            match *request.method() {
                Method::POST => Ok(answer(StatusCode::CREATED, &created(request.body()))),
                Method::PUT => Ok(answer(StatusCode::OK, &not_written(parsed(request.body())))),
                // Only the server could apply the patch; the unchanged object is close enough.
                Method::PATCH => unchanged(inner.send(read_of(&request)).await?).await,
                _ => Ok(answer(StatusCode::OK, &deleted(request.uri().path()))),
            }
        })
    }

    fn host(&self) -> &str {
        self.inner.host()
    }
}

/// Reads, and POSTs that change nothing: token requests and access reviews.
fn is_harmless(request: &http::Request<Bytes>) -> bool {
    let path = request.uri().path();
    let asks = ["/token", "/tokenreviews", "/subjectaccessreviews", "/selfsubjectaccessreviews"];
    request.method() == Method::GET
        || (request.method() == Method::POST && asks.iter().any(|end| path.ends_with(end)))
}

/// The object of a patch request. Subresources are read with it.
fn read_of(patch: &http::Request<Bytes>) -> http::Request<Bytes> {
    let path = patch.uri().path();
    let object =
        ["/status", "/scale", "/finalizers"].iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path);
    let mut read = http::Request::new(Bytes::new());
    *read.headers_mut() = patch.headers().clone();
    read.headers_mut().remove(http::header::CONTENT_TYPE);
    read.headers_mut().insert(http::header::ACCEPT, http::HeaderValue::from_static("application/json"));
    // A part of a valid URI is valid.
    *read.uri_mut() = http::Uri::try_from(object).unwrap_or_else(|_| patch.uri().clone());
    read
}

/// The response to a patch that was not sent: the object that was read instead, or why it could not be read.
async fn unchanged(read: http::Response<Body>) -> Result<http::Response<Body>, TransportError> {
    let status = read.status();
    if !status.is_success() {
        return Ok(read);
    }
    let body = read.into_body().collect().await.map_err(TransportError::Lost)?.to_bytes();
    Ok(answer(status, &not_written(parsed(&body))))
}

/// Its version would say that etcd was restored: a write returns a version that no cache has reached before.
fn not_written(mut object: Value) -> Value {
    object["metadata"]["resourceVersion"] = json!(NOT_WRITTEN);
    object
}

fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| json!({}))
}

fn created(body: &[u8]) -> Value {
    let mut object = parsed(body);
    let metadata = &mut object["metadata"];
    if metadata["name"].is_null() {
        let prefix = metadata["generateName"].as_str().unwrap_or_default().to_owned();
        metadata["name"] = json!(format!("{prefix}shadow"));
    }
    not_written(object)
}

fn deleted(path: &str) -> Value {
    let name = path.rsplit('/').next().unwrap_or_default();
    json!({"kind": "Shadow", "apiVersion": "flyball.dev/v1", "metadata": {"name": name, "resourceVersion": NOT_WRITTEN}})
}

fn answer(code: StatusCode, object: &Value) -> http::Response<Body> {
    let body = Full::new(Bytes::from(object.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut answer = http::Response::new(body);
    *answer.status_mut() = code;
    answer
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    answer
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Records the requests that reach the server.
    #[derive(Default)]
    struct Server(Mutex<Vec<String>>);

    impl Transport for Server {
        fn send(
            &self,
            request: http::Request<Bytes>,
        ) -> BoxFuture<'static, Result<http::Response<Body>, TransportError>> {
            self.0.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
            Box::pin(async {
                Ok(answer(StatusCode::OK, &json!({"metadata": {"name": "live", "resourceVersion": "7"}})))
            })
        }
    }

    #[tokio::test]
    async fn nothing_but_reads_reaches_the_server() {
        #[rustfmt::skip]
        let table = [
            // request                                             body                                        name answered  reaches the server
            ("GET /api/v1/namespaces/a/pods/x",                    "",                                         "live",        "GET /api/v1/namespaces/a/pods/x"),
            ("POST /api/v1/namespaces/a/pods",                     r#"{"metadata":{"generateName":"x-"}}"#,    "x-shadow",    ""),
            ("POST /api/v1/namespaces/a/pods",                     r#"{"metadata":{"name":"x"}}"#,             "x",           ""),
            ("POST /api/v1/namespaces/a/serviceaccounts/x/token",  "{}",                                       "live",        "POST /api/v1/namespaces/a/serviceaccounts/x/token"),
            ("PUT /apis/apps/v1/namespaces/a/replicasets/x/status", r#"{"metadata":{"name":"x","resourceVersion":"5"}}"#, "x", ""),
            ("PATCH /api/v1/nodes/x/status?fieldManager=me",       "{}",                                       "live",        "GET /api/v1/nodes/x"),
            ("DELETE /api/v1/namespaces/a/pods/x",                 "",                                         "x",           ""),
        ];
        for (request, body, name, reaches) in table {
            let server = Arc::new(Server::default());
            let (method, uri) = request.split_once(' ').unwrap();
            let sent = http::Request::builder().method(method).uri(uri).body(Bytes::from(body)).unwrap();
            let answer = Shadow::over(server.clone()).send(sent).await.unwrap();
            let object = parsed(&answer.into_body().collect().await.unwrap().to_bytes());
            assert_eq!(object["metadata"]["name"], name, "{request}");
            let version = if reaches == request { "7" } else { NOT_WRITTEN };
            assert_eq!(object["metadata"]["resourceVersion"], version, "{request}");
            assert_eq!(server.0.lock().unwrap().join(", "), reaches, "{request}");
        }
    }
}
