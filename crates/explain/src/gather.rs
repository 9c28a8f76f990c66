//! Reads what an explanation needs through the client: the only part with I/O.

use std::collections::BTreeSet;

use flyball_api::{Key, ResourceType, Timestamp};
use flyball_client::{Client, Discovery, Error, ListParams};
use futures::{StreamExt as _, stream};
use serde_json::Value;

use crate::object::Ref;
use crate::wants::{Want, resource_of, wants};
use crate::world::{Log, World};

/// Requests at once.
const CONCURRENCY: usize = 8;
/// The page size of lists and the maximum number of pages. If there are more, the explanation says that the list is incomplete.
const PAGE: u32 = 500;
const PAGES: usize = 20;
/// More rounds than the longest chain of objects needs.
const ROUNDS: usize = 12;
/// Decisions that are asked for.
const DECISIONS: usize = 4096;

/// Reads everything that matters for this object. Fails only if the object itself cannot be read.
pub async fn gather(
    client: &Client,
    discovery: &Discovery,
    asked: &Ref,
    now: Timestamp,
) -> Result<World, Error> {
    let mut world = World::at(now);
    let mut done: BTreeSet<Want> = BTreeSet::new();
    for round in 0..ROUNDS {
        let next: BTreeSet<Want> =
            wants(&world, asked).into_iter().filter(|want| !done.contains(want)).collect();
        if next.is_empty() {
            break;
        }
        let mut answers = stream::iter(next.iter().cloned())
            .map(|want| async move {
                // An object may refer to a Secret that the reader of the explanation may not know about.
                let is_withheld = round > 0 && want.group.is_empty() && want.kind == "Secret";
                let answer = match is_withheld {
                    true => Answer::Withheld,
                    false => read(client, discovery, &want).await,
                };
                (want, answer)
            })
            .buffer_unordered(CONCURRENCY);
        while let Some((want, answer)) = answers.next().await {
            match answer {
                Answer::Objects(objects, is_complete) => {
                    objects.into_iter().for_each(|object| world.insert(object));
                    if is_complete && want.name.is_none() && want.labels.is_none() && want.fields.is_none() {
                        world.record_listed(&want.group, &want.kind, &want.namespace);
                    }
                    if !is_complete {
                        world.record_unread(&want.kind, "there are too many; only a part was read");
                    }
                }
                Answer::Absent(names) => names.into_iter().for_each(|name| world.record_absent(name)),
                Answer::Failed(error) if round == 0 => return Err(error),
                Answer::Failed(error) => world.record_unread(&want.kind, &said(&error)),
                Answer::Withheld => world.record_unread(&want.kind, "Secrets are not read for others"),
                Answer::Unserved => world.record_unread(&want.kind, "the server does not serve this kind"),
            }
        }
        drop(answers);
        done.extend(next);
    }
    Ok(world)
}

fn said(error: &Error) -> String {
    match error.status() {
        Some(status) => status.message.clone(),
        None => error.to_string(),
    }
}

enum Answer {
    /// And whether these are all.
    Objects(Vec<Value>, bool),
    Absent(Vec<Ref>),
    Failed(Error),
    Unserved,
    Withheld,
}

async fn read(client: &Client, discovery: &Discovery, want: &Want) -> Answer {
    let found = resource_of(want).cloned().or_else(|| {
        let resources = discovery.resources.iter().map(|found| &found.resource);
        resources.clone().find(|resource| resource.kind == want.kind && resource.group == want.group).cloned()
    });
    let Some(resource) = found else { return Answer::Unserved };
    let namespace = if resource.namespaced { want.namespace.as_str() } else { "" };
    match &want.name {
        Some(name) => match client.get_dynamic(&resource, &Key::new(namespace, name.as_str())).await {
            Ok(object) => Answer::Objects(vec![typed(object, &resource)], true),
            Err(error) if error.is_not_found() => absent(want, namespace, name),
            // Controller managers may list all resources, but have `get` on few.
            Err(error) if error.code() == Some(403) => listed(client, &resource, want, name, error).await,
            Err(error) => Answer::Failed(error),
        },
        None => list(client, &resource, want).await,
    }
}

