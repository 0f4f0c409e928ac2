//! Informers whose places change: SHR-053 and SHM-008.

use evenkeel_apiserver::{Action, ControllerTiming, ExpireForm, Rule, WatchAction};
use evenkeel_core::shard::{ShardKey, ShardRanges};

use super::*;
use crate::informer::ReflectorError;
use crate::{Deleted, ShardScope, ShardScopeError};

/// The first `count` of eight parts.
fn parts(from: u32, to: u32) -> ShardRanges {
    (from..to).map(|index| ShardRange::FULL.part(index, 8).unwrap()).collect()
}

fn by_uid(ranges: &ShardRanges) -> ShardSelector {
    ShardSelector::new(ShardField::Uid, ranges.clone())
}

/// An informer of the objects of a scope behind a proxy.
struct Scoped {
    server: ApiServer,
    proxy: Proxy,
    scope: ShardScope,
    informers: InformerFactory,
    maps: Lister<ConfigMap>,
    events: Arc<Mutex<Vec<String>>>,
    /// The number of objects that were ingested.
    ingested: Arc<AtomicU64>,
    _running: crate::informer::RunningInformers,
}

impl Scoped {
    async fn start(
        mode: u16,
        ranges: &ShardRanges,
        configure: impl FnOnce(KindOptions<ConfigMap>) -> KindOptions<ConfigMap>,
    ) -> Self {
        let server = sharded_server().await;
        create_many(&server.client(), 0..200).await;
        let proxy = Proxy::new(&server);
        proxy.set(mode);
        let scope = ShardScope::new(ranges.clone());
        let ingested: Arc<AtomicU64> = Arc::default();
        let counter = Arc::clone(&ingested);
        let count = move |map: crate::Obj<ConfigMap>| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(map)
        };
        let informers = InformerFactory::builder(&proxy.client())
            .configure::<ConfigMap>(|options| configure(options.shard_scope(ShardKey::Uid, &scope).transform(count)))
            .build();
        let maps = informers.lister::<ConfigMap>();
        let events: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&events);
        let handler = move |event: Event<ConfigMap>| {
            let word = match &event {
                Event::Add { initial: true, .. } => "initial",
                Event::Add { .. } => "add",
                Event::Update { .. } => "update",
                // Handlers that ignore what is out of scope ignore it, too.
                Event::Delete(deleted) if deleted.is_moved() && deleted.is_out_of_scope() => "moved",
                Event::Delete(_) => "delete",
            };
            log.lock().unwrap().push(format!("{word} {}", event.key()));
        };
        informers.of::<ConfigMap>().add_handler(handler).unwrap();
        let _running = informers.start();
        informers.wait_for_sync().await.unwrap();
        settle().await;
        Scoped { server, proxy, scope, informers, maps, events, ingested, _running }
    }

    /// Sets the places, and waits until they are covered and nothing else is.
    async fn set(&self, ranges: &ShardRanges) {
        self.scope.set(ranges.clone());
        self.scope.wait_until_covered(ranges).await.unwrap();
        settle().await;
        assert_eq!((self.scope.covered(), self.informer().covered()), (ranges.clone(), ranges.clone()));
    }

    async fn expected(&self) -> BTreeSet<String> {
        selected(&self.server, &by_uid(&self.scope.ranges())).await
    }

    async fn check(&self) {
        assert_eq!(keys(&self.maps), self.expected().await);
    }

    fn take_events(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.events.lock().unwrap()).into_iter().collect()
    }

    fn take_ingested(&self) -> u64 {
        self.ingested.swap(0, Ordering::Relaxed)
    }

    fn informer(&self) -> crate::SharedInformer<ConfigMap> {
        self.informers.of::<ConfigMap>()
    }
}

/// The resource version of a request.
fn version_of(path: &str) -> Option<u64> {
    let (_, rest) = path.split_once("resourceVersion=")?;
    rest.split('&').next()?.parse().ok()
}

fn is_list(path: &str) -> bool {
    !path.contains("watch=") || path.contains("sendInitialEvents=")
}

