//! Indexes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_core::{Obj, ResourceInfo};
use k8s_openapi::api::core::v1::ConfigMap;

use super::{group, object, texts, version};
use crate::store::{Index, IndexError, NAMESPACE_INDEX, Store};

fn by_group() -> Index<ConfigMap> {
    Index::by_path("group", "data.group").unwrap()
}

/// Every letter of the group is a value.
fn by_letter() -> Index<ConfigMap> {
    Index::by("letter", |map: &ConfigMap| {
        let group = map.data.as_ref().and_then(|data| data.get("group")).cloned().unwrap_or_default();
        group.chars().map(String::from).collect::<Vec<_>>()
    })
}

fn letter(store: &Store<ConfigMap>, value: &str) -> Vec<String> {
    texts(store.by_index("letter", value).unwrap())
}

fn values(store: &Store<ConfigMap>, name: &str) -> Vec<String> {
    let mut values = store.index_values(name);
    values.sort();
    values
}

fn unknown(name: &str) -> IndexError {
    IndexError::Unknown { name: name.into() }
}

#[test]
fn idx_001_names_values_and_keys_are_three_things() {
    let store = Store::new([by_group(), Index::namespace()]);
    store.put(object("group/namespace", "1", "group/namespace"));
    assert_eq!(group(&store, "group/namespace"), ["group/namespace@1"]);
    assert_eq!(texts(store.by_index(NAMESPACE_INDEX, "group").unwrap()), ["group/namespace@1"]);
    assert!(group(&store, "group").is_empty());
}

#[test]
fn idx_002_no_value_one_or_many() {
    let store = Store::new([by_letter()]);
    for (key, text) in [("none", ""), ("one", "a"), ("many", "abc"), ("twice", "aa")] {
        store.put(object(key, "1", text));
    }
    assert_eq!(letter(&store, "a"), ["many@1", "one@1", "twice@1"]);
    assert_eq!(letter(&store, "c"), ["many@1"]);
    store.remove(&"twice".parse().unwrap());
    store.remove(&"many".parse().unwrap());
    assert_eq!((letter(&store, "a"), letter(&store, "b")), (vec!["one@1".to_owned()], vec![]));
}

#[test]
fn idx_003_an_update_moves_the_object_to_its_new_values() {
    let store = Store::new([by_group(), by_letter()]);
    store.put(object("x", "1", "ab"));
    store.put(object("y", "1", "ab"));
    store.put(object("x", "2", "bc"));
    assert_eq!((group(&store, "ab"), group(&store, "bc")), (vec!["y@1".to_owned()], vec!["x@2".to_owned()]));
    assert_eq!((letter(&store, "a"), letter(&store, "b")), (vec!["y@1".into()], vec!["x@2".into(), "y@1".to_owned()]));
    store.put(object("x", "3", "bc"));
    assert_eq!(group(&store, "bc"), ["x@3"]);
}

#[test]
fn idx_004_inserts_add_and_removals_remove_index_entries() {
    let store = Store::new([by_group()]);
    store.put(object("x", "1", "a"));
    store.put(object("y", "1", "a"));
    assert_eq!(group(&store, "a"), ["x@1", "y@1"]);
    store.remove(&"x".parse().unwrap());
    assert_eq!(group(&store, "a"), ["y@1"]);
}

#[test]
fn idx_005_a_value_is_removed_with_its_last_object() {
    let store = Store::new([by_group()]);
    store.put(object("x", "1", "a"));
    store.put(object("y", "1", "a"));
    store.put(object("z", "1", "b"));
    store.remove(&"x".parse().unwrap());
    assert_eq!(values(&store, "group"), ["a", "b"]);
    store.remove(&"y".parse().unwrap());
    assert_eq!(values(&store, "group"), ["b"]);
    store.put(object("z", "2", "c"));
    assert_eq!(values(&store, "group"), ["c"]);
    assert_eq!(store.snapshot().index_values("group").collect::<Vec<_>>(), ["c"]);
}

#[test]
fn idx_006_an_unknown_value_is_empty_and_an_unknown_index_an_error() {
    let store = Store::new([by_group()]);
    store.put(object("x", "1", "a"));
    assert!(group(&store, "b").is_empty());
    assert_eq!(store.by_index("nope", "a").unwrap_err(), unknown("nope"));
    assert_eq!(store.snapshot().by_index("nope", "a").err(), Some(unknown("nope")));
    assert!(unknown("nope").to_string().contains("nope"));
}

