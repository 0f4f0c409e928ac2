//! [`Fault`]: what may go wrong, and how often.

use std::time::Duration;

use evenkeel_apiserver::{Action, ExpireForm, WatchAction};
use evenkeel_core::{Reason, Status, StatusDetails};

use crate::decisions::{Decisions, Stream};

/// Watches break within this many bytes of an event: in its metadata.
const FRAME: u32 = 400;

/// A kind of fault. Those of [`ALL`](Self::ALL) are legal: a correct API server, a network or a machine may show them, and a controller
/// must survive them. Those of [`ILLEGAL`](Self::ILLEGAL) exist to show that the detectors of a broken server work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A watch ends after some events.
    WatchEnds,
    /// A watch breaks within an event.
    WatchBreaks,
    /// A watch ends cleanly within an event.
    WatchTruncated,
    /// An event of a watch has a byte that is no JSON.
    WatchCorrupted,
    /// Events arrive in small pieces, or several in one.
    WatchPieces,
    /// An event arrives twice.
    WatchRepeats,
    /// A watch reports in its stream that its resource version is too old.
    WatchExpires,
    /// A watch is refused with 410.
    WatchRefused,
    /// The next page of a list has expired.
    PageExpires,
    /// The server is busy: 429, with or without Retry-After.
    TooManyRequests,
    /// The server fails: 500, 503 or 504, with or without Retry-After.
    ServerError,
    /// No connection can be made.
    Refused,
    /// The server does not accept the client: 401, or a TLS handshake that fails, as while certificates are replaced.
    Unauthenticated,
    /// A request takes long to reach the server, or its response takes long to come back.
    Slow,
    /// A request gets no response. After a minute its connection breaks: keep-alives of the transport notice a dead peer, and a
    /// server ends every request that is not a watch.
    Hangs,
    /// A watch is silent, though its connection is open.
    WatchSilent,
    /// The server discards its history.
    Compaction,
    /// The server restarts: its watch history starts now, and all watches end.
    ServerRestarts,
    /// Reads that tolerate staleness, and watches, stay at an old revision for a while.
    StaleReplica,
    /// A list that names a resource version is refused, because the server is not there yet, until the resource is written again: a
    /// server without progress notifications learns of newer versions from events alone.
    VersionTooLarge,
    /// There are two servers for a while. One is stuck at an old revision, the history of the other starts later, and either may answer.
    ReplicasFlap,
    /// A watch sends bookmarks until there is an event, and nothing from then on.
    BookmarksOnly,
    /// A watch sends no bookmarks.
    NoBookmarks,
    /// The bookmark that ends the initial events of a watch is late, or the watch ends right before it.
    InitialEndMissing,
    /// A watch sends an event of an unknown type, or an object of another kind.
    WatchUnknown,
    /// A write is done, and its response is lost.
    ResponseLost,
    /// A write is lost before it is done.
    WriteLost,
    /// Another client changes the object between a read and a write.
    Rival,
    /// The time of day of a process jumps.
    ClockJumps,
    /// Responses to a process are late, and then it is cut off from the server: requests do not arrive, responses are lost, and
    /// watches are silent.
    Partition,
    /// A process crashes and is started again.
    Crash,
    /// A process is not scheduled for a while.
    Pause,
    /// A handler or a reconciler panics: where it calls [`Process::may_panic`](crate::Process::may_panic).
    Panics,
    /// The cluster is restored from a backup: resource versions go back, and are issued again for other changes. Not part of
    /// [`ALL`](Self::ALL): a client may be unable to notice.
    BackupRestored,
    /// A watch misses an event. *Illegal.*
    EventSkipped,
    /// Events of a watch are in another order. *Illegal.*
    EventsReordered,
    /// The bookmark that ends the initial objects of a watch comes before the last of them. *Illegal.*
    EarlyInitialEnd,
    /// A list misses an object. *Illegal.*
    ItemOmitted,
}

impl Fault {
    /// All legal faults, in the order of their numbers.
    pub const ALL: [Fault; 33] = [
        Fault::WatchEnds,
        Fault::WatchBreaks,
        Fault::WatchTruncated,
        Fault::WatchCorrupted,
        Fault::WatchPieces,
        Fault::WatchRepeats,
        Fault::WatchExpires,
        Fault::WatchRefused,
        Fault::PageExpires,
        Fault::TooManyRequests,
        Fault::ServerError,
        Fault::Refused,
        Fault::Unauthenticated,
        Fault::Slow,
        Fault::Hangs,
        Fault::WatchSilent,
        Fault::Compaction,
        Fault::ServerRestarts,
        Fault::StaleReplica,
        Fault::VersionTooLarge,
        Fault::ReplicasFlap,
        Fault::BookmarksOnly,
        Fault::NoBookmarks,
        Fault::InitialEndMissing,
        Fault::WatchUnknown,
        Fault::ResponseLost,
        Fault::WriteLost,
        Fault::Rival,
        Fault::ClockJumps,
        Fault::Partition,
        Fault::Crash,
        Fault::Pause,
        Fault::Panics,
    ];

