//! DELETE of one object and of a collection: preconditions, finalizers, grace periods and propagation.

use std::sync::{Arc, PoisonError};

use evenkeel_core::{Status, StatusDetails};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;

use super::list::{PageOutcome, list_response};
use crate::engine::controllers::PendingWork;
use crate::engine::options::{DeleteOptions, ListOptions, Propagation};
use crate::engine::request::ResourceRequest;
use crate::engine::request_error::RequestError;
use crate::engine::target::{Target, WriteScope, server_timeout};
use crate::engine::view;
use crate::engine::{ApiEngine, convert, decode, object, response};
use crate::env::rfc3339;
use crate::http_types::{ApiRequest, Body, HandlerOutcome};
use crate::negotiate::{Endpoint, Representation};
use crate::registry::Resource;
use crate::store::{Draft, Expect, Record, Write};

/// The finalizer of an object whose dependents lose their references to it before it is removed.
pub(crate) const ORPHAN: &str = "orphan";
/// The finalizer of an object whose dependents are removed before it is.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
const DELETE_ATTEMPTS: usize = 1000;
/// How many objects of a collection are deleted before other requests run: few enough for the shortest history that a
/// watch can follow.
const COLLECTION_BATCH: usize = 64;

/// The result of a delete, and the warnings of its admission.
#[derive(Debug)]
pub(crate) struct Deleted {
    pub(crate) outcome: DeleteOutcome,
    pub(crate) warnings: Vec<String>,
}

/// What a delete did to its object.
#[derive(Debug)]
pub(crate) enum DeleteOutcome {
    /// The object was removed at this revision; `last` is its last state.
    Removed { last: Arc<Record>, revision: u64 },
    /// A finalizer or a grace period holds the object; this is its state now.
    Pending(Arc<Record>),
}

/// What a delete does to the object that it finds.
#[derive(Debug)]
pub(crate) enum DeletePlan {
    /// Leaves the object as it is: it is being deleted already.
    Nothing,
    /// Marks the object, which waits for its finalizers or its grace period.
    Mark(Value),
    /// Removes the object in one revision.
    Remove,
    /// Changes the object in one revision and removes it in the next, as for pods (DEL-9).
    MarkAndRemove(Value),
}

impl ApiEngine {
    /// Serves a DELETE of one object.
    pub(crate) fn delete(self: &Arc<Self>, request: &ResourceRequest<'_>) -> Result<HandlerOutcome, RequestError> {
        let options = delete_options(request)?;
        let view = self.view(request, Endpoint::Object)?;
        let target = request.target(WriteScope::Main);
        // Nothing can be converted after the deletion: a converter that fails must refuse it.
        let before = match self.store.get(&target.resource.storage, &target.key()) {
            Some(record) => Some(self.record_in_version(target.resource, record, &request.http.state)?),
            None => None,
        };
        let Deleted { outcome, warnings } = self.delete_object(target, &options, Some(request.http))?;
        let mut work = PendingWork::none(self);
        if !options.dry_run {
            self.after_delete(target.resource, target.namespace, target.name, &mut work);
        }
        let strategy = &target.resource.strategy;
        let representation = view.representation;
        let mut response = match outcome {
            DeleteOutcome::Pending(record) => {
                let accepted = options.orphan_dependents == Some(false);
                let code = if accepted { StatusCode::ACCEPTED } else { StatusCode::OK };
                let shown = self.shown_deleting(target.resource, &record, before.as_deref());
                response::with_code(code, representation, view.single(&shown, None)?)
            }
            DeleteOutcome::Removed { last, revision } if strategy.delete_returns_object => {
                response::ok(representation, view.single(&last, Some(revision))?)
            }
            DeleteOutcome::Removed { last, .. } => {
                let status = serde_json::to_vec(&success(target, &last)).unwrap_or_default();
                response::ok(representation, view::encode(status.into(), representation)?)
            }
        };
        response::warn(&mut response, &warnings);
        warn(&mut response, target.resource, &options);
        Ok(work.then(HandlerOutcome::Response(response)))
    }

