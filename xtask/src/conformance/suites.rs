//! Which of upstream's tests belong to which suite.

use anyhow::bail;

/// Tests by regular expressions over their full names, as ginkgo's `--focus` and `--skip` take them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    focus: &'static str,
}

/// Never run: they are known to be unreliable, or need a cloud, a server for files or a feature that is off by default.
const SKIP: &str = r"\[Flaky\]|\[Feature:|\[Driver: (gcepd|aws|azure|vsphere|nfs|iscsi|ceph)";
/// Run on demand only: they disturb others, or take very long.
const SKIP_DISRUPTIVE: &str = r"\[Disruptive\]|\[Slow\]";

/// Which tests to run.
#[derive(clap::Args)]
pub(crate) struct Selection {
    /// Suites: conformance, apps, api-machinery, network, storage, auth, autoscaling, node, controllers [default: conformance]
    #[arg(value_name = "SUITE")]
    pub(crate) suites: Vec<String>,
    /// Tests whose name matches this regular expression, instead of a suite or in addition
    #[arg(long, value_name = "REGEX")]
    pub(crate) focus: Vec<String>,
    /// Leave out tests whose name matches this regular expression
    #[arg(long, value_name = "REGEX")]
    pub(crate) skip: Vec<String>,
    /// Run disruptive and slow tests, too
    #[arg(long)]
    pub(crate) disruptive: bool,
}

pub(crate) const SUITES: [Suite; 9] = [
    Suite {
        name: "conformance",
        about: "everything a conformant cluster must pass",
        focus: r"\[Conformance\]",
    },
    Suite { name: "apps", about: "Deployments, StatefulSets, DaemonSets, Jobs, …", focus: r"\[sig-apps\]" },
    Suite {
        name: "api-machinery",
        about: "garbage collector, namespaces, quota",
        focus: r"\[sig-api-machinery\] (Garbage collector|Namespaces|OrderedNamespaceDeletion|ResourceQuota)",
    },
    Suite {
        name: "network",
        about: "Services and EndpointSlices",
        focus: r"\[sig-network\] (Services|EndpointSlice|EndpointSliceMirroring|Endpoints|Service endpoints)",
    },
    Suite { name: "storage", about: "what needs no cloud", focus: r"\[sig-storage\]" },
    Suite { name: "auth", about: "service accounts, certificates", focus: r"\[sig-auth\]" },
    Suite { name: "autoscaling", about: "HorizontalPodAutoscalers", focus: r"\[sig-autoscaling\]" },
    Suite { name: "node", about: "pods, leases, taints", focus: r"\[sig-node\]" },
    Suite {
        name: "controllers",
        about: "apps, api-machinery, EndpointSlices and service accounts: what controllers do",
        focus: r"\[sig-apps\]|\[sig-api-machinery\] (Garbage collector|Namespaces|OrderedNamespaceDeletion|ResourceQuota)|\[sig-network\] (EndpointSlice|EndpointSliceMirroring|Endpoints)|\[sig-auth\] ServiceAccounts",
    },
];

impl Selection {
    /// Tests of these suites only.
    pub(crate) fn of_suites(suites: &[String]) -> Self {
        Self { suites: suites.to_vec(), focus: Vec::new(), skip: Vec::new(), disruptive: false }
    }

    /// The arguments with which this program gets the same selection.
    pub(crate) fn to_args(&self) -> Vec<String> {
        let focus = self.focus.iter().map(|value| format!("--focus={value}"));
        let skip = self.skip.iter().map(|value| format!("--skip={value}"));
        let disruptive = self.disruptive.then(|| "--disruptive".to_owned());
        focus.chain(skip).chain(disruptive).chain(self.suites.iter().cloned()).collect()
    }

    /// The arguments of ginkgo.
    pub(crate) fn for_ginkgo(&self) -> anyhow::Result<Vec<String>> {
        let default = ["conformance".to_owned()];
        let names = match self.suites.is_empty() && self.focus.is_empty() {
            true => &default[..],
            false => &self.suites,
        };
        let mut args = Vec::new();
        for name in names {
            let Some(suite) = SUITES.iter().find(|suite| suite.name == name) else {
                let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
                bail!("no suite {name:?}; there are {}", known.join(", "));
            };
            args.push(format!("--focus={}", suite.focus));
        }
        args.extend(self.focus.iter().map(|expression| format!("--focus={expression}")));
        args.push(format!("--skip={SKIP}"));
        if !self.disruptive {
            args.push(format!("--skip={SKIP_DISRUPTIVE}"));
        }
        args.extend(self.skip.iter().map(|expression| format!("--skip={expression}")));
        Ok(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(suites: &[&str], focus: &[&str], skip: &[&str]) -> Selection {
        let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        Selection { suites: owned(suites), focus: owned(focus), skip: owned(skip), disruptive: false }
    }

    #[test]
    fn an_unknown_suite_is_refused_with_the_names_of_all() {
        let error = selection(&["app"], &[], &[]).for_ginkgo().unwrap_err().to_string();
        assert!(error.starts_with("no suite \"app\"; there are conformance, apps, "), "{error}");
    }

    #[test]
    fn suites_and_expressions_add_up() {
        let mut selection = selection(&["apps"], &["CronJob"], &["slow"]);
        let (skip, skip_disruptive) = (format!("--skip={SKIP}"), format!("--skip={SKIP_DISRUPTIVE}"));
        let apps = r"--focus=\[sig-apps\]";
        let args = selection.for_ginkgo().unwrap();
        assert_eq!(args, [apps, "--focus=CronJob", &skip, &skip_disruptive, "--skip=slow"]);
        assert_eq!(selection.to_args(), ["--focus=CronJob", "--skip=slow", "apps"]);
        selection.disruptive = true;
        assert_eq!(selection.for_ginkgo().unwrap(), [apps, "--focus=CronJob", &skip, "--skip=slow"]);
        assert_eq!(selection.to_args(), ["--focus=CronJob", "--skip=slow", "--disruptive", "apps"]);
    }

    #[test]
    fn without_a_suite_or_an_expression_it_is_conformance() {
        let args = selection(&[], &[], &[]).for_ginkgo().unwrap();
        assert_eq!(args[0], r"--focus=\[Conformance\]");
        let args = selection(&[], &["CronJob"], &[]).for_ginkgo().unwrap();
        assert_eq!(args[0], "--focus=CronJob");
    }
}
