//! The credentials of the main connection: bearer tokens (fixed, from files that rotate, from plugins), client certificates,
//! impersonation. `kube` parses the configuration and runs plugins; this module renews credentials.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::HeaderValue;
use http::header::{AUTHORIZATION, HeaderMap};
use http_body_util::Empty;
use kube::client::middleware::AuthLayer;
use kube::client::{AuthError, ConfigExt};
use kube::config::{AuthInfo, Config, ExecInteractiveMode};
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn};

use crate::transport::{BoxError, TransportError};

/// Token files are read again after this long, as in client-go.
const TOKEN_FILE_AGE: Duration = Duration::from_secs(60);

/// Client certificates are read again after this long, as in client-go.
const CERTIFICATE_AGE: Duration = Duration::from_secs(5 * 60);

/// The longest part of a plugin's output that is quoted.
const MAX_QUOTED: usize = 300;

/// The least time between two renewals.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10);

/// The credentials of one identity, and the TLS settings that go with them.
pub(crate) struct Credentials {
    config: Config,
    /// Whether reading files or running plugins again can return other credentials.
    refreshable: bool,
    certificate: Option<CertificateFiles>,
    current: Mutex<Arc<Snapshot>>,
    /// When they were last renewed. Locked during a renewal, so that a hundred 401s run one plugin.
    renewed: tokio::sync::Mutex<Option<Instant>>,
}

/// One state of the credentials. Connections know with which one they were opened.
pub(crate) struct Snapshot {
    pub(crate) generation: u64,
    pub(crate) tls: Arc<ClientConfig>,
    authorization: Authorization,
    extra: HeaderMap,
}

enum Authorization {
    None,
    Fixed(HeaderValue),
    File(TokenFile),
    /// Called before each request; it renews its token. The text is its name.
    Plugin(AuthLayer, Arc<str>),
}

impl Credentials {
    /// Reads files and runs the plugin, if there is one.
    pub(crate) async fn new(mut config: Config) -> Result<Self, BoxError> {
        if let Some(exec) = &mut config.auth_info.exec
            && exec.interactive_mode != Some(ExecInteractiveMode::Always)
            && !std::io::stdin().is_terminal()
        {
            // A plugin that shares our stderr would block if the log is not read.
            exec.interactive_mode = Some(ExecInteractiveMode::Never);
        }
        let auth = &config.auth_info;
        let refreshable = auth.token_file.is_some()
            || auth.exec.is_some()
            || auth.auth_provider.is_some()
            || auth.client_certificate.is_some();
        let certificate = CertificateFiles::of(auth);
        let first = Snapshot::build(config.clone(), 0).await?;
        Ok(Self {
            config,
            refreshable,
            certificate,
            current: Mutex::new(Arc::new(first)),
            renewed: tokio::sync::Mutex::new(None),
        })
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.lock().clone()
    }

    /// The credentials for a request. A client certificate that was replaced is used within five minutes, not only when the old one
    /// has expired.
    pub(crate) async fn up_to_date(&self) -> Arc<Snapshot> {
        if self.certificate.as_ref().is_some_and(CertificateFiles::is_due) {
            let _renewing = self.renewed.lock().await;
            if self.is_certificate_replaced().await && self.build(self.snapshot().generation + 1).await {
                tracing::info!("the client certificate was replaced; new connections use it");
            }
        }
        self.snapshot()
    }

    /// Whether the files of the client certificate have changed since this was last asked.
    async fn is_certificate_replaced(&self) -> bool {
        let Some(files) = self.certificate.clone() else { return false };
        // If the thread panics, a 401 will still renew the credentials.
        tokio::task::spawn_blocking(move || files.have_changed()).await.unwrap_or_default()
    }

