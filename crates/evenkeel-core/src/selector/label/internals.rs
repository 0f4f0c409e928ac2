//! Accessors of selectors for the other crates of evenkeel.

use super::{LabelOperator, LabelSelector, Requirement, SelectorError};

impl LabelSelector {
    /// Returns the requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }
}

impl Requirement {
    /// Returns the key of the label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the operator.
    pub fn operator(&self) -> LabelOperator {
        self.operator
    }

    /// Returns the values, sorted and unique.
    pub fn values(&self) -> &[String] {
        &self.values
    }
}

impl LabelSelector {
    /// Parses the `selector` field of an API object, such as a Deployment's.
    ///
    /// An empty object selects everything. In Kubernetes an absent or null selector selects nothing; as no `LabelSelector` does,
    /// null is an error and the caller decides.
    pub fn from_json(value: &serde_json::Value) -> Result<Self, SelectorError> {
        use serde_json::Value;
        const NO_VALUES: &[Value] = &[];
        let malformed = |path: &str, expected| SelectorError::Malformed { path: path.into(), expected };
        let selector = value.as_object().ok_or_else(|| malformed("selector", "an object"))?;
        let mut labels = Vec::new();
        match selector.get("matchLabels") {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => {
                for (key, value) in map {
                    let value = value.as_str().ok_or_else(|| malformed(&format!("matchLabels[{key}]"), "a string"))?;
                    labels.push((key.as_str(), value));
                }
            }
            Some(_) => return Err(malformed("matchLabels", "an object")),
        }
        let expressions = match selector.get("matchExpressions") {
            None | Some(Value::Null) => NO_VALUES,
            Some(Value::Array(expressions)) => expressions,
            Some(_) => return Err(malformed("matchExpressions", "an array")),
        };
        let mut matches = Vec::with_capacity(expressions.len());
        for (index, expression) in expressions.iter().enumerate() {
            let at = |field: &str| format!("matchExpressions[{index}].{field}");
            let text = |field: &str| {
                expression.get(field).and_then(Value::as_str).ok_or_else(|| malformed(&at(field), "a string"))
            };
            let values = match expression.get("values") {
                None | Some(Value::Null) => NO_VALUES,
                Some(Value::Array(values)) => values,
                Some(_) => return Err(malformed(&at("values"), "an array")),
            };
            let values: Vec<&str> = values
                .iter()
                .map(|value| value.as_str().ok_or_else(|| malformed(&at("values"), "strings only")))
                .collect::<Result<_, _>>()?;
            matches.push((text("key")?, text("operator")?, values));
        }
        Self::from_match(labels, matches)
    }
}
