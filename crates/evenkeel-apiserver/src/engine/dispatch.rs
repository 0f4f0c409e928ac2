//! From a call to the verb that answers it.

use std::sync::Arc;

use evenkeel_core::Status;
use http::StatusCode;
use serde_json::Value;

use super::decode::{self, Incoming};
use super::delete::{self, Deleted};
use super::filter::Filter;
use super::options::{DeleteOptions, FieldValidation, ListOptions, WriteOptions, refuse_dry_run};
use super::read::Selected;
use super::reviews::with_requester;
use super::scale::{Paths, SCALE};
use super::view::{self, IncludeObject, View};
use super::watch::include_object;
use super::write::{Scope, Target, Writer, Written, check_uid, has_version, is_definition};
use super::{ApiEngine, not_implemented, object, read, reply, reviews};
use crate::field::FieldError;
use crate::http_types::{ApiRequest, Body, HandlerOutcome};
use crate::negotiate::{self, Endpoint, PatchType, Representation, Transform};
use crate::patch::{self, Patched};
use crate::query::Query;
use crate::registry::Resource;
use crate::route::{self, Health, HealthEndpoint, ResourceRoute, Route, Verb};
use crate::schema::{Schema, json};
use crate::{crd, discovery, field_ownership, openapi, protobuf_response};

/// A request to a resource, taken apart.
pub(super) struct Request<'a> {
    pub(super) request: &'a ApiRequest,
    pub(super) query: &'a Query,
    route: &'a ResourceRoute,
}

impl Request<'_> {
    pub(super) fn resource(&self) -> &Arc<Resource> {
        &self.route.resource
    }

    fn namespace(&self) -> Option<&str> {
        self.route.namespace.as_deref()
    }

    pub(super) fn name(&self) -> &str {
        self.route.name.as_deref().unwrap_or_default()
    }

    pub(super) fn target<'a>(&'a self, scope: Scope<'a>) -> Target<'a> {
        Target { resource: self.resource(), namespace: self.namespace(), name: self.name(), scope }
    }

    /// Who writes: the name that ownership of fields is recorded under (SSA-3).
    pub(super) fn manager(&self, options: &WriteOptions) -> String {
        let agent = self.request.headers.get(http::header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        field_ownership::manager_name(options.field_manager.as_deref(), agent)
    }

    fn representation(&self, endpoint: Endpoint) -> Result<Representation, Status> {
        let resource = self.resource();
        let protobuf =
            || resource.custom.is_none() && protobuf_response::has_form(&resource.api_version(), &resource.kind);
        negotiate::negotiate(&self.request.headers, self.query, endpoint, protobuf)
    }

    /// The form of a Status.
    fn status_representation(&self) -> Representation {
        negotiate::negotiate_status(&self.request.headers, self.query)
    }
}

impl ApiEngine {
    pub(super) fn dispatch(self: &Arc<Self>, request: &ApiRequest, waited: bool) -> HandlerOutcome {
        let registry = self.registry();
        let query = Query::parse(request.uri.query());
        let answer = match route::route(&registry, &request.method, request.uri.path(), &query) {
            Err(refusal) => {
                return HandlerOutcome::Response(
                    refusal.reply_in(negotiate::negotiate_status(&request.headers, &query)),
                );
            }
            Ok(Route::Resource(route)) => self.resource(&Request { request, query: &query, route: &route }, waited),
            Ok(Route::Discovery(path)) => {
                Ok(HandlerOutcome::Response(discovery::respond(&registry, &path, &request.headers, address(request))))
            }
            Ok(Route::OpenApi(path)) => Ok(HandlerOutcome::Response(openapi::respond(
                &registry,
                &path,
                &query,
                &request.headers,
                self.env.wall(),
            ))),
            Ok(Route::Version) => Ok(HandlerOutcome::Response(discovery::version_reply(self.settings.version))),
            Ok(Route::Health(health)) => Ok(HandlerOutcome::Response(healthy(&health, &query))),
        };
        answer.unwrap_or_else(|status| {
            let representation = negotiate::negotiate_status(&request.headers, &query);
            HandlerOutcome::Response(reply::status(&status, representation))
        })
    }

