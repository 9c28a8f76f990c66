//! The verbs on [`Client`], typed: by the Rust type of a resource, or by an explicit resource type.

use bytes::Bytes;
use flyball_api::protobuf::{self, Envelope};
use flyball_api::{Key, Object, ObjectMeta, PartialObject, Resource, ResourceType, ResourceVersion};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use smol_str::SmolStr;

use crate::chain::Chain;
use crate::client::{Client, Reply, what};
use crate::encoding::{Encoding, RawObject};
use crate::error::{Error, without_quotes};
use crate::request::{Accept, DeleteOptions, ListParams, Patch, Request, Verb};

/// One page of a collection.
#[derive(Debug, Clone)]
pub struct List<T> {
    /// The version of the collection, from which it can be watched.
    pub resource_version: ResourceVersion,
    /// The continue token; absent on the last page.
    pub continue_: Option<SmolStr>,
    /// How many objects are left, if the server sets it.
    pub remaining: Option<i64>,
    pub items: Vec<T>,
}

/// The response to a deletion.
#[derive(Debug, Clone)]
pub struct Deleted {
    /// The object: one that is still being deleted (deletion timestamp, finalizers), or for a few kinds its last state. Absent
    /// if the server returned only a status.
    pub object: Option<PartialObject>,
}

impl Deleted {
    /// Its metadata, if the server returned it.
    pub fn meta(&self) -> Option<&ObjectMeta> {
        self.object.as_ref().map(|o| &o.metadata)
    }
}

impl Client {
    pub async fn get<T: Resource>(&self, key: &Key) -> Result<T, Error> {
        self.object(Request::object(Verb::Get, &T::TYPE, key, None)).await
    }

    /// Reads one object of any resource.
    pub async fn get_dynamic(&self, resource: &ResourceType, key: &Key) -> Result<Value, Error> {
        self.get_as(resource, key, None).await
    }

    /// Reads one object, or a subresource of it, into any type.
    pub async fn get_as<O: DeserializeOwned>(
        &self,
        resource: &ResourceType,
        key: &Key,
        subresource: Option<&str>,
    ) -> Result<O, Error> {
        self.send(Request::object(Verb::Get, resource, key, subresource)).await
    }

