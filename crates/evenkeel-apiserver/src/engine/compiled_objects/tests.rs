use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::CompiledObjects;
use crate::store::{Draft, Expect, Facts, History, Store, Write};

const TABLE: &str = "widgets";

fn put(store: &Store, name: &str, expect: Expect) -> u64 {
    let object = json!({"kind": "Widget", "apiVersion": "v1", "metadata": {"name": name}});
    let draft = Draft::new(&object, Facts::default(), 1);
    store.commit(&TABLE.into(), name, expect, Write::Put(draft), Duration::ZERO).unwrap().0
}

fn forms() -> CompiledObjects<(String, u64)> {
    CompiledObjects::new(TABLE, |key, record| (key.to_owned(), record.revision))
}

#[test]
fn forms_follow_the_store() {
    let store = Store::new(History::default());
    let forms = forms();
    assert!(forms.current(&store).is_empty());
    let first = put(&store, "b", Expect::Absent);
    let second = put(&store, "a", Expect::Absent);
    let of = |forms: &CompiledObjects<(String, u64)>| {
        forms.current(&store).values().map(|form| (**form).clone()).collect::<Vec<_>>()
    };
    assert_eq!(of(&forms), [("a".to_owned(), second), ("b".to_owned(), first)]);
    let third = put(&store, "b", Expect::Revision(first));
    assert_eq!(of(&forms), [("a".to_owned(), second), ("b".to_owned(), third)]);
    store.commit(&TABLE.into(), "a", Expect::Revision(second), Write::Delete, Duration::ZERO).unwrap();
    assert_eq!(of(&forms), [("b".to_owned(), third)]);
}

#[test]
fn an_unchanged_object_is_compiled_once() {
    let store = Store::new(History::default());
    let forms = forms();
    put(&store, "a", Expect::Absent);
    let before = forms.current(&store);
    assert!(Arc::ptr_eq(&before, &forms.current(&store)), "nothing has changed");
    put(&store, "b", Expect::Absent);
    let after = forms.current(&store);
    assert!(Arc::ptr_eq(before.get("a").unwrap(), after.get("a").unwrap()));
}

#[test]
fn a_history_that_does_not_reach_back_is_read_whole() {
    let store = Store::new(History::default());
    let forms = forms();
    put(&store, "a", Expect::Absent);
    forms.current(&store);
    put(&store, "b", Expect::Absent);
    store.compact(store.revision());
    put(&store, "c", Expect::Absent);
    assert_eq!(forms.current(&store).len(), 3);
}
