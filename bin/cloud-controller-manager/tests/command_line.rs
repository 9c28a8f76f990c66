//! The binary as a shell sees it: what it prints, where, and how it ends.

#[path = "../../kube-controller-manager/tests/shell/mod.rs"]
mod shell;

const BINARY: shell::Binary = shell::Binary(env!("CARGO_BIN_EXE_cloud-controller-manager"));

#[test]
fn version_and_help_go_to_stdout_and_succeed() {
    #[rustfmt::skip]
    let table: &[(&[&str], &str)] = &[
        (&["--version"], "Kubernetes v1.36.4 (Flyball "),
        (&["--help"],    "Flyball's cloud-controller-manager"),
    ];
    BINARY.prints(table);
}

#[test]
fn mistakes_are_single_lines_on_stderr_and_exit_1() {
    #[rustfmt::skip]
    let table: &[(&[&str], &str)] = &[
        (&[],                       "cloud-controller-manager: --cloud-provider must name a cloud provider\n"),
        (&["--cloud-provider=gce"], "cloud-controller-manager: --cloud-provider: there is no cloud provider \"gce\" here; this program has: simulated\n"),
        (&["--cloud-provider=simulated", "--secure-port=10261", "--webhook-secure-port=10261"],
            "cloud-controller-manager: --webhook-secure-port and --secure-port must differ; both are 10261\n"),
        (&["serve"],                "cloud-controller-manager: cloud-controller-manager takes no arguments, only flags; got \"serve\"; see --help\n"),
    ];
    BINARY.refuses(table);
}

#[test]
fn a_missing_kubeconfig_is_named() {
    BINARY.names_a_missing_kubeconfig(&["--cloud-provider=simulated"]);
}

/// A shadow changes nothing, and calls to a cloud change it.
#[test]
fn there_is_no_shadow_of_a_cloud() {
    let output = BINARY.run_with(&["--cloud-provider=simulated"], &[("FLYBALL_SHADOW", "1")]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("cloud-controller-manager: FLYBALL_SHADOW is set, but only writes"), "{said}");
}
