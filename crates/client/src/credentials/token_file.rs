//! A bearer token in a file, which the kubelet or another program replaces.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderValue;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::bearer;
use crate::transport::BoxError;

/// Token files are read again after this long, as in client-go.
pub(super) const MAX_AGE: Duration = Duration::from_secs(60);

pub(super) struct TokenFile {
    path: PathBuf,
    read: Mutex<(HeaderValue, Instant)>,
}

impl TokenFile {
    pub(super) fn open(path: PathBuf) -> Result<Self, BoxError> {
        let header = load(&path)?;
        Ok(Self { path, read: Mutex::new((header, Instant::now())) })
    }

    /// Upstream: kubernetes/kubernetes#68164: if the file is gone, its last token is used.
    pub(super) fn header(&self) -> HeaderValue {
        let mut read = self.read.lock();
        if read.1.elapsed() >= MAX_AGE {
            match load(&self.path) {
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
        read.0.clone()
    }
}

fn load(path: &Path) -> Result<HeaderValue, BoxError> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("token file {}: {e}", path.display()))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(format!("token file {} is empty", path.display()).into());
    }
    bearer(token).map_err(|_| format!("token file {} holds no token", path.display()).into())
}
