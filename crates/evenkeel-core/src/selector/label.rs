//! [`LabelSelector`]: a conjunction of requirements on labels.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta;

use super::error::{RequirementError, SelectorError};
use super::lexer::{Lexer, Token};
use super::names;

#[cfg(feature = "internals")]
mod internals;

/// Selects objects by their labels. All requirements must hold; an empty selector selects everything.
///
/// Requirements are sorted by key, and the values of each are sorted and unique, so that selectors with the same meaning compare
/// equal and print the same. `==` and `=` are one operator.
///
/// ```
/// use evenkeel_core::LabelSelector;
///
/// let selector = LabelSelector::parse("tier in (web, api), app==shop, !canary").unwrap();
/// assert_eq!(selector.to_string(), "app=shop,!canary,tier in (api,web)");
/// let labels = [("app", "shop"), ("tier", "web")];
/// assert!(selector.matches(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, value)| *value)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// The operator of a [`Requirement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LabelOperator {
    /// The label exists and has the value.
    Equals,
    /// The label does not exist, or has another value.
    NotEquals,
    /// The label exists and has one of the values.
    In,
    /// The label does not exist, or has none of the values.
    NotIn,
    /// The label exists.
    Exists,
    /// The label does not exist.
    DoesNotExist,
    /// The label exists and is an integer greater than the value.
    GreaterThan,
    /// The label exists and is an integer less than the value.
    LessThan,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: LabelOperator,
    values: Vec<String>,
}

impl LabelSelector {
    /// Returns the selector that selects everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Parses a selector in the notation of `kubectl -l` and of the `labelSelector` query parameter.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut lexer = Lexer::new(text);
        let mut requirements = Vec::new();
        loop {
            match lexer.peek() {
                Token::Word(_) | Token::Not => {}
                Token::End => break,
                other => {
                    return Err(SelectorError::token(other.text(), "!, identifier, or 'end of string'"));
                }
            }
            let requirement = parse_requirement(&mut lexer)
                .map_err(|source| SelectorError::Requirement { source: Box::new(source) })?;
            requirements.push(requirement);
            match lexer.next() {
                Token::End => break,
                Token::Comma => match lexer.peek() {
                    Token::Word(_) | Token::Not => {}
                    other => return Err(SelectorError::token(other.text(), "identifier after ','")),
                },
                other => return Err(SelectorError::token(other.text(), "',' or 'end of string'")),
            }
        }
        Ok(Self::from_requirements(requirements))
    }

    /// Returns the selector of these requirements.
    fn from_requirements(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let mut requirements: Vec<Requirement> = requirements.into_iter().collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements }
    }

    /// Returns the selector of the `matchLabels` and `matchExpressions` of an API object.
    ///
    /// The operators of expressions are `In`, `NotIn`, `Exists` and `DoesNotExist`.
    fn from_match<'a, V>(
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        expressions: impl IntoIterator<Item = (&'a str, &'a str, V)>,
    ) -> Result<Self, SelectorError>
    where
        V: IntoIterator<Item = &'a str>,
    {
        let mut requirements = Vec::new();
        for (key, value) in labels {
            requirements.push(Requirement::new(key, LabelOperator::Equals, [value])?);
        }
        for (key, operator, values) in expressions {
            let operator = match operator {
                "In" => LabelOperator::In,
                "NotIn" => LabelOperator::NotIn,
                "Exists" => LabelOperator::Exists,
                "DoesNotExist" => LabelOperator::DoesNotExist,
                other => {
                    return Err(SelectorError::UnknownOperator { operator: other.into() });
                }
            };
            requirements.push(Requirement::new(key, operator, values)?);
        }
        Ok(Self::from_requirements(requirements))
    }

    /// Adds a requirement.
    pub fn and(mut self, requirement: Requirement) -> Self {
        let at = self.requirements.partition_point(|other| other.key <= requirement.key);
        self.requirements.insert(at, requirement);
        self
    }

    /// Returns whether the selector selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns whether the selector selects an object; `get` looks up its labels.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(get(&requirement.key)))
    }
}

