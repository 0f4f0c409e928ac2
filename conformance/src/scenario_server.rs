//! [`ScenarioServer`]: the server of one scenario, with a record of all writes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use evenkeel_apiserver::{ApiServer, Faults, Snapshot};
use evenkeel_client::{Client, Deleted, Patch, Unstructured};
use evenkeel_core::{FieldSelector, LabelSelector, Obj, ResourceInfo};
use serde_json::{Value, json};

use crate::Failure;
use crate::command::{ObjectState, Options};
use crate::scenario::{Marker, Scenario};
use crate::script::{Target, full_key};

/// The annotation that every write changes.
pub(crate) const VALUE: &str = "conformance/value";
/// The name of the object that barriers write.
pub(crate) const MARKER: &str = "marker";

/// The server of one scenario, with a record of all writes.
///
/// Resource versions and UIDs are replaced by names that are the same in every run: `2.1` is the first version of the
/// second object of its name, `2.deleted` is its deletion.
pub(crate) struct ScenarioServer {
    server: ApiServer,
    client: Client,
    info: Arc<ResourceInfo>,
    marker: Marker,
    /// The revision before the first step.
    base: u64,
    writes: u64,
    objects: BTreeMap<String, LiveObject>,
    /// Number of objects of each key so far.
    generations: HashMap<String, u32>,
    /// Name and value of each state, by UID and version.
    states: HashMap<(String, String), (String, String)>,
    remembered: Option<(Snapshot, BTreeMap<String, LiveObject>)>,
}

/// An object that exists.
#[derive(Clone, Debug)]
struct LiveObject {
    uid: String,
    version: String,
    generation: u32,
    changes: u32,
    labels: BTreeMap<String, String>,
    node: String,
    terminating: bool,
}

