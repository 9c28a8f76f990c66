//! The binary as a shell sees it: mistakes are single lines on stderr that say what would be right.

use std::process::Command;

#[test]
fn mistakes_are_single_lines_on_stderr_and_exit_1() {
    const FILE: [&str; 2] = ["--cloud-provider=aws", "--cloud-config=FILE"];
    const HEAD: &str = "region: eu-central-1\nvpc: vpc-0a\n";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cloud.yaml");
    let path = file.display().to_string();
    let opened = "--cloud-config: the cloud of provider \"aws\" cannot be opened: ";
    let key = [("AWS_ACCESS_KEY_ID", "AKIA"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    #[rustfmt::skip]
    let table = [
        (String::new(),                            vec![],                            vec![],       "--cloud-provider must name a cloud provider".to_owned()),
        (String::new(),                            vec!["--cloud-provider=linux"],    vec![],       "--cloud-provider: there is no cloud provider \"linux\" here; this program has: aws".to_owned()),
        (String::new(),                            vec!["--cloud-provider=aws"],      vec![],       "--cloud-provider: the cloud of provider \"aws\" cannot be opened: --cloud-config must name a file; docs/aws.md describes it".to_owned()),
        (format!("{HEAD}routes:\n  tables: 5\n"),  FILE.to_vec(),                     vec![],       format!("{opened}{path}:4: ")),
        (HEAD.to_owned(),                          FILE.to_vec(),                     vec![key[0]], format!("{opened}AWS_ACCESS_KEY_ID is set, but not AWS_SECRET_ACCESS_KEY; both are needed, or neither")),
        (format!("{HEAD}endpoints: {{metadata: 'http://127.0.0.1:1'}}\n"), FILE.to_vec(), vec![],   format!("{opened}there is no access key: neither AWS_ACCESS_KEY_ID nor AWS_WEB_IDENTITY_TOKEN_FILE is set, and this machine has no role that it could be asked for: PUT http://127.0.0.1:1/latest/api/token: ")),
        (format!("{HEAD}routes: {{}}\n"),          FILE.to_vec(),                     key.to_vec(), "--configure-cloud-routes needs --cluster-cidr, such as 10.244.0.0/16".to_owned()),
    ];
    for (text, arguments, environment, want) in table {
        std::fs::write(&file, text).expect("a file");
        let arguments: Vec<String> =
            arguments.iter().map(|argument| argument.replace("FILE", &path)).collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_aws-cloud-controller-manager"));
        for name in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            command.env_remove(name);
        }
        for name in ["AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_EC2_METADATA_DISABLED"] {
            command.env_remove(name);
        }
        let output = command.args(&arguments).envs(environment).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let want = format!("cloud-controller-manager: {want}");
        assert!(said.starts_with(&want) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
}
