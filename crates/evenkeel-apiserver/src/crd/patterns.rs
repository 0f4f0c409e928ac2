//! The patterns of a schema: each must be valid, and all together must not exceed a limit of memory.

use std::collections::HashSet;

use serde_json::Value;

use super::structure::{at_property, entries, within};
use super::{list, text};
use crate::field::{FieldError, is_full};
use crate::schema::path::Path;
use crate::schema::{MAX_DEFINITION_PATTERN_BYTES, MAX_PATTERN_BYTES, PatternFault, pattern_bytes};

/// The distinct patterns of a definition, in all its versions.
#[derive(Default)]
pub(super) struct Patterns<'a> {
    seen: HashSet<&'a str>,
    bytes: usize,
}

impl<'a> Patterns<'a> {
    /// Checks the patterns at all positions of a schema. The recursion is as deep as the schema, which is limited.
    pub(super) fn check(&mut self, schema: &'a Value, path: &mut Path, errors: &mut Vec<FieldError>) {
        if is_full(errors) {
            return;
        }
        let pattern = text(schema, &["pattern"]);
        if let Err(fault) = self.pattern(pattern) {
            let detail = format!("must be a valid regular expression, but isn't: {fault}");
            errors.push(FieldError::invalid(path.child("pattern"), &Value::from(pattern), detail));
        }
        for key in ["items", "additionalProperties", "not"] {
            if let Some(part) = schema.get(key) {
                within(path, key, |path| self.check(part, path, errors));
            }
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            for (index, part) in list(schema, &[key]).iter().enumerate() {
                within(path, &format!("{key}[{index}]"), |path| self.check(part, path, errors));
            }
        }
        for (name, property) in entries(schema.get("properties").unwrap_or(&Value::Null)) {
            at_property(path, name, |path| self.check(property, path, errors));
        }
    }

    fn pattern(&mut self, pattern: &'a str) -> Result<(), PatternFault> {
        if pattern.is_empty() || !self.seen.insert(pattern) {
            return Ok(());
        }
        // Beyond the limit nothing more is compiled.
        if self.bytes <= MAX_DEFINITION_PATTERN_BYTES {
            // Compiling a pattern up to its limit takes a tenth of a second, so one that is too large counts, too.
            let compiled = pattern_bytes(pattern);
            self.bytes += match &compiled {
                Ok(bytes) => *bytes,
                Err(fault) if fault.is_too_large() => MAX_PATTERN_BYTES,
                Err(_) => 0,
            };
            compiled?;
        }
        if self.bytes > MAX_DEFINITION_PATTERN_BYTES {
            return Err(PatternFault::too_large(pattern));
        }
        Ok(())
    }
}
