//! `?shardSelector=`: a CEL expression that is parsed and never evaluated.

use evenkeel_cel::{Literal, SyntaxNode, SyntaxTree};
use evenkeel_core::shard::{self, ShardField, ShardRange, ShardRanges, ShardSelector, ShardSelectorError};
use evenkeel_core::{Reason, Status};

use crate::store::Record;

/// A compiled shard selector.
#[derive(Debug)]
pub(crate) struct ShardFilter {
    field: ShardField,
    ranges: ShardRanges,
    /// The selector as lists return it: the ranges of the request in their order.
    text: String,
}

/// A text that is no shard selector. The messages are those of kube-apiserver.
#[derive(Debug, thiserror::Error)]
enum ShardFilterError {
    #[error(transparent)]
    Selector(#[from] ShardSelectorError),
    #[error("CEL parse error: {message}")]
    Syntax { message: String },
    #[error("unsupported function {function:?}; only shardRange() and || are allowed")]
    Function { function: String },
    #[error("unexpected expression kind {kind}; expected shardRange() call or || operator")]
    Expression { kind: u8 },
    #[error("shardRange() requires exactly 3 arguments, got {count}")]
    Arguments { count: usize },
    #[error("shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind {kind}")]
    NoPath { kind: u8 },
    #[error("{bound} must be a string literal (e.g. '0xff'), got expression kind {kind}")]
    NoLiteral { bound: &'static str, kind: u8 },
    #[error("{bound} must be a string literal, got {go_type}")]
    NoString { bound: &'static str, go_type: &'static str },
}

impl ShardFilter {
    /// Parses the value of the parameter.
    ///
    /// # Errors
    ///
    /// The value is malformed. The Status has the code 500 and no reason, as that of kube-apiserver.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        parse(text).map_err(|error| Status::failure(500, Reason::default(), format!("invalid shard selector: {error}")))
    }

    /// Returns whether the place of an object is in one of the ranges.
    pub(crate) fn matches(&self, key: &str, record: &Record) -> bool {
        self.ranges.contains(shard::place(match self.field {
            ShardField::Uid => &record.facts.uid,
            ShardField::Namespace => key.split_once('/').map_or("", |(namespace, _)| namespace),
        }))
    }

    /// Returns the selector as lists return it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

fn parse(text: &str) -> Result<ShardFilter, ShardFilterError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ShardSelectorError::Empty.into());
    }
    let tree = SyntaxTree::parse(text).map_err(|error| {
        let message = error.issues().first().map_or_else(String::new, |issue| issue.message.clone());
        ShardFilterError::Syntax { message }
    })?;
    let mut ranges = Vec::new();
    add_ranges(&tree.root(), &mut ranges)?;
    let &[(field, _), ..] = ranges.as_slice() else { return Err(ShardSelectorError::Empty.into()) };
    if let Some(&(other, _)) = ranges.iter().find(|(other, _)| *other != field) {
        return Err(ShardSelectorError::MixedFields { first: field, other }.into());
    }
    let text: Vec<String> =
        ranges.iter().map(|(field, range)| ShardSelector::new(*field, *range).to_string()).collect();
    Ok(ShardFilter { field, ranges: ranges.iter().map(|(_, range)| *range).collect(), text: text.join(" || ") })
}

/// Appends the ranges of an expression. The parser bounds the depth of the recursion.
fn add_ranges(node: &SyntaxNode<'_>, ranges: &mut Vec<(ShardField, ShardRange)>) -> Result<(), ShardFilterError> {
    match node {
        SyntaxNode::Call { function: "_||_", args } => args.iter().try_for_each(|arg| add_ranges(arg, ranges)),
        SyntaxNode::Call { function: "shardRange", args } => {
            let [field, start, end] = args.as_slice() else {
                return Err(ShardFilterError::Arguments { count: args.len() });
            };
            let field = path(field)?.parse()?;
            let start = bound("hexStart", start)?;
            let end = bound("hexEnd", end)?;
            ranges.push((field, shard::range_of(start, end)?));
            Ok(())
        }
        SyntaxNode::Call { function, .. } => Err(ShardFilterError::Function { function: (*function).to_owned() }),
        other => Err(ShardFilterError::Expression { kind: go_kind(other) }),
    }
}

fn path(node: &SyntaxNode<'_>) -> Result<String, ShardFilterError> {
    match node {
        SyntaxNode::Ident(name) => Ok((*name).to_owned()),
        SyntaxNode::Select { operand, field } => Ok(format!("{}.{field}", path(operand)?)),
        other => Err(ShardFilterError::NoPath { kind: go_kind(other) }),
    }
}

fn bound(bound: &'static str, node: &SyntaxNode<'_>) -> Result<u128, ShardFilterError> {
    let SyntaxNode::Literal(literal) = node else {
        return Err(ShardFilterError::NoLiteral { bound, kind: go_kind(node) });
    };
    let go_type = match literal {
        Literal::String(text) => return Ok(shard::parse_bound(bound, text)?),
        Literal::Null => "structpb.NullValue",
        Literal::Bool(_) => "bool",
        Literal::Int(_) => "int64",
        Literal::Uint(_) => "uint64",
        Literal::Double(_) => "float64",
        Literal::Bytes(_) => "[]uint8",
    };
    Err(ShardFilterError::NoString { bound, go_type })
}

/// Returns the number that cel-go gives the kind of a node.
fn go_kind(node: &SyntaxNode<'_>) -> u8 {
    match node {
        SyntaxNode::Call { .. } => 1,
        SyntaxNode::Ident(_) => 3,
        SyntaxNode::List => 4,
        SyntaxNode::Literal(_) => 5,
        SyntaxNode::Map => 6,
        SyntaxNode::Select { .. } => 7,
        SyntaxNode::Struct => 8,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
