//! The garbage collector: deletes objects whose owners are gone, and finishes deletions that wait for dependents.
//!
//! Every write brings the [`OwnerGraph`](graph::OwnerGraph) up to date, which costs next to nothing unless the object has
//! owners or is deleted. Objects that need a decision are in its queue. The request that causes work carries it out before
//! its response ([`PendingWork`]), in steps between which other requests run; the tick does what is left. Deletes have
//! preconditions, so that an object that changes meanwhile is decided about again.

mod carry_out;
mod decide;
mod graph;
mod queue;
mod report;
#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use self::carry_out::Progress;
use self::decide::{Decision, Situation, owner_resource};
pub(in crate::engine) use self::graph::OwnerGraph;
use self::graph::{Node, OwnerReference, Uid};
use super::sweep::PendingWork;
use crate::engine::{ApiEngine, ControllerTiming};
use crate::store::UnreadOfAll;

/// How many objects a step decides about: few enough for the shortest history that a watch can follow.
const COLLECTION_STEP: usize = 64;
/// The delays before work that failed is tried again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(300);

/// An object to be worked on, as the graph had it when it was decided about.
struct WorkItem {
    node: Node,
    decision: Decision,
    /// Its references to owners in other namespaces.
    strays: Vec<OwnerReference>,
}

impl ApiEngine {
    /// Reads what was committed since the last call. Returns whether that makes work which is due.
    pub(super) fn follow_owners(&self) -> bool {
        if self.settings.garbage_collector == ControllerTiming::Off {
            return false;
        }
        let mut graph = self.owner_graph.lock().unwrap_or_else(PoisonError::into_inner);
        let arrivals = graph.queue.arrivals();
        self.bring_up_to_date(&mut graph);
        graph.queue.arrivals() > arrivals && graph.queue.has_due(self.env.monotonic())
    }

    /// Returns whether the collector has work that is due.
    pub(super) fn has_garbage(&self) -> bool {
        let graph = self.owner_graph.lock().unwrap_or_else(PoisonError::into_inner);
        graph.queue.has_due(self.env.monotonic())
    }

    /// Decides about the next objects and carries the decisions out. Adds the sweeps of terminating namespaces that this
    /// makes necessary. Returns whether there is more to do now.
    pub(super) fn collect_step(self: &Arc<Self>, work: &mut PendingWork) -> bool {
        let _collecting = self.collecting.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..COLLECTION_STEP {
            let Some(item) = self.next_item() else { return false };
            self.report_stray_references(&item.node, &item.strays);
            let progress = self.act_on(&item, work);
            self.record_progress(&item.node.uid, progress);
        }
        true
    }

    /// Runs a step of the collection that is due. Returns whether there was one.
    pub(in crate::engine) fn run_due_collection(self: &Arc<Self>) -> bool {
        self.follow_owners();
        self.has_garbage() && {
            // Dropping the sweeps leaves them to the tick.
            self.collect_step(&mut PendingWork::none(self));
            true
        }
    }

    /// Collects what was garbage when the server started or was restored.
    pub(in crate::engine) fn resume_collection(self: &Arc<Self>) {
        if self.settings.garbage_collector == ControllerTiming::Immediate {
            while self.run_due_collection() {}
        }
    }

    /// Returns the next object that needs something, and what.
    fn next_item(&self) -> Option<WorkItem> {
        let mut graph = self.owner_graph.lock().unwrap_or_else(PoisonError::into_inner);
        self.bring_up_to_date(&mut graph);
        let registry = self.registry();
        while let Some(uid) = graph.queue.pop(self.env.monotonic()) {
            let situation = Situation { graph: &graph, registry: &registry, store: &self.store };
            let Some(node) = graph.node(&uid).cloned() else { continue };
            let decision = situation.decide(&node);
            let strays = situation.references_across_namespaces(&node);
            match decision {
                Decision::Keep if strays.is_empty() => {}
                Decision::AwaitKind(kind) => graph.wait_for_kind(&uid, kind),
                decision => return Some(WorkItem { node, decision, strays }),
            }
        }
        None
    }

    fn record_progress(&self, uid: &Uid, progress: Progress) {
        let mut graph = self.owner_graph.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(node) = graph.node_mut(uid) else { return };
        match progress {
            Progress::Done => node.failures = 0,
            // The object has changed, or there is more to do: another decision.
            Progress::Again => graph.queue.push(uid, Duration::ZERO),
            Progress::Failed => {
                let delay = FIRST_RETRY.saturating_mul(1 << node.failures.min(16)).min(LAST_RETRY);
                node.failures = node.failures.saturating_add(1);
                graph.queue.push(uid, self.env.monotonic().saturating_add(delay));
            }
        }
    }

    /// Reads the unread commits into the graph, and queues the objects whose owners are not all well.
    fn bring_up_to_date(&self, graph: &mut OwnerGraph) {
        let delay = match self.settings.garbage_collector {
            ControllerTiming::Delayed(delay) => Some(delay),
            ControllerTiming::Immediate | ControllerTiming::Off => None,
        };
        // Immediate work is due before all retries.
        let due = |at: Duration| delay.map_or(Duration::ZERO, |delay| at.saturating_add(delay));
        let now = self.env.monotonic();
        let (revision, unread) = self.store.unread_of_all(graph.revision, OwnerGraph::concerns);
        match unread {
            UnreadOfAll::Changes(changes) => {
                for (table, event) in changes {
                    graph.apply(&table, &event.key, event.previous.as_deref(), event.current.as_deref(), due(event.at));
                    self.check_references(graph, due(event.at));
                }
            }
            UnreadOfAll::Everything(objects) => {
                graph.clear();
                for (table, key, record) in objects {
                    graph.apply(&table, &key, None, Some(&record), due(now));
                }
            }
        }
        graph.revision = Some(revision);
        if self.kinds_changed.swap(false, Ordering::Relaxed) {
            let registry = self.registry();
            graph.check_parked(|kind| owner_resource(&registry, kind).is_some());
        }
        self.check_references(graph, due(now));
    }

    /// Queues those objects with new references that need something.
    fn check_references(&self, graph: &mut OwnerGraph, due: Duration) {
        let unchecked = graph.take_unchecked();
        if unchecked.is_empty() {
            return;
        }
        let registry = self.registry();
        for uid in &unchecked {
            let situation = Situation { graph, registry: &registry, store: &self.store };
            if graph.node(uid).is_some_and(|node| !situation.is_settled(node)) {
                graph.queue.push(uid, due);
            }
        }
    }
}
