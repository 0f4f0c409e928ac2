//! [`InvalidSource`]: the source of an informer whose options contradict its kind.

use crate::source::{BoxFuture, ListItems, ListRequest, ListerWatcher, SourceError, WatchEvents, WatchRequest};

/// A source whose requests fail with the contradiction, so that the informer does not sync, and errors about that name it.
#[derive(Debug)]
pub(super) struct InvalidSource {
    pub(super) problem: String,
}

impl InvalidSource {
    fn error(&self) -> SourceError {
        SourceError::Other(self.problem.clone().into())
    }
}

impl ListerWatcher for InvalidSource {
    fn list(&self, _: ListRequest) -> BoxFuture<'_, Result<Box<dyn ListItems>, SourceError>> {
        Box::pin(async { Err(self.error()) })
    }

    fn watch(&self, _: WatchRequest) -> BoxFuture<'_, Result<Box<dyn WatchEvents>, SourceError>> {
        Box::pin(async { Err(self.error()) })
    }

    fn supports_watch_list(&self) -> bool {
        false
    }
}
