//! Expressions that are parsed, checked and planned once, and evaluated many times.

use std::collections::BTreeSet;
use std::thread;

use smol_str::SmolStr;

use crate::checker;
use crate::env::Env;
use crate::error::Error;
use crate::eval::{Evaluator, Outcome, Variables};
use crate::literals;
use crate::plan::{self, Node};
use crate::source::{self, Problem, Source};
use crate::types::Type;
use crate::value::Value;
use crate::{STACK, parser};

/// An expression that can be evaluated.
#[derive(Debug)]
pub struct Program {
    root: Node,
    of: Type,
    depth: usize,
    /// The variables that it refers to.
    names: BTreeSet<SmolStr>,
}

/// The limit on the cost of one evaluation, as in Kubernetes.
pub const PER_CALL_LIMIT: u64 = 1_000_000;

/// The limit on the cost of all evaluations for one object in one request, as in Kubernetes.
pub const RUNTIME_BUDGET: u64 = 10_000_000;

/// Why an expression cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A report of its problems.
    Compilation(String),
    /// It has valid types, but cannot be evaluated.
    Program(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Compilation(report) => f.write_str(report),
            Self::Program(why) => write!(f, "program instantiation failed: {why}"),
        }
    }
}

/// An evaluation's result and what it cost.
#[derive(Debug)]
pub struct Evaluation<'a> {
    pub outcome: Result<Value<'a>, Error>,
    pub cost: u64,
}

/// Deeper programs are evaluated in a thread with a large stack.
const SHALLOW: usize = 24;

impl Program {
    /// Parses, checks and plans an expression.
    pub fn compile(expression: &str, env: &Env) -> Result<Self, Refusal> {
        let source = Source::new(expression);
        if source.is_shallow() {
            return compile(&source, env);
        }
        let no_stack = || Err(Refusal::Compilation("not enough memory to check the expression".to_owned()));
        thread::scope(|scope| {
            let builder = thread::Builder::new().name("cel".to_owned()).stack_size(STACK);
            let compiled = builder.spawn_scoped(scope, || compile(&source, env));
            compiled.map_or_else(|_| no_stack(), |handle| handle.join().unwrap_or_else(|_| no_stack()))
        })
    }

    /// Whether it refers to this variable.
    pub fn refers_to(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub fn result_type(&self) -> &Type {
        &self.of
    }

    /// Evaluates the program with these variables. Fails when the cost exceeds `budget`.
    pub fn evaluate<'a>(&'a self, variables: &(dyn Variables<'a> + Sync), budget: u64) -> Evaluation<'a> {
        if self.depth <= SHALLOW {
            return self.run(variables, budget);
        }
        let no_stack = || Evaluation {
            outcome: Err(Error::new_final("not enough memory to evaluate the expression")),
            cost: 0,
        };
        thread::scope(|scope| {
            let builder = thread::Builder::new().name("cel".to_owned()).stack_size(STACK);
            let evaluated = builder.spawn_scoped(scope, || self.run(variables, budget));
            evaluated.map_or_else(|_| no_stack(), |handle| handle.join().unwrap_or_else(|_| no_stack()))
        })
    }

    fn run<'a>(&'a self, variables: &(dyn Variables<'a> + Sync), budget: u64) -> Evaluation<'a> {
        let mut evaluator = Evaluator { variables, scope: vec![], cost: 0, budget };
        let outcome: Outcome<'a> = evaluator.eval(&self.root);
        Evaluation { outcome, cost: evaluator.cost }
    }
}

fn compile(source: &Source, env: &Env) -> Result<Program, Refusal> {
    let refused = |problems: Vec<Problem>| Refusal::Compilation(source::render(source, problems));
    let expr = parser::parse(source).map_err(|problem| refused(vec![problem]))?;
    let of = checker::check(&expr, env).map_err(refused)?;
    let malformed = literals::malformed(&expr);
    if !malformed.is_empty() {
        return Err(refused(malformed));
    }
    let root = plan::plan(&expr).map_err(|error| Refusal::Program(error.to_string()))?;
    let depth = plan::depth(&root);
    Ok(Program { root, of, depth, names: literals::names(&expr) })
}
