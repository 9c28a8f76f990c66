//! The same objects in protobuf and in JSON: both must give equal values, and protobuf must give the same JSON.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, anyhow, ensure};
use bytes::Bytes;
use flyball_api::protobuf::{self, Envelope, List, Message};
use flyball_api::*;
use flyball_client::{ConnectOptions, Transport, connect};
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api::{Api, FAN_OUT, Resource as Served};
use crate::cluster::Cluster;

const METADATA: &str = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Compares a resource's objects in both encodings.
pub(super) struct Encodings {
    transport: Arc<dyn Transport>,
    compared: AtomicUsize,
}

impl Encodings {
    pub(super) async fn of(cluster: &Cluster) -> anyhow::Result<Self> {
        let kubeconfig = Some(cluster.dir().join("admin.kubeconfig"));
        let connection = connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await?;
        Ok(Self { transport: connection.transport(), compared: AtomicUsize::new(0) })
    }

    /// How many objects have been compared.
    pub(super) fn compared(&self) -> usize {
        self.compared.load(Ordering::Relaxed)
    }

    /// Compares all objects of the server: whole if they are of a built-in kind, and their metadata.
    pub(super) async fn check(&self, api: &Api) -> anyhow::Result<()> {
        let resources = api.preferred().into_iter().filter(|resource| {
            // Component statuses have no identity and no version.
            resource.allows("list") && resource.name != "componentstatuses"
        });
        let check = |resource: Arc<Served>| async move {
            self.check_resource(&resource).await.with_context(|| resource.name.clone())
        };
        let checked = futures::stream::iter(resources).map(check).buffer_unordered(FAN_OUT);
        let different: Vec<String> = checked
            .filter_map(|result| std::future::ready(result.err().map(|error| format!("{error:#}"))))
            .collect()
            .await;
        ensure!(different.is_empty(), "{}", different.join("\n"));
        Ok(())
    }

    async fn check_resource(&self, resource: &Served) -> anyhow::Result<()> {
        let path = resource.url(None, None, None);
        self.check_list(&path, METADATA, same::<PartialObject>).await?;
        if Message::of_kind(&resource.group_version, &resource.kind).is_none() {
            return Ok(());
        }
        let slim = KINDS.iter().find(|(kind, _)| *kind == resource.as_type());
        self.check_list(&path, "", slim.map_or(same_json, |(_, compare)| *compare)).await
    }

