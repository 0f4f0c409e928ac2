//! [`Relay`]: forwards local connections, and backs off while the server cannot be reached.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_base::{Backoff, BackoffState};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::PortForward;
use super::stream::PortStream;
use crate::error::Error;
use crate::remote::SessionError;

/// How long a local connection waits for the server. The last attempt starts before that.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// How long one attempt may take.
pub(super) const ATTEMPT_LIMIT: Duration = Duration::from_secs(30);
/// The pauses between attempts while the server cannot be reached.
const BACKOFF: Backoff = Backoff {
    initial: Duration::from_millis(100),
    factor: 2.0,
    cap: Duration::from_secs(5),
    jitter: 0.5,
    reset_after: Duration::ZERO,
};
/// How long the pod may send nothing after the local side has ended, if the protocol cannot tell the pod about that end.
pub(super) const LINGER: Duration = Duration::from_secs(30);
/// The size of the buffer of one direction.
const BUFFER: usize = 64 * 1024;

/// The error of a local connection that was forwarded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// No stream to the port could be opened.
    #[error("cannot forward the connection of {peer} to port {port}: {source}")]
    Connect {
        /// The address of the local client.
        peer: SocketAddr,
        /// The port of the pod.
        port: u16,
        /// What happened.
        source: Error,
    },
    /// The connection failed. For an error of the port, the source contains a
    /// [`PortForwardError`](super::PortForwardError).
    #[error("the connection of {peer} to port {port} failed: {source}")]
    Connection {
        /// The address of the local client.
        peer: SocketAddr,
        /// The port of the pod.
        port: u16,
        /// What happened.
        source: io::Error,
    },
}

/// Forwards local connections to a pod.
pub(super) struct Relay {
    forward: PortForward,
    on_error: Arc<dyn Fn(&ForwardError) + Send + Sync>,
    /// Whether the last attempt to reach the server failed.
    is_failing: AtomicBool,
    /// Held by the one attempt that is made while the server cannot be reached.
    attempts: Mutex<Attempts>,
}

/// The failures of attempts, and when the next one may start.
struct Attempts {
    backoff: BackoffState,
    next: Option<Instant>,
    /// When the server was last reached after a failure.
    reached: Option<Instant>,
}

impl Relay {
    pub(super) fn new(forward: PortForward, on_error: Arc<dyn Fn(&ForwardError) + Send + Sync>) -> Self {
        let attempts = Attempts { backoff: BackoffState::new(BACKOFF), next: None, reached: None };
        Relay { forward, on_error, is_failing: AtomicBool::new(false), attempts: Mutex::new(attempts) }
    }

    pub(super) fn pod(&self) -> &str {
        self.forward.pod()
    }

    /// Forwards a local connection until it ends. Reports its error.
    pub(super) async fn forward<L>(&self, local: L, peer: SocketAddr, port: u16)
    where
        L: AsyncRead + AsyncWrite + Unpin,
    {
        let forwarded = match self.connect(port).await {
            Ok(stream) => copy(local, stream).await.map_err(|source| ForwardError::Connection { peer, port, source }),
            Err(source) => Err(ForwardError::Connect { peer, port, source }),
        };
        if let Err(error) = forwarded {
            tracing::warn!(pod = self.pod(), port, %error, "forwarded connection failed");
            (self.on_error)(&error);
        }
    }

