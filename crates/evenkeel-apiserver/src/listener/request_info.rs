//! [`RequestInfo`]: what a request addresses, read from its method and URL alone, for metrics, the audit log and the
//! request log.
//!
//! kube-apiserver derives it in the same way before authentication, so that refused requests have it, too. Whether the
//! resource exists is not checked.

use http::{HeaderMap, Method, Uri, header};

use crate::query::Query;

/// The target of a request. Segments of the path are still percent-encoded; empty strings stand for absent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestInfo<'a> {
    /// Whether the path has the form of a resource path.
    pub(crate) is_resource: bool,
    /// The verb of authorization, such as `list` or `deletecollection`. Outside of resources, the method in lower case.
    pub(crate) verb: &'static str,
    /// The verb of upstream's metrics, such as `LIST`, `APPLY` or `CONNECT`.
    pub(crate) metric_verb: &'static str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) path: &'a str,
    /// Whether the query has `dryRun=All`.
    pub(crate) dry_run: bool,
}

impl<'a> RequestInfo<'a> {
    pub(crate) fn of(method: &Method, uri: &'a Uri, headers: &HeaderMap) -> Self {
        Self::parse(method, uri.path(), uri.query(), applies(headers))
    }

    pub(crate) fn parse(method: &Method, path: &'a str, query: Option<&str>, applies: bool) -> Self {
        let mut info = RequestInfo {
            is_resource: false,
            verb: lower(method),
            metric_verb: upper(method),
            group: "",
            version: "",
            resource: "",
            subresource: "",
            namespace: "",
            name: "",
            path,
            dry_run: false,
        };
        let trimmed = path.strip_prefix('/').unwrap_or(path);
        let mut segments = trimmed.strip_suffix('/').unwrap_or(trimmed).split('/');
        let group = match segments.next() {
            Some("api") => "",
            Some("apis") => segments.next().unwrap_or_default(),
            _ => return info,
        };
        let version = segments.next().unwrap_or_default();
        let mut resource = segments.next().unwrap_or_default();
        let legacy_watch = resource == "watch";
        if legacy_watch {
            resource = segments.next().unwrap_or_default();
        }
        if version.is_empty() || resource.is_empty() {
            return info;
        }
        info.is_resource = true;
        (info.group, info.version) = (group, version);
        let first = segments.next().unwrap_or_default();
        let second = segments.next().unwrap_or_default();
        if resource == "namespaces" && !first.is_empty() {
            // A namespace is in itself, as in authorization.
            info.namespace = first;
            if second.is_empty() || (group.is_empty() && matches!(second, "status" | "finalize")) {
                (info.resource, info.name, info.subresource) = (resource, first, second);
            } else {
                info.resource = second;
                info.name = segments.next().unwrap_or_default();
                info.subresource = segments.next().unwrap_or_default();
            }
        } else {
            (info.resource, info.name, info.subresource) = (resource, first, second);
        }
        let query = query.filter(|query| query.contains("watch") || query.contains("dryRun") || query.contains('%'));
        let query = query.map(|query| Query::parse(Some(query)));
        let watches = legacy_watch || (info.name.is_empty() && query.as_ref().is_some_and(Query::is_watch));
        info.dry_run = query.as_ref().is_some_and(|query| query.get("dryRun") == Some("All"));
        let named = !info.name.is_empty();
        (info.verb, info.metric_verb) = match *method {
            Method::GET | Method::HEAD if watches => ("watch", "WATCH"),
            Method::GET | Method::HEAD if named => ("get", "GET"),
            Method::GET | Method::HEAD => ("list", "LIST"),
            Method::POST => ("create", "POST"),
            Method::PUT => ("update", "PUT"),
            Method::PATCH if applies => ("patch", "APPLY"),
            Method::PATCH => ("patch", "PATCH"),
            Method::DELETE if named => ("delete", "DELETE"),
            Method::DELETE => ("deletecollection", "DELETECOLLECTION"),
            _ => (info.verb, info.metric_verb),
        };
        // The verb of a session is that of its method.
        if matches!(info.subresource, "exec" | "attach" | "portforward" | "proxy") {
            info.metric_verb = "CONNECT";
        }
        info
    }

    /// Returns whether the request has no deadline and does not count as in flight: watches, logs and sessions.
    pub(crate) fn is_long_running(&self) -> bool {
        self.is_resource
            && (self.verb == "watch" || matches!(self.subresource, "exec" | "attach" | "portforward" | "proxy" | "log"))
    }

    /// Returns whether the request changes nothing.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.verb, "get" | "list" | "watch" | "head" | "options")
    }

    /// Returns the scope of upstream's metrics.
    pub(crate) fn scope(&self) -> &'static str {
        match () {
            () if !self.is_resource => "",
            () if !self.name.is_empty() || self.verb == "create" => "resource",
            () if !self.namespace.is_empty() => "namespace",
            () => "cluster",
        }
    }
}

fn applies(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media.trim_start().starts_with("application/apply-patch+")
}

fn lower(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "other",
    }
}

/// Methods are the client's choice; unknown ones fold into one label.
fn upper(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "OTHER",
    }
}

#[cfg(test)]
mod tests;
