//! What an informer of shards does with objects out of range.

use evenkeel_client::Patch;
use evenkeel_core::shard::ShardRanges;

use super::*;
use crate::informer::ConsistencyOutcome;

/// An informer of the lower half behind a proxy.
struct Informed {
    server: ApiServer,
    proxy: Proxy,
    informers: InformerFactory,
    maps: Lister<ConfigMap>,
    notified: Recorder,
    transformed: Arc<Mutex<BTreeSet<String>>>,
    _running: crate::informer::RunningInformers,
}

impl Informed {
    async fn start(mode: u16, configure: impl FnOnce(KindOptions<ConfigMap>) -> KindOptions<ConfigMap>) -> Self {
        let server = sharded_server().await;
        create_many(&server.client(), 0..40).await;
        let proxy = Proxy::new(&server);
        proxy.set(mode);
        let [lower, _] = halves();
        let transformed: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let seen = Arc::clone(&transformed);
        let transform = move |map: crate::Obj<ConfigMap>| {
            seen.lock().unwrap().insert(map.key().to_string());
            Ok::<_, Infallible>(map)
        };
        let informers = InformerFactory::builder(&proxy.client())
            .configure::<ConfigMap>(|options| configure(options.shards(lower).transform(transform)))
            .build();
        let maps = informers.lister::<ConfigMap>();
        let notified = Recorder::default();
        informers.of::<ConfigMap>().add_handler(notified.clone()).unwrap();
        let _running = informers.start();
        informers.wait_for_sync().await.unwrap();
        settle().await;
        Informed { server, proxy, informers, maps, notified, transformed, _running }
    }

    async fn expected(&self) -> BTreeSet<String> {
        selected(&self.server, &halves()[0]).await
    }

