//! The address of the API server and the credentials: kubeconfig files, the in-cluster environment, `--master`. Users have to
//! fix what is wrong here, so each error names the file and the field.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Cluster, Config, Kubeconfig};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::transport::BoxError;

/// Where the credentials of a pod's service account are mounted.
const POD_CREDENTIALS: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The flags for the connection.
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`: overrides the server of the kubeconfig, or is used without one.
    pub master: Option<String>,
    /// Another context than the current one.
    pub context: Option<String>,
}

/// Why no connection can be set up. A retry cannot help.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A kubeconfig cannot be read.
    #[error("kubeconfig {}: cannot be read", file.display())]
    Read {
        file: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("kubeconfig {}: not a valid kubeconfig", file.display())]
    Parse {
        file: PathBuf,
        #[source]
        source: BoxError,
    },
    /// A field of a kubeconfig, or a file or variable of a pod, is wrong.
    #[error("{origin}: {field}: {problem}")]
    Field {
        origin: String,
        /// The path of the field, a file, or a variable.
        field: String,
        /// What is wrong, and what is valid.
        problem: String,
    },
    /// `--master` is not a URL.
    #[error("--master {value:?}: {problem}")]
    Master {
        value: String,
        /// What is wrong, and what is valid.
        problem: String,
    },
    #[error(
        "no API server configured: give --kubeconfig or --master, set KUBECONFIG, or run in a pod with a service account"
    )]
    Nothing,
    /// Certificates, keys or plugins that do not work.
    #[error("{origin}: the credentials cannot be used")]
    Credentials {
        origin: String,
        /// What is wrong with them.
        #[source]
        source: BoxError,
    },
}

/// A validated configuration, and its name for errors.
pub(crate) struct Loaded {
    pub(crate) config: Config,
    pub(crate) origin: String,
    /// `proxy-url` of the kubeconfig, which overrides the environment.
    pub(crate) proxy: Option<http::Uri>,
}

/// Upstream's order: the flags; else the pod's service account. Beyond upstream: else what `kubectl` would use.
pub(crate) fn load(options: &ConnectOptions) -> Result<Loaded, ConfigError> {
    if let Some(file) = options.kubeconfig.as_deref().filter(|f| !f.as_os_str().is_empty()) {
        let origin = format!("kubeconfig {}", file.display());
        return resolve(read(file)?, options, origin);
    }
    if let Some(master) = options.master.as_deref().filter(|m| !m.is_empty()) {
        let config = Config::new(server_url(master, false).map_err(|p| bad_master(master, p))?);
        return Ok(Loaded { config, origin: format!("--master {master}"), proxy: None });
    }
    if let Some(host) = std::env::var_os("KUBERNETES_SERVICE_HOST").filter(|h| !h.is_empty()) {
        let port = std::env::var_os("KUBERNETES_SERVICE_PORT").unwrap_or_default();
        return in_cluster(&host.to_string_lossy(), &port.to_string_lossy(), Path::new(POD_CREDENTIALS));
    }
    let (config, origin) = read_all(&default_files())?;
    resolve(config, options, origin)
}

/// The in-cluster configuration: the address from the environment, a token and a CA bundle from files that are rotated.
fn in_cluster(host: &str, port: &str, dir: &Path) -> Result<Loaded, ConfigError> {
    let origin = "in-cluster configuration".to_owned();
    let field = |field: &str, problem: String| ConfigError::Field {
        origin: origin.clone(),
        field: field.to_owned(),
        problem,
    };
    let port: u16 = port.parse().map_err(|_| {
        field("KUBERNETES_SERVICE_PORT", format!("{port:?} is not a port; the kubelet sets it in pods"))
    })?;
    let host_part = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let url = server_url(&format!("https://{host_part}:{port}"), true)
        .map_err(|problem| field("KUBERNETES_SERVICE_HOST", format!("{host:?} {problem}")))?;
    let file = |name: &str| {
        let path = dir.join(name);
        let shown = path.display().to_string();
        std::fs::read(&path)
            .map(|bytes| (path, bytes))
            .map_err(|e| field(&shown, format!("cannot be read ({e})")))
    };
    let (token, _) = file("token")?;
    let (ca, pem) = file("ca.crt")?;
    let roots: Vec<Vec<u8>> = CertificateDer::pem_slice_iter(&pem).flatten().map(|c| c.to_vec()).collect();
    if roots.is_empty() {
        return Err(field(&ca.display().to_string(), "holds no PEM certificate".to_owned()));
    }
    let mut config = Config::new(url);
    config.root_cert = Some(roots);
    config.root_cert_file = Some(ca);
    config.auth_info.token_file = Some(token.display().to_string());
    Ok(Loaded { config, origin, proxy: None })
}

fn default_files() -> Vec<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG").map(|list| split_list(&list)).unwrap_or_default();
    if !listed.is_empty() {
        return listed;
    }
    std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config")).into_iter().collect()
}

fn split_list(list: &OsString) -> Vec<PathBuf> {
    std::env::split_paths(list).filter(|p| !p.as_os_str().is_empty()).collect()
}

/// Merges the files that exist; the first file with an entry has precedence.
fn read_all(files: &[PathBuf]) -> Result<(Kubeconfig, String), ConfigError> {
    let mut merged: Option<Kubeconfig> = None;
    let mut names = vec![];
    for file in files.iter().filter(|f| f.exists()) {
        let next = read(file)?;
        names.push(file.display().to_string());
        merged = Some(match merged {
            None => next,
            Some(first) => {
                first.merge(next).map_err(|e| ConfigError::Parse { file: file.clone(), source: e.into() })?
            }
        });
    }
    let merged = merged.ok_or(ConfigError::Nothing)?;
    Ok((merged, format!("kubeconfig {}", names.join(":"))))
}

fn read(file: &Path) -> Result<Kubeconfig, ConfigError> {
    // Read here first: errors of `kube` do not name the file, and it fails on truncated UTF-16.
    let bytes = std::fs::read(file).map_err(|source| ConfigError::Read { file: file.into(), source })?;
    if let Err(e) = std::str::from_utf8(&bytes) {
        return Err(ConfigError::Parse { file: file.into(), source: e.into() });
    }
    Kubeconfig::read_from(file).map_err(|e| ConfigError::Parse { file: file.into(), source: parse_error(e) })
}

/// The innermost error, since `kube`'s texts include their source. Lines of the file are not quoted: they may be secret.
fn parse_error(error: kube::config::KubeconfigError) -> BoxError {
    match error {
        kube::config::KubeconfigError::Parse(inner) => inner.without_snippet().to_string().into(),
        other => other.into(),
    }
}

/// Resolves current-context → context → cluster and user, with checks.
pub(crate) fn resolve(
    mut kubeconfig: Kubeconfig,
    options: &ConnectOptions,
    origin: String,
) -> Result<Loaded, ConfigError> {
    let field =
        |field: String, problem: String| ConfigError::Field { origin: origin.clone(), field, problem };

    let context_name =
        options.context.clone().or_else(|| kubeconfig.current_context.clone()).unwrap_or_default();
    // As in client-go, an unset context is an error even if there is only one.
    if context_name.is_empty() {
        return Err(field("current-context".into(), "is not set; name one of `contexts`".into()));
    }
    let context = kubeconfig.contexts.iter().find(|c| c.name == context_name).and_then(|c| c.context.clone());
    let context = context.ok_or_else(|| {
        let known: Vec<&str> = kubeconfig.contexts.iter().map(|c| c.name.as_str()).collect();
        field(
            "current-context".into(),
            format!("{context_name:?} is not among `contexts` ({})", list(&known)),
        )
    })?;

    let cluster_names: Vec<String> = kubeconfig.clusters.iter().map(|c| c.name.clone()).collect();
    let cluster =
        kubeconfig.clusters.iter_mut().find(|c| c.name == context.cluster).and_then(|c| c.cluster.as_mut());
    let cluster = cluster.ok_or_else(|| {
        let known = list(&cluster_names);
        field(
            format!("contexts[{context_name}].cluster"),
            format!("{:?} is not among `clusters` ({known})", context.cluster),
        )
    })?;
    for unset in [
        &mut cluster.certificate_authority,
        &mut cluster.certificate_authority_data,
        &mut cluster.tls_server_name,
    ] {
        unset.take_if(|text| text.is_empty());
    }
    if let Some(master) = options.master.as_deref().filter(|m| !m.is_empty()) {
        cluster.server = Some(master.to_owned());
    }

    let user_name = context.user.clone().unwrap_or_default();
    let user = kubeconfig.auth_infos.iter().find(|u| u.name == user_name).and_then(|u| u.auth_info.clone());
    if user.is_none() && !user_name.is_empty() {
        let known: Vec<&str> = kubeconfig.auth_infos.iter().map(|u| u.name.as_str()).collect();
        let problem = format!("{user_name:?} is not among `users` ({})", list(&known));
        return Err(field(format!("contexts[{context_name}].user"), problem));
    }
    let user = user.unwrap_or_default();

    let at = format!("clusters[{}].cluster", context.cluster);
    let server = cluster.server.clone().unwrap_or_default();
    if server.is_empty() {
        return Err(field(format!("{at}.server"), "is not set; give the URL of the API server".into()));
    }
    let url = server_url(&server, wants_tls(cluster, &user)).map_err(|problem| {
        match options.master.as_deref() {
            Some(master) if master == server => bad_master(master, problem),
            _ => field(format!("{at}.server"), format!("{server:?} {problem}")),
        }
    })?;
    cluster.server = Some(url.to_string());
    check_tls(cluster, &at).and_then(|()| check_user(&user, &user_name)).map_err(|(f, p)| field(f, p))?;
    let proxy = cluster.proxy_url.clone().filter(|p| !p.is_empty());
    let proxy = proxy
        .map(|p| {
            proxy_url(&p).map_err(|problem| field(format!("{at}.proxy-url"), format!("{p:?} {problem}")))
        })
        .transpose()?;

    let ca_file =
        cluster.certificate_authority.clone().filter(|_| cluster.certificate_authority_data.is_none());

    kubeconfig.current_context = Some(context_name);
    let mut config = Config::try_from(kubeconfig).map_err(|e| load_error(e, &origin, &at, &user_name))?;
    // A CA bundle in a separate file is read again, so that it can be rotated.
    config.root_cert_file = ca_file.map(PathBuf::from);
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        return Err(field(format!("{at}.certificate-authority"), "holds no PEM certificate".into()));
    }
    Ok(Loaded { config, origin, proxy })
}

fn check_tls(cluster: &Cluster, at: &str) -> Result<(), (String, String)> {
    let has_ca =
        given(cluster.certificate_authority.as_ref()) || given(cluster.certificate_authority_data.as_ref());
    if cluster.insecure_skip_tls_verify == Some(true) && has_ca {
        let problem = "contradicts certificate-authority; keep one of them".to_owned();
        return Err((format!("{at}.insecure-skip-tls-verify"), problem));
    }
    Ok(())
}

fn check_user(user: &AuthInfo, name: &str) -> Result<(), (String, String)> {
    let certificate = given(user.client_certificate.as_ref()) || given(user.client_certificate_data.as_ref());
    let key = given(user.client_key.as_ref()) || user.client_key_data.is_some();
    let at = |field: &str| format!("users[{name}].user.{field}");
    match (certificate, key) {
        (true, false) => return Err((at("client-key"), "is not set, though client-certificate is".into())),
        (false, true) => return Err((at("client-certificate"), "is not set, though client-key is".into())),
        _ => {}
    }
    match &user.exec {
        Some(exec) if exec.command.as_deref().unwrap_or_default().is_empty() => {
            Err((at("exec.command"), "is not set; name the credential plugin to run".into()))
        }
        _ => Ok(()),
    }
}

fn wants_tls(cluster: &Cluster, user: &AuthInfo) -> bool {
    given(cluster.certificate_authority.as_ref())
        || given(cluster.certificate_authority_data.as_ref())
        || given(user.client_certificate.as_ref())
        || given(user.client_certificate_data.as_ref())
        || cluster.insecure_skip_tls_verify == Some(true)
}

fn given(field: Option<&String>) -> bool {
    field.is_some_and(|f| !f.is_empty())
}

/// Upstream: client-go rest/url_utils.go: an address without a scheme is https only if TLS is configured.
fn server_url(text: &str, tls: bool) -> Result<http::Uri, String> {
    let scheme = if tls { "https" } else { "http" };
    let full = if text.contains("://") { text.to_owned() } else { format!("{scheme}://{text}") };
    let url: http::Uri = full.parse().map_err(|e| format!("is not a URL ({e}); give https://host:port"))?;
    match url.scheme_str() {
        Some("http" | "https") => {}
        other => {
            return Err(format!("has the scheme {:?}; give https://host:port", other.unwrap_or_default()));
        }
    }
    if url.host().is_none_or(str::is_empty) {
        return Err("names no host; give https://host:port".to_owned());
    }
    // `http` accepts any text as a port.
    let authority = url.authority().map_or("", |a| a.as_str());
    let after_host =
        authority.rsplit('@').next().and_then(|a| a.strip_prefix(url.host().unwrap_or_default()));
    if after_host.is_some_and(|rest| !rest.is_empty()) && url.port_u16().is_none() {
        return Err("has a port that is not a number up to 65535; give https://host:port".to_owned());
    }
    if url.query().is_some() {
        return Err("has a query; give https://host:port".to_owned());
    }
    Ok(url)
}

pub(crate) fn proxy_url(text: &str) -> Result<http::Uri, String> {
    let url = text.parse::<http::Uri>().map_err(|e| format!("is not a URL ({e}); give http://host:port"))?;
    match url.scheme_str() {
        Some("http") if url.host().is_some() => Ok(url),
        _ => Err("is not supported; give http://host:port of a proxy that understands CONNECT".to_owned()),
    }
}

fn bad_master(value: &str, problem: String) -> ConfigError {
    ConfigError::Master { value: value.to_owned(), problem }
}

fn load_error(error: kube::config::KubeconfigError, origin: &str, cluster: &str, user: &str) -> ConfigError {
    use kube::config::{KubeconfigError as K, LoadDataError};
    let data = |e: LoadDataError| match e {
        LoadDataError::DecodeBase64(e) => format!("is not valid base64 ({e})"),
        LoadDataError::ReadFile(e, file) => format!("{} cannot be read ({e})", file.display()),
        LoadDataError::NoBase64DataOrFile => "is not set".to_owned(),
    };
    let (field, problem) = match error {
        K::LoadCertificateAuthority(e) => (format!("{cluster}.certificate-authority"), data(e)),
        K::ParseCertificates(e) => (format!("{cluster}.certificate-authority"), format!("is not PEM ({e})")),
        K::LoadClientCertificate(e) => (format!("users[{user}].user.client-certificate"), data(e)),
        K::LoadClientKey(e) => (format!("users[{user}].user.client-key"), data(e)),
        K::ParseProxyUrl(e) => ("HTTPS_PROXY".to_owned(), format!("is not a URL ({e})")),
        other => return ConfigError::Credentials { origin: origin.to_owned(), source: other.into() },
    };
    ConfigError::Field { origin: origin.to_owned(), field, problem }
}

fn list<S: AsRef<str>>(names: &[S]) -> String {
    if names.is_empty() {
        return "there are none".to_owned();
    }
    names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "tests/kubeconfig.rs"]
mod tests;
