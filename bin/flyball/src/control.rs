//! `flyball up --control stdio`: a cluster with a clock of its own that another program drives, one JSON object per line in each
//! direction. docs/testing.md has the protocol; `clients/` has libraries for it.

use std::io::{BufRead, Read as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use flyball_testing::Cluster;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::args::Up;
use crate::lines::print;
use crate::place;
use crate::signals::Stop;

/// No request is longer; the largest object that a server takes is a fifth of it.
const LONGEST: u64 = 16 << 20;
/// Requests that are read ahead.
const AHEAD: usize = 4;
/// A jump of the clock is at most a century.
const LONGEST_JUMP: f64 = 100.0 * 366.0 * 86_400.0;

/// A request, without its `id`.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    /// Moves the clock.
    Advance { seconds: f64 },
    /// Waits until the cluster has no work.
    Settled {},
    /// What the clock shows.
    Now {},
    /// Applies manifests: a text, or an object.
    Apply { manifests: Value },
    /// An object, or null.
    Get { kind: String, name: String },
    /// Deletes an object and what it owns.
    Delete { kind: String, name: String },
    /// Why an object is as it is.
    Why { kind: String, name: String },
    /// Ends the cluster.
    Stop {},
}

pub(crate) async fn run(args: Up) -> anyhow::Result<()> {
    crate::up::log();
    crate::up::check_controllers(&args.controllers)?;
    let temporary = match &args.kubeconfig {
        Some(_) => None,
        None => Some(tempfile::Builder::new().prefix("flyball-").tempdir().context("make a folder")?),
    };
    let folder = temporary.as_ref().map(|folder| folder.path().join("kubeconfig"));
    let asked = args.kubeconfig.as_deref().or(folder.as_deref());
    let kubeconfig = place::kubeconfig(asked.context("there is no path for the kubeconfig")?)?;
    let draft = place::Draft::of(&kubeconfig)?;
    let mut stop = Stop::listen()?;
    let builder = Cluster::builder()
        .nodes(args.nodes)
        .controllers(&args.controllers)
        .manager_flags(&args.manager_flags)
        .serve_on(args.port.unwrap_or(0));
    let builder = match args.starting_at {
        Some(time) => builder.starting_at(time),
        None => builder,
    };
    let cluster = builder.start().await?;
    draft.write(cluster.kubeconfig().context("the cluster does not serve")?)?;
    print(&format!("{}\n", ready(&cluster, kubeconfig)));
    tokio::select! {
        ended = serve(&cluster) => ended?,
        () = stop.requested() => {}
    }
    cluster.stop().await?;
    Ok(())
}

fn ready(cluster: &Cluster, kubeconfig: PathBuf) -> Value {
    json!({"ready": {
        "server": cluster.url(), "kubeconfig": kubeconfig, "now": cluster.now().to_string(),
        "notices": cluster.notices(),
    }})
}

/// Answers requests, one after the other, until there are no more.
async fn serve(cluster: &Cluster) -> anyhow::Result<()> {
    let (found, mut lines) = mpsc::channel(AHEAD);
    // A thread, since a read of stdin cannot be cancelled: it ends with the process.
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let mut input = std::io::stdin().lock();
            while let Some(line) = next_line(&mut input) {
                let is_last = line.is_err();
                if found.blocking_send(line).is_err() || is_last {
                    return;
                }
            }
        })
        .context("read stdin")?;
    while let Some(line) = lines.recv().await {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let (id, request) = parse(&line);
        let stops = matches!(request, Ok(Request::Stop {}));
        let outcome = match request {
            Ok(request) => answer(cluster, request).await,
            Err(error) => Err(error),
        };
        let mut response = match outcome {
            Ok(value) => json!({"ok": value}),
            Err(error) => json!({"error": format!("{error:#}")}),
        };
        if let Some(id) = id {
            response["id"] = id;
        }
        print(&format!("{response}\n"));
        if stops {
            return Ok(());
        }
    }
    Ok(())
}

