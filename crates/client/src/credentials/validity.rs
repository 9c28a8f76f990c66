//! Whether a client certificate is valid at present. A server that refuses one says only "Unauthorized".

use flyball_api::time::{Timestamp, format_seconds};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::tls::Identity;

/// From when until when a certificate is valid, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    begins: i64,
    ends: i64,
}

impl Validity {
    /// That of the certificate which is shown to the server. `None` if it cannot be read: TLS reports that.
    pub(super) fn of(identity: &Identity) -> Option<Self> {
        let der = CertificateDer::pem_slice_iter(&identity.certificate).next()?.ok()?;
        let (_, certificate) = x509_parser::parse_x509_certificate(&der).ok()?;
        let validity = certificate.validity();
        Some(Self { begins: validity.not_before.timestamp(), ends: validity.not_after.timestamp() })
    }

    /// Why the certificate is not valid now; `None` if it is.
    pub(super) fn problem(self) -> Option<String> {
        self.problem_at(Timestamp::now())
    }

    fn problem_at(self, now: Timestamp) -> Option<String> {
        let time = |seconds| Timestamp::from_second(seconds).map(format_seconds).unwrap_or_default();
        match now.as_second() {
            now if now > self.ends => Some(format!("expired at {}", time(self.ends))),
            now if now < self.begins => Some(format!("is not valid before {}", time(self.begins))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_valid_from_its_first_second_to_its_last() {
        #[rustfmt::skip]
        let table = [
            // now  problem
            (99,  Some("is not valid before 1970-01-01T00:01:40Z")),
            (100, None),
            (200, None),
            (201, Some("expired at 1970-01-01T00:03:20Z")),
        ];
        for (now, want) in table {
            let now = Timestamp::from_second(now).unwrap();
            let found = Validity { begins: 100, ends: 200 }.problem_at(now);
            assert_eq!(found.as_deref(), want, "{now}");
        }
    }
}
