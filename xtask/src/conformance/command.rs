//! Runs small programs to their end.

use anyhow::{Context as _, bail};

/// Runs a program; its output is part of the error if it fails.
pub(crate) async fn run(program: &str, args: &[String]) -> anyhow::Result<()> {
    let output = tokio::process::Command::new(program)
        .args(args)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("run {program}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{program} {} ended with {}: {}", args.join(" "), output.status, said.trim());
    }
    Ok(())
}

/// The same for a line without quotes.
pub(crate) async fn run_line(line: &str) -> anyhow::Result<()> {
    let mut words = line.split_whitespace().map(str::to_owned);
    let program = words.next().context("no program to run")?;
    run(&program, &words.collect::<Vec<_>>()).await
}
