//! The consistency check: compares the store of an informer with a list of exactly its version.
//!
//! [`StoreDigest`] compares, without I/O. [`ConsistencyChecker`] lists, on demand and at intervals, in the driver task: once for the
//! store, or once for each of several namespaces.

mod digest;
mod parts;

use std::fmt;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::shard::ShardSelector;
use evenkeel_core::{ObjectKey, ResourceInfo, StreamError, Untyped};
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout};

use self::digest::{EXAMPLES, StoreDigest};
use self::parts::{CheckPart, PartFilter};
pub(super) use self::parts::{CheckParts, CheckedRanges, CheckedScopes, WholeStore};
use super::metrics::count_consistency_check;
use super::shared::InformerShared;
use crate::reflector::limits::{ListLimits, PageProgress};
use crate::reflector::shards::Shards;
use crate::reflector::{SinkRequest, Transform};
use crate::source::{ListPart, ListRequest, ListerWatcher, SourceError};
use crate::{Indexer, Object};

/// The page size of the list.
const PAGE: u32 = 500;
/// The longest duration of a check.
const TIME_LIMIT: Duration = Duration::from_secs(300);
/// The number of objects that are processed before the task yields.
const YIELD_AFTER: usize = 1000;
/// The number of calls that may wait for a check; further ones wait for those.
const MAX_REQUESTS: usize = 64;

/// The result of a [consistency check](crate::SharedInformer::check_consistency).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsistencyReport {
    /// The resource version of the store that was compared; empty if there was none.
    pub resource_version: String,
    /// The number of stored objects that were compared.
    pub objects: usize,
    /// The outcome.
    pub outcome: ConsistencyOutcome,
}

/// The outcome of a consistency check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsistencyOutcome {
    /// The store has the objects of the list, in the same state.
    Consistent,
    /// The store differs from the list. The informer relists.
    Inconsistent {
        /// The number of objects that only the list has.
        missing: usize,
        /// The number of objects that only the store has.
        extra: usize,
        /// The number of objects in another state.
        different: usize,
        /// The keys of up to ten of them.
        examples: Vec<ObjectKey>,
    },
    /// The store could not be compared, for example because the server no longer has its version.
    Inconclusive {
        /// Why.
        reason: String,
    },
}

impl ConsistencyReport {
    pub(super) fn inconclusive(resource_version: String, objects: usize, reason: String) -> Self {
        ConsistencyReport { resource_version, objects, outcome: ConsistencyOutcome::Inconclusive { reason } }
    }

    /// Adds the report of another namespace. A difference outweighs a namespace that could not be compared.
    fn add(&mut self, other: ConsistencyReport) {
        self.objects += other.objects;
        match (&mut self.outcome, other.outcome) {
            (_, ConsistencyOutcome::Consistent) => {}
            (
                ConsistencyOutcome::Inconsistent { missing, extra, different, examples },
                ConsistencyOutcome::Inconsistent { missing: m, extra: e, different: d, examples: more },
            ) => {
                *missing += m;
                *extra += e;
                *different += d;
                examples.extend(more);
                examples.truncate(EXAMPLES);
            }
            (ConsistencyOutcome::Inconsistent { .. }, ConsistencyOutcome::Inconclusive { .. }) => {}
            (ConsistencyOutcome::Inconclusive { .. }, ConsistencyOutcome::Inconclusive { .. }) => {}
            (own, other) => *own = other,
        }
    }
}

impl fmt::Display for ConsistencyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConsistencyReport { resource_version, objects, outcome } = self;
        match outcome {
            ConsistencyOutcome::Consistent => write!(f, "consistent: {objects} objects at version {resource_version}"),
            ConsistencyOutcome::Inconsistent { missing, extra, different, .. } => write!(
                f,
                "inconsistent: of {objects} objects at version {resource_version}, {missing} missing, {extra} extra, \
                 {different} in another state"
            ),
            ConsistencyOutcome::Inconclusive { reason } => write!(f, "inconclusive: {reason}"),
        }
    }
}

/// A request for a check. Receives the report.
pub(super) type CheckRequest = oneshot::Sender<ConsistencyReport>;

/// Returns the channel of the requests.
pub(super) fn requests() -> (mpsc::Sender<CheckRequest>, mpsc::Receiver<CheckRequest>) {
    mpsc::channel(MAX_REQUESTS)
}

/// Checks the store of an informer.
pub(super) struct ConsistencyChecker {
    pub(super) resource: Arc<ResourceInfo>,
    pub(super) transform: Option<Transform>,
    pub(super) limits: ListLimits,
    /// The places of the stored objects; `None` for all objects.
    pub(super) shards: Option<Arc<Shards>>,
    /// `None` for checks on demand only.
    pub(super) interval: Option<Duration>,
}

