//! `flyball why KIND/NAME`: the decisions about an object, and what controllers wait for, from the running process.

use std::io::IsTerminal as _;

use anyhow::{Context as _, bail};
use flyball_api::{Key, ResourceType};
use flyball_client::Client;
use serde_json::Value;

use crate::args::{LogFormat, Why};
use crate::ask;
use crate::lines::{Line, Wait, say};

pub(crate) async fn run(args: &Why) -> anyhow::Result<()> {
    let client = ask::client(&args.target).await?;
    let (asked, name) = object(&args.object)?;
    let kind = kind_of(&client, asked).await?;
    let namespace = if kind.resource.namespaced { args.namespace.as_str() } else { "" };
    let query = query(&kind.resource.kind, namespace, name, args.limit);
    let (decisions, forgotten) = entries(&client, "decisions", &query).await?;
    let (waits, _) = entries(&client, "waiting", &query).await?;
    if decisions.is_empty() && waits.is_empty() {
        return explain_silence(&client, &kind, &Key::new(namespace, name), forgotten).await;
    }
    let colour = std::io::stdout().is_terminal();
    for decision in decisions {
        match args.log_format {
            LogFormat::Json => say!("{decision}"),
            LogFormat::Text => {
                let line: Line = serde_json::from_value(decision).context("read a decision")?;
                say!("{}", line.text(colour));
            }
        }
    }
    for wait in waits {
        match args.log_format {
            LogFormat::Json => say!("{wait}"),
            LogFormat::Text => {
                let wait: Wait = serde_json::from_value(wait).context("read what is being waited for")?;
                say!("{}", wait.text(colour));
            }
        }
    }
    Ok(())
}

/// Kind and name from `deploy/web` or `deploy web`.
fn object(words: &[String]) -> anyhow::Result<(&str, &str)> {
    let parts = match words {
        [one] => one.split_once('/'),
        [kind, name] if !kind.contains('/') && !name.contains('/') => Some((kind.as_str(), name.as_str())),
        _ => None,
    };
    match parts {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => Ok((kind, name)),
        _ => bail!("{:?} is not of the form KIND/NAME, such as pod/web-1 or deploy/web", words.join(" ")),
    }
}

/// Explains why there are no decisions about an object: it does not exist, they have been dropped from the log, or there were
/// none.
async fn explain_silence(client: &Client, kind: &Kind, key: &Key, forgotten: u64) -> anyhow::Result<()> {
    let name = format!("{} {key}", kind.resource.kind.to_lowercase());
    match client.get_dynamic(&kind.resource, key).await {
        Err(error) if error.is_not_found() && forgotten == 0 => {
            bail!("there is no {name}, and no controller has written it since the cluster was started")
        }
        Err(error) if error.is_not_found() => bail!(
            "there is no {name}; if there was one, the decisions about it are no longer in the log ({forgotten} older \
             decisions were dropped)"
        ),
        Err(error) => return Err(error.into()),
        Ok(_) if forgotten == 0 => say!("No controller has written {name} since the cluster was started."),
        Ok(_) => say!(
            "There is no decision about {name} in the log: controllers may have written it earlier, but the {forgotten} oldest \
             decisions since the cluster was started were dropped."
        ),
    }
    Ok(())
}

/// The entries of the debug page `page`, which is an object with a list of the same name; and how many it no longer has.
async fn entries(client: &Client, page: &str, query: &str) -> anyhow::Result<(Vec<Value>, u64)> {
    let reply = client.get_raw(&format!("/debug/{page}?{query}")).await;
    let reply = reply.with_context(|| format!("get /debug/{page}"))?;
    let mut body: Value =
        serde_json::from_slice(&reply.body).with_context(|| format!("read /debug/{page}"))?;
    let forgotten = body["forgotten"].as_u64().unwrap_or(0);
    match body[page].take() {
        Value::Array(entries) => Ok((entries, forgotten)),
        _ => bail!("/debug/{page} has no list of that name"),
    }
}

fn query(kind: &str, namespace: &str, name: &str, limit: usize) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("kind", kind).append_pair("namespace", namespace).append_pair("name", name);
    query.append_pair("limit", &limit.to_string());
    query.finish()
}

struct Kind {
    resource: ResourceType,
}

/// The kind for `pod`, `pods`, `po` or `Pod`, from discovery.
async fn kind_of(client: &Client, given: &str) -> anyhow::Result<Kind> {
    let discovery = client.discover().await.context("discover the kinds of the cluster")?;
    let wanted = given.to_lowercase();
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
        Some(found) => Ok(Kind { resource: found.resource.clone() }),
        None => bail!("the cluster has no kind {given:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_for_kubectl() {
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            object(&words).map(|(kind, name)| format!("{kind} {name}")).map_err(|error| error.to_string())
        };
        assert_eq!(read(&["deploy/web"]).as_deref(), Ok("deploy web"));
        assert_eq!(read(&["deploy", "web"]).as_deref(), Ok("deploy web"));
        for wrong in [&["web"][..], &["deploy/"], &["/web"], &["deploy/web", "x"], &["deploy", "a/b"]] {
            assert!(read(wrong).unwrap_err().contains("KIND/NAME"), "{wrong:?}");
        }
    }
}
