//! The numbers, names and types of the fields of every message that a client may send.
//!
//! The table has a line per message: its name without the leading `k8s.io.`, then its fields as `number:name:type`. The
//! names are those of the JSON form. An empty name stands for a message whose fields appear in the one around it, `=` for
//! the value that the whole message is. Before the type, `+` means a list, `%` a map from strings, and `*` a scalar that
//! tells its zero value from none at all.

use std::collections::HashMap;
use std::sync::LazyLock;

const TABLE: &str = include_str!("../../data/protobuf-fields-1.37.txt");

static MESSAGES: LazyLock<HashMap<&'static str, Message>> = LazyLock::new(|| {
    TABLE
        .lines()
        .filter_map(|line| {
            let (name, fields) = line.split_once(' ').unwrap_or((line, ""));
            let mut fields: Vec<Field> = fields.split(' ').filter_map(Field::read).collect();
            fields.sort_by_key(|field| field.number);
            (!name.is_empty()).then_some((name, Message { fields }))
        })
        .collect()
});

/// A message: its fields by number.
#[derive(Debug)]
pub(super) struct Message {
    fields: Vec<Field>,
}

impl Message {
    /// The message of a kind, if clients can send it in this form.
    pub(super) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Message> {
        if kind == "DeleteOptions" {
            return Message::named("apimachinery.pkg.apis.meta.v1.DeleteOptions");
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let package = match group {
            "" => "api.core",
            "apiextensions.k8s.io" => "apiextensions_apiserver.pkg.apis.apiextensions",
            "apiregistration.k8s.io" => "kube_aggregator.pkg.apis.apiregistration",
            group => {
                let first = group.split('.').next().unwrap_or_default();
                return Message::named(&format!("api.{first}.{version}.{kind}"));
            }
        };
        Message::named(&format!("{package}.{version}.{kind}"))
    }

    pub(super) fn named(name: &str) -> Option<&'static Message> {
        let messages: &'static HashMap<_, _> = &MESSAGES;
        messages.get(name)
    }

    pub(super) fn field(&self, number: u64) -> Option<&Field> {
        self.fields.binary_search_by_key(&number, |field| field.number).ok().and_then(|at| self.fields.get(at))
    }
}

/// One field of a message.
#[derive(Debug)]
pub(super) struct Field {
    number: u64,
    pub(super) place: Place,
    pub(super) shape: Shape,
    pub(super) kind: Kind,
}

/// Where a field appears in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Under this name.
    Named(&'static str),
    /// Its own fields appear in the object around it.
    Inline,
    /// The field is all there is.
    Whole,
}

/// How often a field occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Once; a scalar is always written, so its zero value says nothing.
    Plain,
    /// Once or not at all.
    Optional,
    /// Many times.
    List,
    /// Many times, as pairs of a string and a value.
    Map,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    String,
    Int,
    Bool,
    Bytes,
    Double,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// A message that holds JSON.
    Json,
    /// A message of this name.
    Message(&'static str),
}

impl Field {
    fn read(text: &'static str) -> Option<Field> {
        let mut parts = text.splitn(3, ':');
        let (number, name, kind) = (parts.next()?, parts.next()?, parts.next()?);
        let (shape, kind) = match kind.split_at_checked(1)? {
            ("+", kind) => (Shape::List, kind),
            ("%", kind) => (Shape::Map, kind),
            ("*", kind) => (Shape::Optional, kind),
            _ => (Shape::Plain, kind),
        };
        Some(Field {
            number: number.parse().ok()?,
            place: match name {
                "" => Place::Inline,
                "=" => Place::Whole,
                name => Place::Named(name),
            },
            shape,
            kind: match kind {
                "string" => Kind::String,
                "int" => Kind::Int,
                "bool" => Kind::Bool,
                "bytes" => Kind::Bytes,
                "double" => Kind::Double,
                "time" => Kind::Time,
                "microtime" => Kind::MicroTime,
                "quantity" => Kind::Quantity,
                "intstr" => Kind::IntOrString,
                "json" => Kind::Json,
                message => Kind::Message(message),
            },
        })
    }
}
