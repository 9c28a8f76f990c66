//! The cluster's certificate authority and service account key, stored with its data so that credentials outlive a
//! restart; and the kubeconfig made from them.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flyball_apiserver::pki::{Ca, Pair};

use super::StartError;

/// Keys and certificates, and the folder with their files.
pub(super) struct Identity {
    pub(super) ca: Ca,
    pub(super) service_account_key: String,
    folder: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Identity {
    /// Reads the identity from `data_dir`, or creates it; without a directory it is temporary.
    pub(super) fn prepare(data_dir: Option<&Path>) -> Result<Self, StartError> {
        let (folder, temporary) = match data_dir {
            Some(dir) => (dir.join("pki"), None),
            None => {
                let made = tempfile::Builder::new().prefix("flyball-").tempdir();
                let made = made.map_err(|source| file(&std::env::temp_dir(), source))?;
                (made.path().to_owned(), Some(made))
            }
        };
        fs::create_dir_all(&folder).map_err(|source| file(&folder, source))?;
        let ca = authority(&folder)?;
        let service_account_key = match read(&folder.join("sa.key"))? {
            Some(key) => key,
            None => {
                let key = rcgen::KeyPair::generate().map_err(|error| StartError::Pki(error.into()))?;
                write_private(&folder.join("sa.key"), &key.serialize_pem())?;
                key.serialize_pem()
            }
        };
        Ok(Self { ca, service_account_key, folder, _temporary: temporary })
    }

    /// The path of one of the files, as the value of a flag.
    pub(super) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

fn authority(folder: &Path) -> Result<Ca, StartError> {
    let (cert, key) = (folder.join("ca.crt"), folder.join("ca.key"));
    let pki = |error: rcgen::Error| StartError::Pki(error.into());
    if let (Some(cert), Some(key)) = (read(&cert)?, read(&key)?) {
        return Ca::load(Pair { cert, key }).map_err(pki);
    }
    let ca = Ca::new("flyball-playground").map_err(pki)?;
    write_private(&key, &ca.pair.key)?;
    write_private(&cert, &ca.pair.cert)?;
    Ok(ca)
}

fn file(path: &Path, source: std::io::Error) -> StartError {
    StartError::File { path: path.display().to_string(), source }
}

fn read(path: &Path) -> Result<Option<String>, StartError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file(path, error)),
    }
}

/// Writes a file that only its owner may read, atomically.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), StartError> {
    let beside = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let write = || {
        let mut out = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        fs::rename(&beside, path)
    };
    let mut write = write;
    write().map_err(|source| file(path, source))
}

/// A random seed for generated names.
pub(super) fn seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// The administrator's kubeconfig.
pub(super) fn kubeconfig(address: SocketAddr, ca: &str, admin: &Pair) -> String {
    let data = |pem: &str| STANDARD.encode(pem);
    let (ca, cert, key) = (data(ca), data(&admin.cert), data(&admin.key));
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: flyball\n  cluster:\n    server: https://{address}\n    certificate-authority-data: {ca}\n\
         users:\n\
         - name: flyball-admin\n  user:\n    client-certificate-data: {cert}\n    client-key-data: {key}\n\
         contexts:\n\
         - name: flyball\n  context:\n    cluster: flyball\n    user: flyball-admin\n\
         current-context: flyball\n"
    )
}
