//! Rings of several members against an API server in this process, in virtual time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use evenkeel_client::{Client, ListParams};
use evenkeel_core::shard::ShardRanges;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::ring::*;

/// How many places are worked on.
const PLACES: u64 = 32;

pub(super) async fn server() -> ApiServer {
    ApiServer::builder().in_process_only().bootstrap(false).start().await.unwrap()
}

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn probe(number: u64) -> u64 {
    number * (u64::MAX / PLACES) + 17
}

/// Who works on which place, and what went wrong.
#[derive(Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<LedgerState>>);

#[derive(Default)]
struct LedgerState {
    working: BTreeMap<u64, String>,
    epochs: BTreeMap<u64, u64>,
    overlaps: Vec<String>,
    worked: BTreeMap<u64, Instant>,
}

impl Ledger {
    fn enter(&self, place: u64, who: &str, epoch: u64) -> Working {
        let mut state = self.0.lock().unwrap();
        if let Some(other) = state.working.insert(place, who.to_owned()) {
            state.overlaps.push(format!("{who} and {other} at {place:x}"));
        }
        let highest = state.epochs.insert(place, epoch).unwrap_or(0);
        if highest > epoch {
            state.overlaps.push(format!("the epoch of {place:x} fell from {highest} to {epoch}"));
        }
        Working { ledger: self.clone(), place, who: who.to_owned() }
    }

    pub(super) fn assert_exclusive(&self) {
        assert_eq!(self.0.lock().unwrap().overlaps, Vec::<String>::new());
    }

    /// Returns how many places a process works on right now.
    pub(super) fn count(&self, who: &str) -> u64 {
        self.0.lock().unwrap().working.values().filter(|worker| *worker == who).count() as u64
    }

    pub(super) fn total(&self) -> u64 {
        self.0.lock().unwrap().working.len() as u64
    }

    /// Returns the highest epoch of a place so far.
    pub(super) fn epoch(&self, number: u64) -> u64 {
        self.0.lock().unwrap().epochs.get(&probe(number)).copied().unwrap_or(0)
    }

    fn note(&self, place: u64) {
        self.0.lock().unwrap().worked.insert(place, Instant::now());
    }
}

/// Work on a place, until it is dropped.
struct Working {
    ledger: Ledger,
    place: u64,
    who: String,
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut state = self.ledger.0.lock().unwrap();
        if state.working.get(&self.place) == Some(&self.who) {
            state.working.remove(&self.place);
        }
    }
}

pub(super) struct Replica {
    pub(super) handle: RingHandle,
    shutdown: Option<oneshot::Sender<()>>,
    pub(super) ended: JoinHandle<Result<(), RingError>>,
    events: JoinHandle<()>,
}

impl Replica {
    pub(super) fn leave(&mut self) {
        let _ = self.shutdown.take().unwrap().send(());
    }

    pub(super) async fn left(mut self) -> Result<(), RingError> {
        self.leave();
        self.ended.await.unwrap()
    }

    /// The process is gone, and releases nothing.
    pub(super) fn crash(self) {
        self.ended.abort();
        self.events.abort();
    }
}

pub(super) fn ring(client: &Client, identity: &str) -> Ring {
    Ring::new(client, "ring").identity(identity).namespace("default")
}

/// Starts a member that works on all places it is granted, each for `work` at a time.
pub(super) fn start(ring: Ring, who: &str, ledger: &Ledger, work: Duration) -> Replica {
    let (handle, mut slices) = (ring.handle(), ring.slices());
    let (shutdown, requested) = oneshot::channel::<()>();
    let events = tokio::spawn({
        let (handle, ledger, who) = (handle.clone(), ledger.clone(), who.to_owned());
        async move {
            while let Some(event) = slices.next().await {
                if let SliceEvent::Granted(grant) = event {
                    for place in (0..PLACES).map(probe).filter(|place| grant.range().contains(*place)) {
                        tokio::spawn(keep_working(handle.clone(), ledger.clone(), who.clone(), place, work));
                    }
                }
            }
        }
    });
    let ended = tokio::spawn(async move { ring.run(requested).await });
    Replica { handle, shutdown: Some(shutdown), ended, events }
}

/// Works on a place again and again, while it is owned or may become valid again.
async fn keep_working(handle: RingHandle, ledger: Ledger, who: String, place: u64, work: Duration) {
    while let Some(fence) = handle.fence(place) {
        let ran = handle.guard(place, async {
            let _working = ledger.enter(place, &who, fence.epoch);
            ledger.note(place);
            sleep(work).await;
        });
        if ran.await.is_none() {
            sleep(Duration::from_millis(50)).await;
        }
    }
}

