//! What to do when a watch has ended.

use std::time::Duration;

use evenkeel_core::{Status, StreamError};
use tokio::time::Instant;

use super::{ReflectorMachine, ReflectorStage, is_version_unavailable};
use crate::reflector::error::Recovery;
use crate::source::SourceError;

/// A watch that ends sooner than this, and says nothing, was no watch.
const SHORT: Duration = Duration::from_secs(1);
/// The first pause between watches that bring something and end within that time; each one after it is twice as long.
const HASTY: Duration = Duration::from_millis(10);
/// How many watches of a round may end before all objects have come, before a list is made instead: a server that does not
/// know what is asked of it never says that these were all.
const WATCH_LIST_TRIES: u32 = 3;

/// How a watch ended.
#[derive(Debug)]
pub(in super::super) enum WatchEnd<'a> {
    /// The server ended it, in an orderly way.
    Closed,
    /// It could not be had.
    Refused(&'a SourceError),
    /// It was there, and failed.
    Failed(&'a SourceError),
    /// It was not ended when it should have been, or was silent for too long.
    Dead,
    /// What it said could not be written, or what is written may be wrong.
    Unusable,
}

/// What to do after a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct WatchVerdict {
    pub(in super::super) next: Recovery,
    pub(in super::super) kind: WatchEndKind,
}

/// What to think of the end of a watch, beside what it said itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum WatchEndKind {
    /// Nothing special.
    Usual,
    /// It was no watch.
    Short,
    /// It was short, like the one before.
    Hasty,
    /// It ended before all objects had come.
    Early,
}

impl ReflectorMachine {
    /// The watch has ended.
    pub(in super::super) fn watch_ended(&mut self, ending: WatchEnd<'_>, now: Instant, random: f64) -> WatchVerdict {
        let Some(watch) = self.watch.take() else {
            return usual(self.relist(None, now, random));
        };
        self.liveness.pause();
        let is_quick = now.saturating_duration_since(watch.asked) < SHORT;
        match self.stage {
            ReflectorStage::Watch => self.after_watch(ending, is_quick, watch.events > 0, now, random),
            _ => self.after_watch_list(ending, is_quick && watch.events == 0, now, random),
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
            WatchEnd::Closed => self.after_close(is_quick, has_events, now, random),
            WatchEnd::Failed(error) if is_connection_lost(error) => self.after_close(is_quick, has_events, now, random),
            WatchEnd::Refused(error) | WatchEnd::Failed(error) => usual(self.relist(Some(error), now, random)),
            WatchEnd::Unusable => {
                if self.relist_at.is_some_and(|at| at <= now) {
                    self.relisted = Some(now);
                    self.stage = ReflectorStage::Begin;
                    return usual(Recovery::Relist { after: Duration::ZERO });
                }
                usual(self.relist(None, now, random))
            }
        }
    }

    /// Watches end, and the next one begins where the last one ended.
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
        // One that says a little and ends, again and again, must not be asked as fast as it ends. But it does bring news,
        // so the pause stays far below what failures are waited for.
        let after = HASTY.saturating_mul(1 << (self.hasty - 2).min(16)).min(SHORT);
        self.due = now.checked_add(after);
        WatchVerdict { next: Recovery::Rewatch { after }, kind: WatchEndKind::Hasty }
    }

    fn after_watch_list(&mut self, ending: WatchEnd<'_>, is_short: bool, now: Instant, random: f64) -> WatchVerdict {
        let is_over = match ending {
            WatchEnd::Closed | WatchEnd::Dead => true,
            WatchEnd::Failed(error) => is_connection_lost(error),
            WatchEnd::Refused(_) | WatchEnd::Unusable => false,
        };
        if is_over && !is_short {
            self.round.early += 1;
            let next = if self.round.early < WATCH_LIST_TRIES {
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
                    if !std::mem::replace(&mut self.round.has_expired, true) {
                        return usual(Recovery::Relist { after: Duration::ZERO });
                    }
                    return usual(self.wait(Some(error), now, random, |after| Recovery::Relist { after }));
                }
                usual(self.list_instead())
            }
            WatchEnd::Unusable => usual(self.relist(None, now, random)),
            WatchEnd::Closed | WatchEnd::Dead => WatchVerdict { next: self.list_instead(), kind: WatchEndKind::Short },
        }
    }
}

fn usual(next: Recovery) -> WatchVerdict {
    WatchVerdict { next, kind: WatchEndKind::Usual }
}

/// The connection is gone, and what was heard of the watch is sound.
fn is_connection_lost(error: &SourceError) -> bool {
    matches!(
        error,
        SourceError::Connection(_)
            | SourceError::ConnectionRefused(_)
            | SourceError::Garbled(StreamError::Truncated { .. })
    )
}