#[test]
fn idx_007_the_keys_under_a_value_ascend() {
    let store = Store::new([by_group()]);
    for key in ["c", "ns/a", "a", "b"] {
        store.put(object(key, "1", "a"));
    }
    let keys: Vec<String> = store.index_keys("group", "a").unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(keys, ["a", "b", "c", "ns/a"]);
    assert!(store.index_keys("group", "b").unwrap().is_empty());
    assert_eq!(store.index_keys("nope", "a").unwrap_err(), unknown("nope"));
}

#[test]
fn idx_008_objects_that_share_a_value_each_once() {
    let store = Store::new([by_letter()]);
    for (key, text) in [("x", "ab"), ("y", "bc"), ("z", "d")] {
        store.put(object(key, "1", text));
    }
    assert_eq!(texts(store.index("letter", &object("not-stored", "9", "abc")).unwrap()), ["x@1", "y@1"]);
    assert!(store.index("letter", &object("not-stored", "9", "e")).unwrap().is_empty());
    assert_eq!(store.index("nope", &object("x", "1", "")).unwrap_err(), unknown("nope"));
}

#[test]
fn idx_009_the_values_of_an_unknown_index_are_none() {
    let store = Store::new([by_group()]);
    store.put(object("x", "1", "a"));
    store.put(object("y", "1", "b"));
    assert_eq!(values(&store, "group"), ["a", "b"]);
    assert!(store.index_values("nope").is_empty());
}

#[test]
fn idx_010_an_index_added_later_has_the_stored_objects() {
    let store = Store::new([Index::namespace()]);
    for (key, text) in [("ns/x", "a"), ("ns/y", "b"), ("ns/z", "a")] {
        store.put(object(key, "1", text));
    }
    store.remove(&"ns/y".parse().unwrap());
    let before = store.snapshot();
    store.add_indexes([by_group(), by_letter()]).unwrap();
    assert_eq!(group(&store, "a"), ["ns/x@1", "ns/z@1"]);
    assert!(letter(&store, "b").is_empty());
    assert!(before.by_index("group", "a").is_err(), "a snapshot stays as it was");
    store.put(object("ns/x", "2", "c"));
    assert_eq!((group(&store, "a"), group(&store, "c")), (vec!["ns/z@1".to_owned()], vec!["ns/x@2".to_owned()]));
    assert_eq!(texts(store.by_index("namespace", "ns").unwrap()), ["ns/x@2", "ns/z@1"]);
}

#[test]
fn idx_010_an_index_contains_objects_written_during_its_build() {
    let store = Store::new([]);
    store.put(object("x", "1", "a"));
    store.put(object("gone", "1", "a"));
    let (calls, other) = (Arc::new(AtomicUsize::new(0)), store.clone());
    let counted = Arc::clone(&calls);
    let index = Index::by_object("group", move |object: &Obj<ConfigMap>| {
        if counted.fetch_add(1, Ordering::Relaxed) == 0 {
            // No lock is held while index functions run, so that they may even write.
            other.transaction(|tx| {
                tx.put(self::object("x", "2", "b"));
                tx.put(self::object("new", "2", "a"));
                tx.remove(&"gone".parse().unwrap());
            });
        }
        object.path("data.group").unwrap().map(|value| value.text().into_owned())
    });
    store.add_indexes([index]).unwrap();
    assert_eq!((group(&store, "a"), group(&store, "b")), (vec!["new@2".to_owned()], vec!["x@2".to_owned()]));
}

#[test]
fn idx_011_a_duplicate_index_name_adds_nothing() {
    let store = Store::new([by_group()]);
    store.put(object("x", "1", "a"));
    let conflict = store.add_indexes([by_letter(), by_group()]).unwrap_err();
    assert_eq!(conflict, IndexError::Conflict { name: "group".into() });
    assert!(conflict.to_string().starts_with("indexer conflict"));
    assert_eq!(store.index_names(), ["group"]);
    let twice = store.add_indexes([by_letter(), by_letter()]).unwrap_err();
    assert_eq!(twice, IndexError::Conflict { name: "letter".into() });
    assert_eq!(group(&store, "a"), ["x@1"]);
}

#[test]
fn idx_012_a_store_without_indexes_can_get_some() {
    let store = Store::new([]);
    store.add_indexes([by_group()]).unwrap();
    store.put(object("x", "1", "a"));
    assert_eq!(group(&store, "a"), ["x@1"]);
}

