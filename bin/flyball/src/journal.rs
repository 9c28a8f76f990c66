//! `flyball journal`: what a journal of decisions has kept, also while its manager does not run.

use anyhow::{Context as _, bail};
use flyball_journal::{Line, read, trace};

use crate::args::{Journal, JournalFormat};
use crate::lines::say;

pub(crate) fn run(args: &Journal) -> anyhow::Result<()> {
    let folder = args.folder.display();
    if !args.folder.is_dir() {
        bail!("there is no folder {folder}");
    }
    let lines = read(&args.folder).with_context(|| format!("read {folder}"))?;
    if lines.is_empty() && args.format == JournalFormat::Text {
        bail!("there are no decisions in {folder}");
    }
    match args.format {
        JournalFormat::Text => lines.iter().for_each(|line| say!("{}", text(line))),
        JournalFormat::Json => {
            for line in &lines {
                say!("{}", serde_json::to_string(line)?);
            }
        }
        JournalFormat::Otlp => say!("{}", trace::otlp(&lines)),
    }
    Ok(())
}

fn text(line: &Line) -> String {
    let Line { time, controller, action, kind, namespace, name, subresource, why, outcome, detail, .. } =
        line;
    let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let on = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
    let failed = match outcome.as_str() {
        "done" => String::new(),
        other => format!(" ({other}{}{detail})", if detail.is_empty() { "" } else { ": " }),
    };
    format!("{time} {controller}: {action} {kind}{on} {namespace}{name}: {why}{failed}")
}
