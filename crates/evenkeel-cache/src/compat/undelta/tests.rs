use std::sync::{Arc, Mutex};

use super::*;
use crate::delta_queue::testing::{TestSink, object, objects, version};

type Pushes = Arc<Mutex<Vec<Vec<String>>>>;

fn store() -> (UndeltaStore, Pushes) {
    let pushes = Pushes::default();
    let heard = Arc::clone(&pushes);
    let store = UndeltaStore::new(move |objects| {
        let at = |object: &Object| format!("{}@{}", object.key(), object.resource_version());
        let mut texts: Vec<String> = objects.iter().map(at).collect();
        texts.sort();
        heard.lock().unwrap().push(texts);
    });
    (store, pushes)
}

#[test]
fn und_001_each_write_pushes_the_whole_list_once_and_a_read_never() {
    let (mut store, pushes) = store();
    store.add(object("a@1")).unwrap();
    store.update(object("a@2")).unwrap();
    store.add(object("b@3")).unwrap();
    store.delete(object("a@4")).unwrap();
    store.replace(objects(&["c@5", "d@6"]), version("7")).unwrap();
    store.replace(Vec::new(), version("8")).unwrap();
    let want: [&[&str]; 6] = [&["a@1"], &["a@2"], &["a@2", "b@3"], &["b@3"], &["c@5", "d@6"], &[]];
    assert_eq!(*pushes.lock().unwrap(), want);
}

#[test]
fn und_001_reads_resyncs_and_bookmarks_push_nothing() {
    let (mut store, pushes) = store();
    store.add(object("a@1")).unwrap();
    assert_eq!(store.list().len(), 1);
    assert!(store.get("a").is_some() && store.get("b").is_none());
    assert_eq!(store.known(&ObjectKey::cluster("a")).unwrap().resource_version(), "1");
    store.resync().unwrap();
    store.bookmark(&version("9")).unwrap();
    store.flush().unwrap();
    assert_eq!(pushes.lock().unwrap().len(), 1);
}

#[test]
fn und_002_a_push_contains_the_write() {
    // The type allows a single writer, so no write can intervene between a write and its push.
    let (mut store, pushes) = store();
    for number in 1..=20 {
        store.update(object(&format!("a@{number}"))).unwrap();
        assert_eq!(pushes.lock().unwrap().last().unwrap(), &[format!("a@{number}")]);
    }
}