    fn resource(self: &Arc<Self>, request: &Request<'_>, waited: bool) -> Result<HandlerOutcome, Status> {
        let timeout = request.query.timeout()?.filter(|timeout| !timeout.is_zero());
        let defines = is_definition(request.resource()) && !request.route.verb.only_reads();
        let _until_in_force =
            defines.then(|| self.definition_writes.read().unwrap_or_else(std::sync::PoisonError::into_inner));
        let mut outcome = match request.route.subresource.as_deref() {
            Some(subresource) => self.subresource(request, subresource, waited),
            None => match request.route.verb {
                Verb::Get => {
                    let view = self.view(request, Endpoint::Object)?;
                    let key = super::write::key(request.namespace(), request.name());
                    self.get(&view, &key, request.name(), request.query.get("resourceVersion"), waited)
                }
                Verb::List => {
                    let view = self.view(request, Endpoint::List)?;
                    let options = ListOptions::from_query(request.query, false)?;
                    self.list(view, &self.filter(request)?, &options, waited)
                }
                Verb::Watch => {
                    let view = self.view(request, Endpoint::Watch)?;
                    let options = ListOptions::from_query(request.query, true)?;
                    if !self.settings.version.has_watch_list() {
                        options.refuse_initial_events()?;
                    }
                    self.watch(view, self.filter(request)?, &options, waited)
                }
                Verb::Create => self.post(request),
                Verb::Update => self.put(request, Scope::Main),
                Verb::Patch => self.patch(request, Scope::Main),
                Verb::Delete => self.delete_one(request),
                Verb::DeleteCollection => self.delete_many(request, waited),
            },
        }?;
        if let Some(warning) = request.resource().custom.as_ref().and_then(|custom| custom.deprecation_warning.clone())
        {
            outcome = outcome.with(|answer| reply::warn(answer, &[warning]));
        }
        if let HandlerOutcome::AwaitRevision { allotted, .. } = &mut outcome
            && request.route.verb != Verb::Watch
        {
            *allotted = timeout;
        }
        Ok(outcome)
    }

    pub(super) fn view(&self, request: &Request<'_>, endpoint: Endpoint) -> Result<View, Status> {
        let representation = request.representation(endpoint)?;
        let include = match representation.transform {
            Transform::Table(_) => include_object(request.query.get("includeObject"))?,
            _ => IncludeObject::Metadata,
        };
        Ok(View::new(Arc::clone(request.resource()), representation, include, self.env.wall()))
    }

    fn filter(&self, request: &Request<'_>) -> Result<Filter, Status> {
        Filter::new(request.resource(), request.namespace(), request.route.name.as_deref(), request.query)
    }

    fn post(self: &Arc<Self>, request: &Request<'_>) -> Result<HandlerOutcome, Status> {
        let resource = request.resource();
        let options = WriteOptions::from_query(request.query, "CreateOptions")?;
        let view = self.view(request, Endpoint::Object)?;
        let Incoming { object, warnings } =
            decode::object(&self.registry(), resource, request.request, options.field_validation)?;
        let manager = request.manager(&options);
        let writer = Writer::new(&options, &manager);
        if let Some(status) = reviews::answer(resource, &request.request.user) {
            let mut review = object;
            review["status"] = status?;
            let body = view::encode(view::render(review), view.representation)?;
            return Ok(HandlerOutcome::Response(reply::with_code(StatusCode::CREATED, view.representation, body)));
        }
        if resource.group.is_empty() && resource.plural == "bindings" {
            return self.post_binding(request, &object, writer);
        }
        let object = with_requester(resource, object, &request.request.user);
        let mut written = self.create(resource, request.namespace(), object, writer)?;
        written.warnings.splice(0..0, warnings);
        if is_definition(resource) && !options.dry_run {
            self.definition_changed(object::text(&written.record.value(), "name"));
        }
        self.written(&view, &written, options.dry_run)
    }

