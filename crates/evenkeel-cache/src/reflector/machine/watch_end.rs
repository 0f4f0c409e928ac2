//! Decides what follows the end of a watch.

use std::time::Duration;

use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_core::{Status, StreamError};
use tokio::time::Instant;

use super::{ReflectorMachine, ReflectorStage, is_version_unavailable};
use crate::reflector::error::Recovery;
use crate::source::SourceError;

/// A watch that ends sooner than this without an event counts as very short.
const SHORT: Duration = Duration::from_secs(1);
/// The first pause between watches that bring events and end within that time; it doubles each time.
const HASTY: Duration = Duration::from_millis(10);
/// The number of WatchLists of a cycle that may end early before the reflector lists instead: a server without WatchList never
/// sends the bookmark that ends the initial events.
const WATCH_LIST_TRIES: u32 = 3;

/// How a watch ended.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum WatchEnd<'a> {
    /// The server closed it.
    Closed,
    /// The request failed.
    Refused(&'a SourceError),
    /// The open watch failed.
    Failed(&'a SourceError),
    /// The server did not close it after its timeout, or it was silent for too long.
    Dead,
    /// It is requested again with other parameters.
    Replaced,
    /// A WatchList made no progress for too long.
    NoBookmark,
    /// An event could not be written, or the store may be wrong.
    Unusable,
}

/// What follows a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct WatchVerdict {
    pub(in super::super) next: Recovery,
    pub(in super::super) kind: WatchEndKind,
}

/// How the end of a watch is classified, besides its own error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum WatchEndKind {
    /// An ordinary end.
    Usual,
    /// Very short, without events.
    Short,
    /// Short, like the one before.
    Hasty,
    /// Ended before the initial list was complete.
    Early,
}

impl ReflectorMachine {
    /// Processes the end of a watch.
    pub(in super::super) fn watch_ended(&mut self, ending: WatchEnd<'_>, now: Instant, random: f64) -> WatchVerdict {
        let Some(watch) = self.watch.take() else {
            return usual(self.relist(None, now, random));
        };
        self.liveness.pause();
        let is_quick = now.saturating_duration_since(watch.requested) < SHORT;
        match self.stage {
            ReflectorStage::Watch => self.after_watch(ending, is_quick, watch.events > 0, now, random),
            _ => self.after_watch_list(ending, is_quick && watch.events == 0, now, random),
        }
    }

    /// Processes the refusal of a watch whose parameters were refused: the same watch is requested with others.
    pub(in super::super) fn watch_with_others(&mut self) -> Recovery {
        self.watch = None;
        self.liveness.pause();
        match self.stage {
            ReflectorStage::Watch => Recovery::Rewatch { after: Duration::ZERO },
            _ => Recovery::Relist { after: Duration::ZERO },
        }
    }

    fn after_watch(
        &mut self,
        ending: WatchEnd<'_>,
        is_quick: bool,
        has_events: bool,
        now: Instant,
        random: f64,
    ) -> WatchVerdict {
        match ending {
            WatchEnd::Refused(error) | WatchEnd::Failed(error)
                if error.status().is_some_and(Status::is_too_many_requests) =>
            {
                usual(self.watch_again(Some(error), now, random))
            }
            WatchEnd::Refused(error @ SourceError::ConnectionRefused(_)) => {
                usual(self.watch_again(Some(error), now, random))
            }
            WatchEnd::Failed(error) if error.status().is_some_and(Status::is_internal_error) => {
                self.internal_errors.failed(now);
                if self.internal_errors.may_retry(now) {
                    return usual(self.watch_again(Some(error), now, random));
                }
                usual(self.relist(Some(error), now, random))
            }
            WatchEnd::Dead => {
                self.liveness.forget();
                usual(Recovery::Rewatch { after: Duration::ZERO })
            }
            WatchEnd::Replaced => usual(Recovery::Rewatch { after: Duration::ZERO }),
            WatchEnd::Closed => self.after_close(is_quick, has_events, now, random),
            WatchEnd::Failed(error) if is_connection_lost(error) => self.after_close(is_quick, has_events, now, random),
            WatchEnd::Failed(error) if error.is_expired() && is_planted(Defect::ExpiredEventIgnored) => {
                usual(self.watch_again(Some(error), now, random))
            }
            WatchEnd::Refused(error) | WatchEnd::Failed(error) => {
                if error.is_expired() {
                    self.version_expired();
                }
                usual(self.relist(Some(error), now, random))
            }
            WatchEnd::NoBookmark | WatchEnd::Unusable => {
                if self.relist_at.is_some_and(|at| at <= now) {
                    self.relisted = Some(now);
                    self.stage = ReflectorStage::Start;
                    return usual(Recovery::Relist { after: Duration::ZERO });
                }
                usual(self.relist(None, now, random))
            }
        }
    }

