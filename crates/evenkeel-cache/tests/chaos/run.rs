//! One seed: an informer, its handlers, those who write, and everything that can go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use evenkeel_cache::informer::QueueKind;
use evenkeel_cache::source::ApiSource;
use evenkeel_cache::{
    Delivery, Event, Handler, HandlerOptions, Index, Indexer, Object, ObjectKey, Registration, SharedInformer,
    Subscription, transform,
};
use evenkeel_client::config::ServerUrl;
use evenkeel_client::{Client, ClientBuilder, Config};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::runtime::Handle;
use tokio::sync::RwLock;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::history::History;
use crate::net::Net;
use crate::truth::{Map, Truth, contents};
use crate::weather::{AGENT, Misfortune};
use crate::world::{SELECTOR, Writer, listed, population};

const WRITERS: usize = 4;
const WRITES: usize = 100;
const STRIKES: usize = 12;
/// How many events the server remembers: too few for a long outage.
const REMEMBERED: usize = 64;
/// How long, in virtual time, all may take to be well once nothing goes wrong any more.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What a seed decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    seed: u64,
    queue: QueueKind,
    watch_list: bool,
    transforms: bool,
    selects: bool,
    page_size: u32,
    resyncs: bool,
    late: Delivery,
    goes_back: bool,
}

impl Scene {
    pub(crate) fn of(seed: u64) -> Self {
        Scene {
            seed,
            queue: [QueueKind::Ordered, QueueKind::OrderedPerItem, QueueKind::Keyed][(seed % 3) as usize],
            watch_list: (seed / 3).is_multiple_of(2),
            transforms: seed / 6 % 2 == 1,
            selects: seed / 12 % 2 == 1,
            page_size: if seed.is_multiple_of(5) { 3000 } else { 0 },
            resyncs: seed % 10 == 7,
            late: if (seed / 2).is_multiple_of(2) { Delivery::Every } else { Delivery::Latest },
            goes_back: seed % 8 == 5,
        }
    }

    fn selector(self) -> &'static str {
        if self.selects { SELECTOR } else { "" }
    }

    fn informer(self, client: &Client) -> SharedInformer<ConfigMap> {
        let source = ApiSource::new(client.api::<ConfigMap>()).labels(self.selector());
        let info = Arc::clone(source.resource());
        let mut builder = SharedInformer::builder(source, &info)
            .queue(self.queue)
            .watch_list(self.watch_list)
            .page_size(self.page_size)
            .index(Index::label("shard"))
            .on_error(|_| {});
        if self.transforms {
            let lighter = transform::drop_paths(["metadata.managedFields", "data.ballast"]).unwrap();
            builder = builder.reflector(|reflector| reflector.transform(move |object: Object| lighter(object)));
        }
        builder.build()
    }
}

/// A handler, or someone like it, and what it heard.
struct Witness {
    registration: Registration,
    history: Arc<Mutex<History>>,
}

/// What a run had of each thing, so that it can be seen that things did go wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) lists: u64,
    pub(crate) watches: u64,
    pub(crate) syncs: u64,
    pub(crate) cuts: u64,
    pub(crate) told: u64,
    pub(crate) missed: u64,
}

/// Adds a handler that remembers everything.
fn listen(informer: &SharedInformer<ConfigMap>, name: &'static str, options: HandlerOptions, base: u64) -> Witness {
    let delivery = if name.contains("latest") { Delivery::Latest } else { Delivery::Every };
    let history = Arc::new(Mutex::new(History::new(name, delivery, base)));
    let (heard, place) = (Arc::clone(&history), Arc::new(OnceLock::<Registration>::new()));
    let own = Arc::clone(&place);
    let handler = move |event: Event<ConfigMap>| {
        let synced = own.get().is_some_and(Registration::has_synced);
        heard.lock().unwrap().hear(&event, synced);
    };
    let registration = informer.add_handler(handler.with(options.name(name).delivery(delivery))).unwrap();
    place.set(registration.clone()).unwrap();
    Witness { registration, history }
}

/// Reads a stream that remembers everything, and rests every so often.
fn read(
    mut stream: Subscription<ConfigMap>,
    history: History,
    rest: Option<Duration>,
    readers: &mut JoinSet<()>,
) -> Witness {
    let history = Arc::new(Mutex::new(history));
    let registration = stream.registration();
    let witness = Witness { registration: registration.clone(), history: Arc::clone(&history) };
    readers.spawn(async move {
        let mut count = 0_u32;
        while let Some(event) = stream.next().await {
            history.lock().unwrap().hear(&event, registration.has_synced());
            count += 1;
            match rest {
                Some(rest) if count.is_multiple_of(64) => sleep(rest).await,
                _ => tokio::task::coop::consume_budget().await,
            }
        }
    });
    witness
}

