//! [`Query`]: the query parameters of a request.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use evenkeel_core::duration;

/// The query parameters of a request.
///
/// They are sorted by name in the URL; values of the same name keep their order. Every value is escaped.
///
/// `Debug` shows names only: continue tokens and selectors may be confidential.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Query {
    pairs: Vec<(Cow<'static, str>, Cow<'static, str>)>,
}

/// A value of a query parameter.
///
/// Booleans, numbers and text are written plainly, times as RFC 3339 in UTC to the second, durations in Go's format
/// (`1m30s`). `None` adds nothing, `Some` adds its value even if it is zero; a slice adds the parameter once per
/// element.
pub trait QueryValue {
    /// Adds the parameter, once per value.
    fn add_to(self, name: Cow<'static, str>, query: &mut Query);
}

impl Query {
    /// Creates a query without parameters.
    pub fn new() -> Self {
        Query::default()
    }

    /// Adds a parameter.
    pub fn add(&mut self, name: impl Into<Cow<'static, str>>, value: impl QueryValue) -> &mut Self {
        value.add_to(name.into(), self);
        self
    }

    /// Adds a parameter unless its value is the default: empty, zero or false.
    pub fn add_unless_default<V>(&mut self, name: impl Into<Cow<'static, str>>, value: V) -> &mut Self
    where
        V: QueryValue + Default + PartialEq,
    {
        if value != V::default() {
            value.add_to(name.into(), self);
        }
        self
    }

    /// Returns whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns the first value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// Sets a parameter, replacing all its values.
    pub(crate) fn replace(&mut self, name: &'static str, value: &'static str) {
        self.pairs.retain(|(key, _)| key != name);
        self.pairs.push((name.into(), value.into()));
    }

    /// Adds the parameters of an encoded query.
    pub(crate) fn add_encoded(&mut self, query: &str) {
        let pairs = form_urlencoded::parse(query.as_bytes());
        self.pairs.extend(pairs.map(|(name, value)| (name.into_owned().into(), value.into_owned().into())));
    }

    pub(crate) fn append(&mut self, mut other: Query) {
        self.pairs.append(&mut other.pairs);
    }

    /// Returns the names, sorted and without duplicates.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.pairs.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Builds the URL of this path with the parameters. `instead` replaces the parameters of its name.
    pub(crate) fn url(&self, path: &str, instead: Option<(&'static str, String)>) -> String {
        let replaced = instead.as_ref().map(|(name, _)| *name);
        let kept = self.pairs.iter().map(|(name, value)| (&**name, &**value));
        let mut pairs: Vec<(&str, &str)> = kept.filter(|(name, _)| Some(*name) != replaced).collect();
        if let Some((name, value)) = &instead {
            pairs.push((name, value));
        }
        if pairs.is_empty() {
            return path.to_owned();
        }
        pairs.sort_by_key(|(name, _)| *name);
        let length: usize = pairs.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
        let mut url = String::with_capacity(path.len() + length + length / 4);
        url.push_str(path);
        url.push('?');
        let start = url.len();
        let mut encoder = form_urlencoded::Serializer::for_suffix(url, start);
        encoder.extend_pairs(pairs);
        encoder.finish()
    }
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl QueryValue for &str {
    fn add_to(self, name: Cow<'static, str>, query: &mut Query) {
        query.pairs.push((name, self.to_owned().into()));
    }
}

impl QueryValue for &String {
    fn add_to(self, name: Cow<'static, str>, query: &mut Query) {
        query.pairs.push((name, self.clone().into()));
    }
}

impl QueryValue for String {
    fn add_to(self, name: Cow<'static, str>, query: &mut Query) {
        query.pairs.push((name, self.into()));
    }
}

impl QueryValue for Cow<'static, str> {
    fn add_to(self, name: Cow<'static, str>, query: &mut Query) {
        query.pairs.push((name, self));
    }
}

impl QueryValue for bool {
    fn add_to(self, name: Cow<'static, str>, query: &mut Query) {
        query.pairs.push((name, if self { "true" } else { "false" }.into()));
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl QueryValue for $number {
            fn add_to(self, name: Cow<'static, str>, query: &mut Query) {
                query.pairs.push((name, self.to_string().into()));
            }
        })*
    };
}

numbers!(i32, i64, u32, u64, usize);

impl QueryValue for jiff::Timestamp {
    fn add_to(self, name: Cow<'static, str>, query: &mut Query) {
        query.pairs.push((name, format!("{self:.0}").into()));
    }
}

impl QueryValue for Duration {
    fn add_to(self, name: Cow<'static, str>, query: &mut Query) {
        query.pairs.push((name, duration::to_text(self).into()));
    }
}

impl<V: QueryValue> QueryValue for Option<V> {
    fn add_to(self, name: Cow<'static, str>, query: &mut Query) {
        if let Some(value) = self {
            value.add_to(name, query);
        }
    }
}

impl<V: QueryValue + Clone> QueryValue for &[V] {
    fn add_to(self, name: Cow<'static, str>, query: &mut Query) {
        for value in self {
            value.clone().add_to(name.clone(), query);
        }
    }
}

#[cfg(test)]
mod tests;
