//! [`ObjectKey`]: what an object is called inside one resource, `namespace/name`.
//!
//! Identity in every store, queue and index is this pair and nothing else; uids and kinds play no part in it.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

/// The name of an object and the namespace it lives in, if it lives in one.
///
/// A key of up to 46 bytes, as most are, is held in place; a longer one is a shared string. Cloning never allocates, and a
/// `HashMap<ObjectKey, _>` or `BTreeMap<ObjectKey, _>` can be asked with a `&str` in the `namespace/name` form. Keys compare
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
pub struct ObjectKey(Text);

/// How many bytes are held in place: what makes a key 48 bytes long.
const INLINE: usize = 46;

/// Stores find objects by comparing keys, so most keys lie in the object itself and not at the end of another pointer.
#[derive(Clone)]
enum Text {
    Inline { length: u8, bytes: [u8; INLINE] },
    Shared(Arc<str>),
}

impl Text {
    /// The text of these pieces, one after the other.
    fn of(pieces: [&str; 3]) -> Self {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut bytes = [0; INLINE];
        let Some(mut rest) = bytes.get_mut(..length) else { return Text::Shared(pieces.concat().into()) };
        for piece in pieces {
            let (place, behind) = rest.split_at_mut(piece.len());
            place.copy_from_slice(piece.as_bytes());
            rest = behind;
        }
        // There are at most 46.
        Text::Inline { length: length as u8, bytes }
    }

    fn as_str(&self) -> &str {
        match self {
            // They were a text when they came, so the check never fails; it is cheaper than another cache line.
            Text::Inline { length, bytes } => std::str::from_utf8(&bytes[..usize::from(*length)]).unwrap_or_default(),
            Text::Shared(text) => text,
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Text::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Text::Shared(text) => text.as_bytes(),
        }
    }
}

impl ObjectKey {
    /// The key of `name` in `namespace`. No namespace and an empty one are the same thing.
    ///
    /// Names that an API server accepts hold no slash. If one does all the same, the first slash of the whole key
    /// divides namespace from name.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) if !namespace.is_empty() => Self::namespaced(namespace, name),
            _ => Self::cluster(name),
        }
    }

    /// The key of an object that lives in a namespace.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            return Self::cluster(name);
        }
        ObjectKey(Text::of([namespace, "/", name]))
    }

    /// The key of an object that lives in no namespace.
    pub fn cluster(name: &str) -> Self {
        ObjectKey(Text::of([name, "", ""]))
    }

    /// The namespace, or `None` for an object of the cluster itself.
    pub fn namespace(&self) -> Option<&str> {
        self.as_str().split_once('/').map(|(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        let text = self.as_str();
        text.split_once('/').map_or(text, |(_, name)| name)
    }

    /// The key as text: `namespace/name`, or `name` alone.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The bytes of the text.
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
    /// As the text does, so that maps can be asked with one.
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

    /// Reads `name` or `namespace/name`, as client-go's `SplitMetaNamespaceKey` does: more slashes are an error, and a
    /// leading slash stands for "no namespace" and is dropped.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        match text.split_once('/') {
            None => Ok(Self::cluster(text)),
            Some((_, name)) if name.contains('/') => Err(KeyError::TooManyParts { key: text.into() }),
            Some((namespace, name)) => Ok(Self::namespaced(namespace, name)),
        }
    }
}

/// A text that is not the key of an object.
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