/// The next line of the input; nothing at its end.
fn next_line(input: &mut impl BufRead) -> Option<anyhow::Result<String>> {
    let mut line = Vec::new();
    match input.take(LONGEST + 1).read_until(b'\n', &mut line) {
        Err(error) => Some(Err(error).context("read stdin")),
        Ok(0) => None,
        Ok(length) if u64::try_from(length).unwrap_or(u64::MAX) > LONGEST => {
            Some(Err(anyhow!("a request is longer than {} MiB", LONGEST >> 20)))
        }
        Ok(_) => Some(Ok(String::from_utf8_lossy(&line).into_owned())),
    }
}

/// The request of a line, and its id if that can be read.
fn parse(line: &str) -> (Option<Value>, anyhow::Result<Request>) {
    let mut value = match serde_json::from_str::<Value>(line) {
        Ok(value) => value,
        Err(error) => return (None, Err(anyhow!("a request is one JSON object on a line: {error}"))),
    };
    let Some(object) = value.as_object_mut() else {
        return (None, Err(anyhow!("a request is one JSON object on a line, not {value}")));
    };
    let id = object.remove("id");
    (id, serde_json::from_value(value).map_err(|error| anyhow!("{error}")))
}

async fn answer(cluster: &Cluster, request: Request) -> anyhow::Result<Value> {
    match request {
        Request::Advance { seconds } => {
            if !(0.0..=LONGEST_JUMP).contains(&seconds) {
                bail!("advance: seconds must be from 0 to {LONGEST_JUMP}, not {seconds}");
            }
            cluster.advance(Duration::from_secs_f64(seconds)).await?;
            Ok(now(cluster))
        }
        Request::Settled {} => {
            cluster.settled().await?;
            Ok(now(cluster))
        }
        Request::Now {} => Ok(now(cluster)),
        Request::Apply { manifests: Value::String(text) } => Ok(json!(cluster.apply(&text).await?)),
        Request::Apply { manifests } => Ok(json!(cluster.apply(&manifests.to_string()).await?)),
        Request::Get { kind, name } => Ok(cluster.get(&kind, &name).await?.unwrap_or_default()),
        Request::Delete { kind, name } => Ok(json!(cluster.delete(&kind, &name).await?)),
        Request::Why { kind, name } => Ok(json!(cluster.why(&kind, &name).await?)),
        Request::Stop {} => Ok(Value::Null),
    }
}

fn now(cluster: &Cluster) -> Value {
    json!({"now": cluster.now().to_string()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_not_understood_is_answered_with_what_there_is() {
        #[rustfmt::skip]
        let table = [
            (r#"{"do": "advance", "seconds": 90}"#,  "Advance { seconds: 90.0 }"),
            (r#"{"id": 7, "do": "settled"}"#,        "Settled"),
            (r#"{"do": "why", "kind": "pod", "name": "a"}"#, r#"Why { kind: "pod", name: "a" }"#),
            ("x",                                    "a request is one JSON object on a line: "),
            ("[1]",                                  "a request is one JSON object on a line, not [1]"),
            ("{}",                                   "missing field `do`"),
            (r#"{"do": "jump"}"#,                    "unknown variant `jump`, expected one of `advance`, `settled`, `now`"),
            (r#"{"do": "advance"}"#,                 "missing field `seconds`"),
            (r#"{"do": "settled", "for": 3}"#,       "unknown field `for`"),
        ];
        for (line, want) in table {
            let text = match parse(line).1 {
                Ok(request) => format!("{request:?}"),
                Err(error) => error.to_string(),
            };
            assert!(text.starts_with(want), "{line}: {text}");
        }
        assert_eq!(parse(r#"{"id": 7, "do": "jump"}"#).0, Some(json!(7)), "a wrong request has an id, too");
    }

    #[test]
    fn a_line_that_never_ends_is_refused() {
        let mut endless = std::io::BufReader::new(std::io::repeat(b'x'));
        let refused = next_line(&mut endless).unwrap().unwrap_err().to_string();
        assert_eq!(refused, "a request is longer than 16 MiB");
        assert!(next_line(&mut &b""[..]).is_none());
    }
}