    /// Reads one page of a collection; without a limit, all of it.
    pub async fn list<T: Resource>(
        &self,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<List<T>, Error> {
        let request = params.apply(Request::collection(Verb::List, &T::TYPE, namespace));
        self.read(request.reading_protobuf(true), |reply| {
            let List { resource_version, continue_, remaining, items } = reply.list()?;
            let items = items.iter().map(RawObject::decode).collect::<serde_json::Result<_>>()?;
            Ok(List { resource_version, continue_, remaining, items })
        })
        .await
    }

    /// Reads one page of any collection.
    pub async fn list_dynamic(
        &self,
        resource: &ResourceType,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<List<Value>, Error> {
        self.list_as(resource, namespace, params).await
    }

    /// Reads one page into any type.
    pub async fn list_as<O: DeserializeOwned>(
        &self,
        resource: &ResourceType,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<List<O>, Error> {
        let request = params.apply(Request::collection(Verb::List, resource, namespace));
        self.send::<WireList<O>>(request.reading_protobuf(false)).await.map(List::from)
    }

    /// Reads one page without decoding the objects: they are slices of the response. It is not repeated as JSON: who reads more
    /// pages should then request JSON for all of them ([`Error::suggests_json`]).
    pub async fn list_raw(
        &self,
        resource: &ResourceType,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<List<RawObject>, Error> {
        let request = params.apply(Request::collection(Verb::List, resource, namespace));
        self.decoded(request, &|reply: Reply| reply.list()).await
    }

    pub async fn create<T: Resource>(
        &self,
        namespace: impl Into<Option<&str>>,
        object: &(impl Serialize + ?Sized),
    ) -> Result<T, Error> {
        self.object_with(Request::collection(Verb::Create, &T::TYPE, namespace.into()), object).await
    }

    /// Creates an object of any resource.
    pub async fn create_dynamic(
        &self,
        resource: &ResourceType,
        namespace: impl Into<Option<&str>>,
        object: &(impl Serialize + ?Sized),
    ) -> Result<Value, Error> {
        self.create_as(resource, namespace.into(), object).await
    }

    /// Creates an object and decodes the response as any type.
    pub async fn create_as<O: DeserializeOwned>(
        &self,
        resource: &ResourceType,
        namespace: Option<&str>,
        object: &(impl Serialize + ?Sized),
    ) -> Result<O, Error> {
        self.send_body(Request::collection(Verb::Create, resource, namespace), object).await
    }

    /// POSTs to a subresource (`token`, `eviction`, `binding`).
    pub async fn create_subresource<O: DeserializeOwned>(
        &self,
        resource: &ResourceType,
        key: &Key,
        subresource: &str,
        object: &(impl Serialize + ?Sized),
    ) -> Result<O, Error> {
        self.send_body(Request::object(Verb::Create, resource, key, Some(subresource)), object).await
    }

    /// Replaces an object, or its `status`.
    pub async fn update<T: Resource>(
        &self,
        key: &Key,
        subresource: Option<&str>,
        object: &(impl Serialize + ?Sized),
    ) -> Result<T, Error> {
        self.object_with(Request::object(Verb::Update, &T::TYPE, key, subresource), object).await
    }

    /// Replaces an object of any resource.
    pub async fn update_dynamic(
        &self,
        resource: &ResourceType,
        key: &Key,
        subresource: Option<&str>,
        object: &(impl Serialize + ?Sized),
    ) -> Result<Value, Error> {
        self.update_as(resource, key, subresource, object).await
    }

    /// Replaces an object and decodes the response as any type.
    pub async fn update_as<O: DeserializeOwned>(
        &self,
        resource: &ResourceType,
        key: &Key,
        subresource: Option<&str>,
        object: &(impl Serialize + ?Sized),
    ) -> Result<O, Error> {
        self.send_body(Request::object(Verb::Update, resource, key, subresource), object).await
    }

    pub async fn patch<T: Resource>(
        &self,
        key: &Key,
        subresource: Option<&str>,
        patch: &Patch,
    ) -> Result<T, Error> {
        self.object_with(Request::patch(&T::TYPE, key, subresource, patch), patch.document()).await
    }

    /// Patches an object of any resource.
    pub async fn patch_dynamic(
        &self,
        resource: &ResourceType,
        key: &Key,
        subresource: Option<&str>,
        patch: &Patch,
    ) -> Result<Value, Error> {
        self.patch_as(resource, key, subresource, patch).await
    }

    /// Patches an object and decodes the response as any type.
    pub async fn patch_as<O: DeserializeOwned>(
        &self,
        resource: &ResourceType,
        key: &Key,
        subresource: Option<&str>,
        patch: &Patch,
    ) -> Result<O, Error> {
        self.send_body(Request::patch(resource, key, subresource, patch), patch.document()).await
    }

    pub async fn delete<T: Resource>(&self, key: &Key, options: &DeleteOptions) -> Result<Deleted, Error> {
        self.delete_dynamic(&T::TYPE, key, options).await
    }

    /// Deletes an object of any resource.
    pub async fn delete_dynamic(
        &self,
        resource: &ResourceType,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Deleted, Error> {
        let request = Request::object(Verb::Delete, resource, key, None).accept(Accept::Metadata);
        let body = encode(&request, &options.to_value())?;
        self.decoded(request.body(body).reading_protobuf(true), &|reply: Reply| deleted(&reply)).await
    }

    /// Deletes the matching objects of a collection.
    pub async fn delete_collection(
        &self,
        resource: &ResourceType,
        namespace: Option<&str>,
        params: &ListParams,
        options: &DeleteOptions,
    ) -> Result<(), Error> {
        let request = params.apply(Request::collection(Verb::DeleteCollection, resource, namespace));
        let body = encode(&request, &options.to_value())?;
        self.request(request.body(body)).await.map(drop)
    }

    /// Sends a request with `body` and decodes the response as `O`.
    pub async fn send_body<O: DeserializeOwned>(
        &self,
        request: Request,
        body: &(impl Serialize + ?Sized),
    ) -> Result<O, Error> {
        let body = encode(&request, body)?;
        self.send(request.body(body)).await
    }

    /// Sends a request with `body` whose response is an object.
    pub async fn object_with<T: Object>(
        &self,
        request: Request,
        body: &(impl Serialize + ?Sized),
    ) -> Result<T, Error> {
        let body = encode(&request, body)?;
        self.object(request.body(body)).await
    }

    /// Sends a request whose response is an object.
    pub async fn object<T: Object>(&self, request: Request) -> Result<T, Error> {
        // A whole object in protobuf may have a field that cannot be kept. A read is then repeated as JSON; a write cannot be,
        // so its response is protobuf only if it is reduced to metadata.
        match request.verb.is_write() {
            false => self.read(request.reading_protobuf(true), Reply::object).await,
            true => self.decoded(request.reading_protobuf(T::IS_METADATA), &Reply::object).await,
        }
    }

    /// Sends a request and decodes the response as `O`.
    pub async fn send<O: DeserializeOwned>(&self, request: Request) -> Result<O, Error> {
        self.decoded(request.reading_protobuf(false), &|reply: Reply| serde_json::from_slice(&reply.body))
            .await
    }

    /// Sends a read, and sends it again without protobuf if that [may help](Error::suggests_json).
    async fn read<O>(
        &self,
        request: Request,
        decode: impl Fn(Reply) -> serde_json::Result<O>,
    ) -> Result<O, Error> {
        let as_json = self.offers(&request).then(|| request.clone().reading_protobuf(false));
        match (self.decoded(request, &decode).await, as_json) {
            (Err(error), Some(as_json)) if error.suggests_json() => {
                tracing::debug!(request = %as_json, error = %Chain(&error), "no protobuf that can be read, requesting JSON");
                Box::pin(self.decoded(as_json, &decode)).await
            }
            (outcome, _) => outcome,
        }
    }

    /// Sends a request and decodes the response.
    async fn decoded<O>(
        &self,
        request: Request,
        decode: &impl Fn(Reply) -> serde_json::Result<O>,
    ) -> Result<O, Error> {
        let name = NameOnFailure(request.verb, request.resource.clone());
        let reply = self.request(request).await?;
        let encoding = reply.encoding;
        decode(reply).map_err(|error| {
            let source = if name.1.holds_secrets() { without_quotes(&error) } else { error };
            Error::Decode { what: name.into(), encoding, source }
        })
    }
}

/// The name of a request for errors, formatted only when it is needed.
struct NameOnFailure(Verb, ResourceType);

impl From<NameOnFailure> for Box<str> {
    fn from(NameOnFailure(verb, resource): NameOnFailure) -> Self {
        format!("{verb} {resource}").into()
    }
}

fn encode(request: &Request, body: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body).map_err(|source| Error::Invalid { what: what(request), source: source.into() })
}

impl Reply {
    /// The response as an object.
    fn object<T: Object>(self) -> serde_json::Result<T> {
        match self.encoding {
            Encoding::Protobuf => RawObject::in_envelope(&self.body)?.decode(),
            Encoding::Json => T::from_json(&self.body),
        }
    }

    /// The response as a list of objects, which are slices of it.
    fn list(self) -> serde_json::Result<List<RawObject>> {
        match self.encoding {
            Encoding::Protobuf => protobuf_list(&self.body),
            Encoding::Json => json_list(&self.body),
        }
    }
}

fn json_list(body: &Bytes) -> serde_json::Result<List<RawObject>> {
    let list: WireList<&RawValue> = serde_json::from_slice(body)?;
    let List { resource_version, continue_, remaining, items } = list.into();
    let item = |item: &RawValue| RawObject::json(body.slice_ref(item.get().as_bytes()));
    Ok(List { resource_version, continue_, remaining, items: items.into_iter().map(item).collect() })
}

fn protobuf_list(body: &Bytes) -> serde_json::Result<List<RawObject>> {
    let envelope = Envelope::open(body)?;
    let message = envelope.item_message()?;
    let list = protobuf::List::open(envelope.raw)?;
    let item = |item: &[u8]| RawObject::protobuf(message, body.slice_ref(item));
    Ok(List {
        resource_version: list.resource_version.parse().map_err(serde_json::Error::custom)?,
        continue_: (!list.continue_.is_empty()).then(|| list.continue_.into()),
        remaining: list.remaining,
        items: list.items.into_iter().map(item).collect(),
    })
}

fn deleted(reply: &Reply) -> serde_json::Result<Deleted> {
    if reply.encoding == Encoding::Protobuf {
        let envelope = Envelope::open(&reply.body)?;
        let object = match envelope.kind {
            "Status" => None,
            _ => Some(PartialObject::from_protobuf(envelope.message()?, envelope.raw)?),
        };
        return Ok(Deleted { object });
    }
    let WireDeleted { kind, metadata } = serde_json::from_slice(&reply.body)?;
    Ok(Deleted { object: (kind != "Status").then_some(PartialObject { metadata }) })
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct WireList<T> {
    #[serde(default)]
    metadata: WireListMeta,
    #[serde(default = "Vec::new", deserialize_with = "null_as_empty")]
    items: Vec<T>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WireListMeta {
    resource_version: ResourceVersion,
    #[serde(rename = "continue")]
    continue_: SmolStr,
    remaining_item_count: Option<i64>,
}

/// Go writes an empty slice as `null`.
fn null_as_empty<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

impl<T> From<WireList<T>> for List<T> {
    fn from(WireList { metadata, items }: WireList<T>) -> Self {
        let continue_ = Some(metadata.continue_).filter(|c| !c.is_empty());
        Self {
            resource_version: metadata.resource_version,
            continue_,
            remaining: metadata.remaining_item_count,
            items,
        }
    }
}

#[derive(Deserialize)]
struct WireDeleted {
    #[serde(default)]
    kind: SmolStr,
    #[serde(default)]
    metadata: ObjectMeta,
}
