//! [`ReflectorMachine`]: decides what a reflector does next. No I/O; time and randomness are arguments.
//!
//! A reflector works in list-and-watch cycles. A cycle starts with all objects, from a list or from a WatchList. Then it watches:
//! each watch continues at the resource version of the one before. When that is impossible, a relist starts a new cycle. The
//! driver calls [`step`](ReflectorMachine::step) for the next [`ReflectorAction`], performs it, and reports the outcome.

mod watch_end;

use std::time::Duration;

use evenkeel_base::planted::{Defect, is_planted};
use evenkeel_core::{ResourceVersion, Status};
use tokio::time::Instant;

use super::backoff::{Backoff, BackoffState};
use super::error::{Recovery, ReflectorError};
use super::error_window::ErrorWindow;
use super::limits::PageProgress;
use super::liveness::Liveness;
use super::stall::StallClock;
use crate::source::{ListRequest, SourceError, WatchRequest};
pub(super) use watch_end::{WatchEnd, WatchEndKind};

/// The default page size of lists.
const PAGE: u32 = 500;
/// The shortest watch timeout that is requested of the server.
pub(super) const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(300);
/// How long after its timeout a watch counts as dead.
const GRACE: Duration = Duration::from_secs(30);
/// The time without an internal error after which the next one opens a new error window.
const CALM: Duration = Duration::from_secs(60);
/// The shortest time between two relists because of unreadable objects.
const RELIST_INTERVAL: Duration = Duration::from_secs(600);
/// The longest `Retry-After` that is obeyed.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// The settings of a reflector that concern its state machine.
#[derive(Clone, Debug)]
pub(super) struct ReflectorSettings {
    pub(super) resync_period: Duration,
    pub(super) page_size: u32,
    pub(super) watch_list: bool,
    /// The first list is requested without a version, as the newest state.
    pub(super) consistent_restart: bool,
    pub(super) min_watch_timeout: Duration,
    pub(super) backoff: Backoff,
    pub(super) internal_error_retry: Duration,
    /// The shortest silence after which a watch may count as dead; `None` for never.
    pub(super) silence: Option<Duration>,
}

/// The next action of the driver.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ReflectorAction {
    /// Wait until then. If the cycle continues, resyncs are due meanwhile.
    Wait(Instant),
    /// Request a page of a list.
    List(ListRequest),
    /// Request a watch.
    Watch(WatchRequest),
}

/// What follows a page of a list.
#[derive(Debug)]
pub(super) enum PageOutcome {
    /// Request the next page.
    More,
    /// Replace the store with the objects of all pages, at this version.
    Last(ResourceVersion),
    /// The list makes no progress.
    Endless(ReflectorError),
}

/// What is due now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DueAction {
    Nothing,
    /// The resync period is over.
    Resync,
    /// The server has not closed the watch after its timeout.
    Overdue {
        timeout: Duration,
    },
    /// The watch has been silent for too long.
    Silent {
        silence: Duration,
    },
    /// Objects were unreadable, and a relist is due.
    Relist,
    /// The watch is to be requested again.
    Rewatch,
    /// The request has made no progress for a while: there is no response, or the initial list does not grow.
    Stalled {
        waited: Duration,
        initial_events: bool,
    },
    /// The WatchList has made no progress for so long that a list replaces it.
    NoBookmark {
        waited: Duration,
    },
}

#[derive(Debug)]
pub(super) struct ReflectorMachine {
    settings: ReflectorSettings,
    /// The resource version of the last event, bookmark or list; empty before the first.
    version: String,
    has_version: bool,
    /// The server cannot serve [`version`](Self::version).
    is_version_unavailable: bool,
    /// The version that lists must not be older than, if it is newer than [`version`](Self::version): the sink has reached it.
    list_floor: Option<ResourceVersion>,
    /// The version at which a watch has last expired.
    expired: String,
    /// A list at version `0` came in pages, so the server does not serve it from its watch cache.
    pages_cached_lists: bool,
    delays: BackoffState,
    internal_errors: ErrorWindow,
    stage: ReflectorStage,
    /// When the next step is due.
    due: Option<Instant>,
    cycle: CycleState,
    watch: Option<OpenWatch>,
    liveness: Liveness,
    resync_at: Option<Instant>,
    relist_at: Option<Instant>,
    /// Since when the watch is to be requested again.
    rewatch_at: Option<Instant>,
    /// When unreadable objects last caused a relist.
    relisted: Option<Instant>,
    /// The number of consecutive watches that ended within a second.
    hasty: u32,
}

