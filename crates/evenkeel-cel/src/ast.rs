//! The syntax tree, after the expansion of macros.

use std::sync::Arc;

use crate::library::Overload;

/// The identity of a node: the key of its place in the source, of its type and of its cost.
pub(crate) type ExprId = u32;

/// A constant of the source.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A signed integer, such as `-1`.
    Int(i64),
    /// An unsigned integer, such as `1u`.
    Uint(u64),
    /// A number with a point or an exponent.
    Double(f64),
    /// A text, without its quotes and escapes.
    String(Arc<str>),
    /// Bytes, such as `b'a'`.
    Bytes(Arc<[u8]>),
}

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) id: ExprId,
    pub(crate) kind: ExprKind,
    /// The height of the tree below, which bounds the recursion of every pass.
    pub(crate) height: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Literal(Literal),
    Ident(String),
    Select {
        operand: Box<Expr>,
        field: String,
        /// Whether the presence of the field is tested.
        test_only: bool,
    },
    Call(Box<Call>),
    List {
        elements: Vec<Expr>,
        /// The indexes of elements that are optional.
        optional: Vec<usize>,
    },
    Map(Vec<MapEntry>),
    Struct {
        type_name: String,
        fields: Vec<StructField>,
    },
    Comprehension(Box<Comprehension>),
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) target: Option<Expr>,
    pub(crate) function: String,
    pub(crate) args: Vec<Expr>,
    /// The overloads that fit the types, once checked.
    pub(crate) overloads: Vec<&'static Overload>,
}

impl Call {
    pub(crate) fn new(target: Option<Expr>, function: &str, args: Vec<Expr>) -> Self {
        Call { target, function: function.to_owned(), args, overloads: Vec::new() }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct MapEntry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct StructField {
    pub(crate) id: ExprId,
    pub(crate) name: String,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A fold over a list or map.
#[derive(Clone, Debug)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) variable: String,
    pub(crate) second_variable: Option<String>,
    pub(crate) accumulator: String,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    pub(crate) fn new(id: ExprId, kind: ExprKind) -> Self {
        let highest = |expressions: &[Expr]| expressions.iter().map(|expr| expr.height).max().unwrap_or(0);
        let below = match &kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => 0,
            ExprKind::Select { operand, .. } => operand.height,
            ExprKind::Call(call) => highest(&call.args).max(call.target.as_ref().map_or(0, |target| target.height)),
            ExprKind::List { elements, .. } => highest(elements),
            ExprKind::Map(entries) => {
                entries.iter().map(|entry| entry.key.height.max(entry.value.height)).max().unwrap_or(0)
            }
            ExprKind::Struct { fields, .. } => fields.iter().map(|field| field.value.height).max().unwrap_or(0),
            ExprKind::Comprehension(fold) => [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result]
                .iter()
                .map(|expr| expr.height)
                .max()
                .unwrap_or(0),
        };
        Expr { id, kind, height: below + 1 }
    }

    /// Returns the dotted name that the expression is, if it is one.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Ident(name) => Some(name.clone()),
            ExprKind::Select { operand, field, test_only: false } => {
                operand.qualified_name().map(|name| format!("{name}.{field}"))
            }
            _ => None,
        }
    }
}
