//! The parts of an intent that would replace a whole value.

use serde_json::Value;

use super::FieldTypes;
use super::path::PathElement;
use crate::schema::ListType;

/// Returns the paths of the lists and objects in an intent that are owned as a whole. Merging one would remove what it does
/// not repeat.
pub(crate) fn atomic_parts<T: FieldTypes>(intent: &Value, types: &T) -> Vec<String> {
    let mut finder = Finder { path: String::new(), found: Vec::new() };
    finder.collect(intent, Some(types));
    finder.found
}

struct Finder {
    path: String,
    found: Vec<String>,
}

impl Finder {
    /// The recursion is as deep as the intent. Without a type, lists are atomic and maps are not.
    fn collect<T: FieldTypes>(&mut self, value: &Value, types: Option<&T>) {
        match value {
            Value::Object(fields) => {
                let Some(types) = types else { return };
                if types.is_atomic_map() {
                    self.found.push(self.path.clone());
                }
                for (name, value) in fields.iter().filter(|(name, _)| types.declares(name)) {
                    self.within(&PathElement::Field(name), value, types.field(name));
                }
            }
            Value::Array(items) => {
                if types.is_none_or(|types| matches!(types.list_type(), ListType::Atomic)) {
                    self.found.push(self.path.clone());
                }
                for (index, item) in (0..).zip(items) {
                    self.within(&PathElement::Index(index), item, types.and_then(T::items));
                }
            }
            _ => {}
        }
    }

    fn within<T: FieldTypes>(&mut self, step: &PathElement<'_>, value: &Value, types: Option<&T>) {
        let length = self.path.len();
        self.path.push_str(&step.to_string());
        self.collect(value, types);
        self.path.truncate(length);
    }
}
