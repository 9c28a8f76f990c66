//! Controllers of identities: who a pod is when it talks to the API server.

pub mod root_ca;
pub mod serviceaccount;
