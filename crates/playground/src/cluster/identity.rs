//! The cluster's certificate authority and service account key, stored with its data so that credentials outlive a
//! restart; and the kubeconfig made from them.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flyball_apiserver::FrontProxy;
use flyball_apiserver::pki::{Ca, Pair};
use serde::{Deserialize, Serialize};

use super::StartError;

/// The names and addresses in every serving certificate.
const NAMES: [&str; 6] =
    ["127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
const ROOT_CA: &str = "root-ca.crt";
const CA: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const SERVICE_ACCOUNT_KEY: &str = "sa.key";

/// Certificates and keys that somebody else has made, all PEM.
#[derive(Debug, Clone)]
pub struct Credentials {
    pub serving: Pair,
    /// Who signs certificates of clients, beside the cluster itself.
    pub client_ca: Option<String>,
    /// Signs service account tokens; generated if absent.
    pub service_account_key: Option<String>,
}

/// The keys of a cluster, as a snapshot keeps them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Keys {
    ca_certificate: String,
    ca_key: String,
    service_account_key: String,
}

/// Keys and certificates, and the folder with their files.
pub(super) struct Identity {
    pub(super) ca: Ca,
    pub(super) service_account_key: String,
    folder: PathBuf,
    foreign: Option<Credentials>,
    temporary: Option<tempfile::TempDir>,
}

impl Identity {
    /// Reads the identity from `data_dir`, or creates it; without a directory it is temporary. `earlier` is used instead, and replaces
    /// what is there with [`persist`](Self::persist).
    pub(super) fn prepare(
        data_dir: Option<&Path>,
        foreign: Option<&Credentials>,
        earlier: Option<&Keys>,
    ) -> Result<Self, StartError> {
        let (folder, temporary) = match data_dir {
            Some(dir) => (dir.join("pki"), None),
            None => {
                let made = tempfile::Builder::new().prefix("flyball-").tempdir();
                let made = made.map_err(|source| file(&std::env::temp_dir(), source))?;
                (made.path().to_owned(), Some(made))
            }
        };
        fs::create_dir_all(&folder).map_err(|source| file(&folder, source))?;
        let ca = match earlier {
            Some(keys) => Ca::load(Pair { cert: keys.ca_certificate.clone(), key: keys.ca_key.clone() })
                .map_err(|error| StartError::Pki(error.into()))?,
            None => authority(&folder)?,
        };
        let given = foreign.and_then(|foreign| foreign.service_account_key.clone());
        let given = given.or_else(|| earlier.map(|keys| keys.service_account_key.clone()));
        let service_account_key = match (given, read(&folder.join(SERVICE_ACCOUNT_KEY))?) {
            (Some(key), _) | (None, Some(key)) => key,
            (None, None) => {
                let key = rcgen::KeyPair::generate().map_err(|error| StartError::Pki(error.into()))?;
                key.serialize_pem()
            }
        };
        Ok(Self { ca, service_account_key, folder, foreign: foreign.cloned(), temporary })
    }

    /// Writes the files. The keys of a snapshot go with its objects: not before those are in the data directory.
    pub(super) fn persist(&self) -> Result<(), StartError> {
        let Pair { cert, key } = &self.ca.pair;
        // What is temporary need not outlive a crash of the machine.
        let keep = if self.temporary.is_some() { Keep::UntilCrash } else { Keep::Always };
        let write = |name: &str, text: &str| write_private(&self.folder.join(name), text, keep);
        write(CA_KEY, key)?;
        write(CA, cert)?;
        write(SERVICE_ACCOUNT_KEY, &self.service_account_key)?;
        write(ROOT_CA, self.root_ca())
    }

    pub(super) fn keys(&self) -> Keys {
        let Pair { cert, key } = self.ca.pair.clone();
        let service_account_key = self.service_account_key.clone();
        Keys { ca_certificate: cert, ca_key: key, service_account_key }
    }

    /// The certificate by which clients trust the server: that of the authority, or the serving certificate itself if
    /// another authority has signed it.
    pub(super) fn root_ca(&self) -> &str {
        self.foreign.as_ref().map_or(&self.ca.pair.cert, |foreign| &foreign.serving.cert)
    }

    /// The file with [`root_ca`](Self::root_ca).
    pub(super) fn root_ca_file(&self) -> String {
        self.path(ROOT_CA)
    }

    /// The certificates of all authorities whose clients are trusted.
    pub(super) fn client_ca(&self) -> String {
        let foreign = self.foreign.as_ref().and_then(|foreign| foreign.client_ca.as_deref());
        format!("{}\n{}", self.ca.pair.cert, foreign.unwrap_or_default())
    }

    /// The serving certificate, for a server on `bind` that also has other names.
    pub(super) fn serving(&self, bind: IpAddr, others: &[String]) -> Result<Pair, StartError> {
        if let Some(foreign) = &self.foreign {
            return Ok(foreign.serving.clone());
        }
        let mut names: Vec<String> = NAMES.map(str::to_owned).into();
        names.extend((!bind.is_unspecified()).then(|| bind.to_string()));
        names.extend(others.iter().cloned());
        names.sort_unstable();
        names.dedup();
        self.ca.server(&names).map_err(|error| StartError::Pki(error.into()))
    }

    /// The path of one of the files, as the value of a flag.
    pub(super) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

/// By what aggregated API servers recognise the cluster. Those read it from the cluster, so it need not outlive a restart.
pub(super) fn front_proxy() -> Result<FrontProxy, StartError> {
    let pki = |error: rcgen::Error| StartError::Pki(error.into());
    let name = "front-proxy-client";
    let authority = Ca::new("front-proxy-ca").map_err(pki)?;
    let client = authority.client(name, "flyball").map_err(pki)?;
    Ok(FrontProxy { client, authority: authority.pair.cert, name: name.to_owned() })
}

fn authority(folder: &Path) -> Result<Ca, StartError> {
    let (cert, key) = (folder.join(CA), folder.join(CA_KEY));
    let pki = |error: rcgen::Error| StartError::Pki(error.into());
    if let (Some(cert), Some(key)) = (read(&cert)?, read(&key)?) {
        return Ca::load(Pair { cert, key }).map_err(pki);
    }
    Ca::new("flyball-playground").map_err(pki)
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

/// What a file must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    Always,
    /// It may be gone after a crash of the machine.
    UntilCrash,
}

/// Writes a file that only its owner may read, atomically.
fn write_private(path: &Path, text: &str, keep: Keep) -> Result<(), StartError> {
    let beside = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let write = || {
        let mut out = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        out.write_all(text.as_bytes())?;
        if keep == Keep::Always {
            out.sync_all()?;
        }
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
