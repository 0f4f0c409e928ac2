use evenkeel_core::{ResourceInfo, Untyped};
use k8s_openapi::api::core::v1::Pod;

use super::*;
use crate::Index;
use crate::delta::Delta;
use crate::store::Table;

fn pod(name: &str, uid: &str, version: &str, node: &str) -> Obj<Pod> {
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{version}"}},"spec":{{"nodeName":"{node}"}}}}"#
    );
    Obj::from_json(&ResourceInfo::of::<Pod>().into(), json).unwrap()
}

fn a(uid: &str, version: &str) -> Obj<Pod> {
    pod("a", uid, version, "n")
}

/// A cache, and the store under it.
struct Bench {
    cache: MutationCache<Pod>,
    stored: Arc<Table>,
}

impl Bench {
    fn new() -> Self {
        let node = |pod: &Obj<Untyped>| pod.path("spec.nodeName").unwrap().map(|node| node.text().into_owned());
        let stored = Arc::new(Table::new(vec![Index::by_object("node", node)]));
        Bench { cache: MutationCache::new(Indexer::over(Arc::clone(&stored))), stored }
    }

    fn with_adds() -> Self {
        let mut bench = Self::new();
        bench.cache = bench.cache.including_adds();
        bench
    }

    fn store(&self, object: Obj<Pod>) {
        self.stored.commit(&[Delta::Updated(object.cast())]);
    }

    fn unstore(&self, object: Obj<Pod>) {
        self.stored.commit(&[Delta::Deleted(Deleted::Observed(object.cast()))]);
    }

    fn version(&self) -> Option<String> {
        self.cache.get("a").map(|object| object.resource_version().to_owned())
    }

    /// Returns the cached mutation, independent of the store.
    fn remembered(&self) -> Option<String> {
        self.cache.overlay().get("a", Instant::now()).map(|local| match local {
            Local::Written(object) => object.resource_version().to_owned(),
            Local::Gone { version, .. } => format!("gone@{version}"),
        })
    }

    fn on(&self, node: &str) -> Vec<String> {
        let mut found: Vec<String> = self
            .cache
            .by_index("node", node)
            .unwrap()
            .iter()
            .map(|pod| format!("{}@{}", pod.key(), pod.resource_version()))
            .collect();
        found.sort();
        found
    }
}

fn is(version: &str) -> Option<String> {
    Some(version.to_owned())
}

#[tokio::test(start_paused = true)]
async fn muc_001_a_hundred_writes_are_kept_for_five_minutes() {
    let bench = Bench::with_adds();
    let write = |number: usize| bench.cache.mutation(pod(&format!("p{number}"), "u", "5", "n"));
    let is_known = |number: usize| bench.cache.get(format!("p{number}")).is_some();
    (0..100).for_each(write);
    assert!(is_known(0), "and is now the one that was used last");
    write(100);
    assert!(is_known(0) && !is_known(1) && is_known(2));
    tokio::time::advance(Duration::from_secs(299)).await;
    assert!(is_known(0));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!is_known(0));

    let bench = Bench::with_adds();
    let small = bench.cache.clone().capacity(1).ttl(Duration::from_secs(1));
    small.mutation(a("u", "1"));
    small.mutation(pod("b", "u", "1", "n"));
    assert!(small.get("a").is_none() && small.get("b").is_some());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(small.get("b").is_none());
    let usual = small.capacity(0).ttl(Duration::ZERO);
    usual.mutation(a("u", "1"));
    usual.mutation(pod("b", "u", "1", "n"));
    tokio::time::advance(Duration::from_secs(299)).await;
    assert!(usual.get("a").is_some() && usual.get("b").is_some(), "zero asks for the default");
    let lasting = usual.ttl(Duration::MAX);
    lasting.mutation(a("u", "2"));
    tokio::time::advance(Duration::from_secs(1_000_000)).await;
    assert!(lasting.get("a").is_some(), "no time is too long");
}