    /// The answer to a write.
    pub(super) fn written(&self, view: &View, written: &Written, dry_run: bool) -> Result<HandlerOutcome, Status> {
        let body = match dry_run && written.created {
            true => view.unstored(&written.record)?,
            false => view.single(&written.record, None)?,
        };
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        let mut answer = reply::with_code(code, view.representation, body);
        reply::warn(&mut answer, &written.warnings);
        if is_definition(&view.resource) {
            reply::warn(&mut answer, &crd::admit::warnings(&written.record.value()));
        }
        Ok(HandlerOutcome::Response(answer))
    }

    fn put(self: &Arc<Self>, request: &Request<'_>, scope: Scope<'_>) -> Result<HandlerOutcome, Status> {
        let resource = request.resource();
        let options = WriteOptions::from_query(request.query, "UpdateOptions")?;
        let view = self.view(request, Endpoint::Object)?;
        let Incoming { object, warnings } =
            decode::object(&self.registry(), resource, request.request, options.field_validation)?;
        check_name(&object, request.name())?;
        let manager = request.manager(&options);
        let writer = Writer::new(&options, &manager);
        let target = request.target(scope);
        let replace = |old: &Value| {
            check_uid(target, old, object::text(&object, "uid"))?;
            Ok(object.clone())
        };
        let mut written = match self.update(target, writer, replace) {
            Err(status) if status.is_not_found() && resource.strategy.create_on_update && scope == Scope::Main => {
                match self.create_by_update(request, object.clone(), writer) {
                    // Someone else was faster, so there is something to update after all.
                    Err(status) if status.is_already_exists() => self.update(target, writer, replace)?,
                    other => other?,
                }
            }
            other => other?,
        };
        written.warnings.splice(0..0, warnings);
        self.after_update(request, &written, &options);
        self.written(&view, &written, options.dry_run)
    }

    /// UPD-6: the kinds that a PUT may create. A resource version says that the object must be there.
    fn create_by_update(&self, request: &Request<'_>, object: Value, writer: Writer<'_>) -> Result<Written, Status> {
        if has_version(&object) {
            return Err(request.target(Scope::Main).not_found());
        }
        self.create(request.resource(), request.namespace(), object, writer)
    }

    fn patch(self: &Arc<Self>, request: &Request<'_>, scope: Scope<'_>) -> Result<HandlerOutcome, Status> {
        let kind = PatchType::of(&request.request.headers, request.resource().custom.is_some())?;
        if kind == PatchType::Apply {
            return self.apply(request, scope);
        }
        let mut options = WriteOptions::of_patch(request.query, false)?;
        let view = self.view(request, Endpoint::Object)?;
        let manager = request.manager(&options);
        let strictness = std::mem::take(&mut options.field_validation);
        let writer = Writer::new(&options, &manager);
        let mut warnings = Vec::new();
        let mut written = self.update(request.target(scope), writer, |old| {
            let (new, complaints) = patched(request, kind, old, strictness)?;
            warnings = complaints;
            Ok(new)
        })?;
        written.warnings.splice(0..0, warnings);
        self.after_update(request, &written, &options);
        self.written(&view, &written, options.dry_run)
    }

    pub(super) fn after_update(&self, request: &Request<'_>, written: &Written, options: &WriteOptions) {
        if options.dry_run {
            return;
        }
        let resource = request.resource();
        if is_definition(resource) && !written.record.facts.deleting {
            self.definition_changed(request.name());
        }
        if written.record.facts.deleting {
            self.after_deletion(resource, request.namespace(), request.name());
        }
    }

    fn delete_options(&self, request: &Request<'_>) -> Result<DeleteOptions, Status> {
        let version = request.resource().api_version();
        if request.request.body.is_empty() {
            return DeleteOptions::from_request(request.query, None, &version);
        }
        let body = decode::parse(request.request, "DeleteOptions")?;
        DeleteOptions::from_request(request.query, Some(&body.value), &version)
    }

