//! Certificates: an authority signs what was requested. Written as Go's library writes them, extension by extension, so
//! that a certificate does not tell which controller manager signed it.
//!
//! Upstream: `pkg/controller/certificates/authority`, and Go's `crypto/x509`, `CreateCertificate`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flyball_api::Timestamp;
use flyball_keys::{Algorithm, Form, KeyError, PrivateKey, Refused};
use x509_parser::extensions::ParsedExtension;
use x509_parser::pem::Pem;
use yasna::models::{ObjectIdentifier, TaggedDerValue};
use yasna::tags::{TAG_GENERALIZEDTIME, TAG_UTCTIME};
use yasna::{DERWriter, DERWriterSeq, Tag};

use super::{AlternativeNames, Request, Usages};

/// Who signs: a certificate and its key.
pub struct Authority {
    name: Vec<u8>,
    key_id: Option<Vec<u8>>,
    key: PrivateKey,
    /// Until when its own certificate is good; no other can be good for longer.
    pub not_after: Timestamp,
}

/// Why a certificate and a key make no authority.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The certificate cannot be read.
    #[error("the certificate file must hold one certificate in PEM form: {0}")]
    Certificate(String),
    /// The key cannot be used.
    #[error("the key file cannot be used: {0}")]
    Key(#[from] KeyError),
    /// They do not belong together.
    #[error("the key is not that of the certificate")]
    Mismatch,
}

/// What tells certificates of an authority apart: chance.
pub type Serial = [u8; 16];

/// From when to when a certificate is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before: Timestamp,
    /// The last second.
    pub not_after: Timestamp,
}

impl Authority {
    /// Reads a certificate and its key.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, AuthorityError> {
        let blocks: Result<Vec<Pem>, _> = Pem::iter_from_buffer(certificate).collect();
        let unreadable = |problem: &dyn std::fmt::Display| AuthorityError::Certificate(problem.to_string());
        let mut blocks = blocks.map_err(|error| unreadable(&error))?;
        blocks.retain(|block| block.label == "CERTIFICATE");
        let [block] = blocks.as_slice() else {
            return Err(unreadable(&format_args!("there are {}", blocks.len())));
        };
        let certificate = block.parse_x509().map_err(|error| unreadable(&error))?;
        let key = PrivateKey::from_pem(key)?;
        if certificate.public_key().raw != key.public() {
            return Err(AuthorityError::Mismatch);
        }
        let key_id =
            certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) if !id.0.is_empty() => Some(id.0.to_vec()),
                _ => None,
            });
        let not_after = Timestamp::from_second(certificate.validity().not_after.timestamp());
        let not_after = not_after.map_err(|error| unreadable(&error))?;
        Ok(Self { name: certificate.subject().as_raw().to_vec(), key_id, key, not_after })
    }
}

/// A certificate for what was requested, in PEM.
pub fn issue(
    authority: &Authority,
    request: &Request,
    usages: &Usages,
    validity: Validity,
    serial: &Serial,
) -> Result<String, Refused> {
    let content = yasna::construct_der(|writer| {
        writer.write_sequence(|fields| {
            fields.next().write_tagged(Tag::context(0), |version| version.write_u8(2));
            fields.next().write_bigint_bytes(serial, true);
            write_algorithm(fields.next(), authority.key.algorithm());
            fields.next().write_der(&authority.name);
            fields.next().write_sequence(|times| {
                write_time(times.next(), validity.not_before);
                write_time(times.next(), validity.not_after);
            });
            let subject = request.subject.der();
            fields.next().write_der(&subject);
            fields.next().write_der(&request.public_key);
            fields.next().write_tagged(Tag::context(3), |extensions| {
                extensions.write_sequence(|list| {
                    write_extensions(list, authority, request, &subject, usages);
                });
            });
        });
    });
    let signature = authority.key.sign(&content, Form::Der)?;
    let whole = yasna::construct_der(|writer| {
        writer.write_sequence(|fields| {
            fields.next().write_der(&content);
            write_algorithm(fields.next(), authority.key.algorithm());
            fields.next().write_bitvec_bytes(&signature, signature.len() * 8);
        });
    });
    Ok(pem(&whole))
}

