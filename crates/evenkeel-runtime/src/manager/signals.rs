//! Signals of the operating system.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::stop_signal::StopSignal;

/// Signals that follow the first one within this time are duplicates of it.
const DUPLICATE_WINDOW: Duration = Duration::from_millis(100);

/// Resolves with the first `SIGTERM` or `SIGINT`. The second one ends the process at once, with exit code 1.
///
/// A signal within 100 ms of the first one is a duplicate, and is ignored: `timeout COMMAND` and some shells signal both the
/// process and its group.
///
/// From this call on, the two signals do not end the process by themselves.
///
/// # Errors
/// Returns an error if it was called before, because a process has one set of signals, or if the operating system refuses.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn shutdown_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    static CALLED: AtomicBool = AtomicBool::new(false);
    if CALLED.swap(true, Ordering::SeqCst) {
        return Err(io::Error::other("shutdown_signal was called before in this process"));
    }
    let mut signals = Signals::new()?;
    let (request, stop) = StopSignal::new();
    tokio::spawn(async move {
        let mut counter = SignalCounter::default();
        loop {
            signals.next().await;
            match counter.receive(Instant::now()) {
                SignalAction::Drain => {
                    tracing::info!("shutting down; signal again to force exit");
                    request.send_replace(true);
                }
                SignalAction::Ignore => tracing::debug!("ignored a duplicate of the first signal"),
                SignalAction::ForceExit => {
                    tracing::error!("second signal; exiting");
                    std::process::exit(1);
                }
            }
        }
    });
    Ok(stop.requested())
}

/// Decides what a signal does.
#[derive(Debug, Default)]
struct SignalCounter {
    first: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignalAction {
    Drain,
    Ignore,
    ForceExit,
}

impl SignalCounter {
    fn receive(&mut self, now: Instant) -> SignalAction {
        match self.first {
            None => {
                self.first = Some(now);
                SignalAction::Drain
            }
            Some(first) if now.saturating_duration_since(first) < DUPLICATE_WINDOW => SignalAction::Ignore,
            Some(_) => SignalAction::ForceExit,
        }
    }
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Signals)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests;
