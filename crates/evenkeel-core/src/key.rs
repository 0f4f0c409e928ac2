//! [`ObjectKey`]: what an object is called inside one resource, `namespace/name`.
//!
//! Identity in every store, queue and index is this pair and nothing else; uids and kinds play no part in it.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of an object and the namespace it lives in, if it lives in one.
///
/// A key is one shared string: cloning it costs a reference count, and a `HashMap<ObjectKey, _>` or
/// `BTreeMap<ObjectKey, _>` can be asked with a `&str` in the `namespace/name` form. Keys compare bytewise by that form.
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
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Arc<str>);

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
        let mut text = String::with_capacity(namespace.len() + 1 + name.len());
        text.push_str(namespace);
        text.push('/');
        text.push_str(name);
        ObjectKey(text.into())
    }

    /// The key of an object that lives in no namespace.
    pub fn cluster(name: &str) -> Self {
        ObjectKey(name.into())
    }

    /// The namespace, or `None` for an object of the cluster itself.
    pub fn namespace(&self) -> Option<&str> {
        self.0.split_once('/').map(|(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
    }

    /// The key as text: `namespace/name`, or `name` alone.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ObjectKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
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
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use super::*;

    fn split(text: &str) -> (String, String) {
        let key: ObjectKey = text.parse().unwrap();
        (key.namespace().unwrap_or_default().to_owned(), key.name().to_owned())
    }

    #[test]
    fn key_001_namespace_slash_name_or_the_name_alone() {
        assert_eq!(ObjectKey::new(Some("ns"), "a").as_str(), "ns/a");
        assert_eq!(ObjectKey::new(None, "a").as_str(), "a");
        assert_eq!(ObjectKey::new(Some(""), "a"), ObjectKey::cluster("a"));
    }

    #[test]
    fn key_004_one_or_two_parts_and_never_three() {
        assert_eq!(split("a"), ("".into(), "a".into()));
        assert_eq!(split("ns/a"), ("ns".into(), "a".into()));
        assert_eq!(split(""), ("".into(), "".into()));
        assert_eq!(split("/x"), ("".into(), "x".into()));
        assert_eq!(split("x/"), ("x".into(), "".into()));
        let error = "a/b/c".parse::<ObjectKey>().unwrap_err();
        assert_eq!(error, KeyError::TooManyParts { key: "a/b/c".into() });
        assert!(error.to_string().contains("\"a/b/c\""), "{error}");
    }

    #[test]
    fn key_005_parsing_and_printing_are_inverse_but_for_a_leading_slash() {
        for text in ["", "a", "ns/a", "ns/"] {
            assert_eq!(text.parse::<ObjectKey>().unwrap().to_string(), text);
        }
        assert_eq!("/a".parse::<ObjectKey>().unwrap().to_string(), "a");
    }

    #[test]
    fn key_012_a_name_with_a_slash_is_cut_at_the_first_one() {
        let key = ObjectKey::namespaced("a", "b/c");
        assert_eq!((key.namespace(), key.name()), (Some("a"), "b/c"));
    }

    #[test]
    fn key_013_identity_is_namespace_and_name() {
        let mut map = HashMap::new();
        map.insert(ObjectKey::namespaced("ns", "a"), 1);
        assert_eq!(map.get("ns/a"), Some(&1));
        assert_eq!(map.insert(ObjectKey::new(Some("ns"), "a"), 2), Some(1));
    }

    #[test]
    fn keys_sort_bytewise_by_their_text() {
        let sorted: BTreeSet<ObjectKey> =
            ["b/a", "a/b", "a-b/a", "a", "a/a"].iter().map(|text| text.parse().unwrap()).collect();
        let texts: Vec<&str> = sorted.iter().map(ObjectKey::as_str).collect();
        assert_eq!(texts, ["a", "a-b/a", "a/a", "a/b", "b/a"]);
    }
}
