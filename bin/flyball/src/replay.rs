//! `flyball replay`: plays a recording, and prints what controllers decide, or what they would decide differently.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use flyball_replay::diff::{Difference, differences};
use flyball_replay::file::Recording;
use flyball_replay::overrides::{Asked, Manifests, Override, Timed, resolve};
use flyball_replay::play::{Played, play};
use flyball_replay::script::Script;
use serde::Deserialize as _;
use serde_json::Value;
use tokio::time::Instant;

use crate::args::{LogFormat, Replay};
use crate::lines::say;

/// How many problems are named.
const NAMED: usize = 5;

pub(crate) async fn run(args: &Replay) -> anyhow::Result<()> {
    let asked = asked(args)?;
    let (script, facts) = read(&args.file)?;
    let overrides = resolve(&asked, &script)?;
    let script = Arc::new(script);
    let is_text = args.output == LogFormat::Text;
    if is_text {
        say!("{facts}");
        script.notes.iter().for_each(|note| say!("{note}"));
    }
    let begun = Instant::now();
    let baseline = played(&script, vec![], vec![]).await?;
    if is_text {
        say!("{}", summary(&baseline, begun.elapsed()));
        problems(&baseline);
    }
    repeat(args, &script, &baseline, None).await?;
    if asked.is_empty() {
        match args.output {
            LogFormat::Text => baseline
                .history
                .by_controller()
                .iter()
                .for_each(|(controller, count)| say!("{count:>8} {controller}")),
            LogFormat::Json => {
                for decision in &baseline.history.0 {
                    say!("{}", serde_json::to_string(decision)?);
                }
            }
        }
        return Ok(());
    }
    let begun = Instant::now();
    let changed = played(&script, asked.flags.clone(), overrides.clone()).await?;
    if is_text {
        say!("With the changes: {}", summary(&changed, begun.elapsed()));
        problems(&changed);
    }
    repeat(args, &script, &changed, Some((&asked, &overrides))).await?;
    print(args.output, &differences(&baseline.history, &changed.history))
}

/// Plays it again and again, if that was asked for.
async fn repeat(
    args: &Replay,
    script: &Arc<Script>,
    first: &Played,
    changes: Option<(&Asked, &Vec<Override>)>,
) -> anyhow::Result<()> {
    let (flags, overrides) = match changes {
        Some((asked, overrides)) => (asked.flags.clone(), overrides.clone()),
        None => Default::default(),
    };
    for n in 2..=args.times {
        let again = played(script, flags.clone(), overrides.clone()).await?;
        if let Some(difference) = first.history.difference(&again.history) {
            bail!("replay {n} made another decision than the first: {difference}");
        }
    }
    if args.times > 1 && args.output == LogFormat::Text {
        say!("{} replays made the same decisions.", args.times);
    }
    Ok(())
}

async fn played(
    script: &Arc<Script>,
    flags: Vec<String>,
    overrides: Vec<Override>,
) -> anyhow::Result<Played> {
    let script = Arc::clone(script);
    // It has a runtime of its own, with virtual time.
    let played = tokio::task::spawn_blocking(move || play(&script, &flags, &overrides)).await;
    Ok(played.context("the replay has failed")??)
}

fn read(path: &Path) -> anyhow::Result<(Script, String)> {
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    let recording =
        Recording::read(file).with_context(|| format!("the recording {} cannot be used", path.display()))?;
    let script = Script::of(&recording);
    let torn = match recording.is_complete {
        true => "",
        false => " It was cut off, so this is what was written until then.",
    };
    let facts = format!(
        "{}: Kubernetes {} from {:.0} to {:.0}: {} objects, {} changes; {} are played, {} are left to controllers, scheduler and nodes.{torn}",
        path.display(),
        recording.head.server,
        script.start,
        script.end,
        recording.objects.len(),
        recording.changes.len(),
        script.steps.len(),
        script.left_to_components,
    );
    Ok((script, facts))
}

fn asked(args: &Replay) -> anyhow::Result<Asked> {
    let manifests = |timed: &Timed<std::path::PathBuf>| -> anyhow::Result<Timed<Manifests>> {
        Ok(Timed { what: manifests(&timed.what)?, when: timed.when })
    };
    Ok(Asked {
        flags: args.flags.clone(),
        apply: args.apply.iter().map(manifests).collect::<Result<_, _>>()?,
        lose_nodes: args.lose_node.clone(),
        lose_zones: args.lose_zone.clone(),
    })
}

fn manifests(path: &Path) -> anyhow::Result<Manifests> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("read {shown}"))?;
    let mut objects = Vec::new();
    for document in serde_yaml::Deserializer::from_str(&text) {
        let object = Value::deserialize(document).with_context(|| format!("{shown} is not valid YAML"))?;
        if object.is_null() {
            continue;
        }
        let has = |path: &str| object.pointer(path).is_some_and(Value::is_string);
        if !(has("/apiVersion") && has("/kind") && has("/metadata/name")) {
            bail!("{shown}: a document lacks apiVersion, kind or metadata.name");
        }
        objects.push(object);
    }
    if objects.is_empty() {
        bail!("{shown}: there is no object in it");
    }
    Ok(Manifests { file: path.to_owned(), objects })
}

fn summary(played: &Played, took: Duration) -> String {
    format!(
        "{} decisions ({}), in {:.1} s",
        played.history.len(),
        played.history.digest(),
        took.as_secs_f64()
    )
}

fn problems(played: &Played) {
    if played.gone > 0 {
        say!("{} deletions were of what was gone already.", played.gone);
    }
    if played.failed > 0 {
        say!("{} of {} steps could not be played:", played.failed, played.steps);
    }
    played.problems.iter().take(NAMED).for_each(|problem| say!("  {problem}"));
    if let Some(more) = played.failed.checked_sub(NAMED).filter(|more| *more > 0) {
        say!("  and {more} more");
    }
}

fn print(output: LogFormat, found: &[Difference]) -> anyhow::Result<()> {
    if output == LogFormat::Json {
        for difference in found {
            say!("{}", serde_json::to_string(difference)?);
        }
        return Ok(());
    }
    if found.is_empty() {
        say!("Nothing would be decided differently.");
    }
    let mut shown = None;
    for Difference { minute, sort, before, after, why } in found {
        if shown != Some(minute) {
            say!("{}", minute.strftime("%Y-%m-%d %H:%M"));
            shown = Some(minute);
        }
        let failed = if sort.outcome == "done" { String::new() } else { format!(" ({})", sort.outcome) };
        let namespace =
            if sort.namespace.is_empty() { String::new() } else { format!("{}/", sort.namespace) };
        let (action, kind, name, controller) = (sort.action, &sort.kind, &sort.name, sort.controller);
        say!("  {before:>4} -> {after:<4} {controller}: {action} {kind} {namespace}{name}{failed}: {why}");
    }
    Ok(())
}
