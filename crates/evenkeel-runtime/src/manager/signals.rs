//! Signals of the operating system.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::stop_signal::StopSignal;

/// Comes true with the first `SIGTERM` or `SIGINT`. The second ends the process at once, with exit code 1: whoever presses
/// Ctrl-C twice means it.
///
/// From the call on, these signals do not end the process by themselves.
///
/// # Errors
/// If it was called before, since there is one set of signals in a process; or if the operating system refuses.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn shutdown_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    static CALLED: AtomicBool = AtomicBool::new(false);
    if CALLED.swap(true, Ordering::SeqCst) {
        return Err(io::Error::other("the signals of the process have been asked for already"));
    }
    let mut signals = Signals::new()?;
    let (give, stop) = StopSignal::new();
    tokio::spawn(async move {
        signals.next().await;
        tracing::info!("told to end; a second time ends it at once");
        give.send_replace(true);
        signals.next().await;
        tracing::error!("told to end for the second time");
        std::process::exit(1);
    });
    Ok(stop.requested())
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