    fn delete_one(self: &Arc<Self>, request: &Request<'_>) -> Result<HandlerOutcome, Status> {
        let options = self.delete_options(request)?;
        let view = self.view(request, Endpoint::Object)?;
        let target = request.target(Scope::Main);
        let deleted = self.delete(target, &options)?;
        if !options.dry_run {
            self.after_deletion(target.resource, target.namespace, target.name);
        }
        let representation = view.representation;
        let mut answer = match deleted {
            Deleted::Pending(record) => {
                let accepted = options.orphan_dependents == Some(false);
                let code = if accepted { StatusCode::ACCEPTED } else { StatusCode::OK };
                reply::with_code(code, representation, view.single(&record, None)?)
            }
            Deleted::Removed { last, revision } if target.resource.strategy.delete_returns_object => {
                reply::ok(representation, view.single(&last, Some(revision))?)
            }
            Deleted::Removed { last, .. } => {
                let status = serde_json::to_vec(&delete::success(target, &last)).unwrap_or_default();
                reply::ok(representation, view::encode(status.into(), representation)?)
            }
        };
        reply::warn(&mut answer, delete::warnings(target.resource, &options).as_slice());
        Ok(HandlerOutcome::Response(answer))
    }

    fn delete_many(self: &Arc<Self>, request: &Request<'_>, waited: bool) -> Result<HandlerOutcome, Status> {
        let options = self.delete_options(request)?;
        let list = ListOptions::from_query(request.query, false)?;
        let view = self.view(request, Endpoint::List)?;
        let filter = self.filter(request)?;
        let mut page = match self.page(&request.resource().storage, &filter, &list, waited)? {
            Selected::Page { page, .. } => page,
            Selected::Later(outcome) => return Ok(outcome),
        };
        let selected = page.records.clone();
        page.next_after = None;
        let mut answer = read::list_reply(view, &filter, page, true)?;
        reply::warn(&mut answer, delete::warnings(request.resource(), &options).as_slice());
        let representation = request.status_representation();
        Ok(self.delete_collection(request.resource(), selected, options, answer, representation))
    }

    fn subresource(
        self: &Arc<Self>,
        request: &Request<'_>,
        name: &str,
        waited: bool,
    ) -> Result<HandlerOutcome, Status> {
        let resource = request.resource();
        let scope = match (resource.group.as_str(), resource.plural.as_str(), name) {
            (_, _, "status") => Scope::Status,
            (_, _, "scale") => return self.scale(request),
            ("", "namespaces", "finalize") => Scope::Field { subresource: name, path: &["spec", "finalizers"] },
            ("", "pods", "ephemeralcontainers") => {
                Scope::Field { subresource: name, path: &["spec", "ephemeralContainers"] }
            }
            ("certificates.k8s.io", _, "approval") => {
                Scope::Field { subresource: name, path: &["status", "conditions"] }
            }
            ("", "pods", "resize") => Scope::Whole { subresource: name },
            ("", "pods", "binding" | "eviction") => return self.post_to_pod(request, name),
            ("", "pods", "log") => return self.log(request.target(Scope::Main), request.query),
            ("", "serviceaccounts", "token") => return self.post_token(request),
            ("", _, "attach" | "exec" | "portforward" | "proxy") => {
                refuse_dry_run(request.query)?;
                return Err(not_implemented(&format!("the sub-resource {}/{name}", resource.plural)));
            }
            (_, plural, _) => return Err(not_implemented(&format!("the sub-resource {plural}/{name}"))),
        };
        match request.route.verb {
            Verb::Get => {
                let view = self.view(request, Endpoint::Object)?;
                let key = super::write::key(request.namespace(), request.name());
                self.get(&view, &key, request.name(), request.query.get("resourceVersion"), waited)
            }
            Verb::Update | Verb::Patch if name == "resize" => self.put_resize(request),
            Verb::Update => self.put(request, scope),
            Verb::Patch => self.patch(request, scope),
            _ => Err(not_implemented("this verb on a sub-resource")),
        }
    }

    fn put_resize(self: &Arc<Self>, request: &Request<'_>) -> Result<HandlerOutcome, Status> {
        let view = self.view(request, Endpoint::Object)?;
        let options = WriteOptions::from_query(request.query, "UpdateOptions")?;
        let manager = request.manager(&options);
        let writer = Writer::new(&options, &manager);
        let target = request.target(Scope::Main);
        let mut warnings = Vec::new();
        let mut written = if request.route.verb == Verb::Patch {
            let kind = PatchType::of(&request.request.headers, false)?;
            self.resize(target, writer, |old| {
                let (new, complaints) = patched(request, kind, old, options.field_validation)?;
                warnings = complaints;
                Ok(new)
            })?
        } else {
            let registry = self.registry();
            let sent = decode::object(&registry, target.resource, request.request, options.field_validation)?;
            check_name(&sent.object, request.name())?;
            warnings = sent.warnings;
            self.resize(target, writer, |_| Ok(sent.object.clone()))?
        };
        written.warnings.splice(0..0, warnings);
        self.written(&view, &written, options.dry_run)
    }

