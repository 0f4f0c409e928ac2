//! Keys and the store without its indexes.

use evenkeel_core::{ObjectKey, Untyped};
use k8s_openapi::api::core::v1::ConfigMap;

use super::{all, object, texts, untyped, version};
use crate::delta::Delta;
use crate::store::table::Table;
use crate::store::{Index, Store};
use crate::{Deleted, Event};

fn store() -> Store<ConfigMap> {
    Store::new([])
}

fn missed(key: &str) -> Deleted<ConfigMap> {
    Deleted::Missed { key: key.parse().unwrap(), last_known: None }
}

#[test]
fn key_002_a_key_is_enough_for_get_and_remove() {
    let store = store();
    store.put(object("ns/a", "1", ""));
    let key: ObjectKey = "ns/a".parse().unwrap();
    assert!(store.get(&key).is_some());
    assert!(store.remove(&key).is_some());
    assert!(store.is_empty());
}

#[test]
fn key_007_a_tombstone_is_removed_by_its_key() {
    let store = store();
    store.put(object("ns/a", "1", ""));
    store.put(object("ns/b", "1", ""));
    // The last known object is ignored, whatever its name.
    let last_known = Some(object("ns/b", "1", ""));
    store.delete(Deleted::Missed { key: "ns/a".parse().unwrap(), last_known });
    assert_eq!(all(&store), ["ns/b@1"]);
    store.delete(Deleted::Observed(object("ns/b", "2", "")));
    assert!(store.is_empty());
}

#[test]
fn key_011_a_deletion_has_the_key_of_its_tombstone_or_of_its_object() {
    assert_eq!(missed("ns/a").key().as_str(), "ns/a");
    assert_eq!(Deleted::Observed(object("ns/b", "1", "")).key().as_str(), "ns/b");
    let both = Deleted::Missed { key: "ns/a".parse().unwrap(), last_known: Some(object("ns/b", "1", "")) };
    assert_eq!((both.key().namespace(), both.key().name()), (Some("ns"), "a"));
}

#[test]
fn sto_001_all_store_operations() {
    let store = store();
    store.put(object("ns/a", "1", ""));
    store.put(object("b", "2", ""));
    assert_eq!(store.get("ns/a").unwrap().resource_version(), "1");
    assert_eq!((store.len(), store.get("b").is_some(), store.get("c").is_some()), (2, true, false));
    let mut keys = store.keys();
    keys.sort();
    assert_eq!(keys.iter().map(ObjectKey::as_str).collect::<Vec<_>>(), ["b", "ns/a"]);
    store.remove(&ObjectKey::cluster("b"));
    assert_eq!(all(&store), ["ns/a@1"]);
    store.replace([object("c", "3", "")], version("4"));
    assert_eq!((all(&store), store.resource_version()), (vec!["c@3".to_owned()], version("4")));
    store.bookmark(&version("9"));
    assert_eq!(store.resource_version(), version("9"));
}

#[test]
fn sto_002_putting_inserts_or_replaces() {
    let store = store();
    assert!(store.put(object("ns/a", "1", "")).is_none());
    let before = store.put(object("ns/a", "2", "")).unwrap();
    assert_eq!(before.resource_version(), "1");
    assert_eq!(all(&store), ["ns/a@2"]);
}

#[test]
fn sto_003_deleting_a_missing_object_is_no_error() {
    let store = store();
    store.put(object("ns/a", "1", ""));
    assert!(store.delete(missed("ns/b")).is_none());
    assert!(store.delete(Deleted::Observed(object("ns/c", "2", ""))).is_none());
    assert_eq!(all(&store), ["ns/a@1"]);
}

#[test]
fn sto_005_a_missing_object_is_none() {
    let store = store();
    assert!(store.get("ns/a").is_none());
    store.put(object("ns/a", "1", ""));
    // The key of another state of the object finds it.
    assert_eq!(store.get(object("ns/a", "7", "").key()).unwrap().resource_version(), "1");
}

#[test]
fn sto_006_lists_are_snapshots_of_the_store() {
    let store = store();
    let stored = object("ns/a", "1", "");
    store.put(stored.clone());
    let list = store.list();
    store.put(object("ns/b", "2", ""));
    store.remove(stored.key());
    assert_eq!(texts(list.clone()), ["ns/a@1"]);
    assert!(std::ptr::eq(list[0].header(), stored.header()), "the very object that was put");
}

#[test]
fn sto_007_a_replacement_leaves_exactly_the_list() {
    let store = store();
    store.put(object("ns/a", "1", ""));
    store.put(object("ns/b", "2", ""));
    store.replace([object("ns/b", "3", ""), object("ns/c", "4", ""), object("ns/c", "5", "")], version("6"));
    assert_eq!(all(&store), ["ns/b@3", "ns/c@5"]);
}

#[test]
fn sto_007_the_last_of_two_objects_with_one_key_wins() {
    let store = store();
    let stored = object("ns/a", "1", "");
    store.put(stored.clone());
    store.replace([object("ns/a", "2", ""), stored.clone()], version("3"));
    assert_eq!(all(&store), ["ns/a@1"]);
    store.replace([stored, object("ns/a", "2", "")], version("4"));
    assert_eq!(all(&store), ["ns/a@2"]);
}