    /// Faults that only an incorrect server shows.
    pub const ILLEGAL: [Fault; 4] =
        [Fault::EventSkipped, Fault::EventsReordered, Fault::EarlyInitialEnd, Fault::ItemOmitted];

    /// Returns the number in the catalogue of faults (docs/contract/reliability.md).
    pub fn number(self) -> &'static str {
        match self {
            Fault::WatchEnds => "F-1",
            Fault::WatchBreaks => "F-2",
            Fault::WatchTruncated => "F-3",
            Fault::WatchCorrupted => "F-4",
            Fault::WatchPieces => "F-5",
            Fault::WatchRepeats => "F-6",
            Fault::WatchExpires => "F-7",
            Fault::WatchRefused => "F-8",
            Fault::PageExpires => "F-9",
            Fault::TooManyRequests => "F-10",
            Fault::ServerError => "F-11",
            Fault::Refused => "F-12",
            Fault::Unauthenticated => "F-13",
            Fault::Slow => "F-14",
            Fault::Hangs => "F-15",
            Fault::WatchSilent => "F-16",
            Fault::Compaction => "F-17",
            Fault::ServerRestarts => "F-18",
            Fault::StaleReplica => "F-19",
            Fault::VersionTooLarge => "F-20",
            Fault::ReplicasFlap => "F-21",
            Fault::BookmarksOnly => "F-22",
            Fault::NoBookmarks | Fault::InitialEndMissing => "F-23",
            Fault::WatchUnknown => "F-24",
            Fault::ResponseLost => "F-25",
            Fault::WriteLost => "F-26",
            Fault::Rival => "F-27",
            Fault::ClockJumps => "F-28",
            Fault::Partition => "F-29",
            Fault::Crash => "F-30",
            Fault::Pause => "F-31",
            Fault::Panics => "F-32",
            Fault::BackupRestored => "F-35",
            Fault::EventSkipped => "F-36",
            Fault::EventsReordered => "F-37",
            Fault::EarlyInitialEnd => "F-38",
            Fault::ItemOmitted => "F-39",
        }
    }

    /// Returns whether the fault concerns a single request.
    pub(crate) fn is_of_request(self, request: RequestClass) -> bool {
        use RequestClass::{List, NamedWrite, Page, WatchList, Write};
        match self {
            Fault::WatchEnds
            | Fault::WatchBreaks
            | Fault::WatchTruncated
            | Fault::WatchCorrupted
            | Fault::WatchPieces
            | Fault::WatchRepeats
            | Fault::WatchExpires
            | Fault::WatchRefused
            | Fault::WatchSilent
            | Fault::BookmarksOnly
            | Fault::NoBookmarks
            | Fault::EventSkipped
            | Fault::EventsReordered
            | Fault::WatchUnknown => request.is_watch(),
            Fault::InitialEndMissing | Fault::EarlyInitialEnd => matches!(request, WatchList { .. }),
            Fault::ItemOmitted => matches!(request, List { .. } | Page),
            Fault::VersionTooLarge => {
                matches!(request, List { names_version: true } | WatchList { names_version: true })
            }
            Fault::PageExpires => request == Page,
            Fault::TooManyRequests | Fault::ServerError | Fault::Refused | Fault::Unauthenticated | Fault::Hangs => {
                true
            }
            // The events of a watch are late in any case.
            Fault::Slow => !request.is_watch(),
            Fault::ResponseLost | Fault::WriteLost => matches!(request, Write | NamedWrite),
            Fault::Rival => request == NamedWrite,
            Fault::Compaction
            | Fault::ServerRestarts
            | Fault::StaleReplica
            | Fault::ReplicasFlap
            | Fault::ClockJumps
            | Fault::Partition
            | Fault::Crash
            | Fault::Pause
            | Fault::Panics
            | Fault::BackupRestored => false,
        }
    }
}

/// What faults may concern a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestClass {
    /// A read of one object.
    Get,
    /// A list, or its first page.
    List {
        /// It must not be older than a resource version, or of exactly that one.
        names_version: bool,
    },
    /// A later page of a list.
    Page,
    Watch,
    /// A watch with initial events.
    WatchList {
        /// Its initial events must not be older than a resource version.
        names_version: bool,
    },
    /// A write that names no object.
    Write,
    /// A write of an existing object.
    NamedWrite,
}

