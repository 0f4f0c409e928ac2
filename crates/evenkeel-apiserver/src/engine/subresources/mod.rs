//! The subresources: which part of an object each one writes, or the handler that serves it.

pub(crate) mod log;
mod pods;
mod port_forward;
mod process;
pub(crate) mod scale;
pub(crate) mod service_account_token;

use std::sync::Arc;

use evenkeel_core::Status;
use serde_json::{Value, json};

use super::admission::Operation;
use super::options::refuse_dry_run;
use super::request::ResourceRequest;
use super::request_error::RequestError;
use super::target::WriteScope;
use super::{ApiEngine, not_implemented};
use crate::http_types::HandlerOutcome;
use crate::route::Verb;

/// Serves all verbs of a subresource.
type Handler = fn(&Arc<ApiEngine>, &ResourceRequest<'_>) -> Result<HandlerOutcome, RequestError>;

/// How a subresource is served.
enum SubresourceKind {
    /// The verbs of the object, restricted to its status.
    Status,
    /// The verbs of the object, restricted to the field at this path.
    Field(&'static [&'static str]),
    /// A handler of its own.
    Handler(Handler),
}

/// The subresources by store and name. An empty store stands for all resources.
const SUBRESOURCES: &[(&str, &str, SubresourceKind)] = &[
    ("", "status", SubresourceKind::Status),
    ("", "scale", SubresourceKind::Handler(ApiEngine::scale)),
    ("namespaces", "finalize", SubresourceKind::Field(&["spec", "finalizers"])),
    ("pods", "ephemeralcontainers", SubresourceKind::Field(&["spec", "ephemeralContainers"])),
    ("pods", "resize", SubresourceKind::Handler(ApiEngine::resize)),
    ("pods", "binding", SubresourceKind::Handler(ApiEngine::create_binding)),
    ("pods", "eviction", SubresourceKind::Handler(ApiEngine::create_eviction)),
    ("pods", "log", SubresourceKind::Handler(ApiEngine::log)),
    ("pods", "attach", SubresourceKind::Handler(ApiEngine::attach)),
    ("pods", "exec", SubresourceKind::Handler(ApiEngine::exec)),
    ("pods", "portforward", SubresourceKind::Handler(ApiEngine::port_forward)),
    ("pods", "proxy", SubresourceKind::Handler(refuse_proxy)),
    ("nodes", "proxy", SubresourceKind::Handler(refuse_proxy)),
    ("services", "proxy", SubresourceKind::Handler(refuse_proxy)),
    ("serviceaccounts", "token", SubresourceKind::Handler(ApiEngine::create_token)),
    ("certificatesigningrequests.certificates.k8s.io", "approval", SubresourceKind::Field(&["status", "conditions"])),
];

impl ApiEngine {
    /// Routes a request to a subresource.
    pub(crate) fn dispatch_subresource(
        self: &Arc<Self>,
        request: &ResourceRequest<'_>,
        name: &str,
    ) -> Result<HandlerOutcome, RequestError> {
        let storage = &*request.resource().storage;
        let entry = SUBRESOURCES
            .iter()
            .find(|(store, subresource, _)| (store.is_empty() || *store == storage) && *subresource == name);
        let scope = match entry {
            None => return Err(unsupported(request).into()),
            Some((_, _, SubresourceKind::Handler(handler))) => return handler(self, request),
            Some((_, _, SubresourceKind::Status)) => WriteScope::Status,
            Some((_, _, SubresourceKind::Field(path))) => WriteScope::Field { subresource: name, path },
        };
        match request.route.verb {
            Verb::Get => self.get(request),
            Verb::Update => self.update(request, scope),
            Verb::Patch => self.patch(request, scope),
            _ => Err(not_implemented("this verb on a subresource").into()),
        }
    }
}

/// Serves `proxy`, of which only the review is there: nothing listens behind a pod, a node or a service.
fn refuse_proxy(engine: &Arc<ApiEngine>, request: &ResourceRequest<'_>) -> Result<HandlerOutcome, RequestError> {
    refuse_dry_run(request.query)?;
    let target = request.target(WriteScope::Main);
    let kind = format!("{}ProxyOptions", target.resource.kind);
    let path = request.http.uri.path().split_once("/proxy").map(|(_, path)| path).unwrap_or_default();
    let mut options = json!({"kind": kind, "apiVersion": "v1", "path": path});
    engine.admit_subresource(Operation::Connect, target, "proxy", &mut options, request.http, false)?;
    Err(unsupported(request).into())
}

fn unsupported(request: &ResourceRequest<'_>) -> Status {
    let subresource = request.route.subresource.as_deref().unwrap_or_default();
    not_implemented(&format!("the subresource {}/{subresource}", request.resource().plural))
}

/// Checks the kind of a body that is not an object of the resource: it must be of this kind, in one of these versions.
/// Either may be absent.
fn check_kind(body: &Value, api_versions: &[&str], kind: &str) -> Result<(), Status> {
    let expected = api_versions.first().copied().unwrap_or_default();
    let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
    let (given, version) = (text("kind"), text("apiVersion"));
    if !given.is_empty() && given != kind {
        let short = version.rsplit('/').next().unwrap_or_default();
        let internal = expected.split_once('/').map_or("core", |(group, _)| group);
        return Err(Status::bad_request(format!(
            "{given} in version {short:?} cannot be handled as a {kind}: converting ({short}.{given}) to \
             ({internal}.{kind}): unknown conversion"
        )));
    }
    if !version.is_empty() && !api_versions.contains(&version) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    Ok(())
}