#[test]
fn sto_007_a_replacement_returns_previous_and_deleted_objects() {
    let table = Table::new(vec![Index::namespace()]);
    let (kept, changed) = (untyped("ns/a", "1", ""), untyped("ns/b", "2", ""));
    let put = |object: &crate::Object| Delta::Updated(object.clone());
    table.commit(&[put(&kept), put(&changed), put(&untyped("ns/c", "3", ""))]);
    let list = vec![untyped("ns/d", "6", ""), untyped("ns/b", "5", ""), kept];
    let notifications = table.replace(list, version("7"), false);
    let text = |event: &Event<Untyped>| match event {
        Event::Add { object, .. } => format!("add {}@{}", object.key(), object.resource_version()),
        Event::Update { old, new } => {
            format!("update {}@{}->{}", new.key(), old.resource_version(), new.resource_version())
        }
        Event::Delete(deleted) => format!("missed {}@{}", deleted.key(), deleted.object().unwrap().resource_version()),
    };
    let texts: Vec<_> = notifications.events.iter().map(text).collect();
    assert_eq!(texts, ["missed ns/c@3", "add ns/d@6", "update ns/b@2->5", "update ns/a@1->1"]);
    assert_eq!(notifications.unchanged, [3]);
}

#[test]
fn sto_009_a_snapshot_is_consistent() {
    let store: Store<ConfigMap> = Store::new([Index::namespace()]);
    store.put(object("ns/a", "1", ""));
    store.put(object("ns/b", "2", ""));
    let snapshot = store.snapshot();
    store.put(object("ns/a", "3", ""));
    store.remove(&"ns/b".parse().unwrap());
    store.put(object("ns/c", "4", ""));
    assert_eq!((snapshot.len(), snapshot.is_empty()), (2, false));
    assert_eq!(snapshot.resource_version(), &version("2"));
    assert_eq!(texts(snapshot.iter().cloned()), ["ns/a@1", "ns/b@2"]);
    assert_eq!(texts(snapshot.by_index("namespace", "ns").unwrap().cloned()), ["ns/a@1", "ns/b@2"]);
    assert_eq!(snapshot.get("ns/b").map(|object| object.resource_version()), Some("2"));
    assert_eq!(all(&store), ["ns/a@3", "ns/c@4"]);
    assert_eq!((snapshot.iter().len(), snapshot.by_index("namespace", "no").unwrap().len()), (2, 0));
}

#[test]
fn sto_010_returned_objects_are_shared_and_immutable() {
    let store = store();
    store.put(object("ns/a", "1", "before"));
    let mut mine = (*store.get("ns/a").unwrap().typed().unwrap()).clone();
    mine.data.get_or_insert_default().insert("group".into(), "after".into());
    assert_eq!(store.get("ns/a").unwrap().path("data.group").unwrap().unwrap().text(), "before");
}

#[test]
fn sto_013_adding_indexes_to_a_store_does_not_change_another() {
    let indexes = [Index::namespace()];
    let (one, other): (Store<ConfigMap>, Store<ConfigMap>) = (Store::new(indexes.clone()), Store::new(indexes.clone()));
    one.add_indexes([Index::label("app")]).unwrap();
    assert_eq!((one.index_names().len(), other.index_names().len(), indexes.len()), (2, 1, 1));
}

#[test]
fn the_size_is_that_of_the_payloads() {
    let store = store();
    let (small, large) = (object("ns/a", "1", "x"), object("ns/a", "2", &"x".repeat(1000)));
    let other = object("ns/b", "3", "");
    store.put(small);
    store.put(large.clone());
    store.put(other.clone());
    assert_eq!(store.payload_bytes(), large.raw().unwrap().len() + other.raw().unwrap().len());
    store.remove(large.key());
    assert_eq!(store.payload_bytes(), other.raw().unwrap().len());
    store.replace([], version("4"));
    assert_eq!((store.payload_bytes(), store.len()), (0, 0));
}

#[test]
fn removed_objects_are_not_retained() {
    let table = Table::new(vec![Index::namespace()]);
    let gone = untyped("ns/a", "1", "");
    let bytes = gone.raw().unwrap();
    table.commit(&[Delta::Updated(gone)]);
    assert!(!bytes.is_unique());
    table.commit(&[Delta::Updated(untyped("ns/a", "2", ""))]);
    assert!(bytes.is_unique(), "neither the version that is published nor the one before it has the object");
}

#[test]
fn tables_shrink_after_a_peak() {
    let table = Table::new(vec![
        Index::namespace(),
        Index::by_object("version", |object: &crate::Object| [object.resource_version().to_owned()]),
    ]);
    let put = |number: usize| Delta::Updated(untyped(&format!("ns{number}/a"), &(number + 1).to_string(), ""));
    table.commit(&(0..5000).map(put).collect::<Vec<_>>());
    assert_eq!(table.slots(), 5000);
    let remove = |number: usize| {
        Delta::Deleted(Deleted::Missed { key: format!("ns{number}/a").parse().unwrap(), last_known: None })
    };
    let snapshot = table.snapshot();
    // One by one, as a watch does, and by a list.
    for number in 10..4000 {
        table.commit(&[remove(number)]);
    }
    assert!(table.slots() < 5000 && table.len() == 1010);
    table.replace((0..10).filter_map(|number| table.get(&format!("ns{number}/a"))).collect(), version("9000"), false);
    assert!(table.slots() <= 64, "{} slots for 10 objects", table.slots());
    for number in 0..10 {
        let found = table.by_index("version", &(number + 1).to_string()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(table.by_index("namespace", &format!("ns{number}")).unwrap().len(), 1);
    }
    assert!(table.by_index("version", "11").unwrap().is_empty());
    assert_eq!((table.len(), table.version(), snapshot.iter().count()), (10, version("9000"), 5000));
    table.commit(&[remove(3), put(77)]);
    assert_eq!(table.len(), 10);
    assert!(table.get("ns77/a").is_some() && table.get("ns3/a").is_none());
}
