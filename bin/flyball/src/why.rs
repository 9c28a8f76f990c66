//! `flyball why KIND/NAME`: the decisions that concern an object, and what is being waited for, from the running process.

use std::io::IsTerminal as _;

use anyhow::{Context as _, bail};
use flyball_client::Client;
use serde::Deserialize;
use serde_json::Value;

use crate::args::{LogFormat, Why};
use crate::ask;
use crate::lines::{Line, Wait};

pub(crate) async fn run(args: &Why) -> anyhow::Result<()> {
    let client = ask::client(&args.target).await?;
    let (asked, name) = match args.object.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => (kind, name),
        _ => bail!("{:?} is not of the form KIND/NAME, such as pod/web-1 or deploy/web", args.object),
    };
    let kind = kind_of(&client, asked).await?;
    let namespace = if kind.namespaced { args.namespace.as_str() } else { "" };
    let found = decisions(&client, &kind.name, namespace, name, args.limit).await?;
    let waits = waiting(&client, &kind.name, namespace, name, args.limit).await?;
    if found.is_empty() && waits.is_empty() {
        println!(
            "No decision about {} {name}{} is remembered: no controller has written it since `flyball up`.",
            kind.name,
            if kind.namespaced { format!(" in {namespace}") } else { String::new() }
        );
        return Ok(());
    }
    let colour = std::io::stdout().is_terminal();
    for decision in found {
        match args.log_format {
            LogFormat::Json => println!("{decision}"),
            LogFormat::Text => {
                let line: Line = serde_json::from_value(decision).context("read a decision")?;
                println!("{}", line.text(colour));
            }
        }
    }
    for wait in waits {
        match args.log_format {
            LogFormat::Json => println!("{wait}"),
            LogFormat::Text => {
                let wait: Wait = serde_json::from_value(wait).context("read what is being waited for")?;
                println!("{}", wait.text(colour));
            }
        }
    }
    Ok(())
}

/// The decisions for and about an object, oldest first.
pub(crate) async fn decisions(
    client: &Client,
    kind: &str,
    namespace: &str,
    name: &str,
    limit: usize,
) -> anyhow::Result<Vec<Value>> {
    #[derive(Deserialize)]
    struct Page {
        decisions: Vec<Value>,
    }
    let path = format!("/debug/decisions?{}", query(kind, namespace, name, limit));
    let reply = client.get_raw(&path).await.context("get the decisions of the cluster")?;
    let page: Page = serde_json::from_slice(&reply.body).context("read the decisions")?;
    Ok(page.decisions)
}

/// What an object is waiting for, and what is waiting for it.
async fn waiting(
    client: &Client,
    kind: &str,
    namespace: &str,
    name: &str,
    limit: usize,
) -> anyhow::Result<Vec<Value>> {
    #[derive(Deserialize)]
    struct Page {
        waiting: Vec<Value>,
    }
    let path = format!("/debug/waiting?{}", query(kind, namespace, name, limit));
    let reply = client.get_raw(&path).await.context("get what the cluster is waiting for")?;
    let page: Page = serde_json::from_slice(&reply.body).context("read what is being waited for")?;
    Ok(page.waiting)
}

fn query(kind: &str, namespace: &str, name: &str, limit: usize) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("kind", kind).append_pair("namespace", namespace).append_pair("name", name);
    query.append_pair("limit", &limit.to_string());
    query.finish()
}

struct Kind {
    name: String,
    namespaced: bool,
}

/// The kind that is meant by `pod`, `pods`, `po` or `Pod`, as the cluster knows it.
async fn kind_of(client: &Client, asked: &str) -> anyhow::Result<Kind> {
    let discovery = client.discover().await.context("ask the cluster for its kinds")?;
    let wanted = asked.to_lowercase();
    let (wanted, group) = match wanted.split_once('.') {
        Some((name, group)) => (name, Some(group)),
        None => (wanted.as_str(), None),
    };
    let found = discovery.resources.iter().find(|resource| {
        let of_group = group.is_none_or(|group| resource.resource.group == group);
        let kind = resource.resource.kind.to_lowercase();
        let short = resource.short_names.iter().any(|short| short == wanted);
        let named = kind == wanted || resource.resource.plural == wanted || short;
        of_group && named
    });
    match found {
        Some(found) => {
            Ok(Kind { name: found.resource.kind.to_string(), namespaced: found.resource.namespaced })
        }
        None => bail!("the cluster has no kind {asked:?}"),
    }
}
