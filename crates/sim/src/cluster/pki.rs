//! Keys and certificates of a temporary cluster, created in process so that no openssl is needed.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

/// A folder with the certificate authority, the server's certificate, client certificates and the key pair that
/// signs service account tokens.
pub(crate) struct Pki {
    dir: PathBuf,
}

impl Pki {
    /// The API server's certificate is valid for loopback and for `addresses`.
    pub(crate) fn create(dir: PathBuf, addresses: &[Ipv4Addr]) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        let pki = Self { dir };
        let ca_key = KeyPair::generate()?;
        let mut ca = CertificateParams::new(Vec::new())?;
        ca.distinguished_name.push(DnType::CommonName, "kubernetes-ca");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        pki.write("ca.crt", &ca.self_signed(&ca_key)?.pem())?;
        pki.write("ca.key", &ca_key.serialize_pem())?;
        let issuer = Issuer::from_params(&ca, &ca_key);

        let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut server = CertificateParams::new(names.map(str::to_owned).to_vec())?;
        let addresses = addresses.iter().chain([&Ipv4Addr::LOCALHOST]);
        server.subject_alt_names.extend(addresses.map(|address| SanType::IpAddress(IpAddr::V4(*address))));
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        pki.issue("apiserver", server, &issuer)?;
        pki.client("admin", "admin", Some("system:masters"), &issuer)?;
        pki.client("kcm", "system:kube-controller-manager", None, &issuer)?;
        pki.client("front-proxy", "front-proxy", None, &issuer)?;

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

    fn client(
        &self,
        file: &str,
        user: &str,
        group: Option<&str>,
        issuer: &Issuer<'_, &KeyPair>,
    ) -> anyhow::Result<()> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(file, params, issuer)
    }

    fn issue(
        &self,
        file: &str,
        mut params: CertificateParams,
        issuer: &Issuer<'_, &KeyPair>,
    ) -> anyhow::Result<()> {
        let key = KeyPair::generate()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        self.write(&format!("{file}.crt"), &params.signed_by(&key, issuer)?.pem())?;
        self.write(&format!("{file}.key"), &key.serialize_pem())
    }

    fn write(&self, file: &str, text: &str) -> anyhow::Result<()> {
        write(&self.dir.join(file), text)
    }
}

pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
