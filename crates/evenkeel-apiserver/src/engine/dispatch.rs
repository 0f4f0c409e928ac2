//! The dispatcher: routes a request to the verb, subresource or document that serves it.

use std::sync::Arc;

use super::request::ResourceRequest;
use super::request_error::RequestError;
use super::target::WriteScope;
use super::{ApiEngine, ControllerTiming, response, storage_status};
use crate::http_types::{ApiRequest, Body, HandlerCall, HandlerOutcome};
use crate::query::Query;
use crate::registry::deprecation_warning;
use crate::route::{self, Health, HealthEndpoint, Route, Verb};
use crate::store::WriteRefusal;
use crate::{discovery, negotiate, openapi, openid};

impl ApiEngine {
    /// Serves a request.
    pub(crate) fn dispatch(self: &Arc<Self>, request: &Arc<ApiRequest>, call: HandlerCall) -> HandlerOutcome {
        request.state.start_run();
        let registry = self.registry();
        let query = Query::parse(request.uri.query());
        let headers = &request.headers;
        let route = route::route(&registry, &request.method, request.uri.path(), &query);
        let outcome = match route {
            Err(refusal) => {
                let representation = negotiate::negotiate_status(headers, &query);
                return HandlerOutcome::Response(refusal.response_in(representation));
            }
            Ok(Route::Resource(route)) => {
                let request = ResourceRequest { http: request, query: &query, route: &route, waited: call.waited };
                self.dispatch_weighed(&request, call)
            }
            Ok(Route::OpenApi(_) | Route::OpenApiV2) if !call.may_take_long => Ok(HandlerOutcome::TakesLong),
            Ok(Route::Discovery(path)) => {
                Ok(HandlerOutcome::Response(discovery::respond(&registry, &path, headers, server_address(request))))
            }
            Ok(Route::OpenApi(path)) => {
                Ok(HandlerOutcome::Response(openapi::respond(&registry, &path, &query, headers, self.env.wall())))
            }
            Ok(Route::OpenApiV2) => Ok(HandlerOutcome::Response(openapi::v2::respond(&registry, headers))),
            Ok(Route::Issuer(document)) => {
                let scheme = if self.settings.tls { "https" } else { "http" };
                let base_url = format!("{scheme}://{}", server_address(request));
                openid::respond(document, &self.settings.token_keys, &base_url)
                    .map(HandlerOutcome::Response)
                    .map_err(RequestError::from)
            }
            Ok(Route::Version) => Ok(HandlerOutcome::Response(discovery::version_reply(self.settings.version))),
            Ok(Route::Contract) => {
                let plugins = self.settings.admission.list();
                Ok(HandlerOutcome::Response(discovery::contract_reply(self.settings.version, plugins)))
            }
            Ok(Route::Health(health)) => {
                let storage_ok = !matches!(self.store.check_writable(), Err(WriteRefusal::ReadOnly(_)));
                Ok(HandlerOutcome::Response(health_response(&health, &query, storage_ok)))
            }
        };
        outcome.unwrap_or_else(|error| match error {
            RequestError::Refused(status) => {
                let representation = negotiate::negotiate_status(headers, &query);
                HandlerOutcome::Response(response::status(&status, representation))
            }
            RequestError::NeedsCalls(calls) => {
                let (engine, request) = (Arc::clone(self), Arc::clone(request));
                HandlerOutcome::NeedsCalls { calls, then: Box::new(move || engine.dispatch(&request, call)) }
            }
        })
    }

    pub(super) fn dispatch_resource(
        self: &Arc<Self>,
        request: &ResourceRequest<'_>,
    ) -> Result<HandlerOutcome, RequestError> {
        // The listener keeps the deadline; here an unreadable timeout is refused.
        request.query.timeout()?;
        let resource = request.resource();
        let verb = request.route.verb;
        if !verb.only_reads() {
            self.store.check_writable().map_err(|refusal| storage_status(&refusal))?;
        }
        let _lock = if verb.only_reads() { None } else { resource.strategy.hooks.lock_request(self) };
        let outcome = match (request.route.subresource.as_deref(), verb) {
            (Some(subresource), _) => self.dispatch_subresource(request, subresource),
            (None, Verb::Get) => self.get(request),
            (None, Verb::List) => self.list(request),
            (None, Verb::Watch) => self.watch(request),
            (None, Verb::Create) => self.create(request),
            (None, Verb::Update) => self.update(request, WriteScope::Main),
            (None, Verb::Patch) => self.patch(request, WriteScope::Main),
            (None, Verb::Delete) => self.delete(request),
            (None, Verb::DeleteCollection) => self.delete_collection(request),
        };
        // A store that has failed meanwhile refuses commits like conflicts.
        if !verb.only_reads()
            && let Err(refusal @ WriteRefusal::ReadOnly(_)) = self.store.check_writable()
        {
            return Err(storage_status(&refusal).into());
        }
        let mut outcome = outcome?;
        if !verb.only_reads() {
            self.settle(&resource.storage, request.namespace());
        }
        if let Some(warning) = deprecation_warning(resource, self.settings.version) {
            outcome = outcome.with(|response| response::warn(response, &[warning]));
        }
        Ok(outcome)
    }
}

impl ApiEngine {
    /// Runs the controllers that act on a write of a resource, with the timing [`ControllerTiming::Immediate`].
    pub(super) fn settle(&self, table: &str, namespace: Option<&str>) {
        self.settle_protection(table);
        if let Some(namespace) = namespace {
            self.settle_quotas(namespace);
        }
    }

    /// Runs these controllers after deletions in any namespace.
    pub(super) fn settle_all(&self) {
        if self.settings.protection == ControllerTiming::Immediate {
            self.release_unused();
        }
        if self.settings.quotas == ControllerTiming::Immediate {
            self.run_quota_controller(self.env.monotonic());
        }
    }
}

/// Returns the server's address as the client spells it.
fn server_address(request: &ApiRequest) -> &str {
    let host = request.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
    request.uri.authority().map(|authority| authority.as_str()).or(host).unwrap_or_default()
}

fn health_response(health: &Health, query: &Query, storage_ok: bool) -> http::Response<Body> {
    let name = match health.endpoint {
        HealthEndpoint::Healthz => "healthz",
        HealthEndpoint::Livez => "livez",
        HealthEndpoint::Readyz => "readyz",
    };
    let fails = !storage_ok && health.endpoint == HealthEndpoint::Readyz;
    let text = if fails {
        format!("[+]ping ok\n[-]storage failed: reason withheld\n{name} check failed\n")
    } else if query.get("verbose").is_some() && health.check.is_none() {
        format!("[+]ping ok\n[+]store ok\n{name} check passed\n")
    } else {
        "ok".to_owned()
    };
    let mut response = http::Response::new(Body::whole(text));
    if fails {
        *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
    }
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    response
}
