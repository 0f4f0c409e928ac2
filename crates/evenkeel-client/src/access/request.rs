//! [`Access`]: one use of the API, from the method and URL of a request.

use std::borrow::Cow;
use std::fmt;

use http::Method;
use percent_encoding::percent_decode_str;

use crate::rest::Query;

/// One use of the API, as an authorizer sees it. `Display` writes it as `patch foos.example.com/status in default`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access {
    /// The verb, such as `get`, `list`, `watch` or `deletecollection`.
    pub verb: String,
    /// What the verb was used on.
    pub target: AccessTarget,
}

/// What a verb was used on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessTarget {
    /// Objects. Absent parts are empty.
    Resource {
        /// The API group; empty for core.
        group: String,
        /// The resource, such as `pods`.
        resource: String,
        /// The subresource, such as `status`.
        subresource: String,
        /// The namespace. Empty for all namespaces, and for resources without namespaces.
        namespace: String,
        /// The name of the object. Empty for a collection, and if there are too many names.
        name: String,
    },
    /// A path that names no resource, such as `/metrics`.
    Path(String),
}

impl Access {
    /// Returns the access of a request to this path, without the base path of the server.
    pub(crate) fn of_request(method: &Method, path: &str, query: &Query, is_watch: bool) -> Self {
        let decoded: Vec<Cow<'_, str>> = path.trim_matches('/').split('/').map(decode).collect();
        let segments: Vec<&str> = decoded.iter().map(AsRef::as_ref).collect();
        let (group, rest) = match segments.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => ("", &[] as &[&str]),
        };
        let (namespace, rest) = match rest {
            ["namespaces", _, "status" | "finalize"] if group.is_empty() => ("", rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            _ => ("", rest),
        };
        let (resource, name, subresource) = match rest {
            [] => {
                let path = path.trim_end_matches('/');
                let path = if path.is_empty() { "/" } else { path };
                return Access {
                    verb: method.as_str().to_ascii_lowercase(),
                    target: AccessTarget::Path(path.to_owned()),
                };
            }
            [resource] => (*resource, "", ""),
            [resource, name] => (*resource, *name, ""),
            [resource, name, subresource, ..] => (*resource, *name, *subresource),
        };
        let verb = match (method, name.is_empty()) {
            (&Method::GET | &Method::HEAD, _) if is_watch => "watch",
            (&Method::GET | &Method::HEAD, true) => "list",
            (&Method::GET | &Method::HEAD, false) => "get",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, true) => "deletecollection",
            (&Method::DELETE, false) => "delete",
            (other, _) => other.as_str(),
        };
        let name = match name {
            "" => query.get("fieldSelector").and_then(selected_name).unwrap_or_default(),
            name => name,
        };
        Access::on(verb, group, (resource, subresource), namespace, name)
    }

    /// Returns the use of a verb on a resource and subresource.
    pub(super) fn on(
        verb: &str,
        group: &str,
        (resource, subresource): (&str, &str),
        namespace: &str,
        name: &str,
    ) -> Self {
        // A new object has no name yet where authorization looks for it.
        let is_new = verb == "create" && subresource.is_empty();
        // API servers report a namespace as being in itself.
        let is_namespace = group.is_empty() && resource == "namespaces";
        Access {
            verb: verb.to_owned(),
            target: AccessTarget::Resource {
                group: group.to_owned(),
                resource: resource.to_owned(),
                subresource: subresource.to_owned(),
                namespace: if is_namespace { "" } else { namespace }.to_owned(),
                name: if is_new { "" } else { name }.to_owned(),
            },
        }
    }

    /// Returns the same with another verb.
    pub(super) fn with_verb(&self, verb: &str) -> Self {
        Access { verb: verb.to_owned(), target: self.target.clone() }
    }

    /// Returns the access that the request needs as well, whatever its response.
    ///
    /// Servers since 1.35 authorize `create` of a session that a client opens with a `GET`, as a WebSocket does.
    pub(super) fn also_needs(&self) -> Option<Access> {
        let AccessTarget::Resource { subresource, .. } = &self.target else { return None };
        let is_session = matches!(&**subresource, "exec" | "attach" | "portforward");
        (is_session && self.verb == "get").then(|| self.with_verb("create"))
    }

    /// Returns the access that the request needed as well if it created its object: an apply, or an update of a kind that
    /// allows it. Servers authorize it by name, which they cannot with a plain create.
    pub(super) fn if_created(&self) -> Option<Access> {
        let AccessTarget::Resource { subresource, .. } = &self.target else { return None };
        let creates = matches!(&*self.verb, "patch" | "update") && subresource.is_empty();
        creates.then(|| self.with_verb("create"))
    }

    /// Returns whether this is the creation of an object by an apply or update: it has a name.
    pub(super) fn is_created_by_name(&self) -> bool {
        let AccessTarget::Resource { subresource, name, .. } = &self.target else { return false };
        self.verb == "create" && subresource.is_empty() && !name.is_empty()
    }

    /// Returns whether every authenticated user may do this: discovery, the version and health.
    pub(super) fn is_public(&self) -> bool {
        let AccessTarget::Path(path) = &self.target else { return false };
        let root = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        self.verb == "get" && matches!(root, "api" | "apis" | "openapi" | "version" | "healthz" | "livez" | "readyz")
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (group, resource, subresource, namespace, name) = match &self.target {
            AccessTarget::Path(path) => return write!(f, "{} {path}", self.verb),
            AccessTarget::Resource { group, resource, subresource, namespace, name } => {
                (group, resource, subresource, namespace, name)
            }
        };
        write!(f, "{} {resource}", self.verb)?;
        for (before, part) in [(".", group), ("/", subresource), (" in ", namespace), (" named ", name)] {
            if !part.is_empty() {
                write!(f, "{before}{part}")?;
            }
        }
        Ok(())
    }
}

fn decode(segment: &str) -> Cow<'_, str> {
    percent_decode_str(segment).decode_utf8_lossy()
}

/// Returns the name that a field selector requires. API servers authorize such a request for that name.
pub(super) fn selected_name(selector: &str) -> Option<&str> {
    let names = selector.split(',').filter_map(|term| term.trim().strip_prefix("metadata.name="));
    names.map(|name| name.trim_start_matches('=')).find(|name| !name.is_empty())
}
