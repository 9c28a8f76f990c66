//! `flyball up --control stdio` as a program sees it: lines in, lines out, and an end with its input.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

#[test]
fn a_program_drives_a_cluster_and_closing_stdin_ends_it() -> anyhow::Result<()> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_flyball"))
        .args(["up", "--control", "stdio", "--nodes", "1", "--starting-at", "2026-03-01T12:00:00Z"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("no stdin")?;
    let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
    let mut next =
        || -> anyhow::Result<Value> { Ok(serde_json::from_str(&lines.next().context("no line")??)?) };
    let ready = next()?;
    let kubeconfig = ready["ready"]["kubeconfig"].as_str().context("no kubeconfig")?.to_owned();
    let config: Value = serde_json::from_str(&std::fs::read_to_string(&kubeconfig)?)?;
    ensure!(config["clusters"][0]["cluster"]["server"] == ready["ready"]["server"], "{ready} {config}");

    let mut ask = |request: &Value| -> anyhow::Result<Value> {
        writeln!(input, "{request}")?;
        next()
    };
    let unknown = ask(&json!({"id": 1, "do": "jump"}))?;
    let text = unknown["error"].as_str().unwrap_or_default();
    ensure!(unknown["id"] == 1 && text.contains("`advance`, `settled`"), "{unknown}");
    let backwards = ask(&json!({"id": 2, "do": "advance", "seconds": -1}))?;
    ensure!(backwards["error"].as_str().is_some_and(|text| text.contains("from 0 to")), "{backwards}");
    let moved = ask(&json!({"id": 3, "do": "advance", "seconds": 600}))?;
    ensure!(moved["ok"]["now"].as_str().is_some_and(|now| now.starts_with("2026-03-01T12:10:0")), "{moved}");
    let node = ask(&json!({"do": "get", "kind": "node", "name": "node-1"}))?;
    ensure!(node["ok"]["metadata"]["name"] == "node-1" && node.get("id").is_none(), "{node}");

    drop(input);
    ensure!(child.wait()?.success());
    ensure!(!Path::new(&kubeconfig).exists(), "the temporary kubeconfig is still there");
    Ok(())
}

#[test]
fn flags_that_contradict_a_clock_of_its_own_are_refused() -> anyhow::Result<()> {
    for flags in [&["--control", "stdio", "--data-dir", "x"][..], &["--starting-at", "2026-03-01T12:00:00Z"]]
    {
        let refused = Command::new(env!("CARGO_BIN_EXE_flyball")).arg("up").args(flags).output()?;
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        ensure!(!refused.status.success() && said.contains("--control"), "{flags:?}: {said}");
    }
    Ok(())
}