    fn post_to_pod(self: &Arc<Self>, request: &Request<'_>, name: &str) -> Result<HandlerOutcome, Status> {
        let options = WriteOptions::from_query(request.query, "CreateOptions")?;
        let manager = request.manager(&options);
        let writer = Writer::new(&options, &manager);
        let kind = if name == "binding" { "Binding" } else { "Eviction" };
        let body = decode::parse(request.request, kind)?.value;
        let target = request.target(Scope::Main);
        if name == "binding" {
            self.bind(target, &body, writer)?;
        } else {
            self.evict(target, &body, writer)?;
            if !options.dry_run {
                self.after_deletion(target.resource, target.namespace, target.name);
            }
        }
        Ok(HandlerOutcome::Response(created_status(request)))
    }

    fn post_token(self: &Arc<Self>, request: &Request<'_>) -> Result<HandlerOutcome, Status> {
        let representation = request.representation(Endpoint::Plain)?;
        let body = decode::parse(request.request, "TokenRequest")?.value;
        let answer = view::render(self.request_token(request.target(Scope::Main), body)?);
        let answer = view::encode(answer, representation)?;
        Ok(HandlerOutcome::Response(reply::with_code(StatusCode::CREATED, representation, answer)))
    }

    /// `POST bindings`: the pod is named in the body.
    fn post_binding(
        &self,
        request: &Request<'_>,
        binding: &Value,
        writer: Writer<'_>,
    ) -> Result<HandlerOutcome, Status> {
        let registry = self.registry();
        let Some(pods) = registry.lookup("", "v1", "pods") else { return Err(not_implemented("bindings")) };
        let name = object::text(binding, "name");
        let target = Target { resource: pods, namespace: request.namespace(), name, scope: Scope::Main };
        self.bind(target, binding, writer)?;
        Ok(HandlerOutcome::Response(created_status(request)))
    }

    fn scale(self: &Arc<Self>, request: &Request<'_>) -> Result<HandlerOutcome, Status> {
        let resource = request.resource();
        let representation = request.representation(Endpoint::Plain)?;
        let Some(paths) = Paths::of(resource) else { return Err(not_implemented("scale for this resource")) };
        let show = |object: &Value| -> Result<HandlerOutcome, Status> {
            let scale = view::render(paths.show(resource, object)?);
            Ok(HandlerOutcome::Response(reply::ok(representation, view::encode(scale, representation)?)))
        };
        if request.route.verb == Verb::Get {
            let key = super::write::key(request.namespace(), request.name());
            let Some(record) = self.store.get(&resource.storage, &key) else {
                return Err(request.target(Scope::Main).not_found());
            };
            return show(&record.value());
        }
        let replicas = paths.replicas_path();
        let scope = Scope::Field { subresource: "scale", path: &replicas };
        let mut warnings = Vec::new();
        let kind = match request.route.verb {
            Verb::Patch => Some(PatchType::of(&request.request.headers, resource.custom.is_some())?),
            _ => None,
        };
        let written = if kind == Some(PatchType::Apply) {
            let (written, complaints) = self.apply_scale(request, request.target(scope), &paths)?;
            warnings = complaints;
            written
        } else if let Some(kind) = kind {
            let options = WriteOptions::of_patch(request.query, false)?;
            let manager = request.manager(&options);
            let writer = Writer::new(&options, &manager);
            self.update(request.target(scope), writer, |old| {
                let before = paths.show(resource, old)?;
                let Patched { object: scale, duplicates } =
                    patch::apply(kind, before, &request.request.body, Schema::builtin(SCALE))?;
                check_name(&scale, request.name())?;
                warnings = decode::check_scale(&scale, &duplicates, options.field_validation)
                    .map_err(|status| patch::unreadable_result(&scale, &status.message))?;
                scaled(request, &paths, &scale, old)
            })?
        } else {
            let options = WriteOptions::from_query(request.query, "UpdateOptions")?;
            let manager = request.manager(&options);
            let writer = Writer::new(&options, &manager);
            let sent = decode::parse(request.request, "Scale")?;
            check_name(&sent.value, request.name())?;
            warnings = decode::check_scale(&sent.value, &sent.duplicates, options.field_validation)?;
            self.update(request.target(scope), writer, |old| scaled(request, &paths, &sent.value, old))?
        };
        let mut shown = show(&written.record.value())?;
        if let HandlerOutcome::Response(answer) = &mut shown {
            reply::warn(answer, &warnings);
        }
        Ok(shown)
    }
}

