//! Admission webhooks that a cloud serves (`--webhooks`, `--webhook-*`, feature gate `CloudControllerManagerWebhook`).
//!
//! - **Promise**: the webhooks of the cloud that `--webhooks` names are served over HTTPS on `--webhook-secure-port`, also by
//!   standbys. Callers are not authenticated, as in upstream.
//! - Upstream: `cloud-provider/app/webhooks.go`. What differs: without a webhook to serve nothing listens (upstream binds the
//!   port if `--webhooks` is given, and then answers nothing); a port of 0 serves none (upstream crashes); a panic of a handler
//!   is a failed request.

mod review;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use flyball_manager::options::Options;
use flyball_manager::select::is_listed;
use flyball_runtime::metrics::{Family, Metrics, Stability};
use flyball_serving::{Handler, Listening, OpenServer, Posted, Reply, ServingError};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;

pub use review::{AdmissionRequest, AdmissionResponse, GroupVersionKind, GroupVersionResource};

static REQUESTS: Family = Family::counter(
    "cloud_provider_webhook_request_total",
    Stability::Alpha,
    &["code", "webhook"],
    "Number of HTTP requests partitioned by status code.",
);
static LATENCY: Family = Family::histogram(
    "cloud_provider_webhook_request_duration_seconds",
    Stability::Alpha,
    &["code", "webhook"],
    &[0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0],
    "Request latency in seconds. Broken down by status code.",
);

/// Why a webhook has no answer.
pub type WebhookError = Box<dyn std::error::Error + Send + Sync>;

type Admit = Arc<
    dyn Fn(AdmissionRequest) -> BoxFuture<'static, Result<AdmissionResponse, WebhookError>> + Send + Sync,
>;

/// An admission webhook of a cloud.
#[derive(Clone)]
pub struct Webhook {
    name: &'static str,
    path: &'static str,
    admit: Admit,
}

impl Webhook {
    /// A webhook with its name in `--webhooks` and its path. An error is a failed request, and the `failurePolicy` of the
    /// webhook's configuration decides what follows.
    pub fn new<F: Future<Output = Result<AdmissionResponse, WebhookError>> + Send + 'static>(
        name: &'static str,
        path: &'static str,
        admit: impl Fn(AdmissionRequest) -> F + Send + Sync + 'static,
    ) -> Self {
        Self { name, path, admit: Arc::new(move |request| admit(request).boxed()) }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Webhook({} at {})", self.name, self.path)
    }
}

/// The webhooks that a `--webhooks` list names.
///
/// # Errors
/// The list names a webhook that there is not.
pub fn chosen(all: &[Webhook], list: &[String]) -> Result<Vec<Webhook>, String> {
    for name in list.iter().filter(|name| *name != "*") {
        let name = name.strip_prefix('-').unwrap_or(name);
        if !all.iter().any(|webhook| webhook.name == name) {
            let names: Vec<&str> = all.iter().map(Webhook::name).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(format!("--webhooks: there is no webhook {name:?}; this cloud has: {known}"));
        }
    }
    Ok(all.iter().filter(|webhook| is_listed(webhook.name, true, list)).cloned().collect())
}

/// Serves webhooks; `None` if there are none, or if the port is 0.
///
/// # Errors
/// The certificate cannot be used, or the port cannot be bound.
pub fn serve(
    webhooks: &[Webhook],
    options: &Options,
    metrics: &Metrics,
) -> Result<Option<Listening>, ServingError> {
    if webhooks.is_empty() {
        return Ok(None);
    }
    let handlers: BTreeMap<String, Handler> =
        webhooks.iter().map(|webhook| (webhook.path.to_owned(), handler(webhook, metrics))).collect();
    let listening = OpenServer::new(handlers).listen(&options.webhook_serving)?;
    if let Some(listening) = &listening {
        tracing::info!(address = %listening.address, ?webhooks, "serving webhooks");
    }
    Ok(listening)
}

fn handler(webhook: &Webhook, metrics: &Metrics) -> Handler {
    let (webhook, metrics) = (webhook.clone(), metrics.clone());
    Arc::new(move |posted| {
        let (webhook, metrics) = (webhook.clone(), metrics.clone());
        async move {
            let began = Instant::now();
            let reply = answer(&webhook, &posted).await;
            // As upstream: successful requests are not counted.
            if let Reply::Text(code, problem) = &reply {
                tracing::error!(webhook = webhook.name, problem, "a request to a webhook failed");
                let labels = [&*code.to_string(), webhook.name];
                metrics.counter(&REQUESTS, &labels).inc();
                metrics.histogram(&LATENCY, &labels).observe(began.elapsed().as_secs_f64());
            }
            reply
        }
        .boxed()
    })
}

async fn answer(webhook: &Webhook, posted: &Posted) -> Reply {
    let request = match review::request(&posted.content_type, &posted.body) {
        Ok(request) => request,
        Err(problem) => return Reply::Text(400, problem),
    };
    let uid = request.uid.clone();
    let admit = async { (webhook.admit)(request).await };
    let failed = |problem: &dyn fmt::Display| {
        Reply::Text(500, format!("error generating admission response: {problem}"))
    };
    match AssertUnwindSafe(admit).catch_unwind().await {
        Ok(Ok(response)) => Reply::Json(review::review(&uid, &response)),
        Ok(Err(error)) => failed(&flyball_runtime::Chain(&*error)),
        Err(_) => failed(&"the handler panicked"),
    }
}
