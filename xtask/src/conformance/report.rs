//! What ginkgo reports about a run, and how two runs compare.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;

/// The result of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) passed: bool,
    /// The first line of the failure.
    pub(crate) message: String,
    pub(crate) took: Duration,
}

/// The tests that ran, by full name.
pub(crate) type Run = BTreeMap<String, Verdict>;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    #[serde(default)]
    spec_reports: Option<Vec<Spec>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    #[serde(default)]
    leaf_node_type: String,
    #[serde(default)]
    leaf_node_text: String,
    state: String,
    /// In nanoseconds.
    #[serde(default)]
    run_time: u64,
    #[serde(default)]
    failure: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

/// Ginkgo's message for a test that was interrupted by the timeout of the whole run.
const CUT_SHORT: &str = "A suite timeout occurred";

impl Spec {
    /// Whether it is a test that passed or failed by itself.
    fn has_ended(&self) -> bool {
        let has_run = !matches!(self.state.as_str(), "skipped" | "pending" | "" | "interrupted");
        let is_cut_short = self.failure.as_ref().is_some_and(|failure| failure.message.contains(CUT_SHORT));
        self.leaf_node_type == "It" && has_run && !(self.state == "timedout" && is_cut_short)
    }
}

/// Reads ginkgo's JSON report.
pub(crate) fn read(path: &Path) -> anyhow::Result<Run> {
    let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    parse(&text).with_context(|| format!("parse {}", path.display()))
}

fn parse(text: &[u8]) -> anyhow::Result<Run> {
    let suites: Vec<Suite> = serde_json::from_slice(text)?;
    let specs = suites.into_iter().flat_map(|suite| suite.spec_reports.unwrap_or_default());
    let ran = specs.filter(Spec::has_ended);
    Ok(ran
        .map(|spec| {
            let mut name = spec.container_hierarchy_texts.unwrap_or_default();
            name.push(spec.leaf_node_text);
            let message = spec.failure.map(|failure| failure.message).unwrap_or_default();
            let line = message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            let verdict = Verdict {
                passed: spec.state == "passed",
                message: line.to_owned(),
                took: Duration::from_nanos(spec.run_time),
            };
            (name.join(" "), verdict)
        })
        .collect())
}

/// The area of a test, such as `sig-apps`.
fn area(name: &str) -> &str {
    name.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or("other", |(area, _)| area)
}

/// Both runs, side by side.
pub(crate) struct Comparison<'a> {
    pub(crate) upstream: Option<&'a Run>,
    pub(crate) ours: Option<&'a Run>,
}

