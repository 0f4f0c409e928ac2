//! Routes a method and a URL to a resource or a document.

use std::sync::Arc;

use evenkeel_core::{Reason, Status, StatusDetails};
use http::Method;
use http::header::{self, HeaderValue};

use crate::discovery::DiscoveryPath;
use crate::http_types::Body;
use crate::negotiate::{Representation, status_response_in};
use crate::openid::IssuerDocument;
use crate::query::{Query, percent_decode};
use crate::registry::{Registry, Resource, Version};

/// The target of a request.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// One of the discovery documents.
    Discovery(DiscoveryPath),
    /// `/openapi/v3`, with an empty path for the index, else that of a document such as `apis/apps/v1`.
    OpenApi(String),
    /// `/openapi/v2`.
    OpenApiV2,
    /// A document about the issuer of service-account tokens.
    Issuer(IssuerDocument),
    /// `/version`.
    Version,
    /// `/evenkeel/contract`: what this server does.
    Contract,
    /// `/healthz`, `/livez` or `/readyz`, or one check of theirs.
    Health(Health),
    /// Objects.
    Resource(ResourceRoute),
}

/// A request to a health endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) endpoint: HealthEndpoint,
    /// `/readyz/ping` requests `ping` alone.
    pub(crate) check: Option<String>,
}

/// The three health endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthEndpoint {
    Healthz,
    Livez,
    Readyz,
}

/// A request for objects of one resource.
#[derive(Clone, Debug)]
pub(crate) struct ResourceRoute {
    pub(crate) resource: Arc<Resource>,
    pub(crate) verb: Verb,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// Returns the spelling in discovery and authorization.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }

    /// Returns whether the verb changes nothing.
    pub(crate) fn only_reads(self) -> bool {
        matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }

    /// Returns the verb of a method (URL-3).
    pub(crate) fn of(method: &Method, named: bool, watch: bool) -> Option<Verb> {
        Some(match (method.as_str(), named) {
            ("POST", _) => Verb::Create,
            ("PUT", _) => Verb::Update,
            ("PATCH", _) => Verb::Patch,
            ("DELETE", true) => Verb::Delete,
            ("DELETE", false) => Verb::DeleteCollection,
            ("GET" | "HEAD", _) if watch => Verb::Watch,
            ("GET" | "HEAD", true) => Verb::Get,
            ("GET" | "HEAD", false) => Verb::List,
            _ => return None,
        })
    }

    /// Returns the methods of a verb.
    fn methods(verb: &str) -> &'static [&'static str] {
        match verb {
            "get" | "list" | "watch" => &["GET", "HEAD"],
            "create" => &["POST"],
            "update" => &["PUT"],
            "patch" => &["PATCH"],
            "delete" | "deletecollection" => &["DELETE"],
            _ => &[],
        }
    }
}

/// A request that no route serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The path is unknown (URL-6).
    PageNotFound,
    /// The response is this Status.
    Status(Box<Status>),
    /// The path is known and does not allow the method (URL-8).
    MethodNotAllowed {
        /// The allowed methods, as in the `Allow` header.
        allow: String,
        /// The response.
        status: Box<Status>,
    },
}

impl Refusal {
    /// Returns the response in JSON.
    pub(crate) fn response(&self) -> http::Response<Body> {
        self.response_in(Representation::JSON)
    }

    /// Returns the response; a Status is in this form.
    pub(crate) fn response_in(&self, representation: Representation) -> http::Response<Body> {
        match self {
            Refusal::PageNotFound => {
                let mut response = http::Response::new(Body::whole("404 page not found\n"));
                *response.status_mut() = http::StatusCode::NOT_FOUND;
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
                headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
                response
            }
            Refusal::Status(status) => status_response_in(status, representation),
            Refusal::MethodNotAllowed { allow, status } => {
                let mut response = status_response_in(status, representation);
                if let Ok(allow) = HeaderValue::from_str(allow) {
                    response.headers_mut().insert(header::ALLOW, allow);
                }
                response
            }
        }
    }

    /// Returns the error for an unknown path below a built-in group version.
    fn no_such_resource() -> Refusal {
        Refusal::Status(Box::new(
            Status::failure(404, Reason::NOT_FOUND, "the server could not find the requested resource")
                .with_details(StatusDetails::default()),
        ))
    }

    fn method(allow: impl Into<String>) -> Refusal {
        Refusal::MethodNotAllowed {
            allow: allow.into(),
            status: Box::new(
                Status::failure(
                    405,
                    Reason::METHOD_NOT_ALLOWED,
                    "the server does not allow this method on the requested resource",
                )
                .with_details(StatusDetails::default()),
            ),
        }
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Refusal::Status(Box::new(status))
    }
}

