//! The certificate authority of the API server, which several controllers publish: what `--root-ca-file` names, or else what
//! the kubeconfig holds.

use std::sync::Arc;

use flyball_runtime::config::Config;
use flyball_runtime::{Context, StartError};
use x509_parser::pem::Pem;

/// The certificates, byte for byte as they were given; empty if there are none.
pub fn bundle(cx: &Context) -> Result<Arc<str>, StartError> {
    Ok(from_file(&cx.config)?.or_else(|| cx.server_ca.clone()).unwrap_or_default())
}

/// Whether `--root-ca-file`, if it is given, names a file with certificates.
pub fn check(config: &Config) -> Result<(), StartError> {
    from_file(config).map(drop)
}

fn from_file(config: &Config) -> Result<Option<Arc<str>>, StartError> {
    let file = config.sa_controller.root_ca_file.as_str();
    if file.is_empty() {
        return Ok(None);
    }
    let read = std::fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"));
    let checked = read.and_then(|text| certificates(&text).map(|()| text));
    checked
        .map(|text| Some(text.into()))
        .map_err(|problem| StartError::Misconfigured(format!("--root-ca-file {file}: {problem}")))
}

/// Whether a text holds certificates, and all of them can be parsed. Other blocks are skipped.
///
/// Upstream: client-go util/cert/pem.go, `ParseCertsPEM`.
fn certificates(text: &str) -> Result<(), String> {
    let mut count = 0;
    for block in Pem::iter_from_buffer(text.as_bytes()) {
        let block = block.map_err(|error| format!("it is not a PEM bundle of certificates: {error}"))?;
        if block.label == "CERTIFICATE" {
            count += 1;
            block.parse_x509().map_err(|error| format!("certificate {count} cannot be parsed: {error}"))?;
        }
    }
    if count == 0 { Err("it holds no certificate in PEM form".to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty file would otherwise replace the CA in every namespace.
    #[test]
    fn only_a_file_whose_certificates_can_all_be_parsed_is_published() {
        let certificate = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap().cert.pem();
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let broken = "-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----\n";
        #[rustfmt::skip]
        let table = [
            // case                             file                                    problem
            ("a certificate",                   certificate.clone(),                    ""),
            ("two",                             certificate.repeat(2),                  ""),
            ("a comment before it",             format!("# the CA\n{certificate}"),     ""),
            ("something else beside it",        format!("{key}{certificate}"),          ""),
            ("nothing",                         String::new(),                          "it holds no certificate in PEM form"),
            ("another text",                    "nothing of this kind\n".to_owned(),    "it holds no certificate in PEM form"),
            ("a key",                           key.clone(),                            "it holds no certificate in PEM form"),
            ("no certificate inside",           broken.to_owned(),                      "certificate 1 cannot be parsed"),
            ("a broken one after a good one",   format!("{certificate}{broken}"),       "certificate 2 cannot be parsed"),
            ("cut off",                         certificate[..200].to_owned(),          "it is not a PEM bundle"),
        ];
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.crt");
        let mut config = Config::default();
        config.sa_controller.root_ca_file = file.display().to_string();
        let missing = from_file(&config).unwrap_err().to_string();
        assert!(missing.contains("--root-ca-file") && missing.contains("cannot be read"), "{missing}");
        for (case, text, want) in table {
            std::fs::write(&file, &text).unwrap();
            match from_file(&config) {
                Ok(read) => {
                    assert_eq!(want, "", "{case}");
                    assert_eq!(read.as_deref(), Some(text.as_str()), "{case}");
                }
                Err(problem) => {
                    let problem = problem.to_string();
                    let start = format!("--root-ca-file {}: {want}", file.display());
                    assert!(!want.is_empty() && problem.starts_with(&start), "{case}: {problem}");
                }
            }
        }
    }
}
