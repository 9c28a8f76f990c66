//! What answers HTTP: the embedded API server, the serving port of the managers, and the live page. Each request goes through the
//! whole component, without a socket. In a seed, the headers follow the request line, and the body an empty line.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_api::Node;
use flyball_apiserver::{ApiServer, Authorization, Options};
use flyball_cache::{InformerOptions, Informers};
use flyball_client::{Client, ClientOptions, Transport, TransportError};
use flyball_runtime::decisions::DecisionLog;
use flyball_runtime::{Clock, Health, Insight, Metrics};
use flyball_serving::Pages;
use flyball_ui::{Act, Acts, Local, Sources, Switch, Ui, Wire};
use futures::future::BoxFuture;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// A request in the form of the seeds; `None` if it is not one that an HTTP library would pass on.
fn request(data: &[u8]) -> Option<Request<Bytes>> {
    let (head, body) = match data.windows(2).position(|two| two == b"\n\n") {
        Some(end) => (&data[..end], &data[end + 2..]),
        None => (data, &[][..]),
    };
    let mut lines = std::str::from_utf8(head).ok()?.lines();
    let (method, target) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        request = request.header(name, value);
    }
    request.body(Bytes::copy_from_slice(body)).ok()
}

/// A runtime in which waiting takes no time.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

/// An embedded API server with a few objects, and what it was when it had them.
struct Cluster {
    runtime: Runtime,
    server: ApiServer,
    version: u64,
}

/// An object of a custom kind with defaults, keyed lists and maps in its schema.
fn definition() -> Value {
    let ports = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
        "items": {"type": "object", "required": ["port"], "properties": {
            "port": {"type": "integer"}, "name": {"type": "string", "default": "unnamed"},
        }},
    });
    let spec = json!({
        "type": "object",
        "properties": {
            "ports": ports,
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
        "x-kubernetes-validations": [{"rule": "!has(self.tags) || self.tags.size() < 9", "message": "too many"}],
    });
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}],
        },
    })
}

fn options() -> Options {
    let clock = Arc::new(|| "2026-01-01T00:00:00Z".parse().expect("a time"));
    let authorization = Authorization::AlwaysAllow;
    Options { clock, virtual_time: true, seed: 7, authorization, audit_entries: 1, ..Options::default() }
}

/// The objects that requests are about: the path of each collection, and the object.
fn objects() -> [(&'static str, Value); 4] {
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [
        {"name": "main", "image": "a:1", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "b"}]},
        {"name": "side", "image": "b:1"},
    ]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "labels": {"app": "a"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template},
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"selector": {"app": "a"}, "ports": [{"name": "web", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]},
    });
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "finalizers": ["example.com/keep"], "annotations": {"a": "b"}}, "data": {"k": "v"},
    });
    let thing = json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"},
        "spec": {"ports": [{"port": 80}, {"port": 81, "name": "b"}], "tags": ["x", "y"], "whole": {"a": "b"}, "any": {"deep": {"er": 1}}},
    });
    [
        ("/apis/apps/v1/namespaces/default/deployments", deployment),
        ("/api/v1/namespaces/default/services", service),
        ("/api/v1/namespaces/default/configmaps", map),
        ("/apis/example.com/v1/namespaces/default/things", thing),
    ]
}

impl Cluster {
    fn new() -> Self {
        let server = ApiServer::new(options()).expect("an API server");
        let mut cluster = Self { runtime: runtime(), server, version: 0 };
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        for (path, object) in [(definitions, definition())].into_iter().chain(objects()) {
            let request = Request::post(path).header("content-type", "application/json");
            let request = request.body(object.to_string().into()).expect("a request");
            let (code, body) = cluster.send(request);
            assert_eq!(code, 201, "{path}: {}", String::from_utf8_lossy(&body));
        }
        cluster.version = cluster.server.store().version();
        cluster
    }

