//! The binary as a shell sees it: mistakes are single lines on stderr that say what would be right.

use std::process::Command;

#[test]
fn mistakes_are_single_lines_on_stderr_and_exit_1() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cloud.yaml");
    let path = file.display().to_string();
    #[rustfmt::skip]
    let table = [
        ("",                                                  vec![],                       "--cloud-provider must name a cloud provider".to_owned()),
        ("",                                                  vec!["--cloud-provider=aws"], "--cloud-provider: there is no cloud provider \"aws\" here; this program has: linux".to_owned()),
        ("",                                                  vec!["--cloud-provider=linux"], "--cloud-provider: the cloud of provider \"linux\" cannot be opened: --cloud-config must name a file; docs/linux.md describes it".to_owned()),
        ("machines:\n- {name: a}\n- {name: a}\n",             vec!["--cloud-provider=linux", "--cloud-config=FILE"],
            format!("--cloud-config: the cloud of provider \"linux\" cannot be opened: {path}:3: ")),
        ("machines:\n- {name: a}\nroutes: {}\n",              vec!["--cloud-provider=linux", "--cloud-config=FILE"],
            "--configure-cloud-routes needs --cluster-cidr, such as 10.244.0.0/16".to_owned()),
    ];
    for (text, arguments, want) in table {
        std::fs::write(&file, text).expect("a file");
        let arguments: Vec<String> =
            arguments.iter().map(|argument| argument.replace("FILE", &path)).collect();
        let output = Command::new(env!("CARGO_BIN_EXE_linux-cloud-controller-manager"))
            .args(&arguments)
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .output()
            .expect("the binary runs");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let want = format!("cloud-controller-manager: {want}");
        assert!(said.starts_with(&want) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
}
