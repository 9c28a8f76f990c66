//! Controllers of certificates and of the tokens by which a node first joins.
//!
//! [`x509`] reads requests and writes certificates; [`rules`] says what a signer of Kubernetes' own signs;
//! [`bootstrap_token`] what makes a secret a bootstrap token. The rest are controllers.

pub mod approving;
pub mod bootstrap_signer;
pub mod bootstrap_token;
pub mod cleaning;
pub mod csr;
pub mod pod_requests;
pub mod rules;
pub mod signing;
pub mod token_cleaner;
pub mod trust_bundle;
pub mod x509;
