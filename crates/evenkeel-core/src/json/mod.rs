//! Reading JSON in place, without building a tree of it: [`JsonValue`] for single values, [`JsonPaths`] for what is to be
//! cut out, [`JsonError`] for what is wrong.
//!
//! Most of what passes through an informer is never looked at. The scanner behind all of this therefore checks the whole
//! text (grammar, UTF-8, depth) but only hands out what it is asked for, as slices of the text. Where a fault stands is worked out when
//! there is one: the hot path keeps no record of the path it is on.

mod cut;
mod error;
mod path;
mod plain;
mod scanner;
mod value;

pub(crate) use cut::{Active, Cut, Found};
pub use cut::{JsonPaths, PathError};
pub use error::{JsonError, JsonFault};
pub(crate) use path::{Segment, path_at, segments};
pub(crate) use plain::plain_length;
pub use scanner::Shape;
pub(crate) use scanner::{MAX_DEPTH, Scanner};
pub use value::JsonValue;
