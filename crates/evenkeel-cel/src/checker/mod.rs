//! The type checker: gives every node a type and every call its overloads, with the messages of cel-go.

mod unify;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use unify::{Mapping, assignable, assignable_all, most_general, substitute};

use crate::ast::{Expr, ExprId, ExprKind, Literal};
use crate::environment::Environment;
use crate::library::{self, Function, opaque};
use crate::source::{Issue, Source};
use crate::types::Type;

/// What the checker found out about an expression.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    types: Vec<Option<Type>>,
}

impl Checked {
    pub(crate) fn type_of(&self, id: ExprId) -> &Type {
        self.types.get(id as usize).and_then(Option::as_ref).unwrap_or(&Type::Dyn)
    }
}

/// Checks an expression. Rewrites calls of functions with dotted names.
pub(crate) fn check(
    root: &mut Expr,
    offsets: &[u32],
    source: &Source,
    environment: &Environment,
) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        environment,
        source,
        offsets,
        checked: Checked { types: vec![None; offsets.len()] },
        mapping: Mapping::default(),
        locals: Vec::new(),
        next_variable: 0,
        issues: Vec::new(),
    };
    checker.check(root);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let Checker { mut checked, mapping, .. } = checker;
    for known in checked.types.iter_mut().flatten() {
        *known = substitute(&mapping, known, true);
    }
    Ok(checked)
}