    /// Opens a stream. While the server cannot be reached, one attempt at a time is made, after a backoff.
    pub(super) async fn connect(&self, port: u16) -> Result<PortStream, Error> {
        let deadline = Instant::now() + CONNECT_LIMIT;
        loop {
            if !self.is_failing.load(Ordering::Acquire) {
                let started = Instant::now();
                match self.attempt(port).await {
                    Err(error) if is_temporary(&error) => {
                        let mut attempts = self.attempts.lock().await;
                        // A concurrent attempt may have failed already, or reached the server since.
                        let is_known = self.is_failing.load(Ordering::Acquire);
                        if !is_known && attempts.reached.is_none_or(|reached| reached <= started) {
                            self.failed(&mut attempts);
                        }
                        if Instant::now() >= deadline {
                            return Err(error);
                        }
                        tracing::debug!(pod = self.pod(), port, %error, "cannot reach the server; retrying");
                        continue;
                    }
                    result => return result,
                }
            }
            let Ok(mut attempts) = timeout_at(deadline, self.attempts.lock()).await else {
                return self.attempt(port).await;
            };
            // Another connection may have reached the server in the meantime.
            if !self.is_failing.load(Ordering::Acquire) {
                continue;
            }
            if let Some(next) = attempts.next {
                sleep_until(next.min(deadline)).await;
            }
            let result = self.attempt(port).await;
            match &result {
                Err(error) if is_temporary(error) => {
                    self.failed(&mut attempts);
                    if Instant::now() >= deadline {
                        return result;
                    }
                }
                // Also an error that will not change: the server was reached.
                _ => {
                    self.is_failing.store(false, Ordering::Release);
                    attempts.reached = Some(Instant::now());
                    attempts.backoff.reset();
                    return result;
                }
            }
        }
    }

    /// Checks that the server forwards ports of the pod, without retries.
    pub(super) async fn reach(&self, port: u16) -> Result<(), Error> {
        self.within_limit(self.forward.transport.reach(port)).await
    }

    /// Opens a stream, without retries.
    async fn attempt(&self, port: u16) -> Result<PortStream, Error> {
        self.within_limit(self.forward.connect(port)).await
    }

    async fn within_limit<T>(&self, attempt: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let timed_out =
            || Error::Timeout { request: self.forward.request_name().clone(), limit: ATTEMPT_LIMIT, previous: None };
        timeout(ATTEMPT_LIMIT, attempt).await.unwrap_or_else(|_| Err(timed_out()))
    }

    fn failed(&self, attempts: &mut Attempts) {
        let now = Instant::now();
        let wait = attempts.backoff.failed(now.into_std(), fastrand::f64());
        attempts.next = Some(now + wait);
        self.is_failing.store(true, Ordering::Release);
    }
}

/// Returns whether the same request may succeed later.
fn is_temporary(error: &Error) -> bool {
    match error {
        Error::Transport { .. } | Error::Timeout { .. } => true,
        Error::Session { source: SessionError::Tunnel(_) | SessionError::ReplyTimeout { .. }, .. } => true,
        Error::Api { status, .. } => status.code >= 500 || status.code == 429,
        _ => false,
    }
}

/// Copies in both directions until the pod ends the connection.
///
/// The end of the local side is passed on. If the protocol cannot do that, the connection ends when the pod has sent nothing for
/// [`LINGER`].
pub(super) async fn copy<L>(local: L, stream: PortStream) -> io::Result<()>
where
    L: AsyncRead + AsyncWrite + Unpin,
{
    let half_close = stream.has_half_close();
    let (mut from_local, mut to_local) = split(local);
    let (mut from_pod, mut to_pod) = split(stream);
    let local_end = Notify::new();
    let upload = async {
        let mut buffer = vec![0; BUFFER];
        loop {
            let length = from_local.read(&mut buffer).await?;
            let data = buffer.get(..length).unwrap_or_default();
            let written = if data.is_empty() { to_pod.shutdown().await } else { to_pod.write_all(data).await };
            if data.is_empty() {
                local_end.notify_one();
            }
            // After an error of a write the download decides: the pod may have sent data, or an error, before it.
            if data.is_empty() || written.is_err() {
                return std::future::pending::<io::Result<Infallible>>().await;
            }
        }
    };
    let download = async {
        let mut buffer = vec![0; BUFFER];
        let mut is_lingering = false;
        loop {
            let length = tokio::select! {
                length = from_pod.read(&mut buffer) => length?,
                () = local_end.notified(), if !half_close && !is_lingering => {
                    is_lingering = true;
                    continue;
                }
                () = sleep(LINGER), if is_lingering => 0,
            };
            match buffer.get(..length) {
                None | Some([]) => return to_local.shutdown().await,
                Some(data) => to_local.write_all(data).await?,
            }
        }
    };
    tokio::select! {
        result = download => result,
        failed = upload => failed.map(|never| match never {}),
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("forward", &self.forward).finish_non_exhaustive()
    }
}
