//! The task of a handler: calls it with each notification.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::Untyped;
use tokio::time::Instant;

use super::super::observe::InformerEvent;
use super::Listener;
use crate::Event;
use crate::handler::OnPanic;
use crate::informer::observe::Notify;

/// The number of pending notifications from which on slow calls are logged.
const BACKLOG: usize = 1024;
/// The duration of a slow call.
const SLOW: Duration = Duration::from_millis(100);

/// A handler of untyped objects.
pub(crate) type Callback = Box<dyn FnMut(Event<Untyped>) + Send>;

/// Calls the handler until its listener stops. Yields to the runtime regularly.
pub(crate) async fn run(listener: Arc<Listener>, mut callback: Callback) {
    'listening: while let Some(work) = listener.next().await {
        for event in work.events() {
            if !call(&listener, &mut callback, event.clone()) {
                break 'listening;
            }
            tokio::task::coop::consume_budget().await;
        }
        work.done(&listener);
    }
    listener.revoke();
}

/// The same on a thread that may block. The runtime is entered only to wait, so that the handler may enter it too.
pub(crate) fn run_blocking(listener: &Listener, mut callback: Callback, runtime: &tokio::runtime::Handle) {
    'listening: while let Some(work) = runtime.block_on(listener.next()) {
        for event in work.events() {
            if !call(listener, &mut callback, event.clone()) {
                break 'listening;
            }
        }
        work.done(listener);
    }
    listener.revoke();
}

/// Makes one call if it is permitted. Returns whether more may follow.
fn call(listener: &Listener, callback: &mut Callback, event: Event<Untyped>) -> bool {
    if !listener.begin_call() {
        return false;
    }
    let key = event.key().clone();
    listener.observers.notify(InformerEvent::HandlerCalled { handler: &listener.name, event: &event });
    // The time is measured only for handlers that lag far behind.
    let started = is_far_behind(listener.pending()).then(Instant::now);
    // `OnPanic` decides whether the handler is called again.
    let outcome = catch_unwind(AssertUnwindSafe(|| callback(event)));
    listener.observers.notify(InformerEvent::HandlerReturned {
        handler: &listener.name,
        key: &key,
        panicked: outcome.is_err(),
    });
    let mut more = listener.end_call();
    if let Some(took) = started.map(|started| started.elapsed()).filter(|took| is_slow(*took)) {
        let (handler, pending) = (&*listener.name, listener.pending());
        tracing::warn!(handler, %key, ?took, pending, "handler is slow and lags behind");
    }
    if let Err(panic) = outcome {
        listener.panicked();
        let message = crate::panic_message(&*panic);
        match listener.on_panic {
            OnPanic::Continue => {
                tracing::error!(handler = listener.name, %key, message, "handler panicked; continuing with the next notification");
            }
            OnPanic::Remove => {
                tracing::error!(handler = listener.name, %key, message, "handler panicked; removed");
                listener.revoke();
                more = false;
            }
        }
    }
    more
}

fn is_far_behind(pending: usize) -> bool {
    pending > BACKLOG
}

fn is_slow(call: Duration) -> bool {
    call > SLOW
}

#[cfg(test)]
mod tests;
