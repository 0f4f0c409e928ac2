//! Delete, of one object and of many: preconditions, finalizers, grace and propagation.

use std::sync::{Arc, PoisonError};

use evenkeel_core::{Status, StatusDetails};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::options::{DeleteOptions, Propagation};
use super::write::{Scope, Target, is_definition, is_namespace, server_timeout};
use super::{ApiEngine, convert, object, reply};
use crate::env::rfc3339;
use crate::http_types::{Body, HandlerOutcome};
use crate::kinds;
use crate::negotiate::Representation;
use crate::registry::Resource;
use crate::store::{Draft, Expect, Record, Write};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const ATTEMPTS: usize = 1000;
/// How many objects of a collection are deleted before others get their turn: few enough for the shortest of histories
/// that anyone would watch.
const TURN: usize = 64;
/// Namespaces that the cluster cannot be without (NS-5).
const UNDELETABLE: &[&str] = &["default", "kube-system", "kube-public"];

/// What a delete came to.
#[derive(Debug)]
pub(super) enum Deleted {
    /// The object is gone since this revision; this was its last state.
    Removed { last: Arc<Record>, revision: u64 },
    /// Something still holds it; this is its state now.
    Pending(Arc<Record>),
}

/// What a delete does to the object it finds.
enum Plan {
    /// The object stays as it is: it is being deleted already.
    Nothing,
    /// The object is marked and waits for its finalizers or its grace period.
    Mark(Value),
    /// The object goes, in one revision.
    Remove,
    /// The object is changed in one revision and goes in the next, as pods do (DEL-9).
    MarkAndRemove(Value),
}

impl ApiEngine {
    /// Deletes one object, or begins to.
    pub(super) fn delete(&self, target: Target<'_>, options: &DeleteOptions) -> Result<Deleted, Status> {
        if is_namespace(target.resource) && UNDELETABLE.contains(&target.name) {
            let why = "this namespace may not be deleted";
            return Err(Status::forbidden("", "namespaces", target.name, why));
        }
        let has_content = is_namespace(target.resource) || is_definition(target.resource);
        let _nothing_is_created = has_content.then(|| self.creates.write().unwrap_or_else(PoisonError::into_inner));
        for _ in 0..ATTEMPTS {
            let Some(record) = self.store.get(&target.resource.storage, &target.key()) else {
                return Err(target.not_found());
            };
            check_preconditions(target, &record, options)?;
            let old = record.value();
            let plan = plan(target.resource, &old, options, self.env.wall());
            if let Some(deleted) = self.carry_out(target, &record, plan, options.dry_run) {
                return Ok(deleted);
            }
        }
        Err(server_timeout("delete", target))
    }

    /// One attempt; `None` if another write got in between.
    fn carry_out(&self, target: Target<'_>, record: &Arc<Record>, plan: Plan, dry_run: bool) -> Option<Deleted> {
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
        let pretend = |object: &Value| Arc::new(draft(object, record.revision).preview(record.revision));
        Some(match plan {
            Plan::Nothing => Deleted::Pending(Arc::clone(record)),
            Plan::Mark(object) if dry_run => Deleted::Pending(pretend(&object)),
            Plan::MarkAndRemove(object) if dry_run => {
                Deleted::Removed { last: pretend(&object), revision: record.revision }
            }
            Plan::Remove if dry_run => Deleted::Removed { last: Arc::clone(record), revision: record.revision },
            Plan::Mark(object) => Deleted::Pending(mark(&object)?),
            Plan::Remove => {
                let revision = remove(record.revision)?;
                Deleted::Removed { last: Arc::clone(record), revision }
            }
            Plan::MarkAndRemove(object) => {
                let marked = mark(&object)?;
                match remove(marked.revision) {
                    Some(revision) => Deleted::Removed { last: marked, revision },
                    // Whoever got in between found an object that nothing holds any more, and took it away.
                    None if marked.facts.deleting => Deleted::Pending(marked),
                    // It had only lost a finalizer, so it may well be alive.
                    None => return None,
                }
            }
        })
    }

    /// Deletes what has been selected, and then answers.
    pub(super) fn delete_collection(
        self: &Arc<Self>,
        resource: &Arc<Resource>,
        selected: Vec<Arc<Record>>,
        options: DeleteOptions,
        answer: http::Response<Body>,
        representation: Representation,
    ) -> HandlerOutcome {
        let (engine, resource) = (Arc::clone(self), Arc::clone(resource));
        Deletion { engine, resource, left: selected.into_iter(), options, answer, representation }.go_on()
    }
}

/// The deletion of a collection. It pauses now and then, so that watches can keep up with it.
struct Deletion {
    engine: Arc<ApiEngine>,
    resource: Arc<Resource>,
    left: std::vec::IntoIter<Arc<Record>>,
    options: DeleteOptions,
    answer: http::Response<Body>,
    /// Of what goes wrong.
    representation: Representation,
}

impl Deletion {
    /// Deletes the next few; what is gone already is as good as deleted (DEL-13).
    fn go_on(mut self) -> HandlerOutcome {
        // Definitions are few, and a snapshot must not see one half deleted.
        let turn = if is_definition(&self.resource) { usize::MAX } else { TURN };
        for record in self.left.by_ref().take(turn) {
            let value = record.value();
            let namespace = Some(object::text(&value, "namespace")).filter(|namespace| !namespace.is_empty());
            let name = object::text(&value, "name");
            let target = Target { resource: &self.resource, namespace, name, scope: Scope::Main };
            match self.engine.delete(target, &self.options) {
                Ok(_) if !self.options.dry_run => self.engine.after_deletion(&self.resource, namespace, name),
                Err(status) if !status.is_not_found() => {
                    return HandlerOutcome::Response(reply::status(&status, self.representation));
                }
                _ => {}
            }
        }
        match self.left.len() {
            0 => HandlerOutcome::Response(self.answer),
            _ => HandlerOutcome::Unfinished(Box::new(move || self.go_on())),
        }
    }
}

