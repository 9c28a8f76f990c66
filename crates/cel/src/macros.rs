//! Expands macros: presence tests, and comprehensions such as `all` and `map`. Problems in an expansion are reported at the
//! bracket of the call, as in cel-go.

use smol_str::SmolStr;

use crate::ast::{Comprehension, Element, Expr, Kind, Literal};
use crate::source::Problem;

/// The accumulator of comprehensions. It is not an identifier, so expressions cannot refer to it.
pub(crate) const ACCUMULATOR: &str = "@result";

/// The accumulator in earlier versions of cel-go, which is still reserved.
const FORMER_ACCUMULATOR: &str = "__result__";

/// The variable of a comprehension over an empty list, which is never set.
const UNUSED: &str = "#unused";

/// The list that `sortBy` sorts.
const SORTED: &str = "@__sortBy_input__";

/// A call of a function, expanded if it is a macro.
pub(crate) fn global(at: usize, function: SmolStr, mut args: Vec<Expr>) -> Result<Expr, Problem> {
    if function != "has" || args.len() != 1 {
        return Ok(Expr::call(at, function, args));
    }
    match args.pop() {
        Some(Expr { kind: Kind::Select { operand, field, .. }, .. }) => {
            Ok(Expr::new(at, Kind::Select { operand, field, is_test: true }))
        }
        other => {
            let place = other.map_or(at, |arg| arg.at);
            Err(Problem::new(place, "invalid argument to has() macro"))
        }
    }
}

/// A call on a target, expanded if it is a macro.
pub(crate) fn member(at: usize, function: SmolStr, target: Expr, args: Vec<Expr>) -> Result<Expr, Problem> {
    let fold = Fold { at, range: target };
    match (function.as_str(), args.len()) {
        ("all" | "exists" | "exists_one", 2) => {
            let (variable, predicate) = fold.one_variable(args, "argument must be a simple name")?;
            Ok(fold.quantified(&function, (variable, None), predicate))
        }
        ("all" | "exists" | "exists_one" | "existsOne", 3) => {
            let (variables, mut rest) = fold.two_variables(args)?;
            let predicate = rest.pop().unwrap_or_else(|| fold.bool(true));
            Ok(fold.quantified(&function, variables, predicate))
        }
        ("map", 2 | 3) => {
            let (variable, mut rest) = fold.variable_and_rest(args, "argument is not an identifier")?;
            let transform = rest.pop().unwrap_or_else(|| fold.bool(true));
            Ok(fold.listed((variable, None), rest.pop(), transform))
        }
        ("filter", 2) => {
            let element = args.first().cloned();
            let (variable, predicate) = fold.one_variable(args, "argument is not an identifier")?;
            let element = element.unwrap_or_else(|| fold.bool(true));
            Ok(fold.listed((variable, None), Some(predicate), element))
        }
        ("transformList", 3 | 4) => {
            let (variables, mut rest) = fold.two_variables(args)?;
            let transform = rest.pop().unwrap_or_else(|| fold.bool(true));
            Ok(fold.listed(variables, rest.pop(), transform))
        }
        ("transformMap" | "transformMapEntry", 3 | 4) => {
            let (variables, mut rest) = fold.two_variables(args)?;
            let transform = rest.pop().unwrap_or_else(|| fold.bool(true));
            let mut inserted = vec![fold.accumulator()];
            if function == "transformMap" {
                inserted.push(Expr::ident(at, variables.0.clone()));
            }
            inserted.push(transform);
            let step = fold.filtered(rest.pop(), fold.call("cel.@mapInsert", inserted));
            let (start, condition, result) =
                (Expr::new(at, Kind::Map(vec![])), fold.bool(true), fold.accumulator());
            Ok(fold.over(variables, start, condition, step, result))
        }
        ("optMap" | "optFlatMap", 2) => optional_map(at, &function, fold.range, args),
        ("sortBy", 2) => sort_by(at, fold.range, args),
        _ => Ok(Expr::member(at, function, fold.range, args)),
    }
}

type Variables = (SmolStr, Option<SmolStr>);

/// Builds a comprehension.
struct Fold {
    at: usize,
    range: Expr,
}

impl Fold {
    fn one_variable(&self, args: Vec<Expr>, otherwise: &str) -> Result<(SmolStr, Expr), Problem> {
        let (variable, mut rest) = self.variable_and_rest(args, otherwise)?;
        Ok((variable, rest.pop().unwrap_or_else(|| self.bool(true))))
    }

    fn variable_and_rest(&self, args: Vec<Expr>, otherwise: &str) -> Result<(SmolStr, Vec<Expr>), Problem> {
        let mut args = args.into_iter();
        let (name, at) = self.simple_name(args.next(), otherwise)?;
        free(&name, at)?;
        Ok((name, args.collect()))
    }

    fn two_variables(&self, args: Vec<Expr>) -> Result<(Variables, Vec<Expr>), Problem> {
        let mut args = args.into_iter();
        let (first, first_at) = self.simple_name(args.next(), "argument must be a simple name")?;
        let (second, second_at) = self.simple_name(args.next(), "argument must be a simple name")?;
        if first == second {
            return Err(Problem::new(second_at, format!("duplicate variable name: {first}")));
        }
        free(&first, first_at)?;
        free(&second, second_at)?;
        Ok(((first, Some(second)), args.collect()))
    }

