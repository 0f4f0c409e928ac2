//! Decoding of built-in objects: the effect of a typed decoder followed by a typed encoder on JSON.
//!
//! kube-apiserver decodes every body into a Go struct and encodes it again. That round trip is visible: unknown
//! fields, nulls and empty optional lists are dropped, times and quantities get their canonical form, and structs that
//! are not pointers are added even when the client omitted them. This module does the same to the JSON tree.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use evenkeel_core::quantity::ExactQuantity;
use evenkeel_core::{Reason, Status};
use serde_json::{Map, Value};

use super::path::PathStep;
use super::{Form, MAX_DEPTH, MAX_REPORTS, Schema, SchemaNode, time};
use crate::go_json;

/// Why a body could not be decoded: the text after `… cannot be handled as a {Kind}: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DecodeFault(String);

impl DecodeFault {
    /// Returns the fault of a body that strict decoding rejects; see [`complaints`](super::json::complaints).
    pub(crate) fn strict(complaints: &[String]) -> Self {
        DecodeFault(format!("strict decoding error: {}", complaints.join(", ")))
    }

    /// Returns the 400 for the client.
    pub(crate) fn status(&self, kind: &str, version: &str) -> Status {
        Status::failure(
            400,
            Reason::BAD_REQUEST,
            format!("{kind} in version {version:?} cannot be handled as a {kind}: {self}"),
        )
    }
}

impl Schema {
    /// Converts an object to the form of its Go type (see the module). Returns the paths of the unknown fields that
    /// were dropped, such as `spec.containers[0].bogus` (DRY-4, DRY-5).
    ///
    /// The conversion is idempotent. On an error the object is partially converted.
    pub(crate) fn decode_builtin(&self, value: &mut Value) -> Result<Vec<String>, DecodeFault> {
        let mut decoder = Decoder::default();
        decoder.value(self, value, PathStep::ROOT, 0)?;
        Ok(decoder.unknown)
    }

    /// Does the same for a field of an object whose other fields have no Go type.
    pub(crate) fn decode_field(&self, name: &str, value: &mut Value) -> Result<Vec<String>, DecodeFault> {
        let mut decoder = Decoder { owner: type_id(self), ..Decoder::default() };
        decoder.value(self, value, PathStep::ROOT.field(name), 0)?;
        Ok(decoder.unknown)
    }
}

#[derive(Default)]
struct Decoder {
    /// The OpenAPI name of the innermost struct.
    owner: &'static str,
    unknown: Vec<String>,
}

