//! [`ScopeStates`]: how far each namespace of an informer of several namespaces is.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::shared::{InformerPhase, InformerShared};
use super::status::NamespaceStatus;
use crate::namespaces::{NamespaceSet, Scope};
use crate::reflector::{LastError, ReflectorPhase, ReflectorReport, ReflectorStatus};

/// What an informer does while one of [several namespaces](crate::NamespaceSet) cannot be read: the server returns 403 for it.
///
/// In both cases the namespace is tried again with backoff, and its objects are delivered when it can be read. Objects that were read
/// before stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnForbidden {
    /// The informer does not sync. Errors about the sync, and the status, name the namespace and the reason.
    #[default]
    Fail,
    /// The informer syncs without the namespace. The [status](super::InformerStatus::namespaces) and `Check::namespaces` name it.
    Degrade,
}

/// The part of an informer's shared state that only one of several namespaces has.
pub(super) struct ScopedShared {
    pub(super) set: NamespaceSet,
    pub(super) on_forbidden: OnForbidden,
    states: watch::Sender<ScopeStates>,
}

/// How far the namespaces are.
#[derive(Default)]
struct ScopeStates {
    /// The generation of the set that is in effect; `None` before the start.
    applied: Option<u64>,
    /// Whether the set was complete then.
    is_complete: bool,
    by_name: BTreeMap<Arc<str>, ScopeState>,
}

struct ScopeState {
    /// Whether the store contains a list of the scope.
    is_listed: bool,
    /// The message of the server, while the scope is forbidden.
    forbidden: Option<String>,
    reflector: ReflectorStatus,
}

impl ScopedShared {
    pub(super) fn new(set: NamespaceSet, on_forbidden: OnForbidden) -> Self {
        ScopedShared { set, on_forbidden, states: watch::Sender::default() }
    }

    fn is_settled(&self, state: &ScopeState) -> bool {
        state.is_listed || (self.on_forbidden == OnForbidden::Degrade && state.forbidden.is_some())
    }

    fn are_all_settled(&self) -> bool {
        let states = self.states.borrow();
        states.applied.is_some() && states.is_complete && states.by_name.values().all(|state| self.is_settled(state))
    }

    /// Changes the state of a scope. Ignores scopes that are not in effect.
    fn change(&self, namespace: &str, change: impl FnOnce(&mut ScopeState)) {
        self.states.send_if_modified(|states| states.by_name.get_mut(namespace).map(change).is_some());
    }

    /// Returns whether the store contains a list of the scope.
    pub(super) fn is_listed(&self, namespace: &str) -> bool {
        self.states.borrow().by_name.get(namespace).is_some_and(|state| state.is_listed)
    }
}

impl InformerShared {
    /// Adds a scope whose reflector starts.
    pub(super) fn scope_started(&self, scope: &Scope, reflector: ReflectorStatus) {
        let Some(scoped) = &self.scoped else { return };
        scoped.states.send_modify(|states| {
            let state = ScopeState { is_listed: false, forbidden: None, reflector };
            states.by_name.insert(Arc::clone(scope.namespace()), state);
        });
    }

    /// Removes a scope whose reflector has stopped.
    pub(super) fn scope_stopped(&self, namespace: &str) {
        let Some(scoped) = &self.scoped else { return };
        scoped.states.send_modify(|states| drop(states.by_name.remove(namespace)));
    }

    /// Records that this generation of the set is in effect.
    pub(super) fn scopes_in_effect(&self, generation: u64, is_complete: bool) {
        let Some(scoped) = &self.scoped else { return };
        scoped.states.send_modify(|states| {
            states.applied = Some(generation);
            states.is_complete = is_complete;
        });
        self.update_scopes_synced();
    }

    /// Records that the store contains a list of a scope, and that its notifications are distributed.
    pub(super) fn scope_listed(&self, scope: &Scope) {
        let Some(scoped) = &self.scoped else { return };
        scoped.change(scope.namespace(), |state| {
            state.is_listed = true;
            state.forbidden = None;
        });
        self.update_scopes_synced();
    }

    /// Records that the server refused to list or watch a scope.
    pub(super) fn scope_forbidden(&self, scope: &Scope, message: &str) {
        let Some(scoped) = &self.scoped else { return };
        let is_known =
            scoped.states.borrow().by_name.get(scope.namespace()).is_some_and(|state| state.forbidden.is_some());
        if !is_known && scoped.on_forbidden == OnForbidden::Degrade {
            let (informer, namespace) = (self.name.as_str(), scope.describe());
            tracing::warn!(informer, namespace, message, "namespace is forbidden; continuing without it");
            self.table.set_scope_awaited(scope.namespace(), false);
        }
        scoped.change(scope.namespace(), |state| state.forbidden = Some(message.to_owned()));
        self.update_scopes_synced();
    }

    /// Records that the server sends events of a scope again.
    pub(super) fn scope_readable(&self, scope: &Scope) {
        if let Some(scoped) = &self.scoped {
            scoped.change(scope.namespace(), |state| state.forbidden = None);
            self.table.set_scope_awaited(scope.namespace(), true);
        }
    }

