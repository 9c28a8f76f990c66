//! `flyball why` and `why-not`: reads what matters for an object, and prints the explanation.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use flyball_api::Timestamp;
use flyball_explain::{Question, Ref, explain, gather, text};

use crate::args::{Answer, Output};
use crate::lines::{print, say};
use crate::named::Selection;
use crate::{ask, named, place};

pub(crate) async fn run(words: &[String], question: Option<Question>, args: &Answer) -> anyhow::Result<()> {
    let (asked, name) = object(words)?;
    let path = kubeconfig(args).await?;
    let client = ask::connected(&path, args.context.as_deref()).await?;
    let discovery = client.discover().await.context("discover the kinds of the cluster")?;
    let kind = discovery.named(asked).with_context(|| format!("the cluster has no kind {asked:?}"))?;
    let namespace = if kind.namespaced { args.namespace.as_str() } else { "" };
    let asked = Ref::new(&kind.group, &kind.kind, namespace, name);
    let now = Timestamp::now();
    let mut world =
        gather::gather(&client, &discovery, &asked, now).await.with_context(|| format!("read {asked}"))?;
    match &args.manager_kubeconfig {
        Some(path) => gather::remember(&ask::connected(path, None).await?, &mut world, &asked).await,
        None => gather::remember(&client, &mut world, &asked).await,
    }
    let explanation = match explain(&world, &asked, question, args.limit) {
        Ok(explanation) => explanation,
        Err(failure) => bail!("{failure}{}", last_seen(&world, &asked)),
    };
    match args.output {
        Output::Json => say!("{}", serde_json::to_string_pretty(&explanation)?),
        Output::Text => print(&text(&explanation, std::io::stdout().is_terminal())),
    }
    Ok(())
}

/// What controllers did to an object that is gone.
fn last_seen(world: &flyball_explain::World, asked: &Ref) -> String {
    let last = world.decisions.iter().rev().find(|decision| decision.target.is(asked));
    match last {
        Some(decision) => {
            format!(
                "; the last that a controller did to it: {} ({}), {}: {}",
                decision.action, decision.controller, decision.time, decision.why
            )
        }
        None => String::new(),
    }
}

/// The given file or that of the named cluster, `$KUBECONFIG`, that of `flyball up`, or that of kubectl.
async fn kubeconfig(args: &Answer) -> anyhow::Result<PathBuf> {
    if let Some(path) = &args.kubeconfig {
        return place::kubeconfig(path);
    }
    if args.name.is_some() {
        return named::kubeconfig_of(args.name.as_ref()).await;
    }
    if let Some(list) = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
        let first = std::env::split_paths(&list).find(|path| path.exists());
        return first.with_context(|| format!("KUBECONFIG names no file that exists: {}", list.display()));
    }
    let usual =
        std::env::home_dir().map(|home| home.join(".kube").join("config")).filter(|path| path.exists());
    // With a context, it is kubectl's file that is meant.
    if let (Some(usual), Some(_)) = (&usual, &args.context) {
        return Ok(usual.clone());
    }
    match (named::select(None).await?, usual) {
        // Those that run are in that file, too, unless that was not wanted.
        (Selection::OneOf(_), Some(usual)) => Ok(usual),
        _ => named::kubeconfig_of(None).await,
    }
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
