//! [`wait_for`]: waits until an object meets a condition.

use std::future::Future;
use std::time::Duration;

use evenkeel_core::{Obj, Status, WatchEvent};
use tokio::time::{Instant, sleep_until};

use super::condition_state::{ConditionState, WaitError};
use super::poll::Pace;
use crate::api::Api;
use crate::api::scope::Addressable;
use crate::error::Error;
use crate::rest::List;
use crate::retry::{Backoff, server_retry_delay};
use crate::transport::TransportFault;
use crate::watch::{RetryWatcher, Selection, WatchSource};

/// The minimal interval between reads of the object.
const READ_PACE: Pace = Pace::Fixed(Duration::from_secs(1));
/// The backoff after failed reads. It grows up to the cap and stays there.
pub(super) const READ_BACKOFF: Backoff = Backoff {
    duration: Duration::from_millis(500),
    factor: 2.0,
    jitter: 0.5,
    steps: u32::MAX,
    cap: Some(Duration::from_secs(30)),
};

/// A source of watches that can also list. [`Selection`] is one.
pub trait ListSource<K>: WatchSource<K> {
    /// A list that is being read.
    type Listing: Future<Output = Result<List<K>, Error>>;

    /// Lists the objects, with the version to watch from.
    fn list(&self) -> Self::Listing;
}

/// Waits until the object of this name meets `condition`, and returns it; `None` if it does not exist, which may be the
/// condition.
///
/// The condition receives the current object, and then every change; it receives `None` while the object does not
/// exist. It returns a boolean or a [`ConditionState`]. Disconnects, overloaded or restarting servers and expired
/// versions are survived: the object is then read again. The condition never receives an older state than before, but
/// may miss states in between. See [`conditions`](super::conditions).
///
/// There is no time limit; use [`tokio::time::timeout`]. Dropping the future ends the wait. It needs the permissions
/// to `list` and `watch` the object.
///
/// ```
/// # async fn example(client: evenkeel_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use evenkeel_client::wait::conditions::pod_ready;
/// use evenkeel_client::wait_for;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pods = client.api::<Pod>().namespace("default");
/// let ready = tokio::time::timeout(Duration::from_secs(60), wait_for(&pods, "web-0", pod_ready()));
/// let pod = ready.await??;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`WaitError::Never`]: the condition can no longer be met. Otherwise retrying cannot help: the request is invalid or
/// not allowed, or the server does not serve the kind.
pub async fn wait_for<K: 'static, S: Addressable, C: Into<ConditionState>>(
    api: &Api<K, S>,
    name: &str,
    condition: impl FnMut(Option<&Obj<K>>) -> C,
) -> Result<Option<Obj<K>>, WaitError> {
    wait_until(Selection::named(api, name)?, condition).await
}

/// [`wait_for`] with any source of at most one object.
///
/// # Errors
/// As [`wait_for`].
pub async fn wait_until<K, W: ListSource<K>, C: Into<ConditionState>>(
    source: W,
    condition: impl FnMut(Option<&Obj<K>>) -> C,
) -> Result<Option<Obj<K>>, WaitError> {
    match wait_while_pending(source, condition).await? {
        (object, ConditionState::Never(reason)) => {
            let object = object.map_or_else(|| "the object".to_owned(), |it| format!("{} {}", it.kind(), it.key()));
            Err(WaitError::Never { object, reason })
        }
        (object, _) => Ok(object),
    }
}

/// Waits until the condition is not pending, and returns the object with the state.
pub(crate) async fn wait_while_pending<K, W: ListSource<K>, C: Into<ConditionState>>(
    mut source: W,
    mut condition: impl FnMut(Option<&Obj<K>>) -> C,
) -> Result<(Option<Obj<K>>, ConditionState), Error> {
    loop {
        let (started, list) = read(&source).await?;
        let object = list.items.into_iter().next();
        let state = condition(object.as_ref()).into();
        if !state.is_pending() {
            return Ok((object, state));
        }
        // An expired version is read again at once.
        let mut changes = RetryWatcher::new(&list.meta.resource_version, source)?.expired_attempts(1);
        let ended = loop {
            let object = match changes.next().await {
                Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Some(object),
                Some(WatchEvent::Deleted(_)) => None,
                Some(WatchEvent::Bookmark { .. }) => continue,
                Some(WatchEvent::Error(status)) => break Some(status),
                None => break None,
            };
            let state = condition(object.as_ref()).into();
            if !state.is_pending() {
                return Ok((object, state));
            }
        };
        let (old, failure) = changes.into_parts();
        match failure {
            Some(error) if !error.status().is_some_and(Status::is_expired) => return Err(error),
            _ => tracing::debug!(status = ?ended, "watch ended; reading the object again"),
        }
        source = old;
        sleep_until(READ_PACE.next_start(started, Instant::now())).await;
    }
}

/// Reads the current state, with retries. Returns it with the time at which the read started.
async fn read<K, W: ListSource<K>>(source: &W) -> Result<(Instant, List<K>), Error> {
    let mut backoff = READ_BACKOFF;
    loop {
        let started = Instant::now();
        match source.list().await {
            Ok(list) => return Ok((started, list)),
            Err(error) if is_passing(&error) => {
                let requested = error.status().map(server_retry_delay).unwrap_or_default();
                let wait = backoff.step(fastrand::f64()).max(requested);
                tracing::warn!(%error, ?wait, "reading the object failed; retrying");
                tokio::time::sleep(wait).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether a retry may succeed.
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
