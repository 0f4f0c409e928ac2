//! Compares the initial events of a WatchList with a list of the same version.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::{ObjectKey, ResourceVersion};
use tokio::time::{Instant, sleep};

use super::error::ReflectorError;
use super::shards::Shards;
use crate::Object;
use crate::source::{ListPart, ListRequest, ListerWatcher, SourceError};

/// The pause after a failed list.
const PAUSE: Duration = Duration::from_secs(1);

/// The uid and resource version of objects, by key.
pub(super) type ObjectVersions = HashMap<ObjectKey, (String, String)>;

/// A check in progress. Resolves to the difference, if there is one.
pub(super) type ConsistencyCheck = Pin<Box<dyn Future<Output = Option<ReflectorError>> + Send>>;

pub(super) fn version_of(object: &Object) -> (String, String) {
    (object.uid().to_owned(), object.resource_version().to_owned())
}

/// Compares streamed objects with a list of exactly the same version. A failed list is retried until it succeeds, or until the
/// version has expired: then the check is given up.
pub(super) fn check(
    source: Arc<dyn ListerWatcher>,
    shards: Option<Arc<Shards>>,
    version: ResourceVersion,
    streamed: ObjectVersions,
) -> Option<ConsistencyCheck> {
    if matches!(version.as_str(), "" | "0") {
        return None;
    }
    Some(Box::pin(async move {
        loop {
            match list(&*source, shards.as_deref(), version.as_str()).await {
                Ok(listed) => return compare(version.as_str(), &streamed, &listed),
                Err(error) if error.is_expired() => return None,
                Err(_) => sleep(PAUSE).await,
            }
        }
    }))
}

/// Lists the objects in range. A refused shard selector is not sent by the next list.
async fn list(
    source: &dyn ListerWatcher,
    shards: Option<&Shards>,
    version: &str,
) -> Result<ObjectVersions, SourceError> {
    let shard_selector = shards.and_then(|shards| shards.requested(Instant::now()));
    let request =
        ListRequest { is_exact: true, shard_selector: shard_selector.clone(), ..ListRequest::not_older_than(version) };
    let mut items = source.list(request).await.inspect_err(|error| {
        shards.map(|shards| shards.refused(error, shard_selector.as_ref(), Instant::now()));
    })?;
    let mut states = ObjectVersions::new();
    loop {
        match poll_fn(|context| items.poll_next(context)).await? {
            ListPart::Object(object) if shards.is_some_and(|shards| !shards.admits(object.header())) => {}
            ListPart::Object(object) => {
                states.insert(object.key().clone(), version_of(&object));
            }
            ListPart::Unreadable(_) => {}
            ListPart::End { .. } => return Ok(states),
        }
    }
}

fn compare(version: &str, streamed: &ObjectVersions, listed: &ObjectVersions) -> Option<ReflectorError> {
    let missing = listed.keys().filter(|key| !streamed.contains_key(*key)).count();
    let extra = streamed.keys().filter(|key| !listed.contains_key(*key)).count();
    let differs =
        |(key, state): &(&ObjectKey, &(String, String))| listed.get(*key).is_some_and(|listed| listed != *state);
    let other = streamed.iter().filter(differs).count();
    let is_same = missing + extra + other == 0;
    (!is_same).then(|| ReflectorError::Inconsistent { version: version.to_owned(), missing, extra, other })
}
