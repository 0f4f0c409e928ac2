//! Helpers around requests, against an embedded API server with injected faults.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use evenkeel_apiserver::{Action, ApiServer, ExpireForm, Rule, WatchAction};
use evenkeel_client::api::scope::Namespaced;
use evenkeel_client::wait::conditions::{and, condition_true, exists, is_deleted, is_deleted_or_replaced, not};
use evenkeel_client::watch::{Selection, when};
use evenkeel_client::{
    Api, Client, CreateOrUpdate, Error, ListParams, Pager, RetryWatcher, ToReference, Unstructured, WaitError,
    WatchParams, create_or_update, is_interrupted, retry_on_conflict, until, wait_for,
};
use evenkeel_core::{Obj, ResourceVersion, Status, WatchEvent};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;
use tokio::time::timeout;

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"count": "0"}})).unwrap()
}

async fn start() -> (ApiServer, Client, Api<ConfigMap>) {
    let server = ApiServer::start().await.unwrap();
    let client = server.client();
    let maps = client.api::<ConfigMap>().namespace("default");
    (server, client, maps)
}

/// How many requests of this method, with this text in their path, the server has received.
fn count(server: &ApiServer, method: &str, part: &str) -> usize {
    let requests = server.requests();
    requests.iter().filter(|request| request.method.as_str() == method && request.path.contains(part)).count()
}

async fn increment(maps: &Api<ConfigMap>, name: &str) -> Result<Obj<ConfigMap>, Error> {
    let written = retry_on_conflict(async || {
        let mut map = ConfigMap::clone(&*maps.get(name).await?.typed().unwrap());
        // Lets the others read the same version.
        tokio::task::yield_now().await;
        let count = map.data.get_or_insert_default().entry("count".into()).or_default();
        *count = (count.parse::<u32>().unwrap() + 1).to_string();
        maps.update(&map).await
    });
    Ok(written.await?)
}