    fn update_scopes_synced(&self) {
        if self.scoped.as_ref().is_some_and(ScopedShared::are_all_settled) {
            self.set_synced(Instant::now());
        }
    }

    /// Waits until this generation of the set is in effect and those of these scopes that it has are settled. Returns at once if the
    /// informer does not run.
    pub(crate) async fn scopes_applied(&self, generation: u64, names: &[&str]) {
        let Some(scoped) = &self.scoped else { return };
        let mut states = scoped.states.subscribe();
        let mut lifecycle = self.watch_lifecycle();
        if self.lifecycle().phase != InformerPhase::Running {
            return;
        }
        let is_done = |states: &ScopeStates| {
            let is_settled = |name: &&str| states.by_name.get(*name).is_none_or(|state| scoped.is_settled(state));
            states.applied.is_some_and(|applied| applied >= generation) && names.iter().all(is_settled)
        };
        // The senders are fields of `self`, so neither wait fails.
        tokio::select! {
            biased;
            _ = lifecycle.wait_for(|lifecycle| lifecycle.phase != InformerPhase::Running) => {}
            _ = states.wait_for(is_done) => {}
        }
    }

    /// Waits until the handlers have processed what is queued for them now. Streams are not waited for.
    pub(crate) async fn handlers_called(&self) {
        let (barrier, mut reached) = mpsc::channel(1);
        for entry in self.processor().entries() {
            entry.listener.push_barrier(&barrier, Instant::now());
        }
        drop(barrier);
        // Nothing is sent: this ends when all listeners have dropped their senders.
        let _ = reached.recv().await;
    }

    /// Returns the state of each namespace, by name; none for an informer with one reflector.
    pub(super) fn namespace_statuses(&self) -> BTreeMap<String, NamespaceStatus> {
        let Some(scoped) = &self.scoped else { return BTreeMap::new() };
        let status = |(name, state): (&Arc<str>, &ScopeState)| {
            let status = NamespaceStatus {
                has_synced: state.is_listed,
                forbidden: state.forbidden.clone(),
                store_resource_version: self.table.scope_version(name).as_str().to_owned(),
                reflector: state.reflector.report(),
            };
            (name.to_string(), status)
        };
        scoped.states.borrow().by_name.iter().map(status).collect()
    }
}

/// Returns the sum of the reports of several namespaces. Its error is that of the namespaces that have not synced, if there are any.
pub(super) fn merged_report(namespaces: &BTreeMap<String, NamespaceStatus>, version: String) -> ReflectorReport {
    let reports = namespaces.values().map(|namespace| &namespace.reflector);
    sum_of(reports, version, last_error(namespaces))
}

/// Returns the sum of the reports of several reflectors.
pub(super) fn sum_of<'a>(
    reports: impl Iterator<Item = &'a ReflectorReport> + Clone,
    version: String,
    last_error: Option<LastError>,
) -> ReflectorReport {
    let reports = || reports.clone();
    let sum = |count: fn(&ReflectorReport) -> u64| reports().map(count).sum();
    let first = |is_phase: fn(&ReflectorPhase) -> bool| reports().map(|report| report.phase).find(is_phase);
    // A phase that shows what the informer waits for comes first.
    let phase = first(|phase| matches!(phase, ReflectorPhase::Waiting { .. }))
        .or_else(|| first(|phase| *phase == ReflectorPhase::Listing))
        .or_else(|| first(|phase| *phase == ReflectorPhase::Watching));
    ReflectorReport {
        phase: phase.unwrap_or_default(),
        last_sync_resource_version: version,
        lists: sum(|report| report.lists),
        watches: sum(|report| report.watches),
        short_watches: sum(|report| report.short_watches),
        syncs: sum(|report| report.syncs),
        decode_failures: sum(|report| report.decode_failures),
        failures: sum(|report| report.failures),
        last_error,
        stalls: sum(|report| report.stalls),
        listed: reports().map(|report| report.listed).sum(),
        // That of the quietest: a watch that is stuck is not hidden by others.
        last_received: reports().filter_map(|report| report.last_received).min(),
        is_watch_list_unavailable: reports().any(|report| report.is_watch_list_unavailable),
    }
}

/// The number of namespaces that an error names.
const NAMED: usize = 10;

/// Returns the errors of the namespaces that have not synced, or else the last error.
fn last_error(namespaces: &BTreeMap<String, NamespaceStatus>) -> Option<LastError> {
    let errors =
        || namespaces.iter().filter_map(|(name, status)| Some((name, status, status.reflector.last_error.as_ref()?)));
    let blocking: Vec<_> = errors().filter(|(_, status, _)| !status.has_synced).collect();
    let Some(at) = blocking.iter().map(|(_, _, error)| error.at).max() else {
        let (name, status, error) = errors().max_by_key(|(_, _, error)| error.at)?;
        return Some(LastError { message: status.trouble(name)?, at: error.at });
    };
    let mut texts: Vec<_> = blocking.iter().take(NAMED).filter_map(|(name, status, _)| status.trouble(name)).collect();
    if blocking.len() > NAMED {
        texts.push(format!("{} more namespaces", blocking.len() - NAMED));
    }
    Some(LastError { message: texts.join("; "), at })
}