#[derive(Debug)]
enum ReflectorStage {
    Start,
    List(PagedList),
    WatchList,
    Watch,
}

/// A list in pages.
#[derive(Debug)]
struct PagedList {
    version: String,
    limit: u32,
    token: String,
    /// The resource version of the first page, which is that of the list.
    first: Option<ResourceVersion>,
    pages: u32,
    progress: PageProgress,
}

/// State of one list-and-watch cycle.
#[derive(Debug, Default)]
struct CycleState {
    /// The server could not serve the version (expired, or too large); requests have none since.
    is_version_dropped: bool,
    /// The number of watches that ended before the initial list was complete.
    early: u32,
    /// The initial list lacks objects that were unreadable, or has earlier states of them.
    is_incomplete: bool,
}

/// The watch that is open or requested.
#[derive(Debug)]
struct OpenWatch {
    requested: Instant,
    timeout: Duration,
    last_event: Instant,
    /// The number of events.
    events: u64,
    /// All events so far are `ADDED`, and may be in any order.
    is_leading: bool,
    /// The progress of the request until the watch is open, and of a WatchList until the initial list is complete.
    stall: Option<StallClock>,
    initial_events: bool,
}

impl OpenWatch {
    /// Returns when the server should have closed the watch.
    fn overdue_at(&self) -> Option<Instant> {
        if is_planted(Defect::SilentWatchKept) {
            return None;
        }
        self.requested.checked_add(self.timeout + GRACE)
    }
}

/// A WatchList that makes no progress for this long is replaced by a list: a server without WatchList never sends the bookmark.
const NO_BOOKMARK: Duration = Duration::from_secs(30);

