//! The metrics APIs (resource, custom and external metrics), read live through the API server.

use std::time::Duration;

use flyball_api::horizontal_pod_autoscaler::{MetricIdentifier, ScaleTarget};
use flyball_api::{Key, LabelSelector, ResourceType, Selector};
use flyball_client::{Client, Encoding, Error, Request, Verb};
use flyball_runtime::Chain;
use parking_lot::Mutex;
use smol_str::{SmolStr, format_smolstr};
use tokio::time::Instant;

use super::mapping::{GroupKind, group_of};
use super::metric::Metric;
use super::proposal::Measured;
use super::scale_client::ScaleClient;
use super::wire::{ExternalValues, Groups, ObjectValues, PodMetricsList};

const CUSTOM: &str = "custom.metrics.k8s.io";
const RESOURCE_PODS: ResourceType =
    ResourceType::new("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", true);
/// The versions of the custom metrics API that can be read. They differ in field names, of which both are read.
const KNOWN_CUSTOM: [&str; 2] = ["custom.metrics.k8s.io/v1beta2", "custom.metrics.k8s.io/v1beta1"];

pub(super) struct MetricsClient {
    client: Client,
    /// How long the version of the custom metrics API is kept.
    period: Duration,
    custom: Mutex<Option<(Instant, SmolStr)>>,
}

impl MetricsClient {
    pub(super) fn new(client: Client, period: Duration) -> Self {
        Self { client, period, custom: Mutex::default() }
    }

    /// The values of a metric now. `pods` selects the pods of the workload.
    pub(super) async fn fetch(
        &self,
        scales: &ScaleClient,
        namespace: &str,
        metric: &Metric<'_>,
        pods: &Selector,
    ) -> Result<Measured, String> {
        match *metric {
            Metric::Resource { name, container, .. } => self.resource(namespace, pods, name, container).await,
            Metric::Pods { metric, .. } => self.pods(namespace, pods, metric).await,
            Metric::Object { metric, object, .. } => self.object(scales, namespace, metric, object).await,
            Metric::External { metric, .. } => self.external(namespace, metric).await,
        }
    }

    async fn resource(
        &self,
        namespace: &str,
        pods: &Selector,
        resource: &str,
        container: Option<&str>,
    ) -> Result<Measured, String> {
        let request = Request::collection(Verb::List, &RESOURCE_PODS, Some(namespace));
        let request = with(request, "labelSelector", pods.to_string());
        let list: PodMetricsList = self.client.send(request).await.map_err(|error| {
            format!("unable to fetch metrics from resource metrics API: {}", Chain(&error))
        })?;
        if list.items.is_empty() {
            return Err("no metrics returned from resource metrics API".to_owned());
        }
        Ok(Measured::Samples(list.samples(resource, container)))
    }

    async fn pods(
        &self,
        namespace: &str,
        pods: &Selector,
        metric: &MetricIdentifier,
    ) -> Result<Measured, String> {
        let fetch = async {
            let resource = self.custom("pods").await?;
            let all = Key::new(namespace, "*");
            let request = Request::object(Verb::Get, &resource, &all, Some(&metric.name));
            let request = with(request, "labelSelector", pods.to_string());
            self.custom_values(request, metric).await
        };
        let values = fetch.await.map_err(from_custom)?;
        if values.items.is_empty() {
            return Err("no metrics returned from custom metrics API".to_owned());
        }
        Ok(Measured::Samples(values.samples()))
    }

    async fn object(
        &self,
        scales: &ScaleClient,
        namespace: &str,
        metric: &MetricIdentifier,
        object: &ScaleTarget,
    ) -> Result<Measured, String> {
        let fetch = async {
            let group = group_of(&object.api_version)?;
            // For a Namespace the name is ignored: an autoscaler reads only the metrics of its own namespace.
            let request = if group.is_empty() && object.kind == "Namespace" {
                let key = Key::new(namespace, metric.name.as_str());
                Request::object(Verb::Get, &self.custom("metrics").await?, &key, None)
            } else {
                let version = self.custom("").await?;
                let kind = GroupKind { group, kind: &object.kind };
                let found = scales.resources(kind).await.map_err(|error| {
                    let dot = if group.is_empty() { "" } else { "." };
                    format!("unable to map kind {}{dot}{group} to resource: {error}", object.kind)
                })?;
                let plural = found.first().map(|found| format_smolstr!("{found}")).unwrap_or_default();
                let key = Key::new(namespace, object.name.as_str());
                let resource = ResourceType { plural, ..version };
                Request::object(Verb::Get, &resource, &key, Some(&metric.name))
            };
            let values = self.custom_values(request, metric).await?;
            match &values.items[..] {
                [one] => Ok(Measured::Total(one.value.milli_value())),
                other => Err(format!(
                    "the custom metrics API server returned {} results when we asked for exactly one",
                    other.len()
                )),
            }
        };
        fetch.await.map_err(from_custom)
    }

    async fn custom_values(
        &self,
        request: Request,
        metric: &MetricIdentifier,
    ) -> Result<ObjectValues, String> {
        let request = with(request, "metricLabelSelector", text(metric.selector.as_ref())?);
        self.client.send(request).await.map_err(|error| Chain(&error).to_string())
    }

    /// A resource of the custom metrics API, in the version that the server prefers.
    async fn custom(&self, plural: &str) -> Result<ResourceType, String> {
        let version = self.custom_version().await?;
        Ok(ResourceType {
            group: SmolStr::new_static(CUSTOM),
            version,
            plural: plural.into(),
            kind: SmolStr::new_static("MetricValueList"),
            namespaced: true,
        })
    }

    async fn custom_version(&self) -> Result<SmolStr, String> {
        let known = self.custom.lock().clone();
        if let Some((since, version)) = known
            && since.elapsed() < self.period
        {
            return Ok(version);
        }
        let reply = self.client.get_raw("/apis").await.map_err(|error| Chain(&error).to_string())?;
        let undecodable =
            |source| Error::Decode { what: "get /apis".into(), encoding: Encoding::Json, source };
        let groups: Groups =
            serde_json::from_slice(&reply.body).map_err(|source| Chain(&undecodable(source)).to_string())?;
        let version = groups.version(CUSTOM, &KNOWN_CUSTOM)?;
        *self.custom.lock() = Some((Instant::now(), version.clone()));
        Ok(version)
    }

    async fn external(&self, namespace: &str, metric: &MetricIdentifier) -> Result<Measured, String> {
        let resource = ResourceType {
            group: SmolStr::new_static("external.metrics.k8s.io"),
            version: SmolStr::new_static("v1beta1"),
            plural: metric.name.clone(),
            kind: SmolStr::new_static("ExternalMetricValue"),
            namespaced: true,
        };
        let request = Request::collection(Verb::List, &resource, Some(namespace));
        let request = with(request, "labelSelector", text(metric.selector.as_ref())?);
        let list: ExternalValues = self.client.send(request).await.map_err(|error| {
            format!("unable to fetch metrics from external metrics API: {}", Chain(&error))
        })?;
        if list.items.is_empty() {
            return Err("no metrics returned from external metrics API".to_owned());
        }
        Ok(Measured::Total(list.total()))
    }
}

fn from_custom(error: String) -> String {
    format!("unable to fetch metrics from custom metrics API: {error}")
}

fn with(request: Request, parameter: &'static str, value: String) -> Request {
    if value.is_empty() { request } else { request.param(parameter, value) }
}

fn text(selector: Option<&LabelSelector>) -> Result<String, String> {
    Selector::from_object(selector).map(|selector| selector.to_string()).map_err(|error| error.to_string())
}