pub(super) async fn lease_names(client: &Client) -> Vec<String> {
    let list = client.api::<Lease>().namespace("default").list(&ListParams::default()).await.unwrap();
    list.iter().map(|lease| lease.key().name().to_owned()).collect()
}

const TICK: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn shr_028_a_new_ring_starts_after_the_lease_duration_and_one_member_owns_everything() {
    let (server, ledger) = (server().await, Ledger::default());
    let a = start(ring(&server.client(), "a"), "a", &ledger, TICK);
    sleep(secs(14)).await;
    assert_eq!(ledger.total(), 0, "another member of an older table could still be working");
    sleep(secs(6)).await;
    assert_eq!(ledger.count("a"), PLACES);
    let members = a.handle.members();
    assert_eq!((members.len(), members[0].ranges.clone()), (1, ShardRanges::full()));
    let fence = a.handle.fence(7).unwrap();
    assert!(fence.epoch > 0 && fence.slice.contains(7) && &*fence.ring == "ring");
    assert!(a.handle.is_owned(7) && a.handle.slice_of(7).unwrap().owner == a.handle.member());
    a.left().await.unwrap();
    ledger.assert_exclusive();
}

#[tokio::test(start_paused = true)]
async fn shr_059_members_that_join_get_their_share_and_no_place_has_two() {
    let (server, ledger) = (server().await, Ledger::default());
    let client = server.client();
    let a = start(ring(&client, "a"), "a", &ledger, TICK);
    sleep(secs(20)).await;
    let epoch = ledger.epoch(3);
    let b = start(ring(&client, "b"), "b", &ledger, TICK);
    sleep(secs(12)).await;
    assert_eq!((ledger.count("a"), ledger.count("b")), (PLACES / 2, PLACES / 2));
    let c = start(ring(&client, "c"), "c", &ledger, TICK);
    sleep(secs(60)).await;
    let counts = ["a", "b", "c"].map(|who| ledger.count(who));
    assert_eq!(counts.iter().sum::<u64>(), PLACES);
    assert!(counts.iter().all(|count| (6..=14).contains(count)), "{counts:?}");
    assert_eq!(a.handle.members().len(), 3);
    let moved = (0..PLACES).filter(|number| ledger.epoch(*number) > epoch).count();
    assert!(moved >= 16, "epochs rise with each owner");
    drop((a, b, c));
    ledger.assert_exclusive();
}

#[tokio::test(start_paused = true)]
async fn shr_014_a_leaver_hands_its_slices_over_and_deletes_its_lease() {
    let (server, ledger) = (server().await, Ledger::default());
    let client = server.client();
    let _a = start(ring(&client, "a"), "a", &ledger, TICK);
    let b = start(ring(&client, "b"), "b", &ledger, TICK);
    sleep(secs(25)).await;
    assert_eq!(ledger.total(), PLACES);
    let name = format!("ring-{}", b.handle.member().unwrap());
    assert!(lease_names(&client).await.contains(&name));
    let began = Instant::now();
    b.left().await.unwrap();
    assert!(began.elapsed() < secs(10), "{:?}", began.elapsed());
    sleep(secs(1)).await;
    assert_eq!(ledger.count("a"), PLACES);
    assert!(!lease_names(&client).await.contains(&name));
    ledger.assert_exclusive();
}

#[tokio::test(start_paused = true)]
async fn she_025_the_last_member_frees_all_slices_and_the_next_one_needs_no_wait() {
    let (server, ledger) = (server().await, Ledger::default());
    let client = server.client();
    let a = start(ring(&client, "a"), "a", &ledger, TICK);
    sleep(secs(20)).await;
    a.left().await.unwrap();
    sleep(secs(1)).await;
    assert_eq!(lease_names(&client).await, ["ring", "ring-table"]);
    let _b = start(ring(&client, "b"), "b", &ledger, TICK);
    sleep(secs(8)).await;
    assert_eq!(ledger.count("b"), PLACES, "settle and two seconds, and not the lease duration");
    ledger.assert_exclusive();
}

