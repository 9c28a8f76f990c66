//! Starts etcd and kube-apiserver from `KUBEBUILDER_ASSETS` on free ports; both end when the value is dropped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flyball_apiserver::pki::Ca;
use http::{Request, response};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::backend::NODES;

pub(crate) struct Real {
    pub(crate) port: u16,
    pub(crate) ca: String,
    pub(crate) assets: PathBuf,
    tls: tokio_rustls::TlsConnector,
    processes: Vec<Child>,
    directory: tempfile::TempDir,
}

impl Drop for Real {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn spawn(binary: &Path, log: &Path, args: &[String]) -> Result<Child, String> {
    let log = std::fs::File::create(log).unwrap();
    let errors = log.try_clone().unwrap();
    Command::new(binary)
        .args(args)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .spawn()
        .map_err(|error| format!("{} cannot be started: {error}", binary.display()))
}

/// Starts the real server; the error says why that is not possible here.
pub(crate) async fn start() -> Result<Real, String> {
    let assets =
        std::env::var("KUBEBUILDER_ASSETS").map_err(|_| "KUBEBUILDER_ASSETS is not set".to_owned())?;
    let assets = PathBuf::from(assets);
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let text = |name: &str| at(name).display().to_string();
    let ca = Ca::new("kubernetes-ca").unwrap();
    let serving = ca.server(&["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    let account = rcgen::KeyPair::generate().unwrap();
    let nodes =
        (1..=NODES).map(|node| format!("node-{node}-token,system:node:n{node},n{node},\"system:nodes\"\n"));
    let users = "admin-token,admin,admin-uid,\"system:masters\"\nuser-token,jane,jane-uid,\"developers\"\n";
    for (name, content) in [
        ("ca.crt", ca.pair.cert.clone()),
        ("srv.crt", serving.cert.clone()),
        ("srv.key", serving.key.clone()),
        ("sa.key", account.serialize_pem()),
        ("sa.pub", account.public_key_pem()),
        ("tokens.csv", std::iter::once(users.to_owned()).chain(nodes).collect()),
    ] {
        std::fs::write(at(name), content).unwrap();
    }
    let (client, peer, port) = (free_port(), free_port(), free_port());
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let flags = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| format!("--{k}={v}")).collect::<Vec<_>>();
    let etcd = spawn(
        &assets.join("etcd"),
        &at("etcd.log"),
        &flags(&[
            ("data-dir", &text("etcd")),
            ("unsafe-no-fsync", "true"),
            ("listen-client-urls", &client),
            ("advertise-client-urls", &client),
            ("listen-peer-urls", &peer),
            ("initial-advertise-peer-urls", &peer),
            ("initial-cluster", &format!("default={peer}")),
        ]),
    )?;
    let mut processes = vec![etcd];
    let apiserver = spawn(
        &assets.join("kube-apiserver"),
        &at("apiserver.log"),
        &flags(&[
            ("etcd-servers", &client),
            ("secure-port", &port.to_string()),
            ("bind-address", "127.0.0.1"),
            ("advertise-address", "127.0.0.1"),
            ("tls-cert-file", &text("srv.crt")),
            ("tls-private-key-file", &text("srv.key")),
            ("client-ca-file", &text("ca.crt")),
            ("token-auth-file", &text("tokens.csv")),
            ("service-account-issuer", "https://kubernetes.default.svc"),
            ("service-account-key-file", &text("sa.pub")),
            ("service-account-signing-key-file", &text("sa.key")),
            ("service-cluster-ip-range", "10.96.0.0/16"),
            ("authorization-mode", "Node,RBAC"),
            ("enable-admission-plugins", "NodeRestriction"),
            ("endpoint-reconciler-type", "none"),
            ("allow-privileged", "true"),
            ("disable-admission-plugins", "ServiceAccount"),
            ("cert-dir", &text("certs")),
        ]),
    );
    processes.extend(apiserver);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.pair.cert.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tls = tokio_rustls::TlsConnector::from(Arc::new(config));
    let real = Real { port, ca: ca.pair.cert.clone(), assets, tls, processes, directory };
    real.wait().await?;
    Ok(real)
}

impl Real {
    async fn wait(&self) -> Result<(), String> {
        // Roles are written, and take effect, some time after the server reports that it is ready.
        let priority = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical";
        let checks = [
            ("admin-token", priority),
            ("user-token", "/version"),
            ("user-token", "/healthz"),
            ("", "/healthz"),
        ];
        for _ in 0..2400 {
            let mut ready = true;
            for (token, path) in checks {
                let mut request = Request::get(path);
                if !token.is_empty() {
                    request = request.header("authorization", format!("Bearer {token}"));
                }
                let answer = self.try_send(request.body(Bytes::new()).unwrap()).await;
                ready &= answer.is_some_and(|(parts, _)| parts.status == 200);
            }
            if ready && self.knows_jane().await {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let log = std::fs::read_to_string(self.directory.path().join("apiserver.log")).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(8).collect();
        panic!("kube-apiserver did not become ready within four minutes:\n{}", tail.join("\n"));
    }

    async fn knows_jane(&self) -> bool {
        let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("authorization", "Bearer user-token")
            .header("content-type", "application/json")
            .body(Bytes::from_static(b"{}"))
            .unwrap();
        self.try_send(request).await.is_some_and(|(parts, _)| parts.status == 201)
    }

    async fn try_send(&self, request: Request<Bytes>) -> Option<(response::Parts, Bytes)> {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        let name = rustls_pki_types::ServerName::try_from("127.0.0.1").ok()?;
        let stream = self.tls.connect(name, stream).await.ok()?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
        let driver = tokio::spawn(connection);
        let mut request = request;
        request.headers_mut().insert("host", "localhost".parse().ok()?);
        let response = sender.send_request(request.map(Full::new)).await.ok()?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        driver.abort();
        Some((parts, body))
    }

    pub(crate) async fn send(&self, request: Request<Bytes>) -> (response::Parts, Bytes) {
        self.try_send(request).await.expect("the real server answers")
    }
}
