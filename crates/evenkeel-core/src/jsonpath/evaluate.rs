//! From template and document to results.

use std::cmp::Ordering;

use serde_json::Value;

use super::error::JsonPathError;
use super::parse::{Block, Comparison, Filter, Step};
use super::{MAX_DEPTH, MAX_RESULTS, MAX_VISITS};

/// One evaluation of a template.
pub(super) struct Evaluation<'v> {
    allow_missing_keys: bool,
    /// How many values have been visited.
    visits: usize,
    /// The results so far, a list for each text and action.
    results: Vec<Vec<&'v Value>>,
    /// How many those are; a list counts as one more.
    count: usize,
}

impl<'v> Evaluation<'v> {
    pub(super) fn new(allow_missing_keys: bool) -> Self {
        Evaluation { allow_missing_keys, visits: 0, results: Vec::new(), count: 0 }
    }

    pub(super) fn into_results(self) -> Vec<Vec<&'v Value>> {
        self.results
    }

    /// Evaluates blocks for the current value.
    pub(super) fn blocks(&mut self, blocks: &'v [Block], current: &'v Value) -> Result<(), JsonPathError> {
        for block in blocks {
            match block {
                Block::Text(text) => self.add(vec![text])?,
                Block::Print(steps) => {
                    let found = self.steps(steps, vec![current])?;
                    self.add(found)?;
                }
                Block::Range(steps, body) => {
                    for value in self.steps(steps, vec![current])? {
                        self.visit(1)?;
                        self.blocks(body, value)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, found: Vec<&'v Value>) -> Result<(), JsonPathError> {
        self.count += found.len() + 1;
        if self.count > MAX_RESULTS + 1 {
            return Err(JsonPathError::TooManyResults { limit: MAX_RESULTS });
        }
        self.results.push(found);
        Ok(())
    }

    fn visit(&mut self, values: usize) -> Result<(), JsonPathError> {
        self.visits = self.visits.saturating_add(values);
        if self.visits > MAX_VISITS { Err(JsonPathError::TooManyVisits { limit: MAX_VISITS }) } else { Ok(()) }
    }

    /// Applies steps one after the other.
    pub(super) fn steps(
        &mut self,
        steps: &'v [Step],
        mut values: Vec<&'v Value>,
    ) -> Result<Vec<&'v Value>, JsonPathError> {
        for step in steps {
            self.visit(values.len() + 1)?;
            values = self.step(step, values)?;
            if values.len() > MAX_RESULTS {
                return Err(JsonPathError::TooManyResults { limit: MAX_RESULTS });
            }
        }
        Ok(values)
    }

    fn step(&mut self, step: &'v Step, values: Vec<&'v Value>) -> Result<Vec<&'v Value>, JsonPathError> {
        let mut found = Vec::new();
        match step {
            Step::Field(name) => {
                if values.is_empty() {
                    return Ok(values);
                }
                found.extend(values.iter().filter_map(|value| value.as_object()?.get(&**name)));
                if found.is_empty() && !self.allow_missing_keys {
                    return Err(JsonPathError::NotFound { key: name.to_string() });
                }
            }
            Step::Index(index) => {
                for list in lists(&values) {
                    let list = list?;
                    let at = from_start(*index, list.len());
                    let element = usize::try_from(at).ok().and_then(|at| list.get(at));
                    found.push(element.ok_or(JsonPathError::OutOfBounds { index: at, length: list.len() })?);
                }
            }
            Step::Slice { start, end, step } => {
                for list in lists(&values) {
                    let slice = slice(list?, *start, *end)?;
                    self.collect(slice.iter().step_by(*step), &mut found)?;
                }
            }
            Step::Wildcard => {
                for value in values {
                    self.collect(members(value), &mut found)?;
                }
            }
            Step::Descend => {
                for value in values {
                    self.descend(value, MAX_DEPTH, &mut found)?;
                }
            }
            Step::Filter(filter) => {
                for value in values {
                    let list =
                        value.as_array().ok_or_else(|| JsonPathError::NotFilterable { found: go_type(value) })?;
                    for element in list {
                        if self.accepts(filter, element)? {
                            found.push(element);
                        }
                    }
                }
            }
            Step::Union(union) => {
                for steps in union {
                    let selected = self.steps(steps, values.clone())?;
                    self.collect(selected, &mut found)?;
                }
            }
            Step::Text(text) => found.push(text),
            Step::Constant(constant) => found.resize(values.len(), constant),
        }
        Ok(found)
    }

    fn collect(
        &mut self,
        values: impl IntoIterator<Item = &'v Value>,
        found: &mut Vec<&'v Value>,
    ) -> Result<(), JsonPathError> {
        let room = (MAX_RESULTS + 1).saturating_sub(found.len());
        let before = found.len();
        found.extend(values.into_iter().take(room));
        if found.len() > MAX_RESULTS {
            return Err(JsonPathError::TooManyResults { limit: MAX_RESULTS });
        }
        self.visit(found.len() - before)
    }

    /// Finds every map, list and string that is not empty, the start first.
    fn descend(&mut self, value: &'v Value, depth: usize, found: &mut Vec<&'v Value>) -> Result<(), JsonPathError> {
        self.visit(1)?;
        let has_members = match value {
            Value::Object(map) => !map.is_empty(),
            Value::Array(list) => !list.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => false,
        };
        if !has_members {
            return Ok(());
        }
        if depth == 0 {
            return Err(JsonPathError::TooDeep { limit: MAX_DEPTH });
        }
        if found.len() >= MAX_RESULTS {
            return Err(JsonPathError::TooManyResults { limit: MAX_RESULTS });
        }
        found.push(value);
        members(value).into_iter().try_for_each(|member| self.descend(member, depth - 1, found))
    }

    fn accepts(&mut self, filter: &'v Filter, element: &'v Value) -> Result<bool, JsonPathError> {
        let left = self.steps(&filter.left, vec![element]);
        let Some((comparison, right)) = &filter.test else {
            return match left {
                Ok(found) => Ok(!found.is_empty()),
                Err(limit @ (JsonPathError::TooManyResults { .. } | JsonPathError::TooManyVisits { .. })) => Err(limit),
                // The path does not exist.
                Err(_) => Ok(false),
            };
        };
        let Some(left) = single(&left?)? else { return Ok(false) };
        let right = self.steps(right, vec![element])?;
        let Some(right) = single(&right)? else { return Ok(false) };
        Ok(compare(left, *comparison, right))
    }
}

/// Returns the one value of a side; `None` if there is none.
fn single<'v>(values: &[&'v Value]) -> Result<Option<&'v Value>, JsonPathError> {
    match values {
        [] => Ok(None),
        [value] => Ok(Some(value)),
        _ => Err(JsonPathError::SeveralToCompare),
    }
}

