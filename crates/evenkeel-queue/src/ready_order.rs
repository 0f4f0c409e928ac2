//! Orders of one's own.

pub use crate::machine::ready_queue::Ticket;

/// The order in which keys are handed out, if neither first come, first served nor priorities will do.
///
/// Each key comes with a [`Ticket`], which the storage gives back when it is that key's turn. A key is in here at most once.
/// The queue calls under its lock: an implementation is quick and never calls the queue.
///
/// ```
/// use evenkeel_queue::{ReadyOrder, Ticket, WorkQueue};
///
/// /// The last one first.
/// struct Stack(Vec<Ticket>);
///
/// impl ReadyOrder<String> for Stack {
///     fn push(&mut self, _: &String, ticket: Ticket) {
///         self.0.push(ticket);
///     }
///
///     fn pop(&mut self) -> Option<Ticket> {
///         self.0.pop()
///     }
/// }
///
/// let queue = WorkQueue::builder().ready_order(Stack(Vec::new())).build();
/// queue.add("first".to_owned());
/// queue.add("last".to_owned());
/// assert_eq!(queue.try_next().unwrap().key(), "last");
/// ```
pub trait ReadyOrder<K>: Send + 'static {
    /// A key is ready.
    fn push(&mut self, key: &K, ticket: Ticket);

    /// A key was added that is in here.
    fn touch(&mut self, key: &K) {
        let _ = key;
    }

    /// The ticket of the key that is next, which is in here no longer. None if there is none.
    fn pop(&mut self) -> Option<Ticket>;
}