    /// The status and the body, which is left out for a watch: it has no end.
    fn send(&self, request: Request<Bytes>) -> (u16, Bytes) {
        let is_watch = request.uri().to_string().contains("watch");
        let (head, body) = request.into_parts();
        self.runtime.block_on(async {
            let response = self.server.handle(head, body).await;
            let code = response.status().as_u16();
            if is_watch {
                return (code, Bytes::new());
            }
            (code, response.into_body().collect().await.expect("a body").to_bytes())
        })
    }

    /// Undoes all writes since the objects were created.
    fn undo(&self) {
        if self.server.store().version() != self.version {
            self.server.restore(self.version).expect("history since the objects were created");
        }
    }
}

/// Runs `check` with the cluster of this thread, which then is as it was before.
fn with_cluster<R>(check: impl FnOnce(&Cluster) -> R) -> R {
    thread_local!(static CLUSTER: Cluster = Cluster::new());
    CLUSTER.with(|cluster| {
        let result = check(cluster);
        cluster.undo();
        result
    })
}

/// The API server answers any request, and never with the admission that it is broken.
pub(crate) fn api_request(data: &[u8]) {
    let Some(request) = request(data) else { return };
    let media = request.headers().get("content-type").and_then(|media| media.to_str().ok());
    let is_apply = request.method() == Method::PATCH && media.is_some_and(|media| media.starts_with(APPLY));
    with_cluster(|cluster| {
        let (code, body) = cluster.send(request);
        assert!(!is_broken(is_apply, code, &body), "{}", String::from_utf8_lossy(&body));
    });
}

const APPLY: &str = "application/apply-patch+yaml";

/// Whether the server admits an error of its own. As kube-apiserver, it says so of applied fields that the schema does not have, too.
fn is_broken(is_apply: bool, code: u16, body: &[u8]) -> bool {
    let undeclared = || {
        let status: Value = serde_json::from_slice(body).unwrap_or_default();
        status["message"].as_str().is_some_and(|message| message.ends_with("field not declared in schema"))
    };
    code == 500 && !(is_apply && undeclared())
}

const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    APPLY,
];

/// The first byte chooses the kind of patch and the object; the rest is the patch. An object keeps its identity, and a configuration
/// that was applied changes nothing when it is applied again.
pub(crate) fn api_patch(data: &[u8]) {
    let Some((which, patch)) = data.split_first() else { return };
    let (which, objects) = (usize::from(*which), objects());
    let media = PATCHES[which % PATCHES.len()];
    let (path, object) = &objects[which / PATCHES.len() % objects.len()];
    let send = |cluster: &Cluster| {
        let request = Request::patch(format!("{path}/a?fieldManager=fuzz&force=true"));
        let request = request.header("content-type", media).body(Bytes::copy_from_slice(patch));
        let (code, body) = cluster.send(request.expect("a request"));
        assert!(!is_broken(media == APPLY, code, &body), "{}", String::from_utf8_lossy(&body));
        (code == 200).then(|| serde_json::from_slice::<Value>(&body).expect("an object"))
    };
    with_cluster(|cluster| {
        let Some(patched) = send(cluster) else { return };
        assert_eq!((&patched["kind"], &patched["metadata"]["name"]), (&object["kind"], &json!("a")));
        // A finalizer that was removed can take the object with it.
        if media == APPLY && patched["metadata"]["deletionTimestamp"].is_null() {
            let again = send(cluster).expect("a configuration that was accepted before");
            assert_eq!(again, patched, "applied twice");
        }
    });
}