#[tokio::test]
async fn muc_002_the_newer_one_is_read() {
    let bench = Bench::new();
    bench.cache.mutation(a("u", "5"));
    assert_eq!(bench.version(), None, "what is not stored is not there");
    assert_eq!(bench.cache.clone().including_adds().get("a").unwrap().resource_version(), "5", "unless asked for");
    bench.store(a("u", "4"));
    assert_eq!(bench.version(), is("5"));
    bench.store(a("u", "5"));
    assert_eq!((bench.version(), bench.remembered()), (is("5"), None), "a tie is the store's");
    bench.cache.mutation(a("u", "9"));
    bench.store(a("u", "10"));
    assert_eq!((bench.version(), bench.remembered()), (is("10"), None), "by number, not by text");

    let bench = Bench::with_adds();
    bench.cache.on_delete(&Deleted::Observed(a("u", "5")));
    assert_eq!(bench.version(), None, "a tombstone is nothing to read");
    bench.store(a("v", "6"));
    assert_eq!(bench.version(), is("6"));
}

#[tokio::test]
async fn muc_003_an_older_write_is_ignored() {
    let bench = Bench::with_adds();
    bench.cache.mutation(a("u", "5"));
    bench.cache.mutation(a("u", "4"));
    assert_eq!(bench.version(), is("5"));
    bench.cache.mutation(a("u", "6"));
    assert_eq!(bench.version(), is("6"));
}

#[tokio::test]
async fn muc_004_a_write_seen_by_the_informer_is_removed() {
    let bench = Bench::with_adds();
    bench.cache.mutation(a("u", "5"));
    bench.cache.on_add_or_update(&a("u", "4"));
    assert_eq!(bench.remembered(), is("5"));
    bench.cache.on_add_or_update(&a("u", "5"));
    assert_eq!(bench.remembered(), None);
    bench.cache.mutation(a("u", "5"));
    bench.cache.on_add_or_update(&a("u", "6"));
    assert_eq!(bench.remembered(), None);
}

#[tokio::test]
async fn muc_005_a_deletion_leaves_a_tombstone() {
    let deleted = |uid: &str, version: &str| Deleted::Observed(a(uid, version));
    let after = |written: Option<Obj<Pod>>, deleted: Deleted<Pod>| {
        let bench = Bench::with_adds();
        written.into_iter().for_each(|object| bench.cache.mutation(object));
        bench.cache.on_delete(&deleted);
        bench.remembered()
    };
    assert_eq!(after(None, deleted("u", "5")), is("gone@5"));
    assert_eq!(after(Some(a("u", "4")), deleted("u", "5")), is("gone@5"));
    assert_eq!(after(Some(a("v", "5")), deleted("u", "5")), is("gone@5"), "not newer");
    assert_eq!(after(Some(a("u", "6")), deleted("u", "5")), is("gone@5"), "newer, but the same object");
    assert_eq!(after(Some(a("v", "6")), deleted("u", "5")), is("6"), "another object, and newer");
    let key = ObjectKey::cluster("a");
    let known = Deleted::Missed { key: key.clone(), last_known: Some(a("u", "3")) };
    assert_eq!(after(Some(a("u", "6")), known), is("gone@3"));
    let unknown = Deleted::Missed { key, last_known: None };
    assert_eq!(after(Some(a("u", "6")), unknown), None, "nothing to tell a late write by");
}

#[tokio::test]
async fn muc_006_a_late_write_does_not_restore_a_deleted_object() {
    let bench = Bench::with_adds();
    bench.cache.on_delete(&Deleted::Observed(a("u", "5")));
    bench.cache.mutation(a("u", "6"));
    assert_eq!(bench.version(), None, "the same object");
    bench.cache.mutation(a("v", "5"));
    assert_eq!(bench.version(), None, "not newer");
    bench.cache.mutation(a("v", "6"));
    assert_eq!(bench.version(), is("6"), "another one");
}

#[tokio::test]
async fn muc_007_a_recreated_object_beats_a_late_write() {
    let bench = Bench::with_adds();
    bench.store(a("u", "4"));
    bench.unstore(a("u", "6"));
    bench.store(a("v", "7"));
    bench.cache.mutation(a("u", "5"));
    assert_eq!(bench.remembered(), is("5"));
    assert_eq!((bench.version(), bench.remembered()), (is("7"), None));
}

