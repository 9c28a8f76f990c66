//! Which of upstream's tests belong to which suite.

use anyhow::bail;

/// Tests by regular expressions over their full names, as ginkgo's `--focus` and `--skip` take them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    focus: &'static str,
}

/// Never run: they break the cluster for others, take very long, or need a cloud, a driver or a feature that is off by default.
const SKIP: &str =
    r"\[Disruptive\]|\[Slow\]|\[Flaky\]|\[Feature:|\[Driver: (gcepd|aws|azure|vsphere|nfs|iscsi|ceph|csi-)";

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

/// The arguments of ginkgo for these suites and further expressions.
pub(crate) fn arguments(names: &[String], focus: &[String], skip: &[String]) -> anyhow::Result<Vec<String>> {
    let mut args = Vec::new();
    for name in names {
        let Some(suite) = SUITES.iter().find(|suite| suite.name == name) else {
            let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
            bail!("no suite {name:?}; there are {}", known.join(", "));
        };
        args.push(format!("--focus={}", suite.focus));
    }
    args.extend(focus.iter().map(|expression| format!("--focus={expression}")));
    args.push(format!("--skip={SKIP}"));
    args.extend(skip.iter().map(|expression| format!("--skip={expression}")));
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_suite_is_refused_with_the_names_of_all() {
        let error = arguments(&["app".to_owned()], &[], &[]).unwrap_err().to_string();
        assert!(error.starts_with("no suite \"app\"; there are conformance, apps, "), "{error}");
    }

    #[test]
    fn suites_and_expressions_add_up() {
        let args = arguments(&["apps".to_owned()], &["CronJob".to_owned()], &["slow".to_owned()]).unwrap();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let skip = format!("--skip={SKIP}");
        assert_eq!(args, [r"--focus=\[sig-apps\]", "--focus=CronJob", &skip, "--skip=slow"]);
    }
}
