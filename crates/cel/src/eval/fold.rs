//! Folds, which the macros (`all`, `exists`, `map`, …) expand to, and the scope of their variables.

use smol_str::SmolStr;

use super::{Evaluator, Local, Outcome};
use crate::error::Error;
use crate::plan::{Fold, Node, go_type};
use crate::value::Value;

impl<'a> Evaluator<'_, 'a> {
    pub(super) fn fold(&mut self, fold: &'a Fold) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        let outside = self.scope.len();
        self.scope.push((fold.accumulator.clone(), Local::Pending(&fold.start)));
        let iterated = self.iterate(fold, &range, outside);
        self.scope.truncate(outside + 1);
        let result = iterated.and_then(|()| self.eval(&fold.result));
        self.scope.truncate(outside);
        result
    }

    fn iterate(&mut self, fold: &'a Fold, range: &Value<'a>, outside: usize) -> Result<(), Error> {
        let has_two = fold.variables.1.is_some();
        match range {
            Value::List(list) => {
                for (at, element) in list.iter().enumerate() {
                    let (first, second) = match has_two {
                        true => (Value::Int(at as i64), Some(element)),
                        false => (element, None),
                    };
                    if !self.iteration(fold, first, second, outside)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(map) => {
                for (key, value) in map.iter() {
                    if !self.iteration(fold, key, has_two.then_some(value), outside)? {
                        break;
                    }
                }
                Ok(())
            }
            other if has_two => {
                let of = go_type(other);
                Err(Error::new(format!("unsupported comprehension range type: {of}")))
            }
            other => {
                let of = go_type(other);
                Err(Error::new(format!("got '{of}', expected iterable type")))
            }
        }
    }

    /// One iteration of a fold; false if its condition no longer holds.
    fn iteration(
        &mut self,
        fold: &'a Fold,
        first: Value<'a>,
        second: Option<Value<'a>>,
        outside: usize,
    ) -> Result<bool, Error> {
        self.scope.truncate(outside + 1);
        self.scope.push((fold.variables.0.clone(), Local::Known(Ok(first))));
        if let (Some(name), Some(value)) = (&fold.variables.1, second) {
            self.scope.push((name.clone(), Local::Known(Ok(value))));
        }
        match self.eval(&fold.condition) {
            Ok(Value::Bool(false)) => return Ok(false),
            Err(error) if error.is_final() => return Err(error),
            _ => {}
        }
        let next = self.eval(&fold.step);
        if let Err(error) = &next
            && error.is_final()
        {
            return Err(error.clone());
        }
        if let Some((_, slot)) = self.scope.get_mut(outside) {
            *slot = Local::Known(next);
        }
        Ok(true)
    }

    pub(super) fn lookup(&mut self, name: &SmolStr) -> Outcome<'a> {
        let Some(at) = self.scope.iter().rposition(|(known, _)| known == name) else {
            let found = self.variables.get(name);
            return found.ok_or_else(|| Error::new(format!("no such attribute(s): {name}")));
        };
        match &self.scope[at].1 {
            Local::Known(value) => value.clone(),
            Local::Pending(start) => {
                let start: &'a Node = start;
                // The start value is evaluated outside of the fold.
                let hidden: Vec<_> = self.scope.drain(at..).collect();
                let value = self.eval(start);
                self.scope.truncate(at);
                self.scope.extend(hidden);
                if let Some((_, slot)) = self.scope.get_mut(at) {
                    *slot = Local::Known(value.clone());
                }
                value
            }
        }
    }
}
