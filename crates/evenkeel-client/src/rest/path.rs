//! [`Path`]: where a request goes.

use std::fmt::Write;

use evenkeel_core::ResourceInfo;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// Where a request goes: a resource in its group and version, or a path as it is.
///
/// Names are checked when the request is built: a name can never reach another place than the one it names.
#[derive(Clone, Debug)]
pub struct Path<'a> {
    root: Root<'a>,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
    subresources: Vec<&'a str>,
    /// What goes behind a proxying subresource.
    suffix: Option<&'a str>,
}

#[derive(Clone, Debug)]
enum Root<'a> {
    Raw(&'a str),
    Resource(&'a ResourceInfo),
}

/// Why a request cannot be built. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A part of the path cannot stand there.
    #[error("{value:?} is no {part}: {problem}")]
    Segment {
        /// Which part: namespace, name, subresource.
        part: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A header cannot be sent.
    #[error("the header {name:?} cannot be sent: {problem}")]
    Header {
        /// Its name.
        name: String,
        /// What is wrong with its name or value. The value is not shown.
        problem: String,
    },
    /// The object cannot be written as the body of a request.
    #[error("{what} cannot be encoded: {problem}")]
    Body {
        /// What was to be encoded.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Something else that was asked for makes no sense.
    #[error("{problem}")]
    Invalid {
        /// What is wrong.
        problem: String,
    },
}

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
        Path { root: Root::Resource(info), namespace: None, name: None, subresources: Vec::new(), suffix: None }
    }

    /// This path, such as `/version`. It is not escaped, and may not contain `..`.
    pub fn raw(path: &'a str) -> Self {
        Path { root: Root::Raw(path), namespace: None, name: None, subresources: Vec::new(), suffix: None }
    }

    /// In this namespace; empty for none.
    pub fn namespace(mut self, namespace: &'a str) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// The object of this name.
    pub fn name(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// A subresource of it; may be called again for a deeper one.
    pub fn subresource(mut self, subresource: &'a str) -> Self {
        self.subresources.push(subresource);
        self
    }

    /// What follows behind the subresource `proxy`: a path of the program that is proxied to.
    pub fn suffix(mut self, suffix: &'a str) -> Self {
        self.suffix = Some(suffix);
        self
    }

    /// The path, escaped, behind the server's base path.
    pub(crate) fn build(&self, base: &str) -> Result<String, RequestError> {
        let mut path = String::with_capacity(base.len() + 96);
        path.push_str(base);
        match self.root {
            Root::Raw(raw) => path.push_str(raw),
            Root::Resource(info) => {
                path.push_str(if info.group().is_empty() { "/api/" } else { "/apis/" });
                path.push_str(info.api_version());
                if let Some(namespace) = self.namespace.filter(|namespace| !namespace.is_empty()) {
                    path.push_str("/namespaces/");
                    push_segment(&mut path, "namespace", namespace)?;
                }
                path.push('/');
                path.push_str(info.plural());
            }
        }
        if let Some(name) = self.name {
            path.push('/');
            push_segment(&mut path, "name", name)?;
        }
        for subresource in &self.subresources {
            path.push('/');
            push_segment(&mut path, "subresource", subresource)?;
        }
        if let Some(suffix) = self.suffix {
            path.push('/');
            path.push_str(suffix.trim_start_matches('/'));
        }
        Ok(path)
    }
}

fn push_segment(path: &mut String, part: &'static str, value: &str) -> Result<(), RequestError> {
    let refuse =
        |problem: &str| Err(RequestError::Segment { part, value: value.to_owned(), problem: problem.to_owned() });
    if value.is_empty() {
        return refuse("it is empty");
    }
    if value == "." || value == ".." {
        return refuse("it may not be . or ..");
    }
    if value.contains(['/', '%']) {
        return refuse("it may not contain / or %");
    }
    let _ = write!(path, "{}", utf8_percent_encode(value, SEGMENT));
    Ok(())
}
