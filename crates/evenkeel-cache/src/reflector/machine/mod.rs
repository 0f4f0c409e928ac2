//! [`ReflectorMachine`]: what a reflector does next. No I/O; time and chance are passed in.
//!
//! A reflector goes in rounds. A round begins with all objects, from a list or from a watch that begins with them
//! (WatchList), and goes on with watches, one after the other, for as long as each can begin where the one before ended.
//! When that cannot be, a new round begins. Whoever drives the course asks for the next [`ReflectorAction`], does it, and tells what
//! came of it.

mod watch_end;

use std::time::Duration;

use evenkeel_core::{ResourceVersion, Status};
use tokio::time::Instant;

use super::backoff::{Backoff, BackoffState};
use super::error::Recovery;
use super::error_window::ErrorWindow;
use super::liveness::Liveness;
use crate::source::{ListRequest, SourceError, WatchRequest};
pub(super) use watch_end::{WatchEnd, WatchEndKind};

/// How many objects are asked for at once if nobody says otherwise.
const PAGE: u32 = 500;
/// The shortest time that the server is asked to keep a watch open.
pub(super) const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(300);
/// How much later than it was to end a watch may end before it counts as dead.
const GRACE: Duration = Duration::from_secs(30);
/// After how long without an internal error the next one is the first of its kind.
const CALM: Duration = Duration::from_secs(60);
/// Objects that could not be read make the reflector list again, but no more often than this.
const RELIST_INTERVAL: Duration = Duration::from_secs(600);
/// How long a server is believed that asks to be left alone.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// What a reflector is to do, as far as its course is concerned.
#[derive(Clone, Debug)]
pub(super) struct ReflectorSettings {
    pub(super) resync_period: Duration,
    pub(super) page_size: u32,
    pub(super) watch_list: bool,
    pub(super) min_watch_timeout: Duration,
    pub(super) backoff: Backoff,
    pub(super) internal_error_retry: Duration,
    /// The shortest silence after which a watch may count as dead; `None` if silence says nothing.
    pub(super) silence: Option<Duration>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ReflectorAction {
    /// Nothing, until then. If the round goes on, resyncs are due meanwhile.
    Wait(Instant),
    /// Ask for a page.
    List(ListRequest),
    /// Ask for a watch.
    Watch(WatchRequest),
}

/// What there is to do after a page.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PageOutcome {
    /// Ask for another.
    More,
    /// Write what all pages had, at this version.
    Last(ResourceVersion),
    /// The pages go round in circles.
    Endless,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DueAction {
    Nothing,
    /// The resync period is over.
    Resync,
    /// The watch should have ended by now.
    Overdue {
        timeout: Duration,
    },
    /// The watch has been silent for too long.
    Silent {
        silence: Duration,
    },
    /// Objects could not be read, and it is time to see what became of them.
    Relist,
    /// All objects have not come yet, and nothing has for a while.
    StillSyncing {
        silence: Duration,
    },
}

#[derive(Debug)]
pub(super) struct ReflectorMachine {
    settings: ReflectorSettings,
    /// The version of the last event, bookmark or list; empty if there was none.
    version: String,
    has_version: bool,
    /// The server cannot serve [`version`](Self::version).
    is_version_unavailable: bool,
    /// A list of whatever is at hand came in pages, so the server does not hold everything at hand.
    pages_whatever_is_at_hand: bool,
    delays: BackoffState,
    internal_errors: ErrorWindow,
    stage: ReflectorStage,
    /// When the next step is due.
    due: Option<Instant>,
    round: CycleState,
    watch: Option<OpenWatch>,
    liveness: Liveness,
    resync_at: Option<Instant>,
    relist_at: Option<Instant>,
    /// When objects that could not be read last led to a new round.
    relisted: Option<Instant>,
    /// How many watches in a row ended within a second.
    hasty: u32,
}

#[derive(Debug)]
enum ReflectorStage {
    Begin,
    List(PagedList),
    WatchList,
    Watch,
}

/// A list that comes in pages.
#[derive(Debug)]
struct PagedList {
    version: String,
    limit: u32,
    token: String,
    /// The version of the first page, which is that of the list.
    first: Option<ResourceVersion>,
    pages: u32,
}

/// What is remembered for one round only.
#[derive(Debug, Default)]
struct CycleState {
    /// The version has been found unavailable.
    has_expired: bool,
    /// How many watches ended before all objects had come.
    early: u32,
}

/// The watch that is open, or asked for.
#[derive(Debug)]
struct OpenWatch {
    asked: Instant,
    timeout: Duration,
    heard: Instant,
    /// How many events have come that count.
    events: u64,
    /// All events so far say that an object was added, and may tell of objects in any order.
    is_leading: bool,
    /// When to complain that all objects have not come.
    complain_at: Option<Instant>,
}

/// While all objects have not come, silence is told of this often.
const COMPLAINT: Duration = Duration::from_secs(10);

impl ReflectorMachine {
    pub(super) fn new(settings: ReflectorSettings) -> Self {
        ReflectorMachine {
            version: String::new(),
            has_version: false,
            is_version_unavailable: false,
            pages_whatever_is_at_hand: false,
            delays: BackoffState::new(settings.backoff),
            internal_errors: ErrorWindow::new(settings.internal_error_retry, CALM),
            stage: ReflectorStage::Begin,
            due: None,
            round: CycleState::default(),
            watch: None,
            liveness: Liveness::new(settings.silence),
            resync_at: None,
            relist_at: None,
            relisted: None,
            hasty: 0,
            settings,
        }
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// How many failures in a row made the reflector wait.
    pub(super) fn failures(&self) -> u32 {
        self.delays.failures()
    }

    /// The reflector is run, perhaps not for the first time: a round begins.
    pub(super) fn restart(&mut self) {
        self.stage = ReflectorStage::Begin;
        self.due = None;
        self.watch = None;
    }

    /// What to do now. `random` is evenly spread over `[0, 1)`.
    pub(super) fn step(&mut self, now: Instant, random: f64) -> ReflectorAction {
        if let Some(due) = self.due.take()
            && due > now
        {
            self.due = Some(due);
            return ReflectorAction::Wait(due);
        }
        if let ReflectorStage::Begin = self.stage {
            self.begin();
        }
        match &self.stage {
            ReflectorStage::List(listing) => ReflectorAction::List(ListRequest {
                // What follows a page is found by the token alone.
                resource_version: if listing.token.is_empty() { listing.version.clone() } else { String::new() },
                limit: listing.limit,
                continue_token: listing.token.clone(),
                ..ListRequest::default()
            }),
            ReflectorStage::Begin | ReflectorStage::WatchList => self.ask_watch(now, random, true),
            ReflectorStage::Watch => self.ask_watch(now, random, false),
        }
    }

    fn begin(&mut self) {
        self.internal_errors.close();
        self.round = CycleState::default();
        self.resync_at = None;
        self.relist_at = None;
        self.hasty = 0;
        self.stage =
            if self.settings.watch_list { ReflectorStage::WatchList } else { ReflectorStage::List(self.first_page()) };
    }

    fn first_page(&self) -> PagedList {
        let version = match () {
            () if self.is_version_unavailable => "",
            () if !self.has_version => "0",
            () => &self.version,
        };
        self.list_of(version)
    }

    fn list_of(&self, version: &str) -> PagedList {
        let limit = match self.settings.page_size {
            0 if self.pages_whatever_is_at_hand => PAGE,
            // Servers that hold everything at hand serve this from there, all at once, whatever the limit.
            0 if !matches!(version, "" | "0") => 0,
            0 => PAGE,
            explicit => explicit,
        };
        PagedList { version: version.to_owned(), limit, token: String::new(), first: None, pages: 0 }
    }

    fn ask_watch(&mut self, now: Instant, random: f64, initial_events: bool) -> ReflectorAction {
        let shortest = self.settings.min_watch_timeout.max(MIN_WATCH_TIMEOUT);
        let seconds = shortest.as_secs_f64() * (1.0 + random.clamp(0.0, 1.0));
        let timeout = Duration::from_secs(seconds as u64);
        let version = if initial_events && self.is_version_unavailable { "" } else { &self.version };
        self.watch = Some(OpenWatch {
            asked: now,
            timeout,
            heard: now,
            events: 0,
            is_leading: initial_events || matches!(version, "" | "0"),
            complain_at: initial_events.then(|| now + COMPLAINT),
        });
        ReflectorAction::Watch(WatchRequest { resource_version: version.to_owned(), timeout, initial_events })
    }

    /// A page has come to its end.
    pub(super) fn page(&mut self, version: ResourceVersion, token: String) -> PageOutcome {
        let ReflectorStage::List(listing) = &mut self.stage else { return PageOutcome::Last(version) };
        listing.pages += 1;
        let first = listing.first.get_or_insert(version).clone();
        if token.is_empty() {
            self.pages_whatever_is_at_hand |= listing.version == "0" && listing.pages > 1;
            return PageOutcome::Last(first);
        }
        if token == listing.token {
            return PageOutcome::Endless;
        }
        listing.token = token;
        PageOutcome::More
    }

    /// What has come has been written: the store is at this version.
    pub(super) fn synced(&mut self, version: &ResourceVersion, now: Instant) {
        self.version.clear();
        self.version.push_str(version.as_str());
        self.has_version = true;
        self.is_version_unavailable = false;
        self.stage = ReflectorStage::Watch;
        self.delays.well(now);
        self.set_resync_period(self.settings.resync_period, now);
        if let Some(watch) = &mut self.watch {
            watch.complain_at = None;
        }
    }

    /// The list, or a page of it, could not be had. What has come of it is to be dropped.
    pub(super) fn list_failed(&mut self, error: &SourceError, now: Instant, random: f64) -> Recovery {
        let ReflectorStage::List(listing) = &mut self.stage else { return self.relist(None, now, random) };
        if error.is_expired() && !listing.token.is_empty() {
            // The token is too old. The version may still do, but the pages would be too slow again.
            *listing = PagedList {
                version: std::mem::take(&mut listing.version),
                limit: 0,
                token: String::new(),
                first: None,
                pages: 0,
            };
            return Recovery::Relist { after: Duration::ZERO };
        }
        if is_version_unavailable(error) && !listing.version.is_empty() {
            self.is_version_unavailable = true;
            self.stage = ReflectorStage::List(self.list_of(""));
            return Recovery::Relist { after: Duration::ZERO };
        }
        self.relist(Some(error), now, random)
    }

    /// What has come could not be written, or must not be.
    pub(super) fn list_unusable(&mut self, now: Instant, random: f64) -> Recovery {
        self.relist(None, now, random)
    }

    /// The watch is there.
    pub(super) fn watch_opened(&mut self, now: Instant) {
        if let Some(watch) = &mut self.watch {
            watch.heard = now;
        }
        if let ReflectorStage::Watch = self.stage {
            self.delays.well(now);
        }
    }

    /// An event has been taken: it moves the version, unless all objects have not come yet.
    pub(super) fn event(&mut self, version: &str, is_added: bool) {
        let Some(watch) = &mut self.watch else { return };
        watch.events += 1;
        watch.is_leading &= is_added;
        // What is there when a watch begins comes in any order, so the version of one says nothing of the others.
        if !watch.is_leading && !version.is_empty() && matches!(self.stage, ReflectorStage::Watch) {
            self.version.clear();
            self.version.push_str(version);
        }
    }

    /// A bookmark has come.
    pub(super) fn bookmark(&mut self, version: &str, now: Instant) {
        self.liveness.beat(now);
        self.event(version, false);
    }

    /// Something has come.
    pub(super) fn heard(&mut self, now: Instant) {
        if let Some(watch) = &mut self.watch {
            watch.heard = now;
            if let Some(at) = &mut watch.complain_at {
                *at = now + COMPLAINT;
            }
        }
    }

    /// An object could not be read. It may be that it was deleted, so all objects are asked for again, after a while and not
    /// too often.
    pub(super) fn unreadable(&mut self, now: Instant) {
        if let Some(watch) = &mut self.watch {
            watch.events += 1;
        }
        if self.relist_at.is_none() && matches!(self.stage, ReflectorStage::Watch) {
            let soon = now + self.settings.backoff.cap;
            self.relist_at = Some(self.relisted.map_or(soon, |last| soon.max(last + RELIST_INTERVAL)));
        }
    }

    /// Whether a list is made because a watch would not begin with all objects.
    pub(super) fn is_listing_instead(&self) -> bool {
        self.settings.watch_list && matches!(self.stage, ReflectorStage::List(_))
    }

    fn list_instead(&mut self) -> Recovery {
        self.stage = ReflectorStage::List(self.first_page());
        Recovery::Relist { after: Duration::ZERO }
    }

    fn relist(&mut self, error: Option<&SourceError>, now: Instant, random: f64) -> Recovery {
        self.stage = ReflectorStage::Begin;
        self.watch = None;
        // Resyncs tell of what a watch keeps up to date.
        self.resync_at = None;
        self.wait(error, now, random, |after| Recovery::Relist { after })
    }

    fn watch_again(&mut self, error: Option<&SourceError>, now: Instant, random: f64) -> Recovery {
        self.wait(error, now, random, |after| Recovery::Rewatch { after })
    }

    fn wait(
        &mut self,
        error: Option<&SourceError>,
        now: Instant,
        random: f64,
        next: fn(Duration) -> Recovery,
    ) -> Recovery {
        let asked = error.and_then(SourceError::status).and_then(Status::retry_after).unwrap_or_default();
        let after = self.delays.failed(now, random).max(asked.min(LONGEST_ASKED));
        self.due = now.checked_add(after);
        next(after)
    }

    /// When something is due, if nothing happens before. It may turn out that it is not.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let watch = self.watch.as_ref();
        let overdue = watch.and_then(|watch| watch.asked.checked_add(watch.timeout + GRACE));
        let silent = watch.and_then(|watch| watch.heard.checked_add(self.liveness.longest_silence()?));
        let complain = watch.and_then(|watch| watch.complain_at);
        let relist = self.relist_at.filter(|_| watch.is_some());
        [overdue, silent, complain, relist, self.resync_at].into_iter().flatten().min()
    }

