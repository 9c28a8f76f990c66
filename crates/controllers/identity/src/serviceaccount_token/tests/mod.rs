//! Tables for token secrets, their references and their tokens.

mod plan;
mod signer;
