//! One seed: an informer, its handlers, writers, and a fault injector.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use evenkeel_cache::informer::{ConsistencyOutcome, QueueKind, ReflectorError};
use evenkeel_cache::source::ApiSource;
use evenkeel_cache::{
    Delivery, Event, Handler, HandlerOptions, Index, Indexer, InformerOptions, ObjectKey, Registration, ShardScope,
    SharedInformer, Subscription, transform,
};
use evenkeel_client::config::ServerUrl;
use evenkeel_client::{Client, ClientBuilder, Config};
use evenkeel_core::shard::{ShardField, ShardKey, ShardRange, ShardRanges, ShardSelector};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::runtime::Handle;
use tokio::sync::RwLock;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::faults::{AGENT, FaultInjector};
use crate::history::History;
use crate::net::Net;
use crate::number;
use crate::truth::{Map, Truth, contents};
use crate::world::{SELECTOR, Writer, initial_objects, listed};

const WRITERS: usize = 4;
const WRITES: usize = 100;
const FAULTS: usize = 12;
/// Number of changes of the informer's places.
const MOVES: usize = 20;
/// Length of the server's watch history: too short for a long outage.
const HISTORY_LENGTH: usize = 64;
/// Virtual time between two consistency checks, in the seeds that have them.
const CHECK_INTERVAL: Duration = Duration::from_secs(45);
/// One of this many seeds checks its consistency at intervals. A check costs a list, which is what a seed costs most.
const CHECKED_SEEDS: u64 = 11;
/// The number of runs from which their faults are counted: in fewer ones, chance decides.
const COUNTED_RUNS: u64 = 20;
/// Virtual time that recovery may take after the last fault.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(3600);

/// Which objects the informer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shards {
    /// All objects.
    None,
    /// Half of them, by a server that filters.
    Filtered,
    /// Half of them, by a server that does not.
    Unfiltered,
    /// Places that change, and half of them at the end.
    Changing(ShardKey),
    /// As before, with a server that does not filter.
    ChangingUnfiltered,
}

impl Shards {
    fn is_changing(self) -> bool {
        matches!(self, Shards::Changing(_) | Shards::ChangingUnfiltered)
    }

    fn of(seed: u64) -> Self {
        match seed / 5 % 8 {
            1 => Shards::Filtered,
            3 => Shards::Unfiltered,
            4 => Shards::Changing(ShardKey::Uid),
            5 => Shards::ChangingUnfiltered,
            // Without an owner, the place is that of the uid, and the server cannot filter by it.
            6 => Shards::Changing(ShardKey::OwnerUid),
            _ => Shards::None,
        }
    }
}

/// Configuration of a seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    seed: u64,
    queue: QueueKind,
    watch_list: bool,
    transforms: bool,
    selects: bool,
    shards: Shards,
    page_size: u32,
    resyncs: bool,
    late: Delivery,
    restores_backup: bool,
    /// Interval of consistency checks; zero for none.
    check_interval: Duration,
}

impl Scene {
    pub(crate) fn of(seed: u64) -> Self {
        Scene {
            seed,
            queue: [QueueKind::Ordered, QueueKind::OrderedPerItem, QueueKind::Keyed][(seed % 3) as usize],
            watch_list: (seed / 3).is_multiple_of(2),
            transforms: seed / 6 % 2 == 1,
            selects: seed / 12 % 2 == 1,
            shards: Shards::of(seed),
            page_size: if seed.is_multiple_of(5) { 3000 } else { 0 },
            resyncs: seed % 10 == 7,
            late: if (seed / 2).is_multiple_of(2) { Delivery::Every } else { Delivery::Latest },
            restores_backup: seed % 8 == 5,
            check_interval: match number("EVENKEEL_CHAOS_CHECK") {
                Some(seconds) => Duration::from_secs(seconds),
                None if seed % CHECKED_SEEDS == 7 => CHECK_INTERVAL,
                None => Duration::ZERO,
            },
        }
    }

