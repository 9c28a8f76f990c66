//! Keys and certificates of a temporary cluster, created in process so that no openssl is needed.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};

/// How long a client certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// For longer than any test.
    Long,
    /// It has expired years ago.
    Expired,
}

/// A folder with the certificate authority, the server's certificate, client certificates and the key pair that
/// signs service account tokens.
pub(crate) struct Pki {
    dir: PathBuf,
    ca: CertificateParams,
    ca_key: KeyPair,
}

impl Pki {
    /// The API server's certificate is valid for loopback and for `addresses`.
    pub(crate) fn create(dir: PathBuf, addresses: &[Ipv4Addr]) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        let ca_key = KeyPair::generate()?;
        let mut ca = CertificateParams::new(Vec::new())?;
        ca.distinguished_name.push(DnType::CommonName, "kubernetes-ca");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pki = Self { dir, ca, ca_key };
        pki.write("ca.crt", &pki.ca.self_signed(&pki.ca_key)?.pem())?;
        pki.write("ca.key", &pki.ca_key.serialize_pem())?;

        let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut server = CertificateParams::new(names.map(str::to_owned).to_vec())?;
        let addresses = addresses.iter().chain([&Ipv4Addr::LOCALHOST]);
        server.subject_alt_names.extend(addresses.map(|address| SanType::IpAddress(IpAddr::V4(*address))));
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        pki.issue("apiserver", server)?;
        pki.client("admin", "admin", Some("system:masters"), Validity::Long)?;
        pki.manager(Validity::Long)?;
        pki.client("front-proxy", "front-proxy", None, Validity::Long)?;

        let accounts = KeyPair::generate()?;
        pki.write("sa.key", &accounts.serialize_pem())?;
        pki.write("sa.pub", &accounts.public_key_pem())?;
        Ok(pki)
    }

    /// The path of one file as a flag's value.
    pub(crate) fn path(&self, file: &str) -> String {
        self.dir.join(file).display().to_string()
    }

    pub(crate) fn file(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// Writes a new client certificate of the controller manager, and its key.
    pub(super) fn manager(&self, validity: Validity) -> anyhow::Result<()> {
        self.client("kcm", "system:kube-controller-manager", None, validity)
    }

    fn client(&self, file: &str, user: &str, group: Option<&str>, validity: Validity) -> anyhow::Result<()> {
        let mut params = CertificateParams::new(Vec::new())?;
        if validity == Validity::Expired {
            params.not_after = date_time_ymd(2020, 1, 1);
        }
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(file, params)
    }

    fn issue(&self, file: &str, mut params: CertificateParams) -> anyhow::Result<()> {
        let issuer = Issuer::from_params(&self.ca, &self.ca_key);
        let key = KeyPair::generate()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        self.write(&format!("{file}.crt"), &params.signed_by(&key, &issuer)?.pem())?;
        self.write(&format!("{file}.key"), &key.serialize_pem())
    }

    fn write(&self, file: &str, text: &str) -> anyhow::Result<()> {
        write(&self.dir.join(file), text)
    }
}

pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
