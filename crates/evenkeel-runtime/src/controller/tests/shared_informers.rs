//! One informer for each kind, namespace and selector.

use evenkeel_cache::{InformerFactory, InformerOptions, SharedInformer};

use super::*;
use crate::Manager;
use crate::manager::ManagerError;

/// Runs a manager for a second.
async fn run(manager: Manager) -> Result<(), ManagerError> {
    manager.run(pass(secs(1))).await
}

async fn reconcile<K>(_: Obj<K>, _: Context) -> Result<Next, ReconcileError> {
    Ok(Next::done())
}

fn names(informers: &InformerFactory) -> Vec<String> {
    informers.statuses().into_iter().map(|status| status.name).collect()
}

#[tokio::test(start_paused = true)]
async fn co_036_controllers_of_a_manager_share_informers_of_the_same_scope() {
    let server = server().await;
    let client = server.client();
    let manager = Manager::new(&client)
        .controller(Controller::<ConfigMap>::new(&client).named("co-036-all").resync(secs(60)), reconcile)
        .controller(controller(&client, "co-036-1").labels("app = web").owns::<Secret>(), reconcile)
        .controller(controller(&client, "co-036-2").labels("app=web"), reconcile)
        .controller(Controller::<Secret>::new(&client).named("co-036-3").namespace("default"), reconcile);
    let informers = manager.informers().clone();
    let seen = Mutex::new(Vec::new());
    let shutdown = async {
        pass(secs(1)).await;
        *seen.lock().unwrap() = names(&informers);
    };
    manager.run(shutdown).await.unwrap();
    let expected = ["configmaps", "configmaps (namespace default, labels app=web)", "secrets (namespace default)"];
    assert_eq!(*seen.lock().unwrap(), expected);
    assert!(names(&informers).is_empty(), "they ended with the last controller");
    let reads = server.requests().iter().filter(|request| request.path.contains("/secrets")).count();
    assert_eq!(reads, 1, "one WatchList of the secrets");
}

#[tokio::test(start_paused = true)]
async fn co_036_a_scope_that_the_informers_do_not_have_is_an_error_that_says_what_to_do() {
    let server = server().await;
    let client = server.client();
    let elsewhere = InformerFactory::builder(&client).namespace("other");
    let manager = Manager::with_informers(&client, elsewhere).controller(controller(&client, "co-036-ns"), reconcile);
    let error = run(manager).await.unwrap_err().to_string();
    assert!(error.starts_with("controller co-036-ns: cannot be built: "), "{error}");
    assert!(error.contains("\"other\"") && error.contains("remove `.namespace(…)`"), "{error}");

    let own = InformerFactory::builder(&client).build();
    let twice = controller(&client, "co-036-twice").informers(&own);
    let manager = Manager::new(&client).controller(controller(&client, "co-036-once"), reconcile);
    let error = run(manager.controller(twice, reconcile)).await.unwrap_err().to_string();
    assert!(error.contains("co-036-twice") && error.contains("configmaps"), "{error}");
    assert!(error.contains("Manager::with_informers"), "{error}");

    let same = controller(&client, "co-036-same").informers(&own);
    run(Manager::with_informers(&client, own).controller(same, reconcile)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_036_a_resync_that_a_running_informer_does_not_have_is_an_error() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    create(&client, "a").await;
    let informers = InformerFactory::builder(&client).resync(secs(600)).build();
    let _maps = informers.of::<ConfigMap>();
    let _running = informers.start();
    let resynced = |period| Controller::<ConfigMap>::new(&client).informers(&informers).named("co-036").resync(period);
    let error = resynced(secs(60)).standby().unwrap_err().to_string();
    assert!(error.contains("600s") && error.contains(".resync(60s)") && error.contains("builder"), "{error}");
    let running = start(resynced(secs(1200)), {
        let log = log.clone();
        move |_, _| {
            log.note("run");
            async { Ok(Next::done()) }
        }
    });
    pass(secs(2500)).await;
    assert_eq!(log.len(), 3, "the initial list and two resyncs");
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_036_narrowed_informers_of_a_factory_reconcile_their_objects_only() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    for (name, app) in [("a", "web"), ("b", "db")] {
        let parent: ConfigMap = value(json!({"metadata": {"name": name, "labels": {"app": app}}}));
        client.api::<ConfigMap>().namespace("default").create(&parent).await.unwrap();
    }
    let informers = InformerFactory::builder(&client).namespace("default").build();
    let all = informers.lister::<ConfigMap>();
    let running = start(controller(&client, "co-036-web").informers(&informers).labels("app=web"), {
        let log = log.clone();
        move |map, _| {
            log.note(map.key().name());
            async { Ok(Next::done()) }
        }
    });
    pass(secs(1)).await;
    assert_eq!((log.take(), all.list_all().len()), (vec!["a".to_owned()], 2));
    running.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn co_037_a_controller_takes_informers_of_the_user_as_sources() {
    let server = server().await;
    let (client, log) = (server.client(), Log::new());
    let a = create(&client, "a").await;
    let source = evenkeel_cache::source::ApiSource::new(client.api::<Secret>().namespace("default")).labels("mine");
    let secrets =
        SharedInformer::<Secret>::new(source, &client.resource::<Secret>(), InformerOptions::new().name("mine"));
    let built = controller(&client, "co-037").source(Source::informer(&secrets).owned());
    let running = start(built, {
        let log = log.clone();
        move |_, ctx| {
            log.note(ctx.lister::<Secret>().unwrap().list_all().len());
            async { Ok(Next::done()) }
        }
    });
    settle().await;
    assert_eq!(log.take(), ["0"]);
    let api = client.api::<Secret>().namespace("default");
    api.create(&child("other", &a)).await.unwrap();
    let mut mine = child("mine", &a);
    mine.metadata.labels = Some(BTreeMap::from([("mine".to_owned(), String::new())]));
    api.create(&mine).await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["1"]);
    running.end().await.unwrap();
    settle().await;
    assert!(secrets.is_stopped(), "the controller had started it");
}

#[tokio::test(start_paused = true)]
async fn co_037_a_running_informer_of_the_user_outlives_the_controller() {
    let server = server().await;
    let client = server.client();
    let source = evenkeel_cache::source::ApiSource::new(client.api::<Secret>());
    let secrets = SharedInformer::<Secret>::new(source, &client.resource::<Secret>(), InformerOptions::new());
    let handle = secrets.start();
    let running = start(controller(&client, "co-037-run").source(Source::informer(&secrets).owned()), reconcile);
    settle().await;
    running.end().await.unwrap();
    assert!(!secrets.is_stopped());
    handle.stop().await;
}
