//! [`SyntaxTree`]: an expression that is read and not evaluated.

use crate::ast::{Expr, ExprKind, Literal};
use crate::source::{CompileError, Source};
use crate::syntax::{self, Macros};

/// The syntax tree of an expression, for languages that borrow the grammar of CEL and give it a meaning of their own.
///
/// Macros are calls like all others, and names need no declaration.
///
/// ```
/// use evenkeel_cel::{SyntaxNode, SyntaxTree};
///
/// let tree = SyntaxTree::parse("pick(object.name, 'a') || other()")?;
/// let SyntaxNode::Call { function, args } = tree.root() else { panic!("an operator is a call") };
/// assert_eq!((function, args.len()), ("_||_", 2));
/// # Ok::<(), evenkeel_cel::CompileError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SyntaxTree(Expr);

/// A node of a [`SyntaxTree`]. A tree is at most 250 nodes high.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SyntaxNode<'t> {
    /// A call of a function or method, or an operator, such as `_||_`.
    Call {
        /// The name.
        function: &'t str,
        /// The arguments, without the target of a method.
        args: Vec<SyntaxNode<'t>>,
    },
    /// A name.
    Ident(&'t str),
    /// A list.
    List,
    /// A constant.
    Literal(&'t Literal),
    /// A map.
    Map,
    /// A field of an operand.
    Select {
        /// The operand.
        operand: Box<SyntaxNode<'t>>,
        /// The name of the field.
        field: &'t str,
    },
    /// The construction of an object.
    Struct,
}

impl SyntaxTree {
    /// Parses an expression.
    ///
    /// # Errors
    ///
    /// The text does not fit the grammar, or exceeds a limit of cel-go.
    pub fn parse(text: &str) -> Result<Self, CompileError> {
        let source = Source::new(text);
        match syntax::parse(&source, Macros::Calls) {
            Ok(parsed) => Ok(SyntaxTree(parsed.root)),
            Err(issues) => Err(CompileError::new(&source, issues)),
        }
    }

    /// Returns the outermost node.
    pub fn root(&self) -> SyntaxNode<'_> {
        SyntaxNode::of(&self.0)
    }
}

impl<'t> SyntaxNode<'t> {
    fn of(expr: &'t Expr) -> Self {
        match &expr.kind {
            ExprKind::Literal(literal) => SyntaxNode::Literal(literal),
            ExprKind::Ident(name) => SyntaxNode::Ident(name),
            ExprKind::Select { operand, field, .. } => {
                SyntaxNode::Select { operand: Box::new(SyntaxNode::of(operand)), field }
            }
            ExprKind::Call(call) => {
                SyntaxNode::Call { function: &call.function, args: call.args.iter().map(SyntaxNode::of).collect() }
            }
            // Folds are made by macros alone.
            ExprKind::List { .. } | ExprKind::Comprehension(_) => SyntaxNode::List,
            ExprKind::Map(_) => SyntaxNode::Map,
            ExprKind::Struct { .. } => SyntaxNode::Struct,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_are_calls() {
        let tree = SyntaxTree::parse("has(a.b) && c.all(d, e)").unwrap();
        let SyntaxNode::Call { function: "_&&_", args } = tree.root() else { panic!("{tree:?}") };
        let names: Vec<&str> = args
            .iter()
            .map(|arg| match arg {
                SyntaxNode::Call { function, .. } => *function,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(names, ["has", "all"]);
    }

    #[test]
    fn nodes_have_their_parts() {
        let tree = SyntaxTree::parse("f(a.b, 'c', 1, [2], {3: 4}, T{x: 5})").unwrap();
        let SyntaxNode::Call { function: "f", args } = tree.root() else { panic!("{tree:?}") };
        let operand = Box::new(SyntaxNode::Ident("a"));
        assert_eq!(
            args,
            [
                SyntaxNode::Select { operand, field: "b" },
                SyntaxNode::Literal(&Literal::String("c".into())),
                SyntaxNode::Literal(&Literal::Int(1)),
                SyntaxNode::List,
                SyntaxNode::Map,
                SyntaxNode::Struct,
            ]
        );
    }

    #[test]
    fn errors_are_those_of_the_grammar_and_its_limits() {
        let error = |text: &str| SyntaxTree::parse(text).unwrap_err().issues()[0].message.clone();
        assert!(error("a b").starts_with("Syntax error: "), "{}", error("a b"));
        let long = "a".repeat(100_001);
        assert_eq!(error(&long), "expression code point size exceeds limit: size: 100001, limit 100000");
    }
}
