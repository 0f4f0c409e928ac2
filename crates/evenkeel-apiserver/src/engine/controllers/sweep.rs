//! The sweep of a terminating namespace, in steps: other requests run between two of them.
//!
//! A sweep belongs to the request that causes it, whose response waits for its end ([`PendingWork`]), or to the tick. The
//! tick also finishes the sweeps of requests that were dropped.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::engine::options::{DeleteOptions, Propagation};
use crate::engine::target::{Target, WriteScope};
use crate::engine::{ApiEngine, ControllerTiming, object};
use crate::http_types::HandlerOutcome;
use crate::registry::Resource;
use crate::store::{At, Record, Span};

/// How many objects a step deletes.
const SWEEP_STEP: usize = 1000;

const PODS: &str = "pods";

/// The position of a sweep. Nothing is created in a terminating namespace, so what is behind the position is removed, or
/// held by its finalizers.
#[derive(Debug)]
pub(crate) struct NamespaceSweep {
    namespace: String,
    /// The resources that may have objects in the namespace, pods first.
    resources: Vec<Arc<Resource>>,
    /// The resource to continue with.
    next: usize,
    /// The last key of that resource that was deleted.
    after: Option<Box<str>>,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SweepProgress {
    Unfinished,
    Finished,
}

/// A resource and its objects that remain in a namespace.
pub(super) type Remaining = (Arc<Resource>, Vec<Arc<Record>>);

impl ApiEngine {
    /// Returns the sweep of a terminating namespace that the caller has to carry out now. With another timing than
    /// [`ControllerTiming::Immediate`] there is none.
    pub(super) fn schedule_sweep(&self, namespace: &str) -> Option<NamespaceSweep> {
        match self.settings.namespaces {
            ControllerTiming::Off => None,
            ControllerTiming::Immediate => Some(self.sweep_of(namespace)),
            ControllerTiming::Delayed(delay) => {
                self.sweep_at(self.env.monotonic().saturating_add(delay), namespace);
                None
            }
        }
    }

    /// Sweeps all terminating namespaces, or schedules that.
    pub(crate) fn resume_sweeps(&self) {
        for namespace in self.terminating_namespaces() {
            if let Some(mut sweep) = self.schedule_sweep(&namespace) {
                while self.sweep_step(&mut sweep) == SweepProgress::Unfinished {}
            }
        }
    }

    /// Runs a step of the sweeps that are due. Returns whether there was one.
    pub(crate) fn run_due_sweeps(&self, now: Duration) -> bool {
        let mut current = self.current_sweep.lock().unwrap_or_else(PoisonError::into_inner);
        if current.is_none() {
            let mut sweeps = self.sweeps.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = sweeps.first().is_some_and(|(at, _)| *at <= now);
            let due = if is_due { sweeps.pop_first() } else { None };
            *current = due.map(|(_, namespace)| self.sweep_of(&namespace));
        }
        let Some(sweep) = &mut *current else { return false };
        if self.sweep_step(sweep) == SweepProgress::Finished {
            *current = None;
        }
        true
    }

    fn sweep_at(&self, at: Duration, namespace: &str) {
        self.sweeps.lock().unwrap_or_else(PoisonError::into_inner).insert((at, namespace.to_owned()));
    }

    fn sweep_of(&self, namespace: &str) -> NamespaceSweep {
        let mut resources: Vec<Arc<Resource>> = self.registry().namespaced_stores().cloned().collect();
        resources.sort_by_key(|resource| !is_pods(resource));
        NamespaceSweep { namespace: namespace.to_owned(), resources, next: 0, after: None }
    }

    /// Deletes the next objects of a terminating namespace. Once it is empty, removes the finalizer that stands for the
    /// content, which removes the namespace (NS-7), and maybe the last object of a terminating definition.
    fn sweep_step(&self, sweep: &mut NamespaceSweep) -> SweepProgress {
        {
            let _sweeping = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.holds_content(&sweep.namespace) {
                return SweepProgress::Finished;
            }
            let mut left = SWEEP_STEP;
            while let Some(resource) = sweep.resources.get(sweep.next).filter(|_| left > 0) {
                let deleted = self.empty(resource, &sweep.namespace, &mut sweep.after, left);
                left = left.saturating_sub(deleted);
                if sweep.after.is_some() {
                    return SweepProgress::Unfinished;
                }
                let waits = is_pods(resource) && !self.remaining(resource, &sweep.namespace).is_empty();
                sweep.next = if waits { sweep.resources.len() } else { sweep.next + 1 };
            }
            if sweep.next < sweep.resources.len() {
                return SweepProgress::Unfinished;
            }
            // Claims of pods that are gone now need not wait for the next request.
            self.release_unused();
            let mut remaining: Vec<Remaining> = Vec::new();
            for resource in &sweep.resources {
                let held = self.remaining(resource, &sweep.namespace);
                let waits = is_pods(resource) && !held.is_empty();
                if !held.is_empty() {
                    remaining.push((Arc::clone(resource), held));
                }
                if waits {
                    break;
                }
            }
            self.report(&sweep.namespace, &remaining);
        }
        self.settle_quotas(&sweep.namespace);
        self.sweep_definitions();
        SweepProgress::Finished
    }