impl ConsistencyChecker {
    /// Checks on demand and at intervals, until the future is dropped.
    pub(super) async fn run(
        self,
        shared: &InformerShared,
        mut requests: mpsc::Receiver<CheckRequest>,
        parts: &dyn CheckParts,
    ) {
        let mut next = self.next_check();
        loop {
            let mut waiting = Vec::new();
            tokio::select! {
                biased;
                request = requests.recv() => match request {
                    Some(request) => waiting.push(request),
                    // The informer has the sender, so this does not happen while it runs.
                    None => return pending().await,
                },
                () = sleep_until_some(next) => next = self.next_check(),
            }
            while let Ok(request) = requests.try_recv() {
                waiting.push(request);
            }
            let report = self.check(shared, parts).await;
            publish(shared, &report);
            for request in waiting {
                // The caller may have dropped its future.
                let _ = request.send(report.clone());
            }
        }
    }

    fn next_check(&self) -> Option<Instant> {
        let interval = self.interval?;
        Instant::now().checked_add(interval.saturating_add(interval.mul_f64(0.1 * fastrand::f64())))
    }

    /// Checks all parts of the store, one after the other.
    async fn check(&self, shared: &InformerShared, parts: &dyn CheckParts) -> ConsistencyReport {
        if !shared.lifecycle().synced {
            return ConsistencyReport::inconclusive(String::new(), 0, "the informer has not synced".to_owned());
        }
        let mut total: Option<ConsistencyReport> = None;
        for name in parts.names() {
            let Some(part) = parts.part(&name) else { continue };
            let report = self.check_part(shared, part).await;
            match &mut total {
                None => total = Some(report),
                Some(total) => {
                    total.add(report);
                    // Each namespace has its own.
                    total.resource_version = shared.table.version().as_str().to_owned();
                }
            }
        }
        total.unwrap_or_else(|| ConsistencyReport::inconclusive(String::new(), 0, parts.why_none().to_owned()))
    }

    /// Checks one part of the store. Requests a relist if it is inconsistent.
    async fn check_part(&self, shared: &InformerShared, part: CheckPart) -> ConsistencyReport {
        let CheckPart { source, repairs, snapshot, version, filter, shards } = part;
        let shards = shards.as_ref().or(self.shards.as_ref());
        let stored: Box<dyn Iterator<Item = &Object> + Send> = match &filter {
            PartFilter::Whole => Box::new(snapshot.iter()),
            PartFilter::Scope(scope) => Box::new(snapshot.in_scope(scope)),
            PartFilter::Places(places) => Box::new(snapshot.in_places(places)),
        };
        let mut digest = StoreDigest::with_capacity(stored.size_hint().0);
        let mut objects = 0;
        for object in stored {
            objects += 1;
            digest.add(object);
            if objects % YIELD_AFTER == 0 {
                yield_now().await;
            }
        }
        // It must not keep objects in memory during the list.
        drop(snapshot);
        let place = |reason: String| match &filter {
            PartFilter::Whole | PartFilter::Places(_) => reason,
            PartFilter::Scope(scope) => format!("in {}: {reason}", scope.describe()),
        };
        if matches!(version.as_str(), "" | "0") {
            return ConsistencyReport::inconclusive(version, objects, place("the store has no version".to_owned()));
        }
        // The name of a listed object may belong to a later one, whose place another stream fills.
        let is_elsewhere = |key: &ObjectKey| match &filter {
            PartFilter::Whole | PartFilter::Scope(_) => false,
            PartFilter::Places(places) => shared.table.get(key.as_str()).is_some_and(|stored| !places.contain(&stored)),
        };
        let compared = self.compare(&*source, shards, &is_elsewhere, &mut digest, &version);
        let compared = match timeout(TIME_LIMIT, compared).await {
            Ok(compared) => compared,
            Err(_) => Err(format!("the list took longer than {TIME_LIMIT:?}")),
        };
        if let Err(reason) = compared {
            return ConsistencyReport::inconclusive(version, objects, place(reason));
        }
        let outcome = digest.outcome(|| Indexer::<Untyped>::over(Arc::clone(&shared.table)).snapshot());
        if let ConsistencyOutcome::Inconsistent { missing, extra, different: other, .. } = outcome {
            // A full channel contains a request for a relist already.
            let _ = repairs.try_send(SinkRequest::Repair { version: version.clone(), missing, extra, other });
        }
        ConsistencyReport { resource_version: version, objects, outcome }
    }

