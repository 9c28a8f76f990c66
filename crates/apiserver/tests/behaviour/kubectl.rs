//! The same `kubectl` commands against both servers must print the same.

use std::path::Path;
use std::process::Command;

use flyball_apiserver::pki::Ca;
use flyball_apiserver::{ApiServer, serve, tls};

/// Commands in order; `FILE` is a manifest of a Deployment, `$EDIT` the same with another image.
const COMMANDS: [&str; 40] = [
    "get namespaces",
    "create namespace shop",
    "create deployment web --image=nginx:1 --replicas=3 -n shop",
    "get deployments -n shop",
    "get deployments -n shop -o wide",
    "scale deployment web --replicas=5 -n shop",
    "get deployment web -n shop -o jsonpath={.spec.replicas}{.metadata.generation}",
    "set image deployment/web nginx=nginx:2 -n shop",
    "label deployment web tier=front -n shop",
    "annotate deployment web note=x -n shop",
    "get deployments -n shop -l tier=front -o name",
    "expose deployment web --port=80 -n shop",
    "get endpoints -n shop",
    "apply -f FILE -n shop",
    "apply -f FILE -n shop",
    "apply -f EDIT -n shop",
    "diff -f EDIT -n shop",
    "apply --server-side -f FILE -n shop --force-conflicts",
    "get -f FILE -n shop -o jsonpath={.spec.template.spec.containers[0].image}",
    "replace -f EDIT -n shop",
    "patch deployment nginx -n shop -p {\"spec\":{\"replicas\":1}}",
    "patch deployment nginx -n shop --type=json -p [{\"op\":\"remove\",\"path\":\"/spec/minReadySeconds\"}]",
    "run one --image=busybox -n shop",
    "get pods -n shop",
    "get pod one -n shop -o jsonpath={.status.phase}",
    "delete pod one -n shop",
    "create configmap c --from-literal=a=b -n shop",
    "get configmap c -n shop -o jsonpath={.data}",
    "create secret generic s --from-literal=a=b -n shop",
    "get secrets -n shop",
    "create job j --image=busybox -n shop",
    "create cronjob cj --image=busybox --schedule=*/5\u{a0}*\u{a0}*\u{a0}*\u{a0}* -n shop",
    "get cronjobs -n shop",
    "create role r --verb=get --resource=pods -n shop",
    "create rolebinding rb --role=r --user=jane -n shop",
    "auth can-i get pods -n shop --as jane",
    "auth can-i delete pods -n shop --as jane",
    "create quota q --hard=pods=5 -n shop",
    "api-resources --api-group=batch",
    "delete deployment web nginx -n shop",
];

const MANIFEST: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: nginx}\nspec:\n  minReadySeconds: 5\n  replicas: 2\n  \
    selector: {matchLabels: {app: nginx}}\n  template:\n    metadata: {labels: {app: nginx}}\n    \
    spec: {containers: [{name: nginx, image: \"nginx:1\", ports: [{containerPort: 80}]}]}\n";

/// What every command prints on a server.
pub(crate) fn transcript(kubectl: &Path, url: &str, ca: &str) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let ca = file("ca.crt", ca);
    let (first, second) =
        (file("first.yaml", MANIFEST), file("second.yaml", &MANIFEST.replace("nginx:1", "nginx:9")));
    let run = |command: &str| {
        let words = command.split(' ').map(|word| match word {
            "FILE" => first.clone(),
            "EDIT" => second.clone(),
            other => other.replace('\u{a0}', " "),
        });
        let output = Command::new(kubectl)
            .args(["--server", url, "--certificate-authority", &ca, "--token", "admin-token"])
            .args(["--cache-dir", &directory.path().join("cache").display().to_string()])
            .args(words)
            .env("KUBECONFIG", "/dev/null")
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).replace(&directory.path().display().to_string(), "DIR");
        format!("{command}\n{}", normal(&text))
    };
    COMMANDS.iter().map(|command| run(command)).collect()
}

/// Ages, and the width of the column that they make, are chance; so are temporary names.
fn normal(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("diff ") && !line.starts_with("---") && !line.starts_with("+++"));
    let word = |word: &str| {
        let is_age =
            word.len() <= 6 && word.ends_with(['s', 'm']) && word.starts_with(|c: char| c.is_ascii_digit());
        if is_age { "AGE".to_owned() } else { word.to_owned() }
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    lines.map(line).collect::<Vec<_>>().join("\n")
}

/// Serves an embedded server on a free port; gives its address and its CA.
pub(crate) async fn serve_embedded(server: ApiServer) -> (String, String) {
    let ca = Ca::new("kubernetes-ca").unwrap();
    let serving = ca.server(&["127.0.0.1".to_owned()]).unwrap();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let acceptor = tls(&serving, None).unwrap();
    tokio::spawn(serve(server, listener, acceptor, std::future::pending()));
    (url, ca.pair.cert)
}
