//! JSONPath templates as kubectl has them: [`JsonPathTemplate`].
//!
//! A template is text with actions in braces. It is compiled once, immutable, and may be used by many threads.
//!
//! ```
//! use evenkeel_core::jsonpath::JsonPathTemplate;
//! use serde_json::json;
//!
//! let pods = json!({"items": [
//!     {"metadata": {"name": "web-0"}, "status": {"phase": "Running"}},
//!     {"metadata": {"name": "web-1"}, "status": {"phase": "Pending"}},
//! ]});
//! let names = JsonPathTemplate::parse(r#"{range .items[?(@.status.phase=="Running")]}{.metadata.name}{"\n"}{end}"#)?;
//! assert_eq!(names.render(&pods)?, "web-0\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | in an action | selects |
//! |---|---|
//! | `.field`, `['field']` | a member of a map; a backslash before a character of a name keeps it |
//! | `[n]`, `[a:b:step]`, `[*]` | elements of a list; negative numbers count from its end |
//! | `.*` | all members of a map, in the order of their keys, or all elements of a list |
//! | `..field` | members of that name at any depth |
//! | `[x,y]` | what `x` selects, then what `y` selects |
//! | `[?(@.type=="Ready")]` | elements of a list for which the comparison holds, or with a path alone, that have it |
//! | `"text"`, `1`, `true` | the value itself |
//! | `range …`, `end` | repeats what is between the two for each result |
//!
//! `$` and `@` may stand in front and both mean the current value: the document, or the result of the innermost `range`.

mod error;
mod evaluate;
mod output;
mod parse;
mod quote;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub use error::{JsonPathError, JsonPathSyntaxError};

use evaluate::Evaluation;
use parse::{Block, Step};

/// The largest length of a template, in characters.
const MAX_LENGTH: usize = 1024;
/// The deepest nesting of a template, and of a document below `..`.
const MAX_DEPTH: usize = 64;
/// The largest number of results.
const MAX_RESULTS: usize = 100_000;
/// The largest number of values that an evaluation may visit.
const MAX_VISITS: usize = 10_000_000;
/// The largest output, in bytes.
const MAX_OUTPUT: usize = 64 << 20;

/// What a quoted key in brackets means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// `['a.b']` is the member `a.b`, as in RFC 9535.
    #[default]
    Literal,
    /// `['a.b']` is the path `.a.b`, as in kubectl and in the printer columns of kube-apiserver; `['a\.b']` is the member `a.b`
    /// in both dialects. There are no double quotes.
    Kubectl,
}

/// A compiled template.
///
/// # Limits
/// 1,024 characters, 64 levels of nesting, 100,000 results, 64 MiB of output. Each has an error of its own.
#[derive(Clone, Debug)]
pub struct JsonPathTemplate {
    blocks: Box<[Block]>,
    allow_missing_keys: bool,
}

impl JsonPathTemplate {
    /// Compiles a template of the [literal](Dialect::Literal) dialect.
    ///
    /// # Errors
    /// The template is malformed, too long or nested too deeply.
    pub fn parse(template: &str) -> Result<Self, JsonPathSyntaxError> {
        Self::parse_dialect(template, Dialect::Literal)
    }

    /// Compiles a template of a dialect.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_dialect(template: &str, dialect: Dialect) -> Result<Self, JsonPathSyntaxError> {
        let blocks = parse::parse(template, dialect)?.into();
        Ok(JsonPathTemplate { blocks, allow_missing_keys: false })
    }

    /// Compiles one path in kubectl's relaxed form: `a.b`, `.a.b`, `{a.b}` and `{.a.b}` are the same.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_relaxed(path: &str, dialect: Dialect) -> Result<Self, JsonPathSyntaxError> {
        let inner = path.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(path);
        let is_rooted = inner.is_empty() || inner.starts_with(['.', '[', '$', '@']);
        Self::parse_dialect(&format!("{{{}{inner}}}", if is_rooted { "" } else { "." }), dialect)
    }

    /// Makes keys that no input has an empty result instead of an error.
    #[must_use]
    pub fn allow_missing_keys(self, allow: bool) -> Self {
        JsonPathTemplate { allow_missing_keys: allow, ..self }
    }

    /// Returns the results, a list for each text and each action in the order in which they are evaluated.
    ///
    /// # Errors
    /// See [`JsonPathError`].
    pub fn results<'v>(&'v self, document: &'v Value) -> Result<Vec<Vec<&'v Value>>, JsonPathError> {
        let mut evaluation = Evaluation::new(self.allow_missing_keys);
        evaluation.blocks(&self.blocks, document)?;
        Ok(evaluation.into_results())
    }

    /// Returns the first result of the first text or action.
    ///
    /// # Errors
    /// See [`JsonPathError`].
    pub fn first<'v>(&'v self, document: &'v Value) -> Result<Option<&'v Value>, JsonPathError> {
        let [Block::Print(steps)] = &*self.blocks else {
            return Ok(self.results(document)?.first().and_then(|results| results.first().copied()));
        };
        // The common case, `.spec.replicas`, needs no lists.
        let fields = steps.iter().map_while(|step| match step {
            Step::Field(name) => Some(&**name),
            _ => None,
        });
        let (mut value, mut walked) = (document, 0);
        for name in fields {
            match value.get(name) {
                Some(member) => (value, walked) = (member, walked + 1),
                None if self.allow_missing_keys => return Ok(None),
                None => return Err(JsonPathError::NotFound { key: name.to_owned() }),
            }
        }
        match steps.get(walked..) {
            None | Some([]) => Ok(Some(value)),
            Some(rest) => {
                let results = Evaluation::new(self.allow_missing_keys).steps(rest, vec![value])?;
                Ok(results.first().copied())
            }
        }
    }

    /// Renders the document as kubectl's `-o jsonpath` does: the results of an action are separated by spaces, maps and lists are
    /// compact JSON.
    ///
    /// # Errors
    /// See [`JsonPathError`].
    pub fn render(&self, document: &Value) -> Result<String, JsonPathError> {
        output::text(&self.results(document)?)
    }

    /// Renders the document as kubectl's `-o jsonpath-as-json` does: an indented array for each text and each action.
    ///
    /// # Errors
    /// See [`JsonPathError`].
    pub fn render_json(&self, document: &Value) -> Result<String, JsonPathError> {
        output::json(&self.results(document)?)
    }
}
