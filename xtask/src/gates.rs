//! Compares our feature gates with upstream's own code: random settings at random versions.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, ensure};
use flyball_runtime::gates::Gates;
use flyball_runtime::version::{Minor, Versions};
use serde::Deserialize;

/// `cargo xtask gates`
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many settings
    #[arg(long, default_value_t = 5_000)]
    count: usize,
    /// Where the random settings begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A line of the oracle.
#[derive(Deserialize)]
struct Vector {
    emulated: String,
    settings: String,
    accepted: bool,
    /// Every gate of the version: its stage, and whether it is on.
    #[serde(default)]
    gates: BTreeMap<String, (String, String)>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let Options { count, seed } = options;
    println!("Building the oracle (Go; the first time takes some minutes) …");
    let mut oracle = Command::new("go")
        .args(["run", "./gates", "vectors", &seed.to_string(), &count.to_string()])
        .current_dir(crate::root().join("tools/controlplane"))
        .stdout(Stdio::piped())
        .spawn()
        .context("run `go`, which this task needs (https://go.dev/dl)")?;
    let lines = BufReader::new(oracle.stdout.take().context("no output of the oracle")?).lines();
    let (mut compared, mut accepted, mut different) = (0, 0, 0);
    for line in lines {
        let vector: Vector = serde_json::from_str(&line.context("read the oracle's output")?)?;
        compared += 1;
        accepted += usize::from(vector.accepted);
        if let Some(difference) = compare(&vector)? {
            different += 1;
            println!(
                "--emulated-version={} --feature-gates={}: {difference}",
                vector.emulated, vector.settings
            );
        }
    }
    ensure!(oracle.wait()?.success(), "the oracle failed");
    println!("{compared} settings compared, {accepted} of them valid, {different} with another result");
    Ok(if compared == *count && different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn compare(vector: &Vector) -> anyhow::Result<Option<String>> {
    let (major, minor) = vector.emulated.split_once('.').context("a version of the oracle")?;
    let versions = Versions::emulating(Minor::new(major.parse()?, minor.parse()?));
    let gates = match Gates::emulating(versions, &[&vector.settings]) {
        Ok(_) if !vector.accepted => return Ok(Some("accepted, but upstream refuses it".to_owned())),
        Err(errors) if vector.accepted => return Ok(Some(format!("refused: {errors:?}"))),
        Err(_) => return Ok(None),
        Ok(gates) => gates,
    };
    let ours: BTreeMap<String, (String, String)> = gates
        .all()
        .map(|(name, spec, on)| (name.to_owned(), (spec.stage.to_string(), on.to_string())))
        .collect();
    let differs = |name: &&String| ours.get(*name) != vector.gates.get(*name);
    let names: Vec<&String> = ours.keys().chain(vector.gates.keys()).filter(differs).collect();
    Ok((!names.is_empty()).then(|| format!("other gates: {names:?}")))
}
