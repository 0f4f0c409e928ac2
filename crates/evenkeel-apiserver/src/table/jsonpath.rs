//! The part of Kubernetes' JSONPath that printer columns use.
//!
//! `.spec.replicas`, `.metadata.annotations.example\.com/x`, `['a.b']`, `[0]`, `[-1]`, `[1:3]`, `[*]`, `.*`, `..name`, and
//! filters such as `[?(@.type=="Ready")]`.

use serde_json::{Number, Value};

/// The length limit of a path.
const MAX_LENGTH: usize = 1024;
/// The depth limit of a recursive descent.
const MAX_DEPTH: usize = 64;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath(Vec<JsonPathSegment>);

#[derive(Clone, Debug, PartialEq)]
enum JsonPathSegment {
    Field(String),
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    All,
    /// Every field of that name, at any depth.
    Descend(String),
    Filter(Filter),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: JsonPath,
    /// `None` tests only whether the left side exists.
    test: Option<(Comparison, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Parses a path; `None` if it is not supported.
    pub(super) fn parse(text: &str) -> Option<JsonPath> {
        if text.len() > MAX_LENGTH {
            return None;
        }
        let mut rest = text.trim();
        rest = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(rest);
        rest = rest.strip_prefix(['$', '@']).unwrap_or(rest);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = parse_step(rest)?;
            if let Some(step) = step {
                steps.push(step);
            }
            rest = after;
        }
        Some(JsonPath(steps))
    }

    /// Returns the first value of the path, which is the one that a column shows.
    pub(super) fn first<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        let mut found = vec![root];
        for step in &self.0 {
            let mut next = Vec::new();
            for value in found {
                step.apply(value, &mut next);
            }
            found = next;
        }
        found.first().copied()
    }
}

impl JsonPathSegment {
    fn apply<'a>(&self, value: &'a Value, found: &mut Vec<&'a Value>) {
        match self {
            JsonPathSegment::Field(name) => found.extend(value.get(name)),
            JsonPathSegment::Index(index) => {
                if let Some(list) = value.as_array() {
                    found.extend(position(*index, list.len()).and_then(|index| list.get(index)));
                }
            }
            JsonPathSegment::Slice(start, end) => {
                if let Some(list) = value.as_array() {
                    let length = list.len();
                    let start = start.map_or(0, |start| bound(start, length));
                    let end = end.map_or(length, |end| bound(end, length));
                    found.extend(list.get(start..end).into_iter().flatten());
                }
            }
            JsonPathSegment::All => match value {
                Value::Array(list) => found.extend(list),
                Value::Object(map) => found.extend(map.values()),
                _ => {}
            },
            JsonPathSegment::Descend(name) => descend(value, name, MAX_DEPTH, found),
            JsonPathSegment::Filter(filter) => {
                found.extend(value.as_array().into_iter().flatten().filter(|item| filter.accepts(item)));
            }
        }
    }
}

impl Filter {
    fn accepts(&self, item: &Value) -> bool {
        let Some(left) = self.left.first(item) else {
            return false;
        };
        let Some((comparison, right)) = &self.test else {
            return true;
        };
        let order = match (left, right) {
            (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            _ => None,
        };
        match (comparison, order) {
            (Comparison::NotEqual, None) => true,
            (_, None) => false,
            (Comparison::Equal, Some(order)) => order.is_eq(),
            (Comparison::NotEqual, Some(order)) => order.is_ne(),
            (Comparison::Less, Some(order)) => order.is_lt(),
            (Comparison::LessOrEqual, Some(order)) => order.is_le(),
            (Comparison::Greater, Some(order)) => order.is_gt(),
            (Comparison::GreaterOrEqual, Some(order)) => order.is_ge(),
        }
    }
}

fn descend<'a>(value: &'a Value, name: &str, depth: usize, found: &mut Vec<&'a Value>) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(map) => {
            found.extend(map.get(name));
            for child in map.values() {
                descend(child, name, depth - 1, found);
            }
        }
        Value::Array(list) => {
            for child in list {
                descend(child, name, depth - 1, found);
            }
        }
        _ => {}
    }
}

