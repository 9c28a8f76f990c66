//! `flyball why KIND/NAME`: the decisions about an object, and what controllers wait for, from the running process.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use anyhow::{Context as _, bail};
use flyball_client::Client;
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
    let query = query(&kind.name, namespace, name, args.limit);
    let decisions = entries(&client, "decisions", &query).await?;
    let waits = entries(&client, "waiting", &query).await?;
    if decisions.is_empty() && waits.is_empty() {
        println!(
            "No decision about {} {name}{} is known: no controller has written it since `flyball up`.",
            kind.name,
            if kind.namespaced { format!(" in {namespace}") } else { String::new() }
        );
        return Ok(());
    }
    let colour = std::io::stdout().is_terminal();
    for decision in decisions {
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

/// The entries of the debug page `page`, which is an object with one list of the same name.
async fn entries(client: &Client, page: &str, query: &str) -> anyhow::Result<Vec<Value>> {
    let reply = client.get_raw(&format!("/debug/{page}?{query}")).await;
    let reply = reply.with_context(|| format!("get /debug/{page}"))?;
    let mut body: BTreeMap<String, Vec<Value>> =
        serde_json::from_slice(&reply.body).with_context(|| format!("read /debug/{page}"))?;
    body.remove(page).with_context(|| format!("/debug/{page} has no list of that name"))
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

/// The kind for `pod`, `pods`, `po` or `Pod`, from discovery.
async fn kind_of(client: &Client, asked: &str) -> anyhow::Result<Kind> {
    let discovery = client.discover().await.context("discover the kinds of the cluster")?;
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
