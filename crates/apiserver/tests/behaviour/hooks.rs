//! A webhook server for the tables, reachable from both servers at `$HOOK`. What it does is in the path:
//!
//! ```text
//! /allow                 allows
//! /deny/CODE/REASON      denies with a Status; /deny alone without one
//! /echo                  denies, with the request in the message
//! /label/KEY/VALUE       sets a label
//! /seen/KEY              sets a label to the keys of the labels that it is sent
//! /count/KEY             counts its calls for an object in a label
//! /warn                  allows with a warning
//! /slow                  answers after three seconds
//! /status/CODE           answers with an error
//! /bad/WHAT              gives an answer that is none: garbage, uid, kind, patch, type
//! /old                   speaks v1beta1
//! /convert               converts custom resources
//! ```
//!
//! It is also an aggregated API server, in the namespace `default` with a certificate for that:
//!
//! ```text
//! /apis/GROUP/sick               answers with an error
//! /apis/GROUP/VERSION            says what there is
//! /apis/GROUP/VERSION/status/CODE
//! /apis/GROUP/VERSION/elsewhere  redirects
//! /apis/GROUP/VERSION/…          answers with the request
//! ```

use std::convert::Infallible;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use flyball_apiserver::pki::Ca;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};

/// Where the server is, and who vouches for it.
#[derive(Clone)]
pub(crate) struct Hooks {
    pub(crate) url: String,
    pub(crate) port: u16,
    pub(crate) ca: String,
}

pub(crate) async fn start() -> Hooks {
    let ca = Ca::new("webhooks").unwrap();
    let serving = ca.server(&["127.0.0.1".to_owned(), "*.default.svc".to_owned()]).unwrap();
    let tls = flyball_apiserver::tls(&serving, None).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("https://127.0.0.1:{port}");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tls = tls.clone();
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let server = auto::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
            });
        }
    });
    Hooks { url, port, ca: base64::engine::general_purpose::STANDARD.encode(ca.pair.cert.as_bytes()) }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    if path.starts_with("/apis") {
        return Ok(aggregated(&parts, &body));
    }
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
    let mut code = 200;
    let given = match words[..] {
        ["slow"] => {
            tokio::time::sleep(Duration::from_secs(3)).await;
            respond(&review, json!({"allowed": true}))
        }
        ["status", status] => {
            code = status.parse().unwrap();
            json!("no such luck")
        }
        ["bad", "garbage"] => json!("garbage"),
        ["convert"] => convert(&review),
        _ => respond(&review, response(&words, &review["request"])),
    };
    let mut given = given;
    match words[..] {
        ["bad", "uid"] => given["response"]["uid"] = json!("other"),
        ["bad", "kind"] => given["kind"] = json!("Other"),
        _ => {}
    }
    let mut response = Response::new(Full::from(match given {
        Value::String(text) => text,
        given => given.to_string(),
    }));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
    response.headers_mut().insert("content-type", "application/json".parse().unwrap());
    Ok(response)
}

/// The answer as an API server.
fn aggregated(parts: &http::request::Parts, body: &Bytes) -> Response<Full<Bytes>> {
    let words: Vec<&str> = parts.uri.path().split('/').filter(|word| !word.is_empty()).collect();
    let header = |name: &str| -> Vec<&str> {
        parts.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
    };
    let resource = |name: &str| json!({"name": name, "singularName": "", "namespaced": true, "kind": "Echo", "verbs": ["get", "list"]});
    let (code, given) = match words[..] {
        ["apis"] => (404, json!("not here")),
        ["apis", _, "sick"] => (500, json!("unwell")),
        ["apis", group, version] => (
            200,
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"),
                   "resources": [resource("echoes"), resource("echoes/status")]}),
        ),
        ["apis", _, _, "status", code] => (code.parse().unwrap(), json!("as you wish")),
        ["apis", _, _, "elsewhere"] => (302, json!("gone")),
        _ => {
            let mut echo = json!({
                "method": parts.method.as_str(), "target": parts.uri.path_and_query().unwrap().as_str(), "user": header("x-remote-user"),
                "uid": header("x-remote-uid"), "groups": header("x-remote-group"), "body": String::from_utf8_lossy(body),
            });
            if let [authorization] = header("authorization")[..] {
                echo["authorization"] = json!(authorization);
            }
            (200, echo)
        }
    };
    let mut response = Response::new(Full::from(given.to_string()));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
    response.headers_mut().insert("content-type", "application/json".parse().unwrap());
    if code == 302 {
        response.headers_mut().insert("location", "https://example.com/".parse().unwrap());
    }
    response
}

