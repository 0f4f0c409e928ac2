//! [`Liveness`]: how long a watch may be silent. The time is an argument.

use std::time::Duration;

use evenkeel_base::planted::{Defect, is_planted};
use tokio::time::Instant;

/// The multiple of the usual bookmark interval that a watch may be silent.
const PATIENCE: u32 = 4;
/// The shortest silence that counts.
const SHORTEST: Duration = Duration::from_secs(10);

/// Learns the bookmark interval of the server, to detect dead connections.
///
/// A connection can die without an error, for example when a machine on the path is lost. A server that sends bookmarks does so
/// about once a minute, so a silence of several times that long means that the watch is dead. Without bookmarks silence means
/// nothing, and does not count.
#[derive(Debug)]
pub(super) struct Liveness {
    /// The shortest silence that counts; `None` if none does.
    shortest: Option<Duration>,
    last: Option<Instant>,
    /// The usual interval between two bookmarks.
    gap: Option<Duration>,
}

impl Liveness {
    pub(super) fn new(shortest: Option<Duration>) -> Self {
        Liveness { shortest: shortest.map(|silence| silence.max(SHORTEST)), last: None, gap: None }
    }

    /// Records a bookmark.
    pub(super) fn bookmark(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            let gap = now.saturating_duration_since(last);
            self.gap = Some(self.gap.map_or(gap, |usual| (usual * 3 + gap) / 4).max(gap));
        }
    }

    /// Records the end of the watch: the next bookmark belongs to another.
    pub(super) fn pause(&mut self) {
        self.last = None;
    }

    /// Discards the learned interval.
    pub(super) fn forget(&mut self) {
        self.last = None;
        self.gap = None;
    }

    /// Returns how long a watch may be silent; `None` if that is not known.
    pub(super) fn longest_silence(&self) -> Option<Duration> {
        if is_planted(Defect::SilentWatchKept) {
            return None;
        }
        Some(self.shortest?.max(self.gap?.saturating_mul(PATIENCE)))
    }
}

#[cfg(test)]
mod tests;
