//! [`KindGone`]: why an informer has ended, if its kind is not served any more.

use super::SharedInformer;
use super::shared::StopMode;

/// The kind of an informer is not served any more, so the informer has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} is not served any more: the CustomResourceDefinition {definition} was deleted or changed")]
#[non_exhaustive]
pub struct KindGone {
    /// The kind.
    pub kind: String,
    /// The name of its CustomResourceDefinition.
    pub definition: String,
}

impl<K> SharedInformer<K> {
    /// Ends the informer because the CustomResourceDefinition of its kind was deleted.
    ///
    /// The informer sends no more requests. It removes all objects from its store and notifies the handlers of the deletions
    /// ([`Deleted::Missed`](crate::Deleted::Missed)), unless the watch did before. The handlers receive what is queued for them, and
    /// [`gone`](Self::gone) returns the cause. [`stopped`](Self::stopped) waits for all of it. A second call has no effect.
    ///
    /// If the initial list was not complete, no object is reported as deleted.
    pub fn retire(&self, definition: &str) {
        let gone = KindGone { kind: self.resource().kind().to_owned(), definition: definition.to_owned() };
        if self.shared.can_run() && self.shared.gone.set(gone).is_ok() {
            self.shared.stop(StopMode::Drain);
        }
    }

    /// Returns why the informer has ended, if its kind is not served any more.
    pub fn gone(&self) -> Option<&KindGone> {
        self.shared.gone.get()
    }
}
