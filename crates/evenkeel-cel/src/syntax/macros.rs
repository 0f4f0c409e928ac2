//! The macros of the language, of optional types and of comprehensions with two variables.

use super::ACCUMULATOR;
use super::parser::Parser;
use crate::ast::{Call, Comprehension, Expr, ExprId, ExprKind, Literal};

/// The result of looking for a macro.
pub(super) enum Expansion {
    Expanded(ExprKind),
    /// There is no such macro.
    NoMacro(Call),
    /// The arguments are not of the macro's form.
    Malformed {
        offset: u32,
        message: &'static str,
    },
}

const NOT_A_NAME: &str = "argument must be a simple name";

/// Makes the nodes of an expansion: they have the place of the macro.
struct Factory<'p, 's> {
    parser: &'p mut Parser<'s>,
    offset: u32,
}

impl Factory<'_, '_> {
    fn node(&mut self, kind: ExprKind) -> Expr {
        Expr::new(self.parser.id(self.offset), kind)
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.node(ExprKind::Literal(literal))
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.node(ExprKind::Ident(name.to_owned()))
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.node(ExprKind::Call(Box::new(Call::new(None, function, args))))
    }

    fn member(&mut self, function: &str, target: Expr) -> Expr {
        let call = Call::new(Some(target), function, Vec::new());
        self.node(ExprKind::Call(Box::new(call)))
    }

    fn list(&mut self, elements: Vec<Expr>) -> Expr {
        self.node(ExprKind::List { elements, optional: Vec::new() })
    }

    /// Returns `accumulator ? step : accumulator` under a condition, or the step alone.
    fn filtered(&mut self, filter: Option<Expr>, step: Expr) -> Expr {
        match filter {
            Some(filter) => {
                let unchanged = self.accumulator();
                self.call("_?_:_", vec![filter, step, unchanged])
            }
            None => step,
        }
    }

    /// Copies an expression with new ids.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let offset = self.parser.offset(expr.id);
        let id = self.parser.id(offset);
        let mut copy_all = |expressions: &[Expr]| expressions.iter().map(|expr| self.copy(expr)).collect::<Vec<_>>();
        let kind = match &expr.kind {
            ExprKind::Select { operand, field, test_only } => {
                ExprKind::Select { operand: Box::new(self.copy(operand)), field: field.clone(), test_only: *test_only }
            }
            ExprKind::Call(call) => {
                let args = copy_all(&call.args);
                let target = call.target.as_ref().map(|target| self.copy(target));
                ExprKind::Call(Box::new(Call::new(target, &call.function, args)))
            }
            ExprKind::List { elements, optional } => {
                ExprKind::List { elements: copy_all(elements), optional: optional.clone() }
            }
            ExprKind::Map(entries) => {
                let mut entries = entries.clone();
                for entry in &mut entries {
                    entry.key = self.copy(&entry.key);
                    entry.value = self.copy(&entry.value);
                }
                ExprKind::Map(entries)
            }
            ExprKind::Struct { type_name, fields } => {
                let mut fields = fields.clone();
                for field in &mut fields {
                    let offset = self.parser.offset(field.id);
                    field.id = self.parser.id(offset);
                    field.value = self.copy(&field.value);
                }
                ExprKind::Struct { type_name: type_name.clone(), fields }
            }
            ExprKind::Comprehension(fold) => ExprKind::Comprehension(Box::new(Comprehension {
                range: self.copy(&fold.range),
                variable: fold.variable.clone(),
                second_variable: fold.second_variable.clone(),
                accumulator: fold.accumulator.clone(),
                init: self.copy(&fold.init),
                condition: self.copy(&fold.condition),
                step: self.copy(&fold.step),
                result: self.copy(&fold.result),
            })),
            ExprKind::Literal(_) | ExprKind::Ident(_) => expr.kind.clone(),
        };
        Expr::new(id, kind)
    }
}

