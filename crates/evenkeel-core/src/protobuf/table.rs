//! The schema of every message of the Kubernetes API, on the wire and in JSON.
//!
//! `tools/protobuf-table` generates the table, `data/protobuf-messages.txt`, which describes its own format. The first lookup parses
//! it into arrays: finding a field by its number is one index operation, and names are slices of the file.

use std::collections::HashMap;
use std::sync::LazyLock;

const TEXT: &str = include_str!("../../data/protobuf-messages.txt");

/// The kinds of the API machinery, which every group and version has (PB-014).
const EVERYWHERE: [&str; 12] = [
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
    "APIVersions",
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "Status",
    "UpdateOptions",
    "WatchEvent",
];

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(TEXT));

/// The number of levels of inline messages.
pub(crate) const INLINE_LEVELS: usize = 2;

/// A message of the Kubernetes API: the names, numbers and types of its fields.
///
/// There is one of each, used as `&'static Message`.
pub struct Message {
    package: &'static str,
    name: &'static str,
    /// Its index in the table.
    index: u16,
    /// By field number.
    fields: Box<[Option<Field>]>,
    /// By JSON name, including the fields of inline messages.
    names: Box<[Named]>,
    /// The inline messages, by the field numbers of their paths.
    inlines: Box<[Inline]>,
}

impl Message {
    /// Returns the message of a kind, such as `apps/v1` and `Deployment` or `DeploymentList`. Returns `None` for custom resources
    /// and for kinds of versions of Kubernetes that the table does not cover.
    ///
    /// `Status`, `DeleteOptions`, `WatchEvent` and the other kinds of the API machinery exist in every group and version.
    ///
    /// ```
    /// use evenkeel_core::protobuf::Message;
    ///
    /// assert!(Message::of_kind("v1", "Pod").is_some());
    /// assert!(Message::of_kind("stable.example.com/v1", "CronTab").is_none());
    /// ```
    pub fn of_kind(api_version: &str, kind: &str) -> Option<&'static Message> {
        let table: &'static Table = &TABLE;
        let find = |api_version: &str| {
            let at =
                table.roots.binary_search_by_key(&(api_version, kind), |root| (root.api_version, root.kind)).ok()?;
            table.messages.get(usize::from(table.roots.get(at)?.message))
        };
        find(api_version).or_else(|| EVERYWHERE.contains(&kind).then(|| find("meta.k8s.io/v1")).flatten())
    }

    /// Returns its name in the schema of Kubernetes, without the package.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns its package.
    pub(crate) fn package(&self) -> &'static str {
        self.package
    }

    /// Returns the type of a field of this message.
    pub(crate) fn as_type(&self) -> FieldType {
        FieldType { kind: FieldKind::Message, message: self.index }
    }

    /// Returns the field with this number.
    #[inline]
    pub(crate) fn field(&'static self, number: u32) -> Option<&'static Field> {
        self.fields.get(number as usize)?.as_ref()
    }

    /// Returns the field with this JSON name. It may belong to an inline message.
    pub(crate) fn named(&'static self, name: &str) -> Option<&'static Named> {
        let at = self.names.binary_search_by_key(&name, |named| named.name).ok()?;
        self.names.get(at)
    }

    /// Returns all names, in alphabetical order.
    pub(crate) fn names(&'static self) -> &'static [Named] {
        &self.names
    }

    /// Returns the inline messages.
    pub(crate) fn inlines(&'static self) -> &'static [Inline] {
        &self.inlines
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.package, self.name)
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Message) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Message {}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// Its name in JSON; empty if it is inline.
    pub(crate) name: &'static str,
    pub(crate) number: u8,
    pub(crate) cardinality: Cardinality,
    /// Whether JSON omits a zero: Go has a plain value with `omitempty` (PB-051).
    pub(crate) elide: bool,
    pub(crate) of: FieldType,
}

impl Field {
    /// Returns whether JSON shows the fields of this message in the enclosing one (PB-029).
    #[inline]
    pub(crate) fn is_inline(&self) -> bool {
        self.name.is_empty()
    }
}

/// The cardinality of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cardinality {
    One,
    List,
    /// A map from strings to values of the type.
    Map,
}

/// The type of a field, or of the items of a list or the values of a map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldType {
    pub(crate) kind: FieldKind,
    message: u16,
}