impl Comparison<'_> {
    /// Tests that pass with upstream's controller manager and fail with ours.
    pub(crate) fn regressions(&self) -> Vec<(&str, &Verdict)> {
        let (Some(upstream), Some(ours)) = (self.upstream, self.ours) else { return Vec::new() };
        let passed = |name: &str| upstream.get(name).is_some_and(|verdict| verdict.passed);
        ours.iter()
            .filter(|(name, verdict)| !verdict.passed && passed(name))
            .map(|(name, verdict)| (name.as_str(), verdict))
            .collect()
    }

    /// The number of tests that only one of the two runs has, because the other reached its timeout.
    pub(crate) fn run_by_one_only(&self) -> usize {
        let (Some(upstream), Some(ours)) = (self.upstream, self.ours) else { return 0 };
        let without =
            |these: &Run, those: &Run| these.keys().filter(|name| !those.contains_key(*name)).count();
        without(upstream, ours) + without(ours, upstream)
    }

    /// A Markdown table with a line for each area, then what failed.
    pub(crate) fn table(&self) -> String {
        let mut areas: BTreeMap<&str, [(usize, usize); 2]> = BTreeMap::new();
        for (column, run) in [self.upstream, self.ours].into_iter().enumerate() {
            for (name, verdict) in run.into_iter().flatten() {
                for area in [area(name), "all"] {
                    let (passed, ran) = &mut areas.entry(area).or_default()[column];
                    *passed += usize::from(verdict.passed);
                    *ran += 1;
                }
            }
        }
        let cell = |run: Option<&Run>, (passed, ran): (usize, usize)| match run {
            Some(_) => format!("{passed} of {ran}"),
            None => "not run".to_owned(),
        };
        let mut text =
            "| area | passed with upstream's | passed with ours |\n| --- | --- | --- |\n".to_owned();
        for (area, counts) in &areas {
            let (upstream, ours) = (cell(self.upstream, counts[0]), cell(self.ours, counts[1]));
            text.push_str(&format!("| {area} | {upstream} | {ours} |\n"));
        }
        for (who, run) in [("upstream's", self.upstream), ("ours", self.ours)] {
            let failed: Vec<_> = run.into_iter().flatten().filter(|(_, verdict)| !verdict.passed).collect();
            if !failed.is_empty() {
                text.push_str(&format!("\nFailed with {who}:\n"));
            }
            for (name, verdict) in failed {
                text.push_str(&format!("- {name} ({:.0} s)\n", verdict.took.as_secs_f64()));
                text.push_str(&format!("  {}\n", verdict.message));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(results: &[(&str, &str)]) -> Run {
        let specs: Vec<_> = results
            .iter()
            .map(|(name, state)| {
                json!({
                    "ContainerHierarchyTexts": ["[sig-apps] Job"], "LeafNodeText": name, "LeafNodeType": "It",
                    "State": state, "RunTime": 2_000_000_000_u64, "Failure": {"Message": "\nfirst\nsecond"},
                })
            })
            .collect();
        let setup = json!({"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"});
        let report = json!([{"SpecReports": specs}, {"SpecReports": [setup]}, {"SpecReports": null}]);
        parse(report.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn only_tests_that_ran_count() {
        let run =
            run(&[("a", "passed"), ("b", "failed"), ("c", "skipped"), ("d", "pending"), ("e", "timedout")]);
        let names: Vec<_> = run.iter().map(|(name, verdict)| (name.as_str(), verdict.passed)).collect();
        assert_eq!(
            names,
            [("[sig-apps] Job a", true), ("[sig-apps] Job b", false), ("[sig-apps] Job e", false)]
        );
        assert_eq!(run["[sig-apps] Job b"].message, "first");
    }

    #[test]
    fn a_test_that_was_cut_short_has_no_result() {
        let spec = |state: &str, message: &str| {
            let failure = json!({"Message": message});
            let spec = json!({"LeafNodeText": "a", "LeafNodeType": "It", "State": state, "Failure": failure});
            parse(json!([{"SpecReports": [spec]}]).to_string().as_bytes()).unwrap().len()
        };
        assert_eq!(spec("timedout", "A suite timeout occurred"), 0);
        assert_eq!(spec("timedout", "A spec timeout occurred"), 1);
        assert_eq!(spec("failed", "A suite timeout occurred"), 1, "what a test itself says does not count");
    }

    #[test]
    fn a_regression_passes_with_upstream_and_fails_with_ours() {
        let upstream =
            run(&[("both", "passed"), ("neither", "failed"), ("ours", "failed"), ("theirs", "passed")]);
        let ours =
            run(&[("both", "passed"), ("neither", "failed"), ("ours", "passed"), ("theirs", "failed")]);
        let comparison = Comparison { upstream: Some(&upstream), ours: Some(&ours) };
        let names: Vec<&str> = comparison.regressions().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["[sig-apps] Job theirs"]);
        assert!(comparison.table().contains("| sig-apps | 2 of 4 | 2 of 4 |"), "{}", comparison.table());
        let alone = Comparison { upstream: None, ours: Some(&ours) };
        assert!(alone.regressions().is_empty());
        assert_eq!(alone.run_by_one_only(), 0);
        let shorter = run(&[("both", "passed")]);
        let comparison = Comparison { upstream: Some(&upstream), ours: Some(&shorter) };
        assert_eq!(comparison.run_by_one_only(), 3);
        assert!(alone.table().contains("| all | not run | 2 of 4 |"), "{}", alone.table());
    }
}
