//! SHE-001 to SHE-005.

use std::sync::atomic::AtomicU32;

use evenkeel_core::ResourceInfo;

use super::*;
use crate::reflector::testing::Logs;

/// Starts a factory whose informer of ConfigMaps has these options.
fn member(
    client: &Client,
    configure: impl FnOnce(KindOptions<ConfigMap>) -> KindOptions<ConfigMap>,
) -> (InformerFactory, Lister<ConfigMap>) {
    let informers = InformerFactory::builder(client).configure::<ConfigMap>(configure).build();
    let maps = informers.lister::<ConfigMap>();
    (informers, maps)
}

#[tokio::test(start_paused = true)]
async fn she_001_a_server_without_the_gate() {
    let measured = Measured::default();
    let _local = ::metrics::set_default_local_recorder(&measured);
    let server = ApiServer::builder().in_process_only().bootstrap(false).start().await.unwrap();
    create_many(&server.client(), 0..1000).await;
    let mut notified = Vec::new();
    for half in halves() {
        let (informers, maps) = member(&server.client(), |options| options.shards(half.clone()));
        let recorder = Recorder::default();
        informers.of::<ConfigMap>().add_handler(recorder.clone()).unwrap();
        let _running = informers.start();
        informers.wait_for_sync().await.unwrap();
        settle().await;
        let own = keys(&maps);
        assert_eq!(own, selected(&server, &half).await);
        assert!((400..600).contains(&own.len()), "{}", own.len());
        notified.extend(recorder.take());
    }
    assert_eq!(notified.len(), 1000);
    notified.sort();
    notified.dedup();
    assert_eq!(notified.len(), 1000, "each object has one member");
    assert_eq!((measured.dropped("configmaps"), measured.support("configmaps")), (1000, -1.0));
}

#[tokio::test(start_paused = true)]
async fn she_002_the_gate_flips_under_way() {
    let measured = Measured::default();
    let _local = ::metrics::set_default_local_recorder(&measured);
    let server = sharded_server().await;
    create_many(&server.client(), 0..40).await;
    let [lower, _] = halves();
    let proxy = Proxy::new(&server);
    // Between list and watch.
    let changing = SecondRequest { proxy: proxy.clone(), mode: IGNORES, requests: Arc::default() };
    let (informers, maps) =
        member(&Client::from_service(changing), |options| options.shards(lower.clone()).watch_list(false));
    let _running = informers.start();
    informers.wait_for_sync().await.unwrap();
    assert_eq!(measured.support("configmaps"), 1.0);
    let lists = |informers: &InformerFactory| informers.statuses()[0].reflector.lists;
    let mut next = 40;
    for (mode, support) in [(IGNORES, -1.0), (FILTERS, -1.0), (IGNORES, -1.0)] {
        proxy.set(mode);
        create_many(&server.client(), next..next + 20).await;
        settle().await;
        // Longer than any watch lives, so that the next one is of this mode.
        tokio::time::sleep(Duration::from_secs(700)).await;
        create_many(&server.client(), next + 20..next + 40).await;
        next += 40;
        settle().await;
        assert_eq!(keys(&maps), selected(&server, &lower).await);
        assert_eq!(lists(&informers), 1, "no relist is caused");
        assert_eq!(measured.support("configmaps"), support, "a watch does not tell that it is filtered");
    }
    // Across relists.
    for (mode, support) in [(FILTERS, 1.0), (IGNORES, -1.0), (FILTERS, 1.0)] {
        proxy.set(mode);
        let before = lists(&informers);
        let mut name = next;
        server.faults().compact_now();
        server.faults().drop_watch_after(1);
        while lists(&informers) == before {
            create_many(&server.client(), [name]).await;
            name += 1;
            server.faults().compact_now();
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(name < next + 100, "the informer relists");
        }
        server.faults().clear();
        next = name;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(keys(&maps), selected(&server, &lower).await);
        assert_eq!(measured.support("configmaps"), support);
    }
}