impl RequestClass {
    pub(crate) const ALL: [RequestClass; 9] = [
        RequestClass::Get,
        RequestClass::List { names_version: false },
        RequestClass::List { names_version: true },
        RequestClass::Page,
        RequestClass::Watch,
        RequestClass::WatchList { names_version: false },
        RequestClass::WatchList { names_version: true },
        RequestClass::Write,
        RequestClass::NamedWrite,
    ];

    pub(crate) fn is_watch(self) -> bool {
        matches!(self, RequestClass::Watch | RequestClass::WatchList { .. })
    }
}

/// What is done about a fault of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RequestFault {
    /// The server injects it.
    Inject(Action),
    /// The request does not reach the server.
    Refuse,
    /// It waits this long before it reaches the server.
    Delay(Duration),
    /// Its response waits this long.
    DelayResponse(Duration),
    /// It does not reach the server, and its sender learns that late.
    Hang,
    /// Another client changes the object first.
    Rival,
    /// The page is refused with 410.
    ExpirePage {
        /// The response has a token that continues the list at the latest revision.
        has_token: bool,
    },
    /// The resource version that the list names is refused, until the resource is written again.
    RefuseVersion,
    /// The watch waits this long before the bookmark that ends its initial events, or ends there.
    BeforeInitialEnd(Option<Duration>),
}

