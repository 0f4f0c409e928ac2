//! [`Path`]: the path of a request.

use std::fmt::Write;

use evenkeel_core::{ObjectKey, ResourceInfo};
use http::Method;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::error::RequestError;
use super::status_error::RequestTarget;

/// The path of a request: a resource in its group and version, or a raw path, and what follows it.
///
/// The parts have a fixed order, whatever the order of the method calls: root, namespace, resource, name, subresource,
/// suffix. Each can be set once; setting it twice is an error when the request is sent. So is a part that would change
/// the path: namespace, resource, name and subresource are exactly one segment each. They may not be empty, `.` or
/// `..`, nor contain `/`, `%`, `\`, `?`, `#` or control characters; everything else (spaces, colons, letters of any
/// script) is escaped. The server validates names.
#[derive(Clone, Debug)]
pub struct Path<'a> {
    root: Root<'a>,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
    subresource: Option<&'a str>,
    suffix: Option<&'a str>,
    /// The first part that was set twice.
    twice: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
enum Root<'a> {
    Raw(&'a str),
    Resource(&'a ResourceInfo),
}

/// The characters that are escaped in a segment. `%` and `/` are rejected before.
const SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

impl<'a> Path<'a> {
    /// The path of a resource's collection.
    pub fn resource(info: &'a ResourceInfo) -> Self {
        Path::new(Root::Resource(info))
    }

    /// A raw path, such as `/version`, with or without a query, such as `/logs?limit=5`.
    ///
    /// It must be escaped. It may not contain `.` or `..` as a segment, in any spelling, nor empty segments, so that it
    /// stays below the server's base path. A trailing slash is kept unless a part follows.
    pub fn raw(path: &'a str) -> Self {
        Path::new(Root::Raw(path))
    }

    fn new(root: Root<'a>) -> Self {
        Path { root, namespace: None, name: None, subresource: None, suffix: None, twice: None }
    }

    /// Sets the namespace; empty for all namespaces.
    pub fn namespace(mut self, namespace: &'a str) -> Self {
        set(&mut self.namespace, namespace, "namespace", &mut self.twice);
        self
    }

    /// Sets the name of the object.
    pub fn name(mut self, name: &'a str) -> Self {
        set(&mut self.name, name, "name", &mut self.twice);
        self
    }

    /// Sets the subresource, such as `status`.
    pub fn subresource(mut self, subresource: &'a str) -> Self {
        set(&mut self.subresource, subresource, "subresource", &mut self.twice);
        self
    }

    /// Sets the suffix after the subresource: the path for a proxied program, or a nested subresource.
    ///
    /// It may have several segments, and a trailing slash is kept. It is escaped here. `.` and `..` are rejected, as
    /// are empty segments, `?`, `#`, `\` and control characters.
    pub fn suffix(mut self, suffix: &'a str) -> Self {
        set(&mut self.suffix, suffix, "suffix", &mut self.twice);
        self
    }

    /// Builds the escaped path below the server's base path.
    pub(crate) fn build(&self, base: &str) -> Result<String, RequestError> {
        if let Some(part) = self.twice {
            return Err(RequestError::Invalid { problem: format!("the request's {part} is set twice") });
        }
        let mut path = String::with_capacity(base.len() + self.length() + 32);
        path.push_str(base);
        if let Root::Raw(raw) = self.root {
            push_raw(&mut path, raw.split_once('?').map_or(raw, |(path, _)| path))?;
        }
        if let Root::Resource(info) = self.root {
            path.push_str(if info.group().is_empty() { "/api" } else { "/apis" });
            if !info.group().is_empty() {
                push_segment(&mut path, "group", info.group())?;
            }
            push_segment(&mut path, "version", info.version())?;
        }
        // An empty namespace means all namespaces.
        if let Some(namespace) = self.namespace.filter(|namespace| !namespace.is_empty()) {
            push_segment(&mut path, "path", "namespaces")?;
            push_segment(&mut path, "namespace", namespace)?;
        }
        if let Root::Resource(info) = self.root {
            if info.plural().contains(char::is_uppercase) {
                push_segment(&mut path, "resource", &info.plural().to_lowercase())?;
            } else {
                push_segment(&mut path, "resource", info.plural())?;
            }
        }
        if let Some(name) = self.name {
            push_segment(&mut path, "name", name)?;
        }
        if let Some(subresource) = self.subresource {
            push_segment(&mut path, "subresource", subresource)?;
        }
        if let Some(suffix) = self.suffix.filter(|suffix| !suffix.is_empty()) {
            push_suffix(&mut path, suffix)?;
        }
        if path.is_empty() {
            path.push('/');
        }
        Ok(path)
    }

    /// Returns whether the API server proxies the request to another program, whose query parameters are its own.
    pub(crate) fn is_proxied(&self) -> bool {
        self.subresource == Some("proxy")
    }

    /// Returns the resource, unless the path is raw.
    pub(crate) fn info(&self) -> Option<&'a ResourceInfo> {
        match self.root {
            Root::Raw(_) => None,
            Root::Resource(info) => Some(info),
        }
    }

    /// Returns the subresource.
    pub(crate) fn subresource_name(&self) -> Option<&'a str> {
        self.subresource
    }

    /// Returns the key of the named object.
    pub(crate) fn key(&self) -> Option<ObjectKey> {
        let namespace = self.namespace.filter(|namespace| !namespace.is_empty());
        self.name.map(|name| ObjectKey::new(namespace, name))
    }

    /// Returns the target of the path, for errors.
    pub(crate) fn target(&self) -> RequestTarget {
        let Root::Resource(info) = self.root else { return RequestTarget::default() };
        RequestTarget {
            group: info.group().into(),
            resource: info.plural().into(),
            name: self.name.unwrap_or_default().into(),
            subresource: self.subresource.unwrap_or_default().into(),
        }
    }

    /// Returns the query of a raw path.
    pub(crate) fn own_query(&self) -> Option<&'a str> {
        match self.root {
            Root::Raw(raw) => raw.split_once('?').map(|(_, query)| query),
            Root::Resource(_) => None,
        }
    }

    /// Rejects a request for a namespaced object with an explicitly empty namespace. Usually the program passes on a
    /// namespace that was never set, and the server's error would not show that.
    pub(crate) fn preflight(&self, method: &Method) -> Result<(), RequestError> {
        let cluster_wide = matches!(self.root, Root::Resource(info) if !info.namespaced());
        if self.namespace != Some("") || cluster_wide {
            return Ok(());
        }
        let problem = if *method == Method::POST {
            "an empty namespace may not be set during creation"
        } else if self.name.is_some() {
            "an empty namespace may not be set when an object is requested by name"
        } else {
            return Ok(());
        };
        Err(RequestError::Invalid { problem: problem.to_owned() })
    }

    fn length(&self) -> usize {
        let root = match self.root {
            Root::Raw(raw) => raw.len(),
            Root::Resource(info) => info.api_version().len() + info.plural().len(),
        };
        let parts = [self.namespace, self.name, self.subresource, self.suffix];
        root + parts.into_iter().flatten().map(str::len).sum::<usize>()
    }
}