    /// Returns an object that waits for its deletion in the version of the request: the converted object of before with the
    /// metadata of now.
    fn shown_deleting(&self, resource: &Resource, record: &Arc<Record>, before: Option<&Record>) -> Arc<Record> {
        let Some(mut shown) = before.and_then(|before| self.shown_of(resource, &before.value())) else {
            return Arc::clone(record);
        };
        let now = record.value();
        for (key, value) in object::metadata(&now).as_object().into_iter().flatten() {
            if !matches!(key.as_str(), "labels" | "annotations") {
                object::metadata_mut(&mut shown).insert(key.clone(), value.clone());
            }
        }
        convert::shown(resource, &shown, record.revision)
    }

    /// Serves a DELETE of a collection.
    pub(crate) fn delete_collection(
        self: &Arc<Self>,
        request: &ResourceRequest<'_>,
    ) -> Result<HandlerOutcome, RequestError> {
        let resource = request.resource();
        let options = delete_options(request)?;
        let list = ListOptions::from_query(request.query, false)?;
        let view = self.view(request, Endpoint::List)?;
        let filter = self.filter(request)?;
        let mut page = match self.page(&resource.storage, &filter, &list, request.waited)? {
            PageOutcome::Page { page, .. } => page,
            PageOutcome::Later(outcome) => return Ok(outcome),
        };
        let selected = page.records.clone();
        self.convert_page(resource, &mut page, request)?;
        page.next_after = None;
        let mut response = list_response(view, &filter, page, true)?;
        warn(&mut response, resource, &options);
        let deletion = CollectionDeletion {
            engine: Arc::clone(self),
            request: Arc::clone(request.http),
            resource: Arc::clone(resource),
            namespace: request.namespace().map(str::to_owned),
            remaining: selected.into_iter(),
            options,
            warnings: Vec::new(),
            response,
            work: PendingWork::none(self),
            status_representation: request.status_representation(),
        };
        Ok(deletion.run())
    }

    /// Deletes one object, or starts its deletion. Without a request the server itself deletes it, past admission.
    pub(crate) fn delete_object(
        &self,
        target: Target<'_>,
        options: &DeleteOptions,
        request: Option<&ApiRequest>,
    ) -> Result<Deleted, RequestError> {
        let hooks = target.resource.strategy.hooks;
        hooks.check_delete(target.name)?;
        let _no_creates =
            hooks.contains_objects().then(|| self.creates.write().unwrap_or_else(PoisonError::into_inner));
        for _ in 0..DELETE_ATTEMPTS {
            let Some(record) = self.store.get(&target.resource.storage, &target.key()) else {
                return Err(target.not_found().into());
            };
            check_preconditions(target, &record, options)?;
            let plan = hooks.plan_delete(target.resource, &record.value(), options, self.env.wall());
            let warnings = match (request, &plan) {
                (None, _) | (_, DeletePlan::Nothing) => Vec::new(),
                (Some(request), _) => self.validate_delete(target, &record, request, options.dry_run)?,
            };
            if let Some(outcome) = self.carry_out(target, &record, plan, options.dry_run) {
                return Ok(Deleted { outcome, warnings });
            }
        }
        Err(server_timeout("delete", target).into())
    }

