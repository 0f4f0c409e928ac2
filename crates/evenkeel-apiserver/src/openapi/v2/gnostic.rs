//! Encodes an OpenAPI v2 document in protobuf: the messages of gnostic's package `openapi.v2`, which kubectl reads.
//!
//! Paths and definitions are encoded one at a time, from the same JSON values that the JSON document has.

use serde_json::{Map, Value};

/// The nesting limit of a schema, which is also that of the JSON parser.
const MAX_DEPTH: usize = 128;

/// The wire types of the fields.
const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn tag(&mut self, number: u8, wire_type: u8) {
        self.varint(u64::from(number) << 3 | u64::from(wire_type));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, number: u8, bytes: &[u8]) {
        self.tag(number, BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, number: u8, text: &str) {
        if !text.is_empty() {
            self.bytes(number, text.as_bytes());
        }
    }

    /// Writes the strings of a list.
    pub(super) fn texts(&mut self, number: u8, list: Option<&Value>) {
        for text in list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            self.bytes(number, text.as_bytes());
        }
    }

    fn flag(&mut self, number: u8, value: bool) {
        if value {
            self.member_flag(number, value);
        }
    }

    /// Writes a boolean of a oneof, whose `false` is written, too.
    fn member_flag(&mut self, number: u8, value: bool) {
        self.tag(number, VARINT);
        self.varint(u64::from(value));
    }

    fn integer(&mut self, number: u8, value: i64) {
        if value != 0 {
            self.tag(number, VARINT);
            self.varint(value as u64);
        }
    }

    fn number(&mut self, number: u8, value: f64) {
        if value != 0.0 {
            self.tag(number, FIXED64);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// Writes a nested message.
    pub(super) fn message(&mut self, number: u8, write: impl FnOnce(&mut Message)) {
        let mut nested = Message::default();
        write(&mut nested);
        self.bytes(number, &nested.0);
    }

    /// Writes an entry of a map: a message of a name and a value.
    pub(super) fn named(&mut self, number: u8, name: &str, write: impl FnOnce(&mut Message)) {
        self.message(number, |entry| {
            entry.text(1, name);
            entry.message(2, write);
        });
    }

    /// Writes an arbitrary value, as YAML: JSON is YAML.
    fn any(&mut self, number: u8, value: &Value) {
        self.message(number, |any| any.text(2, &format!("{value}\n")));
    }

    /// Writes the `x-` members of an object.
    fn extensions(&mut self, number: u8, source: &Map<String, Value>) {
        for (name, value) in source.iter().filter(|(name, _)| name.starts_with("x-")) {
            self.message(number, |entry| {
                entry.text(1, name);
                entry.any(2, value);
            });
        }
    }
}

fn text<'a>(source: &'a Map<String, Value>, key: &str) -> &'a str {
    source.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn flag(source: &Map<String, Value>, key: &str) -> bool {
    source.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// Writes the fields of a `Schema`.
pub(super) fn schema(out: &mut Message, source: &Value) {
    nested_schema(out, source, MAX_DEPTH);
}

fn nested_schema(out: &mut Message, source: &Value, depth: usize) {
    let (Value::Object(source), Some(depth)) = (source, depth.checked_sub(1)) else { return };
    for (number, key) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")] {
        out.text(number, text(source, key));
    }
    for (number, key) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        out.number(number, source.get(key).and_then(Value::as_f64).unwrap_or_default());
    }
    for (number, key) in [(8, "exclusiveMaximum"), (10, "exclusiveMinimum"), (16, "uniqueItems"), (27, "readOnly")] {
        out.flag(number, flag(source, key));
    }
    let counts = [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ];
    for (number, key) in counts {
        out.integer(number, source.get(key).and_then(Value::as_i64).unwrap_or_default());
    }
    out.texts(19, source.get("required"));
    for choice in source.get("enum").and_then(Value::as_array).into_iter().flatten() {
        out.any(20, choice);
    }
    match source.get("additionalProperties") {
        None => {}
        Some(Value::Bool(allowed)) => out.message(21, |out| out.member_flag(2, *allowed)),
        Some(values) => out.message(21, |out| out.message(1, |out| nested_schema(out, values, depth))),
    }
    match text(source, "type") {
        "" => {}
        name => out.message(22, |out| out.text(1, name)),
    }
    if let Some(items) = source.get("items") {
        out.message(23, |out| out.message(1, |out| nested_schema(out, items, depth)));
    }
    if let Some(Value::Object(properties)) = source.get("properties") {
        out.message(25, |out| {
            for (name, property) in properties {
                out.named(1, name, |out| nested_schema(out, property, depth));
            }
        });
    }
    if let Some(Value::Object(docs)) = source.get("externalDocs") {
        out.message(29, |out| {
            out.text(1, text(docs, "description"));
            out.text(2, text(docs, "url"));
        });
    }
    if let Some(example) = source.get("example") {
        out.any(30, example);
    }
    out.extensions(31, source);
}

/// Writes the fields of a `PathItem`.
pub(super) fn path_item(out: &mut Message, source: &Value) {
    let Value::Object(source) = source else { return };
    for (number, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(Value::Object(source)) = source.get(method) {
            out.message(number, |out| operation(out, source));
        }
    }
    parameters(out, 9, source.get("parameters"));
}

fn operation(out: &mut Message, source: &Map<String, Value>) {
    out.texts(1, source.get("tags"));
    out.text(5, text(source, "operationId"));
    out.texts(6, source.get("produces"));
    out.texts(7, source.get("consumes"));
    parameters(out, 8, source.get("parameters"));
    if let Some(Value::Object(responses)) = source.get("responses") {
        out.message(9, |out| {
            for (code, response) in responses {
                out.named(1, code, |out| out.message(1, |out| self::response(out, response)));
            }
        });
    }
    out.texts(10, source.get("schemes"));
    out.extensions(13, source);
}

fn response(out: &mut Message, source: &Value) {
    out.text(1, source.get("description").and_then(Value::as_str).unwrap_or_default());
    if let Some(of) = source.get("schema") {
        out.message(2, |out| out.message(1, |out| schema(out, of)));
    }
}

fn parameters(out: &mut Message, number: u8, list: Option<&Value>) {
    for source in list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object) {
        match text(source, "$ref") {
            "" => out.message(number, |out| out.message(1, |out| parameter(out, source))),
            reference => out.message(number, |out| out.message(2, |out| out.text(1, reference))),
        }
    }
}

/// Writes the fields of a `Parameter`.
pub(super) fn parameter(out: &mut Message, source: &Map<String, Value>) {
    let (name, place) = (text(source, "name"), text(source, "in"));
    let (required, unique) = (flag(source, "required"), flag(source, "uniqueItems"));
    match place {
        "body" => out.message(1, |out| {
            out.text(2, name);
            out.text(3, place);
            out.flag(4, required);
            if let Some(of) = source.get("schema") {
                out.message(5, |out| schema(out, of));
            }
        }),
        // The messages of both places agree up to the name.
        place => out.message(2, |out| {
            let (member, type_number, unique_number) = if place == "path" { (4, 5, 19) } else { (3, 6, 20) };
            out.message(member, |out| {
                out.flag(1, required);
                out.text(2, place);
                out.text(4, name);
                out.text(type_number, text(source, "type"));
                out.flag(unique_number, unique);
            });
        }),
    }
}