    fn selector(self) -> &'static str {
        if self.selects { SELECTOR } else { "" }
    }

    /// Returns the places of the informer's objects: about half of them.
    fn places(self) -> ShardSelector {
        let range = if self.shards == Shards::None { ShardRange::FULL } else { ShardRange::FULL.part(1, 2).unwrap() };
        ShardSelector::new(ShardField::Uid, range)
    }

    /// Returns the informer.
    fn informer(self, client: &Client, scope: &ShardScope, differences: Arc<Differences>) -> SharedInformer<ConfigMap> {
        let source = ApiSource::new(client.api::<ConfigMap>()).labels(self.selector());
        let info = Arc::clone(source.resource());
        let mut options = InformerOptions::new()
            .queue(self.queue)
            .watch_list(self.watch_list)
            .page_size(self.page_size)
            .index(Index::label("shard"))
            .check_consistency(self.check_interval)
            .on_error(move |failure| differences.record(&failure.error));
        options = match self.shards {
            Shards::Changing(key) => options.shard_scope(key, scope),
            Shards::ChangingUnfiltered => options.shard_scope(ShardKey::Uid, scope),
            _ => options.shards(self.places()),
        };
        if self.transforms {
            let lighter = transform::drop_paths(["metadata.managedFields", "data.ballast"]).unwrap();
            options = options.transform(move |object: Map| lighter(object.cast()).map(|object| object.cast()));
        }
        SharedInformer::new(source, &info, options)
    }
}

/// The differences that consistency checks find.
#[derive(Debug, Default)]
struct Differences {
    /// An event or object was unreadable or of another kind: the store may lack it until the next relist.
    has_lost: AtomicBool,
    unexplained: AtomicU64,
}

