//! Medians, ratios, a table for the terminal, JSON and a chart for `docs/benchmarks/`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use flyball_sim::cluster::KUBERNETES_VERSION;
use serde_json::{Value, json};

use super::chart::{self, Bar};
use super::measure::{Phase, Round};
use super::scenarios::Scenario;
use super::{Contender, Setup};

/// All rounds of one scenario.
pub(crate) struct Comparison {
    scenario: Scenario,
    controllers: Vec<String>,
    qps: u32,
    burst: u32,
    upstream: Vec<Round>,
    flyball: Vec<Round>,
}

/// One line of the comparison: the medians of both.
pub(crate) struct Line {
    pub(crate) what: String,
    pub(crate) unit: Unit,
    pub(crate) upstream: f64,
    pub(crate) flyball: f64,
}

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Bytes,
    Requests,
}

impl Unit {
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Seconds if value < 1.0 => format!("{:.0} ms", value * 1000.0),
            Self::Seconds => format!("{value:.2} s"),
            Self::Bytes => format!("{:.1} MiB", value / f64::from(1 << 20)),
            Self::Requests => format!("{value:.0}"),
        }
    }
}

impl Line {
    /// Ours to upstream's; `None` where upstream's is nothing.
    pub(crate) fn ratio(&self) -> Option<f64> {
        (self.upstream > 0.0).then(|| self.flyball / self.upstream)
    }
}

impl Comparison {
    pub(crate) fn new(scenario: Scenario, setup: &Setup) -> Self {
        let Setup { controllers, qps, burst, .. } = setup;
        let (upstream, flyball) = (Vec::new(), Vec::new());
        Self { scenario, controllers: controllers.clone(), qps: *qps, burst: *burst, upstream, flyball }
    }

    pub(crate) fn add(&mut self, contender: Contender, round: Round) {
        match contender {
            Contender::Upstream => self.upstream.push(round),
            Contender::Flyball => self.flyball.push(round),
        }
    }

    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut line = |what: String, unit: Unit, value: &dyn Fn(&Round) -> f64| {
            let of = |rounds: &[Round]| median(rounds.iter().map(value).collect());
            lines.push(Line { what, unit, upstream: of(&self.upstream), flyball: of(&self.flyball) });
        };
        let names: Vec<&str> = self
            .upstream
            .first()
            .map(|round| round.phases.iter().map(|p| p.name).collect())
            .unwrap_or_default();
        for (index, name) in names.into_iter().enumerate() {
            let phase =
                |value: fn(&Phase) -> f64| move |round: &Round| round.phases.get(index).map_or(0.0, value);
            if self.scenario != Scenario::Idle {
                line(format!("{name}: wall time"), Unit::Seconds, &phase(|p| p.wall_seconds));
            }
            if self
                .upstream
                .iter()
                .any(|r| r.phases.get(index).is_some_and(|p| p.first_write_seconds.is_some()))
            {
                line(
                    format!("{name}: expiry to first write"),
                    Unit::Seconds,
                    &phase(|p| p.first_write_seconds.unwrap_or_default()),
                );
            }
            line(format!("{name}: CPU"), Unit::Seconds, &phase(|p| p.cpu_seconds));
            line(format!("{name}: API server CPU"), Unit::Seconds, &phase(|p| p.apiserver_cpu_seconds));
            line(format!("{name}: memory after"), Unit::Bytes, &phase(|p| p.settled_bytes as f64));
            line(format!("{name}: anonymous"), Unit::Bytes, &phase(|p| p.settled_anonymous_bytes as f64));
            line(format!("{name}: file-backed"), Unit::Bytes, &phase(|p| p.settled_file_bytes as f64));
            line(
                format!("{name}: requests"),
                Unit::Requests,
                &phase(|p| p.requests.values().sum::<u64>() as f64),
            );
        }
        line("peak memory".to_owned(), Unit::Bytes, &|round| round.peak_bytes as f64);
        lines
    }

    pub(crate) fn table(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "  {:<32}{:>14}{:>14}{:>9}", "median", "upstream", "flyball", "ratio");
        for line in self.lines() {
            let ratio = line.ratio().map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
            let (upstream, flyball) = (line.unit.show(line.upstream), line.unit.show(line.flyball));
            let _ = writeln!(out, "  {:<32}{upstream:>14}{flyball:>14}{ratio:>9}", line.what);
        }
        for (who, rounds) in [("upstream", &self.upstream), ("flyball", &self.flyball)] {
            for phase in rounds.last().into_iter().flat_map(|round| &round.phases) {
                let verbs: Vec<String> =
                    phase.requests.iter().map(|(verb, n)| format!("{n} {verb}")).collect();
                let _ = writeln!(out, "  requests of {who} in {}: {}", phase.name, verbs.join(", "));
            }
        }
        out
    }

    /// Writes `{scenario}.json` and `{scenario}.svg`.
    pub(crate) fn save(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        let write = |extension: &str, text: String| {
            let path = folder.join(format!("{}.{extension}", self.scenario.name()));
            std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
            println!("  wrote {}", path.display());
            anyhow::Ok(())
        };
        write("json", serde_json::to_string_pretty(&self.json())? + "\n")?;
        let bars: Vec<Bar> = self.lines().into_iter().map(Bar::from).collect();
        let title = format!("{}: {}", self.scenario.name(), self.scenario.about());
        let rounds = self.upstream.len();
        let note = format!("median of {rounds} rounds, kube-controller-manager {KUBERNETES_VERSION} = 1");
        write("svg", chart::draw(&title, &note, &bars))
    }

    fn json(&self) -> Value {
        let medians: BTreeMap<String, Value> = self
            .lines()
            .into_iter()
            .map(|l| {
                (l.what.clone(), json!({"upstream": l.upstream, "flyball": l.flyball, "ratio": l.ratio()}))
            })
            .collect();
        json!({
            "scenario": self.scenario.name(),
            "about": self.scenario.about(),
            "controllers": self.controllers,
            "upstreamVersion": KUBERNETES_VERSION,
            "qps": self.qps,
            "burst": self.burst,
            "machine": machine(),
            "medians": medians,
            "rounds": {"upstream": self.upstream, "flyball": self.flyball},
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

fn machine() -> Value {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned()));
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
    json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "cpu": model,
        "memoryGiB": kib.map(|kib| kib >> 20),
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![]), 0.0);
    }

    #[test]
    fn units_read_well() {
        assert_eq!(Unit::Seconds.show(0.0314), "31 ms");
        assert_eq!(Unit::Seconds.show(12.345), "12.35 s");
        assert_eq!(Unit::Bytes.show(1_572_864.0), "1.5 MiB");
    }
}
