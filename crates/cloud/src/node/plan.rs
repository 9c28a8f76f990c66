//! What is written to a Node before, during and after its initialisation. Pure.

use flyball_api::{Node, Object, ObjectMeta};
use flyball_client::{Error, Patch};
use flyball_runtime::plan::Answer;
use flyball_runtime::{Effect, ErrorKinds, Event, Plan, SyncError, Write};
use serde_json::{Map, Value, json};
use smol_str::SmolStr;

use super::addresses::{self, NodeIpProblem, preferred};
use super::labels;
use crate::Metadata;

/// How many times a Node is initialised that other clients change at the same time.
pub const ATTEMPTS: usize = 20;
/// The taint by which a kubelet requests initialisation.
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

pub fn is_uninitialized(node: &Node) -> bool {
    node.spec.taints.iter().any(|taint| taint.key == UNINITIALIZED)
}

/// Corrects the GA labels of an initialised Node.
pub fn plan(node: &Node) -> Plan {
    let labels = labels::drifted(&node.metadata.labels);
    if labels.is_empty() {
        return Plan::default();
    }
    let patch = json!({"metadata": {"uid": node.metadata.uid, "labels": labels}});
    let relabel = Write::patch::<Node>(node.key(), Patch::Strategic(patch));
    Plan::of([relabel.why("its GA labels must equal the beta labels").ignore(ErrorKinds::NOT_FOUND)])
}

/// Why a Node cannot be initialised with the metadata of the cloud.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Without a provider ID its machine could never be found, and it cannot be set later.
    #[error("cloud provider does not set node provider ID for node {0}")]
    NoProviderId(SmolStr),
    /// The kubelet prefers an address that the machine does not have.
    #[error("provided node ip for node {node:?} is not valid")]
    NodeIp {
        node: SmolStr,
        #[source]
        source: NodeIpProblem,
    },
}

/// Whether a Node can be initialised with the metadata of the cloud.
pub fn check(node: &Node, metadata: &Metadata) -> Result<(), Unfit> {
    let name = &node.metadata.name;
    if metadata.provider_id.is_empty() && node.spec.provider_id.is_empty() {
        return Err(Unfit::NoProviderId(name.clone()));
    }
    let fits = preferred(node, metadata.addresses.clone());
    fits.map(|_| ()).map_err(|source| Unfit::NodeIp { node: name.clone(), source })
}

/// Initialises a Node; `None` if it is initialised. `live` is the Node as the server has it, parsed as `node`.
pub fn initialise(live: Value, node: &Node, metadata: &Metadata) -> Option<Write> {
    let why = format!("the cloud knows its machine as {}", metadata.provider_id);
    let replace = || Write::update::<Node>(node.key(), initialised(live, node, metadata));
    is_uninitialized(node).then(replace).map(|write| write.why(why).ignore(ErrorKinds::NOT_FOUND))
}

/// What follows an attempt to initialise a Node.
#[derive(Debug)]
pub enum AfterAttempt {
    /// It is initialised. The metadata are those in the response, if it had any.
    Initialised(Option<Box<ObjectMeta>>),
    /// The Node does not exist any more.
    Gone,
    /// It has changed since it was read: read it and plan again.
    Again,
}

/// What follows attempt number `attempt` (from 1), given the answer to its write.
///
/// # Errors
/// The write failed for another reason than a conflict, or there were conflicts at each attempt.
pub fn after_attempt(attempt: usize, answer: Result<Answer, SyncError>) -> Result<AfterAttempt, SyncError> {
    match answer {
        Ok(Answer::Written(meta)) => Ok(AfterAttempt::Initialised(meta)),
        Ok(Answer::Ignored(_)) => Ok(AfterAttempt::Gone),
        Err(error) if attempt < ATTEMPTS && error.api_error().is_some_and(Error::is_conflict) => {
            Ok(AfterAttempt::Again)
        }
        Err(error) => Err(error),
    }
}

/// What follows the initialisation of a Node. The event is emitted even if the addresses could not be written.
pub fn after_initialisation(node: &Node, metadata: &Metadata) -> Vec<Effect> {
    let synced = Event::normal("Synced", "Node synced successfully");
    let addresses = addresses::plan(node, Some(metadata));
    vec![Effect::each(addresses.into_iter().chain([synced.into()])).into()]
}

/// The whole Node with provider ID and labels, without the taint.
pub fn initialised(mut live: Value, node: &Node, metadata: &Metadata) -> Value {
    if node.spec.provider_id.is_empty() && !metadata.provider_id.is_empty() {
        object(&mut live, "spec").insert("providerID".to_owned(), json!(metadata.provider_id));
    }
    let new = labels::initial(metadata, &node.metadata.labels).set;
    if !new.is_empty()
        && let Some(of_meta) =
            object(&mut live, "metadata").entry("labels").or_insert(json!({})).as_object_mut()
    {
        of_meta.extend(new.into_iter().map(|(key, value)| (key.to_string(), json!(value))));
    }
    if let Some(taints) = object(&mut live, "spec").get_mut("taints").and_then(Value::as_array_mut) {
        taints.retain(|taint| taint["key"] != UNINITIALIZED);
    }
    live
}

/// The object in a field. A field that holds something else is replaced: the server would not accept it.
fn object<'a>(value: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !value[field].is_object() {
        value[field] = json!({});
    }
    match &mut value[field] {
        Value::Object(map) => map,
        _ => unreachable!("it was made an object"),
    }
}