impl Differences {
    fn record(&self, error: &ReflectorError) {
        match error {
            ReflectorError::Unreadable(_) | ReflectorError::OtherKind { .. } => {
                self.has_lost.store(true, Ordering::Relaxed);
            }
            ReflectorError::Inconsistent { .. } if !self.has_lost.load(Ordering::Relaxed) => {
                self.unexplained.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

/// A handler or stream, and its recorded history.
struct RecordedHandler {
    registration: Registration,
    history: Arc<Mutex<History>>,
}

/// Counts of a run, to verify that enough faults occurred.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunCounts {
    pub(crate) lists: u64,
    pub(crate) watches: u64,
    pub(crate) syncs: u64,
    pub(crate) cuts: u64,
    pub(crate) notifications: u64,
    pub(crate) missed: u64,
    /// Number of runs with consistency checks at intervals.
    pub(crate) checked: u64,
    /// Number of notifications about objects that left the places of the informer.
    pub(crate) moved: u64,
}

impl RunCounts {
    /// Panics if the faults of this many runs were too few to test anything.
    pub(crate) fn check_faults(&self, runs: u64) {
        let is_enough = self.cuts > runs && self.syncs > 2 * runs && self.missed > runs && self.checked > 0;
        let is_enough = is_enough && self.moved > runs;
        assert!(is_enough || runs < COUNTED_RUNS, "too few faults in {runs} runs: {self:?}");
    }
}

/// Adds a handler that records its history. If the informer `gains` places, additions may be initial at any time.
fn listen(
    informer: &SharedInformer<ConfigMap>,
    name: &'static str,
    options: HandlerOptions,
    base: u64,
    gains: bool,
) -> RecordedHandler {
    let delivery = if name.contains("latest") { Delivery::Latest } else { Delivery::Every };
    let history = Arc::new(Mutex::new(History::new(name, delivery, base)));
    let (recorder, registered) = (Arc::clone(&history), Arc::new(OnceLock::<Registration>::new()));
    let own = Arc::clone(&registered);
    let handler = move |event: Event<ConfigMap>| {
        let synced = !gains && own.get().is_some_and(Registration::has_synced);
        recorder.lock().unwrap().record(&event, synced);
    };
    let registration = informer.add_handler(handler.with(options.name(name).delivery(delivery))).unwrap();
    registered.set(registration.clone()).unwrap();
    RecordedHandler { registration, history }
}

/// Reads a stream, records its history, and pauses now and then.
fn read(
    mut stream: Subscription<ConfigMap>,
    history: History,
    rest: Option<Duration>,
    gains: bool,
    readers: &mut JoinSet<()>,
) -> RecordedHandler {
    let history = Arc::new(Mutex::new(history));
    let registration = stream.registration();
    let handler = RecordedHandler { registration: registration.clone(), history: Arc::clone(&history) };
    readers.spawn(async move {
        let mut count = 0_u32;
        while let Some(event) = stream.next().await {
            history.lock().unwrap().record(&event, !gains && registration.has_synced());
            count += 1;
            match rest {
                Some(rest) if count.is_multiple_of(64) => sleep(rest).await,
                _ => tokio::task::coop::consume_budget().await,
            }
        }
    });
    handler
}

/// Runs one seed. Panics if a check fails.
pub(crate) async fn run(scene: Scene) -> RunCounts {
    fastrand::seed(scene.seed);
    let mut random = fastrand::Rng::with_seed(scene.seed);
    let initial_objects = initial_objects();
    let base = initial_objects.revision;
    let snapshot = initial_objects.snapshot.clone();
    let builder = ApiServer::builder().in_process_only().history(HISTORY_LENGTH).snapshot(snapshot).first_revision(0);
    let builder = builder.sharded_lists(matches!(scene.shards, Shards::Filtered | Shards::Changing(_)));
    let server = Arc::new(builder.start().await.unwrap());
    tokio::task::yield_now().await;
    let tasks_before = Handle::current().metrics().num_alive_tasks();

    let net = Net::new(random.u64(..));
    let mut config = Config::new(ServerUrl::parse("http://in-process").unwrap());
    config.user_agent = Some(AGENT.to_owned());
    config.throttle = None;
    let client = ClientBuilder::service(config, server.service()).layer(net.clone()).build().unwrap();
    let differences = Arc::new(Differences::default());
    let scope = ShardScope::new(part_of_eight(random.u32(..8)));
    let informer = scene.informer(&client, &scope, Arc::clone(&differences));
    drop(client);

    let resync = if scene.resyncs { Duration::from_secs(60) } else { Duration::ZERO };
    let gains = scene.shards.is_changing();
    let mut readers = JoinSet::new();
    let mut handlers = vec![
        listen(&informer, "every", HandlerOptions::new().resync(resync), base, gains),
        listen(&informer, "latest", HandlerOptions::new(), base, gains),
        read(
            informer.subscribe(HandlerOptions::new()).unwrap(),
            History::new("stream", Delivery::Every, base),
            None,
            gains,
            &mut readers,
        ),
        read(
            informer.subscribe(HandlerOptions::new().delivery(Delivery::Latest)).unwrap(),
            History::new("slow latest stream", Delivery::Latest, base),
            Some(Duration::from_millis(100)),
            gains,
            &mut readers,
        ),
    ];
    let removed = listen(&informer, "removed", HandlerOptions::new(), base, gains);
    let running = informer.start();

    // Writers and fault injector run together.
    let truth = Arc::new(Mutex::new(Truth::default()));
    let gate = Arc::new(RwLock::new(()));
    let mut busy = JoinSet::new();
    let faults = FaultInjector {
        server: Arc::clone(&server),
        net: net.clone(),
        random: random.fork(),
        truth: Arc::clone(&truth),
        gate: Arc::clone(&gate),
        backup: None,
    };
    let mut writer = |name| Writer {
        client: server.client(),
        name,
        random: random.fork(),
        truth: Arc::clone(&truth),
        gate: Arc::clone(&gate),
    };
    for name in 0..WRITERS {
        busy.spawn(writer(name).write(WRITES));
    }
    let last = writer(WRITERS);
    if scene.shards.is_changing() {
        let mover = Mover { scope: scope.clone(), informer: informer.clone(), random: random.fork() };
        busy.spawn(mover.run(scene.places().ranges().clone()));
    }
    if scene.restores_backup {
        busy.spawn(with_backup(faults));
    } else {
        busy.spawn(faults.run(FAULTS));
    }

    // Meanwhile handlers are removed and added.
    sleep(Duration::from_millis(random.u64(..30_000))).await;
    removed.registration.remove();
    removed.history.lock().unwrap().close();
    let received_by_removed = removed.history.lock().unwrap().received;
    sleep(Duration::from_millis(random.u64(..60_000))).await;
    let (there, was_synced) = (informer.indexer().len() as u64, informer.has_synced());
    let name = if scene.late == Delivery::Latest { "late latest" } else { "late" };
    handlers.push(listen(&informer, name, HandlerOptions::new(), base, gains));

    let busy = async {
        while let Some(done) = busy.join_next().await {
            done.unwrap();
        }
    };
    assert!(timeout(RECOVERY_TIMEOUT, busy).await.is_ok(), "a writer does not finish");

    // No faults from here on: the informer recovers.
    let places = scene.places();
    let last = last.last(&places).await;
    let settled = timeout(RECOVERY_TIMEOUT, settle(&informer, &places, &last, &handlers)).await;
    assert!(settled.is_ok(), "no recovery: {:#?}", informer.status());

    let server_has = listed(&server.client(), scene.selector(), &places).await;
    check_store(scene, &informer.indexer(), &server_has, &last);
    for handler in &handlers {
        assert!(handler.registration.has_synced() && handler.registration.is_active());
        let history = handler.history.lock().unwrap();
        assert_eq!(history.violations(), [""; 0]);
        assert_eq!(history.difference(&server_has), [""; 0], "{}", handler.registration.name());
    }
    let checked = informer.status().consistency.is_some();
    let check = informer.check_consistency().await;
    assert_eq!(check.outcome, ConsistencyOutcome::Consistent, "{check}");
    // A server that is restored from a backup has other objects at the same versions.
    let unexplained = differences.unexplained.load(Ordering::Relaxed);
    assert!(unexplained == 0 || scene.restores_backup, "{unexplained} differences in consistency checks");
    let report = informer.status().reflector;
    let mut counts = RunCounts {
        lists: report.lists,
        watches: report.watches,
        syncs: report.syncs,
        cuts: net.cuts(),
        checked: u64::from(checked),
        ..RunCounts::default()
    };
    {
        let late = handlers.last().unwrap().history.lock().unwrap();
        if was_synced && scene.late == Delivery::Every && !scene.shards.is_changing() {
            assert_eq!(late.initial, there, "the initial list of a late handler is the stored objects");
        }
    }
    assert_eq!(removed.history.lock().unwrap().received, received_by_removed, "a removed handler receives nothing");
    assert!(!removed.registration.is_active());

    // No task or watch is left.
    let ended = timeout(RECOVERY_TIMEOUT, async {
        running.drain().await;
        while let Some(done) = readers.join_next().await {
            done.unwrap();
        }
    });
    assert!(ended.await.is_ok(), "no stop: {:#?}", informer.status());
    assert!(informer.is_stopped());
    drop(informer);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.stats().watchers, 0, "a watch is left");
    assert_eq!(Handle::current().metrics().num_alive_tasks(), tasks_before, "a task is left");

    // All states of the server are known now.
    let truth = std::mem::take(&mut *truth.lock().unwrap());
    handlers.push(removed);
    for RecordedHandler { registration, history } in handlers {
        drop(registration);
        let history = std::mem::replace(&mut *history.lock().unwrap(), History::new("", Delivery::Every, 0));
        counts.notifications += history.received;
        counts.missed += history.deleted.1;
        counts.moved += history.moved;
        assert!(history.swaps == 0 || counts.syncs > 1 || history.is_folding(), "another uid without a list");
        assert_eq!(history.verify(&truth), [""; 0]);
    }
    if let Ok(server) = Arc::try_unwrap(server) {
        server.shutdown().await;
    } else {
        panic!("the server is still in use");
    }
    counts
}

/// Returns one of eight parts of all places.
fn part_of_eight(index: u32) -> ShardRange {
    ShardRange::FULL.part(index, 8).unwrap()
}

/// Changes the places of the informer at random times, and checks that its store never has an object outside.
struct Mover {
    scope: ShardScope,
    informer: SharedInformer<ConfigMap>,
    random: fastrand::Rng,
}

impl Mover {
    /// Ends with these places.
    async fn run(mut self, last: ShardRanges) {
        for _ in 0..MOVES {
            let part = ShardRanges::from(part_of_eight(self.random.u32(..8)));
            let ranges = match self.random.u8(..10) {
                0..5 => self.scope.ranges().union(&part),
                5..9 => self.scope.ranges().difference(&part),
                // Several at once, or all.
                _ => (0..8).filter(|_| self.random.bool()).map(part_of_eight).collect(),
            };
            self.set(ranges).await;
            // Some changes follow each other while lists of the last one are in progress.
            let longest = if self.random.bool() { 500 } else { 20_000 };
            for _ in 0..self.random.u8(1..5) {
                sleep(Duration::from_millis(self.random.u64(..longest))).await;
                self.check();
            }
        }
        self.set(last).await;
    }

    async fn set(&self, ranges: ShardRanges) {
        self.scope.set(ranges);
        // Lost places leave without a request: before virtual time passes.
        sleep(Duration::from_millis(1)).await;
        self.check();
    }

    fn check(&self) {
        let (wanted, covered) = (self.scope.ranges(), self.informer.covered());
        assert!(wanted.covers(&covered), "{covered:?} is covered, and {wanted:?} is wanted");
        for object in self.informer.indexer().snapshot().iter() {
            let place = ShardField::Uid.place_of(object.header());
            assert!(wanted.contains(place), "{} at {place:x} is outside of {wanted:?}", object.key());
        }
    }
}

/// Makes a backup after a while, to be restored later.
async fn with_backup(mut faults: FaultInjector) {
    sleep(Duration::from_millis(faults.random.u64(1000..10_000))).await;
    faults.backup = Some(faults.server.snapshot());
    faults.run(FAULTS).await;
}

/// Waits until the store has the last write and all handlers have processed everything.
async fn settle(
    informer: &SharedInformer<ConfigMap>,
    places: &ShardSelector,
    last: &Map,
    handlers: &[RecordedHandler],
) {
    informer.synced().await.unwrap();
    informer.wait_until_covered(places.ranges()).await.unwrap();
    informer.indexer().at_least(&last.header().version()).await.unwrap();
    for handler in handlers {
        handler.registration.synced().await.unwrap();
        while handler.registration.lag().pending > 0 {
            sleep(Duration::from_millis(50)).await;
        }
    }
}

fn check_store(scene: Scene, indexer: &Indexer<ConfigMap>, server_has: &[Map], last: &Map) {
    let store = indexer.snapshot();
    assert_eq!(store.resource_version().as_str(), last.resource_version());
    let mut shards: BTreeMap<&str, BTreeSet<&ObjectKey>> = BTreeMap::new();
    let mut namespaces: BTreeMap<&str, BTreeSet<&ObjectKey>> = BTreeMap::new();
    for truth in server_has {
        let stored = store.get(truth.key()).unwrap_or_else(|| panic!("{} is missing", truth.key()));
        assert_eq!((stored.uid(), stored.resource_version()), (truth.uid(), truth.resource_version()));
        assert_eq!(contents(stored), contents(truth), "{}", truth.key());
        assert_eq!(stored.path("data.ballast").unwrap().is_none(), scene.transforms, "{}", truth.key());
        shards.entry(truth.label("shard").unwrap()).or_default().insert(truth.key());
        namespaces.entry(truth.key().namespace().unwrap()).or_default().insert(truth.key());
    }
    assert_eq!(store.len(), server_has.len(), "the store has more than the server");
    for (index, expected) in [("shard", shards), ("namespace", namespaces)] {
        let values: BTreeSet<&str> = store.index_values(index).collect();
        assert_eq!(values, expected.keys().copied().collect(), "values of {index}");
        for (value, keys) in expected {
            let found: BTreeSet<&ObjectKey> = store.by_index(index, value).unwrap().map(|map| map.key()).collect();
            assert!(found == keys, "{index} {value}: {} are found, not {}", found.len(), keys.len());
        }
    }
}