    /// Deletes up to `limit` objects of a resource in a namespace, after a key. Returns how many, and in `after` the last
    /// key if there are more. Pods are deleted without a grace period: there is no kubelet to stop them.
    fn empty(&self, resource: &Arc<Resource>, namespace: &str, after: &mut Option<Box<str>>, limit: usize) -> usize {
        let prefix = format!("{namespace}/");
        let previous = after.take();
        let span = Span { prefix: &prefix, after: previous.as_deref(), limit };
        // A finalizer holds a marked object, and a second delete changes nothing. A marked pod may be in its grace period,
        // which ends here.
        let is_deletable = |_: &str, record: &Record| !record.facts.deleting || is_pods(resource);
        let Ok(page) = self.store.list(&resource.storage, span, At::Latest, is_deletable) else { return 0 };
        let options = DeleteOptions {
            grace_period: Some(0),
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        for record in &page.records {
            let value = record.value();
            let name = object::text(&value, "name");
            let target = Target { resource, namespace: Some(namespace), name, scope: WriteScope::Main };
            // What is not deleted is among the remaining objects.
            if let Err(error) = self.delete_object(target, &options, None) {
                tracing::debug!(namespace, name, %error, "object of a terminating namespace not deleted");
            }
        }
        *after = page.next_after;
        page.records.len()
    }

    /// Returns the objects of a resource in a namespace.
    fn remaining(&self, resource: &Resource, namespace: &str) -> Vec<Arc<Record>> {
        let prefix = format!("{namespace}/");
        let span = Span { prefix: &prefix, ..Span::default() };
        self.store.list(&resource.storage, span, At::Latest, |_, _| true).map(|page| page.records).unwrap_or_default()
    }
}

fn is_pods(resource: &Resource) -> bool {
    *resource.storage == *PODS
}

/// What a request has to carry out before its response: sweeps of namespaces, and garbage collection. Dropping it leaves
/// the rest to the tick.
#[must_use = "the response waits for the work"]
pub(crate) struct PendingWork {
    engine: Arc<ApiEngine>,
    sweeps: Vec<NamespaceSweep>,
    /// The request has deleted an object, or written one with owners.
    concerns_owners: bool,
    /// The response waits until the collector has nothing to do.
    collects: bool,
}

impl PendingWork {
    pub(crate) fn none(engine: &Arc<ApiEngine>) -> Self {
        PendingWork { engine: Arc::clone(engine), sweeps: Vec::new(), concerns_owners: false, collects: false }
    }

    /// Adds what the removal of an object, or its mark for deletion, makes necessary in its namespace.
    pub(crate) fn add(&mut self, namespace: Option<&str>) {
        self.concerns_owners = true;
        if let Some(namespace) = namespace
            && self.sweeps.iter().all(|sweep| sweep.namespace != namespace)
            && self.engine.is_namespace_terminating(namespace)
        {
            self.sweeps.extend(self.engine.schedule_sweep(namespace));
        }
    }

    /// Adds what a write of this object makes necessary.
    pub(crate) fn add_write(&mut self, record: &Record) {
        self.concerns_owners |= record.facts.owned;
    }

    /// Carries the work out, then returns the outcome of the request.
    pub(crate) fn then(mut self, outcome: HandlerOutcome) -> HandlerOutcome {
        // Another request may have found the work of this one.
        self.collects = self.engine.follow_owners() || self.concerns_owners && self.engine.has_garbage();
        match (self.sweeps.is_empty(), self.collects) {
            (true, false) => outcome,
            // The request may hold locks that the collector takes.
            (true, true) => HandlerOutcome::Unfinished(Box::new(move || self.run(outcome))),
            (false, _) => self.run(outcome),
        }
    }

    fn run(mut self, outcome: HandlerOutcome) -> HandlerOutcome {
        if self.engine.store.check_writable().is_err() {
            // The response reports a failed disk. After a slow one, the tick continues.
            return outcome;
        }
        let engine = Arc::clone(&self.engine);
        match self.sweeps.last_mut() {
            Some(sweep) => {
                if engine.sweep_step(sweep) == SweepProgress::Finished {
                    self.sweeps.pop();
                }
                self.collects |= engine.follow_owners();
            }
            None => self.collects = engine.collect_step(&mut self),
        }
        if self.sweeps.is_empty() && !self.collects {
            // What was deleted may have used claims and quotas; a claim that goes may own something.
            engine.settle_all();
            self.collects = engine.follow_owners();
        }
        match self.sweeps.is_empty() && !self.collects {
            true => outcome,
            false => HandlerOutcome::Unfinished(Box::new(move || self.run(outcome))),
        }
    }
}

impl Drop for PendingWork {
    fn drop(&mut self) {
        self.sweeps.iter().for_each(|sweep| self.engine.sweep_at(Duration::ZERO, &sweep.namespace));
    }
}
