//! The index of references.

use super::*;

fn key(text: &str) -> ObjectKey {
    match text.split_once('/') {
        Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster(text),
    }
}

#[test]
fn names_are_resolved_by_the_scope_of_both_kinds() {
    let name = || Reference::from("s");
    assert_eq!(name().resolve(&key("a/foo"), true), Some(key("a/s")));
    assert_eq!(name().resolve(&key("a/foo"), false), Some(key("s")));
    assert_eq!(name().resolve(&key("foo"), false), Some(key("s")));
    assert_eq!(name().resolve(&key("foo"), true), None, "which namespace?");
    assert_eq!(Reference::from(key("b/s")).resolve(&key("a/foo"), true), Some(key("b/s")));
    assert_eq!(Reference::from(String::new()).resolve(&key("a/foo"), true), None, "not set");
}

#[test]
fn replaced_references_leave_nothing_behind() {
    let index = ReferenceIndex::default();
    let set =
        |from: &str, targets: &[&str]| index.maps().set(&key(from), targets.iter().map(|text| key(text)).collect());
    set("a/1", &["a/x", "a/y"]);
    set("a/2", &["a/y"]);
    assert_eq!(index.referrers(&key("a/y")), [key("a/1"), key("a/2")]);
    set("a/1", &["a/x"]);
    set("a/1", &["a/x"]);
    assert_eq!((index.referrers(&key("a/y")), index.referrers(&key("a/x"))), (vec![key("a/2")], vec![key("a/1")]));
    set("a/1", &[]);
    set("a/2", &[]);
    assert!(index.maps().referrers.is_empty() && index.maps().targets.is_empty());
}