/// Routes a request (URL-1 to URL-9).
pub(crate) fn route(registry: &Registry, method: &Method, path: &str, query: &Query) -> Result<Route, Refusal> {
    let raw = segments(path).ok_or(Refusal::PageNotFound)?;
    let (&first, rest) = raw.split_first().ok_or(Refusal::PageNotFound)?;
    let route = match (first, rest) {
        ("api", []) => Route::Discovery(DiscoveryPath::Core),
        ("api", ["v1"]) => Route::Discovery(DiscoveryPath::Version { group: String::new(), version: "v1".to_owned() }),
        ("api", [version, rest @ ..]) => {
            return resource(registry, method, query, "", version, rest).map(Route::Resource);
        }
        ("apis", []) => Route::Discovery(DiscoveryPath::Groups),
        ("apis", [group]) if !group.is_empty() && registry.group(group).is_some() => {
            Route::Discovery(DiscoveryPath::Group((*group).to_owned()))
        }
        ("apis", [group, version])
            if !group.is_empty() && registry.group(group).is_some_and(|group| group.version(version).is_some()) =>
        {
            Route::Discovery(DiscoveryPath::Version { group: (*group).to_owned(), version: (*version).to_owned() })
        }
        ("apis", [group, version, rest @ ..]) if !group.is_empty() => {
            return resource(registry, method, query, group, version, rest).map(Route::Resource);
        }
        ("openapi", ["v2"]) => Route::OpenApiV2,
        ("openapi", ["v3", path @ ..]) => Route::OpenApi(path.join("/")),
        (".well-known", ["openid-configuration"]) => Route::Issuer(IssuerDocument::Configuration),
        ("openid", ["v1", "jwks"]) => Route::Issuer(IssuerDocument::KeySet),
        ("version", []) => Route::Version,
        ("evenkeel", ["contract"]) => Route::Contract,
        ("healthz" | "livez" | "readyz", check) => {
            let check = match check {
                [] => None,
                [check] => Some((*check).to_owned()),
                _ => return Err(Refusal::PageNotFound),
            };
            let endpoint = match first {
                "healthz" => HealthEndpoint::Healthz,
                "livez" => HealthEndpoint::Livez,
                _ => HealthEndpoint::Readyz,
            };
            Route::Health(Health { endpoint, check })
        }
        _ => return Err(Refusal::PageNotFound),
    };
    if method == Method::GET || method == Method::HEAD { Ok(route) } else { Err(Refusal::method("GET, HEAD")) }
}

/// Returns the segments of a path, still encoded. Only the path after a `proxy` subresource can be longer; the rest of
/// it stays one segment.
pub(crate) fn segments(path: &str) -> Option<Vec<&str>> {
    let trimmed = path.strip_prefix('/')?;
    Some(trimmed.strip_suffix('/').unwrap_or(trimmed).splitn(12, '/').collect())
}

/// The parts of a resource path, still encoded. Whether they exist is not checked.
pub(crate) struct Parts<'a> {
    pub(crate) namespace: Option<&'a str>,
    pub(crate) plural: &'a str,
    /// Name, subresource and the rest.
    pub(crate) tail: &'a [&'a str],
    /// Whether the path has the legacy `watch` prefix (URL-5).
    pub(crate) legacy_watch: bool,
}

/// Splits the segments after group and version (URL-1, URL-2).
pub(crate) fn parts<'a>(group: &str, segments: &'a [&'a str]) -> Option<Parts<'a>> {
    let (legacy_watch, segments) = match segments {
        ["watch", rest @ ..] => (true, rest),
        segments => (false, segments),
    };
    let (&plural, tail) = segments.split_first()?;
    let (namespace, plural, tail) = match (plural, tail) {
        ("namespaces", [_, "status" | "finalize", ..]) if group.is_empty() => (None, plural, tail),
        ("namespaces", [namespace, plural, tail @ ..]) => (Some(*namespace), *plural, tail),
        _ => (None, plural, tail),
    };
    Some(Parts { namespace, plural, tail, legacy_watch })
}

impl Parts<'_> {
    /// Returns whether the path or the query requests a watch.
    pub(crate) fn is_watch(&self, query: &Query) -> bool {
        self.legacy_watch || (self.tail.is_empty() && query.is_watch())
    }
}

