//! The interpreter. Every step adds to the cost, as cel-go counts it, and the evaluation stops at a limit.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{Call, Comprehension, Expr, ExprKind, Literal};
use crate::checker::type_name;
use crate::cost;
use crate::error::EvalError;
use crate::library::{Evaluated, Implementation, no_overload};
use crate::syntax::ACCUMULATOR;
use crate::value::{Key, List, Map, Text, Value};

/// Looks up a variable.
type Lookup<'l, 'a> = &'l dyn Fn(&str) -> Option<Evaluated<'a>>;

pub(crate) struct Evaluator<'l, 'a> {
    variables: Lookup<'l, 'a>,
    /// Variables of comprehensions. An accumulator may hold an error, which a later step may absorb.
    locals: Vec<(&'l str, Evaluated<'a>)>,
    cost: u64,
    limit: u64,
}

impl<'l, 'a> Evaluator<'l, 'a> {
    pub(crate) fn new(variables: Lookup<'l, 'a>, limit: u64) -> Self {
        Evaluator { variables, locals: Vec::new(), cost: 0, limit }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalError::CostLimit) } else { Ok(()) }
    }

    pub(crate) fn evaluate<'e: 'l>(&mut self, expr: &'e Expr) -> Evaluated<'a> {
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(constant(literal)),
            ExprKind::Ident(name) => {
                self.charge(cost::IDENT)?;
                self.variable(name)
            }
            ExprKind::Select { operand, field, test_only } => {
                let operand = self.evaluate(operand)?;
                if *test_only {
                    return has_field(&operand, field).map(Value::Bool);
                }
                self.charge(cost::IDENT)?;
                select(&operand, field)
            }
            ExprKind::Call(call) => self.call(call),
            ExprKind::List { elements, optional } => {
                let mut items = Vec::with_capacity(elements.len());
                for (index, element) in elements.iter().enumerate() {
                    let value = self.evaluate(element)?;
                    if optional.contains(&index) {
                        match value {
                            Value::Optional(Some(value)) => items.push((*value).clone()),
                            Value::Optional(None) => {}
                            other => return Err(not_optional(&other)),
                        }
                    } else {
                        items.push(value);
                    }
                }
                self.charge(cost::LIST)?;
                Ok(Value::list(items))
            }
            ExprKind::Map(entries) => {
                let mut map = BTreeMap::new();
                for entry in entries {
                    let key = self.evaluate(&entry.key)?;
                    let key = Key::of(&key).ok_or_else(|| {
                        EvalError::failed(format!("unsupported key type: {}", key.type_of().runtime_name()))
                    })?;
                    let value = self.evaluate(&entry.value)?;
                    if let Some(value) = present(value, entry.optional)? {
                        map.insert(key, value);
                    }
                }
                self.charge(cost::MAP)?;
                Ok(Value::map(map))
            }
            ExprKind::Struct { type_name, fields } => {
                let mut map = BTreeMap::new();
                for field in fields {
                    let value = self.evaluate(&field.value)?;
                    if let Some(value) = present(value, field.optional)? {
                        map.insert(Key::String(field.name.as_str().into()), value);
                    }
                }
                self.charge(cost::STRUCT)?;
                Ok(Value::Map(Map::Object(type_name.as_str().into(), Arc::new(map))))
            }
            ExprKind::Comprehension(fold) => self.fold(fold),
        }
    }

    fn variable(&mut self, name: &str) -> Evaluated<'a> {
        if let Some((_, value)) = self.locals.iter().rev().find(|(known, _)| *known == name) {
            return value.clone();
        }
        let plain = name.strip_prefix('.').unwrap_or(name);
        if let Some(value) = (self.variables)(plain) {
            return value;
        }
        match type_name(plain) {
            Some(of) => Ok(Value::Type(of)),
            None => Err(EvalError::failed(format!("no such attribute(s): {plain}"))),
        }
    }

    fn call<'e: 'l>(&mut self, call: &'e Call) -> Evaluated<'a> {
        match (call.function.as_str(), call.args.as_slice()) {
            ("_&&_", [left, right]) => return self.junction(left, right, false),
            ("_||_", [left, right]) => return self.junction(left, right, true),
            ("_?_:_", [condition, chosen, otherwise]) => {
                return match self.evaluate(condition)? {
                    Value::Bool(true) => self.evaluate(chosen),
                    Value::Bool(false) => self.evaluate(otherwise),
                    _ => Err(EvalError::no_such_overload()),
                };
            }
            ("@not_strictly_false", [condition]) => {
                let value = self.evaluate(condition);
                self.charge(1)?;
                return match value {
                    Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
                    Err(EvalError::CostLimit) => Err(EvalError::CostLimit),
                    _ => Ok(Value::Bool(true)),
                };
            }
            ("_?._", [operand, field]) => {
                let operand = self.evaluate(operand)?;
                self.charge(cost::IDENT)?;
                let ExprKind::Literal(Literal::String(field)) = &field.kind else {
                    return Err(EvalError::no_such_overload());
                };
                return optional_select(&operand, field);
            }
            ("or" | "orValue", [other]) => return self.alternative(call, other),
            ("_+_", [accumulator, more]) if is_accumulator(accumulator) => return self.append(call, more),
            ("cel.@mapInsert", [accumulator, more @ ..]) if is_accumulator(accumulator) => {
                return self.insert(call, more);
            }
            _ => {}
        }
        let mut args = Vec::with_capacity(call.args.len() + 1);
        if let Some(target) = &call.target {
            args.push(self.evaluate(target)?);
        }
        for arg in &call.args {
            args.push(self.evaluate(arg)?);
        }
        self.invoke(call, &args)
    }

    fn invoke(&mut self, call: &Call, args: &[Value<'a>]) -> Evaluated<'a> {
        let mut result = Err(no_overload(&call.function, args));
        let mut tried: Option<Implementation> = None;
        for overload in &call.overloads {
            if tried.is_some_and(|tried| std::ptr::fn_addr_eq(tried, overload.implementation)) {
                continue;
            }
            tried = Some(overload.implementation);
            result = (overload.implementation)(args);
            if !matches!(result, Err(EvalError::NoSuchOverload(_))) {
                break;
            }
        }
        let id = match call.overloads.as_slice() {
            [only] => only.id,
            _ => "",
        };
        self.charge(cost::of_call(&call.function, id, args, result.as_ref().ok()))?;
        result
    }

    /// Evaluates `&&` (absorbed by false) or `||` (absorbed by true): an error counts only if the other side does not
    /// decide.
    fn junction<'e: 'l>(&mut self, left: &'e Expr, right: &'e Expr, decisive: bool) -> Evaluated<'a> {
        let first = self.evaluate(left);
        match &first {
            Ok(Value::Bool(value)) if *value == decisive => return first,
            Err(EvalError::CostLimit) => return first,
            _ => {}
        }
        let second = self.evaluate(right);
        match (&first, &second) {
            (_, Ok(Value::Bool(value))) if *value == decisive => second,
            (_, Err(EvalError::CostLimit)) => second,
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!decisive)),
            (Err(_), _) => first,
            (_, Err(_)) => second,
            _ => Err(EvalError::no_such_overload()),
        }
    }

    /// Evaluates `optional.or(other)` and `optional.orValue(other)`.
    fn alternative<'e: 'l>(&mut self, call: &'e Call, other: &'e Expr) -> Evaluated<'a> {
        let Some(target) = &call.target else { return Err(EvalError::no_such_overload()) };
        let value = self.evaluate(target)?;
        self.charge(1)?;
        match (value, call.function.as_str()) {
            (Value::Optional(Some(value)), "orValue") => Ok((*value).clone()),
            (value @ Value::Optional(Some(_)), _) => Ok(value),
            (Value::Optional(None), _) => self.evaluate(other),
            (other, _) => Err(no_overload(&call.function, &[other])),
        }
    }

    /// Takes the accumulator out of its variable: the step that asks for it replaces it.
    fn take_accumulator(&mut self) -> Evaluated<'a> {
        self.charge(cost::IDENT)?;
        match self.locals.iter_mut().rev().find(|(known, _)| *known == ACCUMULATOR) {
            Some((_, value)) => std::mem::replace(value, Ok(Value::Null)),
            None => Err(EvalError::failed("no such attribute(s): @result")),
        }
    }

    /// Adds to a list that a comprehension builds, without copying the list.
    fn append<'e: 'l>(&mut self, call: &'e Call, more: &'e Expr) -> Evaluated<'a> {
        let more = self.evaluate(more)?;
        let accumulator = self.take_accumulator()?;
        match (accumulator, more) {
            (Value::List(List::Owned(mut items)), Value::List(more)) => {
                self.charge(1)?;
                Arc::make_mut(&mut items).extend(more.iter());
                Ok(Value::List(List::Owned(items)))
            }
            (accumulator, more) => self.invoke(call, &[accumulator, more]),
        }
    }

    /// Adds to a map that a comprehension builds, without copying the map.
    fn insert<'e: 'l>(&mut self, call: &'e Call, more: &'e [Expr]) -> Evaluated<'a> {
        let mut added = Vec::with_capacity(more.len());
        for arg in more {
            added.push(self.evaluate(arg)?);
        }
        let accumulator = self.take_accumulator()?;
        match (accumulator, added.as_slice()) {
            (Value::Map(Map::Owned(mut entries)), [key, value]) if new_key(&entries, key).is_some() => {
                self.charge(1)?;
                if let Some(key) = new_key(&entries, key) {
                    Arc::make_mut(&mut entries).insert(key, value.clone());
                }
                Ok(Value::Map(Map::Owned(entries)))
            }
            (accumulator, _) => {
                added.insert(0, accumulator);
                self.invoke(call, &added)
            }
        }
    }

    fn fold<'e: 'l>(&mut self, fold: &'e Comprehension) -> Evaluated<'a> {
        let range = self.evaluate(&fold.range)?;
        let init = self.evaluate(&fold.init);
        let depth = self.locals.len();
        self.locals.push((&fold.accumulator, init));
        let result = self.iterate(fold, &range, depth);
        self.locals.truncate(depth + 1);
        let result = match result {
            Ok(()) => self.evaluate(&fold.result),
            Err(error) => Err(error),
        };
        self.locals.truncate(depth);
        result
    }

    fn iterate<'e: 'l>(&mut self, fold: &'e Comprehension, range: &Value<'a>, depth: usize) -> Result<(), EvalError> {
        let two = fold.second_variable.is_some();
        match range {
            Value::List(list) => {
                for (index, item) in list.iter().enumerate() {
                    let (first, second) = if two {
                        (Value::Int(i64::try_from(index).unwrap_or(i64::MAX)), item)
                    } else {
                        (item, Value::Null)
                    };
                    if !self.step(fold, first, second, depth)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(map) => {
                if two {
                    for (key, value) in map.entries() {
                        if !self.step(fold, key.to_value(), value, depth)? {
                            break;
                        }
                    }
                    return Ok(());
                }
                for key in map.keys() {
                    if !self.step(fold, key, Value::Null, depth)? {
                        break;
                    }
                }
                Ok(())
            }
            _ => Err(EvalError::no_such_overload()),
        }
    }

    /// Evaluates one step. Returns whether there is a next one.
    fn step<'e: 'l>(
        &mut self,
        fold: &'e Comprehension,
        first: Value<'a>,
        second: Value<'a>,
        depth: usize,
    ) -> Result<bool, EvalError> {
        self.locals.truncate(depth + 1);
        self.locals.push((&fold.variable, Ok(first)));
        if let Some(name) = &fold.second_variable {
            self.locals.push((name, Ok(second)));
        }
        match self.evaluate(&fold.condition) {
            Ok(Value::Bool(false)) => return Ok(false),
            Err(EvalError::CostLimit) => return Err(EvalError::CostLimit),
            _ => {}
        }
        let value = self.evaluate(&fold.step);
        if matches!(value, Err(EvalError::CostLimit)) {
            return Err(EvalError::CostLimit);
        }
        // Without a condition nothing absorbs an error.
        let lost = value.is_err() && matches!(fold.condition.kind, ExprKind::Literal(_));
        if let Some((_, accumulator)) = self.locals.get_mut(depth) {
            *accumulator = value;
        }
        Ok(!lost)
    }
}

/// Returns the key of a map entry that is new.
fn new_key(entries: &BTreeMap<Key, Value<'_>>, key: &Value<'_>) -> Option<Key> {
    Key::of(key).filter(|key| !entries.contains_key(key))
}

fn is_accumulator(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Ident(name) if name == ACCUMULATOR)
}

fn constant<'a>(literal: &Literal) -> Value<'a> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::String(Text::Shared(Arc::clone(text))),
        Literal::Bytes(bytes) => Value::Bytes(Arc::clone(bytes)),
    }
}

