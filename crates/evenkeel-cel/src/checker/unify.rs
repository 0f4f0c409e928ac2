//! Assignability of types, and the substitution of type variables.

use std::collections::HashMap;
use std::sync::Arc;

use crate::types::Type;

/// The types of type variables.
///
/// Attempts that fail are undone with a journal, so that an attempt costs what it changes.
#[derive(Debug, Default)]
pub(super) struct Mapping {
    known: HashMap<Arc<str>, Type>,
    journal: Vec<(Arc<str>, Option<Type>)>,
}

impl Mapping {
    pub(super) fn insert(&mut self, name: Arc<str>, of: Type) {
        let old = self.known.insert(Arc::clone(&name), of);
        self.journal.push((name, old));
    }

    fn find(&self, of: &Type) -> Option<&Type> {
        match of {
            Type::Param(name) => self.known.get(name),
            _ => None,
        }
    }

    fn attempt(&mut self, attempt: impl FnOnce(&mut Self) -> bool) -> bool {
        let mark = self.journal.len();
        let succeeded = attempt(self);
        if !succeeded {
            while self.journal.len() > mark {
                match self.journal.pop() {
                    Some((name, Some(old))) => self.known.insert(name, old),
                    Some((name, None)) => self.known.remove(&name),
                    None => None,
                };
            }
        }
        succeeded
    }
}

/// Returns whether the types agree, and keeps what that says about type variables.
pub(super) fn assignable(mapping: &mut Mapping, a: &Type, b: &Type) -> bool {
    mapping.attempt(|mapping| agrees(mapping, a, b))
}

pub(super) fn assignable_all(mapping: &mut Mapping, a: &[Type], b: &[Type]) -> bool {
    mapping.attempt(|mapping| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| agrees(mapping, a, b)))
}

fn agrees(mapping: &mut Mapping, a: &Type, b: &Type) -> bool {
    if let Type::Param(name) = b {
        let (valid, has_substitution) = substitutes(mapping, a, name);
        if valid {
            return true;
        }
        if has_substitution {
            return false;
        }
    }
    if let Type::Param(name) = a {
        return substitutes(mapping, b, name).0;
    }
    if a.is_dyn_or_error() || b.is_dyn_or_error() {
        return true;
    }
    let nullable =
        |of: &Type| matches!(of, Type::Null | Type::Opaque(..) | Type::Object(_) | Type::Duration | Type::Timestamp);
    if matches!(a, Type::Null) {
        return nullable(b);
    }
    if matches!(b, Type::Null) {
        return nullable(a);
    }
    match (a, b) {
        (Type::Type(_), Type::Type(_)) => true,
        (Type::List(a), Type::List(b)) => agrees(mapping, a, b),
        (Type::Map(a, b), Type::Map(c, d)) => agrees(mapping, a, c) && agrees(mapping, b, d),
        (Type::Opaque(a, of), Type::Opaque(b, other)) => {
            a == b && of.len() == other.len() && of.iter().zip(&**other).all(|(a, b)| agrees(mapping, a, b))
        }
        _ => a == b,
    }
}

/// Returns whether a type can stand for a variable, and whether the variable had a type already.
fn substitutes(mapping: &mut Mapping, of: &Type, variable: &Arc<str>) -> (bool, bool) {
    if matches!(of, Type::Param(name) if name == variable) {
        return (true, true);
    }
    if let Some(known) = mapping.known.get(variable).cloned() {
        if *of == known {
            return (true, true);
        }
        if agrees(mapping, of, &known) {
            let general = most_general(of, &known).clone();
            if !occurs(mapping, variable, &general) {
                mapping.insert(Arc::clone(variable), general);
            }
            return (true, true);
        }
        return (false, true);
    }
    if occurs(mapping, variable, of) {
        return (false, false);
    }
    mapping.insert(Arc::clone(variable), of.clone());
    (true, false)
}

/// Returns whether a variable is part of a type.
fn occurs(mapping: &Mapping, variable: &Arc<str>, within: &Type) -> bool {
    match within {
        Type::Param(name) if name == variable => true,
        Type::Param(_) => mapping.find(within).is_some_and(|of| occurs(mapping, variable, of)),
        other => other.parameters().into_iter().any(|of| occurs(mapping, variable, of)),
    }
}

/// Returns the more general of two types that agree.
pub(super) fn most_general<'t>(a: &'t Type, b: &'t Type) -> &'t Type {
    if is_less_specific(a, b) { a } else { b }
}

fn is_less_specific(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::Type(_), Type::Type(_)) => true,
        (Type::List(a), Type::List(b)) => is_less_specific(a, b),
        (Type::Map(a, b), Type::Map(c, d)) => is_less_specific(a, c) && is_less_specific(b, d),
        (Type::Opaque(a, of), Type::Opaque(b, other)) => {
            a == b && of.len() == other.len() && of.iter().zip(&**other).all(|(a, b)| is_less_specific(a, b))
        }
        _ => a == b,
    }
}

/// Replaces the variables that have types; the others by `dyn` if asked to.
pub(super) fn substitute(mapping: &Mapping, of: &Type, free_to_dyn: bool) -> Type {
    if let Some(known) = mapping.find(of) {
        return substitute(mapping, known, free_to_dyn);
    }
    let inner = |of: &Type| substitute(mapping, of, free_to_dyn);
    match of {
        Type::Param(_) if free_to_dyn => Type::Dyn,
        Type::List(item) => Type::list(inner(item)),
        Type::Map(key, value) => Type::map(inner(key), inner(value)),
        Type::Type(Some(of)) => Type::Type(Some(Arc::new(inner(of)))),
        Type::Opaque(name, params) if !params.is_empty() => Type::Opaque(name, params.iter().map(inner).collect()),
        other => other.clone(),
    }
}
