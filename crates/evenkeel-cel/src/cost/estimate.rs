//! The bounds of the cost of an expression.

use std::collections::HashMap;

use super::{CostEstimate, IDENT, LIST, MAP, PER_CHARACTER, PER_PATTERN_CHARACTER, STRUCT, SizeEstimate, library};
use crate::ast::{Call, Comprehension, Expr, ExprId, ExprKind, Literal};
use crate::checker::Checked;
use crate::environment::Environment;
use crate::schema::{DeclKind, DeclType};
use crate::syntax::ACCUMULATOR;
use crate::types::Type;

const UNKNOWN: SizeEstimate = SizeEstimate { min: 0, max: u64::MAX };

/// The keys of a map are strings of any length.
const KEY_SIZE: u64 = 0;

/// What a path of fields leads to.
type Path = Vec<String>;

/// The sizes of the keys and values of a list or map.
#[derive(Clone, Copy)]
struct EntrySizes {
    is_list: bool,
    key: SizeEstimate,
    value: SizeEstimate,
}

impl EntrySizes {
    fn union(self, other: Self) -> Self {
        EntrySizes { is_list: self.is_list, key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}

struct Local {
    path: Path,
    size: Option<SizeEstimate>,
    entries: Option<EntrySizes>,
}

/// A node as the estimates of functions see it.
pub(super) struct Node<'e> {
    pub(super) path: Path,
    pub(super) of: Type,
    /// `None` for the items of a list.
    pub(super) expr: Option<&'e Expr>,
    pub(super) size: Option<SizeEstimate>,
}

pub(crate) struct Estimator<'e> {
    environment: &'e Environment,
    checked: &'e Checked,
    paths: HashMap<ExprId, Path>,
    sizes: HashMap<ExprId, SizeEstimate>,
    entries: HashMap<ExprId, EntrySizes>,
    locals: Vec<(&'e str, Local)>,
}

impl<'e> Estimator<'e> {
    pub(crate) fn new(environment: &'e Environment, checked: &'e Checked) -> Self {
        Estimator {
            environment,
            checked,
            paths: HashMap::new(),
            sizes: HashMap::new(),
            entries: HashMap::new(),
            locals: Vec::new(),
        }
    }

    pub(crate) fn total(&mut self, root: &'e Expr) -> CostEstimate {
        self.cost(root)
    }

    fn cost(&mut self, expr: &'e Expr) -> CostEstimate {
        match &expr.kind {
            ExprKind::Literal(_) => CostEstimate::default(),
            ExprKind::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(expr.id, path);
                CostEstimate::fixed(IDENT)
            }
            ExprKind::Select { operand, field, test_only } => {
                let mut sum = self.cost(operand);
                if *test_only {
                    return sum;
                }
                if matches!(self.checked.type_of(operand.id), Type::Map(..) | Type::Object(_) | Type::Param(_)) {
                    sum = sum.plus(CostEstimate::fixed(IDENT));
                }
                let mut path = self.path(operand);
                path.push(field.clone());
                self.paths.insert(expr.id, path);
                sum
            }
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List { elements, .. } => {
                let (mut sum, mut items) = (CostEstimate::default(), None::<SizeEstimate>);
                for element in elements {
                    sum = sum.plus(self.cost(element));
                    let size = self.size_or_unknown(element);
                    items = Some(items.map_or(size, |known| known.union(size)));
                }
                let value = items.unwrap_or_default();
                self.entries.insert(expr.id, EntrySizes { is_list: true, key: SizeEstimate::fixed(1), value });
                sum.plus(CostEstimate::fixed(LIST))
            }
            ExprKind::Map(entries) => {
                let (mut sum, mut sizes) = (CostEstimate::default(), None::<(SizeEstimate, SizeEstimate)>);
                for entry in entries {
                    sum = sum.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    let (key, value) = (self.size_or_unknown(&entry.key), self.size_or_unknown(&entry.value));
                    sizes = Some(sizes.map_or((key, value), |(a, b)| (a.union(key), b.union(value))));
                }
                let (key, value) = sizes.unwrap_or_default();
                self.entries.insert(expr.id, EntrySizes { is_list: false, key, value });
                sum.plus(CostEstimate::fixed(MAP))
            }
            ExprKind::Struct { fields, .. } => {
                let sum = fields.iter().fold(CostEstimate::default(), |sum, field| sum.plus(self.cost(&field.value)));
                sum.plus(CostEstimate::fixed(STRUCT))
            }
            ExprKind::Comprehension(fold) if is_binding(fold) => self.binding(expr, fold),
            ExprKind::Comprehension(fold) => self.comprehension(expr, fold),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|(known, _)| *known == name).map(|(_, local)| local)
    }

