//! The type checker. A mistake is reported once: an expression with a mistake has the type [`Type::Error`], which is accepted
//! everywhere.

use smol_str::SmolStr;

use crate::ast::{Comprehension, Element, Entry, Expr, Field, Kind, Literal, Reference};
use crate::env::Env;
use crate::library::{self, Overload};
use crate::source::Problem;
use crate::types::Type;
use crate::unify::{Bindings, more_general};

/// The type of an expression, or all problems in it.
pub(crate) fn check(expr: &Expr, env: &Env) -> Result<Type, Vec<Problem>> {
    let mut checker = Checker::new(env);
    let found = checker.check(expr);
    if checker.problems.is_empty() {
        checker.require_one_type_in_literals();
    }
    if checker.problems.is_empty() {
        Ok(checker.bindings.resolve_or_dyn(&found))
    } else {
        Err(checker.problems)
    }
}

/// The function that only expressions know which make patches.
const ESCAPE_KEY: &str = "jsonpatch.escapeKey";

struct Checker<'a> {
    env: &'a Env,
    /// Variables of the enclosing comprehensions, innermost last.
    scope: Vec<(SmolStr, Type)>,
    bindings: Bindings,
    problems: Vec<Problem>,
    /// Elements of list and map literals. Those of one literal must have the same type when all types are known.
    siblings: Vec<Siblings>,
    /// The number of enclosing calls of `format`, whose list may have elements of several types.
    in_format: usize,
}

struct Siblings {
    members: Vec<(usize, Type)>,
    /// Whether all elements of another type than the first are reported, or only one.
    reports_all: bool,
}

impl<'a> Checker<'a> {
    fn new(env: &'a Env) -> Self {
        Self {
            env,
            scope: vec![],
            bindings: Bindings::default(),
            problems: vec![],
            siblings: vec![],
            in_format: 0,
        }
    }

    fn report(&mut self, at: usize, message: String) {
        self.problems.push(Problem::new(at, message));
    }

