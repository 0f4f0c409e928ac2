//! The Common Expression Language as Kubernetes has it.
//!
//! An [`Environment`] declares variables and compiles expressions; a [`Program`] evaluates one over JSON values, which are
//! borrowed. Messages, places and costs are those of cel-go, and the functions those of kube-apiserver.
//!
//! ```
//! use evenkeel_cel::{Environment, Type, Value};
//!
//! let environment = Environment::new().with_variable("self", Type::Dyn);
//! let program = environment.compile("self.minimum <= self.maximum")?.into_program();
//! let object = serde_json::json!({"minimum": 1, "maximum": 3});
//! let variables = [("self", Value::from_any_json(&object))];
//! assert!(matches!(program.evaluate(&variables[..], 1000).result, Ok(Value::Bool(true))));
//! # Ok::<(), evenkeel_cel::CompileError>(())
//! ```
//!
//! # Not supported
//!
//! - Names of time zones, which need a database: `getHours('America/New_York')` fails; `UTC` and offsets work.
//! - Messages of protocol buffers. Objects are JSON; an expression constructs those of [`Environment::with_object`] and
//!   [`Environment::with_patch_types`].

mod ast;
mod checker;
mod cost;
mod environment;
mod equality;
mod error;
mod eval;
mod library;
mod patches;
pub mod regexp;
mod schema;
mod source;
mod syntax;
mod syntax_tree;
mod time;
mod types;
mod validators;
mod value;

#[cfg(test)]
mod tests;

pub use ast::Literal;
pub use cost::CostEstimate;
pub use environment::{Compiled, Environment, Evaluation, Program, Variables};
pub use error::EvalError;
pub use library::opaque::Opaque;
pub use library::{Authorizer, Check, Decision};
pub use patches::MisnamedObject;
pub use schema::{DeclKind, DeclType, FieldDecl, ListIdentity, MAX_REQUEST_BYTES, ObjectDecl, escape};
pub use source::{CompileError, Issue, Location};
pub use syntax_tree::{SyntaxNode, SyntaxTree};
pub use types::Type;
pub use value::{Key, List, Map, Text, Value};
