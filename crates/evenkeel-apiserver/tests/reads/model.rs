//! WAT-27: after any writes and reconnects, a watcher knows exactly the stored objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::api::{Api, METADATA, Watch, config_map, name, pass, version};
use crate::wire::{BINARY, BINARY_METADATA};

const NAMESPACES: [&str; 2] = ["default", "other"];

/// The collections and selectors of the watchers.
const WATCHERS: [&str; 6] = [
    "/api/v1/configmaps",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/configmaps?labelSelector=color%3Dred",
    "/api/v1/namespaces/other/configmaps?labelSelector=color%21%3Dred",
    "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Do1",
    "/api/v1/configmaps?fieldSelector=metadata.name%21%3Do1&labelSelector=color",
];

#[derive(Clone, Debug)]
enum ModelStep {
    /// Creates the object, or changes its data if it is there.
    Write(usize, u8),
    /// Gives the object another color, or none.
    Paint(usize, u8, Option<bool>),
    Delete(usize, u8),
    /// Something of another resource.
    Elsewhere,
    /// A watcher reads the available events.
    Read(usize),
    /// A watcher loses its connection with all unread events, and reconnects.
    Drop(usize),
    /// A minute passes: it is time for bookmarks.
    Wait,
    /// The server compacts all but this number of revisions.
    Compact(u64),
    /// Watches lag this many revisions behind.
    Lag(u64),
}

fn steps() -> impl Strategy<Value = Vec<ModelStep>> {
    let object = || (0..2usize, 0..4u8);
    let step = prop_oneof![
        6 => object().prop_map(|(namespace, name)| ModelStep::Write(namespace, name)),
        5 => (object(), prop::option::of(any::<bool>())).prop_map(|((namespace, name), red)| ModelStep::Paint(namespace, name, red)),
        3 => object().prop_map(|(namespace, name)| ModelStep::Delete(namespace, name)),
        1 => Just(ModelStep::Elsewhere),
        6 => (0..WATCHERS.len()).prop_map(ModelStep::Read),
        3 => (0..WATCHERS.len()).prop_map(ModelStep::Drop),
        1 => Just(ModelStep::Wait),
        1 => (0..20u64).prop_map(ModelStep::Compact),
        1 => (0..4u64).prop_map(ModelStep::Lag),
    ];
    prop::collection::vec(step, 1..60)
}

/// A client that keeps a copy of the watched objects.
struct Mirror {
    path: &'static str,
    accept: &'static str,
    watch: Option<Watch>,
    /// The last observed revision; `None` if the watcher has to relist.
    seen: Option<u64>,
    copy: BTreeMap<String, u64>,
    relisted: usize,
}

impl Mirror {
    async fn connect(&mut self, api: &Api) {
        let separator = if self.path.contains('?') { '&' } else { '?' };
        let start = match self.seen {
            Some(version) => format!("resourceVersion={version}"),
            None => {
                self.copy.clear();
                self.relisted += 1;
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned()
            }
        };
        let path = format!("{}{separator}{start}&allowWatchBookmarks=true&timeoutSeconds=100000", self.path);
        self.watch = Some(api.watch_as(self.accept, &path).await);
    }

    /// Reads the available events; reconnects if the watch has ended.
    async fn read(&mut self, api: &Api) {
        if self.watch.is_none() {
            self.connect(api).await;
        }
        let Some(watch) = &mut self.watch else { return };
        while let Some(event) = watch.ready() {
            let key =
                format!("{}/{}", event.object["metadata"]["namespace"].as_str().unwrap_or_default(), event.name());
            let known = self.copy.get(&key).copied();
            if event.kind != "ERROR"
                && let Some(seen) = self.seen
            {
                let again = event.kind == "BOOKMARK" && event.version() == seen;
                assert!(event.version() > seen || again, "{event:?} after {seen}: ordered and unique");
            }
            match (event.kind.as_str(), known) {
                ("ADDED", None) | ("MODIFIED", Some(_)) => {
                    self.copy.insert(key, event.version());
                }
                ("DELETED", Some(_)) => {
                    self.copy.remove(&key);
                }
                ("BOOKMARK", _) => assert!(self.seen.is_some() || event.ends_initial_events(), "{event:?}"),
                ("ERROR", _) => {
                    assert_eq!(event.object["code"], 410);
                    self.seen = None;
                    self.watch = None;
                    return;
                }
                unexpected => panic!("{unexpected:?} for {event:?} on {}", self.path),
            }
            // Initial events have no resource version until the bookmark at their end.
            if self.seen.is_some() || event.ends_initial_events() {
                self.seen = Some(event.version());
            }
        }
        if watch.has_ended() {
            self.watch = None;
        }
    }
}

/// Returns a fresh list of the selection of a watcher.
async fn truth(api: &Api, path: &str) -> BTreeMap<String, u64> {
    let list = api.list(path).await;
    let entry = |object: &Value| {
        (format!("{}/{}", object["metadata"]["namespace"].as_str().unwrap(), name(object)), version(object))
    };
    list.0["items"].as_array().unwrap().iter().map(entry).collect()
}