    fn path(&self, expr: &Expr) -> Path {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn node(&mut self, expr: &'e Expr) -> Node<'e> {
        let mut path = self.path(expr);
        if path.first().is_some_and(|first| first == ACCUMULATOR) {
            path.clear();
        }
        Node { path, of: self.checked.type_of(expr.id).clone(), expr: Some(expr), size: self.size(expr) }
    }

    /// Returns the declared type at a path.
    fn decl(&self, path: &[String]) -> Option<&DeclType> {
        let (first, rest) = path.split_first()?;
        // As upstream, a path without a variable, of the items of a literal, is one from the first variable.
        let root = self.environment.variable_decl(first).or_else(|| self.environment.first_decl())?;
        rest.iter().try_fold(root, |decl, name| match name.as_str() {
            "@items" | "@values" => decl.element(),
            field => decl.field(field),
        })
    }

    /// Returns the largest size of a declared value.
    pub(super) fn declared_size(&self, path: &[String]) -> Option<SizeEstimate> {
        if let Some((last, map)) = path.split_last()
            && last == "@keys"
        {
            let is_map = self.decl(map).is_some_and(|decl| matches!(decl.kind(), DeclKind::Map(_)));
            return is_map.then_some(SizeEstimate { min: 0, max: KEY_SIZE });
        }
        self.decl(path).map(|decl| SizeEstimate { min: 0, max: decl.max_elements().unwrap_or(0) })
    }

    pub(super) fn size_of_node(&self, node: &Node<'_>) -> SizeEstimate {
        node.size.or_else(|| self.declared_size(&node.path)).unwrap_or(UNKNOWN)
    }

    fn size_or_unknown(&mut self, expr: &'e Expr) -> SizeEstimate {
        self.size(expr).unwrap_or(UNKNOWN)
    }

    fn size(&mut self, expr: &'e Expr) -> Option<SizeEstimate> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        let own = match &expr.kind {
            ExprKind::Literal(Literal::String(text)) => Some(text.chars().count()),
            ExprKind::Literal(Literal::Bytes(bytes)) => Some(bytes.len()),
            ExprKind::Literal(_) => Some(1),
            ExprKind::List { elements, .. } => Some(elements.len()),
            ExprKind::Map(entries) => Some(entries.len()),
            _ => None,
        };
        if let Some(own) = own {
            return Some(SizeEstimate::fixed(own as u64));
        }
        if let Some(size) = self.declared_size(&self.path(expr)) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.type_of(expr.id)) {
            return Some(SizeEstimate::fixed(1));
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn entry_sizes(&self, expr: &Expr) -> Option<EntrySizes> {
        self.entries.get(&expr.id).copied().or_else(|| match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.entries),
            _ => None,
        })
    }