/// Draws the parameters of a fault. Returns what is done, and what to call it.
pub(crate) fn request_fault(fault: Fault, decisions: &mut Decisions) -> (RequestFault, String) {
    let mut number = |bound: u32| decisions.uniform(Stream::Fault, bound);
    let watch = |action| RequestFault::Inject(Action::Watch(action));
    match fault {
        Fault::WatchEnds => {
            let events = u64::from(number(6));
            (watch(WatchAction::CloseAfterEvents(events)), format!("the watch ends after {events} events"))
        }
        Fault::WatchBreaks => {
            let (event, byte) = (u64::from(number(4)), number(FRAME) as usize);
            (watch(WatchAction::CloseMidFrame { event, byte }), format!("the watch breaks in event {event}"))
        }
        Fault::WatchTruncated => {
            let (event, byte) = (u64::from(number(4)), number(FRAME) as usize);
            (watch(WatchAction::TruncateFrame { event, byte }), format!("the watch ends in event {event}"))
        }
        Fault::WatchCorrupted => {
            let (event, byte) = (u64::from(number(4)), number(FRAME) as usize);
            (watch(WatchAction::CorruptFrame { event, byte }), format!("event {event} of the watch is corrupted"))
        }
        Fault::WatchPieces => match number(3) {
            0 => (watch(WatchAction::SplitFrame { sizes: Vec::new() }), "the watch sends single bytes".to_owned()),
            1 => {
                let sizes = (0..4).map(|_| 1 + number(300) as usize).collect();
                (watch(WatchAction::SplitFrame { sizes }), "the watch sends pieces".to_owned())
            }
            _ => {
                let (events, wait) = (2 + number(5) as usize, Duration::from_millis(u64::from(number(5_000))));
                (
                    watch(WatchAction::CoalesceFrames { events, wait }),
                    format!("the watch sends {events} events at once"),
                )
            }
        },
        Fault::WatchRepeats => {
            let event = u64::from(number(4));
            (watch(WatchAction::DuplicateEvent { event }), format!("the watch repeats event {event}"))
        }
        Fault::WatchExpires => {
            let event = u64::from(number(4));
            let action = WatchAction::Expire { event, form: ExpireForm::Event };
            (watch(action), format!("the watch expires before event {event}"))
        }
        Fault::WatchRefused => (
            watch(WatchAction::Expire { event: 0, form: ExpireForm::Http }),
            "the watch is refused with 410".to_owned(),
        ),
        Fault::WatchSilent => {
            let event = u64::from(number(4));
            let action = WatchAction::StallFor { event, duration: Duration::from_secs(86_400) };
            (watch(action), format!("the watch is silent before event {event}"))
        }
        Fault::BookmarksOnly => (watch(WatchAction::BookmarkOnly), "the watch sends bookmarks only".to_owned()),
        Fault::VersionTooLarge => (RequestFault::RefuseVersion, "the resource version is too large".to_owned()),
        Fault::InitialEndMissing => match number(2) {
            0 => {
                (RequestFault::BeforeInitialEnd(None), "the watch ends before the end of its initial events".to_owned())
            }
            _ => {
                let delay = Duration::from_millis(u64::from(number(45_000)));
                let words = format!("the end of the initial events is late ({delay:.1?})");
                (RequestFault::BeforeInitialEnd(Some(delay)), words)
            }
        },
        Fault::NoBookmarks => (watch(WatchAction::NoBookmarks), "the watch sends no bookmarks".to_owned()),
        Fault::WatchUnknown => {
            let event = u64::from(number(4));
            match number(2) {
                0 => (watch(WatchAction::UnknownEventType { event }), "the watch sends an unknown event".to_owned()),
                _ => (watch(WatchAction::WrongKindObject { event }), "the watch sends another kind".to_owned()),
            }
        }
        Fault::EventSkipped => {
            let event = u64::from(number(6));
            (watch(WatchAction::SkipEvent { event }), format!("the watch misses event {event}"))
        }
        Fault::EventsReordered => {
            let first = u64::from(number(6));
            let second = first + 1 + u64::from(number(3));
            (watch(WatchAction::Reorder { first, second }), format!("the watch swaps events {first} and {second}"))
        }
        Fault::EarlyInitialEnd => {
            (watch(WatchAction::EarlyInitialEnd), "the initial objects of the watch end too early".to_owned())
        }
        Fault::ItemOmitted => {
            let item = u64::from(number(4));
            (RequestFault::Inject(Action::OmitItem { item }), format!("the list misses object {item}"))
        }
        Fault::PageExpires => {
            let has_token = number(2) == 1;
            let words = if has_token { "the page has expired; a token continues" } else { "the page has expired" };
            (RequestFault::ExpirePage { has_token }, words.to_owned())
        }
        Fault::TooManyRequests => {
            let retry_after = [None, Some(1), Some(5), Some(30)].get(number(4) as usize).copied().flatten();
            let wait = retry_after.map(|seconds| format!(", retry after {seconds} s")).unwrap_or_default();
            (RequestFault::Inject(status(429, retry_after)), format!("429{wait}"))
        }
        Fault::ServerError => {
            let code = [500, 503, 504].get(number(3) as usize).copied().unwrap_or(500);
            let retry_after = (number(2) == 1).then_some(1);
            (RequestFault::Inject(status(code, retry_after)), code.to_string())
        }
        Fault::Unauthenticated => match number(2) {
            0 => (RequestFault::Inject(status(401, None)), "401".to_owned()),
            _ => (RequestFault::Refuse, "the TLS handshake fails".to_owned()),
        },
        Fault::Slow => {
            let delay = Duration::from_millis(u64::from(number(45_000)));
            match number(2) {
                0 => (RequestFault::Delay(delay), format!("the request is slow ({delay:.1?})")),
                _ => (RequestFault::DelayResponse(delay), format!("the response is slow ({delay:.1?})")),
            }
        }
        Fault::Hangs => (RequestFault::Hang, "the request hangs".to_owned()),
        Fault::ResponseLost => {
            (RequestFault::Inject(Action::CommitThenDrop), "done, and the response is lost".to_owned())
        }
        Fault::WriteLost => (RequestFault::Inject(Action::DropBeforeCommit), "lost before it is done".to_owned()),
        Fault::Rival => (RequestFault::Rival, "another client changes the object first".to_owned()),
        Fault::Refused
        | Fault::Compaction
        | Fault::ServerRestarts
        | Fault::StaleReplica
        | Fault::ReplicasFlap
        | Fault::ClockJumps
        | Fault::Partition
        | Fault::Crash
        | Fault::Pause
        | Fault::Panics
        | Fault::BackupRestored => (RequestFault::Refuse, "the connection is refused".to_owned()),
    }
}

/// Returns the 410 of a page, with a token that continues the list if there is one.
pub(crate) fn expired_page(token: Option<String>) -> Action {
    let mut status = Status::expired("the provided continue parameter is too old");
    status.metadata.continue_token = token.unwrap_or_default();
    Action::Status(Box::new(status))
}

fn status(code: u16, retry_after: Option<u32>) -> Action {
    let (reason, message) = match code {
        401 => (Reason::UNAUTHORIZED, "Unauthorized"),
        429 => (Reason::TOO_MANY_REQUESTS, "too many requests"),
        503 => (Reason::SERVICE_UNAVAILABLE, "the server is currently unable to handle the request"),
        504 => (Reason::TIMEOUT, "the request timed out"),
        _ => (Reason::INTERNAL_ERROR, "an error on the server"),
    };
    let status = Status::failure(code, reason, message);
    Action::Status(Box::new(match retry_after {
        Some(retry_after_seconds) => {
            status.with_details(StatusDetails { retry_after_seconds, ..StatusDetails::default() })
        }
        None => status,
    }))
}
