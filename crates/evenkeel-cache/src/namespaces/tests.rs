//! Names of a set.

use super::*;

#[test]
fn names_are_dns_labels_or_empty() {
    for valid in ["", "a", "team-a", "1", &"x".repeat(63)] {
        assert!(is_valid(valid), "{valid}");
    }
    for invalid in ["A", "a.b", "-a", "a-", "a/b", "a b", &"x".repeat(64)] {
        assert!(!is_valid(invalid), "{invalid}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_without_informers_changes_at_once() {
    let set = NamespaceSet::new(["b", "a"]);
    assert_eq!(set.list(), ["a", "b"]);
    set.add("c").await.unwrap();
    set.add("c").await.unwrap();
    set.remove("a").await.unwrap();
    set.remove("never").await.unwrap();
    assert_eq!(set.list(), ["b", "c"]);
    assert!(set.covers("c") && !set.covers("a"));
    let error = set.add("No").await.unwrap_err();
    assert!(error.to_string().starts_with("\"No\" is not the name of a namespace"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_set_has_a_limit() {
    let set = NamespaceSet::new((0..MAX_NAMES).map(|number| format!("n{number}")));
    assert!(matches!(set.add("one-more").await, Err(NamespaceSetError::TooMany { limit: MAX_NAMES, .. })));
    set.add("n1").await.unwrap();
    set.remove("n0").await.unwrap();
    set.add("one-more").await.unwrap();
}