#[tokio::test(start_paused = true)]
async fn she_003_custom_resources() {
    let measured = Measured::default();
    let _local = ::metrics::set_default_local_recorder(&measured);
    let (logs, _guard) = Logs::listen();
    let server = sharded_server().await;
    let client = server.client();
    let schema = json!({"type": "object"});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    let names = json!({"plural": "widgets", "kind": "Widget"});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                            "metadata": {"name": "widgets.example.com"},
                            "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}});
    server.install_crds([definition]).await.unwrap();
    let info = Arc::new(ResourceInfo::new("example.com", "v1", "Widget", "widgets", true));
    let widgets = client.dynamic(&info).namespace("default");
    let [lower, _] = halves();
    let mut expected = BTreeSet::new();
    for index in 0..40 {
        let widget =
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": format!("w{index}")}});
        let created = widgets.create(&serde_json::from_value(widget).unwrap()).await.unwrap();
        if lower.matches(created.header()) {
            expected.insert(created.key().to_string());
        }
    }
    for watch_list in [false, true] {
        let options = |options: KindOptions<_>| options.shards(lower.clone()).watch_list(watch_list);
        let informers = InformerFactory::builder(&client).configure_dynamic(&info, options).build();
        let lister = informers.dynamic(&info).lister();
        let _running = informers.start();
        informers.wait_for_sync().await.unwrap();
        assert_eq!(keys(&lister), expected);
    }
    assert_eq!((measured.support("widgets.example.com"), measured.dropped("widgets.example.com")), (0.0, 0));
    assert_eq!(logs.lines(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn she_004_and_shd_036_a_selector_that_is_refused() {
    let server = sharded_server().await;
    create_many(&server.client(), 0..20).await;
    let [lower, _] = halves();
    for (code, watch_list) in [(500, true), (500, false), (400, true), (422, false)] {
        let measured = Measured::default();
        let _local = ::metrics::set_default_local_recorder(&measured);
        let proxy = Proxy::new(&server);
        proxy.set(code);
        let (informers, maps) = member(&proxy.client(), |options| options.shards(lower.clone()).watch_list(watch_list));
        let _running = informers.start();
        informers.wait_for_sync().await.unwrap();
        assert_eq!(keys(&maps), selected(&server, &lower).await);
        let paths = proxy.take_paths();
        let sent: Vec<bool> = paths.iter().map(|path| is_selected(path)).collect();
        assert!(sent[0] && sent[1..].iter().all(|sent| !sent), "{paths:?}");
        assert_eq!(paths[0].contains("sendInitialEvents"), paths[1].contains("sendInitialEvents"), "{paths:?}");
        assert_eq!(measured.support("configmaps"), 0.0, "what a server does without a selector tells nothing");
        let lists = informers.statuses()[0].reflector.lists;

        tokio::time::sleep(Duration::from_secs(599)).await;
        assert!(proxy.take_paths().iter().all(|path| !is_selected(path)));
        // A watch ends after ten minutes at most. Its successor has the selector and is refused, and another one follows.
        tokio::time::sleep(Duration::from_secs(602)).await;
        let sent = proxy.take_paths().into_iter().filter(|path| is_selected(path)).count();
        assert_eq!(sent, 1);
        proxy.set(FILTERS);
        tokio::time::sleep(Duration::from_secs(1300)).await;
        assert!(is_selected(proxy.take_paths().last().unwrap()));
        create(&server.client(), "default", &format!("late-{code}-{watch_list}"), "web").await;
        settle().await;
        assert_eq!(keys(&maps), selected(&server, &lower).await);
        assert_eq!(informers.statuses()[0].reflector.lists, lists, "no relist is caused");
    }
}

#[tokio::test(start_paused = true)]
async fn she_004_other_refusals_follow_the_rules_of_the_reflector() {
    let server = sharded_server().await;
    create_many(&server.client(), 0..20).await;
    let [lower, _] = halves();
    let proxy = Proxy::new(&server);
    proxy.set(503);
    let (informers, maps) = member(&proxy.client(), |options| options.shards(lower.clone()));
    let _running = informers.start();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!informers.of::<ConfigMap>().has_synced());
    assert!(proxy.take_paths().iter().all(|path| is_selected(path)));
    proxy.set(FILTERS);
    informers.wait_for_sync().await.unwrap();
    assert_eq!(keys(&maps), selected(&server, &lower).await);
}

#[tokio::test(start_paused = true)]
async fn she_005_the_server_changes_between_two_pages() {
    let server = sharded_server().await;
    create_many(&server.client(), 0..60).await;
    let [lower, _] = halves();
    for mode in [FILTERS, IGNORES, 500] {
        let proxy = Proxy::new(&server);
        let changing = SecondRequest { proxy: proxy.clone(), mode, requests: Arc::default() };
        let (informers, maps) = member(&Client::from_service(changing), |options| {
            options.shards(lower.clone()).watch_list(false).consistent_restart(true).page_size(7)
        });
        let _running = informers.start();
        informers.wait_for_sync().await.unwrap();
        assert_eq!(keys(&maps), selected(&server, &lower).await);
        let paths = proxy.take_paths();
        let pages: Vec<&String> = paths.iter().filter(|path| path.contains("continue=")).collect();
        assert!(pages.len() > 1, "{paths:?}");
        let selector_of = |path: &String| path.split(['?', '&']).find(|part| is_selected(part)).map(str::to_owned);
        let of_first = selector_of(&paths[0]);
        assert!(of_first.is_some());
        if mode == 500 {
            // The second page is refused: the list starts again, without a selector in all its pages.
            assert_eq!(selector_of(pages[0]), of_first);
            assert!(!paths[2].contains("continue="), "{paths:?}");
            assert!(paths[2..].iter().all(|path| !is_selected(path)), "{paths:?}");
        } else {
            assert!(pages.iter().all(|page| selector_of(page) == of_first), "{paths:?}");
        }
    }
}

/// Changes the mode of the proxy after the first request.
#[derive(Clone)]
struct SecondRequest {
    proxy: Proxy,
    mode: u16,
    requests: Arc<AtomicU32>,
}

impl Service<Request<Body>> for SecondRequest {
    type Response = Response<ServerBody>;
    type Error = <InProcess as Service<Request<Body>>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if self.requests.fetch_add(1, Ordering::Relaxed) == 1 {
            self.proxy.set(self.mode);
        }
        self.proxy.call(request)
    }
}
