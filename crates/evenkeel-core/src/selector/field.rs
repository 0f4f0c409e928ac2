//! [`FieldSelector`]: a conjunction of comparisons of fields with values.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

#[cfg(feature = "internals")]
mod internals;

use super::error::SelectorError;

/// Selects objects by the values of fields. All terms must hold; an empty selector selects everything.
///
/// The server defines which fields a kind supports; this type implements the grammar only. Terms are sorted by their text, so
/// selectors with the same terms compare equal.
///
/// ```
/// use evenkeel_core::FieldSelector;
///
/// let selector = FieldSelector::parse("status.phase!=Failed,spec.nodeName==node-1").unwrap();
/// assert_eq!(selector.to_string(), "spec.nodeName=node-1,status.phase!=Failed");
/// assert!(selector.matches(|field| (field == "spec.nodeName").then_some("node-1")));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

/// One comparison of a [`FieldSelector`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldTerm {
    /// The field, such as `metadata.name`.
    pub field: String,
    /// The operator.
    pub operator: FieldOperator,
    /// The value to compare with.
    pub value: String,
}

/// The operator of a [`FieldTerm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldOperator {
    /// The field has the value.
    Equals,
    /// The field has another value.
    NotEquals,
}

impl FieldSelector {
    /// Returns the selector that selects everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Parses a selector in the notation of `kubectl --field-selector` and of the `fieldSelector` query parameter.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for term in split_terms(text).filter(|term| !term.is_empty()) {
            let (field, operator, value) = split_term(term)
                .ok_or_else(|| SelectorError::UnknownTerm { selector: text.into(), term: term.into() })?;
            terms.push(FieldTerm { field: field.into(), operator, value: unescape(value)?.into_owned() });
        }
        terms.sort_by_cached_key(FieldTerm::to_string);
        Ok(FieldSelector { terms })
    }

    /// Adds a term. The value may be any text; it is escaped where necessary.
    pub fn and(
        mut self,
        field: impl Into<String>,
        operator: FieldOperator,
        value: impl Into<String>,
    ) -> Result<Self, SelectorError> {
        let field = field.into();
        if field.is_empty() || field.contains(['=', '!', ',', '\\']) {
            return Err(SelectorError::InvalidField { field });
        }
        self.terms.push(FieldTerm { field, operator, value: value.into() });
        self.terms.sort_by_cached_key(FieldTerm::to_string);
        Ok(self)
    }

    /// Returns whether the selector selects everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns whether the selector selects an object; `get` looks up its fields. An absent field equals the empty value.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|term| {
            let equal = get(&term.field).unwrap_or_default() == term.value;
            equal == (term.operator == FieldOperator::Equals)
        })
    }
}

impl fmt::Display for FieldTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match self.operator {
            FieldOperator::Equals => "=",
            FieldOperator::NotEquals => "!=",
        };
        write!(f, "{}{operator}{}", self.field, escape(&self.value))
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            term.fmt(f)?;
        }
        Ok(())
    }
}

impl FromStr for FieldSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Self::parse(text)
    }
}

/// Splits at every unescaped comma.
fn split_terms(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c| match c {
        _ if escaped => {
            escaped = false;
            false
        }
        '\\' => {
            escaped = true;
            false
        }
        c => c == ',',
    })
}

/// Splits at the first operator. The name of the field on the left has no escapes.
fn split_term(term: &str) -> Option<(&str, FieldOperator, &str)> {
    let equals = term.find('=')?;
    let (left, right) = (term.get(..equals)?, term.get(equals + 1..)?);
    Some(match left.strip_suffix('!') {
        Some(field) => (field, FieldOperator::NotEquals, right),
        None => (left, FieldOperator::Equals, right.strip_prefix('=').unwrap_or(right)),
    })
}

fn unescape(value: &str) -> Result<Cow<'_, str>, SelectorError> {
    if !value.contains(['\\', ',', '=']) {
        return Ok(Cow::Borrowed(value));
    }
    let mut out = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    let sequence = std::iter::once('\\').chain(other).collect();
                    return Err(SelectorError::InvalidEscape { sequence });
                }
            },
            ',' | '=' => return Err(SelectorError::Unescaped { character: c }),
            c => out.push(c),
        }
    }
    Ok(Cow::Owned(out))
}

fn escape(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', ',', '=']) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len() + 4);
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            out.push('\\');
        }
        out.push(c);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;