    /// Renews the credentials after a 401 with `generation`. False if that cannot help.
    pub(crate) async fn renew(&self, generation: u64) -> bool {
        if !self.refreshable {
            return false;
        }
        let mut renewed = self.renewed.lock().await;
        if self.snapshot().generation != generation {
            return true; // someone else has just done it
        }
        // If new credentials are refused, too, faster renewals do not help.
        if renewed.is_some_and(|at| at.elapsed() < RENEWAL_PAUSE) {
            return false;
        }
        *renewed = Some(Instant::now());
        self.is_certificate_replaced().await;
        self.build(generation + 1).await
    }

    /// Reads the files and runs the plugin again. False if that fails.
    async fn build(&self, generation: u64) -> bool {
        match Snapshot::build(self.config.clone(), generation).await {
            Ok(fresh) => {
                *self.current.lock() = Arc::new(fresh);
                true
            }
            Err(error) => {
                tracing::warn!(error = &*error as &dyn std::error::Error, "credentials could not be renewed");
                false
            }
        }
    }
}

/// The files of a client certificate and its key, which another program replaces.
#[derive(Clone)]
struct CertificateFiles {
    paths: Arc<[PathBuf]>,
    /// What they contained, and when they were last read.
    read: Arc<Mutex<(Vec<Option<Vec<u8>>>, Instant)>>,
}

impl CertificateFiles {
    fn of(auth: &AuthInfo) -> Option<Self> {
        let paths = [auth.client_certificate.as_ref()?, auth.client_key.as_ref()?];
        let paths: Arc<[PathBuf]> = paths.into_iter().map(PathBuf::from).collect();
        let read = Arc::new(Mutex::new((contents(&paths), Instant::now())));
        Some(Self { paths, read })
    }

    /// Whether they are to be read again. Only one caller is told so.
    fn is_due(&self) -> bool {
        let (_, at) = &mut *self.read.lock();
        let is_due = at.elapsed() >= CERTIFICATE_AGE;
        if is_due {
            *at = Instant::now();
        }
        is_due
    }

    fn have_changed(&self) -> bool {
        let now = contents(&self.paths);
        let (before, _) = &mut *self.read.lock();
        std::mem::replace(before, now.clone()) != now
    }
}

fn contents(files: &[PathBuf]) -> Vec<Option<Vec<u8>>> {
    files.iter().map(|file| std::fs::read(file).ok()).collect()
}

/// A client certificate that TLS cannot use.
#[derive(Debug, thiserror::Error)]
#[error("the client certificate with {key} cannot be used; the key must be {}", flyball_tls::KEYS)]
struct UnusableKey {
    key: String,
    #[source]
    source: kube::Error,
}

/// Lists the supported keys (docs/decisions/keys.md), if the key may be the problem.
fn about_key(auth: &AuthInfo, error: kube::Error) -> BoxError {
    let key = match (&auth.client_key, &auth.client_key_data) {
        (Some(file), _) => format!("the client-key {file}"),
        (None, Some(_)) => "its client-key-data".to_owned(),
        (None, None) => return error.into(),
    };
    UnusableKey { key, source: error }.into()
}

impl Snapshot {
    async fn build(config: Config, generation: u64) -> Result<Self, BoxError> {
        // `kube` blocks the thread while a plugin runs.
        tokio::task::spawn_blocking(move || {
            let plugin = plugin_name(&config.auth_info);
            Self::build_blocking(config, generation).map_err(|error| without_output(&plugin, error))
        })
        .await?
    }

    fn build_blocking(mut config: Config, generation: u64) -> Result<Self, BoxError> {
        flyball_tls::install();
        let mut tls = config.rustls_client_config().map_err(|error| about_key(&config.auth_info, error))?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];