fn absent(want: &Want, namespace: &str, name: &str) -> Answer {
    Answer::Absent(vec![Ref::new(&want.group, &want.kind, namespace, name)])
}

/// One object from a list, for a user that may not get it.
async fn listed(client: &Client, resource: &ResourceType, want: &Want, name: &str, refused: Error) -> Answer {
    let one = Want { name: None, fields: Some(format!("metadata.name={name}")), ..want.clone() };
    match list(client, resource, &one).await {
        Answer::Objects(objects, _) if objects.is_empty() => absent(want, &want.namespace, name),
        Answer::Failed(_) => Answer::Failed(refused),
        answer => answer,
    }
}

async fn list(client: &Client, resource: &ResourceType, want: &Want) -> Answer {
    let namespace = (!want.namespace.is_empty()).then_some(want.namespace.as_str());
    let mut params = ListParams {
        label_selector: want.labels.as_deref().map(Into::into),
        field_selector: want.fields.as_deref().map(Into::into),
        limit: Some(PAGE),
        ..ListParams::default()
    };
    let mut objects = Vec::new();
    for _ in 0..PAGES {
        let page = match client.list_dynamic(resource, namespace, &params).await {
            Ok(page) => page,
            Err(error) if error.is_not_found() => return Answer::Unserved,
            Err(error) => return Answer::Failed(error),
        };
        objects.extend(page.items.into_iter().map(|object| typed(object, resource)));
        match page.continue_ {
            Some(next) if !next.is_empty() => params.continue_ = Some(next),
            _ => return Answer::Objects(objects, true),
        }
    }
    Answer::Objects(objects, false)
}

/// Items of lists have no kind of their own.
fn typed(mut object: Value, resource: &ResourceType) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.entry("kind").or_insert_with(|| Value::from(resource.kind.as_str()));
        map.entry("apiVersion").or_insert_with(|| Value::from(resource.api_version().as_str()));
    }
    object
}

/// Adds what a Flyball manager remembers. Without one, the world says so.
pub async fn remember(client: &Client, world: &mut World, asked: &Ref) {
    match pages(client, asked).await {
        Ok((decisions, waits, forgotten)) => {
            world.decisions = decisions;
            world.waits = waits;
            world.log = Log::Read { forgotten };
        }
        Err(why) => world.log = Log::Unreachable(why),
    }
}

type Remembered = (Vec<crate::world::Decision>, Vec<crate::world::Wait>, u64);

fn query(asked: &Ref) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    // Everything in the namespace: dependents count, too.
    match asked.namespace.as_str() {
        "" => query.append_pair("kind", &asked.kind).append_pair("name", &asked.name),
        namespace => query.append_pair("namespace", namespace),
    };
    query.append_pair("limit", &DECISIONS.to_string()).finish()
}

async fn pages(client: &Client, asked: &Ref) -> Result<Remembered, String> {
    let query = query(asked);
    let read = async |page: &str| -> Result<Value, String> {
        let reply = client.get_raw(&format!("/debug/{page}?{query}")).await;
        let reply = reply.map_err(|error| match error.code() {
            Some(404) => {
                "no Flyball manager answers at this address (--manager-kubeconfig names one)".to_owned()
            }
            Some(401 | 403) => "this user may not read /debug/decisions".to_owned(),
            _ => error.to_string(),
        })?;
        serde_json::from_slice(&reply.body)
            .map_err(|_| "no Flyball manager answers at this address".to_owned())
    };
    let (mut decisions, mut waits) = (read("decisions").await?, read("waiting").await?);
    let forgotten = decisions["forgotten"].as_u64().unwrap_or(0);
    let problem = |error: serde_json::Error| format!("the manager's answer cannot be read: {error}");
    let decisions = serde_json::from_value(decisions["decisions"].take()).map_err(problem)?;
    let waits = serde_json::from_value(waits["waiting"].take()).map_err(problem)?;
    Ok((decisions, waits, forgotten))
}