fn scaled(request: &Request<'_>, paths: &Paths, scale: &Value, old: &Value) -> Result<Value, Status> {
    check_uid(request.target(Scope::Main), old, object::text(scale, "uid"))?;
    let mut new = old.clone();
    paths.write(request.resource(), scale, &mut new)?;
    Ok(new)
}

/// An object after a patch, decoded and defaulted, and what a strict reader says to it.
fn patched(
    request: &Request<'_>,
    kind: PatchType,
    old: &Value,
    strictness: FieldValidation,
) -> Result<(Value, Vec<String>), Status> {
    let Patched { object: new, duplicates } =
        patch::apply(kind, old.clone(), &request.request.body, request.resource().schema())?;
    accepted(request, Some(old), new, &duplicates, strictness)
}

/// What a patch made of an object, or of nothing, decoded and defaulted (PAT-4, PAT-8); and what a strict reader says
/// to it.
pub(super) fn accepted(
    request: &Request<'_>,
    old: Option<&Value>,
    mut new: Value,
    duplicates: &[String],
    strictness: FieldValidation,
) -> Result<(Value, Vec<String>), Status> {
    let resource = request.resource();
    check_name(&new, request.name())?;
    let unread = new.clone();
    let refuse = |why: &str| patch::unreadable_result(&unread, why);
    decode::keep_kind(resource, &mut new).map_err(|why| refuse(&why))?;
    let uid = object::text(&new, "uid");
    if old.is_some_and(|old| !uid.is_empty() && uid != object::text(old, "uid")) {
        let error = FieldError::invalid("metadata.uid", &uid.into(), "field is immutable");
        return Err(request.target(Scope::Main).invalid(&[error]));
    }
    let unknown = decode::normalise(resource, &mut new).map_err(|status| refuse(&status.message))?;
    let complaints = json::complaints(&unknown, duplicates);
    match strictness {
        FieldValidation::Ignore => Ok((new, Vec::new())),
        FieldValidation::Strict if !complaints.is_empty() => {
            Err(refuse(&format!("strict decoding error: {}", complaints.join(", "))))
        }
        FieldValidation::Warn | FieldValidation::Strict => Ok((new, complaints)),
    }
}

/// The server's address as the client knows it.
fn address(request: &ApiRequest) -> &str {
    let host = request.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
    request.uri.authority().map(|authority| authority.as_str()).or(host).unwrap_or_default()
}

/// UPD-2.
pub(super) fn check_name(object: &Value, name: &str) -> Result<(), Status> {
    match object::text(object, "name") {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        given if given == name => Ok(()),
        given => Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
    }
}

fn created_status(request: &Request<'_>) -> http::Response<Body> {
    let mut status = Status::success();
    status.code = 201;
    reply::status(&status, request.status_representation())
}

fn healthy(health: &Health, query: &Query) -> http::Response<Body> {
    let name = match health.endpoint {
        HealthEndpoint::Healthz => "healthz",
        HealthEndpoint::Livez => "livez",
        HealthEndpoint::Readyz => "readyz",
    };
    let text = if query.get("verbose").is_some() && health.check.is_none() {
        format!("[+]ping ok\n[+]store ok\n{name} check passed\n")
    } else {
        "ok".to_owned()
    };
    let mut answer = http::Response::new(Body::whole(text));
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    answer
}
