//! What token secrets get, lose and leave behind, and that tokens are signed as Go's library would.

mod plan;
mod signer;
