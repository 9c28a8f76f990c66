//! Certificates for a server without configured ones: its own CA, a serving certificate, client certificates.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate and its key, both PEM.
#[derive(Debug, Clone)]
pub struct Pair {
    pub cert: String,
    pub key: String,
}

pub struct Ca {
    /// Its own certificate and key.
    pub pair: Pair,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    pub fn new(name: &str) -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let cert = params.self_signed(&key)?;
        let pair = Pair { cert: cert.pem(), key: key.serialize_pem() };
        Ok(Self { pair, issuer: Issuer::new(params, key) })
    }

    /// An existing authority.
    pub fn load(pair: Pair) -> Result<Self, rcgen::Error> {
        let key = KeyPair::from_pem(&pair.key)?;
        let mut params = CertificateParams::default();
        // The issuer of leaf certificates must be the authority's subject.
        params.distinguished_name = subject_of(&pair.cert);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self { pair, issuer: Issuer::new(params, key) })
    }

    /// A serving certificate for names and addresses.
    pub fn server(&self, names: &[String]) -> Result<Pair, rcgen::Error> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A client certificate for a user in a group (the library supports only names with one organization).
    pub fn client(&self, user: &str, group: &str) -> Result<Pair, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Result<Pair, rcgen::Error> {
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.issuer)?;
        Ok(Pair { cert: cert.pem(), key: key.serialize_pem() })
    }
}

fn subject_of(pem: &str) -> rcgen::DistinguishedName {
    let mut name = rcgen::DistinguishedName::new();
    if let Ok((_, pem)) = x509_parser::pem::parse_x509_pem(pem.as_bytes())
        && let Ok(cert) = pem.parse_x509()
    {
        let common = cert.subject().iter_common_name().next().and_then(|cn| cn.as_str().ok());
        name.push(DnType::CommonName, common.unwrap_or("kubernetes-ca"));
    }
    name
}
