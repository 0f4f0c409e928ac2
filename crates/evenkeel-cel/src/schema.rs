//! The types of JSON values: what a schema declares, with the sizes that cost estimates need.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::types::Type;

/// The largest request, from which the sizes of unbounded values are estimated.
pub const MAX_REQUEST_BYTES: u64 = 3 << 20;

/// How a list compares and concatenates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListIdentity {
    /// Item by item, in order.
    #[default]
    Atomic,
    /// In any order; concatenation adds the items that are new.
    Set,
    /// In any order, by the values of these keys; concatenation replaces items with equal keys.
    Map(Arc<[String]>),
}

/// The type of a JSON value.
#[derive(Clone, Debug)]
pub struct DeclType {
    kind: DeclKind,
    /// The most items, properties, or bytes of a string.
    max_elements: Option<u64>,
    /// The fewest bytes of the value as JSON.
    min_serialized: u64,
}

/// What a JSON value is.
#[derive(Clone, Debug)]
pub enum DeclKind {
    /// Any value, by its JSON type.
    Dyn,
    /// A boolean.
    Bool,
    /// An integer.
    Int,
    /// A number.
    Double,
    /// A string.
    String,
    /// A string of base64.
    Bytes,
    /// A string with a date.
    Date,
    /// A string with a date and a time.
    DateTime,
    /// A string with a duration.
    Duration,
    /// An array.
    List(Arc<DeclType>, ListIdentity),
    /// An object with values of one type.
    Map(Arc<DeclType>),
    /// An object with declared fields.
    Object(Arc<ObjectDecl>),
}

/// An object type: its name and fields.
#[derive(Clone, Debug)]
pub struct ObjectDecl {
    name: Arc<str>,
    fields: BTreeMap<Box<str>, FieldDecl>,
    /// Every name is that of a field, of any type.
    is_open: bool,
}

/// A field of an object type.
#[derive(Clone, Debug)]
pub struct FieldDecl {
    /// The key in JSON.
    key: Box<str>,
    decl: DeclType,
}

/// A value of which nothing is declared.
pub(crate) static DYN: LazyLock<DeclType> = LazyLock::new(|| DeclType::new(DeclKind::Dyn, None, 1));

impl DeclType {
    /// Returns a type with its sizes.
    pub fn new(kind: DeclKind, max_elements: Option<u64>, min_serialized: u64) -> Self {
        DeclType { kind, max_elements, min_serialized }
    }

    /// Returns what the value is.
    pub fn kind(&self) -> &DeclKind {
        &self.kind
    }

    /// Returns the most items, properties, or bytes.
    pub fn max_elements(&self) -> Option<u64> {
        self.max_elements
    }

    /// Returns the fewest bytes of the value as JSON.
    pub fn min_serialized(&self) -> u64 {
        self.min_serialized
    }

    /// Returns the type of expressions with such a value.
    pub fn to_type(&self) -> Type {
        match &self.kind {
            DeclKind::Dyn => Type::Dyn,
            DeclKind::Bool => Type::Bool,
            DeclKind::Int => Type::Int,
            DeclKind::Double => Type::Double,
            DeclKind::String => Type::String,
            DeclKind::Bytes => Type::Bytes,
            DeclKind::Date | DeclKind::DateTime => Type::Timestamp,
            DeclKind::Duration => Type::Duration,
            DeclKind::List(item, _) => Type::list(item.to_type()),
            DeclKind::Map(value) => Type::map(Type::String, value.to_type()),
            DeclKind::Object(object) => Type::Object(Arc::clone(object)),
        }
    }

    /// Returns the type of a list's items or of a map's values.
    pub fn element(&self) -> Option<&DeclType> {
        match &self.kind {
            DeclKind::List(item, _) => Some(item),
            DeclKind::Map(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the type of a declared field, by its escaped name.
    pub fn field(&self, name: &str) -> Option<&DeclType> {
        match &self.kind {
            // A reserved word that is not escaped has no type here, and so no known size: upstream's estimate of costs
            // does not find it either.
            DeclKind::Object(object) => object.fields.get(name).map(|field| &field.decl),
            _ => None,
        }
    }
}

impl ObjectDecl {
    /// Returns an object type. Properties whose names cannot be escaped are left out: expressions cannot name them.
    pub fn new(name: &str, properties: impl IntoIterator<Item = (String, DeclType)>) -> Self {
        let fields = properties
            .into_iter()
            .filter_map(|(key, decl)| Some((escape(&key)?.into(), FieldDecl { key: key.into(), decl })))
            .collect();
        ObjectDecl { name: name.into(), fields, is_open: false }
    }

    /// Returns an object type whose fields have the same names in expressions as in JSON. Such a name may be a reserved word,
    /// as in `request.namespace`.
    pub fn with_plain_names(name: &str, properties: impl IntoIterator<Item = (String, DeclType)>) -> Self {
        let fields =
            properties.into_iter().map(|(key, decl)| (key.as_str().into(), FieldDecl { key: key.into(), decl }));
        ObjectDecl { name: name.into(), fields: fields.collect(), is_open: false }
    }

    /// Returns an object type whose fields are not known: an expression may give it any, with values of any type.
    pub fn open(name: &str) -> Self {
        ObjectDecl { name: name.into(), fields: BTreeMap::new(), is_open: true }
    }

    /// Returns the name of the type.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the fields by their names in expressions.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &FieldDecl)> {
        self.fields.iter().map(|(name, field)| (&**name, field))
    }

    /// Returns the field that an expression selects. After a dot a reserved word needs no escape, as since Kubernetes 1.31.
    pub(crate) fn field(&self, name: &str) -> Option<&FieldDecl> {
        let reserved = || RESERVED.contains(&name).then(|| self.fields.get(format!("__{name}__").as_str())).flatten();
        self.fields.get(name).or_else(reserved)
    }

    /// Returns the type of a field, by its name in expressions.
    pub(crate) fn field_type(&self, name: &str) -> Option<Type> {
        match self.field(name) {
            Some(field) => Some(field.decl.to_type()),
            None => self.is_open.then_some(Type::Dyn),
        }
    }
}

impl FieldDecl {
    /// Returns the key in JSON.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the type of the value.
    pub fn decl(&self) -> &DeclType {
        &self.decl
    }
}

/// The words that CEL reserves.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns the name of a property in expressions; `None` if it cannot be written.
///
/// ```
/// assert_eq!(evenkeel_cel::escape("x-y").as_deref(), Some("x__dash__y"));
/// assert_eq!(evenkeel_cel::escape("namespace").as_deref(), Some("__namespace__"));
/// assert_eq!(evenkeel_cel::escape("1st"), None);
/// ```
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) || name == "$" {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '_' if characters.peek() == Some(&'_') => {
                characters.next();
                escaped.push_str("__underscores__");
            }
            '_' => escaped.push('_'),
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            other if other.is_ascii_alphanumeric() => escaped.push(other),
            _ => return None,
        }
    }
    Some(escaped)
}
