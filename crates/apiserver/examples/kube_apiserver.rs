//! The embedded server behind kube-apiserver's command line, as far as test harnesses use it: serving certificate,
//! token file, service account keys, service ranges and audit log. Other flags are accepted and ignored.

use std::collections::BTreeMap;

use flyball_apiserver::pki::Pair;
use flyball_apiserver::{ApiServer, Options, StaticToken, serve, tls};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let flags = flags();
    let read = |name: &str| -> Result<String, Box<dyn std::error::Error>> {
        let path = flags.get(name).ok_or_else(|| format!("--{name} is missing"))?;
        Ok(std::fs::read_to_string(path).map_err(|error| format!("--{name} {path}: {error}"))?)
    };
    let port: u16 = flags.get("secure-port").map_or("6443", String::as_str).parse()?;
    let mut tokens = Vec::new();
    for line in read("token-auth-file")?.lines() {
        let columns: Vec<&str> = line.splitn(4, ',').map(|column| column.trim_matches('"')).collect();
        if let [token, user, ..] = columns[..] {
            let groups: Vec<&str> = columns.get(3).map(|list| list.split(',').collect()).unwrap_or_default();
            tokens.push(StaticToken::new(token, user, &groups));
        }
    }
    let ranges = flags.get("service-cluster-ip-range").map_or("10.96.0.0/16", String::as_str);
    let gates = flags.get("feature-gates").map_or("", String::as_str);
    let off = flags.get("disable-admission-plugins").map_or("", String::as_str);
    let options = Options {
        tokens,
        service_account_key: Some(read("service-account-signing-key-file")?),
        service_cidrs: ranges.split(',').map(str::parse).collect::<Result<_, _>>()?,
        disabled_admission: off.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        audit_file: flags.get("audit-log-path").map(Into::into),
        feature_gates: gates
            .split(',')
            .filter_map(|gate| gate.strip_suffix("=true"))
            .map(str::to_owned)
            .collect(),
        data_dir: flags.get("data-dir").map(Into::into),
        ..Options::default()
    };
    let server = ApiServer::new(options)?;
    let serving = Pair { cert: read("tls-cert-file")?, key: read("tls-private-key-file")? };
    let acceptor = tls(&serving, Some(&read("client-ca-file")?))?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let mut stop = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    serve(server, listener, acceptor, async {
        stop.recv().await;
    })
    .await;
    Ok(())
}

/// `--name=value` and `--name value`.
fn flags() -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut args = std::env::args().skip(1).peekable();
    while let Some(arg) = args.next() {
        let Some(name) = arg.strip_prefix("--") else { continue };
        match name.split_once('=') {
            Some((name, value)) => out.insert(name.to_owned(), value.to_owned()),
            None => match args.peek() {
                Some(next) if !next.starts_with("--") => {
                    let value = args.next().unwrap_or_default();
                    out.insert(name.to_owned(), value)
                }
                _ => out.insert(name.to_owned(), "true".to_owned()),
            },
        };
    }
    out
}
