//! The protection controller: removes the finalizers of deleted claims, volumes and classes of attributes that nothing uses
//! any more (PVB-006). Admission adds them (ADM-011).

use std::collections::{BTreeSet, HashMap};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::engine::options::WriteOptions;
use crate::engine::target::{Target, WriteScope, Writer};
use crate::engine::{ApiEngine, ControllerTiming, object};
use crate::store::{At, Record, Span, Store, Unread};

const CLAIMS: &str = "persistentvolumeclaims";
const VOLUMES: &str = "persistentvolumes";
const CLASSES: &str = "volumeattributesclasses.storage.k8s.io";
const PODS: &str = "pods";

/// The protected resources and their finalizers.
pub(crate) const PROTECTED: [(&str, &str); 3] = [
    (CLAIMS, "kubernetes.io/pvc-protection"),
    (VOLUMES, "kubernetes.io/pv-protection"),
    (CLASSES, "kubernetes.io/vac-protection"),
];

/// The objects that wait for the end of their use, and the claims that pods use.
#[derive(Debug, Default)]
pub(crate) struct Protection {
    /// As in [`PROTECTED`].
    waiting: [Waiting; 3],
    /// By namespace; only namespaces in which a claim waits have an entry.
    users: HashMap<String, ClaimUsers>,
    /// When a delayed controller runs next.
    due: Option<Duration>,
    /// At this revision nothing waits that is not used.
    settled: Option<u64>,
}

/// The keys of deleted objects with their finalizer, of one resource.
#[derive(Debug, Default)]
struct Waiting {
    /// All changes up to this revision are read; `None` before the first use.
    revision: Option<u64>,
    keys: BTreeSet<Box<str>>,
}

/// The claims that the pods of a namespace use.
#[derive(Debug, Default)]
struct ClaimUsers {
    revision: Option<u64>,
    /// The claims of each pod, by the keys of the pods.
    claims: HashMap<Box<str>, Vec<String>>,
    /// How many pods use each claim.
    counts: HashMap<String, usize>,
}

impl ApiEngine {
    fn lock_protection(&self) -> MutexGuard<'_, Protection> {
        self.protection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs after a write of this resource, if the controller acts within requests.
    pub(crate) fn settle_protection(&self, table: &str) {
        if self.settings.protection != ControllerTiming::Immediate {
            return;
        }
        let is_protected = PROTECTED.iter().any(|(protected, _)| *protected == table);
        // Without a claim that waits, pods cost nothing more.
        if is_protected || (table == PODS && self.lock_protection().is_waiting()) {
            self.release_unused();
        }
    }

    /// Runs at every tick: what was deleted without a request, or with a delayed controller.
    pub(crate) fn run_protection_controller(&self, now: Duration) {
        match self.settings.protection {
            ControllerTiming::Off => {}
            ControllerTiming::Immediate => self.release_unused(),
            ControllerTiming::Delayed(delay) => {
                let mut protection = self.lock_protection();
                protection.read(&self.store);
                if !protection.is_waiting() {
                    protection.due = None;
                    return;
                }
                if now < *protection.due.get_or_insert_with(|| now.saturating_add(delay)) {
                    return;
                }
                // Objects that are still used are looked at again after the same time.
                protection.due = None;
                drop(protection);
                self.release_unused();
            }
        }
    }

    /// Removes the finalizers of all objects that wait and are not used, if there is a controller.
    pub(crate) fn release_unused(&self) {
        if self.settings.protection == ControllerTiming::Off {
            return;
        }
        // The second pass is for classes that only the claims of the first one used.
        for _ in 0..2 {
            let unused = {
                let mut protection = self.lock_protection();
                let revision = Some(self.store.revision());
                if protection.settled == revision {
                    return;
                }
                protection.read(&self.store);
                let unused = protection.unused(&self.store);
                if unused.is_empty() {
                    protection.settled = revision;
                    return;
                }
                unused
            };
            for (table, finalizer, key) in unused {
                self.release(table, finalizer, &key);
            }
        }
    }

    fn release(&self, table: &str, finalizer: &str, key: &str) {
        let registry = self.registry();
        let Some(resource) = registry.resources().find(|resource| *resource.storage == *table) else { return };
        let (namespace, name) = match key.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, key),
        };
        let target = Target { resource, namespace, name, scope: WriteScope::Main };
        let options = WriteOptions::default();
        let released = self.update_object(target, Writer::server(&options), |old| {
            let mut new = old.clone();
            let others = object::finalizers(old).filter(|present| *present != finalizer).map(str::to_owned);
            object::set_finalizers(&mut new, others.collect());
            Ok(new)
        });
        if let Err(error) = released
            && !error.is_not_found()
        {
            tracing::warn!(resource = table, key, %error, "cannot remove the finalizer of an unused object; retrying");
        }
    }
}

impl Protection {
    fn is_waiting(&self) -> bool {
        self.waiting.iter().any(|waiting| !waiting.keys.is_empty())
    }

