//! [`Path`]: where a request goes.

use std::fmt::Write;

use evenkeel_core::{ObjectKey, ResourceInfo};
use http::Method;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::error::RequestError;
use super::failure::Target;

/// Where a request goes: a resource in its group and version, or a path as it is, and what follows behind it.
///
/// The parts end up in one order, whatever the order of the calls: root, namespace, resource, name, subresource, suffix.
/// Each may be set once; setting one again is a mistake that the request reports when it is sent. So is a part that
/// could lead elsewhere: namespace, resource, name and subresource are each exactly one segment of the path. They may not
/// be empty, `.` or `..`, nor contain `/`, `%`, `\`, `?`, `#` or control characters; anything else (spaces, colons,
/// letters of any script) is escaped. Whether a name is a good name is for the server to say.
#[derive(Clone, Debug)]
pub struct Path<'a> {
    root: Root<'a>,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
    subresource: Option<&'a str>,
    suffix: Option<&'a str>,
    /// The first part that was set a second time.
    twice: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
enum Root<'a> {
    Raw(&'a str),
    Resource(&'a ResourceInfo),
}

/// What stands in a path as it is. Everything else is escaped; `%` and `/` never get here.
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
    /// The collection of a resource.
    pub fn resource(info: &'a ResourceInfo) -> Self {
        Path::new(Root::Resource(info))
    }

    /// This path, such as `/version`, with or without a query of its own, such as `/logs?limit=5`.
    ///
    /// It is escaped already. It may not contain `.` or `..` as a segment, in any spelling, nor empty segments, so that it
    /// stays behind the server's base path. A slash at its end is kept unless something follows behind it.
    pub fn raw(path: &'a str) -> Self {
        Path::new(Root::Raw(path))
    }

    fn new(root: Root<'a>) -> Self {
        Path { root, namespace: None, name: None, subresource: None, suffix: None, twice: None }
    }

    /// In this namespace; empty for all of them.
    pub fn namespace(mut self, namespace: &'a str) -> Self {
        set(&mut self.namespace, namespace, "namespace", &mut self.twice);
        self
    }

    /// The object of this name.
    pub fn name(mut self, name: &'a str) -> Self {
        set(&mut self.name, name, "name", &mut self.twice);
        self
    }

    /// A subresource, such as `status`.
    pub fn subresource(mut self, subresource: &'a str) -> Self {
        set(&mut self.subresource, subresource, "subresource", &mut self.twice);
        self
    }

    /// What follows behind the subresource: a path of the program that `proxy` leads to, or a deeper subresource.
    ///
    /// It may have several segments, and a slash at its end is kept. It is escaped here. `.` and `..` are refused, and so
    /// are empty segments, `?`, `#`, `\` and control characters.
    pub fn suffix(mut self, suffix: &'a str) -> Self {
        set(&mut self.suffix, suffix, "suffix", &mut self.twice);
        self
    }

    /// The path, escaped, behind the server's base path.
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
        // An empty namespace is none at all.
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

    /// Whether the path leads through the API server to some other program, whose parameters are not the API's.
    pub(crate) fn is_proxied(&self) -> bool {
        self.subresource == Some("proxy")
    }

    /// The resource, unless the path is raw.
    pub(crate) fn info(&self) -> Option<&'a ResourceInfo> {
        match self.root {
            Root::Raw(_) => None,
            Root::Resource(info) => Some(info),
        }
    }

    /// The subresource, if the path has one.
    pub(crate) fn subresource_name(&self) -> Option<&'a str> {
        self.subresource
    }

    /// The key of the object that the path names.
    pub(crate) fn key(&self) -> Option<ObjectKey> {
        let namespace = self.namespace.filter(|namespace| !namespace.is_empty());
        self.name.map(|name| ObjectKey::new(namespace, name))
    }

    /// What the path leads to, for errors.
    pub(crate) fn target(&self) -> Target {
        let Root::Resource(info) = self.root else { return Target::default() };
        Target {
            group: info.group().into(),
            resource: info.plural().into(),
            name: self.name.unwrap_or_default().into(),
            subresource: self.subresource.unwrap_or_default().into(),
        }
    }

    /// The query that a raw path brought along.
    pub(crate) fn own_query(&self) -> Option<&'a str> {
        match self.root {
            Root::Raw(raw) => raw.split_once('?').map(|(_, query)| query),
            Root::Resource(_) => None,
        }
    }

    /// Refuses a request for an object that lives in a namespace when that is explicitly empty. Most of the time somebody
    /// has passed on a namespace that was never set, and the server's answer would not say so.
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

/// Names all the characters of `value` that may not be there. Empty if there are none.
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

/// Appends a path that is escaped already. What cannot stand in a URL at all is found when the URL is made.
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

/// Appends a slash and a path that is not escaped yet.
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