#[tokio::test(start_paused = true)]
async fn rt_003_racing_writers_all_succeed() {
    let (server, _, maps) = start().await;
    maps.create(&config_map("a")).await.unwrap();
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let maps = maps.clone();
            tokio::spawn(async move { increment(&maps, "a").await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    let map = maps.get("a").await.unwrap();
    assert_eq!(map.path("data.count").unwrap().unwrap().text(), "4");
    assert!(server.requests().iter().any(|request| request.status.is_some_and(|status| status == 409)), "they raced");
}

#[tokio::test(start_paused = true)]
async fn rt_002_a_persistent_conflict_is_returned_after_five_attempts() {
    let (server, _, maps) = start().await;
    maps.create(&config_map("a")).await.unwrap();
    let conflict = Status::conflict("", "configmaps", "a", "another client is always faster");
    server.faults().add(Rule::new(Action::Status(Box::new(conflict))).verb("update"));
    assert!(increment(&maps, "a").await.unwrap_err().is_conflict());
    assert_eq!(count(&server, "PUT", "/configmaps/a"), 5);
}

fn name_of(event: &WatchEvent<ConfigMap>) -> String {
    match event {
        WatchEvent::Added(map) | WatchEvent::Modified(map) | WatchEvent::Deleted(map) => map.key().name().to_owned(),
        WatchEvent::Error(status) => format!("error {}", status.code),
        WatchEvent::Bookmark { .. } => "bookmark".to_owned(),
    }
}

async fn watcher(maps: &Api<ConfigMap>) -> RetryWatcher<ConfigMap, Selection<ConfigMap, Namespaced>> {
    let list = maps.list(&ListParams::default()).await.unwrap();
    RetryWatcher::new(&list.meta.resource_version, Selection::of(maps)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn rw_002_rw_004_every_event_is_returned_once_despite_dropped_watches() {
    let (server, _, maps) = start().await;
    server.faults().drop_watch_after(3);
    let mut watcher = watcher(&maps).await;
    let writer = tokio::spawn({
        let maps = maps.clone();
        async move {
            for n in 0..20 {
                maps.create(&config_map(&format!("map-{n:02}"))).await.unwrap();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    });
    // The watcher is polled in its own task: it is `Send`.
    let reader = tokio::spawn(async move {
        let mut names = Vec::new();
        while names.len() < 20 {
            names.push(name_of(&watcher.next().await.unwrap()));
        }
        names
    });
    let names = timeout(Duration::from_secs(60), reader).await.unwrap().unwrap();
    writer.await.unwrap();
    assert_eq!(names, (0..20).map(|n| format!("map-{n:02}")).collect::<Vec<_>>());
    let watches = count(&server, "GET", "watch=true");
    assert!(watches >= 7, "20 events at 3 a watch take at least 7 watches, there were {watches}");
    assert_eq!(watches, count(&server, "GET", "allowWatchBookmarks=true"));
}

#[tokio::test(start_paused = true)]
async fn rw_002_any_closure_is_a_source_of_watches() {
    let (_server, _, maps) = start().await;
    let list = maps.list(&ListParams::default()).await.unwrap();
    let watch = |from: ResourceVersion| {
        let maps = maps.clone();
        async move { maps.watch(&WatchParams::from_version(from.as_str()).labels("app=web")).await }
    };
    let mut watcher = RetryWatcher::new(&list.meta.resource_version, watch).unwrap();
    maps.create(&config_map("unlabelled")).await.unwrap();
    let mut labelled = config_map("labelled");
    labelled.metadata.labels.get_or_insert_default().insert("app".into(), "web".into());
    let created = maps.create(&labelled).await.unwrap();
    assert_eq!(name_of(&watcher.next().await.unwrap()), "labelled");
    assert_eq!(watcher.resource_version(), created.resource_version());
}

#[tokio::test(start_paused = true)]
async fn rw_006_connections_broken_within_an_event_are_reopened() {
    let (server, _, maps) = start().await;
    server.faults().cut_frame();
    let mut watcher = watcher(&maps).await;
    maps.create(&config_map("a")).await.unwrap();
    assert_eq!(name_of(&watcher.next().await.unwrap()), "a");
    assert_eq!(count(&server, "GET", "watch=true"), 2);
}

#[tokio::test(start_paused = true)]
async fn rw_007_rw_009_both_forms_of_expiry_end_in_one_error() {
    for (form, watches) in [(ExpireForm::Event, 1), (ExpireForm::Http, 5)] {
        let (server, _, maps) = start().await;
        server.faults().add(Rule::watch(WatchAction::Expire { event: 0, form }));
        let mut watcher = watcher(&maps).await;
        maps.create(&config_map("a")).await.unwrap();
        assert_eq!(name_of(&watcher.next().await.unwrap()), "error 410", "{form:?}");
        assert!(watcher.next().await.is_none());
        assert_eq!(count(&server, "GET", "watch=true"), watches, "{form:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rw_010_an_event_of_an_unknown_type_ends_the_watch() {
    let (server, _, maps) = start().await;
    server.faults().add(Rule::watch(WatchAction::UnknownEventType { event: 0 }));
    let mut watcher = watcher(&maps).await;
    maps.create(&config_map("a")).await.unwrap();
    assert_eq!(name_of(&watcher.next().await.unwrap()), "error 500");
    assert!(watcher.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn un_001_un_003_conditions_on_a_watch_that_is_dropped() {
    let (server, _, maps) = start().await;
    server.faults().drop_watch_after(1);
    let waiting = until(
        watcher(&maps).await,
        [
            when(|event| Ok(matches!(event, WatchEvent::Added(map) if map.key().name() == "a"))),
            when(|event| Ok(matches!(event, WatchEvent::Deleted(map) if map.key().name() == "a"))),
        ],
    );
    let waiting = tokio::spawn(waiting.stop_on(tokio::time::sleep(Duration::from_secs(30))));
    maps.create(&config_map("a")).await.unwrap();
    maps.create(&config_map("b")).await.unwrap();
    maps.delete("a").await.unwrap();
    let last = waiting.await.unwrap().unwrap().unwrap();
    assert!(matches!(last, WatchEvent::Deleted(map) if map.key().name() == "a"));

    let never = until(watcher(&maps).await, [when(|_| Ok(false))]);
    let error = never.stop_on(tokio::time::sleep(Duration::from_secs(5))).await.unwrap_err();
    assert!(is_interrupted(&error) && error.last.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_wait_spans_creation_and_deletion_of_an_object() {
    let (server, _, maps) = start().await;
    server.faults().drop_watch_after(1);
    let wait = |condition: fn(Option<&Obj<ConfigMap>>) -> bool| {
        let maps = maps.clone();
        tokio::spawn(async move { timeout(Duration::from_secs(60), wait_for(&maps, "a", condition)).await.unwrap() })
    };
    let born = wait(|map| map.is_some());
    let counted = wait(|map| {
        map.and_then(|map| map.path("data.count").unwrap()).is_some_and(|count| count.as_str().as_deref() == Some("2"))
    });
    tokio::task::yield_now().await;
    maps.create(&config_map("other")).await.unwrap();
    maps.create(&config_map("a")).await.unwrap();
    let born = born.await.unwrap().unwrap().unwrap();
    assert_eq!(born.key().as_str(), "default/a");
    let gone = wait(|map| map.is_none());
    increment(&maps, "a").await.unwrap();
    increment(&maps, "a").await.unwrap();
    assert!(counted.await.unwrap().unwrap().is_some());
    maps.delete("a").await.unwrap();
    assert!(gone.await.unwrap().unwrap().is_none());
    let replaced = wait_for(&maps, "a", and(not(exists()), is_deleted_or_replaced(born.uid()))).await.unwrap();
    assert!(replaced.is_none());
    assert_eq!(count(&server, "GET", "fieldSelector=metadata.name"), count(&server, "GET", "/configmaps?"));
}

#[tokio::test(start_paused = true)]
async fn an_expired_history_is_read_again() {
    let (server, _, maps) = start().await;
    maps.create(&config_map("a")).await.unwrap();
    let expire = WatchAction::Expire { event: 0, form: ExpireForm::Event };
    server.faults().add(Rule::watch(expire).times(1));
    let gone = tokio::spawn({
        let maps = maps.clone();
        async move { wait_for(&maps, "a", is_deleted()).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    maps.delete("a").await.unwrap();
    assert!(timeout(Duration::from_secs(60), gone).await.unwrap().unwrap().unwrap().is_none());
    assert_eq!(count(&server, "GET", "watch=true"), 1, "it expired");
    assert_eq!(count(&server, "GET", "/configmaps?fieldSelector"), 2, "and the object was read again");
}

#[tokio::test(start_paused = true)]
async fn a_pod_becomes_ready() {
    let (_server, client, _) = start().await;
    let pods = client.api::<Pod>().namespace("default");
    let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pods.create(&serde_json::from_value(pod).unwrap()).await.unwrap();
    let waiting = tokio::spawn({
        let pods = pods.clone();
        async move { timeout(Duration::from_secs(60), wait_for(&pods, "web", condition_true("Ready"))).await }
    });
    let limited = timeout(Duration::from_secs(1), wait_for(&pods, "web", condition_true("Ready"))).await;
    assert!(is_interrupted(&limited.unwrap_err()));
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    client
        .request(http::Method::PATCH, evenkeel_client::Path::raw("/api/v1/namespaces/default/pods/web/status"))
        .body(ready.to_string(), "application/merge-patch+json")
        .send()
        .await
        .unwrap();
    let pod = waiting.await.unwrap().unwrap().unwrap().unwrap();
    assert_eq!(pod.to_reference().kind.as_deref(), Some("Pod"));
}

#[tokio::test(start_paused = true)]
async fn invalid_names_are_rejected() {
    let (server, client, maps) = start().await;
    assert!(matches!(wait_for(&maps, "", exists()).await, Err(WaitError::Request(Error::Request(_)))));
    let nowhere = client.dynamic(&client.resource::<ConfigMap>());
    assert!(matches!(wait_for(&nowhere, "a", exists()).await, Err(WaitError::Request(Error::Request(_)))));
    assert!(server.requests().is_empty());
}

fn count_to(count: u32) -> impl FnMut(&mut ConfigMap) {
    move |map| {
        map.data.get_or_insert_default().insert("count".into(), count.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn create_or_update_returns_what_it_did() {
    let (server, _, maps) = start().await;
    let named = config_map("a");
    let created = create_or_update(&maps, &named, count_to(7)).await.unwrap();
    assert!(matches!(created, CreateOrUpdate::Created(_)) && created.is_changed());
    assert_eq!(created.object().path("data.count").unwrap().unwrap().text(), "7");
    let same = create_or_update(&maps, &named, count_to(7)).await.unwrap();
    assert!(matches!(same, CreateOrUpdate::Unchanged(_)) && !same.is_changed());
    assert_eq!(same.object().resource_version(), created.object().resource_version());
    let updated = create_or_update(&maps, &named, count_to(8)).await.unwrap();
    assert!(matches!(updated, CreateOrUpdate::Updated(_)));
    assert_eq!(updated.object().path("data.count").unwrap().unwrap().text(), "8");
    assert_eq!((count(&server, "POST", ""), count(&server, "PUT", "")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn create_or_update_survives_races() {
    let (server, _, maps) = start().await;
    maps.create(&config_map("a")).await.unwrap();
    // The first read does not see the object, so the create fails as it exists.
    let missing = Status::not_found("", "configmaps", "a");
    server.faults().add(Rule::new(Action::Status(Box::new(missing))).verb("get").times(1));
    // Then two updates conflict.
    let conflict = Status::conflict("", "configmaps", "a", "too late");
    server.faults().add(Rule::new(Action::Status(Box::new(conflict))).verb("update").times(2));
    let runs = std::sync::Arc::new(AtomicU32::new(0));
    let done = tokio::spawn({
        let (maps, runs) = (maps.clone(), runs.clone());
        async move {
            create_or_update(&maps, &config_map("a"), |map| {
                runs.fetch_add(1, Ordering::Relaxed);
                count_to(3)(map);
            })
            .await
        }
    });
    assert!(matches!(done.await.unwrap().unwrap(), CreateOrUpdate::Updated(_)));
    assert_eq!(runs.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn create_or_update_returns_errors() {
    let (server, client, maps) = start().await;
    let nameless = create_or_update(&maps, &ConfigMap::default(), |_| ()).await;
    assert!(matches!(nameless, Err(Error::Request(_))));
    let renamed = create_or_update(&maps, &config_map("a"), |map| map.metadata.name = Some("b".into())).await;
    assert!(renamed.unwrap_err().to_string().contains("renamed"));
    assert_eq!(count(&server, "POST", ""), 0);
    let forbidden = Status::forbidden("", "configmaps", "a", "no");
    server.faults().add(Rule::new(Action::Status(Box::new(forbidden))).verb("create").times(1));
    let refused = create_or_update(&maps, &config_map("a"), count_to(1)).await.unwrap_err();
    assert!(refused.status().unwrap().is_forbidden());

    // Objects of a kind that is only known at run time, with all their fields.
    let dynamic = client.dynamic(&client.resource::<ConfigMap>()).namespace("default");
    let named = Unstructured::from(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dynamic"}}));
    let done = create_or_update(&dynamic, &named, |map| {
        map.set("data.colour", json!("blue")).unwrap();
    });
    assert_eq!(done.await.unwrap().object().path("data.colour").unwrap().unwrap().text(), "blue");
}

#[tokio::test(start_paused = true)]
async fn pg_002_pg_003_a_collection_is_read_in_pages() {
    let (server, _, maps) = start().await;
    for n in 0..21 {
        maps.create(&config_map(&format!("map-{n:02}"))).await.unwrap();
    }
    let whole = maps.list(&ListParams::default()).await.unwrap();
    let before = server.requests().len();
    let version = whole.meta.resource_version.as_str();
    let pager = Pager::new(maps.clone(), ListParams::default().not_older_than(version)).page_size(10);
    let listing = pager.list().await.unwrap();
    assert!(listing.paginated);
    let names = |list: Vec<Obj<ConfigMap>>| list.iter().map(|map| map.key().to_string()).collect::<Vec<_>>();
    assert_eq!(names(listing.list.items), names(whole.items));
    assert_eq!(server.requests().len() - before, 3);

    let items = tokio::spawn(async move {
        let mut items = Pager::new(maps, ListParams::default()).page_size(4).prefetch(1).detached().stream();
        let mut objects = Vec::new();
        while let Some(item) = items.next().await {
            objects.push(item?);
        }
        Ok::<_, Error>(objects)
    });
    assert_eq!(items.await.unwrap().unwrap().len(), 21);
}

#[tokio::test(start_paused = true)]
async fn pg_004_a_compacted_token_causes_a_full_list() {
    let (server, _, maps) = start().await;
    for n in 0..21 {
        maps.create(&config_map(&format!("map-{n:02}"))).await.unwrap();
    }
    // Another client writes, and the history is compacted, between the first page and the second.
    let pages = AtomicU32::new(0);
    let pager = Pager::<ConfigMap, _>::new(
        |params: ListParams| {
            let (maps, nth) = (maps.clone(), pages.fetch_add(1, Ordering::Relaxed));
            let server = &server;
            async move {
                if nth == 1 {
                    maps.create(&config_map("late")).await?;
                    server.faults().compact_now();
                }
                maps.list(&params).await
            }
        },
        ListParams::default(),
    )
    .page_size(10);
    let listing = pager.list().await.unwrap();
    assert_eq!(listing.list.items.len(), 22);
    assert_eq!(pages.load(Ordering::Relaxed), 3);
}
