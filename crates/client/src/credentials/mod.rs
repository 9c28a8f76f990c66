//! The credentials of the main connection: client certificates, bearer tokens (fixed, from files that rotate, from plugins),
//! passwords, impersonation; and their renewal.

mod exec;
mod tls;
mod token_file;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use http::{HeaderValue, uri::Scheme};
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::time::Instant;

use self::tls::Identity;
use self::token_file::TokenFile;
use crate::config::{CertificateAndKey, Config, Impersonate, Pem, Trust, User};
use crate::transport::{BoxError, TransportError};

/// Client certificates in files are read again after this long, as in client-go.
const CERTIFICATE_AGE: Duration = Duration::from_secs(5 * 60);

/// The least time between two renewals.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10);

/// The credentials of one identity, and the TLS settings that go with them.
pub(crate) struct Credentials {
    config: Arc<Config>,
    current: Arc<Mutex<Arc<Snapshot>>>,
    /// Locked during a renewal, so that a hundred 401s run one plugin.
    renewal: Arc<tokio::sync::Mutex<Renewal>>,
    /// When the files of the client certificate were last read.
    certificate_read: Mutex<Instant>,
}

#[derive(Default)]
struct Renewal {
    last: Option<Instant>,
    /// Why the last one failed.
    error: Option<String>,
}

/// One state of the credentials.
pub(crate) struct Snapshot {
    /// Grows with each renewal.
    generation: u64,
    /// Grows with each change of the certificate that we show: connections that were opened with another one are not used.
    pub(crate) tls_generation: u64,
    pub(crate) tls: Arc<ClientConfig>,
    identity: Option<Identity>,
    authorization: Authorization,
    impersonation: HeaderMap,
    expires: Option<Instant>,
}

enum Authorization {
    None,
    Fixed(HeaderValue),
    File(TokenFile),
}

impl Credentials {
    /// Reads files and runs the plugin, if there is one.
    pub(crate) async fn new(config: Config) -> Result<Self, BoxError> {
        let first = Snapshot::build(&config, None).await?;
        Ok(Self {
            config: Arc::new(config),
            current: Arc::new(Mutex::new(Arc::new(first))),
            renewal: Arc::default(),
            certificate_read: Mutex::new(Instant::now()),
        })
    }

    /// The credentials for a request. They are renewed if they have expired. A client certificate that was replaced is used within
    /// five minutes, not only when the old one has expired.
    pub(crate) async fn current(&self) -> Result<Arc<Snapshot>, TransportError> {
        let snapshot = self.snapshot();
        // Boxed, so that the future of the many requests that need no renewal is small.
        if snapshot.expires.is_some_and(|at| at <= Instant::now()) {
            Box::pin(self.renew(&snapshot)).await.map_err(TransportError::Credentials)?;
        } else if self.is_certificate_due() {
            Box::pin(self.read_certificate()).await;
        } else {
            return Ok(snapshot);
        }
        Ok(self.snapshot())
    }

    /// Whether the files of the client certificate are to be read again. Only one caller is told so.
    fn is_certificate_due(&self) -> bool {
        if !has_certificate_files(&self.config.user) || self.config.user.exec.is_some() {
            return false;
        }
        let mut read = self.certificate_read.lock();
        let is_due = read.elapsed() >= CERTIFICATE_AGE;
        if is_due {
            *read = Instant::now();
        }
        is_due
    }

    async fn read_certificate(&self) {
        let _renewal = self.renewal.lock().await;
        let old = self.snapshot();
        let identity = self.config.user.certificate.as_ref().map(read).transpose();
        if identity.as_ref().is_ok_and(|identity| *identity == old.identity) {
            return;
        }
        match Snapshot::build(&self.config, Some(&old)).await {
            Ok(fresh) => {
                *self.current.lock() = Arc::new(fresh);
                tracing::info!("the client certificate was replaced; new connections use it");
            }
            Err(error) => tracing::warn!(
                error = &*error as &dyn std::error::Error,
                "the client certificate cannot be read; using the last one"
            ),
        }
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.current.lock().clone()
    }

    /// Renews the credentials after a 401. False if that cannot help.
    pub(crate) async fn refused(&self, snapshot: &Snapshot) -> bool {
        if !can_change(&self.config.user) {
            return false;
        }
        match self.renew(snapshot).await {
            Ok(is_new) => is_new,
            Err(error) => {
                tracing::warn!(%error, "credentials could not be renewed");
                false
            }
        }
    }

    /// Whether there are newer credentials than these. Nothing is renewed more often than every ten seconds: if new credentials
    /// are refused, too, faster renewals do not help.
    async fn renew(&self, old: &Snapshot) -> Result<bool, String> {
        let mut renewal = self.renewal.clone().lock_owned().await;
        let current = self.snapshot();
        if current.generation != old.generation {
            return Ok(true);
        }
        if renewal.last.is_some_and(|at| at.elapsed() < RENEWAL_PAUSE) {
            return renewal.error.clone().map_or(Ok(false), Err);
        }
        let (config, shared) = (self.config.clone(), self.current.clone());
        // A task of its own, which holds the lock: a plugin may take longer than the request that needs it. If it ended with that
        // request, the next one would start it again, and so on.
        let renewing = tokio::spawn(async move {
            let built = Snapshot::build(&config, Some(&current)).await;
            renewal.last = Some(Instant::now());
            renewal.error = built.as_ref().err().map(|error| chain(&**error));
            match built {
                Ok(fresh) => {
                    *shared.lock() = Arc::new(fresh);
                    Ok(true)
                }
                Err(error) => Err(chain(&*error)),
            }
        });
        renewing
            .await
            .unwrap_or_else(|error| Err(format!("the renewal of the credentials was broken off: {error}")))
    }
}

