//! Keys that `ring` does not know, on a real API server: its serving certificate is on P-521, the manager's client certificates
//! are RSA of 8192 bits and P-521, and the CA that signs requests has RSA of 16384 bits. Skipped without assets.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flyball_sim::api::{Api, Call, Content};
use flyball_sim::cluster::{Cluster, Manager, Options, Unavailable};
use flyball_sim::load::until;
use flyball_sim::ours::{self, Profile};
use http::Method;
use serde_json::{Value, json};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

#[tokio::test]
async fn large_keys_work_with_a_real_api_server() -> anyhow::Result<()> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../keys/testdata");
    let file = |name: &str| data.join(name).display().to_string();
    let dir = tempfile::tempdir()?;
    let authorities = dir.path().join("authorities.crt");
    let read = |name: &str| std::fs::read(data.join(name));
    std::fs::write(&authorities, [read("ca-p521.crt")?, read("ca-rsa16384.crt")?].concat())?;
    let apiserver_flags = vec![
        format!("--client-ca-file={}", authorities.display()),
        format!("--tls-sni-cert-key={},{}:localhost", file("p521.crt"), file("p521.key")),
    ];
    let cluster = match Cluster::real(Options { apiserver_flags, ..Options::default() }).await {
        Ok(cluster) => cluster,
        Err(Unavailable::Skip(missing)) => {
            missing.announce("large_keys_work_with_a_real_api_server");
            return Ok(());
        }
        Err(Unavailable::Broken(error)) => return Err(error),
    };
    let (api, program) = (cluster.api().await?, ours::binary(Profile::Debug)?);
    for (client, ca) in
        [("rsa8192", ("ca-rsa16384.crt", "rsa16384.key")), ("p521", ("ca-p521.crt", "ca-p521.key"))]
    {
        let kubeconfig = dir.path().join(format!("{client}.kubeconfig"));
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://localhost:{}", cluster.apiserver_address().port()),
                "certificate-authority": file("ca-p521.crt"),
            }}],
            "users": [{"name": "test", "user": {
                "client-certificate": file(&format!("{client}.crt")),
                "client-key": file(&format!("{client}.key")),
            }}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        std::fs::write(&kubeconfig, config.to_string())?;
        let flags = [
            format!("--kubeconfig={}", kubeconfig.display()),
            "--use-service-account-credentials=false".to_owned(),
            format!("--cluster-signing-cert-file={}", file(ca.0)),
            format!("--cluster-signing-key-file={}", file(ca.1)),
        ];
        let controllers = ["certificatesigningrequest-signing-controller".to_owned()];
        let manager =
            Manager { binary: &program, controllers: &controllers, leader_elect: true, flags: &flags };
        let mut process = cluster.start_manager(client, &manager)?;
        let certificate = certificate(&api, client, &read("request-p521.pem")?).await.context(client)?;
        let issued = dir.path().join(format!("{client}-issued.crt"));
        std::fs::write(&issued, certificate)?;
        let user = who_am_i(&cluster, &file("ca-p521.crt"), &issued, &file("p521.key"))?;
        ensure!(user == "jane", "{client}: the API server takes the bearer of the certificate for {user:?}");
        process.kill();
        // The next one does not wait for the lease.
        api.send(Call::new(
            Method::DELETE,
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager",
        ))
        .await?;
    }
    Ok(())
}

/// A client certificate for a request.
async fn certificate(api: &Api, name: &str, request: &[u8]) -> anyhow::Result<Vec<u8>> {
    let object = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"request": BASE64.encode(request), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]},
    });
    let (_, mut object) = api.send(Call::new(Method::POST, REQUESTS).body(&object, Content::Json)).await?;
    object["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "Test"}]);
    let path = format!("{REQUESTS}/{name}");
    api.send(Call::new(Method::PUT, &format!("{path}/approval")).body(&object, Content::Json)).await?;
    until("a certificate", Duration::from_secs(60), || async {
        let status = &api.get(&path).await?["status"];
        Ok(status["certificate"].is_null().then(|| format!("there is none: {status}")))
    })
    .await?;
    let object: Value = api.get(&path).await?;
    Ok(BASE64.decode(object["status"]["certificate"].as_str().unwrap_or_default())?)
}

/// The user that the API server finds in a certificate. Go verifies it and the server's.
fn who_am_i(cluster: &Cluster, ca: &str, certificate: &Path, key: &str) -> anyhow::Result<String> {
    let output = Command::new(cluster.assets().binary("kubectl"))
        .args(["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", "--kubeconfig=/dev/null"])
        .arg(format!("--server=https://localhost:{}", cluster.apiserver_address().port()))
        .arg(format!("--certificate-authority={ca}"))
        .arg(format!("--client-certificate={}", certificate.display()))
        .arg(format!("--client-key={key}"))
        .output()?;
    ensure!(output.status.success(), "kubectl: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