/// What a fold computes.
#[derive(Clone, Copy)]
enum Fold {
    All,
    Exists,
    ExistsOne,
    /// Also of the macro `filter`, whose result is the variable itself.
    List,
    Filter,
    Map,
    MapEntry,
}

/// Expands a call if its name and number of arguments are those of a macro.
pub(super) fn expand(parser: &mut Parser<'_>, id: ExprId, call: Call) -> Expansion {
    let offset = parser.offset(id);
    let (fold, variables) = match (call.function.as_str(), call.args.len(), call.target.is_some()) {
        ("has", 1, false) => return has(parser, call),
        ("sortBy", 2, true) => return sort_by(parser, offset, call),
        ("optMap" | "optFlatMap", 2, true) => return optional_map(parser, offset, call),
        ("all", count @ (2 | 3), true) => (Fold::All, count - 1),
        ("exists", count @ (2 | 3), true) => (Fold::Exists, count - 1),
        ("exists_one" | "existsOne", count @ (2 | 3), true) => (Fold::ExistsOne, count - 1),
        ("map", 2 | 3, true) => (Fold::List, 1),
        ("filter", 2, true) => (Fold::Filter, 1),
        ("transformList", 3 | 4, true) => (Fold::List, 2),
        ("transformMap", 3 | 4, true) => (Fold::Map, 2),
        ("transformMapEntry", 3 | 4, true) => (Fold::MapEntry, 2),
        _ => return Expansion::NoMacro(call),
    };
    comprehension(parser, offset, call, fold, variables)
}

fn has(parser: &Parser<'_>, mut call: Call) -> Expansion {
    match call.args.pop().map(|arg| (arg.id, arg.kind)) {
        Some((_, ExprKind::Select { operand, field, .. })) => {
            Expansion::Expanded(ExprKind::Select { operand, field, test_only: true })
        }
        other => {
            let id = other.map_or(0, |(id, _)| id);
            Expansion::Malformed { offset: parser.offset(id), message: "invalid argument to has() macro" }
        }
    }
}

fn comprehension(parser: &mut Parser<'_>, offset: u32, call: Call, fold: Fold, variables: usize) -> Expansion {
    let mut names = Vec::with_capacity(variables);
    for arg in call.args.iter().take(variables) {
        let offset = parser.offset(arg.id);
        match &arg.kind {
            ExprKind::Ident(name) if !name.starts_with('.') => {
                if names.contains(name) {
                    return Expansion::Malformed { offset, message: "duplicate variable name" };
                }
                names.push(name.clone());
            }
            _ => {
                let single = matches!(call.function.as_str(), "map" | "filter");
                let message = if single { "argument is not an identifier" } else { NOT_A_NAME };
                return Expansion::Malformed { offset, message };
            }
        }
    }
    let Call { target: Some(range), mut args, function, .. } = call else {
        return Expansion::Malformed { offset, message: NOT_A_NAME };
    };
    let mut rest = args.split_off(variables);
    let Some(body) = rest.pop() else { return Expansion::Malformed { offset, message: NOT_A_NAME } };
    let filter = rest.pop();
    let mut names = names.into_iter();
    let variable = names.next().unwrap_or_default();
    let second_variable = names.next();
    debug_assert!(second_variable.is_some() == (variables == 2), "{function} has {variables} variables");

    let mut make = Factory { parser, offset };
    let accumulator = make.accumulator();
    let (init, condition, step, result);
    match fold {
        Fold::All => {
            init = make.literal(Literal::Bool(true));
            let tested = make.accumulator();
            condition = make.call("@not_strictly_false", vec![tested]);
            step = make.call("_&&_", vec![accumulator, body]);
            result = make.accumulator();
        }
        Fold::Exists => {
            init = make.literal(Literal::Bool(false));
            let tested = make.accumulator();
            let negated = make.call("!_", vec![tested]);
            condition = make.call("@not_strictly_false", vec![negated]);
            step = make.call("_||_", vec![accumulator, body]);
            result = make.accumulator();
        }
        Fold::ExistsOne => {
            init = make.literal(Literal::Int(0));
            condition = make.literal(Literal::Bool(true));
            let one = make.literal(Literal::Int(1));
            let more = make.call("_+_", vec![accumulator, one]);
            step = make.filtered(Some(body), more);
            let (counted, one) = (make.accumulator(), make.literal(Literal::Int(1)));
            result = make.call("_==_", vec![counted, one]);
        }
        Fold::List | Fold::Filter => {
            init = make.list(Vec::new());
            condition = make.literal(Literal::Bool(true));
            let (element, filter) = match fold {
                Fold::Filter => (make.ident(&variable), Some(body)),
                _ => (body, filter),
            };
            let element = make.list(vec![element]);
            let more = make.call("_+_", vec![accumulator, element]);
            step = make.filtered(filter, more);
            result = make.accumulator();
        }
        Fold::Map | Fold::MapEntry => {
            init = make.node(ExprKind::Map(Vec::new()));
            condition = make.literal(Literal::Bool(true));
            let args = match fold {
                Fold::Map => vec![accumulator, make.ident(&variable), body],
                _ => vec![accumulator, body],
            };
            let more = make.call("cel.@mapInsert", args);
            step = make.filtered(filter, more);
            result = make.accumulator();
        }
    }
    Expansion::Expanded(ExprKind::Comprehension(Box::new(Comprehension {
        range,
        variable,
        second_variable,
        accumulator: ACCUMULATOR.to_owned(),
        init,
        condition,
        step,
        result,
    })))
}

