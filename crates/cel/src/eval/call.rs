//! Calls of functions: which arguments are evaluated, and what the call costs.

use std::sync::Arc;

use super::{Evaluator, Local, Outcome};
use crate::error::Error;
use crate::functions;
use crate::macros::ACCUMULATOR;
use crate::plan::Call;
use crate::value::{List, Value};

impl<'a> Evaluator<'_, 'a> {
    pub(super) fn call(&mut self, call: &'a Call) -> Outcome<'a> {
        if call.name == "@not_strictly_false" {
            let value = self.arg(call, 0);
            if let Err(error) = &value
                && error.is_final()
            {
                return value;
            }
            self.charge(1)?;
            return Ok(Value::Bool(!matches!(value, Ok(Value::Bool(false)))));
        }
        if matches!(call.name, "or" | "orValue") {
            return self.alternative(call);
        }
        // As in cel-go: a call of one or two arguments evaluates all of them; a longer one ends at the first error, and is
        // charged only if that is in the last argument.
        let is_short =
            call.args.len() <= 2 && call.pattern.is_none() && !matches!(call.name, "format" | "findAll");
        let mut args = Vec::with_capacity(call.args.len());
        let mut failed: Option<Error> = None;
        for at in 0..call.args.len() {
            match self.arg(call, at) {
                Err(error) if error.is_final() || !is_short && at + 1 < call.args.len() => return Err(error),
                Err(error) => {
                    failed = failed.or(Some(error));
                    args.push(None);
                }
                Ok(value) => args.push(Some(value)),
            }
        }
        if let Some(error) = failed {
            let cost = call.cost.of_failed(&args);
            self.charge(cost)?;
            return Err(error);
        }
        let mut args: Vec<Value<'a>> = args.into_iter().flatten().collect();
        let known = call.cost.before(&args);
        self.afford(known)?;
        let result = functions::apply(call, &mut args);
        let cost = call.cost.of(known, &args, &result);
        if !matches!(&result, Err(error) if error.is_final()) {
            self.charge(cost)?;
        }
        result
    }

    /// `or` and `orValue` evaluate their argument only if the target is absent, and cost nothing.
    fn alternative(&mut self, call: &'a Call) -> Outcome<'a> {
        match self.arg(call, 0)? {
            Value::Optional(Some(value)) if call.name == "orValue" => Ok(Value::clone(&value)),
            Value::Optional(None) => self.arg(call, 1),
            present => Ok(present),
        }
    }

    /// Refuses a call that would exceed the budget, before it is made.
    fn afford(&mut self, known: Option<u64>) -> Result<(), Error> {
        match known {
            Some(cost) if self.cost.saturating_add(cost) > self.budget => self.charge(cost),
            _ => Ok(()),
        }
    }

    /// Evaluates an argument. If the call extends the accumulator, the accumulator is moved out of the scope, so that it can be
    /// extended in place.
    fn arg(&mut self, call: &'a Call, at: usize) -> Outcome<'a> {
        let Some(node) = call.args.get(at) else { return Err(Error::no_such_overload()) };
        if at > 0 || !call.extends_accumulator {
            return self.eval(node);
        }
        let value = self.eval(node);
        let slot = self.scope.iter_mut().rev().find(|(name, _)| name == ACCUMULATOR);
        if let Some((_, slot)) = slot {
            *slot = Local::Known(Ok(Value::Null));
        }
        value
    }
}

/// Appends to a list, in place if it is not shared.
pub(crate) fn extended<'a>(list: List<'a>, more: &List<'a>) -> List<'a> {
    match list {
        List::Made(mut elements) => {
            Arc::make_mut(&mut elements).extend(more.iter());
            List::Made(elements)
        }
        other => List::Made(Arc::new(other.iter().chain(more.iter()).collect())),
    }
}