impl FieldType {
    pub(crate) const TEXT: FieldType = FieldType { kind: FieldKind::Text, message: 0 };

    /// Returns the message of [`FieldKind::Message`], or the schema message of the kinds that may be schemas. It is meaningless for
    /// other kinds.
    #[inline]
    pub(crate) fn message(self) -> &'static Message {
        let table: &'static Table = &TABLE;
        &table.messages[usize::from(self.message)]
    }

    /// Returns the type of the message itself.
    pub(crate) fn as_message(self) -> FieldType {
        FieldType { kind: FieldKind::Message, ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldKind {
    Text,
    Bytes,
    Bool,
    Int32,
    Int64,
    Double,
    Message,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    Duration,
    /// A message that contains JSON.
    Json,
    /// A message of strings that is a list in JSON (PB-032).
    Strings,
    /// A schema or a bool (PB-033).
    SchemaOrBool,
    /// A schema or a list of schemas.
    SchemaOrSchemas,
    /// A schema or a list of strings.
    SchemaOrStrings,
}

impl FieldKind {
    fn read(letter: &str) -> Option<FieldKind> {
        Some(match letter {
            "s" => FieldKind::Text,
            "y" => FieldKind::Bytes,
            "b" => FieldKind::Bool,
            "i" => FieldKind::Int32,
            "l" => FieldKind::Int64,
            "d" => FieldKind::Double,
            "q" => FieldKind::Quantity,
            "x" => FieldKind::IntOrString,
            "t" => FieldKind::Time,
            "u" => FieldKind::MicroTime,
            "n" => FieldKind::Duration,
            "j" => FieldKind::Json,
            "w" => FieldKind::Strings,
            "o" => FieldKind::SchemaOrBool,
            "a" => FieldKind::SchemaOrSchemas,
            "r" => FieldKind::SchemaOrStrings,
            _ => return None,
        })
    }
}

/// A JSON name and its field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) field: Field,
    /// The field numbers of the inline messages around it, from the outside; zeros for none.
    pub(crate) path: [u8; INLINE_LEVELS],
    /// Its index among the names.
    pub(crate) index: usize,
}

/// An inline message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inline {
    /// Its path of field numbers, from the outside; zeros for fewer levels.
    pub(crate) path: [u8; INLINE_LEVELS],
}

struct Table {
    messages: Vec<Message>,
    /// Sorted.
    roots: Vec<Root>,
}

struct Root {
    api_version: &'static str,
    kind: &'static str,
    message: u16,
}

/// A line of the table and its package.
#[derive(Clone, Copy)]
struct Line {
    package: usize,
    name: &'static str,
    fields: &'static str,
}

impl Table {
    /// Parses the table. It is part of the crate, so malformed lines are skipped and not reported; tests check that there are none.
    fn read(text: &'static str) -> Table {
        let mut packages = Vec::new();
        let mut lines: Vec<Line> = Vec::new();
        let mut roots = Vec::new();
        let mut indexes: HashMap<(usize, &'static str), u16> = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(package) = line.strip_prefix('/') {
                packages.push(package.split_once(' ').unwrap_or((package, "")));
                continue;
            }
            let package = packages.len().saturating_sub(1);
            let (name, fields) = line.split_once(' ').unwrap_or((line, ""));
            let message = u16::try_from(lines.len()).unwrap_or(u16::MAX);
            let name = match name.strip_prefix('!') {
                Some(kind) => {
                    let api_version = packages.last().map_or("", |package| package.1);
                    roots.push(Root { api_version, kind, message });
                    kind
                }
                None => name,
            };
            indexes.insert((package, name), message);
            lines.push(Line { package, name, fields });
        }
        roots.sort_by_key(|root| (root.api_version, root.kind));