    /// Returns a name out of range.
    async fn outside(&self) -> String {
        let outside = selected(&self.server, &halves()[1]).await;
        outside.first().unwrap().strip_prefix("default/").unwrap().to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn shd_033_objects_out_of_range_are_dropped_before_they_are_transformed() {
    for watch_list in [false, true] {
        let informed = Informed::start(IGNORES, |options| options.watch_list(watch_list)).await;
        let expected = informed.expected().await;
        assert_eq!(keys(&informed.maps), expected);
        create_many(&informed.server.client(), 40..60).await;
        settle().await;
        let expected = informed.expected().await;
        assert_eq!(keys(&informed.maps), expected);
        assert_eq!(*informed.transformed.lock().unwrap(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn shd_035_events_out_of_range_advance_the_version_and_nothing_else() {
    let informed = Informed::start(IGNORES, |options| options).await;
    informed.notified.take();
    let name = informed.outside().await;
    let maps = informed.server.client().api::<ConfigMap>().namespace("default");
    let patched = maps.patch(&name, &Patch::merge(&json!({"data": {"k": "new"}}))).await.unwrap();
    settle().await;
    let reached = || informed.informers.statuses()[0].reflector.last_sync_resource_version.clone();
    assert_eq!(reached(), patched.resource_version());
    let indexer = informed.informers.of::<ConfigMap>().indexer();
    assert_eq!(indexer.snapshot().resource_version().as_str(), patched.resource_version());
    delete(&informed.server.client(), "default", &name).await;
    settle().await;
    let deleted: u64 = reached().parse().unwrap();
    assert!(deleted > patched.resource_version().parse().unwrap());
    assert_eq!(informed.notified.take(), Vec::<String>::new());
    assert_eq!(keys(&informed.maps), informed.expected().await);
}

#[tokio::test(start_paused = true)]
async fn shd_035_bookmarks_pass_a_server_that_filters() {
    let informed = Informed::start(FILTERS, |options| options).await;
    let name = informed.outside().await;
    let maps = informed.server.client().api::<ConfigMap>().namespace("default");
    let patched = maps.patch(&name, &Patch::merge(&json!({"data": {"k": "new"}}))).await.unwrap();
    let reached = || informed.informers.statuses()[0].reflector.last_sync_resource_version.clone();
    settle().await;
    assert_ne!(reached(), patched.resource_version());
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(reached(), patched.resource_version());
}

#[tokio::test(start_paused = true)]
async fn shd_037_all_places_need_no_parameter() {
    let informed =
        Informed::start(FILTERS, |options| options.shards(ShardSelector::new(ShardField::Uid, ShardRanges::full())))
            .await;
    let paths = informed.proxy.take_paths();
    assert!(!paths.is_empty() && paths.iter().all(|path| !is_selected(path)), "{paths:?}");
    assert_eq!(keys(&informed.maps).len(), 40);
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_a_list_counts_objects_in_range() {
    for watch_list in [false, true] {
        let informed = Informed::start(IGNORES, |options| options.watch_list(watch_list).max_list_objects(35)).await;
        assert_eq!(keys(&informed.maps), informed.expected().await);
    }
}

#[tokio::test(start_paused = true)]
async fn cst_001_a_check_compares_the_objects_in_range() {
    for mode in [FILTERS, IGNORES] {
        let informed = Informed::start(mode, |options| options).await;
        let report = informed.informers.of::<ConfigMap>().check_consistency().await;
        assert_eq!((report.outcome, report.objects), (ConsistencyOutcome::Consistent, keys(&informed.maps).len()));
    }
    // A refused selector is left out of the next check.
    let informed = Informed::start(FILTERS, |options| options).await;
    informed.proxy.set(500);
    let report = informed.informers.of::<ConfigMap>().check_consistency().await;
    assert!(matches!(report.outcome, ConsistencyOutcome::Inconclusive { .. }), "{report}");
    let report = informed.informers.of::<ConfigMap>().check_consistency().await;
    assert_eq!(report.outcome, ConsistencyOutcome::Consistent);
}

#[tokio::test(start_paused = true)]
async fn a_factory_covers_written_objects_in_range() {
    let informed = Informed::start(FILTERS, |options| options).await;
    let maps = informed.server.client().api::<ConfigMap>().namespace("default");
    let info = Arc::clone(maps.resource());
    let mut covered = BTreeSet::new();
    for map in maps.list(&Default::default()).await.unwrap().iter() {
        if informed.informers.covers::<ConfigMap>(&info, map.key(), map.header()) {
            covered.insert(map.key().to_string());
        }
    }
    assert_eq!(covered, informed.expected().await);
}

#[tokio::test(start_paused = true)]
async fn informers_of_several_namespaces_share_what_is_known_of_the_server() {
    let server = sharded_server().await;
    let client = server.client();
    for namespace in ["a", "b"] {
        let namespace = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        client.api::<Namespace>().create(&namespace).await.unwrap();
    }
    for (namespace, name) in [("a", "x"), ("a", "y"), ("a", "z"), ("b", "x"), ("b", "y"), ("b", "z")] {
        create(&client, namespace, name, "web").await;
    }
    let proxy = Proxy::new(&server);
    proxy.set(500);
    let [lower, _] = halves();
    let informers = InformerFactory::builder(&proxy.client())
        .namespaces(["a", "b"])
        .configure::<ConfigMap>(|options| options.shards(lower.clone()))
        .build();
    let maps = informers.lister::<ConfigMap>();
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert_eq!(keys(&maps), selected(&server, &lower).await);
    proxy.take_paths();
    // These watches follow the refusal, by whichever namespace.
    server.faults().drop_watch_after(1);
    for namespace in ["a", "b"] {
        create(&client, namespace, "w", "web").await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let paths = proxy.take_paths();
    for namespace in ["a", "b"] {
        let resource = format!("/namespaces/{namespace}/configmaps");
        let mut requested = paths.iter().filter(|path| path.contains(&resource)).peekable();
        assert!(requested.peek().is_some() && requested.all(|path| !is_selected(path)), "{paths:?}");
    }
}