impl Requirement {
    /// Returns a requirement, if its key, its values and their number are valid.
    pub fn new<V: Into<String>>(
        key: impl Into<String>,
        operator: LabelOperator,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Self, SelectorError> {
        let key = key.into();
        let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
        let mut errors = Vec::new();
        let mut add_error = |field: String, value: String, detail: String| {
            errors.push(RequirementError { field, value, detail });
        };
        if let Some(detail) = names::label_key_error(&key) {
            add_error("key".into(), names::quote(&key), detail);
        }
        if let Some(detail) = operator.count_error(values.len()) {
            add_error("values".into(), go_slice(&values), detail.into());
        }
        for (index, value) in values.iter().enumerate() {
            if operator.compares() && value.parse::<i64>().is_err() {
                add_error(
                    format!("values[{index}]"),
                    names::quote(value),
                    "for 'Gt', 'Lt' operators, the value must be an integer".into(),
                );
            }
        }
        for (index, value) in values.iter().enumerate() {
            if let Some(detail) = names::label_value_error(value) {
                add_error(format!("values[{index}][{key}]"), names::quote(value), detail);
            }
        }
        if !errors.is_empty() {
            return Err(SelectorError::InvalidRequirement { errors });
        }
        values.sort_unstable();
        values.dedup();
        Ok(Requirement { key, operator, values })
    }

    /// Returns whether a label with this value (`None` for an absent label) meets the requirement.
    fn matches(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|listed| listed == value);
        match (self.operator, value) {
            (LabelOperator::Exists, value) => value.is_some(),
            (LabelOperator::DoesNotExist, value) => value.is_none(),
            (LabelOperator::Equals | LabelOperator::In, value) => value.is_some_and(listed),
            (LabelOperator::NotEquals | LabelOperator::NotIn, value) => !value.is_some_and(listed),
            (LabelOperator::GreaterThan, value) => self.compare(value).is_some_and(|(value, bound)| value > bound),
            (LabelOperator::LessThan, value) => self.compare(value).is_some_and(|(value, bound)| value < bound),
        }
    }

    fn compare(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

impl LabelOperator {
    fn compares(self) -> bool {
        matches!(self, LabelOperator::GreaterThan | LabelOperator::LessThan)
    }

    fn count_error(self, count: usize) -> Option<&'static str> {
        match self {
            LabelOperator::In | LabelOperator::NotIn => {
                (count == 0).then_some("for 'in', 'notin' operators, values set can't be empty")
            }
            LabelOperator::Equals | LabelOperator::NotEquals => {
                (count != 1).then_some("exact-match compatibility requires one single value")
            }
            LabelOperator::Exists | LabelOperator::DoesNotExist => {
                (count != 0).then_some("values set must be empty for exists and does not exist")
            }
            LabelOperator::GreaterThan | LabelOperator::LessThan => {
                (count != 1).then_some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operator, close) = match self.operator {
            LabelOperator::Exists => return f.write_str(&self.key),
            LabelOperator::DoesNotExist => return write!(f, "!{}", self.key),
            LabelOperator::Equals => ("=", ""),
            LabelOperator::NotEquals => ("!=", ""),
            LabelOperator::In => (" in (", ")"),
            LabelOperator::NotIn => (" notin (", ")"),
            LabelOperator::GreaterThan => (">", ""),
            LabelOperator::LessThan => ("<", ""),
        };
        write!(f, "{}{operator}", self.key)?;
        for (index, value) in self.values.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            f.write_str(value)?;
        }
        f.write_str(close)
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Self::parse(text)
    }
}

impl TryFrom<&meta::v1::LabelSelector> for LabelSelector {
    type Error = SelectorError;

