//! Compares our hashes of random pod templates with those of upstream's own function.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail, ensure};
use flyball_api::pod_template::PodTemplate;

/// `cargo xtask hashes`
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many templates
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// Seed of the random templates
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let Options { count, seed } = options;
    println!("Building the oracle (Go; the first time takes some minutes) …");
    let mut oracle = Command::new("go")
        .args(["run", "./podtemplate", "vectors", &seed.to_string(), &count.to_string()])
        .current_dir(crate::root().join("tools/controlplane"))
        .stdout(Stdio::piped())
        .spawn()
        .context("run `go`, which this task needs (https://go.dev/dl)")?;
    let lines = BufReader::new(oracle.stdout.take().context("no output of the oracle")?).lines();
    let (mut compared, mut different) = (0, 0);
    for line in lines {
        let line = line.context("read the oracle's output")?;
        compared += 1;
        if let Some(difference) = compare(&line)? {
            different += 1;
            println!("template {compared}: {difference}\n{line}");
        }
    }
    ensure!(oracle.wait()?.success(), "the oracle failed");
    println!("{compared} templates compared, {different} with a different hash");
    Ok(if compared == *count && different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A line of the oracle has the hash, the hash after some collisions, their number, and the template.
fn compare(line: &str) -> anyhow::Result<Option<String>> {
    let [plain, collided, collisions, template] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else {
        bail!("the oracle printed {line:?}");
    };
    let template: PodTemplate = serde_json::from_str(template).context("a template of the oracle")?;
    let ours = [template.hash(None), template.hash(Some(collisions.parse()?))];
    Ok((ours != [plain, collided]).then(|| format!("{ours:?} instead of {:?}", [plain, collided])))
}
