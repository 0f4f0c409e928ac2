//! The store beside a naive model of it, under random writes.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::ResourceVersion;
use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;

use super::{object, texts, version};
use crate::store::{Index, Snapshot, Store};
use crate::{Deleted, Obj};

#[derive(Clone, Debug)]
enum Action {
    Put(u8, String),
    Remove(u8),
    Observed(u8),
    Transaction(Vec<Action>),
    /// New objects, and the numbers of stored ones that the list has as well.
    Replace(Vec<(u8, String)>, BTreeSet<u8>),
    Bookmark,
    AddIndex(u8),
    /// Keeps a snapshot, which later writes must not change.
    Keep,
    Forget,
}

fn action() -> impl Strategy<Value = Action> {
    let text = "[abc]{0,3}";
    let write = prop_oneof![
        6 => (0..40_u8, text).prop_map(|(key, text)| Action::Put(key, text)),
        3 => (0..40_u8).prop_map(Action::Remove),
        1 => (0..40_u8).prop_map(Action::Observed),
    ];
    prop_oneof![
        8 => write.clone(),
        3 => prop::collection::vec(write, 0..12).prop_map(Action::Transaction),
        2 => (prop::collection::vec((0..40_u8, text), 0..20), prop::collection::btree_set(0..40_u8, 0..30))
            .prop_map(|(new, kept)| Action::Replace(new, kept)),
        1 => Just(Action::Bookmark),
        1 => (0..4_u8).prop_map(Action::AddIndex),
        2 => Just(Action::Keep),
        1 => Just(Action::Forget),
    ]
}

/// Several namespaces, and one object in none.
fn key(number: u8) -> String {
    if number == 0 { "cluster".into() } else { format!("ns-{}/x-{number}", number % 3) }
}

#[derive(Clone, Default)]
struct Model {
    objects: BTreeMap<String, Obj<ConfigMap>>,
    version: u64,
    indexes: Vec<&'static str>,
}

const INDEXES: [&str; 4] = ["namespace", "group", "letter", "name"];

fn index(number: u8) -> Index<ConfigMap> {
    match number {
        0 => Index::namespace(),
        1 => Index::by_path("group", "data.group").unwrap(),
        2 => Index::by_object("letter", |object: &Obj<ConfigMap>| values(object, "letter")),
        _ => Index::by_object("name", |object: &Obj<ConfigMap>| values(object, "name")),
    }
}

/// Returns the expected values of an index.
fn values(object: &Obj<ConfigMap>, index: &str) -> Vec<String> {
    let group = object.path("data.group").unwrap().unwrap().text().into_owned();
    match index {
        "namespace" => vec![object.key().namespace().unwrap_or_default().into()],
        "group" => vec![group],
        "letter" => group.chars().map(String::from).collect(),
        _ => vec![object.key().name().into()],
    }
}

impl Model {
    fn next(&mut self, key: u8, text: &str) -> Obj<ConfigMap> {
        self.version += 1;
        object(&self::key(key), &self.version.to_string(), text)
    }

    fn check(&self, seen: &Snapshot<ConfigMap>) {
        assert_eq!(seen.len(), self.objects.len());
        assert_eq!(
            seen.resource_version().as_str(),
            if self.version == 0 { String::new() } else { self.version.to_string() }
        );
        assert_eq!(texts(seen.iter().cloned()), texts(self.objects.values().cloned()));
        for number in 0..41 {
            let (found, expected) = (seen.get(key(number)), self.objects.get(&key(number)));
            assert_eq!(found.map(|object| object.resource_version()), expected.map(|object| object.resource_version()));
        }
        for name in INDEXES {
            if !self.indexes.contains(&name) {
                assert!(seen.by_index(name, "a").is_err());
                assert_eq!(seen.index_values(name).count(), 0);
                continue;
            }
            let mut expected = BTreeMap::<String, BTreeSet<String>>::new();
            for object in self.objects.values() {
                for value in values(object, name) {
                    let entry = format!("{}@{}", object.key(), object.resource_version());
                    expected.entry(value).or_default().insert(entry);
                }
            }
            assert_eq!(seen.index_values(name).collect::<BTreeSet<_>>(), expected.keys().map(String::as_str).collect());
            for (value, objects) in expected {
                let found = texts(seen.by_index(name, &value).unwrap().cloned());
                assert_eq!(found, objects.into_iter().collect::<Vec<_>>(), "{name} {value}");
            }
            assert_eq!(seen.by_index(name, "nowhere").unwrap().len(), 0);
        }
    }
}

