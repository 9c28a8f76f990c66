//! The binary as a shell sees it: what it prints, where, and how it ends.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

mod shell;

const BINARY: shell::Binary = shell::Binary(env!("CARGO_BIN_EXE_kube-controller-manager"));

#[test]
fn version_and_help_go_to_stdout_and_succeed() {
    #[rustfmt::skip]
    let table: &[(&[&str], &str)] = &[
        (&["--version"],       "Kubernetes v1.36.4 (Flyball "),
        (&["--version=raw"],   "version.Info{Major:\"1\", Minor:\"36\", GitVersion:\"v1.36.4\""),
        (&["--help"],          "Flyball's kube-controller-manager"),
        (&["-h"],              "Flyball's kube-controller-manager"),
    ];
    BINARY.prints(table);
}

#[test]
fn mistakes_are_single_lines_on_stderr_and_exit_1() {
    #[rustfmt::skip]
    let table: &[(&[&str], &str)] = &[
        (&["--leader-elct"],              "kube-controller-manager: unknown flag --leader-elct; did you mean --leader-elect?; see --help\n"),
        (&["--controllers=nope"],         "kube-controller-manager: --controllers: there is no controller \"nope\"\n"),
        (&["--root-ca-file=/dev/null"],   "kube-controller-manager: --root-ca-file /dev/null: it holds no certificate in PEM form\n"),
        (&["serve"],                      "kube-controller-manager: kube-controller-manager takes no arguments, only flags; got \"serve\"; see --help\n"),
    ];
    BINARY.refuses(table);
}

#[test]
fn a_missing_kubeconfig_is_named() {
    BINARY.names_a_missing_kubeconfig(&[]);
}

/// A port on which nothing listens.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

/// A kubeconfig for a server that does not exist.
fn unreachable_server() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let port = free_port();
    let config = format!(
        r#"{{"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{{"name": "c", "cluster": {{"server": "http://127.0.0.1:{port}"}}}}],
            "contexts": [{{"name": "c", "context": {{"cluster": "c", "user": "u"}}}}],
            "users": [{{"name": "u", "user": {{}}}}]}}"#
    );
    let file = dir.path().join("kubeconfig");
    std::fs::write(&file, config).expect("a file");
    let flag = format!("--kubeconfig={}", file.display());
    (dir, flag)
}

#[test]
fn without_an_api_server_a_candidate_serves_and_waits() {
    let (dir, kubeconfig) = unreachable_server();
    let certificates = format!("--cert-dir={}", dir.path().display());
    let port = format!("--secure-port={}", free_port());
    let mut child = Command::new(env!("CARGO_BIN_EXE_kube-controller-manager"))
        .args([
            &kubeconfig,
            &certificates,
            &port,
            "--bind-address=127.0.0.1",
            "--authentication-skip-lookup",
            "--leader-elect",
        ])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let events = ["serving", "waiting for the API server"];
    let seen = lines.filter_map(|line| events.into_iter().find(|event| line.contains(&format!("{event:?}"))));
    // It waits a second time after more than ten seconds: without leader election it would have given up.
    let seen: Vec<&str> = seen.take(3).collect();
    assert_eq!(seen, [events[0], events[1], events[1]]);
    child.kill().and_then(|()| child.wait()).expect("it can be stopped");
}

#[test]
fn without_an_api_server_and_without_election_it_ends_and_names_the_server() {
    let (_dir, kubeconfig) = unreachable_server();
    let output = BINARY.run(&[&kubeconfig, "--secure-port=0", "--leader-elect=false"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = stderr.lines().last().unwrap_or_default();
    assert!(last.contains("the API server at http://127.0.0.1:") && last.contains("/kubeconfig"), "{stderr}");
}
