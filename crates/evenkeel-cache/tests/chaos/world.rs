//! The initial objects, and the writers that change them.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Snapshot};
use evenkeel_cache::ObjectKey;
use evenkeel_client::{Client, Deleted, Error, ListParams, Patch};
use evenkeel_core::shard::ShardSelector;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::json;
use tokio::sync::RwLock;
use tokio::time::sleep;

use crate::number;
use crate::truth::{Map, Truth};

/// Default number of objects.
const OBJECTS: u64 = 10_000;
const NAMESPACES: [&str; 4] = ["chaos-0", "chaos-1", "chaos-2", "chaos-3"];
/// Number of names that most writes go to.
const HOT: usize = 40;
/// Number of values of the label `shard`.
const SHARDS: usize = 8;
/// Selects by the label `pick`.
pub(crate) const SELECTOR: &str = "pick=yes";

/// The initial objects, created once for all seeds.
pub(crate) struct InitialObjects {
    pub(crate) snapshot: Snapshot,
    objects: usize,
    /// The revision of the last initial object.
    pub(crate) revision: u64,
}

/// Returns the initial objects. Servers share them.
pub(crate) fn initial_objects() -> &'static InitialObjects {
    static INITIAL_OBJECTS: OnceLock<InitialObjects> = OnceLock::new();
    INITIAL_OBJECTS.get_or_init(|| {
        // On a thread of its own, as the caller may be inside a runtime.
        let made = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(create_objects())
        });
        made.join().unwrap()
    })
}

async fn create_objects() -> InitialObjects {
    let server = ApiServer::builder().in_process_only().bootstrap(false).start().await.unwrap();
    let client = server.client();
    for name in NAMESPACES {
        let namespace = json!({"metadata": {"name": name}});
        client.api::<Namespace>().create(&serde_json::from_value(namespace).unwrap()).await.unwrap();
    }
    let mut random = fastrand::Rng::with_seed(0);
    let objects = number("EVENKEEL_CHAOS_OBJECTS").unwrap_or(OBJECTS) as usize;
    for index in 0..objects {
        let key = key(index);
        let namespace = client.api::<ConfigMap>().namespace(key.namespace().unwrap_or_default());
        namespace.create(&map(&key, "0", &mut random)).await.unwrap();
    }
    let initial_objects = InitialObjects { snapshot: server.snapshot(), objects, revision: server.stats().revision };
    server.shutdown().await;
    initial_objects
}

fn key(index: usize) -> ObjectKey {
    ObjectKey::namespaced(NAMESPACES[index % NAMESPACES.len()], &format!("map-{index}"))
}

fn map(key: &ObjectKey, n: &str, random: &mut fastrand::Rng) -> ConfigMap {
    let labels = json!({"shard": random.usize(..SHARDS).to_string(), "pick": pick(random)});
    let value = json!({
        "metadata": {"name": key.name(), "namespace": key.namespace(), "labels": labels},
        "data": {"n": n, "ballast": "sand"},
    });
    serde_json::from_value(value).unwrap()
}

fn pick(random: &mut fastrand::Rng) -> &'static str {
    // Most objects are selected.
    if random.u8(..10) < 8 { "yes" } else { "no" }
}

/// Creates, updates and deletes objects, and records what it did.
pub(crate) struct Writer {
    pub(crate) client: Client,
    pub(crate) name: usize,
    pub(crate) random: fastrand::Rng,
    pub(crate) truth: Arc<Mutex<Truth>>,
    /// Held while it writes, so that the fault injector can pause it.
    pub(crate) gate: Arc<RwLock<()>>,
}

impl Writer {
    /// Writes this many times, at random intervals.
    pub(crate) async fn write(mut self, writes: usize) {
        for number in 0..writes {
            // Some writes follow each other without a pause.
            if self.random.u8(..4) > 0 {
                sleep(Duration::from_millis(self.random.u64(..3000))).await;
            }
            let index = if self.random.u8(..10) < 7 {
                self.random.usize(..HOT)
            } else {
                self.random.usize(..initial_objects().objects + 50)
            };
            let text = format!("{}-{number}", self.name);
            // Other writers use the same names: conflicts are no failure.
            let gate = Arc::clone(&self.gate);
            let _open = gate.read().await;
            match self.write_one(&key(index), &text).await {
                Ok(()) => {}
                Err(error) => assert!(error.is_not_found() || error.is_already_exists(), "{error}"),
            }
        }
    }

    async fn write_one(&mut self, key: &ObjectKey, text: &str) -> Result<(), Error> {
        let maps = self.client.api::<ConfigMap>().namespace(key.namespace().unwrap_or_default());
        match self.random.u8(..100) {
            0..40 => {
                let patch = Patch::merge(&json!({"data": {"n": text}}));
                let changed = maps.patch(key.name(), &patch).await?;
                self.truth.lock().unwrap().state(&changed);
            }
            40..60 => {
                let labels = json!({"shard": self.random.usize(..SHARDS).to_string(), "pick": pick(&mut self.random)});
                let patch = Patch::merge(&json!({"metadata": {"labels": labels}, "data": {"n": text}}));
                let changed = maps.patch(key.name(), &patch).await?;
                let mut truth = self.truth.lock().unwrap();
                truth.state(&changed);
                if labels["pick"] == "no" {
                    truth.left(changed.uid());
                }
            }
            60..75 => {
                let created = maps.create(&map(key, text, &mut self.random)).await?;
                self.truth.lock().unwrap().state(&created);
            }
            other => {
                let deleted = maps.delete(key.name()).await?;
                let Deleted::Gone(status) = deleted else { panic!("nothing holds {key}") };
                let uid = status.details.as_ref().map(|details| details.uid.clone()).unwrap_or_default();
                assert!(!uid.is_empty(), "the response to a delete has the uid: {status:?}");
                self.truth.lock().unwrap().deleted(&uid);
                if other < 90 {
                    let created = maps.create(&map(key, text, &mut self.random)).await?;
                    self.truth.lock().unwrap().state(&created);
                }
            }
        }
        Ok(())
    }

    /// Creates more objects until one is selected, which marks the end.
    pub(crate) async fn last(mut self, places: &ShardSelector) -> Map {
        for index in 0.. {
            let key = ObjectKey::namespaced(NAMESPACES[0], &format!("the-last-{index}"));
            let mut last = map(&key, "last", &mut self.random);
            last.metadata.labels.get_or_insert_default().insert("pick".into(), "yes".into());
            let created = self.client.api::<ConfigMap>().namespace(NAMESPACES[0]).create(&last).await.unwrap();
            self.truth.lock().unwrap().state(&created);
            if places.matches(created.header()) {
                return created;
            }
        }
        unreachable!("every second uid is selected")
    }
}

/// Returns the selected objects of the server.
pub(crate) async fn listed(client: &Client, selector: &str, places: &ShardSelector) -> Vec<Map> {
    let params = ListParams::default().labels(selector);
    let all = client.api::<ConfigMap>().list(&params).await.unwrap();
    all.into_iter().filter(|map| places.matches(map.header())).collect()
}