    async fn check_list(&self, path: &str, view: &str, compare: Compare) -> anyhow::Result<()> {
        let Some(body) = self.get(path, &format!("application/json{view}")).await? else { return Ok(()) };
        #[derive(Deserialize)]
        struct JsonList<'a> {
            #[serde(borrow, default)]
            items: Option<Vec<&'a RawValue>>,
        }
        let list: JsonList<'_> = serde_json::from_slice(&body).context("a list in JSON")?;
        let mut by_version = BTreeMap::new();
        for item in list.items.unwrap_or_default() {
            let meta = PartialObject::from_json(item.get().as_bytes())?.metadata;
            by_version.insert((meta.uid.to_string(), meta.resource_version), item.get());
        }
        let accept = format!("application/vnd.kubernetes.protobuf{view}");
        let Some(body) = self.get(path, &accept).await? else { return Ok(()) };
        let envelope = Envelope::open(&body).context("a list in protobuf")?;
        let message = envelope.item_message()?;
        for item in List::open(envelope.raw)?.items {
            let meta = PartialObject::from_protobuf(message, item)?.metadata;
            // What changed between the two requests cannot be compared.
            let Some(json) = by_version.get(&(meta.uid.to_string(), meta.resource_version)) else { continue };
            compare(message, item, json).with_context(|| format!("{} as {:?}", meta.key(), view))?;
            self.compared.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// `None` if the resource is not served now: its definition or its server is gone, or has just come.
    async fn get(&self, path: &str, accept: &str) -> anyhow::Result<Option<Bytes>> {
        let request = http::Request::get(path)
            .header(http::header::ACCEPT, accept)
            .header(http::header::USER_AGENT, "encodings")
            .body(Bytes::new())?;
        let response = self.transport.send(request).await?;
        let code = response.status();
        let body = response.into_body().collect().await.map_err(|error| anyhow!(error))?.to_bytes();
        if matches!(code.as_u16(), 404 | 429 | 503) {
            return Ok(None);
        }
        ensure!(code.is_success(), "{code}: {}", String::from_utf8_lossy(&body));
        Ok(Some(body))
    }
}

type Compare = fn(&'static Message, &[u8], &str) -> anyhow::Result<()>;

/// The type of a claim in a StatefulSet, which protobuf does not have. They are requested as JSON.
const EMBEDDED: &str = r#""kind":"PersistentVolumeClaim","apiVersion":"v1","#;

/// The JSON of a message is that of the server, byte for byte but for the type, which items of some lists have.
fn same_json(message: &'static Message, bytes: &[u8], json: &str) -> anyhow::Result<()> {
    let converted = protobuf::to_json(message, bytes)?;
    let server = match json.find("\"metadata\":") {
        Some(at) => format!("{{{}", &json[at..]),
        None => json.to_owned(),
    };
    let server = if is_stateful_set(message) { server.replace(EMBEDDED, "") } else { server };
    ensure!(converted == server, "protobuf is {converted}\nJSON is     {server}");
    Ok(())
}

fn is_stateful_set(message: &'static Message) -> bool {
    Message::of_kind("apps/v1", "StatefulSet").is_some_and(|of_kind| std::ptr::eq(of_kind, message))
}

/// The same, and both are decoded to the same value.
fn same<T: Object + Debug>(message: &'static Message, bytes: &[u8], json: &str) -> anyhow::Result<()> {
    same_json(message, bytes, json)?;
    let (from_protobuf, from_json) = (T::from_protobuf(message, bytes)?, T::from_json(json.as_bytes())?);
    let (from_protobuf, from_json) = (format!("{from_protobuf:?}"), format!("{from_json:?}"));
    ensure!(from_protobuf == from_json, "protobuf is {from_protobuf}\nJSON is     {from_json}");
    Ok(())
}

const fn kind<T: Resource + Debug>() -> (ResourceType, Compare) {
    (T::TYPE, same::<T>)
}

/// The kinds that have a type of ours. Not StatefulSets: see [`EMBEDDED`].
const KINDS: &[(ResourceType, Compare)] = &[
    kind::<CSIDriver>(),
    kind::<CSINode>(),
    kind::<CertificateSigningRequest>(),
    kind::<ClusterRole>(),
    kind::<ConfigMap>(),
    kind::<ControllerRevision>(),
    kind::<CronJob>(),
    kind::<DaemonSet>(),
    kind::<Deployment>(),
    kind::<DeviceClass>(),
    kind::<EndpointSlice>(),
    kind::<Endpoints>(),
    kind::<Event>(),
    kind::<HorizontalPodAutoscaler>(),
    kind::<IPAddress>(),
    kind::<Job>(),
    kind::<Lease>(),
    kind::<Namespace>(),
    kind::<Node>(),
    kind::<PersistentVolume>(),
    kind::<PersistentVolumeClaim>(),
    kind::<Pod>(),
    kind::<PodDisruptionBudget>(),
    kind::<ReplicaSet>(),
    kind::<ReplicationController>(),
    kind::<ResourceClaim>(),
    kind::<ResourceClaimTemplate>(),
    kind::<ResourceQuota>(),
    kind::<ResourceSlice>(),
    kind::<Secret>(),
    kind::<Service>(),
    kind::<ServiceAccount>(),
    kind::<ServiceCIDR>(),
    kind::<StorageClass>(),
    kind::<ValidatingAdmissionPolicy>(),
    kind::<VolumeAttachment>(),
    kind::<VolumeAttributesClass>(),
];
