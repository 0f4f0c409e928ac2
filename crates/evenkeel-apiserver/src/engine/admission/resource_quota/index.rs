//! [`QuotaIndex`]: what all objects of the namespaces with quotas use.
//!
//! Like the addresses of Services, usage is not told to the index: it reads the changes since its last use from the history
//! of the store, and everything where the history does not reach back. A namespace without a quota has no entry.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::QUOTAS;
use super::quota::Quota;
use super::subject::QuotaSubject;
use crate::engine::admission::pod_resources::{ResourceList, add};
use crate::store::{At, Record, Span, Store, Unread};

/// The quotas by namespace and name, and what is used of each.
#[derive(Debug, Default)]
pub(crate) struct QuotaIndex {
    namespaces: HashMap<String, BTreeMap<String, CountedQuota>>,
    /// Everything up to this revision is published; `None` before the first pass over all namespaces.
    pub(crate) settled: Option<u64>,
}

/// A quota and the usage that it counts.
#[derive(Debug)]
pub(crate) struct CountedQuota {
    /// The uid and the revision of the object: another snapshot has other objects with the same revisions.
    version: (Box<str>, u64),
    quota: Quota,
    tables: Vec<CountedTable>,
}

/// What the objects of one resource use of a quota.
#[derive(Debug)]
struct CountedTable {
    subject: QuotaSubject,
    /// All changes up to this revision are counted; `None` before the first count.
    revision: Option<u64>,
    used: ResourceList,
}

impl QuotaIndex {
    /// Returns the namespaces that had a quota when they were last used.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        self.namespaces.keys().cloned().collect()
    }

    /// Reads the quotas of a namespace, and returns them by name.
    pub(super) fn quotas_of(&mut self, store: &Store, namespace: &str) -> impl Iterator<Item = &Quota> {
        self.read(store, namespace);
        self.namespaces.get(namespace).into_iter().flatten().map(|(_, counted)| &counted.quota)
    }

    /// Counts the objects of a namespace, and returns the quotas whose status shows something else, with what it should
    /// show.
    pub(crate) fn unpublished(&mut self, store: &Store, namespace: &str) -> Vec<(String, ResourceList)> {
        self.read(store, namespace);
        let mut unpublished = Vec::new();
        for (name, counted) in self.namespaces.get_mut(namespace).into_iter().flatten() {
            let used = counted.count(store, namespace);
            if !counted.quota.shows(&used) {
                unpublished.push((name.clone(), used));
            }
        }
        unpublished
    }

    /// Takes in a quota that was just written.
    pub(crate) fn update(&mut self, namespace: &str, record: &Record) {
        let quota = Quota::read(&record.value());
        if let Some(counted) = self.namespaces.get_mut(namespace).and_then(|quotas| quotas.get_mut(&quota.name)) {
            counted.replace(version_of(record), quota);
        }
    }

    /// Brings the quotas of a namespace up to date. The usual case, that there is none, is one lookup.
    fn read(&mut self, store: &Store, namespace: &str) {
        let prefix = format!("{namespace}/");
        let span = Span { prefix: &prefix, ..Span::default() };
        let records = store.list(QUOTAS, span, At::Latest, |_, _| true).map(|page| page.records).unwrap_or_default();
        if records.is_empty() {
            self.namespaces.remove(namespace);
            return;
        }
        let known = self.namespaces.entry(namespace.to_owned()).or_default();
        let mut present = BTreeMap::new();
        for record in records {
            // An unchanged quota is not parsed again.
            let unchanged = known.iter().find(|(_, counted)| counted.version == version_of(&record));
            if let Some(name) = unchanged.map(|(name, _)| name.clone()) {
                present.extend(known.remove_entry(&name));
                continue;
            }
            let quota = Quota::read(&record.value());
            let name = quota.name.clone();
            let counted = match known.remove(&name) {
                Some(mut counted) => {
                    counted.replace(version_of(&record), quota);
                    counted
                }
                None => CountedQuota::new(version_of(&record), quota),
            };
            present.insert(name, counted);
        }
        *known = present;
    }
}

fn version_of(record: &Record) -> (Box<str>, u64) {
    (record.facts.uid.clone(), record.revision)
}

impl CountedQuota {
    fn new(version: (Box<str>, u64), quota: Quota) -> Self {
        let mut tables: Vec<CountedTable> = Vec::new();
        for subject in quota.spec_hard.keys().flat_map(|name| QuotaSubject::of_name(name)) {
            if tables.iter().all(|table| table.subject != subject) {
                tables.push(CountedTable { subject, revision: None, used: ResourceList::new() });
            }
        }
        CountedQuota { version, quota, tables }
    }

    /// Replaces the quota, and keeps the count if it is of the same objects.
    fn replace(&mut self, version: (Box<str>, u64), quota: Quota) {
        if self.quota.counts_like(&quota) {
            (self.version, self.quota) = (version, quota);
        } else {
            *self = CountedQuota::new(version, quota);
        }
    }

    /// Counts the changes since the last count, and returns what is used of the resources that the quota limits.
    fn count(&mut self, store: &Store, namespace: &str) -> ResourceList {
        let mut used = ResourceList::new();
        for table in &mut self.tables {
            table.count(store, namespace, &self.quota);
            for name in self.quota.spec_hard.keys().filter(|name| table.subject.counts(name)) {
                *used.entry(name.clone()).or_default() += &table.used.get(name).cloned().unwrap_or_default();
            }
        }
        used
    }
}

impl CountedTable {
    fn count(&mut self, store: &Store, namespace: &str, quota: &Quota) {
        let (revision, unread) = store.unread_under(self.subject.store(), &format!("{namespace}/"), self.revision);
        let usage = |record: &Arc<Record>| self.subject.usage_of(record, quota);
        match unread {
            Unread::Changes(events) => {
                for event in events {
                    let (before, after) = (event.previous.as_ref().map(usage), event.current.as_ref().map(usage));
                    for (name, quantity) in before.into_iter().flatten() {
                        *self.used.entry(name).or_default() -= &quantity;
                    }
                    add(&mut self.used, &after.unwrap_or_default());
                }
            }
            Unread::Everything(objects) => {
                self.used = ResourceList::new();
                for (_, record) in &objects {
                    add(&mut self.used, &usage(record));
                }
            }
        }
        self.revision = Some(revision);
    }
}

impl QuotaSubject {
    /// Returns what a stored object uses of a quota.
    fn usage_of(&self, record: &Record, quota: &Quota) -> ResourceList {
        if self.is_only_counted(&quota.scopes) {
            return self.usage(&serde_json::Value::Null);
        }
        let object = record.value();
        if self.is_in_scopes(&object, &quota.scopes) { self.usage(&object) } else { ResourceList::new() }
    }
}