    fn simple_name(&self, arg: Option<Expr>, otherwise: &str) -> Result<(SmolStr, usize), Problem> {
        match arg {
            Some(Expr { at, kind: Kind::Ident(name), .. }) => Ok((name, at)),
            other => Err(Problem::new(other.map_or(self.at, |arg| arg.at), otherwise)),
        }
    }

    fn bool(&self, value: bool) -> Expr {
        Expr::literal(self.at, Literal::Bool(value))
    }

    fn int(&self, value: i64) -> Expr {
        Expr::literal(self.at, Literal::Int(value))
    }

    fn accumulator(&self) -> Expr {
        Expr::ident(self.at, SmolStr::new_static(ACCUMULATOR))
    }

    fn call(&self, function: &'static str, args: Vec<Expr>) -> Expr {
        Expr::call(self.at, function, args)
    }

    /// `step` where `filter` holds, otherwise the unchanged accumulator.
    fn filtered(&self, filter: Option<Expr>, step: Expr) -> Expr {
        match filter {
            Some(filter) => self.call("_?_:_", vec![filter, step, self.accumulator()]),
            None => step,
        }
    }

    fn quantified(self, quantifier: &str, variables: Variables, predicate: Expr) -> Expr {
        let so_far = self.accumulator();
        match quantifier {
            "all" => {
                let condition = self.call("@not_strictly_false", vec![self.accumulator()]);
                let step = self.call("_&&_", vec![so_far, predicate]);
                let (start, result) = (self.bool(true), self.accumulator());
                self.over(variables, start, condition, step, result)
            }
            "exists" => {
                let not_yet = self.call("!_", vec![self.accumulator()]);
                let condition = self.call("@not_strictly_false", vec![not_yet]);
                let step = self.call("_||_", vec![so_far, predicate]);
                let (start, result) = (self.bool(false), self.accumulator());
                self.over(variables, start, condition, step, result)
            }
            _ => {
                let one_more = self.call("_+_", vec![so_far, self.int(1)]);
                let step = self.filtered(Some(predicate), one_more);
                let result = self.call("_==_", vec![self.accumulator(), self.int(1)]);
                let (start, condition) = (self.int(0), self.bool(true));
                self.over(variables, start, condition, step, result)
            }
        }
    }

    /// A list of the results of `transform` for the elements that pass the filter.
    fn listed(self, variables: Variables, filter: Option<Expr>, transform: Expr) -> Expr {
        let added = vec![Element { value: transform, is_optional: false }];
        let more = self.call("_+_", vec![self.accumulator(), Expr::new(self.at, Kind::List(added))]);
        let step = self.filtered(filter, more);
        let (start, result) = (Expr::new(self.at, Kind::List(vec![])), self.accumulator());
        let condition = self.bool(true);
        self.over(variables, start, condition, step, result)
    }

    fn over(self, variables: Variables, start: Expr, condition: Expr, step: Expr, result: Expr) -> Expr {
        let accumulator = SmolStr::new_static(ACCUMULATOR);
        let range = self.range;
        let fold = Comprehension { range, variables, accumulator, start, condition, step, result };
        Expr::new(self.at, Kind::Comprehension(Box::new(fold)))
    }
}

fn free(name: &str, at: usize) -> Result<(), Problem> {
    match name {
        ACCUMULATOR | FORMER_ACCUMULATOR => {
            Err(Problem::new(at, "iteration variable overwrites accumulator variable"))
        }
        _ => Ok(()),
    }
}

/// `result` with the variable `name` bound to `value`, as a comprehension over an empty list.
fn bound(at: usize, name: SmolStr, value: Expr, result: Expr) -> Expr {
    let fold = Comprehension {
        range: Expr::new(at, Kind::List(vec![])),
        variables: (SmolStr::new_static(UNUSED), None),
        step: Expr::ident(at, name.clone()),
        accumulator: name,
        start: value,
        condition: Expr::literal(at, Literal::Bool(false)),
        result,
    };
    Expr::new(at, Kind::Comprehension(Box::new(fold)))
}

fn optional_map(at: usize, function: &str, target: Expr, args: Vec<Expr>) -> Result<Expr, Problem> {
    let mut args = args.into_iter();
    let name = match args.next() {
        Some(Expr { kind: Kind::Ident(name), .. }) => name,
        other => {
            let place = other.map_or(at, |arg| arg.at);
            let message = format!("{function}() variable name must be a simple identifier");
            return Err(Problem::new(place, message));
        }
    };
    let transform = args.next().unwrap_or_else(|| Expr::literal(at, Literal::Null));
    let value = Expr::member(at, "value", target.clone(), vec![]);
    let mapped = bound(at, name, value, transform);
    let mapped = if function == "optMap" { Expr::call(at, "optional.of", vec![mapped]) } else { mapped };
    let test = Expr::member(at, "hasValue", target, vec![]);
    Ok(Expr::call(at, "_?_:_", vec![test, mapped, Expr::call(at, "optional.none", vec![])]))
}

fn sort_by(at: usize, target: Expr, args: Vec<Expr>) -> Result<Expr, Problem> {
    if matches!(target.kind, Kind::Literal(_) | Kind::Map(_) | Kind::Message { .. }) {
        let message =
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err(Problem::new(target.at, message));
    }
    let input = || Expr::ident(at, SmolStr::new_static(SORTED));
    let keys = member(at, SmolStr::new_static("map"), input(), args)?;
    let sorted = Expr::member(at, "@sortByAssociatedKeys", input(), vec![keys]);
    Ok(bound(at, SmolStr::new_static(SORTED), target, sorted))
}
