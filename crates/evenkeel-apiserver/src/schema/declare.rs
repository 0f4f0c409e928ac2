//! The types of values for expressions that see whole objects.

use std::sync::Arc;

use evenkeel_cel::{DeclKind, DeclType, ListIdentity, ObjectDecl};

use super::{Form, List, Schema, SchemaNode};

impl Schema {
    /// Returns the type of the values, under this name. A type within itself, and what has no type, may be anything.
    pub(crate) fn declared_type(&self, name: &str) -> DeclType {
        declare(self, name, &mut Vec::new())
    }
}

/// The recursion ends where a type occurs within itself; `outer` has the types on the way.
fn declare<'s>(schema: &'s Schema, name: &str, outer: &mut Vec<&'s SchemaNode>) -> DeclType {
    let node = schema.shape();
    if outer.iter().any(|known| std::ptr::eq(*known, node)) {
        return DeclType::new(DeclKind::Dyn, None, 1);
    }
    outer.push(node);
    let kind = match node.form {
        Form::Any | Form::ObjectOrElse | Form::IntOrString | Form::Quantity => DeclKind::Dyn,
        Form::Boolean => DeclKind::Bool,
        Form::Integer | Form::Integer32 => DeclKind::Int,
        Form::Number => DeclKind::Double,
        Form::Bytes => DeclKind::Bytes,
        Form::Time | Form::MicroTime => DeclKind::DateTime,
        Form::String => match node.rules.as_ref().and_then(|rules| rules.format.as_deref()) {
            Some("byte") => DeclKind::Bytes,
            Some("date") => DeclKind::Date,
            Some("date-time") => DeclKind::DateTime,
            Some("duration") => DeclKind::Duration,
            _ => DeclKind::String,
        },
        Form::Array => match node.items.as_deref() {
            Some(items) => {
                let identity = match &schema.node().list {
                    List::Atomic => ListIdentity::Atomic,
                    List::Set => ListIdentity::Set,
                    List::Map(keys) => ListIdentity::Map(keys.clone().into()),
                };
                DeclKind::List(Arc::new(declare(items, &format!("{name}.@idx"), outer)), identity)
            }
            None => DeclKind::Dyn,
        },
        Form::Object => match node.values.as_deref() {
            Some(values) if node.properties.is_empty() => {
                DeclKind::Map(Arc::new(declare(values, &format!("{name}.@elem"), outer)))
            }
            _ => {
                let fields = node
                    .properties
                    .iter()
                    .map(|(field, schema)| (field.to_string(), declare(schema, &format!("{name}.{field}"), outer)));
                DeclKind::Object(Arc::new(ObjectDecl::new(name, fields.collect::<Vec<_>>())))
            }
        },
    };
    outer.pop();
    DeclType::new(kind, None, 1)
}