    fn read(&mut self, store: &Store) {
        for (waiting, (table, finalizer)) in self.waiting.iter_mut().zip(PROTECTED) {
            waiting.read(store, table, finalizer);
        }
    }

    /// Returns the objects that wait and are not used.
    fn unused(&mut self, store: &Store) -> Vec<(&'static str, &'static str, Box<str>)> {
        let [claims, volumes, classes] = &self.waiting;
        let namespaces: BTreeSet<&str> = claims.keys.iter().filter_map(|key| Some(key.split_once('/')?.0)).collect();
        self.users.retain(|namespace, _| namespaces.contains(namespace.as_str()));
        for namespace in namespaces {
            self.users.entry(namespace.to_owned()).or_default().read(store, namespace);
        }
        let is_used = |key: &str| {
            let (namespace, claim) = key.split_once('/').unwrap_or_default();
            self.users.get(namespace).is_some_and(|users| users.counts.contains_key(claim))
        };
        let is_bound = |key: &str| {
            let volume = store.get(VOLUMES, key);
            volume
                .is_some_and(|volume| volume.value().pointer("/status/phase").and_then(Value::as_str) == Some("Bound"))
        };
        let class_users = if classes.keys.is_empty() { BTreeSet::new() } else { used_classes(store) };
        let [(_, claim_finalizer), (_, volume_finalizer), (_, class_finalizer)] = PROTECTED;
        let unused_claims = claims.keys.iter().filter(|key| !is_used(key));
        let unused_volumes = volumes.keys.iter().filter(|key| !is_bound(key));
        let unused_classes = classes.keys.iter().filter(|key| !class_users.contains(&***key));
        unused_claims
            .map(|key| (CLAIMS, claim_finalizer, key.clone()))
            .chain(unused_volumes.map(|key| (VOLUMES, volume_finalizer, key.clone())))
            .chain(unused_classes.map(|key| (CLASSES, class_finalizer, key.clone())))
            .collect()
    }
}

impl Waiting {
    fn read(&mut self, store: &Store, table: &str, finalizer: &str) {
        let waits = |record: &Record| {
            record.facts.deleting && object::finalizers(&record.value()).any(|present| present == finalizer)
        };
        let (revision, unread) = store.unread(table, self.revision);
        match unread {
            Unread::Changes(events) => {
                for event in events {
                    match event.current.as_deref().is_some_and(waits) {
                        true => self.keys.insert(event.key.clone()),
                        false => self.keys.remove(&event.key),
                    };
                }
            }
            Unread::Everything(objects) => {
                self.keys = objects.into_iter().filter(|(_, record)| waits(record)).map(|(key, _)| key).collect();
            }
        }
        self.revision = Some(revision);
    }
}

impl ClaimUsers {
    fn read(&mut self, store: &Store, namespace: &str) {
        let (revision, unread) = store.unread_under(PODS, &format!("{namespace}/"), self.revision);
        match unread {
            Unread::Changes(events) => {
                events.iter().for_each(|event| self.set(&event.key, event.current.as_deref()));
            }
            Unread::Everything(objects) => {
                *self = ClaimUsers::default();
                objects.iter().for_each(|(key, record)| self.set(key, Some(record)));
            }
        }
        self.revision = Some(revision);
    }

    /// Replaces the claims of a pod.
    fn set(&mut self, key: &str, record: Option<&Record>) {
        for claim in self.claims.remove(key).unwrap_or_default() {
            if let Some(count) = self.counts.get_mut(&claim) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&claim);
                }
            }
        }
        let claims = record.map(|record| claims_of(&record.value())).unwrap_or_default();
        for claim in &claims {
            *self.counts.entry(claim.clone()).or_default() += 1;
        }
        if !claims.is_empty() {
            self.claims.insert(key.into(), claims);
        }
    }
}

/// Returns the claims that a pod uses: none after it has finished.
fn claims_of(pod: &Value) -> Vec<String> {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return Vec::new();
    }
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    let claims = volumes.filter_map(|volume| {
        let named = volume.pointer("/persistentVolumeClaim/claimName").and_then(Value::as_str).map(str::to_owned);
        // A claim that was made for a volume of the pod has the names of both.
        let made = || volume.get("ephemeral").filter(|source| source.is_object());
        let made =
            || made().and_then(|_| Some(format!("{}-{}", object::text(pod, "name"), volume.get("name")?.as_str()?)));
        named.or_else(made)
    });
    claims.collect()
}

/// Returns the classes of attributes that claims and volumes name.
fn used_classes(store: &Store) -> BTreeSet<String> {
    const NAMES: [&str; 3] = [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ];
    let mut used = BTreeSet::new();
    for table in [CLAIMS, VOLUMES] {
        let page = store.list(table, Span::default(), At::Latest, |_, _| true);
        for object in page.map(|page| page.records).unwrap_or_default().iter().map(|record| record.value()) {
            used.extend(NAMES.iter().filter_map(|name| Some(object.pointer(name)?.as_str()?.to_owned())));
        }
    }
    used
}