    /// What is due now. The next resync is a period away from when this is said to be [over](Self::resynced).
    pub(super) fn due(&mut self, now: Instant) -> DueAction {
        if self.resync_at.is_some_and(|at| at <= now) {
            return DueAction::Resync;
        }
        let Some(watch) = &mut self.watch else { return DueAction::Nothing };
        if watch.asked.checked_add(watch.timeout + GRACE).is_some_and(|at| at <= now) {
            return DueAction::Overdue { timeout: watch.timeout };
        }
        let silence = now.saturating_duration_since(watch.heard);
        if self.liveness.longest_silence().is_some_and(|longest| silence >= longest) {
            return DueAction::Silent { silence };
        }
        if self.relist_at.is_some_and(|at| at <= now) {
            return DueAction::Relist;
        }
        if watch.complain_at.is_some_and(|at| at <= now) {
            watch.complain_at = Some(now + COMPLAINT);
            return DueAction::StillSyncing { silence };
        }
        DueAction::Nothing
    }

    /// The resync period is another one, from now on.
    pub(super) fn set_resync_period(&mut self, period: Duration, now: Instant) {
        self.settings.resync_period = period;
        let counts = matches!(self.stage, ReflectorStage::Watch) && !period.is_zero();
        self.resync_at = counts.then(|| now.checked_add(period)).flatten();
    }

    /// A resync is over.
    pub(super) fn resynced(&mut self, now: Instant) {
        self.resync_at = now.checked_add(self.settings.resync_period);
    }
}

/// The server cannot serve the version that was asked for: it is too old, or not there yet.
fn is_version_unavailable(error: &SourceError) -> bool {
    error.is_expired() || error.status().is_some_and(is_too_large)
}

/// Servers have said so in three ways.
fn is_too_large(status: &Status) -> bool {
    const WORDS: &str = "Too large resource version";
    let said = || status.details.iter().flat_map(|details| &details.causes).any(|cause| cause.message == WORDS);
    status.has_cause("ResourceVersionTooLarge") || (status.is_timeout() && (said() || status.message.contains(WORDS)))
}