    /// Converts the selector of a typed API object.
    fn try_from(selector: &meta::v1::LabelSelector) -> Result<Self, SelectorError> {
        let labels = selector.match_labels.iter().flatten();
        let expressions = selector.match_expressions.iter().flatten();
        Self::from_match(
            labels.map(|(key, value)| (key.as_str(), value.as_str())),
            expressions.map(|expression| {
                let values = expression.values.iter().flatten().map(String::as_str);
                (expression.key.as_str(), expression.operator.as_str(), values)
            }),
        )
    }
}

/// Formats a list of strings as the server does in errors.
fn go_slice(values: &[String]) -> String {
    if values.is_empty() {
        return "[]string(nil)".into();
    }
    let quoted: Vec<String> = values.iter().map(|value| names::quote(value)).collect();
    format!("[]string{{{}}}", quoted.join(", "))
}

fn parse_requirement(lexer: &mut Lexer<'_>) -> Result<Requirement, SelectorError> {
    let mut token = lexer.next();
    let negated = token == Token::Not;
    if negated {
        token = lexer.next();
    }
    let Token::Word(key) = token else {
        return Err(SelectorError::token(token.text(), "identifier"));
    };
    if let Some(detail) = names::label_key_error(key) {
        let error = RequirementError { field: "<nil>".into(), value: names::quote(key), detail };
        return Err(SelectorError::InvalidRequirement { errors: vec![error] });
    }
    const NONE: [&str; 0] = [];
    if negated {
        return Requirement::new(key, LabelOperator::DoesNotExist, NONE);
    }
    if matches!(lexer.peek(), Token::End | Token::Comma) {
        return Requirement::new(key, LabelOperator::Exists, NONE);
    }
    let operator = match lexer.next() {
        Token::Word("in") => LabelOperator::In,
        Token::Word("notin") => LabelOperator::NotIn,
        Token::Equals | Token::DoubleEquals => LabelOperator::Equals,
        Token::NotEquals => LabelOperator::NotEquals,
        Token::Greater => LabelOperator::GreaterThan,
        Token::Less => LabelOperator::LessThan,
        other => return Err(SelectorError::token(other.text(), "in, notin, =, ==, !=, gt, lt")),
    };
    let mut values = match operator {
        LabelOperator::In | LabelOperator::NotIn => parse_values(lexer)?,
        _ => vec![parse_exact_value(lexer)?],
    };
    // In errors the server numbers the values of a set in sorted order.
    values.sort_unstable();
    values.dedup();
    Requirement::new(key, operator, values)
}

/// Parses one value, which may be empty: `a=` and `a=,b` select the empty value.
fn parse_exact_value<'a>(lexer: &mut Lexer<'a>) -> Result<&'a str, SelectorError> {
    if matches!(lexer.peek(), Token::End | Token::Comma) {
        return Ok("");
    }
    match lexer.next() {
        Token::Word(value) => Ok(value),
        other => Err(SelectorError::token(other.text(), "identifier")),
    }
}

/// Parses a set of values in parentheses. Nothing before, between or after commas is the empty value.
fn parse_values<'a>(lexer: &mut Lexer<'a>) -> Result<Vec<&'a str>, SelectorError> {
    match lexer.next() {
        Token::Open => {}
        other => {
            return Err(SelectorError::MissingParenthesis { found: other.text().into() });
        }
    }
    match lexer.peek() {
        Token::Word(_) | Token::Comma => {}
        Token::Close => {
            lexer.next();
            return Ok(vec![""]);
        }
        other => return Err(SelectorError::token(other.text(), "',', ')' or identifier")),
    }
    let mut values = Vec::new();
    loop {
        match lexer.next() {
            Token::Word(value) => {
                values.push(value);
                match lexer.peek() {
                    Token::Comma => {}
                    Token::Close => break,
                    other => return Err(SelectorError::token(other.text(), "',' or ')'")),
                }
            }
            Token::Comma => {
                let next = lexer.peek();
                if values.is_empty() || matches!(next, Token::Comma | Token::Close) {
                    values.push("");
                }
                match next {
                    Token::Close => break,
                    // Servers read commas in pairs, and so reject `(a,,)` but not `(a,,,)`.
                    Token::Comma => drop(lexer.next()),
                    _ => {}
                }
            }
            other => return Err(SelectorError::token(other.text(), "',', or identifier")),
        }
    }
    lexer.next();
    Ok(values)
}

#[cfg(test)]
mod tests;
