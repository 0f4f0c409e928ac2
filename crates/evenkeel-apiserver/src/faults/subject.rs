//! The subject of a request, as matched by fault rules.

use http::{HeaderMap, Method, Uri, header};

use crate::query::{Query, percent_decode};
use crate::route::{self, Verb};

/// The properties of a request that rules match. Empty strings stand for absent ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection` for resources; the method in
    /// lower case for other paths.
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) user_agent: String,
}

impl Subject {
    pub(crate) fn of(method: &Method, uri: &Uri, headers: &HeaderMap, user: &str) -> Self {
        let mut subject = Subject {
            verb: method.as_str().to_ascii_lowercase(),
            user: user.to_owned(),
            user_agent: headers
                .get(header::USER_AGENT)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned(),
            ..Subject::default()
        };
        let segments = route::segments(uri.path()).unwrap_or_default();
        let (group, rest) = match segments.as_slice() {
            ["api", _version, rest @ ..] => ("", rest),
            ["apis", group, rest @ ..] => (*group, rest.split_first().map_or(&[][..], |(_version, rest)| rest)),
            _ => return subject,
        };
        subject.group = group.to_owned();
        let Some(parts) = route::parts(group, rest).filter(|parts| !parts.plural.is_empty()) else { return subject };
        let name = parts.tail.first().copied();
        // A namespace object is in its own namespace, as in authorization.
        let itself = name.filter(|_| group.is_empty() && parts.plural == "namespaces");
        subject.namespace = decoded(parts.namespace.or(itself));
        subject.resource = parts.plural.to_owned();
        subject.name = decoded(name);
        let watch = parts.is_watch(&Query::parse(uri.query()));
        if let Some(verb) = Verb::of(method, name.is_some(), watch) {
            subject.verb = verb.as_str().to_owned();
        }
        subject
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.verb == "watch"
    }
}

/// Decodes a segment; one that is invalid is returned unchanged.
fn decoded(segment: Option<&str>) -> String {
    let raw = segment.unwrap_or_default();
    percent_decode(raw, false).unwrap_or_else(|| raw.to_owned())
}
