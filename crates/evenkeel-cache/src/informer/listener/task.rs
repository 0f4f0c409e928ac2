//! Calls a handler with what there is to tell, one thing after the other.

use std::any::Any;
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

/// How many notifications a handler may have yet to hear before it matters how long one takes.
const BACKLOG: usize = 1024;
/// What is a long time for a call.
const SLOW: Duration = Duration::from_millis(100);

/// A handler that does not know of what kind its objects are.
pub(crate) type Callback = Box<dyn FnMut(Event<Untyped>) + Send>;

/// Tells the handler until there is nothing more to tell. The runtime is let go every now and then, however much there is.
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

/// The same on a thread that may be blocked. The runtime is entered only to wait, so that the handler may do so too.
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

/// Makes one call, if it may be made; answers whether more may follow.
fn call(listener: &Listener, callback: &mut Callback, event: Event<Untyped>) -> bool {
    if !listener.begin_call() {
        return false;
    }
    let key = event.key().clone();
    listener.observers.notify(InformerEvent::HandlerCalled { handler: &listener.name, event: &event });
    // Only of a handler that is far behind it matters how long it takes.
    let began = is_far_behind(listener.pending()).then(Instant::now);
    // A handler that panicked is called again only if its owner says that it can bear it.
    let outcome = catch_unwind(AssertUnwindSafe(|| callback(event)));
    listener.observers.notify(InformerEvent::HandlerReturned {
        handler: &listener.name,
        key: &key,
        panicked: outcome.is_err(),
    });
    let mut more = listener.end_call();
    if let Some(took) = began.map(|began| began.elapsed()).filter(|took| is_slow(*took)) {
        let (handler, pending) = (&*listener.name, listener.pending());
        tracing::warn!(handler, %key, ?took, pending, "a handler is slow and far behind");
    }
    if let Err(panic) = outcome {
        listener.panicked();
        let message = message(&*panic);
        match listener.on_panic {
            OnPanic::Continue => {
                tracing::error!(handler = listener.name, %key, message, "a handler panicked; the next notification follows");
            }
            OnPanic::Remove => {
                tracing::error!(handler = listener.name, %key, message, "a handler panicked; it is removed");
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

fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests;
