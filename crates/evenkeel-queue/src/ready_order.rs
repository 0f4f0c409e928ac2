//! [`ReadyOrder`].

pub use crate::machine::ready_queue::Ticket;

/// A custom order of ready keys. client-go's `workqueue.Queue` interface.
///
/// Each key has a [`Ticket`], which the order returns when that key is next. A key is contained at most once. The queue calls the
/// order under its lock: it must be quick and must not call the queue.
///
/// ```
/// use evenkeel_queue::WorkQueue;
/// use evenkeel_queue::compat::{ReadyOrder, Ticket};
///
/// /// Last in, first out.
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
    /// Inserts a ready key.
    fn push(&mut self, key: &K, ticket: Ticket);

    /// Reports an add of a contained key.
    fn touch(&mut self, key: &K) {
        let _ = key;
    }

    /// Removes the next key and returns its ticket. `None` if the order is empty.
    fn pop(&mut self) -> Option<Ticket>;
}