        // `kube` keeps the newline at the end of a token file, which is not allowed in a header.
        let token_file = config.auth_info.token_file.take();
        let asks_plugin = config.auth_info.exec.is_some() || config.auth_info.auth_provider.is_some();
        let authorization = match (token_file, config.auth_layer()?) {
            (Some(file), _) => Authorization::File(TokenFile::open(file.into())?),
            (None, Some(layer)) if asks_plugin => {
                Authorization::Plugin(layer, plugin_name(&config.auth_info).into())
            }
            (None, Some(layer)) => {
                match futures::executor::block_on(headers_from(&layer))?.remove(AUTHORIZATION) {
                    Some(value) => Authorization::Fixed(value),
                    None => Authorization::None,
                }
            }
            (None, None) => Authorization::None,
        };
        let extra = futures::executor::block_on(headers_from(&config.extra_headers_layer()?))?;
        Ok(Self { generation, tls: Arc::new(tls), authorization, extra })
    }

    /// Adds the credentials.
    pub(crate) async fn sign(&self, headers: &mut HeaderMap) -> Result<(), TransportError> {
        let problem = |e: BoxError| TransportError::Credentials(chain(&*e));
        let value = match &self.authorization {
            Authorization::None => None,
            Authorization::Fixed(value) => Some(value.clone()),
            Authorization::File(file) => Some(file.header().map_err(problem)?),
            Authorization::Plugin(layer, name) => headers_from(layer)
                .await
                .map_err(|error| problem(without_output(name, error)))?
                .remove(AUTHORIZATION),
        };
        if let Some(value) = value {
            headers.insert(AUTHORIZATION, value);
        }
        for (name, value) in &self.extra {
            headers.append(name, value.clone());
        }
        Ok(())
    }
}

/// The name of a plugin, for messages. Its arguments and variables may be secret.
fn plugin_name(auth: &AuthInfo) -> String {
    let command = auth.exec.as_ref().and_then(|exec| exec.command.clone());
    let provider = auth.auth_provider.as_ref();
    let command = command.or_else(|| provider.and_then(|p| p.config.get("cmd-path").cloned()));
    command.or_else(|| provider.map(|p| p.name.clone())).unwrap_or_default()
}