impl ScenarioServer {
    pub(crate) async fn start(scenario: &Scenario) -> Result<Self, Failure> {
        let mut builder = ApiServer::builder().bootstrap(false);
        if let Some(history) = scenario.history {
            builder = builder.history(history);
        }
        let server = builder.start().await?;
        let client = server.client();
        let namespaces = Arc::new(ResourceInfo::new("", "v1", "Namespace", "namespaces", false));
        let other = Unstructured(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}));
        client.dynamic(&namespaces).create(&other).await?;
        let info = match scenario.informer.kind.as_str() {
            "ConfigMap" => ResourceInfo::new("", "v1", "ConfigMap", "configmaps", true),
            "Pod" => ResourceInfo::new("", "v1", "Pod", "pods", true),
            other => return Err(format!("unknown kind {other:?}").into()),
        };
        Ok(ScenarioServer {
            base: server.stats().revision,
            server,
            client,
            info: Arc::new(info),
            marker: scenario.marker.clone(),
            writes: 0,
            objects: BTreeMap::new(),
            generations: HashMap::new(),
            states: HashMap::new(),
            remembered: None,
        })
    }

    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    pub(crate) fn faults(&self) -> &Faults {
        self.server.faults()
    }

    /// Whether the server accepts connections.
    pub(crate) async fn accepts(&self) -> bool {
        let address = self.url().trim_start_matches("http://");
        tokio::net::TcpStream::connect(address).await.is_ok()
    }

    /// Returns the number of connections so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.server.connections().accepted
    }

    /// Returns the number of open watches.
    pub(crate) fn watchers(&self) -> usize {
        self.server.stats().watchers
    }

    pub(crate) async fn create(&mut self, target: &Target) -> Result<(), Failure> {
        self.writes += 1;
        let value = self.writes.to_string();
        let labels: BTreeMap<_, _> = target.labels.iter().cloned().collect();
        let mut object = json!({
            "apiVersion": "v1",
            "kind": self.info.kind(),
            "metadata": {"name": target.name, "labels": labels, "annotations": {VALUE: value}},
        });
        if let Some(finalizer) = &target.finalizer {
            object["metadata"]["finalizers"] = json!([finalizer]);
        }
        if self.info.kind() == "Pod" {
            object["spec"] = json!({"containers": [{"name": "main", "image": "none"}]});
            if !target.node.is_empty() {
                object["spec"]["nodeName"] = json!(target.node);
            }
        }
        let api = self.client.dynamic(&self.info).namespace(&target.namespace);
        let created = api.create(&Unstructured(object)).await?;
        let key = created.key().as_str().to_owned();
        let generation = self.generations.entry(key.clone()).or_default();
        *generation += 1;
        let live = LiveObject {
            uid: created.uid().to_owned(),
            version: created.resource_version().to_owned(),
            generation: *generation,
            changes: 1,
            labels,
            node: target.node.clone(),
            terminating: false,
        };
        self.note(&live, format!("{}.1", live.generation), value);
        self.objects.insert(key, live);
        Ok(())
    }

    pub(crate) async fn update(&mut self, target: &Target) -> Result<(), Failure> {
        self.writes += 1;
        let value = self.writes.to_string();
        let key = key_of(target);
        let mut live = self.live(&key)?;
        let mut labels = serde_json::Map::new();
        for (name, label) in &target.labels {
            if label == "-" {
                live.labels.remove(name);
                labels.insert(name.clone(), Value::Null);
            } else {
                live.labels.insert(name.clone(), label.clone());
                labels.insert(name.clone(), json!(label));
            }
        }
        let mut change = json!({"metadata": {"labels": labels, "annotations": {VALUE: value}}});
        let lets_go = target.finalizer.as_deref() == Some("-");
        match &target.finalizer {
            Some(_) if lets_go => change["metadata"]["finalizers"] = Value::Null,
            Some(finalizer) => change["metadata"]["finalizers"] = json!([finalizer]),
            None => {}
        }
        let api = self.client.dynamic(&self.info).namespace(&target.namespace);
        let changed = api.patch(&target.name, &Patch::merge(&change)).await?;
        if live.terminating && lets_go {
            // The watch event carries the last state without this change.
            let value = self.value(&live);
            self.record_deletion(&key, &live, value);
            return Ok(());
        }
        self.changed(key, live, &changed, value);
        Ok(())
    }

    pub(crate) async fn delete(&mut self, target: &Target) -> Result<(), Failure> {
        let key = key_of(target);
        let mut live = self.live(&key)?;
        let value = self.value(&live);
        let before = self.server.stats().revision;
        let api = self.client.dynamic(&self.info).namespace(&target.namespace);
        let deleted = api.delete(&target.name).grace_period(0).await?;
        // Deleting a pod without grace first marks it, which takes a revision.
        if self.server.stats().revision == before + 2 {
            live.changes += 1;
            let marked = LiveObject { version: (before + 1).to_string(), ..live.clone() };
            self.note(&marked, format!("{}.{}", live.generation, live.changes), value.clone());
        }
        match deleted {
            Deleted::Terminating(object) if self.object_is_there(&object) => {
                live.terminating = true;
                self.changed(key, live, &object, value);
            }
            _ => self.record_deletion(&key, &live, value),
        }
        Ok(())
    }

    /// Writes the marker and returns the value that identifies this write.
    pub(crate) async fn mark(&mut self) -> Result<String, Failure> {
        let namespace = if self.marker.namespace.is_empty() { "default" } else { &self.marker.namespace };
        let target = Target {
            namespace: namespace.into(),
            name: MARKER.into(),
            node: self.marker.node.clone(),
            finalizer: None,
            labels: self.marker.labels.clone().into_iter().collect(),
        };
        if self.objects.contains_key(&key_of(&target)) {
            self.update(&target).await?;
        } else {
            self.create(&target).await?;
        }
        Ok(self.writes.to_string())
    }

    pub(crate) fn snapshot(&mut self) {
        self.remembered = Some((self.server.snapshot(), self.objects.clone()));
    }

    pub(crate) fn restore(&mut self) -> Result<(), Failure> {
        let (snapshot, objects) = self.remembered.clone().ok_or("there is no snapshot")?;
        self.server.restore(&snapshot);
        self.objects = objects;
        Ok(())
    }

    /// Returns the name of a state.
    pub(crate) fn name_of(&self, seen: &ObjectState) -> String {
        let mut name = match self.states.get(&(seen.uid.clone(), seen.version.clone())) {
            Some((name, value)) if *value == seen.value => name.clone(),
            Some((name, _)) => match self.content(&seen.uid, &seen.value) {
                Some(content) => format!("{name} showing {content}"),
                None => format!("{name} with the unknown value {:?}", seen.value),
            },
            None => format!("an unknown state, version {:?}, value {:?}", seen.version, seen.value),
        };
        match seen.transformed.len() {
            0 => {}
            1 => name.push_str(" transformed"),
            times => name.push_str(&format!(" transformed {times} times")),
        }
        name
    }

    /// Returns a version relative to the start of the scenario.
    pub(crate) fn version(&self, version: &str) -> String {
        match version.parse::<u64>() {
            Err(_) | Ok(0) => format!("{version:?}"),
            Ok(version) => format!("{:+}", i128::from(version) - i128::from(self.base)),
        }
    }

    /// Whether these are the objects that such an informer should have now.
    pub(crate) fn is_all_of(&self, options: &Options, cache: &[ObjectState]) -> Result<bool, Failure> {
        let labels = LabelSelector::parse(&options.labels)?;
        let fields = FieldSelector::parse(&options.fields)?;
        let expected: BTreeMap<&str, (&str, &str)> = self
            .objects
            .iter()
            .filter(|(key, live)| {
                let (namespace, name) = key.split_once('/').unwrap_or(("", key.as_str()));
                (options.namespace.is_empty() || options.namespace == namespace)
                    && labels.matches(|label| live.labels.get(label).map(String::as_str))
                    && fields.matches(|field| match field {
                        "metadata.name" => Some(name),
                        "metadata.namespace" => Some(namespace),
                        "spec.nodeName" => Some(live.node.as_str()),
                        _ => None,
                    })
            })
            .map(|(key, live)| (key.as_str(), (live.uid.as_str(), live.version.as_str())))
            .collect();
        let found: BTreeMap<&str, (&str, &str)> =
            cache.iter().map(|seen| (seen.key.as_str(), (seen.uid.as_str(), seen.version.as_str()))).collect();
        Ok(expected == found)
    }

    /// Returns the lists and watches that were requested.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let suffix = format!("/{}", self.info.plural());
        let records = self.server.requests();
        records
            .iter()
            .filter_map(|record| {
                let (path, query) = record.path.split_once('?').unwrap_or((&record.path, ""));
                if record.method.as_str() != "GET" || !path.ends_with(&suffix) {
                    return None;
                }
                let query: HashMap<String, String> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
                Some(Request::read(&query, record.status.map(|status| status.as_u16()), |version| {
                    self.version(version)
                }))
            })
            .collect()
    }

    /// Returns the name of the state of an object in which this value was written. When an object stops matching a
    /// selector, the server sends the version of that change with the content before it.
    fn content(&self, uid: &str, value: &str) -> Option<&str> {
        let states = self.states.iter().filter(|((of, _), (_, written))| of == uid && written == value);
        states.map(|(_, (name, _))| name.as_str()).min()
    }

    fn live(&self, key: &str) -> Result<LiveObject, Failure> {
        self.objects.get(key).cloned().ok_or_else(|| format!("there is no object {key:?}").into())
    }

    fn value(&self, live: &LiveObject) -> String {
        let state = self.states.get(&(live.uid.clone(), live.version.clone()));
        state.map(|(_, value)| value.clone()).unwrap_or_default()
    }

    /// A delete returns the object even if it removed it.
    fn object_is_there(&self, object: &Obj<Unstructured>) -> bool {
        object.header().finalizers().next().is_some()
    }

    fn changed(&mut self, key: String, mut live: LiveObject, object: &Obj<Unstructured>, value: String) {
        live.version = object.resource_version().to_owned();
        live.changes += 1;
        self.note(&live, format!("{}.{}", live.generation, live.changes), value);
        self.objects.insert(key, live);
    }

    fn record_deletion(&mut self, key: &str, live: &LiveObject, value: String) {
        // There is no other writer: the newest revision is that of the deletion.
        let version = self.server.stats().revision.to_string();
        let state = LiveObject { version, ..live.clone() };
        self.note(&state, format!("{}.deleted", live.generation), value);
        self.objects.remove(key);
    }

    fn note(&mut self, live: &LiveObject, name: String, value: String) {
        self.states.insert((live.uid.clone(), live.version.clone()), (name, value));
    }
}

fn key_of(target: &Target) -> String {
    full_key(&format!("{}/{}", target.namespace, target.name))
}

/// A list or a watch request.
pub(crate) struct Request {
    /// `list`, `watch`, or `watch-list`: a watch with initial events.
    pub(crate) verb: &'static str,
    /// Its parameters and result.
    pub(crate) text: String,
}

impl Request {
    fn read(query: &HashMap<String, String>, status: Option<u16>, version: impl Fn(&str) -> String) -> Self {
        let get = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
        let is = |name: &str| matches!(get(name), "true" | "1");
        let verb = match (is("watch"), is("sendInitialEvents")) {
            (true, true) => "watch-list",
            (true, false) => "watch",
            _ => "list",
        };
        let mut text = format!("{verb} from {}", version(get("resourceVersion")));
        if !matches!(get("limit"), "" | "0") {
            text.push_str(&format!(" limit {}", get("limit")));
        }
        if !get("continue").is_empty() {
            text.push_str(" next page");
        }
        match status {
            Some(status) => text.push_str(&format!(": {status}")),
            None => text.push_str(": no response"),
        }
        Request { verb, text }
    }
}