/// Whether reading files or running plugins again can give other credentials.
fn can_change(user: &User) -> bool {
    has_certificate_files(user) || user.token_file.is_some() || user.exec.is_some()
}

fn has_certificate_files(user: &User) -> bool {
    let in_files = |pair: &CertificateAndKey| {
        matches!(pair.certificate, Pem::File(_)) || matches!(pair.key, Pem::File(_))
    };
    user.certificate.as_ref().is_some_and(in_files)
}

impl Snapshot {
    async fn build(config: &Config, old: Option<&Snapshot>) -> Result<Self, BoxError> {
        let user = &config.user;
        // As in client-go, a plugin is not asked for what the kubeconfig has.
        let has_own = user.token_file.is_some() || user.token.is_some() || user.basic.is_some();
        let issued = match &user.exec {
            Some(exec) if !has_own => Some(exec::run(exec).await?),
            _ => None,
        };
        let (token, issued_identity, expires) = match issued {
            Some(issued) => (issued.token, issued.identity, issued.expires),
            None => (user.token.clone(), None, None),
        };
        let authorization = match (&user.token_file, token, &user.basic) {
            (Some(file), ..) => Authorization::File(TokenFile::open(file.clone())?),
            (None, Some(token), _) => {
                Authorization::Fixed(bearer(&token).map_err(|_| "the token does not fit into a header")?)
            }
            (None, None, Some((name, password))) => Authorization::Fixed(basic(name, password)?),
            (None, None, None) => Authorization::None,
        };
        let identity = match (issued_identity, &user.certificate) {
            (Some(issued), _) => Some(issued),
            (None, Some(pair)) => Some(read(pair)?),
            (None, None) => None,
        };
        let kept =
            old.filter(|old| old.identity == identity).map(|old| (old.tls_generation, old.tls.clone()));
        let (tls_generation, tls) = match kept {
            Some(kept) => kept,
            None => {
                let is_plain = config.server.scheme() == Some(&Scheme::HTTP);
                let trust = if is_plain { &Trust::Roots(vec![]) } else { &config.trust };
                let tls = tls::client_config(trust, identity.as_ref())?;
                (old.map_or(0, |old| old.tls_generation + 1), Arc::new(tls))
            }
        };
        Ok(Self {
            generation: old.map_or(0, |old| old.generation + 1),
            tls_generation,
            tls,
            identity,
            authorization,
            impersonation: user.impersonate.as_ref().map_or(Ok(HeaderMap::new()), impersonation)?,
            expires,
        })
    }

    /// Adds the credentials.
    pub(crate) fn sign(&self, headers: &mut HeaderMap) {
        let value = match &self.authorization {
            Authorization::None => None,
            Authorization::Fixed(value) => Some(value.clone()),
            Authorization::File(file) => Some(file.header()),
        };
        if let Some(value) = value {
            headers.insert(AUTHORIZATION, value);
        }
        for (name, value) in &self.impersonation {
            headers.append(name, value.clone());
        }
    }
}

fn read(pair: &CertificateAndKey) -> Result<Identity, BoxError> {
    let read = |field: &str, pem: &Pem| {
        pem.read().map_err(|error| match pem {
            Pem::File(file) => format!("the {field} {} cannot be read: {error}", file.display()),
            Pem::Inline(_) => format!("the {field} cannot be read: {error}"),
        })
    };
    let origin = match &pair.key {
        Pem::File(file) => format!("the client-key {}", file.display()),
        Pem::Inline(_) => "its client-key-data".to_owned(),
    };
    Ok(Identity {
        certificate: read("client-certificate", &pair.certificate)?,
        key: read("client-key", &pair.key)?,
        origin,
    })
}

fn impersonation(who: &Impersonate) -> Result<HeaderMap, BoxError> {
    let mut headers = HeaderMap::new();
    let mut add = |name: &str, value: &str| -> Result<(), BoxError> {
        let problem = |e: BoxError| format!("the impersonated user: {name}: {e}");
        let value = HeaderValue::from_str(value).map_err(|e| problem(e.into()))?;
        headers.append(HeaderName::try_from(name).map_err(|e| problem(e.into()))?, value);
        Ok(())
    };
    add("impersonate-user", &who.user)?;
    if let Some(uid) = &who.uid {
        add("impersonate-uid", uid)?;
    }
    for group in &who.groups {
        add("impersonate-group", group)?;
    }
    for (key, values) in &who.extra {
        for value in values {
            add(&format!("impersonate-extra-{}", escaped(key)), value)?;
        }
    }
    Ok(headers)
}

/// A key in the name of a header: lower case, and what a name cannot have is percent-encoded, as client-go does it.
fn escaped(key: &str) -> String {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    let encode = |byte: u8| match is_legal(byte) {
        true => char::from(byte).to_ascii_lowercase().to_string(),
        false => format!("%{byte:02X}"),
    };
    key.bytes().map(encode).collect()
}

/// `Authorization: Bearer …`, hidden from logs.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn basic(name: &str, password: &str) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
    let mut value =
        HeaderValue::try_from(format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))?;
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
#[path = "../tests/credentials.rs"]
mod tests;