fn write_extensions(
    list: &mut DERWriterSeq<'_>,
    authority: &Authority,
    request: &Request,
    subject: &[u8],
    usages: &Usages,
) {
    if usages.bits != 0 {
        write_extension(list, 15, true, |value| write_bits(value, usages.bits));
    }
    if !usages.purposes.is_empty() {
        write_extension(list, 37, false, |value| {
            value.write_sequence(|purposes| {
                for purpose in &usages.purposes {
                    purposes.next().write_oid(&ObjectIdentifier::from_slice(purpose.oid()));
                }
            });
        });
    }
    // Not an authority: the default, said aloud.
    write_extension(list, 19, true, |value| value.write_sequence(|_| {}));
    if let Some(id) = authority.key_id.as_ref().filter(|_| subject != authority.name) {
        write_extension(list, 35, false, |value| {
            value.write_sequence(|fields| {
                fields.next().write_tagged_implicit(Tag::context(0), |field| field.write_bytes(id));
            });
        });
    }
    if !request.names.is_empty() {
        // Without a subject, nothing else says whom it is for.
        let is_critical = request.subject == super::Subject::default();
        write_extension(list, 17, is_critical, |value| write_names(value, &request.names));
    }
}

fn write_extension(
    list: &mut DERWriterSeq<'_>,
    kind: u64,
    is_critical: bool,
    value: impl FnOnce(DERWriter<'_>),
) {
    list.next().write_sequence(|fields| {
        fields.next().write_oid(&ObjectIdentifier::from_slice(&[2, 5, 29, kind]));
        if is_critical {
            fields.next().write_bool(true);
        }
        fields.next().write_bytes(&yasna::construct_der(value));
    });
}

/// The bits from the first on, without zeros at the end.
fn write_bits(writer: DERWriter<'_>, bits: u16) {
    let length = 16 - bits.leading_zeros() as usize;
    let bytes = bits.reverse_bits().to_be_bytes();
    writer.write_bitvec_bytes(&bytes[..length.div_ceil(8)], length);
}

fn write_names(writer: DERWriter<'_>, names: &AlternativeNames) {
    writer.write_sequence(|list| {
        let mut write = |tag: u64, bytes: &[u8]| {
            list.next().write_tagged_implicit(Tag::context(tag), |name| name.write_bytes(bytes));
        };
        names.dns.iter().for_each(|name| write(2, name.as_bytes()));
        names.emails.iter().for_each(|name| write(1, name.as_bytes()));
        for address in &names.addresses {
            match address {
                std::net::IpAddr::V4(address) => write(7, &address.octets()),
                std::net::IpAddr::V6(address) => write(7, &address.octets()),
            }
        }
        names.uris.iter().for_each(|name| write(6, name.as_bytes()));
    });
}

fn write_algorithm(writer: DERWriter<'_>, algorithm: Algorithm) {
    let oid: &[u64] = match algorithm {
        Algorithm::Rsa => &[1, 2, 840, 113549, 1, 1, 11],
        Algorithm::P256 => &[1, 2, 840, 10045, 4, 3, 2],
        Algorithm::P384 => &[1, 2, 840, 10045, 4, 3, 3],
        Algorithm::P521 => &[1, 2, 840, 10045, 4, 3, 4],
        Algorithm::Ed25519 => &[1, 3, 101, 112],
    };
    writer.write_sequence(|fields| {
        fields.next().write_oid(&ObjectIdentifier::from_slice(oid));
        if algorithm == Algorithm::Rsa {
            fields.next().write_null();
        }
    });
}

/// Two digits for the year until 2049, four from then on.
fn write_time(writer: DERWriter<'_>, time: Timestamp) {
    let year = time.strftime("%Y").to_string();
    let (tag, format) = match year.parse() {
        Ok(1950..2050) => (TAG_UTCTIME, "%y%m%d%H%M%SZ"),
        _ => (TAG_GENERALIZEDTIME, "%Y%m%d%H%M%SZ"),
    };
    let text = time.strftime(format).to_string();
    writer.write_tagged_der(&TaggedDerValue::from_tag_and_bytes(tag, text.into_bytes()));
}

fn pem(der: &[u8]) -> String {
    let encoded = BASE64.encode(der);
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in encoded.as_bytes().chunks(64) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}
