//! Checks the types of CEL expressions, the language of admission policies, as Kubernetes' kube-controller-manager does:
//! which expressions are reported, and in which words, is what cel-go 0.26 does in the environment of Kubernetes v1.36.
//!
//! An [`Env`] says what an expression may refer to; [`check`] gives the type of an expression or the report of what is
//! wrong with it. Nothing is evaluated. Three things are left to the API server, which refuses a policy for them before
//! anyone sees it: whether literals of durations, of timestamps and of regular expressions are well-formed. Of several
//! syntax errors, for which it refuses a policy as well, only the first is reported.

mod ast;
mod checker;
mod env;
mod lexer;
mod library;
mod literal;
mod macros;
mod parser;
mod source;
mod types;
mod unify;

pub use env::{Env, Fields, escaped};
pub use types::Type;

/// The type of an expression, or a report of everything wrong with it: for each problem its place, the line and a mark.
pub fn check(expression: &str, env: &Env) -> Result<Type, String> {
    let source = source::Source::new(expression);
    let parsed = parser::parse(&source).map_err(|problem| vec![problem]);
    let checked = parsed.and_then(|expr| checker::check(&expr, env));
    checked.map_err(|problems| source::render(&source, problems))
}
