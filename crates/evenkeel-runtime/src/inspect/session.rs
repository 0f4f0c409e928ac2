//! [`PageSession`]: what one page has received so far.

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{InspectorInner, ReportClock};

/// What one page has received so far.
#[derive(Debug, Default)]
pub(super) struct PageSession {
    /// The followed key.
    follow: Option<String>,
    /// The page has received all history entries before this sequence number.
    next: u64,
    /// The last report of informers and queues that the page received.
    sources: Option<Value>,
}

impl PageSession {
    pub(super) fn new(follow: Option<String>) -> Self {
        PageSession { follow, ..PageSession::default() }
    }

    /// Returns the changes since the last call, or `None` if there are none. The first call returns a full report.
    pub(super) fn update(&mut self, inspector: &InspectorInner, now: Instant) -> Option<Value> {
        let clock = ReportClock { start: inspector.start, now };
        let sources = inspector.report_sources(&clock);
        let follow = self.follow.as_deref();
        let mut changes = Map::new();
        {
            let history = inspector.history();
            if self.sources.as_ref() == Some(&sources) && !history.has_changes_since(self.next, follow) {
                return None;
            }
            changes.extend(history.since(self.next, follow));
            self.next = history.next();
        }
        if let (Some(key), Some(report)) = (follow, changes.get_mut("follow")) {
            report["stored"] = inspector.stored(key);
        }
        let now = now.saturating_duration_since(inspector.start);
        changes.insert("now".to_owned(), super::history::ms(now));
        changes.insert("run".to_owned(), json!(inspector.run));
        changes.insert("program".to_owned(), json!(inspector.program));
        changes.insert("first".to_owned(), json!(self.sources.is_none()));
        changes.insert("informers".to_owned(), sources["informers"].clone());
        for part in ["queues", "keys", "election"] {
            changes.insert(part.to_owned(), sources[part].clone());
        }
        // A table can be long, and changes seldom.
        if self.sources.as_ref().map(|known| &known["rings"]) != Some(&sources["rings"]) {
            changes.insert("rings".to_owned(), sources["rings"].clone());
        }
        self.sources = Some(sources);
        Some(changes.into())
    }
}