struct Checker<'e> {
    environment: &'e Environment,
    source: &'e Source,
    offsets: &'e [u32],
    checked: Checked,
    mapping: Mapping,
    locals: Vec<(String, Type)>,
    next_variable: usize,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn error(&mut self, id: ExprId, message: String) {
        let offset = self.offsets.get(id as usize).copied().unwrap_or(0);
        self.issues.push(Issue { location: self.source.location(offset), message });
    }

    fn set(&mut self, id: ExprId, of: Type) {
        if !is_within(&of, &mut { MAX_TYPE_NODES }) {
            self.error(id, "the type of the expression is too large".to_owned());
            return self.set(id, Type::Error);
        }
        if let Some(known) = self.checked.types.get_mut(id as usize) {
            *known = Some(of);
        }
    }

    fn get(&self, expr: &Expr) -> Type {
        self.checked.types.get(expr.id as usize).cloned().flatten().unwrap_or(Type::Error)
    }

    fn fresh(&mut self) -> Type {
        self.next_variable += 1;
        Type::param(&format!("_var{}", self.next_variable - 1))
    }

    fn assignable(&mut self, to: &Type, from: &Type) -> bool {
        assignable(&mut self.mapping, to, from)
    }

    fn undeclared(&mut self, id: ExprId, name: &str) {
        self.set(id, Type::Error);
        self.error(id, format!("undeclared reference to '{name}' (in container '')"));
    }

    fn check(&mut self, expr: &mut Expr) {
        let id = expr.id;
        match &mut expr.kind {
            ExprKind::Literal(literal) => {
                let of = match literal {
                    Literal::Null => Type::Null,
                    Literal::Bool(_) => Type::Bool,
                    Literal::Int(_) => Type::Int,
                    Literal::Uint(_) => Type::Uint,
                    Literal::Double(_) => Type::Double,
                    Literal::String(_) => Type::String,
                    Literal::Bytes(_) => Type::Bytes,
                };
                self.set(id, of);
            }
            ExprKind::Ident(name) => match self.variable(name) {
                Some(of) => self.set(id, of),
                None => {
                    let name = name.clone();
                    self.undeclared(id, &name);
                }
            },
            ExprKind::Select { .. } => self.check_select(expr),
            ExprKind::Call(_) => self.check_call(expr),
            ExprKind::List { .. } => self.check_list(expr),
            ExprKind::Map(_) => self.check_map(expr),
            ExprKind::Struct { .. } => self.check_struct(expr),
            ExprKind::Comprehension(_) => self.check_comprehension(expr),
        }
    }

    /// Returns the type of a variable, or of the name of a type.
    fn variable(&self, name: &str) -> Option<Type> {
        let plain = name.strip_prefix('.').unwrap_or(name);
        let local = self.locals.iter().rev().find(|(known, _)| known == name).map(|(_, of)| of.clone());
        local
            .or_else(|| self.environment.variable_type(plain).cloned())
            .or_else(|| type_name(plain).map(|of| Type::Type(Some(Arc::new(of)))))
    }

    fn check_select(&mut self, expr: &mut Expr) {
        let id = expr.id;
        if let Some(name) = expr.qualified_name()
            && let Some(of) = self.qualified_variable(&name)
        {
            expr.kind = ExprKind::Ident(name);
            self.set(id, of);
            return;
        }
        let ExprKind::Select { operand, field, test_only } = &mut expr.kind else { return };
        let (field, test_only) = (field.clone(), *test_only);
        let of = self.field_type(id, operand, &field, false);
        let of = if test_only { Type::Bool } else { substitute(&self.mapping, &of, false) };
        self.set(id, of);
    }

    /// Returns the type of a variable with a dotted name.
    fn qualified_variable(&self, name: &str) -> Option<Type> {
        // A local variable hides variables whose names start with its own.
        let first = name.split('.').next().unwrap_or(name);
        if self.locals.iter().any(|(known, _)| known == first) {
            return None;
        }
        let declared = self.environment.variable_type(name).cloned();
        declared.or_else(|| type_name(name).map(|of| Type::Type(Some(Arc::new(of)))))
    }

    fn field_type(&mut self, id: ExprId, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let whole = substitute(&self.mapping, &self.get(operand), false);
        let (target, was_optional) = match whole.unwrap_optional() {
            Some(inner) => (inner.clone(), true),
            None => (whole, false),
        };
        let found = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => match object.field_type(field) {
                Some(of) => of,
                None => {
                    self.error(id, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Param(_) => {
                self.assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.error(id, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if was_optional || optional { Type::optional(found) } else { found }
    }

    fn check_call(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Call(call) = &mut expr.kind else { return };
        if call.function == "_?._" {
            let [operand, field] = call.args.as_mut_slice() else { return };
            let ExprKind::Literal(Literal::String(name)) = &field.kind else {
                return self.error(field.id, "unsupported optional field selection".to_owned());
            };
            let name = Arc::clone(name);
            self.set(field.id, Type::String);
            let of = self.field_type(id, operand, &name, true);
            let of = substitute(&self.mapping, &of, false);
            return self.set(id, of);
        }
        for arg in &mut call.args {
            self.check(arg);
        }
        if let Some(target) = &call.target
            && let Some(prefix) = target.qualified_name()
            && let Some(function) = self.function(&format!("{}.{}", prefix.trim_start_matches('.'), call.function))
        {
            call.function = function.name.to_owned();
            call.target = None;
        }
        if let Some(target) = &mut call.target {
            self.check(target);
        }
        let name = call.function.strip_prefix('.').unwrap_or(&call.function);
        match self.function(name) {
            Some(function) => self.resolve(expr, function),
            None => {
                let name = call.function.clone();
                self.undeclared(id, &name);
            }
        }
    }

    fn function(&self, name: &str) -> Option<&'static Function> {
        let function = library::lookup(name)?;
        if library::is_for_patches(name) && !self.environment.has_patch_types() {
            return None;
        }
        function.overloads.iter().any(|overload| overload.since <= self.environment.release()).then_some(function)
    }

    fn resolve(&mut self, expr: &mut Expr, function: &'static Function) {
        let ExprKind::Call(call) = &mut expr.kind else { return };
        let id = expr.id;
        let mut args: Vec<Type> = Vec::with_capacity(call.args.len() + 1);
        args.extend(call.target.as_ref().map(|target| self.get(target)));
        args.extend(call.args.iter().map(|arg| self.get(arg)));
        if matches!(function.name, "_&&_" | "_||_") {
            let mut is_bool = true;
            for (arg, of) in call.args.iter().zip(&args) {
                if !self.assignable(of, &Type::Bool) {
                    self.error(arg.id, format!("expected type 'bool' but found '{of}'"));
                    is_bool = false;
                }
            }
            return self.set(id, if is_bool { Type::Bool } else { Type::Error });
        }
        let mut result: Option<Type> = None;
        let mut matching = Vec::new();
        for overload in &function.overloads {
            if overload.since > self.environment.release()
                || overload.is_method != call.target.is_some()
                || overload.args.len() != args.len()
            {
                continue;
            }
            let mut instance = Mapping::default();
            for param in &overload.params {
                let variable = self.fresh();
                instance.insert(Arc::clone(param), variable);
            }
            let expected: Vec<Type> = overload.args.iter().map(|arg| substitute(&instance, arg, false)).collect();
            if !assignable_all(&mut self.mapping, &args, &expected) {
                continue;
            }
            matching.push(overload);
            let returned = substitute(&self.mapping, &substitute(&instance, &overload.result, false), false);
            result = Some(match result {
                None => returned,
                Some(known) if known.is_dyn() || known == returned => known,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let args: Vec<Type> = args.iter().map(|arg| substitute(&self.mapping, arg, true)).collect();
            let (receiver, args) = match (&call.target, args.split_first()) {
                (Some(_), Some((receiver, rest))) => (format!("{receiver}."), rest.to_vec()),
                _ => (String::new(), args),
            };
            let list: Vec<String> = args.iter().map(Type::to_string).collect();
            let message = format!(
                "found no matching overload for '{}' applied to '{receiver}({})'",
                function.name,
                list.join(", ")
            );
            self.error(id, message);
            return self.set(id, Type::Error);
        };
        call.overloads = matching;
        self.set(id, result);
    }

    /// Returns the type of both, or reports that there is none.
    fn join(&mut self, id: ExprId, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.assignable(&previous, &current) {
            return most_general(&previous, &current).clone();
        }
        self.error(id, format!("expected type '{previous}' but found '{current}'"));
        Type::Error
    }

    /// Returns the type inside an optional element, field or value.
    fn unwrap(&mut self, id: ExprId, of: Type) -> Type {
        match of.unwrap_optional() {
            Some(inner) => inner.clone(),
            None => {
                if !of.is_dyn() {
                    self.error(id, format!("expected type '{}' but found '{of}'", Type::optional(of.clone())));
                }
                of
            }
        }
    }

    fn check_list(&mut self, expr: &mut Expr) {
        let ExprKind::List { elements, optional } = &mut expr.kind else { return };
        let mut item: Option<Type> = None;
        for (index, element) in elements.iter_mut().enumerate() {
            self.check(element);
            let mut of = self.get(element);
            if optional.contains(&index) {
                of = self.unwrap(element.id, of);
            }
            item = Some(self.join(element.id, item, of));
        }
        let item = item.unwrap_or_else(|| self.fresh());
        self.set(expr.id, Type::list(item));
    }

    fn check_map(&mut self, expr: &mut Expr) {
        let ExprKind::Map(entries) = &mut expr.kind else { return };
        let (mut key, mut value): (Option<Type>, Option<Type>) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let of = self.get(&entry.key);
            key = Some(self.join(entry.key.id, key, of));
            self.check(&mut entry.value);
            let mut of = self.get(&entry.value);
            if entry.optional {
                of = self.unwrap(entry.value.id, of);
            }
            value = Some(self.join(entry.value.id, value, of));
        }
        let key = key.unwrap_or_else(|| self.fresh());
        let value = value.unwrap_or_else(|| self.fresh());
        self.set(expr.id, Type::map(key, value));
    }

    fn check_struct(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Struct { type_name, fields } = &mut expr.kind else { return };
        let name = type_name.strip_prefix('.').unwrap_or(type_name);
        let Some(object) = self.environment.object(name) else {
            let name = type_name.clone();
            return self.undeclared(id, &name);
        };
        *type_name = name.to_owned();
        self.set(id, Type::Object(Arc::clone(&object)));
        for field in fields {
            self.check(&mut field.value);
            let expected = match object.field_type(&field.name) {
                Some(of) => of,
                None => {
                    self.error(field.id, format!("undefined field '{}'", field.name));
                    Type::Error
                }
            };
            let mut of = self.get(&field.value);
            if field.optional {
                of = self.unwrap(field.value.id, of);
            }
            if !self.assignable(&expected, &of) {
                let message =
                    format!("expected type of field '{}' is '{expected}' but provided type is '{of}'", field.name);
                self.error(field.id, message);
            }
        }
    }

    fn check_comprehension(&mut self, expr: &mut Expr) {
        let ExprKind::Comprehension(fold) = &mut expr.kind else { return };
        self.check(&mut fold.range);
        self.check(&mut fold.init);
        let range = substitute(&self.mapping, &self.get(&fold.range), false);
        let accumulated = self.get(&fold.init);
        let depth = self.locals.len();
        self.locals.push((fold.accumulator.clone(), accumulated.clone()));
        let two = fold.second_variable.is_some();
        let (first, second) = match &range {
            Type::List(item) if two => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.error(fold.range.id, message);
                (Type::Error, Type::Error)
            }
        };
        self.locals.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second_variable {
            self.locals.push((name.clone(), second));
        }
        self.check(&mut fold.condition);
        self.expect(&fold.condition, &Type::Bool);
        self.check(&mut fold.step);
        self.expect(&fold.step, &accumulated);
        self.locals.truncate(depth + 1);
        self.check(&mut fold.result);
        self.locals.truncate(depth);
        let of = substitute(&self.mapping, &self.get(&fold.result), false);
        self.set(expr.id, of);
    }

    fn expect(&mut self, expr: &Expr, expected: &Type) {
        let of = self.get(expr);
        if !self.assignable(expected, &of) {
            self.error(expr.id, format!("expected type '{expected}' but found '{of}'"));
        }
    }
}

/// The limit of the parts of a type. A chain of maps of maps doubles its type with every link.
const MAX_TYPE_NODES: usize = 4096;

/// Returns whether a type has no more parts than are left.
fn is_within(of: &Type, left: &mut usize) -> bool {
    match left.checked_sub(1) {
        Some(rest) => {
            *left = rest;
            of.parameters().into_iter().all(|inner| is_within(inner, left))
        }
        None => false,
    }
}

/// Returns the type that an identifier names.
pub(crate) fn type_name(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "dyn" => Type::Dyn,
        "int" => Type::Int,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "string" => Type::String,
        "type" => Type::Type(None),
        "uint" => Type::Uint,
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "optional_type" => Type::optional(Type::Dyn),
        opaque::IP => Type::opaque(opaque::IP),
        opaque::CIDR => Type::opaque(opaque::CIDR),
        _ => return None,
    })
}
