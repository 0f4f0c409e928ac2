//! Which objects of a resource a request is about.

use evenkeel_core::Status;
use evenkeel_core::json::JsonValue;
use evenkeel_core::{FieldOperator, FieldSelector, LabelSelector};

use crate::query::Query;
use crate::registry::{Resource, UnknownField};
use crate::store::{Interest, Record};

/// A compiled selection: namespace, name, labels and fields.
#[derive(Debug)]
pub(super) struct Filter {
    /// `namespace/` or nothing.
    pub(super) prefix: String,
    /// Set when only one key can match.
    pub(super) key: Option<String>,
    labels: LabelSelector,
    fields: Vec<FieldTest>,
}

#[derive(Debug)]
struct FieldTest {
    subject: Subject,
    negated: bool,
    value: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    Name,
    Namespace,
    /// The position among the facts that are kept of a built-in kind.
    Fact(usize),
    /// A path into a custom resource. Which fields can be selected differs between versions and changes with the
    /// definition, so they are read from the object itself.
    Path(String),
}

impl Filter {
    /// From the path and the query. `name` is the name in the path, if any.
    pub(super) fn new(
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
            let subject = match term.field.as_str() {
                "metadata.name" => Subject::Name,
                "metadata.namespace" if has_namespace_field(resource) => Subject::Namespace,
                field => {
                    let known = resource.strategy.selectable.iter().position(|known| known.label == field);
                    let position = known.ok_or_else(|| unknown_field(resource, field))?;
                    if resource.custom.is_some() { Subject::Path(field.to_owned()) } else { Subject::Fact(position) }
                }
            };
            let negated = term.operator == FieldOperator::NotEquals;
            tests.push(FieldTest { subject, negated, value: term.value.clone() });
        }
        let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let wanted = tests.iter().find(|test| test.subject == Subject::Name && !test.negated);
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
        Ok(Filter { prefix, key, labels, fields: tests })
    }

    /// Whether selectors narrow the list, so that what remains cannot be counted (LST-14).
    pub(super) fn has_selectors(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    pub(super) fn matches(&self, key: &str, record: &Record) -> bool {
        let scope = match &self.key {
            Some(wanted) => key == wanted,
            None => key.starts_with(&self.prefix),
        };
        scope
            && (self.labels.is_empty() || self.labels.matches(|label| record.facts.label(label)))
            && self.fields.iter().all(|test| test.passes(key, record))
    }

    /// What a watch with this filter must be woken for. Without a narrower scope, an equality on a selectable field is
    /// the next best index.
    pub(super) fn interest(&self) -> Interest {
        if let Some(key) = &self.key {
            return Interest::Key(key.as_str().into());
        }
        if let Some(namespace) = self.prefix.strip_suffix('/') {
            return Interest::Namespace(namespace.into());
        }
        let indexed = self.fields.iter().find_map(|test| match test.subject {
            Subject::Fact(index) if !test.negated => Some(Interest::Field(index, test.value.as_str().into())),
            _ => None,
        });
        indexed.unwrap_or(Interest::All)
    }
}

impl FieldTest {
    fn passes(&self, key: &str, record: &Record) -> bool {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let same = match &self.subject {
            Subject::Name => name == self.value,
            Subject::Namespace => namespace == self.value,
            Subject::Fact(index) => record.facts.fields.get(*index).map_or("", |value| value) == self.value,
            Subject::Path(path) => {
                let text = std::str::from_utf8(record.json()).unwrap_or_default();
                let value = JsonValue::at_path(text, path).ok().flatten();
                value.as_ref().map_or("".into(), JsonValue::text) == self.value
            }
        };
        same != self.negated
    }
}

/// Kinds without field labels of their own know `metadata.namespace` even if their objects have none; it is empty then.
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