        let fields: Vec<Vec<Field>> = lines
            .iter()
            .map(|line| {
                let text = match line.fields.strip_prefix('=') {
                    Some(target) => {
                        let other = target.parse().ok().and_then(|package| indexes.get(&(package, line.name)));
                        other.and_then(|at| lines.get(usize::from(*at))).map_or("", |line| line.fields)
                    }
                    None => line.fields,
                };
                read_fields(Line { fields: text, ..*line }, &indexes)
            })
            .collect();
        let messages = lines
            .iter()
            .zip(&fields)
            .map(|(line, own)| {
                let last = own.iter().map(|field| usize::from(field.number)).max().map_or(0, |last| last + 1);
                let mut dense = vec![None; last];
                for field in own {
                    if let Some(slot) = dense.get_mut(usize::from(field.number)) {
                        *slot = Some(*field);
                    }
                }
                let (mut names, mut inlines) = (Vec::new(), Vec::new());
                flatten(own, &fields, [0; INLINE_LEVELS], 0, &mut names, &mut inlines);
                names.sort_by_key(|named| named.name);
                names.iter_mut().enumerate().for_each(|(index, named)| named.index = index);
                Message {
                    package: packages.get(line.package).map_or("", |package| package.0),
                    name: line.name,
                    index: indexes.get(&(line.package, line.name)).copied().unwrap_or_default(),
                    fields: dense.into(),
                    names: names.into(),
                    inlines: inlines.into(),
                }
            })
            .collect();
        Table { messages, roots }
    }
}

/// Collects the JSON names of a message, including those of its inline messages.
fn flatten(
    own: &[Field],
    all: &[Vec<Field>],
    path: [u8; INLINE_LEVELS],
    level: usize,
    names: &mut Vec<Named>,
    inlines: &mut Vec<Inline>,
) {
    for field in own {
        if !field.is_inline() {
            names.push(Named { name: field.name, field: *field, path, index: 0 });
        } else if let Some(inner) = all.get(usize::from(field.of.message)) {
            let mut path = path;
            if let Some(slot) = path.get_mut(level) {
                *slot = field.number;
                inlines.push(Inline { path });
                flatten(inner, all, path, level + 1, names, inlines);
            }
        }
    }
}

fn read_fields(line: Line, indexes: &HashMap<(usize, &'static str), u16>) -> Vec<Field> {
    if line.fields == "*" {
        return list_fields(line, indexes);
    }
    let mut last = 0;
    let texts = line.fields.split(' ').filter(|text| !text.is_empty());
    texts.filter_map(|text| read_field(text, line.package, indexes, &mut last)).collect()
}

/// Returns the fields of the list of a kind: metadata and items.
fn list_fields(line: Line, indexes: &HashMap<(usize, &'static str), u16>) -> Vec<Field> {
    let item = line.name.strip_suffix("List").and_then(|kind| indexes.get(&(line.package, kind)));
    let fields =
        [("metadata", 1, Cardinality::One, indexes.get(&(0, "ListMeta"))), ("items", 2, Cardinality::List, item)];
    let fields = fields.into_iter().filter_map(|(name, number, cardinality, message)| {
        let of = FieldType { kind: FieldKind::Message, message: *message? };
        Some(Field { name, number, cardinality, elide: false, of })
    });
    fields.collect()
}

/// Parses `NUMBER NAME : CARDINALITY ? TYPE`.
fn read_field(
    text: &'static str,
    package: usize,
    indexes: &HashMap<(usize, &'static str), u16>,
    last: &mut u8,
) -> Option<Field> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    let number = if number.is_empty() { *last + 1 } else { number.parse().ok()? };
    *last = number;
    let (name, mut kind) = rest.split_once(':').unwrap_or((rest, "?s"));
    let cardinality = match kind.split_at_checked(1)? {
        ("+", rest) => {
            kind = rest;
            Cardinality::List
        }
        ("%", rest) => {
            kind = rest;
            Cardinality::Map
        }
        _ => Cardinality::One,
    };
    let (elide, kind) = kind.strip_prefix('?').map_or((false, kind), |kind| (true, kind));
    let of = match FieldKind::read(kind) {
        Some(kind) => {
            let schema = indexes.get(&(package, "JSONSchemaProps")).copied().unwrap_or_default();
            FieldType { kind, message: schema }
        }
        None => {
            let target = match kind.strip_prefix('@') {
                Some(other) => {
                    let (other, name) = other.split_at(other.bytes().take_while(u8::is_ascii_digit).count());
                    (other.parse().ok()?, name)
                }
                None => (package, kind),
            };
            FieldType { kind: FieldKind::Message, message: *indexes.get(&target)? }
        }
    };
    Some(Field { name, number, cardinality, elide, of })
}

#[cfg(test)]
mod tests;