/// The output of a plugin contains credentials, and `kube`'s errors quote it. This error has only its exit status and its
/// stderr.
fn without_output(plugin: &str, error: BoxError) -> BoxError {
    let mut causes =
        std::iter::successors(Some(&*error as &(dyn std::error::Error + 'static)), |e| e.source());
    let Some(cause) = causes.find_map(|cause| cause.downcast_ref::<AuthError>()) else { return error };
    let problem = match cause {
        AuthError::AuthExecStart(error) => format!("it cannot be started: {error}"),
        AuthError::AuthExecRun { out, .. } => {
            let said = String::from_utf8_lossy(&out.stderr);
            let said: String = said.trim().chars().take(MAX_QUOTED).collect();
            match said.is_empty() {
                true => format!("it ended with {}", out.status),
                false => format!("it ended with {}: {said:?}", out.status),
            }
        }
        AuthError::AuthExecParse(_) => "its output is not an ExecCredential".to_owned(),
        AuthError::ParseTokenKey(_) => "its output is not JSON".to_owned(),
        AuthError::MalformedTokenExpirationDate(_) => {
            "the time at which its token expires is not in RFC 3339's form".to_owned()
        }
        AuthError::InvalidBearerToken(_) => "its token does not fit into a header".to_owned(),
        AuthError::ExecPluginFailed => "its output has no status".to_owned(),
        AuthError::UnrefreshableTokenResponse => "it gave another kind of credentials than before".to_owned(),
        AuthError::AuthExec(_) if plugin.is_empty() => return error,
        AuthError::AuthExec(_) => "its output does not hold what the kubeconfig names".to_owned(),
        _ => return error,
    };
    format!("credential plugin {plugin:?}: {problem}").into()
}

/// `kube` has its authentication only as a layer; the service under it returns the headers.
fn headers_from<L, S>(layer: &L) -> BoxFuture<'static, Result<HeaderMap, BoxError>>
where
    L: Layer<Echo, Service = S>,
    S: tower::Service<http::Request<Empty<Bytes>>, Response = http::Response<()>, Error = BoxError>
        + Send
        + 'static,
    S::Future: Send,
{
    let service = layer.layer(service_fn(echo as fn(_) -> _));
    Box::pin(async move {
        let response = service.oneshot(http::Request::new(Empty::new())).await?;
        Ok(response.into_parts().0.headers)
    })
}

type Echoed = futures::future::Ready<Result<http::Response<()>, BoxError>>;
type Echo = tower::util::ServiceFn<fn(http::Request<Empty<Bytes>>) -> Echoed>;

fn echo(request: http::Request<Empty<Bytes>>) -> Echoed {
    let mut response = http::Response::new(());
    *response.headers_mut() = request.into_parts().0.headers;
    futures::future::ready(Ok(response))
}

/// A token in a file, which the kubelet or another program replaces.
struct TokenFile {
    path: PathBuf,
    read: Mutex<(HeaderValue, Instant)>,
}

impl TokenFile {
    fn open(path: PathBuf) -> Result<Self, BoxError> {
        let header = Self::load(&path)?;
        Ok(Self { path, read: Mutex::new((header, Instant::now())) })
    }

    fn load(path: &PathBuf) -> Result<HeaderValue, BoxError> {
        let text =
            std::fs::read_to_string(path).map_err(|e| format!("token file {}: {e}", path.display()))?;
        let token = text.trim();
        if token.is_empty() {
            return Err(format!("token file {} is empty", path.display()).into());
        }
        bearer(token).map_err(|_| format!("token file {} holds no token", path.display()).into())
    }

    /// Upstream: kubernetes/kubernetes#68164: if the file is gone, its last token is used.
    fn header(&self) -> Result<HeaderValue, BoxError> {
        let mut read = self.read.lock();
        if read.1.elapsed() >= TOKEN_FILE_AGE {
            match Self::load(&self.path) {
                Ok(header) => read.0 = header,
                Err(error) => {
                    tracing::warn!(
                        error = &*error as &dyn std::error::Error,
                        "the token file cannot be read; using the last token"
                    )
                }
            }
            read.1 = Instant::now();
        }
        Ok(read.0.clone())
    }
}

/// `Authorization: Bearer …`, hidden from logs.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// An error and its causes in one line, without repetition.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn authorization(snapshot: &Snapshot) -> String {
        let mut headers = HeaderMap::new();
        futures::executor::block_on(snapshot.sign(&mut headers)).unwrap();
        headers.get(AUTHORIZATION).map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    fn config() -> Config {
        Config::new("https://127.0.0.1:1".parse().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_file_is_read_again_each_minute_and_may_disappear() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "first").unwrap();
        let mut config = config();
        config.auth_info.token_file = Some(file.path().to_str().unwrap().to_owned());
        let credentials = Credentials::new(config).await.unwrap();
        assert_eq!(authorization(&credentials.snapshot()), "Bearer first");

        std::fs::write(file.path(), "second\n").unwrap();
        assert_eq!(authorization(&credentials.snapshot()), "Bearer first");
        tokio::time::advance(TOKEN_FILE_AGE).await;
        assert_eq!(authorization(&credentials.snapshot()), "Bearer second");

        file.close().unwrap();
        tokio::time::advance(TOKEN_FILE_AGE).await;
        assert_eq!(authorization(&credentials.snapshot()), "Bearer second");
    }

    #[tokio::test]
    async fn a_rejected_token_file_is_read_again_at_once_but_a_fixed_token_is_not() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "old").unwrap();
        let mut config = config();
        config.auth_info.token_file = Some(file.path().to_str().unwrap().to_owned());
        let credentials = Credentials::new(config).await.unwrap();
        std::fs::write(file.path(), "new").unwrap();
        assert!(credentials.renew(0).await);
        assert!(credentials.renew(0).await, "a second 401 under the old token renews nothing");
        assert!(!credentials.renew(1).await, "a 401 right after a renewal is believed");
        assert_eq!(credentials.snapshot().generation, 1);
        assert_eq!(authorization(&credentials.snapshot()), "Bearer new");

        let mut config = self::config();
        config.auth_info.token = Some("fixed".to_owned().into());
        let credentials = Credentials::new(config).await.unwrap();
        assert_eq!(authorization(&credentials.snapshot()), "Bearer fixed");
        assert!(!credentials.renew(0).await);
    }

    /// A client certificate in files.
    struct Certificate(tempfile::TempDir);

    impl Certificate {
        fn file(&self, name: &str) -> String {
            self.0.path().join(name).to_str().unwrap().to_owned()
        }

        fn issue(&self) -> rustls::pki_types::CertificateDer<'static> {
            let issued = rcgen::generate_simple_self_signed(["robot".to_owned()]).unwrap();
            std::fs::write(self.file("tls.crt"), issued.cert.pem()).unwrap();
            std::fs::write(self.file("tls.key"), issued.signing_key.serialize_pem()).unwrap();
            issued.cert.der().clone()
        }

        async fn credentials(&self) -> Credentials {
            let mut config = config();
            config.auth_info.client_certificate = Some(self.file("tls.crt"));
            config.auth_info.client_key = Some(self.file("tls.key"));
            Credentials::new(config).await.unwrap()
        }
    }

    fn shown(snapshot: &Snapshot) -> rustls::pki_types::CertificateDer<'static> {
        let resolver = &snapshot.tls.client_auth_cert_resolver;
        resolver.resolve(&[], &[rustls::SignatureScheme::ECDSA_NISTP256_SHA256]).unwrap().cert[0].clone()
    }

    #[tokio::test]
    async fn an_expired_client_certificate_is_read_again_after_the_servers_401() {
        let certificate = Certificate(tempfile::tempdir().unwrap());
        let expired = certificate.issue();
        let credentials = certificate.credentials().await;
        assert_eq!(shown(&credentials.snapshot()), expired);
        let fresh = certificate.issue();
        assert!(credentials.renew(0).await);
        assert_eq!(shown(&credentials.snapshot()), fresh);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_certificate_is_read_again_every_five_minutes() {
        let certificate = Certificate(tempfile::tempdir().unwrap());
        let first = certificate.issue();
        let credentials = certificate.credentials().await;
        tokio::time::advance(CERTIFICATE_AGE).await;
        assert_eq!(credentials.up_to_date().await.generation, 0, "it is the same");
        let second = certificate.issue();
        assert_eq!(shown(&*credentials.up_to_date().await), first, "it is too early to look");
        tokio::time::advance(CERTIFICATE_AGE).await;
        assert_eq!(shown(&*credentials.up_to_date().await), second);

        std::fs::write(certificate.file("tls.crt"), "half of it").unwrap();
        tokio::time::advance(CERTIFICATE_AGE).await;
        assert_eq!(shown(&*credentials.up_to_date().await), second, "a broken one is not used");
        let third = certificate.issue();
        assert!(credentials.renew(1).await);
        tokio::time::advance(CERTIFICATE_AGE).await;
        let last = credentials.up_to_date().await;
        assert_eq!(
            (shown(&last), last.generation),
            (third, 2),
            "it was renewed after the 401, and not once more"
        );
    }

    #[tokio::test]
    async fn impersonation_is_sent_in_headers() {
        let mut config = config();
        config.auth_info.impersonate = Some("jane".to_owned());
        let credentials = Credentials::new(config).await.unwrap();
        let mut headers = HeaderMap::new();
        credentials.snapshot().sign(&mut headers).await.unwrap();
        assert_eq!(headers.get("impersonate-user").unwrap(), "jane");
        assert!(headers.get(AUTHORIZATION).is_none());
    }

    #[tokio::test]
    async fn a_plugin_is_asked_and_asked_again_after_a_401() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("plugin");
        let count = dir.path().join("count");
        let body = format!(
            "#!/bin/sh\necho x >> {0}\nn=$(wc -l < {0} | tr -d ' ')\n\
             echo '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"t'$n'\"}}}}'\n",
            count.display()
        );
        std::fs::write(&script, body).unwrap();
        let mut config = config();
        config.auth_info.exec = Some(kube::config::ExecConfig {
            api_version: Some("client.authentication.k8s.io/v1".to_owned()),
            command: Some("sh".to_owned()),
            args: Some(vec![script.to_str().unwrap().to_owned()]),
            interactive_mode: Some(kube::config::ExecInteractiveMode::Never),
            ..Default::default()
        });
        let credentials = Credentials::new(config).await.unwrap();
        let first = authorization(&credentials.snapshot());
        assert!(first.starts_with("Bearer t"), "{first}");
        assert!(credentials.renew(0).await);
        assert_ne!(authorization(&credentials.snapshot()), first);
    }

    /// All texts of an error.
    fn words(error: &BoxError) -> String {
        format!("{} {error:?} {error:#?}", chain(&**error))
    }

    #[tokio::test]
    async fn nothing_that_a_plugin_prints_is_repeated() {
        let credential = |status: &str| {
            format!(
                r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}"#
            )
        };
        #[rustfmt::skip]
        let table = [
            // case                    stdout                                                        exit  error
            ("fails",                  credential(r#"{"token":"s3cret"}"#),                          1, "it ended with exit status: 1: \"no luck\""),
            ("not JSON",               "s3cret: [".to_owned(),                                       0, "its output is not an ExecCredential"),
            ("another type",           credential(r#""s3cret""#),                                    0, "its output is not an ExecCredential"),
            ("a token of two lines",   credential(r#"{"token":"s3cret\\nx","expirationTimestamp":"2999-01-01T00:00:00Z"}"#), 0, "its token does not fit into a header"),
            ("a time that is none",    credential(r#"{"token":"x","expirationTimestamp":"s3cret"}"#), 0, "the time at which its token expires is not in RFC 3339's form"),
            ("nothing",                String::new(),                                                0, "its output has no status"),
        ];
        for (case, stdout, exit, want) in table {
            let script = format!("echo no luck >&2; echo '{stdout}'; exit {exit}");
            let mut config = config();
            config.auth_info.exec = Some(kube::config::ExecConfig {
                api_version: Some("client.authentication.k8s.io/v1".to_owned()),
                command: Some("sh".to_owned()),
                args: Some(vec!["-c".to_owned(), script]),
                ..Default::default()
            });
            let said = match Credentials::new(config).await {
                Err(error) => words(&error),
                Ok(credentials) => {
                    let error = credentials.snapshot().sign(&mut HeaderMap::new()).await.unwrap_err();
                    format!("{error} {error:?}")
                }
            };
            assert!(said.contains(&format!("credential plugin \"sh\": {want}")), "{case}: {said}");
            assert!(!said.contains("s3cret"), "{case}: {said}");
        }
    }

    #[tokio::test]
    async fn a_plugin_that_is_not_there_is_named() {
        let mut config = config();
        let command = Some("no-such-plugin".to_owned());
        config.auth_info.exec = Some(kube::config::ExecConfig { command, ..Default::default() });
        let said = chain(&*Credentials::new(config).await.err().unwrap());
        assert!(said.contains("\"no-such-plugin\": it cannot be started: No such file"), "{said}");
    }

    #[tokio::test]
    async fn credentials_that_cannot_be_read_are_named() {
        let mut config = config();
        config.auth_info.token_file = Some("no/such/token".to_owned());
        let error = Credentials::new(config).await.err().unwrap();
        assert!(chain(&*error).contains("no/such/token"), "{error}");
    }
}