/// Returns the position of an index; negative ones count from the end.
fn position(index: i64, length: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

fn bound(index: i64, length: usize) -> usize {
    position(index, length).unwrap_or_default().min(length)
}

fn parse_step(text: &str) -> Option<(Option<JsonPathSegment>, &str)> {
    if let Some(rest) = text.strip_prefix("..") {
        let (name, rest) = field_name(rest)?;
        return Some((Some(JsonPathSegment::Descend(name)), rest));
    }
    if let Some(rest) = text.strip_prefix('[') {
        return parse_bracket(rest).map(|(step, rest)| (Some(step), rest));
    }
    let rest = text.strip_prefix('.').unwrap_or(text);
    if rest.is_empty() || (rest.starts_with('[') && rest.len() < text.len()) {
        // A dot alone is the object itself, and a dot before a bracket has no effect.
        return Some((None, rest));
    }
    let (name, rest) = field_name(rest)?;
    Some((Some(if name == "*" { JsonPathSegment::All } else { JsonPathSegment::Field(name) }), rest))
}

/// Parses a field's name up to the next segment; a backslash escapes the next character.
fn field_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' => name.push(characters.next()?.1),
            '.' | '[' => return (!name.is_empty()).then(|| (name, text.get(index..).unwrap_or_default())),
            _ => name.push(character),
        }
    }
    (!name.is_empty()).then_some((name, ""))
}

fn parse_bracket(text: &str) -> Option<(JsonPathSegment, &str)> {
    if let Some(rest) = text.strip_prefix("?(") {
        let end = closing(rest)?;
        let filter = parse_filter(rest.get(..end)?)?;
        return Some((JsonPathSegment::Filter(filter), rest.get(end..)?.strip_prefix(")]")?));
    }
    if let Some(quote) = text.chars().next().filter(|first| matches!(first, '\'' | '"')) {
        let (name, rest) = quoted(text.get(1..)?, quote)?;
        return Some((JsonPathSegment::Field(name), rest.strip_prefix(']')?));
    }
    let (inside, rest) = text.split_once(']')?;
    let inside = inside.trim();
    let step = if inside == "*" {
        JsonPathSegment::All
    } else if let Some((start, end)) = inside.split_once(':') {
        JsonPathSegment::Slice(optional_number(start)?, optional_number(end)?)
    } else {
        JsonPathSegment::Index(inside.parse().ok()?)
    };
    Some((step, rest))
}

fn optional_number(text: &str) -> Option<Option<i64>> {
    let text = text.trim();
    if text.is_empty() {
        return Some(None);
    }
    text.parse().ok().map(Some)
}

/// Parses a quoted string; returns it with the text after the closing quote.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut content = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' => content.push(characters.next()?.1),
            _ if character == quote => return Some((content, text.get(index + 1..)?)),
            _ => content.push(character),
        }
    }
    None
}

/// Returns the position of the closing parenthesis, skipping quoted strings.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut quote = None;
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match (quote, character) {
            (Some(_), '\\') => {
                characters.next();
            }
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => return Some(index),
            (None, ')') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn parse_filter(text: &str) -> Option<Filter> {
    const OPERATORS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let split = OPERATORS
        .iter()
        .filter_map(|(operator, comparison)| text.find(operator).map(|at| (at, *operator, *comparison)))
        .min_by_key(|(at, operator, _)| (*at, std::cmp::Reverse(operator.len())));
    // Filters do not nest: the left side is a plain path.
    let left = |text: &str| {
        JsonPath::parse(text).filter(|path| !path.0.iter().any(|step| matches!(step, JsonPathSegment::Filter(_))))
    };
    match split {
        None => Some(Filter { left: left(text)?, test: None }),
        Some((at, operator, comparison)) => Some(Filter {
            left: left(text.get(..at)?)?,
            test: Some((comparison, literal(text.get(at + operator.len()..)?.trim())?)),
        }),
    }
}

fn literal(text: &str) -> Option<Value> {
    if let Some(quote) = text.chars().next().filter(|first| matches!(first, '\'' | '"')) {
        let (content, rest) = quoted(text.get(1..)?, quote)?;
        return rest.is_empty().then_some(Value::String(content));
    }
    match text {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        number => number.parse::<Number>().ok().map(Value::Number),
    }
}

#[cfg(test)]
mod tests;