/// DEL-2.
pub(super) fn check_preconditions(target: Target<'_>, record: &Record, options: &DeleteOptions) -> Result<(), Status> {
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

fn plan(resource: &Resource, old: &Value, options: &DeleteOptions, now: Timestamp) -> Plan {
    if is_namespace(resource) {
        return plan_namespace(old, now);
    }
    if is_definition(resource) {
        return plan_definition(old, now);
    }
    let mut new = old.clone();
    let finalizers_change = !object::is_deleting(old) && set_propagation(resource, &mut new, options);
    let held = object::finalizers(&new).next().is_some();
    if resource.group.is_empty() && resource.kind == "Pod" {
        return plan_pod(new, held, finalizers_change, options, now);
    }
    if !held {
        return if finalizers_change { Plan::MarkAndRemove(new) } else { Plan::Remove };
    }
    if object::is_deleting(old) {
        return Plan::Nothing;
    }
    mark(&mut new, now, 0);
    Plan::Mark(new)
}

/// NS-6: the first delete marks, the controller does the rest.
fn plan_namespace(old: &Value, now: Timestamp) -> Plan {
    let held = |pointer| old.pointer(pointer).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if object::is_deleting(old) {
        return if held("/spec/finalizers") || held("/metadata/finalizers") { Plan::Nothing } else { Plan::Remove };
    }
    let mut new = old.clone();
    object::metadata_mut(&mut new).insert("deletionTimestamp".into(), rfc3339(now).into());
    if let Some(fields) = new.as_object_mut() {
        let status = fields.entry("status").or_insert_with(|| json!({}));
        if let Some(status) = status.as_object_mut() {
            status.insert("phase".into(), "Terminating".into());
        }
    }
    Plan::Mark(new)
}

/// CRD-15: the definition waits for its objects to go.
fn plan_definition(old: &Value, now: Timestamp) -> Plan {
    if object::is_deleting(old) {
        return if object::finalizers(old).next().is_some() { Plan::Nothing } else { Plan::Remove };
    }
    let mut new = old.clone();
    object::metadata_mut(&mut new).insert("deletionTimestamp".into(), rfc3339(now).into());
    crate::crd::conditions::begin_deletion(&mut new, &rfc3339(now));
    Plan::Mark(new)
}

/// DEL-8 to DEL-10.
fn plan_pod(mut new: Value, held: bool, changed: bool, options: &DeleteOptions, now: Timestamp) -> Plan {
    let metadata = object::metadata(&new);
    let present = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    if object::is_deleting(&new) {
        let remaining = present.unwrap_or(0);
        let asked = match options.grace_period {
            // What is negative means the shortest time there is.
            Some(..0) if remaining > 0 => 1.min(remaining),
            Some(asked) if asked < remaining || remaining == 0 => asked.max(0),
            _ if remaining == 0 && !held => 0,
            _ => return if changed { Plan::Mark(new) } else { Plan::Nothing },
        };
        let began = object::text(&new, "deletionTimestamp").parse::<Timestamp>().unwrap_or(now);
        let began = began.checked_sub(SignedDuration::from_secs(remaining)).unwrap_or(now);
        let mut end = began.checked_add(SignedDuration::from_secs(asked)).unwrap_or(now);
        let mut period = asked;
        if end < now {
            end = now;
            period = period.min(1);
        }
        let metadata = object::metadata_mut(&mut new);
        metadata.insert("deletionTimestamp".into(), rfc3339(end).into());
        metadata.insert("deletionGracePeriodSeconds".into(), period.into());
        return match (period, held) {
            (0, false) => Plan::MarkAndRemove(new),
            (0, true) if remaining == 0 && !changed => Plan::Nothing,
            _ => Plan::Mark(new),
        };
    }
    let period = kinds::pod_grace_period(&new, options.grace_period);
    let end = now.checked_add(SignedDuration::from_secs(period)).unwrap_or(now);
    mark(&mut new, end, period);
    if period == 0 && !held { Plan::MarkAndRemove(new) } else { Plan::Mark(new) }
}

/// Sets the deletion timestamp for the first time, which counts as a change of the specification (DEL-7).
fn mark(object: &mut Value, at: Timestamp, period: i64) {
    let metadata = object::metadata_mut(object);
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|generation| *generation > 0) {
        metadata.insert("generation".into(), generation.saturating_add(1).into());
    }
    metadata.insert("deletionTimestamp".into(), rfc3339(at).into());
    metadata.insert("deletionGracePeriodSeconds".into(), period.into());
}

/// DEL-11 and DEL-12: the propagation policy becomes a finalizer for the garbage collector. Answers whether the
/// finalizers changed.
fn set_propagation(resource: &Resource, object: &mut Value, options: &DeleteOptions) -> bool {
    if resource.plural == "events" {
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

/// What a client should know that leaves the fate of the dependents to a default that surprises (DEL-12).
pub(super) fn warnings(resource: &Resource, options: &DeleteOptions) -> Option<String> {
    let surprises = resource.group == "batch" && resource.kind == "Job";
    (surprises && options.requested_propagation().is_none()).then(|| {
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or \
         set propagationPolicy=Orphan to suppress this warning"
            .to_owned()
    })
}

/// The Status that tells of a deletion (DEL-5).
pub(super) fn success(target: Target<'_>, record: &Record) -> Status {
    Status::success().with_details(StatusDetails {
        name: target.name.to_owned(),
        group: target.resource.group.clone(),
        kind: target.resource.plural.clone(),
        uid: record.facts.uid.to_string(),
        ..StatusDetails::default()
    })
}
