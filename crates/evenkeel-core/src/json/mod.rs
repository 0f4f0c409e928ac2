//! JSON read in place, without building a tree.
//!
//! Most of what passes through an informer is never decoded. The scanner therefore checks the whole text (grammar, UTF-8, depth)
//! but returns only the requested values, as slices of the text. The path of an error is computed when the error occurs: the
//! hot path keeps no record of its position in the tree.

mod checked;
mod compact;
mod error;
#[cfg(feature = "internals")]
mod internals;
mod path;
mod plain;
mod prune;
mod scanner;
mod value;

pub(crate) use checked::look_up_checked;
pub use error::JsonError;
pub(crate) use error::JsonErrorKind;
pub use path::PathError;
pub(crate) use path::{JsonPath, PathSegment, path_at};
pub(crate) use plain::plain_length;
pub use prune::JsonPaths;
pub(crate) use prune::{ActivePaths, PathMatch, PruneMode};
pub(crate) use scanner::{JsonType, MAX_DEPTH, Scanner};
pub use value::JsonValue;
