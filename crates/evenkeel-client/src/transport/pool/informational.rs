//! [`InformationalLimit`]: the limit on informational (1xx) responses before a response.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hyper::Request;
use tokio::sync::Notify;

/// The maximal number of informational responses. Proxies send one or two.
const MAX: u32 = 100;

/// Counts the informational responses to one HTTP/1.1 request. hyper skips them without a limit.
#[derive(Clone, Default)]
pub(super) struct InformationalLimit(Arc<Count>);

#[derive(Default)]
struct Count {
    received: AtomicU32,
    exceeded: Notify,
}

/// The server sent informational responses instead of a response.
#[derive(Debug, thiserror::Error)]
#[error("the server sent {MAX} informational (1xx) responses and no response")]
pub(super) struct TooManyInformational;

impl InformationalLimit {
    /// Counts the informational responses to this request.
    pub(super) fn apply<B>(&self, request: &mut Request<B>) {
        let count = Arc::clone(&self.0);
        hyper::ext::on_informational(request, move |_| {
            if count.received.fetch_add(1, Ordering::Relaxed) + 1 == MAX {
                count.exceeded.notify_one();
            }
        });
    }

    /// Ready when the limit is exceeded.
    pub(super) async fn exceeded(&self) {
        self.0.exceeded.notified().await;
    }
}