/// Expands `value.optMap(name, expression)`: the expression over the value, if there is one.
fn optional_map(parser: &mut Parser<'_>, offset: u32, call: Call) -> Expansion {
    let flat = call.function == "optFlatMap";
    let message = if flat {
        "optFlatMap() variable name must be a simple identifier"
    } else {
        "optMap() variable name must be a simple identifier"
    };
    let (Some(target), Ok([name, body])) = (call.target, <[Expr; 2]>::try_from(call.args)) else {
        return Expansion::Malformed { offset, message };
    };
    let ExprKind::Ident(variable) = name.kind else {
        return Expansion::Malformed { offset: parser.offset(name.id), message };
    };
    let mut make = Factory { parser, offset };
    let source = make.copy(&target);
    let fold = Comprehension {
        range: make.list(Vec::new()),
        variable: "#unused".to_owned(),
        second_variable: None,
        init: make.member("value", source),
        condition: make.literal(Literal::Bool(false)),
        step: make.ident(&variable),
        accumulator: variable,
        result: body,
    };
    let mapped = make.node(ExprKind::Comprehension(Box::new(fold)));
    let present = if flat { mapped } else { make.call("optional.of", vec![mapped]) };
    let absent = make.call("optional.none", Vec::new());
    let has_value = make.member("hasValue", target);
    let call = Call::new(None, "_?_:_", vec![has_value, present, absent]);
    Expansion::Expanded(ExprKind::Call(Box::new(call)))
}

/// Expands `list.sortBy(name, key)`: sorts the list by a list of keys.
fn sort_by(parser: &mut Parser<'_>, offset: u32, call: Call) -> Expansion {
    let (Some(target), Ok([name, key])) = (call.target, <[Expr; 2]>::try_from(call.args)) else {
        return Expansion::Malformed { offset, message: NOT_A_NAME };
    };
    if !matches!(name.kind, ExprKind::Ident(_)) {
        return Expansion::Malformed { offset: parser.offset(name.id), message: "argument is not an identifier" };
    }
    let mut make = Factory { parser, offset };
    let source = make.copy(&target);
    let id = make.parser.id(offset);
    let keys = Call::new(Some(source), "map", vec![name, key]);
    match expand(make.parser, id, keys) {
        Expansion::Expanded(keys) => {
            let keys = Expr::new(id, keys);
            Expansion::Expanded(ExprKind::Call(Box::new(Call::new(Some(target), "@sortByAssociatedKeys", vec![keys]))))
        }
        other => other,
    }
}
