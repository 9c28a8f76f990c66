//! Namespaces that do not go away, and certificate requests that are not signed.

use crate::finding::Finding;
use crate::object::Obj;
use crate::words::{list, one_line, since};
use crate::world::World;

pub(super) fn content(world: &World, namespace: Obj<'_>) -> Vec<Finding> {
    if !namespace.is_deleting() {
        return Vec::new();
    }
    let since = since(namespace.time("/metadata/deletionTimestamp"), world.now);
    let mut found = Vec::new();
    let mut push = |text: String, advice: &str| {
        let text = format!("it is being deleted{since}: {text}");
        found.push(Finding::blocks("namespace-content", namespace, text).advise(advice));
    };
    let bad = |kind: &str| namespace.condition(kind).filter(|condition| condition.status == "True");
    if let Some(failed) = bad("NamespaceDeletionDiscoveryFailure") {
        let broken: Vec<String> = world
            .list("APIService", "")
            .filter_map(|service| {
                let available =
                    service.condition("Available").filter(|condition| condition.status != "True")?;
                Some(format!("{} ({})", service.name(), one_line(available.message, 120)))
            })
            .collect();
        let which = if broken.is_empty() {
            one_line(failed.message, 240)
        } else {
            format!("APIService {} is not available", list(&broken, 3))
        };
        push(
            format!("the API server cannot list all kinds: {which}"),
            "repair or delete the APIService: nothing is deleted for good while its objects are unknown",
        );
    }
    if let Some(left) = bad("NamespaceFinalizersRemaining") {
        let detail =
            left.message.split_once("finalizers remaining: ").map_or(left.message, |(_, detail)| detail);
        let content = bad("NamespaceContentRemaining");
        let content = content
            .and_then(|content| content.message.split_once("are remaining: "))
            .map(|(_, rest)| format!(" ({rest})"));
        push(
            format!("objects in it have finalizers: {}{}", detail, content.unwrap_or_default()),
            "the controllers of these finalizers must run, possibly in the deleted namespace itself; else remove the finalizers from the objects",
        );
    } else if let Some(left) = bad("NamespaceContentRemaining") {
        let detail = left.message.split_once("are remaining: ").map_or(left.message, |(_, detail)| detail);
        push(format!("objects in it remain: {detail}"), "ask why of these objects");
    }
    if let Some(failed) = bad("NamespaceDeletionContentFailure") {
        push(format!("deleting its content failed: {}", one_line(failed.message, 300)), "see the message");
    }
    if let Some(failed) = bad("NamespaceDeletionGroupVersionParsingFailure") {
        push(one_line(failed.message, 200), "see the message");
    }
    let foreign: Vec<&str> =
        namespace.texts("/spec/finalizers").into_iter().filter(|name| *name != "kubernetes").collect();
    if !foreign.is_empty() {
        push(
            format!("spec.finalizers has {}", list(&foreign, 3)),
            "the controller that added it must remove it",
        );
    }
    if found.is_empty() {
        let text = format!("it is being deleted{since}: its content is being removed");
        found.push(
            Finding::waits("namespace-content", namespace, text)
                .advise("if this lasts, check that the controller manager runs"),
        );
    }
    found
}

pub(super) fn signing(_: &World, request: Obj<'_>) -> Vec<Finding> {
    let signer = request.text("/spec/signerName");
    if !request.text("/status/certificate").is_empty() {
        return Vec::new();
    }
    let said = |kind: &str| request.condition(kind).map(|condition| one_line(condition.message, 200));
    if let Some(message) = said("Denied") {
        return vec![Finding::blocks("signing", request, format!("it was denied: {message}"))];
    }
    if let Some(message) = said("Failed") {
        return vec![Finding::blocks("signing", request, format!("signing it failed: {message}"))];
    }
    if request.condition("Approved").is_none() {
        let advice = format!("kubectl certificate approve {}", request.name());
        return vec![Finding::blocks("signing", request, "it is not approved").advise(advice)];
    }
    let is_ours = signer.starts_with("kubernetes.io/");
    let advice = match is_ours {
        true => "check that the controller manager runs with --cluster-signing-cert-file",
        false => "check that the signer's controller runs",
    };
    vec![
        Finding::blocks("signing", request, format!("it is approved, and signer {signer} has not signed it"))
            .advise(advice),
    ]
}
