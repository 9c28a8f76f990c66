//! Key usages: Kubernetes' names, and their bits and object identifiers in a certificate.

use std::collections::BTreeSet;

/// Usages as they are encoded in certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usages {
    /// The key usage bits; bit 0 is the digital signature.
    pub bits: u16,
    /// The purposes of the extended key usage extension, in Go's order.
    pub purposes: BTreeSet<Purpose>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unrecognized usage values: {0:?}")]
pub struct UnknownUsages(pub Vec<String>);

/// A purpose of an extended key usage; the order is that of Go's constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    Any,
    ServerAuth,
    ClientAuth,
    CodeSigning,
    EmailProtection,
    IpsecEndSystem,
    IpsecTunnel,
    IpsecUser,
    TimeStamping,
    OcspSigning,
    MicrosoftServerGatedCrypto,
    NetscapeServerGatedCrypto,
}

impl Usages {
    pub fn parse(words: &[impl AsRef<str>]) -> Result<Self, UnknownUsages> {
        let mut usages = Self::default();
        let mut unknown = vec![];
        for word in words.iter().map(AsRef::as_ref) {
            match (bit(word), purpose(word)) {
                (Some(bit), _) => usages.bits |= 1 << bit,
                (_, Some(purpose)) => drop(usages.purposes.insert(purpose)),
                _ => unknown.push(word.to_owned()),
            }
        }
        if unknown.is_empty() { Ok(usages) } else { Err(UnknownUsages(unknown)) }
    }
}

fn bit(word: &str) -> Option<u8> {
    Some(match word {
        "signing" | "digital signature" => 0,
        "content commitment" => 1,
        "key encipherment" => 2,
        "data encipherment" => 3,
        "key agreement" => 4,
        "cert sign" => 5,
        "crl sign" => 6,
        "encipher only" => 7,
        "decipher only" => 8,
        _ => return None,
    })
}

fn purpose(word: &str) -> Option<Purpose> {
    Some(match word {
        "any" => Purpose::Any,
        "server auth" => Purpose::ServerAuth,
        "client auth" => Purpose::ClientAuth,
        "code signing" => Purpose::CodeSigning,
        "email protection" | "s/mime" => Purpose::EmailProtection,
        "ipsec end system" => Purpose::IpsecEndSystem,
        "ipsec tunnel" => Purpose::IpsecTunnel,
        "ipsec user" => Purpose::IpsecUser,
        "timestamping" => Purpose::TimeStamping,
        "ocsp signing" => Purpose::OcspSigning,
        "microsoft sgc" => Purpose::MicrosoftServerGatedCrypto,
        "netscape sgc" => Purpose::NetscapeServerGatedCrypto,
        _ => return None,
    })
}

impl Purpose {
    pub fn oid(self) -> &'static [u64] {
        match self {
            Self::Any => &[2, 5, 29, 37, 0],
            Self::ServerAuth => &[1, 3, 6, 1, 5, 5, 7, 3, 1],
            Self::ClientAuth => &[1, 3, 6, 1, 5, 5, 7, 3, 2],
            Self::CodeSigning => &[1, 3, 6, 1, 5, 5, 7, 3, 3],
            Self::EmailProtection => &[1, 3, 6, 1, 5, 5, 7, 3, 4],
            Self::IpsecEndSystem => &[1, 3, 6, 1, 5, 5, 7, 3, 5],
            Self::IpsecTunnel => &[1, 3, 6, 1, 5, 5, 7, 3, 6],
            Self::IpsecUser => &[1, 3, 6, 1, 5, 5, 7, 3, 7],
            Self::TimeStamping => &[1, 3, 6, 1, 5, 5, 7, 3, 8],
            Self::OcspSigning => &[1, 3, 6, 1, 5, 5, 7, 3, 9],
            Self::MicrosoftServerGatedCrypto => &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3],
            Self::NetscapeServerGatedCrypto => &[2, 16, 840, 1, 113730, 4, 1],
        }
    }
}
