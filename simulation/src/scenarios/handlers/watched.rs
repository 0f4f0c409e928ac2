//! [`Watched`]: an informer, and what must hold for its store (INV-1, INV-5, INV-6, INV-10).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel::cache::Event;
use evenkeel::cache::delta::Delta;
use evenkeel::cache::informer::observe::{InformerEvent, Observer, ObserverGuard};
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::prelude::*;
use evenkeel::{Handler, cache::store::NAMESPACE_INDEX};
use evenkeel_sim::Process;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::history::{History, ObjectVersion};
use super::{BOUNDED, GROUP, NAMES, NOISE, OwnTasks, Registered};

/// The invariant of caches.
const CONVERGENCE: &str = "convergence";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An informer of the scenario.
pub(super) struct Watched<K> {
    pub(super) process: Process,
    name: &'static str,
    pub(super) informer: SharedInformer<K>,
    /// The keys of the first list, once it is there.
    first_list: Arc<FirstList>,
    _observer: Arc<ObserverGuard>,
}

impl<K> Clone for Watched<K> {
    fn clone(&self) -> Self {
        Watched {
            process: self.process.clone(),
            name: self.name,
            informer: self.informer.clone(),
            first_list: Arc::clone(&self.first_list),
            _observer: Arc::clone(&self._observer),
        }
    }
}

/// Notes the keys of the first list that an informer receives.
#[derive(Default)]
struct FirstList(Mutex<Option<BTreeSet<String>>>);

impl FirstList {
    fn keys(&self) -> Option<BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct FirstListObserver(Arc<FirstList>);

impl Observer for FirstListObserver {
    fn event(&self, event: InformerEvent<'_>) {
        if let InformerEvent::Received(Delta::ReplacedAll { objects, .. }) = event {
            let keys = || objects.iter().map(|object| object.key().to_string()).collect();
            self.0.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(keys);
        }
    }
}

impl<K: 'static> Watched<K> {
    pub(super) fn new(process: &Process, name: &'static str, informer: SharedInformer<K>) -> Self {
        let first_list = Arc::<FirstList>::default();
        let observer = informer.observe(FirstListObserver(Arc::clone(&first_list)));
        Watched { process: process.clone(), name, informer, first_list, _observer: Arc::new(observer) }
    }

    /// Adds a handler, and checks what it was told when it has synced.
    pub(super) fn register<H: Handler<K>>(
        &self,
        own: &OwnTasks,
        name: &'static str,
        handler: impl FnOnce(&History) -> H,
    ) -> Result<Registered, BoxError> {
        let history = History::new(&self.process, name);
        // A late handler is to be told of what is stored now.
        let stored = self.informer.has_synced().then(|| self.cached().into_keys().collect());
        let registration = self.informer.add_handler(handler(&history))?;
        let (synced, told, first_list) = (registration.clone(), history.clone(), Arc::clone(&self.first_list));
        own.spawn(async move {
            if synced.synced().await.is_ok() {
                told.check_synced(&stored.or_else(|| first_list.keys()).unwrap_or_default());
            }
        });
        Ok(Registered { registration, history })
    }

    /// Returns the objects of the cache.
    pub(super) fn cached(&self) -> BTreeMap<String, ObjectVersion> {
        let objects = self.informer.indexer().list();
        objects.iter().map(|object| (object.key().to_string(), ObjectVersion::of(object))).collect()
    }

    /// Returns the name, and the number of deltas that are not in the store yet.
    pub(super) fn queued(&self) -> (&'static str, usize) {
        (self.name, self.informer.status().queued)
    }

    /// Checks the length of the delta queue.
    pub(super) fn check_bounds(&self) {
        let (name, queued) = self.queued();
        if queued > 2 * NAMES as usize {
            self.process.fail(BOUNDED, format!("{name}: {queued} deltas of {NAMES} objects are queued"));
        }
    }

    /// Checks the object of a notification and all indexes.
    pub(super) fn check_event(&self, event: &Event<K>) {
        if let Some(object) = event.object() {
            self.check_transformed(object);
        }
        for (index, is_label) in [(GROUP, true), (NAMESPACE_INDEX, false)] {
            self.check_index(index, |object| {
                if is_label {
                    object.label(GROUP).map(str::to_owned)
                } else {
                    object.key().namespace().map(str::to_owned)
                }
            });
        }
    }

