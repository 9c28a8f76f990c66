//! The binary as a shell sees it: what it prints, where, and how it ends.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"))
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .expect("the binary runs")
}

#[test]
fn version_and_help_go_to_stdout_and_succeed() {
    #[rustfmt::skip]
    let table: &[(&[&str], &str)] = &[
        (&["--version"], "Kubernetes v1.36.4 (Flyball "),
        (&["--help"],    "Flyball's cloud-controller-manager"),
    ];
    for (arguments, want) in table {
        let output = run(arguments);
        assert!(output.status.success(), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stdout).starts_with(want), "{arguments:?}");
        assert!(output.stderr.is_empty(), "{arguments:?}");
    }
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
    for (arguments, want) in table {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), *want, "{arguments:?}");
    }
}

#[test]
fn a_missing_kubeconfig_is_named() {
    let output = run(&["--cloud-provider=simulated", "--kubeconfig=no-such-file"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = stderr.lines().last().unwrap_or_default();
    assert!(last.contains("--kubeconfig") && last.contains("no-such-file"), "{stderr}");
}

/// A shadow changes nothing, and calls to a cloud change it.
#[test]
fn there_is_no_shadow_of_a_cloud() {
    let output = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"))
        .arg("--cloud-provider=simulated")
        .env("FLYBALL_SHADOW", "1")
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("cloud-controller-manager: FLYBALL_SHADOW is set, but only writes"), "{said}");
}
