//! [`wait_for`]: waiting until an object is as it is wanted.

use std::future::Future;
use std::time::Duration;

use evenkeel_core::{Obj, Status, WatchEvent};
use tokio::time::{Instant, sleep_until};

use super::poll::Pace;
use crate::api::Api;
use crate::api::scope::Addressable;
use crate::error::Error;
use crate::rest::List;
use crate::retry::{Backoff, asked_by};
use crate::transport::TransportFault;
use crate::watch::{RetryWatcher, Selection, WatchSource};

/// The present is read at most this often.
const READ_PACE: Pace = Pace::Fixed(Duration::from_secs(1));
/// Between attempts to read the present that fail. It grows up to the cap and stays there.
const READ_BACKOFF: Backoff = Backoff {
    duration: Duration::from_millis(500),
    factor: 2.0,
    jitter: 0.5,
    steps: u32::MAX,
    cap: Some(Duration::from_secs(30)),
};

/// A source of watches that can also tell the present. See [`Selection`], which is one.
pub trait ListSource<K>: WatchSource<K> {
    /// A list that is being read.
    type Listing: Future<Output = Result<List<K>, Error>>;

    /// Reads the objects that are there, and the version from which to watch.
    fn list(&self) -> Self::Listing;
}

/// Waits until the object of this name is as `condition` wants it, and answers with it; `None` if it is not there, which
/// may be what the condition wants.
///
/// The condition is asked about the object as it is now, and then about every change; it sees `None` while the object is
/// not there. Disconnects, servers that are overloaded or restart, and versions that are too old to watch from are
/// survived: the object is then read again, so that the state which the condition sees is always a newer one, but states
/// in between may have been missed. There are ready-made [`conditions`](super::conditions).
///
/// It waits for as long as it takes; [`tokio::time::timeout`] limits it.
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use evenkeel_client::wait::conditions::condition_true;
/// use evenkeel_client::wait_for;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pods = client.api::<Pod>().namespace("default");
/// let ready = tokio::time::timeout(Duration::from_secs(60), wait_for(&pods, "web-0", condition_true("Ready")));
/// let pod = ready.await??;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When asking again would be no use: the request makes no sense, or is not allowed.
pub async fn wait_for<K: 'static, S: Addressable>(
    api: &Api<K, S>,
    name: &str,
    condition: impl FnMut(Option<&Obj<K>>) -> bool,
) -> Result<Option<Obj<K>>, Error> {
    wait_until(Selection::named(api, name)?, condition).await
}

/// [`wait_for`] with any source that shows at most one object.
pub async fn wait_until<K, W: ListSource<K>>(
    mut source: W,
    mut condition: impl FnMut(Option<&Obj<K>>) -> bool,
) -> Result<Option<Obj<K>>, Error> {
    loop {
        let (started, list) = read(&source).await?;
        let object = list.items.into_iter().next();
        if condition(object.as_ref()) {
            return Ok(object);
        }
        // What is too old to watch from is read again, so there is nothing to insist on.
        let mut changes = RetryWatcher::new(&list.meta.resource_version, source)?.expired_attempts(1);
        let ended = loop {
            let object = match changes.next().await {
                Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Some(object),
                Some(WatchEvent::Deleted(_)) => None,
                Some(WatchEvent::Bookmark { .. }) => continue,
                Some(WatchEvent::Error(status)) => break Some(status),
                None => break None,
            };
            if condition(object.as_ref()) {
                return Ok(object);
            }
        };
        let (old, failure) = changes.into_parts();
        match failure {
            Some(error) if !error.status().is_some_and(Status::is_expired) => return Err(error),
            _ => tracing::debug!(status = ?ended, "the watch cannot go on; the object is read again"),
        }
        source = old;
        sleep_until(READ_PACE.next_start(started, Instant::now())).await;
    }
}

/// Reads the present, however often that takes, and says when it began to.
async fn read<K, W: ListSource<K>>(source: &W) -> Result<(Instant, List<K>), Error> {
    let mut backoff = READ_BACKOFF;
    loop {
        let started = Instant::now();
        match source.list().await {
            Ok(list) => return Ok((started, list)),
            Err(error) if is_passing(&error) => {
                let asked = error.status().map(asked_by).unwrap_or_default();
                let wait = backoff.step(fastrand::f64()).max(asked);
                tracing::warn!(%error, ?wait, "the object cannot be read; trying again");
                tokio::time::sleep(wait).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether the same request may fare better later.
fn is_passing(error: &Error) -> bool {
    match error {
        Error::Transport { source, .. } => !matches!(
            source.fault(),
            TransportFault::Tls | TransportFault::Credentials | TransportFault::Proxy | TransportFault::Protocol
        ),
        Error::Timeout { .. } | Error::RateLimited { .. } => true,
        Error::Retry(retry) => retry.error().is_some_and(is_passing),
        _ => error.status().is_some_and(|status| {
            status.code >= 500 || status.is_too_many_requests() || status.is_server_timeout() || status.is_expired()
        }),
    }
}

#[cfg(test)]
mod tests;