impl Decoder {
    fn value(
        &mut self,
        schema: &Schema,
        value: &mut Value,
        path: PathStep<'_>,
        depth: usize,
    ) -> Result<(), DecodeFault> {
        if depth > MAX_DEPTH {
            return Err(DecodeFault(format!("{} nests deeper than {MAX_DEPTH} levels", path.to_path().as_str())));
        }
        let shape = schema.shape();
        match (shape.form, &mut *value) {
            (Form::Any, _) => Ok(()),
            // The type has a decoder of its own, which is never strict and does not know its path.
            (Form::ObjectOrElse, Value::Object(_)) => match shape.alternative {
                Some(schema) => Decoder::default().value(schema, value, PathStep::ROOT, depth + 1),
                None => Ok(()),
            },
            (Form::ObjectOrElse, _) => Ok(()),
            (Form::Object, Value::Object(object)) => match &shape.values {
                Some(values) => self.map(values, object, path, depth),
                None => self.structure(schema, shape, object, path, depth),
            },
            (Form::Array, Value::Array(items)) => match &shape.items {
                Some(schema) => self.list(schema, items, path, depth),
                None => Ok(()),
            },
            (Form::String, Value::String(_)) | (Form::Boolean, Value::Bool(_)) => Ok(()),
            (Form::Number, Value::Number(_)) => Ok(()),
            (Form::Integer, Value::Number(number)) if number.is_i64() => Ok(()),
            (Form::Integer32, Value::Number(number))
                if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) =>
            {
                Ok(())
            }
            (Form::Bytes, Value::String(text)) => base64(text),
            (Form::Time | Form::MicroTime, Value::String(text)) => {
                *text = time::canonical(text, shape.form == Form::MicroTime).map_err(DecodeFault)?;
                Ok(())
            }
            (Form::Time | Form::MicroTime, other) => Err(foreign(other, "string")),
            (Form::IntOrString, Value::String(_)) => Ok(()),
            (Form::IntOrString, Value::Number(number))
                if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) =>
            {
                Ok(())
            }
            (Form::IntOrString, other) => Err(foreign(other, "int32")),
            (Form::Quantity, other) => {
                let quantity = match other {
                    Value::String(text) => text.trim().parse::<ExactQuantity>(),
                    other => other.to_string().parse(),
                };
                *value = Value::String(quantity.map_err(|fault| DecodeFault(fault.to_string()))?.to_string());
                Ok(())
            }
            (_, other) => Err(self.mismatch(schema, other, path)),
        }
    }

    fn structure(
        &mut self,
        schema: &Schema,
        shape: &SchemaNode,
        object: &mut Map<String, Value>,
        path: PathStep<'_>,
        depth: usize,
    ) -> Result<(), DecodeFault> {
        let outer = std::mem::replace(&mut self.owner, type_id(schema));
        let mut fault = None;
        object.retain(|key, value| {
            if fault.is_some() {
                return true;
            }
            let Some(field) = shape.property(key) else {
                if self.unknown.len() < MAX_REPORTS {
                    self.unknown.push(path.to_path().child(key));
                }
                return false;
            };
            if value.is_null() {
                return false;
            }
            if let Err(error) = self.value(field, value, path.field(key), depth + 1) {
                fault = Some(error);
            }
            !is_omitted(shape, key, field, value)
        });
        self.owner = outer;
        match fault {
            Some(fault) => Err(fault),
            None => {
                complete(shape, object, depth);
                Ok(())
            }
        }
    }

    fn map(
        &mut self,
        schema: &Schema,
        object: &mut Map<String, Value>,
        path: PathStep<'_>,
        depth: usize,
    ) -> Result<(), DecodeFault> {
        object.iter_mut().try_for_each(|(key, value)| self.element(schema, value, path.key(key), depth))
    }

    fn list(
        &mut self,
        schema: &Schema,
        items: &mut [Value],
        path: PathStep<'_>,
        depth: usize,
    ) -> Result<(), DecodeFault> {
        let mut items = items.iter_mut().enumerate();
        items.try_for_each(|(index, value)| self.element(schema, value, path.index(index), depth))
    }

    /// Decodes a value of a list or map, where null is the type's zero value.
    fn element(
        &mut self,
        schema: &Schema,
        value: &mut Value,
        path: PathStep<'_>,
        depth: usize,
    ) -> Result<(), DecodeFault> {
        if value.is_null() {
            let shape = schema.shape();
            *value = match shape.form {
                Form::Object if shape.values.is_none() => Value::Object(Map::new()),
                Form::String => Value::from(""),
                Form::Integer | Form::Integer32 | Form::Number | Form::IntOrString => Value::from(0),
                Form::Boolean => Value::from(false),
                Form::Quantity => Value::from("0"),
                _ => return Ok(()),
            };
        }
        self.value(schema, value, path, depth + 1)
    }

    fn mismatch(&self, schema: &Schema, value: &Value, path: PathStep<'_>) -> DecodeFault {
        let found = match (schema.shape().form, value) {
            (Form::Integer | Form::Integer32, Value::Number(number)) => format!("number {number}"),
            _ => go_json::kind_of(value).to_owned(),
        };
        let expected = go_type(schema);
        let place = if self.owner.is_empty() {
            "value".to_owned()
        } else {
            let owner = self.owner.rsplit('.').next().unwrap_or_default();
            format!("struct field {owner}.{}", path.to_go_path().as_str())
        };
        DecodeFault(format!("json: cannot unmarshal {found} into Go {place} of type {expected}"))
    }
}

