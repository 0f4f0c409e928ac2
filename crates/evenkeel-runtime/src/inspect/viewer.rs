//! [`Viewer`]: what one page has been told, and what it has to be told next.

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{Inner, Moments};

/// What one page has been told.
#[derive(Debug, Default)]
pub(super) struct Viewer {
    /// The key that it follows.
    follow: Option<String>,
    /// It knows everything before this number.
    next: u64,
    /// The informers and queues as it knows them.
    lanes: Option<Value>,
}

impl Viewer {
    pub(super) fn new(follow: Option<String>) -> Self {
        Viewer { follow, ..Viewer::default() }
    }

    /// What is new, if anything is. The first time, everything is.
    pub(super) fn look(&mut self, inspector: &Inner, now: Instant) -> Option<Value> {
        let moments = Moments { began: inspector.began, now };
        let lanes = inspector.lanes(&moments);
        let follow = self.follow.as_deref();
        let mut news = Map::new();
        {
            let ledger = inspector.ledger();
            if self.lanes.as_ref() == Some(&lanes) && !ledger.has_news(self.next, follow) {
                return None;
            }
            news.extend(ledger.since(self.next, follow));
            self.next = ledger.next();
        }
        let now = now.saturating_duration_since(inspector.began);
        news.insert("now".to_owned(), super::ledger::ms(now));
        news.insert("run".to_owned(), json!(inspector.run));
        news.insert("program".to_owned(), json!(inspector.program));
        news.insert("first".to_owned(), json!(self.lanes.is_none()));
        news.insert("informers".to_owned(), lanes["informers"].clone());
        news.insert("queues".to_owned(), lanes["queues"].clone());
        self.lanes = Some(lanes);
        Some(news.into())
    }
}
