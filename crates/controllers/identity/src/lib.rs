//! Controllers of service accounts, their tokens and CA, and of aggregated roles.

pub mod clusterrole_aggregation;
pub mod legacy_token_cleaner;
pub mod root_ca;
pub mod serviceaccount;
pub mod serviceaccount_token;
pub mod token_secret;
