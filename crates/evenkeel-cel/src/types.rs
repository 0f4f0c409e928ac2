//! The types of expressions.

use std::fmt;
use std::sync::Arc;

use crate::schema::ObjectDecl;

/// The type of an expression. Displays as in the messages of the checker.
#[derive(Clone, Debug)]
pub enum Type {
    /// Known at run time only.
    Dyn,
    /// `null`.
    Null,
    /// `bool`.
    Bool,
    /// `int`, of 64 bits.
    Int,
    /// `uint`, of 64 bits.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// `google.protobuf.Duration`.
    Duration,
    /// `list(T)`.
    List(Arc<Type>),
    /// `map(K, V)`.
    Map(Arc<Type>, Arc<Type>),
    /// A type as a value; with the type it denotes, if known.
    Type(Option<Arc<Type>>),
    /// A type of a library, such as `optional_type(T)` or `kubernetes.Quantity`.
    Opaque(&'static str, Arc<[Type]>),
    /// An object with declared fields.
    Object(Arc<ObjectDecl>),
    /// A type parameter of an overload, or a free variable of the checker.
    Param(Arc<str>),
    /// The type of an expression with an error.
    Error,
}

/// The name of the optional type.
pub(crate) const OPTIONAL: &str = "optional_type";

impl Type {
    /// Returns `list(item)`.
    pub fn list(item: Type) -> Type {
        Type::List(Arc::new(item))
    }

    /// Returns `map(key, value)`.
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new(key), Arc::new(value))
    }

    /// Returns `optional_type(value)`.
    pub fn optional(value: Type) -> Type {
        Type::Opaque(OPTIONAL, Arc::from([value]))
    }

    pub(crate) fn opaque(name: &'static str) -> Type {
        Type::Opaque(name, Arc::from([]))
    }

    pub(crate) fn param(name: &str) -> Type {
        Type::Param(name.into())
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// Returns the type inside an optional, if this is one.
    pub(crate) fn unwrap_optional(&self) -> Option<&Type> {
        match self {
            Type::Opaque(OPTIONAL, params) => params.first(),
            _ => None,
        }
    }

    /// Returns the type parameters.
    pub(crate) fn parameters(&self) -> Vec<&Type> {
        match self {
            Type::List(item) => vec![item],
            Type::Map(key, value) => vec![key, value],
            Type::Type(Some(of)) => vec![of],
            Type::Opaque(_, params) => params.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the name at run time, as `type()` and error messages print it.
    pub(crate) fn runtime_name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::Duration => "google.protobuf.Duration",
            Type::List(_) => "list",
            Type::Map(..) => "map",
            Type::Type(_) => "type",
            Type::Opaque(name, _) => name,
            Type::Object(decl) => decl.name(),
            Type::Param(name) => name,
            Type::Error => "error",
        }
    }
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Type::List(a), Type::List(b)) => a == b,
            (Type::Map(a, b), Type::Map(c, d)) => a == c && b == d,
            (Type::Type(a), Type::Type(b)) => a == b,
            (Type::Opaque(a, b), Type::Opaque(c, d)) => a == c && b == d,
            (Type::Object(a), Type::Object(b)) => a.name() == b.name(),
            (Type::Param(a), Type::Param(b)) => a == b,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl Eq for Type {}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Type::Null => "null",
            Type::Timestamp => "timestamp",
            Type::Duration => "duration",
            Type::Error => "!error!",
            other => other.runtime_name(),
        };
        f.write_str(name)?;
        let parameters = self.parameters();
        if parameters.is_empty() {
            return Ok(());
        }
        f.write_str("(")?;
        for (index, parameter) in parameters.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{parameter}")?;
        }
        f.write_str(")")
    }
}
