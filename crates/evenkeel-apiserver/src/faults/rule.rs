//! Rules: which requests go wrong, and how.

use std::ops::Range;
use std::time::Duration;

use evenkeel_core::Status;

use super::subject::Subject;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// The request is answered with this failure instead of being handled. A retry-after in its details is also sent as
    /// a header.
    Status(Box<Status>),
    /// The request is handled only after this time.
    Delay(Duration),
    /// The connection (HTTP/2: the stream) is closed without an answer, and the request is not handled.
    Drop,
    /// The request is neither handled nor answered, and the connection stays open.
    Hang,
    /// The request is handled, and the connection breaks after this many bytes of the answer's body.
    Reset {
        /// How many bytes of the body arrive.
        after_bytes: u64,
    },
    /// The request is handled, with all its effects, but the client sees a broken connection.
    CommitThenDrop,
    /// The whole request is read, then the connection breaks and nothing has been done. The counterpart of
    /// [`Action::CommitThenDrop`]: the client cannot tell the two apart.
    DropBeforeCommit,
    /// From the first request that matches, no new connections are accepted until
    /// [`Faults::refuse_connections`](super::Faults::refuse_connections)`(false)`. The request itself is dropped.
    Refuse,
    /// Before the request is handled all history is forgotten: older resource versions expire.
    Compact,
    /// From this request on, watches and reads that tolerate staleness lag so many revisions behind; 0 ends it.
    LagReplica {
        /// How many.
        revisions: u64,
    },
    /// Before the request is handled the history is emptied and all watches end, as a restart of the server would do.
    ResetHistory,
    /// Something happens to the stream of a watch.
    Watch(WatchAction),
}

/// What happens to the stream of a watch.
///
/// Events are counted from 0 and per watch; bookmarks and errors count too. When a rule is added while a watch is open,
/// counting starts with the next event. Actions marked *illegal* make the server lie: no correct server does this, and
/// they exist to test that a detector notices.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WatchAction {
    /// The stream ends cleanly after this many events.
    CloseAfterEvents(u64),
    /// The stream ends cleanly after this many bytes, wherever that is.
    CloseAfterBytes(u64),
    /// The connection breaks inside an event.
    CloseMidFrame {
        /// Inside which event.
        event: u64,
        /// How many of its bytes arrive.
        byte: usize,
    },
    /// As `CloseMidFrame`, but the stream ends cleanly there.
    TruncateFrame {
        /// Inside which event.
        event: u64,
        /// How many of its bytes arrive.
        byte: usize,
    },
    /// One byte of an event becomes a control character, which no JSON may contain. The stream goes on.
    CorruptFrame {
        /// Which event.
        event: u64,
        /// Which byte.
        byte: usize,
    },
    /// Every event arrives in pieces of these sizes; the last size repeats. No sizes: pieces of one byte.
    SplitFrame {
        /// The sizes of the pieces.
        sizes: Vec<usize>,
    },
    /// Events are held back and arrive together.
    CoalesceFrames {
        /// How many events make a chunk.
        events: usize,
        /// After how long an incomplete chunk is sent anyway.
        wait: Duration,
    },
    /// An event arrives twice.
    DuplicateEvent {
        /// Which event.
        event: u64,
    },
    /// An event never arrives. *Illegal.*
    SkipEvent {
        /// Which event.
        event: u64,
    },
    /// Two events change places. *Illegal.*
    Reorder {
        /// The earlier one.
        first: u64,
        /// The later one.
        second: u64,
    },
    /// The server says that the watch's resource version is too old (410).
    Expire {
        /// Before which event. Over HTTP it is always the first.
        event: u64,
        /// In which form.
        form: ExpireForm,
    },
    /// Events are withheld; bookmarks arrive until the first event was withheld.
    BookmarkOnly,
    /// Bookmarks are withheld, the one that ends the initial events included.
    NoBookmarks,
    /// The stream pauses before an event.
    StallFor {
        /// Before which event.
        event: u64,
        /// For how long.
        duration: Duration,
    },
    /// An ERROR event with this status arrives instead of an event, and the stream ends.
    ErrorEvent {
        /// Instead of which event.
        event: u64,
        /// The status it carries.
        status: Box<Status>,
    },
    /// An event of a type that no client knows arrives before an event.
    UnknownEventType {
        /// Before which event.
        event: u64,
    },
    /// An ADDED event with an object of another kind arrives before an event.
    WrongKindObject {
        /// Before which event.
        event: u64,
    },
}

/// How a server says that a watch's resource version is too old. Both forms are met in the wild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpireForm {
    /// 200 and an ERROR event in the stream.
    Event,
    /// The HTTP status 410.
    Http,
}

/// One fault: which requests it befalls, how often, and what it does.
///
/// A fresh rule matches every request, always. Watch actions only ever match watches. Conditions narrow it down; all
/// of them must hold. Of the matching requests the first [`skip`](Rule::skip) pass, then the fault happens at most
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
    /// A rule that does this to every request.
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

    /// A rule that does this to every watch.
    pub fn watch(action: WatchAction) -> Self {
        Rule::new(Action::Watch(action))
    }

    /// Only requests with this verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub fn verb(mut self, verb: impl Into<String>) -> Self {
        self.verb = Some(verb.into());
        self
    }

    /// Only requests for this API group; the core group is the empty string.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Only requests for this resource, by its plural.
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Only requests in this namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only requests for the object of this name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only requests of this user.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Only requests whose user agent contains this text.
    pub fn user_agent(mut self, part: impl Into<String>) -> Self {
        self.user_agent = Some(part.into());
        self
    }

    /// Only watches, or everything but watches.
    pub fn watches(mut self, only: bool) -> Self {
        self.watches = Some(only);
        self
    }

    /// The first so many matching requests pass.
    pub fn skip(mut self, requests: u64) -> Self {
        self.skip = requests;
        self
    }

    /// The fault happens at most so many times.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// The fault happens with this probability, from 0 to 1.
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// Only requests that arrive in this window, counted from the server's start.
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
    /// The name that counters and logs use; the same as in a fault specification.
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
                WatchAction::StallFor { .. } => "stall",
                WatchAction::ErrorEvent { .. } => "error-event",
                WatchAction::UnknownEventType { .. } => "unknown-event",
                WatchAction::WrongKindObject { .. } => "wrong-kind",
            },
        }
    }
}
