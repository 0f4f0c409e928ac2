//! Pruning: removes the fields that a structural schema does not specify (CRD-9).

use serde_json::Value;

use super::path::Path;
use super::{MAX_DEPTH, MAX_REPORTS, Schema, SchemaNode};

impl Schema {
    /// Removes the fields that the schema does not specify, and returns their paths, sorted.
    ///
    /// `apiVersion`, `kind` and `metadata` stay, with all their contents, at the root and in embedded resources. Below
    /// `x-kubernetes-preserve-unknown-fields` unknown fields stay, and known ones are pruned by their own schemas.
    pub(crate) fn prune(&self, value: &mut Value) -> Vec<String> {
        let mut pruner = Pruner::default();
        pruner.value(Some(self.node()), false, value, 0);
        pruner.removed.sort_unstable();
        pruner.removed
    }
}

pub(super) fn is_metadata(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

#[derive(Default)]
struct Pruner {
    path: Path,
    removed: Vec<String>,
}

impl Pruner {
    /// `lenient`: the value is an item of a list that preserves unknown fields.
    fn value(&mut self, node: Option<&SchemaNode>, lenient: bool, value: &mut Value, depth: usize) {
        if depth > MAX_DEPTH || (lenient && node.is_none()) {
            return;
        }
        let preserve = lenient || node.is_some_and(|node| node.preserve_unknown);
        match value {
            Value::Object(object) => object.retain(|key, value| {
                if node.is_some_and(|node| node.embedded_resource) && is_metadata(key) {
                    return true;
                }
                let known = node.and_then(|node| match node.property(key) {
                    Some(schema) => Some(Some(schema.node())),
                    None => match &node.values {
                        Some(schema) => Some(Some(schema.node())),
                        None => node.open.then_some(None),
                    },
                });
                match known {
                    Some(child) => {
                        let mark = self.path.push(key);
                        self.value(child, false, value, depth + 1);
                        self.path.back(mark);
                        true
                    }
                    None if preserve => true,
                    None => {
                        if self.removed.len() < MAX_REPORTS {
                            self.removed.push(self.path.child(key));
                        }
                        false
                    }
                }
            }),
            Value::Array(items) => {
                let child = node.and_then(|node| node.items.as_deref()).map(Schema::node);
                for (index, item) in items.iter_mut().enumerate() {
                    let mark = self.path.push_index(index);
                    self.value(child, preserve, item, depth + 1);
                    self.path.back(mark);
                }
            }
            _ => {}
        }
    }
}
