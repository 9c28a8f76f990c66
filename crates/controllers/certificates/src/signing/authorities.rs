//! The certificate authority of each signer, from the files that the flags name.

use std::collections::BTreeMap;

use flyball_runtime::config::{CsrSigning, SignerFiles};
use flyball_runtime::{Fresh, StartError};

use crate::rules::Signer;
use crate::x509::Authority;

/// The authority of each signer that has one.
pub type Authorities = BTreeMap<Signer, Fresh<Authority>>;

pub fn load(config: &CsrSigning) -> Result<Authorities, StartError> {
    let files = files(config)?;
    let mut authorities = Authorities::new();
    for (signer, Files { cert, key, flags }) in files {
        let misconfigured =
            |problem: String| StartError::Misconfigured(format!("{flags} ({cert}, {key}): {problem}"));
        if cert.is_empty() || key.is_empty() {
            return Err(misconfigured("both must be given".to_owned()));
        }
        let parse = |contents: &[Vec<u8>]| match contents {
            [cert, key] => Authority::from_pem(cert, key).map_err(|error| error.to_string()),
            _ => Err("there must be two files".to_owned()),
        };
        let fresh = Fresh::new(vec![cert.into(), key.into()], parse).map_err(misconfigured)?;
        authorities.insert(signer, fresh);
    }
    Ok(authorities)
}

/// The files of a signer, and the flags that name them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Files<'a> {
    cert: &'a str,
    key: &'a str,
    flags: String,
}

/// Either one pair for all signers, or pairs for some.
fn files(config: &CsrSigning) -> Result<Vec<(Signer, Files<'_>)>, StartError> {
    let (cert, key) = (config.cluster_signing_cert_file.as_str(), config.cluster_signing_key_file.as_str());
    let own: Vec<(Signer, Files<'_>)> = Signer::ALL
        .into_iter()
        .map(|signer| (signer, own_files(config, signer)))
        .filter(|(_, files)| !files.cert.is_empty() || !files.key.is_empty())
        .collect();
    match (cert.is_empty() || key.is_empty(), own.is_empty()) {
        (true, true) => Err(StartError::NotNeeded(
            "there is no authority to sign with (--cluster-signing-cert-file and --cluster-signing-key-file)"
                .to_owned(),
        )),
        (true, false) => Ok(own),
        (false, true) => {
            let flags = "--cluster-signing-cert-file and --cluster-signing-key-file".to_owned();
            let files = Files { cert, key, flags };
            Ok(Signer::ALL.into_iter().map(|signer| (signer, files.clone())).collect())
        }
        (false, false) => Err(StartError::Misconfigured(
            "--cluster-signing-cert-file and --cluster-signing-key-file exclude the files of single signers"
                .to_owned(),
        )),
    }
}

fn own_files(config: &CsrSigning, signer: Signer) -> Files<'_> {
    let (name, SignerFiles { cert_file, key_file }) = match signer {
        Signer::KubeletServing => ("kubelet-serving", &config.kubelet_serving_signer_configuration),
        Signer::KubeletClient => ("kubelet-client", &config.kubelet_client_signer_configuration),
        Signer::ApiServerClient => {
            ("kube-apiserver-client", &config.kube_apiserver_client_signer_configuration)
        }
        Signer::LegacyUnknown => ("legacy-unknown", &config.legacy_unknown_signer_configuration),
    };
    let flags = format!("--cluster-signing-{name}-cert-file and --cluster-signing-{name}-key-file");
    Files { cert: cert_file, key: key_file, flags }
}