    /// Handles an ordinary end: the next watch continues at the same version.
    fn after_close(&mut self, is_quick: bool, has_events: bool, now: Instant, random: f64) -> WatchVerdict {
        if !is_quick {
            self.hasty = 0;
            return usual(Recovery::Rewatch { after: Duration::ZERO });
        }
        if !has_events {
            return WatchVerdict { next: self.relist(None, now, random), kind: WatchEndKind::Short };
        }
        self.hasty += 1;
        if self.hasty == 1 {
            return usual(Recovery::Rewatch { after: Duration::ZERO });
        }
        // A watch that repeatedly sends a few events and ends must not be requested as fast as it ends. It does make progress,
        // so the pause stays far below the backoff of failures.
        let after = HASTY.saturating_mul(1 << (self.hasty - 2).min(16)).min(SHORT);
        self.due = now.checked_add(after);
        WatchVerdict { next: Recovery::Rewatch { after }, kind: WatchEndKind::Hasty }
    }

    fn after_watch_list(&mut self, ending: WatchEnd<'_>, is_short: bool, now: Instant, random: f64) -> WatchVerdict {
        let is_over = match ending {
            WatchEnd::Closed | WatchEnd::Dead => true,
            WatchEnd::Failed(error) => is_connection_lost(error),
            WatchEnd::Refused(_) | WatchEnd::Replaced | WatchEnd::NoBookmark | WatchEnd::Unusable => false,
        };
        if is_over && !is_short {
            self.cycle.early += 1;
            let next = if self.cycle.early < WATCH_LIST_TRIES {
                self.wait(None, now, random, |after| Recovery::Relist { after })
            } else {
                self.list_instead()
            };
            return WatchVerdict { next, kind: WatchEndKind::Early };
        }
        match ending {
            WatchEnd::Refused(error) | WatchEnd::Failed(error) => {
                let is_busy = error.status().is_some_and(Status::is_too_many_requests);
                if is_busy || matches!(error, SourceError::ConnectionRefused(_)) {
                    return usual(self.wait(Some(error), now, random, |after| Recovery::Relist { after }));
                }
                if is_version_unavailable(error) {
                    self.is_version_unavailable = true;
                    if !std::mem::replace(&mut self.cycle.is_version_dropped, true) {
                        return usual(Recovery::Relist { after: Duration::ZERO });
                    }
                    return usual(self.wait(Some(error), now, random, |after| Recovery::Relist { after }));
                }
                usual(self.list_instead())
            }
            WatchEnd::Unusable | WatchEnd::Replaced => usual(self.relist(None, now, random)),
            WatchEnd::NoBookmark => usual(self.list_instead()),
            WatchEnd::Closed | WatchEnd::Dead => WatchVerdict { next: self.list_instead(), kind: WatchEndKind::Short },
        }
    }
}

fn usual(next: Recovery) -> WatchVerdict {
    WatchVerdict { next, kind: WatchEndKind::Usual }
}

/// Returns whether the connection was lost, and the events so far are valid.
fn is_connection_lost(error: &SourceError) -> bool {
    matches!(
        error,
        SourceError::Connection(_)
            | SourceError::ConnectionRefused(_)
            | SourceError::Garbled(StreamError::Truncated { .. })
    )
}
