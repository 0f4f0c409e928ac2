//! Checks of constant arguments that would fail in every evaluation.

use crate::ast::{Expr, ExprKind, Literal};
use crate::environment::walk;
use crate::regexp;
use crate::source::{Issue, Source};
use crate::time;

/// Returns the faults of constant durations, timestamps and regular expressions.
pub(crate) fn literal_issues(root: &Expr, offsets: &[u32], source: &Source) -> Vec<Issue> {
    let mut issues = Vec::new();
    walk(root, &mut |expr| {
        let ExprKind::Call(call) = &expr.kind else { return };
        let arg = match (call.function.as_str(), &call.target, call.args.as_slice()) {
            ("duration" | "timestamp", None, [arg]) => arg,
            ("matches", Some(_), [arg]) | ("matches", None, [_, arg]) => arg,
            _ => return,
        };
        let ExprKind::Literal(Literal::String(text)) = &arg.kind else { return };
        let message = match call.function.as_str() {
            "duration" if time::parse_duration(text).is_none() => "invalid duration argument",
            "timestamp" if time::parse_timestamp(text).is_none() => "invalid timestamp argument",
            "matches" if regexp::compiled(text).is_err() => "invalid matches argument",
            _ => return,
        };
        let offset = offsets.get(arg.id as usize).copied().unwrap_or(0);
        issues.push(Issue { location: source.location(offset), message: message.to_owned() });
    });
    issues
}
