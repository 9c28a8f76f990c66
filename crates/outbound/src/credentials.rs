//! Credentials: secrets in files, and how requests are authenticated with them.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use parking_lot::Mutex;

use crate::error::BoxError;

/// The longest secret.
const LONGEST: u64 = 64 << 10;

/// Why a file with a secret cannot be used. Never with the secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    #[error("cannot read the secret in {}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{}: {problem}; it must have one line with the secret", path.display())]
    Invalid { path: PathBuf, problem: &'static str },
}

/// A secret in a file of its own, such as a mounted Secret. It is read again when the file changes; a file that vanishes or becomes
/// invalid is logged, and the secret stays what it was. It is not shown anywhere.
///
/// ```
/// use flyball_outbound::SecretFile;
/// # let path = std::env::temp_dir().join(format!("flyball-secret-{}", std::process::id()));
/// std::fs::write(&path, "one\n")?;
/// let secret = SecretFile::open(&path)?;
/// std::fs::write(&path, "another one\n")?;
/// assert_eq!(&*secret.current(), "another one");
/// assert!(!format!("{secret:?}").contains("another"));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SecretFile {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    seen: Stamp,
    secret: Arc<str>,
}

/// Identifies one version of a file; `None` if there is none.
type Stamp = Option<(SystemTime, u64, u64)>;

impl SecretFile {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// It cannot be read, or has no secret.
    pub fn open(path: &Path) -> Result<Self, SecretError> {
        let seen = stamp(path);
        let secret = read(path)?;
        Ok(Self { path: path.to_owned(), state: Mutex::new(State { seen, secret }) })
    }

    /// The secret. This reads the file if it has changed.
    pub fn current(&self) -> Arc<str> {
        let mut state = self.state.lock();
        let now = stamp(&self.path);
        if now != state.seen {
            state.seen = now;
            match read(&self.path) {
                Ok(secret) => {
                    tracing::info!(file = %self.path.display(), "a secret has changed");
                    state.secret = secret;
                }
                Err(error) => {
                    let error = flyball_runtime::Chain(&error).to_string();
                    tracing::error!(error, "cannot read a secret file; its previous contents stay in use");
                }
            }
        }
        state.secret.clone()
    }
}

impl fmt::Debug for SecretFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretFile").field("path", &self.path).finish_non_exhaustive()
    }
}

fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}

fn read(path: &Path) -> Result<Arc<str>, SecretError> {
    let unreadable = |source| SecretError::Unreadable { path: path.to_owned(), source };
    let invalid = |problem| SecretError::Invalid { path: path.to_owned(), problem };
    if std::fs::metadata(path).map_err(unreadable)?.len() > LONGEST {
        return Err(invalid("it is too long"));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let secret = text.trim_end_matches(['\n', '\r']);
    match secret {
        "" => Err(invalid("it is empty")),
        _ if secret.contains(['\n', '\r']) => Err(invalid("it has several lines")),
        _ => Ok(secret.into()),
    }
}

/// A request before it is sent, for those who sign what is in it.
pub type Unsigned = Request<Bytes>;

type Sign = dyn Fn(&mut Unsigned) -> Result<(), BoxError> + Send + Sync;

/// Puts credentials into every attempt of a request.
#[derive(Clone)]
pub struct Credentials(Arc<Sign>);

impl Credentials {
    pub fn none() -> Self {
        Self::signing(|_| Ok(()))
    }

    /// `Authorization: Bearer`, with a token in a file.
    pub fn bearer(token: SecretFile) -> Self {
        Self::signing(move |request| authorize(request, &format!("Bearer {}", token.current())))
    }

    /// `Authorization: Basic`, with a password in a file.
    pub fn basic(user: &str, password: SecretFile) -> Self {
        let user = user.to_owned();
        Self::signing(move |request| {
            let pair = STANDARD.encode(format!("{user}:{}", password.current()));
            authorize(request, &format!("Basic {pair}"))
        })
    }

    /// A custom scheme, such as a signature over the whole request. It must not block.
    pub fn signing(sign: impl Fn(&mut Unsigned) -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(sign))
    }

    pub(crate) fn sign(&self, request: &mut Unsigned) -> Result<(), BoxError> {
        (self.0)(request)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

fn authorize(request: &mut Unsigned, value: &str) -> Result<(), BoxError> {
    let mut value =
        HeaderValue::from_str(value).map_err(|_| "the secret has characters that a header cannot have")?;
    value.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, value);
    Ok(())
}