#[tokio::test(start_paused = true)]
async fn shr_023_a_crashed_member_is_fenced_and_its_slices_move() {
    let (server, ledger) = (server().await, Ledger::default());
    let client = server.client();
    let _a = start(ring(&client, "a"), "a", &ledger, TICK);
    sleep(secs(20)).await;
    let b = start(ring(&client, "b"), "b", &ledger, TICK);
    sleep(secs(12)).await;
    let name = format!("ring-{}", b.handle.member().unwrap());
    b.crash();
    sleep(secs(11)).await;
    assert_eq!(ledger.count("a"), PLACES / 2, "the lease duration is not over");
    sleep(secs(8)).await;
    assert_eq!(ledger.count("a"), PLACES, "SHR-043: the lease duration and two seconds");
    let fenced = client.api::<Lease>().namespace("default").get(&name).await.unwrap().typed().unwrap();
    let annotations = fenced.metadata.annotations.clone().unwrap();
    assert!(annotations["ring.evenkeel.dev/fenced"].starts_with("expired"), "{annotations:?}");
    sleep(secs(40)).await;
    assert!(!lease_names(&client).await.contains(&name), "the assigner removes it");
    ledger.assert_exclusive();
}

#[tokio::test(start_paused = true)]
async fn shr_016_another_member_assigns_after_the_assigner_crashed() {
    let (server, ledger) = (server().await, Ledger::default());
    let client = server.client();
    let a = start(ring(&client, "a"), "a", &ledger, TICK);
    sleep(secs(20)).await;
    let _b = start(ring(&client, "b"), "b", &ledger, TICK);
    sleep(secs(12)).await;
    a.crash();
    sleep(secs(15 + 12 + 2)).await;
    assert_eq!(ledger.count("b"), PLACES, "SHR-043: lease duration and twelve seconds");
    ledger.assert_exclusive();
}

#[tokio::test(start_paused = true)]
async fn shr_033_a_range_is_not_released_while_its_work_runs() {
    let (server, ledger) = (server().await, Ledger::default());
    let client = server.client();
    let _a = start(ring(&client, "a"), "a", &ledger, secs(8));
    sleep(secs(20)).await;
    let _b = start(ring(&client, "b"), "b", &ledger, TICK);
    sleep(secs(40)).await;
    assert!(ledger.count("b") >= PLACES / 4, "{}", ledger.count("b"));
    ledger.assert_exclusive();
}

#[tokio::test(start_paused = true)]
async fn shr_030_nothing_is_granted_before_the_caller_has_covered_it() {
    let (server, ledger) = (server().await, Ledger::default());
    let client = server.client();
    let a = start(ring(&client, "a").covered_by_caller(), "a", &ledger, TICK);
    sleep(secs(25)).await;
    assert_eq!(ledger.total(), 0);
    let wanted = a.handle.wanted().borrow().clone();
    assert!(wanted.is_full());
    a.handle.cover(wanted);
    sleep(secs(1)).await;
    assert_eq!(ledger.count("a"), PLACES);
    let b = start(ring(&client, "b").covered_by_caller(), "b", &ledger, TICK);
    sleep(secs(15)).await;
    assert_eq!(ledger.count("a"), PLACES, "the predecessor works until the successor's caches are warm");
    let wanted = b.handle.wanted().borrow().clone();
    assert_eq!(wanted.width(), evenkeel_core::shard::PLACES / 2);
    b.handle.cover(wanted);
    sleep(secs(3)).await;
    assert_eq!(ledger.count("b"), PLACES / 2);
    ledger.assert_exclusive();
}

#[tokio::test(start_paused = true)]
async fn shr_036_the_successor_reads_what_its_predecessor_wrote() {
    let server = server().await;
    let client = server.client();
    let first = ring(&client, "a");
    let mut slices = first.slices();
    let running = tokio::spawn(async move { first.run(std::future::pending::<()>()).await });
    let writer = tokio::spawn(async move {
        while let Some(event) = slices.next().await {
            if let SliceEvent::Draining(mut drain) = event {
                drain.written("configmaps", 41);
                drain.written("configmaps", 7);
            }
        }
    });
    sleep(secs(20)).await;
    let second = ring(&client, "b");
    let mut slices = second.slices();
    let _second = tokio::spawn(async move { second.run(std::future::pending::<()>()).await });
    let SliceEvent::Granted(grant) = slices.next().await.unwrap() else { panic!("nothing was granted") };
    assert_eq!(grant.predecessor_writes().await, Some([("configmaps".to_owned(), 41)].into()));
    running.abort();
    writer.abort();
}
