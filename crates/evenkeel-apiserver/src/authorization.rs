//! What authorization decides about: [`AccessAttributes`], and the error for what is not allowed (RBA-001).
//!
//! Nothing here knows who may do what. The engine decides, for requests, for the headers of impersonation and for reviews
//! alike.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use evenkeel_core::{FieldSelector, Reason, Status, StatusDetails};

use crate::http_types::User;
use crate::listener::request_info::RequestInfo;
use crate::meta;
use crate::query::{Query, percent_decode};

/// A use of the API by a user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessAttributes<'a> {
    pub(crate) user: &'a User,
    pub(crate) verb: &'a str,
    pub(crate) target: AccessTarget<'a>,
}

/// What a verb is used on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AccessTarget<'a> {
    Resource(ResourceAttributes<'a>),
    /// A path that names no resource.
    Path(&'a str),
}

/// The attributes of objects. Absent ones are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceAttributes<'a> {
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// Whether a use is allowed, and why. The reason is that of the audit log; it is often empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AccessDecision {
    Allowed { reason: String },
    Denied { reason: String },
}

impl AccessDecision {
    /// The decision about a user that is not limited.
    pub(crate) const UNLIMITED: AccessDecision = AccessDecision::Allowed { reason: String::new() };
    /// The decision where nothing grants the use.
    pub(crate) const UNKNOWN: AccessDecision = AccessDecision::Denied { reason: String::new() };

    pub(crate) fn is_allowed(&self) -> bool {
        matches!(self, AccessDecision::Allowed { .. })
    }

    /// Returns the 403 of a use that is not allowed.
    pub(crate) fn check(&self, access: &AccessAttributes<'_>) -> Result<(), Box<Status>> {
        match self {
            AccessDecision::Allowed { .. } => Ok(()),
            AccessDecision::Denied { reason } => Err(Box::new(access.forbidden(reason))),
        }
    }
}

/// A request that is not allowed.
#[derive(Debug)]
pub(crate) struct Forbidden {
    /// The reason of the audit log.
    pub(crate) reason: String,
    /// The response.
    pub(crate) status: Box<Status>,
}

impl AccessAttributes<'_> {
    /// Returns the error for a use that is not allowed, with kube-apiserver's text.
    pub(crate) fn forbidden(&self, reason: &str) -> Status {
        let mut why = self.to_string();
        // kube-apiserver keeps its errors from looking like HTML.
        for (character, entity) in [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;")] {
            if why.contains(character) {
                why = why.replace(character, entity);
            }
        }
        if !reason.is_empty() {
            why.push_str(": ");
            why.push_str(reason);
        }
        match self.target {
            AccessTarget::Resource(target) => Status::forbidden(target.group, target.resource, target.name, why),
            AccessTarget::Path(_) => Status::failure(403, Reason::FORBIDDEN, format!("forbidden: {why}"))
                .with_details(StatusDetails::default()),
        }
    }
}

impl fmt::Display for AccessAttributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user, verb) = (GoQuoted(&self.user.name), self.verb);
        let target = match self.target {
            AccessTarget::Path(path) => return write!(f, "User {user} cannot {verb} path {}", GoQuoted(path)),
            AccessTarget::Resource(target) => target,
        };
        let resource = match target.subresource {
            "" => Cow::Borrowed(target.resource),
            subresource => Cow::Owned(format!("{}/{subresource}", target.resource)),
        };
        let (resource, group) = (GoQuoted(&resource), GoQuoted(target.group));
        write!(f, "User {user} cannot {verb} resource {resource} in API group {group} ")?;
        match target.namespace {
            "" => f.write_str("at the cluster scope"),
            namespace => write!(f, "in the namespace {}", GoQuoted(namespace)),
        }
    }
}

/// A text as Go's `%q` quotes it.
pub(crate) struct GoQuoted<'a>(pub(crate) &'a str);

impl fmt::Display for GoQuoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                '\u{7}' => f.write_str("\\a")?,
                '\u{8}' => f.write_str("\\b")?,
                '\u{b}' => f.write_str("\\v")?,
                '\u{c}' => f.write_str("\\f")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                other if (other as u32) < 0x20 || other == '\u{7f}' => write!(f, "\\x{:02x}", other as u32)?,
                other if other.is_control() => write!(f, "\\u{:04x}", other as u32)?,
                other => f.write_char(other)?,
            }
        }
        f.write_char('"')
    }
}

/// Texts as Go's `%q` writes a slice of them: `["a" "b"]`.
pub(crate) struct GoQuotedList<'a, S>(pub(crate) &'a [S]);

impl<S: AsRef<str>> fmt::Display for GoQuotedList<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        for (index, text) in self.0.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{}", GoQuoted(text.as_ref()))?;
        }
        f.write_char(']')
    }
}

/// What a request does, with the escapes of its path decoded.
#[derive(Debug)]
pub(crate) struct RequestAttributes<'a> {
    info: &'a RequestInfo<'a>,
    namespace: Cow<'a, str>,
    name: Cow<'a, str>,
    path: Cow<'a, str>,
}

impl<'a> RequestAttributes<'a> {
    pub(crate) fn new(info: &'a RequestInfo<'a>, query: Option<&str>) -> Self {
        let mut name = decoded(info.name);
        // A list of one name is authorized like a get of it (RBA-004).
        if name.is_empty() && matches!(info.verb, "list" | "watch") {
            name = Cow::Owned(selected_name(query).unwrap_or_default());
        }
        RequestAttributes { info, namespace: decoded(info.namespace), name, path: decoded(info.path) }
    }

    pub(crate) fn access<'b>(&'b self, user: &'b User, verb: &'b str) -> AccessAttributes<'b> {
        let target = match self.info.is_resource {
            false => AccessTarget::Path(&self.path),
            true => AccessTarget::Resource(ResourceAttributes {
                group: self.info.group,
                resource: self.info.resource,
                subresource: self.info.subresource,
                namespace: &self.namespace,
                name: &self.name,
            }),
        };
        AccessAttributes { user, verb, target }
    }

    /// Returns the use of the request itself by a user.
    pub(crate) fn access_of<'b>(&'b self, user: &'b User) -> AccessAttributes<'b> {
        self.access(user, self.info.verb)
    }
}

/// Segments that cannot be decoded stay as they are. No route serves them.
fn decoded(segment: &str) -> Cow<'_, str> {
    match segment.contains('%') {
        true => percent_decode(segment, false).map_or(Cow::Borrowed(segment), Cow::Owned),
        false => Cow::Borrowed(segment),
    }
}

/// Returns the name that the field selector of a query requires.
fn selected_name(query: Option<&str>) -> Option<String> {
    let query = Query::parse(Some(query.filter(|query| query.contains("ieldSelector") || query.contains('%'))?));
    let selector = FieldSelector::parse(query.get("fieldSelector")?).ok()?;
    let name = selector.exact("metadata.name")?;
    meta::path_segment(name).is_empty().then(|| name.to_owned())
}

#[cfg(test)]
mod tests;