/// Runs one seed, and panics if anything is not as it has to be.
pub(crate) async fn run(scene: Scene) -> Tally {
    fastrand::seed(scene.seed);
    let mut random = fastrand::Rng::with_seed(scene.seed);
    let population = population();
    let base = population.revision;
    let builder = ApiServer::builder().in_process_only().history(REMEMBERED).snapshot(population.snapshot.clone());
    let server = Arc::new(builder.start().await.unwrap());
    tokio::task::yield_now().await;
    let tasks_before = Handle::current().metrics().num_alive_tasks();

    let net = Net::new(random.u64(..));
    let mut config = Config::new(ServerUrl::parse("http://in-process").unwrap());
    config.user_agent = Some(AGENT.to_owned());
    config.throttle = None;
    let client = ClientBuilder::service(config, server.service()).layer(net.clone()).build().unwrap();
    let informer = scene.informer(&client);
    drop(client);

    let resync = if scene.resyncs { Duration::from_secs(60) } else { Duration::ZERO };
    let mut readers = JoinSet::new();
    let mut witnesses = vec![
        listen(&informer, "every", HandlerOptions::new().resync(resync), base),
        listen(&informer, "latest", HandlerOptions::new(), base),
        read(
            informer.subscribe(HandlerOptions::new()).unwrap(),
            History::new("stream", Delivery::Every, base),
            None,
            &mut readers,
        ),
        read(
            informer.subscribe(HandlerOptions::new().delivery(Delivery::Latest)).unwrap(),
            History::new("slow latest stream", Delivery::Latest, base),
            Some(Duration::from_millis(100)),
            &mut readers,
        ),
    ];
    let removed = listen(&informer, "removed", HandlerOptions::new(), base);
    let running = informer.start();

    // Everything goes wrong while everybody writes.
    let truth = Arc::new(Mutex::new(Truth::default()));
    let gate = Arc::new(RwLock::new(()));
    let mut busy = JoinSet::new();
    let misfortune = Misfortune {
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
    if scene.goes_back {
        busy.spawn(with_backup(misfortune));
    } else {
        busy.spawn(misfortune.strike(STRIKES));
    }

    // Meanwhile handlers come and go.
    sleep(Duration::from_millis(random.u64(..30_000))).await;
    removed.registration.remove();
    removed.history.lock().unwrap().close();
    let heard_by_removed = removed.history.lock().unwrap().heard;
    sleep(Duration::from_millis(random.u64(..60_000))).await;
    let (there, was_synced) = (informer.indexer().len() as u64, informer.has_synced());
    let name = if scene.late == Delivery::Latest { "late latest" } else { "late" };
    witnesses.push(listen(&informer, name, HandlerOptions::new(), base));

    let busy = async {
        while let Some(done) = busy.join_next().await {
            done.unwrap();
        }
    };
    assert!(timeout(PATIENCE, busy).await.is_ok(), "somebody does not come to an end");

    // All is well from now on: soon everybody knows everything.
    let last = last.last().await;
    let settled = timeout(PATIENCE, settle(&informer, &last, &witnesses)).await;
    assert!(settled.is_ok(), "it does not settle: {:#?}", informer.status());

    let server_has = listed(&server.client(), scene.selector()).await;
    check_store(scene, &informer.indexer(), &server_has, &last);
    for witness in &witnesses {
        assert!(witness.registration.has_synced() && witness.registration.is_active());
        let history = witness.history.lock().unwrap();
        assert_eq!(history.complaints(), [""; 0]);
        assert_eq!(history.difference(&server_has), [""; 0], "{}", witness.registration.name());
    }
    let report = informer.status().reflector;
    let mut tally = Tally {
        lists: report.lists,
        watches: report.watches,
        syncs: report.syncs,
        cuts: net.cuts(),
        ..Tally::default()
    };
    {
        let late = witnesses.last().unwrap().history.lock().unwrap();
        if was_synced && scene.late == Delivery::Every {
            assert_eq!(late.initial, there, "a late handler is told of all that is there, and of that alone, at first");
        }
    }
    assert_eq!(removed.history.lock().unwrap().heard, heard_by_removed, "nothing is told to whom was removed");
    assert!(!removed.registration.is_active());

    // Nothing is left.
    let ended = timeout(PATIENCE, async {
        running.drain().await;
        while let Some(done) = readers.join_next().await {
            done.unwrap();
        }
    });
    assert!(ended.await.is_ok(), "it does not end: {:#?}", informer.status());
    assert!(informer.is_stopped());
    drop(informer);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.stats().watchers, 0, "a watch is left");
    assert_eq!(Handle::current().metrics().num_alive_tasks(), tasks_before, "a task is left");

    // Now that the truth is known.
    let truth = std::mem::take(&mut *truth.lock().unwrap());
    witnesses.push(removed);
    for Witness { registration, history } in witnesses {
        drop(registration);
        let history = std::mem::replace(&mut *history.lock().unwrap(), History::new("", Delivery::Every, 0));
        tally.told += history.heard;
        tally.missed += history.deleted.1;
        assert!(history.swaps == 0 || tally.syncs > 1 || history.is_folding(), "no list, but another uid");
        assert_eq!(history.verdict(&truth), [""; 0]);
    }
    if let Ok(server) = Arc::try_unwrap(server) {
        server.shutdown().await;
    } else {
        panic!("somebody still has the server");
    }
    tally
}

/// After a while a backup is made, to which the server goes back later.
async fn with_backup(mut misfortune: Misfortune) {
    sleep(Duration::from_millis(misfortune.random.u64(1000..10_000))).await;
    misfortune.backup = Some(misfortune.server.snapshot());
    misfortune.strike(STRIKES).await;
}

/// Waits until the store has the last write and everybody was told everything.
async fn settle(informer: &SharedInformer<ConfigMap>, last: &Map, witnesses: &[Witness]) {
    informer.synced().await.unwrap();
    informer.indexer().at_least(&last.header().version()).await.unwrap();
    for witness in witnesses {
        witness.registration.synced().await.unwrap();
        while witness.registration.lag().pending > 0 {
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
