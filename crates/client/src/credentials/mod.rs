//! The credentials of the main connection: client certificates, bearer tokens (fixed, from files that rotate, from plugins),
//! passwords, impersonation; and their renewal.
//!
//! Difference from upstream (client-go's exec plugin): a plugin is run again when four fifths of the lifetime of its credentials are
//! over, and the old ones are used meanwhile. Upstream runs it when they have expired, and all requests wait for it, those for the
//! lease included.

mod exec;
mod tls;
mod token_file;
mod validity;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use http::{HeaderValue, uri::Scheme};
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::tls::Identity;
use self::token_file::TokenFile;
use self::validity::Validity;
use crate::chain::Chain;
use crate::config::{CertificateAndKey, Config, Impersonate, Pem, Trust, User};
use crate::transport::{BoxError, TransportError};

/// Client certificates in files are read again after this long, as in client-go.
const CERTIFICATE_AGE: Duration = Duration::from_secs(5 * 60);

/// The same while the one that we have has expired or is not valid yet.
const INVALID_CERTIFICATE_AGE: Duration = Duration::from_secs(10);

/// How often the log says that the client certificate is not valid.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// The least time between two renewals.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10);

/// The share of their lifetime after which credentials are renewed early.
const RENEWED_AFTER: f64 = 0.8;

/// The least time between two early renewals. Some plugins give what they have until it has expired.
const EARLY_PAUSE: Duration = Duration::from_secs(60);

