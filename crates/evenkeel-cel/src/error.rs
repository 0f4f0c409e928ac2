//! Errors of evaluation.

use std::borrow::Cow;

/// Why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// An operation failed, such as `no such key: x`.
    #[error("{0}")]
    Failed(Cow<'static, str>),
    /// The types of the arguments match no overload.
    #[error("{0}")]
    NoSuchOverload(Cow<'static, str>),
    /// The evaluation cost more than its limit.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
}

impl EvalError {
    pub(crate) fn failed(text: impl Into<Cow<'static, str>>) -> Self {
        EvalError::Failed(text.into())
    }

    /// The arguments of an operator are of the wrong types.
    pub(crate) fn no_such_overload() -> Self {
        EvalError::NoSuchOverload(Cow::Borrowed("no such overload"))
    }
}