/// Compares numbers as numbers and strings as strings. Values of other types have no order, and values of different types are not
/// equal.
fn compare(left: &Value, comparison: Comparison, right: &Value) -> bool {
    let order = match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (left, right) => (left == right).then_some(Ordering::Equal),
    };
    match comparison {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    }
}

fn compare_numbers(left: &serde_json::Number, right: &serde_json::Number) -> Option<Ordering> {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// Returns the lists among the values. `null` is skipped, everything else is an error.
fn lists<'a, 'v>(values: &'a [&'v Value]) -> impl Iterator<Item = Result<&'v Vec<Value>, JsonPathError>> + use<'a, 'v> {
    values.iter().filter(|value| !value.is_null()).map(|value| match value {
        Value::Array(list) => Ok(list),
        other => Err(JsonPathError::NotList { found: go_type(other) }),
    })
}

/// Returns the members of a map by their keys, or the elements of a list.
fn members(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(map) => {
            // Not sorted already only if a crate of the program has serde_json preserve the order.
            let mut members: Vec<_> = map.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            members.into_iter().map(|(_, value)| value).collect()
        }
        _ => Vec::new(),
    }
}

/// Counts an index from the start of a list.
fn from_start(index: i64, length: usize) -> i64 {
    if index < 0 { index.saturating_add(length as i64) } else { index }
}

fn slice(list: &[Value], start: Option<i64>, end: Option<i64>) -> Result<&[Value], JsonPathError> {
    let length = list.len();
    let start = from_start(start.unwrap_or(0), length);
    let end = end.map_or(length as i64, |end| from_start(end, length));
    if start == end {
        return Ok(&[]);
    }
    let (from, to) = (usize::try_from(start).ok(), usize::try_from(end).ok());
    match (from.filter(|from| *from < length), to.filter(|to| *to <= length)) {
        (None, _) => Err(JsonPathError::OutOfBounds { index: start, length }),
        (_, None) => Err(JsonPathError::OutOfBounds { index: end.saturating_sub(1), length }),
        (Some(from), Some(to)) => list.get(from..to).ok_or(JsonPathError::Reversed { start, end }),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
