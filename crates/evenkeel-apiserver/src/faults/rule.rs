//! Fault rules: the conditions on requests, and the faults.

use std::ops::Range;
use std::time::Duration;

use evenkeel_core::Status;

use super::subject::Subject;

/// The fault of a rule.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Returns this Status instead of handling the request. A retry-after in its details is also sent as a header.
    Status(Box<Status>),
    /// Delays the handling of the request.
    Delay(Duration),
    /// Closes the connection (HTTP/2: the stream) without a response. The request is not handled.
    Drop,
    /// Neither handles the request nor responds, and keeps the connection open.
    Hang,
    /// Handles the request, and breaks the connection after this many bytes of the response's body.
    Reset {
        /// The number of bytes of the body that are sent.
        after_bytes: u64,
    },
    /// Handles the request, with all its effects, and then breaks the connection.
    CommitThenDrop,
    /// Reads the whole request, then breaks the connection without any effect. The counterpart of
    /// [`Action::CommitThenDrop`]: the client cannot distinguish the two.
    DropBeforeCommit,
    /// From the first matching request, refuses new connections until
    /// [`Faults::refuse_connections`](super::Faults::refuse_connections)`(false)`. The request itself is dropped.
    Refuse,
    /// Discards all history before handling the request: older resource versions expire.
    Compact,
    /// From this request on, watches and reads that tolerate staleness lag by this many revisions; 0 ends the lag.
    LagReplica {
        /// The number of revisions.
        revisions: u64,
    },
    /// Handles the request, and omits one object of the list that it returns. *Illegal.*
    OmitItem {
        /// The object, counted from 0. Nothing is omitted from a shorter list.
        item: u64,
    },
    /// Empties the history and ends all watches before handling the request, as a restart of the server would.
    ResetHistory,
    /// Injects a fault into the stream of a watch.
    Watch(WatchAction),
}

/// A fault in the stream of a watch.
///
/// Events are counted from 0 and per watch; bookmarks and errors count too. When a rule is added while a watch is
/// open, counting starts with the next event. Actions marked *illegal* break the guarantees of a correct server. They
/// exist to test that a detector notices.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WatchAction {
    /// Ends the stream cleanly after this many events.
    CloseAfterEvents(u64),
    /// Ends the stream cleanly after this many bytes, at any position.
    CloseAfterBytes(u64),
    /// Breaks the connection inside an event.
    CloseMidFrame {
        /// The event.
        event: u64,
        /// The number of its bytes that are sent.
        byte: usize,
    },
    /// As `CloseMidFrame`, but ends the stream cleanly there.
    TruncateFrame {
        /// The event.
        event: u64,
        /// The number of its bytes that are sent.
        byte: usize,
    },
    /// Replaces one byte of an event by a control character, which is invalid in JSON. The stream continues.
    CorruptFrame {
        /// The event.
        event: u64,
        /// The byte.
        byte: usize,
    },
    /// Sends every event in pieces of these sizes; the last size repeats. Without sizes, in pieces of one byte.
    SplitFrame {
        /// The sizes of the pieces.
        sizes: Vec<usize>,
    },
    /// Holds events back and sends them together.
    CoalesceFrames {
        /// The number of events per chunk.
        events: usize,
        /// The timeout after which an incomplete chunk is sent.
        wait: Duration,
    },
    /// Sends an event twice.
    DuplicateEvent {
        /// The event.
        event: u64,
    },
    /// Omits an event. *Illegal.*
    SkipEvent {
        /// The event.
        event: u64,
    },
    /// Swaps two events. *Illegal.*
    Reorder {
        /// The earlier event.
        first: u64,
        /// The later event.
        second: u64,
    },
    /// Reports that the watch's resource version is too old (410).
    Expire {
        /// The event that the error precedes. Over HTTP it is always the first.
        event: u64,
        /// The form of the error.
        form: ExpireForm,
    },
    /// Withholds events; bookmarks are sent until the first event is withheld.
    BookmarkOnly,
    /// Withholds bookmarks, including the one that ends the initial events.
    NoBookmarks,
    /// Sends the bookmark that ends the initial events before the last of them. *Illegal.*
    EarlyInitialEnd,
    /// Pauses the stream before an event.
    StallFor {
        /// The event.
        event: u64,
        /// The length of the pause.
        duration: Duration,
    },
    /// Sends an ERROR event with this status instead of an event, and ends the stream.
    ErrorEvent {
        /// The replaced event.
        event: u64,
        /// The status of the ERROR event.
        status: Box<Status>,
    },
    /// Sends an event of an unknown type before an event.
    UnknownEventType {
        /// The event.
        event: u64,
    },
    /// Sends an ADDED event with an object of another kind before an event.
    WrongKindObject {
        /// The event.
        event: u64,
    },
}

/// The form in which a server reports that a watch's resource version is too old. Real servers use both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpireForm {
    /// 200 and an ERROR event in the stream.
    Event,
    /// The HTTP status 410.
    Http,
}