#[test]
fn idx_013_an_index_function_that_panics_leaves_out_its_object_only() {
    let picky = |name: &str| {
        Index::by_object(name, |object: &Obj<ConfigMap>| {
            let version = object.resource_version().to_owned();
            // The values before the panic do not count either.
            [version.clone(), "last".to_owned()].into_iter().inspect(move |value| {
                assert!(version != "13" || value != "last", "unlucky");
            })
        })
    };
    let store = Store::new([picky("picky"), by_group()]);
    store.put(object("x", "1", "a"));
    for write in [
        Box::new(|store: &Store<ConfigMap>| drop(store.put(object("x", "13", "b")))) as Box<dyn Fn(&Store<_>)>,
        Box::new(|store| store.replace([object("y", "2", "c"), object("x", "13", "b")], version("13"))),
        Box::new(|store| {
            store.transaction(|tx| {
                tx.remove(&"y".parse().unwrap());
                tx.put(object("x", "13", "b"));
            });
        }),
    ] {
        write(&store);
        assert_eq!(group(&store, "b"), ["x@13"], "the object is stored, and other indexes have it");
        assert!(store.by_index("picky", "13").unwrap().is_empty());
        assert_eq!((store.misfits("picky"), store.misfits("group")), (Ok(1), Ok(0)));
    }
    let plain = Store::new([by_group()]);
    plain.put(object("x", "13", "a"));
    plain.put(object("y", "14", "a"));
    plain.add_indexes([picky("other")]).unwrap();
    assert_eq!((plain.index_keys("other", "last").unwrap().len(), plain.misfits("other")), (1, Ok(1)));
    store.put(object("x", "15", "b"));
    assert_eq!((store.by_index("picky", "15").unwrap().len(), store.misfits("picky")), (1, Ok(0)));
}

#[test]
fn idx_013_an_undecodable_object_is_not_indexed_and_counted() {
    let store = Store::new([by_letter(), Index::namespace()]);
    let odd = |version: &str| {
        let json = format!(
            r#"{{"metadata": {{"namespace": "ns", "name": "odd", "resourceVersion": "{version}"}}, "data": 7}}"#
        );
        Obj::from_json(&Arc::new(ResourceInfo::of::<ConfigMap>()), json).unwrap()
    };
    store.put(object("ns/x", "1", "a"));
    store.put(odd("2"));
    store.put(odd("3"));
    assert_eq!((store.misfits("letter"), store.misfits("namespace")), (Ok(1), Ok(0)));
    assert_eq!((letter(&store, "a"), letter(&store, "7")), (vec!["ns/x@1".to_owned()], vec![]));
    assert_eq!(texts(store.by_index("namespace", "ns").unwrap()), ["ns/odd@3", "ns/x@1"]);
    store.put(object("ns/odd", "4", "a"));
    assert_eq!((store.misfits("letter"), letter(&store, "a").len()), (Ok(0), 2));
    store.put(odd("5"));
    assert_eq!((store.misfits("letter"), letter(&store, "a").len()), (Ok(1), 1));
    store.remove(&"ns/odd".parse().unwrap());
    assert_eq!(store.misfits("letter"), Ok(0));
    assert_eq!(store.misfits("nope"), Err(unknown("nope")));
}

#[test]
fn idx_014_index_values_are_stored_not_recomputed() {
    let turn = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&turn);
    // Returns another value for each call, as for an object changed in place.
    let fickle = Index::by_object("fickle", move |_: &Obj<ConfigMap>| {
        [format!("answer-{}", counted.fetch_add(1, Ordering::Relaxed))]
    });
    let store = Store::new([fickle]);
    store.put(object("x", "1", ""));
    store.put(object("x", "2", ""));
    assert_eq!(turn.load(Ordering::Relaxed), 2, "asked once for each object");
    assert_eq!(values(&store, "fickle"), ["answer-1"]);
    store.remove(&"x".parse().unwrap());
    assert!(values(&store, "fickle").is_empty());
}

#[test]
fn idx_015_a_replacement_leaves_no_value_of_removed_objects() {
    let store = Store::new([by_group()]);
    let kept = object("kept", "1", "a");
    store.put(kept.clone());
    store.put(object("moved", "2", "a"));
    store.put(object("gone", "3", "b"));
    store.replace([kept, object("moved", "4", "c")], version("5"));
    assert_eq!(values(&store, "group"), ["a", "c"]);
    assert_eq!((group(&store, "a"), group(&store, "c")), (vec!["kept@1".to_owned()], vec!["moved@4".to_owned()]));
}