/// The credentials of one identity, and the TLS settings that go with them.
pub(crate) struct Credentials {
    config: Arc<Config>,
    current: Arc<Mutex<Arc<Snapshot>>>,
    /// Locked during a renewal, so that a hundred 401s run one plugin.
    renewal: Arc<tokio::sync::Mutex<Renewal>>,
    /// When the files of the client certificate were last read.
    certificate_read: Mutex<Instant>,
    /// When the log last said that the client certificate is not valid.
    complained: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Renewal {
    last: Option<Instant>,
    /// When one was last made before the credentials had expired. It does not delay one that is due.
    early: Option<Instant>,
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
    validity: Option<Validity>,
    authorization: Authorization,
    impersonation: HeaderMap,
    expires: Option<Instant>,
    /// When they are renewed, while they are still used.
    renew_early: Option<Instant>,
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
            complained: Mutex::default(),
        })
    }

    /// The credentials for a request. They are renewed if they have expired. A client certificate that was replaced is used within
    /// five minutes, not only when the old one has expired.
    pub(crate) async fn current(&self) -> Result<Arc<Snapshot>, TransportError> {
        let snapshot = self.snapshot();
        let is_past = |time: Option<Instant>| time.is_some_and(|time| time <= Instant::now());
        // Boxed, so that the future of the many requests that need no renewal is small.
        if is_past(snapshot.expires) {
            Box::pin(self.renew(&snapshot)).await.map_err(TransportError::Credentials)?;
        } else if self.is_certificate_due(&snapshot) {
            Box::pin(self.read_certificate()).await;
        } else {
            if is_past(snapshot.renew_early) {
                self.renew_early();
            }
            return Ok(snapshot);
        }
        Ok(self.snapshot())
    }

    /// Starts a renewal, unless one is under way or was made of late.
    fn renew_early(&self) {
        let Ok(renewal) = self.renewal.clone().try_lock_owned() else { return };
        let current = self.snapshot();
        let is_renewed = current.renew_early.is_none_or(|at| at > Instant::now());
        if !is_renewed && renewal.early.is_none_or(|at| at.elapsed() >= EARLY_PAUSE) {
            // Ends by itself.
            drop(self.start_renewal(renewal, current, true));
        }
    }

    /// Whether the files of the client certificate are to be read again. Only one caller is told so.
    fn is_certificate_due(&self, snapshot: &Snapshot) -> bool {
        if !has_certificate_files(&self.config.user) || self.config.user.exec.is_some() {
            return false;
        }
        let mut read = self.certificate_read.lock();
        let elapsed = read.elapsed();
        let is_due = elapsed >= CERTIFICATE_AGE
            || elapsed >= INVALID_CERTIFICATE_AGE && snapshot.problem_with_certificate().is_some();
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
            // A server that asks for certificates in TLS refuses the connection instead of a request.
            return self.complain(&old);
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

    /// Says so if the client certificate is not valid: the server's answer does not.
    fn complain(&self, snapshot: &Snapshot) {
        let is_shown_alone = matches!(snapshot.authorization, Authorization::None);
        let Some(problem) = snapshot.problem_with_certificate().filter(|_| is_shown_alone) else { return };
        let mut complained = self.complained.lock();
        if complained.is_some_and(|at| at.elapsed() < COMPLAIN_EVERY) {
            return;
        }
        *complained = Some(Instant::now());
        let user = &self.config.user;
        let (certificate, what_helps) =
            match (&user.exec, user.certificate.as_ref().map(|pair| &pair.certificate)) {
                (_, Some(Pem::File(file))) => {
                    (file.display().to_string(), "replace the file; it is read again, and used at once")
                }
                (_, Some(Pem::Inline(_))) => (
                    "client-certificate-data of the kubeconfig".to_owned(),
                    "replace it and restart this process, which reads the kubeconfig only at the start",
                ),
                (Some(exec), None) => (
                    format!("that of the credential plugin {:?}", exec.command.display().to_string()),
                    "the plugin is run again, and has to give another one",
                ),
                (None, None) => return,
            };
        tracing::error!(
            certificate,
            problem,
            what_helps,
            "the client certificate is not valid, so the API server refuses all requests"
        );
    }

    /// Renews the credentials after a 401. False if that cannot help.
    pub(crate) async fn refused(&self, snapshot: &Snapshot) -> bool {
        self.complain(snapshot);
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
        let renewal = self.renewal.clone().lock_owned().await;
        let current = self.snapshot();
        if current.generation != old.generation {
            return Ok(true);
        }
        if renewal.last.is_some_and(|at| at.elapsed() < RENEWAL_PAUSE) {
            return renewal.error.clone().map_or(Ok(false), Err);
        }
        self.start_renewal(renewal, current, false)
            .await
            .unwrap_or_else(|error| Err(format!("the renewal of the credentials was broken off: {error}")))
    }

    /// A task of its own, which holds the lock: a plugin may take longer than the request that needs it. If it ended with that
    /// request, the next one would start it again, and so on.
    fn start_renewal(
        &self,
        mut renewal: OwnedMutexGuard<Renewal>,
        current: Arc<Snapshot>,
        is_early: bool,
    ) -> JoinHandle<Result<bool, String>> {
        let (config, shared) = (self.config.clone(), self.current.clone());
        tokio::spawn(async move {
            let built = Snapshot::build(&config, Some(&current)).await;
            let built = built.map_err(|error| Chain(&*error).to_string());
            if is_early {
                renewal.early = Some(Instant::now());
                if let Err(error) = &built {
                    tracing::warn!(error, "credentials could not be renewed before they expire");
                }
            } else {
                renewal.last = Some(Instant::now());
                renewal.error = built.as_ref().err().cloned();
            }
            *shared.lock() = Arc::new(built?);
            Ok(true)
        })
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
        let validity = identity.as_ref().and_then(Validity::of);
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
            validity,
            authorization,
            impersonation: user.impersonate.as_ref().map_or(Ok(HeaderMap::new()), impersonation)?,
            expires,
            renew_early: expires.map(|expires| {
                let now = Instant::now();
                now + expires.saturating_duration_since(now).mul_f64(RENEWED_AFTER)
            }),
        })
    }

    /// Why the client certificate is not valid now, if that is so.
    fn problem_with_certificate(&self) -> Option<String> {
        self.validity.and_then(Validity::problem)
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

#[cfg(test)]
#[path = "../tests/credentials.rs"]
mod tests;
