//! A server with scripted responses, and a context that uses it, for tests of plans.

use std::sync::Arc;

use bytes::Bytes;
use flyball_cache::{InformerOptions, Informers};
use flyball_client::{Body as Response, Client, ClientOptions, Transport, TransportError};
use futures::future::BoxFuture;
use http::Method;
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::config::Config;
use crate::context::{Context, Shared};
use crate::debug::DebugPages;
use crate::decisions::DecisionLog;
use crate::events::Recorder;
use crate::gates::Gates;
use crate::metrics::Metrics;
use crate::{Clock, Extensions};

/// The code and reason with which a request, as `METHOD name`, is refused.
pub(crate) type Refuse = fn(&str) -> Option<(u16, &'static str)>;

/// Records requests as `METHOD name` and events as `event reason message`; refuses what `refuse` says.
pub(crate) struct Server {
    pub(crate) seen: Mutex<Vec<String>>,
    pub(crate) bodies: Mutex<Vec<Value>>,
    /// The events, whole.
    pub(crate) events: Mutex<Vec<Value>>,
    refuse: Refuse,
    version: Mutex<u64>,
}

impl Server {
    fn answer(&self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        if path.contains("/events") {
            let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
            self.seen.lock().push(format!("event {} {}", text("reason"), text("message")));
            self.events.lock().push(body.clone());
            return (201, body.clone());
        }
        let named = body["metadata"]["name"].as_str();
        let generated = body["metadata"]["generateName"].as_str();
        let last = path.rsplit('/').next().unwrap_or_default().to_owned();
        let name = match *method {
            Method::POST => {
                named.map_or_else(|| format!("{}x", generated.unwrap_or_default()), str::to_owned)
            }
            _ => last,
        };
        let line = format!("{method} {name}");
        let refused = (self.refuse)(&line);
        self.seen.lock().push(line);
        self.bodies.lock().push(body.clone());
        if let Some((code, reason)) = refused {
            let status = json!({"kind": "Status", "reason": reason, "code": code, "message": "refused"});
            return (code, status);
        }
        let mut version = self.version.lock();
        *version += 1;
        (
            200,
            json!({"metadata": {"name": name, "namespace": "ns", "uid": "u", "resourceVersion": version.to_string()}}),
        )
    }
}

struct Wire(Arc<Server>);

impl Transport for Wire {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<Response>, TransportError>> {
        let server = self.0.clone();
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let body = serde_json::from_slice(request.body()).unwrap_or_default();
            let (code, answer) = server.answer(request.method(), &path, &body);
            // Concurrent requests get concurrent responses.
            tokio::task::yield_now().await;
            let body = Full::from(answer.to_string()).map_err(|never| match never {}).boxed_unsync();
            Ok(http::Response::builder().status(code).body(body).unwrap())
        })
    }
}

/// A server that refuses what `refuse` says, and a context whose writes it answers. The last is the task that sends events;
/// it ends when the context is dropped.
pub(crate) fn context(refuse: Refuse) -> (Arc<Server>, Context, impl Future<Output = ()> + Send) {
    let server = Arc::new(Server {
        seen: Mutex::default(),
        bodies: Mutex::default(),
        events: Mutex::default(),
        refuse,
        version: Mutex::new(10),
    });
    let options = ClientOptions { qps: 0.0, ..ClientOptions::default() };
    let client = Client::new(Arc::new(Wire(server.clone())), options);
    let (cx, sink) = context_of(client);
    (server, cx, sink)
}

/// A context with defaults for all but the client, and the task that sends its events.
pub(crate) fn context_of(client: Client) -> (Context, impl Future<Output = ()> + Send) {
    let clock = Clock::system();
    let shared = Shared {
        component: "kube-controller-manager",
        extensions: Extensions::default(),
        clock,
        config: Arc::new(Config::default()),
        gates: Gates::default(),
        informers: Informers::new(client.clone(), InformerOptions::default()),
        decisions: DecisionLog::default(),
        debug: DebugPages::default(),
        metrics: Metrics::default(),
        server_ca: None,
    };
    let (events, sink) = Recorder::new("test", clock, client.clone());
    (Context::new("test", &shared, client.clone(), client, events), sink)
}