#[tokio::test]
async fn muc_008_an_index_finds_written_objects() {
    let bench = Bench::new();
    assert_eq!(bench.cache.by_index("none", "n").unwrap_err(), IndexError::Unknown { name: "none".into() });
    bench.store(a("u", "1"));
    bench.store(pod("b", "w", "2", "n"));
    bench.cache.mutation(a("u", "3"));
    bench.cache.mutation(pod("new", "x", "4", "n"));
    bench.cache.mutation(pod("far", "y", "5", "elsewhere"));
    bench.cache.on_delete(&Deleted::Observed(pod("c", "z", "6", "n")));
    assert_eq!(bench.on("n"), ["a@3", "b@2"]);
    let cache = bench.cache.including_adds();
    let bench = Bench { cache, stored: bench.stored };
    assert_eq!(bench.on("n"), ["a@3", "b@2", "new@4"]);
}

#[tokio::test]
async fn muc_009_an_index_uses_the_written_object() {
    let bench = Bench::new();
    bench.store(pod("a", "u", "1", "old"));
    bench.cache.mutation(pod("a", "u", "2", "new"));
    assert!(bench.on("old").is_empty(), "it is there no longer");
    assert_eq!(bench.on("new"), ["a@2"]);
    bench.store(pod("a", "u", "3", "third"));
    assert!(bench.on("new").is_empty());
    assert_eq!(bench.on("third"), ["a@3"]);
}

#[tokio::test]
async fn muc_010_incomparable_versions_do_not_panic() {
    let bench = Bench::with_adds();
    bench.cache.mutation(a("u", "x1"));
    bench.cache.mutation(a("u", "x2"));
    assert_eq!(bench.version(), is("x2"), "the last one, as none is known to be newer");
    bench.store(a("u", "x0"));
    assert_eq!((bench.version(), bench.remembered()), (is("x0"), None), "the store is sure to be right in the end");
    bench.cache.mutation(a("u", "x3"));
    bench.cache.on_add_or_update(&a("u", "y"));
    assert_eq!(bench.remembered(), None);
    bench.cache.mutation(a("u", "x3"));
    bench.cache.on_delete(&Deleted::Observed(a("v", "z")));
    assert_eq!(bench.remembered(), is("gone@z"));
    bench.cache.mutation(a("v", "z1"));
    bench.cache.mutation(a("w", "z"));
    assert_eq!(bench.remembered(), is("gone@z"), "the same object, the same version");
    bench.cache.mutation(a("w", "z2"));
    assert_eq!(bench.remembered(), is("z2"));
}

#[tokio::test]
async fn a_handler_passes_on_the_notifications_of_the_informer() {
    let bench = Bench::with_adds();
    let mut handler = bench.cache.handler();
    bench.cache.mutation(a("u", "5"));
    handler.handle(Event::Add { object: a("u", "4"), initial: true });
    assert_eq!(bench.remembered(), is("5"));
    handler.handle(Event::Update { old: a("u", "4"), new: a("u", "5") });
    assert_eq!(bench.remembered(), None);
    handler.handle(Event::Delete(Deleted::Observed(a("u", "6"))));
    assert_eq!(bench.remembered(), is("gone@6"));
}

#[tokio::test]
async fn mud_003_changing_a_returned_object_does_not_change_the_store() {
    let bench = Bench::new();
    bench.store(a("u", "1"));
    let read = bench.cache.get("a").unwrap();
    let before = read.raw().unwrap();
    let mut own = Arc::unwrap_or_clone(read.typed().unwrap());
    own.spec.as_mut().unwrap().node_name = Some("mine".into());
    let again = bench.cache.get("a").unwrap();
    assert_eq!(again.typed().unwrap().spec.as_ref().unwrap().node_name.as_deref(), Some("n"));
    assert_eq!(again.raw().unwrap(), &before);
}