async fn perform(api: &Api, step: &ModelStep, mirrors: &mut [Mirror], count: usize) {
    let object = |namespace: &usize, name: &u8| {
        (format!("/api/v1/namespaces/{}/configmaps", NAMESPACES[*namespace]), format!("o{name}"))
    };
    match step {
        ModelStep::Write(namespace, name) => {
            let (collection, name) = object(namespace, name);
            let data = json!({"data": {"step": count.to_string()}});
            if api.patch(&format!("{collection}/{name}"), data).await.code == 404 {
                let body = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}});
                api.post(&collection, body).await.ok();
            }
        }
        ModelStep::Paint(namespace, name, red) => {
            let (collection, name) = object(namespace, name);
            let color = red.map(|red| if red { "red" } else { "blue" });
            let labels = json!({"metadata": {"labels": {"color": color}}});
            api.patch(&format!("{collection}/{name}"), labels).await;
        }
        ModelStep::Delete(namespace, name) => {
            let (collection, name) = object(namespace, name);
            api.delete(&format!("{collection}/{name}")).await;
        }
        ModelStep::Elsewhere => {
            let node = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": format!("n{count}")}});
            api.post("/api/v1/nodes", node).await.ok();
        }
        ModelStep::Read(index) => mirrors[*index].read(api).await,
        ModelStep::Drop(index) => mirrors[*index].watch = None,
        ModelStep::Wait => pass(61).await,
        ModelStep::Compact(kept) => api.faults().compact(api.now().await.saturating_sub(*kept)),
        ModelStep::Lag(revisions) => api.faults().lag_replica(*revisions),
    }
}

/// Increments a counter that other tasks increment too.
async fn increment(api: &Api) -> u64 {
    let path = "/api/v1/namespaces/default/configmaps/counter";
    loop {
        let mut counter = api.get(path).await.ok();
        let value: u64 = counter["data"]["n"].as_str().unwrap().parse().unwrap();
        counter["data"]["n"] = (value + 1).to_string().into();
        let response = api.put(path, counter).await;
        if response.code != 409 {
            return version(&response.ok());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sto_10_sto_12_wat_27_nothing_is_lost_between_threads() {
    const WRITERS: u64 = 4;
    const EACH: u64 = 40;
    let api = Arc::new(Api::start().await);
    let mut counter = config_map("counter", json!({"counts": "yes"}));
    counter["data"] = json!({"n": "0"});
    let start = version(&api.post("/api/v1/namespaces/default/configmaps", counter).await.ok());
    let mut watchers = Vec::new();
    for selector in ["", "&labelSelector=counts", "&fieldSelector=metadata.name%3Dcounter", "&labelSelector=counts"] {
        let path = format!("/api/v1/namespaces/default/configmaps?resourceVersion={start}{selector}");
        let mut watch = api.watch(&path).await;
        watchers.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            while seen.len() as u64 != WRITERS * EACH {
                let event = watch.next().await.expect("the watch is open");
                if event.name() == "counter" {
                    seen.push(event.object["data"]["n"].as_str().unwrap().parse::<u64>().unwrap());
                }
            }
            seen
        }));
    }
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let api = Arc::clone(&api);
        writers.push(tokio::spawn(async move {
            for round in 0..EACH {
                let written = increment(&api).await;
                api.add(&format!("noise-{writer}-{round}"), json!({})).await;
                let list =
                    api.list("/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dcounter").await;
                assert!(version(&list.0["items"][0]) >= written, "a write that was answered is seen");
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    for watcher in watchers {
        assert_eq!(watcher.await.unwrap(), (1..=WRITERS * EACH).collect::<Vec<_>>(), "every step, once, in order");
    }
}

/// The forms in which watchers watch.
const ACCEPTED: [&str; 4] = ["application/json", METADATA, BINARY, BINARY_METADATA];

proptest! {
    #![proptest_config(crate::api::repeatable(100))]

    #[test]
    fn wat_27_wat_3_wat_13_wat_18_every_watcher_ends_with_what_a_fresh_list_shows(
        steps in steps(),
        history in 4usize..40,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let api = Api::with(|builder| builder.history(history)).await;
            api.add_namespace("other").await;
            let mut mirrors: Vec<Mirror> = WATCHERS.iter().enumerate().map(|(index, path)| Mirror {
                path,
                accept: ACCEPTED[index % ACCEPTED.len()],
                watch: None,
                seen: None,
                copy: BTreeMap::new(),
                relisted: 0,
            }).collect();
            for (count, step) in steps.iter().enumerate() {
                perform(&api, step, &mut mirrors, count).await;
            }
            api.faults().lag_replica(0);
            for mirror in &mut mirrors {
                // One read finds the watch ended or expired, one reconnects, one relists.
                for _ in 0..3 {
                    mirror.read(&api).await;
                }
                assert!(mirror.watch.is_some(), "an open watch at last");
                assert_eq!(mirror.copy, truth(&api, mirror.path).await, "{} after {steps:?}", mirror.path);
            }
        });
    }

    #[test]
    fn wat_27_with_a_long_history_no_watch_relists(steps in steps()) {
        let steps: Vec<ModelStep> =
            steps.into_iter().filter(|step| !matches!(step, ModelStep::Compact(_) | ModelStep::Lag(_))).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let api = Api::with(|builder| builder.history(1000).bootstrap(false)).await;
            api.add_namespace("other").await;
            let start = api.now().await;
            let mut mirrors: Vec<Mirror> = WATCHERS.iter().map(|path| Mirror {
                path,
                accept: "application/json",
                watch: None,
                seen: Some(start),
                copy: BTreeMap::new(),
                relisted: 0,
            }).collect();
            for (count, step) in steps.iter().enumerate() {
                perform(&api, step, &mut mirrors, count).await;
            }
            for mirror in &mut mirrors {
                mirror.read(&api).await;
                assert_eq!(mirror.relisted, 0, "{}", mirror.path);
                assert_eq!(mirror.copy, truth(&api, mirror.path).await, "{} after {steps:?}", mirror.path);
            }
        });
    }
}