impl ReflectorMachine {
    pub(super) fn new(settings: ReflectorSettings) -> Self {
        ReflectorMachine {
            version: String::new(),
            has_version: false,
            is_version_unavailable: false,
            list_floor: None,
            expired: String::new(),
            pages_cached_lists: false,
            delays: BackoffState::new(settings.backoff),
            internal_errors: ErrorWindow::new(settings.internal_error_retry, CALM),
            stage: ReflectorStage::Start,
            due: None,
            cycle: CycleState::default(),
            watch: None,
            liveness: Liveness::new(settings.silence),
            resync_at: None,
            relist_at: None,
            rewatch_at: None,
            relisted: None,
            hasty: 0,
            settings,
        }
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Returns the number of consecutive failures that caused a backoff.
    pub(super) fn failures(&self) -> u32 {
        self.delays.failures()
    }

    /// Starts a cycle: the reflector runs, perhaps not for the first time.
    pub(super) fn restart(&mut self) {
        self.stage = ReflectorStage::Start;
        self.due = None;
        self.watch = None;
    }

    /// Returns the next action. `random` is uniform in `[0, 1)`.
    pub(super) fn step(&mut self, now: Instant, random: f64) -> ReflectorAction {
        if let Some(due) = self.due.take()
            && due > now
        {
            self.due = Some(due);
            return ReflectorAction::Wait(due);
        }
        if let ReflectorStage::Start = self.stage {
            self.start_cycle();
        }
        match &self.stage {
            ReflectorStage::List(listing) => ReflectorAction::List(ListRequest {
                // Only the continue token identifies the next page.
                resource_version: if listing.token.is_empty() { listing.version.clone() } else { String::new() },
                limit: listing.limit,
                continue_token: listing.token.clone(),
                ..ListRequest::default()
            }),
            ReflectorStage::Start | ReflectorStage::WatchList => self.request_watch(now, random, true),
            ReflectorStage::Watch => self.request_watch(now, random, false),
        }
    }

    fn start_cycle(&mut self) {
        self.internal_errors.close();
        self.cycle = CycleState::default();
        self.resync_at = None;
        self.relist_at = None;
        self.hasty = 0;
        self.stage =
            if self.settings.watch_list { ReflectorStage::WatchList } else { ReflectorStage::List(self.first_page()) };
    }

    fn first_page(&self) -> PagedList {
        let version = match () {
            () if self.is_version_unavailable => "",
            () if !self.has_version && self.settings.consistent_restart && !is_planted(Defect::StaleRestart) => "",
            () if !self.has_version => "0",
            () => self.oldest_list(),
        };
        self.list_of(version)
    }

    /// Returns the version that lists must not be older than.
    fn oldest_list(&self) -> &str {
        let floor = self.list_floor.as_ref();
        let floor = floor.filter(|floor| floor.is_newer_than(&ResourceVersion::new(&self.version)));
        floor.map_or(&*self.version, ResourceVersion::as_str)
    }

    fn list_of(&self, version: &str) -> PagedList {
        let limit = match self.settings.page_size {
            0 if self.pages_cached_lists => PAGE,
            // Servers with a watch cache ignore the limit for these.
            0 if !matches!(version, "" | "0") => 0,
            0 => PAGE,
            explicit => explicit,
        };
        PagedList {
            version: version.to_owned(),
            limit,
            token: String::new(),
            first: None,
            pages: 0,
            progress: PageProgress::default(),
        }
    }

    fn request_watch(&mut self, now: Instant, random: f64, initial_events: bool) -> ReflectorAction {
        let shortest = self.settings.min_watch_timeout.max(MIN_WATCH_TIMEOUT);
        let seconds = shortest.as_secs_f64() * (1.0 + random.clamp(0.0, 1.0));
        let timeout = Duration::from_secs(seconds as u64);
        if !initial_events {
            self.rewatch_at = None;
        }
        let version = match initial_events {
            true if self.is_version_unavailable => String::new(),
            true => self.oldest_list().to_owned(),
            false => self.version.clone(),
        };
        self.watch = Some(OpenWatch {
            requested: now,
            timeout,
            last_event: now,
            events: 0,
            is_leading: initial_events || matches!(&*version, "" | "0"),
            stall: Some(StallClock::new(now)),
            initial_events,
        });
        ReflectorAction::Watch(WatchRequest {
            resource_version: version,
            timeout,
            initial_events,
            shard_selector: None,
        })
    }

    /// Processes the end of a page with this many objects.
    pub(super) fn page(&mut self, version: ResourceVersion, token: String, objects: usize) -> PageOutcome {
        let ReflectorStage::List(listing) = &mut self.stage else { return PageOutcome::Last(version) };
        listing.pages += 1;
        let first = listing.first.get_or_insert(version).clone();
        if token.is_empty() {
            self.pages_cached_lists |= listing.version == "0" && listing.pages > 1;
            return PageOutcome::Last(first);
        }
        if let Err(error) = listing.progress.page(objects, &token) {
            return PageOutcome::Endless(error);
        }
        listing.token = token;
        PageOutcome::More
    }

    /// Records that the store was replaced at this version.
    pub(super) fn synced(&mut self, version: &ResourceVersion, now: Instant) {
        self.version.clear();
        self.version.push_str(version.as_str());
        self.list_floor = None;
        self.has_version = true;
        self.is_version_unavailable = false;
        self.stage = ReflectorStage::Watch;
        self.delays.succeeded(now);
        self.set_resync_period(self.settings.resync_period, now);
        if let Some(watch) = &mut self.watch {
            watch.stall = None;
        }
        if std::mem::take(&mut self.cycle.is_incomplete) {
            self.relist_later(now);
        }
    }

    /// Returns whether an expired list continues at a later version, with the token of its error. Never does without a plant: its pages
    /// would be of several versions.
    pub(super) fn continues_inconsistently(&mut self, error: &SourceError) -> bool {
        let ReflectorStage::List(listing) = &mut self.stage else { return false };
        let token = error.status().map(|status| &*status.metadata.continue_token).unwrap_or_default();
        if token.is_empty() || !is_planted(Defect::InconsistentPagesTrusted) {
            return false;
        }
        token.clone_into(&mut listing.token);
        true
    }

    /// Handles a failed list or page. The driver drops the pages so far.
    pub(super) fn list_failed(&mut self, error: &SourceError, now: Instant, random: f64) -> Recovery {
        let ReflectorStage::List(listing) = &mut self.stage else { return self.relist(None, now, random) };
        if error.is_expired() && !listing.token.is_empty() {
            // The continue token expired. The version may still be available, but paging would be too slow again.
            *listing = PagedList {
                version: std::mem::take(&mut listing.version),
                limit: 0,
                token: String::new(),
                first: None,
                pages: 0,
                progress: PageProgress::default(),
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

    /// Handles a list or page whose parameters were refused: the list starts again with others. The driver drops the pages so far.
    pub(super) fn list_again(&mut self) -> Recovery {
        if let ReflectorStage::List(listing) = &mut self.stage {
            *listing = PagedList {
                version: std::mem::take(&mut listing.version),
                limit: listing.limit,
                token: String::new(),
                first: None,
                pages: 0,
                progress: PageProgress::default(),
            };
        }
        Recovery::Relist { after: Duration::ZERO }
    }

    /// Handles a list that could not be written, or must not be.
    pub(super) fn list_unusable(&mut self, now: Instant, random: f64) -> Recovery {
        self.relist(None, now, random)
    }

    /// Records that the watch is open.
    pub(super) fn watch_opened(&mut self, now: Instant) {
        if let Some(watch) = &mut self.watch {
            watch.last_event = now;
            watch.stall = watch.initial_events.then(|| StallClock::new(now));
        }
        if let ReflectorStage::Watch = self.stage {
            self.delays.succeeded(now);
        }
    }

    /// Records an event. It advances the version once the initial list is complete.
    pub(super) fn event(&mut self, version: &str, is_added: bool) {
        let Some(watch) = &mut self.watch else { return };
        watch.events += 1;
        watch.is_leading &= is_added;
        if is_planted(Defect::InitialEventVersion) {
            watch.is_leading = false;
            self.stage = ReflectorStage::Watch;
        }
        // Initial events are in no order, so the version of one does not cover the others.
        if !watch.is_leading && !version.is_empty() && matches!(self.stage, ReflectorStage::Watch) {
            self.version.clear();
            self.version.push_str(version);
        }
    }

    /// Records a bookmark.
    pub(super) fn bookmark(&mut self, version: &str, now: Instant) {
        self.liveness.bookmark(now);
        self.event(version, false);
    }

    /// Records that the server sent something.
    pub(super) fn received(&mut self, now: Instant) {
        if let Some(watch) = &mut self.watch {
            watch.last_event = now;
        }
    }

    /// Records that the initial list has grown.
    pub(super) fn initial_list_grew(&mut self, now: Instant) {
        if let Some(stall) = self.watch.as_mut().and_then(|watch| watch.stall.as_mut()) {
            stall.progress(now);
        }
    }

    /// Records that a watch has expired at the version.
    ///
    /// The first time, the next list must not be older than it. The second time, that list was of the same version again: it came from
    /// a replica that is behind, and would for ever. So the next one is requested without a version.
    fn version_expired(&mut self) {
        if self.expired == self.version && !is_planted(Defect::RelistAtLastVersion) {
            self.is_version_unavailable = true;
        }
        self.expired.clone_from(&self.version);
    }

    /// Moves the version back: the next watch starts there. Lists are not older than `floor`.
    pub(super) fn rewind(&mut self, version: &ResourceVersion, floor: ResourceVersion) {
        self.version.clear();
        self.version.push_str(version.as_str());
        self.list_floor = Some(floor);
    }

    /// Makes the watch due to be requested again, once the initial list is complete.
    pub(super) fn rewatch(&mut self, now: Instant) {
        self.rewatch_at = Some(now);
    }

    /// Returns whether a relist is due later because objects were unreadable.
    pub(super) fn is_relist_due(&self) -> bool {
        self.relist_at.is_some()
    }

    /// Records that the stored objects are not those of the version: the next list is requested without a version.
    pub(super) fn distrust_version(&mut self) {
        self.is_version_unavailable = true;
    }

    /// Records an object of the initial list that is unreadable, name included. Returns whether the list may be used all the same.
    ///
    /// Any stored object may be the one, and a list without it would delete it. If nothing is stored yet, the list is used, and a
    /// relist is due later.
    pub(super) fn lost_initial_object(&mut self) -> bool {
        self.cycle.is_incomplete = true;
        !self.has_version
    }

    /// Records that the store will have an earlier state of an initial object, or none: a relist is due after the sync.
    pub(super) fn unreadable_initial_object(&mut self) {
        self.cycle.is_incomplete = true;
    }

    /// Records an unreadable object. The event may have been its deletion, so a relist is due, after a while and not too often.
    pub(super) fn unreadable(&mut self, now: Instant) {
        if let Some(watch) = &mut self.watch {
            watch.events += 1;
        }
        self.relist_later(now);
    }

    /// Makes a relist due, after a while and not too often: an event was lost.
    pub(super) fn relist_later(&mut self, now: Instant) {
        if self.relist_at.is_none() && matches!(self.stage, ReflectorStage::Watch) {
            let soon = now + self.settings.backoff.cap;
            self.relist_at = Some(self.relisted.map_or(soon, |last| soon.max(last + RELIST_INTERVAL)));
        }
    }

    /// Returns whether the reflector lists because the source refused a WatchList.
    pub(super) fn is_listing_instead(&self) -> bool {
        self.settings.watch_list && matches!(self.stage, ReflectorStage::List(_))
    }

    fn list_instead(&mut self) -> Recovery {
        self.stage = ReflectorStage::List(self.first_page());
        Recovery::Relist { after: Duration::ZERO }
    }

    fn relist(&mut self, error: Option<&SourceError>, now: Instant, random: f64) -> Recovery {
        self.stage = ReflectorStage::Start;
        self.watch = None;
        // Resyncs are due only while watching.
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
        let requested = error.and_then(SourceError::status).and_then(Status::retry_after).unwrap_or_default();
        let after = self.delays.failed(now, random).max(requested.min(LONGEST_RETRY_AFTER));
        self.due = now.checked_add(after);
        next(after)
    }

    fn may_rewatch(&self) -> bool {
        self.watch.is_some() && matches!(self.stage, ReflectorStage::Watch)
    }

    /// Returns when something may be due, if nothing happens before.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let watch = self.watch.as_ref();
        let overdue = watch.and_then(OpenWatch::overdue_at);
        let silent = watch.and_then(|watch| watch.last_event.checked_add(self.liveness.longest_silence()?));
        let stall = watch.and_then(|watch| watch.stall.as_ref());
        let report = stall.map(StallClock::report_at);
        let is_initial = watch.is_some_and(|watch| watch.initial_events);
        let no_bookmark = stall.filter(|_| is_initial).map(|stall| stall.after(NO_BOOKMARK));
        let relist = self.relist_at.filter(|_| watch.is_some());
        let rewatch = self.rewatch_at.filter(|_| self.may_rewatch());
        [rewatch, overdue, silent, report, no_bookmark, relist, self.resync_at].into_iter().flatten().min()
    }

    /// Returns what is due now. The next resync is one period after [`resynced`](Self::resynced).
    pub(super) fn due(&mut self, now: Instant) -> DueAction {
        if self.resync_at.is_some_and(|at| at <= now) {
            return DueAction::Resync;
        }
        if self.rewatch_at.is_some() && self.may_rewatch() {
            return DueAction::Rewatch;
        }
        let Some(watch) = &mut self.watch else { return DueAction::Nothing };
        if watch.overdue_at().is_some_and(|at| at <= now) {
            return DueAction::Overdue { timeout: watch.timeout };
        }
        let silence = now.saturating_duration_since(watch.last_event);
        if self.liveness.longest_silence().is_some_and(|longest| silence >= longest) {
            return DueAction::Silent { silence };
        }
        if self.relist_at.is_some_and(|at| at <= now) {
            return DueAction::Relist;
        }
        let initial_events = watch.initial_events;
        if let Some(stall) = &mut watch.stall {
            if initial_events && stall.after(NO_BOOKMARK) <= now {
                return DueAction::NoBookmark { waited: stall.waited(now) };
            }
            if let Some(waited) = stall.due(now) {
                return DueAction::Stalled { waited, initial_events };
            }
        }
        DueAction::Nothing
    }

    /// Sets the resync period from now on.
    pub(super) fn set_resync_period(&mut self, period: Duration, now: Instant) {
        self.settings.resync_period = period;
        let counts = matches!(self.stage, ReflectorStage::Watch) && !period.is_zero();
        self.resync_at = counts.then(|| now.checked_add(period)).flatten();
    }

    /// Records the end of a resync.
    pub(super) fn resynced(&mut self, now: Instant) {
        self.resync_at = now.checked_add(self.settings.resync_period);
    }
}

/// Returns whether the server cannot serve the requested version: it is too old, or not there yet.
fn is_version_unavailable(error: &SourceError) -> bool {
    error.is_expired() || (error.status().is_some_and(is_too_large) && !is_planted(Defect::TooLargeVersionRepeated))
}

/// Servers report it in three ways.
fn is_too_large(status: &Status) -> bool {
    const MESSAGE: &str = "Too large resource version";
    let has_cause = || status.details.iter().flat_map(|details| &details.causes).any(|cause| cause.message == MESSAGE);
    status.has_cause("ResourceVersionTooLarge")
        || (status.is_timeout() && (has_cause() || status.message.contains(MESSAGE)))
}
