//! [`Attachments`]: values that are derived from an object and stored with it.

use std::any::Any;
use std::sync::Arc;

use once_cell::race::OnceBox;

/// A value of any type.
pub(super) type AttachedValue = Arc<dyn Any + Send + Sync>;

/// The attachments of one object: a list of few values that only grows, so that readers take no lock and may borrow them for as long
/// as the object lives. It takes one pointer while it is empty.
#[derive(Default)]
pub(super) struct Attachments {
    first: OnceBox<Attachment>,
}

struct Attachment {
    id: u64,
    value: AttachedValue,
    next: OnceBox<Attachment>,
}

impl Attachments {
    /// Returns the value with this id.
    #[inline]
    pub(super) fn get(&self, id: u64) -> Option<&AttachedValue> {
        let mut next = self.first.get();
        while let Some(attachment) = next {
            if attachment.id == id {
                return Some(&attachment.value);
            }
            next = attachment.next.get();
        }
        None
    }

    /// Adds a value, unless there is one with this id. Returns the one that is there afterwards.
    pub(super) fn get_or_attach(&self, id: u64, value: AttachedValue) -> &AttachedValue {
        let mut cell = &self.first;
        loop {
            let new = || Box::new(Attachment { id, value: Arc::clone(&value), next: OnceBox::new() });
            // Another thread may be first, also with another id.
            let attachment = cell.get_or_init(new);
            if attachment.id == id {
                return &attachment.value;
            }
            cell = &attachment.next;
        }
    }
}

/// The values are shared.
impl Clone for Attachments {
    fn clone(&self) -> Self {
        let clone = Attachments::default();
        let mut next = self.first.get();
        while let Some(attachment) = next {
            clone.get_or_attach(attachment.id, Arc::clone(&attachment.value));
            next = attachment.next.get();
        }
        clone
    }
}

#[cfg(test)]
mod tests;
