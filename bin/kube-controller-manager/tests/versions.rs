//! `--emulated-version`, `--min-compatibility-version` and `--feature-gates`: which combinations start and which are refused,
//! here and, where `KUBEBUILDER_ASSETS` names it, by upstream's binary.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// A command line that is valid gets as far as its kubeconfig.
const VALID: &str = "no-such-file";

/// The flags, and words that the error has here and upstream.
#[rustfmt::skip]
const TABLE: &[(&[&str], &[&str])] = &[
    (&["--emulated-version=1.34"],                                                                   &[VALID]),
    (&["--emulated-version=kube=1.34"],                                                              &[VALID]),
    (&["--emulated-version=v1.34.0"],                                                                &[VALID]),
    (&["--emulated-version=1.034-alpha.1"],                                                          &[VALID]),
    (&["--emulated-version="],                                                                       &[VALID]),
    (&["--emulated-version=1.33", "--min-compatibility-version=1.33"],                               &[VALID]),
    (&["--min-compatibility-version=1.36"],                                                          &[VALID]),
    (&["--emulated-version=1.34.2"],                                                                 &["1.34.2"]),
    (&["--emulated-version=1.32"],                                                                   &["1.32", "between", "1.33"]),
    (&["--emulated-version=1.37"],                                                                   &["1.37", "between", "1.36"]),
    (&["--emulated-version=2.0"],                                                                    &["2.0", "between"]),
    (&["--emulated-version=1"],                                                                      &["version", "\"1\""]),
    (&["--emulated-version=abc"],                                                                    &["version", "abc"]),
    (&["--emulated-version=wardle=1.2"],                                                             &["component", "wardle"]),
    (&["--emulated-version=1.34,kube=1.34"],                                                         &["version", "1.34"]),
    (&["--emulated-version=1.34", "--min-compatibility-version=1.35"],                               &["1.35", "between", "1.34"]),
    (&["--min-compatibility-version=1.32"],                                                          &["1.32", "between", "1.33"]),
    (&["--feature-gates=JobManagedBy=false"],                                                        &["JobManagedBy", "locked to true"]),
    (&["--emulated-version=1.34", "--feature-gates=JobManagedBy=false"],                             &[VALID]),
    (&["--emulated-version=1.34", "--feature-gates=JobPodReplacementPolicy=false"],                  &["JobPodReplacementPolicy", "locked to true"]),
    (&["--emulated-version=1.33", "--feature-gates=kube:JobPodReplacementPolicy=false"],             &[VALID]),
    (&["--emulated-version=1.33", "--feature-gates=SeparateTaintEvictionController=false"],          &[VALID]),
    (&["--emulated-version=1.34", "--feature-gates=WorkloadWithJob=true"],                           &["WorkloadWithJob", "1.34"]),
    (&["--emulated-version=1.34", "--feature-gates=WorkloadWithJob=false"],                          &["WorkloadWithJob", "1.34"]),
    (&["--feature-gates=WorkloadWithJob=true"],                                                      &["WorkloadWithJob", "GenericWorkload"]),
    (&["--feature-gates=WorkloadWithJob=true,GenericWorkload=true"],                                 &[VALID]),
    (&["--feature-gates=DRADeviceTaints=false,DRADeviceTaintRules=true"],                            &["DRADeviceTaintRules", "DRADeviceTaints"]),
    (&["--feature-gates=AllAlpha=true"],                                                             &[VALID]),
    (&["--feature-gates=AllBeta=false"],                                                             &[VALID]),
    (&["--feature-gates=AllAlpha=true,GenericWorkload=false"],                                       &["DRAWorkloadResourceClaims", "GenericWorkload"]),
    (&["--emulated-version=1.33", "--feature-gates=AllAlpha=true"],                                  &["DRAAdminAccess", "DynamicResourceAllocation"]),
    (&["--emulated-version=1.33", "--feature-gates=AllAlpha=true,AllBeta=true"],                     &[VALID]),
    (&["--emulated-version=1.34", "--feature-gates=AllBeta=false"],                                  &[VALID]),
    (&["--feature-gates=Nope=true"],                                                                 &["feature gate", "Nope"]),
    (&["--feature-gates=PodDeletionCost=maybe"],                                                     &["PodDeletionCost", "maybe"]),
    (&["--feature-gates=PodDeletionCost"],                                                           &["PodDeletionCost"]),
    (&["--feature-gates=wardle:A=true"],                                                             &["component", "wardle"]),
    (&["--feature-gates=kube:AllBeta=true,AllAlpha=true"],                                           &["kube:"]),
    (&["--logging-format=json", "--feature-gates=LoggingBetaOptions=false"],                         &["LoggingBetaOptions"]),
];

fn upstream() -> Option<PathBuf> {
    let binary = PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS")?).join("kube-controller-manager");
    let found = binary.is_file().then_some(binary);
    if found.is_none() {
        eprintln!("SKIPPED: no kube-controller-manager in KUBEBUILDER_ASSETS to compare with");
    }
    found
}

fn ours() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_kube-controller-manager"))
}

/// What a program that must fail says about it.
fn complaint(program: &PathBuf, flags: &[&str]) -> String {
    let output = Command::new(program)
        .arg(format!("--kubeconfig={VALID}"))
        .args(flags)
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{flags:?}: {text}");
    text
}

#[test]
fn versions_and_gates_are_accepted_and_refused_as_upstream_does() {
    let upstream = upstream();
    for (flags, words) in TABLE {
        for program in [Some(ours()), upstream.clone()].into_iter().flatten() {
            let text = complaint(&program, flags);
            let says = |word: &&&str| !text.replace("\\\"", "\"").contains(**word);
            let missing: Vec<&&str> = words.iter().filter(says).collect();
            assert!(missing.is_empty(), "{} {flags:?} does not say {missing:?}:\n{text}", program.display());
        }
    }
}

#[test]
fn help_lists_upstreams_gates_with_their_stage_and_default() {
    let help = |program: &PathBuf| {
        let output = Command::new(program).arg("--help").output().expect("the program runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let ours = help(&ours());
    let (_, gates) = ours.split_once("Feature gates that may be changed").expect("a list of gates");
    let gates = gates.lines().filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [name, stage @ ("ALPHA" | "BETA"), default] => {
            Some(format!("{name}=true|false ({stage} - default={default})"))
        }
        _ => None,
    });
    let gates: BTreeSet<String> = gates.collect();
    assert_eq!(gates.len(), 150);
    if let Some(upstream) = upstream() {
        let lines = help(&upstream);
        let lines = lines.lines().filter_map(|line| line.trim().strip_prefix("kube:"));
        assert_eq!(gates, lines.map(str::to_owned).collect());
    }
}
