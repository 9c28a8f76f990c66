//! Unification: whether a type is accepted where another is expected. Type variables are bound on the way; a failed attempt leaves
//! all bindings as they were.

use crate::types::Type;

/// The bindings of the type variables of one expression.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    bound: Vec<Option<Type>>,
    /// Overwritten bindings, to restore them after a failed attempt.
    journal: Vec<(u32, Option<Type>)>,
}

impl Bindings {
    /// A new type variable.
    pub(crate) fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Var(u32::try_from(self.bound.len() - 1).unwrap_or(u32::MAX))
    }

    /// Whether a value of the type `from` is accepted where `to` is expected. If so, the variables are bound that this needs.
    pub(crate) fn assign(&mut self, from: &Type, to: &Type) -> bool {
        self.assign_all(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    /// The same for the arguments of a call.
    pub(crate) fn assign_all(&mut self, from: &[Type], to: &[Type]) -> bool {
        self.journal.clear();
        let fits = from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.fits(from, to));
        if !fits {
            while let Some((var, before)) = self.journal.pop() {
                self.put(var, before);
            }
        }
        fits
    }

    /// The type with bound variables replaced.
    pub(crate) fn resolve(&self, of: &Type) -> Type {
        match self.binding(of) {
            Some(bound) => self.resolve(bound),
            None => of.rebuilt(|part| self.resolve(part)),
        }
    }

    /// The same, with `dyn` for unbound variables.
    pub(crate) fn resolve_or_dyn(&self, of: &Type) -> Type {
        match (self.binding(of), of) {
            (Some(bound), _) => self.resolve_or_dyn(bound),
            (None, Type::Var(_) | Type::Param(_)) => Type::Dyn,
            (None, _) => of.rebuilt(|part| self.resolve_or_dyn(part)),
        }
    }

    fn binding(&self, of: &Type) -> Option<&Type> {
        match of {
            Type::Var(var) => self.bound.get(*var as usize)?.as_ref(),
            _ => None,
        }
    }

    fn bind(&mut self, var: u32, to: Type) {
        let before = self.bound.get(var as usize).cloned().flatten();
        self.journal.push((var, before));
        self.put(var, Some(to));
    }

    fn put(&mut self, var: u32, to: Option<Type>) {
        if let Some(place) = self.bound.get_mut(var as usize) {
            *place = to;
        }
    }

    fn fits(&mut self, from: &Type, to: &Type) -> bool {
        if let Type::Var(var) = to {
            match self.bind_or_agree(from, *var) {
                Agreement::Yes => return true,
                Agreement::Contradicts => return false,
                Agreement::Recursive => {}
            }
        }
        if let Type::Var(var) = from {
            return self.bind_or_agree(to, *var) == Agreement::Yes;
        }
        match (from, to) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(_), Type::List(_)) | (Type::Map(..), Type::Map(..)) => self.fit_parts(from, to),
            (Type::Opaque(one, _), Type::Opaque(other, _)) => one == other && self.fit_parts(from, to),
            _ => from == to,
        }
    }

    fn fit_parts(&mut self, from: &Type, to: &Type) -> bool {
        let (from, to) = (from.parts(), to.parts());
        from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.fits(from, to))
    }

    /// Binds the variable to `with`, or if it is bound, checks that its binding accepts `with` and makes it the more general of
    /// the two.
    fn bind_or_agree(&mut self, with: &Type, var: u32) -> Agreement {
        let open = Type::Var(var);
        if *with == open {
            return Agreement::Yes;
        }
        if let Some(bound) = self.binding(&open).cloned() {
            if *with == bound {
                return Agreement::Yes;
            }
            if !self.fits(with, &bound) {
                return Agreement::Contradicts;
            }
            let general = more_general(with, &bound).clone();
            if !self.occurs(var, &general) {
                self.bind(var, general);
            }
            return Agreement::Yes;
        }
        if self.occurs(var, with) {
            return Agreement::Recursive;
        }
        self.bind(var, with.clone());
        Agreement::Yes
    }

    /// Whether binding `var` to `within` would make it contain itself.
    fn occurs(&self, var: u32, within: &Type) -> bool {
        if *within == Type::Var(var) {
            return true;
        }
        match self.binding(within) {
            Some(bound) => self.occurs(var, bound),
            None => within.parts().into_iter().any(|part| self.occurs(var, part)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agreement {
    Yes,
    Contradicts,
    Recursive,
}

/// The less specific of two types of which one accepts the other.
pub(crate) fn more_general<'a>(one: &'a Type, other: &'a Type) -> &'a Type {
    if is_no_more_specific(one, other) { one } else { other }
}

fn is_no_more_specific(one: &Type, other: &Type) -> bool {
    let is_open = |of: &Type| matches!(of, Type::Dyn | Type::Var(_) | Type::Param(_));
    if is_open(one) || is_open(other) {
        return is_open(one);
    }
    match (one, other) {
        (Type::Type(_), Type::Type(_)) => true,
        (Type::List(_), Type::List(_)) | (Type::Map(..), Type::Map(..)) => {
            parts_are_no_more_specific(one, other)
        }
        (Type::Opaque(a, _), Type::Opaque(b, _)) => a == b && parts_are_no_more_specific(one, other),
        _ => one == other,
    }
}

fn parts_are_no_more_specific(one: &Type, other: &Type) -> bool {
    let (one, other) = (one.parts(), other.parts());
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_no_more_specific(one, other))
}
