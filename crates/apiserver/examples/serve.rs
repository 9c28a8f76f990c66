//! Serves an API server in memory on a port of loopback: `cargo run -p flyball-apiserver --example serve -- 6443`.
//! Tokens: `admin-token` (system:masters), `kcm-token`, `user-token`. Writes `kubeconfig` into the given directory.

use flyball_apiserver::pki::Ca;
use flyball_apiserver::{ApiServer, Options, StaticToken, serve, tls};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let port: u16 = args.next().unwrap_or_else(|| "6443".to_owned()).parse()?;
    let directory = std::path::PathBuf::from(args.next().unwrap_or_else(|| ".".to_owned()));
    let data_dir = args.next().map(Into::into);
    let ca = Ca::new("kubernetes-ca")?;
    let serving = ca.server(&["127.0.0.1".to_owned(), "localhost".to_owned()])?;
    let tokens = vec![
        StaticToken::new("admin-token", "admin", &["system:masters"]),
        StaticToken::new("kcm-token", "system:kube-controller-manager", &[]),
        StaticToken::new("user-token", "jane", &["developers"]),
    ];
    let disabled_admission = ["ServiceAccount".to_owned()].into();
    let cidrs = vec!["10.96.0.0/16".parse()?, "fd00:96::/112".parse()?];
    let options =
        Options { tokens, disabled_admission, data_dir, service_cidrs: cidrs, ..Options::default() };
    let server = ApiServer::new(options)?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    std::fs::write(directory.join("ca.crt"), &ca.pair.cert)?;
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{{name: c, cluster: {{server: \"https://127.0.0.1:{port}\", \
         certificate-authority: ca.crt}}}}]\nusers: [{{name: u, user: {{token: admin-token}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n"
    );
    std::fs::write(directory.join("kubeconfig"), kubeconfig)?;
    let acceptor = tls(&serving, Some(&ca.pair.cert))?;
    println!("https://127.0.0.1:{port}");
    serve(server, listener, acceptor, async {
        let _ = tokio::signal::ctrl_c().await;
    })
    .await;
    Ok(())
}
