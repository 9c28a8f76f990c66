//! A user of a kubeconfig: certificate, token, password, plugin, impersonation; what contradicts itself is an error.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::file::{AuthInfo, Cluster, ExecConfig};
use super::{Problem, decoded, unreadable};
use crate::config::{CertificateAndKey, Exec, Impersonate, Interactive, Pem, Trust, User};

/// The versions of ExecCredential, the newest first.
const EXEC_VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

pub(super) fn identity(user: &AuthInfo, at: &str) -> Result<User, Problem> {
    let wrong = |field: &str, problem: String| (format!("{at}.{field}"), problem);
    if let Some(provider) = &user.auth_provider {
        let problem = format!("{provider:?} is not supported; use a credential plugin (`exec`)");
        return Err(wrong("auth-provider", problem));
    }
    let basic = match (&user.username, &user.password) {
        (None, None) => None,
        (name, password) => Some((name.clone().unwrap_or_default(), password.clone().unwrap_or_default())),
    };
    if basic.is_some() && (user.token.is_some() || user.token_file.is_some()) {
        return Err(wrong("token", "contradicts username and password; keep one of them".to_owned()));
    }
    let exec =
        user.exec.as_ref().map(|exec| plugin(exec).map_err(|(field, p)| wrong(&format!("exec.{field}"), p)));
    Ok(User {
        certificate: certificate(user).map_err(|(field, problem)| wrong(field, problem))?,
        token_file: user.token_file.clone(),
        token: user.token.clone(),
        basic,
        exec: exec.transpose()?,
        impersonate: impersonation(user).map_err(|problem| wrong("as", problem))?,
    })
}

fn certificate(user: &AuthInfo) -> Result<Option<CertificateAndKey>, (&'static str, String)> {
    let pem = |field, data: &Option<String>, file: &Option<PathBuf>| match (data, file) {
        (Some(data), _) => decoded(data).map(Pem::Inline).map(Some).map_err(|problem| (field, problem)),
        (None, Some(file)) => {
            let found = std::fs::metadata(file).map_err(|e| (field, unreadable(file, &e)));
            found.map(|_| Some(Pem::File(file.clone())))
        }
        (None, None) => Ok(None),
    };
    let has_certificate = user.client_certificate.is_some() || user.client_certificate_data.is_some();
    let has_key = user.client_key.is_some() || user.client_key_data.is_some();
    match (has_certificate, has_key) {
        (true, false) => return Err(("client-key", "is not set, though client-certificate is".into())),
        (false, true) => return Err(("client-certificate", "is not set, though client-key is".into())),
        _ => {}
    }
    let certificate = pem("client-certificate", &user.client_certificate_data, &user.client_certificate)?;
    let key = pem("client-key", &user.client_key_data, &user.client_key)?;
    Ok(certificate.zip(key).map(|(certificate, key)| CertificateAndKey { certificate, key }))
}

fn impersonation(user: &AuthInfo) -> Result<Option<Impersonate>, String> {
    let others = user.impersonate_uid.is_some()
        || !user.impersonate_groups.is_empty()
        || !user.impersonate_extra.is_empty();
    match &user.impersonate {
        None if others => Err("is not set, though as-uid, as-groups or as-user-extra is".to_owned()),
        None => Ok(None),
        Some(name) => Ok(Some(Impersonate {
            user: name.clone(),
            uid: user.impersonate_uid.clone(),
            groups: user.impersonate_groups.clone(),
            extra: user.impersonate_extra.clone(),
        })),
    }
}

/// Upstream: client-go tools/clientcmd, validateAuthInfo and SetDefaults_ExecConfig.
fn plugin(exec: &ExecConfig) -> Result<Exec, (&'static str, String)> {
    let command = exec.command.clone();
    let command = command.ok_or(("command", "is not set; name the credential plugin to run".to_owned()))?;
    let api_version = exec.api_version.clone().unwrap_or_default();
    if !EXEC_VERSIONS.contains(&api_version.as_str()) {
        let problem =
            format!("{api_version:?} is not supported; give {} or {}", EXEC_VERSIONS[0], EXEC_VERSIONS[1]);
        return Err(("apiVersion", problem));
    }
    let interactive = match exec.interactive_mode.as_deref() {
        None if api_version == EXEC_VERSIONS[1] => Interactive::IfAvailable,
        Some("Never") => Interactive::Never,
        Some("IfAvailable") => Interactive::IfAvailable,
        Some("Always") => Interactive::Always,
        None => return Err(("interactiveMode", "is not set; give Never, IfAvailable or Always".into())),
        Some(other) => {
            return Err((
                "interactiveMode",
                format!("{other:?} is unknown; give Never, IfAvailable or Always"),
            ));
        }
    };
    if let Some(at) = exec.env.iter().position(|(name, _)| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(("env", format!("entry {at} has no name that a variable can have")));
    }
    Ok(Exec {
        command,
        args: exec.args.clone(),
        env: exec.env.clone(),
        api_version,
        interactive,
        install_hint: exec.install_hint.clone(),
        cluster: None,
    })
}

/// `spec.cluster` of an ExecCredential.
pub(super) fn cluster_for_plugins(cluster: &Cluster, server: &http::Uri, trust: &Trust) -> serde_json::Value {
    let mut shown = serde_json::Map::new();
    shown.insert("server".to_owned(), json!(server.to_string().trim_end_matches('/')));
    let mut add =
        |key: &str, value: Option<serde_json::Value>| value.map(|v| shown.insert(key.to_owned(), v));
    add("tls-server-name", cluster.tls_server_name.as_ref().map(|name| json!(name)));
    add("insecure-skip-tls-verify", cluster.insecure_skip_tls_verify.then_some(true.into()));
    let pem = trust.roots().map(crate::connect::pem);
    add("certificate-authority-data", pem.map(|pem| json!(STANDARD.encode(pem))));
    add("proxy-url", cluster.proxy_url.as_ref().map(|url| json!(url)));
    add("disable-compression", cluster.disable_compression.then_some(true.into()));
    add("config", cluster.for_plugins.clone());
    shown.into()
}
