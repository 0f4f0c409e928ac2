//! [`OvertakingBookmarks`]: BUG-6 of docs/contract/reliability.md.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_core::{Untyped, WatchEvent};
use tokio::time::{Sleep, sleep};

use crate::source::{SourceError, WatchEvents};

type Event = Result<WatchEvent<Untyped>, SourceError>;

/// How long events about objects are collected.
const WINDOW: Duration = Duration::from_secs(1);

/// Collects the events about objects for a while and delivers them together. Bookmarks and the end of the watch do not wait for them.
pub(super) struct OvertakingBookmarks {
    events: Box<dyn WatchEvents>,
    collected: VecDeque<Event>,
    due: Option<Pin<Box<Sleep>>>,
}

impl OvertakingBookmarks {
    pub(super) fn new(events: Box<dyn WatchEvents>) -> Self {
        OvertakingBookmarks { events, collected: VecDeque::new(), due: None }
    }
}

impl WatchEvents for OvertakingBookmarks {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            match self.events.poll_next(context) {
                Poll::Ready(Some(
                    event @ Ok(WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_)),
                )) => {
                    self.collected.push_back(event);
                    self.due.get_or_insert_with(|| Box::pin(sleep(WINDOW)));
                }
                Poll::Ready(event) => return Poll::Ready(event),
                Poll::Pending => break,
            }
        }
        if let Some(due) = &mut self.due
            && due.as_mut().poll(context).is_pending()
        {
            return Poll::Pending;
        }
        let event = self.collected.pop_front();
        if self.collected.is_empty() {
            self.due = None;
        }
        event.map_or(Poll::Pending, |event| Poll::Ready(Some(event)))
    }
}
