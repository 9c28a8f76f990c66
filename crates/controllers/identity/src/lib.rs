//! Controllers of identities: who a pod is when it talks to the API server, and what roles allow.

pub mod clusterrole_aggregation;
pub mod legacy_token_cleaner;
pub mod root_ca;
pub mod serviceaccount;
pub mod serviceaccount_token;
pub mod token_secret;