/// Returns whether the encoder omits a property that was sent: an empty optional list or map.
fn is_omitted(shape: &SchemaNode, key: &str, field: &Schema, value: &Value) -> bool {
    let empty = match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty() && field.shape().values.is_some(),
        _ => false,
    };
    empty
        && !matches!(field.shape().form, Form::Any | Form::ObjectOrElse)
        && field.default_value().is_none()
        && !shape.nulls.iter().any(|name| name.as_ref() == key)
}

/// Adds the properties that the encoder always writes.
fn complete(shape: &SchemaNode, object: &mut Map<String, Value>, depth: usize) {
    for (name, field) in shape.properties.iter() {
        let Some(default) = field.default_value() else {
            continue;
        };
        if depth < MAX_DEPTH && !object.contains_key(name.as_ref()) {
            let mut value = default.clone();
            if let Value::Object(fields) = &mut value {
                complete(field.shape(), fields, depth + 1);
            }
            object.insert(name.to_string(), value);
        }
    }
    for name in &shape.nulls {
        if !object.contains_key(name.as_ref()) {
            object.insert(name.to_string(), Value::Null);
        }
    }
}

/// Returns the fault of a type that decodes itself, and so does not know its path.
fn foreign(value: &Value, expected: &str) -> DecodeFault {
    let found = match value {
        Value::Number(number) if expected == "int32" => format!("number {number}"),
        value => go_json::kind_of(value).to_owned(),
    };
    DecodeFault(format!("json: cannot unmarshal {found} into Go value of type {expected}"))
}

/// Returns the OpenAPI name of the node's type.
fn type_id(schema: &Schema) -> &'static str {
    schema.node().target.map_or(schema.id, |target| target.id)
}

/// Returns the Go type of a node, such as `[]v1.Container`.
fn go_type(schema: &Schema) -> String {
    let shape = schema.shape();
    match shape.form {
        Form::Array => format!("[]{}", shape.items.as_deref().map_or("interface {}".into(), go_type)),
        Form::Object => match &shape.values {
            Some(values) => format!("map[string]{}", go_type(values)),
            None => {
                let id = type_id(schema);
                let start = id.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at.saturating_add(1));
                id.get(start..).unwrap_or(id).to_owned()
            }
        },
        Form::String => "string".into(),
        Form::Integer => "int64".into(),
        Form::Integer32 => "int32".into(),
        Form::Number => "float64".into(),
        Form::Boolean => "bool".into(),
        Form::Bytes => "[]uint8".into(),
        Form::Time => "v1.Time".into(),
        Form::MicroTime => "v1.MicroTime".into(),
        Form::IntOrString => "intstr.IntOrString".into(),
        Form::Quantity => "resource.Quantity".into(),
        Form::Any | Form::ObjectOrElse => "interface {}".into(),
    }
}

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Checks base64 like Go (line breaks are skipped) and replaces it by its canonical form.
fn base64(text: &mut String) -> Result<(), DecodeFault> {
    if text.contains(['\r', '\n']) {
        text.retain(|c| c != '\r' && c != '\n');
    }
    match BASE64.decode(text.as_bytes()) {
        Ok(bytes) => {
            // Only the bits after the last byte can differ.
            if !text.is_empty() {
                *text = BASE64.encode(bytes);
            }
            Ok(())
        }
        Err(error) => {
            let at = match error {
                base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                // Go reports an incomplete group of four at its start.
                base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => {
                    text.trim_end_matches('=').len() / 4 * 4
                }
            };
            Err(DecodeFault(format!("illegal base64 data at input byte {at}")))
        }
    }
}
