//! Controllers of certificates and of bootstrap tokens.
//!
//! [`x509`] parses requests and issues certificates; [`rules`] has the rules of Kubernetes' own signers;
//! [`bootstrap_token`] parses bootstrap tokens. The rest are controllers.

pub mod approving;
pub mod bootstrap_signer;
pub mod bootstrap_token;
pub mod cleaner;
pub mod cleaning;
pub mod csr;
pub mod pod_requests;
pub mod rules;
pub mod signing;
pub mod token_cleaner;
pub mod trust_bundle;
pub mod x509;