fn set<'a>(part: &mut Option<&'a str>, value: &'a str, what: &'static str, twice: &mut Option<&'static str>) {
    if part.replace(value).is_some() {
        twice.get_or_insert(what);
    }
}

/// Appends a slash and one segment.
fn push_segment(path: &mut String, part: &'static str, value: &str) -> Result<(), RequestError> {
    let problem = match value {
        "" => "it is empty".to_owned(),
        "." | ".." => format!("it may not be '{value}'"),
        _ => forbidden(value, &['/', '%', '\\', '?', '#']),
    };
    if !problem.is_empty() {
        return Err(RequestError::Segment { part, value: value.to_owned(), problem });
    }
    if path.ends_with('/') {
        path.pop();
    }
    let _ = write!(path, "/{}", utf8_percent_encode(value, SEGMENT));
    Ok(())
}

/// Lists the forbidden characters of `value`; empty if there are none.
fn forbidden(value: &str, characters: &[char]) -> String {
    let mut problem = String::new();
    for &character in characters.iter().filter(|character| value.contains(**character)) {
        let _ = write!(problem, "{}it may not contain '{character}'", if problem.is_empty() { "" } else { ", " });
    }
    if value.contains(char::is_control) {
        let _ = write!(problem, "{}it may not contain control characters", if problem.is_empty() { "" } else { ", " });
    }
    problem
}

/// Appends an escaped path. Characters that are invalid in a URL are found when the URL is parsed.
fn push_raw(path: &mut String, raw: &str) -> Result<(), RequestError> {
    let is_dots = |segment: &str| {
        let plain = percent_encoding::percent_decode_str(segment).collect::<Vec<u8>>();
        plain == b"." || plain == b".."
    };
    let problem = if raw.contains("//") {
        "it has an empty segment".to_owned()
    } else if !raw.is_ascii() || raw.contains(' ') {
        "it is not escaped".to_owned()
    } else if raw.split('/').any(is_dots) {
        "it may not contain '.' or '..' as a segment".to_owned()
    } else {
        forbidden(raw, &['\\', '#'])
    };
    if !problem.is_empty() {
        return Err(RequestError::Segment { part: "path", value: raw.to_owned(), problem });
    }
    if !raw.is_empty() && !raw.starts_with('/') {
        path.push('/');
    }
    path.push_str(raw);
    Ok(())
}

/// Appends a slash and a path, which is escaped here.
fn push_suffix(path: &mut String, suffix: &str) -> Result<(), RequestError> {
    let problem = if suffix.contains("//") {
        "it has an empty segment".to_owned()
    } else if suffix.split('/').any(|segment| segment == "." || segment == "..") {
        "it may not contain '.' or '..' as a segment".to_owned()
    } else {
        forbidden(suffix, &['\\', '?', '#'])
    };
    if !problem.is_empty() {
        return Err(RequestError::Segment { part: "suffix", value: suffix.to_owned(), problem });
    }
    if path.ends_with('/') {
        path.pop();
    }
    for segment in suffix.strip_prefix('/').unwrap_or(suffix).split('/') {
        let _ = write!(path, "/{}", utf8_percent_encode(segment, SEGMENT));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
