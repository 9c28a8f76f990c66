//! Prometheus' text form 0.0.4, with numbers written as Go writes them.

use std::{collections::BTreeMap, fmt::Write};

use smol_str::SmolStr;

use super::{Family, Stability, series::Kind, series::Series};

pub(super) fn render<'a>(
    families: impl Iterator<Item = (&'static Family, &'a BTreeMap<Box<[SmolStr]>, Series>)>,
) -> String {
    let mut out = String::new();
    for (family, series) in families.filter(|(_, series)| !series.is_empty()) {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let name = family.name;
        let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
        let stability = match family.stability {
            Stability::Unstated => String::new(),
            stated => format!("[{stated}] "),
        };
        let _ = writeln!(out, "# HELP {name} {stability}{help}\n# TYPE {name} {kind}");
        for (values, series) in series {
            write_series(&mut out, family, values, series);
        }
    }
    out
}

fn write_series(out: &mut String, family: &Family, values: &[SmolStr], series: &Series) {
    let name = family.name;
    let labels = labels(family.labels, values);
    let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    match series {
        Series::Counter(counter) => {
            let _ = writeln!(out, "{name}{braced} {}", number(counter.get()));
        }
        Series::Gauge(gauge) => {
            let _ = writeln!(out, "{name}{braced} {}", number(gauge.get()));
        }
        Series::Histogram(histogram) => {
            let comma = if labels.is_empty() { "" } else { "," };
            let mut count = 0;
            for (bound, below) in histogram.cumulative() {
                count = below;
                let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{}\"}} {below}", number(bound));
            }
            let _ = writeln!(out, "{name}_sum{braced} {}", number(histogram.sum()));
            let _ = writeln!(out, "{name}_count{braced} {count}");
        }
    }
}

fn labels(names: &[&str], values: &[SmolStr]) -> String {
    let mut pairs: Vec<(&str, &SmolStr)> = names.iter().copied().zip(values).collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            format!("{name}=\"{value}\"")
        })
        .collect();
    pairs.join(",")
}

/// The shortest form that reads back the same, as Go's `%g`: with an exponent below 1e-4 and from 1e6 on.
pub(super) fn number(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if value.is_nan() {
        return "NaN".to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => value.to_string(),
    }
}