/// One fault: which requests it matches, how often, and what it does.
///
/// A new rule matches every request, always. Watch actions match only watches. Conditions narrow it down; all of them
/// must hold. The first [`skip`](Rule::skip) matching requests pass, then the fault is injected at most
/// [`times`](Rule::times) times, each time with [`probability`](Rule::probability).
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub(super) action: Action,
    pub(super) verb: Option<String>,
    pub(super) group: Option<String>,
    pub(super) resource: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) user: Option<String>,
    pub(super) user_agent: Option<String>,
    pub(super) watches: Option<bool>,
    pub(super) skip: u64,
    pub(super) times: Option<u64>,
    pub(super) probability: f64,
    pub(super) window: Option<Range<Duration>>,
}

impl Rule {
    /// Returns a rule that matches every request.
    pub fn new(action: Action) -> Self {
        Rule {
            action,
            verb: None,
            group: None,
            resource: None,
            namespace: None,
            name: None,
            user: None,
            user_agent: None,
            watches: None,
            skip: 0,
            times: None,
            probability: 1.0,
            window: None,
        }
    }

    /// Returns a rule that matches every watch.
    pub fn watch(action: WatchAction) -> Self {
        Rule::new(Action::Watch(action))
    }

    /// Matches only requests with this verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    /// `deletecollection`.
    pub fn verb(mut self, verb: impl Into<String>) -> Self {
        self.verb = Some(verb.into());
        self
    }

    /// Matches only requests for this API group; the core group is the empty string.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Matches only requests for this resource, by its plural.
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Matches only requests in this namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Matches only requests for the object of this name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Matches only requests of this user.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Matches only requests whose user agent contains this text.
    pub fn user_agent(mut self, part: impl Into<String>) -> Self {
        self.user_agent = Some(part.into());
        self
    }

    /// Matches only watches, or everything but watches.
    pub fn watches(mut self, only: bool) -> Self {
        self.watches = Some(only);
        self
    }

    /// Lets the first `requests` matching requests pass.
    pub fn skip(mut self, requests: u64) -> Self {
        self.skip = requests;
        self
    }

    /// Injects the fault at most this many times.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Injects the fault with this probability, from 0 to 1.
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// Matches only requests that arrive in this window, counted from the server's start.
    pub fn during(mut self, window: Range<Duration>) -> Self {
        self.window = Some(window);
        self
    }

    pub(super) fn matches(&self, subject: &Subject, now: Duration) -> bool {
        fn is(wanted: &Option<String>, found: &str) -> bool {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        }
        let watch = subject.is_watch();
        (watch || !matches!(self.action, Action::Watch(_)))
            && self.watches.is_none_or(|only| only == watch)
            && is(&self.verb, &subject.verb)
            && is(&self.group, &subject.group)
            && is(&self.resource, &subject.resource)
            && is(&self.namespace, &subject.namespace)
            && is(&self.name, &subject.name)
            && is(&self.user, &subject.user)
            && self.user_agent.as_deref().is_none_or(|part| subject.user_agent.contains(part))
            && self.window.as_ref().is_none_or(|window| window.contains(&now))
    }
}

impl Action {
    /// Returns the name in counters and logs; the same as in a fault specification.
    pub fn name(&self) -> &'static str {
        match self {
            Action::Status(_) => "status",
            Action::Delay(_) => "delay",
            Action::Drop => "drop",
            Action::Hang => "hang",
            Action::Reset { .. } => "reset",
            Action::CommitThenDrop => "commit-then-drop",
            Action::DropBeforeCommit => "drop-before-commit",
            Action::Refuse => "refuse",
            Action::Compact => "compact",
            Action::LagReplica { .. } => "lag-replica",
            Action::OmitItem { .. } => "omit-item",
            Action::ResetHistory => "reset-history",
            Action::Watch(action) => match action {
                WatchAction::CloseAfterEvents(_) => "drop-watch",
                WatchAction::CloseAfterBytes(_) => "drop-watch-bytes",
                WatchAction::CloseMidFrame { .. } => "cut-frame",
                WatchAction::TruncateFrame { .. } => "truncate-frame",
                WatchAction::CorruptFrame { .. } => "corrupt-frame",
                WatchAction::SplitFrame { .. } => "split-frames",
                WatchAction::CoalesceFrames { .. } => "coalesce-frames",
                WatchAction::DuplicateEvent { .. } => "duplicate-event",
                WatchAction::SkipEvent { .. } => "skip-event",
                WatchAction::Reorder { .. } => "reorder-events",
                WatchAction::Expire { .. } => "expire",
                WatchAction::BookmarkOnly => "bookmarks-only",
                WatchAction::NoBookmarks => "no-bookmarks",
                WatchAction::EarlyInitialEnd => "early-initial-end",
                WatchAction::StallFor { .. } => "stall",
                WatchAction::ErrorEvent { .. } => "error-event",
                WatchAction::UnknownEventType { .. } => "unknown-event",
                WatchAction::WrongKindObject { .. } => "wrong-kind",
            },
        }
    }
}
