//! Header names and values built from the configuration. Invalid ones are rejected here, before any request.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};

use crate::config::{ConfigError, Impersonate};

/// Returns the value of a header. Bytes from 0x80 on are allowed, control characters are not; the error names the
/// field and does not repeat the value.
pub(super) fn value(field: &str, text: &[u8]) -> Result<HeaderValue, ConfigError> {
    HeaderValue::from_bytes(text).map_err(|_| ConfigError::Invalid {
        problem: format!("{field} holds a line break or another control character"),
    })
}

/// Returns a value that is marked as sensitive.
pub(super) fn secret_value(field: &str, text: &[u8]) -> Result<HeaderValue, ConfigError> {
    let mut value = value(field, text)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The names of the headers that describe a user.
pub(super) struct UserHeaders {
    pub(super) user: HeaderName,
    pub(super) uid: HeaderName,
    pub(super) group: HeaderName,
    pub(super) extra_prefix: &'static str,
    /// The name of the fields in errors.
    pub(super) called: &'static str,
}

impl UserHeaders {
    /// Returns the headers of this user: the name always, even if it is empty; the rest where present.
    pub(super) fn describe(&self, user: &Impersonate) -> Result<Vec<(HeaderName, HeaderValue)>, ConfigError> {
        let called = self.called;
        let mut headers = vec![(self.user.clone(), value(&format!("the {called} user"), user.user.as_bytes())?)];
        if !user.uid.is_empty() {
            headers.push((self.uid.clone(), value(&format!("the {called} uid"), user.uid.as_bytes())?));
        }
        for group in &user.groups {
            headers.push((self.group.clone(), value(&format!("a group of the {called} user"), group.as_bytes())?));
        }
        self.describe_extra(&user.extra, &mut headers)?;
        Ok(headers)
    }

    fn describe_extra(
        &self,
        extra: &BTreeMap<String, Vec<String>>,
        headers: &mut Vec<(HeaderName, HeaderValue)>,
    ) -> Result<(), ConfigError> {
        for (key, values) in extra {
            let name = format!("{}{}", self.extra_prefix, escape(key));
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| ConfigError::Invalid {
                problem: format!("the extra key {key:?} of the {} user is too long for a header", self.called),
            })?;
            for text in values {
                let field = format!("the extra value {key:?} of the {} user", self.called);
                headers.push((name.clone(), value(&field, text.as_bytes())?));
            }
        }
        Ok(())
    }
}

/// Escapes every byte that is not allowed in a header name, and every `%`, as `%xx`. Header names are case
/// insensitive, so upper case is lost; the server lower-cases keys anyway.
fn escape(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        if is_token(byte) && byte != b'%' {
            escaped.push(char::from(byte.to_ascii_lowercase()));
        } else {
            escaped.push_str(&format!("%{byte:02x}"));
        }
    }
    escaped
}

/// Returns whether the byte is a token character of HTTP.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests;
