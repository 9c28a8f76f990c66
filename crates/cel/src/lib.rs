//! Checks and evaluates expressions in CEL, the language of admission policies and of validation rules, as Kubernetes does:
//! types, values, errors and costs are those of cel-go 0.26 in the environment of Kubernetes v1.36.
//!
//! An [`Env`] says what an expression may refer to; [`check`] gives the type of an expression or the report of what is
//! wrong with it. [`Program::compile`] also makes a program of it, which is evaluated any number of times: with variables
//! that borrow the data of objects, and with a budget, because an expression that someone else wrote may try to do too much.
//!
//! `check` leaves three things to the API server, which refuses a policy for them before anyone sees it: whether literals
//! of durations, of timestamps and of regular expressions are well-formed. Of several syntax errors only the first is
//! reported. Messages of protocol buffers
//! cannot be written, except for the patches of mutating policies.

mod ast;
mod checker;
mod cost;
mod env;
mod error;
mod eval;
mod functions;
mod go;
mod lexer;
mod library;
mod literal;
mod literals;
mod macros;
mod map;
mod message;
mod opaque;
mod parser;
mod plan;
mod program;
mod schema;
mod show;
mod source;
#[cfg(test)]
mod tests;
mod time;
mod types;
mod unify;
mod value;

pub use env::{Env, Fields, escaped};
pub use error::Error;
pub use eval::Variables;
pub use functions::authz;
pub use map::{Key, Map};
pub use message::Message;
pub use opaque::{Checker, Opaque};
pub use program::{Evaluation, PER_CALL_LIMIT, Program, RUNTIME_BUDGET, Refusal};
pub use schema::Schema;
pub use types::Type;
pub use value::{List, Text, Value};

use std::thread;

use source::{Problem, Source};

/// The type of an expression, or a report of everything wrong with it: for each problem its place, the line and a mark.
pub fn check(expression: &str, env: &Env) -> Result<Type, String> {
    let source = Source::new(expression);
    let checked =
        if source.characters.len() <= SHORT { examine(&source, env) } else { examine_apart(&source, env) };
    checked.map_err(|problems| source::render(&source, problems))
}

fn examine(source: &Source, env: &Env) -> Result<Type, Vec<Problem>> {
    let expr = parser::parse(source).map_err(|problem| vec![problem])?;
    checker::check(&expr, env)
}

/// An expression of so few characters cannot be nested deeply.
const SHORT: usize = 120;

/// Enough for the deepest expression that is read, many times over.
const STACK: usize = 64 << 20;

/// The same with room of its own: an expression may be nested more deeply than the caller has room for.
fn examine_apart(source: &Source, env: &Env) -> Result<Type, Vec<Problem>> {
    let refused = || Err(vec![Problem::whole("there is no room to check the expression")]);
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("cel".to_owned()).stack_size(STACK);
        let examined = builder.spawn_scoped(scope, || examine(source, env));
        examined.map_or_else(|_| refused(), |handle| handle.join().unwrap_or_else(|_| refused()))
    })
}
