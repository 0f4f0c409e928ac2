//! [`Liveness`]: how long a watch may be silent. No clock of its own.

use std::time::Duration;

use tokio::time::Instant;

/// How many times the usual gap between bookmarks a watch may be silent.
const PATIENCE: u32 = 4;
/// No silence is so short that it says something.
const SHORTEST: Duration = Duration::from_secs(10);

/// Learns from bookmarks how often the server speaks when it has nothing to say.
///
/// A connection can die without a word: the machine that kept it is gone, and nobody tells. A server that sends bookmarks
/// breaks the silence about once a minute, so a silence of several times as long says something. Without bookmarks it does
/// not, and is not counted.
#[derive(Debug)]
pub(super) struct Liveness {
    /// The shortest silence that counts; `None` if none does.
    shortest: Option<Duration>,
    last: Option<Instant>,
    /// The usual gap between two bookmarks.
    gap: Option<Duration>,
}

impl Liveness {
    pub(super) fn new(shortest: Option<Duration>) -> Self {
        Liveness { shortest: shortest.map(|silence| silence.max(SHORTEST)), last: None, gap: None }
    }

    /// A bookmark has come.
    pub(super) fn beat(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            let gap = now.saturating_duration_since(last);
            self.gap = Some(self.gap.map_or(gap, |usual| (usual * 3 + gap) / 4).max(gap));
        }
    }

    /// The watch has ended: the next bookmark is another's.
    pub(super) fn pause(&mut self) {
        self.last = None;
    }

    /// What was learned was wrong, or is no longer right.
    pub(super) fn forget(&mut self) {
        self.last = None;
        self.gap = None;
    }

    /// How long a watch may be silent; `None` if that is not known.
    pub(super) fn longest_silence(&self) -> Option<Duration> {
        Some(self.shortest?.max(self.gap?.saturating_mul(PATIENCE)))
    }
}

#[cfg(test)]
mod tests;
