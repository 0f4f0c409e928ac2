//! The objects of a resource that a request selects.

use evenkeel_core::Status;
use evenkeel_core::json::JsonValue;
use evenkeel_core::{FieldOperator, FieldSelector, LabelSelector};

use super::shard_filter::ShardFilter;
use crate::query::Query;
use crate::registry::{Resource, UnknownField};
use crate::store::{Interest, Record};

/// A compiled selection: namespace, name, labels, fields and places.
#[derive(Debug)]
pub(crate) struct ObjectFilter {
    /// `namespace/` or nothing.
    pub(crate) prefix: String,
    /// Set if only one key can match.
    pub(crate) key: Option<String>,
    labels: LabelSelector,
    fields: Vec<FieldTest>,
    shards: Option<ShardFilter>,
}

#[derive(Debug)]
struct FieldTest {
    source: FieldSource,
    negated: bool,
    value: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FieldSource {
    Name,
    Namespace,
    /// The position among the facts that the store keeps of a built-in kind.
    Fact(usize),
    /// A path into a custom resource. The selectable fields differ between versions and change with the definition, so
    /// they are read from the object itself.
    Path(String),
}

impl ObjectFilter {
    /// Compiles the path and the query. `name` is the name in the path, if any.
    pub(crate) fn new(
        resource: &Resource,
        namespace: Option<&str>,
        name: Option<&str>,
        query: &Query,
    ) -> Result<Self, Status> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let mut tests = Vec::with_capacity(fields.terms().len());
        for term in fields.terms() {
            let source = match term.field.as_str() {
                "metadata.name" => FieldSource::Name,
                "metadata.namespace" if has_namespace_field(resource) => FieldSource::Namespace,
                field => {
                    let known = resource.strategy.selectable.iter().position(|known| known.label == field);
                    let position = known.ok_or_else(|| unknown_field(resource, field))?;
                    if resource.custom.is_some() {
                        FieldSource::Path(field.to_owned())
                    } else {
                        FieldSource::Fact(position)
                    }
                }
            };
            let negated = term.operator == FieldOperator::NotEquals;
            tests.push(FieldTest { source, negated, value: term.value.clone() });
        }
        let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let wanted = tests.iter().find(|test| test.source == FieldSource::Name && !test.negated);
        let wanted = wanted.map(|test| test.value.as_str());
        if let (Some(name), Some(wanted)) = (name, wanted)
            && name != wanted
        {
            return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        let key = match name.or(wanted) {
            Some(name) if !resource.namespaced => Some(name.to_owned()),
            Some(name) if namespace.is_some() => Some(format!("{prefix}{name}")),
            _ => None,
        };
        Ok(ObjectFilter { prefix, key, labels, fields: tests, shards: None })
    }

    /// Selects only objects of these places.
    pub(crate) fn with_shards(self, shards: Option<ShardFilter>) -> Self {
        ObjectFilter { shards, ..self }
    }

    /// Returns the shard selector as lists return it.
    pub(crate) fn shard_selector(&self) -> Option<&str> {
        self.shards.as_ref().map(ShardFilter::text)
    }

    /// Returns whether selectors narrow the list, so that the remaining items cannot be counted (LST-14).
    pub(crate) fn has_selectors(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty() || self.shards.is_some()
    }

    pub(crate) fn matches(&self, key: &str, record: &Record) -> bool {
        let scope = match &self.key {
            Some(wanted) => key == wanted,
            None => key.starts_with(&self.prefix),
        };
        scope
            && (self.labels.is_empty() || self.labels.matches(|label| record.facts.label(label)))
            && self.fields.iter().all(|test| test.passes(key, record))
            && self.shards.as_ref().is_none_or(|shards| shards.matches(key, record))
    }

    /// Returns the changes that must wake a watch with this filter. An equality on a selectable field is used only if no
    /// key and no namespace narrows the filter.
    pub(crate) fn interest(&self) -> Interest {
        if let Some(key) = &self.key {
            return Interest::Key(key.as_str().into());
        }
        if let Some(namespace) = self.prefix.strip_suffix('/') {
            return Interest::Namespace(namespace.into());
        }
        let indexed = self.fields.iter().find_map(|test| match test.source {
            FieldSource::Fact(index) if !test.negated => Some(Interest::Field(index, test.value.as_str().into())),
            _ => None,
        });
        indexed.unwrap_or(Interest::All)
    }
}

impl FieldTest {
    fn passes(&self, key: &str, record: &Record) -> bool {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let same = match &self.source {
            FieldSource::Name => name == self.value,
            FieldSource::Namespace => namespace == self.value,
            FieldSource::Fact(index) => record.facts.fields.get(*index).map_or("", |value| value) == self.value,
            FieldSource::Path(path) => {
                let text = std::str::from_utf8(record.json()).unwrap_or_default();
                let value = JsonValue::at_path(text, path).ok().flatten();
                value.as_ref().map_or("".into(), JsonValue::text) == self.value
            }
        };
        same != self.negated
    }
}

/// Returns whether `metadata.namespace` is selectable. Kinds without field labels of their own accept it even if they are
/// cluster-scoped; the value is empty then.
fn has_namespace_field(resource: &Resource) -> bool {
    resource.namespaced || resource.strategy.unknown_field == UnknownField::OnlyMetadata
}

fn unknown_field(resource: &Resource, field: &str) -> Status {
    Status::bad_request(match resource.strategy.unknown_field {
        UnknownField::OnlyMetadata => {
            format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
        UnknownField::NotSupported => format!("field label not supported: {field}"),
        UnknownField::NotSupportedForKind => {
            format!("field label {field:?} not supported for {}", resource.kind)
        }
    })
}