#[tokio::test(start_paused = true)]
async fn shr_053_a_quarter_is_handed_over_without_a_relist_of_the_others() {
    let measured = Measured::default();
    let _local = ::metrics::set_default_local_recorder(&measured);
    for watch_list in [false, true] {
        let informed = Scoped::start(FILTERS, &parts(0, 2), |options| options.watch_list(watch_list)).await;
        informed.check().await;
        informed.proxy.take_paths();
        informed.take_ingested();
        informed.take_events();
        informed.set(&parts(0, 4)).await;
        informed.check().await;
        let quarter = selected(&informed.server, &by_uid(&parts(2, 4))).await;
        // One list of the quarter, then its watch; a WatchList is both.
        let paths = informed.proxy.take_paths();
        let lists = paths.iter().filter(|path| is_list(path)).count();
        assert_eq!((lists, paths.len()), (1, if watch_list { 1 } else { 2 }), "{paths:#?}");
        assert_eq!(informed.take_ingested(), quarter.len() as u64);
        assert_eq!(measured.dropped("configmaps"), 0, "nothing else is received");
        assert_eq!(informed.take_events(), quarter.iter().map(|key| format!("initial {key}")).collect());
    }
}

#[tokio::test(start_paused = true)]
async fn shr_053_lost_places_leave_the_store_without_a_request() {
    for mode in [FILTERS, IGNORES] {
        let informed = Scoped::start(mode, &parts(0, 4), |options| options).await;
        informed.proxy.take_paths();
        informed.take_events();
        let lost = selected(&informed.server, &by_uid(&parts(1, 3))).await;
        informed.set(&parts(0, 1).union(&parts(3, 4))).await;
        informed.check().await;
        assert_eq!(informed.take_events(), lost.iter().map(|key| format!("moved {key}")).collect());
        assert_eq!(informed.proxy.take_paths(), [""; 0]);
        // The watch runs on; events of places that are lost are dropped.
        let name = lost.first().unwrap().strip_prefix("default/").unwrap();
        change(&informed.server.client(), "default", name, json!({"k": "new"})).await;
        settle().await;
        assert_eq!(informed.take_events(), BTreeSet::new());
        informed.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn shr_053_the_main_watch_takes_gained_places_over_at_its_next_end() {
    for mode in [FILTERS, IGNORES] {
        let informed = Scoped::start(mode, &parts(0, 2), |options| options).await;
        informed.set(&parts(0, 5)).await;
        create_many(&informed.server.client(), 200..260).await;
        settle().await;
        assert_eq!(informed.server.stats().watchers, 2);
        informed.proxy.take_paths();
        informed.take_events();
        // A watch lives five to ten minutes; the WatchList of the gained places ends after that of the others, or is taken over.
        tokio::time::sleep(Duration::from_secs(1200)).await;
        assert_eq!(informed.server.stats().watchers, 1);
        let paths = informed.proxy.take_paths();
        assert!(paths.iter().all(|path| !is_list(path)), "{paths:#?}");
        // All of them are one range.
        let last = paths.last().unwrap();
        assert!(last.contains("0xa000000000000000") && !last.contains("0x4000000000000000"), "{paths:#?}");
        // Nothing was delivered twice.
        assert_eq!(informed.take_events(), BTreeSet::new());
        create_many(&informed.server.client(), 260..300).await;
        settle().await;
        informed.check().await;
        assert_eq!(
            informed.informer().check_consistency().await.outcome,
            crate::informer::ConsistencyOutcome::Consistent
        );
    }
}

#[tokio::test(start_paused = true)]
async fn shr_053_many_side_streams_are_taken_over_at_once_from_the_lower_version() {
    let informed = Scoped::start(FILTERS, &parts(0, 1), |options| options).await;
    let begun = tokio::time::Instant::now();
    for count in 2..=5 {
        informed.set(&parts(0, count)).await;
        create_many(&informed.server.client(), 200 + count * 5..205 + count * 5).await;
    }
    settle().await;
    assert_eq!(informed.server.stats().watchers, 5);
    informed.proxy.take_paths();
    informed.take_events();
    informed.set(&parts(0, 6)).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(informed.server.stats().watchers, 1);
    let paths = informed.proxy.take_paths();
    assert_eq!(paths.iter().filter(|path| is_list(path)).count(), 1, "{paths:#?}");
    let joined = paths.last().unwrap();
    assert!(version_of(joined).is_some_and(|version| version < informed.server.stats().revision), "{joined}");
    informed.check().await;
    let repeated: Vec<_> = informed.take_events().into_iter().filter(|event| !event.starts_with("initial")).collect();
    assert_eq!(repeated, [""; 0]);
    create_many(&informed.server.client(), 300..320).await;
    settle().await;
    informed.check().await;
}

#[tokio::test(start_paused = true)]
async fn shd_028_all_ranges_of_a_change_are_one_list() {
    let informed = Scoped::start(FILTERS, &parts(0, 1), |options| options.watch_list(false)).await;
    informed.proxy.take_paths();
    let scattered = parts(0, 1).union(&parts(2, 3)).union(&parts(4, 5)).union(&parts(6, 7));
    informed.set(&scattered).await;
    informed.check().await;
    let paths = informed.proxy.take_paths();
    assert_eq!(paths.iter().filter(|path| is_list(path)).count(), 1, "{paths:#?}");
    // It is of the newest state: what another replica wrote until now is in it.
    assert!(paths.iter().filter(|path| is_list(path)).all(|path| version_of(path).is_none()), "{paths:#?}");
}

#[tokio::test(start_paused = true)]
async fn shr_053_places_that_are_lost_and_gained_again_are_listed_again() {
    for mode in [FILTERS, IGNORES] {
        let informed = Scoped::start(mode, &parts(0, 4), |options| options).await;
        let moved = selected(&informed.server, &by_uid(&parts(2, 4))).await;
        informed.set(&parts(0, 2)).await;
        let name = moved.first().unwrap().strip_prefix("default/").unwrap();
        change(&informed.server.client(), "default", name, json!({"k": "another replica"})).await;
        let gone = moved.last().unwrap().strip_prefix("default/").unwrap();
        delete(&informed.server.client(), "default", gone).await;
        informed.take_events();
        informed.set(&parts(0, 4)).await;
        informed.check().await;
        let returned = moved.iter().filter(|key| !key.ends_with(gone)).map(|key| format!("initial {key}")).collect();
        assert_eq!(informed.take_events(), returned);
        let stored = informed.maps.namespace("default").unwrap().get(name).unwrap();
        assert_eq!(stored.path("data.k").unwrap().unwrap().text(), "another replica");
    }
}

#[tokio::test(start_paused = true)]
async fn shr_053_a_scope_without_places_syncs_at_once_and_requests_nothing() {
    let informed = Scoped::start(FILTERS, &ShardRanges::empty(), |options| options).await;
    assert_eq!(informed.proxy.take_paths(), [""; 0]);
    assert!(informed.scope.covered().is_empty() && keys(&informed.maps).is_empty());
    informed.set(&parts(3, 8)).await;
    informed.check().await;
    informed.set(&ShardRanges::empty()).await;
    informed.check().await;
    assert_eq!(informed.server.stats().watchers, 0);
}

#[tokio::test(start_paused = true)]
async fn shr_053_places_are_covered_when_their_list_is_stored() {
    let informed = Scoped::start(FILTERS, &parts(0, 4), |options| options).await;
    let gained = parts(4, 6);
    let error = informed.scope.wait_until_covered(&gained).await.unwrap_err();
    assert_eq!(error, ShardScopeError::NotWanted { ranges: gained.clone() });
    informed.proxy.set(500);
    informed.server.faults().add(Rule::new(Action::Delay(Duration::from_secs(5))).times(1));
    informed.scope.set(parts(0, 6));
    settle().await;
    assert_eq!(informed.scope.covered(), parts(0, 4));
    tokio::time::timeout(Duration::from_secs(3), informed.scope.wait_until_covered(&gained)).await.unwrap_err();
    informed.informer().wait_until_covered(&gained).await.unwrap();
    assert_eq!(informed.scope.covered(), parts(0, 6));
    informed.check().await;
    // A waiter whose places leave the scope receives an error.
    let informer = informed.informer();
    let Scoped { scope, _running, .. } = informed;
    let waiting = tokio::spawn({
        let scope = scope.clone();
        async move { scope.wait_until_covered(&parts(6, 7)).await }
    });
    scope.set(parts(0, 7));
    scope.set(parts(0, 6));
    assert!(matches!(waiting.await.unwrap(), Err(ShardScopeError::NotWanted { .. })));
    _running.stop().await;
    assert!(scope.covered().is_empty() && informer.covered().is_empty());
    let stopped = scope.wait_until_covered(&parts(0, 1)).await.unwrap_err();
    assert!(matches!(stopped, ShardScopeError::Stopped { .. }), "{stopped}");
}

#[tokio::test(start_paused = true)]
async fn shr_053_a_relist_of_one_stream_leaves_the_others_alone() {
    let informed = Scoped::start(FILTERS, &parts(0, 2), |options| options.watch_list(false)).await;
    let expire = WatchAction::Expire { event: 2, form: ExpireForm::Event };
    informed.server.faults().add(Rule::watch(expire).times(1));
    informed.set(&parts(0, 4)).await;
    informed.take_events();
    informed.proxy.take_paths();
    // The watch of the gained places expires while they change.
    create_many(&informed.server.client(), 200..240).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    informed.check().await;
    let lists: Vec<_> = informed.proxy.take_paths().into_iter().filter(|path| is_list(path)).collect();
    assert_eq!(lists.len(), 1, "{lists:#?}");
    assert!(lists[0].contains("0x4000000000000000") && !lists[0].contains("0x0000000000000000"), "{lists:#?}");
    let events = informed.take_events();
    assert!(events.iter().all(|event| event.starts_with("add") || event.starts_with("update")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn shr_047_and_shr_051_keys_that_only_the_client_filters_by_send_no_selector() {
    let server = sharded_server().await;
    let client = server.client();
    for index in 0..40 {
        let namespace = serde_json::from_value(json!({"metadata": {"name": format!("team-{index}")}})).unwrap();
        client.api::<Namespace>().create(&namespace).await.unwrap();
    }
    create_many(&client, 0..40).await;
    // Names such as these are close to each other.
    let places: Vec<u64> = (0..40).map(|index| evenkeel_core::shard::place(&format!("team-{index}"))).collect();
    let middle = *places.iter().min().unwrap() / 2 + *places.iter().max().unwrap() / 2;
    let [lower, upper] = ShardRange::FULL.split_at(middle).unwrap();
    let proxy = Proxy::new(&server);
    let scope = ShardScope::new(lower);
    let informers = InformerFactory::builder(&proxy.client())
        .configure::<Namespace>(|options| options.shard_scope(ShardKey::Namespace, &scope))
        .configure::<ConfigMap>(|options| options.shard_scope(ShardKey::OwnerUid, &scope))
        .build();
    let (namespaces, maps) = (informers.lister::<Namespace>(), informers.lister::<ConfigMap>());
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    for range in [lower, upper, ShardRange::FULL] {
        scope.set(range);
        scope.wait_until_covered(&range.into()).await.unwrap();
        settle().await;
        let named = |name: &str| range.contains(evenkeel_core::shard::place(name));
        let all = client.api::<Namespace>().list(&Default::default()).await.unwrap();
        let expected = all.iter().map(|object| object.key().to_string()).filter(|name| named(name)).collect();
        assert_eq!(keys(&namespaces), expected);
        let selector = ShardSelector::new(ShardField::Uid, range);
        assert_eq!(keys(&maps), selected(&server, &selector).await);
    }
    let paths = proxy.take_paths();
    assert!(!paths.is_empty() && paths.iter().all(|path| !is_selected(path)), "{paths:#?}");
    assert!(informers.statuses().iter().all(|status| status.has_synced));
}

#[tokio::test(start_paused = true)]
async fn shr_047_an_object_whose_owner_changes_moves() {
    let builder = ApiServer::builder().in_process_only().bootstrap(false).sharded_lists(true);
    let server = builder.garbage_collector(ControllerTiming::Off).start().await.unwrap();
    let client = server.client();
    let proxy = Proxy::new(&server);
    let owner =
        |uid: &str| json!([{"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": uid, "controller": true}]);
    // The first of these is in the lower half, the other one in the upper half.
    let is_lower = |uid: &String| evenkeel_core::shard::place(uid) < 1 << 63;
    let uids: Vec<String> = (0..50).map(|index| format!("{index}-owner")).collect();
    let (low, high) = (uids.iter().find(|uid| is_lower(uid)).unwrap(), uids.iter().find(|uid| !is_lower(uid)).unwrap());
    create(&client, "default", "child", "web").await;
    let maps = client.api::<ConfigMap>().namespace("default");
    let adopt = async |uid: &str| {
        let patch = evenkeel_client::Patch::merge(&json!({"metadata": {"ownerReferences": owner(uid)}}));
        maps.patch("child", &patch).await.unwrap();
        settle().await;
    };
    adopt(low).await;
    let [lower, upper] = ShardRange::FULL.split_at(1 << 63).unwrap();
    let scope = ShardScope::new(lower);
    let informers = InformerFactory::builder(&proxy.client())
        .configure::<ConfigMap>(|options| options.shard_scope(ShardKey::OwnerUid, &scope))
        .build();
    let lister = informers.lister::<ConfigMap>();
    let moved = Arc::new(AtomicU64::default());
    let count = Arc::clone(&moved);
    let handler = move |event: Event<ConfigMap>| {
        count.fetch_add(u64::from(matches!(event, Event::Delete(Deleted::Moved { .. }))), Ordering::Relaxed);
    };
    informers.of::<ConfigMap>().add_handler(handler).unwrap();
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    let has = || lister.list_all().len();
    assert_eq!(has(), 1);
    adopt(high).await;
    assert_eq!((has(), moved.load(Ordering::Relaxed)), (0, 1));
    adopt(low).await;
    assert_eq!(has(), 1);
    // Two streams of one store: whichever is first, the store has the last state.
    scope.set(ShardRange::FULL);
    scope.wait_until_covered(&upper.into()).await.unwrap();
    for uid in [high, low, high, high, low] {
        adopt(uid).await;
        let child = lister.namespace("default").unwrap().get("child").unwrap();
        assert_eq!(child.header().controller().unwrap().uid, uid);
        let newest = maps.get("child").await.unwrap();
        assert_eq!(child.resource_version(), newest.resource_version());
    }
}

#[tokio::test(start_paused = true)]
async fn shr_053_a_transform_must_keep_the_place() {
    let server = sharded_server().await;
    create_many(&server.client(), 0..5).await;
    let scope = ShardScope::new(ShardRange::FULL);
    let errors: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&errors);
    let strip = crate::transform::drop_paths(["metadata.uid"]).unwrap();
    let informers = InformerFactory::builder(&server.client())
        .configure::<ConfigMap>(|options| {
            options
                .shard_scope(ShardKey::Uid, &scope)
                .transform(move |map: crate::Obj<ConfigMap>| strip(map.cast()).map(|map| map.cast()))
                .on_error(move |failure| match &failure.error {
                    error @ ReflectorError::TransformChangedPlace { .. } => log.lock().unwrap().push(error.to_string()),
                    other => panic!("{other}"),
                })
        })
        .build();
    let maps = informers.lister::<ConfigMap>();
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert!(keys(&maps).is_empty());
    let errors = errors.lock().unwrap();
    assert_eq!(errors.len(), 5);
    assert!(
        errors[0].starts_with("the transform changed the place or the resource version of default/m"),
        "{errors:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn shr_053_a_scope_and_several_namespaces_exclude_each_other() {
    let server = sharded_server().await;
    let scope = ShardScope::new(ShardRanges::empty());
    let informers = InformerFactory::builder(&server.client())
        .namespaces(["a", "b"])
        .configure::<ConfigMap>(|options| options.shard_scope(ShardKey::Namespace, &scope))
        .build();
    let maps = informers.of::<ConfigMap>();
    let _running = informers.start();
    assert!(tokio::time::timeout(Duration::from_secs(10), informers.wait_for_sync()).await.is_err());
    let error = maps.status().reflector.last_error.unwrap().message;
    assert!(error.contains("configmaps has several namespaces and a scope of places; remove one"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn shr_046_a_name_that_is_created_again_in_other_places_is_not_removed_by_the_slower_stream() {
    for ends_inside_main in [false, true] {
        let informed = Scoped::start(FILTERS, &parts(0, 4), |options| options.watch_list(false)).await;
        // The watch of the gained places is slow.
        let stall = WatchAction::StallFor { event: 0, duration: Duration::from_secs(30) };
        informed.server.faults().add(Rule::watch(stall).times(1));
        informed.set(&parts(0, 8)).await;
        let client = informed.server.client();
        let upper = selected(&informed.server, &by_uid(&parts(4, 8))).await;
        let name = upper.first().unwrap().strip_prefix("default/").unwrap();
        let is_in_main = async || {
            let map = client.api::<ConfigMap>().namespace("default").get(name).await.unwrap();
            by_uid(&parts(0, 4)).matches(map.header())
        };
        for round in 0.. {
            delete(&client, "default", name).await;
            create(&client, "default", name, "web").await;
            change(&client, "default", name, json!({"k": round.to_string()})).await;
            settle().await;
            if round >= 4 && is_in_main().await == ends_inside_main {
                break;
            }
        }
        informed.take_events();
        tokio::time::sleep(Duration::from_secs(60)).await;
        informed.check().await;
        let newest = client.api::<ConfigMap>().namespace("default").get(name).await.unwrap();
        let stored = informed.maps.namespace("default").unwrap().get(name).unwrap();
        assert_eq!((stored.uid(), stored.resource_version()), (newest.uid(), newest.resource_version()));
        // What the slow stream brings of earlier objects of that name is dropped.
        if ends_inside_main {
            assert_eq!(informed.take_events(), BTreeSet::new());
        }
    }
}