    /// Tries once to carry out a plan; returns `None` if another write committed in between.
    fn carry_out(
        &self,
        target: Target<'_>,
        record: &Arc<Record>,
        plan: DeletePlan,
        dry_run: bool,
    ) -> Option<DeleteOutcome> {
        let resource = target.resource;
        let (table, key) = (&resource.storage, target.key());
        let now = self.env.monotonic();
        let draft = |object: &Value, revision| {
            let facts = object::facts(resource, &convert::to_version(object.clone(), resource));
            Draft::new(object, facts, revision)
        };
        let remove = |revision| {
            let expect = Expect::Revision(revision);
            self.store.commit(table, &key, expect, Write::Delete, now).ok().map(|(revision, _)| revision)
        };
        let mark = |object: &Value| {
            let draft = draft(object, self.store.revision() + 1);
            let expect = Expect::Revision(record.revision);
            self.store.commit(table, &key, expect, Write::Put(draft), now).ok().and_then(|(_, marked)| marked)
        };
        let preview = |object: &Value| Arc::new(draft(object, record.revision).preview(record.revision));
        Some(match plan {
            DeletePlan::Nothing => DeleteOutcome::Pending(Arc::clone(record)),
            DeletePlan::Mark(object) if dry_run => DeleteOutcome::Pending(preview(&object)),
            DeletePlan::MarkAndRemove(object) if dry_run => {
                DeleteOutcome::Removed { last: preview(&object), revision: record.revision }
            }
            DeletePlan::Remove if dry_run => {
                DeleteOutcome::Removed { last: Arc::clone(record), revision: record.revision }
            }
            DeletePlan::Mark(object) => DeleteOutcome::Pending(mark(&object)?),
            DeletePlan::Remove => {
                let revision = remove(record.revision)?;
                DeleteOutcome::Removed { last: Arc::clone(record), revision }
            }
            DeletePlan::MarkAndRemove(object) => {
                let marked = mark(&object)?;
                match remove(marked.revision) {
                    Some(revision) => DeleteOutcome::Removed { last: marked, revision },
                    // The other writer found an object without finalizers and removed it.
                    None if marked.facts.deleting => DeleteOutcome::Pending(marked),
                    // The object had only lost a finalizer, so it may still exist.
                    None => return None,
                }
            }
        })
    }

    /// Runs what a removal or a mark for deletion gives rise to, and adds the sweep of a terminating namespace. The object
    /// may have been the last to hold its namespace or its definition.
    pub(crate) fn after_delete(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
        work: &mut PendingWork,
    ) {
        let hooks = resource.strategy.hooks;
        hooks.after_delete(self, resource, namespace, name);
        work.add(hooks.namespace_of(namespace, name));
    }
}

fn delete_options(request: &ResourceRequest<'_>) -> Result<DeleteOptions, Status> {
    let version = request.resource().api_version();
    if request.http.body.is_empty() {
        return DeleteOptions::from_request(request.query, None, &version);
    }
    let body = decode::parse(request.http, "DeleteOptions")?;
    DeleteOptions::from_request(request.query, Some(&body.value), &version)
}

fn warn(response: &mut http::Response<Body>, resource: &Resource, options: &DeleteOptions) {
    if let Some(warning) = resource.strategy.hooks.delete_warning(options) {
        response::warn(response, &[warning.to_owned()]);
    }
}

/// A collection under deletion. It yields after each batch, so that watches can keep up.
struct CollectionDeletion {
    engine: Arc<ApiEngine>,
    request: Arc<ApiRequest>,
    resource: Arc<Resource>,
    /// The namespace of the collection; `None` for all.
    namespace: Option<String>,
    remaining: std::vec::IntoIter<Arc<Record>>,
    options: DeleteOptions,
    warnings: Vec<String>,
    /// The response if nothing fails.
    response: http::Response<Body>,
    work: PendingWork,
    /// The form of a Status if a delete fails.
    status_representation: Representation,
}

impl CollectionDeletion {
    /// Deletes the next batch. An object that no longer exists counts as deleted (DEL-13).
    fn run(mut self) -> HandlerOutcome {
        let at_once = self.resource.strategy.hooks.deletes_collection_at_once();
        let batch = if at_once { usize::MAX } else { COLLECTION_BATCH };
        for _ in 0..batch {
            let Some(record) = self.remaining.as_slice().first() else { break };
            let value = record.value();
            let namespace = Some(object::text(&value, "namespace")).filter(|namespace| !namespace.is_empty());
            let name = object::text(&value, "name");
            let target = Target { resource: &self.resource, namespace, name, scope: WriteScope::Main };
            match self.engine.delete_object(target, &self.options, Some(&self.request)) {
                Ok(deleted) => {
                    self.warnings.extend(deleted.warnings);
                    if !self.options.dry_run {
                        self.engine.after_delete(&self.resource, namespace, name, &mut self.work);
                    }
                }
                Err(RequestError::Refused(status)) if status.is_not_found() => {}
                Err(RequestError::Refused(status)) => {
                    return HandlerOutcome::Response(response::status(&status, self.status_representation));
                }
                Err(RequestError::NeedsCalls(calls)) => {
                    return HandlerOutcome::NeedsCalls { calls, then: Box::new(move || self.run()) };
                }
            }
            self.remaining.next();
        }
        match self.remaining.len() {
            0 => {
                self.engine.settle(&self.resource.storage, self.namespace.as_deref());
                response::warn(&mut self.response, &self.warnings);
                self.work.then(HandlerOutcome::Response(self.response))
            }
            _ => HandlerOutcome::Unfinished(Box::new(move || self.run())),
        }
    }
}

