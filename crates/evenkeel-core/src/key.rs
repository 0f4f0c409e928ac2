//! [`ObjectKey`]: the key of an object inside one resource, `namespace/name`.
//!
//! Stores, queues and indexes identify objects by this pair alone, not by uid or kind.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

/// The name of an object and its namespace, if it has one.
///
/// A key of up to 46 bytes, as most are, is stored inline; a longer one is a shared string. Cloning never allocates, and
/// `HashMap<ObjectKey, _>` and `BTreeMap<ObjectKey, _>` accept a `&str` in the form `namespace/name` for lookups. Keys compare
/// bytewise by that form.
///
/// ```
/// use evenkeel_core::ObjectKey;
///
/// let key = ObjectKey::namespaced("default", "web-0");
/// assert_eq!(key.to_string(), "default/web-0");
/// assert_eq!((key.namespace(), key.name()), (Some("default"), "web-0"));
/// assert_eq!("default/web-0".parse(), Ok(key));
/// assert_eq!(ObjectKey::cluster("node-1").namespace(), None);
/// ```
#[derive(Clone)]
pub struct ObjectKey(KeyText);

/// The inline capacity, which makes a key 48 bytes long.
const INLINE: usize = 46;

/// Stores compare keys on every lookup, so most keys are inline and not behind another pointer.
#[derive(Clone)]
enum KeyText {
    Inline { length: u8, bytes: [u8; INLINE] },
    Shared(Arc<str>),
}

impl KeyText {
    /// Concatenates the pieces.
    fn of(pieces: [&str; 3]) -> Self {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut bytes = [0; INLINE];
        let Some(mut rest) = bytes.get_mut(..length) else { return KeyText::Shared(pieces.concat().into()) };
        for piece in pieces {
            let (target, after) = rest.split_at_mut(piece.len());
            target.copy_from_slice(piece.as_bytes());
            rest = after;
        }
        // At most 46.
        KeyText::Inline { length: length as u8, bytes }
    }

    fn as_str(&self) -> &str {
        match self {
            // The bytes are a text, so the check never fails. It is cheaper than another cache line.
            KeyText::Inline { length, bytes } => {
                std::str::from_utf8(&bytes[..usize::from(*length)]).unwrap_or_default()
            }
            KeyText::Shared(text) => text,
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            KeyText::Inline { length, bytes } => &bytes[..usize::from(*length)],
            KeyText::Shared(text) => text.as_bytes(),
        }
    }
}

impl ObjectKey {
    /// Returns the key of `name` in `namespace`. An empty namespace equals none.
    ///
    /// Names that an API server accepts contain no slash. Otherwise the first slash of the key separates namespace and name.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) if !namespace.is_empty() => Self::namespaced(namespace, name),
            _ => Self::cluster(name),
        }
    }

    /// Returns the key of an object in a namespace.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            return Self::cluster(name);
        }
        ObjectKey(KeyText::of([namespace, "/", name]))
    }

    /// Returns the key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        ObjectKey(KeyText::of([name, "", ""]))
    }

    /// Returns the key of another object in the same namespace; of a cluster-scoped object if this key has no namespace.
    ///
    /// ```
    /// use evenkeel_core::ObjectKey;
    ///
    /// assert_eq!(ObjectKey::namespaced("shop", "web").sibling("web-config").as_str(), "shop/web-config");
    /// ```
    pub fn sibling(&self, name: &str) -> Self {
        Self::new(self.namespace(), name)
    }

    /// Returns the namespace, or `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.as_str().split_once('/').map(|(namespace, _)| namespace)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        let text = self.as_str();
        text.split_once('/').map_or(text, |(_, name)| name)
    }

    /// Returns the key as text: `namespace/name`, or `name` alone.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the bytes of the text.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for ObjectKey {}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for ObjectKey {
    /// Hashes like the text, so that maps accept a `&str`.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for ObjectKey {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl FromStr for ObjectKey {
    type Err = KeyError;

    /// Parses `name` or `namespace/name`, as client-go's `SplitMetaNamespaceKey` does: more slashes are an error, and a leading
    /// slash means no namespace.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        match text.split_once('/') {
            None => Ok(Self::cluster(text)),
            Some((_, name)) if name.contains('/') => Err(KeyError::TooManyParts { key: text.into() }),
            Some((namespace, name)) => Ok(Self::namespaced(namespace, name)),
        }
    }
}

/// A text that is no key of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text has more than one slash.
    #[error("unexpected key format: {key:?}")]
    TooManyParts {
        /// The whole text.
        key: String,
    },
}

#[cfg(test)]
mod tests;