    /// Checks that the transform was applied to an object.
    fn check_transformed(&self, object: &Obj<K>) {
        let has_noise = |found: bool| found && self.name != "metadata";
        let data = object.path(&format!("data.{NOISE}")).is_ok_and(|found| found.is_some());
        let annotation = object.annotation(NOISE).is_ok_and(|found| found.is_some());
        if has_noise(data) || (self.name == "metadata" && annotation) {
            self.process.fail(CONVERGENCE, format!("{}: {} is not transformed", self.name, object.key()));
        }
    }

    /// Checks that an index is what its function returns for the stored objects.
    fn check_index(&self, name: &str, value: impl Fn(&Obj<K>) -> Option<String>) {
        let indexer = self.informer.indexer();
        let mut expected = BTreeMap::<String, BTreeSet<String>>::new();
        for object in indexer.list() {
            if let Some(value) = value(&object) {
                expected.entry(value).or_default().insert(object.key().to_string());
            }
        }
        let mut found = BTreeMap::<String, BTreeSet<String>>::new();
        for value in indexer.index_values(name) {
            let keys = indexer.index_keys(name, &value).unwrap_or_default();
            if found.insert(value, keys.iter().map(ToString::to_string).collect()).is_some() {
                self.process.fail("store = index", format!("{}: index {name} has a value twice", self.name));
            }
        }
        if found != expected {
            let message = format!("{}: index {name} is {found:?} instead of {expected:?}", self.name);
            self.process.fail("store = index", message);
        }
    }
}

impl<K: Serialize + DeserializeOwned + Send + Sync + 'static> Watched<K> {
    /// Checks that the cache is what the server has, after the transform.
    pub(super) fn check_converged(&self, expected: &BTreeMap<String, Value>) {
        let objects = self.informer.indexer().list();
        let contents = objects.iter().map(|object| {
            let value = object.typed().ok().and_then(|value| serde_json::to_value(&*value).ok());
            let mut value = value.unwrap_or_default();
            keep_content(&mut value);
            (object.key().to_string(), value)
        });
        let cached: BTreeMap<String, Value> = contents.collect();
        let keys: BTreeSet<&String> = cached.keys().chain(expected.keys()).collect();
        for key in keys.into_iter().filter(|key| cached.get(*key) != expected.get(*key)) {
            let (cached, expected) = (text_of(cached.get(key)), text_of(expected.get(key)));
            self.process.fail(CONVERGENCE, format!("{}: {key} is {cached} instead of {expected}", self.name));
        }
    }
}

fn text_of(content: Option<&Value>) -> String {
    content.map_or("absent".to_owned(), Value::to_string)
}

/// What the caches must have in the end.
pub(super) struct Expected {
    pub(super) all: BTreeMap<String, Value>,
    pub(super) selected: BTreeMap<String, Value>,
    pub(super) metadata: BTreeMap<String, Value>,
}

impl Expected {
    pub(super) async fn read(client: &Client) -> Result<Self, BoxError> {
        let mut expected = Expected { all: BTreeMap::new(), selected: BTreeMap::new(), metadata: BTreeMap::new() };
        for map in client.core_v1().config_maps("default").list(&ListParams::default()).await? {
            let (key, is_selected) = (map.key().to_string(), map.label("selected") == Some("yes"));
            let map: Arc<ConfigMap> = map.typed()?;
            let mut content = serde_json::to_value(&*map)?;
            keep_content(&mut content);
            let mut metadata = content.clone();
            remove(&mut content, "/data");
            if is_selected {
                expected.selected.insert(key.clone(), content.clone());
            }
            expected.all.insert(key.clone(), content);
            remove(&mut metadata, "/metadata/annotations");
            metadata.as_object_mut().map(|fields| fields.remove("data"));
            expected.metadata.insert(key, metadata);
        }
        Ok(expected)
    }
}

/// Keeps the metadata, without the owners of fields, and the data of an object.
fn keep_content(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|name, _| matches!(name.as_str(), "metadata" | "data"));
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Removes what a transform removes from the fields at this pointer.
fn remove(object: &mut Value, pointer: &str) {
    if let Some(fields) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
        fields.remove(NOISE);
    }
}