fn respond(review: &Value, mut response: Value) -> Value {
    response["uid"] = review["request"]["uid"].clone();
    json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})
}

fn response(words: &[&str], request: &Value) -> Value {
    let labels = request["object"]["metadata"]["labels"].as_object();
    match words {
        ["deny"] => json!({"allowed": false}),
        ["deny", code, reason] => json!({"allowed": false, "status": {
            "code": code.parse::<u16>().unwrap(), "reason": reason, "message": "not like this",
            "details": {"causes": [{"field": "metadata.name", "message": "wrong"}]}}}),
        ["echo"] => json!({"allowed": false, "status": {"message": echo(request)}}),
        ["label", key, value] => set_label(request, key, value),
        ["seen", key] => {
            let seen: Vec<&str> = labels.into_iter().flatten().map(|(key, _)| key.as_str()).collect();
            set_label(request, key, &seen.join("."))
        }
        ["count", key] => {
            let before = labels.and_then(|labels| labels.get(*key)?.as_str()?.parse::<u32>().ok());
            set_label(request, key, &(before.unwrap_or(0) + 1).to_string())
        }
        ["warn"] => {
            json!({"allowed": true, "warnings": ["think again"], "auditAnnotations": {"key": "value"}})
        }
        ["bad", "patch"] => {
            json!({"allowed": true, "patch": encoded(&json!([{"op": "add", "path": "/x", "value": 1}]))})
        }
        ["bad", "type"] => {
            let patch = encoded(&json!([{"op": "replace", "path": "/data", "value": 7}]));
            json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
        }
        ["delete"] => {
            let patch = encoded(&json!([{"op": "add", "path": "/x", "value": 1}]));
            json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
        }
        _ => json!({"allowed": true}),
    }
}

fn encoded(patch: &Value) -> String {
    base64::engine::general_purpose::STANDARD.encode(patch.to_string())
}

fn set_label(request: &Value, key: &str, value: &str) -> Value {
    let patch = match request["object"]["metadata"]["labels"].is_object() {
        true => json!([{"op": "add", "path": format!("/metadata/labels/{key}"), "value": value}]),
        false => json!([{"op": "add", "path": "/metadata/labels", "value": {key: value}}]),
    };
    json!({"allowed": true, "patchType": "JSONPatch", "patch": encoded(&patch)})
}

fn echo(request: &Value) -> String {
    let kind = |field: &str| {
        let of = &request[field];
        let text = |name: &str| of[name].as_str().unwrap_or_default().to_owned();
        format!("{}/{}.{}{}", text("group"), text("version"), text("kind"), text("resource"))
    };
    let object = |field: &str| {
        let of = &request[field];
        format!("{} {}", of["apiVersion"], of["kind"]).replace('"', "")
    };
    let field = |name: &str| request[name].to_string().replace('"', "");
    let user = &request["userInfo"];
    format!(
        "{} {} {} as {} {}, sub {}, {} in {}, object {}, old {}, dry {}, options {}, by {} of {}",
        field("operation"),
        kind("kind"),
        kind("resource"),
        kind("requestKind"),
        kind("requestResource"),
        field("subResource"),
        field("name"),
        field("namespace"),
        object("object"),
        object("oldObject"),
        field("dryRun"),
        object("options"),
        user["username"].as_str().unwrap_or_default(),
        user["groups"][0].as_str().unwrap_or_default()
    )
}

/// Moves `spec.size` of v1 to `spec.width` of v2 and back.
fn convert(review: &Value) -> Value {
    let wanted = review["request"]["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = review["request"]["objects"].as_array().cloned().unwrap_or_default();
    let converted: Vec<Value> = objects.into_iter().map(|object| converted(object, wanted)).collect();
    let result = match converted.iter().any(|object| object["spec"]["refuse"] == true) {
        true => json!({"status": "Failure", "message": "this one cannot be converted"}),
        false => json!({"status": "Success"}),
    };
    json!({
        "apiVersion": review["apiVersion"], "kind": "ConversionReview",
        "response": {"uid": review["request"]["uid"], "convertedObjects": converted, "result": result},
    })
}

fn converted(mut object: Value, wanted: &str) -> Value {
    let (from, to) = if wanted.ends_with("/v2") { ("size", "width") } else { ("width", "size") };
    object["apiVersion"] = json!(wanted);
    if let Some(spec) = object["spec"].as_object_mut()
        && let Some(value) = spec.remove(from)
    {
        spec.insert(to.to_owned(), value);
    }
    object
}