/// A snapshot that can be read gives a server that answers, or a refusal to start.
pub(crate) fn snapshot(data: &[u8]) {
    use flyball_apiserver::store::Snapshot;
    let _ = flyball_playground::cluster::Snapshot::read(data).is_ok();
    let Ok(snapshot) = Snapshot::read(&mut &*data) else { return };
    let options = Options { snapshot: Some(Arc::new(snapshot)), ..options() };
    let Ok(server) = ApiServer::new(options) else { return };
    let cluster = Cluster { version: server.store().version(), server, runtime: runtime() };
    // What is there may be odd, but only by itself.
    for path in ["/api/v1/namespaces", "/api/v1/pods", "/api/v1/services", "/api/v1/nodes", "/api/v1/events"]
    {
        for accept in ["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"] {
            let list = Request::get(format!("{path}?labelSelector=a!%3Db&fieldSelector=metadata.name!%3Dx"));
            let (code, body) =
                cluster.send(list.header("accept", accept).body(Bytes::new()).expect("a request"));
            assert_eq!(code, 200, "{path}: {}", String::from_utf8_lossy(&body));
        }
    }
    for (path, object) in objects() {
        let create = Request::post(path).header("content-type", "application/json");
        let (code, body) = cluster.send(create.body(object.to_string().into()).expect("a request"));
        assert_ne!(code, 500, "{path}: {}", String::from_utf8_lossy(&body));
    }
    let (code, _) =
        cluster.send(Request::delete("/api/v1/namespaces/n").body(Bytes::new()).expect("a request"));
    assert_ne!(code, 500, "the namespace of the seeds");
    let mut saved = vec![];
    cluster.server.store().save(&mut saved).expect("a snapshot");
    Snapshot::read(&mut &*saved).expect("what was saved can be read");
}

/// Every page of the serving port answers with a status below 500; the health checks pass here.
pub(crate) fn pages(data: &[u8]) {
    let Some(request) = request(data) else { return };
    let pages = Pages {
        configz: "{}".to_owned(),
        flagz: Some(BTreeMap::from([("v".to_owned(), "2".to_owned())])),
        statusz: Some("1.36".to_owned()),
        debug: true,
        metrics: Metrics::default(),
        checks: Arc::new(|| vec![("leaderElection".to_owned(), Ok(()))]),
        remarks: Arc::new(BTreeMap::new),
        decisions: Some(DecisionLog::default()),
        mounted: None,
        controllers: Default::default(),
        set_verbosity: Some(Arc::new(|_| {})),
        now: Arc::new(|| Clock::system().now()),
    };
    let code = flyball_serving::fuzzing::respond(&pages, &request);
    assert!(code < 500, "{code}");
}

/// A transport that answers nothing.
struct Nowhere;

impl Transport for Nowhere {
    fn send(
        &self,
        _: Request<Bytes>,
    ) -> BoxFuture<'static, Result<http::Response<flyball_client::Body>, TransportError>> {
        Box::pin(std::future::pending())
    }

    fn host(&self) -> &str {
        "nowhere"
    }
}

/// Buttons that do nothing.
struct Idle;

impl Acts for Idle {
    fn act(&self, act: Act) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move { Ok(format!("{act:?}")) })
    }

    fn switch(&self, _: &Node) -> Switch {
        Switch::None
    }
}

/// The live page: a stranger gets nothing but a refusal, and whoever may press buttons gets an answer.
pub(crate) fn page(data: &[u8]) {
    let Some(request) = request(data) else { return };
    runtime().block_on(async {
        let client = Client::new(Arc::new(Nowhere), ClientOptions::default());
        let sources = Sources {
            component: "fuzz",
            clock: Clock::system(),
            informers: Informers::new(client.clone(), InformerOptions::default()),
            insight: Insight::default(),
            health: Health::default(),
            decisions: DecisionLog::default(),
            client,
            leads: Arc::new(|| None),
            acts: Some(Arc::new(Idle)),
            stream_lasts: Duration::from_secs(1),
        };
        let ui = Ui::new(sources, tokio::runtime::Handle::current());
        let address = "127.0.0.1:6443".parse().expect("an address");
        let local = Local::new(ui.clone(), address, &["cluster.example".to_owned()]);
        let (head, body) = request.into_parts();
        let stranger = local.respond(head.clone(), Full::new(body.clone()), Wire::Plain).await;
        assert!(stranger.status().is_client_error(), "{}", stranger.status());
        let owner = ui.respond_to_owner(&head, Full::new(body)).await;
        assert!(
            owner.headers().contains_key("content-security-policy"),
            "a browser must be told what it may do"
        );
    });
}