    fn call(&mut self, expr: &'e Expr, call: &'e Call) -> CostEstimate {
        if call.function == "dyn"
            && let [arg] = call.args.as_slice()
        {
            let cost = self.cost(arg);
            if let Some(size) = self.size(arg) {
                self.sizes.insert(expr.id, size);
            }
            if let Some(entries) = self.entry_sizes(arg) {
                self.entries.insert(expr.id, entries);
            }
            return cost.plus(CostEstimate::fixed(1));
        }
        let costs: Vec<CostEstimate> = call.args.iter().map(|arg| self.cost(arg)).collect();
        match (call.function.as_str(), costs.as_slice(), call.args.as_slice()) {
            ("_&&_" | "_||_", [left, right], _) => {
                return CostEstimate { min: left.min, max: left.plus(*right).max };
            }
            ("_?._", _, [operand, field]) => {
                if let ExprKind::Literal(Literal::String(name)) = &field.kind {
                    let mut path = self.path(operand);
                    path.push(name.to_string());
                    self.paths.insert(expr.id, path);
                }
                let sum = costs.iter().fold(CostEstimate::default(), |sum, cost| sum.plus(*cost));
                return sum.plus(CostEstimate::fixed(1));
            }
            _ => {}
        }
        let mut sum = CostEstimate::default();
        if let Some(target) = &call.target {
            sum = sum.plus(self.cost(target));
        }
        let target = call.target.as_ref().map(|target| self.node(target));
        let args: Vec<Node<'e>> = call.args.iter().map(|arg| self.node(arg)).collect();
        let mut cost: Option<CostEstimate> = None;
        let mut size: Option<SizeEstimate> = None;
        for overload in &call.overloads {
            let (own, result) = self.overload(expr, call, overload.id, target.as_ref(), &args, &costs);
            cost = Some(cost.map_or(own, |known| known.union(own)));
            if let Some(result) = result {
                size = Some(size.map_or(result, |known| known.union(result)));
            }
            let (part, container) = match overload.id {
                "index_list" => ("@items", call.args.first()),
                "index_map" => ("@values", call.args.first()),
                _ => ("", None),
            };
            if let Some(container) = container {
                size = self.entry_sizes(container).map(|entries| entries.value);
                let mut path = self.path(container);
                path.push(part.to_owned());
                self.paths.insert(expr.id, path);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        sum.plus(cost.unwrap_or_default())
    }

    /// Returns the cost of one overload with its arguments, and the size of its result.
    fn overload(
        &mut self,
        expr: &'e Expr,
        call: &'e Call,
        id: &str,
        target: Option<&Node<'e>>,
        args: &[Node<'e>],
        costs: &[CostEstimate],
    ) -> (CostEstimate, Option<SizeEstimate>) {
        let of_args = costs.iter().fold(CostEstimate::default(), |sum, cost| sum.plus(*cost));
        if let Some((cost, size)) = library::estimate(self, &call.function, id, target, args) {
            return (cost.plus(of_args), size);
        }
        // The checker's own sizes, which do not look at declarations a second time.
        let size = |node: &Node<'_>| node.size.unwrap_or(UNKNOWN);
        let read = |size: SizeEstimate| size.scaled(PER_CHARACTER).plus(of_args);
        match (id, target, args) {
            ("string_format", Some(target), _) => return (read(size(target)), None),
            ("string_to_bytes", _, [arg]) => {
                let SizeEstimate { min, max } = size(arg);
                return (read(size(arg)), Some(SizeEstimate { min, max: max.saturating_mul(4) }));
            }
            ("bytes_to_string", _, [arg]) => {
                let SizeEstimate { min, max } = size(arg);
                return (read(size(arg)), Some(SizeEstimate { min: min / 4, max }));
            }
            ("strings_quote", _, [arg]) => {
                let SizeEstimate { min, max } = size(arg);
                let quoted = SizeEstimate { min: min.saturating_add(2), max: max.saturating_mul(2).saturating_add(2) };
                return (read(size(arg)), Some(quoted));
            }
            ("starts_with_string" | "ends_with_string", _, [arg]) => return (read(size(arg)), None),
            ("in_list", _, [_, list]) => return (size(list).plus(of_args), None),
            ("matches_string", Some(target), [pattern]) => {
                let text = size(target).plus(SizeEstimate::fixed(1)).scaled(PER_CHARACTER);
                return (text.times(size(pattern).scaled(PER_PATTERN_CHARACTER)).plus(of_args), None);
            }
            ("contains_string", Some(target), [part]) => {
                let text = size(target).scaled(PER_CHARACTER);
                return (text.times(size(part).scaled(PER_CHARACTER)).plus(of_args), None);
            }
            ("conditional", _, [_, chosen, otherwise]) => {
                let result = size(chosen).union(size(otherwise));
                let entries = match (chosen.expr, otherwise.expr) {
                    (Some(a), Some(b)) => self.entry_sizes(a).zip(self.entry_sizes(b)),
                    _ => None,
                };
                if let Some((a, b)) = entries {
                    self.entries.insert(expr.id, a.union(b));
                }
                if let [condition, chosen, otherwise] = costs {
                    return (condition.plus(chosen.union(*otherwise)), Some(result));
                }
            }
            ("add_string" | "add_bytes" | "add_list", _, [left, right]) => {
                let result = size(left).plus(size(right));
                let entries = match (left.expr, right.expr) {
                    (Some(a), Some(b)) => self.entry_sizes(a).zip(self.entry_sizes(b)),
                    _ => None,
                };
                if let Some((a, b)) = entries {
                    self.entries.insert(expr.id, a.union(b));
                }
                let cost = if id == "add_list" { CostEstimate::fixed(1).plus(of_args) } else { read(result) };
                return (cost, Some(result));
            }
            (
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "equals"
                | "not_equals",
                _,
                [left, right],
            ) => {
                let max = size(left).max.min(size(right).max);
                return (read(SizeEstimate { min: u64::from(max > 0), max }), None);
            }
            _ => {}
        }
        (CostEstimate::fixed(1).plus(of_args), None)
    }

    fn comprehension(&mut self, expr: &'e Expr, fold: &'e Comprehension) -> CostEstimate {
        let mut sum = self.cost(&fold.range).plus(self.cost(&fold.init));
        let depth = self.locals.len();
        let accumulator =
            Local { path: self.path(&fold.init), size: self.size(&fold.init), entries: self.entry_sizes(&fold.init) };
        self.locals.push((&fold.accumulator, accumulator));

        let entries = self.entry_sizes(&fold.range);
        let is_list =
            entries.map_or(matches!(self.checked.type_of(fold.range.id), Type::List(_)), |entries| entries.is_list);
        let path = self.path(&fold.range);
        let local = |part: &str, size: Option<SizeEstimate>| {
            let mut path = path.clone();
            path.push(part.to_owned());
            Local { path, size, entries: None }
        };
        let (key, value) = (entries.map(|entries| entries.key), entries.map(|entries| entries.value));
        let keys = if is_list { "@indices" } else { "@keys" };
        let values = if is_list { "@items" } else { "@values" };
        match &fold.second_variable {
            Some(second) => {
                self.locals.push((&fold.variable, local(keys, key)));
                self.locals.push((second, local(values, value)));
            }
            None if is_list => self.locals.push((&fold.variable, local("@items", value))),
            None => self.locals.push((&fold.variable, local("@keys", key))),
        }
        let each = self.cost(&fold.condition).plus(self.cost(&fold.step));
        self.locals.truncate(depth + 1);
        sum = sum.plus(self.cost(&fold.result));
        self.locals.truncate(depth);

        let count = self.size_or_unknown(&fold.range);
        sum = sum.plus(count.times(each));
        match &fold.init.kind {
            ExprKind::Literal(_) => {
                if let Some(size) = self.size(&fold.init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            ExprKind::List { .. } | ExprKind::Map(_) => {
                self.sizes.insert(expr.id, count);
                if let Some(entries) = self.entry_sizes(&fold.step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        sum
    }

    /// A comprehension over nothing binds a name to a value.
    fn binding(&mut self, expr: &'e Expr, fold: &'e Comprehension) -> CostEstimate {
        let mut sum = self.cost(&fold.range).plus(self.cost(&fold.init));
        let local =
            Local { path: self.path(&fold.init), size: self.size(&fold.init), entries: self.entry_sizes(&fold.init) };
        let depth = self.locals.len();
        self.locals.push((&fold.accumulator, local));
        sum = sum.plus(self.cost(&fold.result));
        let size = self.size(&fold.result);
        let entries = self.entry_sizes(&fold.result);
        self.locals.truncate(depth);
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        if let Some(entries) = entries {
            self.entries.insert(expr.id, entries);
        }
        sum
    }
}

/// Returns whether values of a type have one size.
fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        other => other.unwrap_optional().is_some_and(is_scalar),
    }
}

fn is_binding(fold: &Comprehension) -> bool {
    matches!(&fold.range.kind, ExprKind::List { elements, .. } if elements.is_empty())
        && matches!(fold.condition.kind, ExprKind::Literal(Literal::Bool(false)))
        && fold.accumulator != ACCUMULATOR
}