fn resource(
    registry: &Registry,
    method: &Method,
    query: &Query,
    group: &str,
    version: &str,
    segments: &[&str],
) -> Result<ResourceRoute, Refusal> {
    let served = registry.group(group).and_then(|group| group.version(version));
    let served = served.ok_or(Refusal::PageNotFound)?;
    let parts = parts(group, segments).ok_or_else(|| unknown(served))?;
    let resource = served.resource(parts.plural).ok_or_else(|| unknown(served))?;
    let watch = parts.is_watch(query);
    if parts.legacy_watch && (parts.tail.len() > 1 || !matches!(method.as_str(), "GET" | "HEAD")) {
        return Err(unknown(served));
    }

    let (name, subresource) = match parts.tail {
        [] => (None, None),
        [name] => (Some(*name), None),
        [name, subresource] | [name, subresource @ "proxy", ..] => (Some(*name), Some(*subresource)),
        _ => return Err(unknown(served)),
    };
    let namespace = parts.namespace.map(|namespace| segment(namespace, "Namespace")).transpose()?;
    let name = name.map(|name| segment(name, "Name")).transpose()?;
    let verb = Verb::of(method, name.is_some(), watch);

    let scope_fits = match (resource.namespaced, namespace.is_some()) {
        (true, true) | (false, false) => true,
        (false, true) => false,
        // URL-7: requests across all namespaces only read.
        (true, false) => name.is_none() && (resource.custom.is_none() || verb.is_some_and(reads_all)),
    };
    if !scope_fits {
        return Err(unknown(served));
    }

    let known_verbs = match subresource {
        None => &resource.verbs,
        Some(subresource) => match (resource.subresource(subresource), &resource.custom) {
            (Some(subresource), _) => &subresource.verbs,
            (None, None) => return Err(unknown(served)),
            (None, Some(_)) => {
                let name = name.as_deref().unwrap_or_default();
                return Err(Status::not_found(&resource.group, &resource.plural, name).into());
            }
        },
    };
    let everywhere = resource.namespaced && namespace.is_none();
    let fits_here = |verb: &str| match (subresource.is_some(), name.is_some()) {
        (true, _) => true,
        (false, true) => matches!(verb, "get" | "update" | "patch" | "delete" | "watch"),
        (false, false) if everywhere => matches!(verb, "list" | "watch"),
        (false, false) => matches!(verb, "list" | "watch" | "create" | "deletecollection"),
    };
    // Discovery hides the writes of a terminating definition, but clients must still remove finalizers from its objects.
    // The create verb refuses creates itself.
    let terminating = subresource.is_none() && resource.custom.as_ref().is_some_and(|custom| custom.terminating);
    let allowed = |verb: &str| fits_here(verb) && (terminating || known_verbs.iter().any(|known| known == verb));
    let Some(verb) = verb.filter(|verb| allowed(verb.as_str())) else {
        return Err(method_not_allowed(resource, verb, method, known_verbs.iter().filter(|verb| allowed(verb))));
    };

    Ok(ResourceRoute { resource: resource.clone(), verb, namespace, name, subresource: subresource.map(str::to_owned) })
}

fn reads_all(verb: Verb) -> bool {
    matches!(verb, Verb::List | Verb::Watch)
}

/// Returns the refusal of an unknown path below a served group version. Custom groups treat it like any unknown path.
fn unknown(version: &Version) -> Refusal {
    if version.builtin { Refusal::no_such_resource() } else { Refusal::PageNotFound }
}

fn method_not_allowed<'a>(
    resource: &Resource,
    verb: Option<Verb>,
    method: &Method,
    allowed: impl Iterator<Item = &'a String>,
) -> Refusal {
    let mut methods: Vec<&str> = allowed.flat_map(|verb| Verb::methods(verb)).copied().collect();
    methods.sort_unstable();
    methods.dedup();
    let allow = methods.join(", ");
    if resource.custom.is_none() {
        return Refusal::method(allow);
    }
    let verb = verb.map_or_else(|| method.as_str().to_ascii_lowercase(), |verb| verb.as_str().to_owned());
    let message = format!(
        "{verb} is not supported on resources of kind \"{}\"",
        evenkeel_core::status::qualified(&resource.group, &resource.plural)
    );
    let details =
        StatusDetails { group: resource.group.clone(), kind: resource.plural.clone(), ..StatusDetails::default() };
    Refusal::MethodNotAllowed {
        allow,
        status: Box::new(Status::failure(405, Reason::METHOD_NOT_ALLOWED, message).with_details(details)),
    }
}

/// Decodes a path segment that becomes part of a store key (URL-9).
fn segment(raw: &str, what: &str) -> Result<String, Refusal> {
    let decoded = percent_decode(raw, false)
        .ok_or_else(|| Status::bad_request(format!("{what} parameter invalid: {raw:?}: invalid escape")))?;
    let why = match decoded.as_str() {
        "" => return Err(Refusal::PageNotFound),
        // A slash separates segments, also an encoded one. It does not become a subresource here: what authorizes the
        // request reads the encoded path.
        text if text.contains('/') => return Err(Refusal::no_such_resource()),
        "." => "may not be '.'",
        ".." => "may not be '..'",
        text if text.contains('%') => "may not contain '%'",
        text if text.contains(char::is_control) => "may not contain control characters",
        _ => return Ok(decoded),
    };
    Err(Status::bad_request(format!("{what} parameter invalid: {decoded:?}: {why}")).into())
}

#[cfg(test)]
mod tests;