fn not_optional(value: &Value<'_>) -> EvalError {
    EvalError::failed(format!(
        "cannot initialize optional list element from non-optional value {}",
        value.type_of().runtime_name()
    ))
}

/// Returns the value of an entry; `None` if it is optional and absent.
fn present<'a>(value: Value<'a>, optional: bool) -> Result<Option<Value<'a>>, EvalError> {
    match value {
        value if !optional => Ok(Some(value)),
        Value::Optional(Some(value)) => Ok(Some((*value).clone())),
        Value::Optional(None) => Ok(None),
        other => Err(not_optional(&other)),
    }
}

fn select<'a>(operand: &Value<'a>, field: &str) -> Evaluated<'a> {
    match operand {
        Value::Map(map) => map.field(field).ok_or_else(|| EvalError::failed(format!("no such key: {field}"))),
        Value::Optional(_) => optional_select(operand, field),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn optional_select<'a>(operand: &Value<'a>, field: &str) -> Evaluated<'a> {
    match operand {
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => optional_select(inner, field),
        Value::Map(map) => Ok(map.field(field).map_or(Value::Optional(None), Value::some)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn has_field(operand: &Value<'_>, field: &str) -> Result<bool, EvalError> {
    match operand {
        Value::Map(map) => Ok(map.field(field).is_some()),
        Value::Optional(None) => Ok(false),
        Value::Optional(Some(inner)) => has_field(inner, field),
        _ => Err(EvalError::no_such_overload()),
    }
}