    fn mismatch(&mut self, at: usize, wanted: &Type, found: &Type) {
        self.report(at, format!("expected type '{wanted}' but found '{found}'"));
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Type {
        self.report(at, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn check(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            Kind::Literal(literal) => of_literal(literal),
            Kind::Ident(name) => match self.name(name) {
                Some(declared) => self.record_reference(expr, name, declared),
                None => self.undeclared(expr.at, name),
            },
            Kind::Select { operand, field, is_test } => self.select(expr, operand, field, *is_test),
            Kind::Call { function, target, args } => {
                let is_format = usize::from(function == "format");
                self.in_format += is_format;
                let found = self.call(expr, function, target.as_deref(), args);
                self.in_format -= is_format;
                found
            }
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Message { name, fields } => self.message(expr.at, name, fields),
            Kind::Comprehension(fold) => self.comprehension(fold),
        }
    }

    fn name(&self, name: &str) -> Option<Type> {
        let plain = name.strip_prefix('.').unwrap_or(name);
        let local = self.scope.iter().rev().find(|(known, _)| known == plain);
        local.map(|(_, declared)| declared.clone()).or_else(|| self.env.name(plain))
    }

    /// Records what a name refers to.
    fn record_reference(&self, expr: &Expr, name: &str, declared: Type) -> Type {
        let name = name.strip_prefix('.').unwrap_or(name);
        let is_variable = self.scope.iter().any(|(known, _)| known == name) || self.env.is_variable(name);
        expr.set_reference(match &declared {
            Type::Type(Some(of)) if !is_variable => Reference::Type(Type::clone(of)),
            Type::Type(None) if !is_variable => Reference::Type(declared.clone()),
            _ => Reference::Variable(name.into()),
        });
        declared
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, is_test: bool) -> Type {
        if let Some(name) = expr.qualified_name()
            && let Some(declared) = self.name(&name)
        {
            return self.record_reference(expr, &name, declared);
        }
        let found = self.field(expr.at, operand, field, false);
        if is_test { Type::Bool } else { self.bindings.resolve(&found) }
    }

    /// The type of a field. It is optional for `a.?b`, and if the operand is optional.
    fn field(&mut self, at: usize, operand: &Expr, field: &str, as_optional: bool) -> Type {
        let operand = self.check(operand);
        let operand = self.bindings.resolve(&operand);
        let held = operand.optional_value();
        let found = self.field_of(at, held.unwrap_or(&operand), field);
        if as_optional || held.is_some() { Type::optional(found) } else { found }
    }

    fn field_of(&mut self, at: usize, target: &Type, field: &str) -> Type {
        match target {
            Type::Map(_, value) => Type::clone(value),
            Type::Object(name) => match (self.env.fields(name), self.env.field(name, field)) {
                (_, Some(declared)) => declared.clone(),
                (Some(_), None) => {
                    self.report(at, format!("undefined field '{field}'"));
                    Type::Error
                }
                (None, None) => {
                    self.report(at, format!("unexpected failed resolution of '{name}'"));
                    Type::Error
                }
            },
            Type::Var(_) => {
                self.bindings.assign(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            _ => {
                self.report(at, format!("type '{target}' does not support field selection"));
                Type::Dyn
            }
        }
    }

    fn call(&mut self, expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr]) -> Type {
        let at = expr.at;
        if let ("_?._", [operand, Expr { kind: Kind::Literal(Literal::String(field)), .. }]) =
            (function, args)
        {
            let found = self.field(at, operand, field, true);
            return self.bindings.resolve(&found);
        }
        let mut given: Vec<Type> = args.iter().map(|arg| self.check(arg)).collect();
        let Some(target) = target else {
            return match library::function(function.strip_prefix('.').unwrap_or(function)) {
                Some((name, overloads)) => self.resolve(expr, name, overloads, false, &given, args),
                None => self.undeclared(at, function),
            };
        };
        // Given a.b.c() either a.b.c is a function, or c is one with target a.b.
        let qualified = target.qualified_name().map(|prefix| format!("{prefix}.{function}"));
        let qualified = qualified.and_then(|name| library::function(name.strip_prefix('.').unwrap_or(&name)));
        let qualified = qualified.filter(|(name, _)| *name != ESCAPE_KEY || self.env.makes_patches());
        if let Some((name, overloads)) = qualified {
            return self.resolve(expr, name, overloads, false, &given, args);
        }
        given.insert(0, self.check(target));
        match library::function(function) {
            Some((name, overloads)) => self.resolve(expr, name, overloads, true, &given, args),
            None => self.undeclared(at, function),
        }
    }

    /// The type of a call: the result type of the overloads that accept the arguments, or `dyn` if their result types differ.
    fn resolve(
        &mut self,
        expr: &Expr,
        name: &'static str,
        overloads: &'static [Overload],
        is_member: bool,
        given: &[Type],
        args: &[Expr],
    ) -> Type {
        if matches!(name, "_&&_" | "_||_") {
            expr.set_reference(Reference::Function { name, is_member, overload: None });
            return self.logical(given, args);
        }
        let mut found: Option<Type> = None;
        let mut fitting: Vec<&'static Overload> = vec![];
        for overload in overloads.iter().filter(|overload| overload.is_member == is_member) {
            let (wanted, result) = overload.instance(&mut self.bindings);
            if !self.bindings.assign_all(given, &wanted) {
                continue;
            }
            fitting.push(overload);
            let result = self.bindings.resolve(&result);
            found = Some(match found {
                None => result,
                Some(before) if before == Type::Dyn || before == result => before,
                Some(_) => Type::Dyn,
            });
        }
        let overload = if let [only] = fitting.as_slice() { Some(*only) } else { None };
        expr.set_reference(Reference::Function { name, is_member, overload });
        found.unwrap_or_else(|| {
            let given: Vec<String> =
                given.iter().map(|of| self.bindings.resolve_or_dyn(of).to_string()).collect();
            let shown = match given.split_first() {
                Some((target, args)) if is_member => format!("{target}.({})", args.join(", ")),
                _ => format!("({})", given.join(", ")),
            };
            self.report(expr.at, format!("found no matching overload for '{name}' applied to '{shown}'"));
            Type::Error
        })
    }

    fn logical(&mut self, given: &[Type], args: &[Expr]) -> Type {
        let mut found = Type::Bool;
        for (arg, of) in args.iter().zip(given) {
            if !self.bindings.assign(of, &Type::Bool) {
                self.mismatch(arg.at, &Type::Bool, of);
                found = Type::Error;
            }
        }
        found
    }

    fn list(&mut self, elements: &[Element]) -> Type {
        let (mut joined, mut members) = (None, vec![]);
        for element in elements {
            let of = self.member(&element.value, element.is_optional);
            members.push((element.value.at, of.clone()));
            joined = Some(self.joined(joined, of));
        }
        self.must_agree(members, false);
        Type::list(joined.unwrap_or_else(|| self.bindings.fresh()))
    }

    fn map(&mut self, entries: &[Entry]) -> Type {
        let (mut key, mut value, mut keys, mut values) = (None, None, vec![], vec![]);
        for entry in entries {
            let of = self.check(&entry.key);
            keys.push((entry.key.at, of.clone()));
            key = Some(self.joined(key, of));
            let of = self.member(&entry.value, entry.is_optional);
            values.push((entry.value.at, of.clone()));
            value = Some(self.joined(value, of));
        }
        self.must_agree(keys, true);
        self.must_agree(values, true);
        let key = key.unwrap_or_else(|| self.bindings.fresh());
        Type::map(key, value.unwrap_or_else(|| self.bindings.fresh()))
    }

    fn must_agree(&mut self, members: Vec<(usize, Type)>, reports_all: bool) {
        if self.in_format == 0 {
            self.siblings.push(Siblings { members, reports_all });
        }
    }

    /// The type of an element of a literal; of an optional element, the type of its value.
    fn member(&mut self, value: &Expr, is_optional: bool) -> Type {
        let of = self.check(value);
        match (is_optional, of.optional_value()) {
            (true, Some(held)) => held.clone(),
            (true, None) if of != Type::Dyn => {
                self.mismatch(value.at, &Type::optional(of.clone()), &of);
                of
            }
            _ => of,
        }
    }

    /// The element type of a literal that has one more element. It is `dyn` if the types differ, which is reported at the end of
    /// the check ([`Self::require_one_type_in_literals`]).
    fn joined(&mut self, before: Option<Type>, next: Type) -> Type {
        let Some(before) = before else { return next };
        if self.bindings.assign(&before, &next) { more_general(&before, &next).clone() } else { Type::Dyn }
    }

    /// Messages can be written only of types that the environment declares.
    fn message(&mut self, at: usize, name: &str, fields: &[Field]) -> Type {
        let Some(declared) = self.name(name) else { return self.undeclared(at, name) };
        let made = match &declared {
            Type::Error => Type::Error,
            Type::Type(Some(of)) if matches!(**of, Type::Object(_)) => Type::clone(of),
            Type::Type(Some(of)) => {
                self.report(at, format!("'{of}' is not a message type"));
                Type::Error
            }
            other => {
                self.report(at, format!("'{other}' is not a type"));
                Type::Error
            }
        };
        for field in fields {
            let value = self.member(&field.value, field.is_optional);
            let Type::Object(_) = &made else { continue };
            let wanted = self.field_of(field.at, &made, &field.name);
            if !self.bindings.assign(&wanted, &value) {
                let name = &field.name;
                let message =
                    format!("expected type of field '{name}' is '{wanted}' but provided type is '{value}'");
                self.report(field.at, message);
            }
        }
        made
    }

    fn comprehension(&mut self, fold: &Comprehension) -> Type {
        let range = self.check(&fold.range);
        let start = self.check(&fold.start);
        let range = self.bindings.resolve(&range);
        let outside = self.scope.len();
        self.scope.push((fold.accumulator.clone(), start.clone()));
        let (first, second) = self.variable_types(&range, fold);
        let (name, other_name) = &fold.variables;
        self.scope.push((name.clone(), first));
        if let Some(other_name) = other_name {
            self.scope.push((other_name.clone(), second));
        }
        let condition = self.check(&fold.condition);
        self.require(fold.condition.at, &Type::Bool, &condition);
        let step = self.check(&fold.step);
        self.require(fold.step.at, &start, &step);
        self.scope.truncate(outside + 1);
        let result = self.check(&fold.result);
        self.scope.truncate(outside);
        self.bindings.resolve(&result)
    }

    /// The types of the one or two variables of a comprehension.
    fn variable_types(&mut self, range: &Type, fold: &Comprehension) -> (Type, Type) {
        let has_two = fold.variables.1.is_some();
        match range {
            Type::List(element) if has_two => (Type::Int, Type::clone(element)),
            Type::List(element) => (Type::clone(element), Type::Error),
            Type::Map(key, value) => (Type::clone(key), Type::clone(value)),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.bindings.assign(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            _ => {
                let message = format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(fold.range.at, message);
                (Type::Error, Type::Error)
            }
        }
    }

    fn require(&mut self, at: usize, wanted: &Type, found: &Type) {
        if !self.bindings.assign(wanted, found) {
            self.mismatch(at, wanted, found);
        }
    }

    /// Reports literals with elements of several types. Here `dyn` is a type like others: `[1, dyn(1)]` is a mistake.
    fn require_one_type_in_literals(&mut self) {
        for siblings in std::mem::take(&mut self.siblings) {
            let mut members =
                siblings.members.into_iter().map(|(at, of)| (at, self.bindings.resolve_or_dyn(&of)));
            let Some((_, first)) = members.next() else { continue };
            let odd: Vec<(usize, Type)> = members.filter(|(_, of)| *of != first).collect();
            let shown = if siblings.reports_all { odd.len() } else { 1 };
            for (at, of) in odd.into_iter().take(shown) {
                self.mismatch(at, &first, &of);
            }
        }
    }
}

fn of_literal(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
