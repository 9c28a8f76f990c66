//! The subject of a certificate. Only the attributes below are copied from a request, with one set per attribute type.
//!
//! Upstream: Go's `crypto/x509/pkix`, `Name.ToRDNSequence`.

use x509_parser::asn1_rs::{Any, Tag};
use x509_parser::x509::X509Name;
use yasna::models::ObjectIdentifier;
use yasna::{DERWriter, DERWriterSeq};

use super::RequestError;

/// The attributes of a subject; most may occur more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    pub country: Vec<String>,
    pub organization: Vec<String>,
    pub organizational_unit: Vec<String>,
    pub locality: Vec<String>,
    pub province: Vec<String>,
    pub street_address: Vec<String>,
    pub postal_code: Vec<String>,
    /// The user name in Kubernetes. The last one wins.
    pub common_name: String,
    /// The last one wins.
    pub serial_number: String,
}

impl Subject {
    /// Parses a name; attributes of other types are ignored.
    pub fn read(name: &X509Name<'_>) -> Result<Self, RequestError> {
        let mut subject = Self::default();
        for attribute in name.iter_attributes() {
            let value = text(attribute.attr_value()).ok_or(RequestError::Subject)?;
            let oid: Option<Vec<u64>> = attribute.attr_type().iter().map(Iterator::collect);
            let list = match oid.as_deref() {
                Some([2, 5, 4, 3]) => {
                    subject.common_name = value;
                    continue;
                }
                Some([2, 5, 4, 5]) => {
                    subject.serial_number = value;
                    continue;
                }
                Some([2, 5, 4, 6]) => &mut subject.country,
                Some([2, 5, 4, 7]) => &mut subject.locality,
                Some([2, 5, 4, 8]) => &mut subject.province,
                Some([2, 5, 4, 9]) => &mut subject.street_address,
                Some([2, 5, 4, 10]) => &mut subject.organization,
                Some([2, 5, 4, 11]) => &mut subject.organizational_unit,
                Some([2, 5, 4, 17]) => &mut subject.postal_code,
                _ => continue,
            };
            list.push(value);
        }
        Ok(subject)
    }

    pub fn der(&self) -> Vec<u8> {
        let one = |value: &String| if value.is_empty() { vec![] } else { vec![value.clone()] };
        let (common_name, serial_number) = (one(&self.common_name), one(&self.serial_number));
        let parts = [
            (6, &self.country),
            (8, &self.province),
            (7, &self.locality),
            (9, &self.street_address),
            (17, &self.postal_code),
            (10, &self.organization),
            (11, &self.organizational_unit),
            (3, &common_name),
            (5, &serial_number),
        ];
        let write = |sequence: &mut DERWriterSeq<'_>| {
            for (kind, values) in parts.into_iter().filter(|(_, values)| !values.is_empty()) {
                sequence.next().write_set_of(|set| {
                    for value in values {
                        set.next().write_sequence(|pair| {
                            pair.next().write_oid(&ObjectIdentifier::from_slice(&[2, 5, 4, kind]));
                            write_text(pair.next(), value);
                        });
                    }
                });
            }
        };
        yasna::construct_der(|writer| writer.write_sequence(write))
    }
}

/// As PrintableString if the characters allow it, as Go does.
fn write_text(writer: DERWriter<'_>, text: &str) {
    let is_printable = |byte: u8| byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&byte);
    if text.bytes().all(is_printable) {
        writer.write_printable_string(text);
    } else {
        writer.write_utf8_string(text);
    }
}

fn text(value: &Any<'_>) -> Option<String> {
    match value.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::NumericString | Tag::T61String => {
            std::str::from_utf8(value.data).ok().map(str::to_owned)
        }
        Tag::BmpString if value.data.len().is_multiple_of(2) => {
            let units = value.data.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            String::from_utf16(&units.collect::<Vec<_>>()).ok()
        }
        _ => None,
    }
}
