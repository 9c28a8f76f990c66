//! Checks and evaluates expressions in CEL, the language of admission policies and of validation rules, as Kubernetes does:
//! types, values, errors and costs are those of cel-go 0.26 in the environment of Kubernetes v1.36.
//!
//! An [`Env`] declares what an expression may refer to. [`check`] returns the type of an expression, or a report of its problems.
//! [`Program::compile`] returns a program, which can be evaluated many times: with variables that borrow the data of objects, and
//! with a budget, because users write expressions that may be too expensive.
//!
//! In the order of processing: `lexer`, `parser` (which expands `macros`), `checker` (with `unify` and the declarations in
//! `library`), `plan`, `eval` (with `functions` and `cost`).
//!
//! `check` leaves three things to the API server, which refuses a policy for them before anyone sees it: whether literals
//! of durations, of timestamps and of regular expressions are well-formed. Of several syntax errors only the first is
//! reported. Messages of protocol buffers
//! cannot be written, except for the patches of mutating policies.

pub mod admission;
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

pub use env::{Env, Fields, escaped, is_identifier};
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

/// The type of an expression, or a report of all problems, each with its line and a mark below the character.
pub fn check(expression: &str, env: &Env) -> Result<Type, String> {
    let source = Source::new(expression);
    let checked =
        if source.is_shallow() { examine(&source, env) } else { examine_on_large_stack(&source, env) };
    checked.map_err(|problems| source::render(&source, problems))
}

fn examine(source: &Source, env: &Env) -> Result<Type, Vec<Problem>> {
    let expr = parser::parse(source).map_err(|problem| vec![problem])?;
    checker::check(&expr, env)
}

/// The stack size of a thread that handles a deeply nested expression: many times more than the deepest one needs.
const STACK: usize = 64 << 20;

/// The same in a thread with a large stack, as the expression may be nested too deeply for the caller's stack.
fn examine_on_large_stack(source: &Source, env: &Env) -> Result<Type, Vec<Problem>> {
    let refused = || Err(vec![Problem::whole("not enough memory to check the expression")]);
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("cel".to_owned()).stack_size(STACK);
        let examined = builder.spawn_scoped(scope, || examine(source, env));
        examined.map_or_else(|_| refused(), |handle| handle.join().unwrap_or_else(|_| refused()))
    })
}
