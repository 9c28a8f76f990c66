//! The address of the API server and the credentials: kubeconfig files, the in-cluster environment, `--master`. Users have to
//! fix what is wrong here, so each error names the file and the field.

mod file;
mod user;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

pub(crate) use self::file::Kubeconfig;
use self::file::{AuthInfo, Cluster, Named};
use self::user::{cluster_for_plugins, identity};
use crate::config::{Config, Trust};
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
    let roots = certificates(&pem).map_err(|problem| field(&ca.display().to_string(), problem))?;
    let mut config = Config::new(url);
    config.trust = Trust::File(ca, roots);
    config.user.token_file = Some(token);
    Ok(Loaded { config, origin, proxy: None })
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err("holds no PEM certificate".to_owned()),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("is not PEM ({error})")),
    }
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
        match &mut merged {
            None => merged = Some(next),
            Some(first) => first.merge(next),
        }
    }
    let merged = merged.ok_or(ConfigError::Nothing)?;
    Ok((merged, format!("kubeconfig {}", names.join(":"))))
}

fn read(file: &Path) -> Result<Kubeconfig, ConfigError> {
    let invalid = |source: BoxError| ConfigError::Parse { file: file.into(), source };
    let bytes = std::fs::read(file).map_err(|source| ConfigError::Read { file: file.into(), source })?;
    let text = std::str::from_utf8(&bytes).map_err(|e| invalid(e.into()))?;
    Kubeconfig::parse(text, file.parent().unwrap_or(Path::new(""))).map_err(|e| invalid(e.into()))
}

/// Resolves current-context → context → cluster and user, with checks.
pub(crate) fn resolve(
    kubeconfig: Kubeconfig,
    options: &ConnectOptions,
    origin: String,
) -> Result<Loaded, ConfigError> {
    let field = |(field, problem): Problem| ConfigError::Field { origin: origin.clone(), field, problem };

    let context_name =
        options.context.clone().or_else(|| kubeconfig.current_context.clone()).unwrap_or_default();
    // As in client-go, an unset context is an error even if there is only one.
    if context_name.is_empty() {
        return Err(field(("current-context".into(), "is not set; name one of `contexts`".into())));
    }
    let context = find(&kubeconfig.contexts, &context_name).ok_or_else(|| {
        let known = names(&kubeconfig.contexts);
        field(("current-context".into(), format!("{context_name:?} is not among `contexts` ({known})")))
    })?;
    let cluster = find(&kubeconfig.clusters, &context.cluster).ok_or_else(|| {
        let known = names(&kubeconfig.clusters);
        let problem = format!("{:?} is not among `clusters` ({known})", context.cluster);
        field((format!("contexts[{context_name}].cluster"), problem))
    })?;
    let nobody = AuthInfo::default();
    let user = match find(&kubeconfig.users, &context.user) {
        Some(user) => user,
        None if context.user.is_empty() => &nobody,
        None => {
            let problem = format!("{:?} is not among `users` ({})", context.user, names(&kubeconfig.users));
            return Err(field((format!("contexts[{context_name}].user"), problem)));
        }
    };

    let at = format!("clusters[{}].cluster", context.cluster);
    let master = options.master.as_deref().filter(|master| !master.is_empty());
    let server = master.or(cluster.server.as_deref()).ok_or_else(|| {
        field((format!("{at}.server"), "is not set; give the URL of the API server".into()))
    })?;
    let url = server_url(server, wants_tls(cluster, user)).map_err(|problem| match master {
        Some(master) => bad_master(master, problem),
        None => field((format!("{at}.server"), format!("{:?} {problem}", without_user(server)))),
    })?;
    let proxy = cluster.proxy_url.as_deref().map(|proxy| {
        proxy_url(proxy).map_err(|problem| {
            field((format!("{at}.proxy-url"), format!("{:?} {problem}", without_user(proxy))))
        })
    });
    let trust = trust(cluster, &at).map_err(field)?;
    let mut identity = identity(user, &format!("users[{}].user", context.user)).map_err(field)?;
    if let (Some(exec), true) =
        (&mut identity.exec, user.exec.as_ref().is_some_and(|e| e.provide_cluster_info))
    {
        exec.cluster = Some(cluster_for_plugins(cluster, &url, &trust));
    }
    let tls_server_name = cluster.tls_server_name.clone();
    let inline_authority = inline_authority(cluster);
    Ok(Loaded {
        config: Config { server: url, tls_server_name, trust, inline_authority, user: identity },
        origin,
        proxy: proxy.transpose()?,
    })
}

/// A field, and what is wrong with it.
type Problem = (String, String);

fn find<'a, T>(entries: &'a [Named<T>], name: &str) -> Option<&'a T> {
    entries.iter().find(|entry| entry.name == name).and_then(|entry| entry.value.as_ref())
}

fn names<T>(entries: &[Named<T>]) -> String {
    if entries.is_empty() {
        return "there are none".to_owned();
    }
    entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn trust(cluster: &Cluster, at: &str) -> Result<Trust, Problem> {
    let given = cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
    if cluster.insecure_skip_tls_verify {
        if given {
            let problem = "contradicts certificate-authority; keep one of them".to_owned();
            return Err((format!("{at}.insecure-skip-tls-verify"), problem));
        }
        return Ok(Trust::Anyone);
    }
    let wrong = |problem| (format!("{at}.certificate-authority"), problem);
    match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        (Some(data), _) => decoded(data).and_then(|pem| certificates(&pem)).map(Trust::Roots).map_err(wrong),
        (None, Some(file)) => {
            let pem = std::fs::read(file).map_err(|e| wrong(unreadable(file, &e)))?;
            certificates(&pem).map(|roots| Trust::File(file.clone(), roots)).map_err(wrong)
        }
        (None, None) => Ok(Trust::System),
    }
}

/// Upstream: client-go keeps these bytes as `CAData`. It has none if the kubeconfig names a file, or in a pod.
fn inline_authority(cluster: &Cluster) -> Option<String> {
    let pem = decoded(cluster.certificate_authority_data.as_deref()?).ok()?;
    Some(String::from_utf8_lossy(&pem).into_owned())
}

fn decoded(data: &str) -> Result<Vec<u8>, String> {
    // YAML may have folded a long value.
    let data: String = data.split_whitespace().collect();
    STANDARD.decode(data).map_err(|e| format!("is not valid base64 ({e})"))
}

fn unreadable(file: &Path, error: &std::io::Error) -> String {
    format!("{} cannot be read ({error})", file.display())
}

fn wants_tls(cluster: &Cluster, user: &AuthInfo) -> bool {
    cluster.certificate_authority.is_some()
        || cluster.certificate_authority_data.is_some()
        || user.client_certificate.is_some()
        || user.client_certificate_data.is_some()
        || cluster.insecure_skip_tls_verify
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
    ConfigError::Master { value: without_user(value), problem }
}

/// A URL, or what was meant as one, without the user and the password that it may have.
fn without_user(url: &str) -> String {
    let Some((user, rest)) = url.rsplit_once('@') else { return url.to_owned() };
    let scheme = user.split_once("://").map(|(scheme, _)| format!("{scheme}://"));
    format!("{}{rest}", scheme.unwrap_or_default())
}

#[cfg(test)]
#[path = "../tests/kubeconfig.rs"]
mod tests;