/// Applies the action to the model, and returns the write for the store.
fn write(action: Action, model: &mut Model) -> Result<Obj<ConfigMap>, Deleted<ConfigMap>> {
    match action {
        Action::Put(key, text) => {
            let object = model.next(key, &text);
            model.objects.insert(object.key().to_string(), object.clone());
            Ok(object)
        }
        Action::Observed(key) => {
            let object = model.next(key, "");
            model.objects.remove(object.key().as_str());
            Err(Deleted::Observed(object))
        }
        Action::Remove(key) => {
            model.objects.remove(&self::key(key));
            Err(Deleted::Missed { key: self::key(key).parse().unwrap(), last_known: None })
        }
        _ => unreachable!("no write"),
    }
}

fn act(action: Action, model: &mut Model, store: &Store<ConfigMap>) {
    match action {
        Action::Transaction(actions) => {
            let mut expected = Vec::new();
            let previous = store.transaction(|tx| {
                for action in actions {
                    let before = model.objects.clone();
                    let write = write(action, model);
                    let key = write.as_ref().map_or_else(|deleted| deleted.key(), |object| object.key());
                    expected.push(before.get(key.as_str()).map(|object| object.resource_version().to_owned()));
                    match write {
                        Ok(object) => tx.put(object),
                        Err(deleted) => tx.delete(deleted),
                    }
                }
            });
            let previous: Vec<_> = previous
                .iter()
                .map(|object| object.as_ref().map(|object| object.resource_version().to_owned()))
                .collect();
            assert_eq!(previous, expected);
        }
        Action::Replace(new, kept) => {
            let stored = kept.iter().filter_map(|number| model.objects.get(&key(*number)).cloned());
            let mut list: Vec<_> = stored.collect();
            list.extend(new.into_iter().map(|(key, text)| model.next(key, &text)));
            model.version += 1;
            model.objects = list.iter().map(|object| (object.key().to_string(), object.clone())).collect();
            store.replace(list, version(&model.version.to_string()));
        }
        Action::Bookmark => {
            model.version += 1;
            store.bookmark(&ResourceVersion::new(&model.version.to_string()));
        }
        Action::AddIndex(number) => {
            let name = INDEXES[number as usize];
            let added = store.add_indexes([index(number)]);
            assert_eq!(added.is_err(), model.indexes.contains(&name));
            if added.is_ok() {
                model.indexes.push(name);
            }
        }
        action => match write(action, model) {
            Ok(object) => drop(store.put(object)),
            Err(deleted) => drop(store.delete(deleted)),
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_store_matches_the_model(
        first in prop::collection::btree_set(0..4_u8, 0..3),
        actions in prop::collection::vec(action(), 1..60),
    ) {
        let store = Store::new(first.iter().map(|number| index(*number)));
        let indexes = first.iter().map(|number| INDEXES[*number as usize]).collect();
        let mut model = Model { indexes, ..Model::default() };
        let mut kept: Vec<(Model, Snapshot<ConfigMap>)> = Vec::new();
        for action in actions {
            match action {
                Action::Keep => kept.push((model.clone(), store.snapshot())),
                Action::Forget => drop(kept.pop()),
                action => act(action, &mut model, &store),
            }
            model.check(&store.snapshot());
            let bytes: usize = model.objects.values().map(|object| object.raw().unwrap().len()).sum();
            prop_assert_eq!(store.payload_bytes(), bytes);
        }
        for (model, snapshot) in kept {
            model.check(&snapshot);
        }
    }
}
