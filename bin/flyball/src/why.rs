//! `flyball why` and `why-not`: reads what matters for an object, and prints the explanation.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use flyball_api::Timestamp;
use flyball_explain::{Question, Ref, explain, gather, text};

use crate::args::{Answer, Output};
use crate::lines::{print, say};
use crate::{ask, place};

pub(crate) async fn run(words: &[String], question: Option<Question>, args: &Answer) -> anyhow::Result<()> {
    let (asked, name) = object(words)?;
    let path = kubeconfig(args.kubeconfig.as_deref())?;
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

/// The given file, `$KUBECONFIG`, that of `flyball up`, or that of kubectl.
fn kubeconfig(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = asked {
        return place::kubeconfig(Some(path));
    }
    if let Some(list) = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
        let first = std::env::split_paths(&list).find(|path| path.exists());
        return first.with_context(|| format!("KUBECONFIG names no file that exists: {}", list.display()));
    }
    let own = place::kubeconfig(None)?;
    let usual =
        std::env::home_dir().map(|home| home.join(".kube").join("config")).filter(|path| path.exists());
    match (own.exists(), usual) {
        (true, _) => Ok(own),
        (false, Some(usual)) => Ok(usual),
        (false, None) => bail!(
            "there is no {}: start a cluster with `flyball up`, or name a kubeconfig with --kubeconfig",
            own.display()
        ),
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