#[test]
fn idx_016_the_names_of_the_indexes_are_a_copy() {
    let store: Store<ConfigMap> = Store::new([Index::namespace()]);
    let names = store.index_names();
    store.add_indexes([by_group()]).unwrap();
    assert_eq!((names.len(), store.index_names()), (1, vec!["namespace".to_owned(), "group".to_owned()]));
}

#[test]
fn idx_017_the_namespace_is_one_value_and_empty_without_one() {
    let store = Store::new([Index::namespace()]);
    store.put(object("ns/x", "1", ""));
    store.put(object("y", "1", ""));
    assert_eq!(values(&store, NAMESPACE_INDEX), ["", "ns"]);
    assert_eq!(texts(store.by_index("namespace", "").unwrap()), ["y@1"]);
}

#[test]
fn idx_018_removing_by_key_does_not_move_the_version() {
    let store = Store::new([by_group()]);
    store.put(object("x", "5", "a"));
    store.remove(&"x".parse().unwrap());
    assert!(store.is_empty() && group(&store, "a").is_empty());
    assert_eq!(store.resource_version(), version("5"));
}

#[test]
fn idx_019_an_index_is_of_the_kind_of_its_store() {
    let store: Store<ConfigMap> =
        Store::new([Index::by("immutable", |map: &ConfigMap| map.immutable.map(|value| value.to_string()))]);
    let json = r#"{"metadata": {"name": "x", "resourceVersion": "1"}, "immutable": true}"#;
    store.put(Obj::from_json(&Arc::new(ResourceInfo::of::<ConfigMap>()), json).unwrap());
    store.put(object("y", "2", ""));
    let found = store.by_index("immutable", "true").unwrap();
    assert_eq!(found[0].typed().unwrap().immutable, Some(true));
    assert_eq!(found.len(), 1);
}

#[test]
fn built_in_indexes() {
    let store: Store<ConfigMap> =
        Store::new([Index::label("app"), Index::owner("owner"), Index::controller("controller")]);
    let json = r#"{"metadata": {"name": "x", "resourceVersion": "1", "labels": {"app": "web"}, "ownerReferences": [
        {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u-a"},
        {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "u-b", "controller": true}]}}"#;
    store.put(Obj::from_json(&Arc::new(ResourceInfo::of::<ConfigMap>()), json).unwrap());
    store.put(object("y", "2", ""));
    assert_eq!(values(&store, "app"), ["web"]);
    assert_eq!(values(&store, "owner"), ["u-a", "u-b"]);
    assert_eq!(values(&store, "controller"), ["u-b"]);
}

#[test]
fn the_last_of_two_indexes_with_one_name_wins() {
    let store = Store::new([Index::by_path("group", "metadata.name").unwrap(), Index::namespace(), by_group()]);
    store.put(object("ns/x", "1", "a"));
    assert_eq!(store.index_names(), ["namespace", "group"]);
    assert_eq!(values(&store, "group"), ["a"]);
}

#[test]
fn an_index_by_a_malformed_path_is_refused() {
    let error = Index::<ConfigMap>::by_path("broken", "metadata.annotations['a").unwrap_err();
    assert!(error.to_string().contains("metadata.annotations['a"), "{error}");
}

#[test]
fn an_index_function_may_write_to_another_store() {
    let other: Store<ConfigMap> = Store::new([by_group()]);
    let copies = other.clone();
    let copying = Index::by_object("name", move |map: &Obj<ConfigMap>| {
        copies.put(map.clone());
        [map.key().name().to_owned()]
    });
    let store = Store::new([by_group(), copying, Index::namespace()]);
    for (key, text) in [("ns/x", "a"), ("ns/y", "b"), ("ns/x", "b")] {
        store.put(object(key, "1", text));
    }
    assert_eq!(group(&store, "b"), ["ns/x@1", "ns/y@1"]);
    assert_eq!(values(&store, "name"), ["x", "y"]);
    assert_eq!(values(&store, "namespace"), ["ns"]);
    assert_eq!(group(&other, "b"), ["ns/x@1", "ns/y@1"]);
    assert!(group(&store, "a").is_empty() && group(&other, "a").is_empty());
}

#[test]
fn values_of_a_large_write_do_not_stay_for_the_next() {
    let store = Store::new([by_letter()]);
    let large = "abcdefgh".repeat(100);
    store.put(object("large", "1", &large));
    store.put(object("small", "2", "z"));
    assert_eq!(letter(&store, "z"), ["small@2"]);
    assert_eq!(letter(&store, "h"), ["large@1"]);
}