/// DEL-2: uid and resource version are preconditions.
pub(crate) fn check_preconditions(target: Target<'_>, record: &Record, options: &DeleteOptions) -> Result<(), Status> {
    let Resource { group, kind, .. } = &**target.resource;
    if let Some(uid) = options.uid.as_deref()
        && uid != &*record.facts.uid
    {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
             deleted and then recreated",
            record.facts.uid
        );
        return Err(Status::conflict(group, kind, target.name, why));
    }
    if let Some(version) = options.resource_version.as_deref()
        && version != record.revision.to_string()
    {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). \
             The object might have been modified",
            record.revision
        );
        return Err(Status::conflict(group, kind, target.name, why));
    }
    Ok(())
}

/// Decides what a delete does to an object without a grace period.
pub(crate) fn plan_delete(resource: &Resource, old: &Value, options: &DeleteOptions, now: Timestamp) -> DeletePlan {
    let mut new = old.clone();
    let finalizers_change = !object::is_deleting(old) && set_propagation(resource, &mut new, options);
    if object::finalizers(&new).next().is_none() {
        return if finalizers_change { DeletePlan::MarkAndRemove(new) } else { DeletePlan::Remove };
    }
    if object::is_deleting(old) {
        return DeletePlan::Nothing;
    }
    mark(&mut new, now, 0);
    DeletePlan::Mark(new)
}

/// Sets the deletion timestamp for the first time. The generation counts it as a change of the specification (DEL-7).
pub(crate) fn mark(object: &mut Value, at: Timestamp, period: i64) {
    let metadata = object::metadata_mut(object);
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|generation| *generation > 0) {
        metadata.insert("generation".into(), generation.saturating_add(1).into());
    }
    metadata.insert("deletionTimestamp".into(), rfc3339(at).into());
    metadata.insert("deletionGracePeriodSeconds".into(), period.into());
}

/// Turns the propagation policy into a finalizer for the garbage collector (DEL-11, DEL-12). Returns whether the
/// finalizers changed.
pub(crate) fn set_propagation(resource: &Resource, object: &mut Value, options: &DeleteOptions) -> bool {
    if resource.strategy.ignores_propagation {
        return false;
    }
    let before: Vec<String> = object::finalizers(object).map(str::to_owned).collect();
    let has = |name: &str| before.iter().any(|finalizer| finalizer == name);
    let policy = options.requested_propagation().unwrap_or({
        if has(ORPHAN) {
            Propagation::Orphan
        } else if has(FOREGROUND) {
            Propagation::Foreground
        } else if resource.strategy.orphans_by_default {
            Propagation::Orphan
        } else {
            Propagation::Background
        }
    });
    let mut after: Vec<String> =
        before.iter().filter(|finalizer| !matches!(finalizer.as_str(), ORPHAN | FOREGROUND)).cloned().collect();
    match policy {
        Propagation::Orphan => after.push(ORPHAN.to_owned()),
        Propagation::Foreground => after.push(FOREGROUND.to_owned()),
        Propagation::Background => {}
    }
    let changed = after != before;
    if changed {
        object::set_finalizers(object, after);
    }
    changed
}

/// Returns the Status that reports a deletion (DEL-5).
fn success(target: Target<'_>, record: &Record) -> Status {
    Status::success().with_details(StatusDetails {
        name: target.name.to_owned(),
        group: target.resource.group.clone(),
        kind: target.resource.plural.clone(),
        uid: record.facts.uid.to_string(),
        ..StatusDetails::default()
    })
}