    /// Compares the objects of the list with the digest, page by page.
    ///
    /// # Errors
    /// Why the list is inconclusive.
    async fn compare(
        &self,
        source: &dyn ListerWatcher,
        shards: Option<&Arc<Shards>>,
        is_elsewhere: &(dyn Fn(&ObjectKey) -> bool + Sync),
        digest: &mut StoreDigest,
        version: &str,
    ) -> Result<(), String> {
        let selector = shards.and_then(|shards| shards.requested(Instant::now()));
        let exactly = ListRequest {
            is_exact: true,
            limit: PAGE,
            shard_selector: selector.clone(),
            ..ListRequest::not_older_than(version)
        };
        let mut next = Some(exactly);
        let mut progress = PageProgress::default();
        let mut listed: usize = 0;
        while let Some(request) = next.take() {
            let is_first = request.continue_token.is_empty();
            let before = listed;
            let mut items = source
                .list(request)
                .await
                .map_err(|error| reason_of_refusal(&error, shards.map(|shards| &**shards), selector.as_ref()))?;
            let (found, token) = loop {
                match poll_fn(|context| items.poll_next(context)).await.map_err(|error| reason_of(&error))? {
                    ListPart::Object(object) => {
                        listed += 1;
                        if shards.is_some_and(|shards| !shards.admits(object.header())) {
                            continue;
                        }
                        self.compare_object(source, is_elsewhere, digest, object)?;
                    }
                    ListPart::Unreadable(StreamError::Object { key: Some(key), .. }) => {
                        listed += 1;
                        digest.ignore(&key);
                    }
                    ListPart::Unreadable(error) => return Err(format!("the list is unreadable: {error}")),
                    ListPart::End { resource_version, continue_token } => break (resource_version, continue_token),
                }
                if listed > self.limits.objects {
                    return Err(format!("the list has more than {} objects", self.limits.objects));
                }
                if listed.is_multiple_of(YIELD_AFTER) {
                    yield_now().await;
                }
            };
            if is_first && found.as_str() != version {
                return Err(format!("the server listed version {found} instead of {version}"));
            }
            if !token.is_empty() {
                progress.page(listed - before, &token).map_err(|error| error.to_string())?;
                let shard_selector = selector.clone();
                next =
                    Some(ListRequest { limit: PAGE, continue_token: token, shard_selector, ..ListRequest::default() });
            }
        }
        Ok(())
    }

    fn compare_object(
        &self,
        source: &dyn ListerWatcher,
        is_elsewhere: &(dyn Fn(&ObjectKey) -> bool + Sync),
        digest: &mut StoreDigest,
        object: Object,
    ) -> Result<(), String> {
        let is_metadata = source.is_metadata_only() && object.kind() == "PartialObjectMetadata";
        if !is_metadata
            && (object.kind() != self.resource.kind() || object.api_version() != self.resource.api_version())
        {
            return Err(format!("the list contains {} {}", object.api_version(), object.kind()));
        }
        if digest.matches(&object) {
            return Ok(());
        }
        let key = object.key().clone();
        if is_elsewhere(&key) {
            digest.ignore(&key);
            return Ok(());
        }
        // The store leaves out what the transform rejects.
        if let Some(transform) = &self.transform
            && crate::reflector::apply_transform(transform, object, None).is_err()
        {
            digest.ignore(&key);
            return Ok(());
        }
        digest.mismatch(key);
        Ok(())
    }
}

/// Logs, counts and stores a report.
fn publish(shared: &InformerShared, report: &ConsistencyReport) {
    let (informer, version) = (shared.name.as_str(), report.resource_version.as_str());
    let result = match &report.outcome {
        ConsistencyOutcome::Consistent => {
            tracing::debug!(informer, version, objects = report.objects, "store is consistent");
            "consistent"
        }
        ConsistencyOutcome::Inconsistent { missing, extra, different, examples } => {
            let examples: Vec<&str> = examples.iter().map(ObjectKey::as_str).collect();
            tracing::error!(
                informer,
                version,
                missing,
                extra,
                different,
                ?examples,
                "store differs from the server; relisting"
            );
            "inconsistent"
        }
        ConsistencyOutcome::Inconclusive { reason } => {
            tracing::debug!(informer, version, reason, "consistency check was inconclusive");
            "inconclusive"
        }
    };
    count_consistency_check(&shared.identity, result);
    shared.set_last_check(report.clone());
}

/// Returns why a refused list is inconclusive. A shard selector that is refused is not sent by the next check.
fn reason_of_refusal(error: &SourceError, shards: Option<&Shards>, selector: Option<&ShardSelector>) -> String {
    if let Some(shards) = shards {
        shards.refused(error, selector, Instant::now());
    }
    reason_of(error)
}

/// Returns why a failed list is inconclusive.
fn reason_of(error: &SourceError) -> String {
    if error.is_expired() { format!("the version has expired: {error}") } else { format!("failed to list: {error}") }
}

pub(crate) async fn sleep_until_some(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}
